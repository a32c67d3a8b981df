//! Points at which tests end the process as a power failure would: before and after each commit,
//! and before and after each request to a provider. In a build without the feature `testing`, the
//! points have no effect.
//!
//! A point has two parts: the operation (of the store, or a provider), and its stage.
//! `checkpoint written` is between the last statement of a checkpoint and the commit of its
//! batch, `checkpoint committed` between that commit and its notifications; `apns unsent` is
//! before a request, `apns answered` after its response.

/// The stage of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// All statements have run, and nothing is committed.
    Written,
    /// The transaction is on disk, and no listener has been notified.
    Committed,
    /// Nothing has been sent yet.
    Unsent,
    /// The provider has responded, and the result is not yet processed.
    Answered,
}

impl Stage {
    /// The name of the stage.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Committed => "committed",
            Self::Unsent => "unsent",
            Self::Answered => "answered",
        }
    }
}

#[cfg(any(test, feature = "testing"))]
pub use self::armed::die_at;
pub(crate) use self::armed::reach;

#[cfg(any(test, feature = "testing"))]
mod armed {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::Stage;

    /// The point at which the process ends.
    struct Armed {
        what: String,
        stage: String,
        /// How many times the point must still be reached until the process ends.
        left: AtomicU32,
    }

    static ARMED: OnceLock<Armed> = OnceLock::new();

    /// Ends this process when it reaches a point for the `hit`-th time. Only the first call has an
    /// effect.
    pub fn die_at(what: &str, stage: &str, hit: u32) {
        let (what, stage) = (what.to_owned(), stage.to_owned());
        ARMED.get_or_init(|| Armed { what, stage, left: AtomicU32::new(hit) });
    }

    /// Ends the process at the armed point, without running destructors or flushing buffers.
    pub(crate) fn reach(what: &str, stage: Stage) {
        let Some(armed) = ARMED.get() else { return };
        let is_here = armed.what == what && armed.stage == stage.as_str();
        if is_here && armed.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            std::process::abort();
        }
    }
}

#[cfg(not(any(test, feature = "testing")))]
mod armed {
    /// Does nothing.
    pub(crate) fn reach(_: &str, _: super::Stage) {}
}
