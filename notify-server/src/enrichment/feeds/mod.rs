//! Feeds: fetched from addresses that users give, read whatever they hold, kept in the store.
//!
//! ```text
//! store (due) -> worker -> fetch (guard, redirects, caps) -> parse (a thread of its own) -> store
//! ```
//!
//! A feed is nobody's friend: every step has a bound of bytes, time or count, and what goes wrong is
//! told in words that give nothing away of who was asked.

mod charset;

mod fetch;
mod reader;
mod turns;
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
