//! Tags of devices.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::field::{Field, Flag, Kind, Model, ModelFields, Text};
use crate::json::{BodyPresence, Object, Value};
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::{Property, Schemas};
use crate::violations::{Path, REQUIRED, Validator};
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
    pub struct SetTags with SetTagsFields {
        /// Tags to set. Other tags of the device stay.
        pub tags: Vec<Tag> as Tags<TAGS_PER_REQUEST_MAX>,
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

impl Model for SetTags {
    type Valid = Vec<Tag>;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<Tag>> {
        Some(self.check_fields(at, validator)?.tags)
    }
}

impl Tag {
    /// A tag of type `bool`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: bool) -> Self {
        Self { name: name.into(), kind: TagType::Bool, value }
    }

    fn read(object: &mut Object<'_, '_>) -> Self {
        let name = object.take("name", TagName::read).unwrap_or_default();
        object.require("type");
        object.require("value");
        let value: Option<bool> = match object.take("type", <Text>::read).as_deref() {
            None | Some("bool") => object.take("value", Flag::read),
            Some(kind) => {
                object.violation("type", if kind.is_empty() { REQUIRED } else { "must be bool" });
                // The value cannot be checked without a known type. Taking it avoids a second violation.
                object.take("value", |_| None)
            }
        };
        Self { name, kind: TagType::Bool, value: value.unwrap_or_default() }
    }
}

/// At most `MAX` tags, no name twice.
pub(crate) struct Tags<const MAX: usize>;

impl<const MAX: usize> Kind for Tags<MAX> {
    type Raw = Vec<Tag>;
    type Valid = Vec<Tag>;

    fn read(value: Value<'_, '_>) -> Option<Vec<Tag>> {
        value.list(MAX, |value| value.object(Tag::read))
    }

    fn check(raw: &Vec<Tag>, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<Tag>> {
        validator.max_len(at, raw.len(), MAX, "tags");
        let mut names = HashSet::new();
        for (index, tag) in raw.iter().enumerate() {
            let at = at.index(index);
            let at = at.field("name");
            Field::<TagName>::check(&tag.name, &at, validator);
            if !names.insert(&tag.name) && !tag.name.is_empty() {
                validator.violation(&at, "is given twice");
            }
        }
        Some(raw.clone())
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        let kind = schemas.add_type::<TagType>();
        let properties = vec![
            Property::new(
                "name",
                "Name; unique within the device.",
                (TagName::schema(schemas), true),
            ),
            Property::new("type", "Data type of the value; always `bool`.", (kind, true)),
            Property::new("value", "The value.", (serde_json::json!({ "type": "boolean" }), true)),
        ];
        let tag = crate::schema::object("A tag of a device.", properties);
        let tag = schemas.add_schema("TagInput", tag);
        serde_json::json!({ "type": "array", "maxItems": MAX, "items": tag })
    }
}

/// The name of a tag.
pub(crate) type TagName = Text<TAG_NAME_CHARS_MAX>;
