//! Fetches feeds when they are due, a few at once and fewer of one host. What is due stands in the store, and a claim there
//! keeps two servers from fetching one feed; a fetch that ends with its process is due again when its
//! claim runs out.

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
use crate::enrichment::feeds::reader::{FeedReader, Read};
use crate::error_chain::error_chain;
use crate::keys::sha256;
use crate::store::{
    Change, ChangeListener, EnrichmentChange, FeedClaim, FeedFetch, FeedItemRow, FeedItems, Moved,
    SharedStore, StoreError,
};
use crate::telemetry::{FeedMetrics, FeedResult};

/// Duration of a claim, in milliseconds: the wait for its host, a fetch, the wait to be parsed, and
/// the write.
const CLAIM_MS: i64 = 120_000;
/// Interval after an error of storage, or when other servers may have claimed feeds, in
/// milliseconds.
const LOOK_AGAIN_MS: i64 = 60_000;

/// What fetching needs.
pub(crate) struct FeedWorker {
    pub(crate) store: SharedStore,
    pub(crate) clock: SharedClock,
    pub(crate) reader: Arc<FeedReader>,
    pub(crate) metrics: FeedMetrics,
}

/// Hears of feeds that may be due.
struct Due(Notify);

impl ChangeListener for Due {
    fn on_change(&self, change: Change) {
        match change {
            // An application that is active again has feeds that waited.
            Change::App(_) | Change::Enrichment(EnrichmentChange::FeedDue) | Change::Resync => {
                self.0.notify_one();
            }
            Change::Enrichment(EnrichmentChange::Campaign(_) | EnrichmentChange::FeedItems(_))
            | Change::Delivery(_)
            | Change::Events(_)
            | Change::KeyRevoked => {}
        }
    }
}

/// Running and waiting fetches.
#[derive(Default)]
struct Fetches {
    tasks: JoinSet<()>,
    hosts: HashMap<Id, Host>,
    limiter: HostLimiter,
}

impl Fetches {
    /// Begins those whose turn it is.
    fn begin(&mut self, worker: &Arc<FeedWorker>, now: Timestamp) {
        while let Some((host, claim)) = self.limiter.begin(now) {
            let worker = Arc::clone(worker);
            let task = self.tasks.spawn(async move { fetch(&worker, claim).await });
            self.hosts.insert(task.id(), host);
        }
    }

    /// Waits until one has ended.
    async fn end(&mut self) {
        if let Some(ended) = self.tasks.join_next_with_id().await {
            self.note(ended);
        }
    }

    /// Takes back the turns of those that have ended.
    fn end_more(&mut self) {
        while let Some(ended) = self.tasks.try_join_next_with_id() {
            self.note(ended);
        }
    }

    /// One that panicked gives its turn back too.
    fn note(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = ended.map_or_else(|error| error.id(), |(id, ())| id);
        if let Some(host) = self.hosts.remove(&id) {
            self.limiter.end(&host);
        }
    }
}

/// Fetches until `stopping`.
pub(crate) async fn run(worker: FeedWorker, stopping: CancellationToken) {
    let (worker, due) = (Arc::new(worker), Arc::new(Due(Notify::new())));
    worker.store.subscribe(due.clone());
    let mut fetches = Fetches::default();
    loop {
        let look_at = match begin_due(&worker, &mut fetches).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(cause = error_chain(&error), "due feeds could not be read");
                worker.clock.now().plus_ms(LOOK_AGAIN_MS)
            }
        };
        let is_full = fetches.limiter.check_capacity() == 0;
        tokio::select! {
            () = stopping.cancelled() => return,
            () = fetches.end(), if !fetches.tasks.is_empty() => {}
            () = due.0.notified(), if !is_full => {}
            () = worker.clock.sleep_until(look_at), if !is_full => {}
        }
    }
}

/// Begins due fetches as capacity allows; returns when to check again.
async fn begin_due(
    worker: &Arc<FeedWorker>,
    fetches: &mut Fetches,
) -> Result<Timestamp, StoreError> {
    fetches.end_more();
    let now = worker.clock.now();
    fetches.begin(worker, now);
    let room = fetches.limiter.check_capacity();
    let later = now.plus_ms(LOOK_AGAIN_MS);
    let Some(next) = worker.store.next_feed_due().await? else { return Ok(later) };
    if next > now || room == 0 {
        return Ok(next.min(later));
    }
    for claim in worker.store.claim_feeds(now, now.plus_ms(CLAIM_MS), room).await? {
        fetches.limiter.wait(claim, now);
    }
    fetches.begin(worker, now);
    // There may be more, as many as there was room for were taken.
    Ok(if fetches.limiter.check_capacity() == 0 { later } else { now.plus_ms(1) })
}

async fn fetch(worker: &FeedWorker, claim: FeedClaim) {
    let read = worker.reader.read(&claim.url, &claim.validators).await;
    worker.metrics.fetched(result_of(&read));
    let ended = ended(worker.clock.now(), &claim, read);
    match worker.store.finish_feed(claim.feed, claim.claim, ended).await {
        // The feed is gone, or another fetch followed this one.
        Ok(()) | Err(StoreError::NotFound) => {}
        Err(error) => {
            tracing::warn!(cause = error_chain(&error), "a fetched feed was not stored");
        }
    }
}

fn result_of(read: &Result<Read, FetchError>) -> FeedResult {
    match read {
        Ok(Read::Changed { .. }) => FeedResult::Read,
        Ok(Read::Unchanged(_)) => FeedResult::Unchanged,
        Err(FetchError::Blocked | FetchError::PrivateAddress) => FeedResult::Blocked,
        Err(FetchError::Gone) => FeedResult::Gone,
        Err(FetchError::Unreadable(_) | FetchError::TooLarge | FetchError::Compression) => {
            FeedResult::Unreadable
        }
        Err(
            FetchError::Unresolved
            | FetchError::Unreachable
            | FetchError::NotAttempted
            | FetchError::Status { .. }
            | FetchError::Redirected,
        ) => FeedResult::Failed,
    }
}

/// What is written of a fetch.
fn ended(now: Timestamp, claim: &FeedClaim, read: Result<Read, FetchError>) -> FeedFetch {
    let error = match read {
        Ok(Read::Unchanged(head)) => return well(now, claim, &head, None),
        Ok(Read::Changed { head, validators, feed }) => {
            let items = FeedItems {
                digest: digest(&feed.items),
                rows: feed.items,
                validators,
                ttl_minutes: feed.ttl_minutes,
            };
            return well(now, claim, &head, Some(items));
        }
        Err(error) => error,
    };
    // What is ours is no failure of the feed's.
    let counted = u32::from(error != FetchError::NotAttempted);
    let failures = claim.failures.saturating_add(counted);
    let ended = match error {
        FetchError::Gone => Ended::Gone,
        FetchError::Status { retry_after_ms, .. } => Ended::Failed { failures, retry_after_ms },
        FetchError::NotAttempted => Ended::Failed { failures: 1, retry_after_ms: None },
        FetchError::Blocked
        | FetchError::PrivateAddress
        | FetchError::Unresolved
        | FetchError::Unreachable
        | FetchError::Redirected
        | FetchError::TooLarge
        | FetchError::Compression
        | FetchError::Unreadable(_) => Ended::Failed { failures, retry_after_ms: None },
    };
    FeedFetch {
        at: now,
        next_at: next_fetch(now, ended),
        error: Some(error.to_string()),
        failures,
        items: None,
        moved: claim.moved.clone(),
        url: None,
    }
}

fn well(now: Timestamp, claim: &FeedClaim, head: &Head, items: Option<FeedItems>) -> FeedFetch {
    let ttl_minutes = items.as_ref().map_or(claim.ttl_minutes, |items| items.ttl_minutes);
    let ended = Ended::Well { ttl_minutes, max_age_seconds: head.max_age_seconds };
    let moved = moved(claim.moved.as_ref(), head.moved_to.as_deref());
    let believed = moved.as_ref().is_some_and(|moved| moved.times >= MOVED_TIMES);
    let (moved, url) = if believed { (None, moved.map(|moved| moved.to)) } else { (moved, None) };
    FeedFetch {
        at: now,
        next_at: next_fetch(now, ended),
        error: None,
        failures: 0,
        items,
        moved,
        url,
    }
}

/// How often in a row the answers named one address.
fn moved(previous: Option<&Moved>, to: Option<&str>) -> Option<Moved> {
    let to = to?;
    let times = previous.filter(|previous| previous.to == to).map_or(0, |previous| previous.times);
    Some(Moved { to: to.to_owned(), times: times.saturating_add(1) })
}

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

// When a feed is fetched next: a pure function of how the fetch ended.

/// Shortest time between two fetches of a feed, in milliseconds: 15 minutes.
pub(crate) const INTERVAL_MIN_MS: i64 = 15 * 60_000;
/// Longest time between two fetches, regardless of the server's request, in milliseconds: a day.
pub(crate) const INTERVAL_MAX_MS: i64 = 86_400_000;
/// Same answers in a row after which a move is believed.
pub(crate) const MOVED_TIMES: u32 = 3;

/// How a fetch ended, as far as it decides when the next one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// It was read, or had not changed.
    Well {
        /// The feed's own TTL, in minutes.
        ttl_minutes: Option<u32>,
        /// The response's TTL, in seconds (`Cache-Control`).
        max_age_seconds: Option<u64>,
    },
    /// It failed, for the n-th time in a row, from 1.
    Failed {
        /// n.
        failures: u32,
        /// The wait that the server requested (429 and 503), in milliseconds from now.
        retry_after_ms: Option<i64>,
    },
    /// It is gone for good (410).
    Gone,
}

/// When it is fetched next; `None` for never.
pub(crate) fn next_fetch(now: Timestamp, ended: Ended) -> Option<Timestamp> {
    let wait_ms = match ended {
        Ended::Gone => return None,
        Ended::Well { ttl_minutes, max_age_seconds } => {
            let ttl_ms = i64::from(ttl_minutes.unwrap_or(0)) * 60_000;
            let max_age_ms = i64::try_from(max_age_seconds.unwrap_or(0)).unwrap_or(i64::MAX);
            ttl_ms.max(max_age_ms.saturating_mul(1_000))
        }
        Ended::Failed { failures, retry_after_ms } => {
            // 15 minutes, 30, an hour, ... a day.
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

    fn well(ttl_minutes: impl Into<Option<u32>>, max_age_seconds: impl Into<Option<u64>>) -> Ended {
        Ended::Well { ttl_minutes: ttl_minutes.into(), max_age_seconds: max_age_seconds.into() }
    }

    fn failed(failures: u32, retry_after_ms: impl Into<Option<i64>>) -> Ended {
        Ended::Failed { failures, retry_after_ms: retry_after_ms.into() }
    }

    #[test]
    fn next_fetch_honours_all_waits_up_to_a_day() {
        let cases = [
            (well(None, None), Some(15 * MINUTE_MS)),
            (well(60, None), Some(HOUR_MS)),
            (well(None, 7_200), Some(2 * HOUR_MS)),
            (well(60, 7_200), Some(2 * HOUR_MS)),
            (well(180, 7_200), Some(3 * HOUR_MS)),
            (well(1, 1), Some(15 * MINUTE_MS)),
            (well(u32::MAX, u64::MAX), Some(24 * HOUR_MS)),
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
            (Ended::Gone, None),
        ];
        let now = Timestamp(1_780_000_000_000);
        for (ended, wait_ms) in cases {
            let expected = wait_ms.map(|wait_ms| now.plus_ms(wait_ms));
            assert_eq!(next_fetch(now, ended), expected, "{ended:?}");
        }
    }
}
