//! T27: the server is killed again and again while it sends messages whose platform cannot recognise a repeat.
//! A kill repeats at most `--max-unacked-without-dedup` of them, and none if the application chose
//! `on_crash: skip`.
//!
//! `NOTIFY_CRASH_RUNS=200` makes more kills; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_client::Client;
use notify_core::{
    CreateNotification, NotificationId, NotificationRecord, OnCrash, Platform, Subscribe, UpdateApp,
};
use notify_sandbox::{
    Provider, ReceivedRequest, Rule, ScriptedResponse, messenger_recipient, telegram_chat,
};
use notify_tests::{RestartableServer, WAIT_MAX, android, completed, configure_all, register};
use serde_json::json;

use crate::load::settle;
use crate::{launch_with, setting};

/// The default number of kills.
const RUNS: u64 = 6;
/// The number of kills on one data folder. After them, all work must be completed.
const RUNS_PER_FOLDER: u64 = 3;
/// The default of `--max-unacked-without-dedup`, and the most repeats of one kill.
const REPEATS_MAX: usize = 64;
/// The default of `--max-unacked-deliveries`, which would allow far more repeats.
const UNACKED: usize = 4_096;
/// The number of Android devices, and of chats on Messenger and on Telegram.
const PHONES: u64 = 300;
const CHATS: u64 = 40;
/// The server is killed when it has sent fewer messages than this of a run.
const MESSAGES: usize = 360;
/// The delay of the providers' responses, so that a kill finds messages without one.
const ANSWER_MS: u64 = 80;
/// The number of messages of each provider that get an error at first, and among how many they are.
const ERRORS: usize = 12;
const ERRORS_AMONG: u32 = 240;

/// What happened over all kills.
#[derive(Debug, Default)]
struct Sum {
    deliveries: u64,
    repeats: usize,
    largest: usize,
    skipped: u64,
    most_skipped: u64,
}

/// The name and device of a message, and how often it was accepted.
type Accepted = BTreeMap<(String, String), usize>;

async fn populate(client: &Client) -> Result<()> {
    let ok = ScriptedResponse::ok();
    register(client, (0..PHONES).map(|seed| android(seed, &ok))).await?;
    for seed in 0..CHATS {
        let messenger = Subscribe::messenger(messenger_recipient(seed, &ok));
        let telegram = Subscribe::chat(telegram_chat(seed, &ok));
        for (device, subscribe) in [(format!("m{seed}"), messenger), (format!("c{seed}"), telegram)]
        {
            let subscribe = Subscribe { device_id: Some(device), ..subscribe };
            client.subscriptions().create(&subscribe).await?;
        }
    }
    Ok(())
}

/// A raw data message to all phones, and a message to all chats.
fn notifications(name: &str) -> Result<[CreateNotification; 2]> {
    let payload = serde_json::from_value(json!({ "name": name }))?;
    let chats = [Platform::FbMessenger, Platform::ChatApp];
    Ok([
        CreateNotification::to_platforms([Platform::Android], "x").android_json(payload),
        CreateNotification::to_platforms(chats, name),
    ])
}

/// The name of the notification of a message.
fn name_of(message: &ReceivedRequest) -> Option<&str> {
    let payload = &message.payload;
    let name = match message.provider {
        Provider::Fcm => &payload["message"]["data"]["name"],
        Provider::Messenger => &payload["message"]["text"],
        Provider::Telegram => &payload["text"],
        Provider::Apns | Provider::WebPush | Provider::Oauth => return None,
    };
    name.as_str()
}

fn accepted(server: &RestartableServer) -> Result<Accepted> {
    ensure!(server.sandbox.counts().dropped == 0, "the sandbox's log has dropped messages");
    let mut accepted = Accepted::new();
    for message in server.sandbox.received().iter().filter(|message| message.status == 200) {
        let Some(name) = name_of(message) else { continue };
        let address = message.token.clone().context("a message has an address")?;
        *accepted.entry((name.to_owned(), address)).or_default() += 1;
    }
    Ok(accepted)
}

async fn kill_and_check(rng: &mut Rng, runs: u64, on_crash: OnCrash, sum: &mut Sum) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch_with(&data_dir, UNACKED)).await?;
    let client = server.client()?;
    let app = client.admin().all_apps(&Default::default()).next().await.context("an app")??.id;
    let change = UpdateApp { on_crash: Some(on_crash.to_string()), ..UpdateApp::default() };
    client.admin().update_app(app, &change).await?;
    configure_all(&client, app, &server.sandbox).await?;
    populate(&client).await?;
    for provider in [Provider::Fcm, Provider::Messenger, Provider::Telegram] {
        // Some messages are in flight as retries.
        for _ in 0..ERRORS {
            let unavailable = ScriptedResponse::status(503).first(1);
            let rule = Rule::on(provider, unavailable).after(rng.u32(..ERRORS_AMONG));
            server.sandbox.add_rule(rule)?;
        }
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    let mut ids: Vec<NotificationId> = Vec::new();
    let (mut repeated_before, mut skipped_before) = (0, 0);
    for run in 0..runs {
        let client = server.client()?;
        for notification in notifications(&format!("run {run}"))? {
            ids.push(client.notifications().create(&notification).await?.id);
        }
        let sent = server.sandbox.received().len() + rng.usize(..MESSAGES);
        server.sandbox.wait_for(sent, WAIT_MAX).await;
        server.kill(REPEATS_MAX).await?;
        server.start_again().await?;
        // Everything completes before the next kill, so each kill is checked alone.
        let client = server.client()?;
        let mut skipped = 0;
        for id in &ids {
            skipped += completed(&client, id).await?.counts.failed;
        }
        sum.most_skipped = sum.most_skipped.max(skipped - skipped_before);
        skipped_before = skipped;
        let repeated: usize = accepted(&server)?.values().map(|count| count - 1).sum();
        sum.largest = sum.largest.max(repeated - repeated_before);
        repeated_before = repeated;
    }
    sum.repeats += repeated_before;
    let (mut sent, mut skipped) = (0, 0);
    for id in &ids {
        let NotificationRecord { counts, failures, .. } = completed(&server.client()?, id).await?;
        ensure!(counts.targeted == counts.sent + counts.failed, "{id}: {counts:?} {failures:?}");
        ensure!(failures.iter().all(|row| row.reason == "outcome_unknown"), "{id}: {failures:?}");
        sum.deliveries += counts.targeted;
        sent += counts.sent;
        skipped += counts.failed;
    }
    // Some of the messages without a known outcome arrived. Nothing that counts as sent is missing.
    let arrived = accepted(&server)?.len() as u64;
    ensure!((sent..=sent + skipped).contains(&arrived), "{sent} sent, {arrived} arrived");
    sum.skipped += skipped;
    settle(server, &data_dir).await
}

/// How often the server is killed, and the seed of the times.
fn settings() -> (u64, u64) {
    let runs = setting("NOTIFY_CRASH_RUNS").unwrap_or(RUNS);
    (runs, setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..)))
}

/// Kills the server again and again, and returns what happened.
async fn kill(runs: u64, seed: u64, on_crash: OnCrash) -> Result<Sum> {
    let (mut rng, mut sum) = (Rng::with_seed(seed), Sum::default());
    for first in (0..runs).step_by(usize::try_from(RUNS_PER_FOLDER)?) {
        let runs = RUNS_PER_FOLDER.min(runs - first);
        let result = kill_and_check(&mut rng, runs, on_crash, &mut sum).await;
        result.with_context(|| format!("NOTIFY_CRASH_SEED={seed}"))?;
    }
    Ok(sum)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_repeats_few_messages_that_people_would_see_twice() -> Result<()> {
    let (runs, seed) = settings();
    let sum = kill(runs, seed, OnCrash::Repeat).await?;
    println!("T27, repeat: NOTIFY_CRASH_RUNS={runs} NOTIFY_CRASH_SEED={seed} {sum:?}");
    ensure!(sum.largest <= REPEATS_MAX, "{sum:?}");
    ensure!(sum.repeats > 0 && sum.skipped == 0, "the kills hit a server that sends: {sum:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_repeats_no_message_if_the_application_skips_them() -> Result<()> {
    let (runs, seed) = settings();
    let sum = kill(runs, seed, OnCrash::Skip).await?;
    println!("T27, skip: NOTIFY_CRASH_RUNS={runs} NOTIFY_CRASH_SEED={seed} {sum:?}");
    ensure!(sum.repeats == 0, "{sum:?}");
    ensure!((1..=REPEATS_MAX as u64).contains(&sum.most_skipped), "{sum:?}");
    Ok(())
}
