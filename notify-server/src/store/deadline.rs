//! The time that one request may wait for storage, summed over all its operations: queues, connections
//! and results. Callers outside of a request, such as the engines, have no deadline here; only the
//! backend's own limits apply.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::store::StoreError;

tokio::task_local! {
    /// The time left to this task's request.
    static LEFT: Cell<Duration>;
}

/// The request has used up its time for storage.
#[derive(Debug, thiserror::Error)]
#[error("storage did not answer in the time that a request waits for it")]
struct DeadlineExceeded;

/// Runs a request that may wait for storage for this long in total.
pub(crate) async fn with_deadline<W: Future>(patience: Duration, work: W) -> W::Output {
    LEFT.scope(Cell::new(patience), work).await
}

/// Waits for `waiting` until the request's deadline.
///
/// # Errors
/// `Unavailable` when no time is left.
pub(crate) async fn before_deadline<T>(waiting: impl Future<Output = T>) -> Result<T, StoreError> {
    let Ok(left) = LEFT.try_with(Cell::get) else { return Ok(waiting.await) };
    let started = Instant::now();
    let ended = timeout(left, waiting).await;
    let spent = started.elapsed();
    // Concurrent waits are counted twice; a request has few of them.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(spent)));
    ended.map_err(|_| StoreError::Unavailable(Box::new(DeadlineExceeded)))
}

/// When the current request stops waiting; `None` outside of a request.
pub(super) fn deadline() -> Option<Instant> {
    LEFT.try_with(Cell::get).ok().and_then(|left| Instant::now().checked_add(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(4);

    #[tokio::test(start_paused = true)]
    async fn waits_of_a_request_share_one_deadline() {
        let of_storage = |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds));
        let answers = with_deadline(PATIENCE, async {
            let first = before_deadline(of_storage(1)).await.is_ok();
            // Its own work does not count.
            of_storage(60).await;
            let started = Instant::now();
            let second = before_deadline(of_storage(1)).await.is_ok();
            let third = before_deadline(of_storage(60)).await;
            (first, second, third, started.elapsed())
        });
        let (first, second, third, waited) = answers.await;
        assert!(first && second);
        assert!(matches!(third, Err(StoreError::Unavailable(_))), "{third:?}");
        assert!(waited <= PATIENCE, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn callers_outside_of_a_request_have_no_deadline() {
        assert!(before_deadline(tokio::time::sleep(Duration::from_secs(3_600))).await.is_ok());
        assert_eq!(deadline(), None);
    }
}
