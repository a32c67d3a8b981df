//! Token buckets by key, for the rate limits of the chat platforms. A platform responds with 429 when a
//! bucket is empty.

use std::collections::HashMap;
use std::sync::Mutex;

use notify_core::Timestamp;

use crate::state::lock;

/// The most buckets. At this number all buckets are dropped, which makes every bucket full again.
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
    tokens: f64,
    updated_at: Timestamp,
}

impl RateLimits {
    /// Takes a token from the bucket of `key`, which is full at first.
    ///
    /// # Errors
    /// When the bucket is empty. The error is the number of seconds until the bucket has a token,
    /// rounded up and at least 1.
    pub(crate) fn take(&self, key: &str, limit: Limit, now: Timestamp) -> Result<(), u64> {
        let mut buckets = lock(&self.0);
        if buckets.len() >= BUCKETS_MAX {
            buckets.clear();
        }
        let full = Bucket { tokens: f64::from(limit.burst), updated_at: now };
        let bucket = buckets.entry(key.to_owned()).or_insert(full);
        let elapsed_ms = u32::try_from(now.ms_since(bucket.updated_at)).unwrap_or(0);
        let refill = f64::from(elapsed_ms) / 1_000.0 * limit.per_second;
        bucket.tokens = (bucket.tokens + refill).min(f64::from(limit.burst));
        bucket.updated_at = now;
        if bucket.tokens >= 1.0 {
            bucket.tokens -= 1.0;
            return Ok(());
        }
        let wait = ((1.0 - bucket.tokens) / limit.per_second).ceil().max(1.0);
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
    fn a_bucket_allows_its_burst_and_then_one_token_per_refill() {
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
