//! Attributes of devices and users: names, values, and the forms in which they are stored and written.

use notify_core::{
    ATTRIBUTES_MAX, AttributeChanges, AttributeValue, Audience, PatchAttributes, PatchUser,
    Request, Test,
};
use serde_json::{Value, json};

use crate::support::{NOW, Row, check, errors_of};

const NAME: &str =
    "must be a lower-case letter, then up to 63 lower-case letters, digits and underscores";
const TYPE: &str = "expected a boolean, a number or a string";

/// A body with this number of attributes.
fn attributes(count: usize) -> Value {
    (0..count).map(|number| (format!("a{number}"), json!(number))).collect()
}

/// The nearest double of a long fraction is the same in a request, in a response, in an expression and on a
/// command line. Otherwise, a condition would not find a value that its author copied.
#[test]
fn a_number_is_read_the_same_everywhere() {
    for text in ["0.1234567890123428394", "2.2250738585072014e-308", "123456789012345.678", "-0.1"]
    {
        let expected = AttributeValue::Number(text.parse().unwrap());
        assert_eq!(AttributeValue::parse_number(text), Ok(expected.clone()), "{text}");
        assert_eq!(serde_json::from_str::<AttributeValue>(text).unwrap(), expected);
        let changes = PatchAttributes::from_json(format!("{{\"a\":{text}}}").as_bytes()).unwrap();
        assert_eq!(changes, PatchAttributes::default().set("a", expected.clone()));
        let condition = Audience::parse_expression(&format!("a = {text}")).unwrap();
        assert_eq!(condition, Audience::Attribute { name: "a".into(), test: Test::Is(expected) });
    }
}

#[test]
fn attributes_of_devices_are_checked() {
    let base = json!({"plan": "pro", "seats": 3, "trial": false, "old": null});
    let text = |count: usize| format!("\"{}\"", "é".repeat(count));
    let long = "n".repeat(64);
    let too_long = "n".repeat(65);
    let named = |name: &str| format!("{name}: {NAME}");
    let rows: &[Row<'_>] = &[
        ("/plan", "-1.5e3", &[]),
        ("/plan", "\"\"", &[]),
        ("/plan", "null", &[]),
        ("/plan", &text(255), &[]),
        ("/plan", &text(256), &["plan: must be at most 255 characters"]),
        ("/plan", "\"a\\u0000\"", &["plan: must not contain U+0000"]),
        ("/plan", "{}", &[&format!("plan: {TYPE}")]),
        ("/plan", "[1]", &[&format!("plan: {TYPE}")]),
        (&format!("/{long}"), "1", &[]),
        (&format!("/{too_long}"), "1", &[&format!("{long}…: {NAME}")]),
        ("/a_9", "1", &[]),
        ("/Plan", "1", &[&named("Plan")]),
        ("/9a", "null", &[&named("9a")]),
        ("/_a", "1", &[&named("_a")]),
        ("/a b", "1", &[&named("a b")]),
        ("/a.b", "1", &[&named("a.b")]),
        ("/é", "1", &[&named("é")]),
        ("/", "1", &[&named("\"\"")]),
    ];
    check::<PatchAttributes>(&base, rows);
    assert_eq!(errors_of::<PatchAttributes>("[]"), ["body: expected an object"]);
    assert_eq!(errors_of::<PatchAttributes>(""), ["body: is empty"]);
    assert_eq!(errors_of::<PatchAttributes>(r#"{"a":1,"a":2}"#), ["a: duplicate key"]);
    assert_eq!(
        errors_of::<PatchAttributes>(r#"{"a":1e400}"#),
        ["a: number that no double can hold"]
    );
    assert_eq!(errors_of::<PatchAttributes>(&attributes(ATTRIBUTES_MAX).to_string()), [""; 0]);
    assert_eq!(
        errors_of::<PatchAttributes>(&attributes(ATTRIBUTES_MAX + 1).to_string()),
        ["body: must hold at most 100 attributes"]
    );
    assert_eq!(PatchAttributes::parse(b"{}", NOW), Ok(AttributeChanges::default()));
}

#[test]
fn attributes_of_users_are_checked() {
    let base = json!({"attributes": {"plan": "pro", "old": null}});
    check::<PatchUser>(
        &base,
        &[
            ("/attributes", "-", &[]),
            ("/attributes", "null", &[]),
            ("/attributes", "{}", &[]),
            ("/attributes", "[]", &["attributes: expected an object"]),
            ("/attributes/plan", "{}", &[&format!("attributes.plan: {TYPE}")]),
            ("/attributes/Plan", "1", &[&format!("attributes.Plan: {NAME}")]),
            ("/attribute", "{}", &["attribute: unknown field, did you mean `attributes`?"]),
        ],
    );
    assert_eq!(
        errors_of::<PatchUser>(&json!({"attributes": attributes(101)}).to_string()),
        ["attributes: must hold at most 100 attributes"]
    );
    for empty in ["", " ", "{}"] {
        assert_eq!(PatchUser::parse(empty.as_bytes(), NOW), Ok(AttributeChanges::default()));
    }
    let AttributeChanges(changes) = PatchUser::parse(base.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(changes.get("plan"), Some(&Some("pro".into())));
    assert_eq!(changes.get("old"), Some(&None));
}

#[test]
fn models_of_attributes_survive_a_round_trip() {
    let changes = PatchAttributes::default().set("a", 0.5).set("b", true).remove("c");
    let body = serde_json::to_string(&changes).unwrap();
    assert_eq!(body, r#"{"a":0.5,"b":true,"c":null}"#);
    assert_eq!(PatchAttributes::from_json(body.as_bytes()), Ok(changes.clone()));
    assert!(changes.validate(NOW).is_ok());
    let infinite = PatchAttributes::default().set("a", f64::INFINITY).set("b", f64::NAN);
    let rule = "must be a finite number";
    let errors = infinite.validate(NOW).unwrap_err();
    assert_eq!(errors.as_slice(), [format!("a: {rule}"), format!("b: {rule}")]);
}

/// Equal values have equal stored forms; values of different types have different ones.
#[test]
fn values_have_one_stored_form() {
    for (json, stored) in [
        ("true", "b1"),
        ("false", "b0"),
        ("3", "n3"),
        ("3.0", "n3"),
        ("3e0", "n3"),
        ("-0", "n0"),
        ("-0.0", "n0"),
        ("0.1", "n0.1"),
        ("-1.5", "n-1.5"),
        ("9007199254740993", "n9007199254740992"),
        ("1e15", "n1000000000000000"),
        ("1e300", "n1e300"),
        ("1e20", "n100000000000000000000"),
        ("1.5e-7", "n1.5e-7"),
        ("0.000001", "n0.000001"),
        ("1000000000000000000000", "n1e21"),
        ("5e-324", "n5e-324"),
        ("\"3\"", "s3"),
        ("\"\"", "s"),
        ("\"true\"", "strue"),
        ("\"b1\"", "sb1"),
    ] {
        let value: AttributeValue = serde_json::from_str(json).unwrap();
        assert_eq!(value.to_stored(), stored, "{json}");
        assert_eq!(AttributeValue::from_stored(stored), Some(value.clone()), "{json}");
        let written = serde_json::to_string(&value).unwrap();
        assert_eq!(serde_json::from_str::<AttributeValue>(&written).unwrap(), value, "{json}");
    }
    for other in ["", "b", "b2", "n", "nx", "ninf", "nNaN", "x1", "3"] {
        assert_eq!(AttributeValue::from_stored(other), None, "{other}");
    }
    for (value, json) in [(3.0, "3"), (-0.0, "0"), (0.5, "0.5"), (1e15, "1000000000000000")] {
        assert_eq!(serde_json::to_string(&AttributeValue::Number(value)).unwrap(), json);
    }
}
