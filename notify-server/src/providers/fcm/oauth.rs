//! Access tokens of a service account (RFC 7523). Each credential has one current token. One of the
//! tasks that need the token fetches it, and another one fetches a new token five minutes before the
//! current one expires.

use std::sync::{Arc, Mutex};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use jsonwebtoken::{Algorithm, Header};
use notify_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, timeout_at};

use crate::clock::{Reading, SharedClock};
use crate::outbound::retry_after;
use crate::provider_config::{ExtraRoots, FcmConfig, KeyDigest, ServiceAccount};
use crate::providers::reason_from_status;
use crate::providers::registry::WeakMap;
use crate::providers::transport::{Http1, ProviderResponse, RemoteTime};
use crate::providers::{Processing, Reason, SendResult};
use crate::reasons;

/// The permission that the token grants.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// Lifetime of an assertion, in seconds. It is the longest that Google accepts.
const ASSERTION_SECONDS: i64 = 3_600;
/// How long before its expiry a token is replaced, in milliseconds.
const REFRESH_BEFORE_END_MS: i64 = 5 * 60_000;
/// Longest lifetime of a token that we believe, in seconds.
const LIFE_SECONDS_MAX: i64 = 86_400;
/// How long the failure of a fetch is also returned to later callers.
const FAILURE_KEPT: Duration = Duration::from_secs(1);
/// Shortest time between two fetches caused by a 401, in milliseconds. If new tokens are refused as
/// well, each message would otherwise fetch another token.
const FORCED_INTERVAL_MS: i64 = 30_000;

/// Identifies a credential without containing its private key.
type TokenKey = (String, String, Option<String>, KeyDigest, Option<ExtraRoots>);

/// The token sources of all service accounts. A source exists as long as some application uses it.
#[derive(Default)]
pub(in crate::providers) struct TokenSources(WeakMap<TokenKey, TokenSource>);

impl TokenSources {
    /// When the oldest current token was granted.
    pub(in crate::providers) fn oldest_granted_at(&self) -> Option<Timestamp> {
        let granted_at =
            |source: &TokenSource| source.lock().as_ref().map(|token| token.granted_at);
        self.0.all().iter().filter_map(|(_, source)| granted_at(source)).min()
    }

    /// The token source of a service account, shared by all applications that use the account.
    pub(super) fn get(&self, config: &FcmConfig, http: &Http1) -> Arc<TokenSource> {
        let account = &config.service_account;
        let key = (
            account.token_uri.to_string(),
            account.client_email.clone(),
            account.private_key_id.clone(),
            account.key_digest,
            config.ca_certificate.clone(),
        );
        self.0.get(key, |_| TokenSource {
            account: account.clone(),
            http: http.clone(),
            current: Mutex::default(),
            refresh: tokio::sync::Mutex::default(),
        })
    }
}

/// Fetches and caches the access token of one service account.
pub(in crate::providers) struct TokenSource {
    account: ServiceAccount,
    http: Http1,
    current: Mutex<Option<CachedToken>>,
    /// Locked by the task that fetches a token.
    refresh: tokio::sync::Mutex<RefreshState>,
}

#[derive(Default)]
struct RefreshState {
    /// When the last fetch failed, and with which result; `None` if it succeeded.
    failed: Option<(Instant, SendResult)>,
    /// When a token was last fetched because of a 401.
    forced_at: Option<Timestamp>,
}

#[derive(Clone)]
struct CachedToken {
    bearer: HeaderValue,
    granted_at: Timestamp,
    expires_at: Timestamp,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'static str,
    aud: &'a str,
    iat: i64,
    exp: i64,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ErrorResponse {
    error: String,
}

impl TokenSource {
    /// The value of the `authorization` header for a request now. `refused` is a value that Google has
    /// refused; it is not returned again. Fetches a new token if necessary.
    ///
    /// # Errors
    /// The result with which the attempt ends, if no token is available.
    pub(super) async fn get(
        &self,
        clock: &SharedClock,
        refused: Option<&HeaderValue>,
        deadline: Instant,
    ) -> Result<HeaderValue, SendResult> {
        let called_at = Instant::now();
        if let Some(token) = self.usable(clock.now(), refused, REFRESH_BEFORE_END_MS) {
            return Ok(token);
        }
        let Ok(mut refresh) = timeout_at(deadline, self.refresh.lock()).await else {
            return Err(unsent(Reason::Borrowed("oauth_timeout")));
        };
        let now = clock.now();
        if let Some(token) = self.usable(now, refused, REFRESH_BEFORE_END_MS) {
            return Ok(token);
        }
        if refused.is_some()
            && refresh.forced_at.is_some_and(|at| now.ms_since(at) < FORCED_INTERVAL_MS)
        {
            return Err(SendResult::AuthRejected { reason: Reason::Borrowed("UNAUTHENTICATED") });
        }
        let answer = match &refresh.failed {
            // Callers that waited for this fetch share its failure. If each of them fetched again, they
            // would overload an endpoint that fails.
            Some((at, answer)) if *at >= called_at || at.elapsed() < FAILURE_KEPT => answer.clone(),
            Some(_) | None => match self.fetch(clock.read(), deadline).await {
                Ok(token) => {
                    refresh.failed = None;
                    // This is recorded only after a success, because a failed fetch does not show
                    // whether a new token would be accepted.
                    if refused.is_some() {
                        refresh.forced_at = Some(now);
                    }
                    let bearer = token.bearer.clone();
                    *self.lock() = Some(token);
                    return Ok(bearer);
                }
                Err(answer) => {
                    refresh.failed = Some((Instant::now(), answer.clone()));
                    answer
                }
            },
        };
        // The fetch failed, but the current token may still be valid for some minutes.
        self.usable(now, refused, 0).ok_or(answer)
    }

    /// The time of the token endpoint.
    pub(super) fn remote_time(&self) -> &RemoteTime {
        self.http.remote_time()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<CachedToken>> {
        self.current.lock().expect("nothing panics under this lock")
    }

    /// The current token as a header value, if it is valid for more than `before_end_ms` milliseconds
    /// and was not refused.
    fn usable(
        &self,
        now: Timestamp,
        refused: Option<&HeaderValue>,
        before_end_ms: i64,
    ) -> Option<HeaderValue> {
        let current = self.lock();
        let token = current.as_ref()?;
        let is_fresh = token.expires_at.ms_since(now) > before_end_ms;
        (is_fresh && refused != Some(&token.bearer)).then(|| token.bearer.clone())
    }

    /// Fetches a new token from the token endpoint.
    async fn fetch(&self, at: Reading, deadline: Instant) -> Result<CachedToken, SendResult> {
        let assertion = self
            .assertion(at.wall)
            .ok_or(SendResult::AuthRejected { reason: reasons::SIGNING_FAILED.into() })?;
        let form = format!(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}"
        );
        let mut headers = HeaderMap::new();
        let form_type = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, form_type);
        let url = self.account.token_uri.as_str();
        let reply = self
            .http
            .post(url, headers, form.into(), deadline)
            .await
            .map_err(|failure| unsent(format!("oauth {}", failure.reason).into()))?;
        parse_token_response(&reply, at)
    }

    /// A signed assertion for the token endpoint; `None` if signing fails.
    fn assertion(&self, wall: Timestamp) -> Option<String> {
        let mut header = Header::new(Algorithm::RS256);
        header.kid.clone_from(&self.account.private_key_id);
        let iat = wall.as_seconds();
        let claims = Claims {
            iss: &self.account.client_email,
            scope: SCOPE,
            aud: self.account.token_uri.as_str(),
            iat,
            exp: iat + ASSERTION_SECONDS,
        };
        jsonwebtoken::encode(&header, &claims, &self.account.private_key).ok()
    }
}

/// Parses the response of the token endpoint. A refusal means that our credentials are wrong; any other
/// failure is transient.
fn parse_token_response(reply: &ProviderResponse, at: Reading) -> Result<CachedToken, SendResult> {
    let status = reply.status;
    if status.is_success() {
        let response = serde_json::from_slice::<TokenResponse>(&reply.body).ok();
        return response
            .and_then(|response| cached_token(&response, at.now))
            .ok_or_else(|| unsent(Reason::Borrowed("oauth_unreadable")));
    }
    let error: ErrorResponse = serde_json::from_slice(&reply.body).unwrap_or_default();
    let reason = Reason::Owned(format!("oauth {}", reason_from_status(status, &error.error)));
    if status.is_client_error() && !matches!(status.as_u16(), 408 | 429) {
        return Err(SendResult::AuthRejected { reason });
    }
    let after = retry_after(&reply.headers, at.wall);
    Err(SendResult::Retry { reason, after, outcome: Processing::NotProcessed })
}

/// Checks the token in a response of the token endpoint.
///
/// # Errors
/// The result of a message that was not sent, because the response has no token.
#[cfg(any(test, fuzzing))]
pub(in crate::providers) fn check_token_response(
    reply: &ProviderResponse,
    wall: Timestamp,
) -> Result<(), SendResult> {
    let token = parse_token_response(reply, Reading { now: wall, wall })?;
    let life_ms = token.expires_at.ms_since(token.granted_at);
    assert!((0..=LIFE_SECONDS_MAX * 1_000).contains(&life_ms), "{life_ms}");
    assert!(token.bearer.is_sensitive());
    Ok(())
}

fn cached_token(response: &TokenResponse, now: Timestamp) -> Option<CachedToken> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", response.access_token)).ok()?;
    bearer.set_sensitive(true);
    let life_seconds = response.expires_in.unwrap_or(ASSERTION_SECONDS).clamp(0, LIFE_SECONDS_MAX);
    Some(CachedToken { bearer, granted_at: now, expires_at: now.plus_ms(life_seconds * 1_000) })
}

/// The result of a message that was not sent, because no token is available.
fn unsent(reason: Reason) -> SendResult {
    SendResult::Retry { reason, after: None, outcome: Processing::NotProcessed }
}
