// The part that the page and the service worker share: the state stored in this browser, and calls
// of the server.

const DATABASE = 'notify-sdk';
// How many reports are stored while the server cannot be reached. Beyond this number, the oldest
// reports are deleted.
const REPORTS_KEPT_MAX = 200;
// How long a report is stored, in milliseconds.
const REPORT_KEPT_MS = 7 * 24 * 3600 * 1000;
// The maximum number of reports that the server accepts in one request.
const REPORTS_PER_REQUEST = 50;
const CALL_TIMEOUT_MS = 15_000;
const SYNC_TAG = 'notify-reports';

/**
 * Why a call failed. `status` is the status of the response, or 0 if there was no response. `errors` are
 * the errors that the response lists.
 */
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

/** Runs one transaction. Returns the result of the request that `work` returns. */
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

// The stored subscription of this browser: {server, app, deviceId, secret, details, refreshedAt}. `leaving`
// is set when the person has unsubscribed, until the server has deleted the device.
const readState = () => inStore('state', 'readonly', (store) => store.get('browser'));
const writeState = (state) => inStore('state', 'readwrite', (store) => store.put(state, 'browser'));

async function forget() {
  await inStore('state', 'readwrite', (store) => store.clear());
  await inStore('reports', 'readwrite', (store) => store.clear());
}

/** The stored subscription, unless the person has unsubscribed. */
async function subscribedState() {
  const state = await readState();
  return state && !state.leaving ? state : undefined;
}

/**
 * Deletes the device on the server, then the stored state. If the server cannot be reached, the state
 * stays, so that a later call repeats the deletion.
 */
async function leave(state) {
  try {
    await call(state, 'DELETE', `/devices/${state.deviceId}`, { secret: state.secret });
  } catch (error) {
    if (error.status !== 401) throw error;
  }
  await forget();
}

/** Calls the server. `at` is {server, app}. */
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
  const reply = await response.json().catch(() => ({}));
  if (response.ok) return reply;
  const errors = reply.errors || [];
  throw new NotifyError(`${response.status}: ${errors.join('; ')}`, response.status, errors);
}

function bytesOf(base64url) {
  const base64 = base64url.replace(/-/g, '+').replace(/_/g, '/');
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

function areEqual(buffer, bytes) {
  if (!buffer || buffer.byteLength !== bytes.length) return false;
  return new Uint8Array(buffer).every((byte, index) => byte === bytes[index]);
}

/**
 * The browser's subscription with the server's key. An existing subscription with another key is
 * replaced, because the server could not send to it.
 */
async function subscriptionFor(pushManager, key) {
  const wanted = bytesOf(key);
  const existing = await pushManager.getSubscription();
  const existingKey = existing && existing.options && existing.options.applicationServerKey;
  if (existing && areEqual(existingKey, wanted)) return existing;
  if (existing) await existing.unsubscribe();
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: wanted });
}

/** Subscribes the browser and registers it on the server. An existing device stays the same. */
async function subscribeWith(at, pushManager, details) {
  const { vapid_public_key: key } = await call(at, 'GET', '');
  const subscription = await subscriptionFor(pushManager, key);
  const { endpoint, keys } = subscription.toJSON();
  const state = await readState();
  const hasDevice = state && state.app === at.app && state.server === at.server;
  const device = hasDevice ? { device_id: state.deviceId, device_secret: state.secret } : {};
  const body = { subscription: { endpoint, keys }, ...device, ...details };
  const created = await call(at, 'POST', '/devices', { body });
  const secret = created.device_secret || state.secret;
  // Tags are not stored: a later refresh must not undo a change that was made elsewhere.
  const { tags, ...detailsToStore } = details;
  await writeState({ server: at.server, app: at.app, deviceId: created.id, secret,
    details: detailsToStore, refreshedAt: Date.now() });
  return created.id;
}

/** The enrichment of a notification; null if the browser is not subscribed. */
async function enrichmentOf(campaignId, notificationId) {
  const state = await subscribedState();
  if (!state) return null;
  const query = notificationId ? `?notification_id=${encodeURIComponent(notificationId)}` : '';
  const path = `/devices/${state.deviceId}/enrichments/${encodeURIComponent(campaignId)}${query}`;
  return call(state, 'GET', path, { secret: state.secret });
}

/** Stores a report and sends all stored reports. A report that cannot be sent now is sent later. */
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

/**
 * Sends the stored reports; only one tab or worker does so at a time. Never fails: reports that could not
 * be sent are sent together with the next report.
 */
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

/** Throws only errors after which a retry can succeed: no response, too many requests, a server error. */
async function sendEvents(state, events) {
  try {
    const path = `/devices/${state.deviceId}/events`;
    await call(state, 'POST', path, { body: { events }, secret: state.secret });
  } catch (error) {
    if (error.status === 0 || error.status === 429 || error.status >= 500) throw error;
  }
}

/** Asks the browser to wake the worker when it is online again, if the browser can (Background Sync). */
async function askForSync() {
  const registration = globalThis.registration
    || (await navigator.serviceWorker?.getRegistration().catch(() => undefined));
  await registration?.sync?.register(SYNC_TAG).catch(() => undefined);
}
