//! T3: a clean stop under load, with slow push services. The stop loses and repeats nothing, ends within the
//! grace period, and rejects new requests cleanly.

use std::time::Duration;

use anyhow::{Result, ensure};
use fastrand::Rng;
use notify_core::{CreateNotification, Platform};
use notify_sandbox::{Fault, Provider, Rule, ScriptedResponse};
use notify_tests::{
    Expected, LoggedResponse, RestartableServer, WAIT_MAX, completed, configure_providers, crowd,
    register,
};

use crate::load::{Load, settle};
use crate::{launch, launch_with, setting};

/// The delay of every push service.
const ANSWER_MS: u64 = 2_000;
/// The most messages in flight: more than the load of a second.
const SLOW_CREDIT: usize = 1_024;
/// The number of stops of one server.
const STOPS: u32 = 4;
/// The longest time between a start and its stop.
const STOP_WITHIN_MS: u64 = 1_500;
/// The number of applications that send concurrently.
const TENANTS: u64 = 2;
/// The results except 200 that callers may get while a server stops: 503, then a refused connection. Any
/// other result, such as a reset, leaves the effect of the request unknown.
const CLEAN: [&str; 2] = ["the server failed with status 503", "cannot connect"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stops_under_load_lose_and_repeat_nothing_and_reject_cleanly() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T3: NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch_with(&data_dir, SLOW_CREDIT)).await?;
    let mut load = Load::prepare(&server, TENANTS, &folder.path().join("request_log")).await?;
    for provider in
        [Provider::Apns, Provider::Fcm, Provider::WebPush, Provider::Messenger, Provider::Telegram]
    {
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    load.begin(&server, &mut rng);
    let mut longest = Duration::ZERO;
    for _ in 0..STOPS {
        load.go_on(Duration::from_millis(rng.u64(..STOP_WITHIN_MS))).await?;
        longest = longest.max(server.stop().await?);
        server.start_again().await?;
    }
    load.end().await?;
    load.drain(&server).await?;
    // The delay rule replaces the responses that the addresses select, so no address is unregistered here.
    for tenant in &mut load.tenants {
        tenant.members.iter_mut().for_each(|member| member.expected = Expected::Delivered);
    }
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    assert_eq!(verdict.repeated(), 0, "every answer was waited for: {verdict:?}");
    let mut refusals = 0;
    for entry in load.request_log.entries()? {
        for response in &entry.responses {
            if let LoggedResponse::Unknown(what) = response {
                let is_clean = CLEAN.iter().any(|clean| what.starts_with(clean));
                ensure!(is_clean, "{}: {what}", entry.request.key);
                refusals += 1;
            }
        }
    }
    ensure!(refusals > 0, "a request was made during a stop");
    println!(
        "T3: {STOPS} stops, at most {longest:.1?}, {} pairs, 0 lost, 0 repeats, {refusals} clean \
         refusals",
        verdict.pairs
    );
    settle(server, &data_dir).await
}

const DEVICES: u64 = 3_000;
/// The numbers of received messages at which the server is stopped.
const STOP_AFTER: [usize; 3] = [1, 400, 900];

#[tokio::test]
async fn stops_in_the_middle_of_a_large_notification_repeat_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut server = RestartableServer::start(launch(folder.path())).await?;
    configure_providers(&server.client()?, &server.sandbox).await?;
    register(&server.client()?, crowd(DEVICES)).await?;
    // The responses are delayed, so that many messages are in flight at each stop.
    for provider in [Provider::Apns, Provider::Fcm] {
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(30))?;
    }
    let everybody = CreateNotification::to_platforms([Platform::Android, Platform::Ios], "x");
    let id = server.client()?.notifications().create(&everybody).await?.id;
    for after in STOP_AFTER {
        server.sandbox.wait_for(after, WAIT_MAX).await;
        server.stop().await?;
        server.start_again().await?;
    }
    let record = completed(&server.client()?, &id).await?;
    assert_eq!((record.counts.targeted, record.counts.sent), (DEVICES, DEVICES), "{record:?}");
    let counts = server.sandbox.counts();
    let once = (DEVICES, DEVICES, DEVICES);
    assert_eq!((counts.received, counts.accepted, counts.accepted_tokens), once);
    settle(server, folder.path()).await
}

/// The longest time until a process ends whose grace period is a second.
const END_MAX: Duration = Duration::from_secs(25);

/// A missing response of a provider does not keep the process running after its grace period.
#[tokio::test]
async fn a_silent_provider_does_not_delay_a_stop_beyond_the_grace() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let short = launch(folder.path()).argument("--shutdown-grace").argument("1s");
    let mut server = RestartableServer::start(short).await?;
    configure_providers(&server.client()?, &server.sandbox).await?;
    register(&server.client()?, crowd(2)).await?;
    for provider in [Provider::Apns, Provider::Fcm] {
        server
            .sandbox
            .add_rule(Rule::on(provider, ScriptedResponse::fault(Fault::Silence).first(1)))?;
    }
    let everybody = CreateNotification::to_platforms([Platform::Android, Platform::Ios], "x");
    let id = server.client()?.notifications().create(&everybody).await?.id;
    server.sandbox.wait_for(2, WAIT_MAX).await;
    let took = server.stop().await?;
    ensure!(took < END_MAX, "it ended after {took:?}, and an answer has thirty seconds");
    server.start_again().await?;
    let record = completed(&server.client()?, &id).await?;
    assert_eq!(record.counts.sent, 2, "it goes on where it was cut off: {record:?}");
    settle(server, folder.path()).await
}
