//! The provider token (Apple, "Establishing a token-based connection to APNs"): one for each team
//! and key, whichever application, worker and server uses it. Apple answers 429 to who makes them
//! too often.
//!
//! ```text
//! lasts? ──yes──▶ sent          kept by another server, and good for us? ──▶ taken
//!    └──no──▶ one looks ──────▶ otherwise signed ──▶ kept, unless another server was first
//! ```

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderValue;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use notify_core::Timestamp;
use secrecy::ExposeSecret;
use serde::Serialize;

use crate::clock::Reading;
use crate::error_chain::with_causes;
use crate::keys::sha256;
use crate::provider_config::{ApnsConfig, KeyDigest};
use crate::providers::registry::Shared;
use crate::providers::{KeeperError, KeptToken, Reason, SignedToken, TokenKeeper, TokenName};
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
pub(in crate::providers) struct ProviderTokens {
    tokens: Shared<TokenKey, ProviderToken>,
    keeper: Option<Arc<dyn TokenKeeper>>,
}

impl ProviderTokens {
    /// Tokens that all servers of one storage share.
    pub(in crate::providers) fn kept_by(keeper: Arc<dyn TokenKeeper>) -> Self {
        Self { tokens: Shared::default(), keeper: Some(keeper) }
    }

    /// When the oldest token in use was signed.
    pub(in crate::providers) fn oldest(&self) -> Option<Timestamp> {
        let signed = |token: &ProviderToken| {
            let state = token.state.lock().expect("nothing panics under this lock");
            state.current.as_ref().map(|signed| signed.at)
        };
        self.tokens.all().iter().filter_map(|(_, token)| signed(token)).min()
    }

    /// The token of that team and key.
    pub(super) fn get(&self, config: &ApnsConfig) -> Arc<ProviderToken> {
        let key = (config.team_id.clone(), config.key_id.clone(), config.key_digest);
        self.tokens.get(key, |_| ProviderToken {
            team_id: config.team_id.clone(),
            key_id: config.key_id.clone(),
            private_key: config.private_key.clone(),
            state: Mutex::default(),
            keeper: self.keeper.clone().map(|keeper| Keeper::new(keeper, config)),
            refresh: tokio::sync::Mutex::default(),
        })
    }
}

/// The token of one team and key.
pub(in crate::providers) struct ProviderToken {
    team_id: String,
    key_id: String,
    private_key: EncodingKey,
    state: Mutex<State>,
    /// Where the other servers are.
    keeper: Option<Keeper>,
    /// Held by the one who looks for another token.
    refresh: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    current: Option<Signed>,
    /// Apple found the changes too many: none before this.
    frozen_until: Option<Timestamp>,
}

impl State {
    fn is_frozen(&self, now: Timestamp) -> bool {
        self.frozen_until.is_some_and(|until| now < until)
    }

    /// The token, where it is the one to send.
    fn lasting(&self, at: Reading) -> Option<HeaderValue> {
        let is_frozen = self.is_frozen(at.now);
        let signed = self.current.as_ref().filter(|signed| signed.lasts(at, is_frozen))?;
        Some(signed.bearer.clone())
    }
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: i64,
}

impl ProviderToken {
    /// The `authorization` value to send now.
    ///
    /// # Errors
    /// When there is none, and none can be signed.
    pub(super) async fn current(&self, at: Reading) -> Result<HeaderValue, Reason> {
        if let Some(bearer) = self.state().lasting(at) {
            return Ok(bearer);
        }
        let _alone = match self.refresh.try_lock() {
            Ok(alone) => alone,
            Err(_) => {
                // Nobody waits for who looks while Apple still takes the old one.
                if let Some(signed) = &self.state().current
                    && signed.lasts(at, true)
                    && signed.is_of_this_clock(at)
                {
                    return Ok(signed.bearer.clone());
                }
                self.refresh.lock().await
            }
        };
        let lasting = self.state().lasting(at);
        match lasting {
            // Somebody was first.
            Some(bearer) => Ok(bearer),
            None => self.replace(at).await,
        }
    }

    /// Replaces a token that Apple called expired; tells whether there is another one to try.
    pub(super) async fn renew(&self, refused: &HeaderValue, at: Reading) -> bool {
        if let Some(known) = self.is_another(refused, at) {
            return known;
        }
        let _alone = self.refresh.lock().await;
        match self.is_another(refused, at) {
            Some(known) => known,
            None => self.replace(at).await.is_ok_and(|bearer| bearer != *refused),
        }
    }

    /// Whether there is another token than the one refused; `None` where one may be looked for.
    fn is_another(&self, refused: &HeaderValue, at: Reading) -> Option<bool> {
        let state = self.state();
        let Some(signed) = &state.current else { return Some(false) };
        if signed.bearer != *refused {
            return Some(true);
        }
        // A young token that is called expired means a wrong clock: another would not help.
        let is_young = at.now.ms_since(signed.at) < REFRESH_AGE_MS_MIN;
        (is_young || state.is_frozen(at.now)).then_some(false)
    }

    /// Keeps the current token for as long as Apple wants it kept.
    pub(super) async fn freeze(&self, now: Timestamp) {
        let until = now.plus_ms(REFRESH_AGE_MS_MIN);
        let was_frozen = {
            let mut state = self.state();
            let was_frozen = state.is_frozen(now);
            state.frozen_until = Some(until);
            was_frozen
        };
        // Every message in flight may be told so: the others hear it once.
        if let Some(keeper) = self.keeper.as_ref().filter(|_| !was_frozen) {
            keeper.freeze(until).await;
        }
    }

    /// Takes the token of another server, or signs one for all.
    async fn replace(&self, at: Reading) -> Result<HeaderValue, Reason> {
        let Some(keeper) = &self.keeper else { return Ok(self.take(own(&self.sign(at)?))) };
        let Some(kept) = keeper.kept().await else {
            // Sending goes on without storage.
            return Ok(self.take(own(&self.sign(at)?)));
        };
        if let Some(frozen_until) = kept.as_ref().and_then(|kept| kept.frozen_until) {
            let mut state = self.state();
            state.frozen_until = state.frozen_until.max(Some(frozen_until));
            if let Some(bearer) = state.lasting(at) {
                return Ok(bearer);
            }
        }
        if let Some(theirs) = kept.as_ref().and_then(|kept| self.fitting(kept, at)) {
            return Ok(self.take(theirs));
        }
        let mine = self.sign(at)?;
        let winner = keeper.keep(&mine, kept.map(|kept| kept.at)).await;
        let winner = winner.and_then(|kept| self.fitting(&kept, at));
        Ok(self.take(winner.unwrap_or_else(|| own(&mine))))
    }

    /// A kept token, where it does for this server.
    fn fitting(&self, kept: &KeptToken, at: Reading) -> Option<Signed> {
        let signed = Signed::of(kept.token.as_ref()?)?;
        let state = self.state();
        let is_frozen = state.is_frozen(at.now);
        signed.fits(at, state.current.as_ref(), is_frozen).then_some(signed)
    }

    fn take(&self, signed: Signed) -> HeaderValue {
        let bearer = signed.bearer.clone();
        self.state().current = Some(signed);
        bearer
    }

    fn sign(&self, at: Reading) -> Result<SignedToken, Reason> {
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(self.key_id.clone());
        let claims = Claims { iss: &self.team_id, iat: at.wall.as_seconds() };
        let text = jsonwebtoken::encode(&header, &claims, &self.private_key)
            .map_err(|_| Reason::Borrowed(reasons::SIGNING_FAILED))?;
        let wall_ahead_ms = at.wall.ms_since(at.now);
        Ok(SignedToken { text: text.into(), at: at.now, wall_ahead_ms })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under this lock")
    }
}

fn own(token: &SignedToken) -> Signed {
    Signed::of(token).expect("a token is base64url and dots")
}

// A token that was signed, and for how long it does.

/// A token that was signed.
struct Signed {
    bearer: HeaderValue,
    at: Timestamp,
    /// How far the wall clock, which it bears the time of, was ahead of the servers'.
    wall_ahead_ms: i64,
}

impl Signed {
    /// `None` where the text is no token: it was kept by nobody of ours.
    fn of(token: &SignedToken) -> Option<Self> {
        let mut bearer =
            HeaderValue::try_from(format!("bearer {}", token.text.expose_secret())).ok()?;
        bearer.set_sensitive(true);
        Some(Self { bearer, at: token.at, wall_ahead_ms: token.wall_ahead_ms })
    }

    /// Whether it is the one to send.
    fn lasts(&self, at: Reading, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        match is_frozen {
            true => age_ms < KEPT_AGE_MS_MAX,
            false => age_ms < REFRESH_AGE_MS && self.is_of_this_clock(at),
        }
    }

    /// Whether the wall clock goes as it did where and when it was signed.
    fn is_of_this_clock(&self, at: Reading) -> bool {
        let clock_set_ms = at.wall.ms_since(at.now) - self.wall_ahead_ms;
        clock_set_ms.abs() <= CLOCK_SET_MS_MAX
    }

    /// Whether it is taken from another server in place of `own`. Behind one's own it comes only
    /// while it lasts long enough: Apple counts the changes of each connection.
    fn fits(&self, at: Reading, own: Option<&Self>, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        let age_ms_max = match (own, is_frozen) {
            (Some(_), _) => REFRESH_AGE_MS - REFRESH_AGE_MS_MIN,
            (None, true) => KEPT_AGE_MS_MAX,
            (None, false) => REFRESH_AGE_MS,
        };
        // One of the future was signed by a clock that was wrong.
        (-CLOCK_SET_MS_MAX..age_ms_max).contains(&age_ms)
            && self.is_of_this_clock(at)
            && own.is_none_or(|own| own.bearer != self.bearer)
    }
}

// The token as all servers of one storage share it.

/// Longest wait for storage: a message waits meanwhile, and can go with a token of our own.
const KEEPER_WAIT: Duration = Duration::from_secs(3);

/// Where the token of one team and key is kept.
struct Keeper {
    keeper: Arc<dyn TokenKeeper>,
    name: TokenName,
}

impl Keeper {
    fn new(keeper: Arc<dyn TokenKeeper>, config: &ApnsConfig) -> Self {
        // Neither id may contain a space.
        let whose = format!("apns {} {} ", config.team_id, config.key_id);
        let name = sha256(&[whose.as_bytes(), &config.key_digest].concat());
        Self { keeper, name }
    }

    /// What is kept; `None` where storage does not say.
    async fn kept(&self) -> Option<Option<KeptToken>> {
        in_time(self.keeper.kept(&self.name)).await
    }

    /// Keeps a token, unless another server was first; what is kept now. `None` where storage does
    /// not say.
    async fn keep(&self, token: &SignedToken, replaces: Option<Timestamp>) -> Option<KeptToken> {
        in_time(self.keeper.keep(&self.name, token, replaces)).await
    }

    /// Tells the other servers that the token is to be kept.
    async fn freeze(&self, until: Timestamp) {
        in_time(self.keeper.freeze(&self.name, until)).await;
    }
}

/// What storage says, where it does so in time.
async fn in_time<T>(asked: impl Future<Output = Result<T, KeeperError>>) -> Option<T> {
    let told = tokio::time::timeout(KEEPER_WAIT, asked).await;
    let told = told.unwrap_or(Err(KeeperError::Late));
    told.inspect_err(|error| {
        let cause = with_causes(error);
        tracing::warn!(
            provider = "apns",
            cause,
            "the provider token is not shared with other servers for now: this one signs its own"
        );
    })
    .ok()
}
