//! Pausing and resuming notifications.

use std::collections::HashMap;
use std::time::Duration;

use notify_core::{
    CreateNotification, NotificationId, NotificationRecord, NotificationStatus, Platform,
};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, SendResult};

const STEP: Duration = Duration::from_secs(1);
/// Steps in which a paused notification must stay as it is.
const STEPS: usize = 40;

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

async fn pause(rig: &Rig, id: &NotificationId) {
    rig.store.pause_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
}

async fn resume(rig: &Rig, id: &NotificationId) {
    rig.store.resume_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
}

async fn advance(rig: &Rig) {
    for _ in 0..STEPS {
        rig.step(STEP).await;
    }
}

/// How often each token was sent to.
fn attempts(provider: &FakeProvider) -> HashMap<String, usize> {
    let mut attempts = HashMap::new();
    for token in provider.journal() {
        *attempts.entry(token).or_default() += 1;
    }
    attempts
}

/// A rig with a notification whose first ten deliveries are in flight when it is paused.
async fn paused_while_sending(devices: usize) -> (Rig, NotificationId) {
    let mut rig = Rig::new(10).await;
    rig.devices(devices).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(10).await;
    pause(&rig, &id).await;
    rig.provider.release();
    rig.until(&id, |record| record.counts.sent == 10).await;
    (rig, id)
}

#[tokio::test]
async fn a_paused_notification_starts_nothing_and_leaves_the_lane_to_others() {
    let (mut rig, id) = paused_while_sending(300).await;
    advance(&rig).await;
    let record = rig.read(&id).await;
    assert_eq!((record.status, record.counts.sent), (NotificationStatus::Sending, 10));
    let pause = record.paused.unwrap();
    assert_eq!((pause.at, pause.reason.as_str()), (START, "requested"));
    assert_eq!(rig.provider.journal().len(), 10);
    let other = rig.broadcast().await;
    let record = rig.until(&other, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (300, 300));
    assert_eq!(rig.provider.journal().len(), 310);
    resume(&rig, &id).await;
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (300, 300));
    assert_eq!(record.paused, None);
    assert!(attempts(&rig.provider).values().all(|times| *times == 2), "once for each");
    rig.stop().await;
}

#[tokio::test]
async fn a_pause_survives_a_crash_and_a_restart() {
    let (mut rig, id) = paused_while_sending(300).await;
    for is_crash in [true, false] {
        if is_crash {
            rig.crash().await
        } else {
            rig.stop().await
        }
        rig.start();
        advance(&rig).await;
        assert_eq!(rig.provider.journal().len(), 10, "after a crash: {is_crash}");
    }
    resume(&rig, &id).await;
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (300, 300));
    assert!(attempts(&rig.provider).values().all(|times| *times == 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_paused_notification_can_be_canceled() {
    let (mut rig, id) = paused_while_sending(300).await;
    rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await.unwrap();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Canceled).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (300, 10));
    assert_eq!((record.counts.canceled, record.paused), (290, None));
    assert_eq!(rig.provider.journal().len(), 10);
    rig.stop().await;
}

/// The retries of a paused notification fill the backlog of the lane, and do not count in it.
#[tokio::test]
async fn retries_of_a_paused_notification_wait_and_leave_the_lane_to_others() {
    let mut rig = Rig::new(10).await;
    rig.config.lane_retry_rows_max = 5;
    rig.devices(5).await;
    rig.provider.script(|_, attempt| {
        let reason = "unavailable".into();
        let failed = SendResult::Retry { reason, after: None, outcome: Processing::NotProcessed };
        ScriptedAnswer::Answer(if attempt == 1 { failed } else { delivered() })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(5).await;
    rig.retry_due_within(START, 10_000).await;
    pause(&rig, &id).await;
    let other = rig.broadcast().await;
    let record = rig.advance_until(&other, STEP, is_completed).await;
    assert_eq!(record.counts.sent, 5);
    advance(&rig).await;
    assert_eq!(rig.provider.journal().len(), 10);
    assert_eq!(rig.read(&id).await.counts.pending, 5);
    resume(&rig, &id).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.sent, rig.provider.journal().len()), (5, 15));
    rig.stop().await;
}

#[tokio::test]
async fn one_that_falls_due_while_paused_fixes_its_audience_and_waits() {
    let mut rig = Rig::new(10).await;
    rig.devices(20).await;
    rig.start();
    let later = |rig: &Rig| {
        CreateNotification::to_platforms([Platform::Android], "Hello")
            .send_at(rig.clock.now().plus_ms(20_000))
    };
    let id = rig.accept(later(&rig)).await;
    let to_one = CreateNotification::to_devices(["d00003"], [], "Hello").unwrap();
    let single = rig.accept(to_one.send_at(START.plus_ms(20_000))).await;
    for id in [&id, &single] {
        pause(&rig, id).await;
    }
    let is_started = |record: &NotificationRecord| record.started_at.is_some();
    rig.advance_until(&id, STEP, is_started).await;
    rig.advance_until(&single, STEP, is_started).await;
    rig.device("late").await;
    advance(&rig).await;
    assert_eq!(rig.provider.journal(), Vec::<String>::new());
    for (id, count) in [(&id, 20), (&single, 1)] {
        assert!(rig.read(id).await.paused.is_some());
        resume(&rig, id).await;
        let record = rig.until(id, is_completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (count, count));
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_pause_does_not_stop_the_expiry() {
    let mut rig = Rig::new(10).await;
    rig.devices(120).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let request = CreateNotification::to_platforms([Platform::Android], "Hello").ttl_seconds(60);
    let id = rig.accept(request).await;
    rig.provider.arrived(10).await;
    pause(&rig, &id).await;
    rig.provider.release();
    rig.until(&id, |record| record.counts.sent == 10).await;
    let record = rig.advance_until(&id, STEP, is_completed).await;
    assert_eq!((record.counts.sent, record.counts.expired), (10, 110));
    assert!(record.completed_at.unwrap() >= START.plus_ms(60_000), "{record:?}");
    assert_eq!(record.paused, None, "a notification that has ended does not wait");
    let refused = rig.store.resume_notification(rig.app, id, rig.clock.now(), None).await;
    assert!(refused.is_err(), "it has ended");
    rig.stop().await;
}

/// A server to which no change is announced reads it with its next heartbeat.
#[tokio::test]
async fn a_server_that_missed_a_pause_and_its_end_reads_them_with_its_heartbeat() {
    let mut rig = Rig::new(8).await;
    rig.config.clustered = true;
    rig.config.page_rows = 10;
    rig.devices(100).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(8).await;
    let until = START.plus_ms(86_400_000).as_ms();
    rig.execute_raw(&format!(
        "update notifications set paused_at = 1, paused_reason = 'requested';
         update dispatches set paused_until = {until}"
    ));
    let beaten = async {
        let mut progress = rig.progress();
        while !rig.is_paused_in_memory() {
            rig.clock.advance(Duration::from_secs(3));
            let _ = tokio::time::timeout(Duration::from_millis(100), progress.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), beaten).await.expect("it learns of the pause");
    rig.provider.release();
    rig.until(&id, |record| record.counts.sent == 8).await;
    advance(&rig).await;
    assert_eq!(rig.provider.journal().len(), 8);
    rig.execute_raw(
        "update notifications set paused_at = null, paused_reason = null;
         update dispatches set paused_until = null",
    );
    let record = rig.advance_until(&id, Duration::from_secs(3), is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (100, 100));
    assert!(attempts(&rig.provider).values().all(|times| *times == 1));
    rig.stop().await;
}
