//! What to write instead of an operator that expressions do not have, but other languages do.

use super::lexer::Token;
use super::parser::check;
use super::{Audience, Test, is_reserved};
use crate::{AttributeValue, is_unprintable};

/// The condition that the author of `operator` and `value` probably means, as an expression. `read` reads the
/// value, and `make` makes a condition if the test has an operator that is possible there.
pub(super) fn instead(
    operator: &str,
    value: &Token,
    read: impl Fn(&Token) -> Option<AttributeValue>,
    make: impl Fn(Test) -> Option<Audience>,
) -> Option<String> {
    let means_absent = value.is_keyword("absent") || value.is_keyword("null");
    if !means_absent && is_keyword(value) {
        return None;
    }
    let equals = || {
        if means_absent { make(Test::Exists(false)) } else { make(Test::Is(read(value)?)) }
    };
    let differs = || if means_absent { make(Test::Exists(true)) } else { Some(equals()?.negate()) };
    let at_least = || make(Test::AtLeast(read(value)?));
    let below = || make(Test::Below(read(value)?));
    // Versions are compared by number, but are equal only as texts: 3.0 is not equal to 3.0.0.
    let is_version = || matches!(read(value), Some(AttributeValue::Text(_)));
    let condition = match operator.to_ascii_lowercase().as_str() {
        "==" | "===" | "eq" | "equals" | "is" => equals()?,
        "!=" | "!==" | "<>" | "ne" | "is not" => differs()?,
        ">" | "gt" | "<=" | "=<" if is_version() => return None,
        ">" | "gt" => at_least()?.and(differs()?),
        "<=" | "=<" => below()?.or(equals()?),
        "=>" => at_least()?,
        _ => return None,
    };
    // The parentheses make it correct in any place.
    let text = match &condition {
        Audience::All(_) | Audience::Any(_) => format!("({condition})"),
        one => one.to_string(),
    };
    (check(&condition, 0).is_ok() && !text.contains(is_unprintable)).then_some(text)
}

/// Whether the value is written as a word that is no value.
fn is_keyword(value: &Token) -> bool {
    let is_bool = value.is_keyword("true") || value.is_keyword("false");
    matches!(value, Token::Word(word) if is_reserved(word)) && !is_bool
}
