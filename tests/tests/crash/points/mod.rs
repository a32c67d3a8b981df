//! T1b: the process ends at each point at which it writes or sends: between the statements and the commit of
//! every store operation, between the commit and its response, and around every request to a provider.
//! Acknowledged data exists, all other data exists completely or not at all, a repeat of the request
//! completes it, and no work is stuck.
//!
//! A point that is not reached fails the test, and so does an operation that is not listed here.

mod api_calls;
mod coverage;
mod erasures;
mod intents;
mod sending;
mod servers;
mod sessions;
mod single_sends;
mod starts;
mod table;
mod webhooks;

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use anyhow::{Result, ensure};
use notify_tests::Launch;

use crate::launch;

/// The signal by which a process ends itself at a failpoint.
const ABORTED: i32 = 6;

/// The stages: between the statements of a write and its commit, and between the commit and its response.
const STAGES: [&str; 2] = ["written", "committed"];

/// A server that ends when it reaches this point for the `hit`-th time.
fn dying(data_dir: &Path, what: &str, stage: &str, hit: u32) -> Launch {
    let point = format!("{what} {stage} {hit}");
    launch(data_dir).program("dying-server").variable("NOTIFY_DIES_AT", &point)
}

/// Makes a first start end before it creates its application. The tables and the master key exist then.
pub(crate) async fn killed_at_founding(data_dir: &Path) -> Result<()> {
    let (status, _) = dying(data_dir, "bootstrap", STAGES[0], 1).on_file().answered().await?;
    ensure_aborted(status)
}

/// Checks that a process ended at its failpoint and for no other reason.
fn ensure_aborted(status: ExitStatus) -> Result<()> {
    ensure!(status.signal() == Some(ABORTED), "it ended with {status}");
    Ok(())
}
