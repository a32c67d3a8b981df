//! What a person's act comes to for their device: found out by reading, then carried out.

use notify_core::{AnswerId, DeviceDetails, Subscription, Timestamp, WebhookEventType};

use super::super::event::{self, About};
use super::super::poll;
use super::super::writer::WriteTx;
use super::counts::{self, State};
use super::register;
use super::row::{Wanted, by_id, key_by_address, key_by_id};
use crate::store::sql::{Connection, params};
use crate::store::{
    Act, AppNo, Change, DeviceKey, INBOUND_WRITTEN_EVERY_MS, Inbound, Newcomer, NotificationNo,
    Recipient, StoreError,
};

/// Why a device is disabled whose person locked us out, as it is kept.
const LEFT: &str = "blocked";

/// Whether anything is to be written of an act.
pub(in crate::store::sql) fn is_news(
    connection: &Connection,
    app: AppNo,
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    Ok(!matches!(Plan::of(connection, app, inbound)?, Plan::Nothing))
}

/// Writes what is to be written of an act.
pub(in crate::store::sql) fn take(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    inbound: &Inbound,
    now: Timestamp,
) -> Result<(), StoreError> {
    Plan::of(tx, app, inbound)?.carry_out(tx, app, now)
}

/// What is to be written of an act.
enum Plan {
    /// Nothing: it is no news, or names something unknown.
    Nothing,
    /// A device is made; its person acted then.
    Register(Box<Wanted>, Option<Timestamp>),
    /// A device that is there changes from the first to the second.
    Change(Known, Known),
    /// An answer of a poll is counted for a device.
    Vote((NotificationNo, AnswerId), DeviceKey),
}

/// What is known of a device and its person.
#[derive(Clone, Copy)]
struct Known {
    key: DeviceKey,
    push_disabled: bool,
    dead_at: Option<Timestamp>,
    last_inbound_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl Plan {
    /// What an act comes to now.
    fn of(connection: &Connection, app: AppNo, inbound: &Inbound) -> Result<Self, StoreError> {
        let Inbound { who, at, act } = inbound;
        let Some(key) = key_by_address(connection, app, (who.platform(), who.address()))? else {
            return match act {
                Act::Wrote(newcomer) => {
                    let wanted = wanted(connection, app, who, newcomer)?;
                    Ok(Self::Register(Box::new(wanted), *at))
                }
                Act::Returned | Act::Left | Act::Voted { .. } => Ok(Self::Nothing),
            };
        };
        match act {
            Act::Wrote(_) | Act::Returned => Ok(Known::read(connection, key)?.seen(*at)),
            Act::Left => Ok(Known::read(connection, key)?.left(*at)),
            Act::Voted { poll, answer } => {
                let Some(no) = poll::with_answer(connection, app, (poll, *answer))? else {
                    return Ok(Self::Nothing);
                };
                let voted = poll::has_voted(connection, no, key)?;
                Ok(if voted { Self::Nothing } else { Self::Vote((no, *answer), key) })
            }
        }
    }

    /// Writes it, in the transaction in which it was found out.
    fn carry_out(self, tx: &mut WriteTx<'_>, app: AppNo, now: Timestamp) -> Result<(), StoreError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Register(wanted, at) => {
                register::subscribe(tx, app, &wanted, now)?;
                if let Some(key) = key_by_id(tx, app, wanted.device_id.as_str())? {
                    tx.prepare_cached("update devices set last_inbound_at = ?2 where key = ?1")?
                        .execute(params![key.0, at.map(Timestamp::as_ms)])?;
                }
                Ok(())
            }
            Self::Change(before, after) => write(tx, (before, after), now),
            Self::Vote(answer, key) => poll::count_vote_of(tx, answer, key, now),
        }
    }
}

impl Known {
    fn read(connection: &Connection, key: DeviceKey) -> Result<Self, StoreError> {
        let known = connection
            .prepare_cached(
                "select push_disabled, dead_at, last_inbound_at, created_at from devices
                 where key = ?1",
            )?
            .query_row([key.0], |row| {
                Ok(Self {
                    key,
                    push_disabled: row.get(0)?,
                    dead_at: row.get::<Option<i64>>(1)?.map(Timestamp),
                    last_inbound_at: row.get::<Option<i64>>(2)?.map(Timestamp),
                    created_at: Timestamp(row.get(3)?),
                })
            })?;
        Ok(known)
    }

    /// The person was there at that time. The newest such time counts; it is written when it
    /// revives the device, or is long enough after the one that is kept.
    fn seen(self, at: Option<Timestamp>) -> Plan {
        let Some(at) = at else { return Plan::Nothing };
        let revived = self.dead_at.is_some_and(|dead_at| dead_at <= at);
        let is_due = self
            .last_inbound_at
            .is_none_or(|last_inbound_at| at.ms_since(last_inbound_at) >= INBOUND_WRITTEN_EVERY_MS);
        if !revived && !is_due {
            return Plan::Nothing;
        }
        let dead_at = if revived { None } else { self.dead_at };
        Plan::Change(
            self,
            Self { dead_at, last_inbound_at: self.last_inbound_at.max(Some(at)), ..self },
        )
    }

    /// The person locked us out at that time; what was heard of them later outweighs it.
    fn left(self, at: Option<Timestamp>) -> Plan {
        let Some(at) = at else { return Plan::Nothing };
        let was_there_later = self.last_inbound_at.is_some_and(|last| last > at);
        if self.dead_at.is_some() || was_there_later {
            return Plan::Nothing;
        }
        Plan::Change(self, Self { dead_at: Some(at), ..self })
    }

    fn state(&self) -> State {
        let enabled = !self.push_disabled && self.dead_at.is_none();
        // The zone stays: what is not asked for is not read.
        State { key: self.key, enabled, created_at: self.created_at, zone: 0 }
    }
}

fn write(
    tx: &mut WriteTx<'_>,
    (before, after): (Known, Known),
    now: Timestamp,
) -> Result<(), StoreError> {
    // Apart, since the state stands in an index.
    if before.dead_at != after.dead_at {
        tx.prepare_cached("update devices set dead_reason = ?2, dead_at = ?3 where key = ?1")?
            .execute(params![
                after.key.0,
                after.dead_at.map(|_| LEFT),
                after.dead_at.map(Timestamp::as_ms)
            ])?;
        counts::changed(tx, Some(before.state()), Some(after.state()))?;
        if after.dead_at.is_some() {
            let about = About { device: Some(after.key), detail: Some(LEFT), ..About::default() };
            let kind = WebhookEventType::DeviceUnregistered;
            event::record(tx, after.key.app(), kind, about, now)?;
        }
    }
    if before.last_inbound_at != after.last_inbound_at {
        tx.prepare_cached("update devices set last_inbound_at = ?2 where key = ?1")?
            .execute(params![after.key.0, after.last_inbound_at.map(Timestamp::as_ms)])?;
    }
    tx.changed(Change::DeviceChanged(after.key));
    Ok(())
}

/// The device that someone unknown becomes. Looked up in the transaction that makes it: an id that
/// was brought along may have been taken meanwhile.
fn wanted(
    connection: &Connection,
    app: AppNo,
    who: &Recipient,
    newcomer: &Newcomer,
) -> Result<Wanted, StoreError> {
    let brought = match &newcomer.brought {
        Some(id) if by_id(connection, app, id)?.is_none() => Some(id.clone()),
        Some(_) | None => None,
    };
    let language = newcomer.language.clone();
    let subscription = Subscription {
        device_id: brought,
        endpoint: who.clone().into_endpoint(),
        utc_offset_minutes: 0,
        details: DeviceDetails { language, ..DeviceDetails::default() },
    };
    Wanted::of_subscription(app, subscription, newcomer.made.clone())
}
