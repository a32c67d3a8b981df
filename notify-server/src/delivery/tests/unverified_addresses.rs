//! Addresses that anyone may have registered: Web Push addresses that are invented, belong to another VAPID
//! key, or are at an attacker's push service; and push tokens that an app registered with a publishable key.
//! They may delay the application's other
//! devices a little, and have no other effect.

use std::sync::Arc;
use std::time::Duration;

use notify_core::{NotificationId, NotificationRecord, NotificationStatus};
use notify_core::{Platform, ProviderKind, ProviderStatus, RegisterDevice};

use super::rig::{FakeProvider, Rig, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, Scope, SendResult};

const GOOD: usize = 40;
/// Step of the clock: small, so that the engine keeps up.
const STEP: Duration = Duration::from_millis(250);
/// Most unverified addresses that may be probed before another address is read.
const PROBES_OF_STRANGERS_MAX: usize = 2;
const HOUR: Duration = Duration::from_secs(3_600);

/// Browsers with verified addresses at one push service, and unverified addresses registered before
/// and after them.
async fn rig(strangers: usize, endpoint: impl Fn(usize) -> String) -> (Rig, Arc<FakeProvider>) {
    let rig = Rig::new(1).await;
    for number in 0..GOOD / 2 {
        rig.browser(&format!("good-{number}"), &good(number)).await;
    }
    rig.verify_addresses();
    for number in 0..strangers {
        rig.browser(&format!("stranger-{number}"), &endpoint(number)).await;
    }
    let provider = FakeProvider::new(100);
    rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
    (rig, provider)
}

/// The other half of the application's browsers, registered after the unverified addresses.
async fn more_good(rig: &Rig) {
    rig.execute_raw("update unverified_addresses set since = 0");
    for number in GOOD / 2..GOOD {
        rig.browser(&format!("good-{number}"), &good(number)).await;
    }
    rig.execute_raw("delete from unverified_addresses where since > 0");
}

fn good(number: usize) -> String {
    format!("https://push.example/good/{number}")
}

fn invented(number: usize) -> String {
    format!("https://push.example/invented/{number}")
}

/// The beginnings of push tokens that both platforms could have issued.
const GOOD_TOKEN: &str = "600d";
const INVENTED_TOKEN: &str = "bad0";

fn is_good(address: &str) -> bool {
    address.starts_with("https://push.example/good/") || address.starts_with(GOOD_TOKEN)
}

/// Good addresses accept the message, the others give that answer.
fn script(provider: &FakeProvider, answer: impl Fn(usize) -> SendResult + Send + Sync + 'static) {
    provider.script(move |endpoint, attempt| {
        ScriptedAnswer::Answer(if is_good(endpoint) { delivered() } else { answer(attempt) })
    });
}

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

async fn completed(rig: &Rig, id: &NotificationId) -> NotificationRecord {
    rig.advance_until(id, STEP, is_completed).await
}

async fn is_stopped(rig: &Rig) -> bool {
    rig.store.guard_tripped(rig.app, Platform::Web).await.unwrap()
}

fn dead() -> SendResult {
    SendResult::Unregistered { reason: "http_404".into(), ambiguous: true, since: None }
}

fn refused() -> SendResult {
    SendResult::ServiceRefused { reason: "http_403".into() }
}

#[tokio::test]
async fn invented_addresses_do_not_trip_the_guard() {
    let (mut rig, provider) = rig(120, invented).await;
    more_good(&rig).await;
    script(&provider, |_| dead());
    rig.start();
    let first = rig.broadcast_to(Platform::Web).await;
    let record = completed(&rig, &first).await;
    assert_eq!((record.counts.sent, record.counts.unregistered), (GOOD as u64, 120));
    assert!(!is_stopped(&rig).await);
    let second = rig.broadcast_to(Platform::Web).await;
    let record = completed(&rig, &second).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (GOOD as u64, GOOD as u64));
    rig.stop().await;
}

/// An address that took a message before, and was registered with an API key, is evidence.
#[tokio::test]
async fn addresses_that_took_messages_still_trip_the_guard() {
    let (mut rig, provider) = rig(0, invented).await;
    more_good(&rig).await;
    provider.script(|_, _| ScriptedAnswer::Answer(dead()));
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    rig.until(&id, |record| record.counts.unregistered == 21).await;
    assert!(is_stopped(&rig).await);
    rig.stop().await;
}

#[tokio::test]
async fn addresses_of_another_key_hold_nothing_and_end_as_unregistered() {
    let (mut rig, provider) = rig(160, invented).await;
    more_good(&rig).await;
    script(&provider, |_| refused());
    rig.start();
    let first = rig.broadcast_to(Platform::Web).await;
    // Before the clock advances: nothing waits for the unverified addresses.
    rig.until(&first, |record| record.counts.sent == GOOD as u64).await;
    assert_eq!(rig.unavailable_services(), []);
    // The second notification gets through while the unverified addresses of the first are retried.
    let second = rig.broadcast_to(Platform::Web).await;
    rig.until(&second, |record| record.counts.sent == GOOD as u64).await;
    let first = completed(&rig, &first).await;
    // A device that the other notification disabled first counts as failed here.
    assert_eq!(first.counts.sent, GOOD as u64);
    assert_eq!(first.counts.unregistered + first.counts.failed, 160, "{first:?}");
    let tries = provider.journal().iter().filter(|endpoint| !is_good(endpoint)).count();
    assert!(tries <= 2 * 160 * 5, "at most five attempts per notification, not {tries}");
    let third = rig.broadcast_to(Platform::Web).await;
    assert_eq!(completed(&rig, &third).await.counts.targeted, GOOD as u64);
    rig.stop().await;
}

/// No evidence shows that the address or the key is at fault, so the device stays enabled.
#[tokio::test]
async fn a_rejected_address_stays_enabled_while_nothing_gets_through() {
    for (answer, unregistered) in [(refused as fn() -> SendResult, 0), (dead, 20)] {
        let mut rig = Rig::new(1).await;
        for number in 0..30 {
            rig.browser(&format!("stranger-{number}"), &invented(number)).await;
        }
        let provider = FakeProvider::new(1);
        rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
        provider.script(move |_, _| ScriptedAnswer::Answer(answer()));
        rig.start();
        let id = rig.broadcast_to(Platform::Web).await;
        let record = completed(&rig, &id).await;
        assert_eq!(record.counts.unregistered, unregistered, "{record:?}");
        assert_eq!(record.counts.failed, 30 - unregistered);
        assert_eq!(rig.unavailable_services(), []);
        rig.stop().await;
    }
}

/// After a change of the VAPID key, older subscriptions reject it, and newer ones have not taken a
/// message yet. Probes alternate between the two kinds, so that the newer ones are reached.
#[tokio::test]
async fn new_addresses_are_reached_while_all_others_refuse_the_key() {
    let mut rig = Rig::new(1).await;
    for number in 0..20 {
        rig.browser(&format!("before-{number}"), &invented(number)).await;
    }
    rig.verify_addresses();
    for number in 0..GOOD {
        rig.browser(&format!("good-{number}"), &good(number)).await;
    }
    let provider = FakeProvider::new(1);
    rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
    script(&provider, |_| refused());
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let sent = |record: &NotificationRecord| record.counts.sent == GOOD as u64;
    let record = rig.advance_until(&id, Duration::from_secs(1), sent).await;
    assert_eq!((record.counts.failed, record.counts.unregistered), (0, 0), "{record:?}");
    rig.stop().await;
}

/// Browsers without an API key that took messages before and have expired since.
#[tokio::test]
async fn expired_anonymous_addresses_hold_no_service() {
    let mut rig = Rig::new(1).await;
    for number in 0..60 {
        rig.browser(&format!("anonymous-{number}"), &invented(number)).await;
    }
    rig.verify_addresses();
    rig.execute_raw(
        "insert into device_secrets (device_key, hash) select key, zeroblob(32) from devices",
    );
    let provider = FakeProvider::new(1);
    rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
    provider.script(|_, _| ScriptedAnswer::Answer(dead()));
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let record = completed(&rig, &id).await;
    assert_eq!((record.counts.unregistered, record.counts.failed), (20, 40), "{record:?}");
    assert_eq!(rig.unavailable_services(), []);
    assert!(!is_stopped(&rig).await);
    rig.stop().await;
}

#[tokio::test]
async fn a_probe_goes_to_an_address_that_took_a_message_before() {
    let mut rig = Rig::new(1).await;
    for number in 0..20 {
        rig.browser(&format!("stranger-{number}"), &invented(number)).await;
    }
    more_good(&rig).await;
    let provider = FakeProvider::new(1);
    rig.configure(ProviderKind::WebPush, Some(provider.clone())).await;
    provider.script(|_, _| ScriptedAnswer::Answer(refused()));
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    while rig.unavailable_services().is_empty() {
        tokio::task::yield_now().await;
    }
    let closed = rig.unavailable_services();
    assert_eq!(&*closed[0].service, "https://push.example");
    assert!(matches!(closed[0].status, ProviderStatus::AuthRejected { .. }), "{closed:?}");
    let before = provider.journal().len();
    script(&provider, |_| refused());
    let sent = GOOD as u64 / 2;
    rig.advance_until(&id, STEP, |record| record.counts.sent == sent).await;
    let journal = provider.journal();
    let probes = journal[before..].iter().take_while(|endpoint| !is_good(endpoint)).count();
    assert!(
        probes <= PROBES_OF_STRANGERS_MAX,
        "{probes} of 20 unverified addresses were probed first"
    );
    assert_eq!(rig.unavailable_services(), []);
    rig.stop().await;
}

#[tokio::test]
async fn an_unverified_address_throttled_for_a_day_waits_alone() {
    throttled_for_a_day(false).await;
}

#[tokio::test]
async fn a_verified_address_throttled_for_a_day_waits_alone() {
    throttled_for_a_day(true).await;
}

async fn throttled_for_a_day(took_a_message: bool) {
    let (mut rig, provider) = rig(60, invented).await;
    more_good(&rig).await;
    if took_a_message {
        rig.verify_addresses();
        rig.execute_raw(
            "insert into device_secrets (device_key, hash) select key, zeroblob(32) from devices
             where address like '%/invented/%'",
        );
    }
    let throttled = || SendResult::Throttle {
        reason: "http_429".into(),
        after: Some(24 * HOUR),
        scope: Scope::Service,
    };
    script(&provider, move |_| throttled());
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let sent = |record: &NotificationRecord| record.counts.sent == GOOD as u64;
    let started = rig.clock.now();
    rig.advance_until(&id, Duration::from_secs(1), sent).await;
    let waited_ms = rig.clock.now().ms_since(started);
    assert!(waited_ms <= 120_000, "{waited_ms} ms");
    assert_eq!(rig.unavailable_services(), []);
    rig.stop().await;
}

#[tokio::test]
async fn failing_unverified_addresses_delay_the_others_only_briefly() {
    let (mut rig, provider) = rig(100, invented).await;
    more_good(&rig).await;
    script(&provider, |_| SendResult::Retry {
        reason: "http_500".into(),
        after: None,
        outcome: Processing::Failed,
    });
    provider.set_streams(1);
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    let sent = |record: &NotificationRecord| record.counts.sent == GOOD as u64;
    let started = rig.clock.now();
    rig.advance_until(&id, Duration::from_secs(1), sent).await;
    let waited_ms = rig.clock.now().ms_since(started);
    assert!(waited_ms <= 30_000, "{waited_ms} ms");
    rig.stop().await;
}

/// Each address names its own push service, which accepts connections and never answers.
#[tokio::test]
async fn a_thousand_silent_services_leave_the_others_their_streams() {
    let silent = |number: usize| format!("https://silent-{number}.example/push");
    let (mut rig, provider) = rig(1_000, silent).await;
    more_good(&rig).await;
    provider.limit_services(100);
    provider.script(|endpoint, _| match is_good(endpoint) {
        true => ScriptedAnswer::Answer(delivered()),
        false => ScriptedAnswer::Held(delivered()),
    });
    rig.start();
    let id = rig.broadcast_to(Platform::Web).await;
    rig.until(&id, |record| record.counts.sent == GOOD as u64).await;
    let held = provider.journal().iter().filter(|endpoint| !is_good(endpoint)).count();
    assert!(held <= 95, "{held} of 100 streams");
    provider.release();
    completed(&rig, &id).await;
    rig.stop().await;
}

fn phone(platform: Platform, device: &str, token: &str) -> RegisterDevice {
    match platform {
        Platform::Ios => RegisterDevice::ios(device, token),
        _ => RegisterDevice::android(device, token),
    }
}

/// Strangers register invented push tokens with the publishable key of an app.
async fn invented_tokens_stop_nothing(platform: Platform, provider: ProviderKind) {
    const STRANGERS: u64 = 60;
    let mut rig = Rig::new(1).await;
    for number in 0..GOOD {
        let token = format!("{GOOD_TOKEN}{number:04}");
        rig.register(phone(platform, &format!("good-{number}"), &token)).await;
    }
    for number in 0..STRANGERS {
        let token = format!("{INVENTED_TOKEN}{number:04}");
        rig.register(phone(platform, &format!("stranger-{number}"), &token)).await;
    }
    rig.execute_raw(&format!(
        "insert into unverified_addresses select key, 0, 0 from devices
         where address like '{INVENTED_TOKEN}%'"
    ));
    let fake = FakeProvider::new(1);
    rig.configure(provider, Some(fake.clone())).await;
    script(&fake, |_| dead());
    rig.start();
    let id = rig.broadcast_to(platform).await;
    let record = completed(&rig, &id).await;
    assert_eq!(record.counts.sent, GOOD as u64, "{record:?}");
    // The first of them are disabled. Without a message in between, the others are not.
    assert_eq!((record.counts.unregistered, record.counts.failed), (20, STRANGERS - 20));
    assert!(!rig.store.guard_tripped(rig.app, platform).await.unwrap());
    let again = rig.broadcast_to(platform).await;
    let record = completed(&rig, &again).await;
    assert_eq!(record.counts.sent, GOOD as u64, "the platform still sends");
    rig.stop().await;
}

#[tokio::test]
async fn invented_tokens_of_apps_do_not_stop_fcm() {
    invented_tokens_stop_nothing(Platform::Android, ProviderKind::Fcm).await;
}

#[tokio::test]
async fn invented_tokens_of_apps_do_not_stop_apns() {
    invented_tokens_stop_nothing(Platform::Ios, ProviderKind::Apns).await;
}
