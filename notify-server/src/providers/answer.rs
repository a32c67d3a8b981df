//! The common vocabulary of what a provider answered: one for all of them, so that policy knows
//! none by name.

use std::borrow::Cow;
use std::time::Duration;

use http::StatusCode;
use notify_core::Timestamp;

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
    pub(super) fn failed(reason: Reason) -> Self {
        Self::Retry { reason, after: None, outcome: Certainty::Failed }
    }

    /// The same answer with what `Retry-After` asks for, where it is one that waits.
    pub(super) fn waiting(mut self, asked: Option<Duration>) -> Self {
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
