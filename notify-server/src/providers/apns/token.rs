//! The provider token (Apple, "Establishing a token-based connection to APNs"). Each team and key has
//! one token, which all applications and all servers share. Apple responds 429 to tokens that change too
//! often.
//!
//! ```text
//! valid? ──yes──▶ use           stored by another server, and usable here? ──▶ install
//!    └──no──▶ one task refreshes ─▶ otherwise sign ──▶ store, unless another server was first
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
use crate::error_chain::error_chain;
use crate::keys::sha256;
use crate::provider_config::{ApnsConfig, KeyDigest};
use crate::providers::registry::WeakMap;
use crate::providers::{Reason, SignedToken, StoredToken, TokenName, TokenStore, TokenStoreError};
use crate::reasons;

/// Age at which a token is replaced, in milliseconds. Apple refuses tokens older than 60 minutes.
const REFRESH_AGE_MS: i64 = 50 * 60_000;
/// Age at which a token is replaced even if Apple demanded fewer changes, in milliseconds. This is a
/// minute before Apple would refuse it.
const KEPT_AGE_MS_MAX: i64 = 59 * 60_000;
/// Least age at which a token may be replaced, in milliseconds.
const REFRESH_AGE_MS_MIN: i64 = 20 * 60_000;
/// How far the wall clock may have been changed since a token was signed, in milliseconds. Apple refuses
/// a token that was signed with a wrong clock, even if the token is young.
const CLOCK_SET_MS_MAX: i64 = 60_000;

/// The team id, the key id, and the digest of the private key. The digest distinguishes a corrected key
/// from a wrong key that was configured with the same ids.
type TokenKey = (String, String, KeyDigest);

/// All provider tokens of the server. A token exists as long as some application uses it.
#[derive(Default)]
pub(in crate::providers) struct ProviderTokens {
    tokens: WeakMap<TokenKey, ProviderToken>,
    store: Option<Arc<dyn TokenStore>>,
}

impl ProviderTokens {
    /// Provider tokens that all servers with the same store share.
    pub(in crate::providers) fn with_token_store(store: Arc<dyn TokenStore>) -> Self {
        Self { tokens: WeakMap::default(), store: Some(store) }
    }

    /// When the oldest token in use was signed.
    pub(in crate::providers) fn oldest_signed_at(&self) -> Option<Timestamp> {
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
            shared: self.store.clone().map(|store| SharedToken::new(store, config)),
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
    /// The token shared with other servers.
    shared: Option<SharedToken>,
    /// Locked by the task that refreshes the token.
    refresh: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    current: Option<BearerToken>,
    /// Apple reported too many changes of the token, so it must not change before this time.
    frozen_until: Option<Timestamp>,
}

impl State {
    fn is_frozen(&self, now: Timestamp) -> bool {
        self.frozen_until.is_some_and(|until| now < until)
    }

    /// The current token, if Apple should accept it.
    fn valid_token(&self, at: Reading) -> Option<HeaderValue> {
        let is_frozen = self.is_frozen(at.now);
        let signed = self.current.as_ref().filter(|signed| signed.is_valid(at, is_frozen))?;
        Some(signed.bearer.clone())
    }
}

/// What follows after Apple reported a token as expired.
enum AfterRefusal {
    /// The current token is another one, which may be accepted.
    TryCurrent,
    /// The current token was refused, and must not be replaced now.
    GiveUp,
    /// The current token was refused, and may be replaced.
    Replace,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    iat: i64,
}

impl ProviderToken {
    /// The value of the `authorization` header for a request now. Replaces the token if necessary.
    ///
    /// # Errors
    /// When there is no valid token and signing fails.
    pub(super) async fn current(&self, at: Reading) -> Result<HeaderValue, Reason> {
        if let Some(bearer) = self.state().valid_token(at) {
            return Ok(bearer);
        }
        let _refreshing = match self.refresh.try_lock() {
            Ok(refreshing) => refreshing,
            Err(_) => {
                // Another task replaces the token. There is no need to wait for that task while Apple
                // still accepts the old token.
                if let Some(signed) = &self.state().current
                    && signed.is_valid(at, true)
                    && signed.clock_matches(at)
                {
                    return Ok(signed.bearer.clone());
                }
                self.refresh.lock().await
            }
        };
        let valid_token = self.state().valid_token(at);
        match valid_token {
            // Another task has replaced the token in the meantime.
            Some(bearer) => Ok(bearer),
            None => self.replace(at).await,
        }
    }

    /// Replaces a token that Apple reported as expired. Returns whether there is another token to try.
    pub(super) async fn renew(&self, refused: &HeaderValue, at: Reading) -> bool {
        match self.after_refusal(refused, at) {
            AfterRefusal::TryCurrent => return true,
            AfterRefusal::GiveUp => return false,
            AfterRefusal::Replace => {}
        }
        let _refreshing = self.refresh.lock().await;
        // Another task may have replaced the token while this task waited for the lock.
        match self.after_refusal(refused, at) {
            AfterRefusal::TryCurrent => true,
            AfterRefusal::GiveUp => false,
            AfterRefusal::Replace => self.replace(at).await.is_ok_and(|bearer| bearer != *refused),
        }
    }

    /// Decides what follows after Apple reported the token `refused` as expired.
    fn after_refusal(&self, refused: &HeaderValue, at: Reading) -> AfterRefusal {
        let state = self.state();
        let Some(signed) = &state.current else { return AfterRefusal::GiveUp };
        if signed.bearer != *refused {
            return AfterRefusal::TryCurrent;
        }
        // If Apple reports a young token as expired, our clock is wrong, and a new token would not help.
        let is_young = at.now.ms_since(signed.at) < REFRESH_AGE_MS_MIN;
        if is_young || state.is_frozen(at.now) {
            return AfterRefusal::GiveUp;
        }
        AfterRefusal::Replace
    }

    /// Forbids a change of the token for as long as Apple demands.
    pub(super) async fn freeze(&self, now: Timestamp) {
        let until = now.plus_ms(REFRESH_AGE_MS_MIN);
        let was_frozen = {
            let mut state = self.state();
            let was_frozen = state.is_frozen(now);
            state.frozen_until = Some(until);
            was_frozen
        };
        // Every message in flight may get this response. The store is updated only once.
        if let Some(shared) = self.shared.as_ref().filter(|_| !was_frozen) {
            shared.freeze(until).await;
        }
    }

    /// Replaces the current token with the token of another server, or signs a new token for all servers.
    async fn replace(&self, at: Reading) -> Result<HeaderValue, Reason> {
        let Some(shared) = &self.shared else {
            return Ok(self.install(from_signed(&self.sign(at)?)));
        };
        let Some(stored) = shared.get().await else {
            // The store failed. Sending continues with a token of this server alone.
            return Ok(self.install(from_signed(&self.sign(at)?)));
        };
        if let Some(frozen_until) = stored.as_ref().and_then(|stored| stored.frozen_until) {
            let mut state = self.state();
            state.frozen_until = state.frozen_until.max(Some(frozen_until));
            if let Some(bearer) = state.valid_token(at) {
                return Ok(bearer);
            }
        }
        if let Some(token) = stored.as_ref().and_then(|stored| self.usable_stored(stored, at)) {
            return Ok(self.install(token));
        }
        let signed = self.sign(at)?;
        // If another server was faster, `put` returns the token of that server.
        let latest = shared.put(&signed, stored.map(|stored| stored.at)).await;
        let usable = latest.and_then(|latest| self.usable_stored(&latest, at));
        Ok(self.install(usable.unwrap_or_else(|| from_signed(&signed))))
    }

    /// A stored token, if this server can use it.
    fn usable_stored(&self, stored: &StoredToken, at: Reading) -> Option<BearerToken> {
        let signed = BearerToken::of(stored.token.as_ref()?)?;
        let state = self.state();
        let is_frozen = state.is_frozen(at.now);
        signed.is_preferable(at, state.current.as_ref(), is_frozen).then_some(signed)
    }

    /// Makes a token the current one, and returns it as a header value.
    fn install(&self, signed: BearerToken) -> HeaderValue {
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

fn from_signed(token: &SignedToken) -> BearerToken {
    BearerToken::of(token).expect("a token is base64url and dots")
}

// A signed token and its validity.

/// A signed token as a header value.
struct BearerToken {
    bearer: HeaderValue,
    /// When the token was signed, by the servers' common clock.
    at: Timestamp,
    /// How far the wall clock of the signing server was ahead of the servers' common clock, in
    /// milliseconds. The token contains the time of that wall clock.
    wall_ahead_ms: i64,
}

impl BearerToken {
    /// The token as a header value; `None` if its text cannot be one.
    fn of(token: &SignedToken) -> Option<Self> {
        let mut bearer =
            HeaderValue::try_from(format!("bearer {}", token.text.expose_secret())).ok()?;
        bearer.set_sensitive(true);
        Some(Self { bearer, at: token.at, wall_ahead_ms: token.wall_ahead_ms })
    }

    /// Whether Apple should accept the token. While changes are frozen, it is used for longer.
    fn is_valid(&self, at: Reading, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        if is_frozen {
            return age_ms < KEPT_AGE_MS_MAX;
        }
        age_ms < REFRESH_AGE_MS && self.clock_matches(at)
    }

    /// Whether the wall clock agrees with the wall clock with which the token was signed.
    fn clock_matches(&self, at: Reading) -> bool {
        let clock_set_ms = at.wall.ms_since(at.now) - self.wall_ahead_ms;
        clock_set_ms.abs() <= CLOCK_SET_MS_MAX
    }

    /// Whether this token of another server should replace `own`, the current token of this server.
    /// Apple limits how often a connection changes its token: at least [`REFRESH_AGE_MS_MIN`] must lie between
    /// two changes. A token that replaces `own` must therefore not be due for a refresh within that time.
    fn is_preferable(&self, at: Reading, own: Option<&Self>, is_frozen: bool) -> bool {
        let age_ms = at.now.ms_since(self.at);
        let age_ms_max = if own.is_some() {
            REFRESH_AGE_MS - REFRESH_AGE_MS_MIN
        } else if is_frozen {
            KEPT_AGE_MS_MAX
        } else {
            REFRESH_AGE_MS
        };
        // A token with a time in the future was signed with a wrong clock.
        (-CLOCK_SET_MS_MAX..age_ms_max).contains(&age_ms)
            && self.clock_matches(at)
            && own.is_none_or(|own| own.bearer != self.bearer)
    }
}

// The token that all servers with the same store share.

/// Longest wait for the store. A message waits in the meantime. After that, this server signs a token
/// that it does not share.
const TOKEN_STORE_TIMEOUT: Duration = Duration::from_secs(3);

/// The shared token of one team and key.
struct SharedToken {
    store: Arc<dyn TokenStore>,
    name: TokenName,
}

impl SharedToken {
    fn new(store: Arc<dyn TokenStore>, config: &ApnsConfig) -> Self {
        // Neither id can contain a space, so the name is unambiguous.
        let ids = format!("apns {} {} ", config.team_id, config.key_id);
        let name = sha256(&[ids.as_bytes(), &config.key_digest].concat());
        Self { store, name }
    }

    /// The stored token. The outer `Option` is `None` if the store fails; the inner one is `None` if no
    /// token is stored.
    async fn get(&self) -> Option<Option<StoredToken>> {
        with_timeout(self.store.get(&self.name)).await
    }

    /// Stores a token, unless another server has replaced the token that was signed at `replaces`.
    /// Returns the token that is stored afterwards; `None` if the store fails.
    async fn put(&self, token: &SignedToken, replaces: Option<Timestamp>) -> Option<StoredToken> {
        with_timeout(self.store.put(&self.name, token, replaces)).await
    }

    /// Forbids all servers from replacing the token before `until`.
    async fn freeze(&self, until: Timestamp) {
        with_timeout(self.store.freeze(&self.name, until)).await;
    }
}

/// The result of an operation of the store, if it succeeds in time. A failure is logged.
async fn with_timeout<T>(operation: impl Future<Output = Result<T, TokenStoreError>>) -> Option<T> {
    let timed_result = tokio::time::timeout(TOKEN_STORE_TIMEOUT, operation).await;
    let result = timed_result.unwrap_or(Err(TokenStoreError::Timeout));
    result.inspect_err(|error| {
        let cause = error_chain(error);
        tracing::warn!(
            provider = "apns",
            cause,
            "cannot share the provider token with other servers; this server signs a separate token"
        );
    })
    .ok()
}
