//! Notifications with the same `collapse_key`: an older one never replaces a later one on a device.

use std::time::Duration;

use notify_core::{
    Canary, CreateNotification, NotificationId, NotificationRecord, NotificationStatus, Platform,
};

use super::rig::{Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, SendResult};
use crate::store::{DeliveryFilter, PageRequest};

const STEP: Duration = Duration::from_secs(1);
/// After this time, a first attempt counts as late.
const LATE_AFTER: Duration = Duration::from_secs(2);
const DEVICES: u64 = 40;

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

fn score(request: CreateNotification) -> CreateNotification {
    CreateNotification { collapse_key: Some("score".into()), ..request }
}

fn to_all() -> CreateNotification {
    score(CreateNotification::to_platforms([Platform::Android], "1:0"))
}

fn to_one() -> CreateNotification {
    score(CreateNotification::to_devices(["d00003"], [], "1:0").unwrap())
}

async fn rig() -> Rig {
    let mut rig = Rig::new(10).await;
    rig.devices(usize::try_from(DEVICES).unwrap()).await;
    rig.start();
    rig
}

/// Sends a notification to all devices, and waits until it has ended.
async fn send_to_all(rig: &Rig) {
    let id = rig.accept(to_all()).await;
    let record = rig.until(&id, is_completed).await;
    assert_eq!(record.counts.sent, DEVICES);
}

/// How many deliveries ended because a later notification was sent. No other delivery has expired.
async fn overtaken(rig: &Rig, id: &NotificationId) -> u64 {
    let filter = DeliveryFilter { reason: Some("overtaken".into()), ..DeliveryFilter::default() };
    let (mut count, mut cursor) = (0, None);
    loop {
        let page = PageRequest { limit: 1_000, cursor };
        let listed = rig.store.list_deliveries(rig.app, id.clone(), filter.clone(), page);
        let listed = listed.await.unwrap();
        count += listed.rows.len() as u64;
        cursor = listed.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(rig.read(id).await.counts.expired, count);
    count
}

/// Lets the attempt with that number fail at each address, counted from 1.
fn fail_attempt(rig: &Rig, number: usize) {
    rig.provider.script(move |_, attempt| {
        let reason = "UNAVAILABLE".into();
        let failed = SendResult::Retry { reason, after: None, outcome: Processing::Failed };
        ScriptedAnswer::Answer(if attempt == number { failed } else { delivered() })
    });
}

#[tokio::test]
async fn a_retry_does_not_replace_a_later_notification() {
    let rig = rig().await;
    fail_attempt(&rig, 1);
    let old = rig.accept(to_one()).await;
    rig.provider.arrived(1).await;
    rig.until(&old, |record| record.counts.pending == 1).await;
    rig.clock.advance(Duration::from_millis(1));
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    send_to_all(&rig).await;
    rig.advance_until(&old, STEP, is_completed).await;
    assert_eq!(overtaken(&rig, &old).await, 1);
    let attempts = rig.provider.journal().len() as u64;
    assert_eq!(attempts, 1 + DEVICES, "the older one is not attempted again");
}

#[tokio::test]
async fn a_resumed_notification_does_not_replace_a_later_one() {
    let rig = rig().await;
    let mut paused = Vec::new();
    for (request, count) in [(to_all(), DEVICES), (to_one(), 1)] {
        let id = rig.accept(request.send_at(START.plus_ms(20_000))).await;
        rig.store.pause_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
        paused.push((id, count));
    }
    for (id, _) in &paused {
        rig.advance_until(id, STEP, |record| record.started_at.is_some()).await;
    }
    rig.clock.advance(LATE_AFTER);
    send_to_all(&rig).await;
    for (id, count) in &paused {
        rig.store.resume_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
        rig.until(id, is_completed).await;
        assert_eq!(overtaken(&rig, id).await, *count);
    }
    assert_eq!(rig.provider.journal().len() as u64, DEVICES);
}

#[tokio::test]
async fn the_rest_behind_a_canary_or_a_rate_does_not_replace_a_later_notification() {
    let canary = Canary { wait_seconds: Some(60), ..Canary::percent(10) };
    for slow in [to_all().canary(canary), to_all().per_minute(24)] {
        let rig = rig().await;
        let old = rig.accept(slow).await;
        rig.advance_until(&old, STEP, |record| record.counts.sent > 0).await;
        rig.clock.advance(LATE_AFTER);
        send_to_all(&rig).await;
        let record = rig.advance_until(&old, STEP, is_completed).await;
        let sent = record.counts.sent;
        assert!(0 < sent && sent < DEVICES, "{record:?}");
        assert_eq!(overtaken(&rig, &old).await, DEVICES - sent);
        assert_eq!(rig.provider.journal().len() as u64, DEVICES + sent);
    }
}

/// The one that became due last replaces the others, whenever they were created.
#[tokio::test]
async fn a_scheduled_notification_is_not_overtaken_by_what_was_sent_before_it_was_due() {
    let due_at = START.plus_ms(20_000);
    for (request, count) in [(to_all(), DEVICES), (to_one(), 1)] {
        let rig = rig().await;
        let scheduled = rig.accept(request.send_at(due_at)).await;
        send_to_all(&rig).await;
        // Each of its deliveries has a retry, too.
        fail_attempt(&rig, 2);
        let record = rig.advance_until(&scheduled, STEP, is_completed).await;
        assert!(record.completed_at.unwrap() > due_at, "{record:?}");
        assert_eq!((record.counts.sent, overtaken(&rig, &scheduled).await), (count, 0));
        assert_eq!(rig.provider.journal().len() as u64, DEVICES + 2 * count);
    }
}

#[tokio::test]
async fn a_late_notification_is_overtaken_by_one_that_was_created_before_it() {
    let rig = rig().await;
    let later = rig.accept(to_all().send_at(START.plus_ms(20_000))).await;
    let old = rig.accept(to_one().send_at(START.plus_ms(10_000))).await;
    rig.store.pause_notification(rig.app, old.clone(), rig.clock.now(), None).await.unwrap();
    rig.advance_until(&later, STEP, is_completed).await;
    rig.store.resume_notification(rig.app, old.clone(), rig.clock.now(), None).await.unwrap();
    rig.until(&old, is_completed).await;
    assert_eq!(overtaken(&rig, &old).await, 1);
}

#[tokio::test]
async fn devices_that_did_not_get_the_later_notification_get_the_late_one() {
    let rig = rig().await;
    let old = rig.accept(to_all().send_at(START.plus_ms(20_000))).await;
    rig.store.pause_notification(rig.app, old.clone(), rig.clock.now(), None).await.unwrap();
    rig.advance_until(&old, STEP, |record| record.started_at.is_some()).await;
    rig.clock.advance(LATE_AFTER);
    let later = rig.accept(to_one()).await;
    rig.until(&later, is_completed).await;
    rig.store.resume_notification(rig.app, old.clone(), rig.clock.now(), None).await.unwrap();
    let record = rig.until(&old, is_completed).await;
    assert_eq!((record.counts.sent, overtaken(&rig, &old).await), (DEVICES - 1, 1));
}
