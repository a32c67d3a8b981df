//! Events: the log that webhooks and the event stream read. The transaction that changes something
//! also writes the event about it, but only if the application has a subscriber for the type of the
//! event.

use std::str::FromStr;

use notify_core::{
    AnswerId, Counts, DeviceEngaged, DeviceId, DeviceUnregistered, NotificationEnded,
    NotificationId, NotificationPaused, PollAnswered, Timestamp, UserId, WebhookData,
    WebhookEventType, WebhookId, WebhookTested,
};

use crate::store::notification::{counts_of, user_counts};
use crate::store::page::CursorCodec;
use crate::store::sql::error::internal;
use crate::store::sql::row::{count_at, require_app, unexpected_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, WriteScope, params};
use crate::store::{
    AppNo, Change, DeviceKey, MESSAGES_KEPT_MS, NotificationNo, Operation, Store, StoreError,
    UserNo, user,
};

/// The number of events of an application that a trim keeps. An endpoint can fall behind
/// by so many events without missing one.
pub const EVENTS_KEPT_MAX: i64 = 200_000;
/// How long an event is kept, in milliseconds: 7 days.
pub const EVENTS_KEPT_MS: i64 = 7 * 86_400_000;
/// How long all types of events are written after the last read of the stream, in milliseconds. It
/// is as long as an event is kept, so that a reader that returns before its events expire has
/// missed nothing.
pub const STREAM_WANTED_MS: i64 = EVENTS_KEPT_MS;
/// The most rows that one read of the stream scans.
pub const EVENTS_PER_READ_MAX: u32 = 200;

/// A set of event types. The bit of a type is its code, which never changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EventTypes(pub i64);

impl EventTypes {
    /// All types, including types of later versions.
    pub const EVERY: Self = Self(i64::MAX);

    /// The set of `types`. An empty list is the set of all types.
    #[must_use]
    pub fn of(types: &[WebhookEventType]) -> Self {
        if types.is_empty() {
            return Self::EVERY;
        }
        Self(types.iter().fold(0, |bits, kind| bits | Self::bit(*kind)))
    }

    /// The types of the set. The list is empty for the set of all types.
    #[must_use]
    pub fn listed(self) -> Vec<WebhookEventType> {
        if self == Self::EVERY {
            return Vec::new();
        }
        let types = WebhookEventType::SUBSCRIBABLE.iter().copied();
        types.filter(|kind| self.contains(*kind)).collect()
    }

    /// Whether the set contains a type.
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
        WebhookEventType::NotificationPaused => 7,
    }
}

/// An event of the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// The cursor of the event, with which a reader continues after it.
    pub cursor: String,
    /// When the event was written.
    pub at: Timestamp,
    /// What happened.
    pub data: WebhookData,
}

/// The position from which a stream is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventCursor {
    /// After the last event that exists now.
    End,
    /// After the event with this cursor. A text that is not a cursor of an event is an unknown position
    /// ([`EventPage::reset`]).
    After(String),
}

/// The next events of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPage {
    /// Whether the requested position is unknown, or events after it are missing, because they expired or
    /// were never written. The page then begins with the oldest event that exists.
    pub reset: bool,
    /// The events, oldest first.
    pub events: Vec<EventRecord>,
    /// The cursor for the next read.
    pub cursor: String,
    /// Whether more events exist already.
    pub more: bool,
}

/// The numbers of rows that one call of [`Store::trim_events`] deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Trimmed {
    /// Events.
    pub events: u64,
    /// Finished messages.
    pub messages: u64,
    /// Events that were not delivered to a webhook yet, counted once per webhook.
    pub dropped: u64,
    /// Whether there is more.
    pub more: bool,
}

// Writing, reading and trimming the event log.

/// The period in which all types of events are written is only extended if it grows by at least
/// this time, in milliseconds. Frequent reads of the stream therefore cause one write an hour.
const WANTED_SLACK_MS: i64 = 3_600_000;

impl Store {
    /// Writes all types of events of the application until `until`. If an earlier period has ended
    /// before `now`, events in between may be missing: a read from an older cursor then reports a
    /// reset.
    pub async fn keep_events_until(
        &self,
        app: AppNo,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let stored_until = self
            .read(move |connection| {
                require_app(connection, app)?;
                let stored_until = connection
                    .prepare_cached("select stream_until from event_logs where app_no = ?1")?
                    .query_row([app.0], |row| row.get::<i64>(0))
                    .optional()?;
                Ok(stored_until)
            })
            .await?;
        let is_long_enough =
            stored_until.is_some_and(|stored| stored > until.as_ms() - WANTED_SLACK_MS);
        if is_long_enough {
            return Ok(());
        }
        self.write_to(WriteScope::app(app), Operation::KeepEvents, move |tx| {
            extend_retention(tx, app, until, now)
        })
        .await
    }

    /// Reads the events of these types after a position. Scans at most [`EVENTS_PER_READ_MAX`]
    /// events. Events about erased devices and notifications are skipped.
    pub async fn read_events(
        &self,
        app: AppNo,
        from: EventCursor,
        types: EventTypes,
    ) -> Result<EventPage, StoreError> {
        self.read(move |connection| read(connection, app, &from, types)).await
    }

    /// Deletes some of the events that are older than [`EVENTS_KEPT_MS`] or beyond
    /// [`EVENTS_KEPT_MAX`], and some webhook messages that ended longer than [`MESSAGES_KEPT_MS`]
    /// ago, in one bounded transaction. Events that an enabled webhook has not read yet are counted
    /// as dropped.
    pub async fn trim_events(&self, now: Timestamp) -> Result<Trimmed, StoreError> {
        self.write(Operation::TrimEvents, move |tx| trim_step(tx, now)).await
    }
}

/// What an event is about.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EventRefs<'a> {
    pub(super) notification: Option<NotificationNo>,
    pub(super) device: Option<DeviceKey>,
    /// A text whose meaning depends on the type of the event, such as a reason or the id of an
    /// answer.
    pub(super) detail: Option<&'a str>,
}

/// Writes an event if the application has a subscriber for it. This is one statement. For an
/// application without subscribers, it only looks up one row that does not exist.
pub(super) fn record(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    kind: WebhookEventType,
    refs: EventRefs<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let written = tx
        .prepare_cached(
            "insert into events (app_no, no, type, at, notification_no, device_key, detail, user_no)
             select l.app_no, 1 + max(l.floor, coalesce(
              (select max(e.no) from events e where e.app_no = l.app_no), 0)),
              ?2, ?3, ?4, ?5, ?6, (select f.user_no from device_fields f where f.key = ?5)
             from event_logs l
             where l.app_no = ?1 and (l.wanted & ?7 <> 0 or l.stream_until > ?3)",
        )?
        .execute(params![
            app.0,
            event_type_code(kind),
            now.as_ms(),
            refs.notification.map(|no| no.0),
            refs.device.map(|key| key.0),
            refs.detail,
            EventTypes::bit(kind),
        ])?;
    if written > 0 {
        tx.changed(Change::Events(app));
    }
    Ok(())
}

/// The number of the last event. If all events were deleted, the number of the last deleted event.
pub(super) fn last(connection: &Connection, app: AppNo) -> Result<i64, StoreError> {
    let last = connection
        .prepare_cached(
            "select max(coalesce((select floor from event_logs where app_no = ?1), 0),
             coalesce((select max(no) from events where app_no = ?1), 0))",
        )?
        .query_row([app.0], |row| row.get(0))?;
    Ok(last)
}

/// Stores the union of the types to which the enabled webhooks of an application subscribe. Called
/// after a webhook changed.
pub(super) fn refresh_subscriptions(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
    let wanted = tx
        .prepare_cached("select events from webhooks where app_no = ?1 and enabled = 1")?
        .query_map([app.0], |row| row.get::<i64>(0))?
        .try_fold(0, |bits, events| events.map(|events| bits | events))?;
    tx.prepare_cached(
        "insert into event_logs (app_no, wanted) values (?1, ?2)
         on conflict (app_no) do update set wanted = excluded.wanted",
    )?
    .execute([app.0, wanted])?;
    Ok(())
}

/// Writes all types of events until `until`.
fn extend_retention(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    require_app(tx, app)?;
    let last = last(tx, app)?;
    // If the earlier period has ended, events may be missing. One number is skipped, so that every
    // older cursor is below the floor and its next read reports a reset.
    tx.prepare_cached(
        "insert into event_logs (app_no, stream_until, floor) values (?1, ?2, ?4 + 1)
         on conflict (app_no) do update set
         floor = case when event_logs.stream_until <= ?3
          then max(event_logs.floor, ?4 + 1) else event_logs.floor end,
         stream_until = max(event_logs.stream_until, ?2)",
    )?
    .execute([app.0, until.as_ms(), now.as_ms(), last])?;
    Ok(())
}

fn read(
    connection: &Connection,
    app: AppNo,
    from: &EventCursor,
    types: EventTypes,
) -> Result<EventPage, StoreError> {
    require_app(connection, app)?;
    let cursors = CursorCodec { list: "events", owner: app.0 };
    let last = last(connection, app)?;
    let floor = connection
        .prepare_cached("select floor from event_logs where app_no = ?1")?
        .query_row([app.0], |row| row.get::<i64>(0))
        .optional()?
        .unwrap_or(0);
    let requested = match from {
        EventCursor::End => Some(last),
        EventCursor::After(cursor) => cursors.number_of(cursor),
    };
    // A number above the last one was assigned before the database was restored from a backup.
    let known = requested.filter(|requested| (floor..=last).contains(requested));
    let (reset, after) = (known.is_none(), known.unwrap_or(floor));
    let limit = i64::from(EVENTS_PER_READ_MAX);
    let rows = connection
        .prepare_cached(&format!(
            "select no, {EVENT_COLUMNS} from events where app_no = ?1 and no > ?2 order by no limit ?3"
        ))?
        .query_map([app.0, after, limit], |row| Ok((row.get(0)?, EventRow::read(row, 1)?)))?
        .collect::<Result<Vec<(i64, EventRow)>, _>>()?;
    let end = rows.last().map_or(after, |(no, _)| *no);
    let mut events = Vec::new();
    for (no, event) in &rows {
        if types.0 & (1 << event.kind) == 0 {
            continue;
        }
        if let Some(data) = render(connection, event)? {
            events.push(EventRecord { cursor: cursors.encode_number(*no), at: event.at, data });
        }
    }
    Ok(EventPage { reset, events, cursor: cursors.encode_number(end), more: end < last })
}

// Making the payload of an event from its row. Ids and counts are read as they are now.

/// The columns that [`EventRow::read`] reads. The tables of events and of messages both have them.
pub(super) const EVENT_COLUMNS: &str = "type, at, notification_no, device_key, detail, user_no";

/// The row of an event.
#[derive(Debug, Clone)]
pub(super) struct EventRow {
    pub(crate) kind: i64,
    pub(crate) at: Timestamp,
    pub(crate) notification: Option<NotificationNo>,
    pub(crate) device: Option<DeviceKey>,
    /// The user of the device when the event happened.
    pub(crate) user: Option<UserNo>,
    pub(crate) detail: Option<String>,
}

impl EventRow {
    /// Reads [`EVENT_COLUMNS`] from column `from` on.
    pub(crate) fn read(row: &Row<'_>, from: usize) -> sql::Result<Self> {
        Ok(Self {
            kind: row.get(from)?,
            at: Timestamp(row.get(from + 1)?),
            notification: row.get::<Option<i64>>(from + 2)?.map(NotificationNo),
            device: row.get::<Option<i64>>(from + 3)?.map(DeviceKey),
            detail: row.get(from + 4)?,
            user: row.get::<Option<i64>>(from + 5)?.map(UserNo),
        })
    }

    /// The type; `None` if the code is unknown.
    pub(crate) fn event_type(&self) -> Option<WebhookEventType> {
        let mut all = WebhookEventType::ALL.into_iter();
        all.find(|kind| event_type_code(*kind) == self.kind)
    }

    fn detail<T: FromStr>(&self) -> Result<T, StoreError> {
        let detail = self.detail.as_deref().and_then(|text| text.parse().ok());
        detail.ok_or_else(|| internal("the detail of an event does not match its type"))
    }
}

/// Makes the payload of an event; `None` if a device or notification that it refers to was erased.
pub(super) fn render(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<WebhookData>, StoreError> {
    let kind = event.event_type().ok_or_else(|| internal("an event has an unknown type"))?;
    Ok(match kind {
        WebhookEventType::NotificationCompleted => {
            notification_ended(connection, event)?.map(WebhookData::NotificationCompleted)
        }
        WebhookEventType::NotificationFailed => {
            notification_ended(connection, event)?.map(WebhookData::NotificationFailed)
        }
        WebhookEventType::NotificationPaused => notification(connection, event)?
            .map(|notification_id| {
                let reason = event.detail()?;
                Ok::<_, StoreError>(NotificationPaused { notification_id, reason })
            })
            .transpose()?
            .map(WebhookData::NotificationPaused),
        WebhookEventType::DeviceUnregistered => device_unregistered(connection, event)?,
        WebhookEventType::PollAnswered => poll_answered(connection, event)?,
        WebhookEventType::EngagementOpened => {
            device_engaged(connection, event)?.map(WebhookData::EngagementOpened)
        }
        WebhookEventType::EngagementClicked => {
            device_engaged(connection, event)?.map(WebhookData::EngagementClicked)
        }
        WebhookEventType::WebhookTest => {
            let webhook_id = WebhookId(event.detail()?);
            Some(WebhookData::WebhookTest(WebhookTested { webhook_id }))
        }
    })
}

/// Makes the payload of the end of a notification; `None` if the notification was erased.
fn notification_ended(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<NotificationEnded>, StoreError> {
    let Some(no) = event.notification else { return Ok(None) };
    let row = connection
        .prepare_cached(
            "select n.id, n.status, coalesce(sum(d.targeted), 0), coalesce(sum(d.sent), 0),
             coalesce(sum(d.failed), 0), coalesce(sum(d.unregistered), 0),
             coalesce(sum(d.expired), 0), coalesce(sum(d.canceled), 0),
             coalesce(sum(d.excluded), 0), coalesce(sum(d.unknown), 0) + n.unknown
             from notifications n left join dispatches d on d.notification_no = n.no
             where n.no = ?1 group by n.no",
        )?
        .query_row([no.0], |row| {
            let (id, status): (String, String) = (row.get(0)?, row.get(1)?);
            let status = status.parse().map_err(|_| unexpected_value(1, Type::Text))?;
            let unknown = count_at(row, 9)?;
            let counts = Counts { pending: 0, unknown, ..counts_of(row, 2)? };
            Ok((id, status, counts))
        })
        .optional()?;
    let Some((id, status, counts)) = row else { return Ok(None) };
    let notification_id = NotificationId::new(id).map_err(internal)?;
    let reason = event.detail.clone();
    let users = user_counts(connection, &[no.0])?.remove(&no.0);
    Ok(Some(NotificationEnded { notification_id, status, counts, users, reason }))
}

/// Makes the payload of an unregistered device; `None` if the device was erased.
fn device_unregistered(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<WebhookData>, StoreError> {
    let (Some(key), Some(device_id)) = (event.device, device(connection, event)?) else {
        return Ok(None);
    };
    let (platform, reason) = (key.platform(), event.detail()?);
    let user_id = user(connection, event)?;
    let unregistered = DeviceUnregistered { device_id, user_id, platform, reason };
    Ok(Some(WebhookData::DeviceUnregistered(unregistered)))
}

/// Makes the payload of a vote; `None` if the poll or the device was erased. A vote on a poll page
/// has no device.
fn poll_answered(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<WebhookData>, StoreError> {
    let device_id = device(connection, event)?;
    let is_device_erased = event.device.is_some() && device_id.is_none();
    if is_device_erased {
        return Ok(None);
    }
    let Some(poll_id) = notification(connection, event)? else { return Ok(None) };
    let answer_id = AnswerId(event.detail()?);
    let user_id = user(connection, event)?;
    Ok(Some(WebhookData::PollAnswered(PollAnswered { poll_id, answer_id, device_id, user_id })))
}

/// Makes the payload of an engagement event; `None` if the notification or the device was erased.
fn device_engaged(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<DeviceEngaged>, StoreError> {
    let Some(notification_id) = notification(connection, event)? else { return Ok(None) };
    let Some(device_id) = device(connection, event)? else { return Ok(None) };
    let (user_id, at) = (user(connection, event)?, Timestamp(event.detail()?));
    Ok(Some(DeviceEngaged { notification_id, device_id, user_id, at }))
}

/// Reads the id of the notification of an event; `None` if the event has none or it was erased.
fn notification(
    connection: &Connection,
    event: &EventRow,
) -> Result<Option<NotificationId>, StoreError> {
    let Some(no) = event.notification else { return Ok(None) };
    let id = connection
        .prepare_cached("select id from notifications where no = ?1")?
        .query_row([no.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| NotificationId::new(id).map_err(internal)).transpose()
}

/// Reads the id of the device of an event; `None` if the event has none or it was erased.
fn device(connection: &Connection, event: &EventRow) -> Result<Option<DeviceId>, StoreError> {
    let Some(key) = event.device else { return Ok(None) };
    let id = connection
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([key.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| DeviceId::new(id).map_err(internal)).transpose()
}

/// Reads the id of the user of an event; `None` if the event has no user, or if the user was erased.
fn user(connection: &Connection, event: &EventRow) -> Result<Option<UserId>, StoreError> {
    match event.user {
        Some(user) => user::id_of(connection, user),
        None => Ok(None),
    }
}

// Deleting old events and messages, a bounded number of rows in each transaction.

/// The most events of one application, and the most messages, that a step deletes.
const ROWS_PER_STEP: i64 = 1_000;

/// Deletes a bounded number of expired events and messages.
fn trim_step(tx: &Connection, now: Timestamp) -> Result<Trimmed, StoreError> {
    let mut trimmed = Trimmed::default();
    let apps = tx
        .prepare_cached("select app_no from event_logs")?
        .query_map([], |row| row.get(0).map(AppNo))?
        .collect::<Result<Vec<_>, _>>()?;
    for app in apps {
        if trimmed.events >= ROWS_PER_STEP.unsigned_abs() {
            trimmed.more = true;
            break;
        }
        trim_app(tx, app, now, &mut trimmed)?;
    }
    let messages = tx
        .prepare_cached(
            "delete from webhook_messages where no in
             (select no from webhook_messages indexed by webhook_messages_over
              where state <> 0 and last_attempt_at < ?1 order by last_attempt_at limit ?2)",
        )?
        .execute([now.as_ms() - MESSAGES_KEPT_MS, ROWS_PER_STEP])?;
    trimmed.messages = messages as u64;
    trimmed.more |= trimmed.messages >= ROWS_PER_STEP.unsigned_abs();
    Ok(trimmed)
}

/// Deletes some expired events of one application, and adds their numbers to `trimmed`.
fn trim_app(
    tx: &Connection,
    app: AppNo,
    now: Timestamp,
    trimmed: &mut Trimmed,
) -> Result<(), StoreError> {
    // Events are numbered in the order of their times, so the events to delete are the first ones.
    let up_to: Option<i64> = tx
        .prepare_cached(
            "select max(no) from (select no, at from events where app_no = ?1 order by no limit ?4) first
             where at < ?2
             or no <= (select max(no) from events where app_no = ?1) - ?3",
        )?
        .query_row(
            [app.0, now.as_ms() - EVENTS_KEPT_MS, EVENTS_KEPT_MAX, ROWS_PER_STEP],
            |row| row.get(0),
        )?;
    let Some(up_to) = up_to else { return Ok(()) };
    trimmed.dropped += drop_unread(tx, app, up_to)?;
    let events = tx
        .prepare_cached("delete from events where app_no = ?1 and no <= ?2")?
        .execute([app.0, up_to])?;
    tx.prepare_cached("update event_logs set floor = max(floor, ?2) where app_no = ?1")?
        .execute([app.0, up_to])?;
    trimmed.events += events as u64;
    trimmed.more |= events as i64 >= ROWS_PER_STEP;
    Ok(())
}

/// Counts the events up to `up_to` that webhooks have not read, in each webhook and in total, and
/// moves the webhooks past them.
fn drop_unread(tx: &Connection, app: AppNo, up_to: i64) -> Result<u64, StoreError> {
    let behind = tx
        .prepare_cached(
            "select w.no, (select count(*) from events e where e.app_no = ?1 and e.no > w.cursor
              and e.no <= ?2 and w.events & (cast(1 as bigint) << cast(e.type as integer)) <> 0)
             from webhooks w where w.app_no = ?1 and w.enabled = 1 and w.cursor < ?2",
        )?
        .query_map([app.0, up_to], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(i64, i64)>, _>>()?;
    let mut dropped = 0;
    for (no, count) in behind {
        tx.prepare_cached("update webhooks set dropped = dropped + ?2, cursor = ?3 where no = ?1")?
            .execute(params![no, count, up_to])?;
        dropped += count.unsigned_abs();
    }
    Ok(dropped)
}
