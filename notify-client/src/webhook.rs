//! Receiving webhooks: [`Verifier`] checks that a message is authentic and recent, and parses it. For tests of
//! a receiver, [`Signer`] signs messages as the server does.
//!
//! ```
//! use notify_client::{notify_core::Timestamp, webhook::Verifier};
//!
//! # fn example() -> Result<(), notify_client::webhook::VerifyError> {
//! let verifier = Verifier::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")?;
//! // The headers and the raw body of the request; here the example of the Standard Webhooks specification.
//! let header = |name: &str| match name {
//!     "webhook-id" => Some("msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()),
//!     "webhook-timestamp" => Some("1614265330".to_owned()),
//!     "webhook-signature" => Some("v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()),
//!     _ => None,
//! };
//! let now = Timestamp::from_ms(1_614_265_330_000);
//! verifier.check_at(header, br#"{"test": 2432232314}"#, now)?;
//! # Ok(())
//! # }
//! # example().unwrap();
//! ```

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use notify_core::{Timestamp, WebhookEvent};
use reqwest::header::HeaderMap;

/// Largest difference between the time of a message and now, in milliseconds: 5 minutes.
pub const TOLERANCE_MS: i64 = 300_000;

/// The prefix of every secret.
const PREFIX: &str = "whsec_";
/// Random bytes of a generated secret. Standard Webhooks requires 24 to 64.
const SECRET_BYTES: usize = 32;
/// Most signatures of a message that are checked. A sender has at most two secrets.
const SIGNATURES_MAX: usize = 16;

/// Why a message was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyError {
    /// The secret is malformed.
    #[error("a secret is whsec_ and base64")]
    Secret,
    /// A header is missing or malformed.
    #[error("the header {0} is missing or malformed")]
    Header(&'static str),
    /// The message is too old, or from the future: a replay, or a wrong clock.
    #[error("the message is not from the last 5 minutes")]
    Stale,
    /// No signature matches a secret.
    #[error("no signature matches")]
    Signature,
    /// The message is authentic, but cannot be parsed.
    #[error("the body is not an event: {0}")]
    Body(String),
}

/// Verifies the messages of one webhook (Standard Webhooks 1.0.0). It compares signatures in constant time.
///
/// A message may arrive more than once with the same `webhook-id`. A receiver that must process each
/// message only once has to store the ids.
pub struct Verifier {
    keys: Vec<hmac::Key>,
}

impl std::fmt::Debug for Verifier {
    /// Does not show the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Verifier").finish_non_exhaustive()
    }
}

impl Verifier {
    /// A verifier with the secret of the webhook.
    ///
    /// # Errors
    /// [`VerifyError::Secret`] if the secret is malformed.
    pub fn new(secret: &str) -> Result<Self, VerifyError> {
        Ok(Self { keys: vec![parse_key(secret)?] })
    }

    /// Also accepts messages that are signed with this secret, such as the previous secret after a
    /// rotation.
    ///
    /// # Errors
    /// [`VerifyError::Secret`] if the secret is malformed.
    pub fn with_secret(mut self, secret: &str) -> Result<Self, VerifyError> {
        self.keys.push(parse_key(secret)?);
        Ok(self)
    }

    /// Verifies a request by its headers and its raw body, and parses the event.
    ///
    /// # Errors
    /// Why the message was rejected.
    pub fn verify(&self, headers: &HeaderMap, body: &[u8]) -> Result<WebhookEvent, VerifyError> {
        let header = |name: &str| Some(headers.get(name)?.to_str().ok()?.to_owned());
        self.verify_at(header, body, crate::now())
    }

    /// Like [`Self::verify`], with headers of any type and the time of the caller.
    ///
    /// # Errors
    /// The same as those of [`Self::verify`].
    pub fn verify_at(
        &self,
        header: impl Fn(&str) -> Option<String>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<WebhookEvent, VerifyError> {
        self.check_at(header, body, now)?;
        serde_json::from_slice(body).map_err(|error| VerifyError::Body(error.to_string()))
    }

    /// Verifies without parsing the body.
    ///
    /// # Errors
    /// Why the message was rejected.
    pub fn check_at(
        &self,
        header: impl Fn(&str) -> Option<String>,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), VerifyError> {
        let required = |name: &'static str| header(name).ok_or(VerifyError::Header(name));
        let (id, timestamp) = (required("webhook-id")?, required("webhook-timestamp")?);
        let signatures = required("webhook-signature")?;
        let seconds: i64 =
            timestamp.parse().map_err(|_| VerifyError::Header("webhook-timestamp"))?;
        let age_ms = now.as_ms().saturating_sub(seconds.saturating_mul(1_000));
        if age_ms.saturating_abs() > TOLERANCE_MS {
            return Err(VerifyError::Stale);
        }
        let content = [format!("{id}.{timestamp}.").as_bytes(), body].concat();
        let is_signed = signatures
            .split_ascii_whitespace()
            .take(SIGNATURES_MAX)
            .filter_map(|signature| BASE64.decode(signature.strip_prefix("v1,")?).ok())
            .any(|tag| self.keys.iter().any(|key| hmac::verify(key, &content, &tag).is_ok()));
        if is_signed { Ok(()) } else { Err(VerifyError::Signature) }
    }
}

/// Signs messages like the server (Standard Webhooks 1.0.0), for tests of a receiver. The models implement
/// `Serialize`, so the body of a message is the JSON of a [`WebhookEvent`].
///
/// ```
/// use notify_client::{notify_core::Timestamp, webhook::{Signer, Verifier}};
///
/// # fn example() -> Result<(), notify_client::webhook::VerifyError> {
/// let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// let (at, body) = (Timestamp::from_ms(1_614_265_330_000), br#"{"test": 2432232314}"#);
/// let headers = Signer::new(secret)?.sign("msg_1", at, body);
/// let header = |name: &str| {
///     headers.iter().find(|(header_name, _)| *header_name == name).map(|(_, value)| value.clone())
/// };
/// Verifier::new(secret)?.check_at(header, body, at)?;
/// # Ok(())
/// # }
/// # example().unwrap();
/// ```
pub struct Signer(hmac::Key);

impl std::fmt::Debug for Signer {
    /// Does not show the secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signer").finish_non_exhaustive()
    }
}

impl Signer {
    /// A signer with a secret: `whsec_` and base64.
    ///
    /// # Errors
    /// [`VerifyError::Secret`] if the secret is malformed.
    pub fn new(secret: &str) -> Result<Self, VerifyError> {
        Ok(Self(parse_key(secret)?))
    }

    /// Returns the names and values of the headers of a message with this `webhook-id`, sent at this time.
    #[must_use]
    pub fn sign(&self, id: &str, at: Timestamp, body: &[u8]) -> [(&'static str, String); 3] {
        let seconds = at.as_ms().div_euclid(1_000);
        let content = [format!("{id}.{seconds}.").as_bytes(), body].concat();
        let signature = BASE64.encode(hmac::sign(&self.0, &content));
        [
            ("webhook-id", id.to_owned()),
            ("webhook-timestamp", seconds.to_string()),
            ("webhook-signature", format!("v1,{signature}")),
        ]
    }
}

/// Generates a secret as the server does, for a test or for a tool that signs messages: `whsec_` and the
/// base64 of 32 random bytes.
#[must_use]
pub fn generate_secret() -> String {
    let mut bytes = [0; SECRET_BYTES];
    aws_lc_rs::rand::fill(&mut bytes).expect("the operating system gives random bytes");
    format!("{PREFIX}{}", BASE64.encode(bytes))
}

/// Parses a secret, with or without its prefix.
fn parse_key(secret: &str) -> Result<hmac::Key, VerifyError> {
    let text = secret.strip_prefix(PREFIX).unwrap_or(secret);
    let bytes = BASE64.decode(text).map_err(|_| VerifyError::Secret)?;
    if bytes.is_empty() {
        return Err(VerifyError::Secret);
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const AT: &str = "1614265330";
    const NOW: Timestamp = Timestamp::from_ms(1_614_265_330_000);
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn check(headers: [Option<&str>; 3], body: &[u8], now: Timestamp) -> Result<(), VerifyError> {
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let header = |name: &str| {
            let index = names.iter().position(|header_name| *header_name == name)?;
            headers[index].map(str::to_owned)
        };
        Verifier::new(SECRET)?.check_at(header, body, now)
    }

    #[test]
    fn only_unchanged_recent_signed_messages_are_accepted() {
        let other = "v1,AAAAsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        let both = format!("v1a,x {other} {SIGNATURE}");
        let signed = |signature| [Some(ID), Some(AT), Some(signature)];
        let rows: [(_, &[u8], i64, Result<(), VerifyError>); 11] = [
            (signed(SIGNATURE), BODY, 0, Ok(())),
            (signed(&both), BODY, 0, Ok(())),
            (signed(SIGNATURE), BODY, TOLERANCE_MS, Ok(())),
            (signed(SIGNATURE), BODY, TOLERANCE_MS + 1, Err(VerifyError::Stale)),
            (signed(SIGNATURE), BODY, -TOLERANCE_MS - 1, Err(VerifyError::Stale)),
            (signed(SIGNATURE), b"{}", 0, Err(VerifyError::Signature)),
            (signed(other), BODY, 0, Err(VerifyError::Signature)),
            (signed(""), BODY, 0, Err(VerifyError::Signature)),
            ([Some("msg_2"), Some(AT), Some(SIGNATURE)], BODY, 0, Err(VerifyError::Signature)),
            ([None, Some(AT), Some(SIGNATURE)], BODY, 0, Err(VerifyError::Header("webhook-id"))),
            (
                [Some(ID), Some("soon"), Some(SIGNATURE)],
                BODY,
                0,
                Err(VerifyError::Header("webhook-timestamp")),
            ),
        ];
        for (headers, body, later_ms, expected) in rows {
            assert_eq!(check(headers, body, NOW.plus_ms(later_ms)), expected, "{headers:?}");
        }
    }

    #[test]
    fn the_signature_is_that_of_the_specification() {
        let headers = Signer::new(SECRET).unwrap().sign(ID, NOW, BODY);
        let expected =
            [("webhook-id", ID), ("webhook-timestamp", AT), ("webhook-signature", SIGNATURE)];
        assert_eq!(headers, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn generated_secrets_differ_and_sign() {
        let [first, second] = [generate_secret(), generate_secret()];
        assert_ne!(first, second);
        let headers = Signer::new(&first).unwrap().sign(ID, NOW, BODY);
        let header = |name: &str| {
            headers.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone())
        };
        let check = |secret: &str| Verifier::new(secret).unwrap().check_at(header, BODY, NOW);
        assert_eq!((check(&first), check(&second)), (Ok(()), Err(VerifyError::Signature)));
    }

    #[test]
    fn a_malformed_secret_is_rejected() {
        for text in ["", "whsec_", "whsec_%%%"] {
            assert_eq!(Verifier::new(text).err(), Some(VerifyError::Secret), "{text}");
        }
        assert!(!format!("{:?}", Verifier::new(SECRET)).contains("MfKQ"));
        assert_eq!(Signer::new("whsec_").err(), Some(VerifyError::Secret));
        assert!(!format!("{:?}", Signer::new(SECRET)).contains("MfKQ"));
    }
}
