//! The engine: makes dispatches of what is due, hands them to their lanes, and wakes when the next
//! is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use notify_core::{Platform, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::EngineConfig;
use super::lane::{Lane, LaneRun};
use super::shared::{Shared, Surroundings};
use crate::store::{AppNo, DispatchNo, StoreError};

/// How soon the engine looks again at retries that are past due but were not taken, in
/// milliseconds: their lane is held, or at its bounds.
const LOOK_AGAIN_MS: i64 = 1_000;

/// The delivery engine at work. Dropping it without [`Engine::stop`] leaves it running.
pub struct Engine {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts the engine on a thread with a runtime of its own: sending on a current-thread
    /// runtime costs a third less than on a shared one (`docs/decisions.md`).
    ///
    /// # Errors
    /// When the thread or its runtime cannot be made.
    pub fn start(around: Surroundings, config: EngineConfig) -> std::io::Result<Self> {
        let shared = Shared::new(around, config);
        shared.store.subscribe(shared.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = EngineRun::new(shared.clone());
        let thread = std::thread::Builder::new().name("delivery".into()).spawn(move || {
            #[cfg(test)]
            let killed = run.shared.clone();
            runtime.block_on(async {
                #[cfg(test)]
                tokio::select! {
                    () = run.run() => {}
                    () = killed.killed.notified() => {}
                }
                #[cfg(not(test))]
                run.run().await;
            });
            // Whatever is still on the runtime ends with it.
        })?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hears of every commit of the engine: how far it has come is read from the store then.
    #[must_use]
    pub fn progress(&self) -> watch::Receiver<u64> {
        self.shared.progress.subscribe()
    }

    /// Stops: nothing new begins, what is in flight ends and is committed, the rest stays for the
    /// next start. Answers false when that took longer than `grace`.
    pub async fn stop(mut self, grace: Duration) -> bool {
        self.shared.stop.ask();
        self.shared.wake.notify_one();
        let Some(thread) = self.thread.take() else { return true };
        let joined = tokio::task::spawn_blocking(move || thread.join().is_ok());
        matches!(tokio::time::timeout(grace, joined).await, Ok(Ok(true)))
    }
}

#[cfg(test)]
impl Engine {
    /// Ends the engine where it stands, as a crash of the process does: nothing more is sent or
    /// committed by it once this returns.
    pub(super) async fn abort(mut self) {
        self.shared.killed.notify_one();
        let thread = self.thread.take().expect("the engine runs");
        tokio::task::spawn_blocking(move || thread.join()).await.unwrap().unwrap();
    }
}

/// The engine's own work.
pub(super) struct EngineRun {
    shared: Arc<Shared>,
    lanes: JoinSet<()>,
    /// Dispatches that a process before this one left behind.
    backlog: VecDeque<DispatchNo>,
}

impl EngineRun {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, lanes: JoinSet::new(), backlog: VecDeque::new() }
    }

    /// Works until it is told to stop, and then until every lane has come to its end.
    pub(super) async fn run(mut self) {
        while !self.shared.stop.asked() {
            let next = match self.look().await {
                Ok(next) => next,
                Err(error) => {
                    self.shared.storage_failed(&error).await;
                    continue;
                }
            };
            let shared = self.shared.clone();
            tokio::select! {
                () = shared.wake.notified() => {}
                () = shared.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
                () = shared.stop.told() => {}
            }
        }
        while self.lanes.join_next().await.is_some() {}
    }

    /// Takes on what is due, and answers when to look again.
    async fn look(&mut self) -> Result<Option<Timestamp>, StoreError> {
        if self.shared.adoption_asked.swap(false, Ordering::AcqRel)
            && let Err(error) = self.adopt().await
        {
            self.shared.adoption_asked.store(true, Ordering::Release);
            return Err(error);
        }
        self.take_backlog().await?;
        // One instant for the whole look: what becomes due in the middle of it is seen as next.
        let now = self.shared.clock.now();
        self.start_due(now).await?;
        for (app, platform) in self.shared.store.retry_lanes(now).await? {
            self.lane(app, platform).retries_due();
        }
        let retry_due = self.shared.store.next_retry_due().await?;
        // One that is past due was handed to its lane just now.
        let retry_due =
            retry_due.map(|due| if due > now { due } else { now.plus_ms(LOOK_AGAIN_MS) });
        let due = self.shared.store.next_due().await?;
        // What is due already waits for room, of which its lane will tell.
        let due = due.filter(|due| *due > now);
        Ok(match (due, retry_due) {
            (Some(due), Some(retry)) => Some(due.min(retry)),
            (due, retry) => due.or(retry),
        })
    }

    /// Takes over what other processes, or broken tasks of this one, left open.
    async fn adopt(&mut self) -> Result<(), StoreError> {
        let lease_until = self.shared.clock.now().plus_ms(self.shared.config.lease_ms);
        let adopted = self.shared.store.adopt(self.shared.epoch, lease_until).await?;
        for page in adopted.pages {
            if !self.shared.page_is_open(page.no) {
                self.lane(page.to.app(), page.to.platform()).add_page(page);
            }
        }
        self.backlog = adopted.dispatches.into();
        Ok(())
    }

    async fn take_backlog(&mut self) -> Result<(), StoreError> {
        while self.has_room()
            && let Some(no) = self.backlog.front().copied()
        {
            self.take_on(no).await?;
            self.backlog.pop_front();
        }
        Ok(())
    }

    async fn start_due(&mut self, now: Timestamp) -> Result<(), StoreError> {
        while self.has_room() && self.backlog.is_empty() {
            let (dispatches, more) =
                self.shared.store.start_due(now, self.shared.config.start_batch).await?;
            // They are started: whatever fails from here on must find them in the backlog.
            self.backlog.extend(dispatches);
            self.shared.committed();
            self.take_backlog().await?;
            if !more {
                break;
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.shared.dispatches_open() < self.shared.config.dispatches_open_max
    }

    async fn take_on(&mut self, no: DispatchNo) -> Result<(), StoreError> {
        let dispatch = match self.shared.store.dispatch(no).await {
            Ok(dispatch) => dispatch,
            // Erased with its application.
            Err(StoreError::NotFound) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !dispatch.scan_done && self.shared.dispatch_opened(no) {
            self.lane(dispatch.app, dispatch.platform).add_dispatch(dispatch);
        }
        Ok(())
    }

    fn lane(&mut self, app: AppNo, platform: Platform) -> Arc<Lane> {
        let mut lanes = self.shared.lanes.lock().expect("no holder of the lanes panics");
        let lane = lanes.entry((app, platform)).or_insert_with(|| {
            let lane = Lane::new(app, platform, self.shared.clone());
            self.lanes.spawn(LaneRun::new(lane.clone()).run());
            lane
        });
        lane.clone()
    }
}
