//! Whether an address is that of a picture, and of one worth showing.

use crate::enrichment::feeds::item::Ranked;
use crate::enrichment::feeds::xml::Element;

/// Shortest side of a picture in pixels, where a feed gives one: below it are the pixels that count
/// readers, smileys and buttons.
pub(super) const SIDE_MIN: u32 = 40;

/// Hosts, with the start of a path, whose images count readers, are buttons or show faces.
const DECORATIONS: [&str; 43] = [
    "addthis.com/",
    "addtoany.com/",
    "amazon-adsystem.com/",
    "api.tweetmeme.com/",
    "assets.feedblitz.com/",
    "assoc-amazon.com/e/",
    "awin1.com/",
    "badge.fury.io/",
    "blogger.com/img/",
    "blogger.googleusercontent.com/tracker/",
    "creativecommons.org/l/",
    "doubleclick.net/",
    "facebook.com/tr",
    "feedads.g.doubleclick.net/",
    "feedburner.com/fb/",
    "feedburner.com/~",
    "feedproxy.google.com/~",
    "feedsportal.com/",
    "feeds.wordpress.com/1.0/",
    "google-analytics.com/",
    "googleadservices.com/",
    "googlesyndication.com/",
    "gravatar.com/avatar",
    "img.shields.io/",
    "ioam.de/",
    "licensebuttons.net/",
    "linksynergy.com/",
    "list-manage.com/track",
    "medium.com/_/stat",
    "paypalobjects.com/",
    "pheedo.com/",
    "pixel.quantserve.com/",
    "pixel.wp.com/",
    "s.w.org/images/core/emoji/",
    "scorecardresearch.com/",
    "sharethis.com/",
    "sitemeter.com/",
    "statcounter.com/",
    "stats.wordpress.com/",
    "stats.wp.com/",
    "stumbleupon.com/",
    "tradedoubler.com/",
    "vgwort.de/",
];

/// Names of files, without their extension, of decorations.
const DECORATION_FILES: [&str; 15] = [
    "1px",
    "1x1",
    "beacon",
    "blank",
    "clear",
    "empty",
    "loader",
    "loading",
    "matomo",
    "pixel",
    "piwik",
    "placeholder",
    "spacer",
    "tracking",
    "transparent",
];

/// What is behind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Picture,
    /// Unknown.
    Unclear,
    Other,
}

/// The type that an element declares for its address.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim<'a> {
    /// The media type.
    pub(super) kind: Option<&'a str>,
    /// Media RSS's kind of object.
    pub(super) medium: Option<&'a str>,
    /// Whether it lasts: it has a duration, a bit rate or the like.
    pub(super) is_timed: bool,
}

impl Claim<'_> {
    /// What is behind an address. One that is typed is what the type says; of the others the
    /// extension decides.
    pub(super) fn likeness(self, url: &str) -> Likeness {
        let medium = self.medium.map(of_medium).unwrap_or(Likeness::Unclear);
        let kind = self.kind.map(of_type).unwrap_or(Likeness::Unclear);
        match (medium, kind) {
            (Likeness::Picture, _) | (_, Likeness::Picture) => Likeness::Picture,
            (Likeness::Other, _) | (_, Likeness::Other) => Likeness::Other,
            (Likeness::Unclear, Likeness::Unclear) => match of_extension(url) {
                Likeness::Unclear if self.is_timed => Likeness::Other,
                likeness => likeness,
            },
        }
    }
}

fn of_medium(medium: &str) -> Likeness {
    match medium.trim().to_ascii_lowercase().as_str() {
        "image" | "photo" => Likeness::Picture,
        "" => Likeness::Unclear,
        _ => Likeness::Other,
    }
}

fn of_type(kind: &str) -> Likeness {
    let kind = kind.trim().to_ascii_lowercase();
    match kind.split(';').next().unwrap_or_default().trim() {
        "image" | "jpg" | "jpeg" | "png" | "gif" | "webp" => Likeness::Picture,
        // The type that servers send for unknown files.
        "" | "application/octet-stream" | "binary/octet-stream" | "unknown" | "*/*" => {
            Likeness::Unclear
        }
        kind if kind.starts_with("image/") => Likeness::Picture,
        _ => Likeness::Other,
    }
}

fn of_extension(url: &str) -> Likeness {
    match extension(url).as_str() {
        "jpg" | "jpeg" | "jpe" | "jfif" | "png" | "gif" | "webp" | "avif" | "bmp" | "svg"
        | "heic" | "heif" | "tif" | "tiff" => Likeness::Picture,
        "mp3" | "m4a" | "m4b" | "aac" | "ogg" | "oga" | "opus" | "wav" | "flac" | "wma" | "mp4"
        | "m4v" | "mov" | "avi" | "wmv" | "webm" | "mkv" | "ogv" | "flv" | "swf" | "mpg"
        | "mpeg" | "3gp" | "m3u" | "m3u8" | "mpd" | "pdf" | "doc" | "docx" | "epub" | "zip"
        | "torrent" | "htm" | "html" | "shtml" | "xml" | "json" | "txt" | "css" | "js" => {
            Likeness::Other
        }
        _ => Likeness::Unclear,
    }
}

/// The extension of the last part of a path; what some hosts put behind it, as in `a.jpg:large`,
/// does not belong to it.
fn extension(url: &str) -> String {
    let Some((_, extension)) = file(url).rsplit_once('.') else { return String::new() };
    let end = extension.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(extension.len());
    extension[..end].to_ascii_lowercase()
}

/// The last part of the path of an absolute address.
fn file(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default()
}

/// Whether an image is a pixel that counts readers, a button or a face rather than a picture.
pub(super) fn is_decoration(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_known = DECORATIONS.iter().any(|decoration| {
        let (of_host, of_path) = decoration.split_once('/').unwrap_or((decoration, ""));
        let outer = host.strip_suffix(of_host);
        outer.is_some_and(|outer| outer.is_empty() || outer.ends_with('.'))
            && path.starts_with(of_path)
    });
    let name = file(url).split('.').next().unwrap_or_default();
    is_known || DECORATION_FILES.iter().any(|file| name.eq_ignore_ascii_case(file))
}

// Which picture of an item is its thumbnail: every place where feeds put one, in order.

/// Widest picture that is taken while a narrower one is there, in pixels.
const WIDTH_MAX: u32 = 1_200;

/// Sources of a picture, the best first.
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
    /// Offers a picture, which is computed only if it would be better.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_is_recognized_by_type_medium_or_extension() {
        use Likeness::{Other, Picture, Unclear};
        let cases = [
            (None, None, "https://i.example/a.jpg", Picture),
            (None, None, "https://i.example/a.JPG?width=140&quality=85", Picture),
            (None, None, "https://i.example/a.jpg:large", Picture),
            (None, None, "https://i.example/resize?u=a.jpg", Unclear),
            (None, None, "https://i.example", Unclear),
            (None, None, "https://i.example/a.mp4", Other),
            (Some("image/webp"), None, "https://i.example/1", Picture),
            (Some("jpg"), None, "https://i.example/1", Picture),
            (Some("video/mp4"), None, "https://i.example/a.jpg", Other),
            (Some(""), None, "https://i.example/a.jpg", Picture),
            (Some("application/octet-stream"), None, "https://i.example/a.png", Picture),
            (Some("application/octet-stream"), None, "https://i.example/a.zip", Other),
            (None, Some("image"), "https://i.example/1", Picture),
            (None, Some("video"), "https://i.example/a.jpg", Other),
            (Some("image/jpeg"), Some("document"), "https://i.example/1", Picture),
        ];
        for (kind, medium, url, expected) in cases {
            let claim = Claim { kind, medium, is_timed: false };
            assert_eq!(claim.likeness(url), expected, "{claim:?} {url}");
        }
        let timed = Claim { is_timed: true, ..Claim::default() };
        assert_eq!(timed.likeness("https://i.example/watch"), Other);
    }

    #[test]
    fn decoration_is_recognized_by_host_or_name() {
        let cases = [
            ("https://feeds.feedburner.com/~r/news/~4/x", true),
            ("http://vg01.met.vgwort.de/na/0123", true),
            ("https://secure.gravatar.com/avatar/0?s=96", true),
            ("https://cdn.example/img/pixel.gif", true),
            ("https://cdn.example/img/pixel-art.png", false),
            ("https://notvgwort.de/a.jpg", false),
            ("https://medium.com/images/a.jpg", false),
        ];
        for (url, expected) in cases {
            assert_eq!(is_decoration(url), expected, "{url}");
        }
    }
}
