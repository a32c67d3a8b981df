//! The rules about several fields in the schemas of requests: as keywords in the strict document, and as
//! texts in the one for generators of clients.

use std::collections::BTreeMap;

use notify_core::schema::{IGNORED_BY_POLLS, ModelSchema};
use serde_json::{Map, Value, json};

use super::shape::name_of;

/// The schemas with the rules as keywords.
pub(super) fn strict(models: BTreeMap<String, ModelSchema>) -> Map<String, Value> {
    let all: Map<String, Value> =
        models.iter().map(|(name, model)| (name.clone(), model.schema.clone())).collect();
    let with_rules = |(name, model): (String, ModelSchema)| {
        let mut schema = model.schema;
        set_keywords(&mut schema, &model.together.keywords);
        loosen_for_polls(&mut schema, &all);
        remove_marks(&mut schema);
        (name, schema)
    };
    models.into_iter().map(with_rules).collect()
}

/// The schemas with the rules in their descriptions.
pub(super) fn described(models: BTreeMap<String, ModelSchema>) -> Map<String, Value> {
    let with_texts = |(name, model): (String, ModelSchema)| {
        let mut schema = model.schema;
        let about = model.together.about;
        if !about.is_empty() {
            let description = schema["description"].as_str().unwrap_or_default();
            schema["description"] = json!(format!("{description} {about}").trim_start());
        }
        remove_marks(&mut schema);
        (name, schema)
    };
    models.into_iter().map(with_texts).collect()
}

/// Sets keywords of a schema, and of its fields.
fn set_keywords(schema: &mut Value, keywords: &Value) {
    for (keyword, value) in keywords.as_object().into_iter().flatten() {
        if keyword == "properties" {
            for (field, keywords) in value.as_object().into_iter().flatten() {
                set_keywords(&mut schema["properties"][field], keywords);
            }
        } else {
            schema[keyword] = value.clone();
        }
    }
}

/// Whether a notification with a poll ignores the field.
fn is_ignored_by_polls(property: &Value) -> bool {
    let is_marked = |schema: &Value| schema.get(IGNORED_BY_POLLS).is_some();
    let variants = property["oneOf"].as_array().into_iter().flatten();
    is_marked(property) || variants.into_iter().any(is_marked)
}

/// Removes the marks of fields that polls ignore, which are no keywords.
fn remove_marks(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.remove(IGNORED_BY_POLLS);
            members.values_mut().for_each(remove_marks);
        }
        Value::Array(parts) => parts.iter_mut().for_each(remove_marks),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a schema is an object with arbitrary content.
fn allows_any_content(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&json!(true))
}

/// With a poll, the server ignores most settings and checks only their types. The rules of these
/// settings move to the branches of messages.
fn loosen_for_polls(schema: &mut Value, schemas: &Map<String, Value>) {
    let properties = schema["properties"].as_object().into_iter().flatten();
    let ignored: Vec<(String, Value)> = properties
        .filter(|(_, property)| is_ignored_by_polls(property))
        .map(|(name, property)| (name.clone(), property.clone()))
        .collect();
    for (name, property) in ignored {
        schema["properties"][&name] = without_limits(&property, schemas);
        let mut rule = property;
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("description");
        }
        for branch in message_branches(schema) {
            if branch["properties"].get(&name).is_none() {
                branch["properties"][&name] = rule.clone();
            }
        }
    }
}

/// The branches of a notification that are no poll.
fn message_branches(schema: &mut Value) -> impl Iterator<Item = &mut Value> {
    let parts = schema.get_mut("allOf").and_then(Value::as_array_mut);
    let branches = parts
        .into_iter()
        .flatten()
        .filter_map(|part| part.get_mut("anyOf")?.as_array_mut())
        .flatten();
    branches.filter(|branch| branch["title"] == "message" || branch["title"] == "silent")
}

/// A schema without its limits: the fields and their types at every depth.
fn without_limits(schema: &Value, schemas: &Map<String, Value>) -> Value {
    if let Some(name) = name_of(schema) {
        return without_limits(&schemas[name], schemas);
    }
    if let Some(variants) = schema["oneOf"].as_array() {
        // A constant, such as the empty text that equals an absent name, is within the other variants.
        let variants = variants.iter().filter(|variant| variant.get("const").is_none());
        let variants = variants.map(|variant| without_limits(variant, schemas));
        return with_description(json!({ "oneOf": variants.collect::<Vec<_>>() }), schema);
    }
    let mut bare = Map::new();
    // With a poll, any number is accepted.
    let any_number = |kind: &Value| if kind == "integer" { json!("number") } else { kind.clone() };
    match &schema["type"] {
        Value::Null => {}
        Value::Array(kinds) => {
            bare.insert("type".to_owned(), kinds.iter().map(any_number).collect());
        }
        kind => {
            bare.insert("type".to_owned(), any_number(kind));
        }
    }
    if let Some(value) = schema.get("additionalProperties") {
        let value = if value.is_object() { without_limits(value, schemas) } else { value.clone() };
        bare.insert("additionalProperties".to_owned(), value);
    }
    if let Some(properties) =
        schema["properties"].as_object().filter(|_| !allows_any_content(schema))
    {
        let bare_of = |(name, property): (&String, &Value)| {
            let mut property = without_limits(property, schemas);
            allow_null(&mut property);
            (name.clone(), property)
        };
        let properties: Map<String, Value> = properties.iter().map(bare_of).collect();
        bare.insert("properties".to_owned(), Value::Object(properties));
    }
    if let Some(items) = schema.get("items") {
        bare.insert("items".to_owned(), without_limits(items, schemas));
    }
    with_description(Value::Object(bare), schema)
}

fn with_description(mut bare: Value, schema: &Value) -> Value {
    if let Some(description) = schema.get("description") {
        bare["description"] = description.clone();
    }
    bare
}

/// Allows `null`, which means that the field is absent.
fn allow_null(schema: &mut Value) {
    if let Some(kind) = schema.get("type").filter(|kind| kind.is_string()).cloned() {
        schema["type"] = json!([kind, "null"]);
    }
}
