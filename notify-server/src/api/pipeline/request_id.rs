//! The id of a request, which the response and the log contain.

use std::fmt;

use http::{HeaderMap, HeaderValue, header};
use uuid::Uuid;

/// `X-Request-Id`.
pub(super) const HEADER: header::HeaderName = header::HeaderName::from_static("x-request-id");
/// Longest id that is accepted from a client, in characters.
const CLIENT_ID_CHARS_MAX: usize = 64;

/// The id of one request.
pub(super) struct RequestId(HeaderValue);

impl RequestId {
    /// The client's id if it is short and safe to log, otherwise a new one.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let given = headers.get(HEADER).filter(|value| is_safe(value.as_bytes()));
        Self(given.cloned().unwrap_or_else(|| {
            let id = Uuid::now_v7().hyphenated().to_string();
            id.try_into().expect("a UUID is visible ASCII")
        }))
    }

    pub(super) fn into_value(self) -> HeaderValue {
        self.0
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0.to_str().unwrap_or_default())
    }
}

fn is_safe(id: &[u8]) -> bool {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=CLIENT_ID_CHARS_MAX).contains(&id.len()) && id.iter().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_only_short_and_plain_ids_from_clients() {
        let long = "a".repeat(65);
        let cases =
            [("abc-1_2.3", true), ("", false), ("a b", false), ("a\u{9}", false), (&long, false)];
        for (given, taken) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(HEADER, HeaderValue::from_str(given).unwrap());
            assert_eq!(RequestId::from_headers(&headers).to_string() == given, taken, "{given}");
        }
    }
}
