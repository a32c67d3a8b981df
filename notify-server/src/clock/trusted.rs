//! The trusted time, by which rows expire. It follows the server's time, but not across a leap: a
//! clock that is wrong for a minute must not delete the history. After an operator confirms a leap
//! with `notify-server confirm-clock`, the trusted time follows it.

use std::sync::Mutex;
use std::time::Duration;

use notify_core::Timestamp;

use super::SharedClock;

/// The server's time makes a leap when it advances by more than the elapsed time and this value
/// together, in milliseconds: a day.
pub(crate) const LEAP_MS: i64 = 86_400_000;
/// Longest plausible downtime, in milliseconds: 30 days. If more time passed between a stop and a
/// start, the clock is probably wrong.
const STOPPED_MAX_MS: i64 = 30 * 86_400_000;

/// The state of the trusted clock that the store keeps across restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockMark {
    /// The latest trusted time.
    pub trusted_at: Timestamp,
    /// Whether the clock was ahead by an unconfirmed leap.
    pub in_doubt: bool,
}

/// A clock that detects leaps.
pub(crate) struct TrustedClock {
    clock: SharedClock,
    trust: Mutex<Trust>,
}

/// The trusted time, as of the last reading of the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Trust {
    /// The latest trusted time.
    trusted_ms: i64,
    /// The monotonic clock at that time.
    elapsed_ms: i64,
    /// How far the clock is ahead because of a leap; 0 when it is trusted.
    ahead_ms: i64,
    /// How far the wall clock is ahead because of a leap that the clock does not follow.
    held_ms: i64,
}

impl Trust {
    /// The trusted time at the start of a process. `mark` is the stored state; without it, the
    /// server's current time is trusted.
    fn start(mark: Option<ClockMark>, elapsed_ms: i64, now_ms: i64) -> Self {
        let trusted_ms = match mark {
            None => now_ms,
            Some(mark) => {
                let downtime_max_ms = if mark.in_doubt { LEAP_MS } else { STOPPED_MAX_MS };
                let is_leap = now_ms.saturating_sub(mark.trusted_at.as_ms()) > downtime_max_ms;
                if is_leap { mark.trusted_at.as_ms() } else { mark.trusted_at.as_ms().max(now_ms) }
            }
        };
        let mut trust = Self { trusted_ms, elapsed_ms, ahead_ms: 0, held_ms: 0 };
        trust.read(elapsed_ms, now_ms);
        trust
    }

    /// How far the clock or the wall clock is ahead because of an unconfirmed leap.
    fn doubted_ms(&self) -> i64 {
        self.ahead_ms.max(self.held_ms)
    }

    /// The trusted time at this reading of both clocks.
    fn read(&mut self, elapsed_ms: i64, now_ms: i64) -> i64 {
        let passed_ms = (elapsed_ms - self.elapsed_ms).max(0);
        self.elapsed_ms = self.elapsed_ms.max(elapsed_ms);
        let expected_ms = self.trusted_ms + passed_ms;
        let ahead_ms = now_ms - expected_ms;
        if ahead_ms > LEAP_MS {
            self.trusted_ms = expected_ms;
            self.ahead_ms = ahead_ms;
            return expected_ms;
        }
        // If the clock was set back, the latest trusted time stays as it is.
        self.trusted_ms = self.trusted_ms.max(now_ms);
        self.ahead_ms = 0;
        now_ms
    }
}

impl TrustedClock {
    /// Starts from the state that the previous process stored, if there is one.
    pub(crate) fn start(clock: SharedClock, mark: Option<ClockMark>) -> Self {
        let (elapsed_ms, now_ms) = (clock.elapsed_ms(), clock.now().as_ms());
        let trust = Trust::start(mark, elapsed_ms, now_ms);
        // A machine without a battery starts with a time of the past. The leap that corrects it is expected.
        // A correction of less than a leap needs no permission.
        if mark.is_some_and(|mark| mark.trusted_at.as_ms() - now_ms > LEAP_MS) {
            clock.allow_leap();
        }
        log_leap(0, trust.doubted_ms());
        Self { clock, trust: Mutex::new(trust) }
    }

    /// The time by which rows expire. It may go back with the server's time after a leap.
    pub(crate) fn now(&self) -> Timestamp {
        let mut trust = self.trust.lock().expect("nothing panics under this lock");
        let before_ms = trust.doubted_ms();
        trust.held_ms = self.clock.held_ms();
        let now = trust.read(self.clock.elapsed_ms(), self.clock.now().as_ms());
        let after_ms = trust.doubted_ms();
        drop(trust);
        log_leap(before_ms, after_ms);
        Timestamp(now)
    }

    /// How far the server's time is ahead because of an unconfirmed leap; usually zero.
    pub(crate) fn leap(&self) -> Duration {
        self.now();
        let trust = self.trust.lock().expect("nothing panics under this lock");
        Duration::from_millis(u64::try_from(trust.doubted_ms()).unwrap_or(0))
    }

    /// The state to store.
    pub(crate) fn mark(&self) -> ClockMark {
        self.now();
        let trust = self.trust.lock().expect("nothing panics under this lock");
        ClockMark { trusted_at: Timestamp(trust.trusted_ms), in_doubt: trust.doubted_ms() > 0 }
    }

    /// Trusts the server's current time.
    pub(crate) fn confirm(&self) {
        if self.clock.held_ms() > 0 {
            self.clock.allow_leap();
        }
        let mut trust = self.trust.lock().expect("nothing panics under this lock");
        *trust = Trust::start(None, self.clock.elapsed_ms(), self.clock.now().as_ms());
        drop(trust);
        tracing::info!("the clock was confirmed: rows are deleted by it again");
    }
}

/// Logs a warning when a leap begins, and a message when it ends.
fn log_leap(before_ms: i64, after_ms: i64) {
    if before_ms == 0 && after_ms > 0 {
        tracing::warn!(
            leap_ms = after_ms,
            "the clock is further ahead than time can have passed: until it is confirmed, the server deletes, \
             expires and sends nothing because of it. If it is right, run `notify-server confirm-clock`; if it \
             is wrong, set it, and restart the server if it started with that time"
        );
    } else if before_ms > 0 && after_ms == 0 {
        tracing::info!("the clock is trusted again");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

    use super::*;
    use crate::clock::{Clock, ManualClock};

    const NOW: i64 = 1_780_000_000_000;
    const HOUR: i64 = 3_600_000;
    const YEAR: i64 = 365 * LEAP_MS;

    #[test]
    fn elapsed_time_is_trusted_and_a_leap_is_not() {
        let mut trust = Trust::start(None, 0, NOW);
        for (elapsed, now, trusted, ahead) in [
            (HOUR, HOUR, HOUR, 0),
            // Less than a day: the machine may have been suspended.
            (2 * HOUR, 22 * HOUR, 22 * HOUR, 0),
            (3 * HOUR, 23 * HOUR + YEAR, 23 * HOUR, YEAR),
            (4 * HOUR, 24 * HOUR + YEAR, 24 * HOUR, YEAR),
            // The clock was set back.
            (5 * HOUR, 25 * HOUR, 25 * HOUR, 0),
            (6 * HOUR, 26 * HOUR, 26 * HOUR, 0),
            // A month between two readings.
            (6 * HOUR + 30 * LEAP_MS, 26 * HOUR + 30 * LEAP_MS, 26 * HOUR + 30 * LEAP_MS, 0),
        ] {
            assert_eq!(trust.read(elapsed, NOW + now), NOW + trusted, "at {elapsed}");
            assert_eq!(trust.ahead_ms, ahead, "at {elapsed}");
        }
    }

    #[test]
    fn clock_far_behind_may_return_to_trusted_time() {
        let mut trust = Trust::start(None, 0, NOW);
        assert_eq!(trust.read(HOUR, NOW - 20 * YEAR), NOW - 20 * YEAR);
        assert_eq!(trust.read(2 * HOUR, NOW + 2 * HOUR), NOW + 2 * HOUR);
        assert_eq!(trust.ahead_ms, 0);
    }

    #[test]
    fn start_continues_from_the_stored_mark() {
        let day = LEAP_MS;
        for (in_doubt, stopped, is_leap) in [
            (false, day, false),
            (false, 30 * day, false),
            (false, 30 * day + 1, true),
            (true, day, false),
            (true, day + 1, true),
            (true, -day, false),
        ] {
            let mark = ClockMark { trusted_at: Timestamp(NOW), in_doubt };
            let trust = Trust::start(Some(mark), 5, NOW + stopped);
            let ahead = if is_leap { stopped } else { 0 };
            assert_eq!(trust.ahead_ms, ahead, "{in_doubt}, {stopped}");
        }
    }

    /// A clock that does not follow a leap of its wall clock, like the machine's.
    struct HeldClock {
        clock: SharedClock,
        held_ms: AtomicI64,
        allowed: AtomicBool,
    }

    #[async_trait::async_trait]
    impl Clock for HeldClock {
        fn now(&self) -> Timestamp {
            self.clock.now()
        }

        fn held_ms(&self) -> i64 {
            self.held_ms.load(Ordering::SeqCst)
        }

        fn allow_leap(&self) {
            self.allowed.store(true, Ordering::SeqCst);
        }

        async fn sleep_until(&self, until: Timestamp) {
            self.clock.sleep_until(until).await;
        }
    }

    #[test]
    fn leap_that_is_not_followed_is_in_doubt_until_it_is_confirmed() {
        let held = |mark| {
            let (held_ms, allowed) = (AtomicI64::new(0), AtomicBool::new(false));
            let clock: SharedClock = ManualClock::at(Timestamp(NOW));
            let clock = Arc::new(HeldClock { clock, held_ms, allowed });
            (TrustedClock::start(clock.clone(), mark), clock)
        };
        let (trusted, clock) = held(None);
        clock.held_ms.store(YEAR, Ordering::SeqCst);
        let mark = ClockMark { trusted_at: Timestamp(NOW), in_doubt: true };
        assert_eq!((trusted.now(), trusted.mark()), (Timestamp(NOW), mark));
        assert_eq!(trusted.leap(), Duration::from_secs(365 * 86_400));
        assert!(!clock.allowed.load(Ordering::SeqCst));
        trusted.confirm();
        assert!(clock.allowed.load(Ordering::SeqCst));
        clock.held_ms.store(0, Ordering::SeqCst);
        assert_eq!(trusted.leap(), Duration::ZERO, "followed, or set back");
        for (trusted_at, is_expected) in
            [(NOW - YEAR, false), (NOW, false), (NOW + LEAP_MS, false), (NOW + YEAR, true)]
        {
            let mark = ClockMark { trusted_at: Timestamp(trusted_at), in_doubt: false };
            let allowed = held(Some(mark)).1.allowed.load(Ordering::SeqCst);
            assert_eq!(allowed, is_expected, "the leap that corrects a clock of the past");
        }
    }

    #[test]
    fn confirmed_leap_is_trusted() {
        let clock = ManualClock::at(Timestamp(NOW));
        let trusted = TrustedClock::start(clock.clone(), None);
        clock.leap(Duration::from_secs(20 * 365 * 86_400));
        clock.advance(Duration::from_secs(1));
        assert_eq!(trusted.now(), Timestamp(NOW + 1_000));
        assert_eq!(trusted.leap(), Duration::from_secs(20 * 365 * 86_400));
        let mark = ClockMark { trusted_at: Timestamp(NOW + 1_000), in_doubt: true };
        assert_eq!(trusted.mark(), mark);
        trusted.confirm();
        assert_eq!(trusted.now(), Timestamp(NOW + 20 * YEAR + 1_000));
        assert_eq!(trusted.leap(), Duration::ZERO);
    }
}
