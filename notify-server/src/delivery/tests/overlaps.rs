//! Two live servers never own the same delivery. Several servers are killed, or suspended for longer
//! than their lease. At every attempt the test reads from the store which server owns the delivery.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock};
use std::time::Duration;

use fastrand::Rng;
use notify_core::{NotificationId, NotificationStatus, ProviderKind};
use tokio::sync::{Notify, watch};

use super::super::{Configured, Engine, EngineDeps, ProviderSource};
use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::payload::{RenderContext, TooLarge};
use crate::providers::{
    Address, CredentialCheck, Processing, Provider, RenderedBody, RenderedMessage, SendResult,
    SharedProvider,
};
use crate::store::Store;
use crate::store::{AppNo, InstanceId, StoreError};
use crate::telemetry::DeliveryMetrics;

const SERVERS: usize = 3;
const DEVICES: usize = 30;
/// Number of clock steps, with a notification each.
const TURNS: usize = 60;
/// Most clock steps until everything has ended: failures are retried for up to 15 minutes.
const DRAIN_TURNS_MAX: usize = 2_000;
/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(3);
/// Most clock steps for which a server is suspended. A lease lasts five steps.
const STILL_MAX: usize = 10;
/// Longest wait for a server to send a heartbeat or to be suspended.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// Record of what the servers did.
#[derive(Default)]
struct Record {
    attempts: AtomicUsize,
    /// Attempts at deliveries that another server owned.
    overlaps: Mutex<Vec<String>>,
}

/// Suspends the thread of an engine between two polls of its tasks, as if the process were
/// suspended: decisions that were made before take effect when it resumes.
struct Brake {
    changed: Notify,
    is_on: Mutex<bool>,
    released: Condvar,
    is_suspended: watch::Sender<bool>,
}

impl Brake {
    fn new() -> Self {
        let (changed, is_on, released) = (Notify::new(), Mutex::default(), Condvar::new());
        Self { changed, is_on, released, is_suspended: watch::Sender::new(false) }
    }

    fn wait_while_set(&self) {
        let mut is_on = self.is_on.lock().unwrap();
        while *is_on {
            self.is_suspended.send_replace(true);
            is_on = self.released.wait(is_on).unwrap();
        }
        self.is_suspended.send_replace(false);
    }

    fn set(&self, on: bool) {
        *self.is_on.lock().unwrap() = on;
        self.changed.notify_one();
        self.released.notify_all();
    }

    async fn until_suspended(&self) {
        let mut is_suspended = self.is_suspended.subscribe();
        let until_suspended = is_suspended.wait_for(|is_suspended| *is_suspended);
        tokio::time::timeout(WAIT_MAX, until_suspended)
            .await
            .expect("the thread stops in time")
            .unwrap();
    }
}

/// A provider that checks the owner of each delivery.
struct OwnershipProvider {
    store: Arc<Store>,
    answers: Arc<FakeProvider>,
    instance: OnceLock<InstanceId>,
    record: Arc<Record>,
    brake: Arc<Brake>,
    /// Whether the thread of the server can be suspended.
    has_brake: AtomicBool,
}

#[async_trait::async_trait]
impl Provider for OwnershipProvider {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        self.answers.render(context)
    }

    async fn attempt(&self, prepared: &RenderedMessage, to: &Address) -> SendResult {
        if !self.has_brake.swap(true, Ordering::SeqCst) {
            let brake = self.brake.clone();
            tokio::spawn(async move {
                loop {
                    brake.changed.notified().await;
                    brake.wait_while_set();
                }
            });
        }
        let RenderedBody::Shared(id) = &prepared.body else { panic!("the rig's body") };
        let (id, token) = (String::from_utf8(id.to_vec()).unwrap(), to.text().to_owned());
        while self.instance.get().is_none() {
            tokio::task::yield_now().await;
        }
        let instance = *self.instance.get().unwrap();
        let is_its = self.store.is_claimed_by(id.clone(), token.clone(), instance).await.unwrap();
        self.record.attempts.fetch_add(1, Ordering::SeqCst);
        if !is_its {
            self.record.overlaps.lock().unwrap().push(format!("{instance:?}: {id} to {token}"));
        }
        self.answers.attempt(prepared, to).await
    }

    async fn check(&self) -> CredentialCheck {
        self.answers.check().await
    }

    fn max_concurrency(&self) -> usize {
        self.answers.max_concurrency()
    }
}

/// The same provider for every application.
struct Source(Arc<OwnershipProvider>);

#[async_trait::async_trait]
impl ProviderSource for Source {
    async fn provider(
        &self,
        _app: AppNo,
        _provider: ProviderKind,
    ) -> Result<Option<Configured>, StoreError> {
        let provider: SharedProvider = self.0.clone();
        Ok(Some(Configured {
            app: notify_core::AppId(uuid::Uuid::nil()),
            provider,
            rate_per_second: None,
        }))
    }
}

struct Server {
    engine: Engine,
    watched: Arc<OwnershipProvider>,
    /// Clock steps until the server resumes.
    still: usize,
}

struct World {
    rig: Rig,
    record: Arc<Record>,
    rng: Rng,
    /// Clock steps during which a server was suspended for longer than a lease.
    relieved: usize,
    kills: usize,
}

impl World {
    fn start(&mut self) -> Server {
        let answers = FakeProvider::new(4);
        // Some deliveries are retried, so that servers also hold retries.
        answers.script(|token, attempt| {
            let fails = attempt % 2 == 1 && token.ends_with(['3', '7']);
            let reason = "UNAVAILABLE".into();
            let outcome = Processing::Failed;
            let failed = SendResult::Retry { reason, after: None, outcome };
            ScriptedAnswer::Answer(if fails { failed } else { delivered() })
        });
        let store = self.rig.peer_store();
        let watched = Arc::new(OwnershipProvider {
            store: store.clone(),
            answers,
            instance: OnceLock::new(),
            record: self.record.clone(),
            brake: Arc::new(Brake::new()),
            has_brake: AtomicBool::new(false),
        });
        let deps = EngineDeps {
            store,
            providers: Arc::new(Source(watched.clone())),
            clock: self.rig.clock.clone(),
            public_url: "http://localhost".into(),
            metrics: DeliveryMetrics::default(),
        };
        let mut config = self.rig.config.clone();
        config.seed = Some(self.rng.u64(..));
        let engine = Engine::start(deps, config).unwrap();
        watched.instance.set(engine.instance()).unwrap();
        Server { engine, watched, still: 0 }
    }

    /// Advances the clock once every running server has sent its heartbeat.
    async fn turn(&mut self, servers: &[Server]) {
        let now = self.rig.clock.now();
        let lease_ms = self.rig.config.lease_ms;
        for server in servers.iter().filter(|server| server.still == 0) {
            let mut progress = server.engine.progress();
            let beaten = async {
                while !server.engine.has_valid_lease(now.plus_ms(lease_ms - 1)) {
                    progress.changed().await.expect("the engine lives");
                }
            };
            tokio::time::timeout(WAIT_MAX, beaten).await.expect("a heartbeat in time");
        }
        self.rig.clock.advance(BEAT);
    }

    /// Suspends the thread of a server once it has made an attempt.
    async fn brake(&mut self, server: &mut Server) {
        if !server.watched.has_brake.load(Ordering::SeqCst) {
            return;
        }
        server.watched.brake.set(true);
        server.watched.brake.until_suspended().await;
        server.still = self.rng.usize(1..=STILL_MAX);
    }

    async fn kill(&mut self, server: Server) -> Server {
        self.kills += 1;
        server.engine.abort().await;
        self.start()
    }
}

#[tokio::test]
async fn no_two_live_servers_hold_the_same_lease() {
    check_no_overlaps(Rig::new(4).await).await;
}

/// Each server has its own connections.
#[tokio::test]
async fn no_two_live_servers_hold_the_same_lease_on_postgresql() {
    check_no_overlaps(Rig::on_postgres(4).await).await;
}

async fn check_no_overlaps(mut rig: Rig) {
    let seed = fastrand::u64(..);
    println!("overlaps: seed {seed}");
    rig.config.clustered = true;
    rig.config.page_rows = 7;
    rig.config.checkpoint_outcomes = 3;
    rig.config.lane_devices_max = 14;
    rig.devices(DEVICES).await;
    let mut world =
        World { rig, record: Arc::default(), rng: Rng::with_seed(seed), relieved: 0, kills: 0 };
    let mut servers: Vec<_> = (0..SERVERS).map(|_| world.start()).collect();
    let mut accepted: Vec<NotificationId> = Vec::new();
    for _ in 0..TURNS {
        accepted.push(world.rig.broadcast().await);
        for server in servers.iter_mut().filter(|server| server.still > 0) {
            server.still -= 1;
            if server.still == 0 {
                world.relieved +=
                    usize::from(!server.engine.has_valid_lease(world.rig.clock.now()));
                server.watched.brake.set(false);
            }
        }
        let nth = world.rng.usize(..servers.len());
        let goes = servers.iter().filter(|server| server.still == 0).count();
        if servers[nth].still == 0 && goes > 1 {
            match world.rng.u8(..4) {
                0 | 1 => world.brake(&mut servers[nth]).await,
                2 => {
                    let server = world.kill(servers.swap_remove(nth)).await;
                    servers.push(server);
                }
                _ => {}
            }
        }
        world.turn(&servers).await;
    }
    for server in &mut servers {
        server.still = 0;
        server.watched.brake.set(false);
    }
    let mut open = accepted;
    for _ in 0..DRAIN_TURNS_MAX {
        world.turn(&servers).await;
        while let Some(id) = open.last()
            && world.rig.read(id).await.status == NotificationStatus::Completed
        {
            open.pop();
        }
        if open.is_empty() {
            break;
        }
    }
    assert!(open.is_empty(), "seed {seed}: {} have not ended", open.len());
    let attempts = world.record.attempts.load(Ordering::SeqCst);
    let overlaps = std::mem::take(&mut *world.record.overlaps.lock().unwrap());
    println!("overlaps: {attempts} attempts, {} kills, {} relieved", world.kills, world.relieved);
    assert!(overlaps.is_empty(), "seed {seed}: {overlaps:?}");
    assert!(attempts >= TURNS * DEVICES && world.kills > 0 && world.relieved > 0, "seed {seed}");
    for server in servers {
        assert!(server.engine.stop(WAIT_MAX).await, "the server stops in time");
    }
}
