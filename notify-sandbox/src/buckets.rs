//! Limits of so many messages a time, each kept by its own key: what chat platforms answer 429 for.

use std::collections::HashMap;
use std::sync::Mutex;

use notify_core::Timestamp;

/// Most buckets kept; past that all are forgotten, and full again.
const BUCKETS_MAX: usize = 100_000;

/// A limit: so many at once, refilled at so many a second.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    pub(super) burst: u32,
    pub(super) per_second: f64,
}

/// What is left of each limit.
#[derive(Debug, Default)]
pub(super) struct Buckets(Mutex<HashMap<String, Bucket>>);

#[derive(Debug, Clone, Copy)]
struct Bucket {
    left: f64,
    at: Timestamp,
}

impl Buckets {
    /// Takes one from the bucket of that key.
    ///
    /// # Errors
    /// The whole seconds, at least one, after which there will be one again.
    pub(super) fn take(&self, key: &str, limit: Limit, now: Timestamp) -> Result<(), u64> {
        let mut all = self.0.lock().expect("no holder of the buckets panics");
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

    pub(super) fn clear(&self) {
        self.0.lock().expect("no holder of the buckets panics").clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_as_it_fills() {
        let buckets = Buckets::default();
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
            assert_eq!(buckets.take(key, limit, Timestamp(at)), expected, "row {row}");
        }
        buckets.clear();
        assert_eq!(buckets.take("a", limit, Timestamp(1_000_000)), Ok(()));
    }
}
