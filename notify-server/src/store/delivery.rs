//! The data of the delivery engine: dispatches, pages, checkpoints and retries.
//!
//! ```text
//! accepted ──start──▶ dispatch ──open_page──▶ page ──checkpoint…──▶ done
//!                 │      │ cursor             ▲  │
//!                 │      └── scan_done        │  └──▶ retry ──settle──▶ done
//!                 └── to one device ──────────┘
//! ```

mod canary;
pub(super) mod checkpoint;
mod dispatch;
mod field_filter;
mod grant;
pub(super) mod matching;
mod outcomes;
mod page;
mod retry;
mod settle;
pub(super) mod start;
mod workload;
mod zones;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

pub use self::dispatch::{
    AddressTrust, AudienceDevice, AudienceSource, DeviceBatch, Dispatch, Intervention, Mismatch,
    Portion, Scan, WebKeys,
};
pub use self::grant::{Grant, GrantRequest};
pub use self::outcomes::{DeviceOutcome, Outcome};
pub use self::page::{
    Checkpoint, DeadAddress, MovedAddress, OpenPage, PageClaim, SettledDevices, VerifiedAddress,
};
pub use self::retry::{ClaimedRetry, NewRetry, RetryClaim, RetryOutcome, RetryResult};
pub use self::workload::Workload;
use notify_core::{AttributeValue, Platform, Timestamp};

pub(super) use self::dispatch::{
    AudienceQuery, KeyRange, devices_in_range, read as read_dispatch, read_named as named_devices,
};
pub(super) use self::outcomes::{decode as decode_outcomes, encode as encode_outcomes};
pub(super) use self::page::{open as open_page, outcomes_of_page, page_containing};
pub(super) use self::retry::{claim as claim_retries, settle_retries};
pub(super) use self::settle::{
    cancel_retries_of_device, cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not,
    hold, record_completion_event, release, schedule_next_zone,
};
use crate::store::postgres::{
    ClaimPage, ClaimRetries, CommitCheckpoint, FinishPages, SettleRetries,
};
#[cfg(test)]
use crate::store::sql;
use crate::store::sql::row::count_at;
use crate::store::sql::{Connection, WriteScope, params};
use crate::store::{
    AppNo, DeviceKey, DispatchNo, Operation, Requester, RetryNo, Store, StoreError,
};

/// The window of the mass-unregister guard, in responses of a provider.
pub(crate) const GUARD_WINDOW: u32 = 1_000;
/// The most reports of unregistered addresses within the window: 2 %. One more trips the guard.
pub(crate) const GUARD_THRESHOLD: usize = 20;

/// Identifies a server process. It is drawn at random at each start, so that a restarted server is
/// not mistaken for the earlier process, whose pages others may have reclaimed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct InstanceId(pub i64);

/// How a process reclaims open pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReclaimRequest {
    /// The new owner.
    pub instance: InstanceId,
    /// Now.
    pub now: Timestamp,
    /// End of the new leases.
    pub lease_until: Timestamp,
    /// Whether other servers may use the database. If true, live servers keep their pages. If
    /// false, the lock of the file proves that there is no other server, and all pages are
    /// reclaimed.
    pub clustered: bool,
}

/// A server's heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    /// The server.
    pub instance: InstanceId,
    /// Now.
    pub now: Timestamp,
    /// Until when the server counts as alive.
    pub lease_until: Timestamp,
}

/// What a heartbeat returns about the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterStatus {
    /// The number of live servers, including this one.
    pub servers: u32,
    /// Whether a dead server owns pages or retries.
    pub has_orphans: bool,
}

/// What a process has reclaimed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reclaimed {
    /// Open pages, which this process owns now.
    pub pages: Vec<OpenPage>,
    /// Dispatches whose scan has not ended.
    pub dispatches: Vec<DispatchNo>,
}

/// Which due notifications to start.
#[derive(Debug, Clone)]
pub struct StartDue {
    /// Notifications that are due at this time or earlier are started.
    pub now: Timestamp,
    /// The most notifications to start.
    pub limit: u32,
    /// If set, the start also opens the page of each notification to a single device, in the same
    /// transaction.
    pub opening: Option<Opening>,
}

/// Called on the writer's thread for each commit that accepts a due notification. Returns what this
/// commit starts, or `None` to leave the notification to a later [`Store::start`].
pub type StartHook = Box<dyn Fn() -> Option<StartInAccept> + Send + Sync>;

/// A start in the commit that accepts a notification.
pub struct StartInAccept {
    /// What to start.
    pub due: StartDue,
    /// Called after the commit and before the next write, with the result of the start. The result
    /// is `None` if the commit failed or its result is unknown. If the start itself failed, the
    /// function is dropped and not called.
    pub done: Box<dyn FnOnce(Option<Started>) + Send>,
}

/// The owner of the pages that a start opens.
#[derive(Debug, Clone)]
pub struct Opening {
    /// The process.
    pub instance: InstanceId,
    /// End of the leases.
    pub lease_until: Timestamp,
    /// The applications and platforms for which the process accepts opened pages. Dispatches of
    /// others are created without a page.
    pub lanes: BTreeSet<(AppNo, Platform)>,
}

/// The result of a start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Started {
    /// The new dispatches that have no page.
    pub dispatches: Vec<DispatchNo>,
    /// The new dispatches to a single device, each with its only page.
    pub opened: Vec<OpenedDispatch>,
    /// The work that is due after the start.
    pub agenda: Agenda,
}

/// A dispatch to a single device, whose only page is open.
#[derive(Debug, Clone, PartialEq)]
pub struct OpenedDispatch {
    /// The dispatch. Its scan has ended.
    pub dispatch: Dispatch,
    /// Its page.
    pub page: OpenPage,
    /// The device, which has an address and is enabled.
    pub device: AudienceDevice,
}

/// The work of the delivery engine at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Agenda {
    /// When the next notification is due.
    pub next_due: Option<Timestamp>,
    /// Applications and platforms with due retries.
    pub retry_lanes: Vec<(AppNo, Platform)>,
    /// When the next retry is due.
    pub next_retry_due: Option<Timestamp>,
}

impl Store {
    /// Makes this process the owner of the open pages of dead servers, and releases the retries
    /// that they had claimed. Also returns the open pages that this process already owns. Called
    /// when a server starts, when the result of a write is unknown, and when another server has
    /// died.
    pub async fn reclaim(&self, request: ReclaimRequest) -> Result<Reclaimed, StoreError> {
        self.write(Operation::Reclaim, move |tx| page::reclaim(tx, request)).await
    }

    /// Records a heartbeat and returns the state of the cluster. Servers that have been dead for a
    /// day are deleted.
    pub async fn heartbeat(&self, beat: Heartbeat) -> Result<ClusterStatus, StoreError> {
        self.write(Operation::Heartbeat, move |tx| heartbeat(tx, beat)).await
    }

    /// Counts the live servers other than `instance`.
    pub async fn other_servers(
        &self,
        instance: InstanceId,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.read_statement(move |connection| {
            let count = connection
                .prepare_cached(
                    "select count(*) from servers where alive_until > ?1 and epoch <> ?2",
                )?
                .query_row([now.as_ms(), instance.0], |row| count_at(row, 0))?;
            Ok(count)
        })
        .await
    }

    /// Records that a server has stopped, so that others can reclaim its work at once.
    pub async fn leave(&self, instance: InstanceId) -> Result<(), StoreError> {
        self.write(Operation::Leave, move |tx| leave(tx, instance)).await
    }

    /// Reads the dispatches whose scan has not ended, and that are not paused, oldest first, at most
    /// `limit`.
    pub async fn unscanned_dispatches(
        &self,
        limit: u32,
        now: Timestamp,
    ) -> Result<Vec<DispatchNo>, StoreError> {
        self.read_statement(move |connection| dispatch::unscanned(connection, limit, now)).await
    }

    /// Returns those of `dispatches` that are canceled or paused.
    pub async fn interventions(
        &self,
        dispatches: Vec<DispatchNo>,
    ) -> Result<Vec<Intervention>, StoreError> {
        self.read_statement(move |connection| dispatch::interventions(connection, &dispatches))
            .await
    }

    /// Creates the dispatches of due notifications, in the order of their due times. Resolves named
    /// ids to devices and counts the unknown ids. Fixes the end of the audience of scheduled
    /// notifications. Ends notifications that have no platform. If [`StartDue::opening`] is set, a
    /// notification to a single device that can be sent to gets its page in the same transaction.
    pub async fn start(&self, start: StartDue) -> Result<Started, StoreError> {
        self.write(Operation::Start, move |tx| start::due(tx, &start)).await
    }

    /// From now on, a notification that is due when a row-by-row write accepts it is started in the
    /// same commit. `hook` decides what to start.
    pub fn start_with_accept(&self, hook: StartHook) {
        self.writer.set_start_hook(hook);
    }

    /// [`Store::start`] without opening pages. Returns the new dispatches, and whether more
    /// notifications are due.
    #[cfg(any(test, feature = "testing"))]
    pub async fn start_due(
        &self,
        now: Timestamp,
        limit: u32,
    ) -> Result<(Vec<DispatchNo>, bool), StoreError> {
        let started = self.start(StartDue { now, limit, opening: None }).await?;
        Ok((started.dispatches, started.agenda.next_due.is_some_and(|due| due <= now)))
    }

    /// Reads the work that is due at `now`, and when more work becomes due.
    pub async fn agenda(&self, now: Timestamp) -> Result<Agenda, StoreError> {
        self.read(move |connection| start::agenda(connection, now)).await
    }

    /// Reads whether work is due or under way at `now`, and when more becomes due.
    pub async fn workload(&self, now: Timestamp) -> Result<Workload, StoreError> {
        self.read(move |connection| workload::read(connection, now)).await
    }

    /// Reads a dispatch.
    pub async fn dispatch(&self, no: DispatchNo) -> Result<Dispatch, StoreError> {
        self.read(move |connection| dispatch::read(connection, no)).await
    }

    /// Reads the scan position of a dispatch; `None` if its scan has ended or it does not exist.
    pub async fn scan(&self, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
        self.read_statement(move |connection| dispatch::scan(connection, no)).await
    }

    /// Reads the next devices of the audience after the key `after`. Scans at most `rows_max` rows.
    pub async fn read_batch(
        &self,
        dispatch: &Dispatch,
        after: DeviceKey,
        rows_max: u32,
    ) -> Result<DeviceBatch, StoreError> {
        let query = AudienceQuery::of(dispatch);
        let read = move |connection: &Connection| {
            dispatch::read_batch(connection, &query, after, rows_max)
        };
        self.read_audience(dispatch, read).await
    }

    /// Reads the devices of the key range `(from, to]` again.
    pub async fn read_range(
        &self,
        dispatch: &Dispatch,
        from: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<AudienceDevice>, StoreError> {
        let query = AudienceQuery::of(dispatch);
        let read = move |connection: &Connection| {
            devices_in_range(connection, &query, KeyRange { after: from, to }, None)
        };
        self.read_audience(dispatch, read).await
    }

    /// Reads devices of an audience. If it has a condition, far more devices may be looked at than are
    /// read, and the read takes the turn of the application.
    async fn read_audience<T: Send + 'static>(
        &self,
        dispatch: &Dispatch,
        read: impl FnOnce(&Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match dispatch.condition {
            Some(_) => self.read_long_for(Requester::App(dispatch.app), read).await,
            None => self.read(read).await,
        }
    }

    /// Finds the translation for each device: its place among `languages`. A device that no translation fits is
    /// left out.
    pub async fn device_translations(
        &self,
        keys: Vec<DeviceKey>,
        languages: Arc<[String]>,
    ) -> Result<BTreeMap<DeviceKey, usize>, StoreError> {
        self.read_statement(move |connection| {
            let mut keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
            keys.sort_unstable();
            dispatch::translations(connection, &keys, &languages)
        })
        .await
    }

    /// Reads the attributes with these names of devices: for each device that has one, the values in the
    /// order of the names. The own value of a device hides that of its user.
    pub async fn device_attributes(
        &self,
        app: AppNo,
        keys: Vec<DeviceKey>,
        names: Vec<String>,
    ) -> Result<HashMap<DeviceKey, Vec<Option<AttributeValue>>>, StoreError> {
        self.read(move |connection| {
            let mut keys: Vec<i64> = keys.iter().map(|key| key.0).collect();
            keys.sort_unstable();
            dispatch::attribute_values(connection, app, &keys, &names)
        })
        .await
    }

    /// Claims the key range `(from, to]` of a dispatch as a page and moves the cursor of the
    /// dispatch to `to`. A claim with `end` ends the scan, and the dispatch too if it has no open
    /// pages and retries. Fails with [`StoreError::Fenced`] if the cursor is no longer at `from`, or the
    /// dispatch is paused.
    pub async fn open_page(&self, claim: PageClaim) -> Result<OpenPage, StoreError> {
        self.write_in_set(ClaimPage(claim)).await?.ok_or(StoreError::Fenced)
    }

    /// Grants first attempts of a notification with `per_minute`, unless the last grant is too recent.
    pub async fn grant_attempts(&self, request: GrantRequest) -> Result<Grant, StoreError> {
        let scope = WriteScope::key(request.notification.0);
        self.write_to(scope, Operation::GrantAttempts, move |tx| grant::take(tx, request)).await
    }

    /// Reads the devices of a page to which a process that has reclaimed it sends nothing.
    pub async fn settled_devices(&self, page: &OpenPage) -> Result<SettledDevices, StoreError> {
        let page = *page;
        self.read(move |connection| page::settled_devices(connection, &page)).await
    }

    /// Commits a checkpoint and returns the new state of the page. A compare-and-set on instance
    /// and checkpoint number protects the page: [`StoreError::Fenced`] if another process owns it.
    /// The last checkpoint of the last page ends the dispatch, and the end of the last dispatch
    /// ends the notification.
    pub async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<OpenPage, StoreError> {
        self.write_in_set(CommitCheckpoint(checkpoint)).await
    }

    /// Commits the last checkpoints of several pages in one transaction. Returns a result for each
    /// page, in order. A page can fail with [`StoreError::Fenced`] without affecting the others.
    /// Any other error fails the whole transaction.
    pub async fn finish_pages(
        &self,
        checkpoints: Vec<Checkpoint>,
    ) -> Result<Vec<Result<OpenPage, StoreError>>, StoreError> {
        self.write_in_set(FinishPages(checkpoints)).await
    }

    /// Counts the open retries of an application and platform, without those of paused dispatches.
    pub async fn open_retries(
        &self,
        app: AppNo,
        platform: Platform,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.read_statement(move |connection| retry::count_open(connection, app, platform, now))
            .await
    }

    /// Claims due retries of one application and platform, longest due first. [`RetryClaim`]
    /// describes the claim.
    pub async fn claim_retries(&self, claim: RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError> {
        self.write_in_set(ClaimRetries(claim)).await
    }

    /// Records that the message of a claimed retry is being sent from now on. If the process ends before it
    /// commits the result, [`ClaimedRetry::is_in_doubt`] is set for the next process. Returns false if this process no
    /// longer owns the retry.
    pub async fn record_intent(
        &self,
        instance: InstanceId,
        retry: RetryNo,
    ) -> Result<bool, StoreError> {
        self.write_to(WriteScope::key(retry.0), Operation::RecordIntent, move |tx| {
            retry::record_intent(tx, instance, retry)
        })
        .await
    }

    /// Commits the results of claimed retries. A retry that this process no longer owns, or that
    /// was canceled or erased, stays as it is.
    pub async fn settle_retries(
        &self,
        instance: InstanceId,
        outcomes: Vec<RetryOutcome>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_in_set(SettleRetries { instance, outcomes, at }).await
    }

    /// Whether a device has an outcome or a retry in another zone of the same notification, which
    /// is possible if its offset from UTC changed.
    pub async fn had_in_another_zone(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| page::had_in_another_zone(connection, dispatch, key)).await
    }

    /// Reads the other dispatches of the same notification on the same platform: its other portions.
    pub async fn sibling_dispatches(
        &self,
        dispatch: DispatchNo,
    ) -> Result<Vec<DispatchNo>, StoreError> {
        self.read_statement(move |connection| page::sibling_dispatches(connection, dispatch)).await
    }

    /// The devices with keys in `(after, to]` to which another notification was sent that has the same
    /// `collapse_key` and became due later, sorted. On these devices, this notification would replace the
    /// later one.
    pub async fn overtaken(
        &self,
        dispatch: DispatchNo,
        after: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<DeviceKey>, StoreError> {
        self.read(move |connection| page::overtaken(connection, dispatch, after, to)).await
    }

    /// Whether the mass-unregister guard has stopped a platform of an application until an
    /// administrator resets it.
    pub async fn guard_tripped(&self, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
        self.read_statement(move |connection| {
            checkpoint::is_guard_tripped(connection, app, platform)
        })
        .await
    }

    /// The platforms of an application that the guard has stopped.
    pub async fn guard_tripped_platforms(&self, app: AppNo) -> Result<Vec<Platform>, StoreError> {
        self.read_statement(move |connection| checkpoint::tripped_platforms(connection, app)).await
    }

    /// Reads the outcome of the delivery to one device, if it has one.
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
    /// Whether a process owns the delivery of a notification to an address. The owner is the
    /// process that claimed the retry of the delivery or, without a claimed retry, the owner of its
    /// page.
    pub(crate) async fn is_claimed_by(
        &self,
        notification: String,
        address: String,
        instance: InstanceId,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| {
            let owner: Option<i64> = connection
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
            Ok(owner == Some(instance.0))
        })
        .await
    }
}

// The servers of one database.

/// How long the row of a dead server is kept, in milliseconds: a day.
const DEAD_SERVERS_KEPT_MS: i64 = 86_400_000;

/// Records a heartbeat and returns the state of the cluster.
fn heartbeat(tx: &Connection, beat: Heartbeat) -> Result<ClusterStatus, StoreError> {
    let Heartbeat { instance, now, lease_until } = beat;
    tx.prepare_cached(
        "insert into servers (epoch, alive_until) values (?1, ?2)
         on conflict (epoch) do update set alive_until = excluded.alive_until",
    )?
    .execute(params![instance.0, lease_until.as_ms()])?;
    tx.prepare_cached("delete from servers where alive_until <= ?1")?
        .execute([now.as_ms() - DEAD_SERVERS_KEPT_MS])?;
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

/// Deletes a server that has stopped.
fn leave(tx: &Connection, instance: InstanceId) -> Result<(), StoreError> {
    tx.prepare_cached("delete from servers where epoch = ?1")?.execute([instance.0])?;
    Ok(())
}
