//! Recipients in chats: the ids with which Messenger and the chat app name them.

use std::fmt::{self, Display, Formatter};

/// Most digits of a chat id: chat ids have at most 52 bits, and a group has `-100` before its number.
const CHAT_DIGITS_MAX: usize = 19;
/// Most digits of a page-scoped id, which has 64 bits.
const PERSON_DIGITS_MAX: usize = 20;
/// The largest id of a topic. Ids of topics are ids of messages, which every group counts from 1.
const TOPIC_MAX: i32 = 999_999_999;
/// The topic of a group in which messages without a topic appear.
const GENERAL_TOPIC: i32 = 1;
/// What the number of a group begins with; the links to its messages leave it out.
const GROUP_PREFIX: &str = "-100";
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
/// or the name of a public chat in lower case. For a topic of a group, `/` and the id of the topic follow.
///
/// # Errors
/// When the text is neither.
///
/// ```
/// use notify_core::chat_id;
///
/// assert_eq!(chat_id(" -1001234 ").unwrap(), "-1001234");
/// assert_eq!(chat_id("@Shop_News").unwrap(), "@shop_news");
/// assert_eq!(chat_id("-1001234/42").unwrap(), "-1001234/42");
/// assert!(chat_id("12 34").is_err());
/// ```
pub fn chat_id(text: &str) -> Result<String, UnknownRecipient> {
    let text = text.trim();
    spelling_of(text).ok_or_else(|| UnknownRecipient {
        rule: "must be the id of a chat, which is an integer, or the @name of a public chat; a topic of a \
               group is written as `-1001234567890/42`",
        meant: meant_chat(text),
    })
}

fn spelling_of(text: &str) -> Option<String> {
    match text.split_once('/') {
        None => whole_chat(text),
        // Only a group has topics: a negative number, or a name.
        Some((chat, topic)) if chat.starts_with(['-', '@']) => {
            Some(chat_with_topic(whole_chat(chat)?, topic_id(topic)?))
        }
        Some(_) => None,
    }
}

/// The chat of a recipient as [`chat_id`] spells it, and its topic if it has one.
#[must_use]
pub fn split_topic(recipient: &str) -> (&str, Option<i32>) {
    let parts = recipient.split_once('/');
    parts
        .and_then(|(chat, topic)| Some((chat, Some(topic_id(topic)?))))
        .unwrap_or((recipient, None))
}

/// A topic of a chat as a recipient.
#[must_use]
pub fn chat_with_topic(chat: String, topic: i32) -> String {
    // Messages name the general topic of a group by no id.
    if topic == GENERAL_TOPIC { chat } else { format!("{chat}/{topic}") }
}

fn topic_id(text: &str) -> Option<i32> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|id| is_number && (1..=TOPIC_MAX).contains(id))
}

/// The id of a chat without a topic.
fn whole_chat(text: &str) -> Option<String> {
    if let Some(name) = text.strip_prefix('@') {
        is_chat_name(name).then(|| text.to_ascii_lowercase())
    } else if let Some(digits) = text.strip_prefix('-') {
        number(digits, CHAT_DIGITS_MAX).map(|id| format!("-{id}"))
    } else {
        number(text.strip_prefix('+').unwrap_or(text), CHAT_DIGITS_MAX)
    }
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
    let rest = CHAT_URLS.iter().find_map(|url| text.strip_prefix(url)).unwrap_or(text);
    let rest = rest.trim_end_matches('/');
    // A link to a private group, such as `t.me/c/1234567890/42`.
    let chat = match rest.strip_prefix("c/") {
        Some(number) => format!("{GROUP_PREFIX}{number}"),
        None => format!("@{rest}"),
    };
    spelling_of(&chat)
}

// Regular expressions (ECMA-262) of recipients in schemas.

/// The id of a chat of the chat app, without its sign.
#[cfg(feature = "openapi")]
const CHAT_NUMBER: &str = "0*[1-9][0-9]{0,18}";
/// What may follow the number of a recipient: the text that selects the sandbox's answer.
#[cfg(feature = "openapi")]
const SCRIPT: &str = "(?:~[A-Za-z0-9:_~-]*|-[A-Za-z][A-Za-z0-9:_~-]*)?";

/// A page-scoped id of Messenger.
#[cfg(feature = "openapi")]
pub(super) fn person_pattern() -> String {
    format!(r"^\s*0*[1-9][0-9]{{0,19}}{SCRIPT}\s*$")
}

/// A chat of the chat app, or a topic of a group.
#[cfg(feature = "openapi")]
pub(super) fn chat_pattern() -> String {
    let name = "@[A-Za-z][A-Za-z0-9_]{3,31}";
    let topic = "(?:/0*[1-9][0-9]{0,8})?";
    format!(r"^\s*(?:\+?{CHAT_NUMBER}{SCRIPT}|(?:-{CHAT_NUMBER}{SCRIPT}|{name}){topic})\s*$")
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
            ("-1001234567890/42", "-1001234567890/42"),
            (" @Shop_News/007 ", "@shop_news/7"),
            ("-77~429x2/3", "-77~429x2/3"),
            ("-1001234/1", "-1001234"),
            ("-1001234/999999999", "-1001234/999999999"),
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
            ("-1001/", None),
            ("-1001/0", None),
            ("-1001/4 2", None),
            ("-1001/4/2", None),
            ("-1001/+4", None),
            ("-1001/1000000000", None),
            ("12/31", None),
            ("/42", None),
            ("https://t.me/c/1234567890/42", Some("-1001234567890/42")),
            ("t.me/Shop/42", Some("@shop/42")),
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
