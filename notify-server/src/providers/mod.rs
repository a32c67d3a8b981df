//! The push providers of the platforms. A provider makes one attempt and classifies the response as a
//! [`SendResult`]. It stores nothing, counts nothing and does not decide about retries; `delivery` does.
//!
//! A new provider needs a folder here with a table that classifies its responses, its configuration in
//! `provider_config/`, its payload in `payload/`, a line in [`Providers`], and an entry in the shared
//! tests of `providers/tests.rs`.

mod apns;
mod fcm;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod messenger;
mod registry;
mod telegram;
#[cfg(test)]
mod tests;
mod token_store;
mod transport;
mod web_push;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::StatusCode;
use notify_core::doctor::clock_difference;
use notify_core::{IosEnv, ProviderKind, Timestamp, WebSubscription};
use tokio::time::Instant;

pub(crate) use self::registry::Providers;
pub(crate) use self::token_store::{
    SignedToken, StoredToken, TokenName, TokenStore, TokenStoreError,
};
pub(crate) use self::transport::{
    ADDRESS_NOT_ALLOWED, CONNECT_FAILED, CONNECT_TIMED_OUT, Http1, PROXY_FAILED, TransportError,
};
use crate::payload::gapped::GappedBody;
use crate::payload::messenger::MessengerForms;
use crate::payload::telegram::BotCalls;
use crate::payload::{BodyTemplate, RenderContext, TooLarge};

/// The address of one device.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// An APNs device token and the host it belongs to.
    Apns {
        /// Device token, in hexadecimal.
        token: Box<str>,
        /// The host to which the token belongs.
        env: IosEnv,
    },
    /// An FCM registration token.
    Fcm {
        /// Registration token.
        token: Box<str>,
    },
    /// A browser's push subscription (RFC 8030, RFC 8291).
    WebPush(Box<WebSubscription>),
    /// A person on Messenger.
    Messenger {
        /// Page-scoped id.
        recipient: Box<str>,
        /// When the person last wrote to the page, if known. Messages are allowed for 24 hours after
        /// that.
        last_inbound_at: Option<Timestamp>,
    },
    /// A chat of a Telegram bot.
    Telegram {
        /// The chat, or a topic of a group, as [`notify_core::chat_id`] spells it.
        chat: Box<str>,
    },
}

impl Address {
    /// The provider that the address belongs to.
    pub(crate) fn provider(&self) -> ProviderKind {
        match self {
            Self::Apns { .. } => ProviderKind::Apns,
            Self::Fcm { .. } => ProviderKind::Fcm,
            Self::WebPush(_) => ProviderKind::WebPush,
            Self::Messenger { .. } => ProviderKind::Messenger,
            Self::Telegram { .. } => ProviderKind::Telegram,
        }
    }

    /// The secret part of the address, which identifies the device at its provider.
    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Apns { token, .. } | Self::Fcm { token } => token,
            Self::WebPush(subscription) => &subscription.endpoint,
            Self::Messenger { recipient, .. } => recipient,
            Self::Telegram { chat } => chat,
        }
    }
}

impl std::fmt::Debug for Address {
    /// Never shows the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Apns { env, .. } => {
                f.debug_struct("Apns").field("env", env).finish_non_exhaustive()
            }
            Self::Fcm { .. } => f.debug_struct("Fcm").finish_non_exhaustive(),
            Self::WebPush(_) => f.debug_struct("WebPush").finish_non_exhaustive(),
            Self::Messenger { .. } => f.debug_struct("Messenger").finish_non_exhaustive(),
            Self::Telegram { .. } => f.debug_struct("Telegram").finish_non_exhaustive(),
        }
    }
}

/// A configured provider of one application.
#[async_trait::async_trait]
pub trait Provider: Send + Sync {
    /// Renders the parts of a message that are the same for every device of a dispatch, once.
    ///
    /// # Errors
    /// When the payload is larger than the provider accepts.
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge>;

    /// Renders a message of which `texts` texts differ from device to device. In the content, a
    /// mark (`payload::gapped::mark`) stands for each of them. `None` if the form of the message
    /// depends on its texts.
    fn render_gapped(&self, _context: &RenderContext<'_>, _texts: usize) -> Option<GappedMessage> {
        None
    }

    /// Makes one attempt. Its duration (`REQUEST_TIMEOUT_SECONDS`) and the bytes read of the response
    /// (`RESPONSE_BYTES_MAX`) are bounded.
    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult;

    /// Checks whether the provider accepts our credentials. No device gets a message: the check sends a
    /// message to an impossible address, makes a dry run, or reads our own account. It makes no request
    /// if the result is known without one. Its duration is bounded like that of an attempt.
    async fn check(&self) -> CredentialCheck;

    /// How far a clock that shows `wall` is ahead of the provider's, in milliseconds; negative if it is behind. `None`
    /// if the provider has not responded, or if its time does not matter.
    fn clock_ahead_ms(&self, _wall: Timestamp) -> Option<i64> {
        None
    }

    /// How many attempts can usefully run at the same time: the sum of the current stream limits of the
    /// connections that exist or may be opened. At least 1.
    fn max_concurrency(&self) -> usize;

    /// How many attempts can usefully run at the same time to the push service of this endpoint; `None`
    /// if all addresses share one service, so that only [`Provider::max_concurrency`] applies.
    fn service_concurrency(&self, _endpoint: &str) -> Option<usize> {
        None
    }

    /// The provider's own rate limit at the moment, apart from the one that an administrator set.
    fn limit(&self, _now: Timestamp) -> ProviderLimit {
        ProviderLimit::Unlimited
    }
}

/// A provider's own rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProviderLimit {
    /// No limit apart from the number of streams.
    Unlimited,
    /// At most this many attempts a second.
    PerSecond(u32),
    /// The quota is used up: no attempt before this time.
    Exhausted {
        /// When attempts are allowed again.
        until: Timestamp,
    },
}

/// A provider, as the engine stores it.
pub(crate) type SharedProvider = Arc<dyn Provider>;

/// Longest duration of one attempt, in seconds.
pub(crate) const REQUEST_TIMEOUT_SECONDS: u64 = 30;
/// Most bytes read of a provider's response, since the peer is not trusted.
pub(crate) const RESPONSE_BYTES_MAX: usize = 65_536;

/// The deadline of an attempt that begins now.
fn attempt_deadline() -> Instant {
    Instant::now() + Duration::from_secs(REQUEST_TIMEOUT_SECONDS)
}

/// The parts of a message that are the same for every device of a dispatch.
#[derive(Debug, Clone)]
pub struct RenderedMessage {
    /// Header fields, except path and authorization.
    pub headers: http::HeaderMap,
    /// The body.
    pub body: RenderedBody,
}

/// A message that is rendered once, with gaps for the texts of each device.
#[derive(Debug, Clone)]
pub struct GappedMessage {
    /// Header fields, except path and authorization.
    headers: http::HeaderMap,
    /// The part before the address of the device; `None` if the body contains no address.
    before_address: Option<Bytes>,
    body: GappedBody,
}

impl GappedMessage {
    /// The message for a device with these texts; `None` if it is larger than the provider accepts.
    pub(crate) fn fill(&self, texts: &[&str]) -> Option<RenderedMessage> {
        let body = self.fill_body(texts)?;
        Some(RenderedMessage { headers: self.headers.clone(), body })
    }

    fn fill_body(&self, texts: &[&str]) -> Option<RenderedBody> {
        let body = self.body.fill(texts)?;
        Some(match &self.before_address {
            Some(before) => {
                RenderedBody::Template(BodyTemplate { before: before.clone(), after: body })
            }
            None => RenderedBody::Shared(body),
        })
    }

    /// Whether every device gets the same message.
    pub(crate) fn is_whole(&self) -> bool {
        self.body.is_whole()
    }

    /// Whether it makes this message of these texts.
    pub(crate) fn makes(&self, message: &RenderedMessage, texts: &[&str]) -> bool {
        match (self.fill_body(texts), &message.body) {
            (Some(RenderedBody::Shared(filled)), RenderedBody::Shared(body)) => filled == *body,
            (Some(RenderedBody::Template(filled)), RenderedBody::Template(body)) => {
                filled.before == body.before && filled.after == body.after
            }
            (
                Some(
                    RenderedBody::Shared(_)
                    | RenderedBody::Template(_)
                    | RenderedBody::Forms(_)
                    | RenderedBody::Calls(_),
                ),
                _,
            )
            | (None, _) => false,
        }
    }
}

/// A body that is rendered once for all devices.
#[derive(Debug, Clone)]
pub enum RenderedBody {
    /// The same bytes for every device.
    Shared(Bytes),
    /// Bytes with a gap for the device's address.
    Template(BodyTemplate),
    /// Messages of Messenger, with a gap for the person.
    Forms(MessengerForms),
    /// Calls of Telegram's Bot API, with a gap for the chat.
    Calls(BotCalls),
}

/// Why an attempt had its result: a code of the provider, or one of [`reasons`](crate::reasons). It is
/// short, is stored with the outcome, and is a label of metrics.
pub(crate) type Reason = Cow<'static, str>;

/// The result of one attempt, in terms that all providers share, so that the retry policy does not
/// depend on the provider. Every response of every provider maps to exactly one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendResult {
    /// The provider accepted the message.
    Delivered {
        /// The provider's id of the message.
        message_id: Option<Box<str>>,
    },
    /// The address is permanently invalid.
    Unregistered {
        /// The provider's code.
        reason: Reason,
        /// Whether a wrong environment or key would give the same response. The guard against disabling
        /// an audience by mistake counts these.
        ambiguous: bool,
        /// Since when the address is invalid, if the provider reported it (APNs with status 410). A
        /// device that registered later is not disabled.
        since: Option<Timestamp>,
    },
    /// A transient failure: only this delivery is retried.
    Retry {
        /// The provider's code, or what failed.
        reason: Reason,
        /// The wait that the provider requested.
        after: Option<Duration>,
        /// Whether the provider may have processed the message anyway.
        outcome: Processing,
    },
    /// The provider asks to slow down; this does not count as an attempt.
    Throttle {
        /// The provider's code.
        reason: Reason,
        /// The wait that the provider requested.
        after: Option<Duration>,
        /// What has to slow down.
        scope: Scope,
    },
    /// Our credentials, topic or project are wrong. All deliveries of the provider wait, and none fails.
    AuthRejected {
        /// The provider's code.
        reason: Reason,
    },
    /// The push service refuses our request for this address. The address may belong to another key or be
    /// invented, or our key or clock may be wrong. Many refusals in a row, for addresses that accepted
    /// messages before, mean a fault on our side and pause only this push service.
    ServiceRefused {
        /// The provider's code.
        reason: Reason,
    },
    /// The address has changed; the new one is stored and used at once.
    AddressChanged {
        /// The new address.
        to: Box<str>,
    },
    /// The provider will never accept this payload for this address. The device is kept.
    InvalidMessage {
        /// The provider's code.
        reason: Reason,
    },
    /// The provider's policy does not allow the message now. The device is kept.
    NotPermitted {
        /// The provider's code.
        reason: Reason,
    },
    /// A response that is not in the provider's table.
    Unknown {
        /// The status, and the provider's code if it looks like one.
        reason: Reason,
    },
}

impl SendResult {
    /// The result for a transient failure that the provider reported.
    fn failed(reason: Reason) -> Self {
        Self::Retry { reason, after: None, outcome: Processing::Failed }
    }

    /// The same result with the wait that the provider requested, if the delivery is retried or
    /// throttled.
    fn with_retry_after(mut self, requested: Option<Duration>) -> Self {
        if let Self::Retry { after, .. } | Self::Throttle { after, .. } = &mut self {
            *after = requested;
        }
        self
    }
}

/// Whether the provider may have processed the message of a failed attempt. If so, a repeated message
/// may be shown twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processing {
    /// The message was certainly not processed: the stream was refused, its id was above the last one
    /// that the peer processed, or nothing was sent. It can be sent again at once on another connection.
    NotProcessed,
    /// The provider reported a failure.
    Failed,
    /// The connection broke or timed out after the message was sent, so the provider may have accepted it.
    Unknown,
}

/// What a throttle applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This address alone.
    Address,
    /// The push service of this address, or the whole provider if it has only one service.
    Service,
    /// Everything that uses these credentials.
    Provider,
}

/// Longest id of a message in a provider's response, in bytes.
const MESSAGE_ID_BYTES_MAX: usize = 512;

/// The provider's id of a message; `None` for a text that is too long or has other characters than visible
/// ASCII. Ids are stored and shown, and PostgreSQL has no text with U+0000.
fn message_id(text: &str) -> Option<Box<str>> {
    let has_length = (1..=MESSAGE_ID_BYTES_MAX).contains(&text.len());
    (has_length && text.bytes().all(|byte| byte.is_ascii_graphic())).then(|| text.into())
}

/// Longest code of a provider that is stored, in bytes.
const REASON_BYTES_MAX: usize = 64;

/// The reason for a response that is not in the provider's table: the status, and the provider's code if
/// `text` looks like a code. Any other text is dropped, because it could contain an address, and because
/// every response could then create a new label of the metrics.
pub(crate) fn reason_from_status(status: StatusCode, text: &str) -> Reason {
    let is_code = !text.is_empty()
        && text.len() <= REASON_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let status = status.as_u16();
    Cow::Owned(if is_code { format!("http_{status} {text}") } else { format!("http_{status}") })
}

/// The result of a check of credentials. The detail is for an administrator. It contains the provider's
/// code and never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialCheck {
    /// Whether messages can be sent with these credentials, as far as the check can tell.
    pub ok: bool,
    /// The provider's response, or why there was none.
    pub detail: String,
}

impl CredentialCheck {
    /// The credentials are valid.
    pub(crate) fn passed(detail: impl Into<String>) -> Self {
        Self { ok: true, detail: detail.into() }
    }

    /// The credentials are invalid, or could not be checked.
    pub(crate) fn failed(detail: impl Into<String>) -> Self {
        Self { ok: false, detail: detail.into() }
    }

    /// Adds a remark if the server's clock differs from the provider's. `ahead_ms` is how far it is ahead.
    /// Providers refuse tokens of such a server, and do not always say why.
    #[must_use]
    pub(crate) fn with_clock(mut self, ahead_ms: Option<i64>) -> Self {
        if let Some(difference) = ahead_ms.and_then(clock_difference) {
            self.detail.push_str(&format!("; {difference}"));
        }
        self
    }

    /// The check from the result of a message to an impossible address. If the provider refuses only the
    /// address, it has accepted the credentials, which it checks first.
    pub(crate) fn from_result(result: &SendResult) -> Self {
        let refused =
            |reason: &Reason| Self::failed(format!("the credentials are refused: {reason}"));
        match result {
            SendResult::Delivered { .. }
            | SendResult::Unregistered { .. }
            | SendResult::AddressChanged { .. } => Self::passed("the credentials are accepted"),
            SendResult::AuthRejected { reason } | SendResult::ServiceRefused { reason } => {
                refused(reason)
            }
            SendResult::Throttle { reason, .. } => {
                Self::failed(format!("the provider asks to wait: {reason}"))
            }
            SendResult::Retry { reason, .. } => {
                Self::failed(format!("the provider could not answer: {reason}"))
            }
            SendResult::InvalidMessage { reason }
            | SendResult::NotPermitted { reason }
            | SendResult::Unknown { reason } => {
                Self::failed(format!("the provider rejected the check: {reason}"))
            }
        }
    }
}
