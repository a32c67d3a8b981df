//! The end of a run: faults stop, and all work has to end in time.

use std::time::Duration;

use notify_core::Timestamp;

use super::checks;
use super::conditions::Condition;
use super::requests::{Process, configure, pause};
use super::run::{Running, Server};
use super::world::{Disk, lock};
use crate::clock::Clock;
use crate::delivery::context::EngineContext;
use crate::store::Agenda;
/// Most time from the last fault to the end of all work, in milliseconds.
const DRAIN_MS: i64 = 2 * 3_600_000;

impl Server {
    /// Ends the faults. All work has to end within [`DRAIN_MS`], and nothing may be due afterwards.
    pub(super) async fn drain(&self, process: &Process, running: &Running) {
        let until = self.end_faults(process).await;
        let mut wait = Duration::from_millis(50);
        loop {
            checks::check_invariants(process);
            let open: Vec<_> = checks::accepted(&lock(&self.world))
                .iter()
                .filter_map(|notification| checks::read(process, notification))
                .filter(|record| !checks::is_finished(record))
                .collect();
            // A canary that failed has paused its notification.
            for record in open.iter().filter(|record| record.paused.is_some()) {
                pause(process.clone(), record.id.as_str().to_owned(), false).await;
            }
            let (is_broken, in_flight) = {
                let world = lock(&self.world);
                (!world.violations.is_empty(), world.in_flight)
            };
            // Canceled notifications have ended, but may still have attempts in flight.
            if is_broken || (open.is_empty() && in_flight == 0) {
                break;
            }
            if running.task.is_finished() {
                return lock(&self.world).record_violation("the engine ended by itself");
            }
            if process.clock.now() >= until {
                let stuck = format!(
                    "{} are stuck, such as {:?}, and {in_flight} in flight",
                    open.len(),
                    open.first()
                );
                return lock(&self.world).record_violation(&stuck);
            }
            tokio::time::sleep(wait).await;
            wait = (wait * 2).min(Duration::from_secs(30));
        }
        // The tasks of completed work may still hold their permits.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let agenda = process.store.peek(process.store.agenda(process.clock.now()));
        let mut world = lock(&self.world);
        if !agenda.as_ref().is_ok_and(|agenda| *agenda == Agenda::default())
            && world.violations.is_empty()
        {
            world.record_violation(&format!("all work has ended, and still due: {agenda:?}"));
        }
        let EngineContext { unacked, unacked_without_dedup, config, .. } = &*running.context;
        let mut permits = vec![
            (unacked.clone(), config.max_unacked),
            (unacked_without_dedup.clone(), config.max_unacked_without_dedup),
        ];
        let share_max = config.lane_unacked_without_dedup_max();
        for lane in running.context.lanes.lock().expect("no holder panics").values() {
            permits.push((lane.unacked_without_dedup.clone(), share_max));
        }
        for (permits, limit) in permits {
            let free = permits.available_permits();
            if free != limit && world.violations.is_empty() {
                world.record_violation(&format!(
                    "all work has ended, and {free} of {limit} unacked permits are free"
                ));
            }
        }
    }

    /// Ends every fault. Returns the time by which all work has to end.
    async fn end_faults(&self, process: &Process) -> Timestamp {
        let missing = {
            let mut world = lock(&self.world);
            world.record_event("faults end");
            world.disk = Disk::default();
            world.crash_after_commits = None;
            for service in world.services.values_mut() {
                service.condition = Condition::Healthy;
                service.set_slots(20);
            }
            world.services.keys().copied().collect::<Vec<_>>()
        };
        // This read consumes a fault that is still set.
        for _ in 0..16 {
            let _ = process.store.check().await;
        }
        for (app, kind) in missing {
            configure(process.clone(), app, kind, Some(0)).await;
        }
        let ids: Vec<String> = lock(&self.world).notifications.keys().cloned().collect();
        for id in ids {
            pause(process.clone(), id, false).await;
        }
        let world = lock(&self.world);
        let last_due = world.notifications.values().map(|notification| notification.due_at).max();
        last_due.unwrap_or_default().max(world.now()).plus_ms(DRAIN_MS)
    }
}
