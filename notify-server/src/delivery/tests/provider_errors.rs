//! Providers that fail, throttle, reject credentials, and report dead addresses.

use std::time::Duration;

use notify_core::{
    CreateNotification, DeviceId, DisabledReason, NotificationRecord, NotificationStatus, Platform,
    ProviderKind, RegisterDevice, Timestamp,
};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::delivery::engine::RETRY_COALESCE_MS;
use crate::providers::{Processing, Scope, SendResult};
use crate::reasons;

fn failed(after: Option<Duration>) -> SendResult {
    SendResult::Retry { reason: "UNAVAILABLE".into(), after, outcome: Processing::Failed }
}

#[tokio::test]
async fn a_transient_failure_is_retried_when_due_and_not_before() {
    let mut rig = Rig::new(10).await;
    rig.devices(3).await;
    rig.provider.script(|token, attempt| {
        let troubled = token == "token-d00001" && attempt <= 2;
        ScriptedAnswer::Answer(if troubled { failed(None) } else { delivered() })
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.counts.sent == 2).await;
    assert_eq!((record.counts.pending, record.status), (1, NotificationStatus::Sending));
    for (attempt, longest_ms) in [(2, 2_000), (3, 4_000)] {
        let due = rig.retry_due_within(rig.clock.now(), longest_ms).await;
        let delay_ms = due.ms_since(rig.clock.now());
        assert!((longest_ms / 2..=longest_ms).contains(&delay_ms), "attempt {attempt}");
        rig.clock.advance(Duration::from_millis(delay_ms.unsigned_abs() - 1));
        assert_eq!(rig.provider.journal().len(), attempt + 1, "no attempt before it is due");
        // A poll just before the retry is due is followed by the next one after this time.
        rig.clock.advance(Duration::from_millis(RETRY_COALESCE_MS.unsigned_abs()));
        rig.provider.arrived(attempt + 2).await;
    }
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 3);
    rig.stop().await;
}

#[tokio::test]
async fn the_retry_delay_of_a_provider_is_respected() {
    let mut rig = Rig::new(10).await;
    rig.device("one").await;
    rig.provider.script(|_, attempt| {
        let after = Some(Duration::from_secs(60));
        ScriptedAnswer::Answer(if attempt == 1 { failed(after) } else { delivered() })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(1).await;
    rig.until(&id, |record| record.counts.pending == 1).await;
    let due = rig.retry_due_within(START, 60_000).await;
    assert_eq!(due, START.plus_ms(60_000), "not earlier than the provider requested");
    rig.clock.advance(Duration::from_secs(60));
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    rig.stop().await;
}

/// Their deliveries end without an attempt and stop nothing, however many there are.
#[tokio::test]
async fn addresses_that_cannot_be_right_get_no_attempt() {
    let mut rig = Rig::new(1).await;
    let provider = FakeProvider::new(100);
    for kind in [ProviderKind::Apns, ProviderKind::WebPush] {
        rig.configure(kind, Some(provider.clone())).await;
    }
    let token = "ab".repeat(32);
    let endpoint = "https://push.example/1";
    for number in 0..60 {
        let fcm = format!("f{number}:APA91{}", "x".repeat(100));
        rig.register(RegisterDevice::ios(format!("fcm-{number}"), fcm)).await;
        let removed = format!("https://fcm.googleapis.com.invalid/{number}");
        rig.browser(&format!("removed-{number}"), &removed).await;
    }
    rig.register(RegisterDevice::ios("good", &token)).await;
    rig.browser("good-browser", endpoint).await;
    rig.start();
    for (platform, address, reason, outcomes) in [
        (Platform::Ios, token.as_str(), reasons::NOT_AN_APNS_TOKEN, (1, 60, 0)),
        (Platform::Web, endpoint, reasons::ENDPOINT_REMOVED, (1, 0, 60)),
    ] {
        let id = rig.broadcast_to(platform).await;
        let completed =
            |record: &NotificationRecord| record.status == NotificationStatus::Completed;
        let record = rig.until(&id, completed).await;
        let counts = &record.counts;
        assert_eq!((counts.sent, counts.failed, counts.unregistered), outcomes, "{record:?}");
        assert_eq!(record.failures[0].reason, reason);
        assert_eq!(provider.journal().last().map(String::as_str), Some(address));
        assert!(!rig.store.guard_tripped(rig.app, platform).await.unwrap());
    }
    assert_eq!(provider.journal().len(), 2);
    rig.stop().await;
}

#[tokio::test]
async fn a_ttl_of_zero_allows_one_attempt() {
    let mut rig = Rig::new(10).await;
    rig.device("one").await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(failed(None)));
    rig.start();
    let id = rig
        .accept(CreateNotification {
            text: Some("Now or never".into()),
            platforms: Some(vec!["android".into()]),
            ttl_seconds: Some(0),
            ..Default::default()
        })
        .await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.expired, rig.provider.journal().len()), (1, 1));
    rig.stop().await;
}

#[tokio::test]
async fn a_throttled_provider_pauses_without_counting_an_attempt() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    rig.provider.script(|token, attempt| {
        if token == "token-d00000" && attempt == 1 {
            let after = Some(Duration::from_secs(30));
            let reason = "QUOTA_EXCEEDED".into();
            return ScriptedAnswer::Answer(SendResult::Throttle {
                reason,
                after,
                scope: Scope::Provider,
            });
        }
        ScriptedAnswer::Answer(delivered())
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(1).await;
    let completed = |record: &NotificationRecord| record.status == NotificationStatus::Completed;
    let record = rig.advance_until(&id, Duration::from_secs(1), completed).await;
    assert_eq!(record.counts.sent, 40);
    assert!(rig.clock.now().ms_since(START) >= 30_000, "not earlier than the provider requested");
    assert_eq!(
        rig.provider.journal().len(),
        41,
        "one message was sent again, and none became a retry"
    );
    assert_eq!(rig.store.agenda(Timestamp(0)).await.unwrap().next_retry_due, None);
    rig.stop().await;
}

/// An address that is throttled again and again does not slow down the others.
#[tokio::test]
async fn one_throttled_address_does_not_hold_others() {
    let mut rig = Rig::new(1).await;
    rig.devices(20).await;
    rig.provider.script(|token, _| {
        let after = Some(Duration::from_secs(30));
        let reason = "QUOTA_EXCEEDED".into();
        ScriptedAnswer::Answer(match token {
            "token-d00003" => SendResult::Throttle { reason, after, scope: Scope::Provider },
            _ => delivered(),
        })
    });
    rig.start();
    let id = rig.broadcast().await;
    // Three messages were accepted before the throttle paused all. The throttled one is the next attempt.
    rig.provider.arrived(4).await;
    rig.advance_until_arrived(5, Duration::from_secs(10)).await;
    // The clock does not advance: no other delivery waits for its second pause.
    let record = rig.until(&id, |record| record.counts.sent == 19).await;
    assert_eq!((record.counts.pending, record.counts.failed), (1, 0));
    // It is attempted every thirty seconds from now on, and delays no other delivery.
    for _ in 0..5 {
        rig.clock.advance(Duration::from_secs(31));
        let named = CreateNotification {
            text: Some("Hello".into()),
            android_device_ids: Some(vec!["d00001".into()]),
            ..CreateNotification::default()
        };
        let other = rig.accept(named).await;
        rig.until(&other, |record| record.counts.sent == 1).await;
    }
    assert_eq!(rig.read(&id).await.counts.pending, 1, "a throttled attempt does not count");
    rig.stop().await;
}

#[tokio::test]
async fn rejected_credentials_hold_everything_and_fail_nothing_until_corrected() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    rig.provider.script(|_, _| {
        ScriptedAnswer::Held(SendResult::AuthRejected { reason: "PERMISSION_DENIED".into() })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    rig.provider.release();
    let past = |seconds: i64| move |now: Timestamp| now.ms_since(START) >= seconds * 1_000;
    let (early, late) = (past(55), past(70));
    rig.advance_until(&id, Duration::from_secs(1), |_| early(rig.clock.now())).await;
    let attempts = rig.provider.journal().len();
    assert!(
        (4..=5).contains(&attempts),
        "the attempts in flight, and the one that confirmed the first rejection"
    );
    rig.advance_until(&id, Duration::from_secs(1), |_| {
        late(rig.clock.now()) && rig.provider.journal().len() > attempts
    })
    .await;
    assert_eq!(rig.provider.journal().len(), attempts + 1, "one probe a minute");
    let record = rig.read(&id).await;
    assert_eq!((record.counts.pending, record.counts.failed), (40, 0));

    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    let kind = ProviderKind::Fcm;
    let row = crate::store::ProviderRow { provider: kind, sealed: vec![1], updated_at: START };
    rig.store.put_provider(rig.app_id, row).await.unwrap();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 40);
    rig.stop().await;
}

fn dead(since: Option<Timestamp>) -> ScriptedAnswer {
    ScriptedAnswer::Answer(SendResult::Unregistered {
        reason: "UNREGISTERED".into(),
        ambiguous: false,
        since,
    })
}

#[tokio::test]
async fn a_dead_address_disables_its_device_and_no_other() {
    let mut rig = Rig::new(10).await;
    rig.devices(3).await;
    rig.provider.script(|token, _| match token {
        "token-d00001" => dead(None),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.sent, record.counts.unregistered), (2, 1));
    assert_eq!(record.failures[0].reason, "UNREGISTERED");
    let device = rig.store.device(rig.app, DeviceId::new("d00001").unwrap()).await.unwrap();
    assert_eq!(device.disabled_reason, Some(DisabledReason::Unregistered));
    let second = rig.broadcast().await;
    let record = rig.until(&second, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (2, 2));
    rig.stop().await;
}

/// Hazards 6 and 9: an answer applies to the token of the request, and to the registration at that
/// time.
#[tokio::test]
async fn a_device_that_registered_meanwhile_stays_enabled() {
    let mut rig = Rig::new(10).await;
    rig.device("other-token").await;
    rig.device("again").await;
    rig.provider.script(|token, _| {
        let since = (token == "token-again").then_some(START.plus_ms(500));
        match dead(since) {
            ScriptedAnswer::Answer(answer) | ScriptedAnswer::Held(answer) => {
                ScriptedAnswer::Held(answer)
            }
            ScriptedAnswer::Never => ScriptedAnswer::Never,
        }
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(2).await;
    rig.clock.advance(Duration::from_secs(1));
    rig.register(RegisterDevice::android("other-token", "token-new")).await;
    // A registration that changes nothing is only written once an hour.
    let mut again = RegisterDevice::android("again", "token-again");
    again.app_version = Some("2".into());
    rig.register(again).await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.unregistered, 2, "both deliveries ended as unregistered");
    for name in ["other-token", "again"] {
        let device = rig.store.device(rig.app, DeviceId::new(name).unwrap()).await.unwrap();
        assert!(device.enabled, "{name} stays enabled");
    }
    rig.stop().await;
}

/// Hazard 8: no address is used after an update of it was acknowledged.
#[tokio::test]
async fn an_address_that_changed_before_its_turn_is_not_used() {
    let mut rig = Rig::new(1).await;
    rig.devices(4).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(1).await;
    rig.register(RegisterDevice::android("d00002", "token-swapped")).await;
    let erased = DeviceId::new("d00003").unwrap();
    rig.store.delete_device(rig.app, erased, START).await.unwrap();
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-d00001", "token-swapped"]);
    assert_eq!(
        (record.counts.sent, record.counts.canceled),
        (3, 1),
        "the delivery to the erased device is canceled"
    );
    assert_eq!(record.counts.targeted, 4);
    rig.stop().await;
}

/// Hazard 8: a token that moved to a later device is not sent to twice.
#[tokio::test]
async fn a_reinstalled_app_does_not_get_a_notification_twice() {
    let mut rig = Rig::new(1).await;
    rig.devices(2).await;
    rig.device("later").await;
    rig.provider.script(|token, _| match token {
        "token-d00001" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(2).await;
    rig.clock.advance(Duration::from_millis(10));
    rig.register(RegisterDevice::android("later", "token-d00000")).await;
    rig.provider.release();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-d00001"]);
    assert_eq!(record.counts.sent, 2);
    rig.stop().await;
}

#[tokio::test]
async fn an_unreachable_provider_creates_few_retries() {
    let mut rig = Rig::new(5).await;
    rig.devices(300).await;
    rig.provider.script(|_, _| {
        let reason = "connection refused".into();
        let outcome = Processing::NotProcessed;
        ScriptedAnswer::Answer(SendResult::Retry { reason, after: None, outcome })
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(1).await;
    rig.until(&id, |record| record.counts.targeted == 300).await;
    assert!(rig.provider.journal().len() <= 5, "the attempts in flight, and then the lane pauses");
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    let record = loop {
        rig.clock.advance(Duration::from_secs(2));
        let record = rig.until(&id, |_| true).await;
        if record.status == NotificationStatus::Completed {
            break record;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(record.counts.sent, 300);
    rig.stop().await;
}

#[tokio::test]
async fn a_delivery_that_panics_fails_alone() {
    let mut rig = Rig::new(10).await;
    rig.devices(30).await;
    // The lease is longer than any delay, so that the test does not mistake its end for the next attempt.
    rig.config.lease_ms = 60_000;
    rig.provider.script(|token, _| {
        assert_ne!(token, "token-d00007", "a defect in a provider");
        ScriptedAnswer::Answer(delivered())
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.until(&id, |record| record.counts.sent == 29).await;
    let mut now = START;
    for longest_ms in [2_000, 4_000, 8_000, 16_000] {
        let due = rig.retry_due_within(now, longest_ms).await;
        rig.clock.advance(Duration::from_millis(due.ms_since(now).unsigned_abs()));
        now = due;
    }
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (29, 1));
    assert_eq!(record.failures[0].reason, "internal_error");
    rig.stop().await;
}

#[tokio::test]
async fn erasing_an_application_while_it_sends_ends_quietly() {
    let mut rig = Rig::new(2).await;
    rig.devices(200).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    rig.broadcast().await;
    rig.provider.arrived(2).await;
    rig.store.delete_app(rig.app_id).await.unwrap();
    rig.provider.release();
    rig.stop().await;
    rig.start();
    rig.stop().await;
}
