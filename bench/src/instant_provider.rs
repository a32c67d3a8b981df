//! The server's engine and store with a provider that answers at once, as a process of its own:
//! what is left is the queue.

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
    Address, Answer, Checked, Configured, Engine, EngineConfig, Prepared, PreparedBody, Provider,
    ProviderSource, Surroundings,
};
use notify_server::payload::{Outgoing, TooLarge};
use notify_server::store::Store;
use notify_server::store::sqlite::{self, SqliteOptions};
use notify_server::store::{AppNo, NewNotification, StoreError};
use serde::{Deserialize, Serialize};

use crate::proc::Cost;
use crate::process::{self, ordered, perform};
use crate::seed::{first_app, notification};

/// Streams that the provider offers.
const SLOTS: usize = 1_000;
/// Time between looks at the notification.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// How long the engine may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// What the child is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    /// A seeded database, which is changed.
    pub(crate) file: PathBuf,
    pub(crate) devices: u64,
}

/// Has a child carry them out.
pub(crate) fn run(orders: &Orders) -> anyhow::Result<Cost> {
    ordered("at-once", orders)?.measure(orders.devices)
}

/// The child's side: one notification to every device.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let Orders { file, devices } = process::orders()?;
    let store = sqlite::open(&file, SqliteOptions::default())?;
    let app = first_app(&store).await?;
    let clock = Arc::new(SystemClock::start());
    let around = Surroundings {
        store: store.clone(),
        providers: Arc::new(Source(Arc::new(AtOnce))),
        clock: clock.clone(),
        public_url: String::new(),
        metrics: Default::default(),
    };
    let engine = Engine::start(around, EngineConfig::default())?;
    perform(async {
        let id = accept(&store, app, clock.as_ref()).await?;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
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
    let valid = CreateNotification::parse(body.as_bytes(), at)
        .map_err(|broken| anyhow::anyhow!("a notification of our own is wrong: {broken:?}"))?;
    let id = NotificationId::from(uuid::Uuid::now_v7());
    let new = NewNotification::of(id.clone(), (body, valid), None, at);
    store.accept_notification(app, new, None).await?;
    Ok(id)
}

/// Every application's provider.
struct Source(Arc<AtOnce>);

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

/// Takes everything.
struct AtOnce;

#[async_trait]
impl Provider for AtOnce {
    fn prepare(&self, _message: &Outgoing<'_>) -> Result<Prepared, TooLarge> {
        let body = PreparedBody::Whole(Bytes::new());
        Ok(Prepared { headers: HeaderMap::new(), body })
    }

    async fn attempt(&self, _prepared: &Prepared, _to: &Address) -> Answer {
        Answer::Delivered { message_id: None }
    }

    async fn check(&self) -> Checked {
        Checked { ok: true, detail: String::new() }
    }

    fn slots(&self) -> usize {
        SLOTS
    }
}
