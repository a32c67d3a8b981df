//! What the delivery engine keeps: dispatches, pages, checkpoints and retries.
//!
//! ```text
//! accepted ──start──▶ dispatch ──open_page──▶ page ──checkpoint…──▶ done
//!                 │      │ cursor             ▲  │
//!                 │      └── scan_done        │  └──▶ retry ──settle──▶ done
//!                 └── to one device ──────────┘
//! ```

mod audience;
pub(super) mod checkpoint;
mod dispatch;
mod outcomes;
mod page;
mod retry;
mod settle;
pub(super) mod start;
mod zones;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use self::dispatch::{
    AddressTrust, AudienceDevice, AudienceSource, DeviceBatch, Dispatch, Scan, WebKeys, Zone,
};
pub use self::page::{Checkpoint, DeadAddress, MovedAddress, OpenPage, PageClaim, VerifiedAddress};
pub use self::retry::{ClaimedRetry, NewRetry, RetryClaim, RetryOutcome, RetryResult};
use notify_core::{Platform, Timestamp};

pub(super) use self::audience::{
    AudienceQuery, KeyRange, devices_in_range, named as named_devices,
};
pub(super) use self::dispatch::read as read_dispatch;
pub(super) use self::page::{outcomes_of_page, page_containing};
pub(super) use self::settle::{
    cancel_retries_of_device, cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not,
    record_completion_event,
};
#[cfg(test)]
use crate::store::sql;
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, DeviceKey, DeviceOutcome, DispatchNo, Operation, Store, StoreError};

/// How many answers back an address that looks dead counts for the guard.
pub(crate) const GUARD_WINDOW: u32 = 1_000;
/// Most addresses that look dead within that many answers: 2 % of them.
pub(crate) const GUARD_THRESHOLD: usize = 20;

/// A process that works on pages: drawn at random at each start, so that no two are alike and one
/// that was relieved cannot pass for its successor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstanceId(pub i64);

/// How a process takes over open pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimRequest {
    /// Whose they are from now on.
    pub instance: InstanceId,
    /// The instant now.
    pub now: Timestamp,
    /// Until when they are.
    pub lease_until: Timestamp,
    /// Whether other servers may work on the same storage: what is held by one that is alive stays
    /// its own. Where a lock of the storage proves that there are none, everything is taken.
    pub clustered: bool,
}

/// A server says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// Which.
    pub instance: InstanceId,
    /// The instant now.
    pub now: Timestamp,
    /// Until when it counts as alive.
    pub lease_until: Timestamp,
}

/// What a server learns of the others when it says that it lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterStatus {
    /// Servers alive, this one included.
    pub servers: u32,
    /// Whether pages or retries are held by one that is not.
    pub has_orphans: bool,
}

/// What this process takes over.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Pages that were open; they are this epoch's now.
    pub pages: Vec<OpenPage>,
    /// Dispatches whose scan is not done.
    pub dispatches: Vec<DispatchNo>,
}

/// Which due notifications are started.
#[derive(Debug, Clone)]
pub struct StartDue {
    /// Those due by then.
    pub now: Timestamp,
    /// At most so many.
    pub limit: u32,
    /// Opens the page of a notification to one device in the same transaction.
    pub opening: Option<Opening>,
}

/// Decides what to start in a commit that accepts a notification which is due; `None` leaves it to
/// [`Store::start`]. Called on the writer's thread.
pub type StartHook = Box<dyn Fn() -> Option<StartInAccept> + Send + Sync>;

/// A start in the commit that accepts a notification.
pub struct StartInAccept {
    /// What to start.
    pub due: StartDue,
    /// Called with what was started, before anything else is written; with `None` when the commit failed
    /// or is in doubt. Dropped when the start failed.
    pub done: Box<dyn FnOnce(Option<Started>) + Send>,
}

/// Who gets the pages that a start opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The process.
    pub instance: InstanceId,
    /// Until when the pages are its own.
    pub lease_until: Timestamp,
    /// Where it takes such pages; dispatches of other applications and platforms are made without.
    pub lanes: BTreeSet<(AppNo, Platform)>,
}

/// What a start made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Started {
    /// Dispatches whose pages are yet to be opened.
    pub dispatches: Vec<DispatchNo>,
    /// Notifications to one device each, with their only page.
    pub opened: Vec<OpenedDispatch>,
    /// What is to be done after that.
    pub agenda: Agenda,
}

/// A dispatch to one device whose only page is open.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedDispatch {
    /// The dispatch, with nothing left to claim.
    pub dispatch: Dispatch,
    /// Its page.
    pub page: OpenPage,
    /// The device, which can be sent to.
    pub device: AudienceDevice,
}

/// What is to be done, as of one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agenda {
    /// When the next notification is due.
    pub next_due: Option<Timestamp>,
    /// Applications and platforms with retries that are due.
    pub retry_lanes: Vec<(AppNo, Platform)>,
    /// When the next retry is due.
    pub next_retry_due: Option<Timestamp>,
}

impl Store {
    /// Takes over open pages, those of this epoch too, and frees the retries that other epochs had
    /// claimed: at the start, whenever something is in doubt, and when another server died.
    pub async fn reclaim(&self, adoption: ReclaimRequest) -> Result<Reclaimed, StoreError> {
        self.write(Operation::Reclaim, move |tx| page::reclaim(tx, adoption)).await
    }

    /// Says that a server lives, and tells how the others are. Those that have been dead for a day
    /// are forgotten.
    pub async fn heartbeat(&self, beat: Heartbeat) -> Result<ClusterStatus, StoreError> {
        self.write(Operation::Heartbeat, move |tx| heartbeat(tx, beat)).await
    }

    /// A server has stopped: what it still holds may be taken at once.
    pub async fn leave(&self, instance: InstanceId) -> Result<(), StoreError> {
        self.write(Operation::Leave, move |tx| leave(tx, instance)).await
    }

    /// Dispatches whose keys are not all claimed, the oldest first, at most `limit`.
    pub async fn unscanned_dispatches(&self, limit: u32) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| dispatch::unread(connection, limit)).await
    }

    /// Which of these dispatches are canceled.
    pub async fn which_canceled(
        &self,
        dispatches: Vec<DispatchNo>,
    ) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| dispatch::which_canceled(connection, &dispatches)).await
    }

    /// Makes dispatches of notifications that are due, oldest due first: resolves named ids (and
    /// counts the unknown), fixes the audience of those that were scheduled, and ends at once those
    /// whose audience is empty of platforms. One that names a single device which can be sent to has
    /// its page opened with it, where that is asked for.
    pub async fn start(&self, start: StartDue) -> Result<Started, StoreError> {
        self.write(Operation::Start, move |tx| start::due(tx, &start)).await
    }

    /// Has notifications that are due when they are accepted started in the same commit from now on.
    pub fn start_with_accept(&self, hook: StartHook) {
        self.writer.set_start_hook(hook);
    }

    /// The same, opening no page: the new dispatches, and whether more are due.
    #[cfg(any(test, feature = "testing"))]
    pub async fn start_due(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<(Vec<DispatchNo>, bool), StoreError> {
        let started = self.start(StartDue { now, limit, opening: None }).await?;
        Ok((started.dispatches, started.agenda.next_due.is_some_and(|due| due <= now)))
    }

    /// What is to be done at that instant, and when there is more.
    pub async fn agenda(&self, now: Timestamp) -> Result<Agenda, StoreError> {
        self.read(move |connection| start::agenda(connection, now)).await
    }

    /// Reads a dispatch.
    pub async fn dispatch(&self, no: DispatchNo) -> Result<Dispatch, StoreError> {
        self.read(move |connection| dispatch::read(connection, no)).await
    }

    /// How far the pages of a dispatch have come; `None` once every key is claimed, or it is gone.
    pub async fn scan(&self, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
        self.read(move |connection| dispatch::scan(connection, no)).await
    }

    /// Reads the devices after `after`, at most `rows_max` rows.
    pub async fn read_batch(
        &self,
        dispatch: &Dispatch,
        after: DeviceKey,
        rows_max: u32,
    ) -> Result<DeviceBatch, StoreError> {
        let query = AudienceQuery::of(dispatch);
        self.read(move |connection| audience::next(connection, &query, after, rows_max)).await
    }

    /// Reads the devices of `(from, to]` again, as they are now.
    pub async fn read_range(
        &self,
        dispatch: &Dispatch,
        from: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<AudienceDevice>, StoreError> {
        let query = AudienceQuery::of(dispatch);
        self.read(move |connection| {
            devices_in_range(connection, &query, KeyRange { after: from, to }, None)
        })
        .await
    }

    /// Claims `(cursor, to]` as a page and moves the cursor; `end` ends the scan, and a dispatch
    /// without open pages and retries with it. [`StoreError::Fenced`] when the cursor is not at
    /// `from` any more. `targeted` and `excluded` are what the slice showed.
    pub async fn open_page(&self, claim: PageClaim) -> Result<OpenPage, StoreError> {
        self.write(Operation::OpenPage, move |tx| page::open(tx, &claim)).await
    }

    /// The devices of an adopted page that have an outcome or a retry, sorted: what a process that
    /// adopts it must skip.
    pub async fn settled_devices(&self, page: &OpenPage) -> Result<Vec<DeviceKey>, StoreError> {
        let page = *page;
        self.read(move |connection| page::settled_keys(connection, &page)).await
    }

    /// Commits what happened on a page: a compare-and-set on epoch and checkpoint number.
    /// Answers the page as it is now. The last checkpoint of the last page ends the dispatch, and
    /// the last dispatch the notification.
    pub async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<OpenPage, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(Operation::Checkpoint, move |tx| checkpoint::commit(tx, &seen, &checkpoint))
            .await
    }

    /// Commits the last checkpoints of several pages as one; of each, whether it was still to be had
    /// ([`StoreError::Fenced`] where not). Any other error concerns all of them.
    pub async fn finish_pages(
        &self,
        checkpoints: Vec<Checkpoint>,
    ) -> Result<Vec<Result<OpenPage, StoreError>>, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(Operation::FinishPages, move |tx| {
            // One that is fenced off has written nothing.
            let finish = |checkpoint| match checkpoint::commit(tx, &seen, checkpoint) {
                Err(error @ StoreError::Fenced) => Ok(Err(error)),
                finished => finished.map(Ok),
            };
            checkpoints.iter().map(finish).collect()
        })
        .await
    }

    /// How many retries of that application and platform are open.
    pub async fn open_retries(&self, app: AppNo, platform: Platform) -> Result<u64, StoreError> {
        self.read(move |connection| retry::open(connection, app, platform)).await
    }

    /// Takes at most `limit` due retries of one application and platform, the longest due first;
    /// until `lease_until` nobody else gets them. `in_hand` are left out.
    /// With `reclaim_own` those come too that the same claimer got without hearing of it.
    pub async fn claim_retries(&self, claim: RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError> {
        self.write(Operation::ClaimRetries, move |tx| retry::claim(tx, &claim)).await
    }

    /// Commits what became of claimed retries. Those that this epoch does not hold any more, or
    /// that were ended meanwhile (canceled, erased), are left as they are.
    pub async fn settle_retries(
        &self,
        instance: InstanceId,
        outcomes: Vec<RetryOutcome>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(Operation::SettleRetries, move |tx| {
            retry::settle_retries(tx, &seen, instance, &outcomes, at)
        })
        .await
    }

    /// Whether a device has an outcome, or waits to be tried again, in another zone of the same
    /// notification: it changed its zone meanwhile.
    pub async fn had_in_another_zone(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| page::had_in_another_zone(connection, dispatch, key)).await
    }

    /// The other dispatches of the same notification on the same platform.
    pub async fn sibling_dispatches(
        &self,
        dispatch: DispatchNo,
    ) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| page::sibling_dispatches(connection, dispatch)).await
    }

    /// Whether a newer notification with the same `collapse_key` went to that device: a retry of
    /// this one would overwrite it.
    pub async fn superseded(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| page::superseded(connection, dispatch, key)).await
    }

    /// Whether so many addresses of an application looked dead at once that nothing is sent before
    /// an administrator says so.
    pub async fn guard_tripped(&self, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
        self.read(move |connection| checkpoint::is_guard_tripped(connection, app, platform)).await
    }

    /// The platforms of an application of which that is so.
    pub async fn guard_tripped_platforms(&self, app: AppNo) -> Result<Vec<Platform>, StoreError> {
        self.read(move |connection| checkpoint::tripped_platforms(connection, app)).await
    }

    /// How the delivery of a dispatch to one device ended or stands: its outcome, if it has one.
    pub async fn delivery_outcome(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<Option<DeviceOutcome>, StoreError> {
        self.read(move |connection| page::outcome(connection, dispatch, key)).await
    }
}

#[cfg(test)]
impl Store {
    /// Whether the delivery of a notification to an address is a process's: its retry where one is
    /// claimed, and else its page.
    pub(crate) async fn is_in_hand(
        &self,
        notification: String,
        address: String,
        instance: InstanceId,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| {
            let holder: Option<i64> = connection
                .prepare_cached(
                    "select coalesce(
                       (select r.epoch from retries r where r.dispatch_no = d.no
                        and r.device_key = v.key and r.outcome is null and r.epoch is not null),
                       (select p.epoch from pages p where p.dispatch_no = d.no
                        and p.from_key < v.key and v.key <= p.to_key and p.finished = 0))
                     from notifications n join dispatches d on d.notification_no = n.no
                     join devices v on v.app_no = n.app_no and v.address = ?2 where n.id = ?1",
                )?
                .query_row(sql::params![notification, address], |row| row.get(0))?;
            Ok(holder == Some(instance.0))
        })
        .await
    }
}

// Servers of one storage: who is alive, and what the dead ones held.

/// How long a server that is dead is remembered, in milliseconds: a day.
const REMEMBERED_MS: i64 = 86_400_000;

/// Says that a server lives.
fn heartbeat(tx: &Connection, beat: Heartbeat) -> Result<ClusterStatus, StoreError> {
    let Heartbeat { instance, now, lease_until } = beat;
    tx.prepare_cached(
        "insert into servers (epoch, alive_until) values (?1, ?2)
         on conflict (epoch) do update set alive_until = excluded.alive_until",
    )?
    .execute(params![instance.0, lease_until.as_ms()])?;
    tx.prepare_cached("delete from servers where alive_until <= ?1")?
        .execute([now.as_ms() - REMEMBERED_MS])?;
    let servers = tx
        .prepare_cached("select count(*) from servers where alive_until > ?1")?
        .query_row([now.as_ms()], |row| row.get(0))?;
    let has_orphans = tx
        .prepare_cached(
            "select exists (select 1 from pages where finished = 0 and epoch not in
               (select epoch from servers where alive_until > ?1))
             or exists (select 1 from retries where epoch is not null and epoch not in
               (select epoch from servers where alive_until > ?1))",
        )?
        .query_row([now.as_ms()], |row| row.get(0))?;
    Ok(ClusterStatus { servers, has_orphans })
}

/// Forgets a server that has stopped.
fn leave(tx: &Connection, instance: InstanceId) -> Result<(), StoreError> {
    tx.prepare_cached("delete from servers where epoch = ?1")?.execute([instance.0])?;
    Ok(())
}
