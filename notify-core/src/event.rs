//! Engagement events.

use serde::{Deserialize, Serialize};

use crate::json::{Body, Object};
use crate::request::request;
use crate::violations::{Findings, Path, path};
use crate::{DeviceId, NotificationId, Timestamp};

/// Most events of one request.
pub const EVENTS_PER_REQUEST_MAX: usize = 1_000;

/// Body of `POST /v1/events`.
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
    #[cfg_attr(feature = "openapi", schema(value_type = EventType))]
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

/// What a device did with a notification.
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

impl EventType {
    /// Every type.
    pub const ALL: [Self; 4] = [Self::Received, Self::Opened, Self::Clicked, Self::Dismissed];

    /// The word on the wire and in the database.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Opened => "opened",
            Self::Clicked => "clicked",
            Self::Dismissed => "dismissed",
        }
    }

    /// The type of that word, if there is one.
    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
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

/// Engagement of one notification.
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

request!(ReportEvents => Vec<Event>, Body::Required, read, check);

fn read(object: &mut Object<'_, '_>) -> ReportEvents {
    let events = object.objects("events", EVENTS_PER_REQUEST_MAX, |event| ReportEvent {
        kind: event.required_string("type"),
        notification_id: event.required_string("notification_id"),
        device_id: event.required_string("device_id"),
        at: event.instant("at").map(Timestamp),
    });
    ReportEvents { events: events.unwrap_or_default() }
}

fn check(request: ReportEvents, _now: Timestamp, findings: &mut Findings) -> Option<Vec<Event>> {
    let ReportEvents { events: reported } = request;
    let events = path("events");
    if reported.is_empty() {
        findings.broken(&events, "must hold at least 1 event");
    }
    findings.at_most(&events, reported.len(), EVENTS_PER_REQUEST_MAX, "events");
    let mut valid = Vec::with_capacity(reported.len());
    for (place, event) in reported.iter().enumerate() {
        valid.extend(check_event(&events.index(place), event, findings));
    }
    Some(valid)
}

fn check_event(at: &Path<'_>, event: &ReportEvent, findings: &mut Findings) -> Option<Event> {
    let kind = findings.word(&at.field("type"), &event.kind, &EventType::ALL, EventType::as_str);
    let notification_id =
        findings.id(&at.field("notification_id"), &event.notification_id, NotificationId::new);
    let device_id = findings.id(&at.field("device_id"), &event.device_id, DeviceId::new);
    let happened = findings.instant(&at.field("at"), event.at.map(Timestamp::as_ms));
    Some(Event {
        kind: kind?,
        notification_id: notification_id?,
        device_id: device_id?,
        at: happened,
    })
}
