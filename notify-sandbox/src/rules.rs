//! Rules for the responses to the next requests, and the number of attempts of each scripted token.
//! The first rule that matches a request applies to it. A rule is removed when it has applied `times`
//! times.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response};
use serde::{Deserialize, Serialize};

use crate::script::{Fault, Provider, ScriptedResponse};
use crate::state::lock;
use crate::{apns, fcm, messenger, telegram, webpush};

/// The most rules kept at a time.
const RULES_MAX: usize = 10_000;

/// The longest delay a rule can ask for: an hour, in milliseconds.
const DELAY_MS_MAX: u64 = 3_600_000;

/// The most bytes that a rule can add to a response: 1 GiB.
const MORE_BYTES_MAX: u64 = 1 << 30;

/// A rule for the responses of one provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// The provider.
    pub provider: Provider,
    /// The token whose requests the rule applies to; all tokens when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// A fault in place of the response.
    #[serde(default, rename = "action")]
    pub fault: Fault,
    /// The HTTP status. A rule with neither a status nor a reason keeps the ordinary response and only
    /// adds its delay and overrides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The reason of the response: APNs' reason, FCM's error code, OAuth's error, the reason of a push
    /// service, Messenger's code (`551/1545041`) or keyword, or Telegram's keyword. For a redirect of
    /// a push service, the location.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `Retry-After`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// For APNs 410: the time when the token became invalid, in unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<i64>,
    /// For `GOAWAY`: the last stream that the frame declares as processed. When absent, the frame
    /// declares the last stream that was actually processed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stream_id: Option<u32>,
    /// The number of requests that the rule applies to; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The number of matching requests that the rule skips first.
    #[serde(default)]
    pub after: u32,
    /// After the skipped requests, the rule applies to the first matching request and to every n-th
    /// request from there. When absent, it applies to all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// The delay before the response or the fault, in milliseconds.
    #[serde(default)]
    pub delay_ms: u64,
    /// Header fields of the response. They replace the provider's fields of the same name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The body of the response, in place of the provider's body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// The number of meaningless bytes that follow the body.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_bytes: u64,
    /// The time before each of the `more_bytes`, in milliseconds. With 0 they are sent as fast as the
    /// client reads.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub byte_every_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde requires it")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a rule is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// The status is not the status of a final response.
    #[error("status: must be between 200 and 599")]
    Status,
    /// The provider does not know the reason, so the rule needs a status.
    #[error("status: is required with a reason that the provider does not know")]
    UnknownReason,
    /// A delay is too long.
    #[error("delay_ms, byte_every_ms: must be at most {DELAY_MS_MAX}")]
    Delay,
    /// There are too many bytes.
    #[error("more_bytes: must be at most {MORE_BYTES_MAX}")]
    MoreBytes,
    /// The rule would apply to no request.
    #[error("times: must be at least 1")]
    Times,
    /// A name or a value is not valid in a header field.
    #[error("headers: must be names and values of header fields")]
    Headers,
    /// There are too many rules.
    #[error("rules: at most {RULES_MAX} at a time")]
    Full,
}

impl Rule {
    /// A rule that gives `response` to requests to `provider`. The attempts of the response become the
    /// `times` of the rule.
    #[must_use]
    pub fn on(provider: Provider, response: ScriptedResponse) -> Self {
        Self {
            provider,
            token: None,
            fault: response.fault,
            status: response.status,
            reason: response.reason,
            retry_after: response.retry_after,
            timestamp_ms: response.timestamp_ms,
            last_stream_id: response.last_stream_id,
            times: response.attempts,
            after: 0,
            every: None,
            delay_ms: 0,
            headers: BTreeMap::new(),
            body: None,
            more_bytes: 0,
            byte_every_ms: 0,
        }
    }

    /// Limits the rule to requests to `token`.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Skips the first `skipped` matching requests.
    #[must_use]
    pub fn after(self, skipped: u32) -> Self {
        Self { after: skipped, ..self }
    }

    /// After the skipped requests, limits the rule to the first matching request and to every `nth`
    /// request from there.
    #[must_use]
    pub fn every(self, nth: u32) -> Self {
        Self { every: Some(nth), ..self }
    }

    /// Adds a delay in milliseconds.
    #[must_use]
    pub fn delay_ms(self, delay_ms: u64) -> Self {
        Self { delay_ms, ..self }
    }

    /// Adds a header field.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// Replaces the body.
    #[must_use]
    pub fn body(self, body: &str) -> Self {
        Self { body: Some(body.to_owned()), ..self }
    }

    /// Adds `more_bytes` after the body: one every `byte_every_ms` milliseconds, or as fast as the client
    /// reads when `byte_every_ms` is 0.
    #[must_use]
    pub fn more_bytes(self, more_bytes: u64, byte_every_ms: u64) -> Self {
        Self { more_bytes, byte_every_ms, ..self }
    }

    fn check(&self) -> Result<(), RuleError> {
        if self.status.is_some_and(|status| !(200..=599).contains(&status)) {
            return Err(RuleError::Status);
        }
        if self.times == Some(0) {
            return Err(RuleError::Times);
        }
        if self.delay_ms.max(self.byte_every_ms) > DELAY_MS_MAX {
            return Err(RuleError::Delay);
        }
        if self.more_bytes > MORE_BYTES_MAX {
            return Err(RuleError::MoreBytes);
        }
        if self.headers.iter().any(|(name, value)| parse_header(name, value).is_none()) {
            return Err(RuleError::Headers);
        }
        let is_known = match (self.provider, &self.reason) {
            (_, None) => true,
            (Provider::Apns, Some(reason)) => apns::ApnsReason::by_name(reason).is_some(),
            (Provider::Fcm, Some(reason)) => fcm::status_of(reason).is_some(),
            (Provider::Oauth, Some(_)) => true,
            (Provider::WebPush, Some(reason)) => webpush::status_of(reason).is_some(),
            (Provider::Messenger, Some(reason)) => messenger::status_of(reason).is_some(),
            (Provider::Telegram, Some(reason)) => telegram::status_of(reason).is_some(),
        };
        if is_known || self.status.is_some() { Ok(()) } else { Err(RuleError::UnknownReason) }
    }

    fn into_scripted(self) -> RequestScript {
        let response = ScriptedResponse {
            fault: self.fault,
            status: self.status,
            reason: self.reason,
            retry_after: self.retry_after,
            timestamp_ms: self.timestamp_ms,
            last_stream_id: self.last_stream_id,
            attempts: None,
        };
        let trailing = TrailingBytes { count: self.more_bytes, every_ms: self.byte_every_ms };
        let overrides = ResponseOverride { headers: self.headers, body: self.body, trailing };
        RequestScript { response, is_by_ending: false, delay_ms: self.delay_ms, overrides }
    }
}

/// The scripted response to one request, with its delay and overrides.
#[derive(Debug, Default)]
pub(crate) struct RequestScript {
    pub(crate) response: ScriptedResponse,
    /// Whether the ending of the token selected the response.
    pub(crate) is_by_ending: bool,
    pub(crate) delay_ms: u64,
    pub(crate) overrides: ResponseOverride,
}

impl From<ScriptedResponse> for RequestScript {
    fn from(response: ScriptedResponse) -> Self {
        Self { response, ..Self::default() }
    }
}

/// The parts of a response that a rule replaces. With them a rule can make a response that a provider
/// should never give.
#[derive(Debug, Default)]
pub(crate) struct ResponseOverride {
    headers: BTreeMap<String, String>,
    body: Option<String>,
    pub(crate) trailing: TrailingBytes,
}

impl ResponseOverride {
    pub(crate) fn apply(&self, mut response: Response<Bytes>) -> Response<Bytes> {
        for (name, value) in &self.headers {
            let (name, value) = parse_header(name, value).expect("a rule has valid headers");
            response.headers_mut().insert(name, value);
        }
        if let Some(body) = &self.body {
            *response.body_mut() = Bytes::from(body.clone());
        }
        response
    }
}

fn parse_header(name: &str, value: &str) -> Option<(HeaderName, HeaderValue)> {
    Some((name.parse().ok()?, value.parse().ok()?))
}

/// Meaningless bytes that follow a body.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TrailingBytes {
    pub(crate) count: u64,
    /// The time before each byte. With 0 the bytes are sent as fast as the client reads.
    pub(crate) every_ms: u64,
}

/// The most bytes sent at a time: the payload of an HTTP/2 frame.
const CHUNK_BYTES_MAX: usize = 16_384;
static FILLER: [u8; CHUNK_BYTES_MAX] = [b'x'; CHUNK_BYTES_MAX];

impl TrailingBytes {
    /// The size of the next chunk, in bytes; 0 when none remain.
    pub(crate) fn next_len(self) -> usize {
        let max = if self.every_ms > 0 { 1 } else { CHUNK_BYTES_MAX };
        usize::try_from(self.count).map_or(max, |left| left.min(max))
    }

    /// Takes the next chunk, of at most `capacity` bytes.
    pub(crate) fn take(&mut self, capacity: usize) -> Bytes {
        let length = self.next_len().min(capacity);
        self.count -= length as u64;
        Bytes::from_static(&FILLER[..length])
    }
}

/// The rules, and the number of attempts of each scripted token.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    list: Mutex<Vec<Rule>>,
    /// The length of `list`. With it, a benchmark without rules takes no lock.
    length: AtomicUsize,
    attempts: Mutex<HashMap<(Provider, String), u32>>,
}

impl Rules {
    pub(crate) fn add(&self, rule: Rule) -> Result<(), RuleError> {
        rule.check()?;
        let mut list = lock(&self.list);
        if list.len() >= RULES_MAX {
            return Err(RuleError::Full);
        }
        list.push(rule);
        self.length.store(list.len(), Ordering::Release);
        Ok(())
    }

    /// Adds a rule before the existing ones. It replaces the rules for the same token whose number of
    /// requests is limited.
    pub(crate) fn set_next(&self, rule: Rule) -> Result<(), RuleError> {
        rule.check()?;
        let mut list = lock(&self.list);
        list.retain(|other| {
            other.times.is_none() || other.provider != rule.provider || other.token != rule.token
        });
        if list.len() >= RULES_MAX {
            return Err(RuleError::Full);
        }
        list.insert(0, rule);
        self.length.store(list.len(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn all(&self) -> Vec<Rule> {
        lock(&self.list).clone()
    }

    pub(crate) fn clear(&self) {
        lock(&self.list).clear();
        self.length.store(0, Ordering::Release);
        lock(&self.attempts).clear();
    }

    /// The response to the next request to `token`. A matching rule decides. Without one, the script
    /// of the token decides while it has attempts left. Otherwise the response is success.
    pub(crate) fn scripted(
        &self,
        provider: Provider,
        token: &str,
        token_script: Option<ScriptedResponse>,
    ) -> RequestScript {
        if let Some(rule) = self.take_rule(provider, token) {
            return rule.into_scripted();
        }
        let response =
            token_script.filter(|response| self.count_attempt(provider, token, response));
        RequestScript {
            is_by_ending: response.is_some(),
            ..RequestScript::from(response.unwrap_or_default())
        }
    }

    /// Finds the rule that applies to this request and counts the request for each matching rule before
    /// it.
    fn take_rule(&self, provider: Provider, token: &str) -> Option<Rule> {
        if self.length.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = lock(&self.list);
        for index in 0..list.len() {
            let rule = &mut list[index];
            let matches = rule.provider == provider
                && rule.token.as_deref().is_none_or(|wanted| wanted == token);
            if !matches {
                continue;
            }
            if rule.after > 0 {
                rule.after -= 1;
                continue;
            }
            rule.after = rule.every.map_or(0, |every| every.saturating_sub(1));
            let matched = rule.clone();
            rule.times = rule.times.map(|times| times.saturating_sub(1));
            if rule.times == Some(0) {
                list.remove(index);
                self.length.store(list.len(), Ordering::Release);
            }
            return Some(matched);
        }
        None
    }

    /// Counts an attempt of `token` if its script limits the attempts. Returns whether the script applies
    /// to the attempt.
    fn count_attempt(&self, provider: Provider, token: &str, response: &ScriptedResponse) -> bool {
        let Some(limit) = response.attempts else { return true };
        let mut attempts = lock(&self.attempts);
        let count = attempts.entry((provider, token.to_owned())).or_default();
        *count = count.saturating_add(1);
        *count <= limit
    }
}
