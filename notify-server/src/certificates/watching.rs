//! The task that reads the files again.

use std::sync::Arc;

use notify_core::Timestamp;
use tokio_util::sync::CancellationToken;

use super::pair::{Pair, Stamp, TlsError};
use super::{Certificates, expiry};
use crate::causes::with_causes;
use crate::clock::SharedClock;

/// How often the files are looked at, in milliseconds.
pub(super) const LOOK_EVERY_MS: i64 = 30_000;
/// How often a certificate that ends soon is warned about, in milliseconds.
pub(super) const WARN_EVERY_MS: i64 = 86_400_000;

/// Follows the files until `stopping`, and warns of the certificate's end.
pub(crate) async fn watch(
    certificates: Arc<Certificates>,
    clock: SharedClock,
    stopping: CancellationToken,
) {
    // The pair may be older than this stamp by what a start takes; reading once more costs nothing.
    let mut known: Option<Stamp> = None;
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
        known = follow(&certificates, known, is_forced).await;
        if !Arc::ptr_eq(&before, &certificates.pair()) {
            // What was said of the pair before does not hold for this one.
            warned_at = None;
        }
    }
}

/// Reads the files when they have changed or must be read; answers what they look like.
async fn follow(
    certificates: &Arc<Certificates>,
    known: Option<Stamp>,
    is_forced: bool,
) -> Option<Stamp> {
    let reading = certificates.clone();
    // The files may lie on a disk that hangs.
    let read = tokio::task::spawn_blocking(move || {
        // Taken before the files are read: a change that comes between is seen at the next look.
        let stamp = reading.stamp();
        let is_due = is_forced || known != Some(stamp);
        (stamp, is_due.then(|| Pair::read(&reading.files)))
    });
    match read.await {
        Ok((stamp, read)) => {
            if let Some(read) = read {
                replace(certificates, read, is_forced);
            }
            Some(stamp)
        }
        Err(error) => {
            tracing::error!(%error, "the TLS certificate could not be looked at");
            known
        }
    }
}

fn replace(certificates: &Certificates, read: Result<Pair, TlsError>, is_forced: bool) {
    match read {
        Ok(pair) if pair.is(&certificates.pair()) => {
            if is_forced {
                tracing::info!("the TLS certificate and key are the ones that are served already");
            }
        }
        Ok(pair) => {
            certificates.served.send_replace(Arc::new(pair));
            tracing::info!("the TLS certificate was reloaded");
        }
        Err(error) => tracing::error!(
            cause = with_causes(&error),
            "the TLS certificate was not reloaded: the one before is still served"
        ),
    }
}
