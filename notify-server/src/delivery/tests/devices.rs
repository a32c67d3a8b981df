//! Devices that change, lose a tag or are deleted before their turn.

use notify_core::{
    CreateNotification, DeviceId, NotificationContent, NotificationStatus, RegisterDevice,
};

use super::rig::{Rig, START, ScriptedAnswer, delivered};
use crate::providers::SendResult;

fn id(name: &str) -> DeviceId {
    DeviceId::new(name).unwrap()
}

/// A deleted device counts as canceled. A device that lost the tag is no longer targeted.
#[tokio::test]
async fn a_device_that_loses_the_tag_before_its_turn_is_not_counted() {
    let mut rig = Rig::new(1).await;
    rig.devices(4).await;
    for device in ["d00000", "d00001", "d00002", "d00003"] {
        rig.tag(device, "vip", true).await;
    }
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let tags = Some(vec!["vip".into()]);
    let tagged = CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["android".into()]),
        content: NotificationContent { tags, ..Default::default() },
        ..CreateNotification::default()
    };
    let notification = rig.accept(tagged).await;
    rig.provider.arrived(1).await;
    rig.store.remove_tag(rig.app, id("d00001"), "vip".into()).await.unwrap();
    rig.store.delete_device(rig.app, id("d00002"), START).await.unwrap();
    rig.provider.release();
    let is_over = |record: &_| matches!(record, NotificationStatus::Completed);
    let record = rig.until(&notification, |record| is_over(&record.status)).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (3, 2));
    assert_eq!(record.counts.canceled, 1, "the deleted device");
    rig.stop().await;
}

/// A deleted device also counts as canceled if it was deleted before the scan reached it.
#[tokio::test]
async fn a_named_device_that_is_deleted_before_the_scan_counts_as_canceled() {
    let mut rig = Rig::new(4).await;
    rig.devices(3).await;
    let named = ["d00000", "d00001", "d00002"].map(String::from).to_vec();
    let notification = rig
        .accept(CreateNotification {
            text: Some("Hello".into()),
            android_device_ids: Some(named),
            ..CreateNotification::default()
        })
        .await;
    rig.store.start_due(START, 1).await.unwrap();
    for device in ["d00000", "d00002"] {
        rig.store.delete_device(rig.app, id(device), START).await.unwrap();
    }
    rig.start();
    let record =
        rig.until(&notification, |record| record.status == NotificationStatus::Completed).await;
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.canceled), (3, 1, 2));
    assert_eq!((counts.unknown, counts.excluded, counts.pending), (0, 0, 0));
    rig.stop().await;
}

/// A token gets a notification only once, even if it moved from device to device.
#[tokio::test]
async fn a_token_that_moves_twice_is_sent_to_once() {
    let mut rig = Rig::new(1).await;
    rig.devices(2).await;
    rig.device("second").await;
    rig.device("third").await;
    rig.provider.script(|token, _| match token {
        "token-d00001" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let notification = rig.broadcast().await;
    rig.provider.arrived(2).await;
    for device in ["second", "third"] {
        rig.register(RegisterDevice::android(device, "token-d00000")).await;
    }
    rig.provider.release();
    let record =
        rig.until(&notification, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-d00001"]);
    assert_eq!((record.counts.targeted, record.counts.sent), (2, 2));
    rig.stop().await;
}

/// A `ttl_seconds` of 0 means one immediate attempt, which is not possible while credentials are held.
#[tokio::test]
async fn a_single_attempt_does_not_wait_for_corrected_credentials() {
    let mut rig = Rig::new(2).await;
    rig.devices(5).await;
    rig.provider.script(|_, _| {
        ScriptedAnswer::Answer(SendResult::AuthRejected { reason: "invalid_grant".into() })
    });
    rig.start();
    let once = CreateNotification {
        text: Some("Now or never".into()),
        platforms: Some(vec!["android".into()]),
        ttl_seconds: Some(0),
        ..CreateNotification::default()
    };
    let notification = rig.accept(once).await;
    let record =
        rig.until(&notification, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.expired), (5, 5));
    assert!(rig.provider.journal().len() <= 3, "only attempts that were in flight");
    rig.stop().await;
}
