//! The guard against disabling an audience by mistake, as far as one process sees it: it stops
//! sending at once, while the store decides what is disabled (B40).

use std::collections::VecDeque;

use crate::store::{GUARD_ANSWERS, GUARD_DEAD_MAX};

/// The latest answers of one provider and host.
#[derive(Debug, Default)]
pub(super) struct PurgeWindow {
    answers: u64,
    /// The answer up to which the store counted.
    reported: u64,
    /// Numbers of the latest answers that said dead where a wrong key or host would too.
    latest: VecDeque<u64>,
    stopped: bool,
}

/// What an address that looks dead comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Death {
    /// It is reported, with the number of answers since the last such report.
    Reported(u32),
    /// It is one of too many: the delivery waits.
    Doubted,
}

impl PurgeWindow {
    /// An answer that says nothing of the kind.
    pub(super) fn answered(&mut self) {
        self.answers += 1;
    }

    /// An address looks dead. Too many of them stop the sending from here on; the one that is too
    /// many is reported, so that the store stops as well.
    pub(super) fn died(&mut self) -> Death {
        if self.stopped {
            return Death::Doubted;
        }
        self.answers += 1;
        let before = u32::try_from(self.answers - self.reported - 1).unwrap_or(u32::MAX);
        self.reported = self.answers;
        let answers = self.answers;
        self.latest.retain(|answer| answers - answer < u64::from(GUARD_ANSWERS));
        self.latest.push_back(answers);
        self.stopped = self.latest.len() > GUARD_DEAD_MAX;
        Death::Reported(before)
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.stopped
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_a_hundred_is_no_mistake() {
        let mut window = PurgeWindow::default();
        for _ in 0..1_000 {
            (0..99).for_each(|_| window.answered());
            assert_eq!(window.died(), Death::Reported(99));
        }
        assert!(!window.is_stopped());
    }

    #[test]
    fn more_than_twenty_in_a_thousand_are() {
        let mut window = PurgeWindow::default();
        for nth in 0..GUARD_DEAD_MAX {
            assert_eq!(window.died(), Death::Reported(0), "{nth}");
        }
        assert!(!window.is_stopped());
        assert_eq!(window.died(), Death::Reported(0), "the store hears of the one too many");
        assert!(window.is_stopped());
        assert_eq!(window.died(), Death::Doubted);
    }
}
