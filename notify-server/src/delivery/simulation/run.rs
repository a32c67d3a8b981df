//! One seed: a server's lives one after another, on one thread, and its end.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use notify_core::{AppId, NewApp, Platform, ProviderKind, Timestamp};
use tokio::task::{JoinHandle, JoinSet};
use uuid::Uuid;

use super::clock::SimulatedClock;
use super::defects::Defect;
use super::provider::SimulatedSource;
use super::requests::{Process, configure, register};
use super::script::{Script, Turn};
use super::trace::START;
use super::weather::Weather;
use super::world::{Disk, Service, SharedWorld, World, lock};
use super::{checks, disk, panics};
use crate::clock::Clock;
use crate::delivery::engine::EngineRun;
use crate::delivery::shared::Shared;
use crate::delivery::{EngineConfig, Surroundings};
use crate::store::sqlite::SqliteStore;
use crate::store::{AppStore, DeliveryStore, SharedStore, Store};

/// How long after the last fault everything has to be over, in milliseconds.
const DRAIN_MS: i64 = 2 * 3_600_000;
/// How long an orderly stop may take: an attempt that was just begun, and storage that fails.
const STOP_MAX: Duration = Duration::from_secs(90);

/// What became of a seed.
pub(super) struct Report {
    /// Stands for every event and its time.
    pub(super) hash: u64,
    pub(super) events: u64,
    /// Promises that did not hold.
    pub(super) broken: Vec<String>,
    pub(super) trace: Vec<String>,
}

/// How a life ended.
enum End {
    Died,
    Stopped,
    Over,
}

/// Runs a seed to its end, and keeps so many lines of its trace.
pub(super) fn run(seed: u64, lines_max: usize, defect: Option<Defect>) -> Report {
    panics::listen();
    panics::since_last_asked();
    let folder = workspace();
    let path = folder.path().join("notify.db");
    std::fs::write(&path, empty_store()).expect("the folder is writable");
    if let Some(defect) = defect {
        defect.plant(&path);
    }
    let mut rng = fastrand::Rng::with_seed(seed);
    let config = config(&mut rng, defect);
    let world = Arc::new(Mutex::new(World::new(rng.u64(..), lines_max, defect)));
    lock(&world).credit = config.credit as u64 - u64::from(defect == Some(Defect::CreditPassed));
    let mut server = Server {
        path,
        config,
        world,
        script: Script::new(rng.fork()),
        rng,
        lives: 0,
        shared: None,
    };
    let mut wall = START;
    while let End::Died | End::Stopped = server.live(wall) {
        wall = lock(&server.world).now().plus_ms(server.rng.i64(0..90_000));
    }
    drop(folder);
    let world = std::mem::replace(&mut *lock(&server.world), World::new(0, 0, None));
    Report {
        hash: world.trace.hash(),
        events: world.trace.events(),
        broken: world.broken,
        trace: world.trace.into_lines(),
    }
}

/// A folder in memory, where there is one.
fn workspace() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    folder.expect("a folder for the store")
}

/// The file of a store without anything in it: making its tables takes as long as a seed.
fn empty_store() -> &'static [u8] {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    EMPTY.get_or_init(|| {
        let folder = workspace();
        let path = folder.path().join("notify.db");
        drop(SqliteStore::open_inline(&path).expect("the store opens"));
        // Out of the log, into the file.
        SqliteStore::sabotage(&path, "pragma wal_checkpoint(truncate)");
        std::fs::read(&path).expect("the store is written")
    })
}

/// Small limits, so that few devices meet all of them.
fn config(rng: &mut fastrand::Rng, defect: Option<Defect>) -> EngineConfig {
    let credit = match defect {
        Some(Defect::CreditPassed) => 4,
        Some(_) | None => rng.usize(1..48),
    };
    EngineConfig {
        credit,
        page_rows: rng.u32(1..40),
        checkpoint_outcomes: rng.usize(1..12),
        checkpoint_every: Duration::from_millis(rng.u64(1..200)),
        lease_ms: if rng.bool() { 15_000 } else { rng.i64(1_000..15_000) },
        lane_devices_max: rng.usize(1..80),
        lane_pages_max: rng.usize(1..8),
        lane_retries_max: rng.u32(1..12),
        lane_streams_max: rng.usize(1..48),
        lane_dispatches_max: rng.usize(1..5),
        start_batch: rng.u32(1..5),
        ..EngineConfig::default()
    }
}

/// A server with its file, over its lives.
struct Server {
    path: PathBuf,
    config: EngineConfig,
    world: SharedWorld,
    script: Script,
    rng: fastrand::Rng,
    lives: u64,
    /// The engine of this life.
    shared: Option<Arc<Shared>>,
}

/// The engine of one life.
struct Running {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Server {
    /// From one start to the next. What is left of a process goes with its runtime.
    fn live(&mut self, wall: Timestamp) -> End {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let store = SqliteStore::open_inline(&self.path).expect("the store opens");
        let end = runtime.block_on(async {
            let end = self.life(store.clone(), wall).await;
            // Within the runtime: outside of it the time is not the simulated one.
            lock(&self.world).stop_clock();
            end
        });
        drop(runtime);
        // Engine and store hold each other; the file is free when both are gone.
        store.forget_listeners();
        if let Some(shared) = self.shared.take() {
            shared.lanes.lock().expect("no holder panicked").clear();
        }
        assert_eq!(Arc::strong_count(&store), 1, "somebody still has the store");
        end
    }

    async fn life(&mut self, store: Arc<SqliteStore>, wall: Timestamp) -> End {
        let clock = SimulatedClock::start(wall);
        lock(&self.world).clock = Some(clock.clone());
        let process = Process { world: self.world.clone(), store: store.clone(), clock };
        tokio::spawn(disk::read(store.clone(), self.world.clone()));
        tokio::spawn(disk::write(store.clone(), self.world.clone()));
        self.lives += 1;
        if self.lives == 1 {
            self.set_up(&process).await;
        } else {
            checks::reopened(&process);
        }
        lock(&self.world).is_dead = false;
        let running = self.start(&process);
        let mut tasks = JoinSet::new();
        let dies = lock(&self.world).dies.clone();
        let turn = tokio::select! {
            biased;
            () = dies.notified() => None,
            turn = self.script.play(&process, &mut tasks) => Some(turn),
        };
        match turn {
            None => {
                self.die(&process);
                End::Died
            }
            Some(_) if !lock(&self.world).broken.is_empty() => End::Over,
            Some(Turn::Restart) => {
                while tasks.join_next().await.is_some() {}
                if self.stop(running).await {
                    lock(&self.world).forget_seen();
                    End::Stopped
                } else {
                    self.die(&process);
                    End::Died
                }
            }
            Some(Turn::End) => {
                while tasks.join_next().await.is_some() {}
                self.drain(&process, &running).await;
                if lock(&self.world).broken.is_empty() {
                    checks::over(&process);
                    let stops = self.stop(running).await;
                    debug_assert!(stops, "the disk has room");
                }
                checks::look(&process);
                End::Over
            }
        }
    }

    fn start(&mut self, process: &Process) -> Running {
        let store: SharedStore = process.store.clone();
        let world = self.world.clone();
        let around = Surroundings {
            store: store.clone(),
            providers: Arc::new(SimulatedSource { store, world }),
            clock: process.clock.clone(),
            public_url: "http://localhost".into(),
        };
        // Another process has other random numbers.
        let config = EngineConfig { seed: Some(self.rng.u64(..)), ..self.config.clone() };
        let shared = Shared::new(around, config);
        process.store.subscribe(shared.clone());
        self.shared = Some(shared.clone());
        let task = tokio::spawn(EngineRun::new(shared.clone()).run());
        lock(&self.world).note("the engine starts");
        Running { shared, task }
    }

    /// Applications, their providers and devices: without faults.
    async fn set_up(&mut self, process: &Process) {
        let mut tasks = JoinSet::new();
        for number in 0..self.rng.u8(1..3) {
            let id = AppId(Uuid::from_u128(self.rng.u128(..)));
            let new = NewApp { name: format!("Shop {number}"), language: "en".into() };
            let now = process.clock.now();
            let app = process.store.create_app(id, new, None, now).await.expect("no fault is set");
            lock(&self.world).apps.push((app, id));
            for kind in ProviderKind::ALL {
                let service = Service::new(Weather::draw(&mut self.rng), 5);
                lock(&self.world).services.insert((app, kind), service);
                if self.rng.u8(0..8) > 0 {
                    tasks.spawn(configure(process.clone(), app, kind, Some(0)));
                } else {
                    lock(&self.world).was_missing.push((app, kind));
                }
            }
            let devices = if self.rng.u8(0..12) == 0 { 160 } else { self.rng.usize(6..50) };
            for number in 0..devices {
                let platform = self.script.platform();
                let name = self.script.name(platform, number);
                let state = self.script.new_state(platform);
                let process = process.clone();
                let tagged = self.rng.u8(0..3) == 0;
                tasks.spawn(async move {
                    register(process.clone(), app, name.clone(), state).await;
                    if tagged {
                        super::requests::tag(process, app, name, Some(true)).await;
                    }
                });
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    /// The process dies where it stands; what waited for the disk may still reach it.
    fn die(&mut self, process: &Process) {
        if self.rng.bool() {
            let writes = process.store.commit_waiting(self.rng.usize(1..8));
            let recorded = process.store.peek_sent();
            lock(&self.world).committed(writes, recorded);
        }
        lock(&self.world).die(|notice| process.recorded(notice));
    }

    /// Stops the engine; false when the process has to be ended, since nothing can be written.
    async fn stop(&self, running: Running) -> bool {
        running.shared.stop.ask();
        running.shared.wake.notify_one();
        let stopped = tokio::time::timeout(STOP_MAX, running.task).await;
        let mut world = lock(&self.world);
        match stopped {
            Ok(Ok(())) if world.in_flight == 0 => drop(world.note("the engine stops")),
            Ok(Ok(())) => world.broke("the engine stopped with something in flight"),
            Ok(Err(_)) => world.broke("the engine panicked"),
            Err(_) if world.disk_is_full() => return false,
            Err(_) => world.broke("the engine does not stop"),
        }
        true
    }

    /// Faults end. Everything has to be over within [`DRAIN_MS`], and nothing left to be due.
    async fn drain(&self, process: &Process, running: &Running) {
        let until = self.calm(process).await;
        let mut pause = Duration::from_millis(50);
        loop {
            checks::look(process);
            let open: Vec<_> = checks::accepted(&lock(&self.world))
                .iter()
                .filter_map(|notice| checks::read(process, notice))
                .filter(|record| !checks::is_over(record))
                .collect();
            let mut world = lock(&self.world);
            if !world.broken.is_empty() || open.is_empty() {
                break;
            }
            if running.task.is_finished() {
                return world.broke("the engine ended by itself");
            }
            if process.clock.now() >= until {
                return world.broke(&format!("{} are stuck, such as {:?}", open.len(), open[0]));
            }
            drop(world);
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_secs(30));
        }
        // What is done may still give places back.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let due = process.store.peek(process.store.next_due());
        let retry = process.store.peek(process.store.next_retry_due());
        let mut world = lock(&self.world);
        if !matches!((&due, &retry), (Ok(None), Ok(None))) && world.broken.is_empty() {
            world.broke(&format!("all is over, and still due: {due:?}, {retry:?}"));
        }
        let (free, credit) = (running.shared.credit.free(), self.config.credit);
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
            let now = world.now();
            for service in world.services.values_mut() {
                service.weather = Weather::Fine;
                service.offer(20, now);
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

/// The platforms that [`Script`] registers are those that the services are for.
const _: () = assert!(Platform::ALL.len() == ProviderKind::ALL.len());
