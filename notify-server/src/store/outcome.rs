//! Final results of deliveries.

use std::borrow::Cow;

use crate::store::DeviceKey;

/// The final result of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// The provider accepted it.
    Sent,
    /// It failed for a reason.
    Failed,
    /// The provider reported the address as unregistered.
    Unregistered,
    /// It expired: `ttl_seconds` had passed.
    Expired,
    /// Canceled by request, or the device was deleted.
    Canceled,
}

impl Outcome {
    /// Every outcome, by its code.
    pub const ALL: [Self; 5] =
        [Self::Sent, Self::Failed, Self::Unregistered, Self::Expired, Self::Canceled];

    /// The name in the API and the metrics.
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

    /// The code in tables. Codes never change.
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

    /// The outcome of a code, if there is one.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|settled| settled.code() == code)
    }
}

/// The final result of the delivery to one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceOutcome {
    /// The device.
    pub key: DeviceKey,
    /// The result.
    pub settled: Outcome,
    /// Why, unless it was sent.
    pub reason: Option<Cow<'static, str>>,
    /// Attempts made.
    pub attempts: u16,
    /// The provider's id of a sent message, if ids are kept.
    pub message_id: Option<Box<str>>,
}
