//! Crashes while messages are sent whose platform cannot recognise a repeat.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use notify_core::{
    AppChange, CreateNotification, NotificationId, NotificationRecord, NotificationStatus, OnCrash,
    Platform, ProviderKind,
};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, SendResult};

/// A raw data message, which has no identity.
fn raw() -> CreateNotification {
    let payload = serde_json::from_str(r#"{"event":"sale"}"#).unwrap();
    CreateNotification::to_platforms([Platform::Android], "Sale").android_json(payload)
}

async fn skip(rig: &Rig) {
    let change = AppChange { on_crash: Some(OnCrash::Skip), ..AppChange::default() };
    rig.store.change_app(rig.app_id, change).await.unwrap();
}

/// An answer after which the message is sent again.
fn busy() -> SendResult {
    SendResult::Retry { reason: "busy".into(), after: None, outcome: Processing::NotProcessed }
}

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// How often each token was sent to.
fn by_token(provider: &FakeProvider) -> BTreeMap<String, usize> {
    let mut attempts = BTreeMap::new();
    for token in provider.journal() {
        *attempts.entry(token).or_default() += 1;
    }
    attempts
}

/// Answers that many attempts, and leaves all others without an answer.
fn answer_until(provider: &Arc<FakeProvider>, until: usize) {
    let journal = provider.clone();
    provider.script(move |_, _| {
        if journal.journal().len() < until {
            ScriptedAnswer::Answer(delivered())
        } else {
            ScriptedAnswer::Held(delivered())
        }
    });
}

/// Crashes the server again and again during a notification to 120 devices. Returns its record at the end.
async fn crash_repeatedly(rig: &mut Rig) -> NotificationRecord {
    let id = rig.accept(raw()).await;
    for round in 1..=4 {
        let until = round * 20;
        answer_until(&rig.provider, until);
        rig.start();
        rig.provider.arrived(until + 1).await;
        rig.crash().await;
    }
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = rig.until(&id, is_completed).await;
    rig.stop().await;
    record
}

#[tokio::test]
async fn a_crash_repeats_no_more_raw_messages_than_their_limit() {
    let mut rig = Rig::new(40).await;
    rig.config.max_unacked_without_dedup = 6;
    rig.devices(120).await;
    let record = crash_repeatedly(&mut rig).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (120, 120));
    let attempts = by_token(&rig.provider);
    assert_eq!(attempts.len(), 120);
    let repeats: usize = attempts.values().map(|count| count - 1).sum();
    assert!((1..=4 * 6).contains(&repeats), "{repeats}");
}

#[tokio::test]
async fn no_message_is_repeated_after_a_crash_if_the_application_skips_them() {
    let mut rig = Rig::new(40).await;
    rig.config.max_unacked_without_dedup = 6;
    rig.devices(120).await;
    skip(&rig).await;
    let record = crash_repeatedly(&mut rig).await;
    let attempts = by_token(&rig.provider);
    assert!(attempts.values().all(|count| *count == 1), "{attempts:?}");
    let failed = record.counts.failed;
    assert!(
        (4..=4 * 6).contains(&failed),
        "at least the message in flight at each crash: {failed}"
    );
    assert_eq!(record.counts.sent + failed, 120);
    let failures: Vec<_> =
        record.failures.iter().map(|row| (row.reason.as_str(), row.count)).collect();
    assert_eq!(failures, [("outcome_unknown", failed)]);
}

#[tokio::test]
async fn a_message_with_an_identity_is_repeated_in_any_case() {
    let mut rig = Rig::new(10).await;
    rig.devices(3).await;
    skip(&rig).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(3).await;
    rig.crash().await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.sent, rig.provider.journal().len()), (3, 6));
    rig.stop().await;
}

#[tokio::test]
async fn a_notification_to_one_device_is_not_repeated() {
    let mut rig = Rig::new(10).await;
    rig.devices(1).await;
    skip(&rig).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let one = CreateNotification::to_devices(["d00000"], [], "Sale").unwrap();
    let payload = serde_json::from_str(r#"{"event":"sale"}"#).unwrap();
    let id = rig.accept(one.android_json(payload)).await;
    rig.provider.arrived(1).await;
    rig.crash().await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = rig.until(&id, is_completed).await;
    assert_eq!(rig.provider.journal().len(), 1, "nothing is sent after the crash");
    assert_eq!((record.counts.sent, record.counts.failed), (0, 1));
    assert_eq!(record.failures[0].reason, "outcome_unknown");
    rig.stop().await;
}

#[tokio::test]
async fn nothing_is_in_doubt_after_a_pause_and_an_orderly_stop() {
    let mut rig = Rig::new(4).await;
    rig.config.max_unacked_without_dedup = 4;
    rig.devices(40).await;
    skip(&rig).await;
    answer_until(&rig.provider, 10);
    rig.start();
    let id = rig.accept(raw()).await;
    rig.provider.arrived(11).await;
    rig.store.pause_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
    rig.provider.release();
    rig.stop().await;
    let sent = rig.read(&id).await.counts.sent;
    assert_eq!(sent, rig.provider.journal().len() as u64);
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    rig.store.resume_notification(rig.app, id.clone(), rig.clock.now(), None).await.unwrap();
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (40, 0));
    assert!(by_token(&rig.provider).values().all(|count| *count == 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_chat_provider_without_answers_leaves_permits_for_others() {
    let mut rig = Rig::new(10).await;
    rig.config.max_unacked_without_dedup = 8;
    let chat = FakeProvider::new(50);
    chat.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.configure(ProviderKind::Telegram, Some(chat.clone())).await;
    for number in 0..20 {
        rig.chat(&format!("c{number}"), &format!("10{number}")).await;
    }
    rig.devices(20).await;
    rig.start();
    rig.broadcast_to(Platform::ChatApp).await;
    chat.arrived(2).await;
    let id = rig.accept(raw()).await;
    rig.until(&id, is_completed).await;
    assert_eq!(chat.journal().len(), 2, "a quarter of the permits");
    chat.release();
    rig.stop().await;
}

#[tokio::test]
async fn raw_messages_without_answers_leave_permits_for_others() {
    let mut rig = Rig::new(10).await;
    rig.config.max_unacked_without_dedup = 8;
    rig.devices(20).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    let chat = FakeProvider::new(50);
    chat.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.configure(ProviderKind::Telegram, Some(chat.clone())).await;
    rig.chat("c0", "100").await;
    rig.start();
    rig.accept(raw()).await;
    rig.provider.arrived(6).await;
    let id = rig.broadcast_to(Platform::ChatApp).await;
    rig.until(&id, is_completed).await;
    assert_eq!(rig.provider.journal().len(), 6, "three quarters of the permits");
    rig.provider.release();
    rig.stop().await;
}

/// A server that crashed while retries to three devices were in flight.
async fn crashed_during_retries() -> (Rig, NotificationId) {
    let mut rig = Rig::new(10).await;
    rig.devices(3).await;
    skip(&rig).await;
    rig.provider.script(|_, number| match number {
        1 => ScriptedAnswer::Answer(busy()),
        _ => ScriptedAnswer::Held(delivered()),
    });
    rig.start();
    let id = rig.accept(raw()).await;
    rig.advance_until_arrived(6, Duration::from_secs(1)).await;
    rig.crash().await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    (rig, id)
}

#[tokio::test]
async fn retries_in_doubt_end_whatever_happens_to_their_notification() {
    for (is_canceled, is_paused, failed) in [(false, false, 3), (true, false, 0), (false, true, 3)]
    {
        let (mut rig, id) = crashed_during_retries().await;
        let now = rig.clock.now();
        if is_canceled {
            rig.store.cancel_notification(rig.app, id.clone(), now).await.unwrap();
        }
        if is_paused {
            rig.store.pause_notification(rig.app, id.clone(), now, None).await.unwrap();
        }
        rig.start();
        if is_paused {
            rig.store.resume_notification(rig.app, id.clone(), now, None).await.unwrap();
        }
        let record = rig.until(&id, |record| record.completed_at.is_some()).await;
        assert_eq!((record.counts.sent, record.counts.failed), (0, failed));
        assert_eq!(rig.provider.journal().len(), 6, "nothing is sent after the crash");
        rig.stop().await;
    }
}

#[tokio::test]
async fn one_permit_is_enough_for_messages_of_both_kinds() {
    for skips in [false, true] {
        let mut rig = Rig::new(1).await;
        rig.config.max_unacked_without_dedup = 1;
        rig.devices(10).await;
        if skips {
            skip(&rig).await;
        }
        rig.provider.script(|_, number| {
            ScriptedAnswer::Answer(if number == 1 { busy() } else { delivered() })
        });
        rig.start();
        let ids = [rig.accept(raw()).await, rig.broadcast().await];
        for id in ids {
            let record = rig.advance_until(&id, Duration::from_secs(1), is_completed).await;
            assert_eq!((record.counts.sent, record.counts.failed), (10, 0));
        }
        rig.stop().await;
    }
}

#[tokio::test]
async fn only_granted_attempts_are_recorded() {
    let mut rig = Rig::new(10).await;
    rig.devices(6).await;
    skip(&rig).await;
    rig.start();
    let id = rig.accept(raw().per_minute(48)).await;
    // Two attempts are granted every 2.5 seconds.
    rig.provider.arrived(2).await;
    rig.crash().await;
    rig.start();
    let record = rig.advance_until(&id, Duration::from_millis(500), is_completed).await;
    assert!(record.counts.failed <= 2, "{record:?}");
    assert_eq!(record.counts.sent + record.counts.failed, 6);
    assert!(by_token(&rig.provider).values().all(|count| *count == 1));
    rig.stop().await;
}
