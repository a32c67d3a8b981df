//! Audiences as expressions: each form in both directions, and every error with its position.

use notify_core::{Audience, EXPRESSION_CHARS_MAX, ExpressionError};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::audiences::any_audience;

fn parse(expression: &str) -> Result<Value, (usize, String)> {
    let parsed = Audience::parse_expression(expression);
    let parsed = parsed.map_err(|error| (error.position, error.message))?;
    assert!(parsed.resolve(&|_| Some(Audience::tag("x"))).is_ok(), "{expression}");
    Ok(serde_json::to_value(parsed).unwrap())
}

fn tag(name: &str) -> Value {
    json!({"tag": name})
}

/// Checks expressions that are printed as they are written.
fn check(rows: &[(&str, Value)]) {
    for (expression, condition) in rows {
        assert_eq!(parse(expression), Ok(condition.clone()), "{expression}");
        let audience = Audience::from_json(&condition.to_string()).unwrap();
        assert_eq!(audience.to_string(), *expression);
    }
}

#[test]
fn tags_segments_and_attributes_are_expressions() {
    check(&[
        ("tag = vip", tag("vip")),
        ("tag = \"loyal customers\"", tag("loyal customers")),
        ("tag = \"a\\\"b\\\\c\"", tag("a\"b\\c")),
        ("tag = größe", tag("größe")),
        ("tag = \"and\"", tag("and")),
        ("tag = 3.10", tag("3.10")),
        ("tag = \"line\nbreak\"", tag("line\nbreak")),
        ("segment = fans", json!({"segment": "fans"})),
        ("plan = pro", json!({"attribute": "plan", "is": "pro"})),
        ("plan = \"pro plus\"", json!({"attribute": "plan", "is": "pro plus"})),
        ("plan = \"\"", json!({"attribute": "plan", "is": ""})),
        ("plan = \"3\"", json!({"attribute": "plan", "is": "3"})),
        ("plan = \"true\"", json!({"attribute": "plan", "is": "true"})),
        ("plan = true", json!({"attribute": "plan", "is": true})),
        ("seats = 3", json!({"attribute": "seats", "is": 3})),
        ("seats = -0.5", json!({"attribute": "seats", "is": -0.5})),
        ("seats = 1e300", json!({"attribute": "seats", "is": 1e300})),
        (
            "plan in (pro, \"3\", 3, false)",
            json!({"attribute": "plan", "in": ["pro", "3", 3, false]}),
        ),
        ("plan exists", json!({"attribute": "plan", "exists": true})),
        ("plan is absent", json!({"attribute": "plan", "exists": false})),
        ("seats >= 3", json!({"attribute": "seats", "at_least": 3})),
        ("seats < 3", json!({"attribute": "seats", "below": 3})),
        ("build >= \"3.10\"", json!({"attribute": "build", "at_least": "3.10"})),
        ("attribute tag = x", json!({"attribute": "tag", "is": "x"})),
        ("attribute platform exists", json!({"attribute": "platform", "exists": true})),
        ("attribute attribute = 1", json!({"attribute": "attribute", "is": 1})),
        ("attribute not = 1", json!({"attribute": "not", "is": 1})),
    ]);
}

#[test]
fn fields_are_expressions() {
    let day = 1_793_491_200_000_i64;
    check(&[
        ("platform = ios", json!({"field": "platform", "is": "ios"})),
        (
            "platform in (ios, fb-messenger)",
            json!({"field": "platform", "in": ["ios", "fb-messenger"]}),
        ),
        ("language = pt_BR", json!({"field": "language", "is": "pt_BR"})),
        ("language = \"is\"", json!({"field": "language", "is": "is"})),
        ("country in (at, \"IN\")", json!({"field": "country", "in": ["at", "IN"]})),
        ("country is absent", json!({"field": "country", "exists": false})),
        ("app_version = 3.10", json!({"field": "app_version", "is": "3.10"})),
        ("app_version >= 3.10", json!({"field": "app_version", "at_least": "3.10"})),
        ("os_version < 17.5", json!({"field": "os_version", "below": "17.5"})),
        ("os_version = \"10 (beta)\"", json!({"field": "os_version", "is": "10 (beta)"})),
        ("timezone >= -60", json!({"field": "timezone", "at_least": -60})),
        ("timezone in (0, 60)", json!({"field": "timezone", "in": [0, 60]})),
        ("created_at >= 2026-11-01", json!({"field": "created_at", "at_least": day})),
        (
            "created_at < 2026-11-01T10:00Z",
            json!({"field": "created_at", "below": day + 36_000_000}),
        ),
        ("created_at < 2026-11-01T00:00:07Z", json!({"field": "created_at", "below": day + 7_000})),
        ("created_at < 1793491200001", json!({"field": "created_at", "below": day + 1})),
        ("created_at >= 1970-01-01", json!({"field": "created_at", "at_least": 0})),
        ("last_active_at within 30 days", json!({"field": "last_active_at", "within_days": 30})),
        ("last_active_at within 1 day", json!({"field": "last_active_at", "within_days": 1})),
        ("last_active_at exists", json!({"field": "last_active_at", "exists": true})),
        ("user exists", json!({"field": "user", "exists": true})),
        ("user is absent", json!({"field": "user", "exists": false})),
    ]);
}

#[test]
fn combinations_are_expressions() {
    check(&[
        ("not tag = a", json!({"not": tag("a")})),
        ("not not tag = a", json!({"not": {"not": tag("a")}})),
        ("tag = a and tag = b and tag = c", json!({"all": [tag("a"), tag("b"), tag("c")]})),
        ("tag = a or tag = b", json!({"any": [tag("a"), tag("b")]})),
        (
            "tag = a and tag = b or tag = c and not tag = d",
            json!({"any": [
                {"all": [tag("a"), tag("b")]}, {"all": [tag("c"), {"not": tag("d")}]},
            ]}),
        ),
        (
            "tag = a and (tag = b or tag = c)",
            json!({"all": [tag("a"), {"any": [tag("b"), tag("c")]}]}),
        ),
        (
            "tag = a and (tag = b and tag = c)",
            json!({"all": [tag("a"), {"all": [tag("b"), tag("c")]}]}),
        ),
        (
            "(tag = a or tag = b) or tag = c",
            json!({"any": [{"any": [tag("a"), tag("b")]}, tag("c")]}),
        ),
        ("not (tag = a and tag = b)", json!({"not": {"all": [tag("a"), tag("b")]}})),
        ("all (tag = a)", json!({"all": [tag("a")]})),
        ("any (all (tag = a))", json!({"any": [{"all": [tag("a")]}]})),
        ("not any (tag = a) and tag = b", json!({"all": [{"not": {"any": [tag("a")]}}, tag("b")]})),
        ("all (tag = a or tag = b)", json!({"all": [{"any": [tag("a"), tag("b")]}]})),
    ]);
}

/// Other ways to write the same condition, and how it is printed.
#[test]
fn expressions_can_be_written_in_several_ways() {
    for (written, printed) in [
        ("TAG=vip", "tag = vip"),
        (" \n tag\t=\u{a0}vip ", "tag = vip"),
        ("Platform = \"ios\"", "platform = ios"),
        ("seats>=3 AND seats<9", "seats >= 3 and seats < 9"),
        ("plan IN(a,b)", "plan in (a, b)"),
        ("plan Is Absent", "plan is absent"),
        ("plan = TRUE", "plan = true"),
        ("seats = 3.0", "seats = 3"),
        ("seats = 3e0", "seats = 3"),
        ("seats = -0", "seats = 0"),
        ("build >= 3.10", "build >= 3.1"),
        ("build >= 3.10.1", "build >= \"3.10.1\""),
        ("build = 2026-11-01", "build = \"2026-11-01\""),
        ("attribute plan = pro", "plan = pro"),
        ("language = IS", "language = \"IS\""),
        ("tag = and and tag = b", "tag = \"and\" and tag = b"),
        ("(((tag = a)))", "tag = a"),
        ("not (tag = a)", "not tag = a"),
        ("(tag = a and tag = b) or tag = c", "tag = a and tag = b or tag = c"),
        ("all (tag = a, tag = b)", "tag = a and tag = b"),
        ("any (tag = a and tag = b, tag = c)", "tag = a and tag = b or tag = c"),
        ("created_at >= 1793491200000", "created_at >= 2026-11-01"),
        ("created_at >= 2026-11-01T00:00Z", "created_at >= 2026-11-01"),
        ("created_at >= 2026-11-01T10:00:00Z", "created_at >= 2026-11-01T10:00Z"),
        ("last_active_at within 007 DAY", "last_active_at within 7 days"),
    ] {
        let audience = Audience::parse_expression(written).unwrap();
        assert_eq!(audience.to_string(), printed, "{written}");
        assert_eq!(Audience::parse_expression(printed).unwrap(), audience, "{printed}");
    }
}

/// Checks the message of each error, and its position, which is the end of the first text.
fn check_errors(rows: &[(&str, &str, &str)]) {
    for (before, rest, message) in rows {
        let expression = format!("{before}{rest}");
        let expected = (before.chars().count(), (*message).to_owned());
        assert_eq!(parse(&expression), Err(expected), "{expression}");
    }
}

const VALUE: &str = "expected a value";

#[test]
fn errors_have_a_position() {
    const CONDITION: &str = "expected a condition, such as `tag = vip`";
    const NAME: &str = "the name of an attribute must be a lower-case letter, then up to 63 \
        lower-case letters, digits and underscores";
    check_errors(&[
        ("", "", CONDITION),
        ("  ", "", CONDITION),
        ("", ")", CONDITION),
        ("", "\"plan\" = 1", CONDITION),
        ("", "and tag = a", CONDITION),
        ("", "= 3", CONDITION),
        ("tag = a and ", "", CONDITION),
        ("tag = a and ", "or tag = b", CONDITION),
        ("not ", "", CONDITION),
        ("(tag = a and ", ")", CONDITION),
        ("all (", ")", CONDITION),
        ("tag = a ", "tag = b", "expected `and`, `or` or the end"),
        ("platform = ios ", "an tag = vip", "expected `and`, `or` or the end"),
        ("tag = a", ")", "expected `and`, `or` or the end"),
        ("(tag = a", "", "expected `and`, `or` or `)`"),
        ("(tag = a ", "b)", "expected `and`, `or` or `)`"),
        ("all (tag = a ", "b)", "expected `and`, `or`, `,` or `)`"),
        ("any ", "tag = a", "expected `(`"),
        ("", "Plan = 1", NAME),
        ("", "3 = plan", NAME),
        ("attribute ", "= 1", "expected the name of an attribute"),
        ("attribute ", "Plan = 1", NAME),
        ("tag ", "", "`tag` takes only `=`"),
        ("tag ", "in (a)", "`tag` takes only `=`"),
        ("segment ", "< a", "`segment` takes only `=`"),
        ("tag = ", "", VALUE),
        ("tag = ", "(a)", VALUE),
        ("tag = ", "\"\"", "must not be empty"),
        ("plan ", "", "expected an operator: `=`, `in`, `exists`, `is absent`, `>=`, `<`"),
        ("plan ", "(a)", "expected an operator: `=`, `in`, `exists`, `is absent`, `>=`, `<`"),
        (
            "plan ",
            "contains x",
            "unknown operator; `plan` takes `=`, `in`, `exists`, `is absent`, `>=`, `<`",
        ),
        ("plan ", "within 3 days", "`plan` takes only `=`, `in`, `exists`, `is absent`, `>=`, `<`"),
        (
            "last_active ",
            "within 3 days",
            "`last_active` takes only `=`, `in`, `exists`, `is absent`, `>=`, `<`; did you mean \
             `last_active_at`?",
        ),
        ("user ", "= a", "`user` takes only `exists`, `is absent`"),
        ("platform ", ">= ios", "`platform` takes only `=`, `in`, `exists`, `is absent`"),
        (
            "created_at ",
            "= 3",
            "`created_at` takes only `exists`, `is absent`, `>=`, `<`, `within`",
        ),
        ("plan in ", "a, b", "expected `(`"),
        ("plan in (", ")", VALUE),
        ("plan in (a ", "b)", "expected `,` or `)`"),
        ("plan in (a, ", ")", VALUE),
        ("tag = ", "\"a", "the quotes are not closed"),
        ("tag = \"a", "\\n\"", "expected `\\\"` or `\\\\`"),
        ("tag = ", "'a'", "unexpected character; a text can be in double quotes"),
        ("tag = a ", "% tag = b", "unexpected character; a text can be in double quotes"),
        ("tag = größe ", "x", "expected `and`, `or` or the end"),
    ]);
}

/// What people know from other languages. The message has the condition that they mean.
#[test]
fn errors_say_what_to_write() {
    const LIST: &str = "`=`, `in`, `exists`, `is absent`, `>=`, `<`";
    let unknown = |name: &str| format!("unknown operator; `{name}` takes {LIST}");
    let instead = |condition: &str| format!("unknown operator; write `{condition}`");
    let value = |condition: &str| format!("expected `absent`; write `{condition}`");
    let equals =
        |name: &str, condition: &str| format!("`{name}` takes only `=`; write `{condition}`");
    for (before, rest, message) in [
        ("plan ", "== pro", instead("plan = pro")),
        ("plan ", "EQ pro", instead("plan = pro")),
        ("plan ", "== \"pro plus\"", instead("plan = \"pro plus\"")),
        ("plan ", "!= pro", instead("not plan = pro")),
        ("plan ", "<> true and tag = a", instead("not plan = true")),
        ("plan ", "== null", instead("plan is absent")),
        ("plan ", "!= null", instead("plan exists")),
        ("plan ", "not in (a, b)", "unknown operator; `not` stands before `plan`".to_owned()),
        ("tag = a and seats ", "> 3", instead("(seats >= 3 and not seats = 3)")),
        ("not seats ", "<= 3", instead("(seats < 3 or seats = 3)")),
        ("seats ", "=> 3", instead("seats >= 3")),
        ("platform ", "!= ios", instead("not platform = ios")),
        ("created_at ", "=> 2026-11-01", instead("created_at >= 2026-11-01")),
        ("plan is ", "pro", value("plan = pro")),
        ("tag = a or (plan is ", "3)", value("plan = 3")),
        ("plan is ", "\"absent\"", value("plan = \"absent\"")),
        ("plan is ", "null", value("plan is absent")),
        ("plan is ", "not pro", value("not plan = pro")),
        ("plan is ", "not absent", value("plan exists")),
        ("plan is ", "not null", value("plan exists")),
        ("platform is ", "ios", value("platform = ios")),
        ("tag ", "is vip", equals("tag", "tag = vip")),
        ("tag ", "== \"and\"", equals("tag", "tag = \"and\"")),
        ("tag ", "!= vip", equals("tag", "not tag = vip")),
        ("segment ", "is not fans", equals("segment", "not segment = fans")),
        ("", "!tag = a", "unexpected character; write `not`".to_owned()),
        ("tag = a ", "&& tag = b", "unexpected character; write `and`".to_owned()),
        ("tag = a ", "| tag = b", "unexpected character; write `or`".to_owned()),
        // Without a value that the operator takes, there is nothing to write.
        ("plan ", "==", unknown("plan")),
        ("plan ", "!= (a)", unknown("plan")),
        ("seats ", "> pro", unknown("seats")),
        // 3.0 is not equal to 3.0.0, but is not below it either.
        ("app_version ", "> 3.0", unknown("app_version")),
        ("os_version ", "<= 3.0", unknown("os_version")),
        ("app_version ", "!= 3.0", instead("not app_version = 3.0")),
        ("plan ", "== \"a\u{1b}\"", unknown("plan")),
        ("plan ", "== \"a\nb\"", unknown("plan")),
        ("plan ", "== in", unknown("plan")),
        ("plan is ", "", "expected `absent`".to_owned()),
        ("plan is ", "not", "expected `absent`".to_owned()),
        ("user is ", "u1", "expected `absent`".to_owned()),
        ("platform is ", "tv", "expected `absent`".to_owned()),
        ("tag ", "is absent", "`tag` takes only `=`".to_owned()),
        ("tag ", "> vip", "`tag` takes only `=`".to_owned()),
    ] {
        check_errors(&[(before, rest, &message)]);
    }
}

#[test]
fn values_are_checked() {
    const TIME: &str =
        "expected unix milliseconds or a date, such as 2026-11-01 or 2026-11-01T10:00Z";
    const PLATFORM: &str = "must be one of android, ios, web, fb-messenger, chatapp";
    check_errors(&[
        ("plan = ", "", VALUE),
        ("platform = ", "tv", PLATFORM),
        ("platform in (ios, ", "tv)", PLATFORM),
        ("language = ", "\"\"", "must not be empty"),
        ("app_version >= ", "v3", "must begin with a digit"),
        ("plan >= ", "pro", "must be a number, or a version that begins with a digit"),
        ("plan < ", "true", "must be a number, or a version that begins with a digit"),
        ("timezone >= ", "GMT", "expected a number"),
        ("timezone = ", "\"60\"", "expected a number"),
        ("timezone = ", "900", "must be a whole number of minutes within ±840"),
        ("created_at >= ", "yesterday", TIME),
        ("created_at >= ", "2026-02-30", TIME),
        ("created_at >= ", "2026-11-01T10:00", TIME),
        ("created_at >= ", "2026-11-01T10:00:60Z", TIME),
        ("created_at >= ", "2026-11-01Z", TIME),
        ("created_at >= ", "\"2026-11-01\"", TIME),
        ("created_at >= ", "-1", "must be unix milliseconds within the years 1970 to 9999"),
        ("created_at >= ", "1969-12-31", "must be unix milliseconds within the years 1970 to 9999"),
        ("created_at within ", "0 days", "expected a number of days from 1 to 3650"),
        ("created_at within ", "3651 days", "expected a number of days from 1 to 3650"),
        ("created_at within ", "+3 days", "expected a number of days from 1 to 3650"),
        ("created_at within ", "days", "expected a number of days from 1 to 3650"),
        ("created_at within 3 ", "", "expected `days`"),
        ("created_at within 3 ", "weeks", "expected `days`"),
    ]);
}

#[test]
fn expressions_are_limited() {
    let error = |expression: &str| parse(expression).unwrap_err();
    let tags = |count: usize| vec!["tag = a"; count].join(" or ");
    assert!(parse(&tags(63)).is_ok());
    assert_eq!(error(&tags(64)).1, "must hold at most 64 conditions");
    let nots = |count: usize| format!("{}tag = a", "not ".repeat(count));
    assert!(parse(&nots(7)).is_ok());
    assert_eq!(error(&nots(8)), (32, "must nest at most 8 levels".to_owned()));
    assert_eq!(error(&nots(40)).1, "too many nested parentheses");
    let nested = |count: usize| format!("{}tag = a{}", "(".repeat(count), ")".repeat(count));
    assert!(parse(&nested(31)).is_ok());
    assert_eq!(error(&nested(32)), (32, "too many nested parentheses".to_owned()));
    assert_eq!(error(&"(".repeat(EXPRESSION_CHARS_MAX)).0, 32);
    let values = |count: usize| format!("plan in ({})", vec!["1"; count].join(","));
    assert!(parse(&values(100)).is_ok());
    assert_eq!(error(&values(101)), (209, "must hold at most 100 values".to_owned()));
    let long = format!("tag = a{}", " ".repeat(EXPRESSION_CHARS_MAX - 7));
    assert!(parse(&long).is_ok());
    let message = format!("an expression has at most {EXPRESSION_CHARS_MAX} characters");
    assert_eq!(error(&format!("{long} ")), (EXPRESSION_CHARS_MAX, message));
    let name = format!("tag = {}", "é".repeat(256));
    assert_eq!(error(&name), (6, "must be at most 255 characters".to_owned()));
    assert_eq!(error("tag = \"a\0\"").1, "must not contain U+0000");
}

#[test]
fn errors_show_the_line() {
    let shown = |expression: &str| Audience::parse_expression(expression).unwrap_err().to_string();
    assert_eq!(shown("tag"), "tag\n   ^\n`tag` takes only `=`");
    assert_eq!(shown(""), "\n^\nexpected a condition, such as `tag = vip`");
    assert_eq!(
        shown("tag = a and\n  tag = é !\nor tag = c"),
        "  tag = é !\n          ^\nexpected `and`, `or` or the end"
    );
    let tags = vec!["tag = abc"; 20].join(" or ");
    let error = shown(&format!("{tags} x {tags}"));
    let lines: Vec<&str> = error.lines().collect();
    assert!(lines[0].starts_with('…') && lines[0].ends_with('…'));
    assert_eq!(lines[0].chars().nth(lines[1].chars().count() - 1), Some('x'));
    // Characters that control a terminal are not shown.
    let error = shown("tag = \u{1b}[2J");
    assert_eq!(
        error,
        "tag = \u{fffd}[2J\n      ^\nunexpected character; a text can be in double quotes"
    );
}

fn check_random(expression: &str) {
    match Audience::parse_expression(expression) {
        Ok(audience) => {
            let printed = audience.to_string();
            assert_eq!(printed.parse(), Ok::<_, ExpressionError>(audience), "{printed}");
        }
        Err(error) => {
            assert!(error.position <= expression.chars().count());
            let shown = error.to_string();
            assert_eq!(shown.matches('\n').count(), 2, "{shown}");
        }
    }
}

const TOKENS: [&str; 40] = [
    "and",
    "or",
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
    "true",
    "plan",
    "seats",
    "platform",
    "language",
    "timezone",
    "created_at",
    "user",
    "app_version",
    "ios",
    "3",
    "3.10",
    "-1",
    "2026-11-01",
    "\"a b\"",
    "(",
    ")",
    "(",
    ")",
    ",",
    "=",
    ">=",
    "<",
    "!=",
    "\"",
    "é",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn expressions_survive_a_round_trip(audience in any_audience(true)) {
        let printed = audience.to_string();
        prop_assert_eq!(Audience::parse_expression(&printed), Ok(audience), "{}", printed);
    }

    #[test]
    fn any_text_is_accepted_or_refused(expression in "\\PC{0,60}") {
        check_random(&expression);
    }

    #[test]
    fn any_tokens_are_accepted_or_refused(
        tokens in proptest::collection::vec(proptest::sample::select(&TOKENS[..]), 0..14)
    ) {
        check_random(&tokens.join(" "));
        check_random(&tokens.concat());
    }
}
