//! Tags of devices.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::json::{Body, Object};
use crate::request::request;
use crate::rules::REQUIRED;
use crate::violations::{Findings, path};

/// Longest tag name, in characters.
pub const TAG_NAME_CHARS_MAX: usize = 255;
/// Most tags that one request sets.
pub const TAGS_PER_REQUEST_MAX: usize = 1_000;

/// Most tags that a device may have.
pub const TAGS_PER_DEVICE_MAX: u64 = 1_000;

/// A tag of a device.
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

/// Data type of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum TagType {
    /// `true` or `false`.
    Bool,
}

/// Body of `POST /v1/devices/:device_id/tags`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetTags {
    /// Tags to set; others stay.
    pub tags: Vec<Tag>,
}

/// A tag of the application, in the answer of `GET /v1/tags`.
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

request!(SetTags => Vec<Tag>, Body::Required, read, check);

impl Tag {
    /// A tag of type `bool`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: bool) -> Self {
        Self { name: name.into(), kind: TagType::Bool, value }
    }
}

fn read(object: &mut Object<'_, '_>) -> SetTags {
    object.require("tags");
    SetTags { tags: object.objects("tags", TAGS_PER_REQUEST_MAX, read_tag).unwrap_or_default() }
}

/// One tag of a list.
pub(crate) fn read_tag(object: &mut Object<'_, '_>) -> Tag {
    let name = object.required_string("name");
    object.require("type");
    object.require("value");
    let mut value = None;
    match object.string("type").as_deref() {
        None | Some("bool") => value = object.flag("value"),
        Some(kind) => {
            object.broken("type", if kind.is_empty() { REQUIRED } else { "must be bool" });
            // Whatever it is: there is no type to check it by.
            object.take("value", |_| None::<()>);
        }
    }
    Tag { name, kind: TagType::Bool, value: value.unwrap_or_default() }
}

fn check(request: SetTags, _now: Timestamp, findings: &mut Findings) -> Option<Vec<Tag>> {
    Some(check_tags(request.tags, TAGS_PER_REQUEST_MAX, findings))
}

/// The rules of a list of tags.
pub(crate) fn check_tags(given: Vec<Tag>, max: usize, findings: &mut Findings) -> Vec<Tag> {
    let tags = path("tags");
    findings.at_most(&tags, given.len(), max, "tags");
    let mut names = std::collections::HashSet::new();
    for (place, tag) in given.iter().enumerate() {
        let tag_path = tags.index(place);
        let name_path = tag_path.field("name");
        findings.required_up_to(&name_path, tag.name.clone(), TAG_NAME_CHARS_MAX);
        if !names.insert(&tag.name) && !tag.name.is_empty() {
            findings.broken(&name_path, "is given twice");
        }
    }
    given
}
