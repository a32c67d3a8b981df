//! Answers of campaigns (B31), kept as the bytes that go out: what devices ask for most. An answer is
//! kept with the generation of its application, read before the store was; every change that could
//! show in it begins the next one before its caller is answered, so that no answer is older than the
//! last write that this server told somebody of. Writes of other servers show after five seconds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use notify_core::{CampaignId, CampaignRef, Enrichment, FeedId, FeedItem, FeedRef};
use tokio::time::Instant;

use crate::ready::Ready;
use crate::store::{AppNo, Change, ChangeListener, SharedStore, ShownCampaign, StoreError};

/// Most bytes of answers kept, with what keeping each costs.
const KEPT_BYTES_MAX: u64 = 32 * 1_024 * 1_024;
/// What keeping an answer costs beside its bytes, about.
const ENTRY_BYTES: u32 = 512;
/// Longest time that an answer is kept. Of writes by another server of the same database nobody here
/// is told.
const KEPT_MAX: Duration = Duration::from_secs(5);
/// Counters of generations. Applications that share one lose their answers together: more work, never
/// an old answer.
const GENERATIONS: usize = 1_024;

/// A campaign of an application; `None` is the default one.
type Key = (AppNo, Option<CampaignId>);

/// An answer, the generation that it is of, and when it was read.
#[derive(Clone)]
struct Kept {
    generation: u64,
    read_at: Instant,
    ready: Arc<Ready>,
}

/// Answers of campaigns.
pub(crate) struct Answers {
    store: SharedStore,
    kept: Cache<Key, Kept>,
    generations: Arc<Generations>,
}

impl Answers {
    /// Answers of what is in a store, hearing of its changes.
    pub(crate) fn new(store: SharedStore) -> Self {
        let generations = Arc::new(Generations::default());
        store.subscribe(generations.clone());
        let weigh = |_: &Key, kept: &Kept| {
            u32::try_from(kept.ready.body.len()).unwrap_or(u32::MAX).saturating_add(ENTRY_BYTES)
        };
        let kept = Cache::builder().max_capacity(KEPT_BYTES_MAX).weigher(weigh).build();
        Self { store, kept, generations }
    }

    /// The answer of an active campaign.
    ///
    /// # Errors
    /// `NotFound` when there is none; others of the store as they are, never an answer made without
    /// it.
    pub(crate) async fn get(
        &self,
        app: AppNo,
        campaign: CampaignRef,
    ) -> Result<Arc<Ready>, StoreError> {
        let id = match campaign {
            CampaignRef::Default => None,
            CampaignRef::Id(id) => Some(id),
        };
        // Before the store is read: what changes meanwhile makes this one old at once.
        let (generation, read_at) = (self.generations.now(app), Instant::now());
        if let Some(kept) = self.kept.get(&(app, id))
            && kept.generation == generation
            && read_at.duration_since(kept.read_at) < KEPT_MAX
        {
            return Ok(kept.ready);
        }
        let shown = self.store.shown_campaign(app, campaign).await?;
        let body = serde_json::to_vec(&rendered(&shown))
            .map_err(|error| StoreError::Backend(error.into()))?;
        let ready = Arc::new(Ready::of(body.into()));
        self.kept.insert((app, id), Kept { generation, read_at, ready: ready.clone() });
        Ok(ready)
    }
}

/// What devices are answered: newest items first over all feeds of a feature (B31).
fn rendered(shown: &ShownCampaign) -> Enrichment {
    let record = &shown.record;
    Enrichment::from_template(record.campaign.id, &record.template, |feeds| {
        feeds.iter().filter_map(id_of).flat_map(|id| items_of(shown, id)).collect()
    })
}

/// A stored template names feeds by id.
fn id_of(feed: &FeedRef) -> Option<FeedId> {
    match feed {
        FeedRef::Id { id } => Some(*id),
        FeedRef::Url { .. } => None,
    }
}

fn items_of(shown: &ShownCampaign, id: FeedId) -> Vec<FeedItem> {
    let Some(feed) = shown.feeds.iter().find(|feed| feed.id == id) else { return Vec::new() };
    let items = feed.items.iter().cloned().map(|item| FeedItem {
        title: item.title,
        url: item.url,
        image_url: item.image_url,
        published_at: item.published_at,
        source: feed.name.clone(),
        // Own feeds hold the application's own content (spec 2.5).
        is_external: false,
    });
    items.collect()
}

/// How often what an application shows has changed.
struct Generations(Box<[AtomicU64]>);

impl Default for Generations {
    fn default() -> Self {
        Self((0..GENERATIONS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl Generations {
    fn of(&self, app: AppNo) -> &AtomicU64 {
        &self.0[usize::try_from(app.0.unsigned_abs()).unwrap_or(0) % GENERATIONS]
    }

    fn now(&self, app: AppNo) -> u64 {
        self.of(app).load(Ordering::SeqCst)
    }
}

impl ChangeListener for Generations {
    fn changed(&self, change: Change) {
        match change {
            Change::CampaignChanged(app) | Change::FeedChanged(app) | Change::AppChanged(app) => {
                self.of(app).fetch_add(1, Ordering::SeqCst);
            }
            Change::Everything => {
                for generation in &self.0 {
                    generation.fetch_add(1, Ordering::SeqCst);
                }
            }
            Change::NotificationDue
            | Change::NotificationScheduled
            | Change::NotificationCanceled(_)
            | Change::DeviceChanged(_)
            | Change::ProviderChanged(..)
            | Change::PurgeStopped(..)
            | Change::BreakerChanged(..)
            | Change::FeedDue
            | Change::EventsDue(_)
            | Change::KeyRevoked => {}
        }
    }
}

#[cfg(test)]
mod tests;
