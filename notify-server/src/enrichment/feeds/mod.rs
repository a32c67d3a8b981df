//! Feeds: fetched from user-supplied addresses, parsed leniently, kept in the store.
//!
//! ```text
//! store (due) -> worker -> fetch (guard, redirects, caps) -> parse (on its own thread) -> store
//! ```
//!
//! Feeds are not trusted. Every step is bounded in bytes, time or count, and errors reveal nothing
//! about the host.

mod charset;
mod fetch;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod host_limiter;
mod item;
mod json;
mod parse;
mod picture;
mod reader;
mod rss;
mod text;
mod time;
pub(crate) mod worker;
mod xml;

use parse::{FEED_BYTES_MAX, ParseError, ParsedFeed, Source, parse};
pub(crate) use reader::{CHECK_TIMEOUT, FeedReader};

#[cfg(test)]
mod tests;
