//! Deliveries that are tried again while their devices change and their time runs out.

use std::time::Duration;

use notify_core::{CreateNotification, DeviceId, NotificationStatus, RegisterDevice};

use super::rig::{Rig, START, Told, delivered};
use crate::providers::{Answer, Certainty, Scope};

fn failed() -> Answer {
    Answer::Retry { reason: "UNAVAILABLE".into(), after: None, outcome: Certainty::Failed }
}

/// A rig whose devices all failed once and are due again, of which the first does not answer.
async fn retrying(devices: usize) -> (Rig, notify_core::NotificationId) {
    let mut rig = Rig::new(1).await;
    rig.devices(devices).await;
    rig.provider.script(|token, attempt| match (token, attempt) {
        ("token-d00000", 2) => Told::Held(delivered()),
        (_, 1) if token.starts_with("token-d") => Told::Answer(failed()),
        _ => Told::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(devices).await;
    let everybody = devices as u64;
    while rig.store.open_retries(rig.app, notify_core::Platform::Android).await.unwrap() < everybody
    {
        tokio::task::yield_now().await;
    }
    rig.clock.advance(Duration::from_secs(2));
    rig.provider.arrived(devices + 1).await;
    (rig, id)
}

/// Trap 8 holds for retries as well, between their claim and their turn.
#[tokio::test]
async fn a_retry_does_not_use_an_address_that_changed_before_its_turn() {
    let (mut rig, id) = retrying(3).await;
    rig.register(RegisterDevice::android("d00001", "token-swapped")).await;
    let erased = DeviceId::new("d00002").unwrap();
    rig.store.delete_device(rig.app, erased, START).await.unwrap();
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal()[3..], ["token-d00000", "token-swapped"]);
    assert_eq!((record.counts.sent, record.counts.canceled), (2, 1));
    rig.stop().await;
}

/// B22: a retry to a token that got the notification under another device is not made.
#[tokio::test]
async fn a_retry_to_a_phone_that_got_it_under_another_device_is_not_made() {
    let mut rig = Rig::new(1).await;
    rig.devices(1).await;
    rig.device("other").await;
    rig.provider.script(|token, attempt| {
        Told::Answer(if token == "token-other" && attempt == 1 { failed() } else { delivered() })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.until(&id, |record| record.counts.sent == 1 && record.counts.pending == 1).await;
    rig.register(RegisterDevice::android("other", "token-d00000")).await;
    rig.retry_due_within(START, 2_000).await;
    rig.clock.advance(Duration::from_secs(2));
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-other"]);
    assert_eq!((record.counts.sent, record.counts.failed), (1, 1));
    rig.stop().await;
}

/// A pause, however long, does not keep a notification open past its time.
#[tokio::test]
async fn a_retry_that_is_paused_expires_in_time() {
    let mut rig = Rig::new(1).await;
    rig.device("one").await;
    rig.provider.script(|_, attempt| {
        let (reason, after) = ("QUOTA_EXCEEDED".into(), Some(Duration::from_secs(86_400)));
        Told::Answer(match attempt {
            1 => failed(),
            _ => Answer::Throttle { reason, after, scope: Scope::Provider },
        })
    });
    rig.start();
    let id = rig
        .accept(CreateNotification {
            text: Some("Soon".into()),
            platforms: Some(vec!["android".into()]),
            ttl_seconds: Some(60),
            ..CreateNotification::default()
        })
        .await;
    rig.retry_due_within(START, 2_000).await;
    rig.clock.advance(Duration::from_secs(2));
    rig.provider.arrived(2).await;
    let paused = rig.retry_due_within(START.plus_ms(59_000), 1_000).await;
    assert_eq!(paused, START.plus_ms(60_000));
    rig.clock.advance(Duration::from_secs(58));
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.expired, rig.provider.journal().len()), (1, 2));
    rig.stop().await;
}

/// An orderly stop waits for no place that a retry stands in line for.
#[tokio::test]
async fn retries_in_line_are_given_back_at_a_stop() {
    let (mut rig, id) = retrying(3).await;
    rig.provider.release();
    rig.stop().await;
    rig.start();
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.delivered().len(), 3, "each once");
    rig.stop().await;
}
