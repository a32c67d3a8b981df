//! What the operation of a server asks: queues, retention, the state of the file.

mod clock;
mod over;
mod queue;

pub(super) use self::over::EVENTS;

use std::sync::atomic::Ordering;

use async_trait::async_trait;
use notify_core::{AppId, IosEnv, Platform, Timestamp};

use super::SqlStore;
use super::app::app_no;
use super::row::{count_at, env_code};
use crate::clock::ClockMark;
use crate::store::sql::{Connection, params};
use crate::store::{
    AppNo, DEVICES_SAMPLED_MAX, Deleted, DeviceKey, IosDevices, Over, Queue, SEQUENCE_MAX,
    StorageReport, StoreError, UpkeepStore,
};
use crate::store::{postgres, sqlite};

/// Most different `store_identifier`s that are told.
const IDENTIFIERS_TOLD_MAX: u32 = 10;

#[async_trait]
impl UpkeepStore for SqlStore {
    async fn queue(&self, now: Timestamp) -> Result<Vec<Queue>, StoreError> {
        self.read(move |connection| queue::read(connection, now)).await
    }

    async fn delete_over(&self, over: Over) -> Result<Deleted, StoreError> {
        self.write(move |tx| over::step(tx, &over)).await
    }

    async fn clock_mark(&self) -> Result<Option<ClockMark>, StoreError> {
        self.read(clock::mark).await
    }

    async fn keep_clock(&self, mark: ClockMark) -> Result<bool, StoreError> {
        self.write(move |tx| clock::keep(tx, mark)).await
    }

    async fn confirm_clock(&self) -> Result<bool, StoreError> {
        self.write(|tx| clock::confirm(tx)).await
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

    fn commits(&self) -> u64 {
        self.writer.commits.load(Ordering::Relaxed)
    }
}

fn report(connection: &Connection) -> Result<StorageReport, StoreError> {
    match connection {
        Connection::Sqlite(file) => Ok(sqlite::report(file)?),
        Connection::Postgres(_) => Ok(postgres::report(connection)?),
    }
}

fn ios_devices(connection: &Connection, app: AppNo) -> Result<IosDevices, StoreError> {
    let first = DeviceKey::before_first(app, Platform::Ios).0;
    let end = DeviceKey::new(app, Platform::Ios, SEQUENCE_MAX).0;
    let newest = "select ios_env, details from devices where key > ?1 and key <= ?2
                  order by key desc limit ?3";
    let limit = i64::from(DEVICES_SAMPLED_MAX);
    let (sampled, sandbox) = connection
        .prepare_cached(&format!(
            "select count(*), count(*) filter (where ios_env = ?4) from ({newest}) newest"
        ))?
        .query_row(params![first, end, limit, env_code(IosEnv::Sandbox)], |row| {
            Ok((count_at(row, 0)?, count_at(row, 1)?))
        })?;
    let store_identifiers = connection
        .prepare_cached(&format!(
            "select name, count(*) from
             (select json(details) ->> 'store_identifier' as name from ({newest}) newest) named
             where name is not null group by name order by count(*) desc, name limit ?4"
        ))?
        .query_map(params![first, end, limit, IDENTIFIERS_TOLD_MAX], |row| {
            Ok((row.get(0)?, count_at(row, 1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(IosDevices { sampled, sandbox, store_identifiers })
}
