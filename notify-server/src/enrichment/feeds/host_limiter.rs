//! Limits the concurrent fetches from one host, so that a slow host cannot occupy all slots. The
//! host is that of the feed's url; redirects to other hosts are not counted.

use std::collections::{HashMap, VecDeque};

use notify_core::Timestamp;
use url::Url;

use crate::store::FeedClaim;

/// Most concurrent fetches.
const FETCHES_MAX: usize = 8;
/// Most concurrent fetches from one host.
const FETCHES_PER_HOST_MAX: usize = 2;
/// Most claimed feeds that wait for a slot of their host. Other due feeds stay unclaimed in the
/// store.
const WAITING_MAX: usize = 1_000;
/// Longest time that a claimed feed waits for a slot, in milliseconds. The rest of the claim's
/// duration is for the fetch. A feed that waited longer is dropped from the queue; it is due again
/// when its claim expires.
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

/// The number of running fetches of each host, and the claimed feeds that wait.
#[derive(Default)]
pub(super) struct HostLimiter {
    running: HashMap<Host, usize>,
    /// Each with the start of its wait; the longest wait comes first.
    waiting: VecDeque<(Timestamp, Host, FeedClaim)>,
}

impl HostLimiter {
    /// How many feeds may be claimed now: the number of fetches that could start if every feed had
    /// a different host.
    pub(super) fn claim_capacity(&self) -> usize {
        let slots = FETCHES_MAX.saturating_sub(self.running.values().sum());
        slots.min(WAITING_MAX.saturating_sub(self.waiting.len()))
    }

    /// Adds a claimed feed to the queue.
    pub(super) fn enqueue(&mut self, claim: FeedClaim, now: Timestamp) {
        self.waiting.push_back((now, Host::of(&claim.url), claim));
    }

    /// Takes a slot for the feed that has waited longest among the feeds whose host has a free
    /// slot. Returns the feed, or `None` if no feed can start. Drops feeds that waited too long.
    pub(super) fn start_next(&mut self, now: Timestamp) -> Option<(Host, FeedClaim)> {
        let has_expired = |since: Timestamp| now.ms_since(since) >= WAIT_MAX_MS;
        while self.waiting.front().is_some_and(|(since, ..)| has_expired(*since)) {
            self.waiting.pop_front();
        }
        if self.running.values().sum::<usize>() >= FETCHES_MAX {
            return None;
        }
        let has_slot = |host: &Host| self.running_of(host) < FETCHES_PER_HOST_MAX;
        let position = self.waiting.iter().position(|(_, host, _)| has_slot(host))?;
        let (_, host, claim) = self.waiting.remove(position)?;
        *self.running.entry(host.clone()).or_default() += 1;
        Some((host, claim))
    }

    /// Releases a slot of a host.
    pub(super) fn release(&mut self, host: &Host) {
        if let Some(count) = self.running.get_mut(host) {
            *count -= 1;
            if *count == 0 {
                self.running.remove(host);
            }
        }
    }

    fn running_of(&self, host: &Host) -> usize {
        self.running.get(host).copied().unwrap_or(0)
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

    /// The urls of the fetches that start, in order.
    fn start_all(limiter: &mut HostLimiter, now: Timestamp) -> Vec<String> {
        std::iter::from_fn(|| limiter.start_next(now)).map(|(_, claim)| claim.url).collect()
    }

    #[test]
    fn two_fetches_per_host_and_eight_in_total() {
        let mut limiter = HostLimiter::default();
        for number in 0..8 {
            limiter.enqueue(claim(&format!("https://slow.example/{number}")), NOW);
        }
        // The same host in another spelling and with another port.
        limiter.enqueue(claim("http://SLOW.example:8080/9"), NOW);
        let slow = |number: u32| format!("https://slow.example/{number}");
        assert_eq!(start_all(&mut limiter, NOW), [slow(0), slow(1)]);
        assert_eq!(limiter.claim_capacity(), 6, "waiting feeds take no slot");
        for number in 0..7 {
            limiter.enqueue(claim(&format!("https://{number}.example/")), NOW);
        }
        let others: Vec<_> = (0..6).map(|number| format!("https://{number}.example/")).collect();
        assert_eq!(start_all(&mut limiter, NOW), others);
        assert_eq!(limiter.claim_capacity(), 0);
        // The feed that has waited longest starts first if its host has a free slot.
        limiter.release(&Host::of("https://5.example/"));
        assert_eq!(start_all(&mut limiter, NOW), ["https://6.example/"]);
        limiter.release(&Host::of("https://slow.example/"));
        limiter.release(&Host::of("https://slow.example/"));
        assert_eq!(start_all(&mut limiter, NOW), [slow(2), slow(3)]);
    }

    #[test]
    fn long_waits_are_dropped_and_the_queue_is_bounded() {
        let mut limiter = HostLimiter::default();
        for number in 0..WAITING_MAX + 2 {
            limiter.enqueue(claim(&format!("https://slow.example/{number}")), NOW);
            if number < 2 {
                assert!(limiter.start_next(NOW).is_some());
            }
        }
        assert_eq!((limiter.claim_capacity(), limiter.start_next(NOW)), (0, None));
        limiter.release(&Host::of("https://slow.example/0"));
        let late = NOW.plus_ms(WAIT_MAX_MS);
        assert!(limiter.start_next(late.plus_ms(-1)).is_some());
        limiter.release(&Host::of("https://slow.example/0"));
        assert_eq!(limiter.start_next(late), None, "feeds that waited too long are dropped");
        assert_eq!(limiter.claim_capacity(), 7);
    }
}
