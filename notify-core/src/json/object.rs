//! JSON objects of any content, kept as the caller wrote them.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::members;

/// A JSON object of any content. Its text is kept exactly as the caller wrote it.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    /// Parses a JSON object as strictly as a request body (see [`check`](super::check())).
    ///
    /// # Errors
    /// When the text is not JSON, not an object, or not acceptable in a request.
    ///
    /// ```
    /// use notify_core::json::JsonObject;
    ///
    /// let object = JsonObject::new(r#"{"order": 17, "total": 9.90}"#)?;
    /// assert_eq!(object.as_str(), r#"{"order": 17, "total": 9.90}"#);
    /// assert!(JsonObject::new(r#"{"order": 1, "order": 2}"#).is_err());
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn new(text: &str) -> Result<Self, serde_json::Error> {
        super::check(text.as_bytes()).map_err(serde::de::Error::custom)?;
        serde_json::from_str(text)
    }

    /// Serializes a value that is a JSON object.
    ///
    /// # Errors
    /// When the value serializes to something other than an object.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(&serde_json::to_string(value)?)
    }

    /// Takes the text of an object whose body passed [`check`](super::check()).
    pub(super) fn from_checked(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    /// The text as it was written, without surrounding white space.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The members, in the order in which they were written.
    #[must_use]
    pub fn members(&self) -> Vec<(String, Box<RawValue>)> {
        let members = members(&self.0).into_iter();
        members.map(|member| (member.name.into_owned(), member.raw.to_owned())).collect()
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for JsonObject {}

impl<'de> Deserialize<'de> for JsonObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        if raw.get().starts_with('{') {
            Ok(Self(raw))
        } else {
            Err(serde::de::Error::custom("expected an object"))
        }
    }
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for JsonObject {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        use utoipa::openapi::schema::{AdditionalProperties, Object};
        Object::builder().additional_properties(Some(AdditionalProperties::FreeForm(true))).into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for JsonObject {
    fn name() -> std::borrow::Cow<'static, str> {
        "JsonObject".into()
    }
}
