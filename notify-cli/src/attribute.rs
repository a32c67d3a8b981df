//! Attributes as texts: on the command line, in cells of CSV files, and in tables.

use clap::Args;
use notify_client::notify_core::{AttributeValue, ParseNumberError, PatchAttributes};

use crate::failure::Failure;

/// How values are written, for help texts.
macro_rules! value_help {
    () => {
        "\
A value is true or false, a number, or else a text. In double quotes it is always a text, in which
`\\\"` and `\\\\` stand for `\"` and `\\`.
A version needs double quotes, because `3.10` is the number 3.1"
    };
}
pub(crate) use value_help;

/// Reads a value: true or false in any case, a number as JSON writes it, a text in quotes, or else the text
/// itself.
pub(crate) fn parse_value(text: &str) -> Result<AttributeValue, String> {
    if text.starts_with('"') {
        return unquoted(text).map(AttributeValue::Text);
    }
    if text.eq_ignore_ascii_case("true") || text.eq_ignore_ascii_case("false") {
        return Ok(text.eq_ignore_ascii_case("true").into());
    }
    match AttributeValue::parse_number(text) {
        Ok(number) => Ok(number),
        Err(ParseNumberError::Malformed) => Ok(text.into()),
        Err(error @ ParseNumberError::TooManyDigits) => {
            Err(format!("`{text}` {error}: put it in double quotes to make it a text"))
        }
    }
}

/// The text in quotes.
fn unquoted(text: &str) -> Result<String, String> {
    let mut content = String::new();
    let mut characters = text.chars().skip(1);
    loop {
        match characters.next() {
            Some('"') => break,
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\')) => content.push(escaped),
                _ => return Err("after `\\` in quotes, there must be `\"` or `\\`".to_owned()),
            },
            Some(character) => content.push(character),
            None => return Err("the quotes are not closed".to_owned()),
        }
    }
    match characters.next() {
        None => Ok(content),
        Some(_) => Err("there is something after the quotes".to_owned()),
    }
}

/// The text that [`parse_value`] reads as this value.
pub(crate) fn value_text(value: &AttributeValue) -> String {
    match value {
        AttributeValue::Bool(value) => value.to_string(),
        AttributeValue::Number(_) => {
            serde_json::to_string(value).expect("a number of a response is finite")
        }
        AttributeValue::Text(text) => {
            if parse_value(text).as_ref() == Ok(value) {
                return text.clone();
            }
            format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
        }
    }
}

/// Parses the argument `NAME=VALUE`. The server's rules for names are checked with the request.
pub(crate) fn parse_pair(text: &str) -> Result<(String, AttributeValue), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), parse_value(value)?))
}

/// The option that removes attributes.
#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// Remove the attribute with this name; repeatable.
    #[arg(long = "remove", value_name = "NAME", group = "change")]
    names: Vec<String>,
}

/// The change that sets and removes these attributes. No attribute may be in it twice.
pub(crate) fn changes(
    set: Vec<(String, AttributeValue)>,
    remove: RemoveArgs,
) -> Result<PatchAttributes, Failure> {
    let set = set.into_iter().map(|(name, value)| (name, Some(value)));
    let remove = remove.names.into_iter().map(|name| (name, None));
    let mut changes = PatchAttributes::default();
    for (name, value) in set.chain(remove) {
        if changes.0.contains_key(&name) {
            return Err(Failure::Usage(format!("the attribute `{name}` is given twice")));
        }
        changes.0.insert(name, value);
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_a_boolean_a_number_or_a_text() {
        for (text, value) in [
            ("true", AttributeValue::Bool(true)),
            ("FALSE", AttributeValue::Bool(false)),
            ("3", 3.into()),
            ("-0.5", (-0.5).into()),
            ("1e3", 1_000.into()),
            ("9007199254740992", 9_007_199_254_740_992.0.into()),
            ("", "".into()),
            ("pro", "pro".into()),
            ("null", "null".into()),
            ("truely", "truely".into()),
            ("10115 Berlin", "10115 Berlin".into()),
            // These are not numbers in JSON.
            ("007", "007".into()),
            ("+3", "+3".into()),
            (" 3", " 3".into()),
            (".5", ".5".into()),
            ("1e999", "1e999".into()),
            ("3.10.2", "3.10.2".into()),
            ("5\" screen", "5\" screen".into()),
            (r#""3""#, "3".into()),
            (r#""true""#, "true".into()),
            (r#""""#, "".into()),
            (r#""a \"b\" \\ c""#, r#"a "b" \ c"#.into()),
        ] {
            assert_eq!(parse_value(text), Ok(value.clone()), "{text}");
            assert_eq!(parse_value(&value_text(&value)), Ok(value), "{text}");
        }
        for (text, error) in [
            ("\"pro", "the quotes are not closed"),
            ("\"pro\\\"", "the quotes are not closed"),
            ("\"pro\" x", "there is something after the quotes"),
            (r#""a\n""#, "after `\\` in quotes, there must be `\"` or `\\`"),
            (
                "9007199254740994",
                "`9007199254740994` has more digits than a number keeps: put it in double quotes to \
                 make it a text",
            ),
        ] {
            assert_eq!(parse_value(text), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn a_value_has_quotes_only_if_it_needs_them() {
        for (value, text) in [
            (AttributeValue::from("pro"), "pro"),
            (true.into(), "true"),
            ("true".into(), "\"true\""),
            (3.0.into(), "3"),
            ("3".into(), "\"3\""),
            (0.25.into(), "0.25"),
            ("\"".into(), r#""\"""#),
            ("12345678901234567890".into(), "\"12345678901234567890\""),
            ("a \"b\"".into(), "a \"b\""),
        ] {
            assert_eq!(value_text(&value), text);
        }
    }

    #[test]
    fn a_pair_is_a_name_and_a_value() {
        assert_eq!(parse_pair("plan=a=b"), Ok(("plan".to_owned(), "a=b".into())));
        assert_eq!(parse_pair("seats="), Ok(("seats".to_owned(), "".into())));
        assert_eq!(parse_pair("plan"), Err("must be NAME=VALUE".to_owned()));
        assert!(parse_pair("plan=\"x").is_err());
    }
}
