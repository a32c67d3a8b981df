
// The part of the service worker: shows notifications and reports what the person does with them.

// How long a notification waits for its enrichment. Browsers require that it is shown soon after it arrived.
const ENRICHMENT_WAIT_MS = 4_000;
// The key of the SDK's own values in the data of a notification, in addition to the caller's data.
const OURS = '_notify';
// The members of a payload that are options of `showNotification`.
const SHOWN = ['body', 'icon', 'badge', 'image', 'tag', 'requireInteraction', 'silent', 'renotify'];

let enrich;

/** The payload of a push message from Notify. The worker may also get messages from other senders. */
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
  const { url, actions = [] } = payload;
  const urls = Object.fromEntries(actions.map((action) => [action.action, action.url]));
  const shown = Object.fromEntries(SHOWN.map((name) => [name, payload[name]]));
  const options = { ...shown, data: { ...payload.data, [OURS]: { url, urls } } };
  options.actions = actions.map(({ action, title, icon: small }) => ({ action, title, icon: small }));
  // Absent members are left out: browsers take `undefined` in some of them as a text.
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined));
}

/**
 * The options as the site's `onEnrichment` changes them. If this fails or takes too long, the options of
 * the payload.
 */
async function enriched(payload, options) {
  const { campaign_id: campaign, notification_id: notification } = payload.data;
  if (!enrich || !campaign) return options;
  const changes = enrichmentOf(campaign, notification)
    .then((enrichment) => enrichment && enrich(enrichment, { ...options, title: payload.title }));
  const timeout = new Promise((resolve) => setTimeout(resolve, ENRICHMENT_WAIT_MS));
  const changed = await Promise.race([changes, timeout]).catch(() => undefined);
  return { ...options, ...changed, tag: options.tag, data: { ...changed?.data, ...options.data } };
}

async function show(payload) {
  const options = await enriched(payload, optionsOf(payload));
  await self.registration.showNotification(options.title || payload.title, options);
  await reportOf('received', payload.data.notification_id);
}

/** Focuses the window that shows the URL already, or opens a new one. */
async function open(url) {
  const wanted = new URL(url || self.registration.scope, self.location.href).href;
  const windows = await self.clients.matchAll({ type: 'window', includeUncontrolled: true });
  const existing = windows.find((window) => window.url === wanted);
  // The browser may refuse to open the URL, for example if no program handles its scheme. The report is
  // sent all the same.
  await (existing ? existing.focus() : self.clients.openWindow(wanted)).catch(() => undefined);
}

/** Subscribes again after the browser has ended or changed the subscription. */
async function renew() {
  const state = await readState();
  if (!state) return;
  if (state.leaving) {
    await leave(state);
    return;
  }
  // If the server cannot be reached now, `init` refreshes at the next visit instead of a day later.
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
  const type = event.action ? 'clicked' : 'opened';
  const opened = open((event.action && urls[event.action]) || url);
  event.waitUntil(Promise.all([opened, reportOf(type, data.notification_id)]));
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
   * Makes the worker fetch the enrichment of a notification's campaign before it shows the notification.
   * `make` gets the enrichment and the options, and returns the options to change, such as `body` or
   * `image`.
   */
  onEnrichment(make) {
    enrich = make;
  },
});
