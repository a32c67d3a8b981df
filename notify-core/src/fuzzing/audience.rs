//! Audiences as expressions and as JSON.

use super::{NOW, check_violations};
use crate::{
    AttributeValue, Audience, Condition, EXPRESSION_CHARS_MAX, Platform, Subject, Test, Timestamp,
};

/// Checks an audience, which is JSON if it begins with a brace, and otherwise an expression.
///
/// # Panics
/// If an audience that is written again, as JSON or as an expression, reads differently; if a condition
/// and its opposite have the same result; or if an error cannot be shown.
pub fn audience(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check_number(text);
    if text.starts_with('{') {
        match Audience::from_json(text) {
            Ok(audience) => check_audience(&audience),
            Err(violations) => check_violations(&violations),
        }
        return;
    }
    match Audience::parse_expression(text) {
        Ok(audience) => {
            let condition = audience.resolve(&|_| Some(Audience::tag("of a segment")));
            assert!(condition.is_ok(), "breaks a rule: {condition:?}");
            check_audience(&audience);
        }
        Err(error) => {
            assert!(error.position <= text.chars().count(), "{error:?}");
            check_hint(&error.message);
            assert!(!error.message.contains(char::is_control), "{error:?}");
            assert!(error.to_string().lines().count() == 3, "{error}");
        }
    }
}

/// Checks that an expression that an error suggests is valid.
fn check_hint(message: &str) {
    if message.starts_with("unexpected character") {
        return;
    }
    let hint = message.split_once("; write `").and_then(|(_, hint)| hint.strip_suffix('`'));
    if let Some(hint) = hint {
        let read = Audience::parse_expression(hint);
        assert!(read.is_ok(), "{message}: {read:?}");
    }
}

fn check_audience(audience: &Audience) {
    let json = audience.to_json();
    assert_eq!(Audience::from_json(&json).as_ref(), Ok(audience), "{json}");
    check_stored_values(audience);
    let of_segment = |name: &str| (!name.is_empty()).then(|| Audience::tag(name));
    let condition = match audience.resolve(&of_segment) {
        Ok(condition) => condition,
        Err(violations) => return check_violations(&violations),
    };
    let printed = audience.to_string();
    // A condition in JSON can be larger than an expression may be.
    if printed.chars().nth(EXPRESSION_CHARS_MAX).is_none() {
        let read = Audience::parse_expression(&printed);
        assert_eq!(read.as_ref(), Ok(audience), "{printed}");
    }
    let stored = condition.to_json();
    assert_eq!(Condition::parse_stored(&stored).as_ref(), Ok(&condition), "{stored}");
    check_matches(&condition);
}

/// Checks the results of a condition for some devices.
fn check_matches(condition: &Condition) {
    // With one more condition, the opposite can be too large.
    let opposite = condition.audience().clone().negate().validate().ok();
    for has_all in [false, true] {
        let tags = vec![has_all; condition.tags().len()];
        let value = has_all.then_some(AttributeValue::Number(3.0));
        let attributes = vec![value; condition.attributes().len()];
        let text = |text| has_all.then_some(text);
        let subject = Subject {
            platform: if has_all { Platform::Ios } else { Platform::Web },
            language: text("de-AT"),
            country: text("AT"),
            app_version: text("3.10.2"),
            os_version: text("17"),
            timezone: has_all.then_some(60),
            created_at: if has_all { NOW } else { Timestamp(0) },
            last_active_at: NOW,
            has_user: has_all,
            tags: &tags,
            attributes: &attributes,
        };
        let matches = condition.matches(&subject, NOW);
        if let Some(opposite) = &opposite {
            assert_ne!(matches, opposite.matches(&subject, NOW), "{subject:?}");
        }
        assert_eq!(matches, condition.first_unmet(&subject, NOW).is_none(), "{subject:?}");
    }
}

/// Checks the stored form of each value of an attribute.
fn check_stored_values(audience: &Audience) {
    match audience {
        Audience::All(parts) | Audience::Any(parts) => parts.iter().for_each(check_stored_values),
        Audience::Not(part) => check_stored_values(part),
        Audience::Attribute { test, .. } | Audience::Field { test, .. } => {
            let values = match test {
                Test::Is(value) | Test::AtLeast(value) | Test::Below(value) => {
                    std::slice::from_ref(value)
                }
                Test::In(values) => values,
                Test::Exists(_) | Test::WithinDays(_) => &[],
            };
            for value in values {
                let stored = value.to_stored();
                let read = AttributeValue::from_stored(&stored);
                assert_eq!(read.as_ref(), Some(value), "{stored}");
                assert_eq!(read.map(|value| value.to_stored()), Some(stored));
            }
        }
        Audience::Segment(_) | Audience::Tag(_) => {}
    }
}

/// Checks that a number has the same value wherever it is read.
fn check_number(text: &str) {
    if let Ok(number) = AttributeValue::parse_number(text) {
        let json = format!(r#"{{"attribute":"a","is":{text}}}"#);
        let audience = Audience::Attribute { name: "a".to_owned(), test: Test::Is(number) };
        assert_eq!(Audience::from_json(&json), Ok(audience), "{json}");
    }
}
