//! How fast a transfer has to be.

use std::time::Duration;

/// Minimum rate of request bodies and of responses that a client reads, in bytes per second.
pub(crate) const BYTES_PER_SECOND_MIN: u64 = 1_024;

/// Detects transfers that are too slow over a sliding window. Each byte extends the deadline by the
/// time that one byte takes at the minimum rate, but the deadline is never later than the timeout
/// from now. A burst therefore gains no time beyond the timeout. All times are durations since one
/// instant, which the caller chooses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MinRate {
    timeout: Duration,
    deadline: Duration,
}

impl MinRate {
    /// Starts to measure a transfer that begins at `now`.
    pub(crate) fn start(now: Duration, timeout: Duration) -> Self {
        Self { timeout, deadline: now.saturating_add(timeout) }
    }

    /// Records bytes that were transferred at `now`.
    pub(crate) fn record(&mut self, now: Duration, bytes: usize) {
        let millis = (bytes as u64).saturating_mul(1_000).div_ceil(BYTES_PER_SECOND_MIN);
        let extended = self.deadline.saturating_add(Duration::from_millis(millis));
        self.deadline = extended.min(now.saturating_add(self.timeout));
    }

    /// The time after which the transfer is too slow, unless more bytes arrive before.
    pub(crate) fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Whether the transfer is too slow.
    pub(crate) fn is_too_slow(&self, now: Duration) -> bool {
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
    fn nothing_within_the_timeout_is_too_slow() {
        let rate = MinRate::start(at(100), TIMEOUT);
        assert!(!rate.is_too_slow(at(115)));
        assert!(rate.is_too_slow(at(116)));
    }

    #[test]
    fn the_minimum_rate_is_fast_enough_and_half_of_it_is_not() {
        let mut rate = MinRate::start(at(0), TIMEOUT);
        for second in 1..10_000 {
            rate.record(at(second), 1_024);
            assert!(!rate.is_too_slow(at(second)), "{second}");
        }
        let mut rate = MinRate::start(at(0), TIMEOUT);
        let over_at = (1..100).find(|second| {
            rate.record(at(*second), 512);
            rate.is_too_slow(at(*second))
        });
        assert_eq!(over_at, Some(31));
    }

    #[test]
    fn a_burst_gains_at_most_the_timeout() {
        let mut rate = MinRate::start(at(0), TIMEOUT);
        rate.record(at(1), 1_048_575);
        assert!(!rate.is_too_slow(at(16)));
        assert!(rate.is_too_slow(at(17)), "a mebibyte at once, then nothing");
    }

    #[test]
    fn single_bytes_do_not_extend_the_deadline() {
        let mut rate = MinRate::start(at(0), TIMEOUT);
        (1..=15).for_each(|second| rate.record(at(second), 1));
        assert!(rate.is_too_slow(at(16)), "a byte a second");
    }
}
