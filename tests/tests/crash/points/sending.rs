//! Crash points of the delivery engine: its writes, and the requests to each provider. One server ends at all
//! points, one after another, so each start also continues the work of the process before.

use anyhow::{Context, Result};
use notify_sandbox::{Provider, Rule, ScriptedResponse};
use notify_tests::RestartableServer;

use super::{dying, ensure_aborted};
use crate::load::{GRANTS, Load, settle};
use crate::{CREDIT, FEW, launch};

/// The operations, and the number of the hit at which the process ends: the first page, one among many, and
/// the last page of a notification.
const WRITES: [(&str, &[u32]); 6] = [
    ("start", &[1]),
    (GRANTS, &[1, 3]),
    ("open_page", &[1, 3]),
    ("checkpoint", &[1, 3, 5]),
    ("claim_retries", &[1]),
    ("settle_retries", &[1]),
];
/// The operation that stores a provider's token. It runs once while the token is valid, before all other
/// points.
const TOKENS: [&str; 2] = ["keep_provider_token", "freeze_provider_token"];
/// The requests, and the number of the hit at which the process ends.
const SENDS: [(&str, &[u32]); 5] = [
    ("apns", &[1, 3]),
    ("fcm", &[1, 3]),
    ("webpush", &[1, 2]),
    ("messenger", &[1]),
    ("telegram", &[1]),
];
/// Before and after a request.
const SIDES: [&str; 2] = ["unsent", "answered"];

/// The operations that this file tests.
pub(super) fn operations() -> Vec<&'static str> {
    let writes = WRITES.iter().map(|(operation, _)| *operation);
    writes.chain(TOKENS).chain(["reclaim"]).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_at_any_point_of_sending_loses_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let request_log = folder.path().join("request_log");
    let load = Load::prepare_with(&server, 1, &request_log, FEW).await?;
    server.kill(CREDIT).await?;
    let mut points = 0;
    for (what, stage) in
        TOKENS.into_iter().flat_map(|what| super::STAGES.map(|stage| (what, stage)))
    {
        if what == "freeze_provider_token" {
            let too_many = ScriptedResponse::reason("TooManyProviderTokenUpdates").first(1);
            server.sandbox.add_rule(Rule::on(Provider::Apns, too_many))?;
        }
        die(&mut server, &load, (what, stage, 1)).await?;
        points += 1;
    }
    for (what, hits) in SENDS {
        for (stage, hit) in SIDES.iter().flat_map(|stage| hits.iter().map(move |hit| (stage, hit)))
        {
            die(&mut server, &load, (what, stage, *hit)).await?;
            points += 1;
        }
    }
    for (what, hits) in WRITES {
        let stages = super::STAGES.iter();
        for (stage, hit) in stages.flat_map(|stage| hits.iter().map(move |hit| (stage, hit))) {
            die(&mut server, &load, (what, stage, *hit)).await?;
            points += 1;
        }
    }
    // The start takes over the open work of the process before.
    for stage in super::STAGES {
        let dying = dying(&data_dir, "reclaim", stage, 1);
        ensure_aborted(server.ended_at_start(&dying, CREDIT).await?)
            .with_context(|| format!("adopt {stage}"))?;
        points += 1;
    }
    server.start_again().await?;
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    println!(
        "T1b: {points} points of sending, {} pairs, 0 lost, {} repeats, at most {} a point",
        verdict.pairs,
        verdict.repeated(),
        verdict.largest_repeat()
    );
    settle(server, &data_dir).await
}

/// Starts a server that ends at this point, and makes it send until it ends.
async fn die(server: &mut RestartableServer, load: &Load, point: (&str, &str, u32)) -> Result<()> {
    let (what, stage, hit) = point;
    let name = format!("{what}-{stage}-{hit}");
    // One of the messages fails at first, so that the server has a retry.
    server.sandbox.add_rule(Rule::on(Provider::Fcm, ScriptedResponse::status(503).first(1)))?;
    let dying = dying(server.launch.data_dir(), what, stage, hit);
    let status = match server.begin_again_as(&dying, CREDIT).await? {
        // This includes the work that the process before left.
        Some(status) => status,
        None => {
            load.ask_once(server, &name).await?;
            server.ended(CREDIT).await.with_context(|| format!("{name} is reached"))?
        }
    };
    ensure_aborted(status).context(name)
}
