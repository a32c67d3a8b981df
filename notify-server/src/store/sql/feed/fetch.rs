//! When feeds are fetched, and what fetches gave.

use notify_core::Timestamp;

use crate::store::sql::{self, Connection, OptionalExtension, Row, count_of, params};
use crate::store::{
    AppNo, FeedClaim, FeedFetch, FeedItemRow, FeedItems, FeedNo, Moved, StoreError, Validators,
};

/// The earliest time at which a feed is due.
pub(super) fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let next = connection
        .prepare_cached(
            "select f.next_fetch_at from feeds f indexed by feeds_due join apps a on a.no = f.app_no
             where f.next_fetch_at is not null and a.status = 'active'
             order by f.next_fetch_at limit 1",
        )?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    Ok(next)
}

pub(super) fn claim(
    tx: &Connection,
    now: Timestamp,
    until: Timestamp,
    limit: usize,
) -> Result<Vec<FeedClaim>, StoreError> {
    let claims = tx
        .prepare_cached(concat!(
            "select f.no, f.claims + 1, f.url, f.etag, f.last_modified, f.ttl_minutes, f.failures,
             f.moved_to, f.moved_times
             from feeds f indexed by feeds_due join apps a on a.no = f.app_no
             where f.next_fetch_at <= ?1 and a.status = 'active'
             order by f.next_fetch_at, ",
            count_of!("f.no"),
            " limit ?2"
        ))?
        .query_map(params![now.as_ms(), i64::try_from(limit).unwrap_or(i64::MAX)], claim_of)?
        .collect::<Result<Vec<_>, _>>()?;
    for claim in &claims {
        tx.prepare_cached("update feeds set next_fetch_at = ?2, claims = ?3 where no = ?1")?
            .execute(params![claim.feed.0, until.as_ms(), claim.claim])?;
    }
    Ok(claims)
}

fn claim_of(row: &Row<'_>) -> sql::Result<FeedClaim> {
    let moved_to: Option<String> = row.get(7)?;
    let times = row.get(8)?;
    Ok(FeedClaim {
        feed: FeedNo(row.get(0)?),
        claim: row.get(1)?,
        url: row.get(2)?,
        validators: Validators { etag: row.get(3)?, last_modified: row.get(4)? },
        ttl_minutes: row.get(5)?,
        failures: row.get(6)?,
        moved: moved_to.map(|to| Moved { to, times }),
    })
}

/// Writes how a fetch ended; the application when its items changed.
pub(super) fn finish(
    tx: &Connection,
    (feed, claim): (FeedNo, i64),
    fetch: &FeedFetch,
) -> Result<Option<AppNo>, StoreError> {
    let (app, digest) = tx
        .prepare_cached("select app_no, items_digest from feeds where no = ?1 and claims = ?2")?
        .query_row([feed.0, claim], |row| {
            Ok((row.get(0).map(AppNo)?, row.get::<Option<Vec<u8>>>(1)?))
        })
        .optional()?
        .ok_or(StoreError::NotFound)?;
    tx.prepare_cached(
        "update feeds set status = ?2, last_fetched_at = ?3, next_fetch_at = ?4, last_error = ?5,
         failures = ?6, moved_to = ?7, moved_times = ?8 where no = ?1",
    )?
    .execute(params![
        feed.0,
        if fetch.error.is_some() { "failing" } else { "ok" },
        fetch.at.as_ms(),
        fetch.next_at.map(Timestamp::as_ms),
        fetch.error,
        fetch.failures,
        fetch.moved.as_ref().map(|moved| &moved.to),
        fetch.moved.as_ref().map_or(0, |moved| moved.times),
    ])?;
    if let Some(url) = &fetch.url {
        move_to(tx, (app, feed), url)?;
    }
    let Some(items) = &fetch.items else { return Ok(None) };
    tx.prepare_cached(
        "update feeds set etag = ?2, last_modified = ?3, ttl_minutes = ?4 where no = ?1",
    )?
    .execute(params![
        feed.0,
        items.validators.etag,
        items.validators.last_modified,
        items.ttl_minutes
    ])?;
    if digest.as_deref() == Some(&items.digest[..]) {
        return Ok(None);
    }
    keep(tx, feed, items)?;
    Ok(Some(app))
}

fn move_to(tx: &Connection, (app, feed): (AppNo, FeedNo), url: &str) -> Result<(), StoreError> {
    let is_taken = tx
        .prepare_cached("select 1 from feeds where app_no = ?1 and url = ?2")?
        .exists(params![app.0, url])?;
    if !is_taken {
        tx.prepare_cached("update feeds set url = ?2 where no = ?1")?
            .execute(params![feed.0, url])?;
    }
    Ok(())
}

fn keep(tx: &Connection, feed: FeedNo, items: &FeedItems) -> Result<(), StoreError> {
    tx.prepare_cached("delete from feed_items where feed_no = ?1")?.execute([feed.0])?;
    let mut insert = tx.prepare_cached(
        "insert into feed_items (feed_no, place, title, url, image_url, published_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (place, item) in (0_i64..).zip(&items.rows) {
        let published_at = item.published_at.map(Timestamp::as_ms);
        insert.execute(params![
            feed.0,
            place,
            item.title,
            item.url,
            item.image_url,
            published_at
        ])?;
    }
    let count = i64::try_from(items.rows.len()).unwrap_or(i64::MAX);
    tx.prepare_cached("update feeds set items = ?2, items_digest = ?3 where no = ?1")?
        .execute(params![feed.0, count, items.digest])?;
    Ok(())
}

/// The newest items of a feed.
pub(in crate::store::sql) fn items_of(
    connection: &Connection,
    feed: i64,
    limit: usize,
) -> Result<Vec<FeedItemRow>, StoreError> {
    let rows = connection
        .prepare_cached(
            "select title, url, image_url, published_at from feed_items
             where feed_no = ?1 order by place limit ?2",
        )?
        .query_map(params![feed, i64::try_from(limit).unwrap_or(i64::MAX)], |row| {
            Ok(FeedItemRow {
                title: row.get(0)?,
                url: row.get(1)?,
                image_url: row.get(2)?,
                published_at: row.get::<Option<i64>>(3)?.map(Timestamp),
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(rows)
}
