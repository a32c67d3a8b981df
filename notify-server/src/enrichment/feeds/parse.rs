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
/// Most items in the document of a feed. A document with more is an archive or an attack, and is
/// refused.
pub(super) const ITEMS_READ_MAX: usize = 20_000;

/// Most bytes that are skipped before the XML declaration. Some scripts print warnings there.
const PREFIX_BYTES_MAX: usize = 1_024;

/// A feed as it was fetched.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The bytes.
    pub(crate) bytes: &'a [u8],
    /// The charset of the response's `Content-Type` header.
    pub(crate) charset: Option<&'a str>,
    /// The url of the feed, which is the base of its relative urls.
    pub(crate) url: &'a Url,
}

/// A feed that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ParsedFeed {
    /// The items, newest first; items without a date come last. Equal dates keep the order of the
    /// document.
    pub(crate) items: Vec<FeedItemRow>,
    /// The `ttl` of the feed, in minutes.
    pub(crate) ttl_minutes: Option<u32>,
    /// Number of items without a link or a title, which cannot be shown.
    pub(crate) left_out: usize,
    /// Number of items after the first [`ITEMS_MAX`].
    pub(crate) beyond: usize,
    /// Whether the document ends early or has tags that do not match. The items that could be read
    /// are kept.
    pub(crate) is_broken: bool,
    /// Whether the charset is a guess, or some bytes are not valid in the charset.
    pub(crate) is_charset_guess: bool,
}

/// Why a feed cannot be read. The texts reveal nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ParseError {
    /// The document is not a feed.
    #[error("is not an RSS, Atom or JSON feed")]
    NotAFeed,
    /// The document is broken, and no item could be read.
    #[error("is not well-formed")]
    NotWellFormed,
    /// The bytes do not fit the declared charset, or the charset is not supported.
    #[error("is not in the charset that it names")]
    Charset,
    /// The document type has declarations, which could define entities.
    #[error("has a document type, which feeds do not need")]
    DocumentType,
    /// The elements are nested deeper than [`super::xml::DEPTH_MAX`].
    #[error("is nested too deep")]
    TooDeep,
    /// A limit on the count of something is exceeded.
    #[error("has too many {0}")]
    TooMany(&'static str),
}

/// Parses a feed of any format. Blocks; the work is bounded by [`FEED_BYTES_MAX`] and limits on
/// counts.
pub(crate) fn parse(source: &Source<'_>) -> Result<ParsedFeed, ParseError> {
    let decoded = charset::decode(source.bytes, source.charset)?;
    let text = &decoded.text[start(&decoded.text)..];
    let parsed = match text.chars().next() {
        Some('{') => json::parse(text, source.url),
        Some('<') => parse_xml(text, source.url),
        _ => Err(ParseError::NotAFeed),
    };
    // If the charset was guessed and the document does not parse, the guess is probably wrong. The
    // error then names the charset instead of the format.
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

/// The position at which a document starts: after white space, byte order marks and control
/// characters. If an XML declaration follows within [`PREFIX_BYTES_MAX`], everything before it is
/// skipped too, because some scripts print warnings before the document.
fn start(text: &str) -> usize {
    let is_blank = |c: char| c.is_whitespace() || c.is_control() || c == '\u{feff}';
    let blank = text.len() - text.trim_start_matches(is_blank).len();
    let near = &text[blank..text.floor_char_boundary(blank + PREFIX_BYTES_MAX)];
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
    /// Adds an item, or counts it if it is left out.
    ///
    /// # Errors
    /// `TooMany` above [`ITEMS_READ_MAX`].
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
