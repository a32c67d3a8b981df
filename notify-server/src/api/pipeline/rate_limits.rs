//! Rate limits: authentication failures, votes and browser requests by client address, all other
//! requests by API key. Failing requests never slow down requests with a valid key.

use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroU32;

use governor::clock::{Clock, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use http::Method;
use notify_core::KeyId;

use crate::api::error::ApiError;
use crate::api::handlers::{poll_page, web};
use crate::api::request_ctx::Caller;
use crate::api::router::RouteMatch;
use crate::config::Config;
use crate::store::AppNo;

/// Number of keys in one limiter above which a check first removes those that are no longer
/// limited.
const TRACKED_MAX: usize = 100_000;

/// All rate limits.
pub(super) struct RateLimits {
    requests_by_key: Limiter<KeyId>,
    auth_failures: Limiter<IpAddr>,
    votes: Limiter<IpAddr>,
    browser_requests: Limiter<(AppNo, IpAddr)>,
    subscriptions: Limiter<AppNo>,
}

impl RateLimits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            requests_by_key: Limiter::per_second(config.rate_limit),
            auth_failures: Limiter::per_minute(config.auth_failures_per_minute),
            votes: Limiter::per_minute(config.poll_votes_per_minute),
            browser_requests: Limiter::per_minute(config.web_requests_per_minute),
            subscriptions: Limiter::per_minute(config.web_subscriptions_per_minute),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429 when the caller exceeds its limit.
    pub(super) fn check(
        &self,
        caller: &Caller,
        route: &RouteMatch<'_>,
        client: IpAddr,
    ) -> Result<(), ApiError> {
        match caller {
            Caller::App(access) => self.requests_by_key.check(&access.key),
            Caller::Browser(origin) => {
                let is_subscription = route.is(&Method::POST, web::SUBSCRIBE);
                self.check_browser(origin.web.no, client, is_subscription)
            }
            Caller::Anonymous if route.is(&Method::POST, poll_page::VOTES) => {
                self.votes.check(&client)
            }
            Caller::Anonymous | Caller::Admin | Caller::Platform(_) => Ok(()),
        }
    }

    /// A client over its own limit does not use up the application's limit of subscriptions.
    fn check_browser(
        &self,
        app: AppNo,
        client: IpAddr,
        is_subscription: bool,
    ) -> Result<(), ApiError> {
        self.browser_requests.check(&(app, client))?;
        if is_subscription { self.subscriptions.check(&app) } else { Ok(()) }
    }

    /// Counts a request with missing or wrong credentials.
    ///
    /// # Errors
    /// 429 when the client has too many of them.
    pub(super) fn count_auth_failure(&self, client: IpAddr) -> Result<(), ApiError> {
        self.auth_failures.check(&client)
    }

    /// Removes keys and clients that are no longer limited.
    pub(super) fn prune(&self) {
        self.requests_by_key.prune();
        self.auth_failures.prune();
        self.votes.prune();
        self.browser_requests.prune();
        self.subscriptions.prune();
    }
}

/// A rate limit per key; `None`: no limit.
struct Limiter<K: Hash + Eq + Clone>(Option<DefaultKeyedRateLimiter<K>>);

impl<K: Hash + Eq + Clone> Limiter<K> {
    /// A limit per second; 0 is no limit.
    fn per_second(count: u32) -> Self {
        Self(NonZeroU32::new(count).map(Quota::per_second).map(DefaultKeyedRateLimiter::keyed))
    }

    /// A limit per minute; 0 is no limit.
    fn per_minute(count: u32) -> Self {
        Self(NonZeroU32::new(count).map(Quota::per_minute).map(DefaultKeyedRateLimiter::keyed))
    }

    fn check(&self, key: &K) -> Result<(), ApiError> {
        let Some(limiter) = &self.0 else { return Ok(()) };
        if limiter.len() > TRACKED_MAX {
            limiter.retain_recent();
        }
        limiter.check_key(key).map_err(|early| {
            let wait = early.wait_time_from(DefaultClock::default().now());
            // Rounded up: a client that waits this long must not come too early.
            ApiError::RateLimited { retry_after_seconds: wait.as_secs() + 1 }
        })
    }

    fn prune(&self) {
        if let Some(limiter) = &self.0 {
            limiter.retain_recent();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(per_minute: u32, subscriptions_per_minute: u32) -> RateLimits {
        RateLimits {
            requests_by_key: Limiter::per_second(per_minute),
            auth_failures: Limiter::per_minute(per_minute),
            votes: Limiter::per_minute(per_minute),
            browser_requests: Limiter::per_minute(per_minute),
            subscriptions: Limiter::per_minute(subscriptions_per_minute),
        }
    }

    #[test]
    fn failures_of_one_client_do_not_limit_another() {
        let limits = limits(2, 0);
        let (bad, good) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        assert!(limits.count_auth_failure(bad).is_ok() && limits.count_auth_failure(bad).is_ok());
        let refused = limits.count_auth_failure(bad).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        assert!(limits.count_auth_failure(good).is_ok());
    }

    #[test]
    fn a_limited_browser_does_not_use_up_the_limit_of_its_application() {
        let limits = limits(3, 4);
        let (greedy, other) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        let allowed = |client, app| limits.check_browser(AppNo(app), client, true).is_ok();
        assert_eq!([0; 6].map(|_| allowed(greedy, 1)), [true, true, true, false, false, false]);
        assert_eq!([0; 2].map(|_| allowed(other, 1)), [true, false], "one of the four was left");
        assert!(allowed(greedy, 2), "another application");
        assert!(limits.check_browser(AppNo(1), other, false).is_ok(), "not a subscription");
    }

    #[test]
    fn zero_is_no_limit() {
        let limits = limits(0, 0);
        let client = IpAddr::from([1, 1, 1, 1]);
        assert!((0..10_000).all(|_| limits.count_auth_failure(client).is_ok()));
    }
}
