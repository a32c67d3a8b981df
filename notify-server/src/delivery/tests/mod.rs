//! Tests of the engine with a real store and a scripted provider. Hazards are numbered in
//! `docs/delivery.md`.

mod audiences;
mod breaker_sync;
mod clocks;
mod collapse_keys;
mod concurrent_changes;
mod crash;
mod devices;
mod fairness;
mod guard;
mod local;
mod on_crash;
mod overlaps;
mod pace;
mod panics;
mod pausing;
mod provider_errors;
mod randomized;
mod retrying;
mod rig;
mod servers;
mod services;
mod singles;
mod unverified_addresses;

use notify_core::{CreateNotification, NotificationStatus, Platform, RegisterDevice};

use self::rig::{Rig, delivered};

#[tokio::test]
async fn a_broadcast_reaches_every_enabled_device_with_an_address_once() {
    let mut rig = Rig::new(50).await;
    rig.devices(250).await;
    let mut disabled = RegisterDevice::android("off", "token-off");
    disabled.push_disabled = Some(true);
    rig.register(disabled).await;
    let mut without = RegisterDevice::android("bare", "x");
    without.push_token = None;
    rig.register(without).await;
    rig.register(RegisterDevice::ios("phone", "00ff")).await;
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (250, 250));
    assert_eq!((record.counts.excluded, record.counts.pending), (0, 0));
    let mut journal = rig.provider.journal();
    journal.sort();
    journal.dedup();
    assert_eq!(journal.len(), 250);
    assert_eq!(rig.provider.journal().len(), 250, "each device gets the message once");
    rig.stop().await;
}

#[tokio::test]
async fn an_empty_audience_completes() {
    let mut rig = Rig::new(10).await;
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.targeted, 0);
    assert_eq!(record.by_platform.len(), 1);
    rig.stop().await;
}

/// Hazard 7: the audience is fixed by sequence number when the notification becomes due.
#[tokio::test]
async fn a_device_registered_after_the_accept_is_not_in_the_audience() {
    let mut rig = Rig::new(10).await;
    rig.devices(5).await;
    let id = rig.broadcast().await;
    rig.device("late").await;
    rig.start();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 5);
    assert!(!rig.provider.journal().contains(&"token-late".to_owned()));
    rig.stop().await;
}

#[tokio::test]
async fn a_scheduled_notification_targets_the_devices_of_its_due_time() {
    let mut rig = Rig::new(10).await;
    rig.device("early").await;
    rig.start();
    let id = rig
        .accept(CreateNotification {
            text: Some("Later".into()),
            platforms: Some(vec![Platform::Android.as_str().into()]),
            send_at: Some(rig::START.plus_ms(3_600_000)),
            ..CreateNotification::default()
        })
        .await;
    rig.device("meanwhile").await;
    assert_eq!(rig.read(&id).await.status, NotificationStatus::Scheduled);
    rig.clock.advance(std::time::Duration::from_secs(3_600));
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 2);
    rig.stop().await;
}

/// Hazard 14: named ids are a resolved list, a tag is a scan over the index of tags.
#[tokio::test]
async fn named_devices_and_tags_narrow_the_audience_and_exclusions_are_counted() {
    let mut rig = Rig::new(10).await;
    rig.devices(20).await;
    rig.tag("d00001", "vip", true).await;
    rig.tag("d00002", "vip", true).await;
    rig.tag("d00003", "vip", false).await;
    rig.register(RegisterDevice::ios("phone", "00ff")).await;
    rig.start();
    let tagged = CreateNotification {
        text: Some("Hello".into()),
        platforms: Some(vec!["android".into()]),
        content: notify_core::NotificationContent {
            tags: Some(vec!["vip".into()]),
            ..Default::default()
        },
        ..CreateNotification::default()
    };
    let id = rig.accept(tagged.clone()).await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (2, 2));
    assert_eq!((record.counts.excluded, record.counts.unknown), (0, 0));

    let named = ["d00001", "d00003", "d00004", "phone", "nobody", "d00001"];
    let named = named.map(String::from).to_vec();
    let id = rig.accept(CreateNotification { android_device_ids: Some(named), ..tagged }).await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
    assert_eq!(record.counts.excluded, 2, "one device lacks the tag, and one has it set to false");
    assert_eq!(
        record.counts.unknown, 2,
        "one id has no device on that platform, and one has no device at all"
    );
    rig.stop().await;
}

#[tokio::test]
async fn a_platform_without_a_provider_fails_its_devices_at_once() {
    let mut rig = Rig::new(10).await;
    rig.register(RegisterDevice::ios("phone", "00ff")).await;
    rig.device("robot").await;
    rig.start();
    let id = rig
        .accept(CreateNotification {
            text: Some("Hello".into()),
            platforms: Some(vec!["ios".into(), "android".into()]),
            ..CreateNotification::default()
        })
        .await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (1, 1));
    let failure = &record.failures[0];
    assert_eq!((failure.platform, failure.count), (Platform::Ios, 1));
    assert_eq!(failure.reason, "provider_not_configured");
    rig.stop().await;
}

#[tokio::test]
async fn canceled_deliveries_are_counted_and_not_sent() {
    let mut rig = Rig::new(10).await;
    rig.devices(300).await;
    rig.provider.script(|_, _| rig::ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(10).await;
    rig.store.cancel_notification(rig.app, id.clone(), rig::START).await.unwrap();
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Canceled).await;
    assert_eq!(record.counts.targeted, 300, "the scan continues and counts the devices");
    assert_eq!(record.counts.sent, rig.provider.journal().len() as u64);
    assert_eq!(record.counts.canceled, 300 - record.counts.sent);
    assert!(record.counts.sent <= 20, "few more than the attempts in flight");
    rig.stop().await;
}
