//! The work of a lane: adopted pages, then retries, then the next pages of its dispatches by turns.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{Id, JoinError, JoinSet};

use super::Lane;
use super::hand::Hand;
use crate::changes::Heard;
use crate::delivery::job::Job;
use crate::delivery::page::PageEnd;
use crate::delivery::singles::Singles;
use crate::store::{DispatchNo, OpenPage, StoreError};

/// The work of a lane: which dispatches take turns, and what is open.
pub(crate) struct LaneRun {
    pub(super) lane: Arc<Lane>,
    pub(super) turns: VecDeque<Arc<Job>>,
    /// Dispatches that wait for a turn without being held in memory.
    later: VecDeque<DispatchNo>,
    pub(super) jobs: VecDeque<Arc<Job>>,
    pub(super) running: JoinSet<Finished>,
    /// How many devices of each open page wait, by its task.
    pub(super) open: HashMap<Id, Arc<AtomicUsize>>,
    /// What each task of retries has claimed, by its task.
    pub(super) hands: HashMap<Id, Arc<Hand>>,
    /// Channel to the task that sends notifications to one device each, bounded by `LANE_SINGLES_MAX`.
    pub(super) singles: Option<UnboundedSender<Singles>>,
    pub(super) retries_due: bool,
    /// Whether retries that are due wait for a change of the gate.
    pub(super) retries_wait: bool,
    /// Retries may be claimed here of which nothing was heard: their claim failed, or giving them back.
    pub(super) claims_lost: bool,
    pub(super) gate_changes: Heard,
    /// Whether it knows what stood before it.
    pub(super) begun: bool,
}

/// A task of a lane that came to its end.
pub(super) enum Finished {
    Page(PageEnd),
    Retries,
    Singles,
}

impl LaneRun {
    pub(crate) fn new(lane: Arc<Lane>) -> Self {
        Self {
            gate_changes: lane.gate.subscribe(),
            lane,
            turns: VecDeque::new(),
            later: VecDeque::new(),
            jobs: VecDeque::new(),
            running: JoinSet::new(),
            open: HashMap::new(),
            hands: HashMap::new(),
            singles: None,
            retries_due: false,
            retries_wait: false,
            claims_lost: false,
            begun: false,
        }
    }

    /// Works until the engine stops, and then until what is in flight has ended.
    pub(crate) async fn run(mut self) {
        let shared = self.lane.shared.clone();
        loop {
            // Looked at once: a sign given while work is taken on must not go unheard below.
            let stopping = shared.stop.asked();
            if stopping && self.running.is_empty() {
                return;
            }
            if !stopping && let Err(error) = self.take_on().await {
                shared.storage_failed(&error).await;
                continue;
            }
            let lane = self.lane.clone();
            tokio::select! {
                biased;
                Some(finished) = self.running.join_next_with_id() => self.finished(finished),
                () = lane.wake.notified() => {}
                () = self.gate_changes.changed(), if self.retries_wait => {
                    self.retries_due = true;
                }
                () = shared.stop.told(), if !stopping => {}
            }
        }
    }

    fn finished(&mut self, finished: Result<(Id, Finished), JoinError>) {
        let task = finished.as_ref().map_or_else(JoinError::id, |(task, _)| *task);
        self.open.remove(&task);
        // Of a task that broke off its claims run out.
        self.hands.remove(&task);
        match finished {
            Ok((_, Finished::Page(PageEnd::Over) | Finished::Retries | Finished::Singles)) => {}
            Ok((_, Finished::Page(PageEnd::Fenced))) => self.lane.shared.ask_for_adoption(),
            // A panic must not take the lane with it: what the task held is adopted again.
            Err(error) => {
                tracing::error!(error = %error, "a delivery task broke off");
                self.lane.shared.ask_for_adoption();
            }
        }
    }

    /// Takes on what the bounds allow: adopted pages, then retries, then the next pages by turns.
    async fn take_on(&mut self) -> Result<(), StoreError> {
        if !self.begun {
            self.begin().await?;
        }
        self.read_inbox().await?;
        // Some ended without being tried: canceled, or erased with their device.
        if self.lane.has_retries_in_plenty() {
            self.count_retries().await?;
        }
        if self.retries_due && self.may_claim() {
            self.start_retries().await?;
        }
        while self.room() {
            self.fill_turns().await?;
            let Some(job) = self.turns.pop_front() else { break };
            match self.open_next_page(&job).await {
                Ok(true) => self.turns.push_back(job),
                Ok(false) => self.lane.shared.dispatch_scanned(job.dispatch.no),
                Err(error) => {
                    self.turns.push_front(job);
                    return Err(error);
                }
            }
        }
        let has_others = !(self.turns.is_empty() && self.later.is_empty() && self.open.is_empty());
        self.lane.has_others(has_others);
        Ok(())
    }

    /// Learns what stood before this process: whether the lane is stopped, what other servers say of
    /// it, and how many retries are open. Ahead of everything else, so that nothing goes out of a lane that is stopped.
    async fn begin(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        let version = self.lane.provider_version();
        let stopped = shared.store.purge_stopped(self.lane.app, self.lane.platform).await?;
        // One released meanwhile is not stopped again.
        if stopped && version == self.lane.provider_version() {
            self.lane.stop_sending();
        }
        if shared.config.among_others {
            self.lane.hear_others().await?;
        }
        self.count_retries().await?;
        self.begun = true;
        Ok(())
    }

    fn room(&self) -> bool {
        let config = &self.lane.shared.config;
        self.open.len() < config.lane_pages_max
            && self.lane.parked.load(Ordering::Acquire) < config.lane_parked_max
            && self.open.values().map(|page| page.load(Ordering::Acquire)).sum::<usize>()
                < config.lane_devices_max
    }

    async fn read_inbox(&mut self) -> Result<(), StoreError> {
        let inbox = std::mem::take(&mut *self.lane.inbox.lock().expect("no holder panics"));
        self.retries_due |= inbox.retries_due || inbox.provider_changed;
        inbox.singles.into_iter().for_each(|singles| self.send_singles(singles));
        for job in inbox.dispatches {
            if self.later.is_empty()
                && self.turns.len() < self.lane.shared.config.lane_dispatches_max
            {
                self.turns.push_back(job);
            } else {
                self.later.push_back(job.dispatch.no);
            }
        }
        let mut pages = inbox.pages;
        while let Some(page) = pages.front().copied() {
            match self.resume(page).await {
                Ok(()) => drop(pages.pop_front()),
                Err(error) => return Err(self.put_back(pages, error)),
            }
        }
        Ok(())
    }

    /// Reads dispatches that wait, as far as they find a place.
    async fn fill_turns(&mut self) -> Result<(), StoreError> {
        let shared = self.lane.shared.clone();
        while self.turns.len() < shared.config.lane_dispatches_max
            && let Some(no) = self.later.front().copied()
        {
            match Job::read(&shared, no).await {
                Ok(job) => self.turns.push_back(job),
                // Erased with its application.
                Err(StoreError::NotFound) => shared.dispatch_scanned(no),
                Err(error) => return Err(error),
            }
            self.later.pop_front();
        }
        Ok(())
    }

    fn put_back(&self, pages: VecDeque<OpenPage>, error: StoreError) -> StoreError {
        let mut inbox = self.lane.inbox.lock().expect("no holder panics");
        for page in pages.into_iter().rev() {
            inbox.pages.push_front(page);
        }
        error
    }
}
