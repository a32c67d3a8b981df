//! T20: devices register, get new tokens, are disabled and change their tags while two notifications are
//! sent. A device that existed before and does not change gets each notification once. A later device gets
//! none. The server uses no token after it has acknowledged the token's replacement or removal.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use futures_util::{StreamExt, TryStreamExt, stream};
use notify_client::Client;
use notify_core::{CreateNotification, DeviceId, Platform, RegisterDevice, SetTags, Tag, TagType};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_server::clock::{Clock, SystemClock};
use notify_tests::{
    Arrival, Expected, History, LoggedRequest, LoggedResponse, Member, NotificationReport,
    RequestLog, RestartableServer, android, completed, configure_providers, ios, register,
};
use tokio::time::MissedTickBehavior;

use crate::load::settle;
use crate::{launch, setting};

/// The devices that exist before: half of them on Android and half on iOS, a third of them with the tag.
const DEVICES: u64 = 2_400;
/// The time between two changes, for 200 changes a second.
const CHANGE_EVERY: Duration = Duration::from_millis(5);
/// The number of concurrent changes.
const PARALLEL: usize = 16;
/// The delay of the providers' responses. With it, a notification takes some seconds.
const ANSWER_MS: u64 = 100;
/// The seeds of later devices and tokens are multiples of this number above the first seeds.
const LATER: u64 = 1_000_000;
/// A message that was on the wire when a change was acknowledged may arrive this much later. The limit is
/// below the second for which the server may cache an address.
const ON_THE_WIRE_MS: i64 = 900;
const BOTH: [Platform; 2] = [Platform::Android, Platform::Ios];
const TAG: &str = "vip";

/// The change of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Registers,
    Swaps,
    IsDisabled,
    FlipsTag,
}

/// A change that was acknowledged.
struct Done {
    seed: u64,
    change: Change,
    at_ms: i64,
}

fn phone(seed: u64, token: u64) -> RegisterDevice {
    let ok = ScriptedResponse::ok();
    let mut phone = if seed.is_multiple_of(2) { android(token, &ok) } else { ios(token, &ok) };
    phone.device_id = device(seed);
    phone
}

fn device(seed: u64) -> String {
    format!("d{seed}")
}

fn id(seed: u64) -> Result<DeviceId> {
    DeviceId::new(device(seed)).map_err(anyhow::Error::msg)
}

fn has_tag(seed: u64) -> bool {
    seed.is_multiple_of(3)
}

fn tagged(value: bool) -> SetTags {
    SetTags { tags: vec![Tag { name: TAG.to_owned(), kind: TagType::Bool, value }] }
}

async fn make(client: &Client, seed: u64, change: Change) -> Result<Done> {
    let devices = client.devices();
    match change {
        Change::Registers => {
            devices.register(&phone(LATER + seed, LATER + seed)).await?;
        }
        Change::Swaps => {
            devices.register(&phone(seed, 2 * LATER + seed)).await?;
        }
        Change::IsDisabled => {
            let off = RegisterDevice { push_disabled: Some(true), ..phone(seed, seed) };
            devices.register(&off).await?;
        }
        Change::FlipsTag => {
            devices.set_tags(&id(seed)?, &tagged(!has_tag(seed))).await?;
        }
    }
    Ok(Done { seed, change, at_ms: SystemClock::start().now().as_ms() })
}

/// Registers all devices that exist before.
async fn populate(client: &Client) -> Result<()> {
    register(client, (0..DEVICES).map(|seed| phone(seed, seed))).await?;
    let with_tag = stream::iter((0..DEVICES).filter(|seed| has_tag(*seed)));
    let set = with_tag.map(|seed| async move {
        anyhow::Ok(client.devices().set_tags(&id(seed)?, &tagged(true)).await?)
    });
    set.buffer_unordered(PARALLEL).try_collect().await
}

/// Changes devices until `end`, each at most once. The seed decides the order.
async fn change_until(
    client: &Client,
    mut rng: Rng,
    end: impl Future<Output = Result<()>>,
) -> Result<Vec<Done>> {
    let kinds = [Change::Registers, Change::Swaps, Change::IsDisabled, Change::FlipsTag];
    let mut seeds: Vec<u64> = (0..DEVICES).collect();
    rng.shuffle(&mut seeds);
    let mut ticks = tokio::time::interval(CHANGE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let paced = stream::poll_fn(move |context| ticks.poll_tick(context).map(Some));
    let changes = paced.zip(stream::iter(seeds)).map(|(_, seed)| {
        let change = kinds[rng.usize(..kinds.len())];
        (seed, change)
    });
    let made = changes.map(|(seed, change)| make(client, seed, change));
    made.buffer_unordered(PARALLEL).take_until(end).try_collect().await
}

/// The expected result of each device for one of the two notifications.
fn members(changes: &BTreeMap<u64, Change>, is_tagged: bool) -> Result<Vec<Member>> {
    let mut members = Vec::new();
    for seed in 0..DEVICES {
        let change = changes.get(&seed);
        let expected = match change {
            Some(Change::IsDisabled) => Expected::Any,
            Some(Change::FlipsTag) if is_tagged => Expected::Any,
            None | Some(Change::Swaps | Change::Registers | Change::FlipsTag) => {
                Expected::Delivered
            }
        };
        if is_tagged && !has_tag(seed) && change != Some(&Change::FlipsTag) {
            continue;
        }
        let mut tokens = vec![seed];
        tokens.extend((change == Some(&Change::Swaps)).then_some(2 * LATER + seed));
        let addresses = tokens.into_iter().map(|token| phone(seed, token).push_token);
        let addresses = addresses.collect::<Option<Vec<_>>>().context("phones have tokens")?;
        members.push(Member { device: device(seed), addresses, expected });
    }
    Ok(members)
}

/// Checks that no address was used after its end was acknowledged. Returns the longest time by which a message
/// arrived after the acknowledgement.
fn ensure_fresh(done: &[Done], arrivals: &[Arrival]) -> Result<i64> {
    let mut ends = BTreeMap::new();
    for done in done.iter().filter(|done| matches!(done.change, Change::Swaps | Change::IsDisabled))
    {
        let token = phone(done.seed, done.seed).push_token.context("phones have tokens")?;
        ends.insert(token, done.at_ms);
    }
    let after = |arrival: &Arrival| ends.get(&arrival.address).map(|end| arrival.at_ms - end);
    let latest = arrivals.iter().filter_map(after).max().unwrap_or(0);
    ensure!(latest <= ON_THE_WIRE_MS, "an address was used {latest} ms after its end");
    Ok(latest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices_changed_during_a_send_receive_it_at_most_once() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T20: NOTIFY_CRASH_SEED={seed}");
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let server = RestartableServer::start(launch(&data_dir)).await?;
    let client = server.client()?;
    configure_providers(&client, &server.sandbox).await?;
    populate(&client).await?;
    for provider in [Provider::Apns, Provider::Fcm] {
        server.sandbox.add_rule(Rule::on(provider, ScriptedResponse::ok()).delay_ms(ANSWER_MS))?;
    }
    let request_log = RequestLog::open(&folder.path().join("request_log"))?;
    let mut ids = Vec::new();
    let all = CreateNotification::to_platforms(BOTH, "all");
    let tagged = CreateNotification::to_platforms(BOTH, "tagged").tag(TAG);
    for (key, notification) in [("all", all), ("tagged", tagged)] {
        request_log
            .log_request(&LoggedRequest { key: key.to_owned(), audience: key.to_owned() })?;
        let answer = client.notifications().create(&notification).await;
        request_log.log_response(key, LoggedResponse::of(&answer))?;
        ids.push(answer?.id);
    }
    let end = async {
        for id in &ids {
            completed(&client, id).await?;
        }
        Ok(())
    };
    let done = change_until(&client, Rng::with_seed(seed), end).await?;
    let changes = done.iter().map(|done| (done.seed, done.change)).collect();
    let history = History {
        requests: request_log.entries()?,
        audiences: BTreeMap::from([
            ("all".to_owned(), members(&changes, false)?),
            ("tagged".to_owned(), members(&changes, true)?),
        ]),
        arrivals: server.arrivals()?,
        reports: NotificationReport::of(&client).await?,
        ended: Vec::new(),
    };
    let verdict = history.check();
    verdict.ensure_sound()?;
    assert_eq!(verdict.repeated(), 0);
    let latest = ensure_fresh(&done, &history.arrivals)?;
    overlapped(&history, &changes)?;
    println!(
        "T20: {} changes, {} pairs, 0 lost, 0 repeats, the latest use of an old address {latest} \
         ms after its end",
        done.len(),
        verdict.pairs
    );
    settle(server, &data_dir).await
}

/// Checks that the changes overlapped with the send: some came before their device's turn and some after.
fn overlapped(history: &History, changes: &BTreeMap<u64, Change>) -> Result<()> {
    let came = |address: Option<String>| {
        let of = |arrival: &Arrival| Some(&arrival.address) == address.as_ref();
        history.arrivals.iter().any(of)
    };
    let swaps = changes.iter().filter(|(_, change)| **change == Change::Swaps);
    let (mut old, mut new) = (0, 0);
    for (seed, _) in swaps {
        old += usize::from(came(phone(*seed, *seed).push_token));
        new += usize::from(came(phone(*seed, 2 * LATER + seed).push_token));
    }
    ensure!(old > 0 && new > 0, "{old} got it before their change, {new} after");
    Ok(())
}

#[test]
fn the_check_finds_a_send_to_a_replaced_address() -> Result<()> {
    let done = [Done { seed: 1, change: Change::Swaps, at_ms: 1_000 }];
    let arrival = |at_ms| -> Result<Arrival> {
        Ok(Arrival {
            text: "all".to_owned(),
            address: phone(1, 1).push_token.context("a token")?,
            provider: Provider::Apns,
            identity: None,
            status: 200,
            connection: 1,
            at_ms,
        })
    };
    let last = arrival(1_000 + ON_THE_WIRE_MS)?;
    assert_eq!(ensure_fresh(&done, &[arrival(900)?, last])?, ON_THE_WIRE_MS);
    ensure!(ensure_fresh(&done, &[arrival(1_001 + ON_THE_WIRE_MS)?]).is_err(), "it is found");
    Ok(())
}
