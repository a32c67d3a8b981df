//! Events: the log that webhooks and the event stream read. Whatever happens is written in the same
//! transaction as its event, and only where somebody wants to know.

use std::str::FromStr;

use notify_core::{
    AnswerId, Counts, DeviceEngaged, DeviceId, DeviceUnregistered, NotificationEnded,
    NotificationId, PollAnswered, Timestamp, WebhookData, WebhookEventType, WebhookId,
    WebhookTested,
};

use crate::store::page::Listing;
use crate::store::sql::error::broken;
use crate::store::sql::row::{count_at, live_app, unknown_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Row, Type, params};
use crate::store::{
    AppNo, Change, DeviceKey, MESSAGES_KEPT_MS, NotificationNo, Operation, PageRequest, Store,
    StoreError,
};

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

/// What one step of [`Store::trim_events`] took away.
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

// The log of events: written beside what they tell, read by webhooks and streams, trimmed.

/// How much sooner than it would end the wish for events is written again, in milliseconds: one
/// write an hour, however often readers come back.
const WANTED_SLACK_MS: i64 = 3_600_000;

impl Store {
    /// Has every event of the application kept until then. What happened since the last such time
    /// was over is not there: older cursors are told so.
    pub async fn want_events(
        &self,
        app: AppNo,
        until: Timestamp,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let known = self
            .read(move |connection| {
                live_app(connection, app)?;
                let until = connection
                    .prepare_cached("select stream_until from event_logs where app_no = ?1")?
                    .query_row([app.0], |row| row.get::<i64>(0))
                    .optional()?;
                Ok(until)
            })
            .await?;
        if known.is_some_and(|known| known > until.as_ms() - WANTED_SLACK_MS) {
            return Ok(());
        }
        self.write(Operation::WantEvents, move |tx| want(tx, app, until, now)).await
    }

    /// Reads events of those types, at most [`EVENTS_PER_READ_MAX`] rows. Events about what is
    /// erased meanwhile are passed over.
    pub async fn read_events(
        &self,
        app: AppNo,
        from: ReadFrom,
        types: EventTypes,
    ) -> Result<EventSlice, StoreError> {
        self.read(move |connection| read(connection, app, &from, types)).await
    }

    /// Deletes some of the events that are older than [`EVENTS_KEPT_MS`] or beyond
    /// [`EVENTS_KEPT_MAX`], and some messages of webhooks that are over for longer than
    /// [`MESSAGES_KEPT_MS`]: one transaction, bounded. Enabled webhooks that have not been told of an
    /// event that goes have it counted as dropped.
    pub async fn trim_events(&self, now: Timestamp) -> Result<Trimmed, StoreError> {
        self.write(Operation::TrimEvents, move |tx| step(tx, now)).await
    }
}

/// What an event is about, as its row names it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct About<'a> {
    pub(super) notification: Option<NotificationNo>,
    pub(super) device: Option<DeviceKey>,
    pub(super) detail: Option<&'a str>,
}

/// Writes an event where somebody wants it: one statement, which for an application that nobody
/// listens to looks up one row that is not there.
pub(super) fn record(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    kind: WebhookEventType,
    about: About<'_>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let written = tx
        .prepare_cached(
            "insert into events (app_no, no, type, at, notification_no, device_key, detail)
             select l.app_no, 1 + max(l.floor, coalesce(
              (select max(e.no) from events e where e.app_no = l.app_no), 0)),
              ?2, ?3, ?4, ?5, ?6
             from event_logs l
             where l.app_no = ?1 and (l.wanted & ?7 <> 0 or l.stream_until > ?3)",
        )?
        .execute(params![
            app.0,
            event_type_code(kind),
            now.as_ms(),
            about.notification.map(|no| no.0),
            about.device.map(|key| key.0),
            about.detail,
            EventTypes::bit(kind),
        ])?;
    if written > 0 {
        tx.changed(Change::EventsDue(app));
    }
    Ok(())
}

/// The number of the last event, or of the last that is gone.
pub(super) fn last(connection: &Connection, app: AppNo) -> Result<i64, StoreError> {
    let last = connection
        .prepare_cached(
            "select max(coalesce((select floor from event_logs where app_no = ?1), 0),
             coalesce((select max(no) from events where app_no = ?1), 0))",
        )?
        .query_row([app.0], |row| row.get(0))?;
    Ok(last)
}

/// Notes which types enabled webhooks want, after one changed.
pub(super) fn note_wanted(tx: &Connection, app: AppNo) -> Result<(), StoreError> {
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

fn want(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    until: Timestamp,
    now: Timestamp,
) -> Result<(), StoreError> {
    live_app(tx, app)?;
    let last = last(tx, app)?;
    // Where nothing was kept for a while, a number is left out for what was not.
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
    from: &ReadFrom,
    types: EventTypes,
) -> Result<EventSlice, StoreError> {
    live_app(connection, app)?;
    let listing = Listing { name: "events", of: app.0 };
    let last = last(connection, app)?;
    let floor = connection
        .prepare_cached("select floor from event_logs where app_no = ?1")?
        .query_row([app.0], |row| row.get::<i64>(0))
        .optional()?
        .unwrap_or(0);
    let asked = match from {
        ReadFrom::End => last,
        ReadFrom::After(cursor) => {
            let page = PageRequest { limit: 1, cursor: Some(cursor.clone()) };
            listing.number(&page)?.unwrap_or(last)
        }
    };
    // A number that was never given is one of a database that was put back.
    let reset = asked < floor || asked > last;
    let after = if reset { floor } else { asked };
    let limit = i64::from(EVENTS_PER_READ_MAX);
    let rows = connection
        .prepare_cached(&format!(
            "select no, {COLUMNS} from events where app_no = ?1 and no > ?2 order by no limit ?3"
        ))?
        .query_map([app.0, after, limit], |row| Ok((row.get(0)?, Subject::read(row, 1)?)))?
        .collect::<Result<Vec<(i64, Subject)>, _>>()?;
    let end = rows.last().map_or(after, |(no, _)| *no);
    let mut events = Vec::new();
    for (no, subject) in &rows {
        if types.0 & (1 << subject.kind) == 0 {
            continue;
        }
        if let Some(data) = tell(connection, subject)? {
            events.push(ToldEvent { cursor: listing.at_number(*no), at: subject.at, data });
        }
    }
    Ok(EventSlice { reset, events, cursor: listing.at_number(end), more: end < last })
}

// From the row of an event to what is told: what it names is looked up as it is now.

/// Columns as [`Subject::read`] reads them, of events and of messages.
pub(super) const COLUMNS: &str = "type, at, notification_no, device_key, detail";

/// What a row says.
#[derive(Debug, Clone)]
pub(super) struct Subject {
    pub(crate) kind: i64,
    pub(crate) at: Timestamp,
    pub(crate) notification: Option<NotificationNo>,
    pub(crate) device: Option<DeviceKey>,
    pub(crate) detail: Option<String>,
}

impl Subject {
    /// Reads [`COLUMNS`], the first of them at `from`.
    pub(crate) fn read(row: &Row<'_>, from: usize) -> sql::Result<Self> {
        Ok(Self {
            kind: row.get(from)?,
            at: Timestamp(row.get(from + 1)?),
            notification: row.get::<Option<i64>>(from + 2)?.map(NotificationNo),
            device: row.get::<Option<i64>>(from + 3)?.map(DeviceKey),
            detail: row.get(from + 4)?,
        })
    }

    /// Its type.
    pub(crate) fn event_type(&self) -> Option<WebhookEventType> {
        let test = [WebhookEventType::WebhookTest];
        let mut all = WebhookEventType::ALL.into_iter().chain(test);
        all.find(|kind| event_type_code(*kind) == self.kind)
    }

    fn detail<T: FromStr>(&self) -> Result<T, StoreError> {
        let detail = self.detail.as_deref().and_then(|text| text.parse().ok());
        detail.ok_or_else(|| broken("the detail of an event is not what its type says"))
    }
}

/// What is told of it; `None` when what it is about was erased.
pub(super) fn tell(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<WebhookData>, StoreError> {
    let kind =
        subject.event_type().ok_or_else(|| broken("an event of a type that there is not"))?;
    Ok(match kind {
        WebhookEventType::NotificationCompleted => {
            ended(connection, subject)?.map(WebhookData::NotificationCompleted)
        }
        WebhookEventType::NotificationFailed => {
            ended(connection, subject)?.map(WebhookData::NotificationFailed)
        }
        WebhookEventType::DeviceUnregistered => unregistered(connection, subject)?,
        WebhookEventType::PollAnswered => answered(connection, subject)?,
        WebhookEventType::EngagementOpened => {
            engaged(connection, subject)?.map(WebhookData::EngagementOpened)
        }
        WebhookEventType::EngagementClicked => {
            engaged(connection, subject)?.map(WebhookData::EngagementClicked)
        }
        WebhookEventType::WebhookTest => {
            let webhook_id = WebhookId(subject.detail()?);
            Some(WebhookData::WebhookTest(WebhookTested { webhook_id }))
        }
    })
}

fn ended(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<NotificationEnded>, StoreError> {
    let Some(no) = subject.notification else { return Ok(None) };
    let found = connection
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
            let status = status.parse().map_err(|_| unknown_value(1, Type::Text))?;
            let counts = Counts {
                targeted: count_at(row, 2)?,
                sent: count_at(row, 3)?,
                failed: count_at(row, 4)?,
                unregistered: count_at(row, 5)?,
                expired: count_at(row, 6)?,
                canceled: count_at(row, 7)?,
                pending: 0,
                excluded: count_at(row, 8)?,
                unknown: count_at(row, 9)?,
            };
            Ok((id, status, counts))
        })
        .optional()?;
    let Some((id, status, counts)) = found else { return Ok(None) };
    let notification_id = NotificationId::new(id).map_err(broken)?;
    let reason = subject.detail.clone();
    Ok(Some(NotificationEnded { notification_id, status, counts, reason }))
}

fn unregistered(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<WebhookData>, StoreError> {
    let (Some(key), Some(device_id)) = (subject.device, device(connection, subject)?) else {
        return Ok(None);
    };
    let (platform, reason) = (key.platform(), subject.detail()?);
    Ok(Some(WebhookData::DeviceUnregistered(DeviceUnregistered { device_id, platform, reason })))
}

fn answered(connection: &Connection, subject: &Subject) -> Result<Option<WebhookData>, StoreError> {
    let device_id = device(connection, subject)?;
    let is_erased = subject.device.is_some() && device_id.is_none();
    let Some(poll_id) = notification(connection, subject)?.filter(|_| !is_erased) else {
        return Ok(None);
    };
    let answer_id = AnswerId(subject.detail()?);
    Ok(Some(WebhookData::PollAnswered(PollAnswered { poll_id, answer_id, device_id })))
}

fn engaged(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<DeviceEngaged>, StoreError> {
    let notification_id = notification(connection, subject)?;
    let both = notification_id.zip(device(connection, subject)?);
    let Some((notification_id, device_id)) = both else { return Ok(None) };
    Ok(Some(DeviceEngaged { notification_id, device_id, at: Timestamp(subject.detail()?) }))
}

fn notification(
    connection: &Connection,
    subject: &Subject,
) -> Result<Option<NotificationId>, StoreError> {
    let Some(no) = subject.notification else { return Ok(None) };
    let id = connection
        .prepare_cached("select id from notifications where no = ?1")?
        .query_row([no.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| NotificationId::new(id).map_err(broken)).transpose()
}

fn device(connection: &Connection, subject: &Subject) -> Result<Option<DeviceId>, StoreError> {
    let Some(key) = subject.device else { return Ok(None) };
    let id = connection
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([key.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| DeviceId::new(id).map_err(broken)).transpose()
}

// Deleting events and messages that are over, a bounded number of rows a transaction.

/// Most rows that a step deletes of one application, and of messages.
const ROWS_PER_STEP: i64 = 1_000;

fn step(tx: &Connection, now: Timestamp) -> Result<Trimmed, StoreError> {
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
        of_app(tx, app, now, &mut trimmed)?;
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

fn of_app(
    tx: &Connection,
    app: AppNo,
    now: Timestamp,
    trimmed: &mut Trimmed,
) -> Result<(), StoreError> {
    // Numbers and times both grow: what is over lies at the beginning.
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
    trimmed.dropped += drop_untold(tx, app, up_to)?;
    let events = tx
        .prepare_cached("delete from events where app_no = ?1 and no <= ?2")?
        .execute([app.0, up_to])?;
    tx.prepare_cached("update event_logs set floor = max(floor, ?2) where app_no = ?1")?
        .execute([app.0, up_to])?;
    trimmed.events += events as u64;
    trimmed.more |= events as i64 >= ROWS_PER_STEP;
    Ok(())
}

/// Counts for each webhook the events that go before it was told of them.
fn drop_untold(tx: &Connection, app: AppNo, up_to: i64) -> Result<u64, StoreError> {
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
