//! What a person's act comes to for their device: found out by reading, then carried out.

use notify_core::{AnswerId, DeviceDetails, Platform, Subscription, Timestamp, WebhookEventType};

use crate::store::device::counts::{self, State};
use crate::store::device::row::{self, Wanted, by_id, key_by_address, key_by_id};
use crate::store::device::{erase, register};
use crate::store::event::{self, About};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    Act, AppNo, DeliveryChange, DeviceKey, INBOUND_WRITTEN_EVERY_MS, Inbound, Newcomer,
    NotificationNo, Recipient, StoreError, VerifiedAddress, poll,
};

/// Why a device is disabled whose person locked us out, as it is kept.
const LEFT: &str = "blocked";

/// Whether anything is to be written of an act.
pub(in crate::store) fn is_news(
    connection: &Connection,
    app: AppNo,
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    Ok(!matches!(Plan::of(connection, app, inbound)?, Plan::Nothing))
}

/// Writes what is to be written of an act.
pub(in crate::store) fn take(
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
    Vote(NotificationNo, AnswerId, DeviceKey),
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
        let Some(key) = key_by_address(connection, app, who.platform(), who.address())? else {
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
                let Some(no) = poll::with_answer(connection, app, poll, *answer)? else {
                    return Ok(Self::Nothing);
                };
                let voted = poll::has_voted(connection, no, key)?;
                Ok(if voted { Self::Nothing } else { Self::Vote(no, *answer, key) })
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
            Self::Change(before, after) => write(tx, before, after, now),
            Self::Vote(poll, answer, key) => poll::count_vote_of(tx, poll, answer, key, now),
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
    before: Known,
    after: Known,
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
    tx.changed(DeliveryChange::Device(after.key));
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

// Web Push addresses that have not taken a message yet: when they came in, and which of them a browser
// registered without an API key.

/// Notes that a device got an address that has taken no message yet. Only Web Push tracks this: other
/// addresses come from an app store's app or a person who wrote first, and always with an API key.
pub(super) fn start(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    if key.platform() != Platform::Web {
        return Ok(());
    }
    tx.prepare_cached(
        "insert into unverified_addresses (device_key, since, is_anonymous)
         select ?1, ?2, count(*) from device_secrets where device_key = ?1
         on conflict (device_key) do update set since = excluded.since",
    )?
    .execute([key.0, at.as_ms()])?;
    Ok(())
}

/// Notes that a browser registered a new device without an API key.
pub(super) fn set_anonymous(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("update unverified_addresses set is_anonymous = 1 where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}

/// Notes that an API key registered a device: it does not expire.
pub(in crate::store) fn set_known(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update unverified_addresses set is_anonymous = 0 where device_key = ?1 and is_anonymous = 1",
    )?
    .execute([key.0])?;
    Ok(())
}

/// Notes that a device registered again: its retention period starts again.
pub(super) fn refresh(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    if key.platform() == Platform::Web {
        tx.prepare_cached(
            "update unverified_addresses set since = ?2 where device_key = ?1 and since < ?2",
        )?
        .execute([key.0, at.as_ms()])?;
    }
    Ok(())
}

/// Notes which addresses took their first message. A device that has another address by now stays
/// unverified.
pub(in crate::store) fn verify<'v>(
    tx: &Connection,
    verified: impl IntoIterator<Item = &'v VerifiedAddress>,
) -> Result<(), StoreError> {
    for VerifiedAddress { key, address } in verified {
        tx.prepare_cached(
            "delete from unverified_addresses where device_key = ?1
             and exists (select 1 from devices d where d.key = ?1 and d.address = ?2)",
        )?
        .execute(params![key.0, &**address])?;
    }
    Ok(())
}

/// Erases the anonymous device that was seen last before all others, if that was before `before`.
/// No stored request names it: its id was drawn for it, and targets name devices of other platforms.
pub(in crate::store) fn remove_expired(
    tx: &mut WriteTx<'_>,
    before: Timestamp,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let oldest = tx
        .prepare_cached(
            "select device_key from unverified_addresses
             where is_anonymous = 1 and since < ?1 order by since limit 1",
        )?
        .query_row([before.as_ms()], |row| row.get::<i64>(0).map(DeviceKey))
        .optional()?;
    let Some(key) = oldest else { return Ok(false) };
    match row::by_key(tx, key)? {
        Some(row) => erase::row(tx, &row, at)?,
        None => forget(tx, key)?,
    }
    Ok(true)
}

/// Forgets a device that is gone.
pub(super) fn forget(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("delete from unverified_addresses where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}
