//! Rates of notifications, and canaries.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify_core::{
    Canary, CreateNotification, NotificationId, NotificationRecord, NotificationStatus, Platform,
    ProviderKind, RegisterDevice, Timestamp,
};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, SendResult};

const STEP: Duration = Duration::from_millis(500);
/// Longest time that a canary waits for its judgement in these tests, with the time to notice it.
const JUDGED_WITHIN: Duration = Duration::from_secs(90);

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

fn to_android() -> CreateNotification {
    CreateNotification::to_platforms([Platform::Android], "Hello")
}

/// When attempts were made, and whether each was the first of its device.
#[derive(Clone, Default)]
struct Attempts(Arc<Mutex<Vec<(Timestamp, bool)>>>);

impl Attempts {
    /// Records the attempts of a provider, whose first answer to each device is `first`.
    fn record(&self, rig: &Rig, provider: &FakeProvider, first: SendResult) {
        let (attempts, clock) = (self.0.clone(), rig.clock.clone());
        provider.script(move |_, number| {
            attempts.lock().unwrap().push((clock.now(), number == 1));
            ScriptedAnswer::Answer(if number == 1 { first.clone() } else { delivered() })
        });
    }

    fn first_attempts(&self) -> Vec<i64> {
        let attempts = self.0.lock().unwrap();
        let first = attempts.iter().filter(|(_, is_first)| *is_first);
        let mut times: Vec<i64> = first.map(|(at, _)| at.as_ms()).collect();
        times.sort_unstable();
        times
    }

    /// The most attempts in a minute.
    fn most_in_a_minute(times: &[i64]) -> usize {
        let in_minute = |from: &i64| {
            let until = times.partition_point(|at| *at < *from + 60_000);
            until - times.partition_point(|at| at < from)
        };
        times.iter().map(in_minute).max().unwrap_or_default()
    }
}

async fn advance(rig: &Rig, by: Duration) {
    for _ in 0..by.as_millis() / STEP.as_millis() {
        rig.step(STEP).await;
    }
}

/// How often each token was sent to.
fn by_token(provider: &FakeProvider) -> HashMap<String, usize> {
    let mut attempts = HashMap::new();
    for token in provider.journal() {
        *attempts.entry(token).or_default() += 1;
    }
    attempts
}

#[tokio::test]
async fn first_attempts_on_all_platforms_keep_to_the_rate() {
    let mut rig = Rig::new(10).await;
    let ios = FakeProvider::new(10);
    rig.configure(ProviderKind::Apns, Some(ios.clone())).await;
    rig.devices(60).await;
    for number in 0..60 {
        rig.register(RegisterDevice::ios(format!("i{number}"), format!("{number:064}"))).await;
    }
    let attempts = Attempts::default();
    attempts.record(&rig, &rig.provider, delivered());
    attempts.record(&rig, &ios, delivered());
    rig.start();
    let both = CreateNotification::to_platforms([Platform::Android, Platform::Ios], "Hello");
    let id = rig.accept(both.per_minute(48)).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (120, 120));
    let times = attempts.first_attempts();
    assert_eq!(times.len(), 120);
    let most = Attempts::most_in_a_minute(&times);
    assert!(most <= 52, "{most} in a minute");
    // 120 at 48 a minute are 150 seconds.
    let took = times[119] - times[0];
    assert!(took < 200_000, "not much slower than the rate: {took} ms");
    rig.stop().await;
}

#[tokio::test]
async fn servers_share_the_rate_of_a_notification() {
    let mut rig = Rig::new(10).await;
    rig.config.clustered = true;
    rig.devices(90).await;
    let other = FakeProvider::new(10);
    let attempts = Attempts::default();
    for provider in [&rig.provider, &other] {
        attempts.record(&rig, provider, delivered());
    }
    rig.start();
    rig.start_peer(other.clone(), rig.clock.clone());
    let id = rig.accept(to_android().per_minute(60)).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (90, 90));
    let times = attempts.first_attempts();
    assert_eq!(times.len(), 90, "each device once");
    let most = Attempts::most_in_a_minute(&times);
    assert!(most <= 65, "{most} in a minute");
    rig.stop_peer().await;
    rig.stop().await;
}

#[tokio::test]
async fn a_crash_does_not_raise_the_rate() {
    let mut rig = Rig::new(10).await;
    rig.devices(60).await;
    let attempts = Attempts::default();
    attempts.record(&rig, &rig.provider, delivered());
    rig.start();
    let id = rig.accept(to_android().per_minute(24)).await;
    for crash in 1..=4 {
        rig.advance_until_arrived(crash * 7, STEP).await;
        rig.crash().await;
        rig.start();
    }
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (60, 60));
    let times: Vec<i64> = attempts.0.lock().unwrap().iter().map(|(at, _)| at.as_ms()).collect();
    let most = Attempts::most_in_a_minute(&times);
    assert!(most <= 26, "{most} in a minute, repeats included");
    rig.stop().await;
}

#[tokio::test]
async fn retries_do_not_count_in_the_rate() {
    const RETRIED_AFTER: Duration = Duration::from_secs(600);
    let mut rig = Rig::new(10).await;
    // Fewer than the failures in a row that open the circuit breaker.
    rig.devices(18).await;
    let attempts = Attempts::default();
    let busy = SendResult::Retry {
        reason: "unavailable".into(),
        after: Some(RETRIED_AFTER),
        outcome: Processing::NotProcessed,
    };
    attempts.record(&rig, &rig.provider, busy);
    rig.start();
    let id = rig.accept(to_android().per_minute(12)).await;
    rig.advance_until(&id, STEP, |record| record.counts.targeted == 18).await;
    rig.until_idle().await;
    assert!(Attempts::most_in_a_minute(&attempts.first_attempts()) <= 13);
    // After this the clock stands still: with a rate, all but one of the retries would wait for it.
    rig.clock.advance(2 * RETRIED_AFTER);
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.sent, rig.provider.journal().len()), (18, 36));
    rig.stop().await;
}

#[tokio::test]
async fn a_slow_notification_leaves_the_lane_to_others_and_can_be_canceled() {
    let mut rig = Rig::new(10).await;
    rig.config.lane_pages_max = 2;
    rig.config.lane_dispatches_max = 1;
    rig.devices(50).await;
    rig.start();
    let mut slow = Vec::new();
    for _ in 0..3 {
        slow.push(rig.accept(to_android().per_minute(1)).await);
    }
    for id in &slow {
        rig.advance_until(id, STEP, |record| record.counts.sent == 1).await;
    }
    let id = rig.broadcast().await;
    assert_eq!(rig.until(&id, is_completed).await.counts.sent, 50);
    for id in &slow {
        rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await.unwrap();
        let has_ended = |record: &NotificationRecord| record.status == NotificationStatus::Canceled;
        let record = rig.advance_until(id, STEP, has_ended).await;
        assert_eq!(record.counts.sent + record.counts.canceled, 50);
        assert!(record.counts.sent < 5, "{:?}", record.counts);
    }
    rig.stop().await;
}

#[tokio::test]
async fn what_the_rate_does_not_reach_in_time_expires() {
    let mut rig = Rig::new(10).await;
    rig.devices(50).await;
    rig.start();
    let id = rig.accept(to_android().per_minute(10).ttl_seconds(60)).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    let (sent, expired) = (record.counts.sent, record.counts.expired);
    assert_eq!(sent + expired, 50);
    assert!((5..=11).contains(&sent), "{sent} at 10 a minute");
    rig.stop().await;
}

// Canaries.

fn canary(percent: u32) -> Canary {
    Canary { wait_seconds: Some(60), ..Canary::percent(percent) }
}

/// Starts a notification with a canary to 200 devices. Waits until the canary was sent, and returns its
/// size.
async fn canary_sent(rig: &mut Rig, request: CreateNotification) -> (NotificationId, u64) {
    // The whole canary is found with one page.
    rig.config.page_rows = 1_000;
    rig.devices(200).await;
    rig.start();
    let id = rig.accept(request).await;
    let is_sent = |record: &NotificationRecord| {
        record.counts.targeted > 0 && record.counts.sent == record.counts.targeted
    };
    let size = rig.until(&id, is_sent).await.counts.sent;
    assert!((8..=40).contains(&size), "{size} are some 10 % of 200");
    (id, size)
}

#[tokio::test]
async fn the_rest_follows_a_canary_that_did_not_fail() {
    let mut rig = Rig::new(10).await;
    let (id, size) = canary_sent(&mut rig, to_android().canary(canary(10))).await;
    advance(&rig, Duration::from_secs(50)).await;
    assert_eq!(rig.read(&id).await.counts.sent, size, "the canary waits for its judgement");
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (200, 200));
    assert!(by_token(&rig.provider).values().all(|times| *times == 1), "each once");
    rig.stop().await;
}

#[tokio::test]
async fn a_canary_that_fails_stops_the_rest_until_it_is_resumed() {
    let rejected = SendResult::InvalidMessage { reason: "bad".into() };
    let later = SendResult::Retry {
        reason: "unavailable".into(),
        after: Some(Duration::from_secs(7_200)),
        outcome: Processing::NotProcessed,
    };
    // Deliveries that are still pending count as failed ones do.
    for answer in [rejected, later] {
        let mut rig = Rig::new(10).await;
        rig.devices(200).await;
        let first = answer.clone();
        rig.provider.script(move |_, number| {
            ScriptedAnswer::Answer(if number == 1 { first.clone() } else { delivered() })
        });
        rig.start();
        let id = rig.accept(to_android().canary(canary(10))).await;
        let is_paused = |record: &NotificationRecord| record.paused.is_some();
        let record = rig.advance_until(&id, STEP, is_paused).await;
        assert_eq!(record.paused.unwrap().reason, "canary_failed");
        let attempts = rig.provider.journal().len();
        assert!((8..=40).contains(&attempts), "{attempts}");
        advance(&rig, JUDGED_WITHIN).await;
        assert_eq!(rig.provider.journal().len(), attempts, "nothing more");
        rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
        let now = rig.clock.now();
        rig.store.resume_notification(rig.app, id.clone(), now, None).await.unwrap();
        let is_reached = |record: &NotificationRecord| {
            record.counts.targeted == 200 && record.counts.sent >= 160
        };
        let record = rig.until(&id, is_reached).await;
        assert_eq!(record.paused, None);
        rig.stop().await;
    }
}

#[tokio::test]
async fn a_notification_can_pause_after_its_canary() {
    let mut rig = Rig::new(10).await;
    let canary = Canary { then: Some("pause".into()), ..canary(10) };
    let (id, size) = canary_sent(&mut rig, to_android().canary(canary)).await;
    let record = rig.advance_until(&id, STEP, |record| record.paused.is_some()).await;
    assert_eq!(record.paused.unwrap().reason, "canary_done");
    advance(&rig, JUDGED_WITHIN).await;
    assert_eq!(rig.read(&id).await.counts.sent, size);
    rig.store.resume_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
    assert_eq!(rig.until(&id, is_completed).await.counts.sent, 200);
    rig.stop().await;
}

#[tokio::test]
async fn a_canary_without_a_device_lets_the_rest_go_at_once() {
    let mut rig = Rig::new(10).await;
    rig.devices(1).await;
    rig.start();
    // One percent of one device.
    let id = rig.accept(to_android().canary(Canary::percent(1))).await;
    let before = rig.clock.now();
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!(record.counts.sent, 1);
    assert!(rig.clock.now().ms_since(before) < 30_000, "it does not wait 600 seconds");
    rig.stop().await;
}

#[tokio::test]
async fn a_pause_by_request_and_a_crash_keep_the_rest_waiting() {
    let mut rig = Rig::new(10).await;
    let (id, size) = canary_sent(&mut rig, to_android().canary(canary(10))).await;
    rig.store.pause_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
    advance(&rig, JUDGED_WITHIN).await;
    rig.crash().await;
    rig.start();
    rig.store.resume_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
    assert_eq!(rig.read(&id).await.counts.sent, size, "the rest waits for the judgement");
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.sent, record.paused), (200, None));
    assert!(by_token(&rig.provider).values().all(|times| *times == 1), "each once");
    rig.stop().await;
}

#[tokio::test]
async fn the_rest_of_a_canary_can_be_canceled_and_expires() {
    let mut rig = Rig::new(10).await;
    let (id, size) = canary_sent(&mut rig, to_android().canary(canary(10))).await;
    rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await.unwrap();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Canceled).await;
    assert_eq!((record.counts.sent, record.counts.canceled), (size, 200 - size));
    let request = to_android().canary(canary(10)).ttl_seconds(30);
    let id = rig.accept(request).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!(record.counts.sent + record.counts.expired, 200);
    assert!(record.counts.expired >= 160, "{:?}", record.counts);
    rig.stop().await;
}

#[tokio::test]
async fn named_devices_are_drawn_too_and_the_rate_holds_in_the_canary() {
    let mut rig = Rig::new(10).await;
    rig.devices(100).await;
    let attempts = Attempts::default();
    attempts.record(&rig, &rig.provider, delivered());
    rig.start();
    let ids: Vec<String> = (0..100).map(|number| format!("d{number:05}")).collect();
    let request = CreateNotification::to_any_devices(ids.into_iter().chain(["none".into()]), "Hi");
    let request = request.unwrap().canary(canary(50)).per_minute(60);
    let id = rig.accept(request).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    let counts = record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.unknown), (100, 100, 1));
    let times = attempts.first_attempts();
    assert!(Attempts::most_in_a_minute(&times) <= 65);
    // The canary waited for its judgement.
    let longest = times.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest.is_some_and(|longest| longest >= 60_000), "{longest:?}");
    rig.stop().await;
}
