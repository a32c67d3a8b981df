//! Sets of engagement events.

use std::collections::{BTreeMap, HashMap};

use notify_core::{Day, Event, EventsAccepted, IgnoredEvent, Timestamp};

use super::event_log::{EventLogs, NewEvent};
use super::{SetKind, SetTx, WriteSet, column, place_of, places};
use crate::store::daily_stats::{self, DailyDelta};
use crate::store::engagement::{
    EVENTS_NOT_KEPT, RecordEvents, UNKNOWN_DEVICE, UNKNOWN_NOTIFICATION, webhook_type,
};
use crate::store::maintenance::EVENTS;
use crate::store::sql::WriteScope;
use crate::store::sql::row::event_code;
use crate::store::sql::writer::WriteTx;
use crate::store::{AppNo, DeviceKey, Idempotent, NotificationNo, Operation, StoreError};

impl WriteSet for RecordEvents {
    type Answer = Idempotent<EventsAccepted>;
    const KIND: SetKind = SetKind::Engagement;
    const OPERATION: Operation = Operation::RecordEvents;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.app)
    }

    fn fits(&self) -> bool {
        self.once.is_none() && !self.events.is_empty()
    }

    fn weight(&self) -> usize {
        self.events.len()
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError> {
        self.write(tx)
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        requests: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        let rows: Vec<EventRow<'_>> = requests
            .iter()
            .enumerate()
            .flat_map(|(place, request)| {
                (0_u64..).zip(&request.events).map(move |(index, event)| EventRow {
                    place,
                    index,
                    app: request.app,
                    event,
                    at: request.at,
                })
            })
            .collect();
        let found = find_subjects(tx, &rows)?;
        let mut answers: Vec<_> =
            requests.iter().map(|_| Some(EventsAccepted::default())).collect();
        let mut accepted = Vec::new();
        for (row, subject) in rows.iter().zip(found) {
            let answer = &mut answers[row.place];
            match subject {
                // The application is gone, which the write alone reports.
                None => *answer = None,
                Some(Err(reason)) => {
                    if let Some(answer) = answer {
                        let (index, reason) = (row.index, reason.to_owned());
                        answer.ignored.push(IgnoredEvent { index, reason });
                    }
                }
                Some(Ok((notification, device))) => {
                    if let Some(answer) = answer {
                        answer.accepted += 1;
                    }
                    accepted.push(Accepted { row: *row, notification, device });
                }
            }
        }
        tx.is_read_only = accepted.is_empty();
        if !accepted.is_empty() {
            write(tx, &accepted)?;
        }
        Ok(answers.into_iter().map(|answer| answer.map(Idempotent::Executed)).collect())
    }
}

/// An event of a request.
#[derive(Clone, Copy)]
struct EventRow<'a> {
    /// The position of the request in the set.
    place: usize,
    /// The position of the event in its request.
    index: u64,
    app: AppNo,
    event: &'a Event,
    /// When the request came in.
    at: Timestamp,
}

/// An event whose notification and device exist.
struct Accepted<'a> {
    row: EventRow<'a>,
    notification: NotificationNo,
    device: DeviceKey,
}

/// The notification and the device of an event, or why the event is ignored. `None` if the
/// application is gone.
type Subject = Option<Result<(NotificationNo, DeviceKey), &'static str>>;

fn find_subjects(tx: &SetTx<'_>, rows: &[EventRow<'_>]) -> Result<Vec<Subject>, StoreError> {
    let found = tx.query(
        "select g.place, n.no, n.kept & $5::bigint <> 0, d.key
         from unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[])
           g (place, app_no, notification_id, device_id)
         join apps a on a.no = g.app_no and a.status <> 'erasing'
         left join notifications n on n.app_no = g.app_no and n.id = g.notification_id
         left join devices d on d.app_no = g.app_no and d.device_id = g.device_id",
        &[
            &places(rows.len()),
            column!(rows, row => row.app.0),
            column!(rows, row => row.event.notification_id.as_str()),
            column!(rows, row => row.event.device_id.as_str()),
            &EVENTS,
        ],
    )?;
    let mut subjects = vec![None; rows.len()];
    for row in &found {
        let (notification, is_kept) = (row.get::<_, Option<i64>>(1), row.get::<_, Option<bool>>(2));
        let device: Option<i64> = row.get(3);
        subjects[place_of(row.get(0))] = Some(match (notification, is_kept, device) {
            (None, _, _) => Err(UNKNOWN_NOTIFICATION),
            (_, Some(false) | None, _) => Err(EVENTS_NOT_KEPT),
            (_, _, None) => Err(UNKNOWN_DEVICE),
            (Some(no), Some(true), Some(key)) => Ok((NotificationNo(no), DeviceKey(key))),
        });
    }
    Ok(subjects)
}

/// Writes events. Counts only the first of a type for each device and notification.
fn write(tx: &mut SetTx<'_>, accepted: &[Accepted<'_>]) -> Result<(), StoreError> {
    let kinds = accepted.iter().filter_map(|event| {
        webhook_type(event.row.event.kind).map(|kind| (event.row.app, kind, event.row.at))
    });
    // Locked first: sets of all kinds take their locks in the same order.
    let logs = EventLogs::lock(tx, kinds)?;
    let inserted = tx.query(
        "insert into engagement (notification_no, device_key, type, at)
         select no, key, type, at
         from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
           g (no, key, type, at, place)
         order by no, key, type, place
         on conflict do nothing returning notification_no, device_key, type",
        &[
            column!(accepted, event => event.notification.0),
            column!(accepted, event => event.device.0),
            column!(accepted, event => event_code(event.row.event.kind)),
            column!(accepted, event => event.row.event.at.unwrap_or(event.row.at).as_ms()),
            &places(accepted.len()),
        ],
    )?;
    // Of several events of the set, the first was inserted.
    let mut first: HashMap<(i64, i64, i64), &Accepted<'_>> = HashMap::new();
    for event in accepted {
        let key = (event.notification.0, event.device.0, event_code(event.row.event.kind));
        first.entry(key).or_insert(event);
    }
    let mut inserted: Vec<&Accepted<'_>> = inserted
        .iter()
        .filter_map(|row| first.get(&(row.get(0), row.get(1), row.get(2))).copied())
        .collect();
    inserted.sort_by_key(|event| (event.row.place, event.row.index));

    let mut counts: BTreeMap<NotificationNo, [i64; 4]> = BTreeMap::new();
    let mut days: BTreeMap<(AppNo, i64), (Timestamp, DailyDelta)> = BTreeMap::new();
    let mut events = Vec::new();
    for event in inserted {
        let EventRow { app, event: reported, at, .. } = event.row;
        let code = event_code(reported.kind).unsigned_abs() as usize;
        counts.entry(event.notification).or_default()[code] += 1;
        let day = days.entry((app, Day::of(at).0)).or_insert((at, DailyDelta::default()));
        day.1.add_event(reported.kind);
        if let Some(kind) = webhook_type(reported.kind) {
            events.push(NewEvent {
                app,
                kind,
                at,
                notification: Some(event.notification),
                device: Some(event.device),
                detail: Some(reported.at.unwrap_or(at).to_string()),
            });
        }
    }
    logs.write(tx, &events)?;
    tx.query(
        "insert into engagement_counts as c (notification_no, received, opened, clicked, dismissed)
         select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
         on conflict (notification_no) do update set received = c.received + excluded.received,
         opened = c.opened + excluded.opened, clicked = c.clicked + excluded.clicked,
         dismissed = c.dismissed + excluded.dismissed",
        &[
            column!(counts, count => count.0.0),
            column!(counts, count => count.1[0]),
            column!(counts, count => count.1[1]),
            column!(counts, count => count.1[2]),
            column!(counts, count => count.1[3]),
        ],
    )?;
    for ((app, _), (at, delta)) in days {
        daily_stats::add(tx, app, delta, at)?;
    }
    Ok(())
}
