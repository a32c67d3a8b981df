
// The part of the page: the object `Notify`.

const REFRESHED_EVERY_MS = 24 * 3600 * 1000;
const WORKER_DEFAULT = '/notify-sw.js';
// The address of the server that this file was loaded from. `init` can replace it.
const LOADED_FROM = document.currentScript ? new URL('..', document.currentScript.src).href : undefined;

let settings;

function configured() {
  if (!settings) throw new NotifyError('call Notify.init({ app }) first');
  return settings;
}

const isSupported = () =>
  globalThis.isSecureContext === true && 'serviceWorker' in navigator && 'PushManager' in globalThis
  && 'Notification' in globalThis && 'indexedDB' in globalThis;

const permission = () => ('Notification' in globalThis ? Notification.permission : 'unsupported');

/** The stored subscription, if it belongs to this server and application. */
async function ownState() {
  const { server, app } = configured();
  const state = await readState();
  return state && state.server === server && state.app === app ? state : undefined;
}

async function isOwn() {
  const state = await ownState();
  return Boolean(state) && !state.leaving;
}

/**
 * The time zone of the browser, and its offset from UTC in minutes. The offset counts only if the server does
 * not know the zone, and it marks a zone that the site did not set.
 */
function ownZone() {
  const { timeZone: timezone } = Intl.DateTimeFormat().resolvedOptions();
  return { timezone, utc_offset: `${-new Date().getTimezoneOffset()}` };
}

/** Subscribes with a zone of `ownZone`. Databases of browsers can have newer zones than that of the server. */
async function subscribeInZone(pushManager, details) {
  try {
    return await subscribeWith(settings, pushManager, details);
  } catch (error) {
    const isZoneUnknown = 'utc_offset' in details && error.status === 400
      && error.errors.some((text) => text.startsWith('timezone:'));
    if (!isZoneUnknown) throw error;
    return subscribeWith(settings, pushManager, { ...details, timezone: undefined });
  }
}

/** Converts `{news: true}` or `['news']` to the tags of the API. */
function tagsOf(tags) {
  const pairs = Array.isArray(tags) ? tags.map((name) => [name, true]) : Object.entries(tags);
  return pairs.map(([name, value]) => ({ name, type: 'bool', value: Boolean(value) }));
}

/** Registers the site's worker and waits until it is active: before, the browser cannot subscribe. */
async function registration() {
  const { worker, scope } = configured();
  const registered = await navigator.serviceWorker.register(worker, scope ? { scope } : {});
  if (registered.active) return registered;
  const starting = registered.installing || registered.waiting;
  await new Promise((resolve, reject) => {
    const check = () => {
      if (starting.state === 'activated') resolve();
      if (starting.state === 'redundant') reject(new NotifyError(`${worker} could not be started`));
    };
    starting.addEventListener('statechange', check);
    check();
  });
  return registered;
}

/**
 * Sets the application, and the server if this file was loaded from elsewhere. Never shows a prompt.
 * If the browser is subscribed already, sends the stored reports, and once a day renews the
 * subscription in case the server's key has changed. Returns {subscribed, deviceId}.
 */
async function init({ app, server = LOADED_FROM, worker = WORKER_DEFAULT, scope } = {}) {
  if (typeof app !== 'string' || !app) throw new NotifyError('init needs the id of the application');
  if (!server) throw new NotifyError('init needs the address of the server');
  settings = { app, server: String(server).replace(/\/+$/, ''), worker, scope };
  if (!isSupported()) return { subscribed: false };
  let state = await ownState();
  if (!state) return { subscribed: false };
  if (state.leaving) {
    // A person who has unsubscribed stays unsubscribed, even if the server cannot be reached for long.
    await unsubscribe().catch(() => undefined);
    return { subscribed: false };
  }
  if (permission() === 'granted' && Date.now() - state.refreshedAt > REFRESHED_EVERY_MS) {
    // If the server cannot be reached now, the next page tries again.
    await refresh(state).catch(() => undefined);
    state = (await ownState()) || state;
  }
  await sendReports();
  return { subscribed: permission() === 'granted', deviceId: state.deviceId };
}

async function refresh(state) {
  const { pushManager } = await registration();
  // A time zone that the site set stays. The time zone of the browser may have changed.
  const zone = 'utc_offset' in state.details ? ownZone() : {};
  await subscribeInZone(pushManager, { ...state.details, ...zone });
}

/**
 * Subscribes this browser. This is the only call that asks the person for the permission; call it from
 * a click handler. A repeated call changes only the language, the time zone and the tags. Returns
 * {deviceId}.
 */
async function subscribe({ language = navigator.language, timezone, tags } = {}) {
  configured();
  if (!isSupported()) throw new NotifyError('this browser, or this page without https, has no web push');
  // This comes before every other wait, because browsers show the prompt only right after a click.
  const result = await Notification.requestPermission();
  if (result !== 'granted') throw new NotifyError(`the permission is ${result}`);
  const { pushManager } = await registration();
  const details = { language, ...(timezone ? { timezone } : ownZone()) };
  if (tags) details.tags = tagsOf(tags);
  const deviceId = await subscribeInZone(pushManager, details);
  return { deviceId };
}

/** Ends the subscription and deletes the device with all its data on the server. */
async function unsubscribe() {
  const state = await ownState();
  // This is stored before anything can fail, so that no later call subscribes this browser again.
  if (state) await writeState({ ...state, leaving: true });
  const registered = await navigator.serviceWorker.getRegistration(settings.scope);
  const subscription = await registered?.pushManager.getSubscription();
  // The browser unsubscribes first, so that no message arrives any more even if the server cannot be reached.
  await subscription?.unsubscribe();
  if (state) await leave(state);
}

async function asDevice(method, path, body) {
  const state = await ownState();
  if (!state || state.leaving) throw new NotifyError('this browser is not subscribed');
  await call(state, method, `/devices/${state.deviceId}${path}`, { body, secret: state.secret });
}

/** Logs this browser in as the user of a token, which your backend made. */
async function logIn(userToken) {
  await asDevice('PUT', '/user', { user_token: userToken });
}

/** Logs this browser out. */
async function logOut() {
  await asDevice('DELETE', '/user');
}

/** The enrichment of a notification, from its campaign; null if the browser is not subscribed. */
async function enrichment(campaignId, { notificationId } = {}) {
  return (await isOwn()) ? enrichmentOf(campaignId, notificationId) : null;
}

/** Reports what the person did: `received`, `opened`, `clicked` or `dismissed`. */
async function report(type, notificationId) {
  if (await isOwn()) await reportOf(type, notificationId);
}

globalThis.Notify = Object.freeze({
  init, isSupported, permission, subscribe, unsubscribe, logIn, logOut, enrichment, report, NotifyError,
});
