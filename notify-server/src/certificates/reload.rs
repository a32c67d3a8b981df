//! The task that reads the files again.

use std::sync::Arc;

use notify_core::Timestamp;
use tokio_util::sync::CancellationToken;

use super::pair::{Pair, Stamp};
use super::{Certificates, expiry};
use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::private_file::warn_if_exposed;

/// How often the files are checked, in milliseconds.
pub(super) const LOOK_EVERY_MS: i64 = 30_000;
/// How often a certificate that ends soon is warned about, in milliseconds.
pub(super) const WARN_EVERY_MS: i64 = 86_400_000;

/// Follows the files until `stopping`, and warns of the certificate's end.
pub(crate) async fn watch(
    certificates: Arc<Certificates>,
    clock: SharedClock,
    stopping: CancellationToken,
) {
    // The pair was read at start-up, before this stamp; reading it once more costs nothing.
    let mut checked = CheckedFiles::default();
    let mut warned_at: Option<Timestamp> = None;
    loop {
        let now = clock.now();
        if warned_at.is_none_or(|at| now.ms_since(at) >= WARN_EVERY_MS) {
            expiry::warn(clock.wall(), certificates.not_after());
            warned_at = Some(now);
        }
        let is_forced = tokio::select! {
            () = stopping.cancelled() => return,
            () = certificates.asked.notified() => true,
            () = clock.sleep_until(now.plus_ms(LOOK_EVERY_MS)) => false,
        };
        let before = certificates.pair();
        checked = follow(&certificates, checked, is_forced).await;
        if !Arc::ptr_eq(&before, &certificates.pair()) {
            // A warning about the previous pair does not apply to this one.
            warned_at = None;
        }
    }
}

/// The files as of the last check.
#[derive(Debug, Default)]
struct CheckedFiles {
    /// The stamp when they were read; `None`: they are read at the next check, because they were
    /// not read yet or could not be.
    stamp: Option<Stamp>,
    /// Why they could not be read or used.
    error: Option<String>,
}

/// Reads the files when they have changed, must be read, or could not be read before.
async fn follow(
    certificates: &Arc<Certificates>,
    checked: CheckedFiles,
    is_forced: bool,
) -> CheckedFiles {
    let reading = certificates.clone();
    // The files may lie on a disk that hangs.
    let read = tokio::task::spawn_blocking(move || {
        // Taken before the files are read, so that a change in between is noticed at the next check.
        let stamp = reading.stamp();
        let is_due = is_forced || checked.stamp != Some(stamp);
        let read = is_due.then(|| Pair::read(&reading.files));
        (stamp, read, checked)
    });
    match read.await {
        Ok((_, None, checked)) => checked,
        Ok((stamp, Some(Ok(pair)), _)) => {
            replace(certificates, pair, is_forced);
            CheckedFiles { stamp: Some(stamp), error: None }
        }
        Ok((_, Some(Err(error)), checked)) => {
            let cause = error_chain(&error).to_string();
            // Read again at each check: the fault may be repaired without a change of the files.
            if is_forced || checked.error.as_ref() != Some(&cause) {
                tracing::error!(
                    cause,
                    "the TLS certificate was not reloaded; the server keeps the previous one"
                );
            }
            CheckedFiles { stamp: None, error: Some(cause) }
        }
        Err(error) => {
            tracing::error!(%error, "reading the TLS certificate failed");
            CheckedFiles::default()
        }
    }
}

fn replace(certificates: &Certificates, pair: Pair, is_forced: bool) {
    if !pair.is(&certificates.pair()) {
        warn_if_exposed(&certificates.files.key);
        certificates.served.send_replace(Arc::new(pair));
        tracing::info!("the TLS certificate was reloaded");
    } else if is_forced {
        tracing::info!("the TLS certificate and key are the ones that are served already");
    }
}
