//! The database and what it needs: made at the first start, opened at each.

use std::sync::Arc;

use notify_core::{AppId, LANGUAGE_DEFAULT, NewApp};
use secrecy::SecretString;
use uuid::Uuid;

use super::AppError;
use crate::clock::SharedClock;
use crate::config::Config;
use crate::keys::{KeyKind, make_key};
use crate::store::postgres::{PostgresOptions, PostgresStore};
use crate::store::sql::SqlStore;
use crate::store::sqlite::{SqliteOptions, SqliteStore};
use crate::store::{SharedStore, StoreError};

/// Name of the application of a first start.
const FIRST_APP: &str = "default";

/// The keys of a first start: shown once, kept nowhere.
pub struct FirstKeys {
    /// Key of the application `default`.
    pub api_key: SecretString,
    /// Key of the admin API.
    pub admin_key: SecretString,
}

/// Opens the database of the settings, or the one in the data folder. One that `serves` is the only
/// server of a file, and one of several on PostgreSQL; subcommands work beside servers.
///
/// # Errors
/// When the database, the folder or the file cannot be used.
pub async fn open_store(config: &Config, serves: bool) -> Result<Arc<SqlStore>, AppError> {
    let readers = config.reader_threads;
    if let Some(url) = config.database_url.clone() {
        let opening = tokio::task::spawn_blocking(move || {
            PostgresStore::open(&url, PostgresOptions { serves, readers })
        });
        return Ok(opening.await.map_err(|_| AppError::Interrupted)??);
    }
    make_data_dir(config)?;
    let path = config.database();
    let opening = tokio::task::spawn_blocking(move || {
        SqliteStore::open(&path, SqliteOptions { lock: serves, readers })
    });
    Ok(opening.await.map_err(|_| AppError::Interrupted)??)
}

fn make_data_dir(config: &Config) -> Result<(), AppError> {
    let path = &config.data_dir;
    if path.exists() && !path.is_dir() {
        return Err(AppError::NoFolder(path.clone()));
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| AppError::DataDir { path: path.clone(), source })
}

/// Makes the first application and its keys when the database is empty: the last step of a start
/// that can fail, since the keys are shown this once.
pub(super) async fn found(
    store: &SharedStore,
    clock: &SharedClock,
) -> Result<Option<FirstKeys>, StoreError> {
    let at = clock.now();
    let api_key = make_key(KeyKind::Api, None, at);
    let admin_key = make_key(KeyKind::Admin, None, at);
    let app = NewApp { name: FIRST_APP.to_owned(), language: LANGUAGE_DEFAULT.to_owned() };
    let id = AppId(Uuid::now_v7());
    let is_first = store.found(id, app, api_key.stored, admin_key.stored).await?;
    Ok(is_first.then_some(FirstKeys { api_key: api_key.secret, admin_key: admin_key.secret }))
}
