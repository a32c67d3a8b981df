//! Which devices meet a condition.

use notify_core::{AttributeValue, Audience, Condition, Platform, Subject, Timestamp};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::audiences::any_audience;
use crate::support::NOW;

const DAY_MS: i64 = 86_400_000;

/// A device with a value of every field. Each test replaces the values that it is about.
fn device() -> Value {
    json!({
        "platform": "ios", "language": "de-AT", "country": "AT", "app_version": "3.10.2",
        "os_version": "17.5", "timezone": 60, "created_at": 1_000, "last_active_at": NOW.0,
        "has_user": true, "tags": ["vip"],
        "attributes": {"plan": "pro", "seats": 3, "three": "3", "trial": false, "build": "2.10"},
    })
}

/// Calls `evaluate` with the facts about a device.
fn with_subject<T>(
    device: &Value,
    condition: &Condition,
    evaluate: impl FnOnce(&Subject<'_>) -> T,
) -> T {
    let tags: Vec<bool> = condition
        .tags()
        .iter()
        .map(|tag| device["tags"].as_array().unwrap().contains(&json!(tag)))
        .collect();
    let attribute = |name: &String| serde_json::from_value(device["attributes"][name].clone()).ok();
    let attributes: Vec<Option<AttributeValue>> =
        condition.attributes().iter().map(attribute).collect();
    let instant = |name: &str| Timestamp(device[name].as_i64().unwrap());
    evaluate(&Subject {
        platform: device["platform"].as_str().unwrap().parse().unwrap(),
        language: device["language"].as_str(),
        country: device["country"].as_str(),
        app_version: device["app_version"].as_str(),
        os_version: device["os_version"].as_str(),
        timezone: device["timezone"].as_i64().map(|minutes| i32::try_from(minutes).unwrap()),
        created_at: instant("created_at"),
        last_active_at: instant("last_active_at"),
        has_user: device["has_user"].as_bool().unwrap(),
        tags: &tags,
        attributes: &attributes,
    })
}

fn condition(audience: &Value) -> Condition {
    Condition::parse_stored(&audience.to_string()).unwrap()
}

/// Checks for each condition whether the device meets it, and the reverse for its negation.
fn check(device: &Value, rows: &[(Value, bool)]) {
    for (audience, expected) in rows {
        for (audience, expected) in [(audience, *expected), (&json!({"not": audience}), !expected)]
        {
            let condition = condition(audience);
            let met = with_subject(device, &condition, |subject| condition.matches(subject, NOW));
            assert_eq!(met, expected, "{audience}");
            let unmet =
                with_subject(device, &condition, |subject| condition.first_unmet(subject, NOW));
            assert_eq!(unmet.is_none(), met, "{audience}");
        }
    }
}

fn device_with(name: &str, value: impl Into<Value>) -> Value {
    let mut device = device();
    device[name] = value.into();
    device
}

#[test]
fn tags_and_combinations() {
    let (yes, no) = (json!({"tag": "vip"}), json!({"tag": "new"}));
    check(
        &device(),
        &[
            (yes.clone(), true),
            (no.clone(), false),
            (json!({"all": [yes, yes]}), true),
            (json!({"all": [yes, no]}), false),
            (json!({"any": [no, yes]}), true),
            (json!({"any": [no, no]}), false),
            (json!({"not": {"any": [no, {"not": yes}]}}), true),
            (json!({"all": [{"any": [{"all": [yes]}]}]}), true),
        ],
    );
}

#[test]
fn attributes_are_compared_by_type_and_value() {
    let with =
        |name: &str, operator: &str, value: Value| json!({"attribute": name, operator: value});
    check(
        &device(),
        &[
            (with("plan", "is", json!("pro")), true),
            (with("plan", "is", json!("Pro")), false),
            (with("plan", "is", json!("")), false),
            (with("plan", "in", json!(["free", "pro"])), true),
            (with("plan", "in", json!([true, 1])), false),
            (with("plan", "exists", json!(true)), true),
            (with("plan", "exists", json!(false)), false),
            // A value of another type meets nothing.
            (with("seats", "is", json!(3)), true),
            (with("seats", "is", json!(3.0)), true),
            (with("seats", "is", json!("3")), false),
            (with("three", "is", json!("3")), true),
            (with("three", "is", json!(3)), false),
            (with("trial", "is", json!(false)), true),
            (with("trial", "is", json!(0)), false),
            (with("seats", "in", json!(["3", true])), false),
            // Numbers.
            (with("seats", "at_least", json!(3)), true),
            (with("seats", "at_least", json!(3.01)), false),
            (with("seats", "below", json!(3)), false),
            (with("seats", "below", json!(3.01)), true),
            (with("seats", "at_least", json!("2")), false),
            (with("three", "at_least", json!(2)), false),
            (with("trial", "below", json!(1)), false),
            // Versions.
            (with("build", "at_least", json!("2.9")), true),
            (with("build", "at_least", json!("2.10.0")), true),
            (with("build", "below", json!("2.9")), false),
            (with("build", "below", json!("3")), true),
            (with("three", "at_least", json!("2.9")), true),
            (with("plan", "at_least", json!("0")), false),
            (with("plan", "below", json!("9")), false),
            // What is absent meets only `exists: false`.
            (with("absent", "exists", json!(false)), true),
            (with("absent", "exists", json!(true)), false),
            (with("absent", "is", json!("")), false),
            (with("absent", "in", json!([false, 0, ""])), false),
            (with("absent", "below", json!(9)), false),
            (with("absent", "below", json!("9")), false),
            (with("absent", "at_least", json!(0)), false),
        ],
    );
}

fn field(name: &str, operator: &str, value: impl Into<Value>) -> Value {
    json!({"field": name, operator: value.into()})
}

#[test]
fn platforms_and_users() {
    for platform in Platform::ALL {
        check(
            &device_with("platform", platform.as_str()),
            &[
                (field("platform", "is", json!(platform)), true),
                (field("platform", "is", json!("web")), platform == Platform::Web),
                (field("platform", "in", json!(["web", platform])), true),
                (field("platform", "exists", json!(true)), true),
                (field("platform", "exists", json!(false)), false),
            ],
        );
    }
    for has_user in [true, false] {
        check(
            &device_with("has_user", has_user),
            &[
                (field("user", "exists", json!(true)), has_user),
                (field("user", "exists", json!(false)), !has_user),
            ],
        );
    }
}

/// The languages of devices, the value of a condition, and whether it is met.
#[test]
fn languages_include_their_variants() {
    for (language, value, expected) in [
        (Some("de"), "de", true),
        (Some("DE"), "de", true),
        (Some("de"), "DE", true),
        (Some("de-AT"), "de", true),
        (Some("de_AT"), "de", true),
        (Some("de-AT"), "de-at", true),
        (Some("de_AT"), "de-AT", true),
        (Some("de-AT"), "de_AT", true),
        (Some("zh-Hant-TW"), "zh-hant", true),
        (Some("zh_Hant_TW"), "zh", true),
        (Some("de"), "de-AT", false),
        (Some("deb"), "de", false),
        (Some("d"), "de", false),
        (Some("iw"), "he", true),
        (Some("he-IL"), "iw", true),
        (Some("in_ID"), "id", true),
        (Some("nb-NO"), "no", true),
        (Some("no"), "nb", true),
        (Some("zh-TW"), "zh-Hant", true),
        (Some("zh_TW_#Hant"), "zh-TW", true),
        (Some("zh-Hant-TW"), "zh-TW", true),
        (Some("zh-Hant"), "zh-TW", true),
        (Some("zh-TW"), "zh-Hans", false),
        (Some("zh-TW"), "zh", true),
        (Some("zh"), "zh-Hans", true),
        (Some("zh"), "zh-Hant", false),
        (Some("zh"), "zh-CN", false),
        (Some("sr-Latn-RS"), "sr", true),
        (Some("sr-RS"), "sr-Latn", false),
        (Some("de-CH"), "de-AT", false),
        (Some("en"), "de", false),
        (Some("größe"), "gr", false),
        (Some("grö"), "gr\u{f6}x", false),
        (None, "de", false),
    ] {
        let device = device_with("language", language);
        check(
            &device,
            &[
                (field("language", "is", json!(value)), expected),
                (field("language", "in", json!(["xx", value])), expected),
                (field("language", "exists", json!(true)), language.is_some()),
                (field("language", "exists", json!(false)), language.is_none()),
            ],
        );
    }
}

#[test]
fn countries_ignore_case_and_have_no_variants() {
    for (country, value, expected) in [
        (Some("AT"), "at", true),
        (Some("at"), "AT", true),
        (Some("AT"), "a", false),
        (Some("AT-9"), "AT", false),
        (None, "AT", false),
    ] {
        check(
            &device_with("country", country),
            &[
                (field("country", "is", json!(value)), expected),
                (field("country", "exists", json!(false)), country.is_none()),
            ],
        );
    }
}

#[test]
fn versions_are_compared_number_by_number() {
    for (version, operator, value, expected) in [
        (Some("3.10"), "is", "3.10", true),
        (Some("3.10"), "is", "3.10.0", false),
        (Some("3.10"), "at_least", "3.10.0", true),
        (Some("3.10"), "at_least", "3.9", true),
        (Some("3.10"), "below", "3.9", false),
        (Some("3.9"), "below", "3.10", true),
        (Some("3"), "below", "3.0.1", true),
        (Some("3.10.2-beta"), "at_least", "3.10.2", true),
        (Some("3.10-beta"), "below", "3.10", false),
        (Some("34"), "at_least", "33", true),
        // A version that does not begin with a digit meets no range.
        (Some("v3.10"), "at_least", "0", false),
        (Some("v3.10"), "below", "9", false),
        (Some("v3.10"), "is", "v3.10", true),
        (None, "below", "9", false),
        (None, "at_least", "0", false),
        (None, "is", "3", false),
    ] {
        for name in ["app_version", "os_version"] {
            let row = (field(name, operator, json!(value)), expected);
            let exists = (field(name, "exists", json!(true)), version.is_some());
            check(&device_with(name, version), &[row, exists]);
        }
    }
}

#[test]
fn timezones_are_minutes() {
    check(
        &device_with("timezone", -210),
        &[
            (field("timezone", "is", json!(-210)), true),
            (field("timezone", "in", json!([0, -210])), true),
            (field("timezone", "at_least", json!(-210)), true),
            (field("timezone", "below", json!(-210)), false),
            (field("timezone", "below", json!(0)), true),
            (field("timezone", "exists", json!(true)), true),
        ],
    );
    check(
        &device_with("timezone", Value::Null),
        &[
            (field("timezone", "is", json!(0)), false),
            (field("timezone", "at_least", json!(-840)), false),
            (field("timezone", "below", json!(840)), false),
            (field("timezone", "exists", json!(false)), true),
        ],
    );
}

#[test]
fn times_are_instants_or_days_back() {
    for name in ["created_at", "last_active_at"] {
        for (at, operator, value, expected) in [
            (1_000, "at_least", json!(1_000), true),
            (999, "at_least", json!(1_000), false),
            (999, "below", json!(1_000), true),
            (1_000, "below", json!(1_000), false),
            (NOW.0 - 7 * DAY_MS, "within_days", json!(7), true),
            (NOW.0 - 7 * DAY_MS - 1, "within_days", json!(7), false),
            (NOW.0 + DAY_MS, "within_days", json!(1), true),
            (0, "within_days", json!(3_650), false),
            (0, "exists", json!(true), true),
            (0, "exists", json!(false), false),
        ] {
            check(&device_with(name, at), &[(field(name, operator, value), expected)]);
        }
    }
}

#[test]
fn the_first_unmet_condition_is_returned() {
    let yes = json!({"tag": "vip"});
    let no = json!({"attribute": "seats", "at_least": 4});
    for (audience, expected) in [
        (json!({"tag": "new"}), "tag = new"),
        (json!({"not": yes}), "not tag = vip"),
        (json!({"all": [yes, no, {"tag": "new"}]}), "seats >= 4"),
        (json!({"all": [yes, {"all": [yes, {"not": yes}]}, no]}), "not tag = vip"),
        (json!({"any": [no, {"tag": "new"}]}), "seats >= 4 or tag = new"),
        (json!({"all": [yes, {"any": [no, no]}]}), "seats >= 4 or seats >= 4"),
        (json!({"not": {"all": [yes]}}), "not all (tag = vip)"),
        (
            json!({"all": [{"field": "last_active_at", "within_days": 1}]}),
            "last_active_at within 1 day",
        ),
    ] {
        let condition = condition(&audience);
        let device = device_with("last_active_at", 0);
        let unmet =
            with_subject(&device, &condition, |subject| condition.first_unmet(subject, NOW));
        assert_eq!(unmet.as_deref(), Some(expected));
    }
}

/// A device with values that many conditions test.
fn any_device() -> impl Strategy<Value = Value> {
    let text = || proptest::option::of(proptest::sample::select(vec!["de-AT", "3.10", "a", "-1"]));
    let instant = || 0_i64..=NOW.0;
    (
        proptest::sample::select(Platform::NAMES.to_vec()),
        (text(), text(), text(), text()),
        proptest::option::of(-840_i32..=840),
        (instant(), instant(), any::<bool>(), any::<u64>()),
    )
        .prop_map(|(platform, (language, country, app, os), timezone, (created, active, user, bits))| {
            json!({
                "platform": platform, "language": language, "country": country, "app_version": app,
                "os_version": os, "timezone": timezone, "created_at": created,
                "last_active_at": active, "has_user": user, "bits": bits,
            })
        })
}

proptest! {
    /// `not` negates its condition; `all` and `any` combine theirs.
    #[test]
    fn combinations_follow_from_their_conditions(
        audience in any_audience(false),
        other in any_audience(false),
        mut device in any_device(),
    ) {
        // The device has each tag and attribute of the conditions in half of the cases.
        let bits = device["bits"].as_u64().unwrap();
        let whole = Audience::All(vec![audience.clone(), other.clone()]);
        let names = whole.clone().validate();
        prop_assume!(names.is_ok());
        let names = names.unwrap();
        let has = |index: usize| bits >> (index % 64) & 1 == 1;
        let tags = names.tags().iter().enumerate().filter(|(index, _)| has(*index));
        device["tags"] = tags.map(|(_, name)| json!(name)).collect();
        let values = [json!(3), json!("3"), json!(true), json!("and"), json!(0.5)];
        let attributes = names.attributes().iter().enumerate().filter(|(index, _)| has(index + 7));
        device["attributes"] = attributes
            .map(|(index, name)| (name.clone(), values[index % values.len()].clone()))
            .collect();
        let meets = |audience: &Audience| {
            let condition = audience.validate().unwrap();
            with_subject(&device, &condition, |subject| {
                let is_met = condition.matches(subject, NOW);
                let unmet = condition.first_unmet(subject, NOW);
                assert_eq!(unmet.is_none(), is_met);
                if let Some(unmet) = unmet {
                    assert!(Audience::parse_expression(&unmet).is_ok(), "{unmet}");
                }
                is_met
            })
        };
        let (one, two) = (meets(&audience), meets(&other));
        prop_assert_eq!(meets(&whole), one && two);
        prop_assert_eq!(meets(&Audience::Any(vec![audience.clone(), other])), one || two);
        if let negated = audience.negate() && negated.validate().is_ok() {
            prop_assert_eq!(meets(&negated), !one);
        }
    }
}
