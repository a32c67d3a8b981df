//! Sets of votes in polls.

use std::collections::{BTreeMap, HashMap, HashSet};

use notify_core::{AnswerId, Success, Timestamp, WebhookEventType};

use super::event_log::{EventLogs, NewEvent};
use super::{SetKind, SetTx, WriteSet, column, place_of, places};
use crate::store::poll::{AnswerPoll, AnswerPublicPoll};
use crate::store::sql::WriteScope;
use crate::store::sql::writer::WriteTx;
use crate::store::{AppNo, DeviceKey, Idempotent, NotificationNo, Operation, StoreError};

impl WriteSet for AnswerPoll {
    type Answer = Idempotent<Success>;
    const KIND: SetKind = SetKind::AnswerPoll;
    const OPERATION: Operation = Operation::AnswerPoll;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.app)
    }

    fn fits(&self) -> bool {
        self.once.is_none()
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<Self::Answer, StoreError> {
        self.write(tx)
    }

    fn write_set(
        tx: &mut SetTx<'_>,
        requests: &[&Self],
    ) -> Result<Vec<Option<Self::Answer>>, StoreError> {
        // A request whose poll, answer or device is unknown is not found, and is refused alone.
        let found = tx.query(
            "select g.place, n.no, d.key
             from unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[])
               g (place, app_no, poll_id, answer_id, device_id)
             join apps a on a.no = g.app_no and a.status <> 'erasing'
             join notifications n on n.app_no = g.app_no and n.id = g.poll_id
             join poll_answers p on p.notification_no = n.no and p.id = g.answer_id
             left join devices d on d.app_no = g.app_no and d.device_id = g.device_id
             where g.device_id is null or d.key is not null",
            &[
                &places(requests.len()),
                column!(requests, request => request.app.0),
                column!(requests, request => request.poll.as_str()),
                column!(requests, request => &request.answer.0.as_bytes()[..]),
                column!(requests, request => request.vote.device_id.as_ref().map(|id| id.as_str())),
            ],
        )?;
        let mut answers = vec![None; requests.len()];
        let mut votes = Vec::new();
        for row in &found {
            let place = place_of(row.get(0));
            let request = requests[place];
            answers[place] = Some(Idempotent::Executed(Success { success: true }));
            votes.push(Vote {
                place,
                app: request.app,
                poll: NotificationNo(row.get(1)),
                answer: request.answer,
                device: row.get::<_, Option<i64>>(2).map(DeviceKey),
                at: request.at,
            });
        }
        votes.sort_unstable_by_key(|vote| vote.place);
        let logs = lock_event_logs(tx, &votes)?;
        let by_device: Vec<&Vote> = votes.iter().filter(|vote| vote.device.is_some()).collect();
        let inserted = tx.query(
            "insert into poll_votes (notification_no, device_key)
             select * from unnest($1::bigint[], $2::bigint[]) order by 1, 2
             on conflict do nothing returning notification_no, device_key",
            &[
                column!(by_device, vote => vote.poll.0),
                column!(by_device, vote => vote.device.map(|key| key.0)),
            ],
        )?;
        let mut inserted: HashSet<(i64, i64)> =
            inserted.iter().map(|row| (row.get(0), row.get(1))).collect();
        // Of several votes of a device in the set, the first counts.
        votes.retain(|vote| match vote.device {
            Some(key) => inserted.remove(&(vote.poll.0, key.0)),
            None => true,
        });
        count(tx, &logs, &votes)?;
        Ok(answers)
    }
}

impl WriteSet for AnswerPublicPoll {
    type Answer = ();
    const KIND: SetKind = SetKind::AnswerPublicPoll;
    const OPERATION: Operation = Operation::AnswerPublicPoll;

    fn scope(&self) -> WriteScope {
        WriteScope::app(self.app)
    }

    fn write_alone(&self, tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
        self.write(tx)
    }

    fn write_set(tx: &mut SetTx<'_>, requests: &[&Self]) -> Result<Vec<Option<()>>, StoreError> {
        let found = tx.query(
            "select g.place, n.app_no, n.no, p.place
             from unnest($1::bigint[], $2::bytea[], $3::bytea[]) g (place, public_id, answer_id)
             join polls o on o.public_id = g.public_id
             join notifications n on n.no = o.notification_no
             join apps a on a.no = n.app_no and a.status = 'active'
             join poll_answers p on p.notification_no = n.no and p.id = g.answer_id",
            &[
                &places(requests.len()),
                column!(requests, request => &request.public_id.as_bytes()[..]),
                column!(requests, request => &request.answer.0.as_bytes()[..]),
            ],
        )?;
        let mut answers = vec![None; requests.len()];
        let mut answer_places = HashMap::new();
        let mut votes = Vec::new();
        for row in &found {
            let place = place_of(row.get(0));
            let request = requests[place];
            answers[place] = Some(());
            answer_places.insert(place, row.get::<_, i64>(3));
            votes.push(Vote {
                place,
                app: AppNo(row.get(1)),
                poll: NotificationNo(row.get(2)),
                answer: request.answer,
                device: None,
                at: request.at,
            });
        }
        votes.sort_unstable_by_key(|vote| vote.place);
        let logs = lock_event_logs(tx, &votes)?;
        // Of several votes of a visitor in the set, the first is inserted.
        let inserted = tx.query(
            "insert into poll_visitors (notification_no, visitor, place)
             select no, visitor, answer_place
             from unnest($1::bigint[], $2::bytea[], $3::bigint[], $4::bigint[])
               g (no, visitor, answer_place, place)
             order by no, visitor, place
             on conflict do nothing returning notification_no, visitor",
            &[
                column!(votes, vote => vote.poll.0),
                column!(votes, vote => &requests[vote.place].visitor.0[..]),
                column!(votes, vote => answer_places[&vote.place]),
                column!(votes, vote => vote.place as i64),
            ],
        )?;
        let mut inserted: HashSet<(i64, Vec<u8>)> =
            inserted.iter().map(|row| (row.get(0), row.get(1))).collect();
        votes.retain(|vote| {
            inserted.remove(&(vote.poll.0, requests[vote.place].visitor.0.to_vec()))
        });
        count(tx, &logs, &votes)?;
        Ok(answers)
    }
}

/// A vote whose poll and answer exist.
struct Vote {
    /// The position in the set.
    place: usize,
    app: AppNo,
    poll: NotificationNo,
    answer: AnswerId,
    device: Option<DeviceKey>,
    at: Timestamp,
}

fn lock_event_logs(tx: &SetTx<'_>, votes: &[Vote]) -> Result<EventLogs, StoreError> {
    let events = votes.iter().map(|vote| (vote.app, WebhookEventType::PollAnswered, vote.at));
    EventLogs::lock(tx, events)
}

/// Increments the counters of the answers, and writes the events of the votes.
fn count(tx: &mut SetTx<'_>, logs: &EventLogs, votes: &[Vote]) -> Result<(), StoreError> {
    let mut clicks: BTreeMap<(i64, [u8; 16]), i64> = BTreeMap::new();
    let mut events = Vec::new();
    for vote in votes {
        *clicks.entry((vote.poll.0, *vote.answer.0.as_bytes())).or_default() += 1;
        events.push(NewEvent {
            app: vote.app,
            kind: WebhookEventType::PollAnswered,
            at: vote.at,
            notification: Some(vote.poll),
            device: vote.device,
            detail: Some(vote.answer.to_string()),
        });
    }
    logs.write(tx, &events)?;
    tx.query(
        "with locked as materialized (
           select p.notification_no, p.place, g.clicks
           from unnest($1::bigint[], $2::bytea[], $3::bigint[]) g (no, id, clicks)
           join poll_answers p on p.notification_no = g.no and p.id = g.id
           order by p.notification_no, p.place for no key update of p)
         update poll_answers p set clicks = p.clicks + l.clicks from locked l
         where p.notification_no = l.notification_no and p.place = l.place",
        &[
            column!(clicks, answer => answer.0.0),
            column!(clicks, answer => &answer.0.1[..]),
            column!(clicks, answer => *answer.1),
        ],
    )?;
    Ok(())
}
