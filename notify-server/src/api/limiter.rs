//! Rate limits for each key, such as a client address.

use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, NotUntil, Quota};

use crate::api::error::ApiError;
use crate::bounded_cache::BoundedCache;

/// The number of keys in one limiter above which a check first removes the keys that have no recent
/// requests.
const TRACKED_MAX: usize = 100_000;

/// The quota of `count` requests per minute; `None`, which is no limit, for 0.
pub(super) fn quota_per_minute(count: u32) -> Option<Quota> {
    NonZeroU32::new(count).map(Quota::per_minute)
}

/// A rate limit for each key; `None` means that there is no limit.
pub(super) struct Limiter<K: Hash + Eq + Clone>(Option<DefaultKeyedRateLimiter<K>>);

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// A limit per second; 0 is no limit.
    pub(super) fn per_second(count: u32) -> Self {
        Self(NonZeroU32::new(count).map(Quota::per_second).map(DefaultKeyedRateLimiter::keyed))
    }

    /// A limit per minute; 0 is no limit.
    pub(super) fn per_minute(count: u32) -> Self {
        Self(quota_per_minute(count).map(DefaultKeyedRateLimiter::keyed))
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429 when the key exceeds its limit.
    pub(super) fn check(&self, key: &K) -> Result<(), ApiError> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > TRACKED_MAX {
            limiter.retain_recent();
        }
        limiter.check_key(key).map_err(|early| rate_limited(&early))
    }

    /// Removes keys that are no longer limited.
    pub(super) fn prune(&self) {
        if let Some(limiter) = &self.0 {
            limiter.retain_recent();
        }
    }
}

/// A rate limit of failures for each key. A key with too many failures is locked out, so that further
/// attempts of it cost nothing.
pub(super) struct FailureLimiter<K: Hash + Eq + Clone> {
    failures: Limiter<K>,
    /// Until when a key is locked out.
    locked: BoundedCache<K, Instant>,
}

impl<K: Hash + Eq + Clone> FailureLimiter<K> {
    /// A limit per minute; 0 is no limit.
    pub(super) fn per_minute(count: u32) -> Self {
        Self { failures: Limiter::per_minute(count), locked: BoundedCache::new(TRACKED_MAX) }
    }

    /// Refuses an attempt of a key that is locked out. Counts nothing.
    ///
    /// # Errors
    /// 429 while the key is locked out.
    pub(super) fn check_not_locked(&self, key: &K) -> Result<(), ApiError> {
        let Some(until) = self.locked.get(key) else { return Ok(()) };
        let wait = until.saturating_duration_since(Instant::now());
        if wait.is_zero() {
            self.locked.remove(key);
            return Ok(());
        }
        Err(ApiError::RateLimited { retry_after_seconds: wait.as_secs() + 1 })
    }

    /// Counts a failure.
    ///
    /// # Errors
    /// 429 when the key has failed too often. It is then locked out for as long as the error says.
    pub(super) fn count(&self, key: &K) -> Result<(), ApiError> {
        let counted = self.failures.check(key);
        if let Err(ApiError::RateLimited { retry_after_seconds }) = counted {
            let until = Instant::now() + Duration::from_secs(retry_after_seconds);
            self.locked.insert(key.clone(), until, 1);
        }
        counted
    }

    /// Removes keys that are no longer limited.
    pub(super) fn prune(&self) {
        self.failures.prune();
    }
}

/// Counts a request with a limiter of one key.
///
/// # Errors
/// 429 when the limit is exceeded.
pub(super) fn check_direct(limiter: &DefaultDirectRateLimiter) -> Result<(), ApiError> {
    limiter.check().map_err(|early| rate_limited(&early))
}

fn rate_limited(early: &NotUntil<<DefaultClock as Clock>::Instant>) -> ApiError {
    let wait = early.wait_time_from(DefaultClock::default().now());
    // Rounded up, so that a client that waits this long does not retry too early.
    ApiError::RateLimited { retry_after_seconds: wait.as_secs() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zero_is_no_limit() {
        let limiter = Limiter::per_minute(0);
        assert!((0..10_000).all(|_| limiter.check(&1).is_ok()));
        let failures = FailureLimiter::per_minute(0);
        assert!((0..10_000).all(|_| failures.count(&1).is_ok()));
        assert!(failures.check_not_locked(&1).is_ok());
    }

    #[test]
    fn a_key_that_fails_too_often_is_locked_out_alone() {
        let failures = FailureLimiter::per_minute(2);
        let is_locked = |key| failures.check_not_locked(&key).is_err();
        assert!(!is_locked(1));
        assert!(failures.count(&1).is_ok() && failures.count(&1).is_ok());
        assert!(!is_locked(1), "the next attempt may succeed");
        let refused = failures.count(&1).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        let refused = failures.check_not_locked(&1).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        assert!(!is_locked(2));
    }
}
