//! What became of a notification device by device.

use serde::{Deserialize, Serialize};

use crate::{
    CURSOR, DeviceId, LIMIT, PageQuery, Parameter, ParameterForm, Platform, Query, Timestamp,
    Violations, path::path, query::Parameters,
};

/// What became of the delivery to one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum DeliveryOutcome {
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
    /// Still to come.
    Pending,
}

impl DeliveryOutcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::Sent,
        Self::Failed,
        Self::Unregistered,
        Self::Expired,
        Self::Canceled,
        Self::Pending,
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
        }
    }

    /// The outcome of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.as_str() == word)
    }
}

impl std::fmt::Display for DeliveryOutcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The delivery of a notification to one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Delivery {
    /// The device; null when it was erased since, or registered again for another platform.
    pub device_id: Option<DeviceId>,
    /// Platform that it was sent to on.
    pub platform: Platform,
    /// What became of it.
    pub outcome: DeliveryOutcome,
    /// The provider's word, or ours; of a pending one that of the last attempt.
    pub reason: Option<String>,
    /// Attempts made.
    pub attempts: u32,
    /// The provider's id of the message, where the server is told to keep it.
    pub provider_message_id: Option<String>,
    /// When the outcome was committed; null while it is pending.
    pub at: Option<Timestamp>,
    /// When the next attempt is due, if one failed already.
    pub next_attempt_at: Option<Timestamp>,
}

/// Answer of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeliveryList {
    /// One page, platform by platform, in the order in which the devices registered. It may hold
    /// fewer than `limit`, even none, though there are more.
    pub deliveries: Vec<Delivery>,
    /// Where the next page begins; null at the end.
    pub next_cursor: Option<String>,
}

/// Query of `GET /v1/notifications/:id/deliveries`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListDeliveries {
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Where the page before ended.
    pub cursor: Option<String>,
    /// Only deliveries with this outcome.
    pub outcome: Option<DeliveryOutcome>,
}

impl Query for ListDeliveries {
    type Valid = Self;
    const PARAMETERS: &'static [Parameter] = &[
        LIMIT,
        CURSOR,
        Parameter::new(
            "outcome",
            ParameterForm::Word(|| DeliveryOutcome::ALL.map(DeliveryOutcome::as_str).into()),
            "Only deliveries with this outcome",
        ),
    ];

    fn parse(parameters: &[(String, String)], _now: Timestamp) -> Result<Self, Violations> {
        let mut parameters = Parameters::new(parameters, Self::PARAMETERS);
        let PageQuery { limit, cursor } = PageQuery::take(&mut parameters);
        let word = parameters.text("outcome");
        let outcome = parameters.findings.optional_word(
            &path("outcome"),
            word,
            &DeliveryOutcome::ALL,
            DeliveryOutcome::as_str,
        );
        parameters.finish(Some(Self { limit, cursor, outcome }))
    }
}
