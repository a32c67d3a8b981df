//! The provider token of a request: really verified, once per token, and bound to its connection
//! as Apple binds it.

use std::collections::HashMap;
use std::sync::Mutex;

use http::HeaderValue;
use serde::Deserialize;

use super::Reason;
use crate::sandbox::credentials::Credentials;
use crate::sandbox::jwt::{Algorithm, Jwt};
use crate::sandbox::scene::Scene;

/// A token older than this has expired: an hour, in seconds.
const TOKEN_AGE_S_MAX: i64 = 3_600;

/// A token's successor on one connection must be this much younger: 20 minutes, in seconds.
const TOKEN_UPDATE_S_MIN: i64 = 1_200;

/// How far a token may lie in the future, in seconds: two clocks are never quite equal.
const CLOCK_SKEW_S: i64 = 60;

/// Verified tokens remembered; more are forgotten all at once.
const VERIFIED_MAX: usize = 256;

/// Tokens remembered of one connection: the current one, and those that are still in flight.
const TOKENS_PER_CONNECTION: usize = 4;

/// A token whose signature was good.
#[derive(Debug, Clone, Copy)]
struct Verified {
    key: usize,
    issued_at_s: i64,
}

/// The tokens verified so far, so that each costs one signature check.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct VerifiedTokens(Mutex<HashMap<String, Option<Verified>>>);

/// What a connection is bound to by its first requests.
#[derive(Debug, Default)]
pub(in crate::sandbox) struct Memory {
    tokens: Vec<(HeaderValue, Verified)>,
    pub(super) topic: Option<String>,
}

#[derive(Deserialize)]
struct Claims {
    iss: String,
    iat: i64,
}

/// Checks the `authorization` header.
pub(super) fn check(
    scene: &Scene,
    memory: &mut Memory,
    header: Option<&HeaderValue>,
) -> Result<(), Reason> {
    let header = header.ok_or(Reason::MISSING_PROVIDER_TOKEN)?;
    let known = memory.tokens.iter().find(|(value, _)| value == header).map(|(_, token)| *token);
    let token = match known {
        Some(token) => token,
        None => verified(scene, header).ok_or(Reason::INVALID_PROVIDER_TOKEN)?,
    };
    let age_s = scene.clock.now().as_seconds().saturating_sub(token.issued_at_s);
    if age_s < -CLOCK_SKEW_S {
        return Err(Reason::INVALID_PROVIDER_TOKEN);
    }
    if age_s > TOKEN_AGE_S_MAX {
        return Err(Reason::EXPIRED_PROVIDER_TOKEN);
    }
    if known.is_none() {
        adopt(memory, header, token)?;
    }
    Ok(())
}

/// Takes a further token on, if its key is the connection's and it is not too early.
fn adopt(memory: &mut Memory, header: &HeaderValue, token: Verified) -> Result<(), Reason> {
    if let Some((_, newest)) = memory.tokens.last() {
        if newest.key != token.key {
            return Err(Reason::UNRELATED_KEY_ID_IN_TOKEN);
        }
        if token.issued_at_s.abs_diff(newest.issued_at_s) < TOKEN_UPDATE_S_MIN.unsigned_abs() {
            return Err(Reason::TOO_MANY_PROVIDER_TOKEN_UPDATES);
        }
    }
    if memory.tokens.len() == TOKENS_PER_CONNECTION {
        memory.tokens.remove(0);
    }
    memory.tokens.push((header.clone(), token));
    Ok(())
}

fn verified(scene: &Scene, header: &HeaderValue) -> Option<Verified> {
    let (kind, jwt) = header.to_str().ok()?.split_once(' ')?;
    if !kind.eq_ignore_ascii_case("bearer") {
        return None;
    }
    let mut cache = scene.verified_tokens.0.lock().expect("no holder of the tokens panics");
    if let Some(verified) = cache.get(jwt) {
        return *verified;
    }
    let verified = verify(&scene.credentials, jwt);
    if cache.len() >= VERIFIED_MAX {
        cache.clear();
    }
    cache.insert(jwt.to_owned(), verified);
    verified
}

fn verify(credentials: &Credentials, token: &str) -> Option<Verified> {
    let jwt = Jwt::parse_for_apns(token)?;
    let key_id = jwt.header.kid.as_deref()?;
    let key = credentials.apns_keys.iter().position(|key| key.key_id == key_id)?;
    let claims: Claims = jwt.verify(Algorithm::Es256, &credentials.apns_keys[key].public_key)?;
    let is_owner = claims.iss == credentials.apns_keys[key].team_id;
    is_owner.then_some(Verified { key, issued_at_s: claims.iat })
}
