//! Requests, parameters and statuses in the document.

use std::collections::BTreeSet;

use notify_core::schema::ATTRIBUTE_NAME;

use super::*;
use crate::provider_config::ProviderConfig;

/// The strict document.
fn parsed_document() -> Value {
    parsed(DocumentForm::Strict)
}

pub(super) fn parsed(form: DocumentForm) -> Value {
    serde_json::from_str(&document(&crate::api::routes::routes(), form)).unwrap()
}

/// All operations by method and path.
pub(super) fn operations(document: &Value) -> Vec<(String, &Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, item)| {
        let methods = item.as_object().unwrap().iter();
        methods.map(move |(method, operation)| (format!("{method} {path}"), operation))
    });
    all.collect()
}

/// Calls `see` with the path and schema of every object in requests. A condition can contain conditions, so
/// each model is visited only once.
fn each_request_object(document: &Value, see: &mut impl FnMut(&str, &Value)) {
    let mut seen = BTreeSet::new();
    for (name, operation) in operations(document) {
        let schema = &operation["requestBody"]["content"][JSON]["schema"];
        let is_of_platform = name.contains("/hooks/");
        if !schema.is_null() && !is_of_platform {
            visit(&name, schema, document, &mut seen, see);
        }
    }
}

fn visit<'d>(
    place: &str,
    schema: &'d Value,
    document: &'d Value,
    seen: &mut BTreeSet<&'d str>,
    see: &mut impl FnMut(&str, &Value),
) {
    if let Some(target) = schema["$ref"].as_str() {
        let schema = document.pointer(&target[1..]).expect("the reference leads somewhere");
        if seen.insert(target) {
            visit(target, schema, document, seen, see);
        }
        return;
    }
    let kind = &schema["type"];
    if kind == "object" || kind.as_array().is_some_and(|kinds| kinds.contains(&json!("object"))) {
        see(place, schema);
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        visit(&format!("{place}.{name}"), property, document, seen, see);
    }
    if let Some(items) = schema.get("items") {
        visit(&format!("{place}[]"), items, document, seen, see);
    }
    for variant in schema["oneOf"].as_array().into_iter().flatten() {
        visit(place, variant, document, seen, see);
    }
}

#[test]
fn requests_refuse_unknown_fields_at_every_depth() {
    let document = parsed_document();
    let mut closed_count = 0;
    each_request_object(&document, &mut |place, schema| {
        if place.ends_with("/PatchAttributes") {
            // The caller chooses the names; the values have a schema.
            assert_eq!(schema["propertyNames"]["pattern"], ATTRIBUTE_NAME, "{place}");
            assert!(schema["additionalProperties"]["oneOf"].is_array(), "{place}");
            return;
        }
        if place.ends_with("/NotificationTranslations") || place.ends_with(".translations") {
            // The names are languages; the values have a schema that is closed, or null.
            let values = &schema["additionalProperties"]["oneOf"];
            assert!(values.as_array().is_some_and(|forms| forms.len() == 2), "{place}");
            return;
        }
        let has_any_content = place.ends_with("/JsonObject")
            || ["custom_json_value", "android_json", "ios_json"]
                .iter()
                .any(|own| place.ends_with(own));
        let expected = json!(has_any_content);
        assert_eq!(schema.get("additionalProperties"), Some(&expected), "{place}");
        closed_count += usize::from(!has_any_content);
    });
    assert!(closed_count > 30, "{closed_count}");
}

#[test]
fn responses_may_have_unknown_fields() {
    let schemas = parsed_document()["components"]["schemas"].clone();
    assert_eq!(schemas["TagInput"]["additionalProperties"], false);
    assert_eq!(schemas["Tag"].get("additionalProperties"), None);
    assert_eq!(schemas["Device"].get("additionalProperties"), None);
}

#[test]
fn webhooks_cannot_subscribe_to_test_events() {
    let document = parsed_document();
    let schemas = &document["components"]["schemas"];
    let offered = schemas["SubscribableEventType"]["enum"].as_array().unwrap();
    assert!(!offered.contains(&json!("webhook.test")) && offered.len() == 7, "{offered:?}");
    for model in ["CreateWebhook", "UpdateWebhook"] {
        let items = &schemas[model]["properties"]["events"]["items"];
        assert_eq!(items["$ref"], "#/components/schemas/SubscribableEventType");
    }
}

#[test]
fn query_parameters_have_types() {
    let document = parsed_document();
    let parameter = |operation: &str, name: &str| {
        let all = operations(&document);
        let (_, operation) = all.iter().find(|(other, _)| other == operation).unwrap();
        let mut parameters = operation["parameters"].as_array().unwrap().iter();
        parameters.find(|parameter| parameter["name"] == name).unwrap()["schema"].clone()
    };
    for (operation, name, expected) in [
        (
            "get /v1/devices",
            "limit",
            json!({"type": "integer", "format": "int64", "minimum": 1, "maximum": 1000}),
        ),
        (
            "get /v1/devices",
            "platform",
            json!({"type": "string",
                "enum": ["android", "ios", "web", "fb-messenger", "chatapp"]}),
        ),
        (
            "get /v1/campaigns",
            "status",
            json!({"type": "string", "enum": ["active", "disabled", "all"]}),
        ),
        (
            "get /v1/statistics/devices",
            "date_to",
            json!({"oneOf": [
                {"type": "integer", "format": "int64", "minimum": 0,
                    "maximum": 253_402_300_799_999_i64},
                {"const": "now"},
            ]}),
        ),
    ] {
        assert_eq!(parameter(operation, name), expected, "{operation} {name}");
    }
    let types = parameter("get /v1/events/stream", "types");
    assert!(types["pattern"].as_str().unwrap().contains(r"poll\.answered"), "{types}");
    let names = operations(&document).into_iter().find_map(|(name, operation)| {
        name.starts_with("get /web/").then_some(operation)?;
        let parameters = operation["parameters"].as_array()?.iter();
        let query: Vec<_> = parameters
            .filter(|parameter| parameter["in"] == "query")
            .map(|parameter| parameter["name"].clone())
            .collect();
        (!query.is_empty()).then_some(query)
    });
    assert_eq!(names, Some(vec![json!("notification_id")]));
}

#[test]
fn every_operation_lists_its_statuses() {
    let document = parsed_document();
    let all = operations(&document);
    for (name, operation) in &all {
        let statuses = operation["responses"].as_object().unwrap();
        assert!(!statuses.contains_key("default"), "{name}");
        assert!(statuses.keys().any(|status| status.starts_with(['2', '3'])), "{name}");
        assert!(statuses.contains_key("400") && statuses.contains_key("500"), "{name}");
    }
    for (name, expected) in [
        ("post /v1/notifications", "200 400 401 403 409 413 429 500 503"),
        ("get /v1/notifications/{id}", "200 400 401 403 404 429 500 503"),
        ("get /v1/polls/{id}", "200 400 401 403 429 500 503"),
        ("get /v1/enrichments/{campaign_id}", "200 304 400 401 403 404 429 500 503"),
        ("patch /v1/users/{user_id}", "200 400 401 403 404 413 429 500 503"),
        ("post /v1/segments/preview", "200 400 401 403 409 413 429 500 503"),
        ("put /admin/v1/apps/{id}/web", "200 400 401 404 413 429 500 503"),
        ("post /web/v1/{app_id}/devices", "200 400 401 413 429 500 503"),
        ("get /docs/{file}", "200 400 404 500 503"),
        ("post /hooks/telegram/{app_id}", "200 400 401 413 429 500 503"),
        ("get /hooks/messenger/{app_id}", "200 400 401 429 500 503"),
        ("get /polls/{public_id}", "200 400 404 500 503"),
        ("post /polls/{public_id}/votes", "303 400 404 413 429 500 503"),
        ("get /healthz", "200 400 500"),
    ] {
        let (_, operation) = all.iter().find(|(other, _)| other == name).unwrap();
        let statuses: Vec<&str> =
            operation["responses"].as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(statuses.join(" "), expected, "{name}");
    }
}

#[test]
fn path_parameters_have_bounds() {
    let document = parsed_document();
    let all = operations(&document);
    for (operation, name) in [
        ("get /v1/devices/{device_id}", "device_id"),
        ("patch /v1/users/{user_id}", "user_id"),
        ("put /v1/segments/{name}", "name"),
    ] {
        let (_, found) = all.iter().find(|(other, _)| other == operation).unwrap();
        let parameter = &found["parameters"][0];
        assert_eq!((&parameter["name"], &parameter["in"]), (&json!(name), &json!("path")));
        let schema = &parameter["schema"];
        assert_eq!((&schema["minLength"], &schema["maxLength"]), (&json!(1), &json!(255)));
        assert_eq!(schema.get("format"), None, "{operation}");
    }
}

/// With a poll, most settings are ignored.
#[test]
fn rules_of_messages_do_not_apply_to_polls() {
    let document = parsed_document();
    let notification = &document["components"]["schemas"]["CreateNotification"];
    let ignored = &notification["properties"]["web_push_settings"].to_string();
    assert!(!ignored.contains("minItems") && ignored.contains("actions"), "{ignored}");
    let message = notification["allOf"][1]["anyOf"][0]["properties"].to_string();
    assert!(message.contains("#/components/schemas/WebPushSettings"), "{message}");
}

/// The order of a JSON object has no meaning, but people read it from the top.
#[test]
fn the_api_of_applications_comes_first() {
    let text = document(&crate::api::routes::routes(), DocumentForm::Flat);
    let place = |path: &str| {
        text.find(&format!("\n    \"{path}\": {{")).unwrap_or_else(|| panic!("{path} is missing"))
    };
    let paths = [
        "/v1/notifications",
        "/v1/notifications/preview",
        "/v1/devices",
        "/v1/tags",
        "/v1/users",
        "/v1/segments",
        "/v1/segments/preview",
        "/v1/segments/{name}",
        "/v1/campaigns",
        "/v1/feeds",
        "/v1/webhooks",
        "/admin/v1/apps",
        "/web/v1/{app_id}",
        "/healthz",
        "/hooks/telegram/{app_id}",
    ];
    assert!(paths.is_sorted_by_key(|path| place(path)), "{:?}", paths.map(place));
    let of_path = |path: &str| {
        let item = text[place(path)..].lines().skip(2).take_while(|line| *line != "    },");
        let named = item.filter_map(|line| line.strip_prefix("      \"")?.strip_suffix("\": {"));
        named.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of_path("/v1/notifications"), ["post", "get"]);
    assert_eq!(of_path("/v1/users/{user_id}"), ["get", "patch", "delete"]);
    assert_eq!(of_path("/v1/segments/{name}"), ["get", "put", "delete"]);
    assert_eq!(of_path("/v1/campaigns/{id}"), ["get", "put", "delete"]);
    assert_eq!(of_path("/v1/webhooks/{id}"), ["get", "patch", "delete"]);
    let document: Value = serde_json::from_str(&text).unwrap();
    let introduction = document["info"]["description"].as_str().unwrap();
    assert!(introduction.contains("`X-API-Key`"), "{introduction}");
    assert_eq!(
        document["tags"],
        json!([
            { "name": "Notifications" },
            { "name": "Polls" },
            { "name": "Events" },
            { "name": "Devices" },
            { "name": "Statistics" },
            { "name": "Users" },
            { "name": "Segments" },
            { "name": "Campaigns" },
            { "name": "Feeds" },
            { "name": "Webhooks" },
            { "name": "Administration" },
            { "name": "Apps" },
            { "name": "Browsers" },
            { "name": "Server" },
            { "name": "Inbound webhooks" },
        ])
    );
}

#[test]
fn every_operation_is_described() {
    let document = parsed_document();
    for (name, operation) in operations(&document) {
        let description = operation["description"].as_str().unwrap();
        assert!(!description.is_empty(), "{name}");
        assert!(!description.contains("```") && !description.contains("](#"), "{name}");
    }
}

/// The examples of a media type.
fn examples(content: &Value) -> Vec<&Value> {
    let named = content["examples"].as_object().into_iter().flatten();
    let named = named.map(|(name, example)| {
        assert!(!name.is_empty() && example["summary"].is_string(), "{name}");
        &example["value"]
    });
    content.get("example").into_iter().chain(named).collect()
}

#[test]
fn every_request_and_response_of_a_model_has_an_example() {
    let document = parsed_document();
    for (name, operation) in operations(&document) {
        let bodies = operation["requestBody"]["content"].as_object().into_iter().flatten();
        let success = &operation["responses"]["200"]["content"][JSON];
        let answers = success["schema"].get("$ref").map(|_| success);
        for content in bodies.map(|(_, content)| content).chain(answers) {
            let examples = examples(content);
            assert!(!examples.is_empty(), "{name}");
            assert!(examples.iter().all(|example| !example.is_null()), "{name}");
        }
    }
}

/// The rules depend on the provider in the path; examples are named after it.
#[test]
fn every_example_of_a_provider_is_valid() {
    let document = parsed_document();
    let body = &document["paths"]["/admin/v1/apps/{id}/providers/{provider}"]["put"]["requestBody"];
    let shown = body["content"][JSON]["examples"].as_object().unwrap();
    for (name, example) in shown {
        let kind = ProviderKind::ALL.into_iter().find(|kind| kind.as_str() == name);
        let kind = kind.unwrap_or_else(|| panic!("{name} is no provider"));
        let mut config = example["value"].clone();
        ProviderConfig::fill_defaults(kind, &mut config, None);
        let parsed = ProviderConfig::parse(kind, &config);
        assert!(parsed.is_ok(), "{name}: {parsed:?}");
    }
    assert_eq!(shown.keys().collect::<Vec<_>>(), ["apns", "messenger", "telegram", "webpush"]);
}
