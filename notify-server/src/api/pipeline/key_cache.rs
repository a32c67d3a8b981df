//! Which key opens what, out of memory: hashes of keys in use, for seconds. A revoked key is out at
//! once, since the store tells of it before the one who revoked it is answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use moka::sync::Cache;
use notify_core::{AppId, AppStatus, KeyId, Timestamp};

use crate::causes::with_causes;
use crate::store::{AppAccess, Change, ChangeListener, SharedStore, StoreError, WebApp};

/// How long a key is believed, where another process may have revoked it.
const BELIEVED_FOR: Duration = Duration::from_secs(5);
/// Most keys remembered.
const REMEMBERED_MAX: u64 = 100_000;

/// Keys in use.
pub(crate) struct Keyring {
    store: SharedStore,
    applications: Cache<[u8; 32], Arc<AppAccess>>,
    administrators: Cache<[u8; 32], ()>,
    webs: Cache<AppId, Arc<WebApp>>,
    /// Grows with each revocation: what was read before one is not remembered after it.
    revocations: AtomicU64,
    used: Mutex<HashMap<KeyId, Timestamp>>,
}

impl Keyring {
    /// A keyring that hears of the store's changes.
    pub(crate) fn new(store: &SharedStore) -> Arc<Self> {
        let keyring = Arc::new(Self {
            store: store.clone(),
            applications: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED_FOR)
                .build(),
            administrators: Cache::builder()
                .max_capacity(REMEMBERED_MAX)
                .time_to_live(BELIEVED_FOR)
                .build(),
            webs: Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(BELIEVED_FOR).build(),
            revocations: AtomicU64::new(0),
            used: Mutex::default(),
        });
        store.subscribe(Arc::new(Ear(Arc::downgrade(&keyring))));
        keyring
    }

    /// The active application that the key opens.
    pub(super) async fn application(
        &self,
        hash: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Arc<AppAccess>>, StoreError> {
        if let Some(access) = self.applications.get(&hash) {
            return Ok(Some(access));
        }
        let before = self.revocations.load(Ordering::SeqCst);
        let access = self.store.open_with_key(hash).await?;
        let active = access.filter(|access| access.app.status == AppStatus::Active);
        let Some(access) = active.map(Arc::new) else { return Ok(None) };
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(access.key, now);
        self.applications.insert(hash, access.clone());
        if self.revocations.load(Ordering::SeqCst) != before {
            self.applications.invalidate(&hash);
        }
        Ok(Some(access))
    }

    /// Whether it is an admin key.
    pub(super) async fn administrator(&self, hash: [u8; 32]) -> Result<bool, StoreError> {
        if self.administrators.contains_key(&hash) {
            return Ok(true);
        }
        let before = self.revocations.load(Ordering::SeqCst);
        if self.store.admin_key(hash).await?.is_none() {
            return Ok(false);
        }
        self.administrators.insert(hash, ());
        if self.revocations.load(Ordering::SeqCst) != before {
            self.administrators.invalidate(&hash);
        }
        Ok(true)
    }

    /// What an active application lets browsers do, if it lets them in.
    pub(super) async fn web(&self, app: AppId) -> Result<Option<Arc<WebApp>>, StoreError> {
        if let Some(web) = self.webs.get(&app) {
            return Ok(Some(web));
        }
        let before = self.revocations.load(Ordering::SeqCst);
        let web = self.store.web_access(app).await?;
        let active = web.filter(|web| web.status == AppStatus::Active);
        let Some(web) = active.map(Arc::new) else { return Ok(None) };
        self.webs.insert(app, web.clone());
        if self.revocations.load(Ordering::SeqCst) != before {
            self.webs.invalidate(&app);
        }
        Ok(Some(web))
    }

    fn forget(&self) {
        self.revocations.fetch_add(1, Ordering::SeqCst);
        self.applications.invalidate_all();
        self.administrators.invalidate_all();
        self.webs.invalidate_all();
    }

    /// Writes when keys were last used; called now and then.
    pub(crate) async fn write_used(&self) {
        let used = std::mem::take(&mut *self.used.lock().unwrap_or_else(PoisonError::into_inner));
        if used.is_empty() {
            return;
        }
        if let Err(error) = self.store.touch_keys(used.into_iter().collect()).await {
            let cause = with_causes(&error);
            tracing::warn!(cause, "the last use of keys was not written");
        }
    }
}

/// Hears for a keyring; weak, since the store holds it and the keyring holds the store.
struct Ear(Weak<Keyring>);

impl ChangeListener for Ear {
    fn changed(&self, change: Change) {
        match change {
            Change::AppChanged(_) | Change::KeyRevoked | Change::Everything => {
                if let Some(keyring) = self.0.upgrade() {
                    keyring.forget();
                }
            }
            Change::NotificationDue
            | Change::NotificationScheduled
            | Change::NotificationCanceled(_)
            | Change::DeviceChanged(_)
            | Change::CampaignChanged(_)
            | Change::FeedDue
            | Change::FeedChanged(_)
            | Change::ProviderChanged(..)
            | Change::PurgeStopped(..)
            | Change::ChannelTold(..)
            | Change::EventsDue(_) => {}
        }
    }
}
