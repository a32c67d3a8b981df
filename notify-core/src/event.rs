//! Engagement events (B33).

use serde::{Deserialize, Serialize};

use crate::{DeviceId, NotificationId, Timestamp};

/// Most events of one request (B33).
pub const EVENTS_PER_REQUEST_MAX: usize = 1_000;

/// Body of `POST /v1/events` (B33).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportEvents {
    /// 1 to 1,000 events.
    pub events: Vec<ReportEvent>,
}

/// One event of a [`ReportEvents`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReportEvent {
    /// `received`, `opened`, `clicked` or `dismissed`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The notification.
    pub notification_id: String,
    /// The device.
    pub device_id: String,
    /// When it happened, unix ms; now when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Timestamp>,
}

/// What a device did with a notification (B33).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum EventType {
    /// It arrived.
    Received,
    /// It was opened.
    Opened,
    /// A button or link of it was used.
    Clicked,
    /// It was swiped away.
    Dismissed,
}

/// An event that holds every rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventType,
    /// The notification.
    pub notification_id: NotificationId,
    /// The device.
    pub device_id: DeviceId,
    /// When; the server's clock when absent.
    pub at: Option<Timestamp>,
}

/// Answer of `POST /v1/events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventsAccepted {
    /// How many counted, repeats included.
    pub accepted: u64,
    /// Events that name something unknown.
    pub ignored: Vec<IgnoredEvent>,
}

/// An event that did not count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IgnoredEvent {
    /// Its place in the request.
    pub index: u64,
    /// `unknown notification` or `unknown device`.
    pub reason: String,
}

/// Engagement of one notification (B20).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Engagement {
    /// Devices that reported it received.
    pub received: u64,
    /// Devices that opened it.
    pub opened: u64,
    /// Devices that clicked in it.
    pub clicked: u64,
    /// Devices that dismissed it.
    pub dismissed: u64,
}
