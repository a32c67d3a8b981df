//! The event log in sets. The numbers of an application's events have no gaps, and follow the order
//! of the commits.

use std::collections::{BTreeMap, HashMap};

use notify_core::{Timestamp, WebhookEventType};

use super::{SetTx, column, places};
use crate::store::{
    AppNo, Change, DeviceKey, EventTypes, NotificationNo, StoreError, event_type_code,
};

/// An event to write.
pub(super) struct NewEvent {
    pub(super) app: AppNo,
    pub(super) kind: WebhookEventType,
    pub(super) at: Timestamp,
    pub(super) notification: Option<NotificationNo>,
    pub(super) device: Option<DeviceKey>,
    pub(super) detail: Option<String>,
}

/// The locked event logs of the applications that have a subscriber. Until the set ends, no other
/// set writes events of these applications.
pub(super) struct EventLogs {
    /// Which events are wanted: the types, and until when all of them.
    wanted: HashMap<AppNo, (EventTypes, i64)>,
}

impl EventLogs {
    /// Locks the logs of the applications that have a subscriber for one of these events.
    pub(super) fn lock(
        tx: &SetTx<'_>,
        events: impl Iterator<Item = (AppNo, WebhookEventType, Timestamp)>,
    ) -> Result<Self, StoreError> {
        let mut apps: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (app, kind, at) in events {
            let (bits, earliest) = apps.entry(app.0).or_insert((0, at.as_ms()));
            *bits |= EventTypes::bit(kind);
            *earliest = (*earliest).min(at.as_ms());
        }
        if apps.is_empty() {
            return Ok(Self { wanted: HashMap::new() });
        }
        let locked = tx.query(
            "select l.app_no, l.wanted, l.stream_until
             from unnest($1::bigint[], $2::bigint[], $3::bigint[]) g (app_no, types, at)
             join event_logs l on l.app_no = g.app_no
             where l.wanted & g.types <> 0 or l.stream_until > g.at
             order by l.app_no for no key update of l",
            &[
                column!(apps, app => *app.0),
                column!(apps, app => app.1.0),
                column!(apps, app => app.1.1),
            ],
        )?;
        let wanted = locked
            .iter()
            .map(|row| (AppNo(row.get(0)), (EventTypes(row.get(1)), row.get(2))))
            .collect();
        Ok(Self { wanted })
    }

    /// The applications whose logs are locked.
    pub(super) fn apps(&self) -> impl Iterator<Item = AppNo> {
        self.wanted.keys().copied()
    }

    /// Writes the events that have a subscriber, in their order. The logs of their applications must
    /// be locked.
    pub(super) fn write(&self, tx: &mut SetTx<'_>, events: &[NewEvent]) -> Result<(), StoreError> {
        let is_wanted = |event: &&NewEvent| {
            self.wanted.get(&event.app).is_some_and(|(types, stream_until)| {
                types.contains(event.kind) || *stream_until > event.at.as_ms()
            })
        };
        let events: Vec<&NewEvent> = events.iter().filter(is_wanted).collect();
        if events.is_empty() {
            return Ok(());
        }
        // The statement begins after the lock, so it sees the events of all earlier sets.
        tx.query(
            "with given as materialized (
               select g.*, row_number() over (partition by app_no order by place) as nth
               from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[],
                 $6::bigint[], $7::text[])
                 g (place, app_no, type, at, notification_no, device_key, detail))
             insert into events (app_no, no, type, at, notification_no, device_key, detail,
               user_no)
             select g.app_no, g.nth + greatest(l.floor, coalesce(
               (select max(e.no) from events e where e.app_no = l.app_no), 0)),
               g.type, g.at, g.notification_no, g.device_key, g.detail, f.user_no
             from given g join event_logs l on l.app_no = g.app_no
             left join device_fields f on f.key = g.device_key",
            &[
                &places(events.len()),
                column!(events, event => event.app.0),
                column!(events, event => event_type_code(event.kind)),
                column!(events, event => event.at.as_ms()),
                column!(events, event => event.notification.map(|no| no.0)),
                column!(events, event => event.device.map(|key| key.0)),
                column!(events, event => event.detail.as_deref()),
            ],
        )?;
        for event in events {
            tx.changed(Change::Events(event.app));
        }
        Ok(())
    }
}
