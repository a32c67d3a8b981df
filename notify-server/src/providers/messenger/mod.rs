//! Facebook Messenger (developers.facebook.com, "Send API"). The access token of a page authenticates
//! us. A request is a message to one person, with at most 2,000 characters of text. Meta accepts it only
//! within 24 hours of the person's last message. The error "no such user" means that the address is permanently invalid.
//! Errors about our token or our permissions pause the provider.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use aws_lc_rs::hmac;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use http::uri::Uri;
use http::{HeaderMap, StatusCode};
use notify_core::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::clock::SharedClock;
use crate::keys::hex;
use crate::outbound::retry_after;
use crate::payload::{RenderContext, TooLarge, messenger as payload};
use crate::provider_config::{BaseUrl, KeyDigest, MessengerConfig};
use crate::providers::registry::WeakMap;
use crate::providers::transport::{Pools, ProviderResponse, Sender};
use crate::providers::{
    Address, CredentialCheck, Processing, Provider, ProviderLimit, Reason, RenderedBody,
    RenderedMessage, Scope, SendResult, attempt_deadline, message_id, reason_from_status,
};
use crate::reasons;

/// Version of the Graph API, unless the endpoint names another one. Meta supports a version for about
/// two years.
const VERSION: &str = "v25.0";
/// How long after a person's last message the page may write, in milliseconds: 24 hours.
const WINDOW_MS: i64 = 24 * 60 * 60 * 1_000;

/// The quota of each page, shared by all applications that use its token.
pub(super) type Quotas = WeakMap<KeyDigest, Quota>;

/// Messenger for one application.
pub(super) struct Messenger {
    clock: SharedClock,
    uri: Uri,
    bearer: HeaderValue,
    quota: Arc<Quota>,
    per_second: u32,
    sender: Sender,
}

impl Messenger {
    pub(super) fn new(
        config: &MessengerConfig,
        clock: SharedClock,
        pools: &Pools,
        quotas: &Quotas,
    ) -> Self {
        let base_url = config.base_url();
        let credential = format!("messenger {}", hex(&config.token_digest));
        let token = config.page_access_token.expose_secret();
        let mut bearer = HeaderValue::try_from(format!("Bearer {token}"))
            .expect("a token is checked to be visible ASCII");
        bearer.set_sensitive(true);
        Self {
            clock,
            uri: messages_uri(&base_url, token, config.app_secret.as_ref()),
            bearer,
            quota: quotas.get(config.token_digest, |_| Quota::default()),
            per_second: config.rate_per_second.unwrap_or(PER_SECOND),
            sender: Sender::new(pools, &base_url, credential, config.ca_certificate.clone()),
        }
    }
}

/// The URL for messages. If the app's secret is configured, the URL contains an HMAC-SHA256 of the token,
/// which proves that the sender knows the secret (Meta, "Securing Graph API Requests").
fn messages_uri(base_url: &BaseUrl, token: &str, app_secret: Option<&SecretString>) -> Uri {
    let version = if names_version(base_url) { String::new() } else { format!("/{VERSION}") };
    let proof = app_secret.map_or_else(String::new, |secret| {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret.expose_secret().as_bytes());
        let proof = hmac::sign(&key, token.as_bytes());
        format!("?appsecret_proof={}", hex(proof.as_ref()))
    });
    let uri = format!("{base_url}{version}/me/messages{proof}");
    uri.parse().expect("a base url is checked, and what follows it is plain")
}

/// Whether an endpoint ends in a version, as in `/v26.0`.
fn names_version(base_url: &BaseUrl) -> bool {
    let last_segment = base_url.prefix.rsplit('/').next().unwrap_or_default();
    let version = last_segment.strip_prefix('v').and_then(|number| number.split_once('.'));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    version.is_some_and(|(major, minor)| is_digits(major) && is_digits(minor))
}

impl Messenger {
    /// Sends a message, and records what Meta says about the quota of the page.
    async fn post(
        &self,
        body: &Bytes,
        headers: impl Fn() -> HeaderMap,
        deadline: Instant,
    ) -> SendResult {
        let reply = match self.sender.post(&self.uri, headers, body, deadline).await {
            Ok(reply) => reply,
            Err(failure) => return failure.into(),
        };
        let now = self.clock.now();
        let usage = read_usage(&reply.headers);
        let mut answer = classify(&reply, self.clock.wall());
        if let SendResult::Throttle { after, .. } = &mut answer {
            let requested = usage.and_then(|usage| usage.regain).max(*after);
            *after = Some(self.quota.record_throttle(requested, now));
        } else if matches!(answer, SendResult::Delivered { .. }) {
            self.quota.record_delivery();
        }
        self.quota.record_usage(usage, now);
        answer
    }
}

#[async_trait::async_trait]
impl Provider for Messenger {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let body = RenderedBody::Forms(payload::render(context)?);
        let mut headers = HeaderMap::with_capacity(4);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        Ok(RenderedMessage { headers, body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::Messenger { recipient, last_inbound_at }, RenderedBody::Forms(forms)) =
            (to, &rendered.body)
        else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        // Meta counts refused messages against the page, so a message outside the window is not sent. If
        // the time of the person's last message is unknown, the message is sent.
        let now = self.clock.now();
        if last_inbound_at.is_some_and(|at| now.ms_since(at) > WINDOW_MS) {
            return SendResult::NotPermitted { reason: OUTSIDE_WINDOW.into() };
        }
        let deadline = attempt_deadline();
        let headers = || {
            let mut headers = rendered.headers.clone();
            headers.insert(AUTHORIZATION, self.bearer.clone());
            headers
        };
        let answer = self.post(&forms.first.put(recipient), headers, deadline).await;
        match (&answer, &forms.plain) {
            // Meta refused a part of the message, so the message was certainly not shown. It is sent again
            // without its parts.
            (SendResult::InvalidMessage { .. }, Some(plain)) => {
                self.post(&plain.put(recipient), headers, deadline).await
            }
            _ => answer,
        }
    }

    /// Reads the page with `GET /me`, which sends no message.
    async fn check(&self) -> CredentialCheck {
        let deadline = attempt_deadline();
        let url = self.uri.to_string().replacen("/me/messages", "/me", 1);
        let headers = HeaderMap::from_iter([(AUTHORIZATION, self.bearer.clone())]);
        match self.sender.http1().get(&url, headers, deadline).await {
            Ok(reply) if reply.status == StatusCode::OK => {
                CredentialCheck::passed("the page's token is accepted")
            }
            Ok(reply) => CredentialCheck::from_result(&classify(&reply, self.clock.wall())),
            Err(failure) => CredentialCheck::from_result(&failure.into()),
        }
    }

    fn max_concurrency(&self) -> usize {
        self.sender.max_concurrency()
    }

    fn limit(&self, now: Timestamp) -> ProviderLimit {
        self.quota.limit(self.per_second, now)
    }
}

// The quota of a page. Meta reports in its usage headers how much of the quota is used (Meta, "Rate
// Limits"). If Meta asks to wait without giving a time, the quota also chooses the wait.

/// Messages a second of a page, unless configured otherwise. Above 40 messages a second the inbox of the
/// page stops working.
const PER_SECOND: u32 = 30;
/// Share of the quota at which a page slows down, in percent.
const SLOW_PERCENT: u32 = 80;
/// Share of the quota at which a page stops sending, in percent.
const FULL_PERCENT: u32 = 100;
/// How long a reported share is valid, in milliseconds: an hour, which is the window of the quota.
const USAGE_MS: i64 = 60 * 60 * 1_000;
/// First wait if Meta gives no time. Each further wait doubles.
const WAIT_FIRST: Duration = Duration::from_secs(60);
/// Longest wait if Meta gives no time.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);
/// Longest wait requested by Meta that is honoured, in minutes.
const REGAIN_MINUTES_MAX: u64 = 24 * 60;

/// The usage headers of one response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Usage {
    /// The share of the most used quota, in percent, at most 100.
    percent: u32,
    /// How long until access is regained, if Meta reports it.
    regain: Option<Duration>,
}

/// One entry of a usage header: how much of each limit is used, in percent.
#[derive(Default, Deserialize)]
#[serde(default)]
struct QuotaUsage {
    call_count: f64,
    total_time: f64,
    total_cputime: f64,
    /// In minutes.
    estimated_time_to_regain_access: u64,
}

impl QuotaUsage {
    /// The largest of the used parts, in percent, at most 100.
    fn percent(&self) -> u32 {
        let fullest = self.call_count.max(self.total_time).max(self.total_cputime);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and 100"
        )]
        let percent = fullest.clamp(0.0, f64::from(FULL_PERCENT)) as u32;
        percent
    }
}

/// Reads `X-App-Usage` and `X-Business-Use-Case-Usage`; `None` if both are missing.
fn read_usage(headers: &HeaderMap) -> Option<Usage> {
    let app: Option<QuotaUsage> = read_json(headers, "x-app-usage");
    let cases: Option<HashMap<String, Vec<QuotaUsage>>> =
        read_json(headers, "x-business-use-case-usage");
    let all = || app.iter().chain(cases.iter().flat_map(HashMap::values).flatten());
    let percent = all().map(QuotaUsage::percent).max()?;
    let longest_minutes =
        all().map(|shares| shares.estimated_time_to_regain_access).max().unwrap_or_default();
    let minutes = longest_minutes.min(REGAIN_MINUTES_MAX);
    let regain = (minutes > 0).then(|| Duration::from_secs(60 * minutes));
    Some(Usage { percent, regain })
}

/// Checks that what the usage headers say is within its limits.
#[cfg(any(test, fuzzing))]
pub(super) fn check_usage(headers: &HeaderMap) {
    let Some(Usage { percent, regain }) = read_usage(headers) else { return };
    assert!(percent <= FULL_PERCENT, "{percent}");
    let longest = Duration::from_secs(60 * REGAIN_MINUTES_MAX);
    assert!(regain.is_none_or(|regain| regain <= longest), "{regain:?}");
}

/// Parses a header field as JSON; `None` if it is missing or invalid.
fn read_json<T: DeserializeOwned>(headers: &HeaderMap, name: &str) -> Option<T> {
    serde_json::from_slice(headers.get(name)?.as_bytes()).ok()
}

/// The quota of one page.
#[derive(Debug, Default)]
pub(super) struct Quota(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// The last reported share, and when it was reported.
    share: Option<(u32, Timestamp)>,
    /// Nothing is sent before this time.
    closed_until: Option<Timestamp>,
    /// Consecutive waits without a time from Meta.
    waits: u32,
}

impl Quota {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nothing panics under this lock")
    }

    /// Records the usage headers of a response.
    fn record_usage(&self, usage: Option<Usage>, now: Timestamp) {
        let Some(usage) = usage else { return };
        let mut state = self.state();
        state.share = Some((usage.percent, now));
        if usage.percent >= FULL_PERCENT {
            let until = now.plus_ms(to_ms(usage.regain.unwrap_or(WAIT_FIRST)));
            state.closed_until = state.closed_until.max(Some(until));
        }
    }

    /// Records that Meta accepted a message. The next wait starts again at [`WAIT_FIRST`].
    fn record_delivery(&self) {
        self.state().waits = 0;
    }

    /// Records that Meta asked to slow down, for the `requested` time if it gave one. Returns how long to
    /// wait. Without a requested time, responses that arrive during a wait do not extend it: they belong
    /// to requests that were in flight when the wait began.
    fn record_throttle(&self, requested: Option<Duration>, now: Timestamp) -> Duration {
        let mut state = self.state();
        if requested.is_none()
            && let Some(until) = state.closed_until.filter(|until| *until > now)
        {
            return Duration::from_millis(until.ms_since(now).unsigned_abs());
        }
        let wait = requested.unwrap_or_else(|| {
            let doubled = WAIT_FIRST.saturating_mul(1 << state.waits.min(16));
            state.waits = state.waits.saturating_add(1);
            doubled.min(WAIT_MAX)
        });
        state.closed_until = state.closed_until.max(Some(now.plus_ms(to_ms(wait))));
        wait
    }

    /// The current limit. From [`SLOW_PERCENT`] of the quota it falls below `per_second`, down to one
    /// message a second when the quota is used up.
    fn limit(&self, per_second: u32, now: Timestamp) -> ProviderLimit {
        let mut state = self.state();
        if let Some(until) = state.closed_until.filter(|until| *until > now) {
            return ProviderLimit::Exhausted { until };
        }
        state.closed_until = None;
        let share = state.share.filter(|(_, at)| now.ms_since(*at) < USAGE_MS);
        let percent = share.map_or(0, |(percent, _)| percent);
        if percent < SLOW_PERCENT {
            return ProviderLimit::PerSecond(per_second);
        }
        let left = FULL_PERCENT.saturating_sub(percent);
        let slowed = per_second.saturating_mul(left) / (FULL_PERCENT - SLOW_PERCENT + 1);
        ProviderLimit::PerSecond(slowed.max(1))
    }
}

fn to_ms(wait: Duration) -> i64 {
    i64::try_from(wait.as_millis()).unwrap_or(i64::MAX)
}

// Classification of the Send API's responses (Meta, "Error Codes"; deviations are noted below). Code
// and subcode of the Graph error decide first, then the HTTP status.

/// The reason if the person's last message is too old, so that the page may not write.
pub(super) const OUTSIDE_WINDOW: &str = "outside_messaging_window";

#[derive(Deserialize)]
struct Success {
    message_id: Option<String>,
}

#[derive(Deserialize)]
struct Failed {
    error: GraphError,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct GraphError {
    code: u64,
    error_subcode: u64,
}

/// The class of a row of the table.
#[derive(Clone, Copy)]
enum ErrorClass {
    Retry,
    Throttle,
    AuthRejected,
    NotPermitted,
    Unregistered,
    InvalidMessage,
}

/// The subcodes that a row matches.
enum SubcodeMatch {
    Is(u64),
    None,
    Any,
}

/// Code, subcode, class and reason. The first matching row decides.
///
/// Of all errors about a person who cannot be reached, only "no such user" disables the device. If the
/// person blocked the page (551, 200/1545041) or cannot receive messages (10/2018108), the delivery fails
/// and the device is kept, even after many failures. The person can revert both at any time, and the
/// 24-hour window soon ends the attempts.
const ROWS: &[(u64, SubcodeMatch, ErrorClass, &str)] = &[
    (1200, SubcodeMatch::Any, ErrorClass::Retry, "temporarily_unavailable"),
    // Meta also reports this for some people who blocked the page. It is retried because it usually means
    // an outage of some hours, and the retries end within a day.
    (2, SubcodeMatch::Any, ErrorClass::Retry, "service_unavailable"),
    (1, SubcodeMatch::Is(99), ErrorClass::AuthRejected, "permission_missing"),
    (1, SubcodeMatch::Any, ErrorClass::Retry, "unknown_error"),
    (4, SubcodeMatch::Is(2_018_022), ErrorClass::Throttle, "phone_number_limit"),
    (4, SubcodeMatch::Any, ErrorClass::Throttle, "app_limit"),
    (17, SubcodeMatch::Any, ErrorClass::Throttle, "user_limit"),
    (32, SubcodeMatch::Any, ErrorClass::Throttle, "page_limit"),
    // Meta found that the messages bother this person, so there is no retry.
    (613, SubcodeMatch::Is(1_893_016), ErrorClass::NotPermitted, "abuse_warning"),
    (613, SubcodeMatch::Any, ErrorClass::Throttle, "custom_limit"),
    (80_006, SubcodeMatch::Any, ErrorClass::Throttle, "messenger_limit"),
    (10, SubcodeMatch::Is(2_018_278), ErrorClass::NotPermitted, OUTSIDE_WINDOW),
    (10, SubcodeMatch::Is(2_018_065), ErrorClass::NotPermitted, OUTSIDE_WINDOW),
    (10, SubcodeMatch::Is(2_018_108), ErrorClass::NotPermitted, "person_cannot_receive"),
    (10, SubcodeMatch::None, ErrorClass::AuthRejected, "permission_missing"),
    (551, SubcodeMatch::Any, ErrorClass::NotPermitted, "person_not_available"),
    (200, SubcodeMatch::Is(1_545_041), ErrorClass::NotPermitted, "person_not_available"),
    (200, SubcodeMatch::Is(2_018_028), ErrorClass::AuthRejected, "app_not_live"),
    (200, SubcodeMatch::Is(2_018_027), ErrorClass::AuthRejected, "permission_missing"),
    (200, SubcodeMatch::Is(2_018_021), ErrorClass::AuthRejected, "permission_missing"),
    (200, SubcodeMatch::None, ErrorClass::AuthRejected, "permission_missing"),
    (230, SubcodeMatch::Any, ErrorClass::AuthRejected, "permission_missing"),
    (100, SubcodeMatch::Is(2_018_001), ErrorClass::Unregistered, "no_such_user"),
    (100, SubcodeMatch::Is(2_018_109), ErrorClass::InvalidMessage, "attachment_too_large"),
    (100, SubcodeMatch::Is(2_018_034), ErrorClass::InvalidMessage, "message_empty"),
    (100, SubcodeMatch::Any, ErrorClass::InvalidMessage, "invalid_parameter"),
    (190, SubcodeMatch::Any, ErrorClass::AuthRejected, "access_token_refused"),
    (368, SubcodeMatch::Any, ErrorClass::AuthRejected, "blocked_for_policy"),
];

/// Classifies a response.
pub(super) fn classify(reply: &ProviderResponse, wall: Timestamp) -> SendResult {
    if reply.status == StatusCode::OK {
        return match serde_json::from_slice::<Success>(&reply.body) {
            Ok(success) => SendResult::Delivered {
                message_id: success.message_id.as_deref().and_then(message_id),
            },
            // The body is incomplete or not JSON. Meta may have accepted the message, and it would not
            // recognise a repeated message.
            Err(_) => SendResult::Retry {
                reason: reason_from_status(reply.status, ""),
                after: None,
                outcome: Processing::Unknown,
            },
        };
    }
    let failed: Option<Failed> = serde_json::from_slice(&reply.body).ok();
    let answer = match &failed {
        Some(Failed { error }) => {
            by_code(error).unwrap_or_else(|| by_unknown_code(reply.status, error))
        }
        None => by_http_status(reply.status),
    };
    answer.with_retry_after(retry_after(&reply.headers, wall))
}

/// Classifies a Graph error by the table; `None` if the table has no matching row.
fn by_code(error: &GraphError) -> Option<SendResult> {
    let (_, _, class, word) = ROWS.iter().find(|(code, subcode, _, _)| {
        let subcode_matches = match subcode {
            SubcodeMatch::Is(subcode) => error.error_subcode == *subcode,
            SubcodeMatch::None => error.error_subcode == 0,
            SubcodeMatch::Any => true,
        };
        error.code == *code && subcode_matches
    })?;
    let reason: Reason = match error.error_subcode {
        0 => format!("{word} ({})", error.code).into(),
        subcode => format!("{word} ({}/{subcode})", error.code).into(),
    };
    Some(match class {
        ErrorClass::Retry => SendResult::failed(reason),
        ErrorClass::Throttle => {
            SendResult::Throttle { reason, after: None, scope: Scope::Provider }
        }
        ErrorClass::AuthRejected => SendResult::AuthRejected { reason },
        ErrorClass::NotPermitted => SendResult::NotPermitted { reason },
        // The id of a person is valid for one page only. The token of another page would give the same
        // error for every person, so the answer is ambiguous.
        ErrorClass::Unregistered => {
            SendResult::Unregistered { reason, ambiguous: true, since: None }
        }
        ErrorClass::InvalidMessage => SendResult::InvalidMessage { reason },
    })
}

/// Classifies a Graph error that is not in the table.
fn by_unknown_code(http: StatusCode, error: &GraphError) -> SendResult {
    let reason = reason_from_status(http, &format!("code_{}_{}", error.code, error.error_subcode));
    match http.as_u16() {
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// Classifies a response without Meta's codes: an edge server sent it, or the endpoint is not Meta's.
fn by_http_status(http: StatusCode) -> SendResult {
    let reason = reason_from_status(http, "");
    match http.as_u16() {
        // The endpoint is wrong. Without a code this never means a dead address.
        401 | 404 => SendResult::AuthRejected { reason },
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}
