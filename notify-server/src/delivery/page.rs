//! One page at work: its devices go out over the lane's slots, and what happened is committed in
//! checkpoints.
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
mod fresh;
mod land;
mod parked;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

pub(crate) use self::batch::Batch;
use self::land::await_commit;
pub(crate) use self::land::settle;
use self::parked::Parked;
use super::job::{Job, Mode};
use super::lane::{InService, Lane};
use super::marks::Mark;
use super::slots::Claim;
use crate::changes::Heard;
use crate::providers::Answer;
use crate::reasons;
use crate::store::{AudienceDevice, DeviceKey, OpenPage, PageNo, Settled, StoreError};

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
    /// The gate is closed until then.
    Gate(Timestamp),
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
    gate_changes: Heard,
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
            gate_changes: lane.gate.subscribe(),
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
                    () = shared.stop.told() => {}
                }
            }
            Obstacle::Slots => tokio::select! {
                biased;
                () = self.slot.turn() => {}
                () = shared.stop.told() => {}
            },
            Obstacle::Credit => tokio::select! {
                biased;
                () = self.credit.turn() => {}
                () = shared.stop.told() => {}
            },
            Obstacle::Retries => tokio::select! {
                biased;
                () = self.gate_changes.changed() => {}
                () = tokio::time::sleep(RETRIES_LOOK_EVERY) => self.lane.look_again(),
                () = shared.stop.told() => {}
            },
            Obstacle::Services(None) => tokio::select! {
                biased;
                () = self.gate_changes.changed() => {}
                () = shared.stop.told() => {}
            },
            Obstacle::Gate(until) | Obstacle::Services(Some(until)) => {
                let until = self.job.at_latest(*until);
                tokio::select! {
                    biased;
                    () = self.gate_changes.changed() => {}
                    () = shared.clock.sleep_until(until) => {}
                    () = shared.stop.told() => {}
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
