//! Apple Push Notification service (developer.apple.com, "Sending notification requests to APNs"). It
//! accepts only HTTP/2, provider tokens and at most 4,096 bytes of JSON. Status 410 and `BadDeviceToken`
//! mean that the device token is permanently invalid. Errors about our credentials pause the provider.

#[cfg(test)]
mod tests;
mod token;

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use notify_core::{IosEnv, Timestamp};
use serde::Deserialize;
use uuid::Uuid;

pub(super) use self::token::{ProviderToken, ProviderTokens};
use crate::clock::SharedClock;
use crate::outbound::retry_after;
use crate::payload::apns::TOPIC;
use crate::payload::{RenderContext, TooLarge, apns as payload};
use crate::provider_config::{ApnsConfig, BaseUrl};
use crate::providers::transport::{Pool, Pools, Protocols, STREAMS_ASSUMED, http2_post};
use crate::providers::{
    Address, CredentialCheck, GappedMessage, Provider, Reason, RenderedBody, RenderedMessage,
    Scope, SendResult, attempt_deadline, message_id, reason_from_status,
};
use crate::reasons;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// APNs for one application.
pub(super) struct Apns {
    clock: SharedClock,
    token: Arc<ProviderToken>,
    topic: HeaderValue,
    production: Host,
    sandbox: Host,
}

/// One of the two hosts, with the connections to it.
struct Host {
    pool: Arc<Pool>,
    scheme: Scheme,
    authority: Authority,
    /// The path of a request up to the device token.
    path: String,
}

impl Apns {
    pub(super) fn new(
        config: &ApnsConfig,
        clock: SharedClock,
        pools: &Pools,
        tokens: &ProviderTokens,
    ) -> Self {
        let host = |env| {
            let base_url = config.base_url_for(env);
            // Apple binds a connection to the team and the key of its first request.
            let credential = format!("apns {} {}", config.team_id, config.key_id);
            let trust = config.ca_certificate.clone();
            let pool = pools.get(&base_url, credential, trust, Protocols::Http2);
            Host::new(&base_url, pool)
        };
        Self {
            clock,
            token: tokens.get(config),
            topic: HeaderValue::from_str(&config.topic).expect("a topic is checked to be ASCII"),
            production: host(IosEnv::Production),
            sandbox: host(IosEnv::Sandbox),
        }
    }

    fn host(&self, env: IosEnv) -> &Host {
        match env {
            IosEnv::Production => &self.production,
            IosEnv::Sandbox => &self.sandbox,
        }
    }
}

impl Host {
    fn new(base_url: &BaseUrl, pool: Arc<Pool>) -> Self {
        Self {
            pool,
            scheme: if base_url.tls { Scheme::HTTPS } else { Scheme::HTTP },
            authority: base_url.authority.parse().expect("the authority of a URL is one"),
            path: format!("{}/3/device/", base_url.prefix),
        }
    }

    /// The URL of the requests to that device token.
    fn uri(&self, token: &str) -> Uri {
        let mut path = String::with_capacity(self.path.len() + token.len());
        path.push_str(&self.path);
        push_path_segment(&mut path, token);
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.scheme.clone());
        parts.authority = Some(self.authority.clone());
        let path = PathAndQuery::from_maybe_shared(Bytes::from(path));
        parts.path_and_query = Some(path.expect("escaped where it has to be"));
        Uri::from_parts(parts).expect("all three parts are there")
    }
}

/// Appends a device token to a path. Hexadecimal tokens are written in lower case. Any other token is
/// escaped, and Apple decides about it.
fn push_path_segment(path: &mut String, token: &str) {
    if token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        let start = path.len();
        path.push_str(token);
        path[start..].make_ascii_lowercase();
        return;
    }
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.extend([byte >> 4, byte & 15].map(|digit| char::from(HEX[usize::from(digit)])));
        }
    }
}

#[async_trait::async_trait]
impl Provider for Apns {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let payload = payload::render(context)?;
        let mut headers = payload.headers;
        headers.insert(TOPIC, self.topic.clone());
        // A placeholder: it reserves the entry, so that the copy of the map for each device need not
        // grow.
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Ok(RenderedMessage { headers, body: RenderedBody::Shared(payload.body) })
    }

    fn render_gapped(&self, context: &RenderContext<'_>, texts: usize) -> Option<GappedMessage> {
        let (body, mut headers) = payload::render_gapped(context, texts);
        headers.insert(TOPIC, self.topic.clone());
        headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
        Some(GappedMessage { headers, before_address: None, body })
    }

    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult {
        let (Address::Apns { token, env }, RenderedBody::Shared(body)) = (to, &rendered.body)
        else {
            return SendResult::InvalidMessage {
                reason: reasons::ADDRESS_OF_ANOTHER_PROVIDER.into(),
            };
        };
        let host = self.host(*env);
        let deadline = attempt_deadline();
        let (mut token_renewed, mut connection_changed) = (false, false);
        loop {
            let bearer = match self.token.current(self.clock.read()).await {
                Ok(bearer) => bearer,
                Err(reason) => return SendResult::AuthRejected { reason },
            };
            let build = || {
                let mut headers = rendered.headers.clone();
                headers.insert(AUTHORIZATION, bearer.clone());
                if let Some(id) = delivery_id(&rendered.headers, token) {
                    headers.insert(payload::ID, id);
                }
                http2_post(host.uri(token), headers)
            };
            let reply = match host.pool.send(build, body.clone(), deadline).await {
                Ok(reply) => reply,
                Err(failure) => return failure.into(),
            };
            let at = self.clock.read();
            let (answer, refusal) = classify(&reply.status, &reply.headers, &reply.body, at.wall);
            match refusal {
                // Apple processed nothing in these two cases, so the message is sent again at once: with
                // a new token, or on another connection. Each is tried once.
                Refusal::TokenExpired if !token_renewed && self.token.renew(&bearer, at).await => {
                    token_renewed = true;
                }
                Refusal::WrongConnection if !connection_changed => {
                    host.pool.retire(reply.connection);
                    connection_changed = true;
                }
                Refusal::TooManyTokens => {
                    self.token.freeze(at.now).await;
                    return answer;
                }
                Refusal::ConnectionEnds => {
                    host.pool.retire(reply.connection);
                    return answer;
                }
                Refusal::TokenExpired | Refusal::WrongConnection | Refusal::None => return answer,
            }
        }
    }

    async fn check(&self) -> CredentialCheck {
        check_hosts(self).await
    }

    fn clock_ahead_ms(&self, wall: Timestamp) -> Option<i64> {
        let hosts = [&self.production, &self.sandbox];
        hosts.into_iter().find_map(|host| host.pool.remote_time().ms_behind(wall))
    }

    fn max_concurrency(&self) -> usize {
        let hosts = [&self.production, &self.sandbox];
        let share_pool = Arc::ptr_eq(&self.production.pool, &self.sandbox.pool);
        let distinct = if share_pool { &hosts[..1] } else { &hosts[..] };
        let limits = distinct.iter().filter_map(|host| host.pool.max_concurrency());
        limits.reduce(|sum, limit| sum + limit).unwrap_or(STREAMS_ASSUMED).max(1)
    }
}

/// The `apns-id` of one delivery, derived from the notification's `apns-id` in `headers` and the device
/// token.
fn delivery_id(headers: &HeaderMap, token: &str) -> Option<HeaderValue> {
    let notification = Uuid::try_parse_ascii(headers.get(payload::ID)?.as_bytes()).ok()?;
    let mut text = Uuid::encode_buffer();
    let id = payload::delivery_id(&notification, token).hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(id).ok()
}

// The check of the credentials sends a push to an impossible device token. Apple checks the provider
// token and the topic first, so the response `BadDeviceToken` means that both were accepted.

/// A valid device token that no device has.
const IMPOSSIBLE_TOKEN: &str = "0000000000000000000000000000000000000000000000000000000000000000";
/// The body of the check. A device that received it would show nothing.
const SILENT: &[u8] = br#"{"aps":{"content-available":1}}"#;
const SILENT_HEADERS: [(&str, &str); 3] =
    [("apns-push-type", "background"), ("apns-priority", "5"), ("apns-expiration", "0")];
/// Apple's codes for a key that was created for the other environment only (Apple, "Communicate with
/// APNs using authentication tokens").
const OTHER_ENVIRONMENT: [&str; 2] = ["BadEnvironmentKeyIdInToken", "BadEnvironmentKeyInToken"];

/// Checks the production host and the development host, or only one of them if both are the same. A key
/// that works in only one of the two environments passes.
async fn check_hosts(apns: &Apns) -> CredentialCheck {
    if Arc::ptr_eq(&apns.production.pool, &apns.sandbox.pool) {
        return CredentialCheck::from_result(&send_impossible(apns, IosEnv::Production).await);
    }
    let (production, sandbox) = tokio::join!(
        send_impossible(apns, IosEnv::Production),
        send_impossible(apns, IosEnv::Sandbox)
    );
    combine(&production, &sandbox)
}

/// The check from the answers of both hosts. A host passes if it accepts the key, or if the key belongs
/// to the other environment and the other host accepts it.
fn combine(production: &SendResult, sandbox: &SendResult) -> CredentialCheck {
    let on_production = CredentialCheck::from_result(production);
    let on_sandbox = CredentialCheck::from_result(sandbox);
    let passes = |check: &CredentialCheck, other: &CredentialCheck, answer: &SendResult| {
        check.ok || (other.ok && is_for_other_environment(answer))
    };
    CredentialCheck {
        ok: passes(&on_production, &on_sandbox, production)
            && passes(&on_sandbox, &on_production, sandbox),
        detail: format!("production: {}; sandbox: {}", on_production.detail, on_sandbox.detail),
    }
}

/// Whether Apple reported that the key belongs to the other environment.
fn is_for_other_environment(answer: &SendResult) -> bool {
    matches!(answer, SendResult::AuthRejected { reason } if OTHER_ENVIRONMENT.contains(&&**reason))
}

/// Sends a push to a device token that no device has, and returns Apple's answer.
async fn send_impossible(apns: &Apns, env: IosEnv) -> SendResult {
    let mut headers = HeaderMap::new();
    for (name, value) in SILENT_HEADERS {
        headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    headers.insert(TOPIC, apns.topic.clone());
    headers.insert(AUTHORIZATION, HeaderValue::from_static(""));
    let body = RenderedBody::Shared(Bytes::from_static(SILENT));
    let to = Address::Apns { token: IMPOSSIBLE_TOKEN.into(), env };
    apns.attempt(&RenderedMessage { headers, body }, &to).await
}

#[cfg(test)]
mod check_tests {
    use super::*;
    use crate::providers::{Processing, Scope};

    #[test]
    fn key_for_one_environment_passes_the_check() {
        let accepted = SendResult::Unregistered {
            reason: "BadDeviceToken".into(),
            ambiguous: true,
            since: None,
        };
        let rejected = |reason: &'static str| SendResult::AuthRejected { reason: reason.into() };
        let (other, wrong) = (rejected(OTHER_ENVIRONMENT[0]), rejected("InvalidProviderToken"));
        let reason = "connect_timeout".into();
        let unsent = SendResult::Retry { reason, after: None, outcome: Processing::NotProcessed };
        let reason = "TooManyProviderTokenUpdates".into();
        let throttled = SendResult::Throttle { reason, after: None, scope: Scope::Provider };
        for (production, sandbox, ok) in [
            (&accepted, &accepted, true),
            (&accepted, &other, true),
            (&other, &accepted, true),
            (&other, &other, false),
            (&accepted, &wrong, false),
            (&wrong, &wrong, false),
            (&accepted, &unsent, false),
            (&throttled, &accepted, false),
        ] {
            let check = combine(production, sandbox);
            assert_eq!(check.ok, ok, "{}", check.detail);
        }
        let detail = combine(&accepted, &wrong).detail;
        let expected = "production: the credentials are accepted; sandbox: the credentials are \
                        refused: InvalidProviderToken";
        assert_eq!(detail, expected);
    }
}

// Classification of APNs' responses (Apple, "Handling notification responses from APNs"; deviations
// are noted below).

/// A problem of our token or our connection that a response reports, in addition to the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// There is no such problem.
    None,
    /// The provider token is too old.
    TokenExpired,
    /// The provider token changes too often.
    TooManyTokens,
    /// The connection belongs to another key.
    WrongConnection,
    /// The connection is about to end.
    ConnectionEnds,
}

/// The body of an error.
#[derive(Default, Deserialize)]
struct Body<'a> {
    #[serde(borrow, default)]
    reason: Option<Cow<'a, str>>,
    #[serde(default)]
    timestamp: Option<serde_json::Value>,
}

/// Classifies a response. `wall` is the current time of the wall clock.
pub(super) fn classify(
    status: &StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    wall: Timestamp,
) -> (SendResult, Refusal) {
    if *status == StatusCode::OK {
        let id = headers.get(crate::payload::apns::ID).and_then(|id| id.to_str().ok());
        return (SendResult::Delivered { message_id: id.and_then(message_id) }, Refusal::None);
    }
    let body: Body<'_> = serde_json::from_slice(body).unwrap_or_default();
    let reason = body.reason.as_deref().unwrap_or_default();
    let refusal = refusal_of(status.as_u16(), reason);
    let answer = by_reason(status.as_u16(), reason, body.timestamp.as_ref(), wall)
        .unwrap_or_else(|| by_status(*status, reason));
    (answer.with_retry_after(retry_after(headers, wall)), refusal)
}

/// The problem of our token or our connection that an error reports.
fn refusal_of(status: u16, reason: &str) -> Refusal {
    match (status, reason) {
        (403, "ExpiredProviderToken") => Refusal::TokenExpired,
        (
            403,
            "UnrelatedKeyIdInToken" | "BadEnvironmentKeyIdInToken" | "BadEnvironmentKeyInToken",
        ) => Refusal::WrongConnection,
        (429, "TooManyProviderTokenUpdates") => Refusal::TooManyTokens,
        (400, "IdleTimeout") | (503, "Shutdown") => Refusal::ConnectionEnds,
        _ => Refusal::None,
    }
}

/// Apple's table of status and reason; `None` for a row that it does not have.
fn by_reason(
    status: u16,
    reason: &str,
    timestamp: Option<&serde_json::Value>,
    wall: Timestamp,
) -> Option<SendResult> {
    let owned = |reason: &str| -> Reason { Cow::Owned(reason.to_owned()) };
    let answer = match (status, reason) {
        (400, "BadDeviceToken") => {
            SendResult::Unregistered { reason: owned(reason), ambiguous: true, since: None }
        }
        (410, "Unregistered" | "ExpiredToken") => {
            let since = timestamp.and_then(|timestamp| invalid_since(timestamp, wall));
            SendResult::Unregistered { reason: owned(reason), ambiguous: false, since }
        }
        (400, "MissingTopic" | "BadTopic" | "TopicDisallowed")
        | (
            403,
            "ExpiredProviderToken"
            | "InvalidProviderToken"
            | "MissingProviderToken"
            | "BadCertificate"
            | "BadCertificateEnvironment"
            | "Forbidden"
            | "UnrelatedKeyIdInToken"
            | "BadEnvironmentKeyIdInToken"
            | "BadEnvironmentKeyInToken",
        ) => SendResult::AuthRejected { reason: owned(reason) },
        (
            400,
            "DeviceTokenNotForTopic"
            | "BadCollapseId"
            | "BadExpirationDate"
            | "BadMessageId"
            | "BadPriority"
            | "InvalidPushType"
            | "DuplicateHeaders"
            | "PayloadEmpty"
            | "MissingDeviceToken",
        )
        | (404, "BadPath")
        | (405, "MethodNotAllowed")
        | (413, "PayloadTooLarge") => SendResult::InvalidMessage { reason: owned(reason) },
        (400, "IdleTimeout")
        | (500, "InternalServerError")
        | (503, "ServiceUnavailable" | "Shutdown") => SendResult::failed(owned(reason)),
        (429, "TooManyRequests") => {
            SendResult::Throttle { reason: owned(reason), after: None, scope: Scope::Address }
        }
        (429, "TooManyProviderTokenUpdates") => {
            SendResult::Throttle { reason: owned(reason), after: None, scope: Scope::Provider }
        }
        _ => return None,
    };
    Some(answer)
}

/// Classifies a response that is not in the table: an edge server sent it, or APNs has new reasons.
fn by_status(status: StatusCode, reason: &str) -> SendResult {
    let reason = reason_from_status(status, reason);
    match status.as_u16() {
        413 => SendResult::InvalidMessage { reason },
        429 => SendResult::Throttle { reason, after: None, scope: Scope::Provider },
        408 | 500..=599 => SendResult::failed(reason),
        _ => SendResult::Unknown { reason },
    }
}

/// When the device token became invalid, as Apple reports it in milliseconds. A time in the future is
/// replaced with the current time: otherwise it would also disable a device that registers before that
/// time.
fn invalid_since(timestamp: &serde_json::Value, wall: Timestamp) -> Option<Timestamp> {
    let ms = timestamp.as_i64().filter(|ms| *ms >= 0);
    ms.map(|ms| Timestamp(ms).min(wall))
}
