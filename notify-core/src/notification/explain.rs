//! Why a device did or did not get a notification.

use serde::{Deserialize, Serialize};

use crate::{DeviceId, Timestamp};

/// How a device fared with a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ExplainedOutcome {
    /// The provider took it.
    Sent,
    /// Ended with a reason.
    Failed,
    /// The address is dead.
    Unregistered,
    /// `ttl_seconds` were over.
    Expired,
    /// Canceled by request before it was sent.
    Canceled,
    /// Still to come.
    Pending,
    /// Not among the devices that it goes to.
    NotTargeted,
    /// The caller delivers it by other means.
    Reported,
}

impl ExplainedOutcome {
    /// Every outcome.
    pub const ALL: [Self; 8] = [
        Self::Sent,
        Self::Failed,
        Self::Unregistered,
        Self::Expired,
        Self::Canceled,
        Self::Pending,
        Self::NotTargeted,
        Self::Reported,
    ];

    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Failed => "failed",
            Self::Unregistered => "unregistered",
            Self::Expired => "expired",
            Self::Canceled => "canceled",
            Self::Pending => "pending",
            Self::NotTargeted => "not_targeted",
            Self::Reported => "reported",
        }
    }
}

/// Defines the words of a step, each with what it says.
macro_rules! step_words {
    ($($(#[$doc:meta])* $name:ident = $word:literal;)*) => {
        /// What a step says. The list is closed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        pub enum StepWord {$(
            $(#[$doc])*
            #[serde(rename = $word)]
            #[cfg_attr(feature = "openapi", schema(rename = $word))]
            $name,
        )*}

        impl StepWord {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The word on the wire.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),* }
            }
        }
    };
}

step_words! {
    /// The notification was accepted.
    Accepted = "accepted";
    /// It was reported: the caller delivers it by other means.
    Reported = "reported";
    /// It is not due yet, or not begun.
    Scheduled = "scheduled";
    /// It was canceled by request.
    CancelRequested = "cancel_requested";
    /// It became due, and its audience was fixed.
    Started = "started";
    /// The device registered after the audience was fixed.
    RegisteredLater = "registered_later";
    /// The target names the device or its platform.
    Targeted = "targeted";
    /// The target names neither the device nor its platform.
    NotTargeted = "not_targeted";
    /// The device has the tag that narrows the target.
    HasTag = "has_tag";
    /// It does not have that tag set to true.
    LacksTag = "lacks_tag";
    /// The device is enabled.
    Enabled = "enabled";
    /// The user turned push off.
    Disabled = "disabled";
    /// The provider reported the address as dead.
    AddressDead = "address_dead";
    /// The device has an address.
    HasAddress = "has_address";
    /// It has none.
    NoAddress = "no_address";
    /// The address belonged to another device while this was sent, which may have got it.
    AddressMoved = "address_moved";
    /// When its turn came the device was not one to send to, whatever it is now.
    PassedOver = "passed_over";
    /// The platform's provider is not configured.
    ProviderNotConfigured = "provider_not_configured";
    /// The provider refuses the server's credentials, and everything for it is held.
    CredentialsRefused = "credentials_refused";
    /// Everything for the provider waits: it asked to slow down, or cannot be reached.
    Paused = "paused";
    /// The device's turn has not come.
    Waiting = "waiting";
    /// Attempts were made; the last answer in the provider's words.
    Attempted = "attempted";
    /// When the next attempt is due.
    NextAttempt = "next_attempt";
    /// The provider took it.
    Sent = "sent";
    /// It ended with a reason.
    Failed = "failed";
    /// The provider says that the address is dead.
    Unregistered = "unregistered";
    /// `ttl_seconds` were over.
    Expired = "expired";
    /// It was canceled before it was sent.
    Canceled = "canceled";
}

/// One step of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplainedStep {
    /// When it was so; null for what is so now and cannot be proved of the time of sending.
    pub at: Option<Timestamp>,
    /// What it says.
    pub what: StepWord,
    /// The same for people, with names and numbers.
    pub detail: String,
}

/// Answer of `GET /v1/notifications/:id/explain/:device_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// The device.
    pub device_id: DeviceId,
    /// How it fared.
    pub outcome: ExplainedOutcome,
    /// Why, in order.
    pub steps: Vec<ExplainedStep>,
}
