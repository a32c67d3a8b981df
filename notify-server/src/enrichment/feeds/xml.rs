//! XML as far as feeds need it, read piece by piece and bounded in everything that a document can
//! exaggerate: depth, attributes of an element, namespaces in scope, elements. A document type is
//! passed over, and refused when it declares anything, so that there is no entity of its own and
//! nothing that is fetched (RUSTSEC-2026-0194 and -0195 are about what is counted here: attributes and
//! namespaces).
//!
//! Tags that do not match are matched as browsers do: a closing tag closes all that is open within its
//! element, one without an element is passed over.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use url::Url;

use crate::enrichment::feeds::ParseError;
use crate::enrichment::feeds::text::{
    INLINE, PictureSearch, URL_BYTES_MAX, decoded, is_picture_attribute, push_entity,
};

/// Most elements within each other.
pub(super) const DEPTH_MAX: usize = 64;
/// Most attributes of an element.
pub(super) const ATTRIBUTES_MAX: usize = 64;
/// Most namespaces declared at one place, by it and all around it.
pub(super) const NAMESPACES_MAX: usize = 64;
/// Most elements of a document.
pub(super) const ELEMENTS_MAX: usize = 250_000;
/// Most bytes kept of one element's text; the rest is skipped.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1_024;

/// Elements that do not nest directly.
const ENDED_BY_THEIR_LIKE: [&str; 4] = ["item", "entry", "p", "li"];
/// Elements of HTML without a closing tag, as far as no feed has others of that name.
const HTML_VOID: [&str; 5] = ["br", "hr", "img", "input", "wbr"];

/// The start of an element.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) ns: Ns,
    /// Without its prefix, in lower case: feeds write `pubdate` and `PubDate` too.
    pub(super) name: String,
    /// By their names in lower case.
    attributes: Vec<(String, String)>,
}

impl Element {
    /// The value of an attribute, by its name in lower case.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.trim())
    }
}

/// A piece of a document.
pub(super) enum Piece<'a> {
    Start(Element),
    End,
    Text(Cow<'a, str>),
}

/// The text of an element.
#[derive(Debug, Default)]
pub(super) struct Text {
    /// Its own text and that of elements within.
    pub(super) text: String,
    /// The first picture among the elements within, as XHTML has them.
    pub(super) picture: Option<String>,
}

/// An element that is open.
struct Open {
    /// With its prefix, in lower case.
    name: String,
    namespaces: usize,
    base: Option<Url>,
}

/// A document that is read.
pub(super) struct Document<'a> {
    reader: Reader<&'a [u8]>,
    open: Vec<Open>,
    /// Ends that are due before the next piece is read.
    ends_due: usize,
    /// A start that waits for these ends.
    start_due: Option<BytesStart<'a>>,
    elements: usize,
    /// Prefixes in scope, those of outer elements first.
    scope: Vec<(String, Ns)>,
    feed_url: Url,
    has_mismatch: bool,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, feed_url: &Url) -> Self {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.trim_markup_names_in_closing_tags = true;
        // Feeds are full of addresses with a bare `&`.
        config.allow_dangling_amp = true;
        // Matched here.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        Self {
            reader,
            open: Vec::new(),
            ends_due: 0,
            start_due: None,
            elements: 0,
            scope: Vec::new(),
            feed_url: feed_url.clone(),
            has_mismatch: false,
        }
    }

    /// How many elements are open.
    pub(super) fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether a closing tag so far did not match.
    pub(super) fn has_mismatch(&self) -> bool {
        self.has_mismatch
    }

    /// What relative addresses are relative to here.
    pub(super) fn base(&self) -> &Url {
        self.open.iter().rev().find_map(|open| open.base.as_ref()).unwrap_or(&self.feed_url)
    }

    /// Takes the default namespace for that of a feed whose root was just opened: some RSS names
    /// Atom's there, or one of its own.
    pub(super) fn adopt_default(&mut self, is_rss: bool) {
        for (prefix, ns) in &mut self.scope {
            if prefix.is_empty() && (is_rss || *ns == Ns::Other) {
                *ns = Ns::Rss;
            }
        }
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'a>>, ParseError> {
        loop {
            if self.ends_due > 0 {
                self.ends_due -= 1;
                self.close();
                return Ok(Some(Piece::End));
            }
            if let Some(start) = self.start_due.take() {
                return Ok(Some(Piece::Start(self.open(&start)?)));
            }
            let piece = match self.reader.read_event().map_err(|_| ParseError::NotWellFormed)? {
                Event::Start(start) => {
                    self.ends_due = self.implied_ends(start.name().into_inner());
                    self.start_due = Some(start);
                    continue;
                }
                Event::End(end) => {
                    self.ends_due = self.matching_ends(end.name().into_inner())?;
                    continue;
                }
                Event::Text(text) => Piece::Text(own_text(text.into_inner())?),
                Event::CData(text) => Piece::Text(own_text(text.into_inner())?),
                Event::GeneralRef(name) => Piece::Text(Cow::Owned(entity(&name)?)),
                Event::DocType(kind) if declares(part(&kind)?) => {
                    return Err(ParseError::DocumentType);
                }
                Event::Eof if !self.open.is_empty() => return Err(ParseError::NotWellFormed),
                Event::Eof => return Ok(None),
                Event::Empty(_)
                | Event::Comment(_)
                | Event::Decl(_)
                | Event::PI(_)
                | Event::DocType(_) => continue,
            };
            return Ok(Some(piece));
        }
    }

    /// The text of the element that was just opened, up to its end.
    pub(super) fn text(&mut self) -> Result<Text, ParseError> {
        let outside = self.depth() - 1;
        let mut text = String::new();
        let mut search = PictureSearch::default();
        loop {
            match self.next()?.ok_or(ParseError::NotWellFormed)? {
                Piece::Text(more) => push_within(&mut text, &more),
                Piece::Start(element) => {
                    search.look_at(&element.name, |name| element.attribute(name), self.base());
                    // Paragraphs separate words.
                    if !INLINE.contains(&element.name.as_str()) {
                        push_within(&mut text, " ");
                    }
                }
                Piece::End if self.depth() == outside => {
                    return Ok(Text { text, picture: search.first() });
                }
                Piece::End => {}
            }
        }
    }

    /// Passes over the element that was just opened.
    pub(super) fn skip(&mut self) -> Result<(), ParseError> {
        let outside = self.depth() - 1;
        while self.depth() > outside {
            self.next()?.ok_or(ParseError::NotWellFormed)?;
        }
        Ok(())
    }

    /// How many elements a start ends, whose closing tags are missing: an item ends the item that it
    /// stands right within, and what HTML never closes holds nothing.
    fn implied_ends(&mut self, name: &[u8]) -> usize {
        let Some(within) = self.open.last().map(|open| open.name.as_str()) else { return 0 };
        let local = within.rsplit(':').next().unwrap_or_default();
        let is_same = within.as_bytes().eq_ignore_ascii_case(name);
        let is_ended = is_same && ENDED_BY_THEIR_LIKE.contains(&local);
        let is_missing = is_ended || HTML_VOID.contains(&within);
        self.has_mismatch |= is_missing;
        usize::from(is_missing)
    }

    /// How many elements a closing tag ends. One without an element counts as one, so that all that is
    /// open is looked through only so often.
    fn matching_ends(&mut self, name: &[u8]) -> Result<usize, ParseError> {
        let is_named = |open: &Open| open.name.as_bytes().eq_ignore_ascii_case(name);
        let ends = self.open.iter().rev().position(is_named).map_or(0, |above| above + 1);
        if ends != 1 {
            self.has_mismatch = true;
            self.count_element()?;
        }
        Ok(ends)
    }

    fn count_element(&mut self) -> Result<(), ParseError> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX { Err(ParseError::TooMany("elements")) } else { Ok(()) }
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<Element, ParseError> {
        if self.open.len() == DEPTH_MAX {
            return Err(ParseError::TooDeep);
        }
        self.count_element()?;
        let attributes = attributes(start)?;
        let outer_namespaces = self.scope.len();
        for (name, value) in &attributes {
            let Some(prefix) = name.strip_prefix("xmlns") else { continue };
            let prefix = prefix.strip_prefix(':').unwrap_or(prefix);
            self.scope.push((prefix.to_owned(), declared(prefix, value)));
        }
        if self.scope.len() > NAMESPACES_MAX {
            return Err(ParseError::TooMany("namespaces"));
        }
        let base = attributes.iter().find(|(name, _)| name == "xml:base");
        let base = base.and_then(|(_, base)| base_of(self.base(), base.trim()));
        let full_name = part(start.name().into_inner())?.to_ascii_lowercase();
        let (prefix, name) = full_name.split_once(':').unwrap_or(("", &full_name));
        let element = Element { ns: self.resolve(prefix), name: name.to_owned(), attributes };
        self.open.push(Open { name: full_name, namespaces: outer_namespaces, base });
        Ok(element)
    }

    fn close(&mut self) {
        if let Some(closed) = self.open.pop() {
            self.scope.truncate(closed.namespaces);
        }
    }

    /// A prefix without a declaration means what it means everywhere.
    fn resolve(&self, prefix: &str) -> Ns {
        let declared = self.scope.iter().rev().find(|(known, _)| known == prefix);
        declared.map_or_else(|| by_prefix(prefix), |(_, ns)| *ns)
    }
}

/// Whether a document type has an internal subset, where entities are declared: a bracket outside of
/// the quotes of its identifiers.
fn declares(document_type: &str) -> bool {
    let mut quote = None;
    document_type.bytes().any(|byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b'['
    })
}

/// A base within another. One longer than urls may be is none: every relative address copies it.
fn base_of(outer: &Url, text: &str) -> Option<Url> {
    let base = (text.len() <= URL_BYTES_MAX).then(|| outer.join(text).ok())??;
    (base.as_str().len() <= URL_BYTES_MAX).then_some(base)
}

/// The attributes that feeds are read by; the others are counted, and read no further. Those without
/// a value or without quotes are as valid as HTML has them.
fn attributes(start: &BytesStart<'_>) -> Result<Vec<(String, String)>, ParseError> {
    let mut attributes = Vec::new();
    // Without the check for duplicates, which is quadratic.
    let mut all = start.html_attributes();
    for (count, attribute) in all.with_checks(false).enumerate() {
        if count == ATTRIBUTES_MAX {
            return Err(ParseError::TooMany("attributes of one element"));
        }
        let Ok(attribute) = attribute else { continue };
        let name = part(attribute.key.into_inner())?.to_ascii_lowercase();
        if is_read(&name) {
            let value = decoded(part(&attribute.value)?).into_owned();
            attributes.push((name, value));
        }
    }
    Ok(attributes)
}

fn is_read(name: &str) -> bool {
    let of_feeds = matches!(
        name,
        "url"
            | "type"
            | "medium"
            | "href"
            | "rel"
            | "duration"
            | "bitrate"
            | "framerate"
            | "samplingrate"
            | "rdf:about"
            | "rdf:resource"
            | "ispermalink"
            | "xml:base"
            | "xmlns"
    );
    of_feeds || is_picture_attribute(name) || name.starts_with("xmlns:")
}

/// What a reference stands for: a character, or an entity of HTML, which feeds use though XML does
/// not know it. None other, as no document type declares any.
fn entity(name: &[u8]) -> Result<String, ParseError> {
    let name = part(name)?;
    let mut text = String::new();
    if !push_entity(name, &mut text) {
        text = format!("&{name};");
    }
    Ok(text)
}

fn own_text(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, ParseError> {
    match bytes {
        Cow::Borrowed(bytes) => part(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => {
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| ParseError::NotWellFormed)
        }
    }
}

/// A part of a text: quick-xml gives bytes, cut where a character ends.
fn part(bytes: &[u8]) -> Result<&str, ParseError> {
    std::str::from_utf8(bytes).map_err(|_| ParseError::NotWellFormed)
}

fn push_within(text: &mut String, more: &str) {
    let left = TEXT_BYTES_MAX.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(left)]);
}

// The vocabularies of feeds, by the many names that feeds give them.

/// A vocabulary that feeds use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ns {
    /// None, or one of the namespaces of RSS.
    Rss,
    Atom,
    Media,
    /// Apple's vocabulary of podcasts, and those that copy its elements.
    Itunes,
    Content,
    DublinCore,
    FeedBurner,
    Xhtml,
    Other,
}

/// The vocabulary that a declaration binds a prefix to. An address that is not known leaves a known
/// prefix its usual meaning: feeds misspell addresses far more often than they reuse such a prefix.
pub(super) fn declared(prefix: &str, address: &str) -> Ns {
    let ns = by_address(address);
    if ns == Ns::Other && !prefix.is_empty() { by_prefix(prefix) } else { ns }
}

/// The usual meaning of a prefix, declared or not.
pub(super) fn by_prefix(prefix: &str) -> Ns {
    match prefix {
        "" | "rss" => Ns::Rss,
        // The second is what .NET's `SyndicationFeed` writes.
        "atom" | "a10" => Ns::Atom,
        "media" => Ns::Media,
        "itunes" | "googleplay" => Ns::Itunes,
        "content" => Ns::Content,
        "dc" | "dcterms" => Ns::DublinCore,
        "feedburner" => Ns::FeedBurner,
        "xhtml" => Ns::Xhtml,
        _ => Ns::Other,
    }
}

/// Addresses are compared without scheme, `www`, case and final slash.
fn by_address(address: &str) -> Ns {
    let address = address.trim().to_ascii_lowercase();
    let address =
        address.strip_prefix("https:").or(address.strip_prefix("http:")).unwrap_or(&address);
    let address = address.trim_start_matches('/').trim_end_matches(['/', '#']);
    let address = address.strip_prefix("www.").unwrap_or(address);
    match address {
        ""
        | "purl.org/rss/1.0"
        | "purl.org/rss/2.0"
        | "purl.org/net/rss1.1"
        | "purl.org/rss/1.0/modules/rss091"
        | "my.netscape.com/rdf/simple/0.9"
        | "channel.netscape.com/rdf/simple/0.9"
        | "my.netscape.com/publish/formats/rss-0.91.dtd"
        | "backend.userland.com/rss"
        | "backend.userland.com/rss091"
        | "backend.userland.com/rss092"
        | "backend.userland.com/rss2"
        | "blogs.law.harvard.edu/tech/rss"
        | "cyber.law.harvard.edu/rss"
        | "cyber.law.harvard.edu/rss/rss.html"
        | "rssboard.org/rss-specification" => Ns::Rss,
        "w3.org/2005/atom" | "purl.org/atom/ns" | "purl.org/atom" => Ns::Atom,
        "purl.org/rss/1.0/modules/content" => Ns::Content,
        "google.com/schemas/play-podcasts/1.0" => Ns::Itunes,
        "purl.org/dc/elements/1.1" | "purl.org/dc/elements/1.0" | "purl.org/dc/terms" => {
            Ns::DublinCore
        }
        "rssnamespace.org/feedburner/ext/1.0" => Ns::FeedBurner,
        "w3.org/1999/xhtml" => Ns::Xhtml,
        // Of several hosts: Yahoo's with and without `search`, and the RSS Advisory Board's.
        _ => match address.rsplit('/').next() {
            Some("mrss" | "media-rss") => Ns::Media,
            Some("podcast-1.0.dtd") => Ns::Itunes,
            _ => Ns::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_have_aliases() {
        let cases = [
            ("media", "http://search.yahoo.com/mrss/", Ns::Media),
            ("m", "https://search.yahoo.com/mrss", Ns::Media),
            ("m", "http://www.rssboard.org/media-rss", Ns::Media),
            ("m", "http://tools.search.yahoo.com/mrss/", Ns::Media),
            ("media", "http://search.yahoo.com/mrss/\"", Ns::Media),
            ("i", "http://www.itunes.com/DTDs/Podcast-1.0.dtd", Ns::Itunes),
            ("googleplay", "https://www.google.com/schemas/play-podcasts/1.0/", Ns::Itunes),
            ("", "http://www.w3.org/2005/Atom", Ns::Atom),
            ("", "http://www.w3.org/2005/Atom/", Ns::Atom),
            ("", "http://purl.org/atom/ns#", Ns::Atom),
            ("a10", "http://www.w3.org/2005/Atom", Ns::Atom),
            ("", "http://my.netscape.com/rdf/simple/0.9/", Ns::Rss),
            ("", "http://purl.org/rss/1.0/", Ns::Rss),
            ("", "", Ns::Rss),
            ("d", "http://purl.org/dc/terms/", Ns::DublinCore),
            ("", "https://news.example/own", Ns::Other),
            ("x", "https://news.example/own", Ns::Other),
        ];
        for (prefix, address, expected) in cases {
            assert_eq!(declared(prefix, address), expected, "{prefix} {address}");
        }
    }
}
