//! Feeds, their items, and the schedule of their fetches.

use std::collections::HashMap;

use notify_core::{Feed, FeedCreated, FeedId, NewFeed, Timestamp};

use crate::store::page::{CursorCodec, PageBuilder, rows_wanted};
use crate::store::sql::error::inserted;
use crate::store::sql::row::{count_at, require_app, unexpected_value, uuid_at};
use crate::store::sql::{
    self, Connection, OptionalExtension, Row, Type, WriteScope, params, seq_of,
};
use crate::store::{
    AppNo, EnrichmentChange, Idempotent, IdempotentRequest, Operation, Page, PageRequest, Store,
    StoreError,
};

/// The most feeds of an application, far more than campaigns can show.
pub const FEEDS_MAX: u64 = 1_000;

/// The number of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedNo(pub i64);

/// A stored item of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItemRow {
    /// The title.
    pub title: String,
    /// The link.
    pub url: String,
    /// The URL of the thumbnail.
    pub image_url: Option<String>,
    /// When the item was published.
    pub published_at: Option<Timestamp>,
}

/// Validators of a conditional request (RFC 9110 section 13.1), as the server sent them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
}

/// The target of a permanent redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The URL that it redirects to.
    pub to: String,
    /// The number of consecutive responses with this redirect.
    pub times: u32,
}

/// A feed that is claimed to be fetched now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedClaim {
    /// The feed.
    pub feed: FeedNo,
    /// The number of this claim of the feed.
    pub claim: i64,
    /// The URL of the feed.
    pub url: String,
    /// The validators of the last successful response.
    pub validators: Validators,
    /// The cache lifetime that the feed states, in minutes.
    pub ttl_minutes: Option<u32>,
    /// Consecutive failures before this fetch.
    pub failures: u32,
    /// The redirect seen so far.
    pub moved: Option<Moved>,
}

/// The items of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItems {
    /// The items, newest first.
    pub rows: Vec<FeedItemRow>,
    /// The digest of the items. Items with the stored digest are not written again.
    pub digest: [u8; 32],
    /// Validators for the next request.
    pub validators: Validators,
    /// The cache lifetime that the feed states, in minutes.
    pub ttl_minutes: Option<u32>,
}

/// The result of a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedFetch {
    /// When the feed was fetched.
    pub at: Timestamp,
    /// When to fetch the feed next; `None` for never.
    pub next_at: Option<Timestamp>,
    /// Why it failed; `None` on success.
    pub error: Option<String>,
    /// Consecutive failures, including this one.
    pub failures: u32,
    /// The items. `None` keeps the stored items, because they did not change or the fetch failed.
    pub items: Option<FeedItems>,
    /// The redirect seen so far.
    pub moved: Option<Moved>,
    /// The new URL of the feed, if it changes. It is ignored if another feed of the application has
    /// this URL.
    pub url: Option<String>,
}

/// A request that creates a failing feed again makes it due at once, unless it is due within this
/// time anyway, in milliseconds. The time is longer than a fetch may take: a feed that is being
/// fetched is due within it, so its fetch is not repeated.
const SOON_MS: i64 = 120_000;

impl Store {
    /// Creates a feed, which is due at once, or returns the existing feed with this URL. An
    /// existing feed that is no longer fetched becomes due again. An application has at most
    /// [`FEEDS_MAX`] feeds.
    pub async fn create_feed(
        &self,
        app: AppNo,
        id: FeedId,
        feed: NewFeed,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<FeedCreated>, StoreError> {
        self.write_once(Operation::CreateFeed, app, once, move |tx| {
            require_app(tx, app)?;
            let (_, id) = find_or_create(tx, app, id, &feed, "url", at)?;
            tx.changed(EnrichmentChange::FeedDue);
            Ok(FeedCreated { id })
        })
        .await
    }

    /// Lists feeds, newest first.
    pub async fn list_feeds(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<Feed>, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            let cursors = CursorCodec { list: "feeds", owner: app.0 };
            let before = cursors.decode_number(&page)?.unwrap_or(i64::MAX);
            let rows = connection
                .prepare_cached(
                    "select no, id, name, url, status, items, last_fetched_at, last_error,
                     created_at from feeds where app_no = ?1 and no < ?2 order by no desc limit ?3",
                )?
                .query_map([app.0, before, rows_wanted(&page)], feed_of)?
                .collect::<Result<Vec<_>, _>>()?;
            let mut builder = PageBuilder::new(&page);
            for (no, feed) in rows {
                if builder.rows_wanted() > 0 {
                    builder.add(no, feed)?;
                }
            }
            Ok(builder.page(cursors))
        })
        .await
    }

    /// Deletes a feed. A feed that a campaign uses is refused with the path `id`.
    pub async fn delete_feed(&self, app: AppNo, id: FeedId) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteFeed, move |tx| {
            require_app(tx, app)?;
            let no = number_of(tx, app, id)?.ok_or(StoreError::NotFound)?;
            let used = tx
                .prepare_cached("select 1 from campaign_feeds where feed_no = ?1")?
                .exists([no])?;
            if used {
                return Err(StoreError::refused("id", "is used by a campaign"));
            }
            tx.prepare_cached("delete from feeds where no = ?1")?.execute([no])?;
            Ok(())
        })
        .await
    }

    /// Reads when the next feed of an active application is due; `None` if no feed will ever be
    /// due.
    pub async fn next_feed_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(next_due).await
    }

    /// Claims at most `limit` due feeds of active applications, longest due first. A claimed feed
    /// cannot be claimed again before `until`.
    pub async fn claim_feeds(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<FeedClaim>, StoreError> {
        self.write(Operation::ClaimFeeds, move |tx| claim(tx, now, until, limit)).await
    }

    /// Writes the result of a fetch. Fails with [`StoreError::NotFound`], and writes nothing, if
    /// the feed was deleted or claimed again.
    pub async fn finish_feed(
        &self,
        feed: FeedNo,
        claim: i64,
        fetch: FeedFetch,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::key(feed.0), Operation::FinishFeed, move |tx| {
            if let Some(app) = finish(tx, feed, claim, &fetch)? {
                tx.changed(EnrichmentChange::FeedItems(app));
            }
            Ok(())
        })
        .await
    }
}

/// Finds the feed with a URL, or creates it with the given id. Returns its number and id. `path` is
/// the path of the URL in the request, for an error.
pub(super) fn find_or_create(
    tx: &Connection,
    app: AppNo,
    id: FeedId,
    feed: &NewFeed,
    path: &str,
    at: Timestamp,
) -> Result<(i64, FeedId), StoreError> {
    let existing = tx
        .prepare_cached("select no, id from feeds where app_no = ?1 and url = ?2")?
        .query_row(params![app.0, feed.url], |row| Ok((row.get(0)?, FeedId(uuid_at(row, 1)?))))
        .optional()?;
    if let Some(existing) = existing {
        tx.prepare_cached(
            "update feeds set next_fetch_at = ?2 where no = ?1
             and (next_fetch_at is null or (status = 'failing' and next_fetch_at > ?3))",
        )?
        .execute(params![existing.0, at.as_ms(), at.as_ms() + SOON_MS])?;
        return Ok(existing);
    }
    let feeds: u64 = tx
        .prepare_cached("select count(*) from feeds where app_no = ?1")?
        .query_row([app.0], |row| count_at(row, 0))?;
    if feeds >= FEEDS_MAX {
        let what = format!("an application has at most {FEEDS_MAX} feeds");
        return Err(StoreError::refused(path, &what));
    }
    let no = tx
        .prepare_insert(
            "insert into feeds (no, app_no, id, url, name, created_at, next_fetch_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .insert(app, params![app.0, id.0.as_bytes(), feed.url, feed.name, at.as_ms()])?;
    Ok((inserted(no)?, id))
}

/// Reads the number of a feed by its id.
pub(super) fn number_of(
    tx: &Connection,
    app: AppNo,
    id: FeedId,
) -> Result<Option<i64>, StoreError> {
    let no = tx
        .prepare_cached("select no from feeds where app_no = ?1 and id = ?2")?
        .query_row(params![app.0, id.0.as_bytes()], |row| row.get(0))
        .optional()?;
    Ok(no)
}

/// Reads the number of a feed and the feed.
fn feed_of(row: &Row<'_>) -> sql::Result<(i64, Feed)> {
    let status: String = row.get(4)?;
    let feed = Feed {
        id: FeedId(uuid_at(row, 1)?),
        name: row.get(2)?,
        url: row.get(3)?,
        status: status.parse().map_err(|_| unexpected_value(4, Type::Text))?,
        items: count_at(row, 5)?,
        last_fetched_at: row.get::<Option<i64>>(6)?.map(Timestamp),
        last_error: row.get(7)?,
        created_at: Timestamp(row.get(8)?),
    };
    Ok((row.get(0)?, feed))
}

// Claiming due feeds and writing the results of fetches.

/// The earliest time at which a feed is due.
fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
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

/// Claims due feeds: their next fetch is then due at `until`.
fn claim(
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
            seq_of!("f.no"),
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

/// Writes the result of a fetch. Returns the application if the items changed.
fn finish(
    tx: &Connection,
    feed: FeedNo,
    claim: i64,
    fetch: &FeedFetch,
) -> Result<Option<AppNo>, StoreError> {
    let (app, stored_digest) = tx
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
        change_url(tx, app, feed, url)?;
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
    if stored_digest.as_deref() == Some(&items.digest[..]) {
        return Ok(None);
    }
    replace_items(tx, feed, items, fetch.at)?;
    Ok(Some(app))
}

/// Changes the URL of a feed, unless another feed of the application has this URL.
fn change_url(tx: &Connection, app: AppNo, feed: FeedNo, url: &str) -> Result<(), StoreError> {
    let is_in_use = tx
        .prepare_cached("select 1 from feeds where app_no = ?1 and url = ?2")?
        .exists(params![app.0, url])?;
    if !is_in_use {
        tx.prepare_cached("update feeds set url = ?2 where no = ?1")?
            .execute(params![feed.0, url])?;
    }
    Ok(())
}

/// Replaces the items of a feed. An item whose date is ahead of `now` counts as the time at which it was first
/// seen, so that it is not the newest one until that date.
fn replace_items(
    tx: &Connection,
    feed: FeedNo,
    items: &FeedItems,
    now: Timestamp,
) -> Result<(), StoreError> {
    let is_ahead = |at: Timestamp| at > now;
    let has_dates_ahead = items.rows.iter().any(|item| item.published_at.is_some_and(is_ahead));
    let seen = if has_dates_ahead { times_of(tx, feed)? } else { HashMap::new() };
    let time_of = |item: &FeedItemRow| match item.published_at {
        Some(at) if is_ahead(at) => {
            let seen_at = seen.get(&item.url).copied().flatten().unwrap_or(now);
            Some(seen_at.min(now))
        }
        at => at,
    };
    let mut rows: Vec<_> = items.rows.iter().map(|item| (time_of(item), item)).collect();
    if has_dates_ahead {
        rows.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    }
    tx.prepare_cached("delete from feed_items where feed_no = ?1")?.execute([feed.0])?;
    let mut insert = tx.prepare_cached(
        "insert into feed_items (feed_no, place, title, url, image_url, published_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?;
    for (place, (published_at, item)) in (0_i64..).zip(rows) {
        let published_at = published_at.map(Timestamp::as_ms);
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

/// The times of a feed's stored items, by their urls.
fn times_of(
    tx: &Connection,
    feed: FeedNo,
) -> Result<HashMap<String, Option<Timestamp>>, StoreError> {
    let times = tx
        .prepare_cached("select url, published_at from feed_items where feed_no = ?1")?
        .query_map([feed.0], |row| Ok((row.get(0)?, row.get::<Option<i64>>(1)?.map(Timestamp))))?
        .collect::<Result<_, _>>()?;
    Ok(times)
}

/// Reads the newest items of a feed.
pub(in crate::store) fn items_of(
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
