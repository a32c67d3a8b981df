//! Retries while their devices change and their time runs out.

use std::time::Duration;

use notify_core::{CreateNotification, DeviceId, NotificationStatus, ProviderKind, RegisterDevice};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, Scope, SendResult};

fn failed() -> SendResult {
    SendResult::Retry { reason: "UNAVAILABLE".into(), after: None, outcome: Processing::Failed }
}

/// A rig in which all deliveries failed once and are due again. The first device does not answer.
async fn retrying(devices: usize) -> (Rig, notify_core::NotificationId) {
    let mut rig = Rig::new(1).await;
    rig.devices(devices).await;
    rig.provider.script(|token, attempt| match (token, attempt) {
        ("token-d00000", 2) => ScriptedAnswer::Held(delivered()),
        (_, 1) if token.starts_with("token-d") => ScriptedAnswer::Answer(failed()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(devices).await;
    let everybody = devices as u64;
    while rig.store.open_retries(rig.app, notify_core::Platform::Android, START).await.unwrap()
        < everybody
    {
        tokio::task::yield_now().await;
    }
    rig.clock.advance(Duration::from_secs(2));
    rig.provider.arrived(devices + 1).await;
    (rig, id)
}

/// Hazard 8 also applies to retries between their claim and their attempt.
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

/// A token gets a notification only once, even after it moved to another device.
#[tokio::test]
async fn a_retry_to_an_address_that_got_it_as_another_device_is_not_made() {
    let mut rig = Rig::new(1).await;
    rig.devices(1).await;
    rig.device("other").await;
    rig.provider.script(|token, attempt| {
        ScriptedAnswer::Answer(if token == "token-other" && attempt == 1 {
            failed()
        } else {
            delivered()
        })
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

/// Even a long pause does not keep a notification open after its expiry.
#[tokio::test]
async fn a_paused_retry_expires_in_time() {
    let mut rig = Rig::new(1).await;
    rig.device("one").await;
    rig.provider.script(|_, attempt| {
        let (reason, after) = ("QUOTA_EXCEEDED".into(), Some(Duration::from_secs(86_400)));
        ScriptedAnswer::Answer(match attempt {
            1 => failed(),
            _ => SendResult::Throttle { reason, after, scope: Scope::Provider },
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

/// An orderly stop does not wait for permits that retries have requested.
#[tokio::test]
async fn queued_retries_are_given_back_at_a_stop() {
    let (mut rig, id) = retrying(3).await;
    rig.provider.release();
    rig.stop().await;
    rig.start();
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.delivered().len(), 3, "each device gets the message once");
    rig.stop().await;
}

/// Hazard 3 for retries: a retry without an answer does not hold up others that are due.
#[tokio::test]
async fn a_retry_without_an_answer_does_not_hold_up_others() {
    let mut rig = Rig::new(4).await;
    rig.devices(2).await;
    let later = |seconds| SendResult::Retry {
        reason: "UNAVAILABLE".into(),
        after: Some(Duration::from_secs(seconds)),
        outcome: Processing::Failed,
    };
    rig.provider.script(move |token, attempt| match (token, attempt) {
        ("token-d00000", 1) => ScriptedAnswer::Answer(later(1)),
        ("token-d00000", _) => ScriptedAnswer::Never,
        (_, 1) => ScriptedAnswer::Answer(later(5)),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    let seconds = |count: i64| START.plus_ms(count * 1_000);
    rig.until(&id, |record| record.counts.targeted == 2).await;
    rig.retry_due_within(START, 1_000).await;
    rig.clock.advance(Duration::from_secs(1));
    rig.provider.arrived(3).await;
    rig.retry_due_within(seconds(1), 4_000).await;
    rig.clock.advance(Duration::from_secs(4));
    let record = rig.until(&id, |record| record.counts.sent == 1).await;
    assert_eq!(record.counts.pending, 1);
    assert_eq!(
        rig.provider.journal()[3..],
        ["token-d00001"],
        "the retry without an answer is still in flight"
    );
    rig.crash().await;
}

/// Retries that wait for a probe resume when the probe succeeds, and not only when it would count as lost.
#[tokio::test]
async fn retries_resume_as_soon_as_the_probe_succeeds() {
    let mut rig = Rig::new(40).await;
    rig.devices(30).await;
    let first = SendResult::Retry {
        reason: "UNAVAILABLE".into(),
        after: Some(Duration::from_secs(3)),
        outcome: Processing::Failed,
    };
    rig.provider.script(move |_, attempt| match attempt {
        1 => ScriptedAnswer::Answer(first.clone()),
        2 => ScriptedAnswer::Held(delivered()),
        _ => unreachable!("what was taken is not tried again"),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(20).await;
    // The failures open the circuit breaker. After that only one probe is in flight at a time, until a probe
    // is answered.
    rig.advance_until_arrived(31, Duration::from_millis(250)).await;
    let probed_at = rig.clock.now();
    rig.provider.release();
    let all_sent = |record: &notify_core::NotificationRecord| record.counts.sent == 30;
    rig.advance_until(&id, Duration::from_millis(100), all_sent).await;
    let took_ms = rig.clock.now().ms_since(probed_at);
    assert!(
        took_ms < 30_000,
        "it took {took_ms} ms; the probe would count as lost after 60,000 ms"
    );
    rig.stop().await;
}

/// Nothing is sent after an acknowledged cancellation, even if a retry was about to start.
#[tokio::test]
async fn a_retry_canceled_while_it_reads_its_provider_is_not_sent() {
    let mut rig = Rig::new(1).await;
    rig.device("one").await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(failed()));
    rig.start();
    let id = rig.broadcast().await;
    rig.retry_due_within(START, 2_000).await;
    // The next attempt reads the new provider, and is canceled before the read completes.
    rig.source.set_open(false);
    let other = FakeProvider::new(1);
    rig.configure(ProviderKind::Fcm, Some(other.clone())).await;
    rig.clock.advance(Duration::from_secs(2));
    rig.source.reads_started(2).await;
    rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await.unwrap();
    rig.source.set_open(true);
    let record = rig.until(&id, |record| record.counts.pending == 0).await;
    assert_eq!((record.counts.canceled, other.journal()), (1, Vec::<String>::new()));
    rig.stop().await;
}
