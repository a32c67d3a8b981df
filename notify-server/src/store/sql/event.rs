//! The log of events: written beside what they tell, read by webhooks and streams, trimmed.

mod told;
mod trim;

use async_trait::async_trait;
use notify_core::{Timestamp, WebhookEventType};

pub(super) use self::told::{COLUMNS, Subject, tell};
use super::SqlStore;
use super::cursor::Listing;
use super::row::live_app;
use super::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    AppNo, Change, DeviceKey, EVENTS_PER_READ_MAX, EventSlice, EventStore, EventTypes,
    NotificationNo, PageRequest, ReadFrom, StoreError, ToldEvent, Trimmed, event_type_code,
};

/// How much sooner than it would end the wish for events is written again, in milliseconds: one
/// write an hour, however often readers come back.
const WANTED_SLACK_MS: i64 = 3_600_000;

#[async_trait]
impl EventStore for SqlStore {
    async fn want_events(
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
        self.write(move |tx| want(tx, app, until, now)).await
    }

    async fn read_events(
        &self,
        app: AppNo,
        from: ReadFrom,
        types: EventTypes,
    ) -> Result<EventSlice, StoreError> {
        self.read(move |connection| read(connection, app, &from, types)).await
    }

    async fn trim_events(&self, now: Timestamp) -> Result<Trimmed, StoreError> {
        self.write(move |tx| trim::step(tx, now)).await
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
