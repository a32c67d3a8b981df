//! The id of a request, on its answer and in the log (B3). One that comes in is taken over only
//! when it can do no harm in a log.

use http::{HeaderMap, HeaderValue, header};
use uuid::Uuid;

/// `X-Request-Id`.
pub(super) const HEADER: header::HeaderName = header::HeaderName::from_static("x-request-id");
/// Longest id that is taken over, in characters.
const TAKEN_OVER_CHARS_MAX: usize = 64;

/// The id of one request.
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The caller's, when it is short and harmless, else a new one.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).filter(|value| is_harmless(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            let id = Uuid::now_v7().hyphenated().to_string();
            id.try_into().expect("a UUID is visible ASCII")
        }))
    }

    pub(super) fn as_str(&self) -> &str {
        self.0.to_str().unwrap_or_default()
    }

    pub(super) fn into_value(self) -> HeaderValue {
        self.0
    }
}

fn is_harmless(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=TAKEN_OVER_CHARS_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_short_and_plain_ids_are_taken_over() {
        let long = "a".repeat(65);
        let cases =
            [("abc-1_2.3", true), ("", false), ("a b", false), ("a\u{9}", false), (&long, false)];
        for (given, taken) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_str(given).unwrap());
            assert_eq!(RequestId::of(&headers).as_str() == given, taken, "{given}");
        }
    }
}
