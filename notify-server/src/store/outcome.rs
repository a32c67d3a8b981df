//! Outcomes of deliveries, in the compact form in which they are kept: keyed by device sequence,
//! never by position, since a page that is read again after a crash may be another set of devices.

use std::borrow::Cow;

use crate::store::DeviceKey;

/// How a delivery ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Settled {
    /// The provider took it.
    Sent,
    /// Ended with a reason.
    Failed,
    /// The address is dead.
    Unregistered,
    /// `ttl_seconds` were over.
    Expired,
    /// Canceled by request, or the device was deleted.
    Canceled,
}

impl Settled {
    /// Every outcome, by its code.
    pub const ALL: [Self; 5] =
        [Self::Sent, Self::Failed, Self::Unregistered, Self::Expired, Self::Canceled];

    /// The word in the API and the metrics.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
        }
    }

    /// How it is written in tables. Never renumbered.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Self::Sent => 0,
            Self::Failed => 1,
            Self::Unregistered => 2,
            Self::Expired => 3,
            Self::Canceled => 4,
        }
    }

    /// The outcome of that code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|settled| settled.code() == code)
    }
}

/// How the delivery to one device ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The device.
    pub key: DeviceKey,
    /// How it ended.
    pub settled: Settled,
    /// Why, unless it was sent.
    pub reason: Option<Cow<'static, str>>,
    /// Attempts made.
    pub attempts: u16,
    /// The provider's id of the message; of what was sent, where it is to be kept (B20).
    pub message_id: Option<Box<str>>,
}
