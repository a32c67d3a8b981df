//! The caller's own objects: free inside, kept as they were written.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

/// A JSON object that belongs to the caller; its text is kept to the letter.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct JsonObject(Box<RawValue>);

impl JsonObject {
    /// Takes a text that holds one JSON object, read as strictly as a body.
    ///
    /// # Errors
    /// When the text is not JSON, not an object, or holds what no request may.
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

    /// Makes an object of what serialises to one.
    ///
    /// # Errors
    /// When it serialises to something else than an object.
    pub fn from_serialize(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        Self::new(&serde_json::to_string(value)?)
    }

    /// Takes the text of an object that has been checked as part of its body.
    pub(super) fn from_checked(raw: &RawValue) -> Self {
        Self(raw.to_owned())
    }

    /// The text as it was written, without the white space around it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// The members in the order they were written.
    #[must_use]
    pub fn members(&self) -> Vec<(String, Box<RawValue>)> {
        struct Members(Vec<(String, Box<RawValue>)>);
        impl<'de> Deserialize<'de> for Members {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Visit;
                impl<'de> serde::de::Visitor<'de> for Visit {
                    type Value = Members;
                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str("an object")
                    }
                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Members, A::Error> {
                        let mut members = Vec::new();
                        while let Some(member) = map.next_entry()? {
                            members.push(member);
                        }
                        Ok(Members(members))
                    }
                }
                deserializer.deserialize_map(Visit)
            }
        }
        let members: Members =
            serde_json::from_str(self.as_str()).expect("a JsonObject holds a JSON object");
        members.0
    }
}

impl PartialEq for JsonObject {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

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
