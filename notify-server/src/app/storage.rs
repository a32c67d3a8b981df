//! The database and what it needs: made at the first start, opened at each.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify_core::{AppId, LANGUAGE_DEFAULT, NewApp};
use secrecy::SecretString;
use uuid::Uuid;

use crate::app::AppError;
use crate::clock::{Clock, SharedClock, SystemClock};
use crate::config::{Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE};
use crate::error_chain::error_chain;
use crate::keys::{KeyKind, make_key};
use crate::secrets::{MasterKey, MasterKeyError, SecretError, warn_if_exposed};
use crate::store::postgres::{self, PostgresOptions};
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{SharedStore, Store, StoreError};

/// Name of the application of a first start.
const FIRST_APP: &str = "default";

/// The file that shows that an installation is in the data folder.
const NOTE: &str = "installation";
const NOTE_TEXT: &str = "This folder holds an installation of Notify. Its database is notify.db, and its \
                         secrets are sealed with master.key.\n";

/// The keys of a first start: shown once, and not stored.
pub struct FirstKeys {
    /// Key of the application `default`.
    pub api_key: SecretString,
    /// Key of the admin API.
    pub admin_key: SecretString,
}

/// Opens the database of the settings, or the one in the data folder. One that `serves` is the only
/// server of a file, and one of several on PostgreSQL; subcommands work while servers run.
///
/// # Errors
/// When the database, the folder or the file cannot be used.
pub async fn open_store(config: &Config, serves: bool) -> Result<Arc<Store>, AppError> {
    let readers = config.reader_threads;
    if let Some(url) = config.database_url.clone() {
        let opening = tokio::task::spawn_blocking(move || {
            postgres::open(&url, PostgresOptions { serves, readers })
        });
        return Ok(opening.await.map_err(|_| AppError::Interrupted)??);
    }
    let path = config.database();
    refuse_without_database(config, &path)?;
    make_data_dir(config)?;
    let opening = tokio::task::spawn_blocking(move || {
        sqlite::open(&path, SqliteOptions { lock: serves, readers })
    });
    Ok(opening.await.map_err(|_| AppError::Interrupted)??)
}

/// Refuses a folder whose database is gone or empty: a new one in its place would look
/// as if nothing had ever been there. What shows it is made after the database and never before; the lock
/// of the server and the master key may come first.
fn refuse_without_database(config: &Config, path: &Path) -> Result<(), AppError> {
    let refusal = |evidence| AppError::NoDatabase {
        folder: config.data_dir.clone(),
        database: path.to_owned(),
        evidence,
    };
    let note = config.data_dir.join(NOTE);
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if bytes == 0 && note.exists() {
        return Err(refusal(note));
    }
    // In this order: another process may be making the first one now.
    let evidence = [".migrate.lock", "-wal"].into_iter().find_map(|ending| {
        let mut name = path.as_os_str().to_owned();
        name.push(ending);
        Some(PathBuf::from(name)).filter(|file| file.exists())
    });
    match evidence {
        Some(evidence) if !path.exists() => Err(refusal(evidence)),
        Some(_) | None => Ok(()),
    }
}

/// Writes a marker of the installation to the data folder, with a name that differs from all files of the
/// database.
pub(super) fn note_installation(config: &Config) -> Result<(), AppError> {
    let path = config.data_dir.join(NOTE);
    if path.exists() || !config.database().exists() {
        return Ok(());
    }
    std::fs::write(&path, NOTE_TEXT).map_err(|source| AppError::DataDir { path, source })
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
/// that can fail, since the keys are shown this once. A start that ended before it showed them is made
/// good by keys of this one.
pub(super) async fn bootstrap(
    store: &SharedStore,
    clock: &SharedClock,
) -> Result<Option<FirstKeys>, StoreError> {
    let at = clock.now();
    let api_key = make_key(KeyKind::Api, None, at);
    let admin_key = make_key(KeyKind::Admin, None, at);
    let app = NewApp { name: FIRST_APP.to_owned(), language: LANGUAGE_DEFAULT.to_owned() };
    let id = AppId(Uuid::now_v7());
    let (api, admin) = (api_key.stored.clone(), admin_key.stored.clone());
    let is_new = store.bootstrap(id, app, api, admin).await?
        || store.replace_unshown_keys(api_key.stored, admin_key.stored).await?;
    Ok(is_new.then_some(FirstKeys { api_key: api_key.secret, admin_key: admin_key.secret }))
}

// The master key of an installation. A new one is generated only if nothing is sealed yet: with
// sealed credentials a new key would be accepted today and missed at the next delivery.

/// The key of the settings or of the data folder, which opens what the store holds.
///
/// # Errors
/// When it is missing although something is sealed, is another one, or cannot be used.
pub(super) async fn master_key(
    config: &Config,
    store: &SharedStore,
) -> Result<MasterKey, AppError> {
    let sealed = store.any_sealed().await?;
    let key = match existing_master_key(config)? {
        Some(key) => key,
        None if sealed.is_some() => return Err(failed(config, MasterKeyError::Missing)),
        None => make(config)?,
    };
    if let Some((app, row)) = sealed
        && matches!(key.open(app, row.provider, &row.sealed), Err(SecretError::OtherKey))
    {
        return Err(failed(config, MasterKeyError::Other));
    }
    Ok(key)
}

/// The key of the settings or of the data folder, `None` when its file is missing.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn existing_master_key(config: &Config) -> Result<Option<MasterKey>, AppError> {
    let is_given = config.master_key.is_some() || config.master_key_file.is_some();
    if config.database_url.is_some() && !is_given {
        return Err(AppError::NoMasterKey);
    }
    let key = match &config.master_key {
        Some(key) => MasterKey::from_base64(key).map(Some),
        None => MasterKey::read(&file(config)),
    };
    if config.master_key.is_none() && matches!(key, Ok(Some(_))) {
        warn_if_exposed(&file(config));
    }
    key.map_err(|source| failed(config, source))
}

fn make(config: &Config) -> Result<MasterKey, AppError> {
    let made = match &config.master_key_file {
        // Who names a file means one that is there.
        Some(_) => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such file").into()),
        None => MasterKey::read_or_create(&file(config)),
    };
    made.map_err(|source| failed(config, source))
}

fn file(config: &Config) -> PathBuf {
    let of_data_dir = || config.data_dir.join(MASTER_KEY_FILE);
    config.master_key_file.clone().unwrap_or_else(of_data_dir)
}

fn failed(config: &Config, source: MasterKeyError) -> AppError {
    let place = match &config.master_key {
        Some(_) => MASTER_KEY_VARIABLE.to_owned(),
        None => file(config).display().to_string(),
    };
    AppError::MasterKey { place, source }
}

// The clock of several servers is that of their database: due times and leases that one
// writes mean the same to all.

/// How often the difference from this machine's clock is measured.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(30);
/// Longest question whose answer counts, in milliseconds: the database read its clock somewhere
/// within.
const QUESTION_MS_MAX: i64 = 1_000;

/// A clock that follows the database's clock if it has one, and otherwise this machine's.
pub(super) async fn start(store: &SharedStore) -> Result<SharedClock, StoreError> {
    let clock = Arc::new(SystemClock::start());
    let Some(ahead_ms) = ahead(store, &clock).await? else { return Ok(clock) };
    let clock = Arc::new(SystemClock::start_ahead(ahead_ms.unwrap_or(0)));
    tokio::spawn(follow(Arc::downgrade(store), Arc::downgrade(&clock)));
    Ok(clock)
}

/// How far the database's clock is ahead of this machine's, in milliseconds: `None` where it has
/// no clock, and inside it if the response took too long for a measurement.
async fn ahead(store: &Store, clock: &SystemClock) -> Result<Option<Option<i64>>, StoreError> {
    let before = clock.wall();
    let Some(there) = store.time().await? else { return Ok(None) };
    let took_ms = clock.wall().ms_since(before);
    let is_sure = (0..=QUESTION_MS_MAX).contains(&took_ms);
    Ok(Some(is_sure.then(|| there.ms_since(before.plus_ms(took_ms / 2)))))
}

/// Follows the database's clock as long as the clock is in use.
async fn follow(store: Weak<Store>, clock: Weak<SystemClock>) {
    loop {
        tokio::time::sleep(LOOKED_AT_EVERY).await;
        let (Some(store), Some(clock)) = (store.upgrade(), clock.upgrade()) else { return };
        match ahead(&store, &clock).await {
            Ok(Some(Some(ahead_ms))) => clock.set_ahead(ahead_ms),
            Ok(_) => {}
            Err(error) => {
                let cause = error_chain(&error);
                tracing::debug!(cause, "the database's clock was not read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn data_folder_without_its_database_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        // What a first start leaves that ends before it has made the database.
        std::fs::write(folder.path().join("notify.db.lock"), "").unwrap();
        std::fs::write(folder.path().join("master.key"), "a key of one's own").unwrap();
        open_store(&config, true).await.unwrap().close().await;
        std::fs::remove_file(config.database()).unwrap();
        for serves in [true, false] {
            let error = open_store(&config, serves).await.unwrap_err();
            assert!(matches!(error, AppError::NoDatabase { .. }), "{error:?}");
            assert!(error.to_string().contains("restore the last backup"), "{error}");
            assert!(!config.database().exists());
        }
    }

    #[tokio::test]
    async fn data_folder_with_removed_or_emptied_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        open_store(&config, true).await.unwrap().close().await;
        note_installation(&config).unwrap();
        open_store(&config, true).await.unwrap().close().await;
        for emptied in [true, false] {
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                if file.file_name().to_string_lossy().starts_with("notify.db") {
                    std::fs::remove_file(file.path()).unwrap();
                }
            }
            if emptied {
                std::fs::write(config.database(), "").unwrap();
            }
            let error = open_store(&config, true).await.unwrap_err();
            assert!(matches!(error, AppError::NoDatabase { .. }), "{error:?}");
            assert!(error.to_string().contains("restore the last backup"), "{error}");
        }
    }
}
