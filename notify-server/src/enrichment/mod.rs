//! Content that devices show with a notification. The server fetches the feeds of campaigns
//! periodically and builds the responses for devices from their items.

mod cache;
pub(crate) mod feeds;

pub(crate) use cache::EnrichmentCache;
