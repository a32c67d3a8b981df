//! Devices and messages at which the code panics, mixed into a page of five
//! hundred devices. Only they fail, with a reason. No other device waits, fails, or is sent to twice.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use notify_core::{CreateNotification, NotificationRecord, NotificationStatus, RegisterDevice};

use super::rig::{Rig, ScriptedAnswer, delivered};
use crate::providers::SendResult;

/// Number of devices in one page.
const PAGE: usize = 500;
/// One in this many makes the code that sends to it panic.
const POISONED_EVERY: usize = 100;
/// Attempts of a delivery whose answers are unknown.
const ATTEMPTS_MAX: usize = 5;

fn is_finished(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

fn is_poisoned(token: &str) -> bool {
    let number = token.strip_prefix("token-d").and_then(|number| number.parse::<usize>().ok());
    number.is_some_and(|number| number % POISONED_EVERY == 7)
}

/// Tokens that no provider issues, and at which a provider might panic.
const ODD: [&str; 8] = [
    "not-hex-at-all",
    "0123456789abcdeg",
    "\u{7f}\u{80}\u{9f}",
    "\u{202e}token",
    "a/../../b?c#d%00%zz",
    "\"}}],\"x\":\"",
    "\u{feff}token",
    "🦀🦀🦀",
];

#[tokio::test]
async fn deliveries_that_panic_fail_alone_in_a_page_of_five_hundred() {
    let mut rig = Rig::new(50).await;
    rig.config.page_rows = PAGE as u32;
    // The lease is longer than any delay, so that the test does not mistake its end for the next attempt.
    rig.config.lease_ms = 60_000;
    rig.devices(PAGE - ODD.len()).await;
    for (number, token) in ODD.iter().enumerate() {
        rig.register(RegisterDevice::android(format!("odd{number}"), *token)).await;
    }
    let broken = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&broken);
    rig.provider.script(move |token, _| {
        if is_poisoned(token) {
            counted.fetch_add(1, Ordering::SeqCst);
            panic!("a defect in a provider");
        }
        let is_odd = ODD.contains(&token);
        ScriptedAnswer::Answer(match is_odd {
            true => SendResult::InvalidMessage { reason: "InvalidRegistration".into() },
            false => delivered(),
        })
    });
    rig.start();
    let id = rig.broadcast().await;
    let poisoned = (0..PAGE - ODD.len()).filter(|number| number % POISONED_EVERY == 7).count();
    let healthy = (PAGE - ODD.len() - poisoned) as u64;
    let first = rig.until(&id, |record| record.counts.sent == healthy).await;
    assert_eq!(first.counts.failed, ODD.len() as u64, "the other devices do not wait");

    let record = rig.advance_until(&id, Duration::from_secs(1), is_finished).await;
    assert_eq!(record.counts.targeted, PAGE as u64);
    assert_eq!((record.counts.sent, record.counts.pending), (healthy, 0));
    assert_eq!(record.counts.failed, (poisoned + ODD.len()) as u64);
    let reasons: HashMap<&str, u64> =
        record.failures.iter().map(|failure| (failure.reason.as_str(), failure.count)).collect();
    let expected = [("internal_error", poisoned as u64), ("InvalidRegistration", ODD.len() as u64)];
    assert_eq!(reasons, HashMap::from(expected));

    assert_eq!(broken.load(Ordering::SeqCst), poisoned * ATTEMPTS_MAX);
    let mut attempts = rig.provider.journal();
    attempts.sort_unstable();
    attempts.dedup();
    assert_eq!(attempts.len(), PAGE - poisoned);
    assert_eq!(rig.provider.journal().len(), attempts.len(), "each other device is sent to once");
    // The next page is not affected.
    let next = rig.broadcast().await;
    rig.until(&next, |record| record.counts.sent == healthy).await;
    rig.stop().await;
}

/// A message whose rendering panics fails as a whole, and the next one is sent.
#[tokio::test]
async fn a_message_whose_rendering_panics_does_not_affect_others() {
    let mut rig = Rig::new(10).await;
    rig.devices(50).await;
    rig.provider.panic_on_render(true);
    rig.start();
    let poisoned = rig.broadcast().await;
    let record = rig.until(&poisoned, is_finished).await;
    assert_eq!((record.counts.targeted, record.counts.failed), (50, 50));
    assert_eq!(record.failures[0].reason, "internal_error");
    assert_eq!(rig.provider.journal().len(), 0);
    rig.provider.panic_on_render(false);
    let next = rig
        .accept(CreateNotification {
            text: Some("Hello".into()),
            platforms: Some(vec!["android".into()]),
            ..CreateNotification::default()
        })
        .await;
    assert_eq!(rig.until(&next, is_finished).await.counts.sent, 50);
    rig.stop().await;
}
