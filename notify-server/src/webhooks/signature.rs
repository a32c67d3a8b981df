//! Signatures of Standard Webhooks 1.0.0: what was sent, when, and under which id.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

/// The header `webhook-signature`: one for each secret, the newest first.
pub(super) fn header<'s>(
    secrets: impl IntoIterator<Item = &'s [u8]>,
    (id, seconds): (&str, i64),
    body: &[u8],
) -> String {
    let signatures: Vec<String> =
        secrets.into_iter().map(|secret| v1(secret, (id, seconds), body)).collect();
    signatures.join(" ")
}

fn v1(secret: &[u8], (id, seconds): (&str, i64), body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut signing = hmac::Context::with_key(&key);
    signing.update(format!("{id}.{seconds}.").as_bytes());
    signing.update(body);
    format!("v1,{}", BASE64.encode(signing.sign()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_vector_is_signed() {
        let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let body = br#"{"test": 2432232314}"#;
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(header([secret.as_slice()], (id, 1_614_265_330), body), expected);
        let both = header([secret.as_slice(), b"before"], (id, 1_614_265_330), body);
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, expected);
        assert!(second.starts_with("v1,") && second != expected);
    }
}
