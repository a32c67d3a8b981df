//! Erasing an application with everything it owns, in steps that each write a bounded number of
//! rows, so that others' writes come in between.

use notify_core::Platform;
use rusqlite::{Connection, OptionalExtension, params};

use crate::store::{AppNo, DeviceKey, SEQUENCE_MAX, StoreError};

/// Most rows of one table that a step deletes.
const ROWS_PER_STEP: i64 = 1_000;

/// Goes on with what a stopped process left half erased.
pub(crate) fn resume_erasing(connection: &Connection) -> Result<(), StoreError> {
    loop {
        let app = connection
            .query_row("select no from apps where status = 'erasing' limit 1", [], |row| {
                row.get(0).map(AppNo)
            })
            .optional()?;
        let Some(app) = app else { return Ok(()) };
        let mut more = true;
        while more {
            connection.execute_batch("begin immediate")?;
            more = step(connection, app)?;
            connection.execute_batch("commit")?;
        }
    }
}

/// Deletes the next rows of an application; false once it is gone.
pub(super) fn step(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let notification = tx
        .prepare_cached("select no from notifications where app_no = ?1 order by no limit 1")?
        .query_row([app.0], |row| row.get::<_, i64>(0))
        .optional()?;
    if let Some(no) = notification {
        erase_notification(tx, no)?;
        return Ok(true);
    }
    for platform in Platform::ALL {
        if erase_devices(tx, app, platform)? {
            return Ok(true);
        }
    }
    let answers = tx
        .prepare_cached(
            "delete from idempotency where app_no = ?1 and (path, key) in
             (select path, key from idempotency where app_no = ?1 limit ?2)",
        )?
        .execute([app.0, ROWS_PER_STEP])?;
    if answers > 0 {
        return Ok(true);
    }
    for sql in [
        "delete from tags where app_no = ?1",
        "delete from device_counts where app_no = ?1",
        "delete from campaigns where app_no = ?1",
        "delete from feeds where app_no = ?1",
        "delete from providers where app_no = ?1",
        "delete from api_keys where app_no = ?1",
        "delete from apps where no = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([app.0])?;
    }
    Ok(false)
}

/// Deletes a notification, or some of what hangs on it when that is much.
fn erase_notification(tx: &Connection, no: i64) -> Result<(), StoreError> {
    for sql in [
        "delete from engagement where notification_no = ?1 and (device_key, type) in
         (select device_key, type from engagement where notification_no = ?1 limit ?2)",
        "delete from poll_votes where notification_no = ?1 and device_key in
         (select device_key from poll_votes where notification_no = ?1 limit ?2)",
        "delete from retries where no in (select r.no from dispatches d
         join pages p on p.dispatch_no = d.no join retries r on r.page_no = p.no
         where d.notification_no = ?1 limit ?2)",
        "delete from outcomes where (page_no, chunk_no) in (select o.page_no, o.chunk_no
         from dispatches d join pages p on p.dispatch_no = d.no join outcomes o on o.page_no = p.no
         where d.notification_no = ?1 limit ?2)",
        "delete from pages where no in (select p.no from dispatches d
         join pages p on p.dispatch_no = d.no where d.notification_no = ?1 limit ?2)",
        "delete from failures where (dispatch_no, reason) in (select f.dispatch_no, f.reason
         from dispatches d join failures f on f.dispatch_no = d.no
         where d.notification_no = ?1 limit ?2)",
    ] {
        let deleted = tx.prepare_cached(sql)?.execute(params![no, ROWS_PER_STEP])?;
        if i64::try_from(deleted).unwrap_or(i64::MAX) >= ROWS_PER_STEP {
            return Ok(());
        }
    }
    for sql in [
        "delete from dispatches where notification_no = ?1",
        "delete from engagement_counts where notification_no = ?1",
        "delete from poll_answers where notification_no = ?1",
        "delete from polls where notification_no = ?1",
        "delete from notifications where no = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([no])?;
    }
    Ok(())
}

/// Deletes some devices of a platform; whether there were any.
fn erase_devices(tx: &Connection, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
    let first = DeviceKey::before_first(app, platform).0;
    let end = DeviceKey::new(app, platform, SEQUENCE_MAX).0;
    let keys = tx
        .prepare_cached(
            "select key from devices where key > ?1 and key <= ?2 order by key limit ?3",
        )?
        .query_map([first, end, ROWS_PER_STEP], |row| row.get::<_, i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for key in &keys {
        for sql in [
            "delete from device_tags where device_key = ?1",
            "delete from device_seen where key = ?1",
            "delete from devices where key = ?1",
        ] {
            tx.prepare_cached(sql)?.execute([key])?;
        }
    }
    Ok(!keys.is_empty())
}
