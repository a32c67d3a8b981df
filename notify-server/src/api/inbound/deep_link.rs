//! Device ids in deep links: `ref` of an m.me link, the payload of a bot's `/start`.

use notify_core::DeviceId;

/// Fewest characters of an id in a link: 128 bits in base64url. A shorter one could be guessed, and
/// the first person who sends it becomes the device for which the application made the link.
const CHARS_MIN: usize = 22;
/// Most characters of an id in a link (Telegram, deep linking).
const CHARS_MAX: usize = 64;

/// The device id in the payload of a link, if it is one. The store checks that it is not in use.
pub(super) fn device_id(payload: &str) -> Option<DeviceId> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_id = (CHARS_MIN..=CHARS_MAX).contains(&payload.len()) && payload.bytes().all(allowed);
    if is_id { DeviceId::new(payload).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignores_ids_that_can_be_guessed() {
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
