//! Attributes of devices and users: names with a boolean, a number or a text.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use crate::field::{Model, ModelFields, Nested, TextKind};
use crate::json::{BodyPresence, Object, Value};
use crate::request::{model, request};
#[cfg(feature = "openapi")]
use crate::schema::Schemas;
use crate::violations::{Path, Validator};

/// Longest name of an attribute, in characters.
pub const ATTRIBUTE_NAME_CHARS_MAX: usize = 64;
/// Longest text of an attribute, in characters.
pub const ATTRIBUTE_VALUE_CHARS_MAX: usize = 255;
/// Most attributes of a device, of a user, and of one request.
pub const ATTRIBUTES_MAX: usize = 100;

/// The rule for names of attributes.
pub(crate) const ATTRIBUTE_NAME_RULE: &str =
    "must be a lower-case letter, then up to 63 lower-case letters, digits and underscores";

/// The largest number up to which every whole number is a double, 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The value of an attribute.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum AttributeValue {
    /// `true` or `false`.
    Bool(bool),
    /// A number. It is finite in a valid request.
    Number(f64),
    /// A text of at most 255 characters.
    Text(String),
}

/// The attributes of a device or a user, by name.
pub type Attributes = BTreeMap<String, AttributeValue>;

/// NaN equals itself, so that every value equals itself.
impl PartialEq for AttributeValue {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one == other,
            (Self::Number(one), Self::Number(other)) => {
                one == other || (one.is_nan() && other.is_nan())
            }
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Bool(_) | Self::Number(_) | Self::Text(_), _) => false,
        }
    }
}

impl Eq for AttributeValue {}

/// Booleans come before numbers, and numbers before texts, so that a list of values can be sorted. NaN is
/// the largest number.
impl Ord for AttributeValue {
    fn cmp(&self, other: &Self) -> Ordering {
        let rank = |value: &Self| match value {
            Self::Bool(_) => 0,
            Self::Number(_) => 1,
            Self::Text(_) => 2,
        };
        match (self, other) {
            (Self::Bool(one), Self::Bool(other)) => one.cmp(other),
            (Self::Number(one), Self::Number(other)) => {
                one.partial_cmp(other).unwrap_or_else(|| one.is_nan().cmp(&other.is_nan()))
            }
            (Self::Text(one), Self::Text(other)) => one.cmp(other),
            (Self::Bool(_) | Self::Number(_) | Self::Text(_), _) => rank(self).cmp(&rank(other)),
        }
    }
}

impl PartialOrd for AttributeValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Why a text is not the number of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ParseNumberError {
    /// It is not a number in JSON.
    #[error("must be a number, such as 3 or 2.5")]
    Malformed,
    /// It is a whole number beyond 2^53, of which a double would lose digits.
    #[error("has more digits than a number keeps")]
    TooManyDigits,
}

impl AttributeValue {
    /// Reads a number as JSON writes it.
    ///
    /// # Errors
    /// The text is not a number, or a whole number beyond 2^53.
    ///
    /// ```
    /// use notify_core::{AttributeValue, ParseNumberError};
    ///
    /// assert_eq!(AttributeValue::parse_number("2.5"), Ok(AttributeValue::Number(2.5)));
    /// assert_eq!(AttributeValue::parse_number("v2"), Err(ParseNumberError::Malformed));
    /// let long = AttributeValue::parse_number("12345678901234567890");
    /// assert_eq!(long, Err(ParseNumberError::TooManyDigits));
    /// ```
    pub fn parse_number(text: &str) -> Result<Self, ParseNumberError> {
        // JSON also allows white space around a number.
        if text.contains(char::is_whitespace) {
            return Err(ParseNumberError::Malformed);
        }
        let number: f64 = serde_json::from_str(text).map_err(|_| ParseNumberError::Malformed)?;
        let has_only_digits =
            text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit());
        if has_only_digits && number.abs() > WHOLE_MAX {
            return Err(ParseNumberError::TooManyDigits);
        }
        Ok(Self::Number(number))
    }

    /// The form in which the value is stored: `b0`, `b1`, `n` and the number, or `s` and the text. Equal
    /// values have equal forms.
    ///
    /// ```
    /// use notify_core::AttributeValue;
    ///
    /// assert_eq!(AttributeValue::from(true).to_stored(), "b1");
    /// assert_eq!(AttributeValue::from(3.0).to_stored(), "n3");
    /// assert_eq!(AttributeValue::from("pro").to_stored(), "spro");
    /// ```
    #[must_use]
    pub fn to_stored(&self) -> String {
        match self {
            Self::Bool(false) => "b0".to_owned(),
            Self::Bool(true) => "b1".to_owned(),
            Self::Number(number) => format!("n{}", number_text(*number)),
            Self::Text(text) => format!("s{text}"),
        }
    }

    /// Reads the form of [`to_stored`](Self::to_stored). Returns `None` for any other text.
    #[must_use]
    pub fn from_stored(stored: &str) -> Option<Self> {
        match stored {
            "b0" => return Some(Self::Bool(false)),
            "b1" => return Some(Self::Bool(true)),
            _ => {}
        }
        if let Some(text) = stored.strip_prefix('s') {
            return Some(Self::Text(text.to_owned()));
        }
        let number: f64 = stored.strip_prefix('n')?.parse().ok()?;
        number.is_finite().then_some(Self::Number(number))
    }
}

/// The number as a whole number, if it is one and not too large to be exact.
pub(crate) fn whole(number: f64) -> Option<i64> {
    let is_whole = number.fract() == 0.0 && number.abs() <= WHOLE_MAX;
    #[expect(clippy::cast_possible_truncation, reason = "the number is whole and within 2^53")]
    is_whole.then_some(number as i64)
}

/// The range of numbers that are written without an exponent, as in JavaScript.
const PLAIN_NUMBERS: std::ops::Range<f64> = 1e-6..1e21;

/// A JSON text of a number. Equal numbers have equal texts; whole numbers up to 2^53 have no fraction.
///
/// The text is stored, so it must not depend on the version of a library: `serde_json` has written
/// exponents in two ways.
pub(crate) fn number_text(number: f64) -> String {
    match whole(number) {
        Some(whole) => whole.to_string(),
        None if PLAIN_NUMBERS.contains(&number.abs()) => number.to_string(),
        None => format!("{number:e}"),
    }
}

impl Serialize for AttributeValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => match whole(*number) {
                Some(whole) => serializer.serialize_i64(whole),
                None => serializer.serialize_f64(*number),
            },
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl From<bool> for AttributeValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for AttributeValue {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<i32> for AttributeValue {
    fn from(number: i32) -> Self {
        Self::Number(number.into())
    }
}

impl From<u32> for AttributeValue {
    fn from(number: u32) -> Self {
        Self::Number(number.into())
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for AttributeValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl AttributeValue {
    pub(crate) fn read(mut value: Value<'_, '_>) -> Option<Self> {
        match value.first_byte() {
            b'"' => value.string().map(Self::Text),
            b't' | b'f' => value.bool().map(Self::Bool),
            b'-' | b'0'..=b'9' => value.float().map(Self::Number),
            _ => value.wrong_type("a boolean, a number or a string"),
        }
    }
}

/// Body of `PATCH /v1/devices/:device_id/attributes`: the attributes to change, by name. `null` removes
/// an attribute; attributes that are absent stay.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PatchAttributes(pub BTreeMap<String, Option<AttributeValue>>);

/// The validated form of [`PatchAttributes`] and [`PatchUser`]: valid names and values. `None` removes the
/// attribute.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttributeChanges(pub BTreeMap<String, Option<AttributeValue>>);

request!(PatchAttributes => AttributeChanges, BodyPresence::Required);

impl PatchAttributes {
    /// Sets an attribute.
    ///
    /// ```
    /// use notify_core::{PatchAttributes, Request, Timestamp};
    ///
    /// let changes = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("trial");
    /// assert!(changes.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn set(mut self, name: impl Into<String>, value: impl Into<AttributeValue>) -> Self {
        self.0.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes an attribute.
    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        self.0.insert(name.into(), None);
        self
    }
}

impl ModelFields for PatchAttributes {
    type Fields = AttributeChanges;

    #[cfg(feature = "openapi")]
    const NAME: &'static str = "PatchAttributes";

    fn read(object: &mut Object<'_, '_>) -> Self {
        Self(object.map(AttributeValue::read))
    }

    fn check_fields(&self, at: &Path<'_>, validator: &mut Validator) -> Option<AttributeChanges> {
        validator.max_len(at, self.0.len(), ATTRIBUTES_MAX, "attributes");
        for (name, value) in &self.0 {
            let at = at.field(name);
            if !is_attribute_name(name) {
                validator.violation(&at, ATTRIBUTE_NAME_RULE);
            }
            if let Some(value) = value {
                check_value(&at, value, validator);
            }
        }
        Some(AttributeChanges(self.0.clone()))
    }

    #[cfg(feature = "openapi")]
    fn object_schema(_: &mut Schemas) -> serde_json::Value {
        let text = serde_json::json!({ "type": "string", "maxLength": ATTRIBUTE_VALUE_CHARS_MAX });
        serde_json::json!({
            "type": "object",
            "description": "Attributes to change, by name. `null` removes an attribute.",
            "propertyNames": { "type": "string", "pattern": crate::schema::ATTRIBUTE_NAME },
            "maxProperties": ATTRIBUTES_MAX,
            "additionalProperties": {
                "oneOf": [{ "type": "null" }, { "type": "boolean" }, { "type": "number" }, text],
            },
        })
    }
}

impl Model for PatchAttributes {
    type Valid = AttributeChanges;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<AttributeChanges> {
        self.check_fields(at, validator)
    }
}

model! {
    /// Body of `PATCH /v1/users/:user_id`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct PatchUser with PatchUserFields {
        /// The attributes to change, by name. `null` removes an attribute; attributes that are absent stay.
        pub attributes: Option<PatchAttributes> as Nested<PatchAttributes>,
    }
}

request!(PatchUser => AttributeChanges, BodyPresence::Optional);

impl Model for PatchUser {
    type Valid = AttributeChanges;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<AttributeChanges> {
        Some(self.check_fields(at, validator)?.attributes.unwrap_or_default())
    }
}

/// The name of an attribute.
pub(crate) struct AttributeName;

impl TextKind for AttributeName {
    type Valid = String;

    fn check_text(raw: &str, at: &Path<'_>, validator: &mut Validator) -> Option<String> {
        if !is_attribute_name(raw) {
            validator.violation(at, ATTRIBUTE_NAME_RULE);
        }
        Some(raw.to_owned())
    }

    #[cfg(feature = "openapi")]
    fn text_schema(_: &mut Schemas) -> serde_json::Value {
        serde_json::json!({
            "type": "string",
            "maxLength": ATTRIBUTE_NAME_CHARS_MAX,
            "pattern": crate::schema::ATTRIBUTE_NAME,
        })
    }
}

/// Whether a text is a name of an attribute: `[a-z][a-z0-9_]{0,63}`.
#[must_use]
pub fn is_attribute_name(name: &str) -> bool {
    let is_in_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    name.len() <= ATTRIBUTE_NAME_CHARS_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(is_in_name)
}

/// Checks the length of a text, and that a number is finite. Only JSON guarantees finite numbers.
pub(crate) fn check_value(at: &Path<'_>, value: &AttributeValue, validator: &mut Validator) {
    match value {
        AttributeValue::Bool(_) => {}
        AttributeValue::Number(number) => {
            if !number.is_finite() {
                validator.violation(at, "must be a finite number");
            }
        }
        AttributeValue::Text(text) => {
            validator.text(at, text, ATTRIBUTE_VALUE_CHARS_MAX);
        }
    }
}
