//! Rate limiters: one for the rate of a lane, such as the `rate_per_second` that an administrator
//! configured, and one for each chat. The rate of a lane is limited by a token bucket that holds the
//! deliveries of a tenth of a second. The servers of one database get equal shares of the rate.

use std::collections::HashMap;
use std::sync::Mutex;

use notify_core::Timestamp;

use crate::store::DeviceKey;

/// How early deliveries may be sent compared with even spacing, in microseconds.
const BURST_US: i64 = 100_000;
const US_PER_SECOND: i64 = 1_000_000;

/// The rate limiter of a lane.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The time between two deliveries if those of all servers were evenly spaced, in microseconds; 0
    /// means no limit.
    spacing_us: i64,
    /// Number of servers that share the rate.
    servers: i64,
    /// When the next delivery would be sent with even spacing, in unix microseconds.
    next_us: i64,
}

impl Default for State {
    fn default() -> Self {
        Self { spacing_us: 0, servers: 1, next_us: 0 }
    }
}

impl RateLimiter {
    /// Sets the number of servers that share the rate.
    pub(crate) fn set_servers(&self, servers: u32) {
        self.0.lock().expect("no holder of the rate limiter panics").servers =
            i64::from(servers.max(1));
    }

    /// Sets the rate; `None` means no limit.
    pub(crate) fn set_rate(&self, per_second: Option<u32>) {
        let rate = per_second.map_or(0, i64::from);
        let mut state = self.0.lock().expect("no holder of the rate limiter panics");
        state.spacing_us = if rate > 0 { US_PER_SECOND / rate.min(US_PER_SECOND) } else { 0 };
    }

    /// Admits one delivery.
    ///
    /// # Errors
    /// The time to try again, if the rate allows no delivery now.
    pub(crate) fn admit(&self, now: Timestamp) -> Result<(), Timestamp> {
        let mut state = self.0.lock().expect("no holder of the rate limiter panics");
        if state.spacing_us == 0 {
            return Ok(());
        }
        let spacing_us = state.spacing_us.saturating_mul(state.servers);
        let now_us = now.as_ms().saturating_mul(1_000);
        let next_us = state.next_us.max(now_us);
        let early_us = next_us - now_us;
        // The wait never exceeds `early_us`: a delivery may always be sent at its evenly spaced time,
        // even if the spacing is longer than the burst.
        if early_us > 0 && early_us + spacing_us > BURST_US {
            let wait_us = (early_us + spacing_us - BURST_US).min(early_us);
            let wait_ms_rounded_up = (wait_us.max(1) + 999) / 1_000;
            return Err(now.plus_ms(wait_ms_rounded_up));
        }
        state.next_us = next_us + spacing_us;
        Ok(())
    }
}

/// Shortest time between two messages to one chat, in milliseconds: Telegram accepts about one per
/// second.
const CHAT_INTERVAL_MS: i64 = 1_000;
/// Most chats that are tracked. Messages to further chats are not limited here, and Telegram may
/// throttle them.
const CHATS_MAX: usize = 10_000;

/// The rate limiter of single chats. The map holds the time from which each chat may get the next message.
#[derive(Debug, Default)]
pub(crate) struct PerChatLimiter(Mutex<HashMap<DeviceKey, Timestamp>>);

impl PerChatLimiter {
    /// Checks that a message to a chat may go out now.
    ///
    /// # Errors
    /// The time to try again, if the last message to the chat is too recent.
    pub(crate) fn check(&self, chat: DeviceKey, now: Timestamp) -> Result<(), Timestamp> {
        let next_message_at = self.0.lock().expect("no holder of the chats panics");
        match next_message_at.get(&chat) {
            Some(next_at) if *next_at > now => Err(*next_at),
            Some(_) | None => Ok(()),
        }
    }

    /// Records a message to a chat.
    pub(crate) fn record(&self, chat: DeviceKey, now: Timestamp) {
        let mut next_message_at = self.0.lock().expect("no holder of the chats panics");
        if next_message_at.len() >= CHATS_MAX {
            next_message_at.retain(|_, at| *at > now);
        }
        if next_message_at.len() < CHATS_MAX {
            next_message_at.insert(chat, now.plus_ms(CHAT_INTERVAL_MS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of deliveries admitted within a second by one attempt per millisecond.
    fn in_one_second(limiter: &RateLimiter, from_ms: i64) -> usize {
        let admitted_at =
            |ms| std::iter::from_fn(move || limiter.admit(Timestamp(ms)).ok()).take(100_000);
        (from_ms..from_ms + 1_000).map(|ms| admitted_at(ms).count()).sum()
    }

    #[test]
    fn the_rate_limits_the_deliveries_of_a_second() {
        for rate in [1, 3, 10, 250, 1_000, 25_000] {
            let pace = RateLimiter::default();
            pace.set_rate(Some(rate));
            let first = in_one_second(&pace, 1_000_000);
            let burst = rate as usize / 10 + 1;
            assert!((rate as usize..=rate as usize + burst).contains(&first), "{rate}: {first}");
            let second = in_one_second(&pace, 1_001_000);
            let slack = rate as usize / 100 + 1;
            let expected = rate as usize - slack..=rate as usize + slack;
            assert!(expected.contains(&second), "{rate}: {second}");
        }
    }

    #[test]
    fn servers_have_equal_shares_of_the_rate() {
        let pace = RateLimiter::default();
        pace.set_rate(Some(1_000));
        for (servers, from_ms) in [(1, 0), (2, 10_000), (5, 20_000), (1, 30_000), (0, 40_000)] {
            pace.set_servers(servers);
            in_one_second(&pace, from_ms);
            let share = 1_000 / servers.max(1) as usize;
            let second = in_one_second(&pace, from_ms + 1_000);
            assert!(second.abs_diff(share) <= share / 100 + 1, "{servers}: {second}");
        }
    }

    #[test]
    fn without_a_rate_nothing_waits() {
        let pace = RateLimiter::default();
        assert!((0..10_000).all(|_| pace.admit(Timestamp(5)).is_ok()));
        pace.set_rate(Some(1));
        assert!(pace.admit(Timestamp(5)).is_ok());
        assert_eq!(pace.admit(Timestamp(5)), Err(Timestamp(1_005)));
        pace.set_rate(None);
        assert!(pace.admit(Timestamp(5)).is_ok());
    }

    #[test]
    fn a_chat_gets_one_message_a_second() {
        let chats = PerChatLimiter::default();
        assert!(chats.check(DeviceKey(1), Timestamp(0)).is_ok());
        assert!(chats.check(DeviceKey(1), Timestamp(0)).is_ok(), "a check uses nothing up");
        chats.record(DeviceKey(1), Timestamp(0));
        assert_eq!(chats.check(DeviceKey(1), Timestamp(400)), Err(Timestamp(1_000)));
        assert!(chats.check(DeviceKey(2), Timestamp(400)).is_ok(), "another chat");
        assert!(chats.check(DeviceKey(1), Timestamp(1_000)).is_ok());
    }
}
