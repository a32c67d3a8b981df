//! Whether storage can be read and written, for `/readyz`, which anybody may ask. Each check is a commit,
//! so that all who ask within a second share one.

use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::clock::SharedClock;
use crate::error_chain::with_causes;
use crate::store::{SharedStore, with_patience};

/// How long the result of a check is used, in milliseconds. A failure is visible after this time and the
/// duration of one check at the latest.
const RESULT_KEPT_MS: i64 = 1_000;
/// Longest duration of a check: as long as a request waits for storage.
const CHECK_WAIT: Duration = Duration::from_secs(4);

/// Longest time until a probe is answered, whatever hangs.
const ANSWER_WAIT: Duration = Duration::from_millis(4_500);

/// The last check, and how to do another.
#[derive(Clone)]
pub(crate) struct Readiness {
    store: SharedStore,
    clock: SharedClock,
    last: Arc<Mutex<Option<Checked>>>,
}

/// A result.
struct Checked {
    at: Timestamp,
    obstacle: Option<String>,
}

impl Readiness {
    /// Nothing is checked yet.
    pub(crate) fn new(store: SharedStore, clock: SharedClock) -> Self {
        Self { store, clock, last: Arc::default() }
    }

    /// What is wrong with storage, if anything is.
    pub(crate) async fn obstacle(&self) -> Option<String> {
        // A disk that hangs must not hang the probe.
        let until = Instant::now() + ANSWER_WAIT;
        let hangs = "storage did not answer in time";
        let Ok(mut last) = timeout_at(until, self.last.clone().lock_owned()).await else {
            return Some(hangs.to_owned());
        };
        if let Some(checked) = &*last
            && (0..RESULT_KEPT_MS).contains(&self.clock.now().ms_since(checked.at))
        {
            return checked.obstacle.clone();
        }
        let this = self.clone();
        // On a task of its own: a caller that goes away must not leave a check to the next one.
        let checking = tokio::spawn(async move {
            let obstacle = this.check(last.as_ref()).await;
            let at = this.clock.now();
            *last = Some(Checked { at, obstacle: obstacle.clone() });
            obstacle
        });
        match timeout_at(until, checking).await {
            Ok(checked) => checked.unwrap_or_else(|_| Some("storage was not checked".to_owned())),
            Err(_) => Some(hangs.to_owned()),
        }
    }

    /// Checks, and logs what differs from the last time.
    async fn check(&self, last: Option<&Checked>) -> Option<String> {
        let store = self.store.clone();
        let in_place = tokio::task::spawn_blocking(move || store.in_place()).await;
        let (obstacle, cause) = match in_place.unwrap_or(Ok(())) {
            Err(gone) => {
                let obstacle = "a file of the database was deleted or replaced".to_owned();
                (obstacle, gone.to_string())
            }
            Ok(()) => match with_patience(CHECK_WAIT, self.store.check()).await {
                Err(error) => {
                    let obstacle = "storage cannot be read and written".to_owned();
                    (obstacle, with_causes(&error).to_string())
                }
                Ok(()) => {
                    if last.is_some_and(|last| last.obstacle.is_some()) {
                        tracing::info!("storage can be read and written again");
                    }
                    return None;
                }
            },
        };
        if last.and_then(|last| last.obstacle.as_ref()) != Some(&obstacle) {
            tracing::warn!(cause, "{obstacle}");
        }
        Some(obstacle)
    }
}
