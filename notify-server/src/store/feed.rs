//! Feeds (B30), and when they are fetched.

use async_trait::async_trait;
use notify_core::{Feed, FeedCreated, FeedId, NewFeed, Timestamp};

use super::{AppNo, Done, Once, Page, PageRequest, StoreError};

/// Most feeds of an application: far more than campaigns can show.
pub const FEEDS_MAX: u64 = 1_000;

/// A feed's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeedNo(pub i64);

/// An item of a feed as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItemRow {
    /// Title.
    pub title: String,
    /// Link.
    pub url: String,
    /// Thumbnail.
    pub image_url: Option<String>,
    /// Publication.
    pub published_at: Option<Timestamp>,
}

/// What a conditional request names (RFC 9110 section 13.1), as the server gave it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validators {
    /// `ETag`.
    pub etag: Option<String>,
    /// `Last-Modified`.
    pub last_modified: Option<String>,
}

/// Where a feed was moved to for good, as its last answers said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// The address.
    pub to: String,
    /// How many answers in a row named it.
    pub times: u32,
}

/// A feed that is to be fetched now, by whoever claimed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedClaim {
    /// The feed.
    pub feed: FeedNo,
    /// Which of its fetches this is.
    pub claim: i64,
    /// Where it is.
    pub url: String,
    /// What was said of the last good answer.
    pub validators: Validators,
    /// How long it says that it may be kept, in minutes.
    pub ttl_minutes: Option<u32>,
    /// Fetches in a row that failed before this one.
    pub failures: u32,
    /// Where it was moved to, by the answers until now.
    pub moved: Option<Moved>,
}

/// The items of a feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedItems {
    /// Newest first.
    pub rows: Vec<FeedItemRow>,
    /// Digest over them: equal ones are not written again.
    pub digest: [u8; 32],
    /// What to name in the next request.
    pub validators: Validators,
    /// How long the feed says that it may be kept, in minutes.
    pub ttl_minutes: Option<u32>,
}

/// How a fetch ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedFetch {
    /// When.
    pub at: Timestamp,
    /// When it is to be fetched next; `None` for never.
    pub next_at: Option<Timestamp>,
    /// Why it failed; `None` when it went well.
    pub error: Option<String>,
    /// Fetches in a row that failed, this one included.
    pub failures: u32,
    /// What it holds now; `None` where it did not change, or was not read: what there is stays.
    pub items: Option<FeedItems>,
    /// Where it was moved to, by the answers until now.
    pub moved: Option<Moved>,
    /// Its address from now on, where that changes. Not taken when another feed of the application
    /// has it.
    pub url: Option<String>,
}

/// Feeds.
#[async_trait]
pub trait FeedStore {
    /// Makes a feed that is due at once, or answers the one that has the url already; one that is not
    /// fetched any more is due again. At most [`FEEDS_MAX`] of an application.
    async fn create_feed(
        &self,
        app: AppNo,
        id: FeedId,
        feed: NewFeed,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<FeedCreated>, StoreError>;

    /// Lists feeds, newest first.
    async fn list_feeds(&self, app: AppNo, page: PageRequest) -> Result<Page<Feed>, StoreError>;

    /// Deletes a feed that no campaign uses; refused with the path `id` otherwise.
    async fn delete_feed(&self, app: AppNo, id: FeedId) -> Result<(), StoreError>;

    /// When the next feed of an active application is due; `None` when none ever is.
    async fn next_feed_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Claims feeds of active applications that are due, the longest waiting first, at most
    /// `limit`. Nobody else gets them before `until`; then they are due again.
    async fn claim_feeds(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<FeedClaim>, StoreError>;

    /// Writes how a fetch ended. [`StoreError::NotFound`] when the feed is gone, or was claimed
    /// again since: then nothing is written.
    async fn finish_feed(
        &self,
        feed: FeedNo,
        claim: i64,
        fetch: FeedFetch,
    ) -> Result<(), StoreError>;
}
