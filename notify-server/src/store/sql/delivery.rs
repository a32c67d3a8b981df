//! What the delivery engine keeps: dispatches, pages, checkpoints and retries.

mod checkpoint;
mod dead;
mod dispatch;
pub(super) mod guard;
mod outcomes;
mod page;
mod retry;
mod server;
mod settle;
mod slice;
mod start;
mod zones;

use std::sync::Arc;

use async_trait::async_trait;
use notify_core::{Platform, Timestamp};

pub(super) use self::dispatch::read as read_dispatch;
pub(super) use self::page::{covering, settled_of};
pub(super) use self::settle::{
    cancel_retries_of_device, cancel_retries_of_dispatch, canceled_so_far, end_canceled_or_not,
    tell_end,
};
pub(super) use self::slice::{Draw, named as named_devices, range};
use super::SqlStore;
#[cfg(test)]
use crate::store::sql;
use crate::store::{
    Adopted, Adoption, Agenda, AppNo, AudienceDevice, Checkpoint, ClaimedRetry, DeliveryStore,
    DeviceKey, DeviceOutcome, Dispatch, DispatchNo, Epoch, Heartbeat, OpenPage, Others, PageClaim,
    RetryClaim, RetryOutcome, Scan, Slice, StartDue, StartHook, Started, StoreError,
};

#[async_trait]
impl DeliveryStore for SqlStore {
    async fn adopt(&self, adoption: Adoption) -> Result<Adopted, StoreError> {
        self.write(move |tx| page::adopt(tx, adoption)).await
    }

    async fn heartbeat(&self, beat: Heartbeat) -> Result<Others, StoreError> {
        self.write(move |tx| server::heartbeat(tx, beat)).await
    }

    async fn leave(&self, epoch: Epoch) -> Result<(), StoreError> {
        self.write(move |tx| server::leave(tx, epoch)).await
    }

    async fn unread_dispatches(&self, limit: u32) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| dispatch::unread(connection, limit)).await
    }

    async fn canceled_among(
        &self,
        dispatches: Vec<DispatchNo>,
    ) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| dispatch::canceled_among(connection, &dispatches)).await
    }

    async fn start(&self, start: StartDue) -> Result<Started, StoreError> {
        self.write(move |tx| start::due(tx, &start)).await
    }

    fn start_with_accept(&self, hook: StartHook) {
        self.writer.before_commit(Box::new(move |tx| start::with_accept(tx, &hook)));
    }

    async fn agenda(&self, now: Timestamp) -> Result<Agenda, StoreError> {
        self.read(move |connection| start::agenda(connection, now)).await
    }

    async fn dispatch(&self, no: DispatchNo) -> Result<Dispatch, StoreError> {
        self.read(move |connection| dispatch::read(connection, no)).await
    }

    async fn scan(&self, no: DispatchNo) -> Result<Option<Scan>, StoreError> {
        self.read(move |connection| dispatch::scan(connection, no)).await
    }

    async fn read_slice(
        &self,
        dispatch: &Dispatch,
        after: DeviceKey,
        rows_max: u32,
    ) -> Result<Slice, StoreError> {
        let draw = Draw::of(dispatch);
        self.read(move |connection| slice::next(connection, &draw, after, rows_max)).await
    }

    async fn read_range(
        &self,
        dispatch: &Dispatch,
        from: DeviceKey,
        to: DeviceKey,
    ) -> Result<Vec<AudienceDevice>, StoreError> {
        let draw = Draw::of(dispatch);
        self.read(move |connection| range(connection, &draw, (from, to), None)).await
    }

    async fn open_page(&self, claim: PageClaim) -> Result<OpenPage, StoreError> {
        self.write(move |tx| page::open(tx, &claim)).await
    }

    async fn page_done(&self, page: &OpenPage) -> Result<Vec<DeviceKey>, StoreError> {
        let page = *page;
        self.read(move |connection| page::done(connection, &page)).await
    }

    async fn checkpoint(&self, checkpoint: Checkpoint) -> Result<OpenPage, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(move |tx| checkpoint::commit(tx, &seen, &checkpoint)).await
    }

    async fn finish_pages(
        &self,
        checkpoints: Vec<Checkpoint>,
    ) -> Result<Vec<Result<OpenPage, StoreError>>, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(move |tx| {
            // One that is fenced off has written nothing.
            let finish = |checkpoint| match checkpoint::commit(tx, &seen, checkpoint) {
                Err(error @ StoreError::Fenced) => Ok(Err(error)),
                finished => finished.map(Ok),
            };
            checkpoints.iter().map(finish).collect()
        })
        .await
    }

    async fn open_retries(&self, app: AppNo, platform: Platform) -> Result<u64, StoreError> {
        self.read(move |connection| retry::open(connection, app, platform)).await
    }

    async fn claim_retries(&self, claim: RetryClaim) -> Result<Vec<ClaimedRetry>, StoreError> {
        self.write(move |tx| retry::claim(tx, &claim)).await
    }

    async fn settle_retries(
        &self,
        epoch: Epoch,
        outcomes: Vec<RetryOutcome>,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(move |tx| retry::settle(tx, &seen, (epoch, &outcomes), at)).await
    }

    async fn had_in_another_zone(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<bool, StoreError> {
        self.read(move |connection| page::had_in_another_zone(connection, dispatch, key)).await
    }

    async fn other_zones(&self, dispatch: DispatchNo) -> Result<Vec<DispatchNo>, StoreError> {
        self.read(move |connection| page::other_zones(connection, dispatch)).await
    }

    async fn overtaken(&self, dispatch: DispatchNo, key: DeviceKey) -> Result<bool, StoreError> {
        self.read(move |connection| page::overtaken(connection, dispatch, key)).await
    }

    async fn purge_stopped(&self, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
        self.read(move |connection| guard::is_stopped(connection, app, platform)).await
    }

    async fn platforms_stopped(&self, app: AppNo) -> Result<Vec<Platform>, StoreError> {
        self.read(move |connection| guard::stopped(connection, app)).await
    }

    async fn delivery_outcome(
        &self,
        dispatch: DispatchNo,
        key: DeviceKey,
    ) -> Result<Option<DeviceOutcome>, StoreError> {
        self.read(move |connection| page::outcome(connection, dispatch, key)).await
    }
}

#[cfg(test)]
impl SqlStore {
    /// Whether the delivery of a notification to an address is a process's: its retry where one is
    /// claimed, and else its page.
    pub(crate) async fn is_in_hand(
        &self,
        notification: String,
        address: String,
        epoch: Epoch,
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
            Ok(holder == Some(epoch.0))
        })
        .await
    }
}
