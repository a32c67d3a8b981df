//! Feeds.

use serde::{Deserialize, Serialize};

use crate::address::without_secrets;
use crate::field::{HttpUrl, Visible};
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::LISTED_NAME_CHARS_MAX;
use crate::wire_enum::wire_enum;
use crate::{FeedId, Timestamp};

model! {
    /// Body of `POST /v1/feeds`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CreateFeed => #[derive(Debug, Clone, PartialEq, Eq)] pub NewFeed {
        /// Url of an RSS, Atom or JSON feed.
        pub url: String as HttpUrl,
        /// Name.
        pub name: String as Visible<LISTED_NAME_CHARS_MAX>,
    }
}

request!(CreateFeed => NewFeed, BodyPresence::Required);

wire_enum! {
    /// Health of a feed.
    pub enum FeedStatus {
        /// Not fetched yet.
        Pending = "pending",
        /// The last fetch succeeded.
        Ok = "ok",
        /// The last fetch failed.
        Failing = "failing",
    }
}

/// A feed in the answer of `GET /v1/feeds`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Feed {
    /// Id.
    pub id: FeedId,
    /// Name.
    pub name: String,
    /// Url.
    pub url: String,
    /// Health.
    pub status: FeedStatus,
    /// Number of stored items.
    pub items: u64,
    /// Time of the last fetch, unix ms.
    pub last_fetched_at: Option<Timestamp>,
    /// Why the last fetch failed.
    pub last_error: Option<String>,
    /// Time of creation, unix ms.
    pub created_at: Timestamp,
}

impl Feed {
    /// The feed without the secrets in its url, for a reader who may not have them.
    #[must_use]
    pub fn without_secrets(self) -> Self {
        Self { url: without_secrets(&self.url), ..self }
    }
}

/// Answer of `GET /v1/feeds`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedList {
    /// One page, newest first.
    pub feeds: Vec<Feed>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/feeds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCreated {
    /// Id of the feed.
    pub id: FeedId,
}

model! {
    /// Body of `POST /v1/feeds/check`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CheckFeed => #[derive(Debug, Clone, PartialEq, Eq)] pub FeedToCheck {
        /// Url of an RSS, Atom or JSON feed.
        pub url: String as HttpUrl,
    }
}

request!(CheckFeed => FeedToCheck, BodyPresence::Required);

/// Answer of `POST /v1/feeds/check`: the items that a feed with this url would have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCheck {
    /// The status that the feed would have: `ok` or `failing`.
    pub status: FeedStatus,
    /// Number of items that would be stored.
    pub count: u64,
    /// The newest of these items, at most 20.
    pub items: Vec<FeedCheckItem>,
    /// Why the feed could not be read, or which parts of it were left out.
    pub problems: Vec<String>,
}

/// An item of a [`FeedCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCheckItem {
    /// Title.
    pub title: String,
    /// Url of the article.
    pub url: String,
    /// Url of the thumbnail.
    pub image_url: Option<String>,
    /// Time of publication, unix ms.
    pub published_at: Option<Timestamp>,
}
