//! Queries and jobs for operating a server: the deletion of expired rows, storage settings, and the
//! clock mark. The clock mark is what the server stores about its clock: the latest time that it
//! trusted, and whether the clock has leapt ahead of that time (`clock/trusted.rs`).

use std::sync::atomic::Ordering;

use notify_core::{AppId, DeviceId, IosEnv, Platform, Timestamp, TokenProblem};

use crate::clock::{ClockMark, LEAP_MS};
use crate::store::app::{app_no, erase_notification, erase_pages};
use crate::store::device::{inbound, keys_by_ids};
use crate::store::notification::keep_reached;
use crate::store::sql::row::{count_at, env_code};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, NUMBERS, OptionalExtension, WriteScope, list_of, params};
use crate::store::{
    AppNo, DeviceKey, NotificationNo, Operation, SEQUENCE_MAX, SessionCutoffs, Store, StoreError,
    audit, idempotency, operator, postgres, sqlite,
};

/// The most devices that [`Store::ios_devices`] samples, newest first.
pub const DEVICES_SAMPLED_MAX: u32 = 1_000;
/// The approximate number of rows that one call of [`Store::delete_expired`] deletes. The last
/// notification of a call may add the rows of ten pages.
pub const RETENTION_ROWS_MAX: u64 = 1_000;

/// For each kind of data, the time before which it is deleted; `None` keeps it forever. The age of
/// a notification counts from the end of its sending. The age of a report, a notification that
/// another system sent, counts from its arrival. Unfinished notifications are never deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionCutoffs {
    /// Deletes idempotency records that were stored before this time.
    pub idempotency_before: Timestamp,
    /// Deletes the outcome of each device for notifications that ended before this time. The
    /// counters of the notifications stay.
    pub outcomes_before: Option<Timestamp>,
    /// Deletes the engagement events of each device for notifications that ended before this time.
    /// The counters of the notifications stay.
    pub events_before: Option<Timestamp>,
    /// Deletes notifications that ended before this time, with everything that belongs to them.
    /// Their ids can then be used again.
    pub notifications_before: Option<Timestamp>,
    /// Erases devices that a browser or an app registered without an API key, that have not received a
    /// message, and that were last seen before this time.
    pub anonymous_before: Option<Timestamp>,
    /// The same for an application that has more such devices than it may have.
    pub anonymous_surplus: Option<(AppNo, Timestamp)>,
    /// Deletes entries of the audit trail that were written before this time.
    pub audit_before: Option<Timestamp>,
    /// Deletes sessions of the console that have expired by these times.
    pub sessions: SessionCutoffs,
    /// Now.
    pub at: Timestamp,
}

/// The numbers of items that one call of [`Store::delete_expired`] deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RetentionProgress {
    /// Idempotency records.
    pub idempotency_records: u64,
    /// Notifications of which all outcomes are deleted now.
    pub outcomes: u64,
    /// Notifications of which all engagement events are deleted now.
    pub events: u64,
    /// Notifications.
    pub notifications: u64,
    /// Anonymous devices.
    pub anonymous_devices: u64,
    /// Entries of the audit trail.
    pub audit_entries: u64,
    /// Sessions of the console.
    pub sessions: u64,
    /// Whether there is more to delete.
    pub more: bool,
}

impl RetentionProgress {
    /// Adds what another call deleted.
    pub(crate) fn add(&mut self, other: Self) {
        self.idempotency_records += other.idempotency_records;
        self.outcomes += other.outcomes;
        self.events += other.events;
        self.notifications += other.notifications;
        self.anonymous_devices += other.anonymous_devices;
        self.audit_entries += other.audit_entries;
        self.sessions += other.sessions;
    }
}

/// Storage settings and sizes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StorageReport {
    /// The backend: `sqlite` or `postgres`.
    pub backend: &'static str,
    /// The journal mode: `wal`.
    pub journal_mode: String,
    /// The durability of a commit. `full` means that a commit waits for the disk.
    pub synchronous: String,
    /// Size of the database, in bytes.
    pub database_bytes: u64,
    /// Size of its log, in bytes.
    pub log_bytes: u64,
    /// Free space on its volume, in bytes; `None` if the system does not report it.
    pub free_bytes: Option<u64>,
    /// Number of roles other than the server's that may connect to the database; `None` for a database
    /// without roles.
    pub foreign_roles: Option<u64>,
}

/// How the newest iOS devices of an application were registered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IosDevices {
    /// The number of sampled devices.
    pub sampled: u64,
    /// The number of sampled devices that use the development environment.
    pub sandbox: u64,
    /// The most frequent `store_identifier`s, each with the number of its devices, most frequent
    /// first.
    pub store_identifiers: Vec<(String, u64)>,
}

/// Push tokens that were examined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenSample {
    /// The number of tokens.
    pub sampled: u64,
    /// The number of those that cannot be a token of the provider.
    pub unusable: u64,
    /// The problem of the newest of them.
    pub problem: Option<TokenProblem>,
}

/// The most `store_identifier`s that are reported.
const IDENTIFIERS_MAX: u32 = 10;

impl Store {
    /// Deletes expired data in one transaction of about [`RETENTION_ROWS_MAX`] rows. The caller
    /// repeats the call until no expired data is left. If the server stops in between, a later call
    /// continues.
    pub async fn delete_expired(
        &self,
        cutoffs: RetentionCutoffs,
    ) -> Result<RetentionProgress, StoreError> {
        self.write(Operation::DeleteExpired, move |tx| delete_step(tx, &cutoffs)).await
    }

    /// Lists the applications that have more than `max` anonymous devices. Each is listed with the time before
    /// which those that are too many were last seen.
    pub async fn anonymous_surplus(&self, max: u64) -> Result<Vec<(AppNo, Timestamp)>, StoreError> {
        let apps: Vec<AppNo> = self
            .read(move |connection| {
                let apps = connection
                    .prepare_cached("select no from apps where status <> 'erasing' order by no")?
                    .query_map([], |row| row.get(0).map(AppNo))?
                    .collect::<Result<_, _>>()?;
                Ok(apps)
            })
            .await?;
        let mut surplus = Vec::new();
        for app in apps {
            let before = self
                .read_long(move |connection| inbound::surplus_before(connection, app, max))
                .await?;
            surplus.extend(before.map(|before| (app, before)));
        }
        Ok(surplus)
    }

    /// Counts the devices of an application that registered without an API key and have not received a
    /// message, up to `limit`.
    pub async fn count_anonymous_devices(&self, app: AppNo, limit: u64) -> Result<u64, StoreError> {
        self.read_long(move |connection| inbound::count_anonymous(connection, app, limit)).await
    }

    /// Reads the clock mark. Returns `None` if no mark is stored. An operator who confirms the
    /// clock removes the mark.
    pub async fn clock_mark(&self) -> Result<Option<ClockMark>, StoreError> {
        self.read(read_clock_mark).await
    }

    /// Stores the clock mark. Returns whether the clock was confirmed instead: if `mark` says that
    /// the clock is in doubt, but an operator or another server has confirmed it since, this stores
    /// nothing and returns true.
    pub async fn store_clock_mark(&self, mark: ClockMark) -> Result<bool, StoreError> {
        self.write(Operation::KeepClock, move |tx| store_mark_unless_confirmed(tx, mark)).await
    }

    /// Confirms the clock: the servers of this database trust their clocks again. Returns false if
    /// the stored mark does not say that the clock is in doubt.
    pub async fn confirm_clock(&self) -> Result<bool, StoreError> {
        self.write(Operation::ConfirmClock, |tx| confirm_clock(tx)).await
    }

    /// Reads the storage settings and sizes.
    pub async fn storage(&self) -> Result<StorageReport, StoreError> {
        // Runs as a write, since only the settings of the writer's connection decide how durable
        // commits are.
        self.write_to(WriteScope::all([]), Operation::Storage, |tx| report(tx)).await
    }

    /// Reads how the newest iOS devices of an application were registered, at most
    /// [`DEVICES_SAMPLED_MAX`].
    pub async fn ios_devices(&self, app: AppId) -> Result<IosDevices, StoreError> {
        self.read_long(move |connection| {
            let no = app_no(connection, app)?;
            ios_devices(connection, no)
        })
        .await
    }

    /// Examines the push tokens of phones that a notification could be sent to: of the named devices, or of
    /// the newest devices of the platform, at most [`DEVICES_SAMPLED_MAX`]. On other platforms, any text may be
    /// an address, so nothing is read.
    pub async fn token_sample(
        &self,
        app: AppNo,
        platform: Platform,
        named: Option<Vec<DeviceId>>,
    ) -> Result<TokenSample, StoreError> {
        if !matches!(platform, Platform::Android | Platform::Ios) {
            return Ok(TokenSample::default());
        }
        self.read_long(move |connection| token_sample(connection, app, platform, named.as_deref()))
            .await
    }

    /// The number of operations that failed since the store was opened because another process
    /// locked the database.
    pub fn busy(&self) -> u64 {
        self.busy.load(Ordering::Relaxed)
    }

    /// The number of transactions that this process committed since the store was opened. A
    /// transaction may contain many writes.
    pub fn commits(&self) -> u64 {
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
        .query_map(params![first, end, limit, IDENTIFIERS_MAX], |row| {
            Ok((row.get(0)?, count_at(row, 1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(IosDevices { sampled, sandbox, store_identifiers })
}

fn token_sample(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    named: Option<&[DeviceId]>,
) -> Result<TokenSample, StoreError> {
    let first = DeviceKey::before_first(app, platform).0;
    let end = DeviceKey::new(app, platform, SEQUENCE_MAX).0;
    let is_reachable = "address is not null and push_disabled = 0 and dead_at is null";
    let mut sample = TokenSample::default();
    let mut examine = |address: String| {
        sample.sampled += 1;
        if let Some(problem) = TokenProblem::of(platform, &address) {
            sample.unusable += 1;
            sample.problem.get_or_insert(problem);
        }
    };
    match named {
        Some(ids) => {
            let ids: Vec<&str> = ids.iter().map(DeviceId::as_str).collect();
            let keys = keys_by_ids(connection, app, &ids)?;
            let keys: Vec<i64> = keys.into_values().map(|key| key.0).collect();
            let mut statement = connection.prepare_cached(&format!(
                "select address from devices where key in {NUMBERS} and key > ?2 and key <= ?3
                 and {is_reachable} order by key desc"
            ))?;
            for address in
                statement.query_map(params![list_of(&keys), first, end], |row| row.get(0))?
            {
                examine(address?);
            }
        }
        None => {
            let mut statement = connection.prepare_cached(&format!(
                "select address from (select address, push_disabled, dead_at from devices
                 where key > ?1 and key <= ?2 order by key desc limit ?3) newest
                 where {is_reachable}"
            ))?;
            let limit = i64::from(DEVICES_SAMPLED_MAX);
            for address in statement.query_map(params![first, end, limit], |row| row.get(0))? {
                examine(address?);
            }
        }
    }
    Ok(sample)
}

// The clock mark, which the table `installation` stores.

fn read_clock_mark(connection: &Connection) -> Result<Option<ClockMark>, StoreError> {
    let Some((Some(trusted_at), in_doubt)) = read_clock_row(connection)? else { return Ok(None) };
    Ok(Some(ClockMark { trusted_at: Timestamp(trusted_at), in_doubt: in_doubt != 0 }))
}

/// Reads the row of the clock mark: the trusted time, and 1 if the clock is in doubt. The trusted
/// time is `None` after an operator confirmed the clock.
fn read_clock_row(connection: &Connection) -> Result<Option<(Option<i64>, i64)>, StoreError> {
    Ok(connection
        .prepare_cached("select trusted_at, clock_in_doubt from installation")?
        .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?)
}

/// Stores the clock mark, unless it is in doubt and the clock was confirmed since. Returns whether
/// the clock was confirmed.
fn store_mark_unless_confirmed(tx: &Connection, mark: ClockMark) -> Result<bool, StoreError> {
    if mark.in_doubt {
        let is_confirmed = match read_clock_row(tx)? {
            // No mark was ever stored.
            None => false,
            // An operator confirmed the clock.
            Some((None, _)) => true,
            // Another server trusts a time after the leap, so it has seen the confirmation.
            Some((Some(trusted_at), _)) => trusted_at > mark.trusted_at.as_ms() + LEAP_MS,
        };
        if is_confirmed {
            return Ok(true);
        }
    }
    tx.prepare_cached(
        "insert into installation (no, trusted_at, clock_in_doubt) values (1, ?1, ?2)
         on conflict (no) do update set trusted_at = excluded.trusted_at,
         clock_in_doubt = excluded.clock_in_doubt",
    )?
    .execute(params![mark.trusted_at.as_ms(), i64::from(mark.in_doubt)])?;
    Ok(false)
}

fn confirm_clock(tx: &Connection) -> Result<bool, StoreError> {
    let rows = tx
        .prepare_cached(
            "update installation set trusted_at = null, clock_in_doubt = 0 where clock_in_doubt = 1",
        )?
        .execute([])?;
    Ok(rows > 0)
}

// Deleting expired data. Each transaction deletes a bounded number of rows, so that other writes
// can run in between. The column `notifications.kept` stores which data of a notification is left.

/// The bit of `notifications.kept` for the outcomes of devices.
const OUTCOMES: i64 = 1;
/// The bit of `notifications.kept` for the engagement events of devices.
pub(super) const EVENTS: i64 = 2;
/// The approximate number of rows that the erasure of an anonymous device changes, including its
/// tags and counters.
const ROWS_OF_A_DEVICE: u64 = 64;

/// Deletes expired data, about [`RETENTION_ROWS_MAX`] rows.
fn delete_step(
    tx: &mut WriteTx<'_>,
    cutoffs: &RetentionCutoffs,
) -> Result<RetentionProgress, StoreError> {
    let idempotency_records =
        idempotency::delete_expired(tx, cutoffs.idempotency_before, RETENTION_ROWS_MAX)?;
    let mut deleted = RetentionProgress { idempotency_records, ..RetentionProgress::default() };
    let mut rows_left = RETENTION_ROWS_MAX.saturating_sub(idempotency_records);
    deleted.sessions = operator::delete_expired_sessions(tx, cutoffs.sessions, rows_left)?;
    rows_left = rows_left.saturating_sub(deleted.sessions);
    if let Some(before) = cutoffs.audit_before {
        deleted.audit_entries = audit::delete_expired(tx, before, rows_left)?;
        rows_left = rows_left.saturating_sub(deleted.audit_entries);
    }
    while rows_left > 0 {
        let Some(rows) = delete_next(tx, cutoffs, &mut deleted)? else { return Ok(deleted) };
        rows_left = rows_left.saturating_sub(rows);
    }
    deleted.more = true;
    Ok(deleted)
}

/// Deletes some rows of the next expired item, and counts the item in `deleted` once all its rows
/// are deleted. Returns the number of rows, or `None` if no item is expired.
fn delete_next(
    tx: &mut WriteTx<'_>,
    cutoffs: &RetentionCutoffs,
    deleted: &mut RetentionProgress,
) -> Result<Option<u64>, StoreError> {
    if let Some(before) = cutoffs.notifications_before
        && let Some(no) =
            next_expired(tx, &[0, OUTCOMES, EVENTS, OUTCOMES | EVENTS], before.as_ms())?
    {
        let (rows, is_erased) = erase_notification(tx, no)?;
        deleted.notifications += u64::from(is_erased);
        return Ok(Some(rows));
    }
    if let Some(before) = cutoffs.outcomes_before
        && let Some(no) = next_expired(tx, &[OUTCOMES, OUTCOMES | EVENTS], before.as_ms())?
    {
        keep_reached(tx, NotificationNo(no))?;
        let rows = erase_pages(tx, no)?;
        if rows == 0 {
            clear_kept_flag(tx, no, OUTCOMES)?;
            deleted.outcomes += 1;
        }
        return Ok(Some(rows + 1));
    }
    if let Some(before) = cutoffs.events_before
        && let Some(no) = next_expired(tx, &[EVENTS, OUTCOMES | EVENTS], before.as_ms())?
    {
        let rows = erase_events(tx, no)?;
        if rows == 0 {
            clear_kept_flag(tx, no, EVENTS)?;
            deleted.events += 1;
        }
        return Ok(Some(rows + 1));
    }
    if let Some(before) = cutoffs.anonymous_before
        && inbound::remove_expired(tx, before, cutoffs.at)?
    {
        deleted.anonymous_devices += 1;
        return Ok(Some(ROWS_OF_A_DEVICE));
    }
    if let Some((app, before)) = cutoffs.anonymous_surplus
        && inbound::remove_surplus(tx, app, before, cutoffs.at)?
    {
        deleted.anonymous_devices += 1;
        return Ok(Some(ROWS_OF_A_DEVICE));
    }
    Ok(None)
}

/// The oldest notification that ended before `before` and has one of these values of `kept`.
fn next_expired(
    tx: &Connection,
    kept_values: &[i64],
    before: i64,
) -> Result<Option<i64>, StoreError> {
    for kept in kept_values {
        let no = tx
            .prepare_cached(
                "select no from notifications indexed by notifications_ended
                 where status in ('completed', 'canceled', 'reported') and kept = ?1
                 and coalesce(completed_at, created_at) < ?2
                 order by coalesce(completed_at, created_at) limit 1",
            )?
            .query_row([*kept, before], |row| row.get(0))
            .optional()?;
        if no.is_some() {
            return Ok(no);
        }
    }
    Ok(None)
}

/// Clears a bit of `notifications.kept`, since the data of this kind is deleted.
fn clear_kept_flag(tx: &Connection, no: i64, bit: i64) -> Result<(), StoreError> {
    tx.prepare_cached("update notifications set kept = kept & ~?2 where no = ?1")?
        .execute([no, bit])?;
    Ok(())
}

/// Deletes at most [`RETENTION_ROWS_MAX`] engagement events of a notification. Returns their
/// number.
fn erase_events(tx: &Connection, no: i64) -> Result<u64, StoreError> {
    let rows = tx
        .prepare_cached(
            "delete from engagement where notification_no = ?1 and device_key <=
             (select max(device_key) from (select device_key from engagement
              where notification_no = ?1 order by device_key limit ?2) first)",
        )?
        .execute([no, i64::try_from(RETENTION_ROWS_MAX).unwrap_or(i64::MAX)])?;
    Ok(rows as u64)
}
