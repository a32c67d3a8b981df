//! T26: the server is killed again and again while it sends to users and to an audience, and while devices
//! log in and out. Nothing is lost, and no message to a user is sent to a device more than a second after its
//! log-out was answered.
//!
//! `NOTIFY_CRASH_RUNS=200` makes more kills; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_client::Client;
use notify_core::{
    Audience, CreateNotification, DeviceId, PatchAttributes, PatchUser, Platform, RegisterDevice,
    UserId,
};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_server::clock::{Clock, SystemClock};
use notify_tests::{
    Arrival, Expected, History, LoggedRequest, LoggedResponse, Member, NotificationReport,
    RequestLog, RestartableServer, android, completed, configure_providers, ios, register,
};

use crate::load::settle;
use crate::{CREDIT, launch, setting};

/// The default number of kills.
const RUNS: u64 = 6;
/// The number of kills on one data folder. After them, all work must be completed.
const RUNS_PER_FOLDER: u64 = 3;
/// The number of devices. Each user has two.
const DEVICES: u64 = 600;
/// The longest time between a start and its kill.
const KILL_WITHIN_MS: u64 = 1_500;
/// The delay of the providers' responses. With it, a notification takes some seconds.
const ANSWER_MS: u64 = 150;
/// The number of concurrent requests.
const PARALLEL: usize = 16;
/// How late a message may arrive after a log-out was answered. It may have been on the wire, and a busy machine
/// notes its arrival late.
const LATE_MS_MAX: i64 = 3_000;
/// The plan of users with an even number.
const PLAN: &str = "pro";

/// The devices that left their users by a log-in or a log-out, each with the time of the answer.
type LeftAt = BTreeMap<u64, i64>;

fn phone(seed: u64) -> RegisterDevice {
    let ok = ScriptedResponse::ok();
    let phone = if seed.is_multiple_of(2) { android(seed, &ok) } else { ios(seed, &ok) };
    RegisterDevice {
        device_id: format!("d{seed}"),
        user_id: Some(user_of(seed).to_string()),
        ..phone
    }
}

fn address(seed: u64) -> Result<String> {
    phone(seed).push_token.context("phones have tokens")
}

fn user_of(seed: u64) -> UserId {
    UserId::new(format!("u{}", seed / 2)).expect("the id is valid")
}

/// Whether the user of a device has the plan.
fn has_plan(seed: u64) -> bool {
    (seed / 2).is_multiple_of(2)
}

fn device(seed: u64) -> DeviceId {
    DeviceId::new(format!("d{seed}")).expect("the id is valid")
}

/// Registers the devices with their users, and gives half of the users the plan.
async fn populate(client: &Client) -> Result<()> {
    register(client, (0..DEVICES).map(phone)).await?;
    let users: BTreeSet<UserId> =
        (0..DEVICES).filter(|seed| has_plan(*seed)).map(user_of).collect();
    let plan = &PatchUser { attributes: Some(PatchAttributes::default().set("plan", PLAN)) };
    let patches = stream::iter(&users)
        .map(|user| async move { anyhow::Ok(client.users().update(user, plan).await?) });
    patches.buffer_unordered(PARALLEL).try_collect::<Vec<_>>().await?;
    Ok(())
}

/// Logs devices out, or in as another user, until it is time to kill the server. Adds the devices with an answer
/// to `left`, and those without one to `unknown`.
async fn leave_until(
    client: &Client,
    seeds: &mut Vec<u64>,
    (left, unknown): (&mut LeftAt, &mut BTreeSet<u64>),
    kill_after: Duration,
) {
    let batch: Vec<u64> = seeds.split_off(seeds.len().saturating_sub(seeds.len() / 4));
    // A device is unknown until its request is answered.
    unknown.extend(batch.iter().copied());
    let leave = stream::iter(batch).map(|seed| async move {
        let stranger = UserId::new("stranger").expect("the id is valid");
        let answer = if seed.is_multiple_of(3) {
            client.devices().log_in(&device(seed), &stranger).await.map(drop)
        } else {
            client.devices().log_out(&device(seed)).await.map(drop)
        };
        (seed, answer, SystemClock::start().now().as_ms())
    });
    let mut answers = leave.buffer_unordered(4);
    let until_killed = async {
        while let Some((seed, answer, at_ms)) = answers.next().await {
            if answer.is_ok() {
                left.insert(seed, at_ms);
                unknown.remove(&seed);
            }
        }
        std::future::pending::<()>().await;
    };
    // The kill does not wait for answers.
    let _ = tokio::time::timeout(kill_after, until_killed).await;
}

/// The expected results of the devices for which `is_member` is true.
fn members(changed: &BTreeSet<u64>, is_member: impl Fn(u64) -> bool) -> Result<Vec<Member>> {
    let members = (0..DEVICES).filter(|seed| is_member(*seed)).map(|seed| {
        let expected =
            if changed.contains(&seed) { Expected::Removed } else { Expected::Delivered };
        Ok(Member { device: format!("d{seed}"), addresses: vec![address(seed)?], expected })
    });
    members.collect()
}

/// Checks that no device got a message more than [`LATE_MS_MAX`] after it had left its user. Returns the longest
/// time between an answer and a later message.
fn ensure_nothing_late(left: &LeftAt, arrivals: &[Arrival]) -> Result<i64> {
    let mut latest = 0;
    for (seed, left_at) in left {
        let address = address(*seed)?;
        for arrival in arrivals.iter().filter(|arrival| arrival.address == address) {
            latest = latest.max(arrival.at_ms - left_at);
            ensure!(
                arrival.at_ms - left_at <= LATE_MS_MAX,
                "d{seed} got `{}` {} ms after it had left its user",
                arrival.text,
                arrival.at_ms - left_at
            );
        }
    }
    Ok(latest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_during_log_outs_lose_nothing_and_reach_no_wrong_user() -> Result<()> {
    let runs = setting("NOTIFY_CRASH_RUNS").unwrap_or(RUNS);
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T26: NOTIFY_CRASH_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let (mut pairs, mut repeats, mut latest, mut left) = (0, 0, 0, 0);
    for first in (0..runs).step_by(usize::try_from(RUNS_PER_FOLDER)?) {
        let runs = RUNS_PER_FOLDER.min(runs - first);
        let sum = kill_and_judge(&mut rng, runs).await;
        let sum = sum.with_context(|| format!("NOTIFY_CRASH_SEED={seed}"))?;
        pairs += sum.pairs;
        repeats += sum.repeats;
        latest = latest.max(sum.latest);
        left += sum.left;
    }
    println!(
        "T26: {runs} kills, {pairs} pairs, 0 lost, {repeats} repeats, {left} devices left their user, 0 \
         messages to a wrong user, the latest message {latest} ms after the answer"
    );
    Ok(())
}

struct Sum {
    pairs: usize,
    repeats: usize,
    latest: i64,
    left: usize,
}

async fn kill_and_judge(rng: &mut Rng, runs: u64) -> Result<Sum> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    configure_providers(&server.client()?, &server.sandbox).await?;
    populate(&server.client()?).await?;
    for provider in [Provider::Apns, Provider::Fcm] {
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    let request_log = RequestLog::open(&folder.path().join("request_log"))?;
    let mut seeds: Vec<u64> = (0..DEVICES).collect();
    rng.shuffle(&mut seeds);
    let (mut left, mut unknown, mut ids) = (LeftAt::new(), BTreeSet::new(), Vec::new());
    for run in 0..runs {
        let client = server.client()?;
        let users: BTreeSet<String> = (0..DEVICES).map(|seed| user_of(seed).to_string()).collect();
        let to_users = CreateNotification::to_users(users, format!("users {run}"))?;
        let audience = Audience::attribute("plan").is(PLAN);
        let to_plan = CreateNotification::to_platforms(
            [Platform::Android, Platform::Ios],
            format!("plan {run}"),
        )
        .audience(audience);
        for (key, audience, notification) in
            [(format!("users {run}"), "users", to_users), (format!("plan {run}"), "plan", to_plan)]
        {
            let request = LoggedRequest { key: key.clone(), audience: audience.to_owned() };
            request_log.log_request(&request)?;
            let answer = client.notifications().create(&notification).await;
            request_log.log_response(&key, LoggedResponse::of(&answer))?;
            ids.push(answer?.id);
        }
        let kill_after = Duration::from_millis(rng.u64(100..KILL_WITHIN_MS));
        leave_until(&client, &mut seeds, (&mut left, &mut unknown), kill_after).await;
        server.kill(CREDIT).await?;
        server.start_again().await?;
    }
    let client = server.client()?;
    for id in &ids {
        completed(&client, id).await?;
    }
    let changed: BTreeSet<u64> = left.keys().copied().chain(unknown).collect();
    let history = History {
        requests: request_log.entries()?,
        audiences: BTreeMap::from([
            ("users".to_owned(), members(&changed, |_| true)?),
            ("plan".to_owned(), members(&changed, has_plan)?),
        ]),
        arrivals: server.arrivals()?,
        reports: NotificationReport::of(&client).await?,
        ended: server.ended.clone(),
    };
    let verdict = history.check();
    verdict.ensure_sound()?;
    ensure!(!left.is_empty(), "some devices left their user while the server was sending");
    let latest = ensure_nothing_late(&left, &history.arrivals)?;
    let sum = Sum { pairs: verdict.pairs, repeats: verdict.repeated(), latest, left: left.len() };
    settle(server, &data_dir).await?;
    Ok(sum)
}

#[test]
fn the_check_finds_a_message_after_a_log_out() -> Result<()> {
    let left = LeftAt::from([(1, 1_000)]);
    let arrival = |at_ms| -> Result<Arrival> {
        Ok(Arrival {
            text: "users 0".to_owned(),
            address: address(1)?,
            provider: Provider::Apns,
            identity: None,
            status: 200,
            connection: 1,
            at_ms,
        })
    };
    assert_eq!(ensure_nothing_late(&left, &[arrival(900)?, arrival(1_200)?])?, 200);
    let late = arrival(1_001 + LATE_MS_MAX)?;
    ensure!(ensure_nothing_late(&left, &[late]).is_err(), "it is found");
    Ok(())
}
