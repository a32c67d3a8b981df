//! The VAPID header of a message (RFC 8292): really verified, once for each token, and held to what
//! Apple and Mozilla demand beyond the RFC.

use std::collections::HashMap;
use std::sync::Mutex;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::refusals::{BAD_VAPID, KEY_MISMATCH, Refusal};
use crate::sandbox::jwt::{Algorithm, Jwt};
use crate::sandbox::scene::Scene;

/// How far ahead a token may end, in seconds (RFC 8292 §2).
const LIFE_SECONDS_MAX: i64 = 86_400;
/// Verified headers remembered; more are forgotten all at once.
const VERIFIED_MAX: usize = 256;

/// The headers verified so far, so that each costs one signature check.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct VerifiedVapid(Mutex<HashMap<String, Option<Verified>>>);

/// A header whose signature was good.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Verified {
    key: Vec<u8>,
    claims: Claims,
}

/// The claims; `exp` is a number, as Mozilla demands.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Claims {
    aud: String,
    exp: i64,
    sub: String,
}

/// Checks the header of a message for a subscription that was made with `key`.
pub(super) fn check(
    scene: &Scene,
    header: Option<&str>,
    key: &[u8],
) -> Result<(), &'static Refusal> {
    let verified = header.and_then(|header| verified(scene, header)).ok_or(&BAD_VAPID)?;
    if verified.key != key {
        return Err(&KEY_MISMATCH);
    }
    let Claims { aud, exp, sub } = &verified.claims;
    let now = scene.clock.now().as_seconds();
    let is_good = *aud == scene.origin
        && (now + 1..=now + LIFE_SECONDS_MAX).contains(exp)
        && (sub.starts_with("mailto:") || sub.starts_with("https://"));
    if is_good { Ok(()) } else { Err(&BAD_VAPID) }
}

fn verified(scene: &Scene, header: &str) -> Option<Verified> {
    let mut cache = scene.verified_vapid.0.lock().expect("no holder of the headers panics");
    if let Some(verified) = cache.get(header) {
        return verified.clone();
    }
    let verified = verify(header);
    if cache.len() >= VERIFIED_MAX {
        cache.clear();
    }
    cache.insert(header.to_owned(), verified.clone());
    verified
}

/// Reads `vapid t=TOKEN, k=KEY`.
fn verify(header: &str) -> Option<Verified> {
    let (scheme, parameters) = header.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("vapid") {
        return None;
    }
    let parameter = |name: &str| {
        let mut named = parameters.split(',').filter_map(|parameter| {
            parameter
                .trim()
                .strip_prefix(name)?
                .strip_prefix('=')
                .map(|value| value.trim_matches('"'))
        });
        named.next()
    };
    let key = URL_SAFE_NO_PAD.decode(parameter("k")?).ok()?;
    let claims = Jwt::parse(parameter("t")?)?.verify(Algorithm::Es256, &key)?;
    Some(Verified { key, claims })
}
