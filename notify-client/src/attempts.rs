//! When a call is tried again: one decision for both transports. It neither sends nor waits.

use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBackoff, ExponentialBuilder};

use crate::{Error, RETRY_AFTER_MAX, call::Call};

/// The attempts of one call.
pub(crate) struct Attempts<T> {
    delays: ExponentialBackoff,
    /// Whether doing the call twice does no more than doing it once.
    repeatable: bool,
    gone: Option<fn() -> T>,
    /// Whether an attempt before may have been done by the server, though it did not say so.
    maybe_done: bool,
}

/// What comes after an attempt.
#[derive(Debug)]
pub(crate) enum Step<T> {
    /// Nothing: this is the result.
    End(Result<T, Error>),
    /// Another attempt, after this delay.
    Again(Duration),
}

impl<T> Attempts<T> {
    pub(crate) fn new(delays: &ExponentialBuilder, call: &Call<T>) -> Self {
        Self {
            delays: delays.build(),
            repeatable: !call.creates() || call.keyed(),
            gone: call.gone,
            maybe_done: false,
        }
    }

    /// Decides what an attempt's outcome leads to.
    pub(crate) fn after(&mut self, outcome: Result<T, Error>) -> Step<T> {
        let error = match outcome {
            Ok(answer) => return Step::End(Ok(answer)),
            Err(error) => error,
        };
        if let (Error::NotFound { .. }, true, Some(gone)) = (&error, self.maybe_done, self.gone) {
            return Step::End(Ok(gone()));
        }
        match self.delay(&error) {
            Some(delay) => {
                self.maybe_done |= !error.did_nothing();
                tracing::debug!(%error, delay_ms = delay.as_millis(), "trying again");
                Step::Again(delay)
            }
            None => Step::End(Err(error)),
        }
    }

    fn delay(&mut self, error: &Error) -> Option<Duration> {
        if !error.is_retryable() || !(self.repeatable || error.did_nothing()) {
            return None;
        }
        let asked = error.retry_after().unwrap_or_default();
        if asked > RETRY_AFTER_MAX {
            return None;
        }
        Some(self.delays.next()?.max(asked))
    }
}

#[cfg(test)]
mod tests;
