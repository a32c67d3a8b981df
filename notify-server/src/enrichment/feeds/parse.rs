//! What a feed says, whichever of the formats it is in.

use notify_core::Timestamp;
use url::Url;

use super::charset;
use super::text::line;
use super::thumbnail::Pictures;
use super::{atom, json, rss};
use crate::store::FeedItemRow;

/// Most bytes of a feed, decompressed.
pub(crate) const FEED_BYTES_MAX: usize = 5 * 1_024 * 1_024;
/// Most items of a feed that are kept: the first ones.
pub(super) const ITEMS_MAX: usize = 500;
/// Most items of a feed at all: no feed, but an archive or an attack.
pub(super) const ITEMS_READ_MAX: usize = 20_000;

/// A feed as it was fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// The charset that the answer's header names.
    pub(crate) charset: Option<&'a str>,
    /// Where it was: what relative addresses are relative to.
    pub(crate) url: &'a Url,
}

/// A feed that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedFeed {
    /// Newest first, those without a date last; equal ones as they came.
    pub(crate) items: Vec<FeedItemRow>,
    /// How long it may be kept, in minutes, where it says so.
    pub(crate) ttl_minutes: Option<u32>,
    /// Items without a link or a title, which nobody could open.
    pub(crate) left_out: usize,
    /// Items beyond the first 500.
    pub(crate) beyond: usize,
}

/// Why a feed cannot be read. The texts tell nothing of what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    /// It is something else.
    #[error("is not an RSS, Atom or JSON feed")]
    NotAFeed,
    /// It is broken.
    #[error("is not well-formed")]
    NotWellFormed,
    /// Its text is not in the charset that it names, or in none that is known.
    #[error("is not in the charset that it names")]
    Charset,
    /// It declares a document type, which is how entities get in.
    #[error("has a document type, which feeds do not need")]
    DocumentType,
    /// Its elements lie too deep in each other.
    #[error("is nested too deep")]
    TooDeep,
    /// It has too many of something.
    #[error("has too many {0}")]
    TooMany(&'static str),
}

/// Reads a feed. Blocks for as long as 5 MiB take; every bound is one of counting.
pub(crate) fn parse(source: &Source<'_>) -> Result<ParsedFeed, ParseError> {
    let text = charset::decode(source.bytes, source.charset)?;
    let start = text.trim_start();
    let mut feed = match start.chars().next() {
        Some('{') => json::parse(start, source.url)?,
        // Some servers put empty lines before the declaration, where XML has none.
        Some('<') => parse_xml(start, source.url)?,
        _ => return Err(ParseError::NotAFeed),
    };
    feed.items.sort_by_key(|item| std::cmp::Reverse(item.published_at));
    Ok(feed)
}

fn parse_xml(text: &str, url: &Url) -> Result<ParsedFeed, ParseError> {
    let mut document = super::xml::Document::new(text, url);
    loop {
        match document.next()?.ok_or(ParseError::NotAFeed)? {
            super::xml::Piece::Start(root) => {
                return match root.name.as_str() {
                    "rss" | "RDF" => rss::parse(document),
                    "feed" => atom::parse(document),
                    _ => Err(ParseError::NotAFeed),
                };
            }
            super::xml::Piece::End | super::xml::Piece::Text(_) => {}
        }
    }
}

/// An item while it is read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) titles: [Option<String>; 2],
    pub(super) urls: [Option<String>; 2],
    pub(super) times: [Option<Timestamp>; 2],
    pub(super) pictures: Pictures,
}

impl ParsedFeed {
    /// Takes an item in: the first of its titles, addresses and times that there is counts.
    pub(super) fn add(&mut self, draft: Draft) -> Result<(), ParseError> {
        if self.items.len() + self.left_out + self.beyond >= ITEMS_READ_MAX {
            return Err(ParseError::TooMany("items"));
        }
        if self.items.len() >= ITEMS_MAX {
            self.beyond += 1;
            return Ok(());
        }
        let title = draft.titles.into_iter().flatten().find_map(|title| line(&title));
        let url = draft.urls.into_iter().flatten().next();
        let published_at = draft.times.into_iter().flatten().next();
        match (title, url) {
            (Some(title), Some(url)) => {
                let image_url = draft.pictures.best();
                self.items.push(FeedItemRow { title, url, image_url, published_at });
            }
            _ => self.left_out += 1,
        }
        Ok(())
    }
}
