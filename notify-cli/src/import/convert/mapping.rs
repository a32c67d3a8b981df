//! The mapping: a TOML file that says which columns of a table are the fields, the tags and the attributes of
//! a device.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::Path;

use notify_client::notify_core::{AttributeValue, Tag, is_attribute_name, nearest_name};
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;

use super::device_row::DeviceRow;
use super::record::{Record, split, text_of, texts_of};
use super::zone::{Unit, offset};
use crate::failure::Failure;
use crate::import::columns::parse_flag;
use crate::import::operation::platform_name;

/// Largest mapping, in bytes.
const MAPPING_BYTES_MAX: u64 = 64 * 1024;

/// A mapping that was read.
#[derive(Debug, Default)]
pub(super) struct Mapping {
    text: String,
    tables: Tables,
}

/// The tables of the file.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    #[serde(default)]
    fields: BTreeMap<String, ColumnOr<FieldSource>>,
    #[serde(default)]
    tags: Vec<TagSource>,
    #[serde(default)]
    attributes: BTreeMap<String, ColumnOr<AttributeSource>>,
    /// For each column, the values with which a row is included.
    #[serde(default, rename = "where")]
    filters: BTreeMap<String, Values>,
}

/// Where the value of a field comes from.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldSource {
    column: Option<String>,
    /// A value for all rows, in place of a column.
    value: Option<String>,
    /// The value for rows without one.
    default: Option<String>,
    /// The field's value for each value of the column.
    values: Option<BTreeMap<String, String>>,
    /// The unit of an offset.
    unit: Option<Unit>,
}

/// Where tags come from.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct TagSource {
    column: String,
    /// The tag that the column sets to true or false. Without a name, the column has the names of tags.
    name: Option<String>,
    separator: Option<char>,
}

/// Where the value of an attribute comes from.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct AttributeSource {
    column: String,
    #[serde(rename = "type")]
    kind: Option<AttributeType>,
}

#[derive(Debug, Clone, Copy, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum AttributeType {
    Text,
    Number,
    Boolean,
}

/// A source, or only the name of its column.
#[derive(Debug)]
struct ColumnOr<T>(T);

impl<'de, T: Deserialize<'de> + From<String>> Deserialize<'de> for ColumnOr<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SourceVisitor<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de> + From<String>> Visitor<'de> for SourceVisitor<T> {
            type Value = T;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a column, or a table")
            }

            fn visit_str<E: de::Error>(self, column: &str) -> Result<T, E> {
                Ok(T::from(column.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, table: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(table))
            }
        }

        deserializer.deserialize_any(SourceVisitor(PhantomData)).map(Self)
    }
}

/// One value or several.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Values {
    One(Scalar),
    Several(Vec<Scalar>),
}

/// A value of TOML that is compared as a text.
#[derive(Debug, serde::Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Number(i64),
    Boolean(bool),
}

impl Values {
    fn contain(&self, text: &str) -> bool {
        let is_equal = |value: &Scalar| match value {
            Scalar::Text(value) => value == text,
            Scalar::Number(value) => value.to_string() == text,
            Scalar::Boolean(value) => parse_flag(text).is_ok_and(|flag| flag == *value),
        };
        match self {
            Self::One(value) => is_equal(value),
            Self::Several(values) => values.iter().any(is_equal),
        }
    }
}

/// Sets a field of a device.
type Setter = fn(&mut DeviceRow, String) -> Result<(), String>;

macro_rules! fields {
    ($($name:ident)*) => {
        [$((stringify!($name), |found, text| {
            found.draft.registration.$name = Some(text);
            Ok(())
        }),)*]
    };
}

/// The fields that are optional texts of a registration.
const TEXTS: [(&str, Setter); 14] = fields! {
    push_token user_id language timezone country android_id ad_id imei sdk_version app_version os_version
    store_identifier device_description ios_env
};

/// The other fields.
const OTHERS: [(&str, Setter); 8] = [
    ("device_id", |found, text| {
        found.draft.registration.device_id = text;
        Ok(())
    }),
    ("platform", |found, text| {
        found.draft.registration.platform = platform_name(&text);
        Ok(())
    }),
    ("recipient_id", |found, text| {
        found.draft.recipient_id = Some(text);
        Ok(())
    }),
    ("endpoint", |found, text| {
        found.web.endpoint = Some(text);
        Ok(())
    }),
    ("p256dh", |found, text| {
        found.web.p256dh = Some(text);
        Ok(())
    }),
    ("auth", |found, text| {
        found.web.auth = Some(text);
        Ok(())
    }),
    ("push_disabled", |found, text| {
        found.draft.registration.push_disabled = Some(parse_flag(&text)?);
        Ok(())
    }),
    // The unit is known to `FieldSource::value`, which has converted the text to minutes.
    (UTC_OFFSET, |found, text| {
        found.draft.registration.utc_offset = Some(text);
        Ok(())
    }),
];
const UTC_OFFSET: &str = "utc_offset";

/// The fields of which a device needs one, so that it has an address.
const ADDRESSES: [&str; 3] = ["push_token", "endpoint", "recipient_id"];

fn all_fields() -> impl Iterator<Item = (&'static str, Setter)> {
    OTHERS.into_iter().chain(TEXTS)
}

impl Mapping {
    /// Reads the file. A mapping for a table of one's own must have the platform and the address.
    pub(super) fn read(path: &Path, has_system: bool) -> Result<Self, Failure> {
        let size = std::fs::metadata(path).map_err(Failure::file(path))?.len();
        if size > MAPPING_BYTES_MAX {
            let path = path.display();
            return Err(Failure::Usage(format!("{path}: a mapping has at most 64 KiB")));
        }
        let text = std::fs::read_to_string(path).map_err(Failure::file(path))?;
        let mapping = Self::parse(text, has_system);
        mapping.map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
    }

    pub(super) fn parse(text: String, has_system: bool) -> Result<Self, String> {
        let tables: Tables = toml::from_str(&text).map_err(|error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = 1 + text.bytes().take(start).filter(|byte| *byte == b'\n').count();
            format!("line {line}: {}", error.message())
        })?;
        for (name, ColumnOr(source)) in &tables.fields {
            if !all_fields().any(|(field, _)| field == name) {
                let names: Vec<_> = all_fields().map(|(field, _)| field).collect();
                let near = nearest_name(name, &names);
                let tip =
                    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                return Err(format!("[fields] has no `{name}`{tip}"));
            }
            if source.column.is_some() == source.value.is_some() {
                return Err(format!("[fields] {name}: give either `column` or `value`"));
            }
            if source.unit.is_some() && name != UTC_OFFSET {
                return Err(format!("[fields] {name}: only `utc_offset` has a unit"));
            }
        }
        for name in tables.attributes.keys() {
            if !is_attribute_name(name) {
                return Err(format!(
                    "[attributes] `{name}`: a name is a lower-case letter, then up to 63 lower-case \
                     letters, digits and underscores"
                ));
            }
        }
        let has = |name: &str| tables.fields.contains_key(name);
        if !has_system && (!has("platform") || !ADDRESSES.into_iter().any(has)) {
            return Err(
                "[fields] needs `platform`, and `push_token`, `endpoint` or `recipient_id` (or \
                        give --from)"
                    .to_owned(),
            );
        }
        Ok(Self { text, tables })
    }

    /// The content of the file.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// The columns that the mapping names.
    pub(super) fn columns(&self) -> impl Iterator<Item = &str> {
        let tables = &self.tables;
        let fields = tables.fields.values().filter_map(|source| source.0.column.as_deref());
        let tags = tables.tags.iter().map(|source| &*source.column);
        let attributes = tables.attributes.values().map(|source| &*source.0.column);
        let filters = tables.filters.keys().map(String::as_str);
        fields.chain(tags).chain(attributes).chain(filters)
    }

    /// The name of a field in errors: also the column that it comes from, in which the error is corrected.
    pub(super) fn name_in_errors(&self, field: &str) -> String {
        let source = self.tables.fields.get(field);
        match source.and_then(|source| source.0.column.as_deref()) {
            Some(column) if column != field => format!("{column} ({field})"),
            _ => field.to_owned(),
        }
    }

    /// Checks that a CSV file has all columns of the mapping.
    pub(super) fn check_header<N: AsRef<str>>(&self, names: &[N]) -> Result<(), Failure> {
        let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
        for column in self.columns() {
            let head = column.split('.').next().unwrap_or_default();
            if !names.contains(&column) && !names.contains(&head) {
                let near = nearest_name(column, &names);
                let tip =
                    near.map_or_else(String::new, |near| format!(" (did you mean `{near}`?)"));
                return Err(Failure::Usage(format!(
                    "the header has no column `{column}`, which the mapping names{tip}"
                )));
            }
        }
        Ok(())
    }

    /// Whether the row meets `[where]`.
    pub(super) fn includes(&self, record: &Record) -> bool {
        let mut filters = self.tables.filters.iter();
        filters.all(|(column, values)| values.contain(&record.text(column).unwrap_or_default()))
    }

    /// Whether `[where]` includes the app of rpush to which a row of feedback belongs.
    pub(super) fn includes_app_of(&self, feedback: &Record) -> bool {
        let Some(values) = self.tables.filters.get("app_id") else { return true };
        feedback.text("app_id").is_none_or(|app| values.contain(&app))
    }

    /// Sets the fields, tags and attributes of the row.
    pub(super) fn apply(&self, record: &Record, found: &mut DeviceRow, errors: &mut Vec<String>) {
        for (name, setter) in all_fields() {
            let Some(ColumnOr(source)) = self.tables.fields.get(name) else { continue };
            let set = source.value(record).and_then(|text| match text {
                Some(text) => setter(found, text),
                None => Ok(()),
            });
            if let Err(rule) = set {
                errors.push(format!("{}: {rule}", source.column.as_deref().unwrap_or(name)));
            }
        }
        for source in &self.tables.tags {
            if let Err(rule) = source.add(record, &mut found.draft.tags) {
                errors.push(format!("{}: {rule}", source.column));
            }
        }
        for (name, ColumnOr(source)) in &self.tables.attributes {
            match source.value(record) {
                Ok(Some(value)) => {
                    found.draft.attributes.0.insert(name.clone(), Some(value));
                }
                Ok(None) => {}
                Err(rule) => errors.push(format!("{}: {rule}", source.column)),
            }
        }
    }
}

impl FieldSource {
    /// The value for a row, in the unit of the field.
    fn value(&self, record: &Record) -> Result<Option<String>, String> {
        let Some(text) = self.text(record)? else { return Ok(None) };
        match self.unit {
            Some(unit) => Ok(Some(offset(&text, unit)?)),
            None => Ok(Some(text)),
        }
    }

    /// The text for a row, in the unit of the mapping.
    fn text(&self, record: &Record) -> Result<Option<String>, String> {
        if self.value.is_some() {
            return Ok(self.value.clone());
        }
        let text = self.column.as_deref().and_then(|column| record.text(column));
        let Some(text) = text else { return Ok(self.default.clone()) };
        let Some(values) = &self.values else { return Ok(Some(text)) };
        match values.get(&text).or(self.default.as_ref()) {
            Some(value) => Ok(Some(value.clone())),
            None => Err(format!("`{text}` is not among the `values` of the mapping")),
        }
    }
}

impl TagSource {
    fn add(&self, record: &Record, tags: &mut Vec<Tag>) -> Result<(), &'static str> {
        let Some(value) = record.value(&self.column) else { return Ok(()) };
        if let Some(name) = &self.name {
            let Some(text) = text_of(&value) else { return Ok(()) };
            tags.push(Tag::new(name, parse_flag(&text)?));
            return Ok(());
        }
        let names = match (&value, self.separator) {
            (Value::String(text), Some(separator)) => split(text, separator),
            _ => texts_of(&value)?,
        };
        tags.extend(names.into_iter().map(|name| Tag::new(name, true)));
        Ok(())
    }
}

impl AttributeSource {
    /// The value for a row. Without a type, a cell is a text, and a JSON value is what it is.
    fn value(&self, record: &Record) -> Result<Option<AttributeValue>, String> {
        let Some(value) = record.value(&self.column) else { return Ok(None) };
        let Some(text) = text_of(&value) else {
            let is_empty = value.as_str().is_some_and(|text| text.trim().is_empty());
            return if is_empty { Ok(None) } else { Err("must be a text".to_owned()) };
        };
        Ok(Some(match (self.kind, value) {
            (Some(AttributeType::Number), _) | (None, Value::Number(_)) => {
                AttributeValue::parse_number(&text).map_err(|error| error.to_string())?
            }
            (Some(AttributeType::Boolean), _) | (None, Value::Bool(_)) => {
                AttributeValue::Bool(parse_flag(&text)?)
            }
            (Some(AttributeType::Text) | None, _) => AttributeValue::Text(text),
        }))
    }
}

impl From<String> for FieldSource {
    fn from(column: String) -> Self {
        Self { column: Some(column), ..Self::default() }
    }
}

impl From<String> for AttributeSource {
    fn from(column: String) -> Self {
        Self { column, kind: None }
    }
}

#[cfg(test)]
mod tests {
    use notify_client::notify_core::RegisterDevice;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_field_of_a_registration_except_the_kind_of_sdk_can_be_mapped() {
        let mut found = DeviceRow::default();
        for (name, setter) in all_fields() {
            setter(&mut found, "1".to_owned()).expect(name);
        }
        let fields = serde_json::to_value(RegisterDevice::default()).expect("JSON");
        let names = all_fields().map(|(name, _)| name).collect::<Vec<_>>();
        for name in fields.as_object().expect("an object").keys() {
            assert_eq!(names.contains(&name.as_str()), name != "sdk_type", "{name}");
        }
    }

    #[test]
    fn a_text_is_converted_wherever_it_comes_from() {
        for (source, tz, expected) in [
            (r#"{ value = "2", unit = "hours" }"#, json!(null), Ok(Some("120"))),
            (r#"{ column = "tz", unit = "hours", default = "1" }"#, json!("2"), Ok(Some("120"))),
            (r#"{ column = "tz", unit = "hours", default = "1" }"#, json!(null), Ok(Some("60"))),
            (r#"{ column = "tz", unit = "seconds", default = "60" }"#, json!(""), Ok(Some("1"))),
            (
                r#"{ column = "tz", unit = "hours", default = "1", values = { CET = "2" } }"#,
                json!("CET"),
                Ok(Some("120")),
            ),
            (
                r#"{ column = "tz", unit = "hours", default = "1", values = { CET = "2" } }"#,
                json!("PST"),
                Ok(Some("60")),
            ),
            (r#"{ column = "tz", default = "1" }"#, json!(null), Ok(Some("1"))),
            (r#"{ column = "tz", unit = "hours" }"#, json!(null), Ok(None)),
            (
                r#"{ column = "tz", unit = "hours", default = "CET" }"#,
                json!(null),
                Err("must be an offset from UTC, such as 3600"),
            ),
        ] {
            let text = format!("[fields]\nutc_offset = {source}\n");
            let mapping = Mapping::parse(text, true).expect(source);
            let record = json!({"tz": tz}).to_string();
            let record = Record::from_json(record.as_bytes()).expect("an object");
            let seen = mapping.tables.fields[UTC_OFFSET].0.value(&record);
            let seen = seen.as_ref().map(Option::as_deref).map_err(String::as_str);
            assert_eq!(seen, expected, "{source} {tz}");
        }
    }
}
