//! Makes the server's time follow the wall clock: slowly when the two drift apart, after a delay
//! when the wall clock jumps, and never backwards. A leap of more than [`LEAP_MS`] is not followed until it is
//! allowed: keys and sessions would expire, and what is due far ahead would be sent, for ever.

use super::LEAP_MS;

/// The divisor of the elapsed time that limits how fast the difference from the wall clock shrinks:
/// 10 means by at most a tenth of the elapsed time.
const SLEW_DIVISOR: i64 = 10;
/// A difference above this is a jump, in milliseconds.
const JUMP_MS: i64 = 60_000;
/// How long a jump must last before the server's time follows it, in milliseconds. A jump that is
/// reverted earlier has no effect, so that no data expires because of it.
const STEADY_MS: i64 = 60_000;
/// How much the size of a jump may vary during [`STEADY_MS`] to count as the same jump, in
/// milliseconds.
const STEADY_WITHIN_MS: i64 = 1_000;

/// The server's time as a distance from a monotonic clock.
#[derive(Debug, Clone)]
pub(super) struct SlewedClock {
    /// The server's time minus the monotonic clock.
    offset_ms: i64,
    /// The last time, on the monotonic clock, up to which the difference was reduced.
    slewed_at_ms: i64,
    jump: Option<Jump>,
    /// How far the wall clock is ahead by a steady leap that is not followed; usually 0.
    held_ms: i64,
    /// Whether the next leap is followed.
    may_leap: bool,
}

/// A wall clock that differs by more than [`JUMP_MS`].
#[derive(Debug, Clone, Copy)]
struct Jump {
    /// The wall clock minus the monotonic clock, since the jump.
    offset_ms: i64,
    /// When the jump was seen first, on the monotonic clock.
    since_ms: i64,
}

/// An event noticed when the clocks were read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockEvent {
    /// The wall clock jumped by this many milliseconds.
    Jumped(i64),
    /// The server's time followed it by this many milliseconds.
    Followed(i64),
}

impl SlewedClock {
    /// Starts the server's time at the wall clock. The monotonic clock is 0 at that time.
    pub(super) fn at(wall_ms: i64) -> Self {
        Self { offset_ms: wall_ms, slewed_at_ms: 0, jump: None, held_ms: 0, may_leap: false }
    }

    /// How far the wall clock is ahead by a leap that is not followed, as of the last reading; usually 0.
    pub(super) fn held_ms(&self) -> i64 {
        self.held_ms
    }

    /// Follows the current leap, or the next one, at the next reading after it was steady.
    pub(super) fn allow_leap(&mut self) {
        self.may_leap = true;
    }

    /// The time at this reading of both clocks, in milliseconds since 1970. Readings come in the
    /// order of the monotonic clock.
    pub(super) fn read(&mut self, elapsed_ms: i64, wall_ms: i64) -> (i64, Option<ClockEvent>) {
        let ahead_ms = wall_ms - (self.offset_ms + elapsed_ms);
        self.held_ms = 0;
        let event = if ahead_ms.abs() <= JUMP_MS {
            self.jump = None;
            self.slew(elapsed_ms, ahead_ms);
            None
        } else {
            self.follow_jump(elapsed_ms, ahead_ms)
        };
        (self.offset_ms + elapsed_ms, event)
    }

    /// Reduces the difference by at most a tenth of the time since the last reduction.
    fn slew(&mut self, elapsed_ms: i64, ahead_ms: i64) {
        let slew_max_ms = (elapsed_ms - self.slewed_at_ms) / SLEW_DIVISOR;
        if slew_max_ms > 0 {
            self.slewed_at_ms = elapsed_ms;
            self.offset_ms += ahead_ms.clamp(-slew_max_ms, slew_max_ms);
        }
    }

    /// Handles a difference above [`JUMP_MS`]: the server's time follows the jump once it has
    /// lasted for [`STEADY_MS`]. Returns an event when a jump is noticed or followed.
    fn follow_jump(&mut self, elapsed_ms: i64, ahead_ms: i64) -> Option<ClockEvent> {
        let offset_ms = self.offset_ms + ahead_ms;
        let ongoing =
            self.jump.filter(|jump| (offset_ms - jump.offset_ms).abs() <= STEADY_WITHIN_MS);
        let Some(jump) = ongoing else {
            self.jump = Some(Jump { offset_ms, since_ms: elapsed_ms });
            self.slewed_at_ms = elapsed_ms;
            return Some(ClockEvent::Jumped(ahead_ms));
        };
        if elapsed_ms - jump.since_ms < STEADY_MS {
            self.slewed_at_ms = elapsed_ms;
            return None;
        }
        if ahead_ms < 0 {
            // The server's time must not go back. It passes more slowly until the wall clock has
            // caught up.
            self.slew(elapsed_ms, ahead_ms);
            return None;
        }
        if ahead_ms > LEAP_MS && !self.may_leap {
            self.slewed_at_ms = elapsed_ms;
            self.held_ms = ahead_ms;
            return None;
        }
        self.offset_ms = offset_ms;
        self.jump = None;
        self.may_leap = false;
        Some(ClockEvent::Followed(ahead_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: i64 = 1_780_000_000_000;

    #[test]
    fn drift_is_corrected_by_a_tenth_of_the_elapsed_time() {
        for (drift_ms, after_100_ms, after_1_s) in
            [(0, 0, 0), (5, 5, 5), (50, 10, 50), (30_000, 10, 100), (-30_000, -10, -100)]
        {
            let mut anchor = SlewedClock::at(WALL);
            for (elapsed, ahead) in [(100, after_100_ms), (1_000, after_1_s)] {
                let read = anchor.read(elapsed, WALL + elapsed + drift_ms);
                assert_eq!(read, (WALL + elapsed + ahead, None), "{drift_ms} ms, {elapsed} ms");
            }
        }
    }

    #[test]
    fn frequent_readings_correct_drift_too() {
        let mut anchor = SlewedClock::at(WALL);
        let reads = (1..=1_000).map(|elapsed| anchor.read(elapsed, WALL + elapsed + 70).0);
        assert_eq!(reads.last(), Some(WALL + 1_070));
    }

    #[test]
    fn jump_is_followed_after_a_steady_minute() {
        let hour = 3_600_000;
        let mut anchor = SlewedClock::at(WALL);
        for (elapsed, wall, read, event) in [
            (1_000, 1_000 + hour, 1_000, Some(ClockEvent::Jumped(hour))),
            (30_000, 30_000 + hour, 30_000, None),
            (40_000, 40_000 + 2 * hour, 40_000, Some(ClockEvent::Jumped(2 * hour))),
            (99_999, 99_999 + 2 * hour, 99_999, None),
            (100_000, 100_000 + 2 * hour, 100_000 + 2 * hour, Some(ClockEvent::Followed(2 * hour))),
            (100_001, 100_001 + 2 * hour, 100_001 + 2 * hour, None),
        ] {
            assert_eq!(anchor.read(elapsed, WALL + wall), (WALL + read, event), "at {elapsed}");
        }
    }

    #[test]
    fn leap_is_followed_only_when_it_is_allowed() {
        let years = 20 * 365 * LEAP_MS;
        for leap in [LEAP_MS + 1, 20 * LEAP_MS, years] {
            let mut anchor = SlewedClock::at(WALL);
            let (noticed, _) = anchor.read(0, WALL + leap);
            assert_eq!((noticed, anchor.held_ms()), (WALL, 0), "it may be reverted at once");
            for elapsed in [60_000, 75_000, 3_600_000, 30 * LEAP_MS] {
                let read = anchor.read(elapsed, WALL + elapsed + leap);
                assert_eq!(read, (WALL + elapsed, None), "{leap} at {elapsed}");
                assert_eq!(anchor.held_ms(), leap);
            }
            let mut confirmed = anchor.clone();
            confirmed.allow_leap();
            let elapsed = 31 * LEAP_MS;
            let followed = Some(ClockEvent::Followed(leap));
            let read = confirmed.read(elapsed, WALL + elapsed + leap);
            assert_eq!((read, confirmed.held_ms()), ((WALL + elapsed + leap, followed), 0));
            // The permission was for one leap.
            confirmed.read(elapsed, WALL + elapsed + 2 * leap);
            let read = confirmed.read(elapsed + STEADY_MS, WALL + elapsed + STEADY_MS + 2 * leap);
            assert_eq!(read.0, WALL + elapsed + STEADY_MS + leap);
            // The clock was wrong, and was set.
            let read = anchor.read(elapsed, WALL + elapsed);
            assert_eq!((read, anchor.held_ms()), ((WALL + elapsed, None), 0));
        }
        let mut anchor = SlewedClock::at(WALL);
        anchor.read(0, WALL + LEAP_MS);
        let day = anchor.read(STEADY_MS, WALL + STEADY_MS + LEAP_MS);
        assert_eq!(day, (WALL + STEADY_MS + LEAP_MS, Some(ClockEvent::Followed(LEAP_MS))));
    }

    #[test]
    fn reverted_jump_is_not_followed() {
        let years = 10 * 365 * 86_400_000;
        let mut anchor = SlewedClock::at(WALL);
        assert_eq!(
            anchor.read(1_000, WALL + years),
            (WALL + 1_000, Some(ClockEvent::Jumped(years - 1_000)))
        );
        assert_eq!(anchor.read(59_000, WALL + 59_000), (WALL + 59_000, None));
        assert_eq!(anchor.read(200_000, WALL + 200_000), (WALL + 200_000, None));
    }

    #[test]
    fn clock_set_back_slows_time_and_never_reverses_it() {
        let day = 86_400_000;
        let mut anchor = SlewedClock::at(WALL);
        let mut last = WALL;
        for minute in 1..=60 * 24 * 11 {
            let elapsed = minute * 60_000;
            let (now, _) = anchor.read(elapsed, WALL + elapsed - day);
            let passed = now - last;
            assert!((54_000..=60_000).contains(&passed), "{passed} ms in minute {minute}");
            last = now;
        }
        assert_eq!(last, WALL + 60_000 * 60 * 24 * 11 - day, "after ten days they agree");
    }
}
