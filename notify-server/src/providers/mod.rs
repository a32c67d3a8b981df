//! The platform push providers. Each makes one attempt and says what it saw, in the vocabulary of
//! [`Answer`]. None decides whether a delivery goes on, stores or counts: policy is `delivery`'s.
//!
//! To add a provider: a file here with its configuration, payload in `payload/`, its answer table,
//! one line in [`Providers`], and an entry in the shared checks of `providers/tests.rs`.

mod answer;
mod apns;
mod check;
mod fcm;
mod keeper;
mod messenger;
mod registry;
mod shared;
mod telegram;
#[cfg(test)]
mod tests;
mod transport;
mod web_push;

pub(crate) use keeper::{KeeperError, KeptToken, SignedToken, TokenKeeper, TokenName};
pub(crate) use registry::Providers;
pub(crate) use transport::{ADDRESS_NOT_ALLOWED, CONNECT_FAILED, Http1};

pub use answer::Answer;
pub(crate) use answer::{Certainty, Reason, Scope};
pub use check::Checked;

use std::sync::Arc;

use bytes::Bytes;
use notify_core::{IosEnv, ProviderKind, Timestamp, WebSubscription};
use tokio::time::{Duration, Instant};

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
