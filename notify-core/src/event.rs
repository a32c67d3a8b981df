//! Engagement events.

use serde::{Deserialize, Serialize};

use crate::json::BodyPresence;
use crate::request::{model, request};
use crate::violations::{Path, Validator, path};
use crate::wire_enum::wire_enum;
use crate::{DeviceId, NotificationId, Timestamp};

/// Most events in one request.
pub const EVENTS_PER_REQUEST_MAX: usize = 1_000;

model! {
    /// Body of `POST /v1/events`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ReportEvents {
        /// 1 to 1,000 events.
        pub events: Vec<ReportEvent> =
            |object| object.list("events", EVENTS_PER_REQUEST_MAX).unwrap_or_default(),
    }
}

model! {
    /// One event of a [`ReportEvents`].
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ReportEvent {
        /// `received`, `opened`, `clicked` or `dismissed`.
        #[cfg_attr(feature = "openapi", schema(value_type = EventType))]
        #[serde(rename = "type")]
        pub kind: String = |object| object.or_default("type"),
        /// Id of the notification.
        pub notification_id: String,
        /// Id of the device.
        pub device_id: String,
        /// When it happened, unix ms; now when absent.
        pub at: Option<Timestamp>,
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

/// The validated form of [`ReportEvent`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// The type of the event.
    pub kind: EventType,
    /// The notification.
    pub notification_id: NotificationId,
    /// The device.
    pub device_id: DeviceId,
    /// When it happened. `None` means the time at which the server receives the event.
    pub at: Option<Timestamp>,
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

impl ReportEvents {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<Vec<Event>> {
        let events = path("events");
        if self.events.is_empty() {
            validator.violation(&events, "must hold at least 1 event");
        }
        validator.max_len(&events, self.events.len(), EVENTS_PER_REQUEST_MAX, "events");
        let mut valid = Vec::with_capacity(self.events.len());
        for (index, event) in self.events.iter().enumerate() {
            valid.extend(event.check(&events.index(index), validator));
        }
        Some(valid)
    }
}

impl ReportEvent {
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<Event> {
        let kind = validator.one_of(&at.field("type"), &self.kind);
        let notification_id =
            validator.id(&at.field("notification_id"), &self.notification_id, NotificationId::new);
        let device_id = validator.id(&at.field("device_id"), &self.device_id, DeviceId::new);
        let happened_at = validator.instant(&at.field("at"), self.at.map(Timestamp::as_ms));
        Some(Event {
            kind: kind?,
            notification_id: notification_id?,
            device_id: device_id?,
            at: happened_at,
        })
    }
}
