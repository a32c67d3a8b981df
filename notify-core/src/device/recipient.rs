//! Recipients in chats: the ids with which Messenger and the chat app name them.

use std::fmt::{self, Display, Formatter};

/// Most digits of a chat id: chat ids have at most 52 bits, and a group has `-100` before its number.
const CHAT_DIGITS_MAX: usize = 19;
/// Most digits of a page-scoped id, which has 64 bits.
const PERSON_DIGITS_MAX: usize = 20;
/// Lengths of the names of public chats, without the `@`.
const NAME_CHARS: std::ops::RangeInclusive<usize> = 4..=32;
/// Addresses of public chats.
const CHAT_URLS: [&str; 2] = ["t.me/", "telegram.me/"];

/// A text that names no recipient. The message says what the text should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownRecipient {
    rule: &'static str,
    /// What the caller may have meant.
    meant: Option<String>,
}

impl Display for UnknownRecipient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.rule)?;
        match &self.meant {
            Some(meant) => write!(f, ", did you mean `{meant}`?"),
            None => Ok(()),
        }
    }
}

/// The id of a person on Messenger in the spelling in which it is stored, compared and sent.
///
/// # Errors
/// When the text is not a page-scoped id.
pub fn person_id(text: &str) -> Result<String, UnknownRecipient> {
    number(text.trim(), PERSON_DIGITS_MAX).ok_or(UnknownRecipient {
        rule: "must be a page-scoped id, which is a number",
        meant: None,
    })
}

/// The id of a chat of the chat app in the spelling in which it is stored, compared and sent: an integer,
/// or the name of a public chat in lower case.
///
/// # Errors
/// When the text is neither.
///
/// ```
/// use notify_core::chat_id;
///
/// assert_eq!(chat_id(" -1001234 ").unwrap(), "-1001234");
/// assert_eq!(chat_id("@Shop_News").unwrap(), "@shop_news");
/// assert!(chat_id("12 34").is_err());
/// ```
pub fn chat_id(text: &str) -> Result<String, UnknownRecipient> {
    let text = text.trim();
    if let Some(name) = text.strip_prefix('@') {
        if is_chat_name(name) {
            return Ok(text.to_ascii_lowercase());
        }
    } else if let Some(digits) = text.strip_prefix('-') {
        if let Some(id) = number(digits, CHAT_DIGITS_MAX) {
            return Ok(format!("-{id}"));
        }
    } else if let Some(id) = number(text.strip_prefix('+').unwrap_or(text), CHAT_DIGITS_MAX) {
        return Ok(id);
    }
    Err(UnknownRecipient {
        rule: "must be the id of a chat, which is an integer, or the @name of a public chat",
        meant: meant_chat(text),
    })
}

/// The number at the start of a text without leading zeros, and what the sandbox reads behind it: a text
/// that selects its response. Behind a `-` it begins with a letter, since people write numbers with dashes.
fn number(text: &str, digits_max: usize) -> Option<String> {
    let text = text.trim_start_matches('0');
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let script = &text[end..];
    let is_script =
        |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '~' | ':' | '_');
    let begins_script = script.starts_with('~')
        || script.strip_prefix('-').is_some_and(|word| word.starts_with(char::is_alphabetic));
    let has_form = script.is_empty() || (begins_script && script.chars().all(is_script));
    ((1..=digits_max).contains(&end) && has_form).then(|| text.to_owned())
}

fn is_chat_name(name: &str) -> bool {
    NAME_CHARS.contains(&name.len())
        && name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The chat that a url or a bare name stands for.
fn meant_chat(text: &str) -> Option<String> {
    let text =
        text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or(text);
    let name = CHAT_URLS.iter().find_map(|url| text.strip_prefix(url)).unwrap_or(text);
    let name = name.trim_end_matches('/');
    is_chat_name(name).then(|| format!("@{}", name.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chat_is_an_integer_or_the_name_of_a_public_chat() {
        for (text, id) in [
            ("42", "42"),
            (" 42\n", "42"),
            ("+42", "42"),
            ("0042", "42"),
            ("-42", "-42"),
            ("-1001234567890", "-1001234567890"),
            ("4711-blocked", "4711-blocked"),
            ("-77~429x2", "-77~429x2"),
            ("4711~429", "4711~429"),
            ("@News", "@news"),
            ("@Shop_News_2", "@shop_news_2"),
        ] {
            assert_eq!(chat_id(text).as_deref(), Ok(id), "{text}");
        }
        for (text, meant) in [
            ("12 34", None),
            ("12-34", None),
            ("660-123-4567", None),
            ("-77-429", None),
            ("0", None),
            ("-", None),
            ("--1", None),
            ("1.5", None),
            ("1e3", None),
            ("@a b", None),
            ("@", None),
            ("@1news", None),
            ("12345678901234567890", None),
            ("12\u{200b}", None),
            ("https://t.me/+AbCdEf", None),
            ("https://example.org/x", None),
            ("https://t.me/Shop", Some("@shop")),
            ("t.me/shop/", Some("@shop")),
            ("shop", Some("@shop")),
        ] {
            let error = chat_id(text).expect_err(text);
            assert_eq!(error.meant.as_deref(), meant, "{text}");
            assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn a_person_is_a_number() {
        for (text, id) in [
            ("12345678901234567890", "12345678901234567890"),
            (" 7 ", "7"),
            ("7~10", "7~10"),
            ("7-outside", "7-outside"),
        ] {
            assert_eq!(person_id(text).as_deref(), Ok(id), "{text}");
        }
        for text in ["12 34", "-1", "+1", "@name", "0", "m.me/shop", "https://m.me/shop"] {
            assert!(person_id(text).is_err(), "{text}");
        }
    }
}
