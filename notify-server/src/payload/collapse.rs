//! The stable collapse identity of a message: a repeat after a crash replaces the first message
//! on the device instead of being shown twice.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::RenderContext;

/// Longest `apns-collapse-id`, in bytes (Apple, "Sending notification requests to APNs").
pub(super) const APNS_COLLAPSE_ID_BYTES_MAX: usize = 64;

/// Longest `Topic` of a push message, in bytes (RFC 8030 §5.4).
const TOPIC_BYTES_MAX: usize = 32;

/// The caller's `collapse_key`, else the notification's id.
pub(super) fn identity<'a>(message: &RenderContext<'a>) -> &'a str {
    message.collapse_key.unwrap_or_else(|| message.id.as_str())
}

/// The identity as a header value: unchanged if it fits and is visible ASCII, otherwise its hash.
pub(super) fn fit(identity: &str, bytes_max: usize) -> Cow<'_, str> {
    let fits = identity.len() <= bytes_max && identity.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { Cow::Borrowed(identity) } else { Cow::Owned(hashed(identity, bytes_max)) }
}

/// The identity as a `Topic`: unchanged if it fits and is valid base64url, which a
/// push service may require, otherwise its hash.
pub(super) fn topic(identity: &str) -> Cow<'_, str> {
    let fits =
        (1..=TOPIC_BYTES_MAX).contains(&identity.len()) && URL_SAFE_NO_PAD.decode(identity).is_ok();
    if fits { Cow::Borrowed(identity) } else { Cow::Owned(hashed(identity, TOPIC_BYTES_MAX)) }
}

/// The beginning of a hash, in base64url.
fn hashed(identity: &str, bytes_max: usize) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, identity.as_bytes());
    let mut text = URL_SAFE_NO_PAD.encode(hash.as_ref());
    text.truncate(bytes_max);
    text
}

#[cfg(test)]
mod tests {
    use super::{fit, topic};

    #[test]
    fn collapse_identity_is_kept_if_it_fits_else_hashed() {
        assert_eq!(fit("order-17", 64), "order-17");
        let long = "x".repeat(65);
        let unicode = "bestellung-ä";
        for identity in [long.as_str(), unicode, "with space"] {
            let hashed = fit(identity, 64);
            assert_eq!(hashed.len(), 43, "{identity}");
            assert!(hashed.bytes().all(|byte| byte.is_ascii_graphic()));
            assert_eq!(fit(identity, 64), hashed, "the same identity, the same hash");
        }
        assert_ne!(fit(&long, 64), fit(unicode, 64));
        assert_eq!(fit(&long, 32).len(), 32);
    }

    #[test]
    fn topic_is_at_most_32_base64url_characters() {
        let long = "k".repeat(33);
        let uuid = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(topic("order-17"), "order-17");
        assert_eq!(topic(&long[1..]), long[1..]);
        for identity in [long.as_str(), uuid, "a.b1", "a b1", "ä12", "new_event", "abk=", ""] {
            let hashed = topic(identity);
            assert_eq!(hashed.len(), 32, "{identity}");
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            assert!(hashed.bytes().all(allowed), "{hashed}");
            assert_eq!(topic(identity), hashed, "the same identity, the same topic");
        }
        assert_ne!(topic(uuid), topic(&long));
    }
}
