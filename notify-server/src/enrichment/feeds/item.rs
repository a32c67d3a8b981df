//! An item of RSS or Atom. Feeds of either mix in elements of the other and of half a dozen further
//! vocabularies, so that one reader knows them all.

use notify_core::Timestamp;
use url::Url;

use super::picture::{Claim, Likeness, Pictures, Place};
use super::text::{escaped, first_picture, line, web_url};
use super::xml::{Document, Element, Ns, Piece, Text};
use super::{ParseError, time};

/// The best of several values of an item: the lowest rank, and the first among equals.
#[derive(Debug)]
pub(super) struct Ranked<R, T>(Option<(R, T)>);

impl<R, T> Default for Ranked<R, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<R: Ord, T> Ranked<R, T> {
    /// Offers a value, which is only made if it would count.
    pub(super) fn offer(&mut self, rank: R, value: impl FnOnce() -> Option<T>) {
        if self.0.as_ref().is_none_or(|(known, _)| rank < *known)
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

/// Sources of an address, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum UrlRank {
    /// What a link of `FeedBurner` redirects to.
    Original,
    Link,
    /// A page, by its media type.
    Alternate,
    AlternateOfOtherType,
    Id,
    /// A recording, where there is no page.
    Enclosure,
}

/// Sources of a time, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TimeRank {
    Published,
    DublinCore,
    Updated,
}

/// An item while it is read.
#[derive(Debug, Default)]
pub(super) struct Draft {
    pub(super) title: Ranked<TitleRank, String>,
    pub(super) url: Ranked<UrlRank, String>,
    pub(super) time: Ranked<TimeRank, Timestamp>,
    pub(super) pictures: Pictures,
}

/// Reads the item that was just opened.
pub(super) fn item(document: &mut Document<'_>) -> Result<Draft, ParseError> {
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
    /// Titles, summaries and contents.
    fn read_text(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let is_plain = is_plain(element);
        match (element.ns, element.name.as_str()) {
            (Ns::Rss | Ns::Atom, "title") => {
                let text = document.text()?.text;
                self.title.offer(TitleRank::Title, || line_of(&text, is_plain));
            }
            (Ns::Media | Ns::Itunes | Ns::DublinCore, "title") => {
                let text = document.text()?.text;
                self.title.offer(TitleRank::Other, || line(&text));
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
                    self.add_claimed(Place::Enclosure, url, claim(element));
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

    /// A text that replaces a missing title, with its first picture.
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
        self.title.offer(rank, || line_of(&text, is_plain));
        Ok(())
    }

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
                let is_link = element.attribute("ispermalink");
                let is_link = is_link.is_none_or(|value| !value.eq_ignore_ascii_case("false"));
                let text = document.text()?.text;
                if is_link {
                    self.add_id(document.base(), &text);
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The attributes of a link: RSS has none, and some feeds of it still do.
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
                self.add_claimed(Place::Enclosure, url, claim(element));
            }
            "thumbnail" | "preview" | "image_src" => self.pictures.add(Place::Image, url),
            _ => {}
        }
    }

    /// An id, which is an address if it looks like one.
    pub(super) fn add_id(&mut self, base: &Url, id: &str) {
        // Relative ids would all be links to the feed's own host.
        if is_absolute(id) {
            self.url.offer(UrlRank::Id, || web_url(base, id));
        }
    }

    fn read_time(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let rank = match (element.ns, element.name.as_str()) {
            // `issued` is of Atom 0.3.
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

    /// Elements that name a picture. What stands within `media:group` and `media:content` is read
    /// where it comes.
    fn read_picture(
        &mut self,
        document: &mut Document<'_>,
        element: &Element,
    ) -> Result<bool, ParseError> {
        let url = ["url", "href", "src", "rdf:resource"];
        let url = url.into_iter().find_map(|name| element.attribute(name));
        let url = url.and_then(|url| web_url(document.base(), url));
        let place = match (element.ns, element.name.as_str()) {
            (Ns::Media, "group") => return Ok(true),
            (Ns::Media, "content") => {
                if let Some(url) = url {
                    self.pictures.add_content(url, claim(element), element.attribute("width"));
                }
                return Ok(true);
            }
            (Ns::Rss | Ns::Atom, "enclosure") => {
                if let Some(url) = url {
                    self.url.offer(UrlRank::Enclosure, || Some(url.clone()));
                    self.add_claimed(Place::Enclosure, url, claim(element));
                }
                document.skip()?;
                return Ok(true);
            }
            (Ns::Media, "thumbnail") => Place::Thumbnail,
            (Ns::Itunes, "image") | (Ns::Rss, "image" | "thumbnail" | "thumb") => Place::Image,
            _ => return Ok(false),
        };
        let text = document.text()?.text;
        // Some write the address as text, and `image` as RSS has it for channels holds it in `url`.
        let url = url.or_else(|| {
            let mut words = text.split_whitespace().filter(|word| is_absolute(word));
            words.next().and_then(|word| web_url(document.base(), word))
        });
        if let Some(url) = url {
            self.pictures.add_sized(place, url, element);
        }
        Ok(true)
    }

    /// Notes an address that is a picture as far as its element says.
    fn add_claimed(&mut self, place: Place, url: String, claim: Claim<'_>) {
        if claim.likeness(&url) == Likeness::Picture {
            self.pictures.add(place, url);
        }
    }
}

fn claim(element: &Element) -> Claim<'_> {
    let lasts = ["duration", "bitrate", "framerate", "samplingrate"];
    Claim {
        kind: element.attribute("type"),
        medium: element.attribute("medium"),
        is_timed: lasts.iter().any(|name| element.attribute(name).is_some()),
    }
}

/// Whether a text is plain, so that it may hold what only looks like markup: Atom's is, without a type.
fn is_plain(element: &Element) -> bool {
    match element.attribute("type") {
        Some(kind) => {
            !kind.to_ascii_lowercase().contains("html") || kind.eq_ignore_ascii_case("xhtml")
        }
        None => element.ns == Ns::Atom,
    }
}

fn line_of(text: &str, is_plain: bool) -> Option<String> {
    if is_plain { line(&escaped(text)) } else { line(text) }
}

fn is_absolute(text: &str) -> bool {
    let text = text.trim_start();
    ["http://", "https://"].iter().any(|scheme| {
        text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
    })
}
