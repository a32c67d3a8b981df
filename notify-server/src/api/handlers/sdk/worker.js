
// The service worker's part: shows what arrives and reports what becomes of it.

// A notification must be shown soon after it arrived: what it is enriched with has that long.
const ENRICHMENT_WAIT_MS = 4_000;
// What we need of a notification that is clicked, beside the caller's own data.
const OURS = '_notify';

let enrich;

/** What arrived, if it is of Notify; a worker may get messages of others too. */
function payloadOf(data) {
  try {
    const payload = data.json();
    const isOurs = typeof payload.title === 'string' && payload.data
      && typeof payload.data.notification_id === 'string';
    return isOurs ? payload : undefined;
  } catch {
    return undefined;
  }
}

function optionsOf(payload) {
  const { body, icon, image, tag, url, actions = [] } = payload;
  const urls = Object.fromEntries(actions.map((action) => [action.action, action.url]));
  const options = { body, icon, image, tag, data: { ...payload.data, [OURS]: { url, urls } } };
  options.actions = actions.map(({ action, title, icon: small }) => ({ action, title, icon: small }));
  // What is absent is left out: browsers read `undefined` of some members as a text.
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/** The options with what the site makes of the campaign; those of the payload where that fails. */
async function enriched(payload, options) {
  const { campaign_id: campaign, notification_id: notification } = payload.data;
  if (!enrich || !campaign) return options;
  const asked = enrichmentOf(campaign, notification)
    .then((enrichment) => enrichment && enrich(enrichment, { ...options, title: payload.title }));
  const late = new Promise((resolve) => setTimeout(resolve, ENRICHMENT_WAIT_MS));
  const more = await Promise.race([asked, late]).catch(() => undefined);
  return { ...options, ...more, tag: options.tag, data: { ...more?.data, ...options.data } };
}

async function show(payload) {
  const options = await enriched(payload, optionsOf(payload));
  await self.registration.showNotification(options.title || payload.title, options);
  await reportOf('received', payload.data.notification_id);
}

/** Focuses the window that shows the url already, else opens one. */
async function open(url) {
  const wanted = new URL(url || self.registration.scope, self.location.href).href;
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const there = windows.find((window) => window.url === wanted);
  // A browser may refuse either, such as an own scheme that nothing handles: the report still goes.
  await (there ? there.focus() : self.clients.openWindow(wanted)).catch(() => undefined);
}

/** Subscribes anew when the browser ended the subscription or changed it. */
async function renew() {
  const state = await readState();
  if (!state) return;
  if (state.leaving) {
    await leave(state);
    return;
  }
  // Where the server cannot be told now, the next visit tells it, and not a day later.
  await writeState({ ...state, refreshedAt: 0 });
  await subscribeWith(state, self.registration.pushManager, state.details);
}

self.addEventListener('push', (event) => {
  const payload = event.data && payloadOf(event.data);
  if (payload) event.waitUntil(show(payload));
});

self.addEventListener('notificationclick', (event) => {
  const { data } = event.notification;
  if (!data || !data[OURS]) return;
  event.notification.close();
  const { url, urls } = data[OURS];
  const done = event.action ? 'clicked' : 'opened';
  const opened = open((event.action && urls[event.action]) || url);
  event.waitUntil(Promise.all([opened, reportOf(done, data.notification_id)]));
});

self.addEventListener('notificationclose', (event) => {
  const { data } = event.notification;
  if (data && data[OURS]) event.waitUntil(reportOf('dismissed', data.notification_id));
});

self.addEventListener('pushsubscriptionchange', (event) => event.waitUntil(renew()));

self.addEventListener('sync', (event) => {
  if (event.tag === SYNC_TAG) event.waitUntil(sendKept());
});

self.NotifyWorker = Object.freeze({
  /**
   * Has the worker ask for the enrichment of a notification's campaign before it shows it. `make`
   * gets the enrichment and the options, and answers options to change, such as `body` or `image`.
   */
  onEnrichment(make) {
    enrich = make;
  },
});
