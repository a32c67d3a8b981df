//! A server with all five providers, whose clock the test moves.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::time::Duration;

use anyhow::{Result, bail};
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_client::Client;
use notify_core::{
    CreateNotification, NotificationId, NotificationRecord, Platform, ProviderKind, Subscribe,
};
use notify_sandbox::{
    Provider, ReceivedRequest, ScriptedResponse, messenger_recipient, telegram_chat,
};
use notify_server::clock::Clock;
use notify_tests::{NOW, TestServer, android, browser, ios, unlimited, until};
use serde_json::Value;

/// The providers that the sandbox fakes, with their platforms.
pub(crate) const ALL: [(Provider, ProviderKind, Platform); 5] = [
    (Provider::Apns, ProviderKind::Apns, Platform::Ios),
    (Provider::Fcm, ProviderKind::Fcm, Platform::Android),
    (Provider::WebPush, ProviderKind::WebPush, Platform::Web),
    (Provider::Messenger, ProviderKind::Messenger, Platform::FbMessenger),
    (Provider::Telegram, ProviderKind::Telegram, Platform::ChatApp),
];
/// The number of concurrent registrations.
const PARALLEL: usize = 32;
/// The time between two polls after the clock has advanced.
const TICK: Duration = Duration::from_millis(5);
/// The longest real time of [`ManualServer::advance_until`]. The longest delay of a retry, a quarter of an
/// hour, takes 9,000 steps of a tenth of a second.
const ADVANCE_MAX: Duration = Duration::from_secs(300);
/// The number of polls without a change before the clock advances again.
const QUIET_LOOKS: u32 = 3;

/// A server whose five providers are the sandbox and whose clock the test moves.
pub(crate) struct ManualServer {
    server: TestServer,
    pub(crate) client: Client,
}

impl Deref for ManualServer {
    type Target = TestServer;

    fn deref(&self) -> &TestServer {
        &self.server
    }
}

impl ManualServer {
    /// Starts the server and the sandbox, and configures each provider. `change` changes each configuration
    /// first.
    pub(crate) async fn start_with(change: impl Fn(ProviderKind, &mut Value)) -> Result<Self> {
        let server = TestServer::with_manual_clock(unlimited()).await;
        let client = server.client();
        let started = Self { server, client };
        for (_, kind, _) in ALL {
            let mut config = started.config(kind);
            change(kind, &mut config);
            let admin = started.client.admin();
            admin.put_provider(started.app_id, kind, &config).await?;
        }
        Ok(started)
    }

    /// The configuration of a provider of the sandbox.
    pub(crate) fn config(&self, kind: ProviderKind) -> Value {
        match kind {
            ProviderKind::Apns => self.sandbox().apns_config(),
            ProviderKind::Fcm => self.sandbox().fcm_config(),
            ProviderKind::WebPush => self.sandbox().webpush_config(),
            ProviderKind::Messenger => self.sandbox().messenger_config(),
            ProviderKind::Telegram => self.sandbox().telegram_config(),
        }
    }

    /// Registers this number of devices on each platform.
    pub(crate) async fn everybody(&self, count: u64) -> Result<()> {
        let ok = &ScriptedResponse::ok();
        stream::iter(0..count)
            .map(|seed| async move {
                let client = &self.client;
                client.devices().register(&android(seed, ok)).await?;
                client.devices().register(&ios(seed, ok)).await?;
                browser(client, self.sandbox(), &format!("w{seed}"), ok).await?;
                let person = Subscribe::messenger(messenger_recipient(seed, ok));
                client.subscriptions().create(&person).await?;
                let chat = Subscribe::chat(telegram_chat(seed, ok));
                client.subscriptions().create(&chat).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(PARALLEL)
            .try_collect::<()>()
            .await
    }

    /// Sends a notification with this text to all platforms.
    pub(crate) async fn broadcast(&self, text: &str) -> Result<NotificationId> {
        let platforms = ALL.map(|(_, _, platform)| platform);
        let notification = CreateNotification::to_platforms(platforms, text);
        Ok(self.client.notifications().create(&notification).await?.id)
    }

    pub(crate) async fn read(&self, id: &NotificationId) -> Result<NotificationRecord> {
        Ok(self.client.notifications().get(id).await?)
    }

    /// Waits until the sandbox has received nothing new for a moment.
    pub(crate) async fn settle(&self) {
        let mut ticks = tokio::time::interval(TICK);
        let (mut seen, mut quiet) = (self.seen(), 0);
        while quiet < QUIET_LOOKS {
            ticks.tick().await;
            let now = self.seen();
            quiet = if now == seen { quiet + 1 } else { 0 };
            seen = now;
        }
    }

    /// The number of requests of all kinds.
    fn seen(&self) -> u64 {
        self.sandbox().counts().answers.iter().map(|count| count.count).sum()
    }

    /// Waits until no message is in flight to a provider.
    pub(crate) async fn idle(&self, kind: ProviderKind) -> Result<()> {
        let busy = format!("notify_provider_connections{{channel=\"{kind}\",state=\"busy\"}} 0");
        until("nothing is in flight", async || {
            let metrics = self.admin().get("/metrics").await.text;
            Ok(metrics.contains(&busy).then_some(()))
        })
        .await
    }

    /// Advances the clock step by step and settles after each step, until `look` returns a value.
    pub(crate) async fn advance_until<T>(
        &self,
        what: &str,
        step: Duration,
        mut look: impl AsyncFnMut() -> Result<Option<T>>,
    ) -> Result<T> {
        let advancing = async {
            loop {
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                self.clock().advance(step);
                self.settle().await;
            }
        };
        match tokio::time::timeout(ADVANCE_MAX, advancing).await {
            Ok(found) => found,
            Err(_) => bail!("{what}: not in time, at {} s", self.elapsed_s()),
        }
    }

    /// Advances the clock until all of these notifications have completed. Returns their records.
    pub(crate) async fn completed(
        &self,
        ids: &[NotificationId],
        step: Duration,
    ) -> Result<Vec<NotificationRecord>> {
        self.advance_until("all have completed", step, async || {
            let mut records = Vec::new();
            for id in ids {
                let record = self.read(id).await?;
                if record.completed_at.is_none() {
                    return Ok(None);
                }
                records.push(record);
            }
            Ok(Some(records))
        })
        .await
    }

    /// The seconds since the start of the clock.
    pub(crate) fn elapsed_s(&self) -> i64 {
        self.clock().now().ms_since(NOW) / 1_000
    }

    pub(crate) async fn stop(self) {
        self.server.stop().await;
    }
}

/// The messages by provider, in order of arrival.
pub(crate) fn by_provider(
    journal: Vec<ReceivedRequest>,
) -> BTreeMap<&'static str, Vec<ReceivedRequest>> {
    let mut sorted: BTreeMap<&'static str, Vec<ReceivedRequest>> = BTreeMap::new();
    for message in journal {
        sorted.entry(message.provider.as_str()).or_default().push(message);
    }
    sorted
}

/// The text of a message of any provider.
pub(crate) fn text(message: &ReceivedRequest) -> &str {
    let payload = &message.payload;
    let places = [
        &payload["aps"]["alert"]["body"],
        &payload["message"]["notification"]["body"],
        &payload["body"],
        &payload["message"]["text"],
        &payload["text"],
    ];
    places.into_iter().find_map(Value::as_str).unwrap_or_default()
}
