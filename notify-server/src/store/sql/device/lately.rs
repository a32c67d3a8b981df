//! What registrations came to lately: most of a nightly synchronisation change nothing, most of a
//! new release of the app do. A look ahead of the write is worth its cost only for the former.

use std::sync::atomic::{AtomicI32, Ordering};

/// What one registration that changes nothing counts against those that change something: a look
/// costs about a quarter of a write, so it pays from one in four on.
const UNCHANGED_WEIGHT: i32 = 3;
/// Registrations that change something, in a row, after which nobody looks any more.
const MEMORY: i32 = 96;

/// A score of the latest registrations.
pub(crate) struct Lately(AtomicI32);

impl Default for Lately {
    fn default() -> Self {
        Self(AtomicI32::new(MEMORY))
    }
}

impl Lately {
    /// Whether it is worth looking first.
    pub(super) fn looks_unchanged(&self) -> bool {
        self.0.load(Ordering::Relaxed) > 0
    }

    /// Takes note of a registration.
    pub(super) fn note(&self, changed: bool) {
        let by = if changed { -1 } else { UNCHANGED_WEIGHT };
        // A note that another one overtakes is lost: it is an estimate.
        let score = self.0.load(Ordering::Relaxed) + by;
        self.0.store(score.clamp(0, MEMORY), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_while_at_least_a_quarter_changes_nothing() {
        let lately = Lately::default();
        (0..MEMORY).for_each(|_| lately.note(true));
        assert!(!lately.looks_unchanged(), "all of them changed something");
        lately.note(false);
        assert!(lately.looks_unchanged(), "the first that did not is seen by the writer");
        for nth in 0..1_000 {
            lately.note(nth % 4 != 0);
        }
        assert!(lately.looks_unchanged(), "one in four");
        for nth in 0..1_000 {
            lately.note(nth % 8 != 0);
        }
        assert!(lately.0.load(Ordering::Relaxed) <= UNCHANGED_WEIGHT, "one in eight");
    }
}
