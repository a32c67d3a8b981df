//! Applications and keys.

use async_trait::async_trait;
use notify_core::{App, AppChange, AppId, Key, KeyId, NewApp, Timestamp};

use super::{AppNo, Page, PageRequest, StoreError};

/// A key to be stored: its hash alone, and what a person recognises it by.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// Id.
    pub id: KeyId,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// Prefix and last four characters.
    pub hint: String,
    /// What it is for.
    pub name: Option<String>,
    /// Creation.
    pub created_at: Timestamp,
}

/// An application as a key opens it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppAccess {
    /// Inside number.
    pub no: AppNo,
    /// The application.
    pub app: App,
    /// The key that was used.
    pub key: KeyId,
}

/// Applications, API keys and admin keys.
#[async_trait]
pub trait AppStore {
    /// Makes the first application with its API key and an admin key, when there is none yet.
    /// Answers whether it did; two servers that start at once make one.
    async fn found(
        &self,
        id: AppId,
        app: NewApp,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError>;

    /// Adds keys to the first application, when those of [`AppStore::found`] were not shown: the process
    /// may have ended before. Answers whether it did. Keys from before stay valid, since it is not known
    /// whether they were read.
    async fn replace_unshown_keys(
        &self,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError>;

    /// The keys of [`AppStore::found`] were shown: no start makes others.
    async fn keys_shown(&self) -> Result<(), StoreError>;

    /// Makes an application, with an API key when one is given.
    async fn create_app(
        &self,
        id: AppId,
        app: NewApp,
        api_key: Option<NewKey>,
        at: Timestamp,
    ) -> Result<AppNo, StoreError>;

    /// Lists applications, oldest first.
    async fn list_apps(&self, page: PageRequest) -> Result<Page<App>, StoreError>;

    /// Reads an application.
    async fn app(&self, id: AppId) -> Result<(AppNo, App), StoreError>;

    /// Changes an application.
    async fn change_app(&self, id: AppId, change: AppChange) -> Result<(), StoreError>;

    /// Erases an application with everything it owns, in bounded steps.
    async fn delete_app(&self, id: AppId) -> Result<(), StoreError>;

    /// Adds an API key to an application.
    async fn add_key(&self, app: AppId, key: NewKey) -> Result<(), StoreError>;

    /// Lists the keys of an application, oldest first.
    async fn list_keys(&self, app: AppId) -> Result<Vec<Key>, StoreError>;

    /// Revokes an API key at once.
    async fn revoke_key(&self, app: AppId, key: KeyId) -> Result<(), StoreError>;

    /// The application that a key opens, suspended ones included; `None` for an unknown key.
    async fn open_with_key(&self, hash: [u8; 32]) -> Result<Option<AppAccess>, StoreError>;

    /// Notes the last use of keys. Written lazily, not durable at once.
    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError>;

    /// Adds an admin key.
    async fn add_admin_key(&self, key: NewKey) -> Result<(), StoreError>;

    /// The admin key of that hash.
    async fn admin_key(&self, hash: [u8; 32]) -> Result<Option<KeyId>, StoreError>;
}
