//! A parsed feed, independent of its format.

use url::Url;

use super::charset;
use super::item::Draft;
use super::text::escape_stray_brackets;
use super::{json, rss};
use crate::store::FeedItemRow;

/// Most bytes of a feed, decompressed.
pub(crate) const FEED_BYTES_MAX: usize = 5 * 1_024 * 1_024;
/// Most items kept of a feed: the first ones.
pub(super) const ITEMS_MAX: usize = 500;
/// Most items of a feed at all: no feed, but an archive or an attack.
pub(super) const ITEMS_READ_MAX: usize = 20_000;

/// Most bytes before the XML declaration that are passed over.
const PRINTED_BYTES_MAX: usize = 1_024;

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
    /// Newest first, those without a date last; otherwise in document order.
    pub(crate) items: Vec<FeedItemRow>,
    /// How long it may be kept, in minutes, where it says so.
    pub(crate) ttl_minutes: Option<u32>,
    /// Number of items without a link or a title, which cannot be shown.
    pub(crate) left_out: usize,
    /// Items beyond the first 500.
    pub(crate) beyond: usize,
    /// It breaks off, or its tags do not match: what could be read is here.
    pub(crate) is_broken: bool,
    /// Its charset is a guess, or some bytes are no valid characters.
    pub(crate) is_charset_guess: bool,
}

/// Why a feed cannot be read. The texts reveal nothing of its content.
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
    /// Its document type has declarations, which is how entities get in.
    #[error("has a document type, which feeds do not need")]
    DocumentType,
    /// Its elements lie too deep in each other.
    #[error("is nested too deep")]
    TooDeep,
    /// It has too many of something.
    #[error("has too many {0}")]
    TooMany(&'static str),
}

/// Parses a feed. Blocks while it reads up to 5 MiB; all bounds are counts.
pub(crate) fn parse(source: &Source<'_>) -> Result<ParsedFeed, ParseError> {
    let decoded = charset::decode(source.bytes, source.charset)?;
    let text = &decoded.text[start(&decoded.text)..];
    let parsed = match text.chars().next() {
        Some('{') => json::parse(text, source.url),
        Some('<') => parse_xml(text, source.url),
        _ => Err(ParseError::NotAFeed),
    };
    // A guess is as good as the feed that it gives.
    let mut feed = match parsed {
        Ok(feed) if decoded.is_guess && feed.items.is_empty() => return Err(ParseError::Charset),
        Err(ParseError::NotAFeed | ParseError::NotWellFormed) if decoded.is_guess => {
            return Err(ParseError::Charset);
        }
        parsed => parsed?,
    };
    feed.is_charset_guess = decoded.is_guess;
    feed.items.sort_by_key(|item| std::cmp::Reverse(item.published_at));
    Ok(feed)
}

/// Where a document starts: behind empty lines, marks of byte order and control characters, and
/// behind what a server's program printed before the declaration, where there is one.
fn start(text: &str) -> usize {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    let blank = text.len() - text.trim_start_matches(is_blank).len();
    let near = &text[blank..text.floor_char_boundary(blank + PRINTED_BYTES_MAX)];
    let is_json = near.starts_with('{');
    let declaration = near.find("<?xml ").filter(|_| !is_json);
    blank + declaration.unwrap_or(0)
}

fn parse_xml(text: &str, url: &Url) -> Result<ParsedFeed, ParseError> {
    let text = escape_stray_brackets(text);
    let mut document = super::xml::Document::new(&text, url);
    loop {
        match document.next()?.ok_or(ParseError::NotAFeed)? {
            super::xml::Piece::Start(root) => {
                return match root.name.as_str() {
                    // RSS 1.1 begins with its channel.
                    "rss" | "rdf" | "feed" | "channel" => rss::parse(document, &root.name),
                    _ => Err(ParseError::NotAFeed),
                };
            }
            super::xml::Piece::End | super::xml::Piece::Text(_) => {}
        }
    }
}

impl ParsedFeed {
    /// Takes an item in.
    pub(super) fn add(&mut self, draft: Draft) -> Result<(), ParseError> {
        if self.items.len() + self.left_out + self.beyond >= ITEMS_READ_MAX {
            return Err(ParseError::TooMany("items"));
        }
        if self.items.len() >= ITEMS_MAX {
            self.beyond += 1;
            return Ok(());
        }
        match (draft.title.best(), draft.url.best()) {
            (Some(title), Some(url)) => {
                let (image_url, published_at) = (draft.pictures.best(), draft.time.best());
                self.items.push(FeedItemRow { title, url, image_url, published_at });
            }
            _ => self.left_out += 1,
        }
        Ok(())
    }
}
