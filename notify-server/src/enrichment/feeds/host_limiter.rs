//! Whose turn it is: a few fetches of one host at once, so that a host that is slow holds its own turns
//! and not every slot. Redirects are not looked at: a host is that of the feed's url.

use std::collections::{HashMap, VecDeque};

use notify_core::Timestamp;
use url::Url;

use crate::store::FeedClaim;

/// Fetches at once.
const FETCHES_MAX: usize = 8;
/// Fetches of one host at once.
const FETCHES_PER_HOST_MAX: usize = 2;
/// Claimed feeds that wait for a turn of their host; further ones wait in the store.
const WAITING_MAX: usize = 1_000;
/// How long one waits, in milliseconds: what is left of its claim then is a fetch. Who waited for
/// longer is let go, and due again when its claim runs out.
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

/// Who has a turn, and who waits for one.
#[derive(Default)]
pub(super) struct Turns {
    under_way: HashMap<Host, usize>,
    /// With the time since when, the longest waiting first.
    waiting: VecDeque<(Timestamp, Host, FeedClaim)>,
}

impl Turns {
    /// How many feeds may be claimed: no more than could begin if each had a host of its own.
    pub(super) fn room(&self) -> usize {
        let slots = FETCHES_MAX.saturating_sub(self.under_way.values().sum());
        slots.min(WAITING_MAX.saturating_sub(self.waiting.len()))
    }

    /// Has a claimed feed wait for its turn.
    pub(super) fn wait(&mut self, claim: FeedClaim, now: Timestamp) {
        self.waiting.push_back((now, Host::of(&claim.url), claim));
    }

    /// Gives a turn to who waits for the longest, of those whose host has one left.
    pub(super) fn begin(&mut self, now: Timestamp) -> Option<(Host, FeedClaim)> {
        let is_over = |since: Timestamp| now.ms_since(since) >= WAIT_MAX_MS;
        while self.waiting.front().is_some_and(|(since, ..)| is_over(*since)) {
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

    /// Takes a turn back.
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
    fn begun(turns: &mut Turns, now: Timestamp) -> Vec<String> {
        std::iter::from_fn(|| turns.begin(now)).map(|(_, claim)| claim.url).collect()
    }

    #[test]
    fn a_host_has_two_turns_and_all_of_them_eight() {
        let mut turns = Turns::default();
        for number in 0..8 {
            turns.wait(claim(&format!("https://slow.example/{number}")), NOW);
        }
        // One host, however it is written and whatever its port.
        turns.wait(claim("http://SLOW.example:8080/9"), NOW);
        let slow = |number: u32| format!("https://slow.example/{number}");
        assert_eq!(begun(&mut turns, NOW), [slow(0), slow(1)]);
        assert_eq!(turns.room(), 6, "those that wait take no slot");
        for number in 0..7 {
            turns.wait(claim(&format!("https://{number}.example/")), NOW);
        }
        let others: Vec<_> = (0..6).map(|number| format!("https://{number}.example/")).collect();
        assert_eq!(begun(&mut turns, NOW), others);
        assert_eq!(turns.room(), 0);
        // Who waits for the longest goes first, where its host has a turn.
        turns.end(&Host::of("https://5.example/"));
        assert_eq!(begun(&mut turns, NOW), ["https://6.example/"]);
        turns.end(&Host::of("https://slow.example/"));
        turns.end(&Host::of("https://slow.example/"));
        assert_eq!(begun(&mut turns, NOW), [slow(2), slow(3)]);
    }

    #[test]
    fn who_waits_for_too_long_is_let_go_and_what_waits_is_bounded() {
        let mut turns = Turns::default();
        for number in 0..WAITING_MAX + 2 {
            turns.wait(claim(&format!("https://slow.example/{number}")), NOW);
            if number < 2 {
                assert!(turns.begin(NOW).is_some());
            }
        }
        assert_eq!((turns.room(), turns.begin(NOW)), (0, None));
        turns.end(&Host::of("https://slow.example/0"));
        let late = NOW.plus_ms(WAIT_MAX_MS);
        assert!(turns.begin(late.plus_ms(-1)).is_some());
        turns.end(&Host::of("https://slow.example/0"));
        assert_eq!(turns.begin(late), None, "their claims are as good as over");
        assert_eq!(turns.room(), 7);
    }
}
