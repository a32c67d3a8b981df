//! The schemas have the limits of validation: values at a limit are accepted, values beyond it are
//! refused.

use std::collections::BTreeMap;

use notify_core::schema::{ModelSchema, Schemas};
use notify_core::{
    Audience, CheckFeed, CreateAdminKey, CreateApp, CreateFeed, CreateKey, CreateNotification,
    CreateUserToken, CreateWebhook, DeleteUser, DeviceStatisticsQuery, EnrichmentQuery, ListAudit,
    ListCampaigns, ListDeliveries, ListDevices, ListNotificationUsers, LogIn, LogInWithToken,
    NotificationStatisticsQuery, OpenApiQuery, PageQuery, ParameterForm, PatchAttributes,
    PreviewSegment, Query, RecoverWebhook, RegisterAppDevice, RegisterDevice, RenameKey,
    ReportEvents, ReportNotification, Request, RotateKey, SetTags, SetWebAccess, StreamQuery,
    Subscribe, Template, UpdateApp, UpdateWebhook, WebReport, WebSubscribe,
};
use serde_json::{Value, json};
use utoipa::PartialSchema;

use crate::support::NOW;

/// A text of the given length that matches the field's pattern.
fn text(rule: &Value, chars: usize) -> Value {
    let is_url = rule["pattern"].as_str().is_some_and(|pattern| pattern.contains(':'));
    let start = if is_url && chars > 20 { "https://a.example/" } else { "" };
    format!("{start}{}", "a".repeat(chars - start.len())).into()
}

/// Values at and beyond the limits of a rule, and whether each is accepted.
fn values_at_limits(rule: &Value, element: &Value) -> Vec<(Value, bool)> {
    let mut values = Vec::new();
    let limit = |name: &str| rule.get(name).and_then(Value::as_u64);
    let count = |name: &str| limit(name).and_then(|count| usize::try_from(count).ok());
    let list = |length: usize| {
        let numbered = |number: usize| match element {
            Value::Object(_) if element.get("name").is_some() => {
                let mut element = element.clone();
                element["name"] = format!("name {number}").into();
                element
            }
            other => other.clone(),
        };
        Value::Array((0..length).map(numbered).collect())
    };
    if let Some(max) = count("maxLength") {
        values.push((text(rule, max), true));
        values.push((text(rule, max + 1), false));
    }
    if count("minLength") == Some(1) {
        values.push((json!(""), false));
    }
    if let Some(max) = limit("maximum") {
        values.push((max.into(), true));
        values.push(((max + 1).into(), false));
    }
    if let Some(min) = limit("minimum") {
        values.push((min.into(), true));
        if min > 0 {
            values.push(((min - 1).into(), false));
        }
    }
    if let Some(max) = count("maxItems") {
        values.push((list(max), true));
        values.push((list(max + 1), false));
    }
    if let Some(min) = count("minItems") {
        values.push((list(min), true));
        values.push((list(min - 1), false));
    }
    values
}

/// Fields with rules that the limits of their schemas do not have.
const FURTHER_RULES: [&str; 4] = ["/recipient_id", "/platforms", "/features", "/articles"];

/// The schema of a value: a schema that is not a reference, without the variants of an absent value.
fn resolve<'s>(
    schema: &'s Value,
    value: &Value,
    schemas: &'s BTreeMap<String, ModelSchema>,
) -> Option<&'s Value> {
    if let Some(target) = schema.get("$ref") {
        let name = target.as_str()?.strip_prefix("#/components/schemas/")?;
        return resolve(&schemas[name].schema, value, schemas);
    }
    let Some(variants) = schema.get("oneOf").and_then(Value::as_array) else { return Some(schema) };
    let fits = |variant: &&Value| match variant["properties"]["type"]["enum"].as_array() {
        Some(names) => names.contains(&value["type"]),
        None => variant["type"] != "null" && variant.get("const").is_none(),
    };
    let mut fitting = variants.iter().filter(fits);
    let variant = fitting.next()?;
    // Conditions have many forms, which have a test of their own.
    if fitting.next().is_some() { None } else { resolve(variant, value, schemas) }
}

/// Adds the JSON pointers of all values in a body, with their schemas.
fn add_fields<'s>(
    at: &str,
    value: &Value,
    schema: &'s Value,
    schemas: &'s BTreeMap<String, ModelSchema>,
    fields: &mut Vec<(String, &'s Value)>,
) {
    let Some(schema) = resolve(schema, value, schemas) else { return };
    fields.push((at.to_owned(), schema));
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let property = schema["properties"].get(name);
                let property = property.unwrap_or_else(|| panic!("{at} has no field {name}"));
                add_fields(&format!("{at}/{name}"), member, property, schemas, fields);
            }
        }
        Value::Array(elements) if elements.iter().all(Value::is_object) => {
            for (index, element) in elements.iter().enumerate() {
                add_fields(&format!("{at}/{index}"), element, &schema["items"], schemas, fields);
            }
        }
        _ => {}
    }
}

/// Checks each field of a valid body at its limits. Returns the number of fields with limits.
fn check<R: Request>(body: &Value) -> usize {
    let parse = |body: &Value| R::parse(body.to_string().as_bytes(), NOW).map(|_| ());
    assert_eq!(parse(body), Ok(()), "{body}");
    let mut schemas = Schemas::default();
    let schema = R::add_schema(&mut schemas);
    let schemas = schemas.into_map();
    let mut fields = Vec::new();
    add_fields("", body, &schema, &schemas, &mut fields);
    fields.retain(|(at, _)| !FURTHER_RULES.iter().any(|end| at.ends_with(end)));
    let mut limited_count = 0;
    for (at, schema) in fields {
        let element = body.pointer(&format!("{at}/0")).cloned().unwrap_or_default();
        let values = values_at_limits(schema, &element);
        limited_count += usize::from(!values.is_empty());
        for (value, is_within) in values {
            let mut body = body.clone();
            *body.pointer_mut(&at).expect("the body has the field") = value.clone();
            let outcome = parse(&body);
            let shown = value.to_string().chars().take(60).collect::<String>();
            assert_eq!(outcome.is_ok(), is_within, "{at} {shown}: {outcome:?}");
        }
    }
    limited_count
}

#[test]
fn notification_schemas_have_the_limits_of_validation() {
    let body = json!({"text": "a", "title": "t", "platforms": ["ios"], "tags": ["vip"], "url": "a:b",
        "image_url": "https://a.example", "ttl_seconds": 1, "collapse_key": "k",
        "android_settings": {"title": "t", "sound": "s"},
        "ios_settings": {"badge": 1, "sound": "s"},
        "web_push_settings": {"actions": [{"title": "t", "icon": "https://a.example", "url": "a:b"}]},
        "social_messenger_settings": {"view_button": "v"},
        "ios_options": {"subtitle": "s", "thread_id": "t", "category": "c"},
        "android_options": {"channel_id": "c", "icon": "i", "notification_count": 1,
            "analytics_label": "l"},
        "per_minute": 60, "canary": {"percent": 5, "wait_seconds": 60, "max_failed_percent": 5},
        "web_options": {"icon": "https://a.example", "badge": "https://a.example"}});
    assert_eq!(check::<CreateNotification>(&body), 29);
    let to_devices = json!({"text": "a", "android_device_ids": ["d"], "ios_device_ids": ["d"],
        "device_ids": ["d"]});
    assert_eq!(check::<CreateNotification>(&to_devices), 4);
    assert_eq!(check::<CreateNotification>(&json!({"text": "a", "user_ids": ["u"]})), 2);
    let poll = json!({"id": "n", "platforms": ["ios"], "topics": ["vip"], "poll": {"text": "q",
        "layout_id": "poll_text_wide_image", "image_url": "https://a.example",
        "answers": vec![json!({"text": "a", "image_url": "https://a.example"}); 2]}});
    assert_eq!(check::<ReportNotification>(&poll), 9);
}

#[test]
fn device_schemas_have_the_limits_of_validation() {
    let mut body = json!({"device_id": "d", "platform": "ios", "sdk_type": "ios_push",
        "android_id": "a", "push_token": "t", "ad_id": "a", "imei": "i", "sdk_version": "1",
        "app_version": "1", "os_version": "1", "store_identifier": "s", "language": "en",
        "country": "de", "device_description": "x", "user_id": "u"});
    assert_eq!(check::<RegisterDevice>(&body), 13);
    body["device_secret"] = json!("s");
    body.as_object_mut().unwrap().remove("user_id");
    assert_eq!(check::<RegisterAppDevice>(&body), 13);
    let chat = json!({"platform": "chatapp", "recipient_id": "1", "device_id": "d",
        "language": "en", "user_id": "u"});
    assert_eq!(check::<Subscribe>(&chat), 3);
    let tag = json!({"name": "vip", "type": "bool", "value": true});
    assert_eq!(check::<SetTags>(&json!({"tags": [tag]})), 2);
    let event = json!({"type": "opened", "notification_id": "n", "device_id": "d", "at": 1});
    assert_eq!(check::<ReportEvents>(&json!({"events": [event]})), 4);
}

#[test]
fn user_and_segment_schemas_have_the_limits_of_validation() {
    assert_eq!(check::<LogIn>(&json!({"user_id": "u"})), 1);
    assert_eq!(check::<LogInWithToken>(&json!({"user_token": "u"})), 1);
    assert_eq!(check::<CreateUserToken>(&json!({"ttl_seconds": 60})), 1);
    check::<PreviewSegment>(&json!({"audience": {"tag": "a"}, "platforms": ["ios"]}));
    let mut schemas = Schemas::default();
    PatchAttributes::add_schema(&mut schemas);
    let schema = &schemas.into_map()["PatchAttributes"].schema;
    let attributes = |count: u64| -> Value {
        (0..count).map(|number| (format!("a{number}"), json!(number))).collect()
    };
    let is_accepted =
        |body: &Value| PatchAttributes::parse(body.to_string().as_bytes(), NOW).is_ok();
    let count_max = schema["maxProperties"].as_u64().unwrap();
    assert!(is_accepted(&attributes(count_max)) && !is_accepted(&attributes(count_max + 1)));
    for form in schema["additionalProperties"]["oneOf"].as_array().unwrap() {
        for (value, expected) in values_of(form) {
            assert_eq!(is_accepted(&json!({"plan": value})), expected, "{form} {value}");
        }
    }
}

/// Values at and beyond the limits of a schema, and whether each is accepted. The first one is accepted.
fn values_of(schema: &Value) -> Vec<(Value, bool)> {
    if let Some(forms) = schema["oneOf"].as_array() {
        return forms.iter().flat_map(values_of).collect();
    }
    if schema.get("$ref").is_some() {
        return vec![(json!({"tag": "a"}), true), (json!({}), false), (Value::Null, false)];
    }
    if let Some(names) = schema["enum"].as_array() {
        let names = names.iter().map(|name| (name.clone(), true));
        return names.chain([(json!("nonsense"), false)]).collect();
    }
    match schema["type"].as_str().unwrap() {
        "null" => vec![(Value::Null, true)],
        "boolean" => vec![(json!(true), true), (json!(false), true)],
        "number" => vec![(json!(-1.5), true), (json!(1e300), true)],
        "integer" => {
            let limit = |name: &str| schema[name].as_i64().unwrap();
            let (min, max) = (limit("minimum"), limit("maximum"));
            [(min, true), (max, true), (min - 1, false), (max + 1, false)]
                .map(|(value, expected)| (json!(value), expected))
                .into()
        }
        "string" if schema.get("maxLength").is_none() => {
            // The name of an attribute, whose length is in its pattern.
            vec![(json!("a".repeat(64)), true), (json!("a".repeat(65)), false), (json!(""), false)]
        }
        "string" => {
            let length = usize::try_from(schema["maxLength"].as_u64().unwrap()).unwrap();
            let may_be_empty = schema["minLength"] != 1 && schema.get("pattern").is_none();
            let mut values = vec![
                (json!("1".repeat(length)), true),
                (json!("1".repeat(length + 1)), false),
                (json!(""), may_be_empty),
            ];
            values.extend(schema.get("pattern").map(|_| (json!("a1"), false)));
            values
        }
        "array" => {
            let count = |name: &str| usize::try_from(schema[name].as_u64().unwrap()).unwrap();
            let elements = values_of(&schema["items"]);
            let list = |count: usize| Value::from(vec![elements[0].0.clone(); count]);
            let (min, max) = (count("minItems"), count("maxItems"));
            let mut values = vec![
                (list(min), true),
                (list(max), true),
                (list(min - 1), false),
                (list(max + 1), false),
            ];
            values.extend(elements.into_iter().map(|(value, expected)| (json!([value]), expected)));
            values
        }
        other => panic!("{other} has no values"),
    }
}

/// Each form of a condition has its own schema, with the limits of validation.
#[test]
fn audience_schemas_have_the_limits_of_validation() {
    let schema = serde_json::to_value(Audience::schema()).unwrap();
    let forms = schema["oneOf"].as_array().unwrap();
    for form in forms {
        assert_eq!(form["additionalProperties"], false);
        let properties = form["properties"].as_object().unwrap();
        let required: Vec<&str> =
            form["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert_eq!(required.len(), properties.len());
        let valid: Value = properties
            .iter()
            .map(|(name, part)| (name.clone(), values_of(part)[0].0.clone()))
            .collect();
        for (name, part) in properties {
            for (value, expected) in values_of(part) {
                let mut condition = valid.clone();
                condition[name] = value;
                let body = json!({"text": "t", "platforms": ["ios"], "audience": condition});
                let parsed = CreateNotification::parse(body.to_string().as_bytes(), NOW);
                assert_eq!(parsed.is_ok(), expected, "{condition}");
            }
            let mut incomplete = valid.clone();
            incomplete.as_object_mut().unwrap().remove(name);
            assert!(Audience::from_json(&incomplete.to_string()).is_err(), "{incomplete}");
        }
    }
    // The forms without an operator, those of attributes, and those of fields.
    let of_fields: usize =
        notify_core::Field::ALL.map(|field| field.operators().len()).iter().sum();
    assert_eq!(forms.len(), 5 + 5 + of_fields);
}

#[test]
fn browser_schemas_have_the_limits_of_validation() {
    let point = format!("BA{}A", "A".repeat(84));
    let body = json!({"subscription": {"endpoint": "https://a.example",
            "keys": {"p256dh": point, "auth": "A".repeat(22)}},
        "device_id": "d", "device_secret": "s", "language": "en",
        "tags": [{"name": "vip", "type": "bool", "value": true}]});
    assert_eq!(check::<WebSubscribe>(&body), 6);
    let event = json!({"type": "opened", "notification_id": "n", "at": 1});
    assert_eq!(check::<WebReport>(&json!({"events": [event]})), 3);
    let access = json!({"allowed_origins": ["https://a.example"], "allowed_tags": ["vip"],
        "push_services": ["push.example"]});
    assert_eq!(check::<SetWebAccess>(&access), 3);
}

/// Anonymous clients set the language, and administrators read it in a terminal.
#[test]
fn browser_languages_are_language_codes() {
    let point = format!("BA{}A", "A".repeat(84));
    let body = |language: &str| {
        json!({"language": language, "subscription": {"endpoint": "https://a.example",
            "keys": {"p256dh": point, "auth": "A".repeat(22)}}})
    };
    let refused = ["language: must be a language code, such as en or pt-BR".to_owned()];
    for (language, is_accepted) in [
        ("", true),
        ("de", true),
        ("pt-BR", true),
        ("zh_Hant_TW", true),
        ("\u{1b}]0;planted\u{7}\u{1b}[2J", false),
        ("e\nn", false),
        ("\u{9b}2J", false),
        ("\u{202e}ne", false),
        ("en de", false),
        (&"a".repeat(36), false),
    ] {
        let outcome = WebSubscribe::parse(body(language).to_string().as_bytes(), NOW);
        let errors = outcome.err().map(|errors| errors.into_vec()).unwrap_or_default();
        assert_eq!(errors, if is_accepted { &[][..] } else { &refused[..] }, "{language:?}");
    }
}

#[test]
fn other_schemas_have_the_limits_of_validation() {
    assert_eq!(check::<CreateFeed>(&json!({"url": "https://a.example", "name": "n"})), 2);
    assert_eq!(check::<CheckFeed>(&json!({"url": "https://a.example"})), 1);
    let webhook = json!({"url": "https://a.example", "events": ["poll.answered"],
        "description": "d"});
    assert_eq!(check::<CreateWebhook>(&webhook), 3);
    assert_eq!(check::<UpdateWebhook>(&webhook), 3);
    assert_eq!(check::<RecoverWebhook>(&json!({"since": 1})), 1);
    let app = json!({"name": "n", "language": "en"});
    assert_eq!(check::<CreateApp>(&app), 2);
    assert_eq!(check::<UpdateApp>(&app), 2);
    assert_eq!(check::<CreateKey>(&json!({"name": "n", "scopes": ["read"]})), 2);
    assert_eq!(check::<RotateKey>(&json!({"overlap_seconds": 1})), 1);
    assert_eq!(check::<CreateAdminKey>(&json!({"name": "n"})), 1);
    assert_eq!(check::<RenameKey>(&json!({"name": "n"})), 1);
    let article =
        json!({"url": "https://a.example", "title": "t", "thumb_url": "https://a.example"});
    let template = json!({"name": "n", "layout_id": "content_with_two", "settings": {},
    "features": [
        {"type": "content_feed", "position": 1,
            "data": {"feeds": [{"url": "https://a.example", "name": "n"}]}},
        {"type": "action_button", "position": 1, "data": {"type": "url", "url": "a:b",
            "start_date": 1, "icon_url": "https://a.example"}},
    ]});
    check::<Template>(&template);
    let custom = json!({"name": "n", "layout_id": "content_with_two", "settings": {},
        "features": [{"type": "custom_feed", "position": 1,
            "data": {"articles": [article, article]}}]});
    check::<Template>(&custom);
}

fn check_query<Q: Query>() {
    let parse = |name: &str, value: &str| {
        Q::parse(&[(name.to_owned(), value.to_owned())], NOW).map(|_| ()).map_err(|errors| {
            errors.into_vec().into_iter().filter(|line| line.starts_with(name)).collect::<Vec<_>>()
        })
    };
    let is_accepted = |name: &str, value: &str| {
        // A rule about both ends of a period is not a limit of one parameter.
        let of_period = ["date_from: must not be after", "date_from: must leave at most"];
        parse(name, value).err().is_none_or(|lines| {
            lines.iter().all(|line| of_period.iter().any(|rule| line.starts_with(rule)))
        })
    };
    for parameter in Q::PARAMETERS {
        let name = parameter.name;
        let values: Vec<(String, bool)> = match parameter.form {
            ParameterForm::Text => vec![(String::new(), true), ("x".into(), true)],
            ParameterForm::NonEmpty => vec![(String::new(), false), ("x".into(), true)],
            ParameterForm::Uuid => vec![
                (String::new(), false),
                ("x".into(), false),
                ("01a1fcc4-9bb4-7002-8cbb-878d20259b58".into(), true),
            ],
            ParameterForm::Integer { min, max, or } => {
                let mut values = vec![
                    (min.to_string(), true),
                    (max.to_string(), true),
                    ((u128::from(max) + 1).to_string(), false),
                    ("x".to_owned(), false),
                    ("1.0".to_owned(), false),
                    (String::new(), true),
                ];
                values.extend(min.checked_sub(1).map(|below| (below.to_string(), false)));
                values.extend(or.map(|word| (word.to_owned(), true)));
                values
            }
            ParameterForm::OneOf(names) => {
                let mut values: Vec<_> =
                    names.iter().map(|name| ((*name).to_owned(), true)).collect();
                values.extend([("nonsense".to_owned(), false), (String::new(), false)]);
                values
            }
            ParameterForm::ListOf { names, max } => {
                vec![
                    (names.join(","), true),
                    (vec![names[0]; max].join(","), true),
                    (vec![names[0]; max + 1].join(","), false),
                    ("nonsense".to_owned(), false),
                    (String::new(), false),
                    (format!("{},", names[0]), false),
                ]
            }
        };
        for (value, expected) in values {
            let shown = value.chars().take(60).collect::<String>();
            assert_eq!(is_accepted(name, &value), expected, "{name}={shown}");
        }
    }
}

#[test]
fn query_parameters_have_the_limits_of_validation() {
    check_query::<PageQuery>();
    check_query::<ListAudit>();
    check_query::<ListDevices>();
    check_query::<ListDeliveries>();
    check_query::<ListNotificationUsers>();
    check_query::<DeleteUser>();
    check_query::<ListCampaigns>();
    check_query::<EnrichmentQuery>();
    check_query::<DeviceStatisticsQuery>();
    check_query::<NotificationStatisticsQuery>();
    check_query::<StreamQuery>();
    check_query::<OpenApiQuery>();
}
