//! Access tokens of a service account (RFC 7523): one for each credential, fetched by one of those
//! who wait for it, and again five minutes before it ends.

use std::sync::{Arc, Mutex};

use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use jsonwebtoken::{Algorithm, Header};
use notify_core::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::{Duration, Instant, timeout_at};

use crate::clock::{Reading, SharedClock};
use crate::outbound::retry_after;
use crate::provider_config::{ExtraRoots, FcmConfig, KeyDigest, ServiceAccount};
use crate::providers::registry::Shared;
use crate::providers::transport::{Http1, Reply};
use crate::providers::word;
use crate::providers::{Answer, Certainty, Reason};
use crate::reasons;

/// What the token is for.
const SCOPE: &str = "https://www.googleapis.com/auth/firebase.messaging";
/// Life of an assertion, in seconds: the longest that Google takes.
const ASSERTION_SECONDS: i64 = 3_600;
/// How long before its end a token is replaced, in milliseconds.
const REFRESH_BEFORE_END_MS: i64 = 5 * 60_000;
/// Longest life of a token that is believed, in seconds.
const LIFE_SECONDS_MAX: i64 = 86_400;
/// How long a failed exchange answers for those that come after it.
const FAILURE_KEPT: Duration = Duration::from_secs(1);
/// Least time between two exchanges that a 401 asks for, in milliseconds: where fresh tokens are
/// refused as well, each message would fetch another.
const FORCED_INTERVAL_MS: i64 = 30_000;

/// Names a token without holding its key.
type TokenKey = (String, String, Option<String>, KeyDigest, Option<ExtraRoots>);

/// All access tokens of the server, each as long as some application uses it.
#[derive(Default)]
pub(in crate::providers) struct AccessTokens(Shared<TokenKey, AccessToken>);

impl AccessTokens {
    /// When the oldest token in use was granted.
    pub(in crate::providers) fn oldest(&self) -> Option<Timestamp> {
        let granted = |token: &AccessToken| token.lock().as_ref().map(|granted| granted.at);
        self.0.all().iter().filter_map(|(_, token)| granted(token)).min()
    }

    /// The token of that account.
    pub(super) fn get(&self, config: &FcmConfig, http: &Http1) -> Arc<AccessToken> {
        let account = &config.service_account;
        let key = (
            account.token_uri.to_string(),
            account.client_email.clone(),
            account.private_key_id.clone(),
            account.key_digest,
            config.ca_certificate.clone(),
        );
        self.0.get(key, |_| AccessToken {
            account: account.clone(),
            http: http.clone(),
            current: Mutex::default(),
            exchange: tokio::sync::Mutex::default(),
        })
    }
}

/// The token of one service account.
pub(in crate::providers) struct AccessToken {
    account: ServiceAccount,
    http: Http1,
    current: Mutex<Option<Granted>>,
    /// Held by the one who fetches.
    exchange: tokio::sync::Mutex<Exchange>,
}

#[derive(Default)]
struct Exchange {
    failed: Option<(Instant, Answer)>,
    forced_at: Option<Timestamp>,
}

#[derive(Clone)]
struct Granted {
    bearer: HeaderValue,
    at: Timestamp,
    ends_at: Timestamp,
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
struct Grant {
    access_token: String,
    #[serde(default)]
    expires_in: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Denied {
    error: String,
}

impl AccessToken {
    /// The `authorization` value to send now, other than the one that was `refused`.
    ///
    /// # Errors
    /// What the attempt came to, when there is no token.
    pub(super) async fn get(
        &self,
        clock: &SharedClock,
        refused: Option<&HeaderValue>,
        deadline: Instant,
    ) -> Result<HeaderValue, Answer> {
        let came_at = Instant::now();
        if let Some(granted) = self.usable(clock.now(), refused, REFRESH_BEFORE_END_MS) {
            return Ok(granted);
        }
        let Ok(mut exchange) = timeout_at(deadline, self.exchange.lock()).await else {
            return Err(unsent(Reason::Borrowed("oauth_timeout")));
        };
        let now = clock.now();
        if let Some(granted) = self.usable(now, refused, REFRESH_BEFORE_END_MS) {
            return Ok(granted);
        }
        if refused.is_some()
            && exchange.forced_at.is_some_and(|at| now.ms_since(at) < FORCED_INTERVAL_MS)
        {
            return Err(Answer::Config { reason: Reason::Borrowed("UNAUTHENTICATED") });
        }
        let answer = match &exchange.failed {
            // Many wait for one exchange: each trying again would be a storm on a sick endpoint.
            Some((at, answer)) if *at >= came_at || at.elapsed() < FAILURE_KEPT => answer.clone(),
            Some(_) | None => match self.fetch(clock.read(), deadline).await {
                Ok(granted) => {
                    exchange.failed = None;
                    // Only now: one that failed was no answer about fresh tokens.
                    exchange.forced_at = refused.map_or(exchange.forced_at, |_| Some(now));
                    let bearer = granted.bearer.clone();
                    *self.lock() = Some(granted);
                    return Ok(bearer);
                }
                Err(answer) => {
                    exchange.failed = Some((Instant::now(), answer.clone()));
                    answer
                }
            },
        };
        // What is left of the old one is better than nothing.
        self.usable(now, refused, 0).ok_or(answer)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Granted>> {
        self.current.lock().expect("nothing panics under this lock")
    }

    fn usable(
        &self,
        now: Timestamp,
        refused: Option<&HeaderValue>,
        before_end_ms: i64,
    ) -> Option<HeaderValue> {
        let current = self.lock();
        let granted = current.as_ref()?;
        let is_fresh = granted.ends_at.ms_since(now) > before_end_ms;
        (is_fresh && refused != Some(&granted.bearer)).then(|| granted.bearer.clone())
    }

    async fn fetch(&self, at: Reading, deadline: Instant) -> Result<Granted, Answer> {
        let assertion = self
            .assertion(at.wall)
            .ok_or(Answer::Config { reason: reasons::SIGNING_FAILED.into() })?;
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
        read_grant(&reply, at)
    }

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

/// What the token endpoint said: refusals are our credentials, everything else may pass (B39).
fn read_grant(reply: &Reply, at: Reading) -> Result<Granted, Answer> {
    let status = reply.status;
    if status.is_success() {
        let grant = serde_json::from_slice::<Grant>(&reply.body).ok();
        return grant
            .and_then(|grant| granted(&grant, at.now))
            .ok_or_else(|| unsent(Reason::Borrowed("oauth_unreadable")));
    }
    let denied: Denied = serde_json::from_slice(&reply.body).unwrap_or_default();
    let reason = Reason::Owned(format!("oauth {}", word(status, &denied.error)));
    if status.is_client_error() && !matches!(status.as_u16(), 408 | 429) {
        return Err(Answer::Config { reason });
    }
    let after = retry_after(&reply.headers, at.wall);
    Err(Answer::Retry { reason, after, outcome: Certainty::NotProcessed })
}

fn granted(grant: &Grant, now: Timestamp) -> Option<Granted> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", grant.access_token)).ok()?;
    bearer.set_sensitive(true);
    let life_seconds = grant.expires_in.unwrap_or(ASSERTION_SECONDS).clamp(0, LIFE_SECONDS_MAX);
    Some(Granted { bearer, at: now, ends_at: now.plus_ms(life_seconds * 1_000) })
}

fn unsent(reason: Reason) -> Answer {
    Answer::Retry { reason, after: None, outcome: Certainty::NotProcessed }
}
