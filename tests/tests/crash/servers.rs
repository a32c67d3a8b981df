//! T1 with two servers on one database. One of them is killed at random times under load. The other server,
//! or the next one that starts, takes over its work. No accepted notification is lost, and the credit of each
//! kill limits the repeats.
//!
//! `NOTIFY_SERVERS_RUNS=200` makes more kills; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_tests::{EndedProcess, Installation, RestartableServer};

use crate::load::{Load, script_errors};
use crate::takeover::Relief;
use crate::{CREDIT, launch, setting};

/// The default number of kills.
const RUNS: usize = 4;
/// The longest time between a start and its kill.
const KILL_WITHIN_MS: u64 = 2_500;
/// The number of applications that send concurrently.
const TENANTS: u64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_of_two_servers_is_taken_over_without_loss() -> Result<()> {
    let runs = setting("NOTIFY_SERVERS_RUNS").unwrap_or(RUNS);
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T1: two servers, NOTIFY_SERVERS_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let installation = Arc::new(Installation::make());
    let settings = installation.settings();
    let first_launch = launch(&folder.path().join("one")).installation(&settings);
    let second_launch = launch(&folder.path().join("other")).installation(&settings);
    let mut server = RestartableServer::start(first_launch).await?;
    let mut relief = Relief::watch(Arc::clone(&installation));
    let mut server_epoch = relief.newest().await?;
    let mut second = second_launch.start().await?;
    let mut second_epoch = relief.newest().await?;
    ensure!(second.api_key.is_none(), "the keys are made once");
    let mut load = Load::prepare(&server, TENANTS, &folder.path().join("request_log")).await?;
    script_errors(&server, &mut rng)?;
    load.begin(&server, &mut rng);
    let mut ended = Vec::new();
    for nth in 0..runs {
        load.go_on(Duration::from_millis(rng.u64(..KILL_WITHIN_MS))).await?;
        let last_connection = server.sandbox.counts().connections;
        // With two servers, a connection cannot be attributed to one of them, so all repeats are judged together.
        ended.push(EndedProcess { last_connection, repeats_max: runs * CREDIT });
        if rng.bool() {
            server.kill(CREDIT).await?;
            relief.killed(server_epoch);
            server.start_again().await.with_context(|| format!("run {nth}"))?;
            server_epoch = relief.newest().await?;
        } else {
            second.kill().await?;
            relief.killed(second_epoch);
            second = second_launch.start().await.with_context(|| format!("run {nth}"))?;
            second_epoch = relief.newest().await?;
        }
    }
    load.end().await?;
    let relieved = relief.ended().await?;
    let load_ended = std::time::Instant::now();
    load.drain(&server).await?;
    let drained = load_ended.elapsed();
    ended.push(EndedProcess { last_connection: u64::MAX, repeats_max: runs * CREDIT });
    server.ended = ended;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound().with_context(|| format!("NOTIFY_CRASH_SEED={seed}"))?;
    let (repeated, largest) = (verdict.repeated(), verdict.largest_repeat());
    ensure!(repeated <= runs * CREDIT, "{repeated} repeats of {runs} kills");
    println!(
        "T1: two servers, {runs} kills, {} pairs, 0 lost, {repeated} repeats of {} allowed, at most \
         {largest} from one kill to the next, drained within {drained:.1?}",
        verdict.pairs,
        runs * CREDIT
    );
    if let (Some(least), Some(most)) = (relieved.first(), relieved.last()) {
        let (count, median) = (relieved.len(), relieved[relieved.len() / 2]);
        println!(
            "T1: two servers, {count} of the dead held something, which was taken over after \
             {least:.1?} to {most:.1?}, half of it within {median:.1?}"
        );
    }
    let status = second.terminate().await?;
    ensure!(status.success(), "{status}");
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}
