//! JSON schemas of request models (2020-12, which OpenAPI 3.1 uses), from the kinds of their fields.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use crate::field::Model;

/// The schemas of request models by name.
#[derive(Debug, Default)]
pub struct Schemas(BTreeMap<String, ModelSchema>);

/// The schema of a model.
#[derive(Debug, Clone)]
pub struct ModelSchema {
    /// The rules of single fields. An object lists all its fields and refuses others.
    pub schema: Value,
    /// The rules about several fields.
    pub together: Together,
}

/// Rules about several fields.
#[derive(Debug, Clone, Default)]
pub struct Together {
    /// The rules as a text, for readers of a schema without the keywords.
    pub about: &'static str,
    /// Keywords of the model. Those of `properties` replace keywords of the fields.
    pub keywords: Value,
}

impl Schemas {
    /// Adds a model, and the models that it refers to. Returns the reference to it.
    pub(crate) fn add<M: Model>(&mut self) -> Value {
        if !self.0.contains_key(M::NAME) {
            let schema = M::object_schema(self);
            self.0.insert(M::NAME.to_owned(), ModelSchema { schema, together: M::together() });
        }
        reference(M::NAME)
    }

    /// Adds a type whose schema is declared elsewhere. Returns the reference to it.
    pub fn add_type<T: ToSchema>(&mut self) -> Value {
        let mut named = vec![(T::name().into_owned(), T::schema())];
        T::schemas(&mut named);
        for (name, schema) in named {
            let schema = serde_json::to_value(schema).expect("it has string keys");
            let model = ModelSchema { schema, together: Together::default() };
            self.0.entry(name).or_insert(model);
        }
        reference(&T::name())
    }

    /// Adds a schema. Returns the reference to it.
    pub fn add_schema(&mut self, name: &str, schema: Value) -> Value {
        self.0.insert(name.to_owned(), ModelSchema { schema, together: Together::default() });
        reference(name)
    }

    /// The schemas by name.
    #[must_use]
    pub fn into_map(self) -> BTreeMap<String, ModelSchema> {
        self.0
    }
}

/// A reference to a schema.
pub(crate) fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// A field of an object.
pub(crate) struct Property {
    name: &'static str,
    schema: Value,
    is_required: bool,
}

impl Property {
    pub(crate) fn new(
        name: &'static str,
        about: &str,
        (mut schema, is_required): (Value, bool),
    ) -> Self {
        schema["description"] = json!(about.trim_start());
        Self { name, schema, is_required }
    }
}

/// An object with these fields and no others.
pub(crate) fn object(about: &str, properties: Vec<Property>) -> Value {
    let required: Vec<&str> = properties
        .iter()
        .filter(|property| property.is_required)
        .map(|property| property.name)
        .collect();
    let properties: Map<String, Value> = properties
        .into_iter()
        .map(|property| (property.name.to_owned(), property.schema))
        .collect();
    let mut object = json!({
        "type": "object",
        "description": about.trim_start(),
        "properties": properties,
        "additionalProperties": false,
    });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

/// The object with the fields of another one.
pub(crate) fn with_fields_of(mut object: Value, mut other: Value) -> Value {
    for (name, schema) in other["properties"].as_object_mut().into_iter().flatten() {
        object["properties"][name] = schema.take();
    }
    let required =
        [&object, &other].into_iter().filter_map(|part| part.get("required")?.as_array());
    let required: Vec<Value> = required.flatten().cloned().collect();
    if !required.is_empty() {
        object["required"] = Value::Array(required);
    }
    object
}

/// Marks a field that a notification with a poll ignores. It is not a JSON Schema keyword. The OpenAPI
/// document, which has one schema for messages and one for polls, removes it.
pub const IGNORED_BY_POLLS: &str = "ignoredByPolls";

/// An absent field: missing, null or, for a text, empty.
pub(crate) fn unset() -> Value {
    json!({ "enum": [null, ""] })
}

/// A present text.
pub(crate) fn given() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

/// A present text with a visible character.
pub(crate) fn given_text() -> Value {
    json!({ "type": "string", "minLength": 1, "pattern": VISIBLE })
}

// Regular expressions (ECMA-262) for rules that validation implements in code. The expressions for urls
// are only necessary conditions: validation also refuses some texts that match them.

/// The `Idempotency-Key` header.
pub const IDEMPOTENCY_KEY: &str = "^[!-~]+$";
/// An id that a caller chooses: no control characters, not `.` or `..`.
pub const CALLER_ID: &str = r"^(?!\.{1,2}$)[^\u0000-\u001f\u007f-\u009f]+$";
/// An id that the server generates.
pub const SERVER_ID: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$";
/// The id of a campaign, or `default`.
pub const CAMPAIGN_REF: &str =
    "^(?:default|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$";
/// The name of an attribute.
pub const ATTRIBUTE_NAME: &str = "^[a-z][a-z0-9_]{0,63}$";
/// An absolute `http` or `https` url.
pub(crate) const HTTP_URL: &str =
    r"^[Hh][Tt][Tt][Pp][Ss]?://[^\u0000-\u0020\u007f-\u009f/\\][^\u0000-\u001f\u007f-\u009f]*$";
/// An absolute url of any scheme that is not refused.
pub(crate) const URI: &str = r"^(?![Jj][Aa][Vv][Aa][Ss][Cc][Rr][Ii][Pp][Tt]:|[Dd][Aa][Tt][Aa]:)[A-Za-z][A-Za-z0-9+.-]*:[^\u0000-\u001f\u007f-\u009f]*$";
/// A text with a visible character: all others are white space, control characters, or have no ink.
pub(crate) const VISIBLE: &str = r"[^\u0000-\u0020\u007f-\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufeff\uffa0\ufff9-\ufffb]";
