//! The queue alone, compared with graphile-worker on PostgreSQL. A notification to many devices is enqueued,
//! claimed and completed durably, with a provider that responds immediately.

use serde_json::json;

use crate::instant_provider::{self, Parameters};
use crate::paths::Paths;
use crate::peers::Peers;
use crate::postgres::Postgres;
use crate::proc::{Cost, Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::Seed;
use crate::table::{Goal, Line, Section, grouped, median_ratio};

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths, peers: &Peers) -> anyhow::Result<Section> {
    let devices = scale.devices_many;
    let seed = Seed::with(paths, devices).await?;
    let mut section = Section::default();
    let [mut ours, mut npm] = [(); 2].map(|()| Costs::default());
    let mut missing = String::new();
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        let data = seed.copy(paths)?;
        let file = data.path().join("notify.db");
        ours.0.push(instant_provider::run(&Parameters { file, devices })?);
        match run_peer(scale, paths, peers)? {
            Ok(cost) => npm.0.push(cost),
            Err(reason) => missing = reason,
        }
        section.other_load.push(other_load.share()?);
    }
    section.lines.push(Line {
        row: "queue",
        what: format!("{} deliveries enqueued, claimed, completed", grouped(devices as f64)),
        figure: ours.text(),
        baseline: npm.text_or("graphile-worker on PostgreSQL", &missing),
        ratio: median_ratio(&ours.rates(), &npm.rates()),
        goal: Goal::AtLeast(20.0),
    });
    section.notes.push(format!(
        "queue: both flush every commit; rates are wall; graphile-worker had {} jobs, added in \
         batches of 1,000, and its CPU is without PostgreSQL's",
        grouped(scale.peer_jobs as f64)
    ));
    Ok(section)
}

/// Runs the jobs of graphile-worker. The inner error is the reason why it is not available.
fn run_peer(scale: &Scale, paths: &Paths, peers: &Peers) -> anyhow::Result<Result<Cost, String>> {
    if let Some(missing) = peers.missing() {
        return Ok(Err(missing.to_owned()));
    }
    let postgres = match Postgres::start(paths)? {
        Ok(postgres) => postgres,
        Err(reason) => return Ok(Err(reason)),
    };
    let parameters = json!({ "connection": postgres.url(), "count": scale.peer_jobs });
    match peers.start("graphile-worker.mjs", &parameters)? {
        Ok(mut peer) => Ok(Ok(peer.measure(scale.peer_jobs)?)),
        Err(reason) => Ok(Err(reason)),
    }
}
