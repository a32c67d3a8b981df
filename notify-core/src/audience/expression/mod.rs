//! Audiences as expressions, for people: `platform = ios and not tag = vip`. Each expression is one
//! condition in JSON, and the other way round.
//!
//! ```text
//! any        = all { "or" all }
//! all        = one { "and" one }
//! one        = "not" one | "(" any ")" | ( "all" | "any" ) "(" any { "," any } ")" | condition
//! condition  = "tag" "=" value | "segment" "=" value | name test
//! name       = field | [ "attribute" ] attribute
//! test       = "=" value | "in" "(" value { "," value } ")" | "exists" | "is" "absent"
//!            | ">=" value | "<" value | "within" number "days"
//! ```
//!
//! `all (…)` and `any (…)` are for lists of one condition. A value is a word, or a text in quotes, in
//! which `\"` and `\\` stand for `"` and `\`. The value of an attribute is a boolean or a number if it is
//! written as one without quotes. A time is in unix milliseconds, or a date such as `2026-11-01` or
//! `2026-11-01T10:00Z`. The case of keywords and fields is ignored.

mod hint;
mod lexer;
mod parser;
mod print;

use std::fmt;

use self::lexer::Fault;
use super::{Audience, Field, Test};
use crate::is_unprintable;

/// Longest expression, in characters.
pub const EXPRESSION_CHARS_MAX: usize = 16_384;
/// Most nested parentheses and `not`, including parentheses that add no level of conditions.
const NESTING_MAX: usize = 32;
/// Most characters of an expression that an error shows before and after its position.
const SHOWN_CHARS_MAX: usize = 60;

/// The words with a meaning in expressions, besides the names of fields.
const KEYWORDS: [&str; 17] = [
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
    "day",
    "days",
    "true",
    "false",
];

/// Whether a word has a meaning in expressions. An attribute with this name needs `attribute` before it,
/// and a value needs quotes.
fn is_reserved(word: &str) -> bool {
    KEYWORDS.iter().chain(&Field::NAMES).any(|known| known.eq_ignore_ascii_case(word))
}

/// How an operator is written in expressions.
fn spelling(operator: &str) -> &'static str {
    match operator {
        "is" => "=",
        "in" => "in",
        "exists" => "exists",
        "at_least" => ">=",
        "below" => "<",
        _ => "within",
    }
}

/// Why a text is not a valid expression.
///
/// ```
/// use notify_core::Audience;
///
/// let error = Audience::parse_expression("platform = ios an tag = vip").unwrap_err();
/// assert_eq!(error.position, 15);
/// assert_eq!(
///     error.to_string(),
///     "platform = ios an tag = vip
///                ^
/// expected `and`, `or` or the end"
/// );
/// ```
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{shown}\n{:>column$}\n{message}", '^', column = .column + 1)]
pub struct ExpressionError {
    /// Where, as an offset in characters.
    pub position: usize,
    /// What is wrong there.
    pub message: String,
    /// The line with the position, shortened.
    shown: String,
    /// The offset of the position in `shown`.
    column: usize,
}

impl ExpressionError {
    fn new(expression: &str, fault: Fault) -> Self {
        let Fault { position, message } = fault;
        let is_break = |character: &char| matches!(character, '\n' | '\r');
        let before: Vec<char> = expression.chars().take(position).collect();
        let before: Vec<char> = before.into_iter().rev().take_while(|c| !is_break(c)).collect();
        let mut shown: String = before.iter().take(SHOWN_CHARS_MAX).rev().collect();
        let mut column = before.len().min(SHOWN_CHARS_MAX);
        if before.len() > SHOWN_CHARS_MAX {
            shown.insert(0, '…');
            column += 1;
        }
        let mut after = expression.chars().skip(position).take_while(|c| !is_break(c));
        shown.extend(after.by_ref().take(SHOWN_CHARS_MAX));
        if after.next().is_some() {
            shown.push('…');
        }
        let printable = |c: char| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c };
        let shown = shown.chars().map(printable).collect();
        Self { position, message, shown, column }
    }
}

impl Audience {
    /// Reads an expression. Its condition satisfies every rule; whether its segments exist is unknown.
    ///
    /// # Errors
    /// The first error, with its position.
    ///
    /// ```
    /// use notify_core::{Audience, Platform};
    ///
    /// let audience = Audience::parse_expression("platform = ios and (seats >= 3 or not user exists)")?;
    /// let many = Audience::attribute("seats").at_least(3);
    /// let expected = Audience::platform().is(Platform::Ios).and(many.or(Audience::has_user(true).negate()));
    /// assert_eq!(audience, expected);
    /// # Ok::<(), notify_core::ExpressionError>(())
    /// ```
    pub fn parse_expression(expression: &str) -> Result<Self, ExpressionError> {
        parser::parse(expression).map_err(|fault| ExpressionError::new(expression, fault))
    }
}

impl std::str::FromStr for Audience {
    type Err = ExpressionError;

    /// Accepts the same as [`Self::parse_expression`].
    fn from_str(expression: &str) -> Result<Self, ExpressionError> {
        Self::parse_expression(expression)
    }
}

/// Writes the condition as an expression. Reading it results in the same condition, if it is valid.
impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::print(self, f)
    }
}
