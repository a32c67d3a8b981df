//! Parses an item of RSS or Atom. Feeds of each format also use elements of the other format and of
//! half a dozen further vocabularies, so one parser handles all of them.

use notify_core::Timestamp;
use url::Url;

use super::picture::{Claim, Likeness, Pictures, Place};
use super::text::{escaped, first_picture, line, title, web_url};
use super::xml::{Document, Element, Ns, Piece, Text};
use super::{ParseError, time};

/// Keeps the best of several values: the value with the lowest rank, and the first among equal
/// ranks.
#[derive(Debug)]
pub(super) struct Ranked<R, T>(Option<(R, T)>);

impl<R, T> Default for Ranked<R, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<R: Ord, T> Ranked<R, T> {
    /// Offers a value. `value` is called only if its rank is better than that of the kept value.
    pub(super) fn offer(&mut self, rank: R, value: impl FnOnce() -> Option<T>) {
        if self.0.as_ref().is_none_or(|(best, _)| rank < *best)
            && let Some(value) = value()
        {
            self.0 = Some((rank, value));
        }
    }

    pub(super) fn best(self) -> Option<T> {
        self.0.map(|(_, value)| value)
    }
}

/// Sources of a title, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TitleRank {
    Title,
    /// The title of another vocabulary.
    Other,
    Summary,
    Content,
}

/// Sources of the url of an item, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UrlRank {
    /// `feedburner:origLink`: the page to which the link of `FeedBurner` redirects.
    Original,
    Link,
    /// An alternate link whose media type is HTML.
    Alternate,
    AlternateOfOtherType,
    Id,
    /// The enclosure (for example a recording), if the item has no page.
    Enclosure,
}

/// Sources of a time, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeRank {
    Published,
    DublinCore,
    Updated,
}

/// The values of an item that were found so far.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) title: Ranked<TitleRank, String>,
    pub(super) url: Ranked<UrlRank, String>,
    pub(super) time: Ranked<TimeRank, Timestamp>,
    pub(super) pictures: Pictures,
}

/// Parses the item whose element was just opened, up to its end.
pub(super) fn parse_item(document: &mut Document<'_>) -> Result<Draft, ParseError> {
    let outside = document.depth() - 1;
    let mut draft = Draft::default();
    while document.depth() > outside {
        let Piece::Start(element) = document.next()?.ok_or(ParseError::NotWellFormed)? else {
            continue;
        };
        if draft.read_text(document, &element)?
            || draft.read_address(document, &element)?
            || draft.read_time(document, &element)?
            || draft.read_picture(document, &element)?
        {
            continue;
        }
        document.skip()?;
    }
    Ok(draft)
}

impl Draft {
    /// Reads an element of text: a title, a summary or a content. Returns false, and reads nothing,
    /// for any other element.
    fn read_text(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let is_plain = is_plain(element);
        match (element.ns, element.name.as_str()) {
            (Ns::Rss | Ns::Atom, "title") => {
                let text = document.text()?.text;
                self.title.offer(TitleRank::Title, || {
                    if is_plain { line(&escaped(&text)) } else { title(&text) }
                });
            }
            (Ns::Media | Ns::Itunes | Ns::DublinCore, "title") => {
                let text = document.text()?.text;
                self.title.offer(TitleRank::Other, || title(&text));
            }
            (Ns::Rss, "description") => self.add_text(document, TitleRank::Summary, false)?,
            (Ns::Rss | Ns::Atom, "summary") => {
                self.add_text(document, TitleRank::Summary, is_plain)?;
            }
            (Ns::Content, "encoded") | (Ns::Xhtml, "body" | "div") => {
                self.add_text(document, TitleRank::Content, false)?;
            }
            (Ns::Rss | Ns::Atom, "content") => {
                let url = element.attribute("src").and_then(|url| web_url(document.base(), url));
                if let Some(url) = url {
                    self.add_if_picture(Place::Enclosure, url, claim_of(element));
                }
                self.add_text(document, TitleRank::Content, is_plain)?;
            }
            (Ns::Itunes, "summary" | "subtitle") | (Ns::Media, "description") => {
                let text = document.text()?.text;
                self.title.offer(TitleRank::Content, || line(&text));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads a text that can replace a missing title and may contain a picture.
    fn add_text(
        &mut self,
        document: &mut Document<'_>,
        rank: TitleRank,
        is_plain: bool,
    ) -> Result<(), ParseError> {
        let Text { text, picture } = document.text()?;
        let place = if rank == TitleRank::Content { Place::Content } else { Place::Summary };
        self.pictures.offer(place, || match picture {
            None if !is_plain => first_picture(&text, document.base()),
            picture => picture,
        });
        self.title.offer(rank, || to_line(&text, is_plain));
        Ok(())
    }

    /// Reads an element that contains the url of the item. Returns false for any other element.
    fn read_address(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        match (element.ns, element.name.as_str()) {
            (Ns::FeedBurner, "origlink") => {
                let text = document.text()?.text;
                self.url.offer(UrlRank::Original, || web_url(document.base(), &text));
            }
            (Ns::Rss | Ns::Atom, "link") => {
                self.add_link(document, element);
                let text = document.text()?.text;
                self.url.offer(UrlRank::Link, || web_url(document.base(), &text));
            }
            (Ns::Rss | Ns::Atom, "guid" | "id") => {
                let is_link = match element.attribute("ispermalink") {
                    Some(value) => !value.eq_ignore_ascii_case("false"),
                    None => true,
                };
                let text = document.text()?.text;
                if is_link {
                    self.add_id(document.base(), &text);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Reads the attributes of a link. By the format, links of RSS have none, but some RSS feeds
    /// use them.
    fn add_link(&mut self, document: &Document<'_>, element: &Element) {
        let url = element.attribute("href").and_then(|url| web_url(document.base(), url));
        let Some(url) = url else { return };
        let relation = element.attribute("rel").unwrap_or("alternate").to_ascii_lowercase();
        let kind = element.attribute("type").unwrap_or("text/html");
        match relation.rsplit('/').next().unwrap_or_default() {
            "alternate" | "" if kind.to_ascii_lowercase().contains("html") => {
                self.url.offer(UrlRank::Alternate, || Some(url));
            }
            "alternate" | "" => self.url.offer(UrlRank::AlternateOfOtherType, || Some(url)),
            "enclosure" => {
                self.url.offer(UrlRank::Enclosure, || Some(url.clone()));
                self.add_if_picture(Place::Enclosure, url, claim_of(element));
            }
            "thumbnail" | "preview" | "image_src" => self.pictures.add(Place::Image, url),
            _ => {}
        }
    }

    /// Offers the id of an item as its url, if the id is an absolute url.
    pub(super) fn add_id(&mut self, base: &Url, id: &str) {
        // Any text is a valid relative url, so a relative id would become a link to the feed's
        // host.
        if is_absolute(id) {
            self.url.offer(UrlRank::Id, || web_url(base, id));
        }
    }

    /// Reads an element that contains a date. Returns false for any other element.
    fn read_time(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let rank = match (element.ns, element.name.as_str()) {
            // `issued` is an element of Atom 0.3.
            (Ns::Rss | Ns::Atom, "pubdate" | "published" | "issued") => TimeRank::Published,
            (Ns::DublinCore, "date" | "issued" | "created" | "available")
            | (Ns::Rss | Ns::Atom, "date" | "created") => TimeRank::DublinCore,
            (Ns::Rss | Ns::Atom | Ns::DublinCore, "updated" | "modified" | "lastbuilddate") => {
                TimeRank::Updated
            }
            _ => return Ok(false),
        };
        let text = document.text()?.text;
        self.time.offer(rank, || time::read(&text));
        Ok(true)
    }

    /// Reads an element that contains a picture. Returns false for any other element. The elements
    /// inside `media:group` and `media:content` are not skipped: they are read next, like elements
    /// of the item.
    fn read_picture(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let attribute_url = ["url", "href", "src", "rdf:resource"]
            .into_iter()
            .find_map(|name| element.attribute(name))
            .and_then(|url| web_url(document.base(), url));
        let place = match (element.ns, element.name.as_str()) {
            (Ns::Media, "group") => return Ok(true),
            (Ns::Media, "content") => {
                if let Some(url) = attribute_url {
                    self.pictures.add_content(url, claim_of(element), element.attribute("width"));
                }
                return Ok(true);
            }
            (Ns::Rss | Ns::Atom, "enclosure") => {
                if let Some(url) = attribute_url {
                    self.url.offer(UrlRank::Enclosure, || Some(url.clone()));
                    self.add_if_picture(Place::Enclosure, url, claim_of(element));
                }
                document.skip()?;
                return Ok(true);
            }
            (Ns::Media, "thumbnail") => Place::Thumbnail,
            (Ns::Itunes, "image") | (Ns::Rss, "image" | "thumbnail" | "thumb") => Place::Image,
            _ => return Ok(false),
        };
        let text = document.text()?.text;
        // Some feeds write the url as text. An `image` in the form of RSS channels contains it in
        // its element `url`, whose text is part of this text.
        let url = attribute_url.or_else(|| {
            let mut words = text.split_whitespace().filter(|word| is_absolute(word));
            words.next().and_then(|word| web_url(document.base(), word))
        });
        if let Some(url) = url {
            self.pictures.add_sized(place, url, element);
        }
        Ok(true)
    }

    /// Adds a url as a picture if its element declares it to be one.
    fn add_if_picture(&mut self, place: Place, url: String, claim: Claim<'_>) {
        if claim.likeness(&url) == Likeness::Picture {
            self.pictures.add(place, url);
        }
    }
}

/// What an element declares about the file at its url.
fn claim_of(element: &Element) -> Claim<'_> {
    let timed = ["duration", "bitrate", "framerate", "samplingrate"];
    Claim {
        kind: element.attribute("type"),
        medium: element.attribute("medium"),
        is_timed: timed.iter().any(|name| element.attribute(name).is_some()),
    }
}

/// Whether the text of an element is plain text, in which `<` is not markup. Texts of Atom without
/// a type are plain.
fn is_plain(element: &Element) -> bool {
    match element.attribute("type") {
        Some(kind) => {
            !kind.to_ascii_lowercase().contains("html") || kind.eq_ignore_ascii_case("xhtml")
        }
        None => element.ns == Ns::Atom,
    }
}

/// A text as one line, see [`line()`].
fn to_line(text: &str, is_plain: bool) -> Option<String> {
    if is_plain { line(&escaped(text)) } else { line(text) }
}

/// Whether a text begins like an absolute url of the web.
fn is_absolute(text: &str) -> bool {
    let text = text.trim_start();
    ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}
