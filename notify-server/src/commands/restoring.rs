//! `notify-server restore`: makes a backup the database of the data folder. The backup is checked before
//! anything changes, and prepared in a folder next to the database, which it replaces in one step.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use futures_util::future::try_join_all;
use notify_core::{AppId, NotificationStatus, Timestamp};

use super::{credentials, print};
use crate::app::{
    AppError, checked_master_key, create_data_dir, existing_master_key, write_marker,
};
use crate::cli::Restore;
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, DATABASE_FILE};
use crate::store::sqlite::{self, FileLock, SqliteOptions};
use crate::store::{AppNo, PageRequest, Store, StoreError};

/// The folder in the data folder in which a backup is prepared. It is left only by a crash, and the next
/// restore removes it.
const STAGING_FOLDER: &str = "restoring";
/// Rows that are read at a time, and notifications that are canceled at a time.
const ROWS_PER_PAGE: u32 = 100;
/// The statuses of notifications that have not ended.
const OPEN: [NotificationStatus; 3] =
    [NotificationStatus::Scheduled, NotificationStatus::Queued, NotificationStatus::Sending];

/// Restores a backup.
pub(super) async fn run(config: &Config, restore: Restore) -> anyhow::Result<()> {
    ensure!(
        config.database_url.is_none(),
        "a PostgreSQL database is restored by its own tool, pg_restore, into a database without the \
         schema. To put this backup into PostgreSQL, restore it without --database-url into a folder, \
         then run `notify-server move`"
    );
    let database = config.database_path();
    let file = restore.file.clone();
    let schema = on_blocking_thread(move || Ok(sqlite::verify_backup(&file)?)).await?;
    ensure!(
        !is_same_file(&restore.file, &database),
        "{} is the database itself: there is nothing to restore",
        database.display()
    );
    create_data_dir(config)?;
    let locked = database.clone();
    let _lock = on_blocking_thread(move || Ok(FileLock::take(&locked)?)).await?;
    // No server can create a database from here on.
    ensure!(
        restore.replace || !sqlite::has_database(&database),
        "{} exists: give --replace to replace it and keep it under another name, or --data-dir with an \
         empty folder",
        database.display()
    );
    let staging = Staging::create(config)?;
    let summary = prepare(config, &restore, &staging).await?;
    let kept = sqlite::has_database(&database)
        .then(|| sqlite::replaced_name(&database, &file_time(SystemClock::start().now())));
    let (new, old, aside) = (staging.database(), database.clone(), kept.clone());
    let replacing = move || Ok(sqlite::replace_database(&new, &old, aside.as_deref())?);
    on_blocking_thread(replacing).await.context("the database was not replaced")?;
    write_marker(config)?;
    report(config, &restore, schema, &summary, kept.as_deref())
}

/// Runs work that blocks.
async fn on_blocking_thread<T: Send + 'static>(
    work: impl FnOnce() -> anyhow::Result<T> + Send + 'static,
) -> anyhow::Result<T> {
    tokio::task::spawn_blocking(work).await.context("the restore was interrupted")?
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// A time as a part of a file name.
fn file_time(at: Timestamp) -> String {
    time_text(at, "%Y%m%dT%H%M%SZ")
}

fn time_text(at: Timestamp, format: &str) -> String {
    let time = jiff::Timestamp::from_millisecond(at.as_ms()).unwrap_or_default();
    time.strftime(format).to_string()
}

/// The folder in which the backup is prepared. It is removed on drop.
struct Staging(PathBuf);

impl Staging {
    /// Creates the folder. The caller has the lock of the database, so what is there is left from a crash.
    fn create(config: &Config) -> Result<Self, AppError> {
        let path = config.data_dir.join(STAGING_FOLDER);
        if path.exists() {
            std::fs::remove_dir_all(&path)
                .map_err(|source| AppError::DataDir { path: path.clone(), source })?;
        }
        create_data_dir(&Config { data_dir: path.clone(), ..Config::default() })?;
        Ok(Self(path))
    }

    fn database(&self) -> PathBuf {
        self.0.join(DATABASE_FILE)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "the folder {} was not removed", self.0.display());
        }
    }
}

/// What a backup contains.
struct BackupSummary {
    /// The number of notifications that have not ended, or that were canceled.
    open: u64,
    /// When the newest notification was accepted.
    newest: Option<Timestamp>,
}

/// Copies the backup into the staging folder, upgrades its tables, checks the master key, and makes the
/// changes that the operator asked for.
async fn prepare(
    config: &Config,
    restore: &Restore,
    staging: &Staging,
) -> anyhow::Result<BackupSummary> {
    let (backup, copy) = (restore.file.clone(), staging.database());
    let readers = config.reader_threads;
    let opening = on_blocking_thread(move || {
        sqlite::copy_backup(&backup, &copy)?;
        Ok::<_, anyhow::Error>(sqlite::open(
            &copy,
            SqliteOptions { lock: false, readers, synced: true },
        )?)
    });
    let store: Arc<Store> = opening.await.context("the backup was not copied")?;
    let summary = change(config, restore, &store).await;
    store.close().await;
    summary
}

async fn change(
    config: &Config,
    restore: &Restore,
    store: &Store,
) -> anyhow::Result<BackupSummary> {
    if restore.forget_credentials {
        let key = existing_master_key(config)?;
        credentials::forget_in(store, key.as_ref()).await?;
    } else {
        checked_master_key(config, store).await.context("nothing was changed")?;
    }
    let at = SystemClock::start().now();
    let mut summary = BackupSummary { open: 0, newest: None };
    let mut cursor = None;
    loop {
        let page = store.list_apps(PageRequest { limit: ROWS_PER_PAGE, cursor }).await?;
        for app in page.rows {
            let found = open_of_app(store, app.id, restore.cancel_open.then_some(at)).await?;
            summary.open += found.open;
            summary.newest = summary.newest.max(found.newest);
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(summary);
        }
    }
}

/// Counts the notifications of an application that have not ended, and cancels them if `cancel_at` has the
/// time for that.
async fn open_of_app(
    store: &Store,
    app: AppId,
    cancel_at: Option<Timestamp>,
) -> Result<BackupSummary, StoreError> {
    let (no, _) = store.app(app).await?;
    let newest = PageRequest { limit: 1, cursor: None };
    let newest = store.list_notifications(no, None, newest).await?.rows;
    let mut found =
        BackupSummary { open: 0, newest: newest.first().map(|record| record.created_at) };
    for status in OPEN {
        let mut cursor = None;
        loop {
            let page = PageRequest { limit: ROWS_PER_PAGE, cursor };
            let page = store.list_notifications(no, Some(status), page).await?;
            found.open += page.rows.len() as u64;
            if let Some(at) = cancel_at {
                let ids = page.rows.into_iter().map(|record| record.id);
                try_join_all(ids.map(|id| cancel(store, no, id, at))).await?;
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

async fn cancel(
    store: &Store,
    app: AppNo,
    id: notify_core::NotificationId,
    at: Timestamp,
) -> Result<(), StoreError> {
    match store.cancel_notification(app, id, at).await {
        // A request to cancel it was accepted before the backup.
        Err(StoreError::Refused(_)) => Ok(()),
        result => result,
    }
}

/// Prints what was restored, and what the operator has to know before the next start.
fn report(
    config: &Config,
    restore: &Restore,
    schema: i32,
    summary: &BackupSummary,
    kept: Option<&Path>,
) -> anyhow::Result<()> {
    let (file, folder) = (restore.file.display(), config.data_dir.display());
    print(&format!("restored {file} (schema {schema}) to {folder}"))?;
    if let Some(kept) = kept {
        print(&format!("the previous database is kept as {}", kept.display()))?;
    }
    let newest = summary.newest.map(|at| time_text(at, "%Y-%m-%dT%H:%M:%SZ"));
    print(&match newest {
        Some(at) => format!("the newest notification of the backup was accepted at {at}"),
        None => "the backup has no notifications".to_owned(),
    })?;
    let lost = "everything that was accepted or changed after the backup is missing: notifications, devices, \
         users, keys. Keys that were revoked after it work again: revoke them again";
    print(lost)?;
    print(&match (summary.open, restore.cancel_open) {
        (0, _) => "every notification has ended: the next start sends none again".to_owned(),
        (open, true) => {
            format!(
                "canceled {open} notifications that had not ended: the next start sends none of them"
            )
        }
        (open, false) => format!(
            "notifications that have not ended: {open}. The next start sends them to every device without an \
             outcome in the backup, also to devices that got them after the backup. To cancel them, restore \
             again with --replace --cancel-open before the start"
        ),
    })
}
