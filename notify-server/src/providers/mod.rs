//! The platforms' push providers. Each makes one attempt and classifies the response as a
//! [`SendResult`]. None decides about retries, stores or counts anything: policy is in `delivery`.
//!
//! To add a provider: a file here, its configuration in `provider_config/`, its payload in `payload/`,
//! a table that classifies its responses, a line in [`Providers`], and an entry in the shared tests of
//! `providers/tests.rs`.

mod apns;
mod fcm;
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
use notify_core::{IosEnv, ProviderKind, Timestamp, WebSubscription};
use tokio::time::Instant;

pub(crate) use self::registry::Providers;
pub(crate) use self::token_store::{
    SignedToken, StoredToken, TokenName, TokenStore, TokenStoreError,
};
pub(crate) use self::transport::{ADDRESS_NOT_ALLOWED, CONNECT_FAILED, Http1};
use crate::payload::telegram::BotCalls;
use crate::payload::{BodyTemplate, RenderContext, TooLarge};

/// The address of one device: what differs between the devices of a dispatch.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// An APNs device token and the host it belongs to.
    Apns {
        /// Device token, hex.
        token: Box<str>,
        /// Which host.
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
        /// When the person last wrote to the page, if known: messages are allowed for 24 hours from
        /// then.
        last_inbound_at: Option<Timestamp>,
    },
    /// A chat of a Telegram bot.
    Telegram {
        /// Chat id.
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

    /// The secret part of the address.
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

    /// Makes one attempt. Its duration (`REQUEST_TIMEOUT_SECONDS`) and the bytes read of the response
    /// (`RESPONSE_BYTES_MAX`) are bounded.
    async fn attempt(&self, rendered: &RenderedMessage, to: &Address) -> SendResult;

    /// Checks whether the provider accepts our credentials without sending a message to anyone: with a
    /// message to an impossible address, a dry run, or a query about our own account. What can be
    /// decided locally is decided without a request. The duration is bounded like an attempt's.
    async fn check(&self) -> CredentialCheck;

    /// How many attempts can usefully run at the same time: the sum of the current stream limits of the
    /// connections that exist or may be opened. At least 1.
    fn max_concurrency(&self) -> usize;

    /// How many attempts can usefully run at the same time to the push service of this endpoint;
    /// `None` where all addresses share one service and [`Provider::max_concurrency`] applies.
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
    /// As many as the streams carry.
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
fn deadline() -> Instant {
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

/// A body that is rendered once for all devices.
#[derive(Debug, Clone)]
pub enum RenderedBody {
    /// The same bytes for every device.
    Shared(Bytes),
    /// Bytes with a gap for the device's address.
    Template(BodyTemplate),
    /// Calls of Telegram's Bot API, with a gap for the chat.
    Calls(BotCalls),
}

/// Why an attempt ended as it did: the provider's own code or one of ours; short, stored and counted.
pub(crate) type Reason = Cow<'static, str>;

/// The result of one attempt, in terms that all providers share, so that the retry policy knows no
/// provider by name. Every response of every provider maps to exactly one variant.
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
        /// Whether a wrong environment or key would give the same response (the mass-purge guard counts
        /// these).
        ambiguous: bool,
        /// Since when, as reported by APNs with 410; a device that registered later is not disabled.
        since: Option<Timestamp>,
    },
    /// Transient: this delivery alone is retried.
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
    /// Our credentials, topic or project are wrong: all deliveries of the provider wait, none fails.
    AuthRejected {
        /// The provider's code.
        reason: Reason,
    },
    /// The push service refuses this address: it may belong to another key or be invented, or our key
    /// or clock may be wrong. Many in a row, for addresses that accepted messages before, indicate a
    /// fault on our side and pause this service alone.
    ServiceRefused {
        /// The provider's code.
        reason: Reason,
    },
    /// The address has changed; the new one is stored and used at once.
    AddressChanged {
        /// The new address.
        to: Box<str>,
    },
    /// This payload or address can never be accepted; the device is kept.
    InvalidMessage {
        /// The provider's code.
        reason: Reason,
    },
    /// The provider's policy does not allow the message now; the device is kept.
    NotPermitted {
        /// The provider's code.
        reason: Reason,
    },
    /// A response that no table lists.
    Unknown {
        /// Status and a short, sanitized part of the response.
        reason: Reason,
    },
}

impl SendResult {
    /// A transient failure that the provider reported.
    fn failed(reason: Reason) -> Self {
        Self::Retry { reason, after: None, outcome: Processing::Failed }
    }

    /// The same result with the wait of `Retry-After`, if it is one that can wait.
    fn with_retry_after(mut self, requested: Option<Duration>) -> Self {
        if let Self::Retry { after, .. } | Self::Throttle { after, .. } = &mut self {
            *after = requested;
        }
        self
    }
}

/// Whether a failed attempt may have reached the device, which decides whether a repeat can show twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Processing {
    /// Never processed: refused, above the last stream id, or not sent at all. Resending at once
    /// on another connection is safe.
    NotProcessed,
    /// The provider reported a failure.
    Failed,
    /// The connection broke or timed out after sending: the provider may have accepted the message.
    Unknown,
}

/// What a throttle applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This address alone.
    Address,
    /// The push service of this address; the whole provider where there is only one service.
    Service,
    /// Everything that uses these credentials.
    Provider,
}

/// Longest code of a provider that is kept, in bytes.
const REASON_BYTES_MAX: usize = 64;

/// A reason for a response that is in no table: the status, and the provider's code if it looks like
/// one. Any other text might contain an address, and would make each reason unique.
pub(crate) fn reason_from_status(status: StatusCode, text: &str) -> Reason {
    let is_code = !text.is_empty()
        && text.len() <= REASON_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match status.as_u16() {
        status if is_code => Cow::Owned(format!("http_{status} {text}")),
        status => Cow::Owned(format!("http_{status}")),
    }
}

/// The result of a check of credentials. The detail is for an administrator: it contains the provider's
/// own code, and never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialCheck {
    /// Whether messages can be sent with these credentials, as far as can be known.
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

    /// The check from the result of a message to an impossible address: if only the address is refused,
    /// everything checked before it was accepted.
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
                Self::failed(format!("the provider gave no answer that counts: {reason}"))
            }
            SendResult::InvalidMessage { reason }
            | SendResult::NotPermitted { reason }
            | SendResult::Unknown { reason } => {
                Self::failed(format!("the provider did not take the check: {reason}"))
            }
        }
    }
}
