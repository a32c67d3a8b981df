//! T13: a full disk, and a failing disk. Writes get 503, the process survives, no acknowledged request is
//! lost, and the server recovers after the end of the fault.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use http::Method;
use notify_tests::{Caller, DatabaseInspector, DiskFault, RestartableServer, TightDisk, until};
use serde_json::json;

use crate::load::{Load, settle};
use crate::{CREDIT, launch, setting};

/// The size of the disk that is filled: 16 MiB.
const DISK_BYTES: u64 = 16 * 1_024 * 1_024;
/// The duration of each fault.
const TROUBLE: Duration = Duration::from_millis(1_500);
/// The number of applications that send concurrently.
const TENANTS: u64 = 2;

/// The failing system calls and the pattern of the failures. Some patterns fail all calls, others fail one of
/// several calls, so that statements, commits and checkpoints fail at each of their steps.
const FAULTS: [(&str, &str); 6] = [
    ("fdatasync,fsync", "error=ENOSPC:when=1+1"),
    ("fdatasync,fsync", "error=EIO:when=2+3"),
    ("pwrite64", "error=EIO:when=1+1"),
    ("pwrite64", "error=EIO:when=3+7"),
    ("pwrite64", "error=ENOSPC:when=2+5"),
    ("fdatasync,fsync,pwrite64", "error=EIO:when=5+11"),
];

/// Sends a write and returns the status of its response.
async fn status_of_a_write(caller: &Caller) -> Result<u16> {
    let device = json!({"device_id": format!("probe-{}", fastrand::u64(..)), "platform": "ios",
        "sdk_type": "ios_push"});
    let reply = caller.send(&Method::POST, "/v1/devices", device.to_string()).await?;
    if reply.status != 200 {
        ensure!(reply.status == 503, "{}: {}", reply.status, reply.text);
        ensure!(!reply.header("retry-after").is_empty(), "a 503 says when to come again");
        ensure!(reply.errors().is_some(), "{}", reply.text);
    }
    Ok(reply.status)
}

/// Waits until writes are refused. The process must keep running and report that it is not ready.
async fn refuses(caller: &Caller) -> Result<()> {
    until("writes are refused", async || {
        Ok((status_of_a_write(caller).await? == 503).then_some(()))
    })
    .await?;
    ensure!(caller.send(&Method::GET, "/healthz", "").await?.status == 200, "it lives");
    Ok(())
}

/// Waits until writes are accepted again and returns the time that this took.
async fn resumes(caller: &Caller) -> Result<Duration> {
    let ended = Instant::now();
    until("writes are taken again", async || {
        Ok((status_of_a_write(caller).await? == 200).then_some(()))
    })
    .await?;
    let took = ended.elapsed();
    Ok(took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_only_stops_accepting() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let disk = TightDisk::mount(folder.path(), DISK_BYTES).await?;
    let data_dir = folder.path().join("data");
    let within = disk.within()?;
    // The test's request log and the server's log are on another disk.
    let outside = tempfile::tempdir()?;
    let launch = launch(&data_dir)
        .on_file()
        .within(within.iter().map(String::as_str))
        .log("error", &outside.path().join("log"));
    let mut server = RestartableServer::start(launch).await?;
    let request_log = outside.path().join("request_log");
    let mut load = Load::prepare(&server, TENANTS, &request_log).await?;
    let mut rng = Rng::with_seed(setting("NOTIFY_CRASH_SEED").unwrap_or_default());
    load.begin(&server, &mut rng);
    let caller = server.caller();
    let mut longest = Duration::ZERO;
    for _ in 0..2 {
        load.go_on(TROUBLE).await?;
        disk.fill()?;
        refuses(&caller).await?;
        // The server keeps the result of its last check for a moment.
        until("the server is not ready", async || {
            let ready = caller.send(&Method::GET, "/readyz", "").await?;
            Ok((ready.status == 503).then_some(()))
        })
        .await?;
        load.go_on(TROUBLE).await?;
        disk.free()?;
        longest = longest.max(resumes(&caller).await?);
    }
    load.end().await?;
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    assert_eq!(verdict.repeated(), 0, "nothing ended, and so nothing is sent twice");
    println!(
        "T13: a full disk twice, {} pairs, 0 lost, 0 repeats, on again within {longest:.1?}",
        verdict.pairs
    );
    server.stop().await?;
    server.sandbox.stop().await;
    let copy = outside.path().join("notify.db");
    std::fs::copy(disk.path("data/notify.db")?, &copy)?;
    DatabaseInspector::file(&copy)?.ensure_settled()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_loses_nothing_that_was_acknowledged() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let data_dir = folder.path().join("data");
    let launch = launch(&data_dir).on_file().log("error", &folder.path().join("log"));
    let mut server = RestartableServer::start(launch).await?;
    let mut load = Load::prepare(&server, TENANTS, &folder.path().join("request_log")).await?;
    let mut rng = Rng::with_seed(setting("NOTIFY_CRASH_SEED").unwrap_or_default());
    load.begin(&server, &mut rng);
    let mut longest = Duration::ZERO;
    for (calls, fault) in FAULTS {
        let name = || format!("{calls}: {fault}");
        let caller = server.caller();
        let trouble = DiskFault::begin(server.running()?.id()?, calls, fault).await?;
        refuses(&caller).await.with_context(name)?;
        load.go_on(TROUBLE).await?;
        trouble.end().await?;
        longest = longest.max(resumes(&caller).await.with_context(name)?);
        // What a failed commit left in the log is found there by another process.
        server.kill(CREDIT).await?;
        server.start_again().await?;
    }
    load.end().await?;
    load.drain(&server).await?;
    let verdict = load.judge(&server).await?;
    verdict.ensure_sound()?;
    println!(
        "T13: {} faults of the disk, {} pairs, 0 lost, {} repeats, at most {} a kill, on again \
         within {longest:.1?}",
        FAULTS.len(),
        verdict.pairs,
        verdict.repeated(),
        verdict.largest_repeat()
    );
    settle(server, &data_dir).await
}
