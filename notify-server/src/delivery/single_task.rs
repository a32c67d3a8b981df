//! The task of single-device notifications. It sends notifications that came due together, and commits
//! their outcomes in few transactions. The page of each notification is open, and its device was read: by
//! the transaction that started the notification, or by a turn of the lane. The task reads nothing again.
//!
//! A notification that cannot be sent at once, or whose attempt postponed it, continues as an ordinary
//! page.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::Instant;

use super::context::EngineContext;
use super::dispatch::{ActiveDispatch, DeliveryMode};
use super::engine::StartContext;
use super::lane::{Lane, OpenSingle};
use super::sender::{
    Blocked, CheckpointBuilder, CompletedAttempt, Delivery, History, InFlight, PageProgress, Route,
    Sender, UncommittedPermits,
};
use super::start::{Evidence, Lease, Verdict};
use crate::store::{AudienceDevice, Checkpoint, DeviceKey, OpenPage, StoreError};

/// Most open single-device notifications in a lane. At the limit, each further notification has a page task
/// when its turn comes; one start may exceed the limit by at most `EngineConfig::start_batch`. Each
/// notification takes about 3 kB. The limit is high enough for a second of full load during which
/// neither the provider nor the disk answers.
pub(crate) const LANE_SINGLES_MAX: usize = 4_000;

/// A single-device notification.
pub(crate) struct Single {
    pub(crate) dispatch: Arc<ActiveDispatch>,
    pub(crate) page: OpenPage,
    pub(crate) device: AudienceDevice,
    pub(crate) open: OpenSingle,
}

/// Notifications of one lane whose pages were opened together.
pub(crate) struct Singles {
    pub(crate) singles: Vec<Single>,
    pub(crate) start_context: StartContext,
}

/// A notification that waits for its attempt.
struct QueuedSingle {
    dispatch: Arc<ActiveDispatch>,
    device: AudienceDevice,
    page: SinglePage,
}

/// The page of one notification. The page counts as open, and its device as in flight, until this value
/// is dropped after the commit of the outcome.
struct SinglePage {
    page: OpenPage,
    open: OpenSingle,
    start_context: Arc<StartContext>,
}

/// A notification whose attempt completed.
struct CompletedSingle {
    page: SinglePage,
    attempt: CompletedAttempt,
}

/// The outcomes of one commit.
#[derive(Default)]
struct Outcomes {
    checkpoints: Vec<Checkpoint>,
    pages: Vec<SinglePage>,
    permits: UncommittedPermits,
}

/// Outcomes after their commit.
struct CommittedOutcomes {
    outcomes: Outcomes,
    /// The result of each page, in order. It is an error if the page no longer belonged to this server.
    finished: Vec<Result<OpenPage, StoreError>>,
}

/// The task of single-device notifications.
pub(crate) struct SingleTask {
    lane: Arc<Lane>,
    queue: VecDeque<QueuedSingle>,
    /// Outcomes that wait for a commit.
    outcomes: Outcomes,
    /// When the first of the waiting outcomes was added.
    since: Instant,
    sender: Sender,
}

impl SingleTask {
    pub(crate) fn new(lane: &Arc<Lane>) -> Self {
        Self {
            lane: lane.clone(),
            queue: VecDeque::new(),
            outcomes: Outcomes::default(),
            since: Instant::now(),
            sender: Sender::new(lane),
        }
    }

    /// Sends incoming notifications and commits the outcomes, until no work is left.
    pub(crate) async fn run(mut self, mut incoming: UnboundedReceiver<Singles>) {
        let context = self.lane.context.clone();
        let config = &context.config;
        let mut in_flight = InFlight::new();
        let mut commit: Option<BoxFuture<'static, CommittedOutcomes>> = None;
        loop {
            if let Err(error) = self.start_ready(&mut in_flight).await {
                context.backoff_after_storage_error(&error).await;
                continue;
            }
            let is_idle = self.queue.is_empty() && in_flight.is_empty();
            let stopping = context.stop.is_cancelled();
            let waiting = self.outcomes.checkpoints.len();
            let is_commit_due = waiting >= config.checkpoint_outcomes || stopping;
            if commit.is_none() && waiting > 0 && is_commit_due {
                commit = Some(self.commit());
            }
            if is_idle && waiting == 0 && commit.is_none() {
                match incoming.try_recv() {
                    Ok(singles) => self.enqueue(singles),
                    Err(_) if incoming.is_closed() => return,
                    // The lane starts another task for notifications that arrive from now on.
                    Err(_) => incoming.close(),
                }
                continue;
            }
            // Even the last outcomes wait for further ones, because a commit costs more CPU time than
            // the rest of a delivery.
            let due_at = self.since + config.checkpoint_every;
            tokio::select! {
                biased;
                Some(completed) = in_flight.next(), if !in_flight.is_empty() => {
                    self.on_completed(completed);
                    while let Some(Some(completed)) = in_flight.next().now_or_never() {
                        self.on_completed(completed);
                    }
                }
                Some(singles) = incoming.recv() => self.enqueue(singles),
                committed = async { commit.as_mut().expect("checked by the condition").await },
                    if commit.is_some() =>
                {
                    commit = None;
                    self.on_committed(committed);
                }
                () = tokio::time::sleep_until(due_at), if waiting > 0 && commit.is_none() => {
                    commit = Some(self.commit());
                }
                () = self.sender.wait_for_permits() => {}
                () = context.stop.cancelled(), if !stopping => {}
            }
        }
    }

    fn enqueue(&mut self, singles: Singles) {
        let start_context = Arc::new(singles.start_context);
        self.queue.extend(singles.singles.into_iter().map(|single| {
            let Single { dispatch, page, device, open } = single;
            QueuedSingle {
                dispatch,
                device,
                page: SinglePage { page, open, start_context: start_context.clone() },
            }
        }));
    }

    /// Takes the next notification off the queue. After the last notification of a start, no device of
    /// that start waits any more, so its tracker stops recording changes.
    fn dequeue(&mut self) -> Option<QueuedSingle> {
        let next = self.queue.pop_front()?;
        let start_context = &next.page.start_context;
        let is_of_same_start =
            |other: &QueuedSingle| Arc::ptr_eq(&other.page.start_context, start_context);
        if !self.queue.front().is_some_and(is_of_same_start) {
            start_context.tracker.shrink_to(DeviceKey(0), DeviceKey(0));
        }
        Some(next)
    }

    /// Starts attempts until none is left or permits are missing.
    async fn start_ready(
        &mut self,
        in_flight: &mut InFlight<CompletedSingle>,
    ) -> Result<(), StoreError> {
        while let Some(single) = self.queue.front() {
            if self.lane.context.stop.is_cancelled() {
                // The next process resumes the open pages.
                self.queue.clear();
                break;
            }
            let version = self.lane.provider_version();
            let keys = std::iter::once(single.device.key);
            let fields = single.dispatch.read_fields(&self.lane.context, keys).await?;
            let mode = single.dispatch.mode(&self.lane).await?;
            // Nothing is awaited from here until the attempt starts. The checks below therefore see
            // every update of the device, cancellation and change of the provider that was acknowledged
            // before (hazard 8 of docs/delivery.md).
            let now = self.lane.context.clock.now();
            let evidence = self.evidence(single, &mode, version, now);
            let may_start =
                !self.needs_page(single, now) && self.lane.may_start(evidence) == Verdict::Start;
            let DeliveryMode::Send(mode) = mode else {
                self.continue_as_page();
                continue;
            };
            let message = single.dispatch.message_for(single.device.key, &mode, &fields);
            let (true, Ok(payload)) = (may_start, message) else {
                self.continue_as_page();
                continue;
            };
            let provider = mode.provider;
            match self.sender.try_acquire(&single.dispatch, now) {
                Ok(()) => self.start_front(in_flight, Route { provider, payload, version }, now),
                Err(Blocked::Permits) => return Ok(()),
                Err(Blocked::Admission(_)) => self.continue_as_page(),
            }
        }
        self.sender.release();
        Ok(())
    }

    /// Whether the attempt must be recorded first, or the device may have got this notification or a later one. Only
    /// the task of a page records attempts, and finds that out.
    fn needs_page(&self, single: &QueuedSingle, now: Timestamp) -> bool {
        let QueuedSingle { dispatch, device, .. } = single;
        dispatch.records_intents()
            || dispatch.may_be_overtaken(&self.lane.context, now)
            || device.previous_owner.is_some_and(|(_, since)| since >= dispatch.row.due_at)
    }

    /// What is known of the delivery of a notification. Its mode was read when the provider had this version.
    fn evidence(
        &self,
        single: &QueuedSingle,
        mode: &DeliveryMode,
        version: u64,
        now: Timestamp,
    ) -> Evidence {
        let QueuedSingle { dispatch, device, page: SinglePage { page, start_context, .. } } =
            single;
        let context = &self.lane.context;
        let evidence = Evidence::of(dispatch, &self.lane, mode, device, now);
        let is_current = evidence.is_current
            && version == self.lane.provider_version()
            && now.ms_since(start_context.at) <= context.config.address_age_ms_max
            && !start_context.tracker.has_changed(device.key);
        let page_is_ours = start_context.lease_generation == context.membership.lease_generation()
            && now < page.lease_until;
        let lease = if !context.membership.is_valid(now) {
            Lease::ServerExpired
        } else if page_is_ours {
            Lease::Valid
        } else {
            Lease::Expired
        };
        let is_backlog_full = self.lane.retry_backlog_full();
        Evidence { is_current, lease, is_backlog_full, ..evidence }
    }

    /// Starts the attempt of the first notification, for which permits were taken.
    fn start_front(
        &mut self,
        in_flight: &mut InFlight<CompletedSingle>,
        route: Route,
        now: Timestamp,
    ) {
        let Some(QueuedSingle { dispatch, device, page }) = self.dequeue() else { return };
        let delivery = Delivery { dispatch, device, history: History::default() };
        let attempt = self.sender.start(delivery, route, &page.start_context.tracker, now);
        in_flight.push(async move { CompletedSingle { page, attempt: attempt.await } }.boxed());
    }

    fn on_completed(&mut self, completed: CompletedSingle) {
        let CompletedSingle { page, attempt } = completed;
        let mut results = CheckpointBuilder::default();
        match results.record(&self.lane, attempt.complete(&page.start_context.tracker)) {
            // The delivery is postponed, so the notification continues as an ordinary page.
            Some(_) => self.hand_over(page),
            None => self.push(page, results),
        }
    }

    /// Adds an outcome to the next commit.
    fn push(&mut self, page: SinglePage, results: CheckpointBuilder) {
        if self.outcomes.checkpoints.is_empty() {
            self.since = Instant::now();
        }
        let progress = PageProgress {
            targeted: 1,
            excluded: 0,
            at: self.lane.context.clock.now(),
            lease_until: page.page.lease_until,
            finished: true,
            intents: None,
        };
        let (checkpoint, permits) = results.build(page.page, progress);
        self.outcomes.permits.merge(permits);
        self.outcomes.checkpoints.push(checkpoint);
        self.outcomes.pages.push(page);
    }

    /// Passes the first notification of the queue to the lane, which continues it as an ordinary page.
    fn continue_as_page(&mut self) {
        let Some(single) = self.dequeue() else { return };
        self.hand_over(single.page);
    }

    /// Passes the page to the lane, which reads the device again.
    fn hand_over(&self, page: SinglePage) {
        page.open.hand_over();
        self.lane.add_page(page.page);
    }

    /// Takes the waiting outcomes, and returns a future that commits them. The future repeats the commit
    /// while storage fails. The deliveries stay unacknowledged in the meantime, so that the limit
    /// `max_unacked` stops the sending.
    fn commit(&mut self) -> BoxFuture<'static, CommittedOutcomes> {
        let outcomes = std::mem::take(&mut self.outcomes);
        let context = self.lane.context.clone();
        async move {
            loop {
                match context.store.finish_pages(outcomes.checkpoints.clone()).await {
                    Ok(finished) => break CommittedOutcomes { outcomes, finished },
                    Err(error) => context.backoff_after_storage_error(&error).await,
                }
            }
        }
        .boxed()
    }

    fn on_committed(&mut self, committed: CommittedOutcomes) {
        let CommittedOutcomes { outcomes: Outcomes { checkpoints, pages, permits }, finished } =
            committed;
        let context: &Arc<EngineContext> = &self.lane.context;
        context.record_commit();
        // Releases the permits of the unacked limit and the counts of retries.
        drop(permits);
        for (checkpoint, result) in checkpoints.iter().zip(finished) {
            match result {
                Ok(_) => context.metrics.settled(&checkpoint.settled, &checkpoint.dead),
                // The page no longer belongs to this server, so what this server knows of its pages is out
                // of date. Recovery reads them again.
                Err(_) => context.request_recovery(),
            }
        }
        let retries = checkpoints.iter().flat_map(|checkpoint| &checkpoint.retries);
        if let Some(due_at) = retries.map(|retry| retry.due_at).min() {
            context.wake_by(due_at);
        }
        // Records that the pages are no longer open.
        drop(pages);
    }
}
