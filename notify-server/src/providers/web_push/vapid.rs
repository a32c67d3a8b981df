//! VAPID tokens (RFC 8292). There is one token for each key, contact and push service. It is used for
//! hours, so that not every message needs a signature.

use std::sync::Arc;

use http::HeaderValue;
use jsonwebtoken::{Algorithm, Header};
use notify_core::Timestamp;
use serde::Serialize;

use crate::bounded_cache::BoundedCache;
use crate::provider_config::{VapidKey, WebPushConfig};

/// Lifetime of a token, in seconds: half of the longest that push services accept (RFC 8292 section 2).
const LIFE_SECONDS: i64 = 12 * 3_600;
/// How long before its expiry a token is replaced, in milliseconds.
const REPLACED_BEFORE_END_MS: i64 = 3_600_000;
/// Age from which a refused token is replaced, in milliseconds. If a push service refuses a younger
/// token, the key is wrong, and a new token would not help. An older one may have expired early, or our
/// clock may have been changed since.
const REFRESH_AGE_MS: i64 = 5 * 60_000;
/// Most tokens kept.
const TOKENS_MAX: usize = 4_096;

/// Public key and contact, and origin of the push service.
type TokenKey = (Arc<str>, Box<str>);

/// All VAPID tokens of the server.
#[derive(Clone)]
pub(in crate::providers) struct VapidTokens(Arc<BoundedCache<TokenKey, Arc<VapidToken>>>);

impl Default for VapidTokens {
    fn default() -> Self {
        Self(Arc::new(BoundedCache::new(TOKENS_MAX)))
    }
}

/// The signer of an application.
pub(super) struct Signer {
    key: VapidKey,
    subject: String,
    /// Public key and contact as one text, which is cheap to look up.
    name: Arc<str>,
}

impl Signer {
    pub(super) fn of(config: &WebPushConfig) -> Self {
        let (key, subject) = (config.vapid.clone(), config.subject.clone());
        let name = format!("{} {subject}", key.public).into();
        Self { key, subject, name }
    }
}

/// A token as a header value.
pub(super) struct VapidToken {
    pub(super) authorization: HeaderValue,
    signed_at: Timestamp,
}

impl VapidToken {
    /// Whether the token does not expire soon. A token with a time in the future was signed with a wrong
    /// clock and is not fresh either.
    fn is_fresh(&self, wall: Timestamp) -> bool {
        let age_ms = wall.ms_since(self.signed_at);
        (0..LIFE_SECONDS * 1_000 - REPLACED_BEFORE_END_MS).contains(&age_ms)
    }

    /// Whether a push service that refused this token might accept a new one.
    pub(super) fn may_be_stale(&self, wall: Timestamp) -> bool {
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
    /// The token for a request to that origin now. `refused` is a token that the push service has refused;
    /// it is not returned again. `None` if the key cannot sign; the configuration has checked that it can.
    pub(super) fn get(
        &self,
        signer: &Signer,
        origin: &str,
        refused: Option<&VapidToken>,
        wall: Timestamp,
    ) -> Option<Arc<VapidToken>> {
        let key = (signer.name.clone(), origin.into());
        if let Some(cached) = self.0.get(&key) {
            let is_refused =
                refused.is_some_and(|refused| refused.authorization == cached.authorization);
            if cached.is_fresh(wall) && !is_refused {
                return Some(cached);
            }
        }
        let signed = Arc::new(sign(&signer.key, &signer.subject, origin, wall)?);
        self.0.insert(key, Arc::clone(&signed), 1);
        Some(signed)
    }
}

fn sign(key: &VapidKey, subject: &str, origin: &str, wall: Timestamp) -> Option<VapidToken> {
    let claims = Claims { aud: origin, exp: wall.as_seconds() + LIFE_SECONDS, sub: subject };
    let token = jsonwebtoken::encode(&Header::new(Algorithm::ES256), &claims, &key.signing).ok()?;
    let text = format!("vapid t={token}, k={}", key.public);
    let mut authorization = HeaderValue::from_str(&text).ok()?;
    authorization.set_sensitive(true);
    Some(VapidToken { authorization, signed_at: wall })
}
