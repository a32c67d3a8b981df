//! T1 with several servers: two on one database, of which one or the other is killed at random moments
//! under load. The one that lives, or starts next, relieves the dead one; nothing that was accepted is
//! lost, and what is repeated is bounded by the credit of each kill.
//!
//! `NOTIFY_SERVERS_RUNS=200` runs it at length; `NOTIFY_CRASH_SEED` repeats the moments of a run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_tests::{Ended, Installation, Survivor};

use crate::load::{Load, script_errors};
use crate::{CREDIT, launch, setting};

/// Kills unless the environment says otherwise.
const RUNS: usize = 4;
/// Latest moment of a kill after a start.
const KILL_WITHIN_MS: u64 = 2_500;
/// Applications that send beside each other.
const TENANTS: u64 = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn either_of_two_servers_is_relieved_and_nothing_is_lost() -> Result<()> {
    let runs = setting("NOTIFY_SERVERS_RUNS").unwrap_or(RUNS);
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T1: two servers, NOTIFY_SERVERS_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let installation = Installation::make();
    let settings = installation.settings();
    let one = launch(&folder.path().join("one")).installation(&settings);
    let other = launch(&folder.path().join("other")).installation(&settings);
    let mut server = Survivor::start(one).await?;
    let mut beside = other.start().await?;
    ensure!(beside.api_key.is_none(), "the keys are made once, whoever comes first");
    let mut load = Load::prepare(&server, TENANTS, &folder.path().join("ledger")).await?;
    script_errors(&server, &mut rng)?;
    load.begin(&server, &mut rng);
    for nth in 0..runs {
        load.go_on(Duration::from_millis(rng.u64(..KILL_WITHIN_MS))).await?;
        if rng.bool() {
            server.kill(CREDIT).await?;
            server.start_again().await?;
        } else {
            beside.kill().await?;
            beside = other.start().await.with_context(|| format!("run {nth}"))?;
        }
    }
    load.end().await?;
    let over = std::time::Instant::now();
    load.drain(&server).await?;
    let drained = over.elapsed();
    // Whose a connection was is not known among two: all repeats are weighed together.
    server.ended = vec![Ended { last_connection: u64::MAX, repeats_max: runs * CREDIT }];
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound().with_context(|| format!("NOTIFY_CRASH_SEED={seed}"))?;
    println!(
        "T1: two servers, {runs} kills, {} pairs, 0 lost, {} repeats of {} allowed, drained within \
         {drained:.1?}",
        verdict.pairs,
        verdict.repeated(),
        runs * CREDIT
    );
    let status = beside.terminate().await?;
    ensure!(status.success(), "{status}");
    server.stop().await?;
    server.sandbox.stop().await;
    Ok(())
}
