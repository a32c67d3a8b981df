//! Authentication: applications by API key, apps by publishable key, administrators by admin key, pages in
//! browsers by origin. [`KeyCache`] holds the keys and the browser access that are in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use http::{HeaderMap, header};
use notify_core::{AppId, AppStatus, KeyGrant, KeyId, SessionId, Timestamp};

use crate::api::console;
use crate::api::error::ApiError;
use crate::api::pipeline::site::Site;
use crate::api::pipeline::web_origin::{self, WebOrigin};
use crate::api::pipeline::{Pipeline, is_below};
use crate::api::request_ctx::Caller;
use crate::bounded_cache::BoundedCache;
use crate::error_chain::error_chain;
use crate::keys::{KeyKind, key_hash};
use crate::store::{AdminKey, AppAccess, Change, ChangeListener, SharedStore, StoreError, WebApp};

/// Path below which apps call for their own device.
const APP_DEVICES: &str = "/device/v1";
const API_KEY: header::HeaderName = header::HeaderName::from_static("x-api-key");

impl Pipeline {
    /// Authenticates the caller of a path. Platforms that call inbound webhooks are authenticated
    /// after routing, since their secrets belong to the path.
    ///
    /// # Errors
    /// 401, or 503 when storage is not available.
    pub(super) async fn authenticate(
        &self,
        headers: &HeaderMap,
        path: &str,
        site: &Site,
    ) -> Result<Caller, ApiError> {
        if site.is_console(path) {
            let session = console::session_of(&self.api, &self.key_cache, headers).await?;
            Ok(Caller::Console(session.map(Arc::new)))
        } else if !site.has_api {
            Ok(Caller::Anonymous)
        } else if is_below(path, "/v1") {
            self.authenticate_app(headers).await
        } else if is_below(path, APP_DEVICES) {
            self.authenticate_device_app(headers).await
        } else if site.is_admin(path) {
            self.authenticate_admin(headers).await
        } else if is_below(path, web_origin::AREA) {
            self.authorize_origin(headers, path).await
        } else {
            Ok(Caller::Anonymous)
        }
    }

    async fn authenticate_app(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = single_value(headers, &API_KEY).and_then(|key| key_hash(KeyKind::Api, key));
        let Some(hash) = hash else { return Err(missing_api_key(headers)) };
        match self.key_cache.app(hash, self.api.clock.now()).await? {
            KeyCheck::Valid(access) if matches!(access.terms.grant, KeyGrant::Api(_)) => {
                Ok(Caller::App(access))
            }
            KeyCheck::Expired => Err(ApiError::KeyExpired),
            KeyCheck::Valid(_) | KeyCheck::Unknown => Err(ApiError::Unauthorized),
        }
    }

    /// An app. Its publishable key is no secret: it says which application is meant, and what apps of the
    /// application may do.
    async fn authenticate_device_app(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let key = single_value(headers, &API_KEY);
        let Some(hash) = key.and_then(|key| key_hash(KeyKind::Publishable, key)) else {
            let is_misplaced = key.is_some_and(|key| key.starts_with(KeyKind::Api.prefix()));
            let error = if is_misplaced {
                ApiError::ApiKeyInApp
            } else {
                ApiError::PublishableUnauthorized
            };
            return Err(error);
        };
        match self.key_cache.app(hash, self.api.clock.now()).await? {
            KeyCheck::Valid(access) if matches!(access.terms.grant, KeyGrant::Devices(_)) => {
                Ok(Caller::DeviceApp(access))
            }
            KeyCheck::Expired => Err(ApiError::PublishableKeyExpired),
            KeyCheck::Valid(_) | KeyCheck::Unknown => Err(ApiError::PublishableUnauthorized),
        }
    }

    async fn authenticate_admin(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        let hash = admin_key_hash(headers).ok_or(ApiError::AdminUnauthorized)?;
        let key = self.key_cache.admin_key(hash, self.api.clock.now()).await?;
        key.map(Caller::Admin).ok_or(ApiError::AdminUnauthorized)
    }

    async fn authorize_origin(&self, headers: &HeaderMap, path: &str) -> Result<Caller, ApiError> {
        let app = web_origin::app_in_path(path).ok_or(ApiError::OriginNotAllowed)?;
        let origin = web_origin::request_origin(headers, &self.api.public_url);
        let origin = origin.ok_or(ApiError::OriginNotAllowed)?;
        let web = self.key_cache.web_app(app).await?.ok_or(ApiError::OriginNotAllowed)?;
        let origin = WebOrigin::authorize(app, &web, origin).ok_or(ApiError::OriginNotAllowed)?;
        Ok(Caller::Browser(Arc::new(origin)))
    }
}

/// The hash of the admin key of a request: the bearer token, or else the key in `X-API-Key`. Behind a proxy
/// with its own authentication, `Authorization` has the credentials of the proxy.
fn admin_key_hash(headers: &HeaderMap) -> Option<[u8; 32]> {
    let token = single_value(headers, &header::AUTHORIZATION).and_then(bearer_token);
    let keys = [token, single_value(headers, &API_KEY)];
    let key = keys.into_iter().flatten().find(|key| key.starts_with(KeyKind::Admin.prefix()))?;
    key_hash(KeyKind::Admin, key)
}

/// The error of a request without an API key in the header `X-API-Key`. Its text differs if the
/// caller sent an API key as a bearer token, or a key of another kind.
fn missing_api_key(headers: &HeaderMap) -> ApiError {
    let key = single_value(headers, &API_KEY);
    let token = single_value(headers, &header::AUTHORIZATION).and_then(bearer_token);
    let is_of = |kind: KeyKind| key.or(token).is_some_and(|key| key.starts_with(kind.prefix()));
    if is_of(KeyKind::Publishable) {
        return ApiError::PublishableKeyMisplaced;
    }
    if is_of(KeyKind::Admin) {
        return ApiError::AdminKeyMisplaced;
    }
    let is_misplaced = !headers.contains_key(&API_KEY)
        && token.is_some_and(|token| token.starts_with(KeyKind::Api.prefix()));
    if is_misplaced { ApiError::ApiKeyAsBearer } else { ApiError::Unauthorized }
}

/// The value of a header, if the request has the header exactly once and the value is visible
/// ASCII.
fn single_value<'h>(headers: &'h HeaderMap, name: &header::HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

fn bearer_token(authorization: &str) -> Option<&str> {
    let (scheme, token) = authorization.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// How long an entry is used. This limits how long a key still works after another process revoked
/// it.
const CACHE_TTL: Duration = Duration::from_secs(5);
/// The maximum number of entries of each kind.
const CACHE_ENTRIES_MAX: usize = 100_000;

/// Values, each with the time when it was read.
type Cache<K, V> = BoundedCache<K, (V, Instant)>;

/// The times of last uses that are not written yet.
#[derive(Clone, Default)]
struct LastUsed {
    keys: HashMap<KeyId, Timestamp>,
    sessions: HashMap<SessionId, Timestamp>,
}

/// What is known about a key of an application.
pub(crate) enum KeyCheck {
    /// The key is valid, and its application is active.
    Valid(Arc<AppAccess>),
    /// The key was valid, and its application is active. Only a caller that has the whole key can learn this.
    Expired,
    /// There is no such key, or its application is suspended.
    Unknown,
}

#[cfg(test)]
impl KeyCheck {
    /// Whether the key is valid.
    pub(crate) fn is_valid(&self) -> bool {
        matches!(self, Self::Valid(_))
    }
}

/// A cache of the API keys, admin keys and browser access that are in use; keys are found by their
/// hash. A revoked key stops working at once: the store notifies the cache before it acknowledges
/// the revocation.
pub(crate) struct KeyCache {
    store: SharedStore,
    apps: Cache<[u8; 32], Arc<AppAccess>>,
    admin_keys: Cache<[u8; 32], Arc<AdminKey>>,
    web_apps: Cache<AppId, Arc<WebApp>>,
    /// The number of revocations so far. A value that was read before a revocation must not be
    /// cached after it.
    revocations: AtomicU64,
    /// When keys and sessions were last used. [`Self::write_last_used`] moves these times to the store.
    last_used: Mutex<LastUsed>,
}

impl KeyCache {
    /// Makes a cache that is cleared whenever the store reports a change of keys or applications.
    pub(crate) fn new(store: &SharedStore) -> Arc<Self> {
        let cache = Arc::new(Self {
            store: store.clone(),
            apps: Cache::new(CACHE_ENTRIES_MAX),
            admin_keys: Cache::new(CACHE_ENTRIES_MAX),
            web_apps: Cache::new(CACHE_ENTRIES_MAX),
            revocations: AtomicU64::new(0),
            last_used: Mutex::default(),
        });
        store.subscribe(Arc::new(CacheInvalidator(Arc::downgrade(&cache))));
        cache
    }

    /// The application whose API key has this hash. The expiry is compared at each request, also for a cached
    /// key.
    pub(crate) async fn app(&self, hash: [u8; 32], now: Timestamp) -> Result<KeyCheck, StoreError> {
        let load = async {
            let access = self.store.find_app_by_key(hash).await?;
            let active = access.filter(|access| access.app.status == AppStatus::Active);
            if let Some(access) = active.as_ref().filter(|access| access.is_valid(now)) {
                self.record_use(access.key, now);
            }
            Ok(active.map(Arc::new))
        };
        Ok(match self.get_or_load(&self.apps, hash, load).await? {
            Some(access) if access.is_valid(now) => KeyCheck::Valid(access),
            Some(_) => KeyCheck::Expired,
            None => KeyCheck::Unknown,
        })
    }

    /// The admin key that has this hash; `None` if there is no such key.
    pub(super) async fn admin_key(
        &self,
        hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Arc<AdminKey>>, StoreError> {
        let load = async {
            let key = self.store.admin_key(hash).await?.map(Arc::new);
            if let Some(key) = &key {
                self.record_use(key.id, now);
            }
            Ok(key)
        };
        self.get_or_load(&self.admin_keys, hash, load).await
    }

    /// Records that a key is used; [`Self::write_last_used`] writes it to the store.
    pub(crate) fn record_use(&self, key: KeyId, now: Timestamp) {
        self.last_used().keys.insert(key, now);
    }

    /// When a key was last used, if that is not written to the store yet.
    pub(in crate::api) fn last_key_use(&self, key: KeyId) -> Option<Timestamp> {
        self.last_used().keys.get(&key).copied()
    }

    /// Records that a session of the console is used; [`Self::write_last_used`] writes it to the store.
    #[cfg(feature = "console")]
    pub(in crate::api) fn record_session_use(&self, session: SessionId, now: Timestamp) {
        self.last_used().sessions.insert(session, now);
    }

    /// When a session was last used, if that is not written to the store yet.
    pub(in crate::api) fn last_session_use(&self, session: SessionId) -> Option<Timestamp> {
        self.last_used().sessions.get(&session).copied()
    }

    fn last_used(&self) -> MutexGuard<'_, LastUsed> {
        self.last_used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an active application allows browsers to do, if it allows anything.
    pub(super) async fn web_app(&self, app: AppId) -> Result<Option<Arc<WebApp>>, StoreError> {
        let load = async {
            let web = self.store.web_access(app).await?;
            Ok(web.filter(|web| web.status == AppStatus::Active).map(Arc::new))
        };
        self.get_or_load(&self.web_apps, app, load).await
    }

    /// The cached value, or the loaded one, which is then cached unless a key was revoked during
    /// the load.
    async fn get_or_load<K, V>(
        &self,
        cache: &Cache<K, V>,
        key: K,
        load: impl Future<Output = Result<Option<V>, StoreError>>,
    ) -> Result<Option<V>, StoreError>
    where
        K: Hash + Eq + Copy,
        V: Clone,
    {
        if let Some((cached, read_at)) = cache.get(&key)
            && read_at.elapsed() < CACHE_TTL
        {
            return Ok(Some(cached));
        }
        let revocations_before = self.revocations.load(Ordering::SeqCst);
        let Some(loaded) = load.await? else { return Ok(None) };
        cache.insert(key, (loaded.clone(), Instant::now()), 1);
        if self.revocations.load(Ordering::SeqCst) != revocations_before {
            cache.remove(&key);
        }
        Ok(Some(loaded))
    }

    fn clear(&self) {
        self.revocations.fetch_add(1, Ordering::SeqCst);
        self.apps.clear();
        self.admin_keys.clear();
        self.web_apps.clear();
    }

    /// Writes the times at which keys were last used to the store. A periodic task calls this. A time stays
    /// here until it is written, so that a session in use never looks idle.
    pub(crate) async fn write_last_used(&self) {
        let LastUsed { keys, sessions } = self.last_used().clone();
        if keys.is_empty() && sessions.is_empty() {
            return;
        }
        let written = self.store.touch_keys(
            keys.iter().map(|(key, at)| (*key, *at)).collect(),
            sessions.iter().map(|(session, at)| (*session, *at)).collect(),
        );
        if let Err(error) = written.await {
            let cause = error_chain(&error);
            tracing::warn!(cause, "writing the last use of keys failed");
            return;
        }
        let mut last_used = self.last_used();
        last_used.keys.retain(|key, at| keys.get(key) != Some(at));
        last_used.sessions.retain(|session, at| sessions.get(session) != Some(at));
    }
}

/// Clears the cache when the store reports a change. The reference is weak: the store holds this
/// listener and the cache holds the store, so a strong reference would keep both alive forever.
struct CacheInvalidator(Weak<KeyCache>);

impl ChangeListener for CacheInvalidator {
    fn on_change(&self, change: Change) {
        match change {
            Change::App(_) | Change::Keys | Change::Resync => {
                if let Some(cache) = self.0.upgrade() {
                    cache.clear();
                }
            }
            Change::Delivery(_) | Change::Enrichment(_) | Change::Events(_) => {}
        }
    }
}
