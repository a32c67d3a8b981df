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
mod fresh;
mod land;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use notify_core::Timestamp;

use self::batch::Batch;
use self::land::await_commit;
use super::job::{Job, Mode};
use super::lane::Lane;
use super::marks::Mark;
use super::slots::Claim;
use crate::providers::{Answer, SharedProvider};
use crate::store::{AudienceDevice, OpenPage, PageNo, PageProgress, StoreError};

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
    provider: SharedProvider,
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
