//! A streaming reader of XML, as far as feeds need it.
//!
//! A hostile document cannot exhaust the server. The depth, the attributes of an element, the
//! namespaces in scope and the number of elements are limited here; without these limits, many
//! attributes or namespaces make `quick-xml` slow (RUSTSEC-2026-0194, RUSTSEC-2026-0195). A
//! document type that declares anything is refused, so a document can neither define entities nor
//! make the server fetch anything. Other document types are skipped.
//!
//! Tags that do not match are handled as browsers handle them. A closing tag closes its element and
//! all elements that are still open inside it. A closing tag without an open element is skipped.

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use url::Url;

use crate::enrichment::feeds::ParseError;
use crate::enrichment::feeds::text::{
    INLINE, PictureSearch, URL_BYTES_MAX, decoded, is_picture_attribute, push_entity,
};

/// Most levels of nested elements.
pub(super) const DEPTH_MAX: usize = 64;
/// Most attributes of an element.
pub(super) const ATTRIBUTES_MAX: usize = 64;
/// Most namespace declarations in scope: those of an element and of all elements around it.
pub(super) const NAMESPACES_MAX: usize = 64;
/// Most elements of a document.
pub(super) const ELEMENTS_MAX: usize = 250_000;
/// Most bytes kept of one element's text; the rest is skipped.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1_024;

/// Elements that never contain an element of the same name directly. If such an element starts
/// directly inside another of its name, the closing tag of the outer one is missing.
const NOT_NESTED: [&str; 4] = ["item", "entry", "p", "li"];
/// Elements of HTML that have no closing tag. Names that feeds use for other elements, such as
/// `link`, are left out.
const HTML_VOID: [&str; 5] = ["br", "hr", "img", "input", "wbr"];

/// The start of an element.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) ns: Ns,
    /// The name without its prefix, in lower case, because feeds also write `pubdate` and
    /// `PubDate`.
    pub(super) name: String,
    /// Names, in lower case, and values.
    attributes: Vec<(String, String)>,
}

impl Element {
    /// The value of an attribute, by its name in lower case.
    pub(super) fn attribute(&self, name: &str) -> Option<&str> {
        let attribute = self.attributes.iter().find(|(attribute, _)| attribute == name);
        attribute.map(|(_, value)| value.trim())
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
    /// The text of the element and of all elements inside it.
    pub(super) text: String,
    /// The first picture among the elements inside it, in XHTML content.
    pub(super) picture: Option<String>,
}

/// An element that is open.
struct OpenElement {
    /// The name with its prefix, in lower case.
    name: String,
    /// The number of namespace declarations in scope outside of this element.
    outer_namespaces: usize,
    base: Option<Url>,
}

/// A reader over a document.
pub(super) struct Document<'a> {
    reader: Reader<&'a [u8]>,
    open: Vec<OpenElement>,
    /// The number of [`Piece::End`]s to return before the next piece is read.
    pending_ends: usize,
    /// A start to return after the pending ends.
    pending_start: Option<BytesStart<'a>>,
    elements: usize,
    /// The declared prefixes in scope; those of outer elements come first.
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
        // Many feeds contain urls with a bare `&`.
        config.allow_dangling_amp = true;
        // `matching_ends` matches the tags, leniently.
        config.check_end_names = false;
        config.allow_unmatched_ends = true;
        Self {
            reader,
            open: Vec::new(),
            pending_ends: 0,
            pending_start: None,
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

    /// Whether an opening or closing tag has been missing so far.
    pub(super) fn has_mismatch(&self) -> bool {
        self.has_mismatch
    }

    /// The base of relative urls at this place of the document: `xml:base`, or else the feed's url.
    pub(super) fn base(&self) -> &Url {
        self.open.iter().rev().find_map(|open| open.base.as_ref()).unwrap_or(&self.feed_url)
    }

    /// Treats the default namespace as that of RSS, after the root of a feed was opened. Some RSS
    /// feeds declare Atom's namespace as the default, and some feeds an unknown one.
    pub(super) fn adopt_default_namespace(&mut self, is_rss: bool) {
        for (prefix, ns) in &mut self.scope {
            if prefix.is_empty() && (is_rss || *ns == Ns::Other) {
                *ns = Ns::Rss;
            }
        }
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'a>>, ParseError> {
        loop {
            if self.pending_ends > 0 {
                self.pending_ends -= 1;
                self.close();
                return Ok(Some(Piece::End));
            }
            if let Some(start) = self.pending_start.take() {
                return Ok(Some(Piece::Start(self.open(&start)?)));
            }
            let piece = match self.reader.read_event().map_err(|_| ParseError::NotWellFormed)? {
                Event::Start(start) => {
                    self.pending_ends = self.implied_ends(start.name().into_inner());
                    self.pending_start = Some(start);
                    continue;
                }
                Event::End(end) => {
                    self.pending_ends = self.matching_ends(end.name().into_inner())?;
                    continue;
                }
                Event::Text(text) => Piece::Text(to_text(text.into_inner())?),
                Event::CData(text) => Piece::Text(to_text(text.into_inner())?),
                Event::GeneralRef(name) => Piece::Text(Cow::Owned(entity(&name)?)),
                Event::DocType(kind) if has_declarations(to_str(&kind)?) => {
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

    /// Reads the element that was just opened up to its end, and returns its text.
    pub(super) fn text(&mut self) -> Result<Text, ParseError> {
        let outside = self.depth() - 1;
        let mut text = String::new();
        let mut search = PictureSearch::default();
        loop {
            match self.next()?.ok_or(ParseError::NotWellFormed)? {
                Piece::Text(more) => push_limited(&mut text, &more),
                Piece::Start(element) => {
                    search.look_at(&element.name, |name| element.attribute(name), self.base());
                    // Paragraphs and other block elements separate words.
                    if !INLINE.contains(&element.name.as_str()) {
                        push_limited(&mut text, " ");
                    }
                }
                Piece::End if self.depth() == outside => {
                    return Ok(Text { text, picture: search.first() });
                }
                Piece::End => {}
            }
        }
    }

    /// Skips the element that was just opened, with everything inside it.
    pub(super) fn skip(&mut self) -> Result<(), ParseError> {
        let outside = self.depth() - 1;
        while self.depth() > outside {
            self.next()?.ok_or(ParseError::NotWellFormed)?;
        }
        Ok(())
    }

    /// How many open elements (0 or 1) end where an element starts, because their closing tag is
    /// missing. An `item` directly inside an `item` ends the outer one, and void elements of HTML
    /// contain nothing.
    fn implied_ends(&mut self, name: &[u8]) -> usize {
        let Some(parent) = self.open.last().map(|open| open.name.as_str()) else { return 0 };
        let local_name = parent.rsplit(':').next().unwrap_or_default();
        let is_same = parent.as_bytes().eq_ignore_ascii_case(name);
        let is_not_nested = is_same && NOT_NESTED.contains(&local_name);
        let is_end_missing = is_not_nested || HTML_VOID.contains(&parent);
        self.has_mismatch |= is_end_missing;
        usize::from(is_end_missing)
    }

    /// How many open elements a closing tag ends; 0 if it has no open element. Such a tag counts
    /// towards [`ELEMENTS_MAX`], because each one costs a search through all open elements.
    fn matching_ends(&mut self, name: &[u8]) -> Result<usize, ParseError> {
        let has_name = |open: &OpenElement| open.name.as_bytes().eq_ignore_ascii_case(name);
        let ends = match self.open.iter().rev().position(has_name) {
            Some(elements_inside) => elements_inside + 1,
            None => 0,
        };
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
            self.scope.push((prefix.to_owned(), namespace_of(prefix, value)));
        }
        if self.scope.len() > NAMESPACES_MAX {
            return Err(ParseError::TooMany("namespaces"));
        }
        let base = attributes
            .iter()
            .find(|(name, _)| name == "xml:base")
            .and_then(|(_, value)| resolve_base(self.base(), value.trim()));
        let full_name = to_str(start.name().into_inner())?.to_ascii_lowercase();
        let (prefix, name) = full_name.split_once(':').unwrap_or(("", &full_name));
        let element = Element { ns: self.resolve(prefix), name: name.to_owned(), attributes };
        self.open.push(OpenElement { name: full_name, outer_namespaces, base });
        Ok(element)
    }

    fn close(&mut self) {
        if let Some(closed) = self.open.pop() {
            self.scope.truncate(closed.outer_namespaces);
        }
    }

    /// The vocabulary of a prefix. A prefix without a declaration has its usual meaning.
    fn resolve(&self, prefix: &str) -> Ns {
        match self.scope.iter().rev().find(|(declared, _)| declared == prefix) {
            Some((_, ns)) => *ns,
            None => by_prefix(prefix),
        }
    }
}

/// Whether a document type has an internal subset, which can declare entities. The subset begins
/// with a bracket outside of the quoted identifiers.
fn has_declarations(document_type: &str) -> bool {
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

/// The base that an `xml:base` inside another base defines. A base that is too long is ignored,
/// because every relative url would copy it.
fn resolve_base(outer: &Url, text: &str) -> Option<Url> {
    if text.len() > URL_BYTES_MAX {
        return None;
    }
    let base = outer.join(text).ok()?;
    (base.as_str().len() <= URL_BYTES_MAX).then_some(base)
}

/// The attributes that are used to read feeds. Other attributes only count towards
/// [`ATTRIBUTES_MAX`]. Attributes without a value or without quotes are valid, as in HTML.
fn attributes(start: &BytesStart<'_>) -> Result<Vec<(String, String)>, ParseError> {
    let mut attributes = Vec::new();
    // The check for duplicates is off, because it takes quadratic time.
    let mut all = start.html_attributes();
    for (count, attribute) in all.with_checks(false).enumerate() {
        if count == ATTRIBUTES_MAX {
            return Err(ParseError::TooMany("attributes of one element"));
        }
        let Ok(attribute) = attribute else { continue };
        let name = to_str(attribute.key.into_inner())?.to_ascii_lowercase();
        if is_read(&name) {
            let value = decoded(to_str(&attribute.value)?).into_owned();
            attributes.push((name, value));
        }
    }
    Ok(attributes)
}

/// Whether the value of an attribute is read.
fn is_read(name: &str) -> bool {
    let is_feed_attribute = matches!(
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
    is_feed_attribute || is_picture_attribute(name) || name.starts_with("xmlns:")
}

/// The text of a reference: a numbered character, or an entity of HTML, which feeds use although
/// XML does not define it. Any other reference stays as it is written, because document types
/// cannot declare entities here.
fn entity(name: &[u8]) -> Result<String, ParseError> {
    let name = to_str(name)?;
    let mut text = String::new();
    if !push_entity(name, &mut text) {
        text = format!("&{name};");
    }
    Ok(text)
}

/// Bytes of `quick-xml` as text.
fn to_text(bytes: Cow<'_, [u8]>) -> Result<Cow<'_, str>, ParseError> {
    match bytes {
        Cow::Borrowed(bytes) => to_str(bytes).map(Cow::Borrowed),
        Cow::Owned(bytes) => {
            String::from_utf8(bytes).map(Cow::Owned).map_err(|_| ParseError::NotWellFormed)
        }
    }
}

/// Borrowed bytes of `quick-xml` as text.
fn to_str(bytes: &[u8]) -> Result<&str, ParseError> {
    std::str::from_utf8(bytes).map_err(|_| ParseError::NotWellFormed)
}

/// Appends to a text up to [`TEXT_BYTES_MAX`].
fn push_limited(text: &mut String, more: &str) {
    let left = TEXT_BYTES_MAX.saturating_sub(text.len());
    text.push_str(&more[..more.floor_char_boundary(left)]);
}

// The vocabularies of feeds. Feeds declare each of them under many addresses.

/// A vocabulary that feeds use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ns {
    /// No namespace, or one of the namespaces of RSS.
    Rss,
    Atom,
    Media,
    /// Apple's vocabulary for podcasts, and vocabularies that copy its elements.
    Itunes,
    Content,
    DublinCore,
    FeedBurner,
    Xhtml,
    Other,
}

/// The vocabulary of a namespace declaration. If the address is unknown, the prefix has its usual
/// meaning: feeds misspell addresses far more often than they use a well-known prefix for something
/// else.
pub(super) fn namespace_of(prefix: &str, address: &str) -> Ns {
    let ns = by_address(address);
    if ns == Ns::Other && !prefix.is_empty() { by_prefix(prefix) } else { ns }
}

/// The usual meaning of a prefix.
pub(super) fn by_prefix(prefix: &str) -> Ns {
    match prefix {
        "" | "rss" => Ns::Rss,
        // .NET's `SyndicationFeed` writes `a10`.
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

/// The vocabulary of a namespace address. Scheme, `www`, case and a final slash are ignored.
fn by_address(address: &str) -> Ns {
    let url = address.trim().to_ascii_lowercase();
    let without_scheme = url.strip_prefix("https:").or(url.strip_prefix("http:")).unwrap_or(&url);
    let trimmed = without_scheme.trim_start_matches('/').trim_end_matches(['/', '#']);
    let name = trimmed.strip_prefix("www.").unwrap_or(trimmed);
    match name {
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
        // Several hosts use these: Yahoo with and without `search`, and the RSS Advisory Board.
        _ => match name.rsplit('/').next() {
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
            assert_eq!(namespace_of(prefix, address), expected, "{prefix} {address}");
        }
    }
}
