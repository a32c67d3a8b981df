//! Clocks that jump. A running process does not notice a jump of the wall clock: its time is the wall clock
//! at its start plus a monotonic clock. Its time jumps only after the machine slept, or after a
//! restart.

use std::collections::HashMap;
use std::time::Duration;

use notify_core::{NotificationId, NotificationRecord, NotificationStatus, Timestamp};

use super::rig::{Rig, START, ScriptedAnswer, delivered};
use crate::clock::ManualClock;
use crate::providers::{Processing, SendResult};

const DEVICES: usize = 300;
/// For one in this many devices the first attempt fails, and the delivery becomes a retry.
const FAILING_EVERY: usize = 10;

const HOUR_MS: i64 = 3_600_000;
const DAY_MS: i64 = 24 * HOUR_MS;
/// Jumps of the clock, in milliseconds.
const JUMPS_MS: [i64; 6] = [-DAY_MS, -HOUR_MS, HOUR_MS, 25 * HOUR_MS, 27 * DAY_MS, 3_652 * DAY_MS];
/// Default TTL of a notification.
const TTL_MS: i64 = 28 * DAY_MS;

fn is_finished(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

fn fails(token: &str) -> bool {
    let number = token.strip_prefix("token-d").and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number % FAILING_EVERY == 0)
}

/// A rig in the middle of a broadcast: some devices got the message, some failed and are due again,
/// and most wait.
async fn under_way() -> (Rig, NotificationId) {
    let mut rig = Rig::new(5).await;
    rig.devices(DEVICES).await;
    rig.provider.script(|token, attempt| {
        let number: usize = token["token-d".len()..].parse().unwrap();
        if number >= DEVICES / 3 {
            return ScriptedAnswer::Held(delivered());
        }
        let reason = "UNAVAILABLE".into();
        ScriptedAnswer::Answer(match fails(token) && attempt == 1 {
            true => SendResult::Retry { reason, after: None, outcome: Processing::Failed },
            false => delivered(),
        })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(DEVICES / 3 + 5).await;
    let sent = (DEVICES / 3 - DEVICES / 3 / FAILING_EVERY) as u64;
    rig.until(&id, |record| record.counts.sent == sent).await;
    (rig, id)
}

/// Number of messages to each token.
fn deliveries(rig: &Rig) -> HashMap<String, usize> {
    let mut times = HashMap::new();
    for (_, token) in rig.provider.delivered() {
        *times.entry(token).or_default() += 1;
    }
    times
}

async fn disabled(rig: &Rig) -> u64 {
    let counted = rig.store.count_devices(rig.app, None, START, START).await.unwrap();
    counted.iter().map(|count| count.disabled).sum()
}

/// The machine slept: all leases and delays expire at once.
#[tokio::test]
async fn a_jump_forward_while_messages_are_in_flight_repeats_and_expires_nothing() {
    for jump_ms in JUMPS_MS.into_iter().filter(|jump_ms| (0..TTL_MS).contains(jump_ms)) {
        let (mut rig, id) = under_way().await;
        rig.clock.advance(Duration::from_millis(jump_ms.unsigned_abs()));
        rig.provider.release();
        let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
        assert_eq!((record.counts.sent, record.counts.expired), (DEVICES as u64, 0), "{jump_ms}");
        let times = deliveries(&rig);
        assert_eq!(times.len(), DEVICES, "{jump_ms}");
        assert!(times.values().all(|times| *times == 1), "{jump_ms}: no burst of repeats");
        assert_eq!(disabled(&rig).await, 0, "{jump_ms}");
        rig.stop().await;
    }
}

/// The process restarts with another wall clock. Scheduled work waits until that clock reaches its
/// time; everything else continues at once.
#[tokio::test]
async fn a_start_under_another_clock_loses_repeats_and_disables_nothing() {
    for jump_ms in JUMPS_MS {
        let (mut rig, id) = under_way().await;
        rig.provider.release();
        rig.stop().await;
        let before = rig.provider.delivered().len();
        rig.clock = ManualClock::at(START.plus_ms(jump_ms));
        rig.start();
        let retries = (DEVICES / 3 / FAILING_EVERY) as u64;
        if jump_ms < 0 {
            let others = DEVICES as u64 - retries;
            rig.until(&id, |record| record.counts.sent == others).await;
            assert_eq!(rig.read(&id).await.counts.pending, retries, "{jump_ms}");
            // Retries are not sent before they are due, even if that is far away.
            rig.clock.advance(Duration::from_millis((-jump_ms).unsigned_abs()));
        }
        let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
        let counts = &record.counts;
        if jump_ms < TTL_MS {
            assert_eq!((counts.sent, counts.expired), (DEVICES as u64, 0), "{jump_ms}");
        } else {
            // By the new clock, the notification has expired.
            let sent = before as u64;
            assert_eq!((counts.sent, counts.expired), (sent, DEVICES as u64 - sent), "{jump_ms}");
        }
        assert!(
            deliveries(&rig).values().all(|times| *times == 1),
            "{jump_ms}: each device gets the message once"
        );
        assert_eq!((counts.failed, counts.unregistered), (0, 0), "{jump_ms}");
        assert_eq!(disabled(&rig).await, 0, "{jump_ms}");
        rig.stop().await;
    }
}

/// A broadcast that is accepted while the clock is wrong is delivered like any other.
#[tokio::test]
async fn a_clock_that_is_years_ahead_or_behind_sends_what_it_accepts() {
    for jump_ms in JUMPS_MS {
        let mut rig = Rig::new(10).await;
        rig.devices(50).await;
        rig.clock = ManualClock::at(Timestamp(START.as_ms() + jump_ms));
        rig.start();
        let id = rig.broadcast().await;
        let record = rig.until(&id, is_finished).await;
        assert_eq!(record.counts.sent, 50, "{jump_ms}");
        rig.stop().await;
    }
}
