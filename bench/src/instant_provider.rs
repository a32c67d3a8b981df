//! The server's engine and store with a provider that responds immediately, in a separate process. The row
//! "queue" measures it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use async_trait::async_trait;
use bytes::Bytes;
use http::HeaderMap;
use notify_core::{
    AppId, CreateNotification, NotificationId, NotificationStatus, ProviderKind, Request,
};
use notify_server::clock::{Clock, SystemClock};
use notify_server::delivery::{
    Address, Configured, CredentialCheck, Engine, EngineConfig, EngineDeps, Provider,
    ProviderSource, RenderedBody, RenderedMessage, SendResult,
};
use notify_server::payload::{RenderContext, TooLarge};
use notify_server::store::Store;
use notify_server::store::sqlite::{self, SqliteOptions};
use notify_server::store::{AppNo, NewNotification, StoreError};
use serde::{Deserialize, Serialize};

use crate::proc::Cost;
use crate::process::{self, run_measured, start_worker};
use crate::seed::{first_app, notification};

/// The number of attempts that may run at the same time.
const CONCURRENCY: usize = 1_000;
/// How often the notification's status is read.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// How long the engine may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// The parameters of the child process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parameters {
    /// A seeded database, which the child changes.
    pub(crate) file: PathBuf,
    pub(crate) devices: u64,
}

/// Sends one notification to every device in a child process and returns the cost.
pub(crate) fn run(parameters: &Parameters) -> anyhow::Result<Cost> {
    start_worker("instant-provider", parameters)?.measure(parameters.devices)
}

/// Runs in the child process.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let Parameters { file, devices } = process::read_parameters()?;
    let store = sqlite::open(&file, SqliteOptions::default())?;
    let app = first_app(&store).await?;
    let clock = Arc::new(SystemClock::start());
    let dependencies = EngineDeps {
        store: store.clone(),
        providers: Arc::new(Source(Arc::new(InstantProvider))),
        clock: clock.clone(),
        public_url: String::new(),
        metrics: Default::default(),
    };
    let engine = Engine::start(dependencies, EngineConfig::default())?;
    run_measured(async {
        let id = accept(&store, app, clock.as_ref()).await?;
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let record = store.notification(app, id.clone()).await?;
            if record.status == NotificationStatus::Completed {
                let sent = record.counts.sent;
                ensure!(sent == devices, "{sent} of {devices}");
                return Ok(());
            }
        }
    })
    .await?;
    ensure!(engine.stop(STOP_TIMEOUT).await, "the engine did not stop");
    Ok(())
}

async fn accept(store: &Store, app: AppNo, clock: &SystemClock) -> anyhow::Result<NotificationId> {
    let (body, at) = (notification(&["android", "ios"], None).to_string(), clock.now());
    let valid = CreateNotification::parse(body.as_bytes(), at).map_err(|violations| {
        anyhow::anyhow!("a generated notification is invalid: {violations:?}")
    })?;
    let id = NotificationId::from(uuid::Uuid::now_v7());
    let new = NewNotification {
        id: id.clone(),
        request: body,
        checked: valid,
        audience: None,
        poll: None,
        at,
    };
    store.accept_notification(app, new, None).await?;
    Ok(id)
}

/// Gives every application the same provider.
struct Source(Arc<InstantProvider>);

#[async_trait]
impl ProviderSource for Source {
    async fn provider(
        &self,
        _app: AppNo,
        _provider: ProviderKind,
    ) -> Result<Option<Configured>, StoreError> {
        Ok(Some(Configured {
            app: AppId(uuid::Uuid::nil()),
            provider: self.0.clone(),
            rate_per_second: None,
        }))
    }
}

/// A provider that accepts every message immediately.
struct InstantProvider;

#[async_trait]
impl Provider for InstantProvider {
    fn render(&self, _context: &RenderContext<'_>) -> Result<RenderedMessage, TooLarge> {
        let body = RenderedBody::Shared(Bytes::new());
        Ok(RenderedMessage { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &RenderedMessage, _to: &Address) -> SendResult {
        SendResult::Delivered { message_id: None }
    }

    async fn check(&self) -> CredentialCheck {
        CredentialCheck { ok: true, detail: String::new() }
    }

    fn max_concurrency(&self) -> usize {
        CONCURRENCY
    }
}
