//! Feeds.

use serde::{Deserialize, Serialize};

use crate::json::{Body, Object};
use crate::request::request;
use crate::rules::LISTED_NAME_CHARS_MAX;
use crate::violations::{Findings, path};
use crate::{FeedId, Timestamp};

/// Body of `POST /v1/feeds`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CreateFeed {
    /// Url of an RSS, Atom or JSON feed.
    pub url: String,
    /// Name.
    pub name: String,
}

/// A feed that holds every rule: the validated form of [`CreateFeed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFeed {
    /// Absolute `http` or `https` url.
    pub url: String,
    /// Name, not empty.
    pub name: String,
}

/// Health of a feed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum FeedStatus {
    /// Not fetched yet.
    Pending,
    /// The last fetch went well.
    Ok,
    /// The last fetch failed.
    Failing,
}

impl FeedStatus {
    /// Every status.
    pub const ALL: [Self; 3] = [Self::Pending, Self::Ok, Self::Failing];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Ok => "ok",
            Self::Failing => "failing",
        }
    }

    /// The status of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|status| status.as_str() == word)
    }
}

/// A feed as listed by `GET /v1/feeds`.
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
    /// How many items are held.
    pub items: u64,
    /// Last fetch, unix ms.
    pub last_fetched_at: Option<Timestamp>,
    /// Why the last fetch failed.
    pub last_error: Option<String>,
    /// Creation.
    pub created_at: Timestamp,
}

/// Answer of `GET /v1/feeds`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedList {
    /// One page, newest first.
    pub feeds: Vec<Feed>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Answer of `POST /v1/feeds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCreated {
    /// Its id.
    pub id: FeedId,
}

/// Body of `POST /v1/feeds/check`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckFeed {
    /// Url of an RSS, Atom or JSON feed.
    pub url: String,
}

/// A check that holds every rule: the validated form of [`CheckFeed`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeedToCheck {
    /// Absolute `http` or `https` url.
    pub url: String,
}

/// Answer of `POST /v1/feeds/check`: what would be taken from a url.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCheck {
    /// What the feed's status would be: `ok` or `failing`.
    pub status: FeedStatus,
    /// How many items would be held.
    pub count: u64,
    /// The newest of them, at most 20.
    pub items: Vec<FeedCheckItem>,
    /// What is wrong: why it could not be read, or what was left out.
    pub problems: Vec<String>,
}

/// An item of a [`FeedCheck`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FeedCheckItem {
    /// Title.
    pub title: String,
    /// Link.
    pub url: String,
    /// Thumbnail.
    pub image_url: Option<String>,
    /// Publication, unix ms.
    pub published_at: Option<Timestamp>,
}

request!(CheckFeed => FeedToCheck, Body::Required, read_check, check_check);

fn read_check(object: &mut Object<'_, '_>) -> CheckFeed {
    CheckFeed { url: object.required_string("url") }
}

fn check_check(
    request: CheckFeed,
    _now: Timestamp,
    findings: &mut Findings,
) -> Option<FeedToCheck> {
    let url = findings.required_http_url(&path("url"), request.url);
    Some(FeedToCheck { url })
}

request!(CreateFeed => NewFeed, Body::Required, read, check);

fn read(object: &mut Object<'_, '_>) -> CreateFeed {
    CreateFeed { url: object.required_string("url"), name: object.required_string("name") }
}

fn check(request: CreateFeed, _now: Timestamp, findings: &mut Findings) -> Option<NewFeed> {
    let url = findings.required_http_url(&path("url"), request.url);
    let name = findings.required_up_to(&path("name"), request.name, LISTED_NAME_CHARS_MAX);
    Some(NewFeed { url, name })
}
