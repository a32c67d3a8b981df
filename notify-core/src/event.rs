//! Engagement events.

use serde::{Deserialize, Serialize};

use crate::field::{Id, Instant, List, Model, ModelFields, NameOf, Nested};
use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::{Path, Validator};
use crate::wire_enum::wire_enum;
use crate::{DeviceId, NotificationId, Timestamp};

/// Most events in one request.
pub const EVENTS_PER_REQUEST_MAX: usize = 1_000;

model! {
    /// Body of `POST /v1/events`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ReportEvents with ReportEventsFields {
        /// 1 to 1,000 events.
        pub events: Vec<ReportEvent> as List<Nested<ReportEvent>, 1, EVENTS_PER_REQUEST_MAX>,
    }
}

model! {
    /// One event of a [`ReportEvents`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ReportEvent => #[derive(Debug, Clone, PartialEq, Eq)] pub Event {
        /// `received`, `opened`, `clicked` or `dismissed`.
        pub kind ("type"): String as NameOf<EventType> => EventType,
        /// Id of the notification.
        pub notification_id: String as Id<NotificationId> => NotificationId,
        /// Id of the device.
        pub device_id: String as Id<DeviceId> => DeviceId,
        /// When it happened, unix ms; now when absent.
        pub at: Option<Timestamp> as Instant,
    }
}

wire_enum! {
    /// What a device did with a notification.
    pub enum EventType {
        /// The device received the notification.
        Received = "received",
        /// The user opened the notification.
        Opened = "opened",
        /// The user clicked a button or link in the notification.
        Clicked = "clicked",
        /// The user dismissed the notification.
        Dismissed = "dismissed",
    }
}

/// Answer of `POST /v1/events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventsAccepted {
    /// Number of accepted events, repeated ones included.
    pub accepted: u64,
    /// Events with an unknown notification or device.
    pub ignored: Vec<IgnoredEvent>,
}

/// An event that was not accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IgnoredEvent {
    /// Index in the request, from 0.
    pub index: u64,
    /// `unknown notification` or `unknown device`.
    pub reason: String,
}

/// Engagement with a notification, as devices reported it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Engagement {
    /// Number of devices that received the notification.
    pub received: u64,
    /// Number of devices that opened the notification.
    pub opened: u64,
    /// Number of devices that clicked the notification.
    pub clicked: u64,
    /// Number of devices that dismissed the notification.
    pub dismissed: u64,
}

request!(ReportEvents => Vec<Event>, BodyPresence::Required);

impl Model for ReportEvents {
    type Valid = Vec<Event>;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Vec<Event>> {
        Some(self.check_fields(at, validator)?.events)
    }
}
