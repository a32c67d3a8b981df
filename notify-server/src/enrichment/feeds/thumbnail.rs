//! Which picture of an item is its thumbnail: every place where feeds put one, in order.

/// Widest picture that is taken while a narrower one is there, in pixels.
const WIDTH_MAX: u32 = 1_200;

/// The pictures of an item, by where they stand.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    /// `media:thumbnail`, the first.
    pub(super) thumbnail: Option<String>,
    /// `media:content` that is an image.
    content: Option<(String, u32)>,
    /// The same, all too wide: better than none.
    wide: Option<(String, u32)>,
    /// An enclosure that is an image, the first.
    pub(super) enclosure: Option<String>,
    /// `itunes:image`.
    pub(super) itunes: Option<String>,
    /// The first image of the item's text.
    pub(super) in_text: Option<String>,
}

impl Pictures {
    /// Notes a `media:content` of an image: of several the widest up to 1,200 pixels counts, one
    /// that does not tell its width as the narrowest.
    pub(super) fn add_content(&mut self, url: Option<String>, width: Option<&str>) {
        let Some(url) = url else { return };
        let width: u32 = width.and_then(|width| width.parse().ok()).unwrap_or(0);
        if width > WIDTH_MAX {
            if self.wide.as_ref().is_none_or(|(_, known)| width < *known) {
                self.wide = Some((url, width));
            }
        } else if self.content.as_ref().is_none_or(|(_, known)| width > *known) {
            self.content = Some((url, width));
        }
    }

    /// The thumbnail.
    pub(super) fn best(self) -> Option<String> {
        self.thumbnail
            .or(self.content.map(|(url, _)| url))
            .or(self.enclosure)
            .or(self.itunes)
            .or(self.in_text)
            .or(self.wide.map(|(url, _)| url))
    }
}

/// Whether a media type is that of an image.
pub(super) fn is_image(kind: Option<&str>) -> bool {
    kind.is_some_and(|kind| {
        kind.trim().get(..6).is_some_and(|start| start.eq_ignore_ascii_case("image/"))
    })
}
