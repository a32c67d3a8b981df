//! T23: two servers on one file, and a server that is restarted many times in a row.

use std::time::Duration;

use anyhow::{Context, Result};
use fastrand::Rng;
use notify_client::Client;
use notify_core::ListNotifications;
use notify_tests::RestartableServer;

use crate::load::{Load, settle};
use crate::{CREDIT, launch, setting};

/// The number of starts in a row that are killed.
const RESTARTS: u32 = 100;
/// The longest time between a start and its kill. Some kills come before the server listens, some after.
const KILL_WITHIN_MS: u64 = 150;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_restarts_in_a_row_lose_nothing() -> Result<()> {
    let seed = setting("NOTIFY_CRASH_SEED").unwrap_or_else(|| fastrand::u64(..));
    println!("T23: NOTIFY_CRASH_SEED={seed}");
    let mut rng = Rng::with_seed(seed);
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let mut server = RestartableServer::start(launch(&data_dir)).await?;
    let mut load = Load::prepare(&server, 1, &folder.path().join("request_log")).await?;
    load.begin(&server, &mut rng);
    load.go_on(Duration::from_secs(1)).await?;
    server.kill(CREDIT).await?;
    let began = std::time::Instant::now();
    for _ in 0..RESTARTS {
        let after = Duration::from_millis(rng.u64(..KILL_WITHIN_MS));
        server.kill_at_start(after, CREDIT).await?;
    }
    let took = began.elapsed();
    server.start_again().await?;
    load.end().await?;
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    println!("T23: {RESTARTS} restarts in {took:.1?}, {} pairs, 0 lost", verdict.pairs);
    settle(server, &data_dir).await
}

#[tokio::test]
async fn a_second_server_on_the_same_file_is_refused() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let launch = launch(folder.path()).on_file();
    let first = launch.start().await?;
    let (status, output) = launch.ended().await?;
    assert!(!status.success(), "{status}");
    assert_eq!(output.lines().count(), 1, "one line for people: {output}");
    assert!(
        output.contains("in use by another notify-server") && output.contains("notify.db"),
        "{output}"
    );
    let key = first.api_key.clone().context("a key")?;
    let client = Client::builder(&first.origin).api_key(key).build()?;
    client.notifications().list(&ListNotifications::default()).await?;
    // When the first server has ended, the file is free again, even if the server was killed.
    first.kill().await?;
    launch.start().await?.kill().await
}
