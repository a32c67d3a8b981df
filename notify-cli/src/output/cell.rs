//! One value as text: what a person sees, and what a spreadsheet gets.

use serde_json::Value;

/// How a column reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// As it is.
    Plain,
    /// Unix milliseconds; people see the time.
    Time,
}

/// First characters that make a spreadsheet take a cell for a formula (CWE-1236), with their
/// full-width forms.
const FORMULA_STARTS: [char; 12] =
    ['=', '+', '-', '@', '\t', '\r', '\n', '\0', '＝', '＋', '－', '＠'];

/// What a person sees of a value.
pub(super) fn shown(value: Option<&Value>, kind: Kind) -> String {
    let text = match (value, kind) {
        (Some(Value::Number(ms)), Kind::Time) => ms
            .as_i64()
            .and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok())
            .map_or_else(|| ms.to_string(), |at| format!("{at:.0}")),
        _ => plain(value),
    };
    printable(&text)
}

/// What a spreadsheet gets of a value.
pub(super) fn exported(value: Option<&Value>) -> String {
    match value {
        // A number is harmless, whatever its sign.
        Some(Value::Number(number)) => number.to_string(),
        _ => guarded(plain(value)),
    }
}

fn plain(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Bool(_) | Value::Number(_))) => value.to_string(),
        Some(value @ (Value::Array(_) | Value::Object(_))) => value.to_string(),
    }
}

/// Keeps a spreadsheet from taking a text for a formula.
pub(crate) fn guarded(text: String) -> String {
    if text.starts_with(FORMULA_STARTS) { format!("'{text}") } else { text }
}

/// Takes back what [`guarded`] did.
pub(crate) fn unguarded(text: &str) -> &str {
    match text.strip_prefix('\'') {
        Some(rest) if rest.starts_with(FORMULA_STARTS) => rest,
        _ => text,
    }
}

/// A text without what would move the cursor or change colours: it may come from anyone.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_formula_is_exported_as_text() {
        for start in FORMULA_STARTS {
            let text = format!("{start}HYPERLINK(\"x\")");
            let cell = exported(Some(&json!(text)));
            assert_eq!(cell, format!("'{text}"));
            assert_eq!(unguarded(&cell), text);
        }
        for harmless in ["", "a=b", "'quoted'", " =1"] {
            assert_eq!(exported(Some(&json!(harmless))), harmless);
            assert_eq!(unguarded(harmless), harmless);
        }
        assert_eq!(exported(Some(&json!(-5))), "-5");
    }

    #[test]
    fn people_see_times_and_no_control_characters() {
        assert_eq!(shown(Some(&json!(1_767_323_045_678_i64)), Kind::Time), "2026-01-02T03:04:05Z");
        assert_eq!(shown(Some(&json!(null)), Kind::Time), "");
        assert_eq!(shown(Some(&json!("a\u{1b}[31m\nb")), Kind::Plain), "a\\u{1b}[31m\\nb");
        assert_eq!(shown(None, Kind::Plain), "");
        assert_eq!(shown(Some(&json!(["x", 1])), Kind::Plain), r#"["x",1]"#);
    }
}
