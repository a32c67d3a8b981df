//! The keys and the browser access that are in use.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use notify_core::{AppId, AppStatus, KeyId, SessionId, Timestamp};

use crate::bounded_cache::BoundedCache;
use crate::error_chain::error_chain;
use crate::store::{AdminKey, AppAccess, Change, ChangeListener, SharedStore, StoreError, WebApp};

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
