//! T1: the process is killed at random times under load, sometimes again during its start. No accepted
//! notification is lost, no message arrives without a request, the credit of each kill limits the repeats,
//! and devices can recognise the repeats.
//!
//! `NOTIFY_CRASH_RUNS=200` makes more kills; `NOTIFY_CRASH_SEED` repeats the times of an earlier run.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use notify_tests::RestartableServer;

use crate::load::{Load, script_errors, settle};
use crate::{CREDIT, launch, setting};

/// The default number of kills.
const RUNS: u64 = 20;
/// The number of kills on one data folder. After them, all work must be completed.
const RUNS_PER_FOLDER: u64 = 5;
/// The longest time between a start and its kill.
const KILL_WITHIN_MS: u64 = 2_000;
/// One of this many kills is followed by a second kill during the next start.
const DOUBLE_ONE_IN: u64 = 10;
/// The longest time between the next start and the second kill.
const DOUBLE_WITHIN_MS: u64 = 200;
/// The number of applications that send concurrently.
const TENANTS: u64 = 3;

/// The results of all kills.
#[derive(Debug, Default)]
struct Sum {
    kills: usize,
    pairs: usize,
    repeats: usize,
    largest: usize,
    drained: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_lose_nothing_and_repeat_no_more_than_the_credit() -> Result<()> {
    let runs = setting("NOTIFY_CRASH_RUNS").unwrap_or(RUNS);
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T1: NOTIFY_CRASH_RUNS={runs} NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let mut sum = Sum::default();
    for first in (0..runs).step_by(usize::try_from(RUNS_PER_FOLDER)?) {
        let runs = RUNS_PER_FOLDER.min(runs - first);
        let folder = kill_and_judge(&mut rng, runs).await;
        let folder = folder.with_context(|| format!("NOTIFY_CRASH_SEED={seed}"))?;
        sum.kills += folder.kills;
        sum.pairs += folder.pairs;
        sum.repeats += folder.repeats;
        sum.largest = sum.largest.max(folder.largest);
        sum.drained = sum.drained.max(folder.drained);
    }
    let Sum { kills, pairs, repeats, largest, drained } = sum;
    println!(
        "T1: {runs} runs, {kills} kills, {pairs} pairs, 0 lost, {repeats} repeats, at most \
         {largest} a kill of {CREDIT} allowed, drained within {drained:.1?}"
    );
    Ok(())
}

/// Kills one server several times, waits until all work is completed, and checks the run.
async fn kill_and_judge(rng: &mut Rng, runs: u64) -> Result<Sum> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let mut load = Load::prepare(&server, TENANTS, &folder.path().join("request_log")).await?;
    script_errors(&server, rng)?;
    load.begin(&server, rng);
    for _ in 0..runs {
        load.go_on(Duration::from_millis(rng.u64(..KILL_WITHIN_MS))).await?;
        server.kill(CREDIT).await?;
        if rng.u64(..DOUBLE_ONE_IN) == 0 {
            let after = Duration::from_millis(rng.u64(..DOUBLE_WITHIN_MS));
            server.kill_at_start(after, CREDIT).await?;
        }
        server.start_again().await?;
    }
    load.end().await?;
    let load_ended = std::time::Instant::now();
    load.drain(&server).await?;
    let drained = load_ended.elapsed();
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    ensure!(verdict.pairs > 0, "the kills hit a server that sends");
    let sum = Sum {
        kills: server.ended.len(),
        pairs: verdict.pairs,
        repeats: verdict.repeated(),
        largest: verdict.largest_repeat(),
        drained,
    };
    settle(server, &data_dir).await?;
    Ok(sum)
}
