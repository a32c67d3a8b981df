//! The peak memory of a fan-out to many devices, compared with a fan-out to few. Each fan-out runs on a fresh
//! server and goes to both platforms at once.

use crate::caller::Caller;
use crate::paths::Paths;
use crate::proc::{OtherLoad, flush_p50, memory_kib};
use crate::scale::Scale;
use crate::seed::{Seed, notification};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, spread};

/// The megabytes of one measurement.
#[derive(Debug, Clone, Copy)]
struct Memory {
    /// `VmHWM` after the fan-out.
    peak: f64,
    /// `VmHWM` before the fan-out.
    before: f64,
    /// `RssAnon` after the fan-out: the memory without mapped files.
    own: f64,
    /// `RssFile` after the fan-out: the program and the mapped parts of the database.
    mapped: f64,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let sizes = [scale.devices_many, scale.memory_few];
    let mut section = Section::default();
    let mut memory = [Vec::new(), Vec::new()];
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for (devices, memory) in sizes.into_iter().zip(&mut memory) {
            memory.push(fan_out(paths, devices).await?);
        }
        section.other_load.push(other_load.share()?);
    }
    let [many, few] = &memory;
    let peaks = |all: &[Memory]| all.iter().map(|memory| memory.peak).collect::<Vec<_>>();
    let growth: Vec<f64> =
        peaks(many).iter().zip(peaks(few)).map(|(many, few)| many - few).collect();
    let text = |devices: u64, all: &[Memory]| {
        format!("{} devices: {}", grouped(devices as f64), spread(&peaks(all), "MB", 1))
    };
    section.lines.push(Line {
        row: "memory",
        what: "peak RSS of a fan-out (VmHWM)".to_owned(),
        figure: text(sizes[0], many),
        baseline: text(sizes[1], few),
        ratio: median(&growth),
        goal: Goal::MegabytesAtMost(10.0),
    });
    for (devices, all) in sizes.into_iter().zip(&memory) {
        let of = |part: fn(&Memory) -> f64| median(&all.iter().map(part).collect::<Vec<_>>());
        section.notes.push(format!(
            "memory, {} devices: peak before the fan-out {:.1} MB; after it anonymous {:.1} MB, \
             mapped files {:.1} MB",
            grouped(devices as f64),
            of(|memory| memory.before),
            of(|memory| memory.own),
            of(|memory| memory.mapped),
        ));
    }
    Ok(section)
}

async fn fan_out(paths: &Paths, devices: u64) -> anyhow::Result<Memory> {
    let seed = Seed::with(paths, devices).await?;
    let data = seed.copy(paths)?;
    let (server, _) = Server::start(paths, data.path())?;
    let sandbox = Sandbox::start(0)?;
    let caller = Caller { address: server.address, keys: seed.keys };
    caller.configure_providers(&sandbox, &["fcm", "apns"]).await?;
    let megabytes = |field| anyhow::Ok(memory_kib(server.id(), field)? as f64 / 1_024.0);
    let before = megabytes("VmHWM")?;
    caller.fan_out(&notification(&["android", "ios"], None), devices).await?;
    let (own, mapped) = (megabytes("RssAnon")?, megabytes("RssFile")?);
    let memory = Memory { peak: megabytes("VmHWM")?, before, own, mapped };
    server.stop()?;
    Ok(memory)
}
