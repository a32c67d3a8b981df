//! The task of one page. It sends to the page's devices over the lane's streams, and commits the
//! results in checkpoints.
//!
//! ```text
//! queue ──permits, admission──▶ in flight ──result──▶ batch ──checkpoint──▶ stored
//!   ▲                               │
//!   └─────────── postponed ─────────┘
//! ```
//!
//! Invariants (hazards 4, 5 and 8 of docs/delivery.md): no attempt starts while too many deliveries
//! are unacknowledged, without a valid lease, or with an address that was read more than a second ago
//! or has changed since. After another server has taken a page over, this server commits nothing more
//! of that page.
//!
//! A page continues to send while its checkpoint is being committed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

use crate::delivery::breaker::Admission;
use crate::delivery::context::EngineContext;
use crate::delivery::deferred::Deferred;
use crate::delivery::device_tracker::RangeTracker;
use crate::delivery::dispatch::{ActiveDispatch, DeliveryMode, SendMode};
use crate::delivery::intents::{INTENTS_WAITING_MAX, Intents};
use crate::delivery::lane::Lane;
use crate::delivery::messages::{DeviceFields, Rendering};
use crate::delivery::pace::{Allowance, Granted, OpenMark, Pace};
use crate::delivery::sender::{
    self, CheckpointBuilder, CompletedAttempt, Delivery, History, InFlight, PageProgress, Route,
    Sender, UncommittedPermits,
};
use crate::delivery::start::{Evidence, Lease, Verdict, Wait};
use crate::providers::{Reason, RenderedMessage};
use crate::reasons;
use crate::signal::Waiter;
use crate::store::{
    AudienceDevice, AudienceSource, Checkpoint, DeviceKey, DeviceOutcome, NewRetry, OpenPage,
    Outcome, PageNo, Portion, SettledDevices, StoreError,
};

/// How a page's task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageEnd {
    /// The page is finished, or this process stops and leaves the rest of the page to the next process.
    Finished,
    /// The notification is paused. The rest of the page waits in the store.
    Parked,
    /// Another server has taken the page over.
    Fenced,
}

/// How often a page that is blocked by the retry backlog wakes its lane, which counts the retries. This
/// is real time, because it limits the load on the machine.
const RETRY_BACKLOG_INTERVAL: Duration = Duration::from_millis(500);

/// How long a page waits whose notification was erased, in milliseconds, unless a checkpoint ends it before.
const ERASED_RECHECK_MS: i64 = 60_000;

/// Why no further attempt can start at the moment.
enum Blocked {
    /// No device is left, or the rest has to wait in the store.
    NoneLeft,
    /// The lane has no permit for an attempt, or does not admit it.
    Lane(sender::Blocked),
    /// The page's lease expired. The next checkpoint renews it.
    PageLease,
    /// The server missed its heartbeats, so other servers may consider it dead.
    ServerLease,
    /// All remaining devices are deferred: until that time, or until an event if it is `None`.
    Upstreams(Option<Timestamp>),
    /// The lane has too many open retries. No first attempt starts until some of them end.
    RetryBacklog,
    /// The rate of the notification admits no first attempt before that time.
    Pace(Timestamp),
    /// The page has no attempts left of its grant, and has to request more.
    NoAllowance,
    /// The intent of the attempt is not stored. The next checkpoint stores it.
    Intent,
}

/// Devices of a page as they were read.
pub(crate) struct DeviceSnapshot {
    pub(crate) devices: Vec<AudienceDevice>,
    pub(crate) read_at: Timestamp,
    /// Tracks changes of the devices. It was opened before the read.
    pub(crate) tracker: Arc<RangeTracker>,
    /// The server's lease generation at a time when the page certainly belonged to this server.
    pub(crate) lease_generation: u64,
}

/// A checkpoint that is being committed.
struct InFlightCheckpoint {
    commit: BoxFuture<'static, Result<OpenPage, StoreError>>,
    /// The server's lease generation when the commit began. A successful commit proves that the page
    /// still belonged to this server at that time.
    lease_generation: u64,
    ends_page: bool,
    /// The intents that it stores, if the page records them.
    intents: Option<Vec<DeviceKey>>,
    _permits: UncommittedPermits,
}

/// The task of one page.
pub(crate) struct PageTask {
    lane: Arc<Lane>,
    dispatch: Arc<ActiveDispatch>,
    page: OpenPage,
    /// The server's lease generation at the last time when the page certainly belonged to this server.
    lease_generation: u64,
    tracker: Arc<RangeTracker>,
    /// Devices without an attempt. Ineligible devices stay in the queue until their turn, because they
    /// may become eligible.
    queue: VecDeque<AudienceDevice>,
    deferred: Deferred,
    read_at: Timestamp,
    /// Whether `mode` and the addresses in `queue` were read since they were last invalidated.
    is_fresh: bool,
    mode: Option<DeliveryMode>,
    /// What the messages take from the devices in `queue`, read no earlier than these devices; `None` if it
    /// must be read.
    fields: Option<DeviceFields>,
    /// The devices of the page that got a later notification with the same `collapse_key`, sorted.
    overtaken: Vec<DeviceKey>,
    /// Version of the provider that the mode is for.
    version: u64,
    breaker_changes: Waiter,
    batch: CheckpointBuilder,
    sender: Sender,
    /// The length of the queue, published to the lane.
    shared_queue_len: Arc<AtomicUsize>,
    /// Deliveries of this page with an outcome or a retry, including those in the batch.
    done: u64,
    /// Named devices that were not eligible when their turn came.
    skipped: u64,
    /// First attempts that the rate of the notification admits.
    allowance: Allowance,
    intents: Intents,
    _open: Option<OpenMark>,
}

impl PageTask {
    /// The task of a page. It sends nothing to the devices in `settled`. There are none unless another process
    /// or a panicked task left the page open.
    pub(crate) fn new(
        lane: Arc<Lane>,
        dispatch: Arc<ActiveDispatch>,
        page: OpenPage,
        snapshot: DeviceSnapshot,
        settled: &SettledDevices,
        allowance: Allowance,
    ) -> Self {
        let DeviceSnapshot { devices, read_at, tracker, lease_generation } = snapshot;
        let missing = dispatch.missing_named_devices(&devices, page.from, page.to);
        let SettledDevices { done, in_doubt } = settled;
        let is_done = |key: &DeviceKey| done.binary_search(key).is_ok() || in_doubt.contains(key);
        let queue: VecDeque<_> =
            devices.into_iter().filter(|device| !is_done(&device.key)).collect();
        let open = dispatch.pace(read_at).map(Pace::mark_page);
        let mut task = Self {
            breaker_changes: lane.breaker.subscribe(),
            sender: Sender::new(&lane),
            deferred: Deferred::new(lane.clone()),
            shared_queue_len: Arc::new(AtomicUsize::new(queue.len())),
            lane,
            dispatch,
            page,
            lease_generation,
            tracker,
            queue,
            read_at,
            is_fresh: false,
            mode: None,
            fields: None,
            overtaken: Vec::new(),
            version: 0,
            batch: CheckpointBuilder::default(),
            done: done.len() as u64,
            skipped: 0,
            allowance,
            intents: Intents::default(),
            _open: open,
        };
        for key in in_doubt {
            task.settle(*key, Outcome::Failed, reasons::OUTCOME_UNKNOWN.into(), 1);
        }
        for key in missing.into_iter().filter(|key| !is_done(key)) {
            task.settle_unsent(key, Outcome::Canceled, reasons::DEVICE_DELETED.into());
        }
        task
    }

    /// Number of devices in the queue, which changes while the task runs.
    pub(crate) fn shared_queue_len(&self) -> Arc<AtomicUsize> {
        self.shared_queue_len.clone()
    }

    pub(crate) fn page_no(&self) -> PageNo {
        self.page.no
    }

    pub(crate) fn dispatch(&self) -> Arc<ActiveDispatch> {
        self.dispatch.clone()
    }

    /// Whether the rest of the page has to wait in the store: the process stops, or the notification is
    /// paused. The devices are not kept in memory, where they would take the place of other notifications.
    fn must_yield(&self, now: Timestamp) -> bool {
        self.lane.context.stop.is_cancelled() || self.dispatch.is_paused(now)
    }

    /// Runs until the page is finished, the process stops, the notification is paused, or another server
    /// took the page over.
    pub(crate) async fn run(mut self) -> PageEnd {
        let mut in_flight = InFlight::new();
        let mut checkpoint: Option<InFlightCheckpoint> = None;
        loop {
            let blocked = self.start_ready(&mut in_flight).await;
            if self.queue.is_empty() {
                self.publish_queue_len();
            }
            let all_completed = in_flight.is_empty();
            if checkpoint.is_none() {
                let is_finished = matches!(blocked, Blocked::NoneLeft) && all_completed;
                let ends_page = is_finished && self.queue.is_empty() && self.deferred.is_empty();
                if matches!(blocked, Blocked::Intent) {
                    self.add_intents(self.lane.context.clock.now());
                }
                if ends_page || self.is_checkpoint_due(&blocked) {
                    checkpoint = Some(self.begin_checkpoint(ends_page, in_flight.len()));
                } else if is_finished && self.batch.is_empty() {
                    let is_stopping = self.lane.context.stop.is_cancelled();
                    return if is_stopping { PageEnd::Finished } else { PageEnd::Parked };
                }
            }
            let context = &self.lane.context;
            let due_at =
                self.batch.due_at(context.started_at, context.config.page_checkpoint_every);
            let has_results = !self.batch.is_empty();
            tokio::select! {
                biased;
                // The first branch of a biased `select!`, because the commit begins only when it is
                // polled for the first time.
                committed = wait_for_commit(&mut checkpoint), if checkpoint.is_some() => {
                    let Some(checkpoint) = checkpoint.take() else { continue };
                    match committed {
                        Ok(_) if checkpoint.ends_page => return PageEnd::Finished,
                        Ok(page) => {
                            self.page = page;
                            self.lease_generation = checkpoint.lease_generation;
                            self.intents.set_stored(checkpoint.intents.unwrap_or_default());
                        }
                        Err(_) => return PageEnd::Fenced,
                    }
                }
                Some(completed) = in_flight.next(), if !all_completed => {
                    self.on_completed(completed);
                    self.take_completed(&mut in_flight);
                }
                () = tokio::time::sleep_until(due_at), if checkpoint.is_none() && has_results => {
                    self.batch.force();
                }
                () = self.until_unblocked(&blocked) => {}
            }
        }
    }

    /// Publishes the length of the queue. The lane can then open the next page while attempts of this
    /// page still wait for an answer (hazard 3 of docs/delivery.md).
    fn publish_queue_len(&self) {
        let queue_len = self.queue.len();
        if self.shared_queue_len.swap(queue_len, Ordering::AcqRel) != queue_len {
            self.lane.wake();
        }
    }

    /// Waits until the reason for the block may be gone, or the engine stops.
    async fn until_unblocked(&mut self, blocked: &Blocked) {
        let context = &self.lane.context;
        let unblocked = async {
            match blocked {
                // Only a result or a commit ends these, and the caller itself waits for results and commits.
                // `start_ready` never returns the last one.
                Blocked::NoneLeft | Blocked::PageLease | Blocked::Intent | Blocked::NoAllowance => {
                    std::future::pending().await
                }
                Blocked::ServerLease => {
                    let mut renewed = context.membership.subscribe();
                    if !context.membership.is_valid(context.clock.now()) {
                        renewed.changed().await;
                    }
                }
                Blocked::Lane(sender::Blocked::Permits) => self.sender.wait_for_permits().await,
                Blocked::RetryBacklog => tokio::select! {
                    biased;
                    () = self.breaker_changes.changed() => {}
                    () = tokio::time::sleep(RETRY_BACKLOG_INTERVAL) => self.lane.wake(),
                },
                Blocked::Upstreams(None) => self.breaker_changes.changed().await,
                Blocked::Lane(sender::Blocked::Admission(until))
                | Blocked::Pace(until)
                | Blocked::Upstreams(Some(until)) => tokio::select! {
                    biased;
                    () = self.breaker_changes.changed() => {}
                    () = context.clock.sleep_until(self.dispatch.capped_at_expiry(*until)) => {}
                },
            }
        };
        let ends_when_stopped =
            !matches!(blocked, Blocked::NoneLeft | Blocked::PageLease | Blocked::Intent);
        tokio::select! {
            biased;
            () = unblocked => {}
            () = context.stop.cancelled(), if ends_when_stopped => {}
        }
    }
}

// Starting attempts. Devices that need no attempt are settled; the others wait for permits.

impl PageTask {
    /// Starts attempts until something blocks the next one.
    async fn start_ready(&mut self, in_flight: &mut InFlight<CompletedAttempt>) -> Blocked {
        let context = self.lane.context.clone();
        loop {
            // This comes before all checks that depend on the breaker, so that a change of the breaker
            // during these checks ends the wait after them.
            self.breaker_changes.mark_unchanged();
            let now = context.clock.now();
            self.resume_deferred(now);
            let is_stopping = context.stop.is_cancelled();
            if self.queue.is_empty() || is_stopping {
                self.sender.release();
                self.keep_intents(|_| false);
                if self.deferred.is_empty() || self.must_yield(now) {
                    return Blocked::NoneLeft;
                }
                return Blocked::Upstreams(self.deferred.recheck_at());
            }
            if self.must_refresh(now) {
                // The read below may take long. Results that have arrived must be in the batch before
                // the lease can expire during it (hazard 5 of docs/delivery.md).
                self.take_completed(in_flight);
                if let Err(error) = self.refresh(now).await {
                    // `must_refresh` has cleared the changes in the tracker, so all devices must be
                    // read again.
                    self.invalidate();
                    context.backoff_after_storage_error(&error).await;
                }
                continue;
            }
            let Some(mode) = self.mode.clone() else { continue };
            let payload = match self.prepare_next(&mode, now) {
                Ok(Some(payload)) => payload,
                Ok(None) => continue,
                Err(Blocked::NoAllowance) => {
                    // Results that arrived must be in the batch before the request, which may take long.
                    self.take_completed(in_flight);
                    match self.request_allowance(now).await {
                        Ok(Some(until)) => return Blocked::Pace(until),
                        Ok(None) => {}
                        Err(error) => context.backoff_after_storage_error(&error).await,
                    }
                    continue;
                }
                Err(blocked) => return blocked,
            };
            let DeliveryMode::Send(SendMode { provider, .. }) = mode else { continue };
            let Some(device) = self.queue.pop_front() else { continue };
            let permits = match self.intents.start(device.key) {
                Some(permits) => permits,
                None => self.sender.take_permits(&self.dispatch),
            };
            let delivery =
                Delivery { dispatch: self.dispatch.clone(), device, history: History::default() };
            let route = Route { provider, payload, version: self.version };
            let attempt = self.sender.start_with(permits, delivery, route, &self.tracker, now);
            in_flight.push(attempt.boxed());
        }
    }

    /// Settles or skips the first devices of the queue while they need no attempt. Takes the permits for
    /// the first device that needs an attempt and returns its message; `None` if no device is left, or if the
    /// mode must be read again.
    fn prepare_next(
        &mut self,
        mode: &DeliveryMode,
        now: Timestamp,
    ) -> Result<Option<Arc<RenderedMessage>>, Blocked> {
        while let Some(device) = self.queue.front() {
            let key = device.key;
            if self.dispatch.targets(device) {
                match self.lane.may_start(self.evidence(device, mode, now)) {
                    Verdict::Start => match mode {
                        DeliveryMode::Send(mode) => match self.message_for(key, mode) {
                            Ok(message) => {
                                return self.try_acquire(key, now).map(|()| Some(message));
                            }
                            Err(reason) => self.settle_unsent(key, Outcome::Failed, reason),
                        },
                        DeliveryMode::Settle { settled, reason } => {
                            self.settle_unsent(key, *settled, reason.clone());
                        }
                    },
                    Verdict::Settle { settled, reason } => {
                        let dead = self.dispatch.dead_address(device, settled, now);
                        self.batch.add_dead(dead);
                        self.settle_unsent(key, settled, reason);
                    }
                    Verdict::Wait(Wait::Chat(due_at)) => self.postpone_as_retry(key, due_at, now),
                    Verdict::Wait(Wait::Upstream(recheck_at)) => {
                        self.defer_front(recheck_at);
                        continue;
                    }
                    Verdict::Wait(Wait::ServerLease) => {
                        return Err(self.yield_to(Blocked::ServerLease));
                    }
                    Verdict::Wait(Wait::Lease) => return Err(self.yield_to(Blocked::PageLease)),
                    Verdict::Wait(Wait::Backlog) => {
                        return Err(self.yield_to(Blocked::RetryBacklog));
                    }
                    Verdict::Wait(Wait::Pause) => return Err(self.yield_to(Blocked::NoneLeft)),
                    Verdict::Reread => {
                        self.is_fresh = false;
                        return Ok(None);
                    }
                }
            } else {
                self.skipped += u64::from(self.dispatch.targets_named_devices());
            }
            self.queue.pop_front();
            self.keep_intents(|waiting| waiting != key);
        }
        Ok(None)
    }

    /// What is known of the delivery to a device of the queue.
    fn evidence(&self, device: &AudienceDevice, mode: &DeliveryMode, now: Timestamp) -> Evidence {
        let membership = &self.lane.context.membership;
        let lease = if !membership.is_valid(now) {
            Lease::ServerExpired
        } else if now >= self.page.lease_until
            || self.lease_generation != membership.lease_generation()
        {
            Lease::Expired
        } else {
            Lease::Valid
        };
        let evidence = Evidence::of(&self.dispatch, &self.lane, mode, device, now);
        // It was admitted, and may itself be what tests the credentials.
        let is_admitted = self.intents.is_waiting(device.key);
        Evidence {
            is_overtaken: self.overtaken.binary_search(&device.key).is_ok(),
            is_refused: evidence.is_refused && !is_admitted,
            lease,
            is_backlog_full: self.lane.retry_backlog_full() && !is_admitted,
            ..evidence
        }
    }

    /// The message for a device of the queue, or why it gets none.
    fn message_for(&self, key: DeviceKey, mode: &SendMode) -> Rendering {
        match &self.fields {
            Some(fields) => self.dispatch.message_for(key, mode, fields),
            None => self.dispatch.message_for(key, mode, &DeviceFields::default()),
        }
    }

    /// Takes the permits for one attempt, if the rate of the notification and the lane admit it. An attempt that
    /// must be recorded first takes them when its intent is added, and may start after the commit.
    fn try_acquire(&mut self, key: DeviceKey, now: Timestamp) -> Result<(), Blocked> {
        if self.intents.is_waiting(key) {
            return if self.intents.may_start(key) { Ok(()) } else { Err(Blocked::Intent) };
        }
        let result = if self.dispatch.pace(now).is_some() && self.allowance.attempts(now) == 0 {
            // As in `Lane::paced_until`.
            match self.lane.breaker.peek(now) {
                Admission::Go => Err(Blocked::NoAllowance),
                Admission::Wait(until) => Err(Blocked::Lane(sender::Blocked::Admission(until))),
            }
        } else {
            self.sender.try_acquire(&self.dispatch, now).map_err(Blocked::Lane)
        };
        result.map_err(|blocked| self.yield_to(blocked))?;
        self.allowance.use_one();
        if self.dispatch.records_intents() {
            self.intents.add(key, self.sender.reserve(&self.dispatch));
            return Err(Blocked::Intent);
        }
        Ok(())
    }

    /// Releases what the page cannot use while it is blocked: the intents of later devices may have the permits
    /// that the next attempt waits for, and other tasks, such as the retries, may need a permit.
    fn yield_to(&mut self, blocked: Blocked) -> Blocked {
        self.keep_intents(|_| false);
        if !matches!(blocked, Blocked::Lane(sender::Blocked::Permits)) {
            self.sender.release();
        }
        blocked
    }

    /// Adds intents for the next devices of the queue, until one of them has to wait.
    fn add_intents(&mut self, now: Timestamp) {
        let is_paced = self.dispatch.pace(now).is_some();
        for device in self.queue.iter().take(INTENTS_WAITING_MAX) {
            let key = device.key;
            if self.intents.is_waiting(key) {
                continue;
            }
            let is_ready = self.dispatch.targets(device)
                && (!is_paced || self.allowance.attempts(now) > 0)
                && self.lane.check_chat(key, now).is_ok()
                && self.sender.try_acquire(&self.dispatch, now).is_ok();
            if !is_ready {
                break;
            }
            self.allowance.use_one();
            self.intents.add(key, self.sender.reserve(&self.dispatch));
        }
        // The permits and the queued request belong to no device.
        self.sender.release();
        self.batch.force();
    }

    /// Removes the waiting intents for which `is_kept` is false. The next checkpoint removes them from the page,
    /// and releases their permits. If one of them was the probe, the next delivery becomes it.
    fn keep_intents(&mut self, is_kept: impl Fn(DeviceKey) -> bool) {
        for permits in self.intents.retain(is_kept) {
            self.batch.hold(permits.into_unacked());
            self.batch.force();
        }
    }

    /// Requests first attempts for the rest of the page. Returns when to ask again if none are granted now.
    async fn request_allowance(&mut self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        let Some(pace) = self.dispatch.pace(now) else { return Ok(None) };
        match pace.request(&self.lane.context, self.queue.len()).await {
            Ok(Granted::Now(allowance)) => {
                self.allowance = allowance;
                Ok(None)
            }
            Ok(Granted::NotBefore(until)) => Ok(Some(until)),
            // The notification was erased with its application: the next checkpoint ends this task.
            Err(StoreError::NotFound) => {
                self.batch.force();
                Ok(Some(now.plus_ms(ERASED_RECHECK_MS)))
            }
            Err(error) => Err(error),
        }
    }

    /// Stores a delivery as a retry before its first attempt, because its chat got a message too recently.
    fn postpone_as_retry(&mut self, key: DeviceKey, due_at: Timestamp, now: Timestamp) {
        let retry = NewRetry {
            key,
            attempts: 0,
            first_attempt_at: now,
            due_at,
            reason: reasons::PACED.into(),
            unknown_outcomes: 0,
        };
        self.batch.add_retry(&self.lane, retry);
        self.done += 1;
    }

    /// Ends a delivery without an attempt.
    fn settle_unsent(&mut self, key: DeviceKey, settled: Outcome, reason: Reason) {
        self.settle(key, settled, reason, 0);
    }

    /// Ends a delivery.
    fn settle(&mut self, key: DeviceKey, settled: Outcome, reason: Reason, attempts: u16) {
        let reason = Some(reason);
        self.batch.add_outcome(DeviceOutcome { key, settled, reason, attempts, message_id: None });
        self.done += 1;
    }

    /// Defers the first device of the queue, because its upstream accepts no messages now.
    fn defer_front(&mut self, recheck_at: Option<Timestamp>) {
        let Some(device) = self.queue.pop_front() else { return };
        if let Some(upstream) = self.dispatch.upstream_of(&self.lane, &device) {
            self.deferred.push(&upstream, device, recheck_at);
        }
    }

    /// Puts deferred devices back into the queue if their upstream accepts messages again. Puts all of
    /// them back if the dispatch was canceled or has expired, or if the provider changed.
    fn resume_deferred(&mut self, now: Timestamp) {
        if self.deferred.is_empty() {
            return;
        }
        let must_resume_all = self.dispatch.is_canceled()
            || self.dispatch.has_expired(now)
            || self.version != self.lane.provider_version();
        // `None` resumes all devices: the next read of the mode decides about them.
        let provider = match &self.mode {
            Some(DeliveryMode::Send(mode)) if !must_resume_all => Some(&mode.provider),
            Some(DeliveryMode::Send(_) | DeliveryMode::Settle { .. }) | None => None,
        };
        let is_stale = self.deferred.is_stale();
        let taken = self.deferred.take(|upstream, device| match provider {
            Some(provider) => {
                upstream.capacity(self.dispatch.candidate(&self.lane, provider, device), now)
            }
            None => Ok(usize::MAX),
        });
        if taken.is_empty() {
            return;
        }
        // If the addresses of these devices are too old, the page reads them again together with the
        // rest of its queue.
        let age_ms = now.ms_since(self.read_at);
        if is_stale || age_ms > self.lane.context.config.address_age_ms_max {
            self.invalidate();
        }
        for device in taken.into_iter().rev() {
            self.queue.push_front(device);
        }
    }
}

// Results and checkpoints.

impl PageTask {
    /// Adds the result of an attempt to the batch, or puts a postponed device back into the queue.
    fn on_completed(&mut self, completed: CompletedAttempt) {
        self.intents.end(completed.key());
        match self.batch.record(&self.lane, completed.complete(&self.tracker)) {
            // A postponed delivery stays in the page and does not become a retry.
            Some((device, unacked)) => {
                self.queue.push_front(device);
                if self.dispatch.records_intents() {
                    // The next checkpoint removes the intent.
                    self.batch.hold(unacked);
                    self.batch.force();
                }
                // The queue is no longer in ascending order. The next read sorts it.
                self.invalidate();
            }
            None => self.done += 1,
        }
    }

    /// Records all attempts that have completed.
    fn take_completed(&mut self, in_flight: &mut InFlight<CompletedAttempt>) {
        while let Some(Some(completed)) = in_flight.next().now_or_never() {
            self.on_completed(completed);
        }
    }

    /// Whether a checkpoint is due: the batch is full or forced, the page's lease has expired, the rest of the
    /// page has to wait in the store while the batch holds results, or these results hold permits of which there
    /// are few.
    fn is_checkpoint_due(&self, blocked: &Blocked) -> bool {
        let context = &self.lane.context;
        let yields_with_results = matches!(blocked, Blocked::NoneLeft)
            && self.must_yield(context.clock.now())
            && !self.batch.is_empty();
        self.batch.is_due(context.config.checkpoint_outcomes)
            || matches!(blocked, Blocked::PageLease)
            || yields_with_results
            || self.waits_for_own_results(blocked)
    }

    /// Whether the next attempt waits for permits that results in the batch hold. There are few permits for
    /// messages without an identity, so a checkpoint with the usual number of results may never come.
    fn waits_for_own_results(&self, blocked: &Blocked) -> bool {
        matches!(blocked, Blocked::Lane(sender::Blocked::Permits))
            && !self.dispatch.supports_dedup()
            && !self.batch.is_empty()
    }

    /// Begins a checkpoint with the whole batch.
    fn begin_checkpoint(&mut self, ends_page: bool, in_flight: usize) -> InFlightCheckpoint {
        let context = self.lane.context.clone();
        let now = context.clock.now();
        self.publish_queue_len();
        let batch = std::mem::take(&mut self.batch);
        let queued_targets =
            self.queue.iter().filter(|device| self.dispatch.targets(device)).count();
        let queued_excluded = if self.dispatch.targets_named_devices() {
            self.queue.len() - queued_targets
        } else {
            0
        };
        let next_retry_due_at = batch.next_retry_due_at();
        let progress = PageProgress {
            targeted: self.done + (in_flight + queued_targets + self.deferred.len()) as u64,
            excluded: self.skipped + queued_excluded as u64,
            at: now,
            lease_until: now.plus_ms(context.config.lease_ms),
            finished: ends_page,
            intents: self.dispatch.records_intents().then(|| self.intents.begin_store()),
        };
        let intents = progress.intents.clone();
        let (checkpoint, permits) = batch.build(self.page, progress);
        let ends_zone = ends_page && self.dispatch.is_local();
        // This is read before the commit, because a successful commit proves only that the page
        // belonged to this server when the commit began.
        let lease_generation = context.membership.lease_generation();
        let commit = async move {
            let committed = commit_with_retry(&context, checkpoint).await;
            context.record_commit();
            if let Some(due_at) = next_retry_due_at {
                context.wake_by(due_at);
            }
            // The end of a zone may make the notification due for its next one.
            if ends_zone {
                context.wake.notify_one();
            }
            committed
        };
        InFlightCheckpoint {
            commit: commit.boxed(),
            lease_generation,
            ends_page,
            intents,
            _permits: permits,
        }
    }
}

/// Commits a checkpoint, and repeats the commit while storage fails. The deliveries stay unacknowledged
/// in the meantime, so that the limit `max_unacked` stops the sending. Fails only if the page no longer
/// belongs to this server or was erased.
async fn commit_with_retry(
    context: &EngineContext,
    checkpoint: Checkpoint,
) -> Result<OpenPage, StoreError> {
    loop {
        match context.store.checkpoint(checkpoint.clone()).await {
            Ok(page) => {
                context.metrics.settled(&checkpoint.settled, &checkpoint.dead);
                return Ok(page);
            }
            Err(error @ (StoreError::Fenced | StoreError::NotFound)) => return Err(error),
            Err(error) => context.backoff_after_storage_error(&error).await,
        }
    }
}

/// Waits until the checkpoint in flight was committed or rejected. Never returns if there is none.
async fn wait_for_commit(
    in_flight: &mut Option<InFlightCheckpoint>,
) -> Result<OpenPage, StoreError> {
    match in_flight {
        Some(checkpoint) => (&mut checkpoint.commit).await,
        None => std::future::pending().await,
    }
}

// Keeping the page current. Addresses and the state of devices are read shortly before their use
// (hazard 8 of docs/delivery.md).

impl PageTask {
    /// Whether the mode or the devices must be read again before the next attempt. This clears the changes
    /// that the tracker has recorded, so the caller must then call [`Self::refresh`].
    fn must_refresh(&self, now: Timestamp) -> bool {
        !self.is_fresh
            || self.tracker.clear_changes()
            || self.version != self.lane.provider_version()
            || now.ms_since(self.read_at) > self.lane.context.config.address_age_ms_max
    }

    /// Forces a read of the devices before the next attempt.
    fn invalidate(&mut self) {
        self.is_fresh = false;
        self.read_at = Timestamp(0);
    }

    /// Reads the mode, and the current state of the devices in the queue. The first call uses the devices
    /// that were read with the claim of the page, if that read is recent enough.
    async fn refresh(&mut self, now: Timestamp) -> Result<(), StoreError> {
        let context = self.lane.context.clone();
        let version = self.lane.provider_version();
        self.mode = Some(self.dispatch.mode(&self.lane).await?);
        self.version = version;
        let is_recent = now.ms_since(self.read_at) <= context.config.address_age_ms_max;
        // `is_fresh` is false at the first call, and after a cancellation, which concerns only the mode.
        // If it is true, `must_refresh` has detected that something changed since the last read.
        if self.is_fresh || !is_recent || self.tracker.clear_changes() {
            let Some(first) = self.queue.iter().map(|device| device.key).min() else {
                return Ok(());
            };
            let from = DeviceKey(first.0 - 1);
            let devices = context.store.read_range(&self.dispatch.row, from, self.page.to).await?;
            self.read_at = now;
            self.fields = None;
            self.deferred.mark_stale();
            self.merge_refreshed(devices).await?;
        }
        if self.fields.is_none() {
            // After the devices, so that the attributes are those of the user who was logged in then.
            // The tracker reports a change in between.
            let keys = self.queue.iter().map(|device| device.key);
            self.fields = Some(self.dispatch.read_fields(&context, keys).await?);
        }
        let (after, to) = (self.page.from, self.page.to);
        self.overtaken = self.dispatch.overtaken(&context, after, to).await?;
        self.exclude_already_delivered().await?;
        self.is_fresh = true;
        Ok(())
    }

    /// Replaces the queue with the new state of its devices. The delivery to a deleted device is settled
    /// as canceled. A device that lost the tag or left the zone is no longer targeted.
    async fn merge_refreshed(&mut self, devices: Vec<AudienceDevice>) -> Result<(), StoreError> {
        let mut old: Vec<AudienceDevice> = self.queue.iter().cloned().collect();
        old.sort_by_key(|device| device.key);
        let mut new = devices.into_iter().peekable();
        let (mut queue, mut missing) = (VecDeque::with_capacity(old.len()), Vec::new());
        for before in old {
            while new.next_if(|device| device.key < before.key).is_some() {}
            if let Some(device) = new.next_if(|device| device.key == before.key) {
                queue.push_back(device);
            } else if self.dispatch.targets(&before) {
                missing.push(before.key);
            }
        }
        let existing = self.existing_devices(&missing).await?;
        let is_queued = |key| queue.binary_search_by_key(&key, |device| device.key).is_ok();
        self.keep_intents(is_queued);
        self.queue = queue;
        for key in missing {
            if existing.binary_search(&key).is_err() {
                self.settle_unsent(key, Outcome::Canceled, reasons::DEVICE_DELETED.into());
            }
        }
        Ok(())
    }

    /// The keys of the missing devices that still exist, in ascending order. These devices only lost the tag,
    /// left the zone or stopped meeting the condition by which they were selected.
    async fn existing_devices(
        &mut self,
        missing: &[DeviceKey],
    ) -> Result<Vec<DeviceKey>, StoreError> {
        let (Some(first), Some(last)) = (missing.first(), missing.last()) else {
            return Ok(Vec::new());
        };
        let row = &self.dispatch.row;
        let is_selected = match (&row.source, row.portion) {
            (AudienceSource::Named { .. }, _) => false,
            (AudienceSource::Platform, Portion::All | Portion::Canary(_) | Portion::Rest(_)) => {
                row.condition.is_some()
            }
            (AudienceSource::Tag(_), _)
            | (AudienceSource::Platform, Portion::Zone(_) | Portion::CatchUp) => true,
        };
        if !is_selected {
            // These devices were not selected by a tag, a zone or a condition, so a missing device was
            // deleted.
            return Ok(Vec::new());
        }
        let (before, last) = (DeviceKey(first.0 - 1), *last);
        let dispatch = self.dispatch.restricted_to(missing.to_vec());
        let devices = self.lane.context.store.read_range(&dispatch, before, last).await?;
        Ok(devices.into_iter().map(|device| device.key).collect())
    }

    /// Makes devices ineligible that got the notification already: their address got it as the address
    /// of another device, or they had their turn in another zone.
    async fn exclude_already_delivered(&mut self) -> Result<(), StoreError> {
        let (dispatch, context) = (&self.dispatch, &self.lane.context);
        for device in &mut self.queue {
            if !dispatch.targets(device) {
                continue;
            }
            let is_already_delivered =
                dispatch.was_delivered_to_previous_owner(device, context).await?
                    || dispatch.was_handled_in_another_zone(device, context).await?;
            if is_already_delivered {
                device.eligible = false;
            }
        }
        Ok(())
    }
}
