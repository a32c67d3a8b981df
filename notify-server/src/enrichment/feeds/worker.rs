//! Fetches feeds when they are due, a few at a time and at most two from one host.
//!
//! The store holds the due time of every feed. A worker claims a feed in the store before it
//! fetches the feed, so that two servers never fetch the same feed at once. If the process ends
//! during a fetch, the feed is due again when its claim expires.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use notify_core::Timestamp;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock::SharedClock;
use crate::enrichment::feeds::fetch::{FetchError, Head};
use crate::enrichment::feeds::host_limiter::{Host, HostLimiter};
use crate::enrichment::feeds::reader::{FeedReader, FetchedFeed};
use crate::error_chain::error_chain;
use crate::keys::sha256;
use crate::store::{
    Change, ChangeListener, EnrichmentChange, FeedClaim, FeedFetch, FeedItemRow, FeedItems, Moved,
    SharedStore, StoreError,
};
use crate::telemetry::{FeedMetrics, FeedResult};

/// Duration of a claim, in milliseconds. It covers the wait for a slot of the host, the fetch, the
/// wait for the parser, and the write.
const CLAIM_MS: i64 = 120_000;
/// Longest time between two looks for due feeds, in milliseconds. It applies after an error of the
/// store, and when no feed is due earlier: another server may have claimed feeds and stopped.
const POLL_INTERVAL_MAX_MS: i64 = 60_000;

/// The dependencies of a fetch.
pub(crate) struct FeedWorker {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) reader: Arc<FeedReader>,
    pub(crate) metrics: FeedMetrics,
}

/// Wakes the worker after changes that may make feeds due.
struct DueSignal(Notify);

impl ChangeListener for DueSignal {
    fn on_change(&self, change: Change) {
        match change {
            // Feeds of an inactive application are not fetched. They may be due when it is active
            // again.
            Change::App(_) | Change::Enrichment(EnrichmentChange::FeedDue) | Change::Resync => {
                self.0.notify_one();
            }
            Change::Enrichment(EnrichmentChange::Campaign(_) | EnrichmentChange::FeedItems(_))
            | Change::Delivery(_)
            | Change::Events(_)
            | Change::Keys => {}
        }
    }
}

/// The fetches that run, and the claimed feeds that wait for a slot.
#[derive(Default)]
struct Fetches {
    tasks: JoinSet<()>,
    hosts: HashMap<Id, Host>,
    limiter: HostLimiter,
}

impl Fetches {
    /// Starts a fetch for each waiting feed whose host has a free slot.
    fn start(&mut self, worker: &Arc<FeedWorker>, now: Timestamp) {
        while let Some((host, claim)) = self.limiter.start_next(now) {
            let worker = Arc::clone(worker);
            let task = self.tasks.spawn(async move { fetch(&worker, claim).await });
            self.hosts.insert(task.id(), host);
        }
    }

    /// Waits until a fetch ends, and releases its slot.
    async fn join_next(&mut self) {
        if let Some(task_result) = self.tasks.join_next_with_id().await {
            self.release_slot(task_result);
        }
    }

    /// Releases the slots of all fetches that have ended. Does not wait.
    fn join_ended(&mut self) {
        while let Some(task_result) = self.tasks.try_join_next_with_id() {
            self.release_slot(task_result);
        }
    }

    /// Releases the slot of an ended fetch, also if its task panicked.
    fn release_slot(&mut self, task_result: Result<(Id, ()), JoinError>) {
        let id = match task_result {
            Ok((id, ())) => id,
            Err(error) => error.id(),
        };
        if let Some(host) = self.hosts.remove(&id) {
            self.limiter.release(&host);
        }
    }
}

/// Fetches due feeds until `stopping` is cancelled.
pub(crate) async fn run(worker: FeedWorker, stopping: CancellationToken) {
    let worker = Arc::new(worker);
    let due_signal = Arc::new(DueSignal(Notify::new()));
    worker.store.subscribe(due_signal.clone());
    let mut fetches = Fetches::default();
    loop {
        let poll_at = match start_due(&worker, &mut fetches).await {
            Ok(poll_at) => poll_at,
            Err(error) => {
                tracing::warn!(cause = error_chain(&error), "due feeds could not be read");
                worker.clock.now().plus_ms(POLL_INTERVAL_MAX_MS)
            }
        };
        let is_full = fetches.limiter.claim_capacity() == 0;
        tokio::select! {
            () = stopping.cancelled() => return,
            () = fetches.join_next(), if !fetches.tasks.is_empty() => {}
            () = due_signal.0.notified(), if !is_full => {}
            () = worker.clock.sleep_until(poll_at), if !is_full => {}
        }
    }
}

/// Claims due feeds and starts their fetches as far as slots are free. Returns when to look for due
/// feeds again.
async fn start_due(
    worker: &Arc<FeedWorker>,
    fetches: &mut Fetches,
) -> Result<Timestamp, StoreError> {
    fetches.join_ended();
    let now = worker.clock.now();
    fetches.start(worker, now);
    let capacity = fetches.limiter.claim_capacity();
    let latest_poll = now.plus_ms(POLL_INTERVAL_MAX_MS);
    let Some(due_at) = worker.store.next_feed_due().await? else { return Ok(latest_poll) };
    if due_at > now || capacity == 0 {
        return Ok(due_at.min(latest_poll));
    }
    for claim in worker.store.claim_feeds(now, now.plus_ms(CLAIM_MS), capacity).await? {
        fetches.limiter.enqueue(claim, now);
    }
    fetches.start(worker, now);
    if fetches.limiter.claim_capacity() == 0 {
        // The end of a fetch wakes the worker.
        return Ok(latest_poll);
    }
    // The claim was limited to `capacity`, so more feeds may be due.
    Ok(now.plus_ms(1))
}

async fn fetch(worker: &FeedWorker, claim: FeedClaim) {
    let read = worker.reader.read(&claim.url, &claim.validators).await;
    worker.metrics.count_fetch(metric_of(&read));
    let feed_fetch = to_feed_fetch(worker.clock.now(), &claim, read);
    match worker.store.finish_feed(claim.feed, claim.claim, feed_fetch).await {
        // The feed was deleted, or the claim expired and another server fetched the feed.
        Ok(()) | Err(StoreError::NotFound) => {}
        Err(error) => {
            tracing::warn!(
                cause = error_chain(&error),
                "the result of fetching a feed was not stored"
            );
        }
    }
}

fn metric_of(read: &Result<FetchedFeed, FetchError>) -> FeedResult {
    match read {
        Ok(FetchedFeed::Changed { .. }) => FeedResult::Read,
        Ok(FetchedFeed::Unchanged(_)) => FeedResult::Unchanged,
        Err(FetchError::Blocked | FetchError::PrivateAddress) => FeedResult::Blocked,
        Err(FetchError::Gone) => FeedResult::Gone,
        Err(FetchError::Unreadable(_) | FetchError::TooLarge | FetchError::Compression) => {
            FeedResult::Unreadable
        }
        Err(
            FetchError::Unresolved
            | FetchError::Proxy
            | FetchError::Unreachable
            | FetchError::Tls(_)
            | FetchError::NotAttempted
            | FetchError::Status { .. }
            | FetchError::Redirected,
        ) => FeedResult::Failed,
    }
}

/// The result of a fetch, as it is stored.
fn to_feed_fetch(
    now: Timestamp,
    claim: &FeedClaim,
    read: Result<FetchedFeed, FetchError>,
) -> FeedFetch {
    let error = match read {
        Ok(FetchedFeed::Unchanged(head)) => return successful_fetch(now, claim, &head, None),
        Ok(FetchedFeed::Changed { head, validators, feed }) => {
            let items = FeedItems {
                digest: digest(&feed.items),
                rows: feed.items,
                validators,
                ttl_minutes: feed.ttl_minutes,
            };
            return successful_fetch(now, claim, &head, Some(items));
        }
        Err(error) => error,
    };
    // `NotAttempted` is a problem of this server. It does not count as a failure of the feed.
    let new_failures = u32::from(error != FetchError::NotAttempted);
    let failures = claim.failures.saturating_add(new_failures);
    let outcome = match error {
        FetchError::Gone => Outcome::Gone,
        FetchError::Status { retry_after_ms, .. } => Outcome::Failed { failures, retry_after_ms },
        FetchError::NotAttempted => Outcome::Failed { failures: 1, retry_after_ms: None },
        FetchError::Blocked
        | FetchError::PrivateAddress
        | FetchError::Unresolved
        | FetchError::Proxy
        | FetchError::Unreachable
        | FetchError::Tls(_)
        | FetchError::Redirected
        | FetchError::TooLarge
        | FetchError::Compression
        | FetchError::Unreadable(_) => Outcome::Failed { failures, retry_after_ms: None },
    };
    FeedFetch {
        at: now,
        next_at: next_fetch(now, outcome),
        error: Some(error.to_string()),
        failures,
        items: None,
        moved: claim.moved.clone(),
        url: None,
    }
}

/// The stored result of a fetch that succeeded. `items` is `None` if the feed has not changed.
fn successful_fetch(
    now: Timestamp,
    claim: &FeedClaim,
    head: &Head,
    items: Option<FeedItems>,
) -> FeedFetch {
    let ttl_minutes = items.as_ref().map_or(claim.ttl_minutes, |items| items.ttl_minutes);
    let outcome = Outcome::Succeeded { ttl_minutes, max_age_seconds: head.max_age_seconds };
    // The stored url changes only after `MOVED_TIMES` responses in a row named the same new url: a
    // single permanent redirect may be a mistake.
    let (moved, url) = match count_move(claim.moved.as_ref(), head.moved_to.as_deref()) {
        Some(moved) if moved.times >= MOVED_TIMES => (None, Some(moved.to)),
        moved => (moved, None),
    };
    FeedFetch {
        at: now,
        next_at: next_fetch(now, outcome),
        error: None,
        failures: 0,
        items,
        moved,
        url,
    }
}

/// Counts how many responses in a row redirected permanently to the same url. `None` if this
/// response did not redirect permanently.
fn count_move(previous: Option<&Moved>, to: Option<&str>) -> Option<Moved> {
    let to = to?;
    let times = match previous {
        Some(previous) if previous.to == to => previous.times,
        _ => 0,
    };
    Some(Moved { to: to.to_owned(), times: times.saturating_add(1) })
}

/// A digest of the items, by which the store recognizes that nothing changed. Every text is hashed
/// with its length, so that no two lists of items give the same input.
fn digest(items: &[FeedItemRow]) -> [u8; 32] {
    let mut text = Vec::new();
    for item in items {
        let published_at = item.published_at.map_or(i64::MIN, Timestamp::as_ms);
        for part in [&item.title, &item.url, item.image_url.as_ref().unwrap_or(&String::new())] {
            text.extend_from_slice(&(part.len() as u64).to_be_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(&published_at.to_be_bytes());
    }
    sha256(&text)
}

// The time of the next fetch: a pure function of the outcome of the last fetch.

/// Shortest time between two fetches of a feed, in milliseconds: 15 minutes.
pub(crate) const INTERVAL_MIN_MS: i64 = 15 * 60_000;
/// Longest time between two fetches of a feed, in milliseconds: a day. A longer wait that the feed
/// or its host requests is shortened to a day.
pub(crate) const INTERVAL_MAX_MS: i64 = 86_400_000;
/// Number of responses in a row that must redirect permanently to the same url before the server
/// stores that url as the feed's url.
pub(crate) const MOVED_TIMES: u32 = 3;

/// The outcome of a fetch, reduced to what decides the time of the next fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The feed was read, or it had not changed.
    Succeeded {
        /// The feed's own TTL, in minutes.
        ttl_minutes: Option<u32>,
        /// The response's TTL, in seconds (`Cache-Control`).
        max_age_seconds: Option<u64>,
    },
    /// The fetch failed.
    Failed {
        /// The number of failed fetches in a row, including this one.
        failures: u32,
        /// The wait that the server requested (429 and 503), in milliseconds from now.
        retry_after_ms: Option<i64>,
    },
    /// The host responded with 410: the feed is gone permanently.
    Gone,
}

/// The time of the next fetch; `None` if the feed is not fetched any more.
pub(crate) fn next_fetch(now: Timestamp, outcome: Outcome) -> Option<Timestamp> {
    let wait_ms = match outcome {
        Outcome::Gone => return None,
        Outcome::Succeeded { ttl_minutes, max_age_seconds } => {
            let ttl_ms = i64::from(ttl_minutes.unwrap_or(0)) * 60_000;
            let max_age_ms = i64::try_from(max_age_seconds.unwrap_or(0)).unwrap_or(i64::MAX);
            ttl_ms.max(max_age_ms.saturating_mul(1_000))
        }
        Outcome::Failed { failures, retry_after_ms } => {
            // 15 minutes, 30 minutes, 1 hour, and so on up to a day.
            let doublings = failures.saturating_sub(1).min(16);
            retry_after_ms.unwrap_or(0).max(INTERVAL_MIN_MS << doublings)
        }
    };
    Some(now.plus_ms(wait_ms.clamp(INTERVAL_MIN_MS, INTERVAL_MAX_MS)))
}

#[cfg(test)]
mod schedule_tests {
    use super::*;

    const MINUTE_MS: i64 = 60_000;
    const HOUR_MS: i64 = 60 * MINUTE_MS;

    fn succeeded(
        ttl_minutes: impl Into<Option<u32>>,
        max_age_seconds: impl Into<Option<u64>>,
    ) -> Outcome {
        Outcome::Succeeded {
            ttl_minutes: ttl_minutes.into(),
            max_age_seconds: max_age_seconds.into(),
        }
    }

    fn failed(failures: u32, retry_after_ms: impl Into<Option<i64>>) -> Outcome {
        Outcome::Failed { failures, retry_after_ms: retry_after_ms.into() }
    }

    #[test]
    fn next_fetch_honours_all_waits_up_to_a_day() {
        let cases = [
            (succeeded(None, None), Some(15 * MINUTE_MS)),
            (succeeded(60, None), Some(HOUR_MS)),
            (succeeded(None, 7_200), Some(2 * HOUR_MS)),
            (succeeded(60, 7_200), Some(2 * HOUR_MS)),
            (succeeded(180, 7_200), Some(3 * HOUR_MS)),
            (succeeded(1, 1), Some(15 * MINUTE_MS)),
            (succeeded(u32::MAX, u64::MAX), Some(24 * HOUR_MS)),
            (failed(1, None), Some(15 * MINUTE_MS)),
            (failed(2, None), Some(30 * MINUTE_MS)),
            (failed(3, None), Some(HOUR_MS)),
            (failed(7, None), Some(16 * HOUR_MS)),
            (failed(8, None), Some(24 * HOUR_MS)),
            (failed(u32::MAX, None), Some(24 * HOUR_MS)),
            (failed(1, HOUR_MS), Some(HOUR_MS)),
            (failed(3, 1_000), Some(HOUR_MS)),
            (failed(1, i64::MAX), Some(24 * HOUR_MS)),
            (failed(1, -5), Some(15 * MINUTE_MS)),
            (Outcome::Gone, None),
        ];
        let now = Timestamp(1_780_000_000_000);
        for (outcome, wait_ms) in cases {
            let expected = wait_ms.map(|wait_ms| now.plus_ms(wait_ms));
            assert_eq!(next_fetch(now, outcome), expected, "{outcome:?}");
        }
    }
}
