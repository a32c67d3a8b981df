//! Points at which tests have the process end as a power switch ends it: before and after each
//! commit, and around each request to a provider. In a build without the feature `testing` nothing
//! here does anything.
//!
//! A point is two words: what is done (an operation of the store, or a provider), and how far it
//! is. `checkpoint written` is between the last statement of a checkpoint and the commit of its
//! batch, `checkpoint committed` between that commit and whoever is told of it; `apns unsent` is
//! before a request, `apns answered` after its answer.

/// How far a thing is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Every statement is run, and nothing is committed.
    Written,
    /// It is on disk, and nobody has heard of it.
    Committed,
    /// Nothing went out yet.
    Unsent,
    /// The provider's answer is there, and nothing is done with it.
    Answered,
}

impl Stage {
    /// Its word.
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

    /// Where the process ends.
    struct Armed {
        what: String,
        stage: String,
        /// How often the point is still reached, the last time included.
        left: AtomicU32,
    }

    static ARMED: OnceLock<Armed> = OnceLock::new();

    /// Has this process end where it reaches a point for the `hit`-th time. The first call counts.
    pub fn die_at(what: &str, stage: &str, hit: u32) {
        let (what, stage) = (what.to_owned(), stage.to_owned());
        ARMED.get_or_init(|| Armed { what, stage, left: AtomicU32::new(hit) });
    }

    /// Ends the process, without a destructor run or a buffer flushed, if this is where.
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
    /// Goes on.
    pub(crate) fn reach(_: &str, _: super::Stage) {}
}
