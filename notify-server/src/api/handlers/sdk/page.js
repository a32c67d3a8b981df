
// The page's part: `Notify`.

const REFRESHED_EVERY_MS = 24 * 3600 * 1000;
const WORKER_DEFAULT = '/notify-sw.js';
// The server that this file comes from, below `/sdk/`, unless `init` names another.
const CAME_FROM = document.currentScript ? new URL('..', document.currentScript.src).href : undefined;

let settings;

function configured() {
  if (!settings) throw new NotifyError('call Notify.init({ app }) first');
  return settings;
}

const isSupported = () =>
  globalThis.isSecureContext === true && 'serviceWorker' in navigator && 'PushManager' in globalThis
  && 'Notification' in globalThis && 'indexedDB' in globalThis;

const permission = () => ('Notification' in globalThis ? Notification.permission : 'unsupported');

/** The state of this browser, where it subscribed to this application. */
async function ownState() {
  const { server, app } = configured();
  const state = await readState();
  return state && state.server === server && state.app === app ? state : undefined;
}

async function isOwn() {
  const state = await ownState();
  return Boolean(state) && !state.leaving;
}

/** `GMT+02:00` and `120`, as the server reads them. */
function offset() {
  const minutes = -new Date().getTimezoneOffset();
  const two = (number) => String(Math.trunc(Math.abs(number))).padStart(2, '0');
  const sign = minutes < 0 ? '-' : '+';
  return { timezone: `GMT${sign}${two(minutes / 60)}:${two(minutes % 60)}`, utc_offset: `${minutes}` };
}

/** `{news: true}` or `['news']` as the server reads tags. */
function tagsOf(tags) {
  const pairs = Array.isArray(tags) ? tags.map((name) => [name, true]) : Object.entries(tags);
  return pairs.map(([name, value]) => ({ name, type: 'bool', value: Boolean(value) }));
}

/** The site's worker, once it can be subscribed with. */
async function registration() {
  const { worker, scope } = configured();
  const registered = await navigator.serviceWorker.register(worker, scope ? { scope } : {});
  if (registered.active) return registered;
  const starting = registered.installing || registered.waiting;
  await new Promise((resolve, reject) => {
    const look = () => {
      if (starting.state === 'activated') resolve();
      if (starting.state === 'redundant') reject(new NotifyError(`${worker} could not be started`));
    };
    starting.addEventListener('statechange', look);
    look();
  });
  return registered;
}

/**
 * Names the application, and the server where this file is not loaded from it. Asks nobody anything.
 * A browser that is subscribed already sends what it could not report, and once a day makes sure that
 * the server's key is still the one that it subscribed with. Answers {subscribed, deviceId}.
 */
async function init({ app, server = CAME_FROM, worker = WORKER_DEFAULT, scope } = {}) {
  if (typeof app !== 'string' || !app) throw new NotifyError('init needs the id of the application');
  if (!server) throw new NotifyError('init needs the address of the server');
  settings = { app, server: String(server).replace(/\/+$/, ''), worker, scope };
  if (!isSupported()) return { subscribed: false };
  let state = await ownState();
  if (!state) return { subscribed: false };
  if (state.leaving) {
    // Who left is not subscribed again, however long the server cannot be told.
    await unsubscribe().catch(() => undefined);
    return { subscribed: false };
  }
  if (permission() === 'granted' && Date.now() - state.refreshedAt > REFRESHED_EVERY_MS) {
    // A server that is away now is asked again with the next page.
    await refresh(state).catch(() => undefined);
    state = (await ownState()) || state;
  }
  await sendReports();
  return { subscribed: permission() === 'granted', deviceId: state.deviceId };
}

async function refresh(state) {
  const { pushManager } = await registration();
  // A time zone that the site gave stays; that of the browser may be another one by now.
  const zone = 'utc_offset' in state.details ? offset() : {};
  await subscribeWith(settings, pushManager, { ...state.details, ...zone });
}

/**
 * Subscribes this browser; the only call that asks the person for the permission. Call it from a
 * click. Calling it again changes nothing but language, time zone and tags. Answers {deviceId}.
 */
async function subscribe({ language = navigator.language, timezone, tags } = {}) {
  configured();
  if (!isSupported()) throw new NotifyError('this browser, or this page without https, has no web push');
  // Before anything else is waited for: browsers ask only right after a click.
  const answer = await Notification.requestPermission();
  if (answer !== 'granted') throw new NotifyError(`the permission is ${answer}`);
  const { pushManager } = await registration();
  const details = { language, ...(timezone ? { timezone } : offset()) };
  if (tags) details.tags = tagsOf(tags);
  const deviceId = await subscribeWith(settings, pushManager, details);
  return { deviceId };
}

/** Ends the subscription and erases the device with all that the server keeps about it. */
async function unsubscribe() {
  const state = await ownState();
  // Before anything can fail: whatever comes later must not subscribe this browser again.
  if (state) await writeState({ ...state, leaving: true });
  const registered = await navigator.serviceWorker.getRegistration(settings.scope);
  const subscription = await registered?.pushManager.getSubscription();
  // First, so that nothing arrives any more even where the server cannot be told.
  await subscription?.unsubscribe();
  if (state) await leave(state);
}

/** What the campaign of a notification shows beside it; null for a browser that is not subscribed. */
async function enrichment(campaignId, { notificationId } = {}) {
  return (await isOwn()) ? enrichmentOf(campaignId, notificationId) : null;
}

/** Reports what the person did: `received`, `opened`, `clicked` or `dismissed`. */
async function report(type, notificationId) {
  if (await isOwn()) await reportOf(type, notificationId);
}

globalThis.Notify = Object.freeze({
  init, isSupported, permission, subscribe, unsubscribe, enrichment, report, NotifyError,
});
