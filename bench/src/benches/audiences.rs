//! Audiences: a fan-out with a condition compared with one without, few matching devices among many, the size
//! of a segment, and the bytes of fields and attributes. On SQLite and on PostgreSQL.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::benches::databases::{Database, move_installation};
use crate::benches::messages::PROVIDERS;
use crate::caller::Caller;
use crate::paths::Paths;
use crate::postgres::Postgres;
use crate::proc::{OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, device_id, is_android, notification, registration};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// The devices that match a rare condition.
const FEW: u64 = 100;
/// Most notifications to one device whose time is measured while a search runs.
const SMALL_SENDS_MAX: u64 = 400;
/// There is one such notification for each of these devices, so that a small scale takes little time.
const DEVICES_PER_SMALL_SEND: u64 = 2_500;

/// The measurements on one kind of database.
#[derive(Default)]
struct Measured {
    /// The CPU time of a fan-out for each device, in microseconds.
    everybody: Vec<f64>,
    all_match: Vec<f64>,
    /// Until a notification to the few devices was completed, in milliseconds.
    few_by_tag: Vec<f64>,
    few_by_attribute: Vec<f64>,
    /// The CPU time of a notification to the few devices that only their fields select, in seconds.
    few_by_field: Vec<f64>,
    /// The 99th percentile of small sends, in milliseconds.
    small_alone: Vec<f64>,
    small_beside: Vec<f64>,
    /// Until the size of a segment was known, in milliseconds.
    size: Vec<f64>,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let mut section = Section::default();
    let devices = scale.devices_many;
    let seed = Seed::with(paths, devices).await?;
    let (file, moved) = (seed.copy(paths)?, seed.copy(paths)?);
    let on_file = Database { paths, seed: &seed, folder: file.path(), postgres: None };
    mark_few(&on_file, devices).await?;
    let mut all = vec![("SQLite", on_file, Measured::default())];
    let postgres = Postgres::start(paths)?;
    match &postgres {
        Ok(postgres) => {
            move_installation(paths, moved.path(), &postgres.url(), None)?;
            postgres.settle()?;
            let database =
                Database { paths, seed: &seed, folder: moved.path(), postgres: Some(postgres) };
            mark_few(&database, devices).await?;
            all.push(("PostgreSQL", database, Measured::default()));
        }
        Err(missing) => section.notes.push(format!("audiences on PostgreSQL: missing ({missing})")),
    }
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for (_, database, measured) in &mut all {
            measure(database, devices, measured).await?;
        }
        section.other_load.push(other_load.share()?);
    }
    for (name, _, measured) in &all {
        section.lines.extend(lines(name, devices, measured));
    }
    section.lines.extend(bytes(&seed, paths, devices)?);
    Ok(section)
}

/// The number of the `nth` of the few devices.
fn few(nth: u64, devices: u64) -> u64 {
    nth * (devices / FEW)
}

/// Gives a few devices a tag, an attribute and a field that no other device has.
async fn mark_few(database: &Database<'_>, devices: u64) -> anyhow::Result<()> {
    let server = database.serve()?;
    let caller = Caller { address: server.address, keys: database.seed.keys.clone() };
    let tag = json!({ "tags": [{ "name": "few", "type": "bool", "value": true }] });
    for nth in 0..FEW {
        let number = few(nth, devices);
        let path = format!("/v1/devices/{}", device_id(number));
        let device = registration(number, 0);
        let device = notify_core::RegisterDevice { os_version: Some("99".to_owned()), ..device };
        caller.v1("POST", "/v1/devices", Some(&serde_json::to_value(device)?)).await?;
        caller.v1("POST", &format!("{path}/tags"), Some(&tag)).await?;
        let attributes = json!({ "plan": "few" });
        caller.v1("PATCH", &format!("{path}/attributes"), Some(&attributes)).await?;
    }
    server.stop()
}

fn with_audience(audience: &Value) -> Value {
    let mut body = notification(&["android", "ios"], None);
    body["audience"] = audience.clone();
    body
}

async fn measure(
    database: &Database<'_>,
    devices: u64,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let sandbox = Sandbox::start(0)?;
    let servers = [database.serve()?];
    let caller = Caller { address: servers[0].address, keys: database.seed.keys.clone() };
    caller.configure_providers(&sandbox, &PROVIDERS).await?;
    let everybody = notification(&["android", "ios"], None);
    let all_match = with_audience(&json!({ "field": "country", "is": "DE" }));
    for (body, costs) in
        [(&everybody, &mut measured.everybody), (&all_match, &mut measured.all_match)]
    {
        let before = database.usage(&servers)?.all.cpu_us;
        caller.fan_out(body, devices).await?;
        let cpu_us = database.usage(&servers)?.all.cpu_us - before;
        costs.push(cpu_us as f64 / devices as f64);
    }
    let by_tag = with_audience(&json!({ "tag": "few" }));
    let by_attribute = with_audience(&json!({ "attribute": "plan", "is": "few" }));
    measured.few_by_tag.push(send(&caller, &by_tag, FEW).await?);
    measured.few_by_attribute.push(send(&caller, &by_attribute, FEW).await?);
    let by_field = with_audience(&json!({ "field": "os_version", "is": "99" }));
    let before = database.usage(&servers)?.all.cpu_us;
    send(&caller, &by_field, FEW).await?;
    let cpu_us = database.usage(&servers)?.all.cpu_us - before;
    measured.few_by_field.push(cpu_us as f64 / 1e6);

    measured.small_alone.push(small_sends(&caller, devices).await?);
    // Searches follow each other without a pause.
    let searches = async {
        loop {
            send(&caller, &by_field, FEW).await?;
        }
        #[expect(unreachable_code, reason = "the type of the block")]
        anyhow::Ok(())
    };
    tokio::select! {
        ended = searches => ended?,
        beside = small_sends(&caller, devices) => measured.small_beside.push(beside?),
    }

    let body = json!({ "audience": { "field": "app_version", "at_least": "1.0.5" } });
    let started = Instant::now();
    caller.v1("POST", "/v1/segments/preview", Some(&body)).await?;
    measured.size.push(started.elapsed().as_secs_f64() * 1e3);
    servers.into_iter().try_for_each(Server::stop)
}

/// Sends a notification and returns the milliseconds until it is completed.
async fn send(caller: &Caller, body: &Value, sent: u64) -> anyhow::Result<f64> {
    let started = Instant::now();
    let path = caller.post(body).await?;
    loop {
        let record = caller.v1("GET", &path, None).await?;
        if record["status"] == "completed" {
            ensure!(record["counts"]["sent"] == sent, "not as many were sent: {record}");
            return Ok(started.elapsed().as_secs_f64() * 1e3);
        }
        // One read costs the server about 50 µs.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The 99th percentile of notifications to one device each, in milliseconds.
async fn small_sends(caller: &Caller, devices: u64) -> anyhow::Result<f64> {
    let sends = (devices / DEVICES_PER_SMALL_SEND).clamp(20, SMALL_SENDS_MAX);
    let mut times = Vec::new();
    for number in 0..sends {
        let mut body = notification(&["android", "ios"], None);
        let list = if is_android(number) { "android_device_ids" } else { "ios_device_ids" };
        body[list] = json!([device_id(number)]);
        times.push(send(caller, &body, 1).await?);
    }
    times.sort_by(f64::total_cmp);
    times.get(times.len() * 99 / 100).copied().context("a time")
}

fn lines(name: &str, devices: u64, measured: &Measured) -> Vec<Line> {
    let line = |what: &str, figure: String, baseline: String, ratio: f64, goal: Goal| Line {
        row: "audiences",
        what: format!("{name}, {} devices: {what}", grouped(devices as f64)),
        figure,
        baseline,
        ratio,
        goal,
    };
    let ms = |times: &[f64]| format!("{:.1} ms", median(times));
    vec![
        line(
            "fan-out, all match the condition",
            format!("CPU {:.2} µs each", median(&measured.all_match)),
            format!("without a condition: CPU {:.2} µs each", median(&measured.everybody)),
            median_ratio(&measured.all_match, &measured.everybody),
            Goal::AtMost(1.2),
        ),
        line(
            "100 match by a tag, until the last is sent, in ms",
            ms(&measured.few_by_tag),
            "–".to_owned(),
            median(&measured.few_by_tag),
            Goal::FigureAtMost(50.0),
        ),
        line(
            "100 match by an attribute, until the last is sent, in ms",
            ms(&measured.few_by_attribute),
            "–".to_owned(),
            median(&measured.few_by_attribute),
            Goal::FigureAtMost(50.0),
        ),
        line(
            "100 match by a field alone, CPU in s",
            format!("{:.2} s", median(&measured.few_by_field)),
            "–".to_owned(),
            median(&measured.few_by_field),
            Goal::FigureAtMost(0.5),
        ),
        line(
            "p99 of a notification to one device, beside such searches",
            ms(&measured.small_beside),
            format!("alone: {}", ms(&measured.small_alone)),
            median_ratio(&measured.small_beside, &measured.small_alone),
            Goal::AtMost(1.5),
        ),
        line(
            "size of a segment, in ms",
            ms(&measured.size),
            "–".to_owned(),
            median(&measured.size),
            Goal::FigureAtMost(1_000.0),
        ),
    ]
}

/// The bytes of the fields of a device and of an attribute in the file of SQLite.
fn bytes(seed: &Seed, paths: &Paths, devices: u64) -> anyhow::Result<Vec<Line>> {
    let data = seed.copy(paths)?;
    let connection = Connection::open(data.path().join("notify.db"))?;
    let used = || -> anyhow::Result<f64> {
        let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get(0));
        let pages: i64 = pragma("page_count")?;
        let (free, page_size): (i64, i64) = (pragma("freelist_count")?, pragma("page_size")?);
        Ok(((pages - free) * page_size) as f64 / devices as f64)
    };
    let before = used()?;
    connection.execute_batch(
        "insert into attributes select no, 1, 'plan' from apps;
         insert into device_attributes
         select key, 1, case when key % 2 = 0 then 'sfree' else 'spro' end, 1 from devices;",
    )?;
    let with_attribute = used()?;
    connection.execute_batch("drop table device_fields")?;
    let (fields, attribute) = (with_attribute - used()?, with_attribute - before);
    let line = |what: &str, bytes: f64, goal: f64| Line {
        row: "audiences",
        what: format!("SQLite, bytes for {what}"),
        figure: format!("{bytes:.1} bytes"),
        baseline: "–".to_owned(),
        ratio: bytes,
        goal: Goal::BytesAtMost(goal),
    };
    Ok(vec![
        line("the fields of a device", fields, 60.0),
        line("an attribute of a device, with its index", attribute, 50.0),
    ])
}
