//! Erasing an application with everything it owns, in steps that each write a bounded number of
//! rows, so that others' writes come in between.

use notify_core::Platform;

use crate::failpoint::{self, Stage};
use crate::store::sql::{Connection, OptionalExtension, begin_work, params};
use crate::store::{AppNo, DeviceKey, SEQUENCE_MAX, StoreError};

/// Most rows of one table that a step deletes.
const ROWS_PER_STEP: i64 = 1_000;
/// Most pages that a step deletes; each may have as many retries and a few chunks of outcomes.
const PAGES_PER_STEP: i64 = 10;

/// Goes on with what a stopped process left half erased.
pub(in crate::store) fn resume_erasing(connection: &Connection) -> Result<(), StoreError> {
    loop {
        let app = connection
            .prepare_cached("select no from apps where status = 'erasing' limit 1")?
            .query_row([], |row| row.get(0).map(AppNo))
            .optional()?;
        let Some(app) = app else { return Ok(()) };
        let mut more = true;
        while more {
            begin_work(connection)?;
            more = step(connection, app)?;
            failpoint::reach("resume_erasing", Stage::Written);
            connection.commit()?;
            failpoint::reach("resume_erasing", Stage::Committed);
        }
    }
}

/// Deletes the next rows of an application; false once it is gone.
pub(super) fn step(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let notification = tx
        .prepare_cached("select no from notifications where app_no = ?1 order by no limit 1")?
        .query_row([app.0], |row| row.get::<i64>(0))
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
    if erase_answers(tx, app)? || erase_told(tx, app)? || erase_feed_items(tx, app)? {
        return Ok(true);
    }
    for sql in [
        "delete from tags where app_no = ?1",
        "delete from device_counts where app_no = ?1",
        "delete from day_counts where app_no = ?1",
        "delete from purge_guards where app_no = ?1",
        "delete from channel_states where app_no = ?1",
        "delete from device_zones where app_no = ?1",
        "delete from campaigns where app_no = ?1",
        "delete from feeds where app_no = ?1",
        "delete from webhooks where app_no = ?1",
        "delete from event_logs where app_no = ?1",
        "delete from providers where app_no = ?1",
        "delete from web_access where app_no = ?1",
        "delete from api_keys where app_no = ?1",
        "delete from apps where no = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([app.0])?;
    }
    Ok(false)
}

/// Deletes a notification, or some of what hangs on it when that is much. Answers how many rows
/// went, and whether the notification was among them.
pub(crate) fn erase_notification(tx: &Connection, no: i64) -> Result<(u64, bool), StoreError> {
    // Ranges of the key, so that a step looks at no row that it leaves.
    for sql in [
        "delete from engagement where notification_no = ?1 and device_key <=
         (select max(device_key) from (select device_key from engagement
          where notification_no = ?1 order by device_key limit ?2) first)",
        "delete from poll_votes where notification_no = ?1 and device_key <=
         (select max(device_key) from (select device_key from poll_votes
          where notification_no = ?1 order by device_key limit ?2) first)",
        "delete from poll_visitors where notification_no = ?1 and visitor in
         (select visitor from poll_visitors
          where notification_no = ?1 order by visitor limit ?2)",
    ] {
        let rows = tx.prepare_cached(sql)?.execute([no, ROWS_PER_STEP])?;
        if rows > 0 {
            return Ok((rows as u64, false));
        }
    }
    let rows = erase_pages(tx, no)?;
    if rows > 0 {
        return Ok((rows, false));
    }
    let mut rows = 0;
    for sql in [
        "delete from failures where dispatch_no in
         (select no from dispatches where notification_no = ?1)",
        "delete from dispatches where notification_no = ?1",
        "delete from engagement_counts where notification_no = ?1",
        "delete from poll_answers where notification_no = ?1",
        "delete from polls where notification_no = ?1",
        "delete from notifications where no = ?1",
    ] {
        rows += tx.prepare_cached(sql)?.execute([no])?;
    }
    Ok((rows as u64, true))
}

/// Deletes some pages of a notification with their outcomes and retries; how many rows went.
pub(crate) fn erase_pages(tx: &Connection, notification: i64) -> Result<u64, StoreError> {
    let pages = tx
        .prepare_cached(
            "select p.no from dispatches d cross join pages p
             where d.notification_no = ?1 and p.dispatch_no = d.no limit ?2",
        )?
        .query_map([notification, PAGES_PER_STEP], |row| row.get::<i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = 0;
    for page in &pages {
        for sql in [
            "delete from retries where page_no = ?1",
            "delete from outcomes where page_no = ?1",
            "delete from pages where no = ?1",
        ] {
            rows += tx.prepare_cached(sql)?.execute([page])?;
        }
    }
    Ok(rows as u64)
}

/// Deletes some answers kept for replay; whether there were any.
fn erase_answers(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let answers = tx
        .prepare_cached(
            "select path, key from idempotency where app_no = ?1 order by path, key limit ?2",
        )?
        .query_map([app.0, ROWS_PER_STEP], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(String, String)>, _>>()?;
    for (path, key) in &answers {
        tx.prepare_cached("delete from idempotency where app_no = ?1 and path = ?2 and key = ?3")?
            .execute(params![app.0, path, key])?;
    }
    Ok(!answers.is_empty())
}

/// Deletes some events, or some messages of webhooks; whether there were any.
fn erase_told(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    for sql in [
        "delete from events where app_no = ?1 and no <=
         (select max(no) from (select no from events where app_no = ?1 order by no limit ?2) first)",
        "delete from webhook_messages where no in
         (select m.no from webhooks w cross join webhook_messages m
          where w.app_no = ?1 and m.webhook_no = w.no limit ?2)",
    ] {
        if tx.prepare_cached(sql)?.execute([app.0, ROWS_PER_STEP])? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the items of one feed, a few hundred; whether there were any.
fn erase_feed_items(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let feed = tx
        .prepare_cached("select no from feeds where app_no = ?1 and items > 0 limit 1")?
        .query_row([app.0], |row| row.get::<i64>(0))
        .optional()?;
    let Some(feed) = feed else { return Ok(false) };
    tx.prepare_cached("delete from feed_items where feed_no = ?1")?.execute([feed])?;
    tx.prepare_cached("update feeds set items = 0 where no = ?1")?.execute([feed])?;
    Ok(true)
}

/// Deletes some devices of a platform; whether there were any.
fn erase_devices(tx: &Connection, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
    let first = DeviceKey::before_first(app, platform).0;
    let end = DeviceKey::new(app, platform, SEQUENCE_MAX).0;
    let keys = tx
        .prepare_cached(
            "select key from devices where key > ?1 and key <= ?2 order by key limit ?3",
        )?
        .query_map([first, end, ROWS_PER_STEP], |row| row.get::<i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for key in &keys {
        for sql in [
            "delete from device_tags where device_key = ?1",
            "delete from device_seen where key = ?1",
            "delete from device_secrets where device_key = ?1",
            "delete from unverified_addresses where device_key = ?1",
            "delete from devices where key = ?1",
        ] {
            tx.prepare_cached(sql)?.execute([key])?;
        }
    }
    Ok(!keys.is_empty())
}
