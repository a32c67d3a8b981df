//! Small applications next to a large one. Their notifications must not wait for the large application's.

use std::time::Instant;

use anyhow::Result;
use futures_util::future::try_join_all;
use notify_client::Client;
use notify_core::{CreateApp, CreateKey, CreateNotification, Platform, ProviderKind};
use notify_sandbox::{Sandbox, ScriptedResponse};
use notify_tests::{WAIT_MAX, android, start_sandbox};

use crate::audience::phones;
use crate::stage::Stage;
use crate::{devices, within};

/// The default number of devices of the large application.
const LARGE: u64 = 40_000;
/// The number of small applications, each with one device.
const SMALL: usize = 4;
/// The least number of rounds. In each round, every small application sends once.
const ROUNDS_MIN: u64 = 100;
/// The deliveries of the large application between two rounds, if there are more rounds.
const DEVICES_A_ROUND: u64 = 2_000;
/// The longest time from the accept to the provider at full size, in milliseconds.
const P99_MS_MAX: u128 = 1_000;

/// The slowest message of one round.
#[derive(Debug, Clone, Copy)]
struct Round {
    /// The number of the large application's messages that were sent during the round.
    passed: u64,
    took_ms: u128,
}

#[tokio::test]
async fn small_applications_do_not_wait_for_a_large_one() -> Result<()> {
    let (devices, is_asked) = devices(LARGE);
    let stage = Stage::with(phones, devices).await?;
    let sandbox = start_sandbox().await?;
    let small = small_applications(&stage, &sandbox).await?;
    let both = [Platform::Android, Platform::Ios];
    let large = CreateNotification::to_platforms(both, "Everybody");
    stage.client.notifications().create(&large).await?;

    let rounds = ROUNDS_MIN.max(devices / DEVICES_A_ROUND);
    let mut seen = Vec::new();
    for round in 0..rounds {
        // The large application's progress triggers the rounds, so the last round comes before its end.
        let progress = usize::try_from(devices * round / rounds)?;
        stage.sandbox.wait_for(progress, within(devices)).await;
        seen.push(send_once(&stage, &small, &sandbox).await?);
    }
    stage.sandbox.wait_for(usize::try_from(devices)?, within(devices)).await;
    assert_eq!(stage.sandbox.counts().accepted_tokens, devices);
    assert_eq!(sandbox.counts().accepted, rounds * SMALL as u64, "each of the small ones once");

    let p99 = p99(&seen);
    println!("{devices} devices, {rounds} rounds of {SMALL}, p99 of a round: {p99:?}");
    // The limit is in messages of the large application, because times depend on the machine. A small
    // application that waited behind the large one would let all of its remaining messages pass first, on
    // average half of them.
    assert!(p99.passed <= devices / 2, "{p99:?}");
    assert!(!is_asked || p99.took_ms <= P99_MS_MAX, "{p99:?}");
    Ok(())
}

/// Each small application sends to its device. Returns when all messages have arrived.
async fn send_once(stage: &Stage, small: &[Client], sandbox: &Sandbox) -> Result<Round> {
    let arrived = sandbox.counts().received;
    let before = stage.sandbox.counts().received;
    let started = Instant::now();
    let notification = CreateNotification::to_platforms([Platform::Android], "For you alone");
    try_join_all(small.iter().map(|client| {
        let notification = notification.clone();
        async move { client.notifications().create(&notification).await }
    }))
    .await?;
    sandbox.wait_for(usize::try_from(arrived)? + small.len(), WAIT_MAX).await;
    let took_ms = started.elapsed().as_millis();
    Ok(Round { passed: stage.sandbox.counts().received - before, took_ms })
}

/// The 99th percentile of the rounds, by each measure.
fn p99(rounds: &[Round]) -> Round {
    let at = rounds.len() * 99 / 100 - 1;
    let mut passed: Vec<_> = rounds.iter().map(|round| round.passed).collect();
    let mut took: Vec<_> = rounds.iter().map(|round| round.took_ms).collect();
    passed.sort_unstable();
    took.sort_unstable();
    Round { passed: passed[at], took_ms: took[at] }
}

/// Clients of applications that send to a separate sandbox.
async fn small_applications(stage: &Stage, sandbox: &Sandbox) -> Result<Vec<Client>> {
    let admin = stage.client.admin();
    let mut clients = Vec::new();
    for number in 0..SMALL as u64 {
        let app = CreateApp { name: format!("Small {number}"), language: None };
        let app = admin.create_app(&app).await?.id;
        admin.put_provider(app, ProviderKind::Fcm, &sandbox.fcm_config()).await?;
        let key = admin.create_key(app, &CreateKey::default()).await?.api_key;
        let client = Client::builder(&stage.server.origin).api_key(key).build()?;
        client.devices().register(&android(number, &ScriptedResponse::ok())).await?;
        clients.push(client);
    }
    Ok(clients)
}
