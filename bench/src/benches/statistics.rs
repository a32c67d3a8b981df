//! Device statistics over many devices, compared with few devices. Both sets of devices registered evenly
//! over the same 30 days.

use std::sync::Arc;

use crate::http_load::{MakeRequest, load, write_request};
use crate::paths::Paths;
use crate::proc::{Cost, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{DAY_MS, DAYS, Seed, now};
use crate::servers::Server;
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// The phases of each kind in a round. There are several, because a request costs little compared with the
/// resolution of the CPU time.
const PHASES: usize = 2;

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let mut servers = Vec::new();
    for devices in [scale.devices_many, scale.statistics_few] {
        let seed = Seed::with(paths, devices).await?;
        let data = seed.copy(paths)?;
        let (server, _) = Server::start(paths, data.path())?;
        servers.push((server, seed.keys.api_key, data));
    }
    // Neither end falls on a full hour, so the server must count the devices of both partial hours one by
    // one.
    let from = now().plus_ms(-DAYS * DAY_MS * 7 / 10 + 1_234_567).as_ms();
    let to = now().plus_ms(-DAYS * DAY_MS * 2 / 10 + 2_345_678).as_ms();
    let queries = [
        ("no dates", "/v1/statistics/devices".to_owned()),
        ("half the period", format!("/v1/statistics/devices?date_from={from}&date_to={to}")),
    ];

    let mut section = Section::default();
    let mut costs = vec![[Vec::new(), Vec::new()]; queries.len()];
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for _ in 0..PHASES {
            for ((_, path), costs) in queries.iter().zip(&mut costs) {
                for ((server, key, _), costs) in servers.iter().zip(costs) {
                    let make = get(path, key);
                    let target = (server.address, server.id());
                    costs.push(load(target, 1, scale.phase / 2, &make).await?);
                }
            }
        }
        section.other_load.push(other_load.share()?);
    }
    for ((what, _), [many, few]) in queries.iter().zip(&costs) {
        section.lines.push(line(scale, what, many, few));
    }
    for (server, ..) in servers {
        server.stop()?;
    }
    Ok(section)
}

fn line(scale: &Scale, what: &str, many: &[Cost], few: &[Cost]) -> Line {
    let cpu = |costs: &[Cost]| costs.iter().map(Cost::cpu_us_each).collect::<Vec<_>>();
    let text = |devices: u64, costs: &[Cost]| {
        format!("{} devices: CPU {:.0} µs", grouped(devices as f64), median(&cpu(costs)))
    };
    Line {
        row: "statistics",
        what: format!("GET /v1/statistics/devices, {what}"),
        figure: text(scale.devices_many, many),
        baseline: text(scale.statistics_few, few),
        ratio: median_ratio(&cpu(many), &cpu(few)),
        goal: Goal::AtMost(2.0),
    }
}

fn get(path: &str, key: &str) -> MakeRequest {
    let (path, key) = (path.to_owned(), key.to_owned());
    Arc::new(move |_, into| write_request(into, ("GET", &path), &[("x-api-key", &key)], b""))
}
