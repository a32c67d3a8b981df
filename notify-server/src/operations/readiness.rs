//! The readiness of the store for `/readyz`: whether it can be read and written. Each check is a
//! commit, and `/readyz` needs no key, so all requests within a second share one check.

use std::sync::Arc;
use std::time::Duration;

use notify_core::Timestamp;
use tokio::sync::Mutex;
use tokio::time::{Instant, timeout_at};

use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::store::{SharedStore, with_deadline};

/// How long the result of a check is reused, in milliseconds. `/readyz` reports a failure after
/// this time and the duration of one check at the latest.
const RESULT_KEPT_MS: i64 = 1_000;
/// Longest duration of a check. It is the time that a request waits for the store.
const CHECK_WAIT: Duration = Duration::from_secs(4);

/// Longest time until `/readyz` responds, even if the disk hangs.
const ANSWER_WAIT: Duration = Duration::from_millis(4_500);

/// Checks the store and keeps the last result.
#[derive(Clone)]
pub(crate) struct Readiness {
    store: SharedStore,
    clock: SharedClock,
    last: Arc<Mutex<Option<LastCheck>>>,
}

/// The result of a check.
struct LastCheck {
    at: Timestamp,
    problem: Option<String>,
}

impl Readiness {
    /// Creates the check without a result; the first request runs it.
    pub(crate) fn new(store: SharedStore, clock: SharedClock) -> Self {
        Self { store, clock, last: Arc::default() }
    }

    /// The problem of the store; `None` if the store works.
    pub(crate) async fn problem(&self) -> Option<String> {
        // A disk that hangs must not hang the probe.
        let until = Instant::now() + ANSWER_WAIT;
        let timeout_problem = "storage did not answer in time";
        let Ok(mut last) = timeout_at(until, self.last.clone().lock_owned()).await else {
            return Some(timeout_problem.to_owned());
        };
        if let Some(last_check) = &*last
            && (0..RESULT_KEPT_MS).contains(&self.clock.now().ms_since(last_check.at))
        {
            return last_check.problem.clone();
        }
        let this = self.clone();
        // In its own task, so that a caller that disconnects does not abort the check.
        let checking = tokio::spawn(async move {
            let problem = this.check(last.as_ref()).await;
            let at = this.clock.now();
            *last = Some(LastCheck { at, problem: problem.clone() });
            problem
        });
        match timeout_at(until, checking).await {
            Ok(problem) => problem.unwrap_or_else(|_| Some("storage was not checked".to_owned())),
            Err(_) => Some(timeout_problem.to_owned()),
        }
    }

    /// Checks the store. Logs the problem if it differs from that of the last check, and its end.
    async fn check(&self, last: Option<&LastCheck>) -> Option<String> {
        let Some((problem, cause)) = self.find_problem().await else {
            if last.is_some_and(|last| last.problem.is_some()) {
                tracing::info!("storage can be read and written again");
            }
            return None;
        };
        if last.and_then(|last| last.problem.as_ref()) != Some(&problem) {
            tracing::warn!(cause, "{problem}");
        }
        Some(problem)
    }

    /// The problem of the store, with its cause for the log; `None` if the store works.
    async fn find_problem(&self) -> Option<(String, String)> {
        let store = self.store.clone();
        let files_check = tokio::task::spawn_blocking(move || store.check_files()).await;
        // If this check panics, the check of the store below decides.
        if let Err(missing) = files_check.unwrap_or(Ok(())) {
            let problem = "a file of the database was deleted or replaced".to_owned();
            return Some((problem, missing.to_string()));
        }
        let error = with_deadline(CHECK_WAIT, self.store.check()).await.err()?;
        let problem = "storage cannot be read and written".to_owned();
        Some((problem, error_chain(&error).to_string()))
    }
}
