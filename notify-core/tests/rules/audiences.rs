//! Audiences in JSON: their shape, their rules and their bounds.

use notify_core::{
    Audience, CONDITION_LEVELS_MAX, CONDITION_VALUES_MAX, CONDITIONS_MAX, Condition,
    CreateNotification, Field, Node, Platform, PutSegment, RangeTest, ReportNotification, Request,
    Test, UnknownSegment, WITHIN_DAYS_MAX,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{NOW, errors_of};

const FORMS: &str = "must have exactly one of all, any, not, segment, tag, attribute, field";
const RANGE: &str = "must have exactly one of is, in, exists, at_least, below";
const PLATFORMS: &str = "android, ios, web, fb-messenger, chatapp";
const FIELDS: &str = "platform, language, country, app_version, os_version, timezone, created_at, \
    last_active_at, user";
const MINUTES: &str = "must be a whole number of minutes within ±840";
const INSTANT: &str = "must be unix milliseconds within the years 1970 to 9999";
const BOUND: &str = "must be a number, or a version that begins with a digit";

/// The violations of a notification with this condition.
fn errors(audience: &Value) -> Vec<String> {
    let body = json!({"text": "t", "platforms": ["ios"], "audience": audience});
    errors_of::<CreateNotification>(&body.to_string())
}

/// Checks the violation of each condition. The text lacks the `audience` at the beginning of the path; it is
/// empty if there is no violation.
fn check(rows: &[(Value, &str)]) {
    for (audience, expected) in rows {
        let expected = match *expected {
            "" => Vec::new(),
            line => vec![format!("audience{line}")],
        };
        assert_eq!(errors(audience), expected, "{audience}");
    }
}

#[test]
fn a_condition_has_exactly_one_form() {
    let none = format!(": {FORMS}");
    check(&[
        (json!({"tag": "vip"}), ""),
        (json!({"segment": "fans"}), ""),
        (json!({"not": {"not": {"tag": "vip"}}}), ""),
        (json!({"all": [{"tag": "a"}, {"any": [{"tag": "b"}]}]}), ""),
        (json!(null), ""),
        (json!({}), &none),
        (json!([]), ": expected an object"),
        (json!("vip"), ": expected an object"),
        (json!({"tag": "a", "segment": "b"}), &none),
        (json!({"tag": "a", "all": []}), &none),
        (json!({"attribute": "a", "field": "user", "exists": true}), &none),
        (json!({"is": 3}), &none),
        (json!({"all": []}), ".all: must hold at least 1 condition"),
        (json!({"any": []}), ".any: must hold at least 1 condition"),
        (json!({"all": [{"tag": "a"}, {}]}), &format!(".all[1]: {FORMS}")),
        (json!({"not": {}}), &format!(".not: {FORMS}")),
        (json!({"all": [null]}), ".all[0]: expected an object"),
        (json!({"all": {"tag": "a"}}), ".all: expected a list"),
        (json!({"not": null}), ".not: expected an object"),
        (json!({"not": [{"tag": "a"}]}), ".not: expected an object"),
        (json!({"tag": null}), ".tag: expected a string"),
        (json!({"segment": null}), ".segment: expected a string"),
        (json!({"tag": 3}), ".tag: expected a string"),
        (json!({"tag": ""}), ".tag: is required"),
        (json!({"tag": "n".repeat(255)}), ""),
        (json!({"tag": "n".repeat(256)}), ".tag: must be at most 255 characters"),
        (json!({"tag": "a\0"}), ".tag: must not contain U+0000"),
        (json!({"segment": ""}), ".segment: is required"),
        (json!({"segment": "n".repeat(256)}), ".segment: must be at most 255 characters"),
        (json!({"tag": "a", "is": true}), ".is: unknown field"),
        (json!({"tag": "a", "of": 1}), ".of: unknown field"),
        (json!({"all": [{"tag": "a", "x": 1}]}), ".all[0].x: unknown field"),
    ]);
    assert_eq!(
        errors(&json!({"tags": "vip"})),
        [format!("audience: {FORMS}"), "audience.tags: unknown field, did you mean `tag`?".into()]
    );
    // Every violation is reported.
    assert_eq!(
        errors(&json!({"any": [{"tag": 1}, {"field": "user"}, {"all": [{"attribute": 1}]}]})),
        [
            "audience.any[0].tag: expected a string".to_owned(),
            "audience.any[1]: must have exists".into(),
            "audience.any[2].all[0].attribute: expected a string".into(),
            format!("audience.any[2].all[0]: {RANGE}"),
        ]
    );
    assert_eq!(
        errors(&json!({"all": [{"any": []}, {"all": []}, {"not": {"all": [{"any": []}]}}]})),
        [
            "audience.all[0].any: must hold at least 1 condition",
            "audience.all[1].all: must hold at least 1 condition",
            "audience.all[2].not.all[0].any: must hold at least 1 condition",
        ]
    );
    assert_eq!(
        errors(&json!({"any": [{"tag": ""}, {"attribute": "A", "in": []}]})),
        [
            "audience.any[0].tag: is required",
            "audience.any[1].attribute: must be a lower-case letter, then up to 63 lower-case \
                letters, digits and underscores",
            "audience.any[1].in: must hold at least 1 value",
        ]
    );
}

#[test]
fn duplicate_keys_are_refused() {
    let body = r#"{"text": "t", "platforms": ["ios"], "audience": {"tag": "a", "tag": "b"}}"#;
    assert_eq!(errors_of::<CreateNotification>(body), ["audience.tag: duplicate key"]);
}

#[test]
fn conditions_on_attributes_are_checked() {
    let value = "expected a boolean, a number or a string";
    let with = |operator: &str, value: Value| json!({"attribute": "plan", operator: value});
    let values = |count: usize| with("in", vec![json!(1); count].into());
    check(&[
        (with("is", json!("pro")), ""),
        (with("is", json!("")), ""),
        (with("is", json!(3.5)), ""),
        (with("is", json!(false)), ""),
        (with("is", json!(null)), &format!(".is: {value}")),
        (with("is", json!([1])), &format!(".is: {value}")),
        (with("is", json!({})), &format!(".is: {value}")),
        (with("is", json!("é".repeat(255))), ""),
        (with("is", json!("é".repeat(256))), ".is: must be at most 255 characters"),
        (with("in", json!([1, "1", true])), ""),
        (with("in", json!([])), ".in: must hold at least 1 value"),
        (with("in", json!([1, null])), &format!(".in[1]: {value}")),
        (with("in", json!(1)), ".in: expected a list"),
        (with("in", json!([1, "é".repeat(256)])), ".in[1]: must be at most 255 characters"),
        (values(CONDITION_VALUES_MAX), ""),
        (values(CONDITION_VALUES_MAX + 1), ".in: must hold at most 100 values"),
        (with("exists", json!(false)), ""),
        (with("exists", json!("yes")), ".exists: expected true or false"),
        (with("exists", json!(null)), ".exists: expected true or false"),
        (with("at_least", json!(-3)), ""),
        (with("at_least", json!("3.10")), ""),
        (with("at_least", json!("v3")), &format!(".at_least: {BOUND}")),
        (with("at_least", json!(true)), &format!(".at_least: {BOUND}")),
        (with("below", json!("")), &format!(".below: {BOUND}")),
        (with("below", json!("9z")), ""),
        (
            with("within_days", json!(3)),
            ".within_days: an attribute takes only is, in, exists, at_least, below",
        ),
        (json!({"attribute": "plan"}), &format!(": {RANGE}")),
        (json!({"attribute": "plan", "is": 1, "in": [1]}), &format!(": {RANGE}")),
        (json!({"attribute": "plan", "is": 1, "was": 2}), ".was: unknown field"),
        (json!({"attribute": null, "is": 1}), ".attribute: expected a string"),
        (
            json!({"attribute": "", "is": 1}),
            ".attribute: must be a lower-case letter, then up to 63 lower-case letters, digits \
                and underscores",
        ),
        (json!({"attribute": "n".repeat(64), "is": 1}), ""),
    ]);
}

#[test]
fn conditions_on_fields_are_checked() {
    let with = |field: &str, operator: &str, value: Value| json!({"field": field, operator: value});
    let one_of = format!("must be one of {PLATFORMS}");
    check(&[
        (with("platform", "is", json!("ios")), ""),
        (with("platform", "in", json!(["ios", "web"])), ""),
        (with("platform", "exists", json!(true)), ""),
        (with("platform", "is", json!("tv")), &format!(".is: {one_of}")),
        (with("platform", "in", json!(["ios", "IOS"])), &format!(".in[1]: {one_of}")),
        (with("platform", "is", json!(3)), ".is: expected a string"),
        (with("language", "is", json!("de")), ""),
        (with("language", "in", json!(["pt_BR", "pt-PT"])), ""),
        (with("language", "is", json!("")), ".is: must not be empty"),
        (with("language", "is", json!(true)), ".is: expected a string"),
        (with("country", "is", json!("at")), ""),
        (with("app_version", "is", json!("3.10")), ""),
        (with("app_version", "is", json!("v3")), ""),
        (with("app_version", "is", json!(3.1)), ".is: expected a string"),
        (with("app_version", "at_least", json!("3.10")), ""),
        (with("app_version", "at_least", json!("v3")), ".at_least: must begin with a digit"),
        (with("os_version", "below", json!(17)), ".below: expected a string"),
        (with("os_version", "below", json!("")), ".below: must not be empty"),
        (with("timezone", "is", json!(-840)), ""),
        (with("timezone", "is", json!(60.0)), ""),
        (with("timezone", "in", json!([60, 841])), &format!(".in[1]: {MINUTES}")),
        (with("timezone", "at_least", json!(0.5)), &format!(".at_least: {MINUTES}")),
        (with("timezone", "below", json!(1e300)), &format!(".below: {MINUTES}")),
        (with("timezone", "is", json!("GMT")), ".is: expected a number"),
        (with("created_at", "at_least", json!(0)), ""),
        (with("created_at", "below", json!(253_402_300_799_999_i64)), ""),
        (
            with("created_at", "below", json!(253_402_300_800_000_i64)),
            &format!(".below: {INSTANT}"),
        ),
        (with("created_at", "at_least", json!(-1)), &format!(".at_least: {INSTANT}")),
        (with("created_at", "at_least", json!("2026-11-01")), ".at_least: expected a number"),
        (with("last_active_at", "exists", json!(true)), ""),
        (with("last_active_at", "within_days", json!(1)), ""),
        (with("last_active_at", "within_days", json!(WITHIN_DAYS_MAX)), ""),
        (with("last_active_at", "within_days", json!(0)), ".within_days: must be from 1 to 3650"),
        (
            with("last_active_at", "within_days", json!(3651)),
            ".within_days: must be from 1 to 3650",
        ),
        (
            with("last_active_at", "within_days", json!("7")),
            ".within_days: expected a whole number",
        ),
        (
            with("last_active_at", "within_days", json!(-7)),
            ".within_days: must be a whole number without sign, fraction or exponent",
        ),
        (with("user", "exists", json!(false)), ""),
        (with("user", "is", json!("u")), ".is: user takes only exists"),
        (with("user", "exists", json!(1)), ".exists: expected true or false"),
        (json!({"field": "user"}), ": must have exists"),
        (json!({"field": "language"}), ": must have exactly one of is, in, exists"),
        (with("carrier", "is", json!("x")), &format!(".field: must be one of {FIELDS}")),
        (with("Platform", "is", json!("ios")), &format!(".field: must be one of {FIELDS}")),
        (json!({"field": 1, "exists": true}), ".field: expected a string"),
    ]);
    assert_eq!(
        errors(&with("country", "in", json!(["at", 1, ""]))),
        ["audience.in[1]: expected a string", "audience.in[2]: must not be empty"]
    );
}

/// Each field takes exactly these operators; another one is a violation that names them.
#[test]
fn fields_take_their_operators() {
    let operands = [
        ("is", json!("x")),
        ("in", json!(["x"])),
        ("exists", json!(true)),
        ("at_least", json!(0)),
        ("below", json!(0)),
        ("within_days", json!(1)),
    ];
    for (field, operators) in [
        (Field::Platform, "is, in, exists"),
        (Field::Language, "is, in, exists"),
        (Field::Country, "is, in, exists"),
        (Field::AppVersion, "is, in, exists, at_least, below"),
        (Field::OsVersion, "is, in, exists, at_least, below"),
        (Field::Timezone, "is, in, exists, at_least, below"),
        (Field::CreatedAt, "exists, at_least, below, within_days"),
        (Field::LastActiveAt, "exists, at_least, below, within_days"),
        (Field::User, "exists"),
    ] {
        assert_eq!(field.operators().join(", "), operators);
        for (operator, operand) in &operands {
            let refused = format!("audience.{operator}: {field} takes only {operators}");
            let is_refused =
                errors(&json!({"field": field, *operator: operand})).contains(&refused);
            assert_eq!(is_refused, !field.operators().contains(operator), "{field} {operator}");
        }
    }
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({"tag": "a"}), |inner, _| json!({"not": inner}))
}

fn listed(conditions: usize) -> Value {
    json!({"any": vec![json!({"tag": "a"}); conditions - 1]})
}

#[test]
fn conditions_and_levels_are_limited() {
    let conditions = ": must hold at most 64 conditions";
    let levels = ": must nest at most 8 levels";
    check(&[
        (nested(CONDITION_LEVELS_MAX), ""),
        (nested(CONDITION_LEVELS_MAX + 1), levels),
        (nested(40), levels),
        (listed(CONDITIONS_MAX), ""),
        (listed(CONDITIONS_MAX + 1), conditions),
        (listed(10_000), conditions),
        (json!({"all": [{"tag": ""}, nested(20)]}), levels),
    ]);
    // Models that are built in code.
    let deep = (1..50).fold(Audience::tag("a"), |inner, _| inner.negate());
    assert_eq!(deep.validate().unwrap_err().as_slice(), [format!("audience{levels}")]);
    let wide = Audience::Any(vec![Audience::tag(""); 1_000]);
    let errors = wide.validate().unwrap_err().into_vec();
    assert_eq!(errors.last(), Some(&format!("audience{conditions}")));
    assert_eq!(errors.len(), CONDITIONS_MAX);
}

#[test]
fn bounds_count_after_segments_are_replaced() {
    let audience = |json: Value| Audience::from_json(&json.to_string()).unwrap();
    let lookup = |name: &str| match name {
        "deep" => Some(audience(nested(7))),
        "wide" => Some(audience(listed(62))),
        "other" => Some(Audience::segment("deep")),
        _ => None,
    };
    let resolve = |json: Value| {
        let condition = audience(json).resolve(&lookup);
        condition.map_err(|errors| errors.into_vec().join("; "))
    };
    assert!(resolve(json!({"not": {"segment": "deep"}})).is_ok());
    assert_eq!(
        resolve(json!({"not": {"not": {"segment": "deep"}}})),
        Err("audience: must nest at most 8 levels".to_owned())
    );
    assert!(resolve(json!({"all": [{"segment": "wide"}, {"tag": "b"}]})).is_ok());
    assert_eq!(
        resolve(json!({"all": [{"segment": "wide"}, {"tag": "b"}, {"tag": "c"}]})),
        Err("audience: must hold at most 64 conditions".to_owned())
    );
    assert_eq!(
        resolve(json!({"not": {"segment": "other"}})),
        Err("audience.not.segment: a segment must not name another segment".to_owned())
    );
    assert_eq!(
        resolve(json!({"any": [{"segment": "lost"}]})),
        Err("audience: there is no segment `lost`".to_owned())
    );
    let two = Audience::segment("x").or(Audience::segment("deep")).and(Audience::segment("x"));
    assert_eq!(two.segments(), ["x", "deep"]);
    assert_eq!(two.expand(&lookup), Err(UnknownSegment("x".to_owned())));
    let condition = resolve(json!({"not": {"segment": "deep"}})).unwrap();
    assert_eq!(condition.audience(), &audience(nested(8)));
}

#[test]
fn a_segment_names_no_segment() {
    let put = |audience: Value| errors_of::<PutSegment>(&json!({"audience": audience}).to_string());
    assert_eq!(put(json!({"tag": "a"})), [""; 0]);
    assert_eq!(
        put(json!({"all": [{"tag": "a"}, {"segment": "b"}]})),
        ["audience.all[1].segment: a segment must not name another segment"]
    );
    assert_eq!(put(json!(null)), ["audience: is required"]);
    assert_eq!(put(json!({"all": [{}]})), [format!("audience.all[0]: {FORMS}")]);
    assert_eq!(errors_of::<PutSegment>("{}"), ["audience: is required"]);
    assert_eq!(
        PutSegment::default().validate(NOW).unwrap_err().as_slice(),
        ["audience: is required"]
    );
}

#[test]
fn reports_have_no_audience() {
    let body = json!({"id": "n", "text": "t", "platforms": ["ios"],
        "audience": {"tag": "a"}, "user_ids": ["u"]});
    assert_eq!(
        errors_of::<ReportNotification>(&body.to_string()),
        ["audience: unknown field", "user_ids: unknown field"]
    );
}

#[test]
fn nodes_have_the_indices_of_tags_and_attributes() {
    let audience = Audience::tag("a")
        .and(Audience::tag("b").negate())
        .and(Audience::tag("a").or(Audience::attribute("plan").is_in("pro", ["x"])))
        .and(Audience::attribute("seats").at_least(3))
        .and(Audience::attribute("plan").exists(true));
    let condition = audience.validate().unwrap();
    assert_eq!(condition.tags(), ["a", "b"]);
    assert_eq!(condition.attributes(), ["plan", "seats"]);
    assert!(!condition.uses(Field::LastActiveAt));
    let Node::All(nodes) = condition.root() else { panic!("{condition:?}") };
    assert_eq!(nodes[0], Node::Tag(0));
    assert_eq!(nodes[1], Node::Not(Box::new(Node::Tag(1))));
    let plan = RangeTest::OneOf(vec!["pro".into(), "x".into()]);
    let or = vec![Node::Tag(0), Node::Attribute { attribute: 0, test: plan }];
    assert_eq!(nodes[2], Node::Any(or));
    let active = Audience::last_active_at().within_days(3).validate().unwrap();
    assert!(active.uses(Field::LastActiveAt) && !active.uses(Field::User));
}

#[test]
fn stored_conditions_are_read_back() {
    let text = r#"{"all":[{"tag":"a"},{"attribute":"seats","at_least":3},{"field":"language","in":["de","pt_BR"]}]}"#;
    let condition = Condition::parse_stored(text).unwrap();
    assert_eq!(condition.to_json(), text);
    // An older version may have accepted longer names.
    let long = json!({"tag": "n".repeat(300)}).to_string();
    assert!(Condition::parse_stored(&long).is_ok());
    assert!(Condition::parse_stored(r#"{"segment":"a"}"#).is_err());
    assert!(Condition::parse_stored("{}").is_err() && Condition::parse_stored("").is_err());
}

#[test]
fn operators_have_their_names() {
    for (test, name) in [
        (Test::Is(1.into()), "is"),
        (Test::In(vec![1.into()]), "in"),
        (Test::Exists(true), "exists"),
        (Test::AtLeast(1.into()), "at_least"),
        (Test::Below(1.into()), "below"),
        (Test::WithinDays(1), "within_days"),
    ] {
        assert_eq!(test.operator(), name);
    }
}

// Random audiences that satisfy every rule.

/// A name of a tag or a segment: any text without U+0000.
fn any_name() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        "[^\u{0}]{1,8}",
        "[a-z0-9.:+_-]{1,8}",
        proptest::sample::select(&WORDS[..]).prop_map(str::to_owned)
    ]
}

/// Words that have a meaning in expressions, or look like other values.
const WORDS: [&str; 30] = [
    "and",
    "OR",
    "not",
    "all",
    "any",
    "tag",
    "segment",
    "attribute",
    "in",
    "exists",
    "is",
    "absent",
    "within",
    "days",
    "day",
    "true",
    "False",
    "platform",
    "language",
    "user",
    "created_at",
    "3.10",
    "-1",
    "1e3",
    "2026-11-01",
    "null",
    "\"",
    "\\",
    "a b",
    "größe",
];

fn any_attribute_name() -> impl Strategy<Value = String> {
    let words = WORDS.iter().filter(|word| notify_core::is_attribute_name(word));
    let words: Vec<String> = words.map(|word| (*word).to_owned()).collect();
    prop_oneof!["[a-z][a-z0-9_]{0,4}", proptest::sample::select(words)]
}

fn any_number() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::POSITIVE | proptest::num::f64::NEGATIVE | proptest::num::f64::ZERO,
        (-1_000_i32..1_000).prop_map(f64::from),
        Just(9_007_199_254_740_993.0),
    ]
}

fn any_attribute_test() -> impl Strategy<Value = Test> {
    use notify_core::AttributeValue as Value;
    let value = prop_oneof![
        any::<bool>().prop_map(Value::Bool),
        any_number().prop_map(Value::Number),
        any_name().prop_map(Value::Text),
        Just(Value::Text(String::new())),
    ];
    let bound = prop_oneof![
        any_number().prop_map(Value::Number),
        "[0-9][0-9.a-z -]{0,6}".prop_map(Value::Text),
    ];
    prop_oneof![
        value.clone().prop_map(Test::Is),
        proptest::collection::vec(value, 1..4).prop_map(Test::In),
        any::<bool>().prop_map(Test::Exists),
        bound.clone().prop_map(Test::AtLeast),
        bound.prop_map(Test::Below),
    ]
}

fn any_text_test() -> impl Strategy<Value = Test> {
    let value = any_name().prop_map(notify_core::AttributeValue::Text);
    prop_oneof![
        value.clone().prop_map(Test::Is),
        proptest::collection::vec(value, 1..4).prop_map(Test::In),
        any::<bool>().prop_map(Test::Exists),
    ]
}

fn any_version_test() -> impl Strategy<Value = Test> {
    let bound = "[0-9][0-9.]{0,5}[a-z \"-]{0,2}".prop_map(notify_core::AttributeValue::Text);
    prop_oneof![any_text_test(), bound.clone().prop_map(Test::AtLeast), bound.prop_map(Test::Below),]
}

fn any_time_test() -> impl Strategy<Value = Test> {
    let unit = proptest::sample::select(vec![1_i64, 1_000, 60_000, 86_400_000]);
    let instant = (0_i64..=253_402_300_799_999, unit).prop_map(|(ms, unit)| {
        #[expect(clippy::cast_precision_loss, reason = "instants are exact")]
        let ms = (ms / unit * unit) as f64;
        notify_core::AttributeValue::Number(ms)
    });
    prop_oneof![
        any::<bool>().prop_map(Test::Exists),
        instant.clone().prop_map(Test::AtLeast),
        instant.prop_map(Test::Below),
        (1..=WITHIN_DAYS_MAX).prop_map(Test::WithinDays),
    ]
}

fn any_platform_test() -> impl Strategy<Value = Test> {
    let platform = proptest::sample::select(Platform::ALL.to_vec());
    let value = platform.prop_map(|platform| platform.as_str().into());
    prop_oneof![
        value.clone().prop_map(Test::Is),
        proptest::collection::vec(value, 1..4).prop_map(Test::In),
        any::<bool>().prop_map(Test::Exists),
    ]
}

fn any_timezone_test() -> impl Strategy<Value = Test> {
    let minutes = (-840_i32..=840).prop_map(Into::into);
    prop_oneof![
        minutes.clone().prop_map(Test::Is),
        proptest::collection::vec(minutes.clone(), 1..4).prop_map(Test::In),
        any::<bool>().prop_map(Test::Exists),
        minutes.clone().prop_map(Test::AtLeast),
        minutes.prop_map(Test::Below),
    ]
}

fn any_field() -> impl Strategy<Value = Audience> {
    let field = |field: Field| move |test: Test| Audience::Field { field, test };
    prop_oneof![
        any_platform_test().prop_map(field(Field::Platform)),
        any_text_test().prop_map(field(Field::Language)),
        any_text_test().prop_map(field(Field::Country)),
        any_version_test().prop_map(field(Field::AppVersion)),
        any_version_test().prop_map(field(Field::OsVersion)),
        any_timezone_test().prop_map(field(Field::Timezone)),
        any_time_test().prop_map(field(Field::CreatedAt)),
        any_time_test().prop_map(field(Field::LastActiveAt)),
        any::<bool>().prop_map(Audience::has_user),
    ]
}

fn size(audience: &Audience) -> (usize, usize) {
    let children = match audience {
        Audience::All(children) | Audience::Any(children) => &children[..],
        Audience::Not(child) => std::slice::from_ref(&**child),
        _ => &[],
    };
    let sizes: Vec<_> = children.iter().map(size).collect();
    let conditions = sizes.iter().map(|(conditions, _)| conditions).sum::<usize>();
    let levels = sizes.iter().map(|(_, levels)| *levels).max().unwrap_or(0);
    (conditions + 1, levels + 1)
}

/// An audience that satisfies every rule; with segments or without.
pub(crate) fn any_audience(has_segments: bool) -> impl Strategy<Value = Audience> {
    let attribute = (any_attribute_name(), any_attribute_test())
        .prop_map(|(name, test)| Audience::Attribute { name, test });
    let named = (any_name(), any::<bool>()).prop_map(move |(name, is_segment)| {
        if is_segment && has_segments { Audience::Segment(name) } else { Audience::Tag(name) }
    });
    let leaf = prop_oneof![2 => named, 2 => attribute, 3 => any_field()];
    let nested = leaf.prop_recursive(7, 40, 4, |inner| {
        let list = proptest::collection::vec(inner.clone(), 1..5);
        prop_oneof![
            list.clone().prop_map(Audience::All),
            list.prop_map(Audience::Any),
            inner.prop_map(Audience::negate),
        ]
    });
    nested.prop_filter("is within the bounds", |audience| {
        let (conditions, levels) = size(audience);
        conditions <= CONDITIONS_MAX && levels <= CONDITION_LEVELS_MAX
    })
}

proptest! {
    #[test]
    fn audiences_survive_json(audience in any_audience(true)) {
        let json = audience.to_json();
        prop_assert_eq!(&Audience::from_json(&json).unwrap(), &audience);
        let value: Value = serde_json::from_str(&json).unwrap();
        prop_assert_eq!(&serde_json::from_value::<Audience>(value.clone()).unwrap(), &audience);
        prop_assert_eq!(errors(&value), [""; 0]);
    }

    #[test]
    fn conditions_survive_storing(audience in any_audience(false)) {
        let condition = audience.validate().unwrap();
        prop_assert_eq!(condition.audience(), &audience);
        prop_assert_eq!(Condition::parse_stored(&condition.to_json()), Ok(condition));
    }
}
