//! Texts with names and values, such as the tags of OneSignal.

use std::iter::Peekable;
use std::str::Chars;

/// The error for a text in no known form.
pub(super) const NO_PAIRS: &str = "must be a JSON object, such as {\"level\": \"3\"}";

/// The names and values of a text: a JSON object, a dictionary of Python (`{'level': '3'}`), or an hstore of
/// PostgreSQL (`"level"=>"3"`). Names whose value is null are absent.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, String)>, &'static str> {
    if let Ok(serde_json::Value::Object(members)) = serde_json::from_str(text) {
        let text = |value: &serde_json::Value| match value {
            serde_json::Value::String(text) => Some(Some(text.clone())),
            serde_json::Value::Null => Some(None),
            serde_json::Value::Number(_) | serde_json::Value::Bool(_) => {
                Some(Some(value.to_string()))
            }
            serde_json::Value::Array(_) | serde_json::Value::Object(_) => None,
        };
        let pairs = members.iter().map(|(name, value)| Some((name.clone(), text(value)?)));
        let pairs: Vec<_> = pairs.collect::<Option<_>>().ok_or("the values must be texts")?;
        return Ok(pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect());
    }
    let text = text.trim();
    let text = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')).unwrap_or(text);
    let mut letters = text.chars().peekable();
    let mut pairs = Vec::new();
    loop {
        skip_spaces(&mut letters);
        if letters.peek().is_none() {
            return Ok(pairs);
        }
        let name = token(&mut letters)?;
        skip_spaces(&mut letters);
        match (letters.next(), letters.peek()) {
            (Some(':'), _) => {}
            (Some('='), Some('>')) => {
                letters.next();
            }
            _ => return Err(NO_PAIRS),
        }
        skip_spaces(&mut letters);
        let is_quoted = letters.peek().is_some_and(|letter| matches!(letter, '"' | '\''));
        let value = token(&mut letters)?;
        if is_quoted || !matches!(&*value, "None" | "NULL" | "null" | "nil") {
            pairs.push((name, value));
        }
        skip_spaces(&mut letters);
        match letters.next() {
            None | Some(',') => {}
            Some(_) => return Err(NO_PAIRS),
        }
    }
}

fn skip_spaces(letters: &mut Peekable<Chars<'_>>) {
    while letters.next_if(|letter| letter.is_whitespace()).is_some() {}
}

/// A name or a value: in quotes, in which a backslash escapes, or a word.
fn token(letters: &mut Peekable<Chars<'_>>) -> Result<String, &'static str> {
    let mut token = String::new();
    if let Some(quote) = letters.next_if(|letter| matches!(letter, '"' | '\'')) {
        loop {
            match letters.next().ok_or(NO_PAIRS)? {
                '\\' => token.push(letters.next().ok_or(NO_PAIRS)?),
                letter if letter == quote => return Ok(token),
                letter => token.push(letter),
            }
        }
    }
    let is_of_word =
        |letter: &char| !matches!(letter, ',' | ':' | '=' | '{' | '}') && !letter.is_whitespace();
    while let Some(letter) = letters.next_if(is_of_word) {
        token.push(letter);
    }
    if token.is_empty() { Err(NO_PAIRS) } else { Ok(token) }
}
