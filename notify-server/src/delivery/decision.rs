//! The retry policy: what happens to a delivery after an attempt. It is a pure function of the
//! provider's answer, the delivery's earlier attempts and the time. No other place decides about
//! retries.

use std::time::Duration;

use notify_core::{Platform, Timestamp};

use crate::providers::{Processing, Reason, Scope, SendResult};
use crate::reasons;
use crate::store::Outcome;

/// When and how often a delivery is retried.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// First delay of the backoff, in milliseconds. The delay doubles with each attempt.
    pub first_delay_ms: i64,
    /// Longest delay of the backoff, in milliseconds.
    pub delay_ms_max: i64,
    /// Shortest delay that a provider may request, in milliseconds. If a provider could request none, a
    /// message would be repeated at the speed of the network.
    pub retry_after_ms_min: i64,
    /// Longest delay that a provider may request, in milliseconds.
    pub retry_after_ms_max: i64,
    /// Age after which a delivery fails, in milliseconds since its first attempt.
    pub age_ms_max: i64,
    /// Delay after a throttle if the provider requested none, in milliseconds.
    pub throttle_ms: i64,
    /// Time between probes of a held provider, in milliseconds.
    pub probe_every_ms: i64,
    /// Most attempts of a delivery that end in an unknown answer.
    pub unknown_attempts_max: u16,
    /// Consecutive rejections of our credentials after which a push service is held.
    pub service_refusals_max: u16,
    /// Most attempts with an unknown outcome on a platform that cannot recognise a repeated message.
    pub ambiguous_attempts_max: u16,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_delay_ms: 2_000,
            delay_ms_max: 15 * 60_000,
            retry_after_ms_min: 1_000,
            retry_after_ms_max: 24 * 3_600_000,
            age_ms_max: 24 * 3_600_000,
            throttle_ms: 60_000,
            probe_every_ms: 60_000,
            unknown_attempts_max: 5,
            service_refusals_max: 5,
            ambiguous_attempts_max: 2,
        }
    }
}

/// A delivery, and the circumstances of the attempt that just completed.
#[derive(Debug, Clone, Copy)]
pub struct AttemptContext {
    /// Platform.
    pub platform: Platform,
    /// Attempts that counted before this one.
    pub attempts_before: u16,
    /// When the first attempt was made.
    pub first_attempt_at: Timestamp,
    /// Earlier attempts with an unknown outcome.
    pub unknown_outcomes: u16,
    /// Consecutive rejections of our credentials by the upstream at verified addresses, including this
    /// answer; 0 if this address is unverified. An address is verified once it took a message.
    pub service_refusals: u16,
    /// Whether a rejection of our credentials is the fault of the address: the address is unverified,
    /// and the same upstream accepts our credentials at other addresses.
    pub is_address_at_fault: bool,
    /// When the notification expires; `None` if the delivery has one attempt only.
    pub expires_at: Option<Timestamp>,
    /// The time at the end of the attempt.
    pub now: Timestamp,
    /// A random number from 0 to 1, for the jitter.
    pub jitter: f64,
}

/// What happens to the delivery next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The delivery ends.
    End {
        /// The outcome.
        settled: Outcome,
        /// Why the delivery ends; `None` if the message was sent.
        reason: Option<Reason>,
    },
    /// The delivery ends, and the address is disabled.
    Disable {
        /// Why the address is disabled.
        reason: Reason,
        /// Since when the address is dead, if the provider reported it. A device that was registered
        /// later stays enabled.
        since: Option<Timestamp>,
    },
    /// The address changed: the new one is stored, and the delivery is retried there.
    Move {
        /// The new address.
        to: Box<str>,
        /// When the delivery is retried.
        due_at: Timestamp,
        /// Number of attempts that count.
        attempts: u16,
    },
    /// The delivery is retried.
    Retry {
        /// When the delivery is retried.
        due_at: Timestamp,
        /// Why the delivery is retried.
        reason: Reason,
        /// Number of attempts that count. A throttled attempt does not.
        attempts: u16,
        /// Attempts with an unknown outcome.
        unknown_outcomes: u16,
    },
    /// All deliveries of this application to the provider or upstream wait; the attempt does not
    /// count.
    Pause {
        /// When the wait ends.
        until: Timestamp,
        /// What waits.
        scope: Scope,
    },
    /// Our credentials are rejected: all deliveries of this application to the provider or upstream
    /// are held.
    Hold {
        /// The code of the rejection.
        reason: Reason,
        /// What is held.
        scope: Scope,
    },
}

/// Decides what happens after an attempt.
#[must_use]
pub fn decide(answer: SendResult, attempt: &AttemptContext, policy: &RetryPolicy) -> Decision {
    match answer {
        SendResult::Delivered { .. } => Decision::End { settled: Outcome::Sent, reason: None },
        SendResult::Unregistered { reason, since, ambiguous: _ } => {
            Decision::Disable { reason, since }
        }
        SendResult::InvalidMessage { reason } | SendResult::NotPermitted { reason } => {
            Decision::End { settled: Outcome::Failed, reason: Some(reason) }
        }
        SendResult::AuthRejected { reason } => Decision::Hold { reason, scope: Scope::Provider },
        // The arms below handle fewer rejections, because a single rejection may concern a subscription that
        // was made with another key. Many rejections in a row, at verified addresses, mean that our key or
        // our clock is wrong.
        SendResult::ServiceRefused { reason }
            if attempt.service_refusals >= policy.service_refusals_max =>
        {
            Decision::Hold { reason, scope: Scope::Service }
        }
        SendResult::Throttle { reason, after, scope } => {
            pause_or_retry(reason, after, scope, attempt, policy)
        }
        SendResult::Retry { reason, after, outcome } => {
            let is_unknown = outcome == Processing::Unknown;
            let unknown_outcomes = attempt.unknown_outcomes.saturating_add(u16::from(is_unknown));
            if is_unknown
                && !supports_dedup(attempt.platform)
                && unknown_outcomes >= policy.ambiguous_attempts_max
            {
                return Decision::End { settled: Outcome::Failed, reason: Some(reason) };
            }
            retry_after_failure(reason, after, unknown_outcomes, attempt, policy)
        }
        SendResult::AddressChanged { to } => move_address(to, attempt, policy),
        SendResult::ServiceRefused { reason }
            if is_last_unknown(attempt, policy) && attempt.is_address_at_fault =>
        {
            Decision::Disable { reason, since: None }
        }
        SendResult::Unknown { reason } | SendResult::ServiceRefused { reason } => {
            if is_last_unknown(attempt, policy) {
                return Decision::End { settled: Outcome::Failed, reason: Some(reason) };
            }
            retry_after_failure(reason, None, attempt.unknown_outcomes, attempt, policy)
        }
    }
}

/// Whether this was the last attempt that may end in an unknown answer.
fn is_last_unknown(attempt: &AttemptContext, policy: &RetryPolicy) -> bool {
    attempt.attempts_before.saturating_add(1) >= policy.unknown_attempts_max
}

/// Whether the platform recognises a repeated message by an id, and shows it only once. Raw data messages are
/// an exception: see [`ActiveDispatch::supports_dedup`](super::dispatch::ActiveDispatch::supports_dedup).
pub(crate) fn supports_dedup(platform: Platform) -> bool {
    match platform {
        Platform::Android | Platform::Ios | Platform::Web => true,
        Platform::FbMessenger | Platform::ChatApp => false,
    }
}

/// Moves the delivery to a new address. The retry is immediate after the first attempt. If the new
/// address is redirected as well, the retry waits as after any failure.
fn move_address(to: Box<str>, attempt: &AttemptContext, policy: &RetryPolicy) -> Decision {
    if attempt.attempts_before == 0 && attempt.expires_at.is_some() {
        return Decision::Move { to, due_at: attempt.now, attempts: 1 };
    }
    let reason = reasons::MOVED.into();
    match retry_after_failure(reason, None, attempt.unknown_outcomes, attempt, policy) {
        Decision::Retry { due_at, attempts, .. } => Decision::Move { to, due_at, attempts },
        end => end,
    }
}

/// Decides after a throttle: everything in `scope` pauses, or this delivery alone is retried.
fn pause_or_retry(
    reason: Reason,
    after: Option<Duration>,
    scope: Scope,
    attempt: &AttemptContext,
    policy: &RetryPolicy,
) -> Decision {
    let delay_ms = retry_after_ms(after, policy).unwrap_or(policy.throttle_ms);
    let until = attempt.now.plus_ms(delay_ms);
    match scope {
        Scope::Provider | Scope::Service => Decision::Pause { until, scope },
        // The throttled attempt does not count.
        Scope::Address => {
            let (attempts, unknown_outcomes) = (attempt.attempts_before, attempt.unknown_outcomes);
            retry_or_end(reason, until, attempts, unknown_outcomes, attempt, policy)
        }
    }
}

/// Decides after a failed attempt, which counts: the delivery is retried after the delay that the
/// provider requested, or after the backoff. It ends if that is too late.
fn retry_after_failure(
    reason: Reason,
    after: Option<Duration>,
    unknown_outcomes: u16,
    attempt: &AttemptContext,
    policy: &RetryPolicy,
) -> Decision {
    let attempts = attempt.attempts_before.saturating_add(1);
    let delay_ms = retry_after_ms(after, policy)
        .unwrap_or_else(|| backoff_ms(attempts, attempt.jitter, policy));
    let due_at = attempt.now.plus_ms(delay_ms);
    retry_or_end(reason, due_at, attempts, unknown_outcomes, attempt, policy)
}

/// A retry at `due_at`. If the notification expires before that, the delivery ends as expired; if the
/// delivery would be too old by then, it ends as failed.
fn retry_or_end(
    reason: Reason,
    due_at: Timestamp,
    attempts: u16,
    unknown_outcomes: u16,
    attempt: &AttemptContext,
    policy: &RetryPolicy,
) -> Decision {
    if attempt.expires_at.is_none_or(|expires_at| due_at >= expires_at) {
        return Decision::End { settled: Outcome::Expired, reason: Some(reason) };
    }
    if due_at.ms_since(attempt.first_attempt_at) >= policy.age_ms_max {
        return Decision::End { settled: Outcome::Failed, reason: Some(reason) };
    }
    Decision::Retry { due_at, reason, attempts, unknown_outcomes }
}

/// The delay that the provider requested, limited by the policy, in milliseconds.
fn retry_after_ms(after: Option<Duration>, policy: &RetryPolicy) -> Option<i64> {
    let requested = i64::try_from(after?.as_millis()).unwrap_or(i64::MAX);
    Some(requested.clamp(policy.retry_after_ms_min, policy.retry_after_ms_max))
}

/// The delay of the exponential backoff, in milliseconds. The jitter subtracts up to half of it.
fn backoff_ms(attempts: u16, jitter: f64, policy: &RetryPolicy) -> i64 {
    let doublings = u32::from(attempts.saturating_sub(1)).min(32);
    let delay_ms =
        policy.first_delay_ms.saturating_mul(1_i64 << doublings).min(policy.delay_ms_max);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "milliseconds"
    )]
    let reduction_ms = (delay_ms as f64 / 2.0 * jitter.clamp(0.0, 1.0)) as i64;
    delay_ms - reduction_ms
}

#[cfg(test)]
mod tests;
