//! Starting due notifications: when the engine polls, and in the commit that accepts them. The
//! latter saves a commit and a poll for each notification that is sent at once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

use notify_core::Timestamp;
use tokio::sync::Notify;

use super::context::EngineContext;
use super::device_tracker::RangeTracker;
use super::lane::OpenSingle;
use crate::store::{
    DeviceKey, DispatchNo, OpenedDispatch, Opening, StartDue, StartHook, StartInAccept, Started,
};

/// Most starts that wait for the engine. Beyond that, accepted notifications are started by the
/// next poll.
const STARTS_WAITING_MAX: usize = 16;

/// State read before a start.
pub(crate) struct StartContext {
    pub(crate) at: Timestamp,
    /// Opened before the devices are read with the start, so that it holds what changed since
    /// (hazard 8 of docs/delivery.md).
    pub(crate) tracker: Arc<RangeTracker>,
    /// The server's lease generation when the pages were known to be its own.
    pub(crate) lease_generation: u64,
    /// Number of cancellations so far.
    pub(crate) cancellations: u64,
}

/// A committed start that waits for the engine.
pub(crate) struct PendingStart {
    pub(crate) start_context: StartContext,
    pub(crate) dispatches: Vec<DispatchNo>,
    pub(crate) pages: Vec<PendingPage>,
}

/// A page that was opened with its start.
pub(crate) struct PendingPage {
    pub(crate) opened: OpenedDispatch,
    pub(crate) open: OpenSingle,
}

impl StartContext {
    /// The state before a start, and the request to the store.
    pub(crate) fn new(context: &EngineContext, now: Timestamp) -> (Self, StartDue) {
        let lanes = {
            let lanes = context.lanes.lock().expect("no holder of the lanes panics");
            let taking = lanes.iter().filter(|(_, lane)| lane.takes_singles(now));
            taking.map(|(of, _)| *of).collect()
        };
        let start_context = Self {
            at: now,
            tracker: context.devices.open(DeviceKey(0), DeviceKey(i64::MAX)),
            lease_generation: context.membership.lease_generation(),
            cancellations: context.cancellations(),
        };
        let lease_until = now.plus_ms(context.config.lease_ms);
        let opening = Some(Opening { instance: context.instance, lease_until, lanes });
        (start_context, StartDue { now, limit: context.config.start_batch, opening })
    }

    /// Records the committed start. Called before anything else is written, so that recovery does
    /// not reclaim its pages as abandoned.
    pub(crate) fn commit(self, context: &Arc<EngineContext>, started: Started) -> PendingStart {
        let Started { dispatches, opened, agenda: _ } = started;
        #[cfg(test)]
        context.opened_with_start.fetch_add(opened.len(), std::sync::atomic::Ordering::AcqRel);
        let lanes = context.lanes.lock().expect("no holder of the lanes panics");
        let pages = opened.into_iter().filter_map(|opened| {
            let lane = lanes.get(&(opened.dispatch.app, opened.dispatch.platform));
            debug_assert!(lane.is_some(), "pages are opened only for known lanes");
            let open = lane?.open_single(opened.page.no);
            Some(PendingPage { opened, open })
        });
        PendingStart { start_context: self, dispatches, pages: pages.collect() }
    }
}

/// Starts from commits that accepted notifications, until the engine assigns them.
#[derive(Default)]
pub(crate) struct Starts {
    waiting: Mutex<VecDeque<PendingStart>>,
    arrived: Notify,
}

impl Starts {
    /// Returns when a start is waiting, or was added since the last call.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }

    /// Takes the next start.
    pub(crate) fn next(&self) -> Option<PendingStart> {
        self.waiting.lock().expect("no holder panics").pop_front()
    }
}

/// Subscribes the engine to changes, and starts notifications in the commit that accepts them.
pub(crate) fn subscribe(context: &Arc<EngineContext>) {
    context.store.subscribe(context.clone());
    // With several servers, any of them may start what one accepted, so that they share the load.
    if !context.config.clustered {
        context.store.start_with_accept(hook(Arc::downgrade(context)));
    }
}

fn hook(context: Weak<EngineContext>) -> StartHook {
    Box::new(move || {
        let context = context.upgrade()?;
        let waiting = context.starts.waiting.lock().expect("no holder panics").len();
        if context.stop.is_cancelled()
            || context.ended.is_cancelled()
            || waiting >= STARTS_WAITING_MAX
        {
            return None;
        }
        let (start_context, due) = StartContext::new(&context, context.clock.now());
        let done = Box::new(move |started: Option<Started>| match started {
            Some(started) => {
                let next_due = started.agenda.next_due;
                let start = start_context.commit(&context, started);
                context.starts.waiting.lock().expect("no holder panics").push_back(start);
                context.starts.arrived.notify_one();
                if let Some(due) = next_due {
                    context.wake_by(due);
                }
            }
            None => context.request_recovery(),
        });
        Some(StartInAccept { due, done })
    })
}
