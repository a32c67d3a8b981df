//! A limit on the time that one request waits for storage, and who made the request. The time is
//! summed over all operations of the request, and includes the waits for queues, connections and
//! results. Callers outside of a request, such as the engines, have no such limit; only the time
//! limits of the backend apply to them.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::store::{AppNo, StoreError};

tokio::task_local! {
    /// The time that the request of this task may still wait.
    static LEFT: Cell<Duration>;
    /// Who made the request of this task.
    static REQUESTER: Cell<Requester>;
}

/// On whose behalf the store works. Reads and writes of different requesters take turns
/// (`sql/turns.rs`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Requester {
    /// The server itself: the engines and the readiness check.
    Server,
    /// The sender of a request that belongs to no application.
    Anyone,
    /// An application, or its users and administrators.
    App(AppNo),
}

/// The request has used up its time for storage.
#[derive(Debug, thiserror::Error)]
#[error("storage did not answer in the time that a request waits for it")]
struct DeadlineExceeded;

/// Runs work that may wait for storage for `patience` in total.
pub(crate) async fn with_deadline<W: Future>(patience: Duration, work: W) -> W::Output {
    LEFT.scope(Cell::new(patience), work).await
}

/// Runs a request. Until [`set_requester`] is called, it takes the turns of [`Requester::Anyone`].
pub(crate) async fn as_request<W: Future>(work: W) -> W::Output {
    REQUESTER.scope(Cell::new(Requester::Anyone), work).await
}

/// Sets who made the request of this task. Returns who it was before.
pub(crate) fn set_requester(requester: Requester) -> Requester {
    REQUESTER.try_with(|current| current.replace(requester)).unwrap_or(Requester::Server)
}

/// Who made the request of this task; the server outside of a request.
pub(super) fn requester() -> Requester {
    REQUESTER.try_with(Cell::get).unwrap_or(Requester::Server)
}

/// Waits for `waiting`, at most as long as the current request may still wait. Waits without a
/// limit outside of a request.
///
/// # Errors
/// `Unavailable` when no time is left.
pub(crate) async fn before_deadline<T>(waiting: impl Future<Output = T>) -> Result<T, StoreError> {
    let Ok(left) = LEFT.try_with(Cell::get) else { return Ok(waiting.await) };
    let started = Instant::now();
    let result = timeout(left, waiting).await;
    let spent = started.elapsed();
    // The time of concurrent waits is counted more than once. A request has few concurrent waits.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(spent)));
    result.map_err(|_| StoreError::Unavailable(Box::new(DeadlineExceeded)))
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
        let wait = |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds));
        let answers = with_deadline(PATIENCE, async {
            let first = before_deadline(wait(1)).await.is_ok();
            // Work of the request other than storage does not count.
            wait(60).await;
            let started = Instant::now();
            let second = before_deadline(wait(1)).await.is_ok();
            let third = before_deadline(wait(60)).await;
            (first, second, third, started.elapsed())
        });
        let (first, second, third, waited) = answers.await;
        assert!(first && second);
        assert!(matches!(third, Err(StoreError::Unavailable(_))), "{third:?}");
        assert!(waited <= PATIENCE, "{waited:?}");
    }

    #[tokio::test]
    async fn a_request_belongs_to_anyone_until_its_application_is_known() {
        assert_eq!(requester(), Requester::Server);
        as_request(async {
            assert_eq!(requester(), Requester::Anyone);
            set_requester(Requester::App(AppNo(7)));
            assert_eq!(requester(), Requester::App(AppNo(7)));
        })
        .await;
        assert_eq!(requester(), Requester::Server);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_outside_of_a_request_have_no_deadline() {
        assert!(before_deadline(tokio::time::sleep(Duration::from_secs(3_600))).await.is_ok());
        assert_eq!(deadline(), None);
    }
}
