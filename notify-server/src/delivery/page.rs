//! One page at work: its devices go out over the lane's slots, and what happened is committed in
//! checkpoints.
//!
//! ```text
//! queue ──slot, credit, breaker──▶ in flight ──answer──▶ batch ──checkpoint──▶ stored
//!   ▲                              │
//!   └──────── pause, hold ─────────┘
//! ```
//!
//! Invariants: no stream opens without credit (trap 4), with a lease that is over (trap 5), or to
//! an address older than a second or known to have changed (trap 8). A page that is fenced off
//! reports nothing more.

mod batch;
mod parked;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

pub(crate) use self::batch::Batch;
use self::parked::Parked;
use crate::changes::Heard;
use crate::delivery::attempt::attempt;
use crate::delivery::breaker::Admission;
use crate::delivery::decision::{Attempted, Next};
use crate::delivery::job::{Job, Mode};
use crate::delivery::lane::{AnswerContext, InService, Lane, UnregisteredVerdict};
use crate::delivery::marks::Mark;
use crate::delivery::shared::Shared;
use crate::delivery::slots::Claim;
use crate::providers::{Answer, Reason};
use crate::reasons;
use crate::store::{
    AudienceDevice, Checkpoint, DeadAddress, DeviceKey, DeviceOutcome, MovedAddress, NewRetry,
    OpenPage, PageNo, Settled, Source, StoreError, VerifiedAddress, Zone,
};

/// How a page's work ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageEnd {
    /// Nothing of it is left, or the process stops and leaves the rest for the next one.
    Over,
    /// Somebody else holds it.
    Fenced,
}

/// A first attempt that came back.
pub(crate) struct Landed {
    pub(crate) device: AudienceDevice,
    /// What it went through, counted there until this is dropped.
    pub(crate) service: Option<InService>,
    /// Version of the provider that was asked.
    pub(crate) version: u64,
    pub(crate) answer: Answer,
}

/// How often a page looks whether there is room for retries again. Real time: it paces the machine.
const RETRIES_LOOK_EVERY: Duration = Duration::from_millis(500);

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
    /// The circuit breaker blocks until then.
    Breaker(Timestamp),
    /// The lease is over until the next checkpoint.
    Lease,
    /// The other servers have not heard of this one for so long that it may count as dead.
    Standing,
    /// What is left waits for the services behind it, or for a while when that is known.
    Services(Option<Timestamp>),
    /// So many deliveries are to be tried again that they go first.
    Retries,
}

/// Devices as they were read.
pub(crate) struct Reading {
    pub(crate) devices: Vec<AudienceDevice>,
    pub(crate) read_at: Timestamp,
    /// Opened before the read: it tells what changed since.
    pub(crate) mark: Arc<Mark>,
    /// The server's tenure when the page was surely its own.
    pub(crate) tenure: u64,
}

/// One page at work. Dropped, it gives back every place that it holds.
pub(crate) struct PageRun {
    lane: Arc<Lane>,
    job: Arc<Job>,
    page: OpenPage,
    /// The server's tenure when the page was surely its own (trap 5).
    tenure: u64,
    /// That of the checkpoint under way.
    committing_in: u64,
    mark: Arc<Mark>,
    /// Devices that have not been sent to, eligible or not, since either may change.
    queue: VecDeque<AudienceDevice>,
    /// Devices whose service takes nothing now.
    parked: Parked,
    read_at: Timestamp,
    /// Whether mode and addresses were looked at since the last pause.
    fresh: bool,
    mode: Option<Mode>,
    /// Version of the provider that the mode is for.
    version: u64,
    breaker_changes: Heard,
    batch: Batch,
    slot: Claim,
    credit: Claim,
    in_flight: usize,
    /// Credit that the checkpoint under way gives back.
    committing: usize,
    /// Retries that it writes.
    writing: usize,
    /// How many devices wait, for the lane to see.
    waiting: Arc<AtomicUsize>,
    /// Deliveries of this page that have an outcome or a retry, batch included.
    done: u64,
    /// Named devices whose turn came and that got nothing.
    skipped: u64,
}

impl PageRun {
    /// A page that was just claimed, with its devices as they were read.
    pub(crate) fn fresh(lane: Arc<Lane>, job: Arc<Job>, page: OpenPage, reading: Reading) -> Self {
        Self::resumed(lane, job, page, reading, &[])
    }

    /// A page that another process left open: what it settled is skipped, by key (trap 1).
    pub(crate) fn resumed(
        lane: Arc<Lane>,
        job: Arc<Job>,
        page: OpenPage,
        reading: Reading,
        done: &[DeviceKey],
    ) -> Self {
        let Reading { devices, read_at, mark, tenure } = reading;
        let gone = job.gone(&devices, page.from, page.to);
        let queue: VecDeque<_> =
            devices.into_iter().filter(|device| done.binary_search(&device.key).is_err()).collect();
        let mut run = Self {
            breaker_changes: lane.breaker.subscribe(),
            slot: Claim::new(&lane.slots),
            credit: Claim::new(&lane.shared.credit),
            waiting: Arc::new(AtomicUsize::new(queue.len())),
            lane,
            job,
            page,
            tenure,
            committing_in: tenure,
            mark,
            queue,
            parked: Parked::default(),
            read_at,
            fresh: false,
            mode: None,
            version: 0,
            batch: Batch::default(),
            in_flight: 0,
            committing: 0,
            writing: 0,
            done: done.len() as u64,
            skipped: 0,
        };
        for key in gone.into_iter().filter(|key| done.binary_search(key).is_err()) {
            run.count(key, Settled::Canceled, reasons::DEVICE_DELETED.into());
        }
        run
    }

    /// How many devices of the page wait: it changes while the page is worked on.
    pub(crate) fn waiting(&self) -> Arc<AtomicUsize> {
        self.waiting.clone()
    }

    pub(crate) fn page_no(&self) -> PageNo {
        self.page.no
    }

    /// Works until nothing is left, the process stops, or the page is fenced off.
    pub(crate) async fn run(mut self) -> PageEnd {
        let mut flights = Flights::new();
        let mut commit: Option<Commit> = None;
        let mut finishing = false;
        let end = loop {
            let obstacle = self.start_what_may_start(&mut flights).await;
            if self.queue.is_empty() {
                self.tell_waiting();
            }
            let all_landed = flights.is_empty();
            if commit.is_none() {
                let over = matches!(obstacle, Obstacle::NoneLeft) && all_landed;
                finishing = over && self.queue.is_empty() && self.parked.is_empty();
                if finishing || self.wants_commit(&obstacle) {
                    self.committing = self.batch.credits();
                    self.writing = self.batch.retries();
                    commit = Some(self.commit(finishing));
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
                    let committed_credits = std::mem::take(&mut self.committing);
                    self.lane.shared.credit.give_back(committed_credits);
                    self.lane.retries_written(std::mem::take(&mut self.writing) as u64);
                    match committed {
                        Ok(_) if finishing => break PageEnd::Over,
                        Ok(page) => {
                            self.page = page;
                            self.tenure = self.committing_in;
                        }
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
                () = self.until_something_changes(&obstacle) => {}
            }
        };
        // What is still in flight is dropped first: its places are given back after it.
        drop(flights);
        end
    }

    /// Tells the lane how many devices wait, so that devices that do not answer keep none of its
    /// room from the next page (trap 3).
    fn tell_waiting(&self) {
        let waiting = self.queue.len();
        if self.waiting.swap(waiting, Ordering::AcqRel) != waiting {
            self.lane.look_again();
        }
    }

    /// Returns when what stands in the way may be gone.
    async fn until_something_changes(&mut self, obstacle: &Obstacle) {
        let shared = self.lane.shared.clone();
        match obstacle {
            // Answers and commits alone lead on.
            Obstacle::NoneLeft | Obstacle::Lease => std::future::pending().await,
            Obstacle::Standing => {
                let mut renewed = shared.standing.subscribe();
                if shared.standing.holds(shared.clock.now()) {
                    return;
                }
                tokio::select! {
                    biased;
                    () = renewed.changed() => {}
                    () = shared.stop.cancelled() => {}
                }
            }
            Obstacle::Slots => tokio::select! {
                biased;
                () = self.slot.turn() => {}
                () = shared.stop.cancelled() => {}
            },
            Obstacle::Credit => tokio::select! {
                biased;
                () = self.credit.turn() => {}
                () = shared.stop.cancelled() => {}
            },
            Obstacle::Retries => tokio::select! {
                biased;
                () = self.breaker_changes.changed() => {}
                () = tokio::time::sleep(RETRIES_LOOK_EVERY) => self.lane.look_again(),
                () = shared.stop.cancelled() => {}
            },
            Obstacle::Services(None) => tokio::select! {
                biased;
                () = self.breaker_changes.changed() => {}
                () = shared.stop.cancelled() => {}
            },
            Obstacle::Breaker(until) | Obstacle::Services(Some(until)) => {
                let until = self.job.at_latest(*until);
                tokio::select! {
                    biased;
                    () = self.breaker_changes.changed() => {}
                    () = shared.clock.sleep_until(until) => {}
                    () = shared.stop.cancelled() => {}
                }
            }
        }
    }
}

impl Drop for PageRun {
    /// Also when the work broke off: a place that is not given back is lost for good.
    fn drop(&mut self) {
        self.lane.parked_fewer(self.parked.len());
        let credit = self.batch.credits() + self.committing + self.in_flight;
        self.lane.shared.credit.give_back(credit);
        self.lane.retries_written((self.batch.retries() + self.writing) as u64);
        self.lane.streams_dropped(self.in_flight);
    }
}

// Starting devices of a page: what needs no stream is settled, the rest waits for its place.

impl PageRun {
    /// Starts devices until something stands in the way, and says what.
    async fn start_what_may_start(&mut self, flights: &mut Flights) -> Obstacle {
        let shared = self.lane.shared.clone();
        loop {
            // Before all that a change of the breaker may concern: one that comes in while this
            // looks ends the wait at the breaker.
            self.breaker_changes.mark_unchanged();
            let now = shared.clock.now();
            self.unpark(now);
            if self.queue.is_empty() || shared.stop.is_cancelled() {
                // Places that nobody uses must not wait for the answers that are still to come.
                self.slot.let_go();
                self.credit.let_go();
                return match self.parked.is_empty() || shared.stop.is_cancelled() {
                    true => Obstacle::NoneLeft,
                    false => Obstacle::Services(self.parked.until()),
                };
            }
            if self.must_read_again(now) {
                // On its way before anything is awaited: what was decided under a lease must not lie
                // here until that is over (trap 5).
                while let Some(Some(landed)) = flights.next().now_or_never() {
                    self.land(landed);
                }
                if let Err(error) = self.read_again(now).await {
                    // Whatever was to be read is: what changed was taken note of already (trap 8).
                    self.must_read();
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
                self.count(device.key, Settled::Failed, reasons::NO_ADDRESS.into());
                continue;
            };
            self.lane.chat_started(device.key, now);
            self.slot.hand_over();
            self.credit.hand_over();
            self.in_flight += 1;
            self.mark.started(self.job.dispatch.no, device.key);
            let service = self.job.service_of(&self.lane, &device);
            let service = service.map(|service| InService::start(service, now));
            let (version, metrics) = (self.version, shared.metrics.clone());
            flights.push(
                async move {
                    let answer = attempt(&metrics, &provider, &payload, &address).await;
                    Landed { device, service, version, answer }
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
                        self.count(key, Settled::Expired, reasons::EXPIRED.into());
                    }
                    // One try (B19), and there is none to be had: it does not wait for the mend.
                    Mode::Send { .. }
                        if self.job.expires_at.is_none() && self.lane.breaker.is_held(now) =>
                    {
                        self.count(key, Settled::Expired, reasons::CREDENTIALS_REFUSED.into());
                    }
                    Mode::Send { .. } if !self.job.reaches(device) => {
                        self.count(key, Settled::Failed, reasons::NO_ADDRESS.into());
                    }
                    Mode::Send { .. } if self.park(mode, now) => continue,
                    // Before the breaker: the delivery that it admits may be the probe.
                    Mode::Send { .. } => match self.lane.chat_free(key, now) {
                        Ok(()) => break,
                        Err(due_at) => self.put_off(key, due_at, now),
                    },
                }
            } else {
                self.skipped += u64::from(self.job.names_devices());
            }
            self.queue.pop_front();
        }
        if self.queue.is_empty() { None } else { self.take_place(now).err() }
    }

    /// Takes slot and credit for one device, if lease and breaker allow. The slot comes first, for
    /// everybody, so that nobody holds credit while it waits for a slot.
    fn take_place(&mut self, now: Timestamp) -> Result<(), Obstacle> {
        let obstacle = if !self.lane.shared.standing.holds(now) {
            Some(Obstacle::Standing)
        } else if now >= self.page.lease_until || self.tenure != self.lane.shared.standing.tenure()
        {
            Some(Obstacle::Lease)
        } else {
            self.lane.has_retries_in_plenty().then_some(Obstacle::Retries)
        };
        if let Some(obstacle) = obstacle {
            // A place that is kept here is one that the retries wait for.
            self.slot.let_go();
            self.credit.let_go();
            return Err(obstacle);
        }
        self.lane.slots.set_limit(self.lane.slots_max());
        if !self.slot.has_place() {
            return Err(Obstacle::Slots);
        }
        if !self.credit.has_place() {
            return Err(Obstacle::Credit);
        }
        match self.lane.admit(now) {
            Admission::Go => Ok(()),
            Admission::Wait(until) => {
                self.slot.let_go();
                self.credit.let_go();
                Err(Obstacle::Breaker(until))
            }
        }
    }

    /// A delivery that becomes a row of its own without having been tried.
    fn put_off(&mut self, key: DeviceKey, due_at: Timestamp, now: Timestamp) {
        self.try_again(NewRetry {
            key,
            attempts: 0,
            first_attempt_at: now,
            due_at,
            reason: reasons::PACED.into(),
            unknown_outcomes: 0,
        });
        self.done += 1;
    }

    /// A delivery that ends without being sent.
    fn count(&mut self, key: DeviceKey, settled: Settled, reason: Reason) {
        self.batch.settle(key, settled, Some(reason), 0);
        self.done += 1;
    }
}

// Taking in answers, and committing what they came to.

/// Writes down what one first attempt came to. A device that has to wait again, since all of its
/// provider or service waits, comes back.
pub(crate) fn settle(
    (lane, job, mark): (&Lane, &Job, &Mark),
    landed: Landed,
    batch: &mut Batch,
) -> Option<AudienceDevice> {
    let shared = &lane.shared;
    let Landed { device, service, version, answer } = landed;
    let now = shared.clock.now();
    let past = Attempted {
        platform: job.dispatch.platform,
        attempts_before: 0,
        first_attempt_at: now,
        unknown_outcomes: 0,
        service_refusals: 0,
        is_address_at_fault: false,
        expires_at: job.expires_at,
        now,
        jitter: shared.jitter(),
    };
    let key = device.key;
    let message_id = shared.config.kept_message_id(&answer);
    let (env, trust) = (device.ios_env, device.trust);
    let context = AnswerContext { key, service: service.as_ref(), env, trust, version };
    let (next, effects) = lane.on_answer(answer, &context, past);
    if !matches!(next, Next::End { settled: Settled::Sent, .. }) {
        mark.not_sent(job.dispatch.no, key);
    }
    let again = |due_at, reason, attempts, unknown_outcomes| {
        // Counted from here on, not from the commit on: what is in flight must not pass the bound.
        lane.retries_more(1);
        NewRetry { key, attempts, first_attempt_at: now, due_at, reason, unknown_outcomes }
    };
    match next {
        Next::End { settled, reason } => {
            if settled == Settled::Sent && !trust.is_verified() {
                batch.verify(VerifiedAddress { key, address: address_of(device) });
            }
            batch.end(DeviceOutcome { key, settled, reason, attempts: 1, message_id });
        }
        Next::Disable { .. } if effects.unregistered == Some(UnregisteredVerdict::Suspect) => {
            return Some(device);
        }
        Next::Disable { reason, since } => {
            let (ios_env, ambiguous) = (device.ios_env, effects.counted());
            let address = address_of(device);
            batch.settle(key, Settled::Unregistered, Some(reason.clone()), 1);
            batch.bury(DeadAddress { key, address, ios_env, reason, since, at: now, ambiguous });
        }
        Next::Move { to, due_at, attempts } => {
            batch.move_to(MovedAddress { key, from: address_of(device), to, at: now });
            batch.retry(again(due_at, reasons::MOVED.into(), attempts, 0));
        }
        Next::Retry { due_at, reason, attempts, unknown_outcomes } => {
            batch.retry(again(due_at, reason, attempts, unknown_outcomes));
        }
        Next::Pause { until, scope } => {
            lane.throttle(until, scope, service.as_deref(), version);
            return Some(device);
        }
        Next::Hold { .. } => return Some(device),
    }
    None
}

fn address_of(device: AudienceDevice) -> Box<str> {
    device.address.expect("a device that was sent to has an address")
}

impl PageRun {
    /// Takes in one answer.
    fn land(&mut self, landed: Landed) {
        self.in_flight -= 1;
        self.lane.stream_ended();
        match settle((&self.lane, &self.job, &self.mark), landed, &mut self.batch) {
            Some(device) => self.wait_again(device),
            None => {
                self.batch.owe_credit();
                self.done += 1;
            }
        }
    }

    /// A delivery becomes a row of its own.
    fn try_again(&mut self, retry: NewRetry) {
        // Counted from here on, not from the commit on: what is in flight must not pass the bound.
        self.lane.retries_more(1);
        self.batch.retry(retry);
    }

    /// Held and throttled devices go back to the queue; they never become rows.
    fn wait_again(&mut self, device: AudienceDevice) {
        self.lane.shared.credit.give_back(1);
        self.queue.push_front(device);
        // After any pause addresses are read again (trap 8); the read sorts the queue as well.
        self.must_read();
    }

    fn wants_commit(&self, obstacle: &Obstacle) -> bool {
        self.batch.is_due(self.lane.shared.config.checkpoint_outcomes)
            || matches!(obstacle, Obstacle::Lease)
            || matches!(obstacle, Obstacle::NoneLeft)
                && self.lane.shared.stop.is_cancelled()
                && !self.batch.is_empty()
    }

    /// Begins the next checkpoint with everything that waits for one.
    fn commit(&mut self, finished: bool) -> Commit {
        let shared = self.lane.shared.clone();
        let now = shared.clock.now();
        self.tell_waiting();
        // Ahead of the commit, which shows that the page is still this server's.
        self.committing_in = shared.standing.tenure();
        let batch = std::mem::take(&mut self.batch);
        let waiting_targets =
            self.queue.iter().filter(|device| self.job.targets(device)).count() as u64;
        let waiting_excluded =
            if self.job.names_devices() { self.queue.len() as u64 - waiting_targets } else { 0 };
        let next_retry = batch.next_retry();
        let ends_zone = finished && self.job.is_local();
        let checkpoint = Checkpoint {
            page: self.page,
            targeted: self.done
                + self.in_flight as u64
                + waiting_targets
                + self.parked.len() as u64,
            excluded: self.skipped + waiting_excluded,
            at: now,
            lease_until: now.plus_ms(shared.config.lease_ms),
            finished,
            ..batch.into_checkpoint(self.page)
        };
        async move {
            let committed = commit_at_last(&shared, checkpoint).await;
            shared.committed();
            if let Some(due_at) = next_retry {
                shared.look_by(due_at);
            }
            // The end of a zone may be the time for the next look at the notification.
            if ends_zone {
                shared.wake.notify_one();
            }
            committed
        }
        .boxed()
    }

    fn commit_at(&self) -> tokio::time::Instant {
        self.batch.due_at(self.lane.shared.config.checkpoint_every)
    }
}

/// Commits, as often as it takes: while storage is gone the credit stays owed, and sending stops.
async fn commit_at_last(shared: &Shared, checkpoint: Checkpoint) -> Result<OpenPage, StoreError> {
    loop {
        match shared.store.checkpoint(checkpoint.clone()).await {
            Ok(page) => {
                shared.metrics.settled(&checkpoint.settled, &checkpoint.dead);
                return Ok(page);
            }
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

// Keeping a page true (trap 8): addresses and states are read when their turn comes.

impl PageRun {
    fn must_read_again(&self, now: Timestamp) -> bool {
        !self.fresh
            || self.mark.take_stale()
            || self.version != self.lane.provider_version()
            || now.ms_since(self.read_at) > self.lane.shared.config.address_age_ms_max
    }

    /// Has the devices read again before any of them goes out.
    fn must_read(&mut self) {
        self.fresh = false;
        self.read_at = Timestamp(0);
    }

    /// Reads what is left of the page as it is now (trap 8). The first time the devices are those
    /// that came with the claim, if they are young enough.
    async fn read_again(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let version = self.lane.provider_version();
        self.mode = Some(self.job.mode(&self.lane).await?);
        self.version = version;
        let young = now.ms_since(self.read_at) <= shared.config.address_age_ms_max;
        if self.fresh || !young || self.mark.take_stale() {
            let Some(first) = self.queue.iter().map(|device| device.key).min() else {
                return Ok(());
            };
            let from = DeviceKey(first.0 - 1);
            let devices = shared.store.read_range(&self.job.dispatch, from, self.page.to).await?;
            self.read_at = now;
            self.parked.not_read();
            self.take_over(devices).await?;
        }
        self.leave_out_moved().await?;
        self.fresh = true;
        Ok(())
    }

    /// Takes the new state of the devices that wait. One that is gone counts as canceled (B20); one
    /// that lost the tag, or left the zone, is not targeted any more.
    async fn take_over(&mut self, devices: Vec<AudienceDevice>) -> Result<(), StoreError> {
        let mut old: Vec<AudienceDevice> = self.queue.iter().cloned().collect();
        old.sort_by_key(|device| device.key);
        let mut new = devices.into_iter().peekable();
        let (mut queue, mut missing) = (VecDeque::with_capacity(old.len()), Vec::new());
        for before in old {
            while new.next_if(|device| device.key < before.key).is_some() {}
            if let Some(device) = new.next_if(|device| device.key == before.key) {
                queue.push_back(device);
            } else if self.job.targets(&before) {
                missing.push(before.key);
            }
        }
        let untagged = self.untagged(&missing).await?;
        self.queue = queue;
        for key in missing {
            if untagged.binary_search(&key).is_err() {
                self.count(key, Settled::Canceled, reasons::DEVICE_DELETED.into());
            }
        }
        Ok(())
    }

    /// Those of these devices that are there, without the tag or the zone by which they were found.
    async fn untagged(&mut self, keys: &[DeviceKey]) -> Result<Vec<DeviceKey>, StoreError> {
        let (Some(first), Some(last)) = (keys.first(), keys.last()) else {
            return Ok(Vec::new());
        };
        match (&self.job.dispatch.source, self.job.dispatch.zone) {
            (Source::Platform, Zone::Everybody) | (Source::Named { .. }, _) => {
                return Ok(Vec::new());
            }
            (Source::Tag(_), _) | (Source::Platform, Zone::Offset(_) | Zone::Sweep) => {}
        }
        let (before, last) = (DeviceKey(first.0 - 1), *last);
        let dispatch = self.job.naming(keys.to_vec());
        let devices = self.lane.shared.store.read_range(&dispatch, before, last).await?;
        Ok(devices.into_iter().map(|device| device.key).collect())
    }

    /// Leaves out devices whose address got it already, under another device.
    async fn leave_out_moved(&mut self) -> Result<(), StoreError> {
        for device in &mut self.queue {
            if self.job.targets(device)
                && (self.job.reached_before(device, &self.lane.shared).await?
                    || self.job.had_in_another_zone(device, &self.lane.shared).await?)
            {
                device.eligible = false;
            }
        }
        Ok(())
    }
}
