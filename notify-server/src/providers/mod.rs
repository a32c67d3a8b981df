//! The platform push providers. Each makes one attempt and says what it saw, in the vocabulary of
//! [`Answer`]. None decides whether a delivery goes on, stores or counts: policy is `delivery`'s.
//!
//! To add a provider: a file here with its configuration, payload in `payload/`, its answer table,
//! one line in [`Providers`], and an entry in the shared checks of `providers/tests.rs`.

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
pub(crate) use self::token_store::{KeeperError, KeptToken, SignedToken, TokenKeeper, TokenName};
pub(crate) use self::transport::{ADDRESS_NOT_ALLOWED, CONNECT_FAILED, Http1};
use crate::payload::telegram::Forms;
use crate::payload::{Around, Outgoing, TooLarge};

/// Where one device is reached: what differs between the devices of a dispatch.
#[derive(Clone, PartialEq, Eq)]
pub enum Address {
    /// An APNs device token and the host it belongs to (B35).
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
        /// When the person last wrote to the page, as far as it is known: messages are allowed for
        /// 24 hours from then.
        last_inbound_at: Option<Timestamp>,
    },
    /// A chat of a Telegram bot.
    Telegram {
        /// Chat id.
        chat: Box<str>,
    },
}

impl Address {
    /// Whose address it is.
    pub(crate) fn provider(&self) -> ProviderKind {
        match self {
            Self::Apns { .. } => ProviderKind::Apns,
            Self::Fcm { .. } => ProviderKind::Fcm,
            Self::WebPush(_) => ProviderKind::WebPush,
            Self::Messenger { .. } => ProviderKind::Messenger,
            Self::Telegram { .. } => ProviderKind::Telegram,
        }
    }

    /// The part of it that must not be shown.
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
    /// Renders what is the same for every device of a dispatch, once.
    ///
    /// # Errors
    /// When the payload is larger than the provider takes (B16).
    fn prepare(&self, message: &Outgoing<'_>) -> Result<Prepared, TooLarge>;

    /// Makes one attempt. Its time is bounded (`REQUEST_TIMEOUT_SECONDS`), what it reads of the answer
    /// too (`ANSWER_BYTES_MAX`).
    async fn attempt(&self, prepared: &Prepared, to: &Address) -> Answer;

    /// Asks the provider whether it takes our credentials, without sending anything to anybody: a
    /// message to an address that nobody can have, a dry run, or a question about ourselves. What
    /// can be told without asking is told so. Its time is bounded like an attempt's.
    async fn check(&self) -> Checked;

    /// How many attempts can usefully be under way now: the sum of the live stream limits of the
    /// connections that exist or may be opened. At least 1.
    fn slots(&self) -> usize;

    /// How many attempts to the push service of this endpoint can usefully be under way; `None`
    /// where all addresses are behind one, for which [`Provider::slots`] speaks.
    fn service_slots(&self, _endpoint: &str) -> Option<usize> {
        None
    }

    /// What the provider's own limits allow now, beside what an administrator set.
    fn allowance(&self, _now: Timestamp) -> Allowance {
        Allowance::Unlimited
    }
}

/// What a provider's own limits allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowance {
    /// Whatever the streams carry.
    Unlimited,
    /// At most so many attempts a second.
    PerSecond(u32),
    /// None before that instant: the quota is used up.
    Closed {
        /// When it opens again.
        until: Timestamp,
    },
}

/// A provider, as the engine holds it.
pub(crate) type SharedProvider = Arc<dyn Provider>;

/// Longest time one attempt takes, in seconds.
pub(crate) const REQUEST_TIMEOUT_SECONDS: u64 = 30;

/// When an attempt that begins now has taken too long.
fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(REQUEST_TIMEOUT_SECONDS)
}
/// Most bytes read of a provider's answer: it may be anybody's.
pub(crate) const ANSWER_BYTES_MAX: usize = 65_536;

/// What is the same for every device of a dispatch.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Header fields beside path and authorization.
    pub headers: http::HeaderMap,
    /// The body; for FCM cut where the token goes in.
    pub body: PreparedBody,
}

/// A body rendered once.
#[derive(Debug, Clone)]
pub enum PreparedBody {
    /// The same bytes for every device.
    Whole(Bytes),
    /// The bytes around the device's token.
    Around(Around),
    /// Calls of the Bot API around the chat.
    Forms(Forms),
}

// The common vocabulary of what a provider answered: one for all of them, so that policy knows
// none by name.

/// The provider's own word for what happened, or ours: short, stored and counted.
pub(crate) type Reason = Cow<'static, str>;

/// What one attempt came to. Every answer of every provider maps to exactly one variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The provider took it.
    Delivered {
        /// The provider's id of the message.
        message_id: Option<Box<str>>,
    },
    /// The address will never work again.
    TokenDead {
        /// The provider's word.
        reason: Reason,
        /// Whether a wrong environment or key looks the same (the mass-purge guard counts these).
        ambiguous: bool,
        /// Since when, as APNs 410 tells; a device registered later is spared (B22).
        since: Option<Timestamp>,
    },
    /// Transient: this delivery alone is tried again.
    Retry {
        /// The provider's word, or what broke.
        reason: Reason,
        /// What the provider asked for.
        after: Option<Duration>,
        /// Whether the provider may have taken it all the same.
        outcome: Certainty,
    },
    /// The provider asks to slow down; no attempt is burnt.
    Throttle {
        /// The provider's word.
        reason: Reason,
        /// What the provider asked for.
        after: Option<Duration>,
        /// What has to slow down.
        scope: Scope,
    },
    /// Our credentials, topic or project are wrong: the whole provider is held, nothing fails.
    Config {
        /// The provider's word.
        reason: Reason,
    },
    /// The push service refuses this address: it may belong to another key, or be made up, or our key
    /// or clock may be wrong. Many in a row, of addresses that took messages before, are about us and
    /// hold this service alone (B40).
    ServiceRefused {
        /// The provider's word.
        reason: Reason,
    },
    /// The address is another one now; it is kept, and sent to at once.
    Moved {
        /// The new address.
        to: Box<str>,
    },
    /// This payload or address can never be accepted; the device stays.
    BadMessage {
        /// The provider's word.
        reason: Reason,
    },
    /// Not allowed now, by the provider's policy; the device stays.
    Policy {
        /// The provider's word.
        reason: Reason,
    },
    /// An answer that says nothing known.
    Unknown {
        /// Status and a short, cleaned piece of the answer.
        reason: Reason,
    },
}

impl Answer {
    /// A failure that the provider answered with, and that may pass.
    fn failed(reason: Reason) -> Self {
        Self::Retry { reason, after: None, outcome: Certainty::Failed }
    }

    /// The same answer with what `Retry-After` asks for, where it is one that waits.
    fn waiting(mut self, asked: Option<Duration>) -> Self {
        if let Self::Retry { after, .. } | Self::Throttle { after, .. } = &mut self {
            *after = asked;
        }
        self
    }
}

/// Whether a failed attempt may have reached the device: what decides whether a repeat can show
/// twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Certainty {
    /// Never processed: refused, above the last stream id, or not sent at all. Resending at once
    /// on another connection is safe.
    NotProcessed,
    /// The provider answered that it failed.
    Failed,
    /// Cut or timed out after sending: it may have been taken.
    Unknown,
}

/// What a throttle is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// This address alone.
    Address,
    /// The push service of this address; the same as the provider where there is but one.
    Service,
    /// Everything that goes through these credentials.
    Provider,
}

/// Longest word of a provider that is kept, in bytes.
const WORD_BYTES_MAX: usize = 64;

/// A reason for an answer that is not in a table: the status, and the provider's word where it
/// looks like one. Anything else might echo an address, and would be a reason of its own each time.
pub(crate) fn word(status: StatusCode, text: &str) -> Reason {
    let is_word = !text.is_empty()
        && text.len() <= WORD_BYTES_MAX
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    match status.as_u16() {
        code if is_word => Cow::Owned(format!("http_{code} {text}")),
        code => Cow::Owned(format!("http_{code}")),
    }
}

// What a check of credentials came to.

/// What a check of credentials came to. The detail is for an administrator: the provider's own
/// word, and never a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// Whether messages can go out with these credentials, as far as can be told.
    pub ok: bool,
    /// What the provider said, or why it was not heard.
    pub detail: String,
}

impl Checked {
    /// The credentials are good.
    pub(crate) fn good(detail: impl Into<String>) -> Self {
        Self { ok: true, detail: detail.into() }
    }

    /// They are not, or that could not be found out.
    pub(crate) fn bad(detail: impl Into<String>) -> Self {
        Self { ok: false, detail: detail.into() }
    }

    /// What the answer to a message says that nobody can get: that its address is refused means
    /// that everything before it was taken.
    pub(crate) fn of_answer(answer: &Answer) -> Self {
        let refused = |reason: &Reason| Self::bad(format!("the credentials are refused: {reason}"));
        match answer {
            Answer::Delivered { .. } | Answer::TokenDead { .. } | Answer::Moved { .. } => {
                Self::good("the credentials are accepted")
            }
            Answer::Config { reason } | Answer::ServiceRefused { reason } => refused(reason),
            Answer::Throttle { reason, .. } => {
                Self::bad(format!("the provider asks to wait: {reason}"))
            }
            Answer::Retry { reason, .. } => {
                Self::bad(format!("the provider gave no answer that counts: {reason}"))
            }
            Answer::BadMessage { reason }
            | Answer::Policy { reason }
            | Answer::Unknown { reason } => {
                Self::bad(format!("the provider did not take the check: {reason}"))
            }
        }
    }
}
