//! One attempt, guarded: a message that breaks the code must not take its neighbours along.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use tokio::time::Instant;

use crate::failpoint::{self, Stage};
use crate::providers::{Address, Answer, Prepared, Reason, SharedProvider};
use crate::reasons;
use crate::telemetry::{DeliveryMetrics, masked};

/// Makes one attempt. One that panics is told as an answer that says nothing known: it is tried
/// again a few times, and then fails alone.
pub(crate) async fn attempt(
    metrics: &DeliveryMetrics,
    provider: &SharedProvider,
    payload: &Prepared,
    address: &Address,
) -> Answer {
    let began = Instant::now();
    failpoint::reach(address.provider().as_str(), Stage::Unsent);
    let attempt = AssertUnwindSafe(provider.attempt(payload, address));
    let answer = attempt.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("an attempt broke off");
        Answer::Unknown { reason: reasons::INTERNAL_ERROR.into() }
    });
    failpoint::reach(address.provider().as_str(), Stage::Answered);
    metrics.attempted(address.provider(), began.elapsed());
    if let Some(reason) = reason(&answer) {
        let provider = address.provider().as_str();
        tracing::debug!(provider, address = %masked(address.text()), %reason, "not delivered");
    }
    answer
}

/// Why an attempt did not deliver.
fn reason(answer: &Answer) -> Option<&Reason> {
    match answer {
        Answer::Delivered { .. } | Answer::Moved { .. } => None,
        Answer::TokenDead { reason, .. }
        | Answer::Retry { reason, .. }
        | Answer::Throttle { reason, .. }
        | Answer::Config { reason }
        | Answer::ServiceRefused { reason }
        | Answer::BadMessage { reason }
        | Answer::Policy { reason }
        | Answer::Unknown { reason } => Some(reason),
    }
}
