//! Push services behind one lane. A service that rejects, is full or throttles stops only its own
//! devices.

use std::sync::Arc;
use std::time::Duration;

use notify_core::{NotificationStatus, Platform, ProviderKind};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Scope, SendResult};

/// Ten browsers with verified addresses at each of two push services, alternating.
async fn rig(slots: usize) -> (Rig, Arc<FakeProvider>) {
    let rig = Rig::new(1).await;
    for number in 0..10 {
        for service in ["a", "b"] {
            let endpoint = format!("https://{service}.example/push/{number}");
            rig.browser(&format!("{service}{number}"), &endpoint).await;
        }
    }
    rig.verify_addresses();
    let provider = FakeProvider::new(slots);
    rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
    (rig, provider)
}

fn at_a(endpoint: &str) -> bool {
    endpoint.starts_with("https://a.")
}

/// Many consecutive responses 401 and 403 hold only that push service, and no delivery fails.
#[tokio::test]
async fn a_push_service_that_rejects_credentials_is_held_and_the_other_continues() {
    let (mut rig, provider) = rig(1).await;
    let refused = |endpoint: &str| match at_a(endpoint) {
        true => SendResult::ServiceRefused { reason: "http_403".into() },
        false => delivered(),
    };
    provider.script(move |endpoint, _| ScriptedAnswer::Answer(refused(endpoint)));
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let record = rig.until(&id, |record| record.counts.sent == 10).await;
    assert_eq!((record.counts.pending, record.counts.failed), (10, 0));
    let attempts = provider.journal().iter().filter(|endpoint| at_a(endpoint)).count();
    assert_eq!(attempts, 5, "five rejections in a row, and then the service is held");
    let mended = FakeProvider::new(4);
    rig.configure(ProviderKind::WebPush, Some(mended.clone())).await;
    let is_finished =
        |record: &notify_core::NotificationRecord| record.status == NotificationStatus::Completed;
    let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
    assert_eq!(record.counts.sent, 20);
    assert_eq!(mended.journal().len(), 10, "each device gets the message once");
    rig.stop().await;
}

/// Hazard 3: streams are limited per push service, so that a silent one does not block the other.
#[tokio::test]
async fn a_silent_push_service_uses_only_its_own_streams() {
    let (mut rig, provider) = rig(8).await;
    provider.limit_services(2);
    provider.script(|endpoint, _| match at_a(endpoint) {
        true => ScriptedAnswer::Held(delivered()),
        false => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let record = rig.until(&id, |record| record.counts.sent == 10).await;
    assert_eq!(record.counts.pending, 10);
    assert_eq!(
        provider.journal().len(),
        12,
        "ten of one service, and two of the one that does not answer"
    );
    provider.release();
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(provider.journal().len(), 20, "each device gets the message once");
    rig.stop().await;
}

/// A 429 pauses that push service, and does not count as an attempt.
#[tokio::test]
async fn only_the_push_service_that_throttles_is_paused() {
    let (mut rig, provider) = rig(1).await;
    let throttle = || SendResult::Throttle {
        reason: "http_429".into(),
        after: Some(Duration::from_secs(30)),
        scope: Scope::Service,
    };
    provider.script(move |endpoint, attempt| {
        match endpoint.ends_with("a.example/push/0") && attempt == 1 {
            true => ScriptedAnswer::Answer(throttle()),
            false => ScriptedAnswer::Answer(delivered()),
        }
    });
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    rig.until(&id, |record| record.counts.sent == 10).await;
    assert_eq!(provider.journal().len(), 11, "one attempt was throttled");
    let is_finished =
        |record: &notify_core::NotificationRecord| record.status == NotificationStatus::Completed;
    let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
    assert_eq!(record.counts.sent, 20, "{record:?}");
    assert_eq!(
        rig.store.agenda(rig.clock.now()).await.unwrap().next_retry_due,
        None,
        "no delivery became a retry"
    );
    rig.stop().await;
}
