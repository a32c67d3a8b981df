//! One attempt, guarded: a message that breaks the code must not take its neighbours along.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;

use crate::providers::{Address, Answer, Prepared, SharedProvider};

/// Makes one attempt. One that panics is told as an answer that says nothing known: it is tried
/// again a few times, and then fails alone.
pub(crate) async fn attempt(
    provider: &SharedProvider,
    payload: &Prepared,
    address: &Address,
) -> Answer {
    let attempt = AssertUnwindSafe(provider.attempt(payload, address));
    attempt.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("an attempt broke off");
        Answer::Unknown { reason: "internal_error".into() }
    })
}
