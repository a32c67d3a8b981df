//! Schemas of requests with the rules of the validation of `notify_core`: limits and patterns, no unknown
//! fields, and rules about several fields. In the strict document, they are as strict as the validation.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::TEXT_CHARS_MAX;
use notify_core::schema::{IGNORED_BY_POLLS, rules};
use serde_json::{Map, Value, json};

use super::{DocumentForm, flat, reference};
use crate::api::router::Endpoint;

const SCHEMAS: &str = "#/components/schemas/";
/// Suffix of the name of a model in requests, if responses use the model too. The two schemas
/// differ: responses may get more fields in a later version, and requests refuse unknown fields.
const INPUT: &str = "Input";

/// Models with another name in requests.
pub(super) struct Renamed(BTreeMap<String, String>);

impl Renamed {
    /// Replaces the names in references.
    pub(super) fn apply(&self, part: &mut Value) {
        match part {
            Value::Object(members) => {
                if let Some(Value::String(target)) = members.get_mut("$ref")
                    && let Some(name) = target.strip_prefix(SCHEMAS)
                    && let Some(other) = self.0.get(name)
                {
                    *target = format!("{SCHEMAS}{other}");
                }
                members.values_mut().for_each(|member| self.apply(member));
            }
            Value::Array(parts) => parts.iter_mut().for_each(|part| self.apply(part)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Adds the rules of validation to the schemas of requests, and brings all schemas into the form of the
/// document.
pub(super) fn add_validation(
    schemas: &mut Map<String, Value>,
    routes: &[Endpoint],
    form: DocumentForm,
) -> Renamed {
    let roots = |of: fn(&Endpoint) -> Option<super::Shape>| {
        routes.iter().filter_map(of).map(super::Shape::reference).collect::<Vec<_>>()
    };
    let requests = roots(|route| route.docs.json_request());
    let responses = roots(|route| route.docs.response);
    let in_responses = reachable(schemas, &responses);
    for name in reachable(schemas, &requests) {
        let merged = merge_parts(&schemas[&name], schemas);
        schemas.insert(name, merged);
    }
    let in_requests = reachable(schemas, &requests);
    let renamed = Renamed(
        in_requests
            .intersection(&in_responses)
            .filter(|name| {
                schemas[*name]["type"] == "object" && !allows_any_content(&schemas[*name])
            })
            .map(|name| (name.clone(), format!("{name}{INPUT}")))
            .collect(),
    );
    for name in &in_requests {
        let input = renamed.0.get(name).unwrap_or(name).clone();
        let mut schema = schemas[name].clone();
        add_rules(name, &mut schema, form);
        renamed.apply(&mut schema);
        refuse_unknown_fields(&mut schema);
        limit_texts(&mut schema);
        schemas.insert(input, schema);
    }
    match form {
        DocumentForm::Strict => {
            for name in &in_requests {
                let input = renamed.0.get(name).unwrap_or(name);
                if let Some(mut schema) = schemas.get(input).cloned() {
                    loosen_for_polls(&mut schema, schemas);
                    schemas.insert(input.clone(), schema);
                }
            }
        }
        DocumentForm::Flat => flat::flatten(schemas, &in_responses),
    }
    // Schemas that were merged into other schemas are not used any more.
    let mut roots: Vec<Value> = requests;
    roots.iter_mut().for_each(|root| renamed.apply(root));
    roots.extend(responses);
    roots.push(reference("ErrorBody"));
    let used = reachable(schemas, &roots);
    schemas.retain(|name, _| used.contains(name));
    renamed
}

/// Whether a schema is an object with arbitrary content.
fn allows_any_content(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&json!(true))
}

/// The names of the schemas that `roots` refer to, directly or indirectly.
pub(super) fn reachable(schemas: &Map<String, Value>, roots: &[Value]) -> BTreeSet<String> {
    fn visit(part: &Value, schemas: &Map<String, Value>, names: &mut BTreeSet<String>) {
        match part {
            Value::Object(members) => {
                if let Some(name) = name_of(part)
                    && names.insert(name.to_owned())
                {
                    visit(&schemas[name], schemas, names);
                }
                members.values().for_each(|member| visit(member, schemas, names));
            }
            Value::Array(parts) => parts.iter().for_each(|part| visit(part, schemas, names)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    let mut names = BTreeSet::new();
    roots.iter().for_each(|root| visit(root, schemas, &mut names));
    names
}

/// The schema name in a reference.
pub(super) fn name_of(part: &Value) -> Option<&str> {
    part.get("$ref")?.as_str()?.strip_prefix(SCHEMAS)
}

/// Merges the parts of a flattened object (`allOf`) into one object. Separate parts could not
/// refuse unknown fields, because each part would refuse the fields of the others. A part with
/// variants results in one object for each variant.
fn merge_parts(schema: &Value, schemas: &Map<String, Value>) -> Value {
    if schema.get("allOf").is_none() {
        return schema.clone();
    }
    let mut whole = match <[Value; 1]>::try_from(forms(schema, schemas)) {
        Ok([only]) => only,
        Err(variants) => json!({ "oneOf": variants }),
    };
    if let Some(description) = schema.get("description") {
        whole["description"] = description.clone();
    }
    whole
}

/// The objects that a schema allows: one for each combination of the variants of its parts.
pub(super) fn forms(schema: &Value, schemas: &Map<String, Value>) -> Vec<Value> {
    if let Some(name) = name_of(schema) {
        return forms(&schemas[name], schemas);
    }
    if let Some(parts) = schema["allOf"].as_array() {
        let mut whole = vec![json!({ "type": "object", "properties": {}, "required": [] })];
        for part in parts {
            let choices = forms(part, schemas);
            let combine = |variant: &Value| -> Vec<Value> {
                choices.iter().map(|choice| join_objects(variant, choice)).collect()
            };
            whole = whole.iter().flat_map(combine).collect();
        }
        return whole;
    }
    let variants = ["oneOf", "anyOf"].into_iter().find_map(|key| schema[key].as_array());
    match variants {
        Some(variants) => variants.iter().flat_map(|variant| forms(variant, schemas)).collect(),
        None => vec![schema.clone()],
    }
}

fn join_objects(one: &Value, other: &Value) -> Value {
    let mut all = one.clone();
    for (name, property) in other["properties"].as_object().into_iter().flatten() {
        all["properties"][name] = property.clone();
    }
    let required_by_other = other["required"].as_array().into_iter().flatten().cloned();
    if let Some(required) = all["required"].as_array_mut() {
        required.extend(required_by_other);
    }
    all
}

/// Adds the rules of validation to the types. In the flat form, rules about several fields are a text.
fn add_rules(model: &str, schema: &mut Value, form: DocumentForm) {
    for rules in rules().into_iter().filter(|rules| rules.model == model) {
        for (field, keywords) in &rules.fields {
            for object in objects(schema) {
                debug_assert!(
                    object["properties"].get(field).is_some(),
                    "{model} has no field {field}"
                );
                set_keywords(&mut object["properties"][*field], keywords, form);
            }
        }
        match form {
            DocumentForm::Strict => set_keywords(schema, &rules.together, form),
            DocumentForm::Flat if rules.about.is_empty() => {}
            DocumentForm::Flat => {
                let description = schema["description"].as_str().unwrap_or_default();
                schema["description"] =
                    json!(format!("{description} {}", rules.about).trim_start());
            }
        }
    }
}

/// The object that a schema describes, or the objects that its variants describe.
fn objects(schema: &mut Value) -> Vec<&mut Value> {
    if schema.get("properties").is_some() {
        return vec![schema];
    }
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten().collect()
}

/// Sets keywords of a schema. The keywords of `items` are added to the existing ones.
fn set_keywords(schema: &mut Value, keywords: &Value, form: DocumentForm) {
    for (keyword, value) in keywords.as_object().into_iter().flatten() {
        let items = schema.get("items").filter(|_| keyword == "items");
        let has_named_items = items.and_then(name_of).is_some();
        if has_named_items && form == DocumentForm::Flat {
            // The strict document allows unknown names where the server ignores them; generators need the
            // enum.
            continue;
        }
        if items.is_some() && !has_named_items {
            set_keywords(&mut schema["items"], value, form);
        } else if keyword == "oneOf" {
            // The description of a nullable reference is in one of its variants.
            let variants = schema["oneOf"].as_array().into_iter().flatten();
            let described = variants.chain([&*schema]).find_map(|part| part.get("description"));
            let description = described.cloned();
            *schema = json!({ "oneOf": value });
            if let Some(description) = description {
                schema["description"] = description;
            }
        } else {
            schema[keyword] = value.clone();
        }
    }
}

/// Refuses unknown fields at every depth, except in objects with arbitrary content.
fn refuse_unknown_fields(schema: &mut Value) {
    let kind = schema.get("type");
    let is_object = kind.is_some_and(|kind| {
        kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("object")))
    });
    if is_object && schema.get("additionalProperties").is_none() {
        schema["additionalProperties"] = json!(false);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    properties.into_iter().flat_map(Map::values_mut).for_each(refuse_unknown_fields);
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten().for_each(refuse_unknown_fields);
}

/// With device ids, platforms are ignored and may contain any text.
const IGNORED_WITH_IDS: &str = "platforms";

/// Adds a limit to every text that has none, at every depth except in objects with arbitrary
/// content.
fn limit_texts(schema: &mut Value) {
    let kind = schema.get("type");
    let is_text = kind.is_some_and(|kind| {
        kind == "string" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("string")))
    });
    let has_limit = ["maxLength", "enum", "const"].iter().any(|name| schema.get(name).is_some());
    if is_text && !has_limit {
        schema["maxLength"] = json!(TEXT_CHARS_MAX);
    }
    let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.into_iter().flatten().filter(|(name, _)| *name != IGNORED_WITH_IDS);
    properties.for_each(|(_, property)| limit_texts(property));
    let variants = schema.get_mut("oneOf").and_then(Value::as_array_mut);
    variants.into_iter().flatten().for_each(limit_texts);
    if let Some(items) = schema.get_mut("items") {
        limit_texts(items);
    }
}

/// With a poll, the server ignores most settings and checks only their types. The rules of these
/// settings move to the branches of messages.
fn loosen_for_polls(schema: &mut Value, schemas: &Map<String, Value>) {
    let is_loosened = message_branches(schema).next().is_some();
    if !is_loosened {
        return;
    }
    let mut rules = Vec::new();
    for name in IGNORED_BY_POLLS {
        let Some(property) = schema["properties"].get(name).cloned() else { continue };
        let mut rule = property.clone();
        if let Some(rule) = rule.as_object_mut() {
            rule.remove("description");
        }
        rules.push((name, rule));
        schema["properties"][name] = without_limits(&property, schemas);
    }
    for branch in message_branches(schema) {
        for (name, rule) in &rules {
            if branch["properties"].get(name).is_none() {
                branch["properties"][name] = rule.clone();
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
