//! The retry schedule of Standard Webhooks, as a pure function.

use std::time::Duration;

use notify_core::Timestamp;

use crate::store::MessageStep;

/// The times of the attempts, in milliseconds after a message was created or redelivered: at once,
/// after 5 s, 5 min, 35 min, 2 h 35, 7 h 35, 17 h 35, 31 h 35, 51 h 35 and 75 h 35.
pub(super) const ATTEMPTS_AT_MS: [i64; 10] = [
    0,
    5_000,
    300_000,
    2_100_000,
    9_300_000,
    27_300_000,
    63_300_000,
    113_700_000,
    185_700_000,
    272_100_000,
];
/// Shortest wait after an endpoint was too slow or requested fewer messages, in milliseconds.
const BACKPRESSURE_WAIT_MIN_MS: i64 = 60_000;
/// Shortest wait after any failure, in milliseconds.
const WAIT_MIN_MS: i64 = 1_000;
/// Largest jitter of an attempt, as a fraction of the wait between two attempts of the schedule.
const JITTER: f64 = 0.2;
/// How long a webhook may fail before it is disabled, in milliseconds: 120 hours.
pub(super) const FAILING_MAX_MS: i64 = 120 * 3_600_000;

/// A failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedAttempt {
    /// Attempts made, this one included.
    pub(super) attempts: u32,
    /// The start of the schedule.
    pub(super) started_at: Timestamp,
    /// The current time.
    pub(super) now: Timestamp,
    /// Whether the endpoint was too slow or requested fewer messages (timeout, 429, 502, 504).
    pub(super) is_backpressure: bool,
    /// The wait that the endpoint requested.
    pub(super) retry_after: Option<Duration>,
}

/// The next step of a message after a failed attempt: another attempt, or the end of the schedule.
/// `jitter` is from -1 to 1.
pub(super) fn next_attempt(failed: FailedAttempt, jitter: f64) -> MessageStep {
    let attempt = usize::try_from(failed.attempts).unwrap_or(usize::MAX);
    let Some(at_ms) = ATTEMPTS_AT_MS.get(attempt) else { return MessageStep::Failed };
    let gap_ms = at_ms - ATTEMPTS_AT_MS[attempt - 1];
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "days in ms")]
    let jitter_ms = (gap_ms as f64 * JITTER * jitter) as i64;
    let wait_min_ms = if failed.is_backpressure { BACKPRESSURE_WAIT_MIN_MS } else { WAIT_MIN_MS };
    let requested_wait = failed.retry_after.unwrap_or_default();
    let requested_ms = i64::try_from(requested_wait.as_millis()).unwrap_or(i64::MAX);
    let earliest = failed.now.plus_ms(wait_min_ms.max(requested_ms));
    MessageStep::Again { due_at: failed.started_at.plus_ms(at_ms + jitter_ms).max(earliest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_790_000_000_000);

    fn failed(attempts: u32, after_ms: i64) -> FailedAttempt {
        let now = START.plus_ms(after_ms);
        FailedAttempt {
            attempts,
            started_at: START,
            now,
            is_backpressure: false,
            retry_after: None,
        }
    }

    fn due_ms(step: MessageStep) -> Option<i64> {
        match step {
            MessageStep::Again { due_at } => Some(due_at.ms_since(START)),
            MessageStep::Delivered | MessageStep::Failed => None,
        }
    }

    #[test]
    fn attempts_follow_the_schedule() {
        let hours = |hours: i64| (hours * 60 + 35) * 60_000;
        let expected = [
            5_000,
            300_000,
            2_100_000,
            hours(2),
            hours(7),
            hours(17),
            hours(31),
            hours(51),
            hours(75),
        ];
        for (attempts, at_ms) in (1..).zip(expected) {
            let before = ATTEMPTS_AT_MS[attempts as usize - 1];
            assert_eq!(
                due_ms(next_attempt(failed(attempts, before), 0.0)),
                Some(at_ms),
                "{attempts}"
            );
            for jitter in [-1.0, 1.0] {
                let due = due_ms(next_attempt(failed(attempts, before), jitter)).unwrap();
                let gap = at_ms - before;
                assert!((due - at_ms).abs() * 5 <= gap, "{attempts} {jitter}: {due}");
            }
        }
        assert_eq!(next_attempt(failed(10, 272_100_000), 0.0), MessageStep::Failed);
    }

    #[test]
    fn slow_endpoints_and_retry_after_delay_the_next_attempt() {
        let rows = [
            (failed(1, 0), 5_000),
            (FailedAttempt { is_backpressure: true, ..failed(1, 20_000) }, 80_000),
            (
                FailedAttempt { retry_after: Some(Duration::from_secs(120)), ..failed(1, 0) },
                120_000,
            ),
            (
                FailedAttempt { retry_after: Some(Duration::from_secs(1)), ..failed(2, 5_000) },
                300_000,
            ),
            // The server was down at the scheduled time: the attempt is due after now, not in the
            // past.
            (failed(1, 400_000), 401_000),
        ];
        for (failed, at_ms) in rows {
            assert_eq!(due_ms(next_attempt(failed, 0.0)), Some(at_ms), "{failed:?}");
        }
    }
}
