//! The retry policy of the asynchronous and the blocking client: whether a failed attempt is repeated, and
//! after which delay. This module neither sends requests nor sleeps.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::{Error, RETRY_AFTER_MAX, call::Call};

/// Retry state of one call.
pub(crate) struct Retry<T> {
    backoff: ExponentialBackoff,
    /// Whether sending the call twice has the same effect as sending it once.
    is_idempotent: bool,
    /// See [`Call::value_if_not_found`].
    value_if_not_found: Option<fn() -> T>,
    /// Whether the server may have executed an earlier attempt although it failed.
    maybe_executed: bool,
}

/// The next step after an attempt.
#[derive(Debug)]
pub(crate) enum Decision<T> {
    /// No further attempt: this is the result of the call.
    Finish(Result<T, Error>),
    /// Another attempt, after this delay.
    RetryAfter(Duration),
}

impl<T> Retry<T> {
    pub(crate) fn new(backoff: &ExponentialBuilder, call: &Call<T>) -> Self {
        Self {
            backoff: backoff.build(),
            is_idempotent: !call.is_post() || call.takes_idempotency_key(),
            value_if_not_found: call.value_if_not_found,
            maybe_executed: false,
        }
    }

    /// Decides the next step after an attempt with this result.
    pub(crate) fn decide(&mut self, result: Result<T, Error>) -> Decision<T> {
        let error = match result {
            Ok(value) => return Decision::Finish(Ok(value)),
            Err(error) => error,
        };
        if matches!(error, Error::NotFound { .. })
            && self.maybe_executed
            && let Some(value) = self.value_if_not_found
        {
            return Decision::Finish(Ok(value()));
        }
        match self.delay(&error) {
            Some(delay) => {
                self.maybe_executed |= error.may_be_executed();
                tracing::debug!(%error, delay_ms = delay.as_millis(), "retrying");
                Decision::RetryAfter(delay)
            }
            None => Decision::Finish(Err(error)),
        }
    }

    /// The delay before the next attempt; `None` if the call must not be retried.
    fn delay(&mut self, error: &Error) -> Option<Duration> {
        let executes_twice = error.may_be_executed() && !self.is_idempotent;
        if !error.is_retryable() || executes_twice {
            return None;
        }
        let retry_after = error.retry_after().unwrap_or_default();
        if retry_after > RETRY_AFTER_MAX {
            return None;
        }
        Some(self.backoff.next()?.max(retry_after))
    }
}

#[cfg(test)]
mod tests;
