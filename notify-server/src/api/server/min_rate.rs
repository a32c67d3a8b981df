//! The least rate at which a transfer has to go on, judged over a sliding window: a burst earns no
//! time beyond the window.

use std::time::Duration;

/// Least rate of a request's body and of an answer that a client reads, in bytes a second.
pub(crate) const BYTES_PER_SECOND_MIN: u64 = 1_024;

/// When a transfer is too slow. Each byte earns the time that it may take at the least rate, and the
/// deadline is never more than the timeout ahead. Times are since any moment that the caller keeps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    timeout: Duration,
    deadline: Duration,
}

impl Pace {
    /// A transfer that begins now.
    pub(crate) fn begin(now: Duration, timeout: Duration) -> Self {
        Self { timeout, deadline: now.saturating_add(timeout) }
    }

    /// Counts bytes that were transferred now.
    pub(crate) fn moved(&mut self, now: Duration, bytes: usize) {
        let millis = (bytes as u64).saturating_mul(1_000).div_ceil(BYTES_PER_SECOND_MIN);
        let earned = self.deadline.saturating_add(Duration::from_millis(millis));
        self.deadline = earned.min(now.saturating_add(self.timeout));
    }

    /// When it is too slow unless more is transferred.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether it is too slow.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        now > self.deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(15);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn nothing_for_the_timeout_is_too_slow() {
        let pace = Pace::begin(at(100), TIMEOUT);
        assert!(!pace.is_over(at(115)));
        assert!(pace.is_over(at(116)));
    }

    #[test]
    fn the_least_rate_is_fast_enough_for_ever_and_half_of_it_is_not() {
        let mut pace = Pace::begin(at(0), TIMEOUT);
        for second in 1..10_000 {
            pace.moved(at(second), 1_024);
            assert!(!pace.is_over(at(second)), "{second}");
        }
        let mut pace = Pace::begin(at(0), TIMEOUT);
        let over_at = (1..100).find(|second| {
            pace.moved(at(*second), 512);
            pace.is_over(at(*second))
        });
        assert_eq!(over_at, Some(31));
    }

    #[test]
    fn a_burst_earns_no_more_than_the_timeout() {
        let mut pace = Pace::begin(at(0), TIMEOUT);
        pace.moved(at(1), 1_048_575);
        assert!(!pace.is_over(at(16)));
        assert!(pace.is_over(at(17)), "a mebibyte at once, then nothing");
    }

    #[test]
    fn drips_prolong_nothing() {
        let mut pace = Pace::begin(at(0), TIMEOUT);
        (1..=15).for_each(|second| pace.moved(at(second), 1));
        assert!(pace.is_over(at(16)), "a byte a second");
    }
}
