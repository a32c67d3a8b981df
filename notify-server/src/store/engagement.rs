//! Engagement events (B33).

use async_trait::async_trait;
use notify_core::{DeviceId, Event, EventsAccepted, NotificationId, Timestamp};

use super::{AppNo, Done, Once, StoreError};

/// Engagement.
#[async_trait]
pub trait EngagementStore {
    /// Records events; each counts once per type, device and notification. Those that name
    /// something unknown are listed, the others count all the same.
    async fn record_events(
        &self,
        app: AppNo,
        events: Vec<Event>,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<EventsAccepted>, StoreError>;

    /// Whether the application has that notification and that device (B31's 404); `None` is not
    /// asked for.
    async fn names_exist(
        &self,
        app: AppNo,
        notification: Option<NotificationId>,
        device: Option<DeviceId>,
    ) -> Result<bool, StoreError>;
}
