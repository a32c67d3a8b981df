//! What fetching feeds counts.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// How a fetch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeedResult {
    /// It was read.
    Read,
    /// It had not changed (304).
    Unchanged,
    /// The guard refused its address.
    Blocked,
    /// It is gone (410).
    Gone,
    /// What it answered is no feed, or too large.
    Unreadable,
    /// It did not answer, or with an error.
    Failed,
}

impl FeedResult {
    const ALL: [Self; 6] =
        [Self::Read, Self::Unchanged, Self::Blocked, Self::Gone, Self::Unreadable, Self::Failed];

    fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Unchanged => "unchanged",
            Self::Blocked => "blocked",
            Self::Gone => "gone",
            Self::Unreadable => "unreadable",
            Self::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    result: &'static str,
}

/// What fetching feeds counts; clones count together.
#[derive(Debug, Clone, Default)]
pub(crate) struct FeedMetrics(Family<Ended, Counter>);

impl FeedMetrics {
    pub(super) fn register(&self, registry: &mut Registry) {
        registry.register("feed_fetches", "Fetches of feeds by how they ended", self.0.clone());
        for result in FeedResult::ALL {
            // From the start, so that a rate has something to begin with.
            drop(self.0.get_or_create(&Ended { result: result.as_str() }));
        }
    }

    /// Counts a fetch.
    pub(crate) fn fetched(&self, result: FeedResult) {
        self.0.get_or_create(&Ended { result: result.as_str() }).inc();
    }
}
