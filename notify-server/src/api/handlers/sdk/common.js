// What page and service worker share: what this browser keeps, and how it calls the server.

const DATABASE = 'notify-sdk';
// Reports that are kept while the server cannot be reached; the oldest go first.
const REPORTS_KEPT_MAX = 200;
const REPORT_KEPT_MS = 7 * 24 * 3600 * 1000;
// As many as the server takes at once.
const REPORTS_PER_REQUEST = 50;
const CALL_TIMEOUT_MS = 15_000;
const SYNC_TAG = 'notify-reports';

/** Why a call failed: `status` of the answer, 0 where none came; `errors` as the server lists them. */
class NotifyError extends Error {
  constructor(message, status = 0, errors = []) {
    super(message);
    this.name = 'NotifyError';
    this.status = status;
    this.errors = errors;
  }
}

function openDatabase() {
  return new Promise((resolve, reject) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => {
      opening.result.createObjectStore('state');
      opening.result.createObjectStore('reports', { autoIncrement: true });
    };
    opening.onsuccess = () => resolve(opening.result);
    opening.onerror = () => reject(opening.error);
  });
}

/** Runs one transaction; answers what the request that `work` returns came to. */
async function inStore(name, mode, work) {
  const database = await openDatabase();
  try {
    return await new Promise((resolve, reject) => {
      const transaction = database.transaction(name, mode);
      const request = work(transaction.objectStore(name));
      transaction.oncomplete = () => resolve(request && request.result);
      transaction.onerror = () => reject(transaction.error);
      transaction.onabort = () => reject(transaction.error);
    });
  } finally {
    database.close();
  }
}

// The browser as it subscribed: {server, app, deviceId, secret, details, refreshedAt}; `leaving` once the
// person ended that, until the server knows.
const readState = () => inStore('state', 'readonly', (store) => store.get('browser'));
const writeState = (state) => inStore('state', 'readwrite', (store) => store.put(state, 'browser'));

async function forget() {
  await inStore('state', 'readwrite', (store) => store.clear());
  await inStore('reports', 'readwrite', (store) => store.clear());
}

/** The state of a browser that is subscribed. */
async function subscribedState() {
  const state = await readState();
  return state && !state.leaving ? state : undefined;
}

/** Tells the server that the person left, and forgets; what cannot be told now is told later. */
async function leave(state) {
  try {
    await call(state, 'DELETE', `/devices/${state.deviceId}`, { secret: state.secret });
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  await forget();
}

/** Calls the server; `at` is {server, app}. */
async function call(at, method, path, { body, secret } = {}) {
  const headers = {};
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  if (secret) headers['X-Device-Secret'] = secret;
  let response;
  try {
    response = await fetch(`${at.server}/web/v1/${at.app}${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'omit',
      signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
    });
  } catch (cause) {
    throw new NotifyError(`the server cannot be reached, or does not allow this origin: ${cause}`);
  }
  const answer = await response.json().catch(() => ({}));
  if (response.ok) return answer;
  const errors = answer.errors || [];
  throw new NotifyError(`${response.status}: ${errors.join('; ')}`, response.status, errors);
}

function bytesOf(base64url) {
  const base64 = base64url.replace(/-/g, '+').replace(/_/g, '/');
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function areSame(buffer, bytes) {
  if (!buffer || buffer.byteLength !== bytes.length) return false;
  return new Uint8Array(buffer).every((byte, place) => byte === bytes[place]);
}

/** The subscription with the server's key. One with another key is given up: nothing could be sent to it. */
async function subscriptionFor(pushManager, key) {
  const wanted = bytesOf(key);
  const has = await pushManager.getSubscription();
  if (has && areSame(has.options && has.options.applicationServerKey, wanted)) return has;
  if (has) await has.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: wanted });
}

/** Subscribes with the browser and tells the server; the device stays the one that it was. */
async function subscribeWith(at, pushManager, details) {
  const { vapid_public_key: key } = await call(at, 'GET', '');
  const subscription = await subscriptionFor(pushManager, key);
  const { endpoint, keys } = subscription.toJSON();
  const state = await readState();
  const isKnown = state && state.app === at.app && state.server === at.server;
  const known = isKnown ? { device_id: state.deviceId, device_secret: state.secret } : {};
  const body = { subscription: { endpoint, keys }, ...known, ...details };
  const answer = await call(at, 'POST', '/devices', { body });
  const secret = answer.device_secret || state.secret;
  // Tags are set once: what is set elsewhere meanwhile must not be undone by a refresh.
  const { tags, ...kept } = details;
  await writeState({ server: at.server, app: at.app, deviceId: answer.id, secret, details: kept,
    refreshedAt: Date.now() });
  return answer.id;
}

/** What is shown beside a notification; null where the browser is no device. */
async function enrichmentOf(campaignId, notificationId) {
  const state = await subscribedState();
  if (!state) return null;
  const query = notificationId ? `?notification_id=${encodeURIComponent(notificationId)}` : '';
  const path = `/devices/${state.deviceId}/enrichments/${encodeURIComponent(campaignId)}${query}`;
  return call(state, 'GET', path, { secret: state.secret });
}

/** Keeps a report and sends what is kept; what cannot be sent now is sent later. */
async function reportOf(type, notificationId) {
  const report = { type, notification_id: notificationId, at: Date.now() };
  await inStore('reports', 'readwrite', (store) => {
    store.add(report);
    const keys = store.getAllKeys();
    keys.onsuccess = () => {
      const over = keys.result.length - REPORTS_KEPT_MAX;
      if (over > 0) store.delete(IDBKeyRange.upperBound(keys.result[over - 1]));
    };
  });
  await sendReports();
}

/** Sends what is kept, one tab or worker at a time. Never fails: what stays is sent with the next. */
async function sendReports() {
  const locks = globalThis.navigator && navigator.locks;
  try {
    await (locks ? locks.request(DATABASE, sendKept) : sendKept());
  } catch {
    await askForSync();
  }
}

async function sendKept() {
  const state = await subscribedState();
  if (!state) return;
  for (;;) {
    let keys;
    let reports;
    await inStore('reports', 'readonly', (store) => {
      keys = store.getAllKeys(null, REPORTS_PER_REQUEST);
      reports = store.getAll(null, REPORTS_PER_REQUEST);
    });
    if (keys.result.length === 0) return;
    const since = Date.now() - REPORT_KEPT_MS;
    const events = reports.result.filter((report) => report.at > since);
    if (events.length > 0) await sendEvents(state, events);
    const last = keys.result[keys.result.length - 1];
    await inStore('reports', 'readwrite', (store) => store.delete(IDBKeyRange.upperBound(last)));
  }
}

/** Fails where it is worth to come again: no answer, too many requests, the server's own trouble. */
async function sendEvents(state, events) {
  try {
    const path = `/devices/${state.deviceId}/events`;
    await call(state, 'POST', path, { body: { events }, secret: state.secret });
  } catch (error) {
    if (error.status === 0 || error.status === 429 || error.status >= 500) throw error;
  }
}

/** Asks the browser to wake the worker when it is back online, where it can (Background Sync). */
async function askForSync() {
  const registration = globalThis.registration
    || (await navigator.serviceWorker?.getRegistration().catch(() => undefined));
  await registration?.sync?.register(SYNC_TAG).catch(() => undefined);
}
