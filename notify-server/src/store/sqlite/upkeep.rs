//! What the operation of a server asks: queues, retention, the state of the file.

mod over;
mod queue;

pub(super) use self::over::EVENTS;

use std::path::Path;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use notify_core::{AppId, IosEnv, Platform, Timestamp};
use rusqlite::{Connection, params};

use super::SqliteStore;
use super::app::app_no;
use super::row::{count_at, env_code};
use crate::store::{
    AppNo, DEVICES_SAMPLED_MAX, Deleted, DeviceKey, IosDevices, Over, Queue, SEQUENCE_MAX,
    StorageReport, StoreError, UpkeepStore,
};

/// Most different `store_identifier`s that are told.
const IDENTIFIERS_TOLD_MAX: u32 = 10;
/// Words of `synchronous`, by number (<https://sqlite.org/pragma.html#pragma_synchronous>).
const SYNCHRONOUS: [&str; 4] = ["off", "normal", "full", "extra"];

#[async_trait]
impl UpkeepStore for SqliteStore {
    async fn queue(&self, now: Timestamp) -> Result<Vec<Queue>, StoreError> {
        self.read(move |connection| queue::read(connection, now)).await
    }

    async fn delete_over(&self, over: Over) -> Result<Deleted, StoreError> {
        self.write(move |tx| over::step(tx, &over)).await
    }

    async fn storage(&self) -> Result<StorageReport, StoreError> {
        // The writer's connection: it is the one whose settings make a commit durable.
        self.write(|tx| report(tx)).await
    }

    async fn ios_devices(&self, app: AppId) -> Result<IosDevices, StoreError> {
        self.read(move |connection| {
            let no = app_no(connection, app)?;
            ios_devices(connection, no)
        })
        .await
    }

    fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }
}

fn report(connection: &Connection) -> Result<StorageReport, StoreError> {
    let journal_mode: String = connection.query_row("pragma journal_mode", [], |row| row.get(0))?;
    let synchronous: u8 = connection.query_row("pragma synchronous", [], |row| row.get(0))?;
    let pages: u64 = connection.query_row("pragma page_count", [], |row| count_at(row, 0))?;
    let page_bytes: u64 = connection.query_row("pragma page_size", [], |row| count_at(row, 0))?;
    let path = connection.path().unwrap_or_default();
    let log = std::fs::metadata(format!("{path}-wal"));
    Ok(StorageReport {
        backend: "sqlite",
        journal_mode,
        synchronous: (*SYNCHRONOUS.get(usize::from(synchronous)).unwrap_or(&"unknown")).to_owned(),
        database_bytes: pages * page_bytes,
        log_bytes: log.map_or(0, |log| log.len()),
        free_bytes: free_bytes(Path::new(path)),
    })
}

#[cfg(unix)]
fn free_bytes(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(path).ok()?;
    disk.f_bavail.checked_mul(disk.f_frsize)
}

#[cfg(not(unix))]
fn free_bytes(_: &Path) -> Option<u64> {
    None
}

fn ios_devices(connection: &Connection, app: AppNo) -> Result<IosDevices, StoreError> {
    let first = DeviceKey::before_first(app, Platform::Ios).0;
    let end = DeviceKey::new(app, Platform::Ios, SEQUENCE_MAX).0;
    let newest = "select ios_env, details from devices where key > ?1 and key <= ?2
                  order by key desc limit ?3";
    let limit = i64::from(DEVICES_SAMPLED_MAX);
    let (sampled, sandbox) = connection
        .prepare_cached(&format!(
            "select count(*), coalesce(sum(ios_env = ?4), 0) from ({newest})"
        ))?
        .query_row(params![first, end, limit, env_code(IosEnv::Sandbox)], |row| {
            Ok((count_at(row, 0)?, count_at(row, 1)?))
        })?;
    let store_identifiers = connection
        .prepare_cached(&format!(
            "select details ->> '$.store_identifier' as name, count(*) from ({newest})
             group by name having name is not null order by count(*) desc, name limit ?4"
        ))?
        .query_map(params![first, end, limit, IDENTIFIERS_TOLD_MAX], |row| {
            Ok((row.get(0)?, count_at(row, 1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(IosDevices { sampled, sandbox, store_identifiers })
}
