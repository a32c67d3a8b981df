//! Corrects the offsets of devices in named time zones after a change, such as the beginning of daylight
//! saving time.

use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::store::{OffsetCorrection, SharedStore, StoreError};

/// How often the worker looks for a change of offsets, in milliseconds.
const LOOK_INTERVAL_MS: i64 = 10_000;
/// Pause between two slices of a correction, in which other writes can run. It is measured in real time,
/// because it limits the load of the machine.
const PAUSE: Duration = Duration::from_millis(20);

/// Corrects the offsets of devices. One of several servers does so. After a crash, this worker or that of
/// another server continues.
pub(crate) struct ZoneOffsetWorker {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    /// The correction that began with the start of the server.
    pub(crate) first: Option<OffsetCorrection>,
}

impl ZoneOffsetWorker {
    /// Corrects offsets until `stopping` is cancelled.
    pub(crate) async fn run(mut self, stopping: CancellationToken) {
        loop {
            if let Err(error) = self.correct_all(&stopping).await {
                tracing::warn!(
                    cause = error_chain(&error),
                    "the offsets of devices in named time zones were not corrected; the server tries \
                     again"
                );
            }
            let next = self.clock.now().plus_ms(LOOK_INTERVAL_MS);
            tokio::select! {
                () = stopping.cancelled() => return,
                () = self.clock.sleep_until(next) => {}
            }
        }
    }

    /// Corrects slice by slice, until all devices have their offsets or the server stops.
    async fn correct_all(&mut self, stopping: &CancellationToken) -> Result<(), StoreError> {
        let mut correction = match self.first.take() {
            Some(first) => Some(first),
            None => self.store.begin_offset_correction(self.clock.now()).await?,
        };
        while let Some(current) = correction {
            correction = self.store.correct_offsets(current, self.clock.now()).await?;
            tokio::select! {
                () = stopping.cancelled() => return Ok(()),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
        Ok(())
    }
}
