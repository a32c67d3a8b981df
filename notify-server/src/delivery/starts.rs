//! Starting what is due: when the engine looks, and in the very commit that accepts it, which saves a
//! commit and a turn of the engine for each notification that is sent at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use notify_core::Timestamp;
use tokio::sync::Notify;

use super::marks::Mark;
use super::shared::Shared;
use crate::store::{
    DeviceKey, DispatchNo, OpenedDispatch, Opening, StartDue, StartHook, StartWithAccept, Started,
};

/// Most starts that wait for the engine. While there are so many, what is accepted is started when the
/// engine looks next.
const STARTS_WAITING_MAX: usize = 16;

/// What the engine has to know of a start from before it.
pub(crate) struct PreparedStart {
    pub(crate) at: Timestamp,
    /// Opened ahead of the devices, which are read with the start (trap 8).
    pub(crate) mark: Arc<Mark>,
    /// The server's tenure.
    pub(crate) tenure: u64,
    /// How many cancellations there were.
    pub(crate) cancellations: u64,
}

/// What was started and is to be taken on. Its pages count as open.
pub(crate) struct CommittedStart {
    pub(crate) prepared: PreparedStart,
    pub(crate) dispatches: Vec<DispatchNo>,
    pub(crate) opened: Vec<OpenedDispatch>,
}

impl PreparedStart {
    /// A start, and what the store is asked for.
    pub(crate) fn new(shared: &Shared, now: Timestamp) -> (Self, StartDue) {
        let lanes = {
            let lanes = shared.lanes.lock().expect("no holder of the lanes panics");
            let taking = lanes.iter().filter(|(_, lane)| lane.takes_singles(now));
            taking.map(|(of, _)| *of).collect()
        };
        let prepared = Self {
            at: now,
            mark: shared.marks.open(DeviceKey(0), DeviceKey(i64::MAX)),
            tenure: shared.standing.tenure(),
            cancellations: shared.cancellations(),
        };
        let lease_until = now.plus_ms(shared.config.lease_ms);
        let opening = Some(Opening { epoch: shared.epoch, lease_until, lanes });
        (prepared, StartDue { now, limit: shared.config.start_batch, opening })
    }

    /// The start is committed. Called before anything else is written, so that no adoption takes the
    /// pages for some that were left behind.
    pub(crate) fn committed(self, shared: &Shared, started: Started) -> CommittedStart {
        let Started { dispatches, opened, agenda: _ } = started;
        for OpenedDispatch { page, .. } in &opened {
            shared.page_opened(page.no);
        }
        #[cfg(test)]
        shared.opened_with_start.fetch_add(opened.len(), std::sync::atomic::Ordering::AcqRel);
        CommittedStart { prepared: self, dispatches, opened }
    }
}

/// Starts of commits that accepted notifications, until the engine takes them on.
#[derive(Default)]
pub(crate) struct Starts {
    waiting: Mutex<VecDeque<CommittedStart>>,
    committed: Notify,
}

impl Starts {
    /// Returns when there is one, or was since the last time.
    pub(crate) async fn committed(&self) {
        self.committed.notified().await;
    }

    /// Takes the next one.
    pub(crate) fn next(&self) -> Option<CommittedStart> {
        self.waiting.lock().expect("no holder panics").pop_front()
    }
}

/// Has the engine learn of changes, and what is accepted started with its commit.
pub(crate) fn subscribe(shared: &Arc<Shared>) {
    shared.store.subscribe(shared.clone());
    // Servers that share a database take turns with what any of them accepted.
    if !shared.config.among_others {
        shared.store.start_with_accept(hook(Arc::downgrade(shared)));
    }
}

fn hook(shared: Weak<Shared>) -> StartHook {
    Box::new(move || {
        let shared = shared.upgrade()?;
        let waiting = shared.starts.waiting.lock().expect("no holder panics").len();
        if shared.stop.asked() || shared.ended.is_cancelled() || waiting >= STARTS_WAITING_MAX {
            return None;
        }
        let (prepared, due) = PreparedStart::new(&shared, shared.clock.now());
        let done = Box::new(move |started: Option<Started>| match started {
            Some(started) => {
                let start = prepared.committed(&shared, started);
                shared.starts.waiting.lock().expect("no holder panics").push_back(start);
                shared.starts.committed.notify_one();
            }
            None => shared.ask_for_adoption(),
        });
        Some(StartWithAccept { due, done })
    })
}
