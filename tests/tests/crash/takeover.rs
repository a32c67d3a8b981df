//! Measures in the database how long it takes until another server takes over the work of a dead server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use notify_tests::{Installation, until};
use tokio::task::JoinHandle;

/// How often the database is queried.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Selects the epochs of servers that hold unfinished pages or retries.
const HOLDING: &str = "select epoch from pages where finished = 0
    union select epoch from retries where epoch is not null";

/// The observations so far.
#[derive(Debug, Default)]
struct Seen {
    /// The time of death of each server that still holds work.
    dead: BTreeMap<i64, Instant>,
    /// The times until the work of the other dead servers was taken over.
    took: Vec<Duration>,
}

/// Observes the database in the background.
pub(crate) struct Relief {
    installation: Arc<Installation>,
    known: BTreeSet<i64>,
    seen: Arc<Mutex<Seen>>,
    looking: JoinHandle<()>,
}

impl Relief {
    pub(crate) fn watch(installation: Arc<Installation>) -> Self {
        let seen = Arc::<Mutex<Seen>>::default();
        let looking = tokio::spawn(look_on(Arc::clone(&installation), Arc::clone(&seen)));
        Self { installation, known: BTreeSet::new(), seen, looking }
    }

    /// The epoch of the newest server.
    pub(crate) async fn newest(&mut self) -> Result<i64> {
        let newest = until("a server says that it lives", async || {
            let alive = self.installation.database().numbers("select epoch from servers");
            Ok(alive.into_iter().find(|epoch| !self.known.contains(epoch)))
        })
        .await?;
        self.known.insert(newest);
        Ok(newest)
    }

    /// Records that a server was killed now.
    pub(crate) fn killed(&self, epoch: i64) {
        let now = Instant::now();
        if self.installation.database().numbers(HOLDING).contains(&epoch) {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.dead.insert(epoch, now);
        }
    }

    /// Waits until the work of all dead servers is taken over. Returns the times that this took, sorted.
    pub(crate) async fn ended(self) -> Result<Vec<Duration>> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let all = until("all are relieved", async || {
            ensure!(!self.looking.is_finished(), "the watcher has ended");
            let seen = seen();
            Ok(seen.dead.is_empty().then(|| seen.took.clone()))
        });
        let mut all = all.await.context("of servers that were killed")?;
        self.looking.abort();
        all.sort_unstable();
        Ok(all)
    }
}

async fn look_on(installation: Arc<Installation>, seen: Arc<Mutex<Seen>>) {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    loop {
        ticks.tick().await;
        let holding = installation.database().numbers(HOLDING);
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Seen { dead, took } = &mut *seen;
        dead.retain(|epoch, killed| {
            let is_held = holding.contains(epoch);
            if !is_held {
                took.push(killed.elapsed());
            }
            is_held
        });
    }
}
