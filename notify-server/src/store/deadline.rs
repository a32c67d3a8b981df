//! How long one request waits for storage: all its questions together, whatever they wait for, a queue,
//! a connection or an answer. Who asks outside of a request, as the engines do, waits for whatever end
//! the backend puts to a question.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::store::StoreError;

tokio::task_local! {
    /// What is left to the request of this task.
    static LEFT: Cell<Duration>;
}

/// A request waited for storage as long as one may.
#[derive(Debug, thiserror::Error)]
#[error("storage did not answer in the time that a request waits for it")]
struct Impatient;

/// Does the work of a request, which waits for storage for so long in all.
pub(crate) async fn with_patience<W: Future>(patience: Duration, work: W) -> W::Output {
    LEFT.scope(Cell::new(patience), work).await
}

/// Waits for storage, or for somebody else who does, with what is left of the request's patience.
///
/// # Errors
/// `Unavailable` when nothing is left.
pub(crate) async fn patiently<T>(waiting: impl Future<Output = T>) -> Result<T, StoreError> {
    let Ok(left) = LEFT.try_with(Cell::get) else { return Ok(waiting.await) };
    let begun = Instant::now();
    let ended = timeout(left, waiting).await;
    let spent = begun.elapsed();
    // Two questions at once spend the time of both: a request asks few.
    let _ = LEFT.try_with(|left| left.set(left.get().saturating_sub(spent)));
    ended.map_err(|_| StoreError::Unavailable(Box::new(Impatient)))
}

/// When whoever asks now will have gone; `None` where they wait for as long as it takes.
pub(super) fn gives_up_at() -> Option<Instant> {
    LEFT.try_with(Cell::get).ok().and_then(|left| Instant::now().checked_add(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(4);

    #[tokio::test(start_paused = true)]
    async fn the_waits_of_a_request_have_one_end_together() {
        let of_storage = |seconds: u64| tokio::time::sleep(Duration::from_secs(seconds));
        let answers = with_patience(PATIENCE, async {
            let first = patiently(of_storage(1)).await.is_ok();
            // What it does itself is its own time.
            of_storage(60).await;
            let begun = Instant::now();
            let second = patiently(of_storage(1)).await.is_ok();
            let third = patiently(of_storage(60)).await;
            (first, second, third, begun.elapsed())
        });
        let (first, second, third, waited) = answers.await;
        assert!(first && second);
        assert!(matches!(third, Err(StoreError::Unavailable(_))), "{third:?}");
        assert!(waited <= PATIENCE, "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_else_is_impatient() {
        assert!(patiently(tokio::time::sleep(Duration::from_secs(3_600))).await.is_ok());
        assert_eq!(gives_up_at(), None);
    }
}
