//! Starts and stops the playground, and lists what its fake providers received.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use notify_core::{
    AppId, AuditEntry, DeviceId, LANGUAGE_DEFAULT, NewApp, PLAYGROUND_MESSAGES_MAX, Platform,
    PlaygroundAnswer, PlaygroundMessage, PlaygroundMessageList, PlaygroundResponse, ProviderKind,
    Timestamp,
};
use notify_sandbox::{Clock as SandboxClock, ReceivedRequest, Sandbox, SandboxConfig};
use secrecy::SecretString;
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::devices::{self, Creation, DEVICES, platform_of, provider_of};
use super::{ID_FIRST, address, erase};
use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::keys::{KeyKind, make_key, reveal};
use crate::secrets::MasterKey;
use crate::store::audit::{record_next_write, take_pending, with_audit};
use crate::store::{
    AppNo, BackendError, DeviceFilter, InstanceId, PageRequest, ProviderRow, SharedStore,
    StoreError, before_deadline,
};

/// The name of the application, and of its API key.
const NAME: &str = "Playground";
/// The most connections to the fake providers. The server opens a few to each of them.
const CONNECTIONS_MAX: usize = 64;
/// The largest request body that the fake providers read, in bytes. No message of the server is as large. The
/// log keeps bodies as JSON values, which take up to 16 times the memory.
const BODY_BYTES_MAX: usize = 32_768;
/// The most devices whose ids are found by their addresses.
const DEVICES_MAX: u32 = 1_000;
/// The random bits of an id, which follow its prefix.
const ID_RANDOM: u64 = u64::MAX >> 2;

/// What the playground needs of the server.
pub(crate) struct Deps {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) master_key: Arc<MasterKey>,
    /// This run of the server.
    pub(crate) instance: InstanceId,
}

/// The playground of this server.
pub(crate) struct Playground {
    deps: Deps,
    /// Locked while the playground starts or stops.
    running: Mutex<Option<Running>>,
}

/// A running playground.
struct Running {
    sandbox: Sandbox,
    app: AppId,
    no: AppNo,
    /// Kept, so that each start returns the same key.
    api_key: SecretString,
    started_at: Timestamp,
}

impl Playground {
    pub(crate) fn new(deps: Deps) -> Arc<Self> {
        Arc::new(Self { deps, running: Mutex::default() })
    }

    /// Starts the playground, or returns the running one, with the API key.
    ///
    /// # Errors
    /// `Refused` while another server uses the database, whose fakes this server could not reach.
    pub(crate) async fn start(self: &Arc<Self>) -> Result<notify_core::Playground, StoreError> {
        let playground = Arc::clone(self);
        to_the_end(|entry| async move {
            let mut running = playground.running.lock().await;
            playground.forget_erased(&mut running).await?;
            if let Some(running) = &*running {
                return Ok(running.view_with_key());
            }
            let started = playground.create(entry).await?;
            Ok(running.insert(started).view_with_key())
        })
        .await
    }

    /// Erases the application and stops the fake providers.
    ///
    /// # Errors
    /// `NotFound` when the playground does not run.
    pub(crate) async fn stop(self: &Arc<Self>) -> Result<(), StoreError> {
        let playground = Arc::clone(self);
        to_the_end(|entry| async move {
            let mut running = playground.running.lock().await;
            playground.forget_erased(&mut running).await?;
            let app = running.as_ref().ok_or(StoreError::NotFound)?.app;
            record_change(entry, app);
            playground.deps.store.delete_app(app).await?;
            if let Some(running) = running.take() {
                running.sandbox.stop().await;
            }
            Ok(())
        })
        .await
    }

    /// Returns the running playground, without its API key.
    ///
    /// # Errors
    /// `NotFound` when the playground does not run.
    pub(crate) async fn state(&self) -> Result<notify_core::Playground, StoreError> {
        self.with_running(|running| Ok(running.view())).await
    }

    /// Lists the last messages that the fake providers received, newest first.
    ///
    /// # Errors
    /// `NotFound` when the playground does not run.
    pub(crate) async fn messages(&self) -> Result<PlaygroundMessageList, StoreError> {
        let (no, received) =
            self.with_running(|running| Ok((running.no, running.sandbox.received()))).await?;
        let page = PageRequest { limit: DEVICES_MAX, cursor: None };
        let devices = self.deps.store.list_devices(no, DeviceFilter::default(), page).await?;
        let ids: HashMap<(Platform, String), DeviceId> = devices
            .rows
            .into_iter()
            .filter_map(|device| Some(((device.platform, address(&device)?), device.device_id)))
            .collect();
        let messages = received.into_iter().rev().map(|message| view(message, &ids));
        Ok(PlaygroundMessageList { messages: messages.collect() })
    }

    /// Sets the answer to the next message to a device. Replaces an answer that was set before.
    ///
    /// # Errors
    /// `NotFound` when the playground does not run or does not have the device; `Refused` when no
    /// message can reach the device.
    pub(crate) async fn set_answer(
        &self,
        id: DeviceId,
        answer: PlaygroundAnswer,
    ) -> Result<(), StoreError> {
        let no = self.with_running(|running| Ok(running.no)).await?;
        let device = self.deps.store.device(no, id).await?;
        let refused = |what| Err(StoreError::refused("device_id", what));
        if !device.enabled {
            return refused("the device is disabled and gets no message: register another one");
        }
        if device.platform == Platform::Web {
            return refused("the playground has no push service for browsers");
        }
        let Some(address) = address(&device) else {
            return refused("the device has no address");
        };
        let rule = devices::next_answer(provider_of(device.platform), &address, answer);
        self.with_running(|running| {
            running.sandbox.set_next(rule).map_err(|error| StoreError::Backend(error.into()))
        })
        .await
    }

    /// Calls `read` with the running playground.
    async fn with_running<T>(
        &self,
        read: impl FnOnce(&Running) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut running = before_deadline(self.running.lock()).await?;
        self.forget_erased(&mut running).await?;
        read(running.as_ref().ok_or(StoreError::NotFound)?)
    }

    /// Stops the fake providers if an administrator or another server has erased the application.
    async fn forget_erased(&self, running: &mut Option<Running>) -> Result<(), StoreError> {
        let Some(app) = running.as_ref().map(|running| running.app) else { return Ok(()) };
        match self.deps.store.app(app).await {
            Err(StoreError::NotFound) => {
                *running = None;
                Ok(())
            }
            Err(error) => Err(error),
            Ok(_) => Ok(()),
        }
    }

    /// Creates the fake providers and the application. `entry` describes the operator's request for the
    /// audit trail.
    async fn create(&self, entry: Option<AuditEntry>) -> Result<Running, StoreError> {
        self.check_no_other_server().await?;
        // A start that failed may have left an application.
        erase(&self.deps.store).await?;
        let created = match self.create_unchecked(entry).await {
            // A server that came up meanwhile may not have seen the application to erase it.
            Ok(running) => self.check_no_other_server().await.map(|()| running),
            Err(error) => Err(error),
        };
        if created.is_err()
            && let Err(error) = erase(&self.deps.store).await
        {
            let cause = error_chain(&error);
            tracing::warn!(cause, "the playground's application remains until the next start");
        }
        created
    }

    async fn create_unchecked(&self, entry: Option<AuditEntry>) -> Result<Running, StoreError> {
        let Deps { store, clock, master_key, .. } = &self.deps;
        let (sandbox, started_at) = (start_sandbox(clock.clone()).await?, clock.now());
        for rule in DEVICES.iter().flat_map(devices::Template::rules) {
            sandbox.add_rule(rule).map_err(|error| StoreError::Backend(error.into()))?;
        }
        let app = new_id();
        let key = make_key(KeyKind::Api, Some(NAME.to_owned()), started_at);
        let new = NewApp { name: NAME.to_owned(), language: LANGUAGE_DEFAULT.to_owned() };
        record_change(entry, app);
        let no = store.create_app(app, new, Some(key.stored), started_at).await?;
        for (provider, config) in [
            (ProviderKind::Apns, sandbox.apns_config()),
            (ProviderKind::Fcm, sandbox.fcm_config()),
            (ProviderKind::Messenger, sandbox.messenger_config()),
            (ProviderKind::Telegram, sandbox.telegram_config()),
        ] {
            let plain = Zeroizing::new(config.to_string());
            let sealed = master_key.seal(app, provider, plain.as_bytes());
            store
                .put_provider(app, ProviderRow { provider, sealed, updated_at: started_at })
                .await?;
        }
        for device in &DEVICES {
            match device.creation(started_at) {
                Creation::Registration(registration) => {
                    drop(store.register_device(no, registration, started_at, None).await?);
                }
                Creation::Subscription(subscription) => {
                    let id = DeviceId::from(Uuid::now_v7());
                    let subscribed = store.subscribe_device(no, subscription, id, started_at, None);
                    drop(subscribed.await?);
                }
            }
        }
        Ok(Running { sandbox, app, no, api_key: key.secret, started_at })
    }

    /// Fails if another server uses the database. It would send the playground's notifications too,
    /// but cannot reach fakes on the loopback interface of this machine.
    async fn check_no_other_server(&self) -> Result<(), StoreError> {
        let Deps { store, clock, instance, .. } = &self.deps;
        match store.other_servers(*instance, clock.now()).await? {
            0 => Ok(()),
            others => Err(StoreError::refused(
                "playground",
                &format!(
                    "needs a server that is alone on its database, because its fake providers run in \
                     one process: {others} more {} this database. Start a server of your own to try \
                     it out",
                    if others == 1 { "server uses" } else { "servers use" },
                ),
            )),
        }
    }
}

impl Running {
    fn view(&self) -> notify_core::Playground {
        notify_core::Playground {
            app_id: self.app,
            api_key: None,
            started_at: self.started_at,
            devices: DEVICES.iter().map(devices::Template::view).collect(),
        }
    }

    fn view_with_key(&self) -> notify_core::Playground {
        notify_core::Playground { api_key: Some(reveal(&self.api_key)), ..self.view() }
    }
}

/// Runs `work` to its end, even if the caller goes away or its deadline passes. `work` gets the audit entry of
/// the request, because its first write is not the operator's change.
async fn to_the_end<T, W>(work: impl FnOnce(Option<AuditEntry>) -> W) -> Result<T, StoreError>
where
    T: Send + 'static,
    W: Future<Output = Result<T, StoreError>> + Send + 'static,
{
    let work = with_audit(work(take_pending()));
    before_deadline(tokio::spawn(work)).await?.map_err(|error| StoreError::Backend(error.into()))?
}

/// Makes the next write insert the entry of a change of the playground's application.
fn record_change(entry: Option<AuditEntry>, app: AppId) {
    if let Some(entry) = entry {
        record_next_write(AuditEntry { app_id: Some(app), ..entry });
    }
}

async fn start_sandbox(clock: SharedClock) -> Result<Sandbox, StoreError> {
    let unavailable = |error: BackendError| StoreError::Unavailable(error);
    let listener =
        TcpListener::bind(("127.0.0.1", 0)).await.map_err(|error| unavailable(error.into()))?;
    let config = SandboxConfig {
        log_entries_max: PLAYGROUND_MESSAGES_MAX,
        // Every user of this machine can connect, and the control API requires no key.
        serves_control: false,
        connections_max: CONNECTIONS_MAX,
        body_bytes_max: BODY_BYTES_MAX,
        clock: SandboxClock::from_fn(move || clock.wall().as_ms()),
        ..SandboxConfig::default()
    };
    Sandbox::start(listener, config).await.map_err(|error| unavailable(error.into()))
}

fn new_id() -> AppId {
    let random = u128::from(Uuid::new_v4().as_u64_pair().1 & ID_RANDOM);
    AppId(Uuid::from_u128(ID_FIRST.as_u128() | random))
}

fn view(
    mut message: ReceivedRequest,
    ids: &HashMap<(Platform, String), DeviceId>,
) -> PlaygroundMessage {
    let platform = platform_of(message.provider);
    let is_credential_check = message.is_credential_check();
    message.headers.remove("authorization");
    let device_id = message.token.and_then(|token| ids.get(&(platform, token)).cloned());
    PlaygroundMessage {
        at: Timestamp(message.at_ms),
        platform,
        device_id,
        is_credential_check,
        headers: message.headers,
        payload: message.payload,
        answer: PlaygroundResponse { status: message.status, reason: message.reason },
    }
}
