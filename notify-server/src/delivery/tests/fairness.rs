//! Many concurrent notifications (hazards 11 and 18).

use notify_core::{
    CreateNotification, NotificationContent, NotificationStatus, Platform, ProviderKind,
};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};

#[tokio::test]
async fn a_small_notification_is_not_delayed_by_a_large_one() {
    let mut rig = Rig::new(4).await;
    rig.devices(600).await;
    rig.device("friend").await;
    rig.start();
    rig.provider.hold();
    let provider = rig.provider.clone();
    rig.provider.script(move |_, _| {
        if provider.journal().len() < 20 {
            ScriptedAnswer::Answer(delivered())
        } else {
            ScriptedAnswer::Held(delivered())
        }
    });
    let large = rig.broadcast().await;
    rig.provider.arrived(21).await;
    let small = rig
        .accept(CreateNotification {
            text: Some("You have mail".into()),
            android_device_ids: Some(vec!["friend".into()]),
            ..CreateNotification::default()
        })
        .await;
    rig.until(&small, |record| record.counts.targeted == 1).await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.provider.release();
    rig.until(&small, |record| record.status == NotificationStatus::Completed).await;
    rig.until(&large, |record| record.status == NotificationStatus::Completed).await;
    let journal = rig.provider.journal();
    let place = journal.iter().position(|token| token == "token-friend").unwrap();
    assert!(place < 500, "it was sent as number {place} of {}", journal.len());
    rig.stop().await;
}

/// Sending to chats is slow, so their pages are small: another notification waits for only one page.
#[tokio::test]
async fn a_notification_to_chats_does_not_wait_long_for_a_large_one() {
    let mut rig = Rig::new(1).await;
    rig.config.page_rows = 600;
    rig.config.page_rows_without_dedup = 50;
    rig.config.lane_devices_max = 100;
    let chats = FakeProvider::new(4);
    rig.configure(ProviderKind::Telegram, Some(chats.clone())).await;
    for number in 0..600 {
        rig.chat(&format!("c{number:03}"), &format!("1{number:03}")).await;
    }
    rig.tag("c599", "friend", true).await;
    chats.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    rig.broadcast_to(Platform::ChatApp).await;
    chats.arrived(1).await;
    let small = rig
        .accept(CreateNotification {
            content: NotificationContent {
                tags: Some(vec!["friend".into()]),
                ..NotificationContent::default()
            },
            ..CreateNotification::to_platforms([Platform::ChatApp], "You have mail")
        })
        .await;
    rig.until(&small, |record| record.status == NotificationStatus::Sending).await;
    chats.release();
    rig.until(&small, |record| record.status == NotificationStatus::Completed).await;
    let journal = chats.journal();
    let place = journal.iter().position(|chat| chat == "1599").unwrap();
    assert!(place < 300, "it was sent as number {place} of {}", journal.len());
    rig.stop().await;
}

/// A search that finds a device in each page opens its pages one after another, without waiting for capacity.
#[tokio::test]
async fn a_notification_takes_turns_with_pages_of_few_devices() {
    let mut rig = Rig::new(50).await;
    (rig.config.page_rows, rig.config.lane_pages_max) = (1, 1_000);
    rig.devices(600).await;
    rig.start();
    let search = rig.broadcast().await;
    rig.provider.arrived(1).await;
    rig.device("friend").await;
    let small = CreateNotification::to_devices(["friend"], [], "You have mail").unwrap();
    let small = rig.accept(small).await;
    for id in [&small, &search] {
        rig.until(id, |record| record.status == NotificationStatus::Completed).await;
    }
    let journal = rig.provider.journal();
    let place = journal.iter().position(|token| token == "token-friend").unwrap();
    assert!(place < 500, "it was sent as number {place} of {}", journal.len());
    rig.stop().await;
}

#[tokio::test]
async fn many_small_notifications_complete_each_with_its_own_count() {
    let mut rig = Rig::new(16).await;
    rig.devices(3).await;
    rig.config.lane_dispatches_max = 10;
    rig.start();
    let mut ids = Vec::new();
    for _ in 0..150 {
        ids.push(rig.broadcast().await);
    }
    for id in &ids {
        let record = rig.until(id, |record| record.status == NotificationStatus::Completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (3, 3));
        assert!(record.started_at.is_some() && record.completed_at.is_some());
    }
    assert_eq!(rig.provider.journal().len(), 450);
    rig.stop().await;
}

/// A queued request is granted a released stream only within the current limit.
#[tokio::test]
async fn a_lowered_stream_limit_applies_to_queued_requests() {
    let mut rig = Rig::new(5).await;
    rig.devices(12).await;
    rig.provider.script(|token, _| match token {
        "token-d00000" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Never,
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(5).await;
    rig.provider.set_streams(1);
    rig.provider.release();
    rig.until(&id, |record| record.counts.sent == 1).await;
    assert_eq!(rig.provider.journal().len(), 5, "four streams are open, and the limit is one");
    rig.crash().await;
}
