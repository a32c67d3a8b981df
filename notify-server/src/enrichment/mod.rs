//! What a device shows beside a notification: the feeds of campaigns, fetched by themselves, and the
//! answers made of them (B30, B31).

mod cache;
pub(crate) mod feeds;

pub(crate) use cache::Answers;
