//! T28: two servers on one database send a notification with a rate. The server that answers a pause is killed,
//! and the other one takes over its work. Nothing starts during the pause, the rest follows after it, and the
//! rate holds all the time.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use notify_core::{CreateNotification, Platform};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_server::clock::{Clock, SystemClock};
use notify_tests::{
    Arrival, Installation, RestartableServer, completed, configure_providers, crowd, register,
    until,
};

use crate::{CREDIT, launch};

/// The number of devices, half of them on Android and half on iOS.
const DEVICES: u64 = 240;
/// The rate of the notification.
const PER_MINUTE: usize = 360;
/// The attempts of one grant.
const GRANT: usize = PER_MINUTE / 24;
/// The notification is paused when this many devices have it. It is no multiple of [`GRANT`].
const BEFORE_PAUSE: usize = 50;
/// The delay of the providers' responses, so that the kill finds messages without one.
const ANSWER_MS: u64 = 500;
/// How long after the answer to a pause attempts may start, in milliseconds.
const STARTS_MS_MAX: i64 = 20_000;
/// The rate of the notification during the pause. Six devices take 25 seconds, which is longer than the lease of
/// a dead server.
const SLOWLY: u32 = 12;
const DURING_PAUSE: [&str; 6] = ["i1", "i3", "i5", "i7", "i9", "i11"];
/// The messages are counted in each window of this length, in milliseconds.
const WINDOW_MS: i64 = 10_000;
/// How long a message may take from its start to the sandbox on a busy machine, in milliseconds. Without a rate, all
/// would arrive in one window.
const WIRE_MS_MAX: i64 = 15_000;
/// The most messages in a window: those of the rate, and a twelfth of those in a minute.
const IN_WINDOW_MAX: usize =
    PER_MINUTE * (WINDOW_MS + WIRE_MS_MAX) as usize / 60_000 + PER_MINUTE / 12;

const PACED: &str = "paced";
const MEANWHILE: &str = "meanwhile";

/// The messages of the paced notification, in the order of their arrival.
fn paced(server: &RestartableServer) -> Result<Vec<Arrival>> {
    let mut arrivals = server.arrivals()?;
    arrivals.retain(|arrival| arrival.text == PACED);
    arrivals.sort_by_key(|arrival| arrival.at_ms);
    Ok(arrivals)
}

fn most_in_a_window(arrivals: &[Arrival]) -> usize {
    let in_window = |first: &Arrival| {
        let end = first.at_ms + WINDOW_MS;
        arrivals.partition_point(|arrival| arrival.at_ms < end)
            - arrivals.partition_point(|arrival| arrival.at_ms < first.at_ms)
    };
    arrivals.iter().map(in_window).max().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rate_and_a_pause_hold_on_two_servers_and_after_a_kill() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let launch_of = |name: &str| launch(&folder.path().join(name)).installation(&settings);
    let mut server = RestartableServer::start(launch_of("one")).await?;
    let second = launch_of("other").start().await?;
    let client = server.client()?;
    configure_providers(&client, &server.sandbox).await?;
    for provider in [Provider::Apns, Provider::Fcm] {
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    register(&client, crowd(DEVICES)).await?;

    let platforms = [Platform::Android, Platform::Ios];
    let request = CreateNotification::to_platforms(platforms, PACED).per_minute(PER_MINUTE as u32);
    let id = client.notifications().create(&request).await?.id;
    until("both servers send", async || {
        let senders = installation.database().numbers("select distinct epoch from pages").len();
        Ok((senders == 2 && paced(&server)?.len() >= BEFORE_PAUSE).then_some(()))
    })
    .await?;
    // The other server has to learn of the pause from the database.
    client.notifications().pause(&id).await?;
    let paused_at = SystemClock::start().now().as_ms();
    server.kill(CREDIT).await?;

    let other = notify_client::Client::builder(&second.origin).retries(0);
    let other = other.api_key(&server.api_key).build()?;
    // The pause lasts as long as this notification takes.
    let request = CreateNotification::to_any_devices(DURING_PAUSE, MEANWHILE)?.per_minute(SLOWLY);
    let meanwhile = other.notifications().create(&request).await?.id;
    ensure!(completed(&other, &meanwhile).await?.counts.sent == DURING_PAUSE.len() as u64);
    let holding = "select count(distinct epoch) from pages where finished = 0";
    let holders = installation.database().numbers(holding);
    ensure!(holders.iter().all(|count| *count <= 1), "the other server took over: {holders:?}");
    let during: Vec<i64> = paced(&server)?.iter().map(|arrival| arrival.at_ms).collect();
    ensure!(during.len() < DEVICES as usize, "the pause comes before the end");
    let last = during.last().context("some have it")?;
    ensure!(*last <= paused_at + STARTS_MS_MAX, "started {} ms after the pause", last - paused_at);

    other.notifications().resume(&id).await?;
    let record = completed(&other, &id).await?;
    ensure!((record.counts.targeted, record.counts.sent) == (DEVICES, DEVICES), "{record:?}");
    let arrivals = paced(&server)?;
    let mut by_address = BTreeMap::<&str, usize>::new();
    for arrival in &arrivals {
        *by_address.entry(&arrival.address).or_default() += 1;
    }
    ensure!(by_address.len() == DEVICES as usize, "{} devices", by_address.len());
    let repeated = arrivals.len() - by_address.len();
    // A grant in flight, and one whose results are not committed.
    ensure!(repeated <= 2 * GRANT, "{repeated} repeats of one kill");
    let most = most_in_a_window(&arrivals);
    ensure!(most <= IN_WINDOW_MAX, "{most} in {WINDOW_MS} ms");
    println!(
        "T28: the last message started {} ms after the pause, at most {most} of {IN_WINDOW_MAX} in \
         {WINDOW_MS} ms, {repeated} repeats",
        last - paused_at,
    );
    ensure!(second.terminate().await?.success());
    server.sandbox.stop().await;
    Ok(())
}
