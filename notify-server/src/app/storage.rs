//! Opens the database, the master key and the clock of an installation, and creates them at the
//! first start.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use notify_core::{AppId, KeyId, LANGUAGE_DEFAULT, NewApp};
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

/// Name of the application that the first start creates.
const FIRST_APP: &str = "default";

/// Name of the marker file, which shows that the data folder contains an installation.
const MARKER: &str = "installation";
const MARKER_TEXT: &str = "This folder holds an installation of Notify. Its database is notify.db, and its \
                         secrets are sealed with master.key.\n";

/// The keys of a first start. They are shown once; the store keeps only their hashes.
pub struct FirstKeys {
    /// Key of the application `default`.
    pub api_key: SecretString,
    /// Key of the admin API.
    pub admin_key: SecretString,
    /// The id of the admin key.
    pub admin_key_id: KeyId,
}

/// Opens the database of `--database-url`, or the database in the data folder. With `serves`, the
/// caller is a server: it locks a SQLite file, so that no second server uses the file, and on
/// PostgreSQL it listens for the changes of the other servers. Without `serves`, the caller is a
/// subcommand, which works while servers run.
///
/// # Errors
/// When the database, the folder or the file cannot be used.
pub async fn open_store(config: &Config, serves: bool) -> Result<Arc<Store>, AppError> {
    let readers = config.reader_threads;
    if let Some(url) = config.database_url.clone() {
        let opening = tokio::task::spawn_blocking(move || {
            postgres::open(&url, PostgresOptions { serves, readers, ..PostgresOptions::default() })
        });
        return Ok(opening.await.map_err(|_| AppError::Interrupted)??);
    }
    let path = config.database_path();
    refuse_missing_database(config, &path)?;
    create_data_dir(config)?;
    let opening = tokio::task::spawn_blocking(move || {
        sqlite::open(&path, SqliteOptions { lock: serves, readers, synced: true })
    });
    Ok(opening.await.map_err(|_| AppError::Interrupted)??)
}

/// Refuses a data folder whose database is missing or empty although it was there before. A new
/// database in its place would hide the loss. Only files that are created after the database count
/// as evidence; the server's lock file and the master key can exist before it.
pub(crate) fn refuse_missing_database(config: &Config, path: &Path) -> Result<(), AppError> {
    let refusal = |evidence| AppError::NoDatabase {
        folder: config.data_dir.clone(),
        database: path.to_owned(),
        evidence,
    };
    let marker = config.data_dir.join(MARKER);
    let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
    if bytes == 0 && marker.exists() {
        return Err(refusal(marker));
    }
    // The evidence is read before the database: another process may be creating the first database
    // right now, and then the database exists once the evidence does.
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

/// Writes a marker of the installation to the data folder, with a name that differs from all files
/// of the database.
pub(crate) fn write_marker(config: &Config) -> Result<(), AppError> {
    let path = config.data_dir.join(MARKER);
    if path.exists() || !config.database_path().exists() {
        return Ok(());
    }
    std::fs::write(&path, MARKER_TEXT).map_err(|source| AppError::DataDir { path, source })
}

/// Creates the data folder, which only its owner may read, if it is missing.
pub(crate) fn create_data_dir(config: &Config) -> Result<(), AppError> {
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

/// Creates the first application and its keys if the database is empty, and returns the keys. This
/// is the last step of a start that can fail, because the keys are shown only once. If an earlier
/// start created keys but ended before it showed them, they are replaced by new keys, which are
/// returned.
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
    let admin_key_id = admin.id;
    let is_new = store.bootstrap(id, app, api, admin).await?
        || store.add_keys_if_unshown(api_key.stored, admin_key.stored).await?;
    Ok(is_new.then_some(FirstKeys {
        api_key: api_key.secret,
        admin_key: admin_key.secret,
        admin_key_id,
    }))
}

// The master key of an installation. A new key is generated only if the database contains nothing
// that is sealed. With sealed credentials, a server with a new key would start, but could not open
// the credentials at the next delivery.

/// The master key of the settings or of the data folder, checked against the sealed credentials in
/// the store. Generates a key if there is none and nothing is sealed.
///
/// # Errors
/// When the key is missing although credentials are sealed, does not open them, or cannot be used.
pub(super) async fn master_key(
    config: &Config,
    store: &SharedStore,
) -> Result<MasterKey, AppError> {
    match checked_master_key(config, store).await? {
        Some(key) => Ok(key),
        None => create_master_key(config),
    }
}

/// The master key of the settings or of the data folder, checked against the sealed credentials in
/// the store. `None` if there is no key and nothing is sealed.
///
/// # Errors
/// When the key is missing although credentials are sealed, does not open them, or cannot be used.
pub(crate) async fn checked_master_key(
    config: &Config,
    store: &Store,
) -> Result<Option<MasterKey>, AppError> {
    let sealed = store.any_sealed().await?;
    let key = existing_master_key(config)?;
    match (&key, sealed) {
        (None, Some(_)) => Err(master_key_error(config, MasterKeyError::Missing)),
        (Some(opening), Some((app, row)))
            if matches!(
                opening.open(app, row.provider, &row.sealed),
                Err(SecretError::OtherKey)
            ) =>
        {
            Err(master_key_error(config, MasterKeyError::Other))
        }
        _ => Ok(key),
    }
}

/// The master key of the settings or of the data folder; `None` if its file is missing.
///
/// # Errors
/// When the key cannot be used.
pub(crate) fn existing_master_key(config: &Config) -> Result<Option<MasterKey>, AppError> {
    let is_given = config.master_key.is_some() || config.master_key_file.is_some();
    if config.database_url.is_some() && !is_given {
        return Err(AppError::NoMasterKey);
    }
    let key = match &config.master_key {
        Some(key) => MasterKey::from_base64(key).map(Some),
        None => MasterKey::read(&key_file(config)),
    };
    if config.master_key.is_none() && matches!(key, Ok(Some(_))) {
        warn_if_exposed(&key_file(config));
    }
    key.map_err(|source| master_key_error(config, source))
}

fn create_master_key(config: &Config) -> Result<MasterKey, AppError> {
    let created = match &config.master_key_file {
        // A file that the settings name must exist. Creating it would hide a wrong path.
        Some(_) => Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such file").into()),
        None => MasterKey::read_or_create(&key_file(config)),
    };
    created.map_err(|source| master_key_error(config, source))
}

/// The path of the master key file.
fn key_file(config: &Config) -> PathBuf {
    match &config.master_key_file {
        Some(file) => file.clone(),
        None => config.data_dir.join(MASTER_KEY_FILE),
    }
}

fn master_key_error(config: &Config, source: MasterKeyError) -> AppError {
    let place = match &config.master_key {
        Some(_) => MASTER_KEY_VARIABLE.to_owned(),
        None => key_file(config).display().to_string(),
    };
    AppError::MasterKey { place, source }
}

// Several servers of a database use the clock of the database, so that due times and leases mean
// the same to all of them.

/// How often the difference between the database's clock and this machine's clock is measured.
const MEASURE_INTERVAL: Duration = Duration::from_secs(30);
/// Longest duration of a query whose result is used, in milliseconds. The database may have read
/// its clock at any time during the query, so a slow query is not a measurement.
const QUERY_MS_MAX: i64 = 1_000;

/// A clock that follows the database's clock if it has one, and otherwise this machine's.
pub(super) async fn start_clock(store: &SharedStore) -> Result<SharedClock, StoreError> {
    let machine_clock = Arc::new(SystemClock::start());
    let ahead_ms = match measure(store, &machine_clock).await? {
        Measurement::NoDatabaseClock => return Ok(machine_clock),
        Measurement::TooSlow => 0,
        Measurement::AheadMs(ahead_ms) => ahead_ms,
    };
    let clock = Arc::new(SystemClock::start_ahead(ahead_ms));
    tokio::spawn(follow(Arc::downgrade(store), Arc::downgrade(&clock)));
    Ok(clock)
}

/// The result of comparing the database's clock with this machine's clock.
enum Measurement {
    /// The database has no clock (SQLite).
    NoDatabaseClock,
    /// The query took too long for a measurement.
    TooSlow,
    /// How far the database's clock is ahead of this machine's clock, in milliseconds.
    AheadMs(i64),
}

/// Compares the database's clock with this machine's clock.
async fn measure(store: &Store, clock: &SystemClock) -> Result<Measurement, StoreError> {
    let before = clock.wall();
    let Some(database_time) = store.time().await? else {
        return Ok(Measurement::NoDatabaseClock);
    };
    let took_ms = clock.wall().ms_since(before);
    if !(0..=QUERY_MS_MAX).contains(&took_ms) {
        return Ok(Measurement::TooSlow);
    }
    // The database is assumed to have read its clock in the middle of the query.
    Ok(Measurement::AheadMs(database_time.ms_since(before.plus_ms(took_ms / 2))))
}

/// Measures the database's clock periodically, as long as `clock` is in use.
async fn follow(store: Weak<Store>, clock: Weak<SystemClock>) {
    loop {
        tokio::time::sleep(MEASURE_INTERVAL).await;
        let (Some(store), Some(clock)) = (store.upgrade(), clock.upgrade()) else { return };
        match measure(&store, &clock).await {
            Ok(Measurement::AheadMs(ahead_ms)) => clock.set_ahead(ahead_ms),
            Ok(Measurement::TooSlow | Measurement::NoDatabaseClock) => {}
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
        // The files that remain of a first start that ended before it created the database.
        std::fs::write(folder.path().join("notify.db.lock"), "").unwrap();
        std::fs::write(folder.path().join("master.key"), "a key of one's own").unwrap();
        open_store(&config, true).await.unwrap().close().await;
        std::fs::remove_file(config.database_path()).unwrap();
        for serves in [true, false] {
            let error = open_store(&config, serves).await.unwrap_err();
            assert!(matches!(error, AppError::NoDatabase { .. }), "{error:?}");
            assert!(error.to_string().contains("restore the last backup"), "{error}");
            assert!(!config.database_path().exists());
        }
    }

    #[tokio::test]
    async fn data_folder_with_removed_or_emptied_database_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let config = Config { data_dir: folder.path().to_owned(), ..Config::default() };
        open_store(&config, true).await.unwrap().close().await;
        write_marker(&config).unwrap();
        open_store(&config, true).await.unwrap().close().await;
        for emptied in [true, false] {
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                if file.file_name().to_string_lossy().starts_with("notify.db") {
                    std::fs::remove_file(file.path()).unwrap();
                }
            }
            if emptied {
                std::fs::write(config.database_path(), "").unwrap();
            }
            let error = open_store(&config, true).await.unwrap_err();
            assert!(matches!(error, AppError::NoDatabase { .. }), "{error:?}");
            assert!(error.to_string().contains("restore the last backup"), "{error}");
        }
    }
}
