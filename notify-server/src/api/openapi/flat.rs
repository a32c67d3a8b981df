//! The form of the schemas that generators of clients read: objects that list all their fields, enums, and
//! plain types. Only objects whose `type` decides the fields of the others are variants. Descriptions have
//! the rules that this form cannot express; the strict document has them as schemas.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::shape::{name_of, reference};

/// The field that tells variants of an object apart.
const DISCRIMINATOR: &str = "type";

/// Brings all schemas into the form. `in_responses` are the names of the schemas of responses; all others are
/// only in requests.
pub(super) fn flatten(schemas: &mut Map<String, Value>, in_responses: &BTreeSet<String>) {
    let original = schemas.clone();
    for (name, schema) in &original {
        let is_response = in_responses.contains(name);
        let mut flat = Flattening { schemas: &original, keeps_null: is_response }.schema(schema);
        if is_response && flat.get("additionalProperties") == Some(&json!(false)) {
            // Responses may get more fields in a later version.
            remove(&mut flat, "additionalProperties");
        }
        schemas.extend(name_variants(name, &mut flat));
        schemas.insert(name.clone(), flat);
    }
    name_types(schemas);
}

/// The schema of a parameter in this form. A parameter with the names of an enum refers to the enum:
/// generators would otherwise make another type for it.
pub(super) fn parameter(schema: &Value, schemas: &Map<String, Value>) -> Value {
    let names = schema.get("enum");
    let is_same = |named: &Value| names.is_some() && named.get("enum") == names;
    match schemas.iter().find(|(_, named)| is_same(named)) {
        Some((name, _)) => reference(name),
        None => Flattening { schemas, keeps_null: false }.schema(schema),
    }
}

/// Gives names to the variants of an object: generators make up names for nameless ones.
fn name_variants(name: &str, schema: &mut Value) -> Vec<(String, Value)> {
    if schema.get("discriminator").is_none() {
        return Vec::new();
    }
    let description = schema.get("description").cloned().unwrap_or_default();
    let mut named = Vec::new();
    let mut mapping = Map::new();
    for variant in schema["oneOf"].as_array_mut().into_iter().flatten() {
        let kind = variant["properties"][DISCRIMINATOR]["enum"][0].as_str().unwrap_or_default();
        let (kind, variant_name) = (kind.to_owned(), format!("{name}{}", pascal_case(kind)));
        mapping.insert(kind, reference(&variant_name)["$ref"].clone());
        let mut own = std::mem::replace(variant, reference(&variant_name));
        own["description"] = description.clone();
        named.push((variant_name, own));
    }
    schema["discriminator"]["mapping"] = Value::Object(mapping);
    named
}

/// Refers to a model where a part of another has the types of the model side by side.
fn name_types(schemas: &mut Map<String, Value>) {
    let models: Vec<(Value, String)> = schemas
        .iter()
        .filter(|(_, schema)| schema["type"].is_array() && !allows_null(schema))
        .map(|(name, schema)| (schema["type"].clone(), name.clone()))
        .collect();
    for schema in schemas.values_mut() {
        each_part(schema, &mut |part| {
            if let Some((_, name)) = models.iter().find(|(kinds, _)| part["type"] == *kinds) {
                let description = remove(part, "description");
                *part = reference(name);
                if let Some(description) = description {
                    part["description"] = description;
                }
            }
        });
    }
}

/// Calls `change` with each schema inside this one.
fn each_part(schema: &mut Value, change: &mut impl FnMut(&mut Value)) {
    let Some(keywords) = schema.as_object_mut() else { return };
    for (keyword, value) in keywords {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for property in properties.values_mut() {
                    change(property);
                    each_part(property, change);
                }
            }
            ("items" | "additionalProperties", part @ Value::Object(_)) => {
                change(part);
                each_part(part, change);
            }
            _ => {}
        }
    }
}

/// The objects that a schema allows: one for each combination of the variants of its parts.
fn forms(schema: &Value, schemas: &Map<String, Value>) -> Vec<Value> {
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

fn pascal_case(snake_case: &str) -> String {
    let words = snake_case.split('_').filter_map(|word| word.split_at_checked(1));
    words.map(|(first, rest)| first.to_uppercase() + rest).collect()
}

/// Brings the schemas of requests or those of responses into the form.
#[derive(Clone, Copy)]
struct Flattening<'s> {
    /// All schemas by name.
    schemas: &'s Map<String, Value>,
    /// Whether `null` is a value. In requests, it means that the field is absent.
    keeps_null: bool,
}

impl Flattening<'_> {
    fn schema(self, schema: &Value) -> Value {
        if name_of(schema).is_some() {
            return schema.clone();
        }
        let variants = match schema.get("allOf") {
            Some(_) => Some(forms(schema, self.schemas)),
            None => ["oneOf", "anyOf"].iter().find_map(|key| schema.get(key)?.as_array().cloned()),
        };
        let Some(variants) = variants else { return self.without_variants(schema) };
        let mut flat = self.of_variants(&variants);
        // The description of a nullable reference is in one of its variants.
        let mut parts = [schema].into_iter().chain(&variants);
        if let Some(description) = parts.find_map(|part| part.get("description")) {
            flat["description"] = description.clone();
        }
        flat
    }

    fn without_variants(self, schema: &Value) -> Value {
        let mut flat = schema.clone();
        if let Some(value) = remove(&mut flat, "const") {
            flat["enum"] = json!([value]);
        }
        if flat["required"] == json!([]) {
            remove(&mut flat, "required");
        }
        // Generators do not read it.
        remove(&mut flat, "not");
        let properties = flat.get_mut("properties").and_then(Value::as_object_mut);
        for property in properties.into_iter().flat_map(Map::values_mut) {
            *property = self.schema(property);
        }
        if let Some(items) = flat.get_mut("items") {
            *items = self.schema(items);
        }
        // The `null` of an attribute removes it, also in requests.
        if let Some(values) =
            flat.get_mut("additionalProperties").filter(|values| values.is_object())
        {
            *values = Self { keeps_null: true, ..self }.schema(values);
        }
        let kinds: Vec<String> = types(&flat).into_iter().filter(|kind| kind != "null").collect();
        let is_nullable = kinds.len() < types(&flat).len();
        if is_nullable {
            flat["type"] = one_or_all(&kinds);
            if self.keeps_null {
                return self.nullable(flat);
            }
        }
        flat
    }

    /// One schema for what the variants allow.
    fn of_variants(self, variants: &[Value]) -> Value {
        // A constant beside types is a word with the meaning of an absent value, such as an empty text.
        let values: Vec<&Value> = variants
            .iter()
            .filter(|variant| variant.get("const").is_none() && !allows_null(variant))
            .collect();
        let objects: Vec<&Value> =
            values.iter().copied().filter(|variant| self.is_object(variant)).collect();
        let flat = match (&*objects, &*values) {
            // An object that can also be given as its text.
            ([only], _) | ([], [only]) => self.schema(only),
            ([], values) => {
                let kinds: Vec<Value> = values.iter().map(|value| self.schema(value)).collect();
                let kinds: Vec<String> = kinds.iter().flat_map(types).collect();
                json!({ "type": one_or_all(&kinds) })
            }
            (objects, _) => self.object_of(objects),
        };
        if self.keeps_null && variants.iter().any(allows_null) { self.nullable(flat) } else { flat }
    }

    fn is_object(self, schema: &Value) -> bool {
        match name_of(schema) {
            Some(name) => self.is_object(&self.schemas[name]),
            None => {
                let has_parts = |key: &str| {
                    schema[key]
                        .as_array()
                        .is_some_and(|parts| parts.iter().any(|part| self.is_object(part)))
                };
                types(schema).iter().any(|kind| kind == "object")
                    || ["allOf", "oneOf", "anyOf"].into_iter().any(has_parts)
            }
        }
    }

    /// One object with the fields of all these. If fields differ by the `type` of the object, the objects
    /// remain variants.
    fn object_of(self, objects: &[&Value]) -> Value {
        let all: Vec<Value> = objects
            .iter()
            .flat_map(|object| forms(object, self.schemas))
            .map(|object| self.without_variants(&object))
            .collect();
        let Some((first, others)) = all.split_first() else { return json!({ "type": "object" }) };
        let mut whole = Some(first.clone());
        for object in others {
            whole = whole.and_then(|whole| unite_objects(&whole, object));
        }
        whole.unwrap_or_else(
            || json!({ "oneOf": all, "discriminator": { "propertyName": DISCRIMINATOR } }),
        )
    }

    /// A schema that also allows `null`.
    fn nullable(self, mut schema: Value) -> Value {
        // Generators know a list of types for plain types, and variants for all others.
        let target = name_of(&schema).map(|name| &self.schemas[name]);
        let plain = target.unwrap_or(&schema);
        let kinds = types(plain);
        let is_plain = !kinds.is_empty()
            && plain.get("enum").is_none()
            && kinds.iter().all(|kind| kind != "object" && kind != "null");
        let description = remove(&mut schema, "description");
        let mut nullable = if is_plain {
            let mut nullable = target.cloned().unwrap_or(schema);
            nullable["type"] = kinds.into_iter().chain(["null".to_owned()]).collect();
            nullable
        } else {
            json!({ "oneOf": [schema, { "type": "null" }] })
        };
        if let Some(description) = description {
            nullable["description"] = description;
        }
        nullable
    }
}

/// The types that a schema names.
fn types(schema: &Value) -> Vec<String> {
    match schema.get("type") {
        Some(Value::String(kind)) => vec![kind.clone()],
        Some(Value::Array(kinds)) => {
            kinds.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

fn allows_null(schema: &Value) -> bool {
    types(schema).iter().any(|kind| kind == "null")
}

/// The value of `type` for these types.
fn one_or_all(kinds: &[String]) -> Value {
    match kinds {
        [only] => json!(only),
        all => json!(all),
    }
}

/// An object with the fields of both, of which those are required that both require. `None` if a field
/// differs too much.
fn unite_objects(one: &Value, other: &Value) -> Option<Value> {
    let mut whole = one.clone();
    for (name, property) in other["properties"].as_object()? {
        let known = &mut whole["properties"][name];
        *known = if known.is_null() { property.clone() } else { unite(known, property)? };
    }
    let is_required_by_other =
        |name: &Value| other["required"].as_array().is_some_and(|names| names.contains(name));
    let required: Vec<Value> = one["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|name| is_required_by_other(name))
        .cloned()
        .collect();
    remove(&mut whole, "required");
    if !required.is_empty() {
        whole["required"] = required.into();
    }
    for of_one in ["description", "title"] {
        remove(&mut whole, of_one);
    }
    Some(whole)
}

/// A schema for the values of both, with the description that they share.
fn unite(one: &Value, other: &Value) -> Option<Value> {
    let [mut bare, mut other_bare] = [one, other].map(Value::clone);
    let descriptions = [&mut bare, &mut other_bare].map(|schema| remove(schema, "description"));
    let mut both = if bare == other_bare { bare } else { unite_bare(&bare, &other_bare)? };
    if let [Some(description), Some(same)] = descriptions
        && description == same
    {
        both["description"] = description;
    }
    Some(both)
}

/// A schema for the values of both. It has the limits of none.
fn unite_bare(one: &Value, other: &Value) -> Option<Value> {
    if let (Some(names), Some(others)) = (one["enum"].as_array(), other["enum"].as_array()) {
        let added = others.iter().filter(|name| !names.contains(name));
        let all: Vec<&Value> = names.iter().chain(added).collect();
        return Some(json!({ "type": "string", "enum": all }));
    }
    let (mut kinds, others) = (types(one), types(other));
    if kinds.is_empty() || others.is_empty() {
        return None;
    }
    let added = others.into_iter().filter(|kind| !kinds.contains(kind)).collect::<Vec<_>>();
    kinds.extend(added);
    if kinds.iter().any(|kind| kind == "number") {
        kinds.retain(|kind| kind != "integer");
    }
    match &*kinds {
        [kind] if kind == "array" => {
            Some(json!({ "type": "array", "items": unite(&one["items"], &other["items"])? }))
        }
        kinds if kinds.iter().any(|kind| kind == "array" || kind == "object") => None,
        kinds => Some(json!({ "type": one_or_all(kinds) })),
    }
}

fn remove(schema: &mut Value, keyword: &str) -> Option<Value> {
    schema.as_object_mut()?.remove(keyword)
}
