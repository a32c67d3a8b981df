//! Pages: claiming, reclaiming, and looking up their outcomes.

use std::borrow::Cow;

use notify_core::{IosEnv, Timestamp};

use crate::store::delivery::outcomes;
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::delivery::start::keys_of;
use crate::store::sql::error::inserted;
use crate::store::sql::row::{count, unexpected_value};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Connection, OptionalExtension, Type, params, seq_of};
use crate::store::{
    DeviceKey, DeviceOutcome, DispatchNo, InstanceId, NewRetry, Outcome, PageNo, ReclaimRequest,
    Reclaimed, SEQ_MAX, StoreError,
};

/// A claim of the next page of a dispatch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageClaim {
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// The cursor of the dispatch when the batch was read: the key before the first key of the
    /// page.
    pub from: DeviceKey,
    /// The last key of the batch and of the page.
    pub to: DeviceKey,
    /// Whether the audience ends with this batch.
    pub end: bool,
    /// The number of eligible devices with an address in the batch.
    pub targeted: u64,
    /// The number of named devices in the batch that are not eligible.
    pub excluded: u64,
    /// The claiming process.
    pub instance: InstanceId,
    /// End of the lease.
    pub lease_until: Timestamp,
    /// Now.
    pub at: Timestamp,
}

impl PageClaim {
    /// The page that was claimed, before its first checkpoint.
    pub(in crate::store) fn opened(&self, no: PageNo) -> OpenPage {
        OpenPage {
            no,
            dispatch: self.dispatch,
            from: self.from,
            to: self.to,
            instance: self.instance,
            checkpoint_no: 0,
            lease_until: self.lease_until,
        }
    }
}

/// A page: the keys in `(from, to]` of a dispatch, which one process owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenPage {
    /// The number of the page.
    pub no: PageNo,
    /// The dispatch.
    pub dispatch: DispatchNo,
    /// The key before the first key of the page.
    pub from: DeviceKey,
    /// The last key of the page.
    pub to: DeviceKey,
    /// The process that owns the page.
    pub instance: InstanceId,
    /// The number of the next checkpoint.
    pub checkpoint_no: i64,
    /// End of the lease.
    pub lease_until: Timestamp,
}

/// A provider's report that an address is unregistered.
#[derive(Clone, PartialEq, Eq)]
pub struct DeadAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to. A device that has another one now is not disabled.
    pub address: Box<str>,
    /// The APNs host that was sent to. A device that has another one now is not disabled.
    pub ios_env: IosEnv,
    /// The provider's reason.
    pub reason: Cow<'static, str>,
    /// Since when the address is unregistered, if the provider reports it. A device that registered
    /// later is not disabled.
    pub since: Option<Timestamp>,
    /// When the report came.
    pub at: Timestamp,
    /// Set if the report is ambiguous: a wrong key or host would cause the same response. It is the
    /// number of responses since the last ambiguous report, for the mass-unregister guard.
    pub ambiguous: Option<u32>,
}

impl DeadAddress {
    /// Whether the report may trip the mass-unregister guard. This adds a record of the channel, and
    /// servers read these records of all applications in the order of their numbers.
    pub(in crate::store) fn may_trip_guard(&self) -> bool {
        self.ambiguous.is_some()
    }
}

/// An address that received its first message.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to. A device that has another one now stays unverified.
    pub address: Box<str>,
}

impl std::fmt::Debug for VerifiedAddress {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerifiedAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A provider's report that an address was replaced.
#[derive(Clone, PartialEq, Eq)]
pub struct MovedAddress {
    /// The device.
    pub key: DeviceKey,
    /// The address that was sent to. A device that has another one now keeps it.
    pub from: Box<str>,
    /// The new address.
    pub to: Box<str>,
    /// When the report came.
    pub at: Timestamp,
}

impl std::fmt::Debug for MovedAddress {
    /// Never shows the addresses.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MovedAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for DeadAddress {
    /// Never shows the address.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeadAddress").field("key", &self.key).finish_non_exhaustive()
    }
}

/// A checkpoint: the changes of a page since the last checkpoint, which are committed in one
/// transaction.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// The page as its owner knows it. The commit compares its instance and checkpoint number with
    /// the row.
    pub page: OpenPage,
    /// Deliveries that ended.
    pub settled: Vec<DeviceOutcome>,
    /// Deliveries that failed temporarily and become retries.
    pub retries: Vec<NewRetry>,
    /// Addresses to disable.
    pub dead: Vec<DeadAddress>,
    /// Addresses to replace.
    pub moved: Vec<MovedAddress>,
    /// Addresses that received their first message.
    pub verified: Vec<VerifiedAddress>,
    /// The number of targeted devices of the page, including devices with an outcome or a retry.
    pub targeted: u64,
    /// The number of named devices of the page that are not eligible.
    pub excluded: u64,
    /// The time of the checkpoint.
    pub at: Timestamp,
    /// The new end of the lease.
    pub lease_until: Timestamp,
    /// Whether the page is finished.
    pub finished: bool,
    /// The devices to which messages are being sent from now on, in place of those of the last
    /// checkpoint; `None` if they are not recorded.
    pub intents: Option<Vec<DeviceKey>>,
}

/// The devices of a page to which the next process sends nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SettledDevices {
    /// The devices with an outcome or a retry, sorted.
    pub done: Vec<DeviceKey>,
    /// The devices without an outcome or a retry to which a message was being sent.
    pub in_doubt: Vec<DeviceKey>,
}

/// Makes a process the owner of its own open pages and those of dead servers, and releases the
/// retries that dead servers had claimed.
pub(super) fn reclaim(tx: &Connection, request: ReclaimRequest) -> Result<Reclaimed, StoreError> {
    let ReclaimRequest { instance, now, lease_until, clustered } = request;
    // At the largest possible time no lease is valid, so the pages of every server are reclaimed.
    let alive_at = if clustered { now.as_ms() } else { i64::MAX };
    let mut pages = tx
        .prepare_cached(
            "update pages set epoch = ?1, lease_until = ?2
             where finished = 0 and (epoch = ?1
               or epoch not in (select epoch from servers where alive_until > ?3))
             returning no, dispatch_no, from_key, to_key, checkpoint_no",
        )?
        .query_map([instance.0, lease_until.as_ms(), alive_at], |row| {
            Ok(OpenPage {
                no: PageNo(row.get(0)?),
                dispatch: DispatchNo(row.get(1)?),
                from: DeviceKey(row.get(2)?),
                to: DeviceKey(row.get(3)?),
                instance,
                checkpoint_no: row.get(4)?,
                lease_until,
            })
        })?
        .collect::<Result<Vec<_>, _>>()?;
    pages.sort_unstable_by_key(|page| page.no.0 & SEQ_MAX);
    tx.prepare_cached(
        "update retries set epoch = null, claimable_at = coalesce(
          (select d.paused_until from dispatches d where d.no = dispatch_no), due_at)
         where epoch is not null and epoch <> ?1
           and epoch not in (select epoch from servers where alive_until > ?2)",
    )?
    .execute([instance.0, alive_at])?;
    let dispatches = tx
        .prepare_cached(concat!(
            "select no from dispatches where scan_done = 0 order by ",
            seq_of!("no")
        ))?
        .query_map([], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Reclaimed { pages, dispatches })
}

/// Claims the next key range of a dispatch as a page. A page without targeted devices is finished
/// at once.
pub(in crate::store) fn open(
    tx: &mut WriteTx<'_>,
    claim: &PageClaim,
) -> Result<OpenPage, StoreError> {
    let claimed = tx
        .prepare_cached(
            "update dispatches set cursor = ?3
             where no = ?1 and cursor = ?2 and scan_done = 0 and completed_at is null
             and coalesce(paused_until, 0) <= ?4",
        )?
        .execute([claim.dispatch.0, claim.from.0, claim.to.0, claim.at.as_ms()])?;
    if claimed == 0 {
        return Err(StoreError::Fenced);
    }
    let page = insert(tx, claim)?;
    let is_open = claim.targeted > 0;
    let delta = PendingDelta { pages: i64::from(is_open), retries: 0, scan_done: claim.end };
    settle::apply_delta(tx, claim.dispatch, delta, claim.at)?;
    Ok(page)
}

/// Writes a page.
pub(super) fn insert(tx: &Connection, claim: &PageClaim) -> Result<OpenPage, StoreError> {
    let no = tx
        .prepare_insert(
            "insert into pages (no, dispatch_no, from_key, to_key, epoch, lease_until, finished,
             targeted, excluded) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .insert(
            claim.to.app(),
            params![
                claim.dispatch.0,
                claim.from.0,
                claim.to.0,
                claim.instance.0,
                claim.lease_until.as_ms(),
                claim.targeted == 0,
                count(claim.targeted),
                count(claim.excluded),
            ],
        )?;
    Ok(claim.opened(PageNo(inserted(no)?)))
}

/// The most later notifications with the same collapse key that [`overtaken`] looks at. It begins with the one
/// that became due last.
const LATER_MAX: i64 = 256;
/// The most of them whose outcomes it reads, of those that may go to one of the devices.
const OVERTAKING_MAX: usize = 16;

/// Reads the devices of a page to which the next process sends nothing.
pub(super) fn settled_devices(
    connection: &Connection,
    page: &OpenPage,
) -> Result<SettledDevices, StoreError> {
    let done = settled_keys(connection, page)?;
    let intents: Option<Vec<u8>> = connection
        .prepare_cached("select intents from pages where no = ?1")?
        .query_row([page.no.0], |row| row.get(0))
        .optional()?
        .flatten();
    let mut in_doubt = intents.as_deref().map_or_else(Vec::new, keys_of);
    in_doubt.retain(|key| done.binary_search(key).is_err());
    Ok(SettledDevices { done, in_doubt })
}

/// Reads the devices of a page that have an outcome or a retry, sorted.
fn settled_keys(connection: &Connection, page: &OpenPage) -> Result<Vec<DeviceKey>, StoreError> {
    let outcomes = outcomes_of_page(connection, page.no, page.from)?;
    let mut keys: Vec<DeviceKey> = outcomes.into_iter().map(|(outcome, _)| outcome.key).collect();
    let mut retries =
        connection.prepare_cached("select device_key from retries where page_no = ?1")?;
    for key in retries.query_map([page.no.0], |row| row.get(0).map(DeviceKey))? {
        keys.push(key?);
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Reads the outcome of one device; `None` if the delivery has not ended.
pub(super) fn outcome(
    connection: &Connection,
    dispatch: DispatchNo,
    key: DeviceKey,
) -> Result<Option<DeviceOutcome>, StoreError> {
    let outcome_of_retry = connection
        .prepare_cached(
            "select outcome, reason, attempts, message_id from retries
             where dispatch_no = ?1 and device_key = ?2",
        )?
        .query_row([dispatch.0, key.0], |row| {
            let Some(code) = row.get::<Option<u8>>(0)? else { return Ok(None) };
            Ok(Some(DeviceOutcome {
                key,
                settled: Outcome::from_code(code)
                    .ok_or_else(|| unexpected_value(0, Type::Integer))?,
                reason: row.get::<Option<String>>(1)?.map(Cow::Owned),
                attempts: row.get(2)?,
                message_id: row.get::<Option<String>>(3)?.map(String::into_boxed_str),
            }))
        })
        .optional()?;
    // A delivery that became a retry has its outcome in the retry and not in the page.
    if let Some(outcome) = outcome_of_retry {
        return Ok(outcome);
    }
    let Some((no, from, _)) = page_containing(connection, dispatch, key)? else { return Ok(None) };
    let outcomes = outcomes_of_page(connection, no, from)?.into_iter();
    Ok(outcomes.map(|(outcome, _)| outcome).find(|outcome| outcome.key == key))
}

/// Whether a device has an outcome or a retry in another zone of the same notification.
pub(super) fn had_in_another_zone(
    connection: &Connection,
    dispatch: DispatchNo,
    key: DeviceKey,
) -> Result<bool, StoreError> {
    for other in sibling_dispatches(connection, dispatch)? {
        let retried = connection
            .prepare_cached("select 1 from retries where dispatch_no = ?1 and device_key = ?2")?
            .exists([other.0, key.0])?;
        if retried || outcome(connection, other, key)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The other dispatches of the same notification on the same platform.
pub(super) fn sibling_dispatches(
    connection: &Connection,
    dispatch: DispatchNo,
) -> Result<Vec<DispatchNo>, StoreError> {
    let others = connection
        .prepare_cached(
            "select o.no from dispatches d join dispatches o on o.notification_no = d.notification_no
             where d.no = ?1 and o.platform = d.platform and o.no <> d.no",
        )?
        .query_map([dispatch.0], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(others)
}

/// The devices with keys in `(after, to]` to which another notification was sent that has the same collapse
/// key and became due later, sorted.
pub(super) fn overtaken(
    connection: &Connection,
    dispatch: DispatchNo,
    after: DeviceKey,
    to: DeviceKey,
) -> Result<Vec<DeviceKey>, StoreError> {
    // At a local time, a notification becomes due at most 14 hours after that time in UTC. The index has this
    // bound, and each dispatch has the exact time. A list of more than 64 named devices, of 8 bytes each, may
    // contain any device.
    let later = connection
        .prepare_cached(
            "select later.no, case when length(later.named) <= 512 then later.named end
             from dispatches d join notifications n on n.no = d.notification_no
             cross join notifications other cross join dispatches later
             where d.no = ?1 and other.app_no = n.app_no and other.collapse_key = n.collapse_key
             and coalesce(other.due_at, other.local_time + 50400000) >= d.due_at
             and later.notification_no = other.no and later.platform = d.platform
             and (later.due_at > d.due_at or later.due_at = d.due_at and other.no > n.no)
             order by coalesce(other.due_at, other.local_time + 50400000) desc limit ?2",
        )?
        .query_map([dispatch.0, LATER_MAX], |row| {
            Ok((DispatchNo(row.get(0)?), row.get::<Option<Vec<u8>>>(1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let may_contain = |named: &Option<Vec<u8>>| {
        let is_in_range = |key: &DeviceKey| after < *key && *key <= to;
        named.as_deref().is_none_or(|named| keys_of(named).iter().any(is_in_range))
    };
    let may_overtake = later.into_iter().filter(|(_, named)| may_contain(named));
    let mut keys = Vec::new();
    for (later, _) in may_overtake.take(OVERTAKING_MAX) {
        add_sent(connection, later, after, to, &mut keys)?;
    }
    keys.sort_unstable();
    keys.dedup();
    Ok(keys)
}

/// Adds the devices with keys in `(after, to]` to which the messages of a dispatch were sent.
fn add_sent(
    connection: &Connection,
    dispatch: DispatchNo,
    after: DeviceKey,
    to: DeviceKey,
    keys: &mut Vec<DeviceKey>,
) -> Result<(), StoreError> {
    let pages = connection
        .prepare_cached(
            "select no, from_key from pages
             where dispatch_no = ?1 and to_key > ?2 and from_key < ?3",
        )?
        .query_map([dispatch.0, after.0, to.0], |row| {
            Ok((PageNo(row.get(0)?), DeviceKey(row.get(1)?)))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    for (page, from) in pages {
        let outcomes = outcomes_of_page(connection, page, from)?.into_iter();
        keys.extend(outcomes.filter_map(|(outcome, _)| {
            let is_in_range = after < outcome.key && outcome.key <= to;
            (outcome.settled == Outcome::Sent && is_in_range).then_some(outcome.key)
        }));
    }
    // A delivery that became a retry has its outcome in the retry and not in the page.
    let mut retries = connection.prepare_cached(
        "select device_key from retries
         where dispatch_no = ?1 and device_key > ?2 and device_key <= ?3 and outcome = ?4",
    )?;
    let sent = i64::from(Outcome::Sent.code());
    for key in
        retries.query_map([dispatch.0, after.0, to.0, sent], |row| row.get(0).map(DeviceKey))?
    {
        keys.push(key?);
    }
    Ok(())
}

/// The page of a dispatch that contains a key: its number, the key before its first key, and
/// whether the page is finished.
pub(crate) fn page_containing(
    connection: &Connection,
    dispatch: DispatchNo,
    key: DeviceKey,
) -> Result<Option<(PageNo, DeviceKey, bool)>, StoreError> {
    let page = connection
        .prepare_cached(
            "select no, from_key, finished from pages where dispatch_no = ?1 and to_key >= ?2
             order by to_key limit 1",
        )?
        .query_row([dispatch.0, key.0], |row| {
            Ok((PageNo(row.get(0)?), DeviceKey(row.get(1)?), row.get(2)?))
        })
        .optional()?;
    Ok(page.filter(|(_, from, _)| *from < key))
}

/// Reads the outcomes of a page, each with the time of its commit. `from` is the key before the
/// first key of the page.
pub(crate) fn outcomes_of_page(
    connection: &Connection,
    page: PageNo,
    from: DeviceKey,
) -> Result<Vec<(DeviceOutcome, Timestamp)>, StoreError> {
    let mut chunks = connection
        .prepare_cached("select entries, at from outcomes where page_no = ?1 order by chunk_no")?;
    let mut rows = chunks.query([page.0])?;
    let mut outcomes_with_times = Vec::new();
    while let Some(row) = rows.next()? {
        let entries = row.get_ref(0)?.as_blob().ok_or(sql::Error::Column(0))?;
        let at = Timestamp(row.get(1)?);
        let outcomes = outcomes::decode(from, entries)?;
        outcomes_with_times.extend(outcomes.into_iter().map(|outcome| (outcome, at)));
    }
    Ok(outcomes_with_times)
}
