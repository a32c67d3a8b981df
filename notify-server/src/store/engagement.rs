//! Engagement events (B33).

use async_trait::async_trait;
use notify_core::{
    DayCount, DayPeriod, DeviceId, Event, EventsAccepted, NotificationId, Timestamp,
};

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

    /// What was counted on the days of a period, those that have a count alone, in order. Events
    /// count on the day of `at` above, deliveries that were sent on the day of the checkpoint that
    /// says so; what is deleted later stays counted.
    async fn count_days(&self, app: AppNo, period: DayPeriod) -> Result<Vec<DayCount>, StoreError>;

    /// Whether the application has that notification and that device (B31's 404); `None` is not
    /// asked for.
    async fn names_exist(
        &self,
        app: AppNo,
        notification: Option<NotificationId>,
        device: Option<DeviceId>,
    ) -> Result<bool, StoreError>;
}
