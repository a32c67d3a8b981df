//! When a feed is fetched next: a pure function of how the fetch ended.

use notify_core::Timestamp;

/// Shortest time between two fetches of a feed, in milliseconds: 15 minutes.
pub(crate) const INTERVAL_MIN_MS: i64 = 15 * 60_000;
/// Longest time between two fetches, whatever anybody asks for, in milliseconds: a day.
pub(crate) const INTERVAL_MAX_MS: i64 = 86_400_000;
/// Same answers in a row after which a move is believed.
pub(crate) const MOVED_TIMES: u32 = 3;

/// How a fetch ended, as far as it decides when the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was read, or had not changed.
    Well {
        /// How long the feed says that it may be kept, in minutes.
        ttl_minutes: Option<u32>,
        /// How long the answer says so, in seconds (`Cache-Control`).
        max_age_seconds: Option<u64>,
    },
    /// It failed, for the n-th time in a row, from 1.
    Failed {
        /// n.
        failures: u32,
        /// When the server asks to be asked again (429 and 503), in milliseconds from now.
        retry_after_ms: Option<i64>,
    },
    /// It is gone for good (410).
    Gone,
}

/// When it is fetched next; `None` for never.
pub(crate) fn next_fetch(now: Timestamp, ended: Ended) -> Option<Timestamp> {
    let wait_ms = match ended {
        Ended::Gone => return None,
        Ended::Well { ttl_minutes, max_age_seconds } => {
            let ttl_ms = i64::from(ttl_minutes.unwrap_or(0)) * 60_000;
            let max_age_ms = i64::try_from(max_age_seconds.unwrap_or(0)).unwrap_or(i64::MAX);
            ttl_ms.max(max_age_ms.saturating_mul(1_000))
        }
        Ended::Failed { failures, retry_after_ms } => {
            // 15 minutes, 30, an hour, ... a day.
            let doublings = failures.saturating_sub(1).min(16);
            retry_after_ms.unwrap_or(0).max(INTERVAL_MIN_MS << doublings)
        }
    };
    Some(now.plus_ms(wait_ms.clamp(INTERVAL_MIN_MS, INTERVAL_MAX_MS)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const HOUR_MS: i64 = 60 * MINUTE_MS;

    fn well(ttl_minutes: impl Into<Option<u32>>, max_age_seconds: impl Into<Option<u64>>) -> Ended {
        Ended::Well { ttl_minutes: ttl_minutes.into(), max_age_seconds: max_age_seconds.into() }
    }

    fn failed(failures: u32, retry_after_ms: impl Into<Option<i64>>) -> Ended {
        Ended::Failed { failures, retry_after_ms: retry_after_ms.into() }
    }

    #[test]
    fn the_next_fetch_is_not_before_anybody_wants_it_nor_a_day_away() {
        let cases = [
            (well(None, None), Some(15 * MINUTE_MS)),
            (well(60, None), Some(HOUR_MS)),
            (well(None, 7_200), Some(2 * HOUR_MS)),
            (well(60, 7_200), Some(2 * HOUR_MS)),
            (well(180, 7_200), Some(3 * HOUR_MS)),
            (well(1, 1), Some(15 * MINUTE_MS)),
            (well(u32::MAX, u64::MAX), Some(24 * HOUR_MS)),
            (failed(1, None), Some(15 * MINUTE_MS)),
            (failed(2, None), Some(30 * MINUTE_MS)),
            (failed(3, None), Some(HOUR_MS)),
            (failed(7, None), Some(16 * HOUR_MS)),
            (failed(8, None), Some(24 * HOUR_MS)),
            (failed(u32::MAX, None), Some(24 * HOUR_MS)),
            (failed(1, HOUR_MS), Some(HOUR_MS)),
            (failed(3, 1_000), Some(HOUR_MS)),
            (failed(1, i64::MAX), Some(24 * HOUR_MS)),
            (failed(1, -5), Some(15 * MINUTE_MS)),
            (Ended::Gone, None),
        ];
        let now = Timestamp(1_780_000_000_000);
        for (ended, wait_ms) in cases {
            let expected = wait_ms.map(|wait_ms| now.plus_ms(wait_ms));
            assert_eq!(next_fetch(now, ended), expected, "{ended:?}");
        }
    }
}
