//! The engine's test rig: a real store (SQLite, or PostgreSQL if a test needs it), a scripted
//! provider, and a manual clock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use notify_core::{
    AppId, Condition, CreateNotification, DeviceId, NewApp, NotificationId, NotificationRecord,
    Platform, ProviderKind, ProviderStatus, RegisterDevice, Request, ServiceView, Tag, TagType,
    Timestamp,
};
use tokio::sync::watch;
use uuid::Uuid;

use super::super::{Configured, Engine, EngineConfig, EngineDeps, ProviderSource};
use crate::clock::{Clock, ManualClock};
use crate::payload::{RenderContext, TooLarge};
use crate::providers::{
    Address, CredentialCheck, Provider, RenderedBody, RenderedMessage, SendResult, SharedProvider,
};
use crate::store::Store;
use crate::store::postgres::testing::{TestCluster, TestDatabase};
use crate::store::postgres::{self, PostgresOptions};
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{AppNo, NewNotification, ProviderRow, SharedStore, StoreError};
use crate::telemetry::DeliveryMetrics;

/// Start of the clock in every test.
pub(super) const START: Timestamp = Timestamp(1_780_000_000_000);
const FILE: &str = "notify.db";
/// Longest wait for an event, after which the test fails.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// Most real time that an engine without work gets between two steps of the clock.
const STEP_WAIT: Duration = Duration::from_millis(4);
/// The engine counts as idle if its thread waits during this many reads of the store.
const READS_OF_AN_IDLE_ENGINE: u32 = 5;

/// A scripted answer of the fake provider.
#[derive(Clone)]
pub(super) enum ScriptedAnswer {
    /// This answer, at once.
    Answer(SendResult),
    /// This answer, after the test calls `release`.
    Held(SendResult),
    /// No answer.
    Never,
}

type Script = Arc<dyn Fn(&str, usize) -> ScriptedAnswer + Send + Sync>;

/// A scripted provider that records a journal of its attempts.
pub(super) struct FakeProvider {
    script: Mutex<Script>,
    journal: Mutex<Vec<String>>,
    delivered: Mutex<Vec<(String, String)>>,
    panics_on_render: AtomicBool,
    attempts: Mutex<HashMap<String, usize>>,
    arrived: watch::Sender<usize>,
    released: watch::Sender<bool>,
    slots: AtomicUsize,
    /// Most streams of one push service.
    service_concurrency: AtomicUsize,
}

impl FakeProvider {
    pub(super) fn new(slots: usize) -> Arc<Self> {
        Arc::new(Self {
            script: Mutex::new(Arc::new(|_, _| ScriptedAnswer::Answer(delivered()))),
            journal: Mutex::default(),
            delivered: Mutex::default(),
            panics_on_render: AtomicBool::new(false),
            attempts: Mutex::default(),
            arrived: watch::Sender::new(0),
            released: watch::Sender::new(false),
            slots: AtomicUsize::new(slots),
            service_concurrency: AtomicUsize::new(usize::MAX),
        })
    }

    /// Limits the streams of each push service from now on.
    pub(super) fn limit_services(&self, slots: usize) {
        self.service_concurrency.store(slots, Ordering::SeqCst);
    }

    /// Sets the answers from now on, as a function of the token and the number of the attempt (from 1).
    pub(super) fn script(
        &self,
        script: impl Fn(&str, usize) -> ScriptedAnswer + Send + Sync + 'static,
    ) {
        *self.script.lock().unwrap() = Arc::new(script);
    }

    /// Releases held answers.
    pub(super) fn release(&self) {
        self.released.send_replace(true);
    }

    /// Holds answers again.
    pub(super) fn hold(&self) {
        self.released.send_replace(false);
    }

    /// Changes the number of streams that the provider accepts.
    pub(super) fn set_streams(&self, slots: usize) {
        self.slots.store(slots, Ordering::SeqCst);
    }

    /// Tokens in the order in which they arrived.
    pub(super) fn journal(&self) -> Vec<String> {
        self.journal.lock().unwrap().clone()
    }

    /// The accepted messages: notifications and tokens.
    pub(super) fn delivered(&self) -> Vec<(String, String)> {
        self.delivered.lock().unwrap().clone()
    }

    /// Whether rendering panics from now on.
    pub(super) fn panic_on_render(&self, breaks: bool) {
        self.panics_on_render.store(breaks, Ordering::SeqCst);
    }

    /// Waits until that many attempts have arrived.
    pub(super) async fn arrived(&self, count: usize) {
        let mut arrived = self.arrived.subscribe();
        let waited = arrived.wait_for(|seen| *seen >= count);
        tokio::time::timeout(WAIT_MAX, waited).await.expect("attempts arrive in time").unwrap();
    }
}

pub(super) fn delivered() -> SendResult {
    SendResult::Delivered { message_id: None }
}

#[async_trait::async_trait]
impl Provider for FakeProvider {
    fn render(&self, context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        assert!(!context.app_name.is_empty());
        assert!(!self.panics_on_render.load(Ordering::SeqCst), "a defect in the rendering");
        let body = RenderedBody::Shared(bytes::Bytes::from(context.id.as_str().to_owned()));
        Ok(RenderedMessage { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, prepared: &RenderedMessage, to: &Address) -> SendResult {
        let token = match to {
            Address::Apns { token: of, .. }
            | Address::Fcm { token: of }
            | Address::Messenger { recipient: of, .. }
            | Address::Telegram { chat: of } => of.to_string(),
            Address::WebPush(subscription) => subscription.endpoint.clone(),
        };
        let number = {
            let mut attempts = self.attempts.lock().unwrap();
            let number = attempts.entry(token.clone()).or_default();
            *number += 1;
            *number
        };
        let scripted = { self.script.lock().unwrap().clone() }(&token, number);
        self.journal.lock().unwrap().push(token.clone());
        self.arrived.send_modify(|seen| *seen += 1);
        let answer = match scripted {
            ScriptedAnswer::Answer(answer) => answer,
            ScriptedAnswer::Held(answer) => {
                let mut released = self.released.subscribe();
                released.wait_for(|released| *released).await.expect("the provider lives");
                answer
            }
            ScriptedAnswer::Never => std::future::pending().await,
        };
        if let (SendResult::Delivered { .. }, RenderedBody::Shared(id)) = (&answer, &prepared.body)
        {
            let id = String::from_utf8(id.to_vec()).unwrap();
            self.delivered.lock().unwrap().push((id, token));
        }
        answer
    }

    async fn check(&self) -> CredentialCheck {
        CredentialCheck::passed("a rig")
    }

    fn max_concurrency(&self) -> usize {
        self.slots.load(Ordering::SeqCst)
    }

    fn service_concurrency(&self, _endpoint: &str) -> Option<usize> {
        Some(self.service_concurrency.load(Ordering::SeqCst))
    }
}

/// Which providers are configured.
pub(super) struct FakeSource {
    configured: Mutex<HashMap<ProviderKind, SharedProvider>>,
    reads: watch::Sender<usize>,
    open: watch::Sender<bool>,
}

impl FakeSource {
    /// Opens or closes the gate for results of reads: while it is closed, completed reads wait.
    pub(super) fn set_open(&self, open: bool) {
        self.open.send_replace(open);
    }

    /// Waits until that many reads have started.
    pub(super) async fn reads_started(&self, count: usize) {
        let mut reads = self.reads.subscribe();
        let waited = reads.wait_for(|seen| *seen >= count);
        tokio::time::timeout(WAIT_MAX, waited).await.expect("read in time").unwrap();
    }
}

#[async_trait::async_trait]
impl ProviderSource for FakeSource {
    async fn provider(
        &self,
        _app: AppNo,
        provider: ProviderKind,
    ) -> Result<Option<Configured>, StoreError> {
        let provider = self.configured.lock().unwrap().get(&provider).cloned();
        self.reads.send_modify(|asked| *asked += 1);
        self.open.subscribe().wait_for(|open| *open).await.expect("the source lives");
        Ok(provider.map(|provider| Configured {
            app: AppId(Uuid::nil()),
            provider,
            rate_per_second: None,
        }))
    }
}

/// A store, a clock, a provider, and as many consecutive engines as a test needs.
pub(super) struct Rig {
    pub(super) store: SharedStore,
    pub(super) database: Arc<Store>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) provider: Arc<FakeProvider>,
    pub(super) source: Arc<FakeSource>,
    pub(super) app: AppNo,
    pub(super) app_id: AppId,
    pub(super) config: EngineConfig,
    engine: Option<Engine>,
    /// Other servers on the same database.
    peers: Vec<Engine>,
    backing: Backing,
}

/// The database, deleted when this is dropped.
enum Backing {
    Folder(tempfile::TempDir),
    Database(TestDatabase),
}

impl Backing {
    fn open(&self) -> Arc<Store> {
        match self {
            Self::Folder(folder) => {
                sqlite::open(&folder.path().join(FILE), SqliteOptions::default()).unwrap()
            }
            Self::Database(database) => {
                let url = database.url().parse().unwrap();
                postgres::open(&url, PostgresOptions::default()).unwrap()
            }
        }
    }
}

impl Rig {
    /// A rig with one application and `slots` streams on FCM.
    pub(super) async fn new(slots: usize) -> Self {
        Self::at(Backing::Folder(tempfile::tempdir().unwrap()), slots).await
    }

    /// A rig on PostgreSQL with one application and `slots` streams on FCM.
    pub(super) async fn on_postgres(slots: usize) -> Self {
        Self::at(Backing::Database(TestCluster::shared().database()), slots).await
    }

    async fn at(place: Backing, slots: usize) -> Self {
        let database = place.open();
        let store: SharedStore = database.clone();
        let app_id = AppId(Uuid::now_v7());
        let new = NewApp { name: "Shop".into(), language: "en".into() };
        let app = store.create_app(app_id, new, None, START).await.unwrap();
        let provider = FakeProvider::new(slots);
        let context: SharedProvider = provider.clone();
        let configured = HashMap::from([(ProviderKind::Fcm, context)]);
        Self {
            store,
            database,
            clock: ManualClock::at(START),
            provider,
            source: Arc::new(FakeSource {
                configured: Mutex::new(configured),
                reads: watch::Sender::new(0),
                open: watch::Sender::new(true),
            }),
            app,
            app_id,
            config: EngineConfig { seed: Some(7), page_rows: 100, ..EngineConfig::default() },
            engine: None,
            peers: Vec::new(),
            backing: place,
        }
    }

    /// The store for another server. A SQLite file belongs to one process, so servers share the store; a
    /// PostgreSQL database is opened again.
    pub(super) fn peer_store(&self) -> Arc<Store> {
        match self.backing {
            Backing::Folder(_) => self.database.clone(),
            Backing::Database(_) => self.backing.open(),
        }
    }

    /// Configures a provider, or removes it, as an administrator does.
    pub(super) async fn configure(&self, kind: ProviderKind, new: Option<Arc<FakeProvider>>) {
        self.try_configure(kind, new).await.unwrap();
    }

    pub(super) async fn try_configure(
        &self,
        kind: ProviderKind,
        new: Option<Arc<FakeProvider>>,
    ) -> Result<(), StoreError> {
        use crate::clock::Clock;
        let row = ProviderRow { provider: kind, sealed: vec![1], updated_at: self.clock.now() };
        let removed = new.is_none();
        {
            let mut configured = self.source.configured.lock().unwrap();
            match new {
                Some(provider) => drop(configured.insert(kind, provider)),
                None => drop(configured.remove(&kind)),
            }
        }
        self.store.put_provider(self.app_id, row).await?;
        if removed { self.store.delete_provider(self.app_id, kind).await } else { Ok(()) }
    }

    /// A receiver that is notified of every commit of the engine.
    pub(super) fn progress(&self) -> watch::Receiver<u64> {
        self.engine.as_ref().expect("the engine runs").progress()
    }

    /// Starts the engine.
    pub(super) fn start(&mut self) {
        // Each process has its own seed.
        self.config.seed = self.config.seed.map(|seed| seed + 1);
        let deps = EngineDeps {
            store: self.store.clone(),
            providers: self.source.clone(),
            clock: self.clock.clone(),
            public_url: "http://localhost".into(),
            metrics: DeliveryMetrics::default(),
        };
        self.engine = Some(Engine::start(deps, self.config.clone()).unwrap());
    }

    /// Number of single-device notifications that the engine started together with their page.
    pub(super) fn opened_with_start(&self) -> usize {
        self.engine.as_ref().expect("the engine runs").opened_with_start()
    }

    /// Starts another server on the same database, with its own provider and clock.
    pub(super) fn start_peer(&mut self, provider: Arc<FakeProvider>, clock: Arc<ManualClock>) {
        self.config.seed = self.config.seed.map(|seed| seed + 1);
        let context: SharedProvider = provider;
        let source = FakeSource {
            configured: Mutex::new(HashMap::from([(ProviderKind::Fcm, context)])),
            reads: watch::Sender::new(0),
            open: watch::Sender::new(true),
        };
        let deps = EngineDeps {
            store: self.store.clone(),
            providers: Arc::new(source),
            clock,
            public_url: "http://localhost".into(),
            metrics: DeliveryMetrics::default(),
        };
        self.peers.push(Engine::start(deps, self.config.clone()).unwrap());
    }

    /// Push services that get no deliveries, by name.
    pub(super) fn unavailable_services(&self) -> Vec<ServiceView> {
        let engine = self.engine.as_ref().expect("the engine runs");
        engine.handle().unavailable_services(self.app, Platform::Web)
    }

    /// Marks every address as verified.
    pub(super) fn verify_addresses(&self) {
        self.execute_raw("delete from unverified_addresses");
    }

    /// Kills another server as a crash would.
    pub(super) async fn crash_peer(&mut self) {
        self.peers.pop().expect("another runs").abort().await;
    }

    /// The status of the Android provider on this server and on the others.
    pub(super) fn statuses(&self) -> Vec<ProviderStatus> {
        let engines = self.engine.iter().chain(&self.peers);
        engines.map(|engine| engine.handle().provider_status(self.app, Platform::Android)).collect()
    }

    /// Waits until the condition holds for the status on every server.
    pub(super) async fn until_statuses(&self, wanted: impl Fn(&ProviderStatus) -> bool) {
        let waited = async {
            // Publishing a status does not count as a commit of the engine.
            while !self.statuses().iter().all(&wanted) {
                let mut progress = self.progress();
                let _ = tokio::time::timeout(STEP_WAIT, progress.changed()).await;
            }
        };
        if tokio::time::timeout(WAIT_MAX, waited).await.is_err() {
            panic!("not in time: {:?}", self.statuses());
        }
    }

    /// Waits until a circuit breaker of a platform was published.
    pub(super) async fn until_published(&self, platform: Platform) {
        let waited = async {
            let lane = Some((self.app, platform));
            while self.store.breakers_since(lane, 0, 1).await.unwrap().is_empty() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.expect("published in time");
    }

    /// Runs a statement outside the store, on its own connection.
    pub(super) fn execute_raw(&self, sql: &str) {
        match &self.backing {
            Backing::Folder(folder) => sqlite::execute_raw(&folder.path().join(FILE), sql),
            Backing::Database(database) => database.execute(sql),
        }
    }

    /// Stops another server in an orderly way.
    pub(super) async fn stop_peer(&mut self) {
        assert!(self.peers.pop().expect("another runs").stop(WAIT_MAX).await, "it stops in time");
    }

    /// Stops the engine in an orderly way.
    pub(super) async fn stop(&mut self) {
        let engine = self.engine.take().expect("the engine runs");
        assert!(engine.stop(WAIT_MAX).await, "the engine stops in time");
    }

    /// Kills the engine as a crash would.
    pub(super) async fn crash(&mut self) {
        self.engine.take().expect("the engine runs").abort().await;
    }

    /// Registers an Android device whose token contains its name.
    pub(super) async fn device(&self, name: &str) {
        self.register(RegisterDevice::android(name, format!("token-{name}"))).await;
    }

    pub(super) async fn devices(&self, count: usize) {
        for number in 0..count {
            self.device(&format!("d{number:05}")).await;
        }
    }

    pub(super) async fn register(&self, device: RegisterDevice) {
        use crate::clock::Clock;
        let now = self.clock.now();
        let valid = device.validate(now).unwrap();
        self.store.register_device(self.app, valid, now, None).await.unwrap();
    }

    /// Subscribes a browser.
    pub(super) async fn browser(&self, name: &str, endpoint: &str) {
        // The keys of RFC 8291, appendix A.
        let p256dh = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
        let subscription = notify_core::PushSubscription {
            endpoint: endpoint.into(),
            keys: notify_core::PushKeys {
                p256dh: p256dh.into(),
                auth: "BTBZMqHH6r4Tts7J_aSIgg".into(),
            },
            ..Default::default()
        };
        self.subscribe(name, notify_core::Subscribe::web(subscription)).await;
    }

    /// Subscribes a chat.
    pub(super) async fn chat(&self, name: &str, recipient: &str) {
        self.subscribe(name, notify_core::Subscribe::chat(recipient)).await;
    }

    async fn subscribe(&self, name: &str, mut request: notify_core::Subscribe) {
        use crate::clock::Clock;
        let now = self.clock.now();
        request.device_id = Some(name.into());
        let made = DeviceId::new(name).unwrap();
        let valid = request.validate(now).unwrap();
        self.store.subscribe_device(self.app, valid, made, now, None).await.unwrap();
    }

    pub(super) async fn tag(&self, device: &str, name: &str, value: bool) {
        let tag = Tag { name: name.into(), kind: TagType::Bool, value };
        let id = DeviceId::new(device).unwrap();
        self.store.set_tags(self.app, id, vec![tag], None).await.unwrap();
    }

    /// Accepts a notification.
    pub(super) async fn accept(&self, request: CreateNotification) -> NotificationId {
        self.try_accept(request).await.unwrap()
    }

    pub(super) async fn try_accept(
        &self,
        request: CreateNotification,
    ) -> Result<NotificationId, StoreError> {
        use crate::clock::Clock;
        let now = self.clock.now();
        let id = NotificationId::from(Uuid::now_v7());
        let body = serde_json::to_string(&request).unwrap();
        let valid = request.validate(now).unwrap();
        let condition = valid.recipients.condition(&|_| None).unwrap();
        let new = NewNotification {
            id: id.clone(),
            request: body,
            checked: valid,
            audience: condition.as_ref().map(Condition::to_json),
            poll: None,
            at: now,
        };
        self.store.accept_notification(self.app, new, None).await?;
        Ok(id)
    }

    /// Accepts a message to every Android device.
    pub(super) async fn broadcast(&self) -> NotificationId {
        self.broadcast_to(Platform::Android).await
    }

    pub(super) async fn broadcast_to(&self, platform: Platform) -> NotificationId {
        self.accept(CreateNotification {
            text: Some("Hello".into()),
            platforms: Some(vec![platform.as_str().into()]),
            ..CreateNotification::default()
        })
        .await
    }

    pub(super) async fn read(&self, id: &NotificationId) -> NotificationRecord {
        self.store.notification(self.app, id.clone()).await.unwrap()
    }

    /// Waits until the condition holds for a notification. It is checked after every commit of the engine.
    pub(super) async fn until(
        &self,
        id: &NotificationId,
        wanted: impl Fn(&NotificationRecord) -> bool,
    ) -> NotificationRecord {
        let mut progress = self.engine.as_ref().expect("the engine runs").progress();
        let waited = async {
            loop {
                progress.borrow_and_update();
                let record = self.read(id).await;
                if wanted(&record) {
                    return record;
                }
                progress.changed().await.expect("the engine lives");
            }
        };
        match tokio::time::timeout(WAIT_MAX, waited).await {
            Ok(record) => record,
            Err(_) => panic!("not in time: {:?}", self.read(id).await),
        }
    }

    /// Waits until the condition holds for a notification, even if another server commits the change.
    pub(super) async fn until_read(
        &self,
        id: &NotificationId,
        wanted: impl Fn(&NotificationRecord) -> bool,
    ) {
        let waited = async {
            while !wanted(&self.read(id).await) {
                let mut progress = self.progress();
                let _ = tokio::time::timeout(STEP_WAIT, progress.changed()).await;
            }
        };
        if tokio::time::timeout(WAIT_MAX, waited).await.is_err() {
            panic!("not in time: {:?}", self.read(id).await);
        }
    }

    /// Whether the engine knows a paused notification.
    pub(super) fn is_paused_in_memory(&self) -> bool {
        self.engine.as_ref().expect("the engine runs").has_paused_dispatches()
    }

    /// Waits until the engine has applied the cancellation to all active dispatches.
    pub(super) async fn until_cancellation_applied(&self) {
        let engine = self.engine.as_ref().expect("the engine runs");
        let waited = async {
            while engine.open_dispatches() > 0 {
                let mut progress = self.progress();
                let _ = tokio::time::timeout(STEP_WAIT, progress.changed()).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.expect("the cancellation arrives in time");
    }

    /// Advances the clock, and gives the engine real time to act, until it commits something or does
    /// nothing.
    pub(super) async fn step(&self, by: Duration) {
        let mut progress = self.progress();
        self.clock.advance(by);
        let _ = tokio::time::timeout(STEP_WAIT, progress.changed()).await;
        self.until_idle_thread().await;
    }

    /// Waits until the engine seems idle, so that the clock hardly runs ahead of it on a busy machine. On such a
    /// machine the reads take longer, as those do for which the engine itself waits.
    async fn until_idle_thread(&self) {
        let Some(engine) = &self.engine else { return };
        let waited = async {
            let (mut before, mut reads) = (engine.begun_and_ended_waits(), 0);
            while before % 2 == 0 || reads < READS_OF_AN_IDLE_ENGINE {
                self.store.workload(self.clock.now()).await.unwrap();
                let waits = engine.begun_and_ended_waits();
                reads = if waits == before { reads + 1 } else { 0 };
                before = waits;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.expect("the engine does its work in time");
    }

    /// Advances the clock step by step until the condition holds for a notification. For waits that
    /// start with an answer, whose processing a test cannot observe.
    pub(super) async fn advance_until(
        &self,
        id: &NotificationId,
        step: Duration,
        wanted: impl Fn(&NotificationRecord) -> bool,
    ) -> NotificationRecord {
        let turned = async {
            loop {
                self.step(step).await;
                let record = self.read(id).await;
                if wanted(&record) {
                    return record;
                }
            }
        };
        match tokio::time::timeout(WAIT_MAX, turned).await {
            Ok(record) => record,
            Err(_) => panic!("not in time: {:?} {:?}", self.statuses(), self.read(id).await),
        }
    }

    /// Waits until nothing is due or under way.
    pub(super) async fn until_idle(&self) {
        let mut progress = self.progress();
        let waited = async {
            while self.store.workload(self.clock.now()).await.unwrap().is_busy() {
                let _ = tokio::time::timeout(STEP_WAIT, progress.changed()).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.expect("nothing is due in time");
    }

    /// Advances the clock step by step until that many attempts arrived.
    pub(super) async fn advance_until_arrived(&self, count: usize, step: Duration) {
        let arrived = self.provider.arrived.subscribe();
        let turned = async {
            while *arrived.borrow() < count {
                self.step(step).await;
            }
        };
        tokio::time::timeout(WAIT_MAX, turned).await.expect("attempts arrive in time");
    }

    /// Waits until the next retry is due within `(now, now + within_ms]`, and returns when. A retry is
    /// committed a moment after its answer, and a claimed one is due when its lease ends.
    pub(super) async fn retry_due_within(&self, now: Timestamp, within_ms: i64) -> Timestamp {
        let mut progress = self.engine.as_ref().expect("the engine runs").progress();
        let waited = async {
            loop {
                progress.borrow_and_update();
                let due = self.store.agenda(Timestamp(0)).await.unwrap().next_retry_due;
                let wanted = |due: &Timestamp| (1..=within_ms).contains(&due.ms_since(now));
                if let Some(due) = due.filter(wanted) {
                    return due;
                }
                progress.changed().await.expect("the engine lives");
            }
        };
        tokio::time::timeout(WAIT_MAX, waited).await.expect("a retry is planned in time")
    }
}
