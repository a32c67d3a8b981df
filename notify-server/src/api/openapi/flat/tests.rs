//! The forms of schemas, and the published document as a whole.

use notify_core::schema::{ModelSchema, Together};

use super::super::tests::{operations, parsed};
use super::super::{DocumentForm, models, reachable};
use super::*;

/// A model whose variants differ by the fields of `data`.
fn feature() -> Value {
    let variant = |kind: &str, data: &str| {
        json!({
            "type": "object",
            "required": ["type", "data"],
            "properties": { "type": { "type": "string", "enum": [kind] }, "data": reference(data) },
        })
    };
    json!({
        "description": "A part.",
        "oneOf": [variant("big_button", "Named"), variant("feed", "Other")],
    })
}

fn schemas() -> Map<String, Value> {
    let models = json!({
        "Level": { "type": "string", "enum": ["high", "normal"] },
        "Instant": { "type": "integer", "format": "int64", "description": "An instant." },
        "Named": { "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } },
        "Other": { "type": "object", "properties": { "name": { "type": "boolean" } } },
        "Feature": feature(),
    });
    models.as_object().unwrap().clone()
}

/// A schema, its form in requests, and its form in responses.
type Forms = (Value, Value, Value);

/// Both forms are this one.
fn same(schema: Value, flat: Value) -> Forms {
    (schema, flat.clone(), flat)
}

fn absent() -> Value {
    json!({ "type": "null" })
}

fn forms_of_values() -> Vec<Forms> {
    vec![
        same(json!({ "const": "a" }), json!({ "enum": ["a"] })),
        (
            json!({ "type": ["string", "null"], "maxLength": 3 }),
            json!({ "type": "string", "maxLength": 3 }),
            json!({ "type": ["string", "null"], "maxLength": 3 }),
        ),
        // A nullable reference, with its description in a variant.
        (
            json!({ "oneOf": [absent(), { "$ref": "#/components/schemas/Level", "description": "How." }] }),
            json!({ "$ref": "#/components/schemas/Level", "description": "How." }),
            json!({ "oneOf": [reference("Level"), absent()], "description": "How." }),
        ),
        (
            json!({ "oneOf": [absent(), reference("Instant")], "description": "When." }),
            json!({ "$ref": "#/components/schemas/Instant", "description": "When." }),
            json!({ "type": ["integer", "null"], "format": "int64", "description": "When." }),
        ),
        (
            json!({ "type": ["object", "null"] }),
            json!({ "type": "object" }),
            json!({ "oneOf": [{ "type": "object" }, absent()] }),
        ),
        // The empty text of an absent name, and a word with the meaning of an absent number.
        (
            json!({ "oneOf": [absent(), { "const": "" }, reference("Level")] }),
            reference("Level"),
            json!({ "oneOf": [reference("Level"), absent()] }),
        ),
        same(
            json!({ "oneOf": [{ "type": "integer", "minimum": 0 }, { "const": "now" }] }),
            json!({ "type": "integer", "minimum": 0 }),
        ),
        // Types side by side; also with a blank text, which equals an absent value.
        same(
            json!({ "description": "Any.", "oneOf": [{ "type": "boolean" }, { "type": "string" }] }),
            json!({ "description": "Any.", "type": ["boolean", "string"] }),
        ),
        (
            json!({ "anyOf": [{ "type": "boolean" }, { "type": ["string", "null"] }] }),
            json!({ "type": "boolean" }),
            json!({ "type": ["boolean", "null"] }),
        ),
    ]
}

fn forms_of_objects() -> Vec<Forms> {
    vec![
        // An object that can be given as its text.
        same(json!({ "anyOf": [reference("Named"), { "type": "string" }] }), reference("Named")),
        // `null` as a value of a map.
        same(
            json!({ "type": "object", "additionalProperties": { "oneOf": [absent(), { "type": "number" }] } }),
            json!({ "type": "object", "additionalProperties": { "type": ["number", "null"] } }),
        ),
        // Parts become one object.
        same(
            json!({ "allOf": [
                reference("Named"),
                { "type": "object", "required": ["at"], "properties": { "at": { "const": 1 } } },
            ] }),
            json!({
                "type": "object",
                "required": ["name", "at"],
                "properties": { "name": { "type": "string" }, "at": { "enum": [1] } },
            }),
        ),
        // Variants become one object; it requires what each of them requires.
        same(
            json!({ "oneOf": [
                {
                    "type": "object",
                    "required": ["type", "url"],
                    "properties": {
                        "type": { "type": "string", "enum": ["link"] },
                        "url": { "type": "string" },
                        "is": { "type": "integer", "maximum": 3, "description": "It is." },
                        "in": { "type": "array", "items": { "type": "boolean" } },
                    },
                },
                {
                    "type": "object",
                    "required": ["type"],
                    "properties": {
                        "type": { "type": "string", "enum": ["call"] },
                        "is": { "type": ["string", "number"], "description": "It is." },
                        "in": { "type": "array", "items": { "type": "string" } },
                    },
                },
            ] }),
            json!({
                "type": "object",
                "required": ["type"],
                "properties": {
                    "type": { "type": "string", "enum": ["link", "call"] },
                    "url": { "type": "string" },
                    "is": { "type": ["string", "number"], "description": "It is." },
                    "in": { "type": "array", "items": { "type": ["boolean", "string"] } },
                },
            }),
        ),
    ]
}

#[test]
fn schemas_have_a_form_in_requests_and_one_in_responses() {
    for (schema, in_requests, in_responses) in
        forms_of_values().into_iter().chain(forms_of_objects())
    {
        for (keeps_null, mut expected) in [(false, in_requests), (true, in_responses)] {
            let schemas = schemas();
            let mut flat = Flattening { schemas: &schemas, keeps_null }.schema(&schema);
            // The order of a list of types has no meaning.
            for schema in [&mut flat, &mut expected] {
                sort_types(schema);
            }
            assert_eq!(flat, expected, "{schema}");
        }
    }
}

fn sort_types(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Array(kinds)) = members.get_mut("type") {
                kinds.sort_by_key(Value::to_string);
            }
            members.values_mut().for_each(sort_types);
        }
        Value::Array(parts) => parts.iter_mut().for_each(sort_types),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn variants_that_differ_in_their_fields_have_names() {
    let mut flat = schemas();
    flatten(&mut flat, &BTreeSet::new());
    assert_eq!(
        flat["Feature"],
        json!({
            "description": "A part.",
            "oneOf": [reference("FeatureBigButton"), reference("FeatureFeed")],
            "discriminator": {
                "propertyName": "type",
                "mapping": {
                    "big_button": "#/components/schemas/FeatureBigButton",
                    "feed": "#/components/schemas/FeatureFeed",
                },
            },
        })
    );
    assert_eq!(
        flat["FeatureFeed"],
        json!({
            "description": "A part.",
            "type": "object",
            "required": ["type", "data"],
            "properties": {
                "type": { "type": "string", "enum": ["feed"] },
                "data": reference("Other"),
            },
        })
    );
}

#[test]
fn the_types_of_a_model_refer_to_it() {
    let types =
        || json!({ "oneOf": [{ "type": "boolean" }, { "type": "string", "maxLength": 9 }] });
    let model = json!({
        "type": "object",
        "properties": { "in": { "type": "array", "items": types() }, "is": types() },
    });
    let mut flat: Map<String, Value> =
        [("Any".to_owned(), types()), ("Test".to_owned(), model)].into_iter().collect();
    flatten(&mut flat, &BTreeSet::new());
    assert_eq!(flat["Any"], json!({ "type": ["boolean", "string"] }));
    assert_eq!(
        flat["Test"]["properties"],
        json!({ "in": { "type": "array", "items": reference("Any") }, "is": reference("Any") })
    );
}

#[test]
fn a_parameter_with_the_names_of_an_enum_refers_to_it() {
    let schemas = schemas();
    let names = json!({ "type": "string", "enum": ["high", "normal"] });
    assert_eq!(parameter(&names, &schemas), reference("Level"));
    for schema in [json!({ "type": "string", "enum": ["high"] }), json!({ "type": "string" })] {
        assert_eq!(parameter(&schema, &schemas), schema);
    }
}

/// Calls `see` with the place of every schema below this one.
fn each_schema(place: &str, schema: &Value, see: &mut impl FnMut(&str, &Value)) {
    see(place, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        each_schema(&format!("{place}.{name}"), property, see);
    }
    for key in ["items", "additionalProperties", "propertyNames"] {
        // `additionalProperties` is also a boolean, which generators know.
        if let Some(part) = schema.get(key).filter(|part| !part.is_boolean()) {
            each_schema(&format!("{place}.{key}"), part, see);
        }
    }
    for part in schema["oneOf"].as_array().into_iter().flatten() {
        each_schema(&format!("{place}|"), part, see);
    }
}

/// Every schema of the published document, with its place.
fn each_published_schema(document: &Value, see: &mut impl FnMut(&str, &Value)) {
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        each_schema(name, schema, see);
    }
    for (name, operation) in operations(document) {
        for parameter in operation["parameters"].as_array().unwrap() {
            each_schema(&name, &parameter["schema"], see);
        }
        let bodies = operation["responses"].as_object().unwrap().values();
        for body in bodies.chain([&operation["requestBody"]]) {
            for content in body["content"].as_object().into_iter().flat_map(Map::values) {
                each_schema(&name, &content["schema"], see);
            }
        }
    }
}

#[test]
fn the_published_document_has_only_forms_that_generators_read() {
    const UNREAD: [&str; 9] = [
        "allOf",
        "anyOf",
        "not",
        "if",
        "then",
        "const",
        "patternProperties",
        "dependentRequired",
        "dependentSchemas",
    ];
    let document = parsed(DocumentForm::Flat);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (mut nullable_count, mut variants_count) = (0, 0);
    each_published_schema(&document, &mut |place, schema| {
        let keywords = schema.as_object().unwrap_or_else(|| panic!("{place}: {schema}"));
        assert!(!keywords.is_empty(), "{place} allows everything");
        assert!(UNREAD.iter().all(|key| !keywords.contains_key(*key)), "{place}: {schema}");
        if schema["type"] == "null" {
            assert!(place.ends_with('|'), "{place} is always null");
        }
        let Some(parts) = schema["oneOf"].as_array() else { return };
        if let Some(mapping) = schema["discriminator"]["mapping"].as_object() {
            let mapped: BTreeSet<_> = mapping.values().filter_map(Value::as_str).collect();
            let listed = parts.iter().filter_map(|part| part["$ref"].as_str());
            assert_eq!(listed.collect::<BTreeSet<_>>(), mapped, "{place}");
            variants_count += 1;
        } else {
            assert!(parts.len() == 2 && parts[1] == json!({ "type": "null" }), "{place}: {schema}");
            nullable_count += 1;
        }
    });
    // The features of templates, of campaigns and of enrichments.
    assert_eq!(variants_count, 3);
    assert!(nullable_count > 10, "{nullable_count}");
    // Generators name a model after its place if it has no name.
    let places = ["ProviderConfig.service_account"];
    each_published_schema(&document, &mut |place, schema| {
        let is_nameless = place.contains(['.', ' ']) && schema["properties"].is_object();
        let is_form = place == "post /polls/{public_id}/votes";
        assert!(!is_nameless || is_form || places.contains(&place), "{place}: {schema}");
    });
    assert!(!schemas.contains_key("DeviceDetails"), "it is part of Device");
}

/// The rules that the published document has only as texts are in the strict one as schemas.
#[test]
fn rules_about_several_fields_are_described() {
    let [flat, strict] = [DocumentForm::Flat, DocumentForm::Strict].map(parsed);
    let mut described_count = 0;
    for (name, ModelSchema { together: Together { about, keywords }, .. }) in
        models(&crate::api::routes::routes()).0
    {
        let has_rules = keywords.as_object().is_some_and(|keywords| !keywords.is_empty());
        assert_eq!(has_rules, !about.is_empty(), "{name}");
        if has_rules {
            let description = |document: &Value| {
                let model = &document["components"]["schemas"][&name];
                model["description"].as_str().unwrap().to_owned()
            };
            assert!(description(&flat).ends_with(about), "{}", description(&flat));
            assert!(!description(&strict).contains(about), "{}", description(&strict));
            described_count += 1;
        }
    }
    assert!(described_count > 8, "{described_count}");
}

#[test]
fn both_documents_describe_the_same_fields() {
    let documents = [DocumentForm::Flat, DocumentForm::Strict].map(parsed);
    let [flat, strict] = documents.each_ref().map(|document| {
        let schemas = document["components"]["schemas"].as_object().unwrap();
        let roots: Vec<Value> =
            operations(document).into_iter().map(|(_, one)| one.clone()).collect();
        let names = reachable(schemas, &roots);
        let models = names.into_iter().filter_map(|name| {
            let fields = schemas[&name]["properties"].as_object()?.keys().cloned();
            Some((name, fields.collect::<BTreeSet<_>>()))
        });
        models.collect::<std::collections::BTreeMap<_, _>>()
    });
    let mut compared = 0;
    for (name, fields) in &strict {
        if let Some(others) = flat.get(name) {
            // In the strict document, the parts of some responses are apart.
            assert!(fields.is_subset(others), "{name}: {fields:?} {others:?}");
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn every_operation_has_security_a_tag_and_documented_errors() {
    for form in [DocumentForm::Flat, DocumentForm::Strict] {
        let document = parsed(form);
        assert_eq!(document["servers"][0]["url"], ".");
        let tags = &document["tags"];
        for (name, operation) in operations(&document) {
            let needs_key = ["/v1/", "/admin/", "/device/"]
                .iter()
                .any(|area| name.split_once(' ').is_some_and(|(_, path)| path.starts_with(area)));
            let security = operation["security"].as_array().unwrap();
            assert!(!security.is_empty() || !needs_key, "{name}");
            let tag = json!({ "name": operation["tags"][0] });
            assert!(tags.as_array().unwrap().contains(&tag), "{name}");
            for (status, response) in operation["responses"].as_object().unwrap() {
                let is_documented = response.get("$ref").is_some()
                    || response["content"]["text/html"]["schema"].is_object();
                assert!(is_documented || status.starts_with(['2', '3']), "{name}: {status}");
            }
        }
    }
}
