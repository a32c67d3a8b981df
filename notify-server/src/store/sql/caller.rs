//! The caller of the read that runs on this thread. A read whose caller no longer waits is ended: no
//! further statement begins, and SQLite interrupts the running one. PostgreSQL ends it at the deadline of
//! the caller.

use std::cell::RefCell;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::store::StoreError;
use crate::store::sql::answer::Answer;

/// How many steps of its virtual machine SQLite runs between two checks: about a tenth of a
/// millisecond.
pub(in crate::store) const STEPS_PER_CHECK: i32 = 10_000;

thread_local! {
    static CURRENT: RefCell<Option<Caller>> = const { RefCell::new(None) };
}

/// Who waits for a read.
pub(in crate::store) struct Caller {
    /// When the caller stops waiting; `None` if it has no deadline.
    deadline: Option<Instant>,
    /// Closed when the future of the caller was dropped.
    answer: oneshot::Sender<Result<Answer, StoreError>>,
}

impl Caller {
    pub(in crate::store) fn new(
        deadline: Option<Instant>,
        answer: oneshot::Sender<Result<Answer, StoreError>>,
    ) -> Self {
        Self { deadline, answer }
    }

    /// Whether the caller still waits.
    pub(in crate::store) fn waits(&self) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= Instant::now());
        !is_late && !self.answer.is_closed()
    }

    /// Runs a read on behalf of the caller, and sends the caller its result.
    pub(in crate::store) fn run(self, read: impl FnOnce() -> Result<Answer, StoreError>) {
        CURRENT.set(Some(self));
        let result = read();
        if let Some(caller) = CURRENT.take() {
            // Sending fails if the caller has stopped waiting.
            let _ = caller.answer.send(result);
        }
    }
}

/// Whether the caller of the current read no longer waits. False outside of a read.
pub(in crate::store) fn is_gone() -> bool {
    CURRENT.with_borrow(|caller| caller.as_ref().is_some_and(|caller| !caller.waits()))
}

/// How long the caller of the current read waits; `None` without a limit.
pub(in crate::store) fn time_left() -> Option<Duration> {
    CURRENT.with_borrow(|caller| {
        let deadline = caller.as_ref()?.deadline?;
        Some(deadline.saturating_duration_since(Instant::now()))
    })
}
