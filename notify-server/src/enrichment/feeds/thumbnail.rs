//! Which picture of an item is its thumbnail: every place where feeds put one, in order.

use super::item::Ranked;
use super::picture::{Claim, Likeness, SIDE_MIN, is_decoration};
use super::xml::Element;

/// Widest picture that is taken while a narrower one is there, in pixels.
const WIDTH_MAX: u32 = 1_200;

/// Where a picture stands, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// `media:thumbnail`.
    Thumbnail,
    /// `media:content` that is an image.
    MediaContent,
    /// An enclosure that is an image.
    Enclosure,
    /// `itunes:image`, and `image` of the item.
    Image,
    /// The first picture of the full text.
    Content,
    /// The first picture of the description or summary.
    Summary,
    /// `media:content` that is an image, all too wide: better than none.
    Wide,
    /// `media:content` without anything that says what it is.
    Unclear,
    /// The face of an author or a picture of a few pixels.
    Decoration,
}

/// The pictures of an item.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    first: Ranked<Place, String>,
    content: Option<(u32, String)>,
    wide: Option<(u32, String)>,
}

impl Pictures {
    /// Offers a picture, which is only looked for if it would count.
    pub(super) fn offer(&mut self, place: Place, url: impl FnOnce() -> Option<String>) {
        self.first.offer(place, url);
    }

    /// Notes a picture.
    pub(super) fn add(&mut self, place: Place, url: String) {
        let place = if is_decoration(&url) { Place::Decoration } else { place };
        self.first.offer(place, || Some(url));
    }

    /// Notes a picture whose size its element may give.
    pub(super) fn add_sized(&mut self, place: Place, url: String, element: &Element) {
        let side = |name| element.attribute(name).and_then(|side| side.parse::<u32>().ok());
        let is_small = |name| side(name).is_some_and(|side| side < SIDE_MIN);
        let is_dot = is_small("width") || is_small("height");
        self.add(if is_dot { Place::Decoration } else { place }, url);
    }

    /// Notes a `media:content`: of several images the widest up to 1,200 pixels counts, one without
    /// a width as the narrowest.
    pub(super) fn add_content(&mut self, url: String, claim: Claim<'_>, width: Option<&str>) {
        let likeness = claim.likeness(&url);
        if likeness == Likeness::Other {
            return;
        }
        if likeness == Likeness::Unclear || is_decoration(&url) {
            return self.add(Place::Unclear, url);
        }
        let width = width.and_then(|width| width.parse().ok()).unwrap_or(0);
        if width > WIDTH_MAX {
            if self.wide.as_ref().is_none_or(|(known, _)| width < *known) {
                self.wide = Some((width, url));
            }
        } else if self.content.as_ref().is_none_or(|(known, _)| width > *known) {
            self.content = Some((width, url));
        }
    }

    /// The thumbnail.
    pub(super) fn best(mut self) -> Option<String> {
        self.first.offer(Place::MediaContent, || self.content.map(|(_, url)| url));
        self.first.offer(Place::Wide, || self.wide.map(|(_, url)| url));
        self.first.best()
    }
}
