//! Signatures of Standard Webhooks 1.0.0, over id, time and body.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notify_core::{AppId, WebhookId};
use zeroize::Zeroizing;

use crate::secrets::{MasterKey, SecretError};
use crate::store::SealedSecret;

/// The header `webhook-signature`: one for each secret, the newest first.
pub(super) fn header<'s>(
    secrets: impl IntoIterator<Item = &'s [u8]>,
    id: &str,
    seconds: i64,
    body: &[u8],
) -> String {
    let signatures: Vec<String> =
        secrets.into_iter().map(|secret| v1(secret, id, seconds, body)).collect();
    signatures.join(" ")
}

fn v1(secret: &[u8], id: &str, seconds: i64, body: &[u8]) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let mut signing = hmac::Context::with_key(&key);
    signing.update(format!("{id}.{seconds}.").as_bytes());
    signing.update(body);
    format!("v1,{}", BASE64.encode(signing.sign()))
}

// Secrets of webhooks: generated here, sealed with the master key, shown once.

/// Prefix of every secret (Standard Webhooks 1.0.0).
const PREFIX: &str = "whsec_";
/// Random bytes of a secret; the scheme asks for 24 to 64.
const SECRET_BYTES: usize = 32;

/// Generates and seals a secret for a webhook.
pub(crate) fn make_secret(key: &MasterKey, app: AppId, id: WebhookId) -> SealedSecret {
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    aws_lc_rs::rand::fill(secret.as_mut_slice()).expect("the operating system gives random bytes");
    SealedSecret { id, sealed: key.seal_webhook(app, id, secret.as_slice()) }
}

/// The secret in the form that the webhook's owner sees.
pub(crate) fn open_secret(
    key: &MasterKey,
    app: AppId,
    secret: &SealedSecret,
) -> Result<String, SecretError> {
    let bytes = key.open_webhook(app, secret.id, &secret.sealed)?;
    Ok(format!("{PREFIX}{}", BASE64.encode(bytes.as_slice())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signature_matches_the_published_vector() {
        let secret = BASE64.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap();
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let body = br#"{"test": 2432232314}"#;
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(header([secret.as_slice()], id, 1_614_265_330, body), expected);
        let both = header([secret.as_slice(), b"before"], id, 1_614_265_330, body);
        let (first, second) = both.split_once(' ').unwrap();
        assert_eq!(first, expected);
        assert!(second.starts_with("v1,") && second != expected);
    }
}
