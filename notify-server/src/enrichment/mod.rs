//! Content that devices show with a notification: the feeds of campaigns, fetched periodically, and the
//! responses built from them.

mod cache;
pub(crate) mod feeds;

pub(crate) use cache::EnrichmentCache;
