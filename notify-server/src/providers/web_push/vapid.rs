//! VAPID tokens (RFC 8292): one for each key, contact and push service, signed once for hours and
//! not for each message.

use std::sync::Arc;

use http::HeaderValue;
use jsonwebtoken::{Algorithm, Header};
use moka::sync::Cache;
use notify_core::Timestamp;
use serde::Serialize;

use crate::provider_config::{VapidKey, WebPushConfig};

/// Life of a token, in seconds: half of what push services take at the most (RFC 8292 §2).
const LIFE_SECONDS: i64 = 12 * 3_600;
/// How long before its end a token is replaced, in milliseconds.
const REPLACED_BEFORE_END_MS: i64 = 3_600_000;
/// Age from which a token that is refused is worth replacing, in milliseconds: a clock that was
/// set or a token that ran out early shows after a while, a wrong key at once.
const REFRESH_AGE_MS: i64 = 5 * 60_000;
/// Most tokens kept.
const TOKENS_MAX: u64 = 4_096;

/// Who a token is of and for: public key and contact, origin of the push service.
type TokenKey = (Arc<str>, Box<str>);

/// All VAPID tokens of the server.
#[derive(Clone)]
pub(in crate::providers) struct VapidTokens(Cache<TokenKey, Arc<Signed>>);

impl Default for VapidTokens {
    fn default() -> Self {
        Self(Cache::new(TOKENS_MAX))
    }
}

/// Who signs.
pub(super) struct Signer {
    key: VapidKey,
    subject: String,
    /// Public key and contact: one text that costs nothing to look up by.
    name: Arc<str>,
}

impl Signer {
    pub(super) fn of(config: &WebPushConfig) -> Self {
        let (key, subject) = (config.vapid.clone(), config.subject.clone());
        let name = format!("{} {subject}", key.public).into();
        Self { key, subject, name }
    }
}

/// A token, as the header that carries it.
pub(super) struct Signed {
    pub(super) authorization: HeaderValue,
    signed_at: Timestamp,
}

impl Signed {
    /// Whether it has long to live yet; one from the future was signed by a clock that was wrong.
    fn is_fresh(&self, wall: Timestamp) -> bool {
        let age_ms = wall.ms_since(self.signed_at);
        (0..LIFE_SECONDS * 1_000 - REPLACED_BEFORE_END_MS).contains(&age_ms)
    }

    /// Whether a push service that refuses it may take a new one.
    pub(super) fn is_worth_replacing(&self, wall: Timestamp) -> bool {
        !(0..REFRESH_AGE_MS).contains(&wall.ms_since(self.signed_at))
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    aud: &'a str,
    exp: i64,
    sub: &'a str,
}

impl VapidTokens {
    /// The token to send to that origin now, other than the one that was `refused`. `None` when
    /// the key does not sign, which a key that was read does.
    pub(super) fn get(
        &self,
        signer: &Signer,
        origin: &str,
        refused: Option<&Signed>,
        wall: Timestamp,
    ) -> Option<Arc<Signed>> {
        let key = (signer.name.clone(), origin.into());
        let kept = self.0.get(&key).filter(|kept| {
            let is_refused =
                refused.is_some_and(|refused| refused.authorization == kept.authorization);
            kept.is_fresh(wall) && !is_refused
        });
        if kept.is_some() {
            return kept;
        }
        let signed = Arc::new(sign(&signer.key, &signer.subject, origin, wall)?);
        self.0.insert(key, Arc::clone(&signed));
        Some(signed)
    }
}

fn sign(key: &VapidKey, subject: &str, origin: &str, wall: Timestamp) -> Option<Signed> {
    let claims = Claims { aud: origin, exp: wall.as_seconds() + LIFE_SECONDS, sub: subject };
    let token = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &key.signing).ok()?;
    let text = format!("vapid t={token}, k={}", key.public);
    let mut authorization = HeaderValue::from_str(&text).ok()?;
    authorization.set_sensitive(true);
    Some(Signed { authorization, signed_at: wall })
}
