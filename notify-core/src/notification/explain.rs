//! Why a device did or did not receive a notification.

use serde::{Deserialize, Serialize};

use crate::wire_enum::wire_enum;
use crate::{DeviceId, Timestamp};

wire_enum! {
    /// Outcome of a notification for one device.
    pub enum ExplainedOutcome {
        /// The provider accepted the notification.
        Sent = "sent",
        /// The delivery failed for good, with a reason.
        Failed = "failed",
        /// The provider reported the address as unregistered.
        Unregistered = "unregistered",
        /// `ttl_seconds` elapsed before the provider accepted it.
        Expired = "expired",
        /// Canceled by request before it was sent.
        Canceled = "canceled",
        /// No outcome yet.
        Pending = "pending",
        /// The device is not in the audience.
        NotTargeted = "not_targeted",
        /// The caller delivers it by other means.
        Reported = "reported",
    }
}

wire_enum! {
    /// Kind of a step of an explanation. The list is complete.
    pub enum StepKind {
        /// The notification was accepted.
        Accepted = "accepted",
        /// The notification was reported: the caller delivers it by other means.
        Reported = "reported",
        /// The notification is not due yet, or sending has not started.
        Scheduled = "scheduled",
        /// The notification was canceled by request.
        CancelRequested = "cancel_requested",
        /// The notification became due, and its audience was fixed.
        Started = "started",
        /// The device registered after the audience was fixed.
        RegisteredLater = "registered_later",
        /// The target includes the device.
        Targeted = "targeted",
        /// The target does not include the device.
        NotTargeted = "not_targeted",
        /// The device has the tag of the audience.
        HasTag = "has_tag",
        /// The device does not have the tag of the audience set to true.
        LacksTag = "lacks_tag",
        /// The device is enabled.
        Enabled = "enabled",
        /// The user disabled push notifications.
        Disabled = "disabled",
        /// The provider reported the address as unregistered.
        AddressDead = "address_dead",
        /// The device has an address.
        HasAddress = "has_address",
        /// The device has no address.
        NoAddress = "no_address",
        /// The address belonged to another device during sending, which may have received it.
        AddressMoved = "address_moved",
        /// The device could not receive notifications when the server reached it. Its state may have changed
        /// since then.
        PassedOver = "passed_over",
        /// The platform's provider is not configured.
        ProviderNotConfigured = "provider_not_configured",
        /// The provider rejects the server's credentials; all deliveries through it wait.
        CredentialsRefused = "credentials_refused",
        /// All deliveries through the provider wait: it throttles, or is unavailable.
        Paused = "paused",
        /// The server has not reached the device yet.
        Waiting = "waiting",
        /// Delivery was attempted; the detail has the provider's last answer.
        Attempted = "attempted",
        /// Another attempt follows; the detail has the time at which it is due.
        NextAttempt = "next_attempt",
        /// The provider accepted the notification.
        Sent = "sent",
        /// The delivery failed for good, with a reason.
        Failed = "failed",
        /// The provider answered that the address is unregistered.
        Unregistered = "unregistered",
        /// `ttl_seconds` elapsed.
        Expired = "expired",
        /// It was canceled before it was sent.
        Canceled = "canceled",
    }
}

/// One step of an explanation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExplainedStep {
    /// When it happened, unix ms. Null for a state that the server knows only as of now, and not as of
    /// the time of sending.
    pub at: Option<Timestamp>,
    /// Kind of the step.
    pub what: StepKind,
    /// The step as a sentence, with names and numbers.
    pub detail: String,
}

/// Answer of `GET /v1/notifications/:id/explain/:device_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Explanation {
    /// Id of the device.
    pub device_id: DeviceId,
    /// Outcome.
    pub outcome: ExplainedOutcome,
    /// Steps that led to the outcome, in order.
    pub steps: Vec<ExplainedStep>,
}
