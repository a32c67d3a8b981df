//! The end: faults stop, and everything has to be over in time.

use std::time::Duration;

use notify_core::Timestamp;

use super::checks;
use super::requests::{Process, configure};
use super::run::{Running, Server};
use super::weather::Weather;
use super::world::{Disk, lock};
use crate::clock::Clock;
use crate::store::Agenda;
/// How long after the last fault everything has to be over, in milliseconds.
const DRAIN_MS: i64 = 2 * 3_600_000;

impl Server {
    /// Faults end. Everything has to be over within [`DRAIN_MS`], and nothing left to be due.
    pub(super) async fn drain(&self, process: &Process, running: &Running) {
        let until = self.calm(process).await;
        let mut pause = Duration::from_millis(50);
        loop {
            checks::look(process);
            let open: Vec<_> = checks::accepted(&lock(&self.world))
                .iter()
                .filter_map(|notice| checks::read(process, notice))
                .filter(|record| !checks::is_over(record))
                .collect();
            let (is_broken, in_flight) = {
                let world = lock(&self.world);
                (!world.broken.is_empty(), world.in_flight)
            };
            // What was canceled is over, and may be in flight still.
            if is_broken || (open.is_empty() && in_flight == 0) {
                break;
            }
            if running.task.is_finished() {
                return lock(&self.world).broke("the engine ended by itself");
            }
            if process.clock.now() >= until {
                let stuck = format!(
                    "{} are stuck, such as {:?}, and {in_flight} in flight",
                    open.len(),
                    open.first()
                );
                return lock(&self.world).broke(&stuck);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(30));
        }
        // What is done may still give places back.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let agenda = process.store.peek(process.store.agenda(process.clock.now()));
        let mut world = lock(&self.world);
        if !agenda.as_ref().is_ok_and(|agenda| *agenda == Agenda::default())
            && world.broken.is_empty()
        {
            world.broke(&format!("all is over, and still due: {agenda:?}"));
        }
        let (free, credit) = (running.context.unacked.available_permits(), self.config.max_unacked);
        if free != credit && world.broken.is_empty() {
            world.broke(&format!("all is over, and of a credit of {credit} {free} are free"));
        }
    }

    /// Ends every fault; answers until when all has to be over.
    async fn calm(&self, process: &Process) -> Timestamp {
        let missing = {
            let mut world = lock(&self.world);
            world.note("faults end");
            world.disk = Disk::default();
            world.dies_after = None;
            for service in world.services.values_mut() {
                service.weather = Weather::Fine;
                service.offer(20);
            }
            world.services.keys().copied().collect::<Vec<_>>()
        };
        // A fault that is still set is met here.
        for _ in 0..16 {
            let _ = process.store.check().await;
        }
        for (app, kind) in missing {
            configure(process.clone(), app, kind, Some(0)).await;
        }
        let world = lock(&self.world);
        let last_due = world.notices.values().map(|notice| notice.due_at).max();
        last_due.unwrap_or_default().max(world.now()).plus_ms(DRAIN_MS)
    }
}
