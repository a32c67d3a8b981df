//! What people bring along in a link: `ref` of an m.me link, the payload of a bot's `/start`.

use notify_core::DeviceId;

/// Fewest characters of an id that a link brings: 128 bits in base64url. A shorter one can be
/// guessed, and whoever guesses it first would be the device that the caller means by it.
const CHARS_MIN: usize = 22;
/// Most characters of one (Telegram, deep linking).
const CHARS_MAX: usize = 64;

/// The device id that a link brought, if it is one. Whether it is free is the store's to see.
pub(super) fn device_id(text: &str) -> Option<DeviceId> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_id = (CHARS_MIN..=CHARS_MAX).contains(&text.len()) && text.bytes().all(allowed);
    if is_id { DeviceId::new(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_can_be_guessed_is_none() {
        for (text, expected) in [
            ("0190a7c0-0000-7000-8000-00000000ffff", true),
            ("n1fQFbYcbTUuBk7u3xC4_A", true),
            (&"a".repeat(64), true),
            (&"a".repeat(65), false),
            (&"a".repeat(21), false),
            ("user-1042", false),
            ("", false),
            ("0190a7c0.0000.7000.8000.00000000ffff", false),
            ("ünbekannt-ünbekannt-ünbekannt", false),
        ] {
            assert_eq!(device_id(text).is_some(), expected, "{text}");
        }
    }
}
