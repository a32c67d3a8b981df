//! Rate limits: failing requests by client address, all requests by key. A request with a good key
//! is never slowed by others that fail.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use notify_core::KeyId;

use crate::api::error::ApiError;
use crate::store::AppNo;

/// Most clients remembered before old ones are looked for.
const REMEMBERED_MAX: usize = 100_000;

/// Slows clients whose keys keep failing.
pub(super) struct Throttle(Limiter<IpAddr>);

impl Throttle {
    /// That many failures a minute; 0 is no limit.
    pub(super) fn new(per_minute: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_minute).map(Quota::per_minute)))
    }

    /// Notes a failure.
    pub(super) fn failed(&self, client: IpAddr) -> Result<(), ApiError> {
        self.0.take(&client)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits each key's requests.
pub(super) struct KeyRate(Limiter<KeyId>);

impl KeyRate {
    /// That many requests a second and key; 0 is no limit.
    pub(super) fn new(per_second: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_second).map(Quota::per_second)))
    }

    /// Notes a request.
    pub(super) fn take(&self, key: KeyId) -> Result<(), ApiError> {
        self.0.take(&key)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits each client's votes on the pages of polls.
pub(super) struct VoteRate(Limiter<IpAddr>);

impl VoteRate {
    /// That many votes a minute and client; 0 is no limit.
    pub(super) fn new(per_minute: u32) -> Self {
        Self(Limiter::new(NonZeroU32::new(per_minute).map(Quota::per_minute)))
    }

    /// Notes a vote.
    pub(super) fn take(&self, client: IpAddr) -> Result<(), ApiError> {
        self.0.take(&client)
    }

    pub(super) fn tidy(&self) {
        self.0.tidy();
    }
}

/// Limits what pages ask: each address all its requests, each application the devices that are made.
pub(super) struct PageRate {
    requests: Limiter<(AppNo, IpAddr)>,
    subscriptions: Limiter<AppNo>,
}

impl PageRate {
    /// That many requests a minute, application and client, and that many subscriptions a minute
    /// and application; 0 is no limit.
    pub(super) fn new(requests_per_minute: u32, subscriptions_per_minute: u32) -> Self {
        let per_minute = |count| NonZeroU32::new(count).map(Quota::per_minute);
        Self {
            requests: Limiter::new(per_minute(requests_per_minute)),
            subscriptions: Limiter::new(per_minute(subscriptions_per_minute)),
        }
    }

    /// Notes a request. A client over its own limit takes nothing from the application's.
    pub(super) fn take(
        &self,
        app: AppNo,
        client: IpAddr,
        makes_device: bool,
    ) -> Result<(), ApiError> {
        self.requests.take(&(app, client))?;
        if makes_device { self.subscriptions.take(&app) } else { Ok(()) }
    }

    pub(super) fn tidy(&self) {
        self.requests.tidy();
        self.subscriptions.tidy();
    }
}

struct Limiter<K: Hash + Eq + Clone>(Option<DefaultKeyedRateLimiter<K>>);

impl<K: Hash + Eq + Clone> Limiter<K> {
    fn new(quota: Option<Quota>) -> Self {
        Self(quota.map(RateLimiter::keyed))
    }

    fn take(&self, key: &K) -> Result<(), ApiError> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > REMEMBERED_MAX {
            limiter.retain_recent();
        }
        limiter.check_key(key).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            // Rounded up: a client that waits as told must not come too early.
            ApiError::RateLimited { retry_after_seconds: wait.as_secs() + 1 }
        })
    }

    fn tidy(&self) {
        if let Some(limiter) = &self.0 {
            limiter.retain_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_of_one_client_slow_no_other() {
        let throttle = Throttle::new(2);
        let (bad, good) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        assert!(throttle.failed(bad).is_ok() && throttle.failed(bad).is_ok());
        let refused = throttle.failed(bad).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        assert!(throttle.failed(good).is_ok());
    }

    #[test]
    fn a_page_over_its_limit_takes_nothing_from_the_others() {
        let rate = PageRate::new(3, 4);
        let (greedy, other) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        let taken = |client, app| rate.take(AppNo(app), client, true).is_ok();
        assert_eq!([0; 6].map(|_| taken(greedy, 1)), [true, true, true, false, false, false]);
        assert_eq!([0; 2].map(|_| taken(other, 1)), [true, false], "one was left of the four");
        assert!(taken(greedy, 2), "another application");
        assert!(rate.take(AppNo(1), other, false).is_ok(), "no device is made");
    }

    #[test]
    fn zero_is_no_limit() {
        let throttle = Throttle::new(0);
        assert!((0..10_000).all(|_| throttle.failed(IpAddr::from([1, 1, 1, 1])).is_ok()));
    }
}
