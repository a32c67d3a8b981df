//! Many addresses that look dead at once, addresses that moved, and notifications that replace each
//! other.

use std::time::Duration;

use notify_core::{CreateNotification, NotificationRecord, NotificationStatus, ProviderKind};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::providers::SendResult;

fn looks_dead() -> SendResult {
    SendResult::Unregistered { reason: "BadDeviceToken".into(), ambiguous: true, since: None }
}

fn is_finished(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// The wrong host makes every token look dead. No device stays disabled, and unsent deliveries wait
/// for an administrator.
#[tokio::test]
async fn tokens_that_look_dead_en_masse_stop_the_lane_and_stay_enabled() {
    let mut rig = Rig::new(8).await;
    rig.config.checkpoint_outcomes = 5;
    rig.devices(500).await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(looks_dead()));
    rig.start();
    let id = rig.broadcast().await;
    let stopped = |record: &NotificationRecord| record.counts.unregistered > 20;
    let record = rig.until(&id, stopped).await;
    assert_eq!(
        record.counts.unregistered, 21,
        "20 and the one that trips the guard; the rest waits"
    );
    assert_eq!(record.counts.pending, record.counts.targeted - 21);
    assert!(rig.provider.journal().len() < 40, "only attempts in flight were added");
    let counted =
        rig.store.count_devices(rig.app, None, super::rig::START, super::rig::START).await;
    assert_eq!(counted.unwrap()[0].disabled, 0, "no device is disabled");

    let attempts = rig.provider.journal().len();
    rig.crash().await;
    rig.start();
    let ios = rig.accept(CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..CreateNotification::default()
    });
    rig.until(&ios.await, is_finished).await;
    rig.clock.advance(Duration::from_secs(3_600));
    assert_eq!(rig.provider.journal().len(), attempts, "the lane is still tripped after the crash");
    let other = FakeProvider::new(8);
    rig.configure(ProviderKind::Fcm, Some(other.clone())).await;
    let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
    assert_eq!((record.counts.sent, record.counts.unregistered), (479, 21));
    assert_eq!(other.journal().len(), 479, "each device gets the message once");
    rig.stop().await;
}

/// A group that became another chat keeps its device, which gets the message at the new address.
#[tokio::test]
async fn a_moved_address_is_retried_at_once() {
    let mut rig = Rig::new(4).await;
    rig.devices(3).await;
    rig.provider.script(|token, _| match token {
        "token-d00001" => {
            ScriptedAnswer::Answer(SendResult::AddressChanged { to: "elsewhere".into() })
        }
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, is_finished).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (3, 3));
    let next = rig.broadcast().await;
    rig.until(&next, is_finished).await;
    let journal = rig.provider.journal();
    let times = |token: &str| journal.iter().filter(|sent| *sent == token).count();
    assert_eq!((times("token-d00001"), times("elsewhere")), (1, 2));
    rig.stop().await;
}

/// At the limit of open retries, no first attempt starts before some of them end.
#[tokio::test]
async fn retries_are_bounded_and_go_first() {
    let mut rig = Rig::new(4).await;
    rig.config.lane_retry_rows_max = 20;
    rig.config.checkpoint_outcomes = 5;
    rig.devices(200).await;
    let unavailable = || SendResult::Throttle {
        reason: "busy".into(),
        after: None,
        scope: crate::providers::Scope::Address,
    };
    rig.provider.script(move |_, attempt| match attempt {
        1 => ScriptedAnswer::Answer(unavailable()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(20).await;
    for _ in 0..50 {
        let open = rig
            .store
            .open_retries(rig.app, notify_core::Platform::Android, super::rig::START)
            .await
            .unwrap();
        let attempts = rig.provider.journal().len();
        assert!(
            open <= 24 && attempts <= 24,
            "{open} open, {attempts} attempts: only 4 in flight may exceed the limit"
        );
    }
    let record = rig.advance_until(&id, Duration::from_millis(500), is_finished).await;
    assert_eq!(record.counts.sent, 200);
    assert_eq!(rig.provider.journal().len(), 400, "each device is tried once more");
    rig.stop().await;
}

/// If the answer for one address rejects our credentials, the others are not held.
#[tokio::test]
async fn one_rejected_address_does_not_hold_others() {
    let mut rig = Rig::new(1).await;
    rig.devices(20).await;
    rig.provider.script(|token, _| match token {
        "token-d00003" => {
            ScriptedAnswer::Answer(SendResult::AuthRejected { reason: "PERMISSION_DENIED".into() })
        }
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.counts.sent == 19).await;
    assert_eq!((record.counts.pending, record.counts.failed), (1, 0));
    // While others succeed, its delivery is retried a few times and then fails.
    let named = CreateNotification {
        text: Some("Hello".into()),
        android_device_ids: Some(vec!["d00001".into()]),
        ..CreateNotification::default()
    };
    let mut record = rig.read(&id).await;
    for _ in 0..50 {
        if is_finished(&record) {
            break;
        }
        rig.clock.advance(Duration::from_secs(120));
        let other = rig.accept(named.clone()).await;
        rig.advance_until(&other, Duration::from_secs(1), is_finished).await;
        record = rig.read(&id).await;
    }
    assert_eq!((record.counts.sent, record.counts.failed), (19, 1));
    assert_eq!(record.failures[0].reason, "PERMISSION_DENIED");
    rig.stop().await;
}
