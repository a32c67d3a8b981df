//! Polls and their answers.

use notify_core::{
    AnswerId, NotificationId, PollLayout, PollVote, Success, Timestamp, WebhookEventType,
};
use uuid::Uuid;

use crate::store::device::key_by_id;
use crate::store::event::{self, EventRefs};
use crate::store::notification::number_of;
use crate::store::sql::row::{count_at, layout_of, require_app, unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Type, params};
use crate::store::{
    AppNo, DeviceKey, Idempotent, IdempotentRequest, NotificationNo, Store, StoreError, idempotency,
};

/// A stored poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PollRow {
    /// The id of the poll, which is the id of its notification.
    pub id: NotificationId,
    /// The secret part of the public address.
    pub public_id: Uuid,
    /// The question.
    pub text: String,
    /// The layout.
    pub layout_id: PollLayout,
    /// The URL of the image.
    pub image_url: Option<String>,
    /// The language of the application when the poll was created.
    pub lang: String,
    /// When the poll was created.
    pub created_at: Timestamp,
    /// The answers, in their order.
    pub answers: Vec<AnswerRow>,
}

/// A stored answer of a poll.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRow {
    /// The id.
    pub id: AnswerId,
    /// The text.
    pub text: String,
    /// The URL of the image.
    pub image_url: Option<String>,
    /// How often the answer was chosen.
    pub clicks: u64,
}

/// A visitor of a poll page: the first half of the SHA-256 of a random id. The id itself is not
/// stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visitor(pub [u8; 16]);

impl Visitor {
    /// The visitor with this hash.
    #[must_use]
    pub fn of(hash: &[u8; 32]) -> Self {
        let mut half = [0; 16];
        half.copy_from_slice(&hash[..16]);
        Self(half)
    }
}

impl Store {
    /// Reads a poll.
    pub async fn poll(&self, app: AppNo, id: NotificationId) -> Result<PollRow, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            let no = number_of(connection, app, &id)?.ok_or(StoreError::NotFound)?;
            read(connection, no, id)?.ok_or(StoreError::NotFound)
        })
        .await
    }

    /// Records a vote. A device votes once in a poll; a repeated vote changes nothing. Fails with
    /// [`StoreError::NotFound`] if the poll or the answer is unknown. An unknown device is refused
    /// with its path.
    pub async fn answer_poll(
        &self,
        app: AppNo,
        poll: NotificationId,
        answer: AnswerId,
        vote: PollVote,
        at: Timestamp,
        once: Option<IdempotentRequest>,
    ) -> Result<Idempotent<Success>, StoreError> {
        self.write_in_set(AnswerPoll { app, poll, answer, vote, at, once }).await
    }

    /// Reads a poll by its public id, and the answer that this visitor gave. A poll of an
    /// application that is not active is unknown.
    pub async fn public_poll(
        &self,
        public_id: Uuid,
        visitor: Option<Visitor>,
    ) -> Result<(PollRow, Option<AnswerId>), StoreError> {
        self.read(move |connection| {
            let (_, no, id) = by_public_id(connection, public_id)?;
            let given_answer = match visitor {
                Some(visitor) => vote_of(connection, no, visitor)?,
                None => None,
            };
            let poll = read(connection, no, id)?.ok_or(StoreError::NotFound)?;
            Ok((poll, given_answer))
        })
        .await
    }

    /// Records the vote of a visitor. A visitor votes once in a poll; a repeated vote writes
    /// nothing. The event of the vote names no device, since visitors are not tracked. Fails with
    /// [`StoreError::NotFound`] if the poll is unknown. An answer of another poll is refused.
    pub async fn answer_public_poll(
        &self,
        public_id: Uuid,
        answer: AnswerId,
        visitor: Visitor,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        // A read finds a repeated vote without a commit.
        let (app, given_answer) = self
            .read(move |connection| {
                let (app, no, _) = by_public_id(connection, public_id)?;
                answer_index(connection, no, answer)?;
                Ok((app, vote_of(connection, no, visitor)?))
            })
            .await?;
        if given_answer.is_some() {
            return Ok(());
        }
        self.write_in_set(AnswerPublicPoll { app, public_id, answer, visitor, at }).await
    }
}

/// A vote that the application reports.
pub(super) struct AnswerPoll {
    pub(super) app: AppNo,
    pub(super) poll: NotificationId,
    pub(super) answer: AnswerId,
    pub(super) vote: PollVote,
    pub(super) at: Timestamp,
    pub(super) once: Option<IdempotentRequest>,
}

impl AnswerPoll {
    /// Counts the vote, unless the device has already voted.
    pub(super) fn write(&self, tx: &mut WriteTx<'_>) -> Result<Idempotent<Success>, StoreError> {
        idempotency::run(tx, self.app, self.once.as_ref(), |tx| {
            require_app(tx, self.app)?;
            let no = number_of(tx, self.app, &self.poll)?.ok_or(StoreError::NotFound)?;
            count_vote(tx, self.app, no, self.answer, &self.vote, self.at)?;
            Ok(Success { success: true })
        })
    }
}

/// A vote of a visitor of the page of the poll.
pub(super) struct AnswerPublicPoll {
    pub(super) app: AppNo,
    pub(super) public_id: Uuid,
    pub(super) answer: AnswerId,
    pub(super) visitor: Visitor,
    pub(super) at: Timestamp,
}

impl AnswerPublicPoll {
    /// Counts the vote, unless the visitor has already voted.
    pub(super) fn write(&self, tx: &mut WriteTx<'_>) -> Result<(), StoreError> {
        let (_, no, _) = by_public_id(tx, self.public_id)?;
        count_vote_on_page(tx, self.app, no, self.answer, self.visitor, self.at)
    }
}

/// Finds a poll of an active application by its public id.
fn by_public_id(
    connection: &Connection,
    public_id: Uuid,
) -> Result<(AppNo, NotificationNo, NotificationId), StoreError> {
    let numbers_and_id = connection
        .prepare_cached(
            "select n.app_no, n.no, n.id from polls p join notifications n on n.no = p.notification_no
             join apps a on a.no = n.app_no where p.public_id = ?1 and a.status = 'active'",
        )?
        .query_row([public_id.as_bytes()], |row| {
            Ok((AppNo(row.get(0)?), NotificationNo(row.get(1)?), row.get(2)?))
        })
        .optional()?;
    let (app, no, id): (_, _, String) = numbers_and_id.ok_or(StoreError::NotFound)?;
    let id = NotificationId::new(id).map_err(|rule| StoreError::Backend(rule.into()))?;
    Ok((app, no, id))
}

/// Reads the answer that a visitor gave.
fn vote_of(
    connection: &Connection,
    no: NotificationNo,
    visitor: Visitor,
) -> Result<Option<AnswerId>, StoreError> {
    let answer = connection
        .prepare_cached(
            "select a.id from poll_visitors v join poll_answers a
             on a.notification_no = v.notification_no and a.place = v.place
             where v.notification_no = ?1 and v.visitor = ?2",
        )?
        .query_row(params![no.0, visitor.0], |row| uuid_at(row, 0).map(AnswerId))
        .optional()?;
    Ok(answer)
}

/// Reads the index of an answer of a poll.
fn answer_index(
    connection: &Connection,
    no: NotificationNo,
    answer: AnswerId,
) -> Result<i64, StoreError> {
    let place = connection
        .prepare_cached("select place from poll_answers where notification_no = ?1 and id = ?2")?
        .query_row(params![no.0, answer.0.as_bytes()], |row| row.get(0))
        .optional()?;
    place.ok_or_else(|| StoreError::refused("answer", "the poll has no answer with this id"))
}

/// Counts the vote of a visitor, unless the visitor has already voted.
fn count_vote_on_page(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    no: NotificationNo,
    answer: AnswerId,
    visitor: Visitor,
    now: Timestamp,
) -> Result<(), StoreError> {
    let place = answer_index(tx, no, answer)?;
    let inserted = tx
        .prepare_cached(
            "insert into poll_visitors (notification_no, visitor, place)
             values (?1, ?2, ?3) on conflict do nothing",
        )?
        .execute(params![no.0, visitor.0, place])?;
    if inserted == 0 {
        return Ok(());
    }
    count_click(tx, no, answer)?;
    record_vote_event(tx, app, no, answer, None, now)
}

/// Reads a poll; `None` if the notification has no poll.
fn read(
    connection: &Connection,
    no: NotificationNo,
    id: NotificationId,
) -> Result<Option<PollRow>, StoreError> {
    let answers = connection
        .prepare_cached(
            "select id, text, image_url, clicks from poll_answers
             where notification_no = ?1 order by place",
        )?
        .query_map([no.0], |row| {
            Ok(AnswerRow {
                id: AnswerId(uuid_at(row, 0)?),
                text: row.get(1)?,
                image_url: row.get(2)?,
                clicks: count_at(row, 3)?,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let poll = connection
        .prepare_cached(
            "select public_id, text, layout, image_url, lang, created_at from polls
             where notification_no = ?1",
        )?
        .query_row([no.0], |row| {
            Ok(PollRow {
                id,
                public_id: Uuid::from_bytes(row.get(0)?),
                text: row.get(1)?,
                layout_id: layout_of(row.get(2)?)
                    .ok_or_else(|| unexpected_value(2, Type::Integer))?,
                image_url: row.get(3)?,
                lang: row.get(4)?,
                created_at: Timestamp(row.get(5)?),
                answers,
            })
        })
        .optional()?;
    Ok(poll)
}

/// Counts a vote that the application reports. The device votes once. A vote without a device
/// always counts.
fn count_vote(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    no: NotificationNo,
    answer: AnswerId,
    vote: &PollVote,
    now: Timestamp,
) -> Result<(), StoreError> {
    if !has_answer(tx, no, answer)? {
        return Err(StoreError::NotFound);
    }
    match &vote.device_id {
        Some(device) => {
            let key = key_by_id(tx, app, device.as_str())?
                .ok_or_else(|| StoreError::refused("device_id", "no device has this id"))?;
            count_vote_of(tx, no, answer, key, now)
        }
        None => {
            count_click(tx, no, answer)?;
            record_vote_event(tx, app, no, answer, None, now)
        }
    }
}

/// Counts the vote of a device, unless the device has already voted.
pub(super) fn count_vote_of(
    tx: &mut WriteTx<'_>,
    no: NotificationNo,
    answer: AnswerId,
    key: DeviceKey,
    now: Timestamp,
) -> Result<(), StoreError> {
    let inserted = tx
        .prepare_cached(
            "insert into poll_votes (notification_no, device_key) values (?1, ?2)
             on conflict do nothing",
        )?
        .execute([no.0, key.0])?;
    if inserted == 0 {
        return Ok(());
    }
    count_click(tx, no, answer)?;
    record_vote_event(tx, key.app(), no, answer, Some(key), now)
}

/// Writes the event of a counted vote.
fn record_vote_event(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    no: NotificationNo,
    answer: AnswerId,
    device: Option<DeviceKey>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let answer = answer.to_string();
    let refs = EventRefs { notification: Some(no), device, detail: Some(&answer) };
    event::record(tx, app, WebhookEventType::PollAnswered, refs, now)
}

/// Whether a device has voted.
pub(super) fn has_voted(
    connection: &Connection,
    no: NotificationNo,
    key: DeviceKey,
) -> Result<bool, StoreError> {
    let voted = connection
        .prepare_cached("select 1 from poll_votes where notification_no = ?1 and device_key = ?2")?
        .exists([no.0, key.0])?;
    Ok(voted)
}

/// Finds a poll by its id, if it has this answer.
pub(super) fn with_answer(
    connection: &Connection,
    app: AppNo,
    poll: &NotificationId,
    answer: AnswerId,
) -> Result<Option<NotificationNo>, StoreError> {
    let Some(no) = number_of(connection, app, poll)? else { return Ok(None) };
    Ok(has_answer(connection, no, answer)?.then_some(no))
}

fn has_answer(
    connection: &Connection,
    no: NotificationNo,
    answer: AnswerId,
) -> Result<bool, StoreError> {
    let existing = connection
        .prepare_cached("select 1 from poll_answers where notification_no = ?1 and id = ?2")?
        .exists(params![no.0, answer.0.as_bytes()])?;
    Ok(existing)
}

/// Increments the counter of an answer.
fn count_click(tx: &Connection, no: NotificationNo, answer: AnswerId) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update poll_answers set clicks = clicks + 1 where notification_no = ?1 and id = ?2",
    )?
    .execute(params![no.0, answer.0.as_bytes()])?;
    Ok(())
}
