//! Tags of devices (spec 2.9, B24).

use serde::{Deserialize, Serialize};

/// Longest tag name, in characters.
pub const TAG_NAME_CHARS_MAX: usize = 255;
/// Most tags that one request sets.
pub const TAGS_PER_REQUEST_MAX: usize = 100;

/// A tag of a device (spec 2.9).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tag {
    /// Unique within the application.
    pub name: String,
    /// Data type of the value; `bool` alone is supported.
    #[serde(rename = "type")]
    pub kind: TagType,
    /// The value.
    pub value: bool,
}

/// Data type of a tag (spec 2.9).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TagType {
    /// `true` or `false`.
    Bool,
}

/// Body of `POST /v1/devices/:device_id/tags` (B24).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetTags {
    /// Tags to set; others stay.
    pub tags: Vec<Tag>,
}

/// A tag of the application, in the answer of `GET /v1/tags` (B24).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagSummary {
    /// Name.
    pub name: String,
    /// Data type.
    #[serde(rename = "type")]
    pub kind: TagType,
    /// How many devices have it set to true.
    pub devices: u64,
}

/// Answer of `GET /v1/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagList {
    /// One page, by name.
    pub tags: Vec<TagSummary>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}
