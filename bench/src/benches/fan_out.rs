//! A fan-out to many stored devices, from the `POST` until every outcome is durable. The baseline is the sum
//! of its parts, each measured alone: reading the devices, sending the requests and committing the pages.

use std::path::Path;

use anyhow::ensure;
use rusqlite::Connection;

use crate::bare::pages::{Parameters, Part};
use crate::bare::{h2_client, pages};
use crate::benches::messages::{CHANNELS, PROVIDERS, SampleMessages};
use crate::caller::Caller;
use crate::paths::Paths;
use crate::proc::{Cost, Costs, OtherLoad, flush_p50, memory_kib, sum};
use crate::scale::Scale;
use crate::seed::{Seed, checkpoint_log, notification};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median};

/// All measurements over the rounds.
#[derive(Default)]
struct Measured {
    ours: Costs,
    scan: Costs,
    send: Costs,
    commits: Costs,
    added: Costs,
    /// The growth of the peak memory by the fan-out, in megabytes.
    growth: Vec<f64>,
    /// The peak memory before the fan-out, in megabytes.
    idle: Vec<f64>,
    /// The growth of the database for each device, in bytes.
    disk: Vec<f64>,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let devices = scale.devices_many;
    let seed = Seed::with(paths, devices).await?;
    let samples = samples(paths, &seed).await?;
    let mut section = Section::default();
    let mut all = Measured::default();
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        measure(paths, &seed, devices, &mut all).await?;
        baseline(paths, &seed, (devices, &samples), &mut all).await?;
        section.other_load.push(other_load.share()?);
    }
    section.lines = lines(devices, &all);
    section.notes.push(format!(
        "fan-out, its parts alone: scan CPU {:.2} µs, send {:.2} µs, page commits {:.2} µs a device; \
         the peak before it was {:.1} MB",
        median(&all.scan.cpu()),
        median(&all.send.cpu()),
        median(&all.commits.cpu()),
        median(&all.idle),
    ));
    Ok(section)
}

async fn samples(paths: &Paths, seed: &Seed) -> anyhow::Result<SampleMessages> {
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let samples =
        SampleMessages::capture(&Caller { address: server.address, keys: seed.keys.clone() })
            .await?;
    server.stop()?;
    Ok(samples)
}

/// Measures one fan-out of a fresh server.
async fn measure(
    paths: &Paths,
    seed: &Seed,
    devices: u64,
    all: &mut Measured,
) -> anyhow::Result<()> {
    let data = seed.copy(paths)?;
    let bytes_before = bytes(data.path())?;
    let (server, _) = Server::start(paths, data.path())?;
    let sandbox = Sandbox::start(0)?;
    let caller = Caller { address: server.address, keys: seed.keys.clone() };
    caller.configure_providers(&sandbox, &PROVIDERS).await?;
    let megabytes = || anyhow::Ok(memory_kib(server.id(), "VmHWM")? as f64 / 1_024.0);
    let idle = megabytes()?;
    let body = notification(&["android", "ios"], None);
    all.ours.0.push(server.measure(devices, caller.fan_out(&body, devices)).await?);
    all.idle.push(idle);
    all.growth.push(megabytes()? - idle);
    let accepted = sandbox.take_accepted().await?;
    ensure!(accepted.tokens == devices, "accepted {}", accepted.tokens);
    server.stop()?;
    checkpoint_log(&data.path().join("notify.db"))?;
    all.disk.push((bytes(data.path())? - bytes_before) / devices as f64);
    Ok(())
}

/// The bytes of the database that are in use.
fn bytes(folder: &Path) -> anyhow::Result<f64> {
    let connection = Connection::open(folder.join("notify.db"))?;
    let number = |pragma: &str| -> rusqlite::Result<f64> {
        connection
            .query_row(&format!("pragma {pragma}"), [], |row| row.get::<_, u32>(0).map(f64::from))
    };
    Ok((number("page_count")? - number("freelist_count")?) * number("page_size")?)
}

/// Measures the parts alone.
async fn baseline(
    paths: &Paths,
    seed: &Seed,
    (devices, samples): (u64, &SampleMessages),
    all: &mut Measured,
) -> anyhow::Result<()> {
    let data = seed.copy(paths)?;
    let file = data.path().join("notify.db");
    let scan = pages::run(&Parameters { file, devices, part: Part::Scan })?;
    let sandbox = Sandbox::start(0)?;
    let mut sent: Vec<Cost> = Vec::new();
    for channel in CHANNELS {
        let parameters = samples.parameters(channel, &sandbox, devices / 2).await?;
        sent.push(h2_client::run(&parameters)?);
        let accepted = sandbox.take_accepted().await?;
        ensure!(accepted.tokens == devices / 2 + 1, "accepted {}", accepted.tokens);
    }
    let send = sum(&sent, devices);
    let file = data.path().join("bare.db");
    let commits = pages::run(&Parameters { file, devices, part: Part::Commit })?;
    all.scan.0.push(scan);
    all.send.0.push(send);
    all.commits.0.push(commits);
    all.added.0.push(sum(&[scan, send, commits], devices));
    Ok(())
}

fn lines(devices: u64, all: &Measured) -> Vec<Line> {
    let line = |what: &str, figure: String, baseline: String, (ratio, goal): (f64, Goal)| Line {
        row: "fan-out",
        what: format!("{} devices, {what}", grouped(devices as f64)),
        figure,
        baseline,
        ratio,
        goal,
    };
    let (growth, disk) = (median(&all.growth), median(&all.disk));
    let parts = format!("scan + send + commits, one after another: {}", all.added.text());
    vec![
        line(
            "until all outcomes are durable",
            all.ours.text(),
            parts,
            (all.ours.cpu_ratio(&all.added), Goal::AtMost(1.5)),
        ),
        line(
            "peak memory (VmHWM)",
            format!("{:.1} MB", median(&all.idle) + growth),
            format!("before it: {:.1} MB", median(&all.idle)),
            (growth, Goal::MegabytesAtMost(64.0)),
        ),
        line(
            "database, growth for a sent message",
            format!("{disk:.2} bytes"),
            "nothing stored".to_owned(),
            (disk, Goal::BytesAtMost(8.0)),
        ),
    ]
}
