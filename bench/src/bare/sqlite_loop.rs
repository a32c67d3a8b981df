//! A bare rusqlite loop. Its tables have the server's columns and one unique index. It writes 256 rows a
//! commit and flushes every commit. Its rate is the upper limit of what the disk and SQLite can do.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Statement, params};

use crate::seed::{device_id, push_token, registration, splitmix64};

/// The rows of one commit: the maximum of the server's writer.
const ROWS_PER_COMMIT: u64 = 256;
/// The size of the page cache, in KiB. The server uses less.
const CACHE_KIB: i64 = 262_144;
/// The number of pages at which SQLite checkpoints the log. It is high, so that checkpoints have no visible
/// cost.
const CHECKPOINT_PAGES: i64 = 16_000;

const DEVICES: &str = "create table devices (
    key integer primary key, app_no integer not null, device_id text not null, address text,
    address_hash integer, ios_env integer, push_disabled integer not null, dead_reason text,
    dead_at integer, utc_offset_minutes integer not null, details text not null, p256dh text,
    auth text, moved_from integer, moved_at integer, created_at integer not null) strict";
const DEVICES_BY_ID: &str = "create unique index devices_by_id on devices (app_no, device_id)";
const INSERT_DEVICE: &str = "insert into devices (app_no, device_id, address, address_hash,
        ios_env, push_disabled, utc_offset_minutes, details, created_at)
    values (1, ?1, ?2, ?3, null, 0, 60, ?4, ?5)";
const REPLACE_DEVICE: &str = "on conflict (app_no, device_id) do update set
        address = excluded.address, address_hash = excluded.address_hash,
        ios_env = excluded.ios_env, push_disabled = excluded.push_disabled,
        utc_offset_minutes = excluded.utc_offset_minutes, details = excluded.details";
const NOTIFICATIONS: &str = "create table notifications (
    no integer primary key, app_no integer not null, id text not null, origin text not null,
    status text not null, created_at integer not null, due_at integer, local_time integer,
    started_at integer, completed_at integer, request text not null, platforms integer not null,
    names_devices integer not null, tag text, ttl_seconds integer not null, campaign_id blob,
    audience_until integer, open_dispatches integer not null default 0,
    cancel_requested_at integer, canceled_before integer not null default 0,
    unique (app_no, id)) strict";
const INSERT: &str = "insert into notifications (app_no, id, origin, status, created_at, due_at,
        request, platforms, names_devices, ttl_seconds)
    values (1, ?1, 'created', 'scheduled', ?2, ?3, ?4, 3, 0, 2419200)";

/// The registration time of all devices, in Unix milliseconds.
const CREATED_AT_MS: i64 = 1_900_000_000_000;

/// The row of a device. It is prepared before its commit is timed.
struct Row {
    id: String,
    token: String,
    hash: i64,
    details: String,
}

impl Row {
    fn of(number: u64, version: u64) -> Self {
        let device = registration(number, version);
        let details = serde_json::json!({
            "sdk_version": device.sdk_version, "app_version": device.app_version,
            "os_version": device.os_version, "store_identifier": device.store_identifier,
            "timezone": device.timezone, "country": device.country, "language": device.language,
            "device_description": device.device_description,
        });
        #[expect(clippy::cast_possible_wrap, reason = "a hash is any 64 bits")]
        let hash = splitmix64(number) as i64;
        let (id, token) = (device_id(number), push_token(number));
        Self { id, token, hash, details: details.to_string() }
    }

    fn write(&self, statement: &mut Statement<'_>) -> rusqlite::Result<usize> {
        let Self { id, token, hash, details } = self;
        statement.execute(params![id, token, hash, details, CREATED_AT_MS])
    }
}

/// The database of the loops.
pub(crate) struct SqliteLoop {
    connection: Connection,
    devices: u64,
    /// The request that every stored notification has.
    request: String,
    /// The number of commits so far. A commit of devices uses it as their new version.
    commits: u64,
}

impl SqliteLoop {
    /// Creates the tables and inserts `devices` devices.
    pub(crate) fn open(folder: &Path, devices: u64, request: String) -> anyhow::Result<Self> {
        let connection = Connection::open(folder.join("bare.db"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "off")?;
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        connection.execute_batch(&format!("{DEVICES}; {NOTIFICATIONS}; begin"))?;
        {
            // The index is created after the rows, because that is faster.
            let mut insert = connection.prepare(INSERT_DEVICE)?;
            for number in 0..devices {
                Row::of(number, 0).write(&mut insert)?;
            }
        }
        connection.execute_batch(&format!("commit; {DEVICES_BY_ID}"))?;
        connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
        Ok(Self { connection, devices, request, commits: 0 })
    }

    /// Registers random devices again, each with a new version, until the commits have taken the time
    /// `lasting`. Returns the number of devices per second.
    pub(crate) fn register(&mut self, lasting: Duration) -> anyhow::Result<f64> {
        let sql = format!("{INSERT_DEVICE} {REPLACE_DEVICE}");
        self.per_second(lasting, |database, version| {
            let number = |row| splitmix64(row ^ (version << 20)) % database.devices;
            let rows: Vec<_> =
                (0..ROWS_PER_COMMIT).map(|row| Row::of(number(row), version)).collect();
            let mut upsert = database.connection.prepare_cached(&sql)?;
            let started = Instant::now();
            database.connection.execute_batch("begin immediate")?;
            for row in rows {
                row.write(&mut upsert)?;
            }
            database.connection.execute_batch("commit")?;
            Ok(started.elapsed())
        })
    }

    /// Inserts notifications until the commits have taken the time `lasting`. Returns the number of
    /// notifications per second.
    pub(crate) fn accept(&mut self, lasting: Duration) -> anyhow::Result<f64> {
        self.per_second(lasting, |database, _| {
            let now = crate::seed::now().as_ms();
            let mut insert = database.connection.prepare_cached(INSERT)?;
            let started = Instant::now();
            database.connection.execute_batch("begin immediate")?;
            for _ in 0..ROWS_PER_COMMIT {
                let id = uuid::Uuid::now_v7().to_string();
                insert.execute(params![id, now, now, database.request])?;
            }
            database.connection.execute_batch("commit")?;
            Ok(started.elapsed())
        })
    }

    /// Calls `commit` until the returned times add up to `lasting`. Each call gets the number of the commit,
    /// commits [`ROWS_PER_COMMIT`] rows, and returns the time that the commit took. Returns the number of
    /// rows per second.
    fn per_second(
        &mut self,
        lasting: Duration,
        commit: impl Fn(&Self, u64) -> anyhow::Result<Duration>,
    ) -> anyhow::Result<f64> {
        let (mut elapsed, mut rows) = (Duration::ZERO, 0);
        while elapsed < lasting {
            self.commits += 1;
            elapsed += commit(self, self.commits)?;
            rows += ROWS_PER_COMMIT;
        }
        Ok(rows as f64 / elapsed.as_secs_f64())
    }
}
