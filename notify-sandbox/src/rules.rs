//! The rules that say how the next requests are answered, and the attempts of scripted tokens.
//! The first rule that matches decides; a rule that is used up is gone.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use super::answer::{Action, Answer, Provider};
use super::dress::{self, Dress, Tail};
use super::{apns, fcm, messenger, telegram, webpush};

/// The most rules kept at a time.
const RULES_MAX: usize = 10_000;

/// The longest delay a rule can ask for: an hour, in milliseconds.
const DELAY_MS_MAX: u64 = 3_600_000;

/// The most bytes that a rule can add to an answer: a gibibyte.
const MORE_BYTES_MAX: u64 = 1 << 30;

/// How requests of one provider are answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Whose requests.
    pub provider: Provider,
    /// Only those to this token; to any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What happens.
    #[serde(default)]
    pub action: Action,
    /// The HTTP status; with neither status nor reason the ordinary answer comes, delayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// APNs' reason, FCM's error code, OAuth's error, the name of a push service's refusal, Messenger's
    /// code (`551/1545041`) or word, or Telegram's word; on a push service's redirect, where it leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `Retry-After`, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<u64>,
    /// APNs 410: since when the token is dead, in unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_ms: Option<i64>,
    /// `GOAWAY`: the last stream said to be processed; the last one that was when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_stream_id: Option<u32>,
    /// For so many requests; for all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// Lets so many matching requests pass first.
    #[serde(default)]
    pub after: u32,
    /// Of the matching requests from then on only every so many-th, the first one among them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u32>,
    /// Waits so long before it acts.
    #[serde(default)]
    pub delay_ms: u64,
    /// Header fields of the answer, in place of its own of that name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// The answer's body, in place of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
    /// So many bytes more behind the body.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub more_bytes: u64,
    /// They come one by one, so slowly; as fast as they are taken when 0.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub byte_every_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_nothing(count: &u64) -> bool {
    *count == 0
}

/// Why a rule was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// Not an HTTP status that ends an exchange.
    #[error("status: must be between 200 and 599")]
    Status,
    /// The reason alone does not say the status.
    #[error("status: is required with a reason that the provider does not know")]
    UnknownReason,
    /// Past the hour.
    #[error("delay_ms, byte_every_ms: must be at most {DELAY_MS_MAX}")]
    Delay,
    /// More than anybody has to be sent.
    #[error("more_bytes: must be at most {MORE_BYTES_MAX}")]
    MoreBytes,
    /// No name or no value of a header field.
    #[error("headers: must be names and values of header fields")]
    Headers,
    /// Clear some first.
    #[error("rules: at most {RULES_MAX} at a time")]
    Full,
}

impl Rule {
    /// Requests of `provider` get `answer`; its attempts become the rule's `times`.
    #[must_use]
    pub fn on(provider: Provider, answer: Answer) -> Self {
        Self {
            provider,
            token: None,
            action: answer.action,
            status: answer.status,
            reason: answer.reason,
            retry_after: answer.retry_after,
            timestamp_ms: answer.timestamp_ms,
            last_stream_id: answer.last_stream_id,
            times: answer.attempts,
            after: 0,
            every: None,
            delay_ms: 0,
            headers: BTreeMap::new(),
            body: None,
            more_bytes: 0,
            byte_every_ms: 0,
        }
    }

    /// Only those to `token`.
    #[must_use]
    pub fn token(self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self }
    }

    /// Lets `passed` matching requests pass first.
    #[must_use]
    pub fn after(self, passed: u32) -> Self {
        Self { after: passed, ..self }
    }

    /// Only to every `nth` matching request from then on.
    #[must_use]
    pub fn every(self, nth: u32) -> Self {
        Self { every: Some(nth), ..self }
    }

    /// Waits so long before it acts.
    #[must_use]
    pub fn delay_ms(self, delay_ms: u64) -> Self {
        Self { delay_ms, ..self }
    }

    /// With a header field of its own.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.insert(name.to_owned(), value.to_owned());
        self
    }

    /// With a body of its own.
    #[must_use]
    pub fn body(self, body: &str) -> Self {
        Self { body: Some(body.to_owned()), ..self }
    }

    /// With so many bytes more, one by one every so many milliseconds, or as fast as they are taken.
    #[must_use]
    pub fn more_bytes(self, more_bytes: u64, byte_every_ms: u64) -> Self {
        Self { more_bytes, byte_every_ms, ..self }
    }

    fn check(&self) -> Result<(), RuleError> {
        if self.status.is_some_and(|status| !(200..=599).contains(&status)) {
            return Err(RuleError::Status);
        }
        if self.delay_ms.max(self.byte_every_ms) > DELAY_MS_MAX {
            return Err(RuleError::Delay);
        }
        if self.more_bytes > MORE_BYTES_MAX {
            return Err(RuleError::MoreBytes);
        }
        if self.headers.iter().any(|(name, value)| dress::header(name, value).is_none()) {
            return Err(RuleError::Headers);
        }
        let known = match (self.provider, &self.reason) {
            (_, None) => true,
            (Provider::Apns, Some(reason)) => apns::Reason::named(reason).is_some(),
            (Provider::Fcm, Some(reason)) => fcm::status_of(reason).is_some(),
            (Provider::Oauth, Some(_)) => true,
            (Provider::WebPush, Some(reason)) => webpush::status_of(reason).is_some(),
            (Provider::Messenger, Some(reason)) => messenger::status_of(reason).is_some(),
            (Provider::Telegram, Some(reason)) => telegram::status_of(reason).is_some(),
        };
        if known || self.status.is_some() { Ok(()) } else { Err(RuleError::UnknownReason) }
    }

    fn answer(&self) -> Answer {
        Answer {
            action: self.action,
            status: self.status,
            reason: self.reason.clone(),
            retry_after: self.retry_after,
            timestamp_ms: self.timestamp_ms,
            last_stream_id: self.last_stream_id,
            attempts: None,
        }
    }

    fn dress(self) -> Dress {
        let tail = Tail { bytes: self.more_bytes, every_ms: self.byte_every_ms };
        Dress { headers: self.headers, body: self.body, tail }
    }
}

/// What the script says about one request.
#[derive(Debug, Default)]
pub(super) struct Scripted {
    pub(super) answer: Answer,
    pub(super) delay_ms: u64,
    pub(super) dress: Dress,
}

impl Scripted {
    /// An answer, at once and as it is.
    pub(super) fn plain(answer: Answer) -> Self {
        Self { answer, ..Self::default() }
    }
}

/// The rules, and how often each scripted token was tried.
#[derive(Debug, Default)]
pub(super) struct Rules {
    list: Mutex<Vec<Rule>>,
    /// The list's length, so that a benchmark without rules takes no lock.
    length: AtomicUsize,
    attempts: Mutex<HashMap<(Provider, String), u32>>,
}

impl Rules {
    pub(super) fn add(&self, rule: Rule) -> Result<(), RuleError> {
        rule.check()?;
        let mut list = self.list.lock().expect("no holder of the rules panics");
        if list.len() >= RULES_MAX {
            return Err(RuleError::Full);
        }
        list.push(rule);
        self.length.store(list.len(), Ordering::Release);
        Ok(())
    }

    pub(super) fn all(&self) -> Vec<Rule> {
        self.list.lock().expect("no holder of the rules panics").clone()
    }

    pub(super) fn clear(&self) {
        self.list.lock().expect("no holder of the rules panics").clear();
        self.length.store(0, Ordering::Release);
        self.attempts.lock().expect("no holder of the attempts panics").clear();
    }

    /// How the next request is answered: by rule, else by what its token says, else well.
    pub(super) fn scripted(
        &self,
        provider: Provider,
        token: &str,
        in_token: Option<Answer>,
    ) -> Scripted {
        if let Some(rule) = self.take(provider, token) {
            let (answer, delay_ms) = (rule.answer(), rule.delay_ms);
            return Scripted { answer, delay_ms, dress: rule.dress() };
        }
        let answer = in_token.filter(|answer| self.still_applies(provider, token, answer));
        Scripted::plain(answer.unwrap_or_default())
    }

    fn take(&self, provider: Provider, token: &str) -> Option<Rule> {
        if self.length.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut list = self.list.lock().expect("no holder of the rules panics");
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
            let taken = rule.clone();
            rule.times = rule.times.map(|times| times.saturating_sub(1));
            if rule.times == Some(0) {
                list.remove(index);
                self.length.store(list.len(), Ordering::Release);
            }
            return Some(taken);
        }
        None
    }

    fn still_applies(&self, provider: Provider, token: &str, answer: &Answer) -> bool {
        let Some(limit) = answer.attempts else { return true };
        let mut attempts = self.attempts.lock().expect("no holder of the attempts panics");
        let made = attempts.entry((provider, token.to_owned())).or_default();
        *made = made.saturating_add(1);
        *made <= limit
    }
}
