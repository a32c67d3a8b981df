//! XML as far as feeds need it, read piece by piece and bounded in everything that a document can
//! exaggerate: depth, attributes of an element, namespaces in scope, elements. No document type, so
//! no entity of its own and nothing that is fetched (RUSTSEC-2026-0194 and -0195 are about what is
//! counted here: attributes and namespaces).

use std::borrow::Cow;

use quick_xml::Reader;
use quick_xml::events::{BytesStart, Event};
use url::Url;

use super::ParseError;
use super::text::{URL_BYTES_MAX, decoded, push_entity};

/// Most elements within each other.
pub(super) const DEPTH_MAX: usize = 64;
/// Most attributes of an element.
pub(super) const ATTRIBUTES_MAX: usize = 64;
/// Most namespaces declared at one place, by it and all around it.
pub(super) const NAMESPACES_MAX: usize = 64;
/// Most elements of a document.
pub(super) const ELEMENTS_MAX: usize = 250_000;
/// Most bytes of one element's text that are kept; the rest is passed over.
pub(super) const TEXT_BYTES_MAX: usize = 64 * 1_024;

/// A namespace that feeds use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ns {
    /// None, or one of the names that RSS goes by.
    Rss,
    Atom,
    Media,
    Itunes,
    Content,
    DublinCore,
    Other,
}

/// The start of an element.
#[derive(Debug)]
pub(super) struct Element {
    pub(super) ns: Ns,
    /// Without its prefix.
    pub(super) name: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    /// The value of an attribute.
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

/// A document that is read.
pub(super) struct Document<'a> {
    reader: Reader<&'a [u8]>,
    depth: usize,
    elements: usize,
    /// Prefixes in scope with the depth of who declared them.
    scope: Vec<(usize, String, Ns)>,
    bases: Vec<(usize, Url)>,
    feed_url: Url,
}

impl<'a> Document<'a> {
    pub(super) fn new(text: &'a str, feed_url: &Url) -> Self {
        let mut reader = Reader::from_str(text);
        let config = reader.config_mut();
        config.expand_empty_elements = true;
        config.trim_markup_names_in_closing_tags = true;
        // Feeds are full of addresses whose `&` nobody wrote as `&amp;`.
        config.allow_dangling_amp = true;
        let feed_url = feed_url.clone();
        Self { reader, depth: 0, elements: 0, scope: Vec::new(), bases: Vec::new(), feed_url }
    }

    /// How many elements are open.
    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// What relative addresses are relative to here.
    pub(super) fn base(&self) -> &Url {
        self.bases.last().map_or(&self.feed_url, |(_, base)| base)
    }

    /// The next piece; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<Piece<'a>>, ParseError> {
        loop {
            let piece = match self.reader.read_event().map_err(|_| ParseError::NotWellFormed)? {
                Event::Start(start) => Piece::Start(self.open(&start)?),
                Event::End(_) => {
                    self.close();
                    Piece::End
                }
                Event::Text(text) => Piece::Text(own_text(text.into_inner())?),
                Event::CData(text) => Piece::Text(own_text(text.into_inner())?),
                Event::GeneralRef(name) => Piece::Text(Cow::Owned(entity(&name)?)),
                Event::DocType(_) => return Err(ParseError::DocumentType),
                Event::Eof if self.depth > 0 => return Err(ParseError::NotWellFormed),
                Event::Eof => return Ok(None),
                Event::Empty(_) | Event::Comment(_) | Event::Decl(_) | Event::PI(_) => continue,
            };
            return Ok(Some(piece));
        }
    }

    /// The text of the element that was just opened, up to its end: its own and that of elements
    /// within. `image` is given the `src` of images within, as XHTML has them.
    pub(super) fn text(&mut self, mut image: impl FnMut(&Url, &str)) -> Result<String, ParseError> {
        let outside = self.depth - 1;
        let mut text = String::new();
        loop {
            match self.next()?.ok_or(ParseError::NotWellFormed)? {
                Piece::Text(more) => push_within(&mut text, &more),
                Piece::Start(element) if element.name.eq_ignore_ascii_case("img") => {
                    if let Some(source) = element.attribute("src") {
                        image(self.base(), source);
                    }
                }
                // Words of two paragraphs are not one word.
                Piece::Start(_) => push_within(&mut text, " "),
                Piece::End if self.depth == outside => return Ok(text),
                Piece::End => {}
            }
        }
    }

    /// Passes over the element that was just opened.
    pub(super) fn skip(&mut self) -> Result<(), ParseError> {
        let outside = self.depth - 1;
        while self.depth > outside {
            self.next()?.ok_or(ParseError::NotWellFormed)?;
        }
        Ok(())
    }

    fn open(&mut self, start: &BytesStart<'_>) -> Result<Element, ParseError> {
        self.depth += 1;
        self.elements += 1;
        if self.depth > DEPTH_MAX {
            return Err(ParseError::TooDeep);
        }
        if self.elements > ELEMENTS_MAX {
            return Err(ParseError::TooMany("elements"));
        }
        let attributes = attributes(start)?;
        for (name, value) in &attributes {
            let Some(prefix) = name.strip_prefix("xmlns") else { continue };
            let prefix = prefix.strip_prefix(':').unwrap_or(prefix);
            self.scope.push((self.depth, prefix.to_owned(), namespace(value)));
        }
        if self.scope.len() > NAMESPACES_MAX {
            return Err(ParseError::TooMany("namespaces"));
        }
        if let Some((_, base)) = attributes.iter().find(|(name, _)| name == "xml:base")
            && let Some(base) = base_of(self.base(), base.trim())
        {
            self.bases.push((self.depth, base));
        }
        let name = part(start.name().into_inner())?;
        let (prefix, name) = name.split_once(':').unwrap_or(("", name));
        Ok(Element { ns: self.resolve(prefix), name: name.to_owned(), attributes })
    }

    fn close(&mut self) {
        while self.scope.last().is_some_and(|(depth, ..)| *depth >= self.depth) {
            self.scope.pop();
        }
        while self.bases.last().is_some_and(|(depth, _)| *depth >= self.depth) {
            self.bases.pop();
        }
        self.depth = self.depth.saturating_sub(1);
    }

    /// A prefix that nobody declared means what it means everywhere.
    fn resolve(&self, prefix: &str) -> Ns {
        let declared = self.scope.iter().rev().find(|(_, known, _)| known == prefix);
        declared.map_or_else(
            || match prefix {
                "" | "rss" => Ns::Rss,
                "atom" => Ns::Atom,
                "media" => Ns::Media,
                "itunes" => Ns::Itunes,
                "content" => Ns::Content,
                "dc" => Ns::DublinCore,
                _ => Ns::Other,
            },
            |(.., ns)| *ns,
        )
    }
}

/// A base within another. One longer than urls may be is none: every relative address copies it.
fn base_of(outer: &Url, text: &str) -> Option<Url> {
    let base = (text.len() <= URL_BYTES_MAX).then(|| outer.join(text).ok())??;
    (base.as_str().len() <= URL_BYTES_MAX).then_some(base)
}

/// The attributes that feeds are read by; the others are counted, and read no further.
fn attributes(start: &BytesStart<'_>) -> Result<Vec<(String, String)>, ParseError> {
    const READ: [&str; 9] =
        ["url", "type", "medium", "width", "href", "rel", "src", "isPermaLink", "xml:base"];
    let mut attributes = Vec::new();
    // Without the check for doubles, which looks at all the others for each.
    let mut all = start.attributes();
    for (count, attribute) in all.with_checks(false).enumerate() {
        if count == ATTRIBUTES_MAX {
            return Err(ParseError::TooMany("attributes of one element"));
        }
        let attribute = attribute.map_err(|_| ParseError::NotWellFormed)?;
        let name = part(attribute.key.into_inner())?;
        if READ.contains(&name) || name == "xmlns" || name.starts_with("xmlns:") {
            let value = decoded(part(&attribute.value)?).into_owned();
            attributes.push((name.to_owned(), value));
        }
    }
    Ok(attributes)
}

/// The namespace of a name, however that is written: with or without `s` or a slash at its end.
fn namespace(name: &str) -> Ns {
    let name = name.trim().to_ascii_lowercase();
    let name = name.strip_prefix("https:").or(name.strip_prefix("http:")).unwrap_or(&name);
    match name.trim_end_matches('/') {
        ""
        | "//purl.org/rss/1.0"
        | "//backend.userland.com/rss2"
        | "//blogs.law.harvard.edu/tech/rss"
        | "//www.rssboard.org/rss-specification"
        | "//cyber.law.harvard.edu/rss" => Ns::Rss,
        "//www.w3.org/2005/atom" | "//purl.org/atom/ns#" => Ns::Atom,
        "//search.yahoo.com/mrss" => Ns::Media,
        "//www.itunes.com/dtds/podcast-1.0.dtd" => Ns::Itunes,
        "//purl.org/rss/1.0/modules/content" => Ns::Content,
        "//purl.org/dc/elements/1.1" | "//purl.org/dc/terms" => Ns::DublinCore,
        _ => Ns::Other,
    }
}

/// What a reference stands for: a character, or an entity of HTML, which feeds use though XML does
/// not know it. None other, as there is no document type.
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
