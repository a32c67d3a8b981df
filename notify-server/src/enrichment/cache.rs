//! Caches the responses of campaigns, the most frequent request of devices, as bytes.
//!
//! Every application has a generation counter. Every change that could affect a response increments
//! the counter before the server acknowledges the change. The cache reads the counter before it
//! reads the store, and serves a cached response only while the counter has the same value. So no
//! response is older than the last write that this server acknowledged. Writes of other servers
//! show after five seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use notify_core::{CampaignId, CampaignRef, Enrichment, FeedId, FeedItem, FeedRef};
use tokio::time::Instant;

use crate::bounded_cache::BoundedCache;
use crate::cached_body::CachedBody;
use crate::store::{
    AppNo, Change, ChangeListener, EnrichmentChange, SharedStore, ShownCampaign, StoreError,
};

/// Most bytes of cached responses, including [`ENTRY_BYTES`] for each.
const CACHE_BYTES_MAX: usize = 32 * 1_024 * 1_024;
/// Approximate overhead of a cached response, in bytes.
const ENTRY_BYTES: usize = 512;
/// Longest age of a cached response. The age is limited because writes by another server of the
/// same database do not increment the counters of this server.
const AGE_MAX: Duration = Duration::from_secs(5);
/// Number of generation counters. Several applications can share a counter. Their responses are
/// invalidated together, which costs additional reads but never serves a stale response.
const GENERATIONS: usize = 1_024;

/// A campaign of an application; `None` is the default campaign.
type Key = (AppNo, Option<CampaignId>);

/// A cached response, its generation, and when it was read.
#[derive(Clone)]
struct CachedResponse {
    generation: u64,
    read_at: Instant,
    body: Arc<CachedBody>,
}

/// Cached responses of campaigns.
pub(crate) struct EnrichmentCache {
    store: SharedStore,
    cache: BoundedCache<Key, CachedResponse>,
    generations: Arc<Generations>,
}

impl EnrichmentCache {
    /// A cache over a store, invalidated by its changes.
    pub(crate) fn new(store: SharedStore) -> Self {
        let generations = Arc::new(Generations::default());
        store.subscribe(generations.clone());
        Self { store, cache: BoundedCache::new(CACHE_BYTES_MAX), generations }
    }

    /// The response for an active campaign.
    ///
    /// # Errors
    /// `NotFound` when there is no such active campaign. Every other error of the store is returned
    /// too; the cache never makes up a response without the store.
    pub(crate) async fn get(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<Arc<CachedBody>, StoreError> {
        let id = match campaign {
            CampaignRef::Default => None,
            CampaignRef::Id(id) => Some(id),
        };
        // The generation is read before the store. A change between the two reads then makes the
        // cached response stale at once.
        let (generation, read_at) = (self.generations.current(app), Instant::now());
        if let Some(cached) = self.cache.get(&(app, id))
            && cached.generation == generation
            && read_at.duration_since(cached.read_at) < AGE_MAX
        {
            return Ok(cached.body);
        }
        let shown = self.store.shown_campaign(app, campaign).await?;
        let body = serde_json::to_vec(&render(&shown))
            .map_err(|error| StoreError::Backend(error.into()))?;
        let response = Arc::new(CachedBody::of(body.into()));
        let bytes = response.body.len() + ENTRY_BYTES;
        let cached = CachedResponse { generation, read_at, body: response.clone() };
        self.cache.insert((app, id), cached, bytes);
        Ok(response)
    }
}

/// Builds the response for devices. The items of all feeds of a feature are sorted together, newest
/// first.
fn render(shown: &ShownCampaign) -> Enrichment {
    let record = &shown.record;
    Enrichment::from_template(record.campaign.id, &record.template, |feeds| {
        feeds.iter().filter_map(feed_id).flat_map(|id| items_of(shown, id)).collect()
    })
}

/// The id of a feed. Stored templates name every feed by its id, so `Url` does not occur.
fn feed_id(feed: &FeedRef) -> Option<FeedId> {
    match feed {
        FeedRef::Id { id } => Some(*id),
        FeedRef::Url { .. } => None,
    }
}

fn items_of(shown: &ShownCampaign, id: FeedId) -> Vec<FeedItem> {
    let Some(feed) = shown.feeds.iter().find(|feed| feed.id == id) else {
        return Vec::new();
    };
    let items = feed.items.iter().cloned().map(|item| FeedItem {
        title: item.title,
        url: item.url,
        image_url: item.image_url,
        published_at: item.published_at,
        source: feed.name.clone(),
        // The application's own feeds contain its own content.
        is_external: false,
    });
    items.collect()
}

/// Counts the changes of each application's content.
struct Generations(Box<[AtomicU64]>);

impl Default for Generations {
    fn default() -> Self {
        Self((0..GENERATIONS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Generations {
    /// The counter of an application.
    fn counter(&self, app: AppNo) -> &AtomicU64 {
        &self.0[usize::try_from(app.0.unsigned_abs()).unwrap_or(0) % GENERATIONS]
    }

    /// The number of changes so far.
    fn current(&self, app: AppNo) -> u64 {
        self.counter(app).load(Ordering::SeqCst)
    }
}

impl ChangeListener for Generations {
    fn on_change(&self, change: Change) {
        match change {
            Change::App(app)
            | Change::Enrichment(
                EnrichmentChange::Campaign(app) | EnrichmentChange::FeedItems(app),
            ) => {
                self.counter(app).fetch_add(1, Ordering::SeqCst);
            }
            Change::Resync => {
                for generation in &self.0 {
                    generation.fetch_add(1, Ordering::SeqCst);
                }
            }
            Change::Enrichment(EnrichmentChange::FeedDue)
            | Change::Delivery(_)
            | Change::Events(_)
            | Change::Keys => {}
        }
    }
}

#[cfg(test)]
mod tests;
