//! Token buckets, each with its own key: chat platforms answer 429 when one is empty.

use std::collections::HashMap;
use std::sync::Mutex;

use notify_core::Timestamp;

use crate::state::lock;

/// Buckets kept at most; when there are more, all are dropped and so are full again.
const BUCKETS_MAX: usize = 100_000;

/// The size of a bucket, and how fast it refills.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limit {
    pub(crate) burst: u32,
    pub(crate) per_second: f64,
}

/// The buckets by key.
#[derive(Debug, Default)]
pub(crate) struct RateLimits(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

impl RateLimits {
    /// Takes a token from the bucket of `key`.
    ///
    /// # Errors
    /// The whole seconds, at least one, until there is a token again.
    pub(crate) fn take(&self, key: &str, limit: Limit, now: Timestamp) -> Result<(), u64> {
        let mut all = lock(&self.0);
        if all.len() >= BUCKETS_MAX {
            all.clear();
        }
        let full = Bucket { left: f64::from(limit.burst), at: now };
        let bucket = all.entry(key.to_owned()).or_insert(full);
        let seconds = f64::from(u32::try_from(now.ms_since(bucket.at)).unwrap_or(0)) / 1_000.0;
        bucket.left = (bucket.left + seconds * limit.per_second).min(f64::from(limit.burst));
        bucket.at = now;
        if bucket.left >= 1.0 {
            bucket.left -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - bucket.left) / limit.per_second).ceil().max(1.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small positive number of seconds"
        )]
        let wait = wait as u64;
        Err(wait)
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_as_it_fills() {
        let limits = RateLimits::default();
        let limit = Limit { burst: 2, per_second: 0.5 };
        let rows = [
            ("a", 0, Ok(())),
            ("a", 0, Ok(())),
            ("a", 0, Err(2)),
            ("b", 0, Ok(())),
            ("a", 1_500, Err(1)),
            ("a", 2_000, Ok(())),
            ("a", 2_000, Err(2)),
            ("a", 1_000_000, Ok(())),
            ("a", 1_000_000, Ok(())),
            ("a", 1_000_000, Err(2)),
        ];
        for (row, (key, at, expected)) in rows.into_iter().enumerate() {
            assert_eq!(limits.take(key, limit, Timestamp(at)), expected, "row {row}");
        }
        limits.clear();
        assert_eq!(limits.take("a", limit, Timestamp(1_000_000)), Ok(()));
    }
}
