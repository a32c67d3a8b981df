//! The provider token (Apple, "Establishing a token-based connection to APNs"): one for each team
//! and key, whichever application and worker uses it. Apple answers 429 to who makes them too
//! often.

use std::sync::{Arc, Mutex};

use http::HeaderValue;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use notify_core::Timestamp;
use serde::Serialize;

use crate::clock::Reading;
use crate::provider_config::{ApnsConfig, KeyDigest};
use crate::providers::Reason;
use crate::providers::shared::Shared;
use crate::reasons;

/// Age at which a token is replaced, in milliseconds; Apple refuses it at 60 minutes.
const REFRESH_AGE_MS: i64 = 50 * 60_000;
/// Age past which a token is replaced even where Apple wants it kept, in milliseconds: a minute
/// before Apple refuses it.
const KEPT_AGE_MS_MAX: i64 = 59 * 60_000;
/// Least age at which a token may be replaced, in milliseconds.
const REFRESH_AGE_MS_MIN: i64 = 20 * 60_000;
/// How much the wall clock may have been set since a token was signed, in milliseconds: what was
/// signed by a clock that was wrong is refused, however young it is.
const CLOCK_SET_MS_MAX: i64 = 60_000;

/// Names a token without holding its key: the digest tells a mended key from the broken one.
type TokenKey = (String, String, KeyDigest);

/// All provider tokens of the server, each as long as some application uses it.
#[derive(Default)]
pub(in crate::providers) struct ProviderTokens(Shared<TokenKey, ProviderToken>);

impl ProviderTokens {
    /// When the oldest token in use was signed.
    pub(in crate::providers) fn oldest(&self) -> Option<Timestamp> {
        let signed = |token: &ProviderToken| {
            let state = token.state.lock().expect("nothing panics under this lock");
            state.current.as_ref().map(|signed| signed.at)
        };
        self.0.all().iter().filter_map(|(_, token)| signed(token)).min()
    }

    /// The token of that team and key.
    pub(super) fn get(&self, config: &ApnsConfig) -> Arc<ProviderToken> {
        let key = (config.team_id.clone(), config.key_id.clone(), config.key_digest);
        self.0.get(key, |_| ProviderToken {
            team_id: config.team_id.clone(),
            key_id: config.key_id.clone(),
            private_key: config.private_key.clone(),
            state: Mutex::default(),
        })
    }
}

/// The token of one team and key.
pub(in crate::providers) struct ProviderToken {
    team_id: String,
    key_id: String,
    private_key: EncodingKey,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    current: Option<Signed>,
    /// Apple found the changes too many: none before this.
    frozen_until: Option<Timestamp>,
}

struct Signed {
    bearer: HeaderValue,
    at: Timestamp,
    /// How far the wall clock, which it bears the time of, was ahead of the server's.
    wall_ahead_ms: i64,
}

impl Signed {
    /// Whether it is the one to send.
    fn lasts(&self, at: Reading, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        let clock_set_ms = (at.wall.ms_since(at.now) - self.wall_ahead_ms).abs();
        match is_frozen {
            true => age_ms < KEPT_AGE_MS_MAX,
            false => age_ms < REFRESH_AGE_MS && clock_set_ms <= CLOCK_SET_MS_MAX,
        }
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: i64,
}

impl ProviderToken {
    /// The `authorization` value to send now.
    pub(super) fn current(&self, at: Reading) -> Result<HeaderValue, Reason> {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let is_frozen = state.frozen_until.is_some_and(|until| at.now < until);
        match &state.current {
            Some(signed) if signed.lasts(at, is_frozen) => Ok(signed.bearer.clone()),
            Some(_) | None => self.sign(&mut state, at),
        }
    }

    /// Replaces a token that Apple called expired; tells whether there is another one to try.
    pub(super) fn renew(&self, refused: &HeaderValue, at: Reading) -> bool {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let Some(signed) = &state.current else { return false };
        if signed.bearer != *refused {
            return true;
        }
        let is_frozen = state.frozen_until.is_some_and(|until| at.now < until);
        // A young token that is called expired means a wrong clock: another would not help.
        if is_frozen || at.now.ms_since(signed.at) < REFRESH_AGE_MS_MIN {
            return false;
        }
        self.sign(&mut state, at).is_ok()
    }

    /// Keeps the current token for as long as Apple wants it kept.
    pub(super) fn freeze(&self, now: Timestamp) {
        let mut state = self.state.lock().expect("nothing panics under this lock");
        state.frozen_until = Some(now.plus_ms(REFRESH_AGE_MS_MIN));
    }

    fn sign(&self, state: &mut State, at: Reading) -> Result<HeaderValue, Reason> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.key_id.clone());
        let claims = Claims { iss: &self.team_id, iat: at.wall.as_seconds() };
        let token = jsonwebtoken::encode(&header, &claims, &self.private_key)
            .map_err(|_| Reason::Borrowed(reasons::SIGNING_FAILED))?;
        let mut bearer = HeaderValue::from_str(&format!("bearer {token}"))
            .expect("a token is base64url and dots");
        bearer.set_sensitive(true);
        let wall_ahead_ms = at.wall.ms_since(at.now);
        state.current = Some(Signed { bearer: bearer.clone(), at: at.now, wall_ahead_ms });
        Ok(bearer)
    }
}
