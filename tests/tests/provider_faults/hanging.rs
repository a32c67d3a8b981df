//! T5 and T10: providers that never respond, or never end a response. They do not affect other providers, and
//! the server leaks nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{CreateNotification, Platform, ProviderKind, Subscribe};
use notify_sandbox::{
    Fault, Provider, ReceivedRequest, Rule, ScriptedResponse, Settings, apns_token, fcm_token,
    messenger_recipient, telegram_chat,
};
use notify_tests::{
    Caller, ServerProcess, TestServer, WAIT_MAX, android, completed, configure_providers, ios,
    register, start_sandbox, unlimited, until,
};
use serde_json::json;

/// The number of devices on each platform.
const DEVICES: u64 = 1_000;
/// The first message to every n-th phone gets no response.
const SILENT_EVERY: u64 = 100;
/// The number of APNs responses that take an hour to end.
const DAWDLING: u64 = 10;
/// The longest time of an attempt, in milliseconds, with a tolerance of a second (T5).
const ATTEMPT_MS: i64 = 30_000;
/// The first delay of a retry with its jitter, in milliseconds.
const DELAY_MS: std::ops::RangeInclusive<i64> = 1_000..=2_000;
/// The most memory that the server may add in that time, in bytes (T5).
const GROWTH_MAX: u64 = 32 * 1_048_576;
/// The time by which all other devices have the message, long before the hanging attempts end.
const OTHERS: Duration = Duration::from_secs(20);

fn silent(seed: u64) -> ScriptedResponse {
    match seed % SILENT_EVERY {
        0 => ScriptedResponse::fault(Fault::Silence).first(1),
        _ => ScriptedResponse::ok(),
    }
}

#[tokio::test]
async fn silent_and_endless_responses_delay_no_others_and_leak_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = ServerProcess::start(folder.path()).await?;
    let (api, admin) = (server.api_key.as_deref(), server.admin_key.as_deref());
    let (api, admin) = (api.context("a key")?, admin.context("a key")?);
    let client = Client::builder(&server.origin).api_key(api).admin_key(admin).build()?;
    let sandbox = start_sandbox().await?;
    configure_providers(&client, &sandbox).await?;
    register(&client, (0..DEVICES).map(|seed| ios(seed, &ScriptedResponse::ok()))).await?;
    register(&client, (0..DEVICES).map(|seed| android(seed, &silent(seed)))).await?;
    // The memory that a broadcast takes without a fault does not count as growth.
    let both = [Platform::Ios, Platform::Android];
    let warm = CreateNotification::to_platforms([Platform::Ios], "warm");
    completed(&client, &client.notifications().create(&warm).await?.id).await?;
    let memory = server.memory_peak()?;
    sandbox.clear();
    for seed in 0..DAWDLING {
        let token = apns_token(seed, &ScriptedResponse::ok());
        let endless = Rule::on(Provider::Apns, ScriptedResponse::ok()).more_bytes(1_000, 10_000);
        sandbox.add_rule(endless.token(&token))?;
    }
    let began = Instant::now();
    let notification = CreateNotification::to_platforms(both, "x");
    let id = client.notifications().create(&notification).await?.id;
    let others = 2 * DEVICES - DEVICES / SILENT_EVERY - DAWDLING;
    until("all others have it", async || {
        Ok((client.notifications().get(&id).await?.counts.sent >= others).then_some(()))
    })
    .await?;
    assert!(began.elapsed() < OTHERS, "{:?}", began.elapsed());
    let record = completed(&client, &id).await?;
    assert_eq!(record.counts.sent, 2 * DEVICES, "{record:?}");

    let journal = sandbox.received();
    for seed in (0..DEVICES).step_by(SILENT_EVERY as usize) {
        let at = arrivals(&journal, &fcm_token(seed, &silent(seed)));
        let waited_ms = at[1] - at[0];
        let wanted = ATTEMPT_MS - 1_000 + DELAY_MS.start()..=ATTEMPT_MS + 1_000 + DELAY_MS.end();
        assert!(at.len() == 2 && wanted.contains(&waited_ms), "{seed}: {at:?}");
    }
    // A message whose response has a success status is not sent again, even if the response never ends.
    for seed in 0..DAWDLING {
        assert_eq!(
            arrivals(&journal, &apns_token(seed, &ScriptedResponse::ok())).len(),
            1,
            "{seed}"
        );
    }
    let admin = Caller::admin(&server.origin, admin);
    until("nothing is in flight", async || {
        let metrics = admin.send(&Method::GET, "/metrics", "").await?.text;
        let idle = |kind| {
            let busy =
                format!("notify_provider_connections{{channel=\"{kind}\",state=\"busy\"}} 0");
            metrics.contains(&busy)
        };
        Ok((idle("apns") && idle("fcm")).then_some(()))
    })
    .await?;
    let grown = server.memory_peak()?.saturating_sub(memory);
    println!("grown by {} KiB", grown / 1_024);
    assert!(grown <= GROWTH_MAX, "{} MiB", grown / 1_048_576);
    sandbox.stop().await;
    server.kill().await
}

/// The times at which messages to a token arrived.
fn arrivals(journal: &[ReceivedRequest], token: &str) -> Vec<i64> {
    let to_it = journal.iter().filter(|message| message.token.as_deref() == Some(token));
    to_it.map(|message| message.at_ms).collect()
}

/// The number of devices on each working platform and on the hanging one.
const LIVE: u64 = 400;
const DEAD: u64 = 2_000;
/// The duration of each response. It makes the number of streams, not the speed of this machine, limit the
/// rate.
const ANSWER_MS: u64 = 100;
/// The number of streams of a connection.
const STREAMS: u32 = 5;
/// The number of broadcasts with and without the hanging platform. The fastest of each kind counts.
const ROUNDS: usize = 4;
/// The share of the throughput that must remain (T10).
const SHARE_MIN: f64 = 0.9;

/// The time of a broadcast to the other platforms.
async fn broadcast(server: &TestServer) -> Result<Duration> {
    let others = [Platform::Android, Platform::FbMessenger, Platform::ChatApp];
    let notification = CreateNotification::to_platforms(others, "x");
    let began = Instant::now();
    let id = server.client().notifications().create(&notification).await?.id;
    let record = server.completed(&id).await?;
    let took = began.elapsed();
    assert_eq!(record.counts.sent, others.len() as u64 * LIVE, "{record:?}");
    Ok(took)
}

#[tokio::test]
async fn a_dead_provider_does_not_reduce_the_throughput_of_others() -> Result<()> {
    let server = TestServer::start().await;
    let (client, sandbox) = (server.client(), &server.sandbox());
    for (kind, mut config) in [
        (ProviderKind::Messenger, sandbox.messenger_config()),
        (ProviderKind::Telegram, sandbox.telegram_config()),
    ] {
        config["rate_per_second"] = json!(1_000_000);
        client.admin().put_provider(server.app_id, kind, &config).await?;
    }
    sandbox.set(Settings { max_concurrent_streams: STREAMS, ..unlimited() });
    register(&client, (0..LIVE).map(|seed| android(seed, &ScriptedResponse::ok()))).await?;
    register(&client, (0..DEAD).map(|seed| ios(seed, &ScriptedResponse::ok()))).await?;
    let (client_of, ok) = (&client, &ScriptedResponse::ok());
    let chats = (0..LIVE).map(|seed| async move {
        let person = Subscribe::messenger(messenger_recipient(seed, ok));
        client_of.subscriptions().create(&person).await?;
        let chat = Subscribe::chat(telegram_chat(seed, ok));
        client_of.subscriptions().create(&chat).await
    });
    futures_util::future::try_join_all(chats).await?;
    for provider in [Provider::Fcm, Provider::Messenger, Provider::Telegram] {
        sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    sandbox.add_rule(Rule::on(Provider::Apns, ScriptedResponse::fault(Fault::Silence)))?;
    // The first broadcast opens the connections.
    broadcast(&server).await?;
    let (mut alone, mut next_to_dead) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        alone = alone.min(broadcast(&server).await?);
    }
    let before = sandbox.counts().received;
    let dead = CreateNotification::to_platforms([Platform::Ios], "dead");
    let dead = client.notifications().create(&dead).await?.id;
    sandbox.wait_for(usize::try_from(before)? + 1, WAIT_MAX).await;
    for _ in 0..ROUNDS {
        next_to_dead = next_to_dead.min(broadcast(&server).await?);
    }
    assert!(sandbox.counts().answers.iter().any(|count| count.provider == Provider::Apns));
    assert_eq!(client.notifications().get(&dead).await?.counts.sent, 0);
    let share = alone.as_secs_f64() / next_to_dead.as_secs_f64();
    println!("{alone:?} alone, {next_to_dead:?} next to a dead one: {share:.2}");
    assert!(share >= SHARE_MIN, "{alone:?} alone, {next_to_dead:?} next to a dead one");
    // A silent provider would delay the stop.
    client.notifications().cancel(&dead).await?;
    sandbox.clear();
    sandbox.drop_connections();
    server.stop().await;
    Ok(())
}
