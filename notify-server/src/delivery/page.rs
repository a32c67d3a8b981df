//! One page at work: its devices go out over the lane's slots, and what happened is committed in
//! checkpoints (`design.md`, idea 2).
//!
//! ```text
//! queue ──slot, credit, gate──▶ in flight ──answer──▶ batch ──checkpoint──▶ stored
//!   ▲                              │
//!   └──────── pause, hold ─────────┘
//! ```
//!
//! Invariants: no stream opens without credit (trap 4), with a lease that is over (trap 5), or to
//! an address older than a second or known to have changed (trap 8). A page that is fenced off
//! reports nothing more.

mod batch;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

use self::batch::Batch;
use super::decision::{Attempted, Next, decide};
use super::gate::Admission;
use super::job::{Job, Mode};
use super::lane::Lane;
use super::marks::Mark;
use super::slots::Claim;
use crate::providers::{Answer, Reason};
use crate::store::{
    AudienceDevice, Checkpoint, DeadAddress, DeviceKey, NewRetry, OpenPage, PageNo, PageProgress,
    Settled, StoreError,
};

/// How a page's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageEnd {
    /// Nothing of it is left, or the process stops and leaves the rest for the next one.
    Over,
    /// Somebody else holds it.
    Fenced,
}

/// An attempt that came back.
struct Landed {
    device: AudienceDevice,
    answer: Answer,
}

type Flights = FuturesUnordered<BoxFuture<'static, Landed>>;
type Commit = BoxFuture<'static, Result<OpenPage, StoreError>>;

/// Why no further device goes out at the moment.
enum Obstacle {
    /// None is left, or the process stops.
    NoneLeft,
    /// All slots of the lane are in use.
    Slots,
    /// All credit is in use.
    Credit,
    /// The gate is closed until then.
    Gate(Timestamp),
    /// The lease is over until the next checkpoint.
    Lease,
}

/// One page at work.
pub(crate) struct PageRun {
    lane: Arc<Lane>,
    job: Arc<Job>,
    page: OpenPage,
    mark: Arc<Mark>,
    /// Devices that have not been sent to, eligible or not, since either may change.
    queue: VecDeque<AudienceDevice>,
    read_at: Timestamp,
    /// Whether mode and addresses were looked at since the last pause.
    fresh: bool,
    mode: Option<Mode>,
    batch: Batch,
    slot: Claim,
    credit: Claim,
    /// Deliveries of this page that have an outcome or a retry, batch included.
    done: u64,
    /// Named devices whose turn came and that got nothing.
    skipped: u64,
}

impl PageRun {
    /// A page that was just claimed, with its devices as they were read.
    pub(crate) fn fresh(
        lane: Arc<Lane>,
        job: Arc<Job>,
        page: OpenPage,
        (devices, read_at): (Vec<AudienceDevice>, Timestamp),
    ) -> Self {
        Self::resumed(lane, job, page, (devices, read_at), &PageProgress::default())
    }

    /// A page that another process left open: what it settled is skipped, by key (trap 1).
    pub(crate) fn resumed(
        lane: Arc<Lane>,
        job: Arc<Job>,
        page: OpenPage,
        (devices, read_at): (Vec<AudienceDevice>, Timestamp),
        progress: &PageProgress,
    ) -> Self {
        let mark = lane.shared.marks.open(page.dispatch, page.from, page.to);
        let queue = devices
            .into_iter()
            .filter(|device| progress.done.binary_search(&device.key).is_err())
            .collect();
        let (slot, credit) = (Claim::new(&lane.slots), Claim::new(&lane.shared.credit));
        Self {
            lane,
            job,
            page,
            mark,
            queue,
            read_at,
            fresh: false,
            mode: None,
            batch: Batch::default(),
            slot,
            credit,
            done: progress.done.len() as u64,
            skipped: 0,
        }
    }

    pub(crate) fn devices(&self) -> usize {
        self.queue.len()
    }

    pub(crate) fn page_no(&self) -> PageNo {
        self.page.no
    }

    /// Works until nothing is left, the process stops, or the page is fenced off.
    pub(crate) async fn run(mut self) -> PageEnd {
        let mut flights = Flights::new();
        let mut commit: Option<Commit> = None;
        let mut credits_committing = 0;
        let mut finishing = false;
        let end = loop {
            let obstacle = self.start_what_may_start(&mut flights).await;
            let all_landed = flights.is_empty();
            if commit.is_none() {
                let over = matches!(obstacle, Obstacle::NoneLeft) && all_landed;
                finishing = over && self.queue.is_empty();
                if finishing || self.wants_commit(&obstacle) {
                    credits_committing = self.batch.credits();
                    commit = Some(self.commit(flights.len() as u64, finishing));
                } else if over && self.batch.is_empty() {
                    break PageEnd::Over;
                }
            }
            let (commit_at, waits) = (self.commit_at(), !self.batch.is_empty());
            tokio::select! {
                biased;
                // Ahead of the answers: it has to be polled to begin at all.
                committed = await_commit(&mut commit), if commit.is_some() => {
                    commit = None;
                    self.lane.shared.credit.give_back(std::mem::take(&mut credits_committing));
                    match committed {
                        Ok(_) if finishing => break PageEnd::Over,
                        Ok(page) => self.page = page,
                        Err(_) => break PageEnd::Fenced,
                    }
                }
                Some(landed) = flights.next(), if !all_landed => {
                    self.land(landed);
                    while let Some(Some(landed)) = flights.next().now_or_never() {
                        self.land(landed);
                    }
                }
                () = tokio::time::sleep_until(commit_at), if commit.is_none() && waits => {
                    self.batch.force();
                }
                () = self.until_something_changes(&obstacle) => {
                    // After any pause addresses and provider are looked at again (trap 8).
                    self.fresh &= !matches!(obstacle, Obstacle::Gate(_));
                }
            }
        };
        self.lane.shared.credit.give_back(self.batch.credits() + flights.len());
        self.lane.slots.give_back(flights.len());
        self.lane.shared.marks.close(&self.mark);
        end
    }

    /// Starts devices until something stands in the way, and says what.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Obstacle {
        let shared = self.lane.shared.clone();
        loop {
            if self.queue.is_empty() || shared.stop.asked() {
                return Obstacle::NoneLeft;
            }
            let now = shared.clock.now();
            if self.must_read_again(now) {
                if let Err(error) = self.read_again(now).await {
                    shared.storage_failed(&error).await;
                }
                continue;
            }
            let Some(mode) = self.mode.clone() else { continue };
            if self.job.canceled() && !matches!(mode, Mode::Count { .. }) {
                self.fresh = false;
                continue;
            }
            if let Some(obstacle) = self.settle_without_sending(&mode, now) {
                return obstacle;
            }
            let Mode::Send { provider, payload } = mode else { continue };
            let Some(device) = self.queue.pop_front() else { continue };
            let Some(address) = self.job.address(&device) else {
                self.count(device.key, Settled::Failed, "no_address".into());
                continue;
            };
            self.slot.hand_over();
            self.credit.hand_over();
            self.mark.started(device.key);
            flights.push(
                async move {
                    let answer = provider.attempt(&payload, &address).await;
                    Landed { device, answer }
                }
                .boxed(),
            );
        }
    }

    /// Settles and skips what needs no stream; takes a place for the device that does. `None`: the
    /// first device of the queue has slot and credit, or the queue has come to its end.
    fn settle_without_sending(&mut self, mode: &Mode, now: Timestamp) -> Option<Obstacle> {
        while let Some(device) = self.queue.front() {
            let key = device.key;
            if self.job.targets(device) {
                match mode {
                    Mode::Count { settled, reason } => self.count(key, *settled, reason.clone()),
                    Mode::Send { .. } if self.job.expired(now) => {
                        self.count(key, Settled::Expired, "expired".into());
                    }
                    Mode::Send { .. } => break,
                }
            } else {
                self.skipped += u64::from(self.job.names_devices());
            }
            self.queue.pop_front();
        }
        if self.queue.is_empty() { None } else { self.take_place(now).err() }
    }

    /// Takes slot and credit for one device, if lease and gate allow. The slot comes first, for
    /// everybody, so that nobody holds credit while it waits for a slot.
    fn take_place(&mut self, now: Timestamp) -> Result<(), Obstacle> {
        if now >= self.page.lease_until {
            return Err(Obstacle::Lease);
        }
        self.lane.slots.set_limit(self.lane.slots_max());
        if !self.slot.has_place() {
            return Err(Obstacle::Slots);
        }
        if !self.credit.has_place() {
            return Err(Obstacle::Credit);
        }
        match self.lane.gate.admit(now) {
            Admission::Go => Ok(()),
            Admission::Wait(until) => {
                self.slot.let_go();
                self.credit.let_go();
                Err(Obstacle::Gate(until))
            }
        }
    }

    /// A delivery that ends without being sent.
    fn count(&mut self, key: DeviceKey, settled: Settled, reason: Reason) {
        self.batch.settle(key, settled, Some(reason), 0);
        self.done += 1;
    }

    fn must_read_again(&self, now: Timestamp) -> bool {
        !self.fresh
            || self.mark.take_stale()
            || now.ms_since(self.read_at) > self.lane.shared.config.address_age_ms_max
    }

    /// Reads what is left of the page as it is now (trap 8). The first time the devices are those
    /// that came with the claim, if they are young enough.
    async fn read_again(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        self.mode = Some(self.job.mode(&self.lane).await?);
        let young = now.ms_since(self.read_at) <= shared.config.address_age_ms_max;
        if self.fresh || !young || self.mark.take_stale() {
            let Some(first) = self.queue.iter().map(|device| device.key).min() else {
                return Ok(());
            };
            let from = DeviceKey(first.0 - 1);
            let devices = shared.store.read_range(&self.job.dispatch, from, self.page.to).await?;
            self.read_at = now;
            self.take_over(devices);
        }
        self.fresh = true;
        self.leave_out_moved().await
    }

    /// Takes the new state of the devices that wait. One that is gone counts as canceled (B20).
    fn take_over(&mut self, devices: Vec<AudienceDevice>) {
        let mut new = devices.into_iter().peekable();
        let mut old: Vec<AudienceDevice> = std::mem::take(&mut self.queue).into();
        old.sort_by_key(|device| device.key);
        for before in old {
            while new.next_if(|device| device.key < before.key).is_some() {}
            if let Some(device) = new.next_if(|device| device.key == before.key) {
                self.queue.push_back(device);
            } else if self.job.targets(&before) {
                self.count(before.key, Settled::Canceled, "device_deleted".into());
            }
        }
    }

    /// Leaves out devices whose address came from a device of this dispatch that got it already
    /// (B22, trap 8): the phone must not get the same notification twice.
    async fn leave_out_moved(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let dispatch = self.job.dispatch.no;
        for device in &mut self.queue {
            let Some((from, since)) = device.taken_from else { continue };
            if since < self.job.dispatch.due_at || !self.job.targets(device) {
                continue;
            }
            let sent = shared.marks.has_started(dispatch, from)
                || shared
                    .store
                    .delivery_outcome(dispatch, from)
                    .await?
                    .is_some_and(|outcome| outcome.settled == Settled::Sent);
            if sent {
                device.eligible = false;
            }
        }
        Ok(())
    }

    /// Takes in one answer.
    fn land(&mut self, landed: Landed) {
        let shared = self.lane.shared.clone();
        let Landed { device, answer } = landed;
        let now = shared.clock.now();
        self.lane.slots.give_back(1);
        self.lane.heard(&answer, now);
        let past = Attempted {
            platform: self.job.dispatch.platform,
            attempts_before: 0,
            first_attempt_at: now,
            unknown_outcomes: 0,
            expires_at: self.job.expires_at,
            now,
            jitter: shared.jitter(),
        };
        let key = device.key;
        match decide(answer, &past, &shared.config.retry) {
            Next::End { settled, reason } => self.batch.settle(key, settled, reason, 1),
            Next::Disable { reason, since } => {
                let address = device.address.expect("a device that was sent to has an address");
                self.batch.settle(key, Settled::Unregistered, Some(reason.clone()), 1);
                self.batch.bury(DeadAddress { key, address, reason, since, at: now });
            }
            Next::Retry { due_at, reason, attempts, unknown_outcomes } => {
                self.batch.retry(NewRetry {
                    key,
                    attempts,
                    first_attempt_at: now,
                    due_at,
                    reason,
                    unknown_outcomes,
                });
            }
            Next::Pause { until } => {
                self.lane.gate.pause(until);
                return self.wait_again(device);
            }
            Next::Hold { reason } => {
                self.lane.hold(&reason, now);
                return self.wait_again(device);
            }
        }
        self.batch.owe_credit();
        self.done += 1;
    }

    /// Held and throttled devices go back to the queue; they never become rows (trap 12).
    fn wait_again(&mut self, device: AudienceDevice) {
        self.lane.shared.credit.give_back(1);
        self.mark.waits_again(device.key);
        self.queue.push_front(device);
        // After any pause addresses are read again (trap 8); the read sorts the queue as well.
        self.fresh = false;
        self.read_at = Timestamp(0);
    }

    fn wants_commit(&self, obstacle: &Obstacle) -> bool {
        self.batch.is_due(self.lane.shared.config.checkpoint_outcomes)
            || matches!(obstacle, Obstacle::Lease)
            || matches!(obstacle, Obstacle::NoneLeft)
                && self.lane.shared.stop.asked()
                && !self.batch.is_empty()
    }

    /// Begins the next checkpoint with everything that waits for one.
    fn commit(&mut self, in_flight: u64, finished: bool) -> Commit {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        let batch = std::mem::take(&mut self.batch);
        let waiting_targets =
            self.queue.iter().filter(|device| self.job.targets(device)).count() as u64;
        let waiting_excluded =
            if self.job.names_devices() { self.queue.len() as u64 - waiting_targets } else { 0 };
        let has_retries = batch.has_retries();
        let checkpoint = Checkpoint {
            page: self.page,
            targeted: self.done + in_flight + waiting_targets,
            excluded: self.skipped + waiting_excluded,
            at: now,
            lease_until: now.plus_ms(shared.config.lease_ms),
            finished,
            ..batch.into_checkpoint(self.page)
        };
        async move {
            let committed = commit_at_last(&shared, checkpoint).await;
            shared.committed();
            if has_retries {
                shared.wake.notify_one();
            }
            committed
        }
        .boxed()
    }

    fn commit_at(&self) -> tokio::time::Instant {
        self.batch.due_at(self.lane.shared.config.checkpoint_every)
    }

    /// Returns when what stands in the way may be gone.
    async fn until_something_changes(&mut self, obstacle: &Obstacle) {
        let shared = self.lane.shared.clone();
        match obstacle {
            // Answers and commits alone lead on.
            Obstacle::NoneLeft | Obstacle::Lease => std::future::pending().await,
            Obstacle::Slots => tokio::select! {
                () = self.slot.turn() => {}
                () = shared.stop.told() => {}
            },
            Obstacle::Credit => tokio::select! {
                () = self.credit.turn() => {}
                () = shared.stop.told() => {}
            },
            Obstacle::Gate(until) => {
                let mut gate = self.lane.gate.subscribe();
                let until = self.job.expires_at.map_or(*until, |expires_at| expires_at.min(*until));
                tokio::select! {
                    _ = gate.changed() => {}
                    () = shared.clock.sleep_until(until) => {}
                    () = shared.stop.told() => {}
                }
            }
        }
    }
}

/// Commits, as often as it takes: while storage is gone the credit stays owed, and sending stops.
async fn commit_at_last(
    shared: &super::shared::Shared,
    checkpoint: Checkpoint,
) -> Result<OpenPage, StoreError> {
    loop {
        match shared.store.checkpoint(checkpoint.clone()).await {
            Ok(page) => return Ok(page),
            Err(error @ (StoreError::Fenced | StoreError::NotFound)) => return Err(error),
            Err(error) => shared.storage_failed(&error).await,
        }
    }
}

async fn await_commit(commit: &mut Option<Commit>) -> Result<OpenPage, StoreError> {
    match commit {
        Some(commit) => commit.await,
        None => std::future::pending().await,
    }
}
