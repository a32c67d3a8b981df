//! Push tokens of phones: the spelling in which they are stored, compared and sent, and the texts that
//! cannot be a token of their provider.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD_NO_PAD, BASE64_URL_SAFE_NO_PAD};

use super::{DevicePlatform, chat_id, person_id};
use crate::Platform;

/// Most hexadecimal digits of an APNs token. Apple does not fix the length; today's tokens have 64.
const APNS_TOKEN_DIGITS_MAX: usize = 512;
/// Bytes of today's APNs tokens, by which one in base64 is recognised.
const APNS_TOKEN_BYTES: usize = 32;
/// Fewest characters with which a text with a colon is taken for an FCM token.
const FCM_TOKEN_CHARS_MIN: usize = 100;
/// Lengths of the parts of a UUID.
const UUID_PARTS: [usize; 5] = [8, 4, 4, 4, 12];

/// Texts that programs write in place of a missing token.
const PLACEHOLDERS: [&str; 7] = ["null", "(null)", "nil", "<nil>", "none", "undefined", "nan"];

/// Whether a text stands for a missing address, as programs write it: an empty text, or for example
/// `null`.
#[must_use]
pub fn is_missing_address(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || PLACEHOLDERS.iter().any(|known| text.eq_ignore_ascii_case(known))
}

/// The token in the spelling in which it is stored, compared and sent; `None` if nothing is left.
/// White space around it is removed. On iOS, hexadecimal digits are kept in lower case, without the
/// brackets, blanks and hyphens with which older apps print the token. Any other text stays as it is.
#[must_use]
pub fn canonical_push_token(platform: DevicePlatform, text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    let apns = match platform {
        DevicePlatform::Android => None,
        DevicePlatform::Ios => apns_token(text),
    };
    Some(apns.unwrap_or_else(|| text.to_owned()))
}

/// An address in the spelling in which it is stored on a platform; `None` if nothing is left.
#[must_use]
pub fn canonical_address(platform: Platform, text: &str) -> Option<String> {
    let canonical = match platform {
        Platform::Android => return canonical_push_token(DevicePlatform::Android, text),
        Platform::Ios => return canonical_push_token(DevicePlatform::Ios, text),
        Platform::Web => None,
        Platform::FbMessenger => person_id(text).ok(),
        Platform::ChatApp => chat_id(text).ok(),
    };
    let text = text.trim();
    canonical.or_else(|| (!text.is_empty()).then(|| text.to_owned()))
}

/// The APNs token in a text; `None` if the text contains something else.
fn apns_token(text: &str) -> Option<String> {
    if is_uuid(text) {
        return None;
    }
    let digits = match text.strip_prefix('{') {
        // `{length = 32, bytes = 0x0123abcd … }`
        Some(printed) => {
            let (length, bytes) = printed.strip_suffix('}')?.split_once(", bytes = 0x")?;
            let length: usize = length.trim().strip_prefix("length = ")?.parse().ok()?;
            let digits: String = bytes.split_whitespace().collect();
            (digits.len() == length.checked_mul(2)?).then_some(digits)?
        }
        None => {
            let is_ignored =
                |letter: char| matches!(letter, '<' | '>' | '-') || letter.is_whitespace();
            text.chars().filter(|letter| !is_ignored(*letter)).collect()
        }
    };
    is_apns_token(&digits).then(|| digits.to_ascii_lowercase())
}

/// Whether a text is hexadecimal and has the length of whole bytes.
fn is_apns_token(text: &str) -> bool {
    is_hexadecimal(text) && text.len().is_multiple_of(2) && text.len() <= APNS_TOKEN_DIGITS_MAX
}

fn is_hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn is_uuid(text: &str) -> bool {
    let mut parts = text.split('-');
    UUID_PARTS.iter().all(|length| {
        parts.next().is_some_and(|part| part.len() == *length && is_hexadecimal(part))
    }) && parts.next().is_none()
}

/// Why an address cannot be a token of the provider of its platform. Nothing is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenProblem {
    /// The address of an iOS device is no APNs token; the text says what it looks like.
    NotApns(&'static str),
    /// The address of an Android device is no FCM token; the text says what it looks like.
    NotFcm(&'static str),
}

impl TokenProblem {
    /// Examines an address in its stored spelling. For Android, only texts that are certainly something
    /// else are a problem, because the form of an FCM token is not documented.
    #[must_use]
    pub fn of(platform: Platform, address: &str) -> Option<Self> {
        match platform {
            Platform::Ios if is_apns_token(address) => None,
            Platform::Ios => {
                let seen = foreign(address).or_else(|| looks_like_fcm(address));
                Some(Self::NotApns(seen.unwrap_or_else(|| damaged_apns(address))))
            }
            Platform::Android => foreign(address).map(Self::NotFcm),
            Platform::Web | Platform::FbMessenger | Platform::ChatApp => None,
        }
    }

    /// What the address looks like, such as `an FCM registration token`.
    #[must_use]
    pub fn looks_like(self) -> &'static str {
        match self {
            Self::NotApns(seen) | Self::NotFcm(seen) => seen,
        }
    }
}

impl std::fmt::Display for TokenProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let token = match self {
            Self::NotApns(_) => "an APNs device token",
            Self::NotFcm(_) => "an FCM registration token",
        };
        write!(f, "is not {token}: it looks like {}", self.looks_like())
    }
}

/// What a text is that is a token of neither provider.
fn foreign(text: &str) -> Option<&'static str> {
    if is_missing_address(text) {
        return Some("a placeholder for a missing token");
    }
    if text.starts_with("ExponentPushToken[") || text.starts_with("ExpoPushToken[") {
        return Some("an Expo push token");
    }
    if text.starts_with("https://") || text.starts_with("http://") {
        return Some("a url, such as the endpoint of a browser");
    }
    if text.starts_with(['{', '[', '(', '<']) || text.starts_with("Optional(") {
        return Some("a printed object");
    }
    if text.contains(char::is_whitespace) {
        return Some("a text with blanks");
    }
    None
}

fn looks_like_fcm(text: &str) -> Option<&'static str> {
    let has_form = text.contains(":APA91")
        || text.starts_with("APA91")
        || (text.contains(':') && text.len() >= FCM_TOKEN_CHARS_MIN);
    has_form.then_some("an FCM registration token")
}

/// What a text is that is neither an APNs token nor known to be something else.
fn damaged_apns(text: &str) -> &'static str {
    if is_hexadecimal(text) {
        return "a token that was cut off or joined to another";
    }
    if is_uuid(text) {
        return "a UUID";
    }
    let unpadded = text.trim_end_matches('=');
    let decoded = BASE64_STANDARD_NO_PAD
        .decode(unpadded)
        .or_else(|_| BASE64_URL_SAFE_NO_PAD.decode(unpadded));
    if decoded.is_ok_and(|bytes| bytes.len() == APNS_TOKEN_BYTES) {
        return "a token in base64 instead of hexadecimal digits";
    }
    "a text that is not hexadecimal"
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12ab12";
    const FCM: &str = "dQw4w9WgXcQ:APA91bHun4MxP5egoKMwt2KZFBaFUH-1RYqx";

    #[test]
    fn the_spellings_of_an_apns_token_are_one() {
        let groups = |separator: &str| {
            let parts: Vec<&str> = (0..8).map(|at| &HEX[at * 8..at * 8 + 8]).collect();
            parts.join(separator)
        };
        for text in [
            HEX.to_owned(),
            HEX.to_uppercase(),
            format!(" {HEX}\n"),
            format!("\t{}\r\n", HEX.to_uppercase()),
            format!("<{}>", groups(" ")),
            format!(" < {} > ", groups("  ")),
            groups("-"),
            groups("\u{a0}"),
            format!("{{length = 32, bytes = 0x{}}}", groups(" ")),
            format!("{{length = 32, bytes = 0x{} }}", groups(" ").to_uppercase()),
        ] {
            let token = canonical_push_token(DevicePlatform::Ios, &text);
            assert_eq!(token.as_deref(), Some(HEX), "{text:?}");
            assert_eq!(TokenProblem::of(Platform::Ios, HEX), None);
        }
    }

    #[test]
    fn other_texts_are_kept_without_white_space_around_them() {
        for (platform, text, kept) in [
            (DevicePlatform::Ios, FCM, Some(FCM)),
            (DevicePlatform::Ios, " (null) ", Some("(null)")),
            (DevicePlatform::Ios, "My-Token", Some("My-Token")),
            (DevicePlatform::Ios, " \n", None),
            (DevicePlatform::Ios, "", None),
            (DevicePlatform::Android, " \u{a0}", None),
            (DevicePlatform::Android, &format!(" {FCM}\n"), Some(FCM)),
            (DevicePlatform::Android, "AB12", Some("AB12")),
            (DevicePlatform::Android, "<ab12 ab12>", Some("<ab12 ab12>")),
        ] {
            assert_eq!(canonical_push_token(platform, text).as_deref(), kept, "{text:?}");
        }
    }

    #[test]
    fn texts_that_are_not_tokens_are_recognised() {
        let long_fcm = format!("f:{}", "x".repeat(FCM_TOKEN_CHARS_MIN));
        for (text, seen) in [
            (FCM, "an FCM registration token"),
            (&long_fcm, "an FCM registration token"),
            ("APA91bHun4MxP5egoKMwt2KZFBaFUH", "an FCM registration token"),
            ("{length = 32, bytes = 0xab12ab12 ... ab12ab12 }", "a printed object"),
            ("{length = 32, bytes = 0xab12ab12 ab12ab12 }", "a printed object"),
            ("[171, 18, 171, 18]", "a printed object"),
            ("[object Object]", "a printed object"),
            ("Optional(\"ab12\")", "a printed object"),
            ("ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]", "an Expo push token"),
            ("https://fcm.googleapis.com/fcm/send/x", "a url, such as the endpoint of a browser"),
            ("(null)", "a placeholder for a missing token"),
            ("Undefined", "a placeholder for a missing token"),
            ("32 bytes", "a text with blanks"),
            (&HEX[1..], "a token that was cut off or joined to another"),
            (&HEX.repeat(9), "a token that was cut off or joined to another"),
            ("5d30b2f3-2f5b-4d5c-8f6e-6b1f8e1f2a3b", "a UUID"),
            (
                "qxKrEqsSqxKrEqsSqxKrEqsSqxKrEqsSqxKrEqsSqxI=",
                "a token in base64 instead of hexadecimal digits",
            ),
            ("my-token", "a text that is not hexadecimal"),
        ] {
            let stored = canonical_push_token(DevicePlatform::Ios, text).unwrap();
            let problem = TokenProblem::of(Platform::Ios, &stored);
            assert_eq!(problem, Some(TokenProblem::NotApns(seen)), "{text}");
        }
    }

    #[test]
    fn on_android_only_what_is_certainly_no_token_is_a_problem() {
        for text in [FCM, HEX, "my-token", "my-token-503x2", "a:b"] {
            assert_eq!(TokenProblem::of(Platform::Android, text), None, "{text}");
        }
        for text in ["null", "ExponentPushToken[x]", "{\"token\":\"x\"}", "https://e.org", "a b"] {
            let problem = TokenProblem::of(Platform::Android, text);
            assert!(matches!(problem, Some(TokenProblem::NotFcm(_))), "{text}");
        }
    }
}
