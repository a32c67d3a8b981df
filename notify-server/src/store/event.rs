//! Events: the log that webhooks and the event stream read. Whatever happens is written in the same
//! transaction as its event, and only where somebody wants to know.

use async_trait::async_trait;
use notify_core::{Timestamp, WebhookData, WebhookEventType};

use super::{AppNo, StoreError};

/// Most events kept of an application, between two trims: what an endpoint may lie behind.
pub const EVENTS_KEPT_MAX: i64 = 200_000;
/// How long an event is kept, in milliseconds: 7 days.
pub const EVENTS_KEPT_MS: i64 = 7 * 86_400_000;
/// How long after the last look at a stream every event is kept, in milliseconds: as long as an
/// event is, so that who comes back in time has missed nothing.
pub const STREAM_WANTED_MS: i64 = EVENTS_KEPT_MS;
/// Most rows that one read of a stream looks at.
pub const EVENTS_PER_READ_MAX: u32 = 200;

/// A set of event types, as bits. Codes are never renumbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTypes(pub i64);

impl EventTypes {
    /// Every type, those of later versions included.
    pub const EVERY: Self = Self(i64::MAX);

    /// These types; none named is every type.
    #[must_use]
    pub fn of(types: &[WebhookEventType]) -> Self {
        if types.is_empty() {
            return Self::EVERY;
        }
        Self(types.iter().fold(0, |bits, kind| bits | Self::bit(*kind)))
    }

    /// The types, none for every one.
    #[must_use]
    pub fn listed(self) -> Vec<WebhookEventType> {
        if self == Self::EVERY {
            return Vec::new();
        }
        WebhookEventType::ALL.into_iter().filter(|kind| self.contains(*kind)).collect()
    }

    /// Whether it holds a type.
    #[must_use]
    pub fn contains(self, kind: WebhookEventType) -> bool {
        self.0 & Self::bit(kind) != 0
    }

    /// The bit of a type.
    #[must_use]
    pub fn bit(kind: WebhookEventType) -> i64 {
        1 << event_type_code(kind)
    }
}

/// The code of a type.
#[must_use]
pub fn event_type_code(kind: WebhookEventType) -> i64 {
    match kind {
        WebhookEventType::NotificationCompleted => 0,
        WebhookEventType::NotificationFailed => 1,
        WebhookEventType::DeviceUnregistered => 2,
        WebhookEventType::PollAnswered => 3,
        WebhookEventType::EngagementOpened => 4,
        WebhookEventType::EngagementClicked => 5,
        WebhookEventType::WebhookTest => 6,
    }
}

/// An event as it is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToldEvent {
    /// Its place, as readers carry it.
    pub cursor: String,
    /// When it was written.
    pub at: Timestamp,
    /// What happened.
    pub data: WebhookData,
}

/// Where a stream is read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadFrom {
    /// After what is there now.
    End,
    /// After the event of that cursor. One that no event gave is [`StoreError::Refused`].
    After(String),
}

/// What a stream shows next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSlice {
    /// Whether events after the place asked for are not kept any more, or never were: what follows
    /// begins with the oldest that is.
    pub reset: bool,
    /// Events, oldest first.
    pub events: Vec<ToldEvent>,
    /// The place until which was read.
    pub cursor: String,
    /// Whether there is more at once.
    pub more: bool,
}

/// What one step of [`EventStore::trim_events`] took away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Events.
    pub events: u64,
    /// Messages that were over.
    pub messages: u64,
    /// Events that a webhook had not been told of yet, once for each such webhook.
    pub dropped: u64,
    /// Whether there is more.
    pub more: bool,
}

/// Events of applications.
#[async_trait]
pub trait EventStore {
    /// Has every event of the application kept until then. What happened since the last such time
    /// was over is not there: older cursors are told so.
    async fn want_events(
        &self,
        app: AppNo,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// Reads events of those types, at most [`EVENTS_PER_READ_MAX`] rows. Events about what is
    /// erased meanwhile are passed over.
    async fn read_events(
        &self,
        app: AppNo,
        from: ReadFrom,
        types: EventTypes,
    ) -> Result<EventSlice, StoreError>;

    /// Deletes some of the events that are older than [`EVENTS_KEPT_MS`] or beyond
    /// [`EVENTS_KEPT_MAX`], and some messages of webhooks that are over for longer than
    /// [`super::MESSAGES_KEPT_MS`]: one transaction, bounded. Enabled webhooks that have not been told
    /// of an event that goes have it counted as dropped.
    async fn trim_events(&self, now: Timestamp) -> Result<Trimmed, StoreError>;
}
