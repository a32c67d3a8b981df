//! T5 and T10: providers that never respond, or never end a response. They do not affect other providers, and
//! the server leaks nothing.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use http::Method;
use notify_client::Client;
use notify_core::{CreateNotification, Platform, ProviderKind, Subscribe};
use notify_sandbox::{
    Fault, Provider, ReceivedRequest, Rule, ScriptedResponse, apns_token, fcm_token,
    messenger_recipient, telegram_chat,
};
use notify_tests::{
    Caller, ServerProcess, TestServer, WAIT_MAX, android, completed, configure_providers, ios,
    register, start_sandbox, until,
};
use serde_json::json;

/// The number of devices on each platform.
const DEVICES: u64 = 500;
/// The first message to every n-th phone gets no response.
const SILENT_EVERY: u64 = 50;
/// The number of APNs responses that take an hour to end.
const DAWDLING: u64 = 10;
/// The most memory that the server may add in that time, in bytes (T5).
const GROWTH_MAX: u64 = 32 * 1_048_576;

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
    let notification = CreateNotification::to_platforms(both, "x");
    let id = client.notifications().create(&notification).await?.id;
    let others = 2 * DEVICES - DEVICES / SILENT_EVERY - DAWDLING;
    until("all others have it", async || {
        Ok((client.notifications().get(&id).await?.counts.sent >= others).then_some(()))
    })
    .await?;
    // No hanging attempt has ended: its device would have a second message.
    let of_silent = |seed| fcm_token(seed, &silent(seed));
    let hanging = || (0..DEVICES).step_by(SILENT_EVERY as usize);
    let journal = sandbox.received();
    assert!(hanging().all(|seed| arrivals(&journal, &of_silent(seed)) == 1), "each has one");
    let record = completed(&client, &id).await?;
    assert_eq!(record.counts.sent, 2 * DEVICES, "{record:?}");

    let journal = sandbox.received();
    assert!(hanging().all(|seed| arrivals(&journal, &of_silent(seed)) == 2), "each has a second");
    // A message whose response has a success status is not sent again, even if the response never ends.
    for seed in 0..DAWDLING {
        let at = arrivals(&journal, &apns_token(seed, &ScriptedResponse::ok()));
        assert_eq!(at, 1, "{seed}");
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

/// The number of messages to a token that arrived.
fn arrivals(journal: &[ReceivedRequest], token: &str) -> usize {
    journal.iter().filter(|message| message.token.as_deref() == Some(token)).count()
}

/// The number of devices on each working platform and on the hanging one.
const LIVE: u64 = 200;
const DEAD: u64 = 1_000;

/// The devices of a provider that never responds outnumber the others' and come first.
#[tokio::test]
async fn a_dead_provider_does_not_hold_up_others() -> Result<()> {
    let server = TestServer::start().await;
    let (client, sandbox) = (server.client(), &server.sandbox());
    for (kind, mut config) in [
        (ProviderKind::Messenger, sandbox.messenger_config()),
        (ProviderKind::Telegram, sandbox.telegram_config()),
    ] {
        config["rate_per_second"] = json!(1_000_000);
        client.admin().put_provider(server.app_id, kind, &config).await?;
    }
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
    sandbox.add_rule(Rule::on(Provider::Apns, ScriptedResponse::fault(Fault::Silence)))?;
    let dead = CreateNotification::to_platforms([Platform::Ios], "dead");
    let dead = client.notifications().create(&dead).await?.id;
    sandbox.wait_for(1, WAIT_MAX).await;
    let others = [Platform::Android, Platform::FbMessenger, Platform::ChatApp];
    let notification = CreateNotification::to_platforms(others, "x");
    let id = client.notifications().create(&notification).await?.id;
    let record = server.completed(&id).await?;
    assert_eq!(record.counts.sent, others.len() as u64 * LIVE, "{record:?}");
    // None of its attempts has ended: a device would have a second message.
    let to_dead =
        sandbox.received().into_iter().filter(|message| message.provider == Provider::Apns);
    let tokens: Vec<_> = to_dead.map(|message| message.token).collect();
    assert_eq!(tokens.iter().collect::<BTreeSet<_>>().len(), tokens.len());
    // A silent provider would delay the stop.
    client.notifications().cancel(&dead).await?;
    sandbox.clear();
    sandbox.drop_connections();
    server.stop().await;
    Ok(())
}
