//! T11: the effect of every response of every provider on a hundred devices: which devices are disabled,
//! which deliveries fail, which wait, and what stops.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_client::Client;
use notify_core::{
    CreateApp, CreateKey, CreateNotification, DeviceId, DeviceStatisticsQuery, NotificationId,
    NotificationRecord, Platform, ProviderKind, PushKeys, PushSubscription, RegisterDevice,
    StepKind, Subscribe,
};
use notify_sandbox::{
    Provider, Rule, ScriptedResponse, Settings, apns_token, fcm_token, messenger_recipient,
    telegram_chat,
};
use notify_server::clock::Clock as _;
use notify_tests::{ios, register, unlimited, until};
use serde_json::json;

use crate::answer_effects::{Effect, Row, rows};
use crate::manual_clock::{ALL, ManualServer};

/// The number of devices that get each response.
const DEVICES: u64 = 100;
/// The number of rows that are tried concurrently.
const PARALLEL: usize = 8;
/// The number of concurrent registrations of a row.
const REGISTRATIONS: usize = 16;
/// The number of addresses that look unregistered when the guard stops: its limit and one more
/// (`docs/delivery.md`).
const REPORTED_MAX: u64 = 21;

/// A time longer than any wait that the server chooses.
const LONGEST_WAIT: Duration = Duration::from_secs(7_200);

/// The application of a row, with devices that all get the same response.
struct Case {
    client: Client,
    platform: Platform,
}

impl Case {
    async fn new(server: &ManualServer, row: &Row) -> Result<Self> {
        let (provider, answer, _) = row;
        let (_, kind, platform) =
            *ALL.iter().find(|one| one.0 == *provider).context("it sends messages")?;
        let admin = server.client.admin();
        let name = format!("{provider:?}");
        let app = admin.create_app(&CreateApp { name, language: None }).await?.id;
        let mut config = server.config(kind);
        // With a stopped clock, the pace of Messenger and Telegram would never allow a second message.
        config["rate_per_second"] = json!(1_000_000);
        admin.put_provider(app, kind, &config).await?;
        let key = admin.create_key(app, &CreateKey::default()).await?.api_key;
        let client = Client::builder(server.origin()).api_key(key).build()?;
        let case = Self { client, platform };
        let all = stream::iter(0..DEVICES).map(|seed| case.subscribe(server, seed, answer));
        all.buffer_unordered(REGISTRATIONS).try_collect::<()>().await?;
        Ok(case)
    }

    async fn subscribe(
        &self,
        server: &ManualServer,
        seed: u64,
        answer: &ScriptedResponse,
    ) -> Result<()> {
        let name = name(seed);
        let devices = self.client.devices();
        let subscribe = match self.platform {
            Platform::Ios => {
                let device = RegisterDevice::ios(name, apns_token(seed, answer));
                devices.register(&device).await?;
                return Ok(());
            }
            Platform::Android => {
                let device = RegisterDevice::android(name, fcm_token(seed, answer));
                devices.register(&device).await?;
                return Ok(());
            }
            Platform::Web => {
                let made = server.sandbox().subscribe(None, answer)?;
                let id = made.endpoint.rsplit('/').next().context("an endpoint has an id")?;
                let accepted = ScriptedResponse::status(201).first(1);
                server.sandbox().add_rule(Rule::on(Provider::WebPush, accepted).token(id))?;
                Subscribe::web(PushSubscription {
                    endpoint: made.endpoint,
                    keys: PushKeys { p256dh: made.p256dh, auth: made.auth },
                    ..PushSubscription::default()
                })
            }
            Platform::FbMessenger => Subscribe::messenger(messenger_recipient(seed, answer)),
            Platform::ChatApp => Subscribe::chat(telegram_chat(seed, answer)),
        };
        let subscribe = Subscribe { device_id: Some(name), ..subscribe };
        self.client.subscriptions().create(&subscribe).await?;
        Ok(())
    }

    async fn send(&self) -> Result<NotificationId> {
        let notification = CreateNotification::to_platforms([self.platform], "x");
        Ok(self.client.notifications().create(&notification).await?.id)
    }

    /// Whether everything has happened that can happen while the clock stands still.
    async fn settled(
        &self,
        id: &NotificationId,
        effect: Effect,
    ) -> Result<Option<NotificationRecord>> {
        let record = self.client.notifications().get(id).await?;
        let counts = &record.counts;
        if counts.targeted < DEVICES {
            return Ok(None);
        }
        let is_settled = match effect {
            Effect::Sent | Effect::Disabled | Effect::Failed => record.completed_at.is_some(),
            Effect::Guarded => counts.unregistered == REPORTED_MAX,
            Effect::Held => self.has(id, StepKind::CredentialsRefused).await?,
            // Any further effect would also happen at once.
            Effect::Waits => true,
        };
        Ok(is_settled.then_some(record))
    }

    /// Whether the explanation of the first device has this step.
    async fn has(&self, id: &NotificationId, word: StepKind) -> Result<bool> {
        let device = DeviceId::new(name(0)).map_err(anyhow::Error::msg)?;
        let explanation = self.client.notifications().explain(id, &device).await?;
        Ok(explanation.steps.iter().any(|step| step.what == word))
    }

    async fn disabled(&self) -> Result<u64> {
        let query = DeviceStatisticsQuery::default();
        Ok(self.client.statistics().devices(&query).await?.total_disabled)
    }
}

fn name(seed: u64) -> String {
    format!("d{seed}")
}

async fn check(server: &ManualServer, row: &Row) -> Result<()> {
    let (provider, answer, effect) = row;
    let what = format!("{provider:?} {answer:?}: {effect:?}");
    let case = Case::new(server, row).await?;
    if case.platform == Platform::Web {
        // The guard counts only addresses that accepted a message before.
        let first = case.send().await?;
        let sent = async || {
            let record = case.client.notifications().get(&first).await?;
            Ok((record.counts.sent == DEVICES).then_some(()))
        };
        until(&format!("{what}: the addresses are verified"), sent).await?;
    }
    let before = server.sandbox().counts().received;
    let id = case.send().await?;
    if *effect == Effect::Waits {
        until(&what, async || Ok((server.sandbox().counts().received > before).then_some(())))
            .await?;
        server.settle().await;
    }
    let record = until(&what, async || case.settled(&id, *effect).await).await?;
    let counts = &record.counts;
    let ended = (counts.sent, counts.unregistered, counts.failed, counts.pending);
    let expected = match effect {
        Effect::Sent => (DEVICES, 0, 0, 0),
        Effect::Disabled => (0, DEVICES, 0, 0),
        Effect::Guarded => (0, REPORTED_MAX, 0, DEVICES - REPORTED_MAX),
        Effect::Failed => (0, 0, DEVICES, 0),
        Effect::Held | Effect::Waits => (0, 0, 0, DEVICES),
    };
    assert_eq!(ended, expected, "{what}: {record:?}");
    let disabled = if *effect == Effect::Disabled { DEVICES } else { 0 };
    assert_eq!(case.disabled().await?, disabled, "{what}");
    if record.completed_at.is_none() {
        // This row must not resume when the clock advances for other rows.
        case.client.notifications().cancel(&id).await?;
        let is_completed = async || Ok(case.client.notifications().get(&id).await?.completed_at);
        until("the rest is canceled", is_completed).await?;
    }
    Ok(())
}

#[tokio::test]
async fn every_provider_response_has_exactly_its_listed_effect() -> Result<()> {
    let server = ManualServer::start_with(|_, _| {}).await?;
    server.sandbox().set(Settings { max_concurrent_streams_at_start: 1_000, ..unlimited() });
    let rows = rows();
    assert!(rows.len() >= 110, "{} rows", rows.len());
    // All senders through a page share its quota, and all through a bot share its flood limit. Therefore the
    // rows with a `Retry-After` come last.
    let (waits, others): (Vec<_>, Vec<_>) =
        rows.iter().partition(|(_, _, effect)| *effect == Effect::Waits);
    let at_once = stream::iter(others).map(|row| check(&server, row));
    at_once.buffer_unordered(PARALLEL).try_collect::<()>().await?;
    for row in waits {
        // The clock moves past every wait that another row caused.
        server.clock().advance(LONGEST_WAIT);
        check(&server, row).await?;
    }
    server.stop().await;
    Ok(())
}

/// Apple's report that a token was invalid has no effect if the device registered after the reported time.
#[tokio::test]
async fn a_410_from_before_a_registration_spares_the_device() -> Result<()> {
    let server = ManualServer::start_with(|_, _| {}).await?;
    let now = server.clock().now();
    let dead_since = |ms: i64| {
        let answer =
            ScriptedResponse { timestamp_ms: Some(now.plus_ms(ms).as_ms()), ..unregistered() };
        Rule::on(Provider::Apns, answer)
    };
    let devices: Vec<_> = (0..2 * DEVICES).map(|seed| ios(seed, &ScriptedResponse::ok())).collect();
    for (seed, device) in (0..).zip(&devices) {
        let token = device.push_token.as_deref().context("it has one")?;
        // Half of the tokens became invalid an hour before their registration, the other half an hour after
        // it.
        let since_ms = if seed < DEVICES { -3_600_000 } else { 3_600_000 };
        server.sandbox().add_rule(dead_since(since_ms).token(token))?;
    }
    register(&server.client, devices).await?;
    server.clock().advance(Duration::from_secs(7_200));
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = server.client.notifications().create(&notification).await?.id;
    let record = until("all are answered", async || {
        let record = server.read(&id).await?;
        Ok(record.completed_at.is_some().then_some(record))
    })
    .await?;
    assert_eq!(record.counts.unregistered, 2 * DEVICES, "{record:?}");
    let statistics = server.client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    assert_eq!((statistics.total_enabled, statistics.total_disabled), (DEVICES, DEVICES));
    server.stop().await;
    Ok(())
}

fn unregistered() -> ScriptedResponse {
    ScriptedResponse::reason("Unregistered")
}

/// With the wrong host, five thousand tokens look unregistered. The row's figure of twenty purges counts the
/// responses that the server believes at first. Their devices are enabled again when the guard stops.
#[tokio::test]
async fn five_thousand_tokens_reported_dead_disable_no_device() -> Result<()> {
    const CROWD: u64 = 5_000;
    /// A lane that is stopped reads this many devices ahead, in pages of 2,000, and no more.
    const READ_AHEAD: RangeInclusive<u64> = 2_000..=4_000;
    let server = ManualServer::start_with(|_, _| {}).await?;
    let bad = ScriptedResponse::reason("BadDeviceToken");
    register(&server.client, (0..CROWD).map(|seed| ios(seed, &bad))).await?;
    let notification = CreateNotification::to_platforms([Platform::Ios], "x");
    let id = server.client.notifications().create(&notification).await?.id;
    let stopped = |record: &NotificationRecord| record.counts.unregistered == REPORTED_MAX;
    until("the guard stops", async || {
        let record = server.read(&id).await?;
        Ok((stopped(&record) && READ_AHEAD.contains(&record.counts.targeted)).then_some(()))
    })
    .await?;
    // The responses to the messages in flight arrive one after another.
    server.idle(ProviderKind::Apns).await?;
    server.clock().advance(Duration::from_secs(3_600));
    server.settle().await;
    let asked = server.sandbox().counts().received;
    let record = server.read(&id).await?;
    assert!(stopped(&record) && record.counts.failed == 0, "{record:?}");
    assert!(READ_AHEAD.contains(&record.counts.targeted), "{record:?}");
    assert_eq!(record.counts.pending, record.counts.targeted - REPORTED_MAX);
    let statistics = server.client.statistics().devices(&DeviceStatisticsQuery::default()).await?;
    assert_eq!(statistics.total_disabled, 0);
    println!("{asked} of {CROWD} were asked");
    assert!(asked <= CROWD / 20, "{asked} were asked before it stopped");

    // An administrator corrects the host and resumes the provider. Deliveries with a reported outcome keep
    // it.
    server.sandbox().add_rule(Rule::on(Provider::Apns, ScriptedResponse::ok()))?;
    server.client.admin().resume_provider(server.app_id, ProviderKind::Apns).await?;
    let step = Duration::from_secs(1);
    let record = server.completed(&[id], step).await?.remove(0);
    let counts = &record.counts;
    assert_eq!((counts.sent, counts.unregistered), (CROWD - REPORTED_MAX, REPORTED_MAX));
    server.stop().await;
    Ok(())
}
