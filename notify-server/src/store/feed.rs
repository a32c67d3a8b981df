//! Feeds (B30).

use async_trait::async_trait;
use notify_core::{Feed, FeedCreated, FeedId, NewFeed, Timestamp};

use super::{AppNo, Done, Once, Page, PageRequest, StoreError};

/// Feeds.
#[async_trait]
pub trait FeedStore {
    /// Makes a feed, or answers the one that has the url already.
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
}
