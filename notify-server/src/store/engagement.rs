//! Engagement events: what people did with a notification.

use notify_core::{
    DayCount, DayPeriod, DeviceId, Event, EventType, EventsAccepted, IgnoredEvent, NotificationId,
    Timestamp, WebhookEventType,
};

use crate::store::daily_stats::{self, DailyDelta};
use crate::store::device::key_by_id;
use crate::store::event::{self, EventRefs};
use crate::store::maintenance::EVENTS;
use crate::store::notification::number_of;
use crate::store::sql::row::{event_code, require_app};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, params};
use crate::store::{
    AppNo, DeviceKey, Idempotent, IdempotentRequest, NotificationNo, Store, StoreError, idempotency,
};

impl Store {
    /// Records events. An event counts once for its type, device and notification. Events about an
    /// unknown notification or device are not counted; the response lists them with the reason.
    pub async fn record_events(
        &self,
        app: AppNo,
        events: Vec<Event>,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<EventsAccepted>, StoreError> {
        self.write_in_set(RecordEvents { app, events, at, once }).await
    }

    /// Reads the daily counters of a period, in the order of the days. Days without counters are
    /// left out. An event counts on the day on which it was recorded, and a sent delivery on the
    /// day of its checkpoint. The deletion of old rows does not change the counters.
    pub async fn count_days(
        &self,
        app: AppNo,
        period: DayPeriod,
    ) -> Result<Vec<DayCount>, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            daily_stats::read(connection, app, period)
        })
        .await
    }

    /// Whether the application has this notification and this device. An argument that is `None` is
    /// not checked.
    pub async fn names_exist(
        &self,
        app: AppNo,
        notification: Option<NotificationId>,
        device: Option<DeviceId>,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            if let Some(id) = &notification
                && number_of(connection, app, id)?.is_none()
            {
                return Ok(false);
            }
            if let Some(id) = &device
                && key_by_id(connection, app, id.as_str())?.is_none()
            {
                return Ok(false);
            }
            Ok(true)
        })
        .await
    }
}

/// Why an event is ignored.
pub(super) const UNKNOWN_NOTIFICATION: &str = "unknown notification";
pub(super) const UNKNOWN_DEVICE: &str = "unknown device";
/// The events of the notification were deleted, so a repeated event would count again.
pub(super) const EVENTS_NOT_KEPT: &str = "events of this notification are not kept any more";

/// A request with events.
pub(super) struct RecordEvents {
    pub(super) app: AppNo,
    pub(super) events: Vec<Event>,
    pub(super) at: Timestamp,
    pub(super) once: Option<IdempotentRequest>,
}

impl RecordEvents {
    /// Records the events at most once.
    pub(super) fn write(
        &self,
        tx: &mut WriteTx<'_>,
    ) -> Result<Idempotent<EventsAccepted>, StoreError> {
        let Self { app, events, at, once } = self;
        idempotency::run(tx, *app, once.as_ref(), |tx| {
            require_app(tx, *app)?;
            let mut response = EventsAccepted::default();
            let mut delta = DailyDelta::default();
            for (index, event) in (0_u64..).zip(events) {
                match record(tx, *app, event, *at, &mut delta)? {
                    None => response.accepted += 1,
                    Some(reason) => {
                        response.ignored.push(IgnoredEvent { index, reason: reason.to_owned() });
                    }
                }
            }
            daily_stats::add(tx, *app, delta, *at)?;
            Ok(response)
        })
    }
}

/// Records an event. If it cannot be recorded, returns the reason.
fn record(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    event: &Event,
    at: Timestamp,
    delta: &mut DailyDelta,
) -> Result<Option<&'static str>, StoreError> {
    let Some(notification) = number_of(tx, app, &event.notification_id)? else {
        return Ok(Some(UNKNOWN_NOTIFICATION));
    };
    if !keeps_events(tx, notification)? {
        return Ok(Some(EVENTS_NOT_KEPT));
    }
    let Some(device) = key_by_id(tx, app, event.device_id.as_str())? else {
        return Ok(Some(UNKNOWN_DEVICE));
    };
    let is_first = insert(tx, notification, device, event.kind, event.at.unwrap_or(at))?;
    if is_first {
        count(tx, notification, event.kind)?;
        delta.add_event(event.kind);
        record_event(tx, app, notification, device, event, at)?;
    }
    Ok(None)
}

/// Writes the webhook event of an engagement event, if its type has one.
fn record_event(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    notification: NotificationNo,
    device: DeviceKey,
    event: &Event,
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(kind) = webhook_type(event.kind) else { return Ok(()) };
    let at = event.at.unwrap_or(now).to_string();
    let refs =
        EventRefs { notification: Some(notification), device: Some(device), detail: Some(&at) };
    event::record(tx, app, kind, refs, now)
}

/// The type of the webhook event of an engagement event, if it has one.
pub(super) fn webhook_type(kind: EventType) -> Option<WebhookEventType> {
    match kind {
        EventType::Opened => Some(WebhookEventType::EngagementOpened),
        EventType::Clicked => Some(WebhookEventType::EngagementClicked),
        EventType::Received | EventType::Dismissed => None,
    }
}

/// Whether the engagement events of a notification are still kept.
fn keeps_events(tx: &Connection, notification: NotificationNo) -> Result<bool, StoreError> {
    let keeps = tx
        .prepare_cached("select kept & ?2 from notifications where no = ?1")?
        .query_row([notification.0, EVENTS], |row| row.get(0))?;
    Ok(keeps)
}

/// Inserts an event. Returns whether it is the first of its type for the device and notification.
fn insert(
    tx: &Connection,
    notification: NotificationNo,
    device: DeviceKey,
    kind: EventType,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let inserted = tx
        .prepare_cached(
            "insert into engagement (notification_no, device_key, type, at)
             values (?1, ?2, ?3, ?4) on conflict do nothing",
        )?
        .execute(params![notification.0, device.0, event_code(kind), at.as_ms()])?;
    Ok(inserted > 0)
}

/// Increments the counter of an event type.
fn count(tx: &Connection, notification: NotificationNo, kind: EventType) -> Result<(), StoreError> {
    let column = match kind {
        EventType::Received => "received",
        EventType::Opened => "opened",
        EventType::Clicked => "clicked",
        EventType::Dismissed => "dismissed",
    };
    tx.prepare_cached(&format!(
        "insert into engagement_counts (notification_no, {column}) values (?1, 1)
         on conflict (notification_no) do update set {column} = engagement_counts.{column} + 1"
    ))?
    .execute([notification.0])?;
    Ok(())
}
