//! Inbound events: a read decides what an event changes, a write applies it.

use notify_core::{AnswerId, DeviceDetails, Platform, Subscription, Timestamp, WebhookEventType};

use crate::store::device::counts::{self, State};
use crate::store::device::row::{self, DeviceUpsert, by_id, key_by_address, key_by_id};
use crate::store::device::{erase, register};
use crate::store::event::{self, EventRefs};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, INBOUND_WRITTEN_EVERY_MS, Inbound, InboundAction, NewContact,
    NotificationNo, Recipient, StoreError, VerifiedAddress, poll,
};

/// Stored reason of a device that is disabled because the person blocked us.
const LEFT: &str = "blocked";

/// Whether an event changes anything.
pub(in crate::store) fn changes_anything(
    connection: &Connection,
    app: AppNo,
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    Ok(!matches!(Plan::for_action(connection, app, inbound)?, Plan::Nothing))
}

/// Applies an event.
pub(in crate::store) fn take(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    inbound: &Inbound,
    now: Timestamp,
) -> Result<(), StoreError> {
    Plan::for_action(tx, app, inbound)?.apply(tx, app, now)
}

/// What an event changes.
enum Plan {
    /// Nothing: it is not new, or names something unknown.
    Nothing,
    /// Registers a device whose person was active at that time.
    Register(Box<DeviceUpsert>, Option<Timestamp>),
    /// Changes a device from the first state to the second.
    Change(InboundState, InboundState),
    /// Counts a vote of a device.
    Vote(NotificationNo, AnswerId, DeviceKey),
}

/// The state of a device and its person.
#[derive(Clone, Copy)]
struct InboundState {
    key: DeviceKey,
    push_disabled: bool,
    dead_at: Option<Timestamp>,
    last_inbound_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl Plan {
    /// What an event changes now.
    fn for_action(
        connection: &Connection,
        app: AppNo,
        inbound: &Inbound,
    ) -> Result<Self, StoreError> {
        let Inbound { who, at, act } = inbound;
        let Some(key) = key_by_address(connection, app, who.platform(), who.address())? else {
            return match act {
                InboundAction::Wrote(contact) => {
                    let wanted = wanted(connection, app, who, contact)?;
                    Ok(Self::Register(Box::new(wanted), *at))
                }
                InboundAction::Returned | InboundAction::Left | InboundAction::Voted { .. } => {
                    Ok(Self::Nothing)
                }
            };
        };
        match act {
            InboundAction::Wrote(_) | InboundAction::Returned => {
                Ok(InboundState::read(connection, key)?.seen(*at))
            }
            InboundAction::Left => Ok(InboundState::read(connection, key)?.blocked(*at)),
            InboundAction::Voted { poll, answer } => {
                let Some(no) = poll::with_answer(connection, app, poll, *answer)? else {
                    return Ok(Self::Nothing);
                };
                let voted = poll::has_voted(connection, no, key)?;
                Ok(if voted { Self::Nothing } else { Self::Vote(no, *answer, key) })
            }
        }
    }

    /// Writes the change, in the transaction that planned it.
    fn apply(self, tx: &mut WriteTx<'_>, app: AppNo, now: Timestamp) -> Result<(), StoreError> {
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

impl InboundState {
    fn read(connection: &Connection, key: DeviceKey) -> Result<Self, StoreError> {
        let state = connection
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
        Ok(state)
    }

    /// The person was active at that time. The newest time counts. It is written if it enables the
    /// device again, or if the stored time is old enough.
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

    /// The person blocked us at that time, unless a later activity is known.
    fn blocked(self, at: Option<Timestamp>) -> Plan {
        let Some(at) = at else { return Plan::Nothing };
        let was_there_later = self.last_inbound_at.is_some_and(|last| last > at);
        if self.dead_at.is_some() || was_there_later {
            return Plan::Nothing;
        }
        Plan::Change(self, Self { dead_at: Some(at), ..self })
    }

    fn state(&self) -> State {
        let enabled = !self.push_disabled && self.dead_at.is_none();
        // The zone does not change, so it is not read.
        State { key: self.key, enabled, created_at: self.created_at, zone: 0 }
    }
}

fn write(
    tx: &mut WriteTx<'_>,
    before: InboundState,
    after: InboundState,
    now: Timestamp,
) -> Result<(), StoreError> {
    // A separate statement, since the state is in an index.
    if before.dead_at != after.dead_at {
        tx.prepare_cached("update devices set dead_reason = ?2, dead_at = ?3 where key = ?1")?
            .execute(params![
                after.key.0,
                after.dead_at.map(|_| LEFT),
                after.dead_at.map(Timestamp::as_ms)
            ])?;
        counts::changed(tx, Some(before.state()), Some(after.state()))?;
        if after.dead_at.is_some() {
            let about =
                EventRefs { device: Some(after.key), detail: Some(LEFT), ..EventRefs::default() };
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

/// The device of an unknown person. Checked in the transaction that creates it, since the requested id
/// may be in use by then.
fn wanted(
    connection: &Connection,
    app: AppNo,
    who: &Recipient,
    contact: &NewContact,
) -> Result<DeviceUpsert, StoreError> {
    let brought = match &contact.requested_id {
        Some(id) if by_id(connection, app, id)?.is_none() => Some(id.clone()),
        Some(_) | None => None,
    };
    let language = contact.language.clone();
    let subscription = Subscription {
        device_id: brought,
        endpoint: who.clone().into_endpoint(),
        utc_offset_minutes: 0,
        details: DeviceDetails { language, ..DeviceDetails::default() },
    };
    DeviceUpsert::of_subscription(app, subscription, contact.generated_id.clone())
}

// Web Push addresses that have not received a message yet: since when, and which of them a browser
// registered without an API key.

/// Records that a device got an address that has not received a message yet. Only Web Push needs this:
/// other addresses come from an app or from a person who wrote first, and always with an API key.
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

/// Records that a browser registered a new device without an API key.
pub(super) fn set_anonymous(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("update unverified_addresses set is_anonymous = 1 where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}

/// Records that an API key registered a device, which therefore does not expire.
pub(in crate::store) fn set_known(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update unverified_addresses set is_anonymous = 0 where device_key = ?1 and is_anonymous = 1",
    )?
    .execute([key.0])?;
    Ok(())
}

/// Records that a device registered again, which restarts its retention period.
pub(super) fn refresh(tx: &Connection, key: DeviceKey, at: Timestamp) -> Result<(), StoreError> {
    if key.platform() == Platform::Web {
        tx.prepare_cached(
            "update unverified_addresses set since = ?2 where device_key = ?1 and since < ?2",
        )?
        .execute([key.0, at.as_ms()])?;
    }
    Ok(())
}

/// Records which addresses received their first message. A device that has another address by now stays
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

/// Erases the anonymous device that was not seen for the longest time, if it was last seen before
/// `before`. No stored request names it, since its id was generated and requests name devices of other
/// platforms.
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

/// Deletes the record of an erased device.
pub(super) fn forget(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("delete from unverified_addresses where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}
