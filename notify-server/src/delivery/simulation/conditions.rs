//! The conditions of the push services, and the answers that follow from them.

use std::time::Duration;

use notify_core::{Platform, Timestamp};

use crate::providers::{Processing, REQUEST_TIMEOUT_SECONDS, Scope, SendResult};

/// The condition of a push service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Condition {
    /// Accepts everything.
    Healthy,
    /// Gives every kind of answer.
    Mixed,
    /// Accepts everything, slowly.
    Slow,
    /// Is unreachable.
    Unreachable,
    /// Does not answer.
    Silent,
    /// Throttles.
    Throttling,
    /// Rejects the credentials.
    RejectingCredentials,
}

impl Condition {
    pub(super) fn random(rng: &mut fastrand::Rng) -> Self {
        match rng.u8(0..16) {
            0..4 => Self::Healthy,
            4..10 => Self::Mixed,
            10 => Self::Slow,
            11 => Self::Unreachable,
            12 => Self::Silent,
            13 => Self::Throttling,
            _ => Self::RejectingCredentials,
        }
    }
}

/// A future answer.
pub(super) struct PlannedAnswer {
    pub(super) after: Duration,
    pub(super) answer: SendResult,
}

/// The result of one attempt.
pub(super) fn plan_answer(
    condition: Condition,
    rng: &mut fastrand::Rng,
    platform: Platform,
    now: Timestamp,
) -> PlannedAnswer {
    let quick = Duration::from_millis(rng.u64(1..80));
    let delivered = SendResult::Delivered { message_id: None };
    let (after, answer) = match condition {
        Condition::Healthy => (quick, delivered),
        Condition::Slow => (Duration::from_millis(rng.u64(500..9_000)), delivered),
        Condition::Unreachable => (quick, retry(rng, "unreachable", Processing::NotProcessed)),
        Condition::Silent => silence(),
        Condition::Throttling => (quick, throttle(rng)),
        Condition::RejectingCredentials => {
            (quick, SendResult::AuthRejected { reason: "credentials".into() })
        }
        Condition::Mixed if rng.u8(0..60) == 0 => silence(),
        Condition::Mixed => {
            let slow = rng.u8(0..20) == 0;
            let after = if slow { Duration::from_millis(rng.u64(100..20_000)) } else { quick };
            (after, mixed(rng, platform, now))
        }
    };
    PlannedAnswer { after, answer }
}

/// A provider ends each of its attempts with a timeout.
fn silence() -> (Duration, SendResult) {
    let answer =
        SendResult::Retry { reason: "timeout".into(), after: None, outcome: Processing::Unknown };
    (Duration::from_secs(REQUEST_TIMEOUT_SECONDS), answer)
}

fn mixed(rng: &mut fastrand::Rng, platform: Platform, now: Timestamp) -> SendResult {
    match rng.u8(0..100) {
        0..8 => retry(rng, "http_503", Processing::Failed),
        8..12 => retry(rng, "cut", Processing::Unknown),
        12..15 => retry(rng, "refused_stream", Processing::NotProcessed),
        15..19 => throttle(rng),
        19 => SendResult::AuthRejected { reason: "credentials".into() },
        20..23 => SendResult::InvalidMessage { reason: "bad_message".into() },
        23..25 => SendResult::NotPermitted { reason: "policy".into() },
        25..30 => unregistered(rng, now),
        30..33 => SendResult::Unknown { reason: "http_418".into() },
        33..36 if platform == Platform::Web => {
            SendResult::ServiceRefused { reason: "refused".into() }
        }
        33..36 if platform == Platform::ChatApp => {
            SendResult::AddressChanged { to: format!("moved-{:08x}", rng.u32(..)).into() }
        }
        _ => SendResult::Delivered { message_id: None },
    }
}

fn unregistered(rng: &mut fastrand::Rng, now: Timestamp) -> SendResult {
    let since = match rng.u8(0..4) {
        0 => Some(now.plus_ms(-rng.i64(0..3_600_000))),
        1 => Some(now),
        _ => None,
    };
    SendResult::Unregistered { reason: "gone".into(), ambiguous: rng.u8(0..4) == 0, since }
}

fn retry(rng: &mut fastrand::Rng, reason: &'static str, outcome: Processing) -> SendResult {
    SendResult::Retry { reason: reason.into(), after: retry_after(rng), outcome }
}

fn throttle(rng: &mut fastrand::Rng) -> SendResult {
    let scope = match rng.u8(0..3) {
        0 => Scope::Provider,
        1 => Scope::Service,
        _ => Scope::Address,
    };
    SendResult::Throttle { reason: "slow_down".into(), after: retry_after(rng), scope }
}

fn retry_after(rng: &mut fastrand::Rng) -> Option<Duration> {
    match rng.u8(0..6) {
        0 => Some(Duration::ZERO),
        1 => Some(Duration::from_secs(rng.u64(1..10))),
        2 => Some(Duration::from_secs(rng.u64(10..1_200))),
        _ => None,
    }
}
