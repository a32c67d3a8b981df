//! Writes conditions as expressions, with parentheses only where they are needed.

use std::fmt::{Formatter, Result, Write};

use super::lexer::is_word_char;
use super::{Audience, Field, Test, is_reserved};
use crate::attribute::{is_attribute_name, number_text, whole};
use crate::{AttributeValue, TIMESTAMP_MS_MAX, Timestamp, pluralize};

pub(super) fn print(audience: &Audience, f: &mut Formatter<'_>) -> Result {
    match audience {
        Audience::Any(conditions) => print_list(conditions, "any", " or ", f),
        Audience::All(conditions) => print_list(conditions, "all", " and ", f),
        Audience::Not(condition) => {
            f.write_str("not ")?;
            print_part(condition, is_list(condition), f)
        }
        Audience::Tag(name) => {
            f.write_str("tag = ")?;
            print_text(name, is_plain(name), f)
        }
        Audience::Segment(name) => {
            f.write_str("segment = ")?;
            print_text(name, is_plain(name), f)
        }
        Audience::Attribute { name, test } => {
            if is_reserved(name) || !is_attribute_name(name) {
                f.write_str("attribute ")?;
            }
            print_text(name, is_attribute_name(name), f)?;
            print_test(test, print_attribute_value, f)
        }
        Audience::Field { field, test } => {
            f.write_str(field.as_str())?;
            match field {
                Field::CreatedAt | Field::LastActiveAt => print_test(test, print_time, f),
                Field::Platform
                | Field::Language
                | Field::Country
                | Field::AppVersion
                | Field::OsVersion
                | Field::Timezone
                | Field::User => print_test(test, print_field_value, f),
            }
        }
    }
}

/// Whether the condition is written with `and` or `or`.
fn is_list(audience: &Audience) -> bool {
    match audience {
        Audience::All(conditions) | Audience::Any(conditions) => conditions.len() > 1,
        Audience::Not(_)
        | Audience::Segment(_)
        | Audience::Tag(_)
        | Audience::Attribute { .. }
        | Audience::Field { .. } => false,
    }
}

fn print_list(
    conditions: &[Audience],
    name: &str,
    separator: &str,
    f: &mut Formatter<'_>,
) -> Result {
    let [first, rest @ ..] = conditions else { return write!(f, "{name} ()") };
    if rest.is_empty() {
        return write!(f, "{name} ({first})");
    }
    for (index, condition) in conditions.iter().enumerate() {
        if index > 0 {
            f.write_str(separator)?;
        }
        // `and` binds more tightly than `or`.
        let binds_tighter = name == "any" && matches!(condition, Audience::All(_));
        print_part(condition, is_list(condition) && !binds_tighter, f)?;
    }
    Ok(())
}

fn print_part(condition: &Audience, in_parentheses: bool, f: &mut Formatter<'_>) -> Result {
    if in_parentheses {
        return write!(f, "({condition})");
    }
    print(condition, f)
}

/// Writes an operand.
type PrintValue = fn(&AttributeValue, &mut Formatter<'_>) -> Result;

fn print_test(test: &Test, print_value: PrintValue, f: &mut Formatter<'_>) -> Result {
    match test {
        Test::Is(value) => {
            f.write_str(" = ")?;
            print_value(value, f)
        }
        Test::In(values) => {
            f.write_str(" in (")?;
            for (index, value) in values.iter().enumerate() {
                f.write_str(if index > 0 { ", " } else { "" })?;
                print_value(value, f)?;
            }
            f.write_char(')')
        }
        Test::Exists(true) => f.write_str(" exists"),
        Test::Exists(false) => f.write_str(" is absent"),
        Test::AtLeast(value) => {
            f.write_str(" >= ")?;
            print_value(value, f)
        }
        Test::Below(value) => {
            f.write_str(" < ")?;
            print_value(value, f)
        }
        Test::WithinDays(days) => write!(f, " within {}", pluralize(*days, "day")),
    }
}

fn print_attribute_value(value: &AttributeValue, f: &mut Formatter<'_>) -> Result {
    match value {
        AttributeValue::Bool(value) => write!(f, "{value}"),
        AttributeValue::Number(number) => f.write_str(&number_text(*number)),
        AttributeValue::Text(text) => {
            // A text that begins with another character could be read as a number.
            let begins_with_letter = text.starts_with(|first: char| first.is_alphabetic());
            print_text(text, begins_with_letter && is_plain(text), f)
        }
    }
}

fn print_field_value(value: &AttributeValue, f: &mut Formatter<'_>) -> Result {
    match value {
        AttributeValue::Bool(value) => write!(f, "{value}"),
        AttributeValue::Number(number) => f.write_str(&number_text(*number)),
        AttributeValue::Text(text) => print_text(text, is_plain(text), f),
    }
}

/// Writes an instant as a date, in the shortest form that is exact.
fn print_time(value: &AttributeValue, f: &mut Formatter<'_>) -> Result {
    let ms = match value {
        AttributeValue::Number(number) => whole(*number),
        AttributeValue::Bool(_) | AttributeValue::Text(_) => None,
    };
    let Some(ms) = ms.filter(|ms| (0..=TIMESTAMP_MS_MAX).contains(ms) && ms % 1_000 == 0) else {
        return print_field_value(value, f);
    };
    let date = Timestamp(ms).to_rfc3339();
    if let Some(day) = date.strip_suffix("T00:00:00Z") {
        return f.write_str(day);
    }
    match date.strip_suffix(":00Z") {
        Some(minute) => write!(f, "{minute}Z"),
        None => f.write_str(&date),
    }
}

/// Whether a text needs no quotes.
fn is_plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_word_char) && !is_reserved(text)
}

fn print_text(text: &str, is_plain: bool, f: &mut Formatter<'_>) -> Result {
    if is_plain {
        return f.write_str(text);
    }
    f.write_char('"')?;
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            f.write_char('\\')?;
        }
        f.write_char(character)?;
    }
    f.write_char('"')
}
