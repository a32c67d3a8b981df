//! Removes ids of erased devices and users from stored requests, when an erasure has left more requests
//! than it can search in its own transaction.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::store::{SharedStore, StoreError};

/// How often the worker looks for ids to remove, in milliseconds. Until they are removed, answers leave
/// them out, so no request waits for this.
const LOOK_INTERVAL_MS: i64 = 10_000;
/// Pause between two slices of a search, in which other writes can run. It is measured in real time,
/// because it limits the load of the machine.
const PAUSE: Duration = Duration::from_millis(50);

/// Removes erased ids from stored requests. It keeps no state: after a crash, this worker or that of another
/// server continues. Several servers can search at the same time.
pub(crate) struct ErasureWorker {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
}

impl ErasureWorker {
    /// Removes erased ids until `stopping` is cancelled.
    pub(crate) async fn run(self, stopping: CancellationToken) {
        loop {
            if let Err(error) = remove_all(&self.store, &stopping).await {
                tracing::warn!(
                    cause = error_chain(&error),
                    "the ids of erased devices and users were not removed from stored requests; the \
                     server tries again"
                );
            }
            let next = self.clock.now().plus_ms(LOOK_INTERVAL_MS);
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.clock.sleep_until(next) => {}
            }
        }
    }
}

/// Searches slice by slice, with the applications in turn, until no erased id is left or the server stops.
async fn remove_all(store: &SharedStore, stopping: &CancellationToken) -> Result<(), StoreError> {
    loop {
        let apps = store.apps_with_erasures().await?;
        if apps.is_empty() {
            return Ok(());
        }
        for app in apps {
            match store.remove_erased_ids(app).await {
                // The application was deleted meanwhile.
                Ok(_) | Err(StoreError::NotFound) => {}
                Err(error) => return Err(error),
            }
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }
}
