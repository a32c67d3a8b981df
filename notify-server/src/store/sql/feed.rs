//! Feeds (B30).

pub(super) mod fetch;

use async_trait::async_trait;
use notify_core::{Feed, FeedCreated, FeedId, FeedStatus, NewFeed, Timestamp};

use super::SqlStore;
use super::cursor::{Filling, Listing, rows_wanted};
use super::error::inserted;
use super::row::{count_at, live_app, unknown_value, uuid_at};
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, Change, Done, FEEDS_MAX, FeedClaim, FeedFetch, FeedNo, FeedStore, Once, Page,
    PageRequest, StoreError,
};

/// A feed that fails and is not due within that time is fetched at once when it is made again, in
/// milliseconds. Above the time that a fetch may take: one that is under way ends.
const SOON_MS: i64 = 120_000;

#[async_trait]
impl FeedStore for SqlStore {
    async fn create_feed(
        &self,
        app: AppNo,
        id: FeedId,
        feed: NewFeed,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<FeedCreated>, StoreError> {
        self.write_once(app, once, move |tx| {
            live_app(tx, app)?;
            let (_, id) = make(tx, app, (id, &feed), "url", at)?;
            tx.changed(Change::FeedDue);
            Ok(FeedCreated { id })
        })
        .await
    }

    async fn list_feeds(&self, app: AppNo, page: PageRequest) -> Result<Page<Feed>, StoreError> {
        self.read(move |connection| {
            live_app(connection, app)?;
            let listing = Listing { name: "feeds", of: app.0 };
            let before = listing.number(&page)?.unwrap_or(i64::MAX);
            let rows = connection
                .prepare_cached(
                    "select no, id, name, url, status, items, last_fetched_at, last_error,
                     created_at from feeds where app_no = ?1 and no < ?2 order by no desc limit ?3",
                )?
                .query_map([app.0, before, rows_wanted(&page)], feed_of)?
                .collect::<Result<Vec<_>, _>>()?;
            let mut filling = Filling::new(&page);
            for (no, feed) in rows {
                if filling.wanted() > 0 {
                    filling.add(no, feed)?;
                }
            }
            Ok(filling.page(listing))
        })
        .await
    }

    async fn delete_feed(&self, app: AppNo, id: FeedId) -> Result<(), StoreError> {
        self.write(move |tx| {
            live_app(tx, app)?;
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

    async fn next_feed_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(fetch::next_due).await
    }

    async fn claim_feeds(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<FeedClaim>, StoreError> {
        self.write(move |tx| fetch::claim(tx, now, until, limit)).await
    }

    async fn finish_feed(
        &self,
        feed: FeedNo,
        claim: i64,
        fetch: FeedFetch,
    ) -> Result<(), StoreError> {
        self.write(move |tx| {
            if let Some(app) = fetch::finish(tx, (feed, claim), &fetch)? {
                tx.changed(Change::FeedChanged(app));
            }
            Ok(())
        })
        .await
    }
}

/// Makes a feed, or finds the one that has its url; its number and id. `path` is where a request names
/// its url.
pub(super) fn make(
    tx: &Connection,
    app: AppNo,
    (id, feed): (FeedId, &NewFeed),
    path: &str,
    at: Timestamp,
) -> Result<(i64, FeedId), StoreError> {
    let known = tx
        .prepare_cached("select no, id from feeds where app_no = ?1 and url = ?2")?
        .query_row(params![app.0, feed.url], |row| Ok((row.get(0)?, FeedId(uuid_at(row, 1)?))))
        .optional()?;
    if let Some(known) = known {
        tx.prepare_cached(
            "update feeds set next_fetch_at = ?2 where no = ?1
             and (next_fetch_at is null or (status = 'failing' and next_fetch_at > ?3))",
        )?
        .execute(params![known.0, at.as_ms(), at.as_ms() + SOON_MS])?;
        return Ok(known);
    }
    let there: u64 = tx
        .prepare_cached("select count(*) from feeds where app_no = ?1")?
        .query_row([app.0], |row| count_at(row, 0))?;
    if there >= FEEDS_MAX {
        let what = format!("an application has at most {FEEDS_MAX} feeds");
        return Err(StoreError::refused(path, &what));
    }
    let no = tx
        .prepare_insert(
            "insert into feeds (no, app_no, id, url, name, created_at, next_fetch_at)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?6)",
        )?
        .row(app, params![app.0, id.0.as_bytes(), feed.url, feed.name, at.as_ms()])?;
    Ok((inserted(no)?, id))
}

/// The number of a feed of the application.
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

fn feed_of(row: &Row<'_>) -> sql::Result<(i64, Feed)> {
    let status: String = row.get(4)?;
    let feed = Feed {
        id: FeedId(uuid_at(row, 1)?),
        name: row.get(2)?,
        url: row.get(3)?,
        status: FeedStatus::from_word(&status).ok_or_else(|| unknown_value(4, Type::Text))?,
        items: count_at(row, 5)?,
        last_fetched_at: row.get::<Option<i64>>(6)?.map(Timestamp),
        last_error: row.get(7)?,
        created_at: Timestamp(row.get(8)?),
    };
    Ok((row.get(0)?, feed))
}
