//! Changes while a notification is being sent: of providers, devices and storage.

use std::time::Duration;

use notify_core::{
    CreateNotification, NotificationId, NotificationStatus, ProviderKind, RegisterDevice,
};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::SendResult;
use crate::store::StoreError;
use crate::store::sqlite::Fault;

fn refused() -> SendResult {
    SendResult::AuthRejected { reason: "PERMISSION_DENIED".into() }
}

fn to_device(name: &str) -> CreateNotification {
    CreateNotification {
        text: Some("You have mail".into()),
        android_device_ids: Some(vec![name.into()]),
        ..CreateNotification::default()
    }
}

async fn until_all_are_completed(rig: &Rig, ids: &[NotificationId]) {
    for id in ids {
        rig.until(id, |record| record.status == NotificationStatus::Completed).await;
    }
}

/// Deliveries that wait for one provider do not stop those of another, even if many wait.
#[tokio::test]
async fn a_held_lane_does_not_stop_the_others() {
    let mut rig = Rig::new(4).await;
    (rig.config.lane_dispatches_max, rig.config.lane_pages_max) = (3, 2);
    rig.devices(1).await;
    rig.register(RegisterDevice::ios("phone", "00ff")).await;
    let apns = FakeProvider::new(4);
    rig.configure(ProviderKind::Apns, Some(apns.clone())).await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(refused()));
    rig.start();
    let mut held = Vec::new();
    for _ in 0..40 {
        held.push(rig.accept(to_device("d00000")).await);
    }
    rig.provider.arrived(1).await;
    let ios = CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..CreateNotification::default()
    };
    let id = rig.accept(ios).await;
    until_all_are_completed(&rig, &[id]).await;
    assert_eq!(apns.journal(), ["00ff"]);
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.configure(ProviderKind::Fcm, Some(rig.provider.clone())).await;
    for id in &held {
        let is_finished = |record: &notify_core::NotificationRecord| {
            record.status == NotificationStatus::Completed
        };
        rig.advance_until(id, Duration::from_secs(1), is_finished).await;
    }
    assert_eq!(rig.provider.delivered().len(), 40, "each device gets the message once");
    rig.stop().await;
}

/// A provider that does not answer takes only a share of the unacked permits.
#[tokio::test]
async fn a_lane_without_answers_leaves_permits_to_the_others() {
    let mut rig = Rig::new(100).await;
    (rig.config.max_unacked, rig.config.lane_streams_max) = (20, 15);
    rig.devices(60).await;
    rig.register(RegisterDevice::ios("phone", "00ff")).await;
    rig.configure(ProviderKind::Apns, Some(FakeProvider::new(4))).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let silent = rig.broadcast().await;
    rig.provider.arrived(15).await;
    let ios = CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..CreateNotification::default()
    };
    let id = rig.accept(ios).await;
    until_all_are_completed(&rig, &[id]).await;
    assert_eq!(rig.provider.journal().len(), 15);
    rig.provider.release();
    until_all_are_completed(&rig, &[silent]).await;
    rig.stop().await;
}

#[tokio::test]
async fn a_provider_that_changes_while_it_is_read_is_read_again() {
    let mut rig = Rig::new(4).await;
    rig.devices(10).await;
    rig.source.set_open(false);
    rig.start();
    let id = rig.broadcast().await;
    rig.source.reads_started(1).await;
    let new = FakeProvider::new(4);
    rig.configure(ProviderKind::Fcm, Some(new.clone())).await;
    rig.source.set_open(true);
    until_all_are_completed(&rig, &[id]).await;
    assert_eq!((rig.provider.journal().len(), new.journal().len()), (0, 10));
    rig.stop().await;
}

/// Held deliveries resume when the credentials are corrected, even if answers to requests with the old
/// credentials arrive late.
#[tokio::test]
async fn a_late_refusal_of_old_credentials_does_not_hold_the_new_ones() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(refused()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    let new = FakeProvider::new(4);
    rig.configure(ProviderKind::Fcm, Some(new.clone())).await;
    rig.provider.release();
    until_all_are_completed(&rig, &[id]).await;
    assert_eq!((rig.provider.journal().len(), new.journal().len()), (4, 40));
    rig.stop().await;
}

#[tokio::test]
async fn removing_a_provider_fails_the_remaining_deliveries() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    rig.configure(ProviderKind::Fcm, None).await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (4, 36));
    assert_eq!(record.failures[0].reason, "provider_not_configured");
    rig.stop().await;
}

#[tokio::test]
async fn a_message_that_cannot_be_rendered_fails_alone() {
    let mut rig = Rig::new(4).await;
    rig.devices(10).await;
    rig.provider.panic_on_render(true);
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.failed, record.failures[0].reason.as_str()), (10, "internal_error"));
    rig.provider.panic_on_render(false);
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 10);
    rig.stop().await;
}

/// A page without eligible devices ends when it is claimed, so that no device is sent to without
/// being counted.
#[tokio::test]
async fn a_device_that_is_enabled_after_its_turn_is_not_sent_to() {
    let mut rig = Rig::new(4).await;
    let mut off = RegisterDevice::android("off", "token-off");
    off.push_disabled = Some(true);
    rig.register(off).await;
    rig.source.set_open(false);
    rig.start();
    let id = rig.broadcast().await;
    until_all_are_completed(&rig, std::slice::from_ref(&id)).await;
    rig.device("off").await;
    // The lane finishes the first notification before it starts the second one.
    rig.source.set_open(true);
    let second = rig.broadcast().await;
    until_all_are_completed(&rig, &[second]).await;
    assert_eq!(rig.provider.journal(), ["token-off"], "only the second notification is sent");
    assert_eq!(rig.read(&id).await.counts.targeted, 0);
    rig.stop().await;
}

/// A token is skipped if it got the notification as the token of another device, but not if that device
/// was skipped.
#[tokio::test]
async fn a_token_moved_from_a_device_that_got_nothing_gets_the_notification() {
    let mut rig = Rig::new(1).await;
    let mut off = RegisterDevice::android("off", "token-phone");
    off.push_disabled = Some(true);
    rig.register(off).await;
    rig.devices(2).await;
    rig.device("later").await;
    rig.provider.script(|token, _| match token {
        "token-d00001" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(2).await;
    rig.register(RegisterDevice::android("later", "token-phone")).await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-d00001", "token-phone"]);
    assert_eq!((record.counts.targeted, record.counts.sent), (3, 3));
    rig.stop().await;
}

/// Hazard 3: attempts without an answer keep their streams, but do not block the next page.
#[tokio::test]
async fn silent_devices_do_not_block_the_next_page() {
    let mut rig = Rig::new(50).await;
    (rig.config.page_rows, rig.config.lane_devices_max) = (10, 20);
    rig.devices(100).await;
    rig.provider.script(|token, _| {
        if token.ends_with('0') {
            ScriptedAnswer::Held(delivered())
        } else {
            ScriptedAnswer::Answer(delivered())
        }
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.counts.sent == 90).await;
    assert_eq!(record.counts.pending, 10);
    rig.provider.release();
    until_all_are_completed(&rig, &[id]).await;
    rig.stop().await;
}

/// Intermittent failures of storage lose no delivery and repeat none.
#[tokio::test]
async fn intermittent_storage_failures_lose_and_repeat_nothing() {
    let mut rig = Rig::new(8).await;
    rig.config.checkpoint_outcomes = 20;
    rig.devices(200).await;
    let database = rig.database.clone();
    rig.provider.script(move |token, attempt| {
        if attempt == 1 && token.ends_with("50") {
            database.fail(Fault::FailCommit(1));
        } else if attempt == 1 && token.ends_with("00") {
            database.fail(Fault::RollBackAtWrite(1));
        }
        ScriptedAnswer::Answer(delivered())
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (200, 200));
    assert_eq!(rig.provider.journal().len(), 200, "each device gets the message once");
    rig.stop().await;
}

/// Attempts that were in flight while storage failed are not repeated.
#[tokio::test]
async fn a_lost_checkpoint_acknowledgement_keeps_the_page() {
    let mut rig = Rig::new(50).await;
    rig.config.checkpoint_outcomes = 20;
    rig.devices(90).await;
    let database = rig.database.clone();
    rig.provider.script(move |token, _| {
        if token.ends_with("50") {
            database.fail(Fault::LoseCommitReply(1));
        }
        if token.ends_with('1') {
            ScriptedAnswer::Held(delivered())
        } else {
            ScriptedAnswer::Answer(delivered())
        }
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.until(&id, |record| record.counts.sent == 81).await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (90, 90));
    assert_eq!(rig.provider.journal().len(), 90, "each device gets the message once");
    rig.stop().await;
}

/// The engine is not notified of the cancellation, as if the connection that carries change
/// notifications were down.
#[tokio::test]
async fn a_missed_cancellation_applies_from_the_next_heartbeat() {
    let mut rig = Rig::new(4).await;
    rig.config.clustered = true;
    rig.devices(40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    rig.database.fail(Fault::LoseCommitReply(1));
    let lost = rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await;
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "{lost:?}");
    rig.clock.advance(Duration::from_secs(3));
    rig.until_cancellation_applied().await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Canceled).await;
    assert_eq!((record.counts.sent, rig.provider.journal().len()), (4, 4));
    rig.stop().await;
}

/// A clock that jumps by more than a lease does not end the work on a page.
#[tokio::test]
async fn a_clock_jump_of_a_day_during_a_page_loses_nothing() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    rig.clock.advance(Duration::from_secs(86_400));
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.sent, rig.provider.journal().len()), (40, 40));
    rig.stop().await;
}
