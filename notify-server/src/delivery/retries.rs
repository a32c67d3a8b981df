//! Deliveries that are tried again: rows of their own, claimed when due, read anew at each try.

mod land;
mod start;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::time::Instant;

use super::job::Job;
use super::lane::{Hand, InService, Lane};
use super::marks::Mark;
use super::slots::Claim;
use crate::providers::Answer;
use crate::store::{ClaimedRetry, RetryOutcome};

/// A retry whose attempt came back.
struct Landed {
    retry: ClaimedRetry,
    job: Arc<Job>,
    /// What it went through, counted there until this is dropped.
    service: Option<InService>,
    /// Version of the provider that was asked.
    version: u64,
    answer: Answer,
}

type Flights = FuturesUnordered<BoxFuture<'static, Landed>>;

/// Tries claimed retries and commits what became of them, in small groups. The mark was opened
/// before they were claimed, and their devices read.
pub(super) async fn run(
    lane: &Arc<Lane>,
    claimed: Vec<ClaimedRetry>,
    jobs: &[Arc<Job>],
    (mark, hand, tenure): (Arc<Mark>, Arc<Hand>, u64),
) {
    let mut work = Retries {
        lane: lane.clone(),
        jobs,
        mark,
        hand,
        tenure,
        queue: claimed.into(),
        outcomes: Vec::new(),
        credits: 0,
        in_flight: 0,
        since: Instant::now(),
        slot: Claim::new(&lane.slots),
        credit: Claim::new(&lane.shared.credit),
    };
    let mut flights = Flights::new();
    loop {
        if let Err(error) = work.start_what_may_start(&mut flights).await {
            lane.shared.storage_failed(&error).await;
            continue;
        }
        if work.wants_commit() || (work.queue.is_empty() && flights.is_empty()) {
            work.commit().await;
        }
        if work.queue.is_empty() && flights.is_empty() {
            return;
        }
        tokio::select! {
            biased;
            Some(landed) = flights.next(), if !flights.is_empty() => work.land(landed),
            () = tokio::time::sleep_until(work.since + lane.shared.config.checkpoint_every),
                if !work.outcomes.is_empty() => work.commit().await,
            () = work.slot.turn() => {}
            () = work.credit.turn() => {}
            () = lane.shared.stop.told(), if !work.queue.is_empty() => {}
        }
    }
}

/// Retries at work. Dropped, it gives back every place that it holds.
struct Retries<'a> {
    lane: Arc<Lane>,
    jobs: &'a [Arc<Job>],
    mark: Arc<Mark>,
    hand: Arc<Hand>,
    /// The server's tenure when they were claimed.
    tenure: u64,
    queue: VecDeque<ClaimedRetry>,
    outcomes: Vec<RetryOutcome>,
    /// Credit that is owed until the outcomes are committed.
    credits: usize,
    in_flight: usize,
    since: Instant,
    slot: Claim,
    credit: Claim,
}

impl Drop for Retries<'_> {
    /// Also when the work broke off: a place that is not given back is lost for good.
    fn drop(&mut self) {
        self.lane.shared.credit.give_back(self.credits + self.in_flight);
        self.lane.streams_dropped(self.in_flight);
    }
}
