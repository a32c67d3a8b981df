//! Feeds: fetched from user-supplied addresses, parsed leniently, kept in the store.
//!
//! ```text
//! store (due) -> worker -> fetch (guard, redirects, caps) -> parse (on its own thread) -> store
//! ```
//!
//! Feeds are not trusted: every step is bounded in bytes, time or count, and errors reveal nothing about the
//! host.

mod charset;

mod fetch;
mod host_limiter;
mod reader;
pub(crate) mod worker;

mod parse;

mod picture;
mod text;

mod xml;

mod item;
mod json;
mod rss;
mod time;

use parse::{FEED_BYTES_MAX, ParseError, ParsedFeed, Source, parse};
pub(crate) use reader::{CHECK_TIMEOUT, FeedReader};

#[cfg(test)]
mod tests;
