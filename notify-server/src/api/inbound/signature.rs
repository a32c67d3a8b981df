//! Verifies secrets and signatures in constant time, so that response times do not reveal a secret
//! piece by piece.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use secrecy::{ExposeSecret, SecretString};

use crate::keys::sha256;

/// Prefix of `X-Hub-Signature-256`.
const HMAC_PREFIX: &str = "sha256=";
/// Bytes of an HMAC-SHA256.
const HMAC_BYTES: usize = 32;

/// Whether a text is the secret. Digests are compared, which also hides the secret's length.
/// Without a secret the result is `false`, after the same work.
pub(super) fn matches_secret(given: &[u8], secret: Option<&SecretString>) -> bool {
    let expected = sha256(secret.map_or("", ExposeSecret::expose_secret).as_bytes());
    let is_equal = verify_slices_are_equal(&sha256(given), &expected).is_ok();
    is_equal && secret.is_some()
}

/// Whether a text has the form `sha256=<hex>`.
pub(super) fn is_well_formed(signature: &[u8]) -> bool {
    decode(signature).is_some()
}

/// Whether `sha256=<hex>` is the HMAC-SHA256 of a body.
pub(super) fn is_valid(body: &[u8], signature: &[u8], secret: &SecretString) -> bool {
    let Some(tag) = decode(signature) else { return false };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
    hmac::verify(&key, body, &tag).is_ok()
}

/// The HMAC in `sha256=<hex>`.
fn decode(signature: &[u8]) -> Option<[u8; HMAC_BYTES]> {
    signature.strip_prefix(HMAC_PREFIX.as_bytes()).and_then(hmac_bytes)
}

fn hmac_bytes(hex: &[u8]) -> Option<[u8; HMAC_BYTES]> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, []) = hex.as_chunks::<2>() else { return None };
    let mut bytes = [0; HMAC_BYTES];
    if pairs.len() != HMAC_BYTES {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231 section 4.3, test case 2.
    const BODY: &[u8] = b"what do ya want for nothing?";
    const HEX: &str = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";

    #[test]
    fn verifies_the_hmac_of_the_whole_body() {
        let secret = SecretString::from("Jefe");
        let cases = [
            (format!("sha256={HEX}"), true),
            (format!("sha256={}", HEX.to_uppercase()), true),
            (format!("sha256={}4", &HEX[..63]), false),
            (format!("sha256={}", &HEX[..62]), false),
            (format!("sha256={HEX}00"), false),
            (format!("sha256={HEX}0"), false),
            (format!("sha256=+{}", &HEX[1..]), false),
            (format!("sha1={HEX}"), false),
            (HEX.to_owned(), false),
            ("sha256=".to_owned(), false),
            (String::new(), false),
        ];
        for (signature, expected) in cases {
            assert_eq!(is_valid(BODY, signature.as_bytes(), &secret), expected, "{signature}");
        }
        let signature = format!("sha256={HEX}");
        assert!(!is_valid(&BODY[1..], signature.as_bytes(), &secret), "another body");
        assert!(!is_valid(BODY, signature.as_bytes(), &"jefe".into()), "another secret");
    }

    #[test]
    fn a_secret_must_match_completely() {
        let secret = SecretString::from("planted-secret");
        for (given, expected) in [
            ("planted-secret", true),
            ("planted-secre", false),
            ("planted-secret ", false),
            ("Planted-secret", false),
            ("", false),
        ] {
            assert_eq!(matches_secret(given.as_bytes(), Some(&secret)), expected, "{given}");
            assert!(!matches_secret(given.as_bytes(), None), "{given}");
        }
    }
}
