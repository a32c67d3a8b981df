//! Inbound events of Messenger and chats. A read decides what an event changes, so that an event
//! without changes costs no commit. A write then decides again and applies the change.

use notify_core::{AnswerId, DeviceDetails, Platform, Subscription, Timestamp, WebhookEventType};

use crate::store::device::counts::{self, State};
use crate::store::device::row::{self, DeviceUpsert, by_id, key_by_address, key_by_id};
use crate::store::device::{erase, register};
use crate::store::event::{self, EventRefs};
use crate::store::sql::row::{count, count_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, params};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, INBOUND_WRITTEN_EVERY_MS, Inbound, InboundAction, NewContact,
    NotificationNo, Recipient, StoreError, VerifiedAddress, poll,
};

/// The stored reason of a device that is disabled because the person blocked the application.
const BLOCKED: &str = "blocked";

/// Whether an event changes anything.
pub(in crate::store) fn changes_anything(
    connection: &Connection,
    app: AppNo,
    inbound: &Inbound,
) -> Result<bool, StoreError> {
    Ok(!matches!(Plan::for_event(connection, app, inbound)?, Plan::Nothing))
}

/// Applies an event, unless it changes nothing.
pub(in crate::store) fn apply(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    inbound: &Inbound,
    now: Timestamp,
) -> Result<(), StoreError> {
    Plan::for_event(tx, app, inbound)?.apply(tx, app, now)
}

/// What an event changes.
enum Plan {
    /// Nothing: the event is not new, or its device, poll or answer is unknown.
    Nothing,
    /// A new device is registered. `active_at` is when the person was active, if it is known.
    Register { device: Box<DeviceUpsert>, active_at: Option<Timestamp> },
    /// The state of a device changes.
    Change { before: InboundState, after: InboundState },
    /// The vote of a device is counted.
    Vote { poll: NotificationNo, answer: AnswerId, device: DeviceKey },
}

/// The state of a device that inbound events change.
#[derive(Clone, Copy)]
struct InboundState {
    key: DeviceKey,
    push_disabled: bool,
    dead_at: Option<Timestamp>,
    last_inbound_at: Option<Timestamp>,
    created_at: Timestamp,
}

impl Plan {
    /// Decides what an event changes, from the current state of the database.
    fn for_event(
        connection: &Connection,
        app: AppNo,
        inbound: &Inbound,
    ) -> Result<Self, StoreError> {
        let Inbound { who, at, act } = inbound;
        let Some(key) = key_by_address(connection, app, who.platform(), who.address())? else {
            return match act {
                InboundAction::Wrote(contact) => {
                    let device = Box::new(new_device(connection, app, who, contact)?);
                    Ok(Self::Register { device, active_at: *at })
                }
                InboundAction::Returned | InboundAction::Left | InboundAction::Voted { .. } => {
                    Ok(Self::Nothing)
                }
            };
        };
        match act {
            InboundAction::Wrote(_) | InboundAction::Returned => {
                Ok(InboundState::read(connection, key)?.after_activity(*at))
            }
            InboundAction::Left => Ok(InboundState::read(connection, key)?.after_block(*at)),
            InboundAction::Voted { poll, answer } => {
                let Some(poll) = poll::with_answer(connection, app, poll, *answer)? else {
                    return Ok(Self::Nothing);
                };
                if poll::has_voted(connection, poll, key)? {
                    return Ok(Self::Nothing);
                }
                Ok(Self::Vote { poll, answer: *answer, device: key })
            }
        }
    }

    /// Writes the change, in the transaction that planned it.
    fn apply(self, tx: &mut WriteTx<'_>, app: AppNo, now: Timestamp) -> Result<(), StoreError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Register { device, active_at } => {
                register::subscribe(tx, app, &device, now)?;
                if let Some(key) = key_by_id(tx, app, device.device_id.as_str())? {
                    tx.prepare_cached("update devices set last_inbound_at = ?2 where key = ?1")?
                        .execute(params![key.0, active_at.map(Timestamp::as_ms)])?;
                }
                Ok(())
            }
            Self::Change { before, after } => write(tx, before, after, now),
            Self::Vote { poll, answer, device } => {
                poll::count_vote_of(tx, poll, answer, device, now)
            }
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

    /// The change after the person was active at `at`. A device that was disabled before `at` is
    /// enabled again. To save writes, a newer time of activity alone is only stored if it is at
    /// least [`INBOUND_WRITTEN_EVERY_MS`] newer than the stored time.
    fn after_activity(self, at: Option<Timestamp>) -> Plan {
        let Some(at) = at else { return Plan::Nothing };
        let is_enabled_again = self.dead_at.is_some_and(|dead_at| dead_at <= at);
        let is_stored_time_old = self
            .last_inbound_at
            .is_none_or(|last_inbound_at| at.ms_since(last_inbound_at) >= INBOUND_WRITTEN_EVERY_MS);
        if !is_enabled_again && !is_stored_time_old {
            return Plan::Nothing;
        }
        let dead_at = if is_enabled_again { None } else { self.dead_at };
        let last_inbound_at = self.last_inbound_at.max(Some(at));
        Plan::Change { before: self, after: Self { dead_at, last_inbound_at, ..self } }
    }

    /// The change after the person blocked the application at `at`. Nothing changes if the device
    /// is already disabled, or if the person was active after `at`.
    fn after_block(self, at: Option<Timestamp>) -> Plan {
        let Some(at) = at else { return Plan::Nothing };
        let was_active_later = self.last_inbound_at.is_some_and(|last| last > at);
        if self.dead_at.is_some() || was_active_later {
            return Plan::Nothing;
        }
        Plan::Change { before: self, after: Self { dead_at: Some(at), ..self } }
    }

    /// The state for the device counters.
    fn counted_state(&self) -> State {
        let enabled = !self.push_disabled && self.dead_at.is_none();
        // Inbound events do not change the offset from UTC, so the counters only need the same
        // value before and after.
        State { key: self.key, enabled, created_at: self.created_at, zone: 0 }
    }
}

/// Writes a change, and the event and the counters that belong to it.
fn write(
    tx: &mut WriteTx<'_>,
    before: InboundState,
    after: InboundState,
    now: Timestamp,
) -> Result<(), StoreError> {
    // `dead_at` and `last_inbound_at` have separate statements: an update that names `dead_at` also
    // writes the index over `dead_at`, even if the value stays the same.
    if before.dead_at != after.dead_at {
        tx.prepare_cached("update devices set dead_reason = ?2, dead_at = ?3 where key = ?1")?
            .execute(params![
                after.key.0,
                after.dead_at.map(|_| BLOCKED),
                after.dead_at.map(Timestamp::as_ms)
            ])?;
        counts::apply_change(tx, Some(before.counted_state()), Some(after.counted_state()))?;
        if after.dead_at.is_some() {
            let refs = EventRefs {
                device: Some(after.key),
                detail: Some(BLOCKED),
                ..EventRefs::default()
            };
            let kind = WebhookEventType::DeviceUnregistered;
            event::record(tx, after.key.app(), kind, refs, now)?;
        }
    }
    if before.last_inbound_at != after.last_inbound_at {
        tx.prepare_cached("update devices set last_inbound_at = ?2 where key = ?1")?
            .execute(params![after.key.0, after.last_inbound_at.map(Timestamp::as_ms)])?;
    }
    tx.changed(DeliveryChange::Device(after.key));
    Ok(())
}

/// The device to register for an unknown person. It has the requested id if no device has that id.
/// The transaction that registers the device calls this again, since the id may be in use by then.
fn new_device(
    connection: &Connection,
    app: AppNo,
    who: &Recipient,
    contact: &NewContact,
) -> Result<DeviceUpsert, StoreError> {
    let free_id = match &contact.requested_id {
        Some(id) if by_id(connection, app, id)?.is_none() => Some(id.clone()),
        Some(_) | None => None,
    };
    let language = contact.language.clone();
    let subscription = Subscription {
        device_id: free_id,
        endpoint: who.clone().into_endpoint(),
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails { language, ..DeviceDetails::default() },
    };
    DeviceUpsert::of_subscription(app, subscription, contact.generated_id.clone())
}

// Addresses that have not received a message yet: those of Web Push, and those that apps registered with a
// publishable key. For each of them, the table `unverified_addresses` stores when the device got it, and
// whether the device is anonymous: a browser or an app registered it without an API key. An anonymous device
// expires if it never receives a message.

/// Records that a device got an address that has not received a message yet. Does nothing for
/// platforms other than Web Push, whose addresses come from an app or from a person who wrote
/// first.
pub(super) fn mark_unverified(
    tx: &Connection,
    key: DeviceKey,
    at: Timestamp,
) -> Result<(), StoreError> {
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

/// Records that an app registered an address with a publishable key, which is no secret.
pub(super) fn mark_unverified_app(
    tx: &Connection,
    key: DeviceKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into unverified_addresses (device_key, since, is_anonymous) values (?1, ?2, 0)
         on conflict (device_key) do update set since = excluded.since",
    )?
    .execute([key.0, at.as_ms()])?;
    Ok(())
}

/// Records that a browser or an app registered a new device without an API key. An app may not have an
/// address yet.
pub(super) fn set_anonymous(
    tx: &Connection,
    key: DeviceKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "insert into unverified_addresses (device_key, since, is_anonymous) values (?1, ?2, 1)
         on conflict (device_key) do update set is_anonymous = 1",
    )?
    .execute([key.0, at.as_ms()])?;
    Ok(())
}

/// Records that a user logged in on a device, that a backend subscribed the browser or that it gave the phone a
/// secret, so that the device does not expire.
pub(in crate::store) fn clear_anonymous(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update unverified_addresses set is_anonymous = 0 where device_key = ?1 and is_anonymous = 1",
    )?
    .execute([key.0])?;
    Ok(())
}

/// Whether devices of a platform can register without an API key.
pub(in crate::store) const fn may_be_anonymous(platform: Platform) -> bool {
    matches!(platform, Platform::Android | Platform::Ios | Platform::Web)
}

/// Restarts the retention period of a device that registered again.
pub(super) fn restart_retention(
    tx: &Connection,
    key: DeviceKey,
    at: Timestamp,
) -> Result<(), StoreError> {
    if may_be_anonymous(key.platform()) {
        tx.prepare_cached(
            "update unverified_addresses set since = ?2 where device_key = ?1 and since < ?2",
        )?
        .execute([key.0, at.as_ms()])?;
    }
    Ok(())
}

/// Records that addresses received their first message. A device that has another address by now
/// stays unverified.
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

/// Counts the anonymous devices of an application, up to `limit`.
pub(in crate::store) fn count_anonymous(
    connection: &Connection,
    app: AppNo,
    limit: u64,
) -> Result<u64, StoreError> {
    let devices = connection
        .prepare_cached(
            "select count(*) from (select 1 from unverified_addresses
             where is_anonymous = 1 and (device_key >> 43) = ?1 limit ?2) seen",
        )?
        .query_row([app.0, count(limit)], |row| count_at(row, 0))?;
    Ok(devices)
}

/// The time before which the anonymous devices of an application were last seen that are more than `max`;
/// `None` if it does not have more.
pub(in crate::store) fn surplus_before(
    connection: &Connection,
    app: AppNo,
    max: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let Some(last_kept) = max.checked_sub(1) else { return Ok(None) };
    let times = connection
        .prepare_cached(
            "select since from unverified_addresses
             where is_anonymous = 1 and (device_key >> 43) = ?1
             order by since desc limit 2 offset ?2",
        )?
        .query_map([app.0, count(last_kept)], |row| row.get(0).map(Timestamp))?
        .collect::<sql::Result<Vec<_>>>()?;
    // Devices that were last seen at the same time as the last one that is kept are kept too.
    Ok(times.first().filter(|_| times.len() == 2).copied())
}

/// Erases the anonymous device of an application that was not seen for the longest time, if it was last seen
/// before `before`. Returns whether there was such a device.
pub(in crate::store) fn remove_surplus(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    before: Timestamp,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let oldest = tx
        .prepare_cached(
            "select device_key from unverified_addresses
             where is_anonymous = 1 and (device_key >> 43) = ?1 and since < ?2
             order by since limit 1",
        )?
        .query_row([app.0, before.as_ms()], |row| row.get(0).map(DeviceKey))
        .optional()?;
    remove_anonymous(tx, oldest, at)
}

/// Erases the anonymous device that was not seen for the longest time, if it was last seen before
/// `before`. Returns whether there was such a device. Its id in stored requests stays: the server made it, no
/// message reached it, and no later device gets it.
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
    remove_anonymous(tx, oldest, at)
}

fn remove_anonymous(
    tx: &mut WriteTx<'_>,
    key: Option<DeviceKey>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let Some(key) = key else { return Ok(false) };
    match row::by_key(tx, key)? {
        Some(row) => drop(erase::erase_row(tx, &row, at)?),
        None => forget(tx, key)?,
    }
    Ok(true)
}

/// Deletes the record of a device that no longer exists.
pub(super) fn forget(tx: &Connection, key: DeviceKey) -> Result<(), StoreError> {
    tx.prepare_cached("delete from unverified_addresses where device_key = ?1")?
        .execute([key.0])?;
    Ok(())
}
