//! Runs one seed: the consecutive runs of a server on one thread, until the script ends.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify_core::Timestamp;
use tokio::task::{JoinHandle, JoinSet};

use super::clock::SimulatedClock;
use super::defects::{Defect, LossyListener};
use super::provider::SimulatedSource;
use super::requests::Process;
use super::script::{Script, ScriptEnd};
use super::setup::{config, empty_store, workspace};
use super::trace::START;
use super::world::{SharedWorld, World, lock};
use super::{checks, disk, outcomes, panics};
use crate::api::KeyCache;
use crate::delivery::context::EngineContext;
use crate::delivery::engine::{self, EngineTask};
use crate::delivery::{EngineConfig, EngineDeps};
use crate::store::SharedStore;
use crate::store::Store;
use crate::store::sqlite;
use crate::telemetry::DeliveryMetrics;

/// Longest duration of an orderly stop: an attempt that has just started, and storage failures.
const STOP_MAX: Duration = Duration::from_secs(90);

/// The result of a seed.
pub(super) struct Report {
    /// Hash over every event and its time.
    pub(super) hash: u64,
    pub(super) events: u64,
    /// Broken invariants.
    pub(super) violations: Vec<String>,
    pub(super) trace: Vec<String>,
}

/// How a run of the server ended.
enum LifeEnd {
    Crashed,
    Stopped,
    Finished,
}

/// Runs a seed to its end, and keeps that many lines of its trace.
pub(super) fn run(seed: u64, lines_max: usize, defect: Option<Defect>) -> Report {
    panics::install_hook();
    panics::take_panicked();
    let folder = workspace();
    let path = folder.path().join("notify.db");
    std::fs::write(&path, empty_store()).expect("the folder is writable");
    if let Some(defect) = defect {
        defect.plant(&path);
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let config = config(&mut rng, defect);
    let world = Arc::new(Mutex::new(World::new(rng.u64(..), lines_max, defect)));
    lock(&world).unacked_max =
        config.max_unacked as u64 - u64::from(defect == Some(Defect::UnackedLimitExceeded));
    lock(&world).without_dedup_max = config.max_unacked_without_dedup as u64;
    let mut server = Server {
        path,
        config,
        world,
        script: Script::new(rng.fork()),
        rng,
        lives: 0,
        context: None,
    };
    let mut wall = START;
    while let LifeEnd::Crashed | LifeEnd::Stopped = server.run_life(wall) {
        wall = lock(&server.world).now().plus_ms(server.rng.i64(0..90_000));
    }
    drop(folder);
    let world = std::mem::replace(&mut *lock(&server.world), World::new(0, 0, None));
    Report {
        hash: world.trace.hash(),
        events: world.trace.events(),
        violations: world.violations,
        trace: world.trace.into_lines(),
    }
}

/// A server with its database, over all its runs.
pub(super) struct Server {
    path: PathBuf,
    pub(super) config: EngineConfig,
    pub(super) world: SharedWorld,
    pub(super) script: Script,
    pub(super) rng: fastrand::Rng,
    lives: u64,
    /// The engine of this run.
    context: Option<Arc<EngineContext>>,
}

/// The engine of one run.
pub(super) struct Running {
    pub(super) context: Arc<EngineContext>,
    pub(super) task: JoinHandle<()>,
}

impl Server {
    /// Runs the server from one start to the next. Dropping the runtime aborts the rest of the process.
    fn run_life(&mut self, wall: Timestamp) -> LifeEnd {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let store = sqlite::open_inline(&self.path).expect("the store opens");
        let end = runtime.block_on(async {
            let end = self.run_process(store.clone(), wall).await;
            // Inside the runtime, because the time outside is not simulated.
            lock(&self.world).stop_clock();
            end
        });
        drop(runtime);
        // Engine and store refer to each other. The file is free only when both are dropped.
        store.forget_listeners();
        if let Some(context) = self.context.take() {
            context.lanes.lock().expect("no holder panicked").clear();
        }
        assert_eq!(Arc::strong_count(&store), 1, "the store is still in use");
        end
    }

    async fn run_process(&mut self, store: Arc<Store>, wall: Timestamp) -> LifeEnd {
        let clock = SimulatedClock::start(wall);
        lock(&self.world).clock = Some(clock.clone());
        let shared: SharedStore = store.clone();
        let keys = KeyCache::new(&shared);
        if lock(&self.world).defect == Some(Defect::RevocationMissed) {
            store.forget_listeners();
        }
        let process = Process { world: self.world.clone(), store: store.clone(), clock, keys };
        tokio::spawn(disk::read(store.clone(), self.world.clone()));
        tokio::spawn(disk::write(store.clone(), self.world.clone()));
        self.lives += 1;
        if self.lives == 1 {
            self.set_up(&process).await;
        } else {
            checks::check_after_restart(&process);
        }
        lock(&self.world).is_dead = false;
        let running = self.start(&process);
        let mut tasks = JoinSet::new();
        let dies = lock(&self.world).crash_signal.clone();
        let script_end = tokio::select! {
            biased;
            () = dies.notified() => None,
            turn = self.script.play(&process, &mut tasks) => Some(turn),
        };
        match script_end {
            None => {
                self.crash(&process);
                LifeEnd::Crashed
            }
            Some(_) if !lock(&self.world).violations.is_empty() => LifeEnd::Finished,
            Some(ScriptEnd::Restart) => {
                while tasks.join_next().await.is_some() {}
                if self.stop(running).await {
                    LifeEnd::Stopped
                } else {
                    self.crash(&process);
                    LifeEnd::Crashed
                }
            }
            Some(ScriptEnd::Finished) => {
                while tasks.join_next().await.is_some() {}
                self.drain(&process, &running).await;
                if lock(&self.world).violations.is_empty() {
                    outcomes::check_at_end(&process);
                    let stops = self.stop(running).await;
                    debug_assert!(stops, "the disk has room");
                }
                checks::check_invariants(&process);
                LifeEnd::Finished
            }
        }
    }

    fn start(&mut self, process: &Process) -> Running {
        let store: SharedStore = process.store.clone();
        let world = self.world.clone();
        let deps = EngineDeps {
            store: store.clone(),
            providers: Arc::new(SimulatedSource { store, world }),
            clock: process.clock.clone(),
            public_url: "http://localhost".into(),
            metrics: DeliveryMetrics::default(),
        };
        // Each process has its own seed.
        let config = EngineConfig { seed: Some(self.rng.u64(..)), ..self.config.clone() };
        let context = EngineContext::new(deps, config);
        let defect = lock(&self.world).defect;
        if let Some(defect @ (Defect::ChangesMissed | Defect::PauseMissed)) = defect {
            process.store.subscribe(Arc::new(LossyListener(context.clone(), defect)));
        } else {
            engine::subscribe(&context);
        }
        self.context = Some(context.clone());
        let task = tokio::spawn(EngineTask::new(context.clone()).run());
        lock(&self.world).record_event("the engine starts");
        Running { context, task }
    }

    /// Kills the process. Writes that waited for the disk may still reach it.
    fn crash(&mut self, process: &Process) {
        if self.rng.bool() {
            let writes = process.store.commit_waiting(self.rng.usize(1..8));
            let recorded = process.store.peek_sent();
            lock(&self.world).committed(writes, recorded);
        }
        lock(&self.world).crash(|notification| process.recorded(notification));
    }

    /// Stops the engine. Returns false if the process has to be killed, because no write succeeds.
    async fn stop(&self, running: Running) -> bool {
        running.context.stop.cancel();
        running.context.wake.notify_one();
        let stopped = tokio::time::timeout(STOP_MAX, running.task).await;
        let mut world = lock(&self.world);
        match stopped {
            Ok(Ok(())) if world.in_flight == 0 => drop(world.record_event("the engine stops")),
            Ok(Ok(())) => world.record_violation("the engine stopped with something in flight"),
            Ok(Err(_)) => world.record_violation("the engine panicked"),
            Err(_) if world.disk_is_full() => return false,
            Err(_) => world.record_violation("the engine does not stop"),
        }
        true
    }
}
