//! Tags of devices.

use serde::{Deserialize, Serialize};

use crate::Timestamp;
use crate::json::{BodyPresence, FromValue, Object, Value};
use crate::request::{model, request};
use crate::violations::REQUIRED;
use crate::violations::{Validator, path};
use crate::wire_enum::wire_enum;

/// Longest name of a tag, in characters.
pub const TAG_NAME_CHARS_MAX: usize = 255;
/// Most tags in one request.
pub const TAGS_PER_REQUEST_MAX: usize = 1_000;
/// Most tags of a device.
pub const TAGS_PER_DEVICE_MAX: u64 = 1_000;

/// A tag of a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Tag {
    /// Name; unique within the device.
    pub name: String,
    /// Data type of the value; always `bool`.
    #[serde(rename = "type")]
    pub kind: TagType,
    /// The value.
    pub value: bool,
}

wire_enum! {
    /// Data type of a tag.
    pub enum TagType {
        /// `true` or `false`.
        Bool = "bool",
    }
}

model! {
    /// Body of `POST /v1/devices/:device_id/tags`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct SetTags {
        /// Tags to set. Other tags of the device stay.
        pub tags: Vec<Tag> = |object| {
            object.require("tags");
            object.list("tags", TAGS_PER_REQUEST_MAX).unwrap_or_default()
        },
    }
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
    /// Number of devices that have the tag set to true.
    pub devices: u64,
}

/// Answer of `GET /v1/tags`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TagList {
    /// One page, sorted by name.
    pub tags: Vec<TagSummary>,
    /// `cursor` of the next page; null on the last one.
    pub next_cursor: Option<String>,
}

request!(SetTags => Vec<Tag>, BodyPresence::Required);

impl SetTags {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<Vec<Tag>> {
        Some(check_tags(self.tags, TAGS_PER_REQUEST_MAX, validator))
    }
}

impl Tag {
    /// A tag of type `bool`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: bool) -> Self {
        Self { name: name.into(), kind: TagType::Bool, value }
    }

    fn read(object: &mut Object<'_, '_>) -> Self {
        let name = object.or_default("name");
        object.require("type");
        object.require("value");
        let value: Option<bool> = match object.optional::<String>("type").as_deref() {
            None | Some("bool") => object.optional("value"),
            Some(kind) => {
                object.violation("type", if kind.is_empty() { REQUIRED } else { "must be bool" });
                // The value cannot be checked without a known type. Taking it avoids a second violation.
                object.take("value", |_| None)
            }
        };
        Self { name, kind: TagType::Bool, value: value.unwrap_or_default() }
    }
}

impl FromValue for Tag {
    fn from_value(value: Value<'_, '_>) -> Option<Self> {
        value.object(Self::read)
    }
}

/// Checks a list of at most `max` tags, and returns it.
pub(crate) fn check_tags(tags: Vec<Tag>, max: usize, validator: &mut Validator) -> Vec<Tag> {
    let at = path("tags");
    validator.max_len(&at, tags.len(), max, "tags");
    let mut names = std::collections::HashSet::new();
    for (index, tag) in tags.iter().enumerate() {
        let tag_path = at.index(index);
        let name_path = tag_path.field("name");
        validator.required_up_to(&name_path, tag.name.clone(), TAG_NAME_CHARS_MAX);
        if !names.insert(&tag.name) && !tag.name.is_empty() {
            validator.violation(&name_path, "is given twice");
        }
    }
    tags
}
