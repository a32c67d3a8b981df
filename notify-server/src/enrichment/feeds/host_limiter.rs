//! Limits concurrent fetches by host, so that a slow host uses up its own slots
//! and not all of them. Redirects are ignored: the host is that of the feed's url.

use std::collections::{HashMap, VecDeque};

use notify_core::Timestamp;
use url::Url;

use crate::store::FeedClaim;

/// Most concurrent fetches.
const FETCHES_MAX: usize = 8;
/// Most concurrent fetches of one host.
const FETCHES_PER_HOST_MAX: usize = 2;
/// Most claimed feeds that wait for their host; others wait in the store.
const WAITING_MAX: usize = 1_000;
/// Longest wait of a claimed feed, in milliseconds: the rest of its claim is for the fetch. A feed that waited
/// longer is dropped, and due again when its claim expires.
const WAIT_MAX_MS: i64 = 60_000;

/// The host of a feed's url, as the URL standard writes it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Host(String);

impl Host {
    fn of(url: &str) -> Self {
        let host = Url::parse(url).ok().and_then(|url| url.host_str().map(str::to_owned));
        Self(host.unwrap_or_else(|| url.to_owned()))
    }
}

/// Running and waiting fetches.
#[derive(Default)]
pub(super) struct HostLimiter {
    under_way: HashMap<Host, usize>,
    /// With the start of the wait, the longest wait first.
    waiting: VecDeque<(Timestamp, Host, FeedClaim)>,
}

impl HostLimiter {
    /// How many feeds may be claimed: as many as could begin if each had a different host.
    pub(super) fn check_capacity(&self) -> usize {
        let slots = FETCHES_MAX.saturating_sub(self.under_way.values().sum());
        slots.min(WAITING_MAX.saturating_sub(self.waiting.len()))
    }

    /// Adds a claimed feed to the queue.
    pub(super) fn wait(&mut self, claim: FeedClaim, now: Timestamp) {
        self.waiting.push_back((now, Host::of(&claim.url), claim));
    }

    /// Begins the feed that has waited longest, among those whose host has a free slot.
    pub(super) fn begin(&mut self, now: Timestamp) -> Option<(Host, FeedClaim)> {
        let has_expired = |since: Timestamp| now.ms_since(since) >= WAIT_MAX_MS;
        while self.waiting.front().is_some_and(|(since, ..)| has_expired(*since)) {
            self.waiting.pop_front();
        }
        if self.under_way.values().sum::<usize>() >= FETCHES_MAX {
            return None;
        }
        let has_turn = |host: &Host| self.of(host) < FETCHES_PER_HOST_MAX;
        let place = self.waiting.iter().position(|(_, host, _)| has_turn(host))?;
        let (_, host, claim) = self.waiting.remove(place)?;
        *self.under_way.entry(host.clone()).or_default() += 1;
        Some((host, claim))
    }

    /// Releases a slot.
    pub(super) fn end(&mut self, host: &Host) {
        if let Some(its) = self.under_way.get_mut(host) {
            *its -= 1;
            if *its == 0 {
                self.under_way.remove(host);
            }
        }
    }

    fn of(&self, host: &Host) -> usize {
        self.under_way.get(host).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FeedNo, Validators};

    const NOW: Timestamp = Timestamp(1_780_000_000_000);

    fn claim(url: &str) -> FeedClaim {
        FeedClaim {
            feed: FeedNo(1),
            claim: 1,
            url: url.to_owned(),
            validators: Validators::default(),
            ttl_minutes: None,
            failures: 0,
            moved: None,
        }
    }

    /// The urls that begin, in order.
    fn begin_all(limiter: &mut HostLimiter, now: Timestamp) -> Vec<String> {
        std::iter::from_fn(|| limiter.begin(now)).map(|(_, claim)| claim.url).collect()
    }

    #[test]
    fn two_fetches_per_host_and_eight_in_total() {
        let mut limiter = HostLimiter::default();
        for number in 0..8 {
            limiter.wait(claim(&format!("https://slow.example/{number}")), NOW);
        }
        // One host, however it is written and whatever its port.
        limiter.wait(claim("http://SLOW.example:8080/9"), NOW);
        let slow = |number: u32| format!("https://slow.example/{number}");
        assert_eq!(begin_all(&mut limiter, NOW), [slow(0), slow(1)]);
        assert_eq!(limiter.check_capacity(), 6, "those that wait take no slot");
        for number in 0..7 {
            limiter.wait(claim(&format!("https://{number}.example/")), NOW);
        }
        let others: Vec<_> = (0..6).map(|number| format!("https://{number}.example/")).collect();
        assert_eq!(begin_all(&mut limiter, NOW), others);
        assert_eq!(limiter.check_capacity(), 0);
        // The longest wait goes first, if its host has a free slot.
        limiter.end(&Host::of("https://5.example/"));
        assert_eq!(begin_all(&mut limiter, NOW), ["https://6.example/"]);
        limiter.end(&Host::of("https://slow.example/"));
        limiter.end(&Host::of("https://slow.example/"));
        assert_eq!(begin_all(&mut limiter, NOW), [slow(2), slow(3)]);
    }

    #[test]
    fn long_waits_are_dropped_and_the_queue_is_bounded() {
        let mut limiter = HostLimiter::default();
        for number in 0..WAITING_MAX + 2 {
            limiter.wait(claim(&format!("https://slow.example/{number}")), NOW);
            if number < 2 {
                assert!(limiter.begin(NOW).is_some());
            }
        }
        assert_eq!((limiter.check_capacity(), limiter.begin(NOW)), (0, None));
        limiter.end(&Host::of("https://slow.example/0"));
        let late = NOW.plus_ms(WAIT_MAX_MS);
        assert!(limiter.begin(late.plus_ms(-1)).is_some());
        limiter.end(&Host::of("https://slow.example/0"));
        assert_eq!(limiter.begin(late), None, "their claims are as good as over");
        assert_eq!(limiter.check_capacity(), 7);
    }
}
