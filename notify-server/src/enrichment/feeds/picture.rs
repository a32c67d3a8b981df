//! Decides which urls of an item are pictures, and which picture becomes the item's thumbnail.

use crate::enrichment::feeds::item::Ranked;
use crate::enrichment::feeds::xml::Element;

/// Shortest side of a picture, in pixels, if the feed declares its size. Smaller images are
/// tracking pixels, smileys and buttons.
pub(super) const SIDE_MIN: u32 = 40;

/// Hosts, each with the start of a path, whose images are tracking pixels, buttons or avatars.
const DECORATION_URLS: [&str; 43] = [
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

/// File names of decorations, without extension.
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

/// The kind of file that a url is likely to lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likeness {
    Picture,
    /// Neither the element nor the extension shows the kind.
    Unclear,
    Other,
}

/// What an element declares about the file at its url.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Claim<'a> {
    /// The media type.
    pub(super) kind: Option<&'a str>,
    /// Media RSS's kind of object.
    pub(super) medium: Option<&'a str>,
    /// Whether the element has a duration, a bit rate or the like, so that the file is audio or
    /// video.
    pub(super) is_timed: bool,
}

impl Claim<'_> {
    /// The kind of file at a url. A declared medium or media type decides; without a clear
    /// declaration, the extension of the url decides.
    pub(super) fn likeness(self, url: &str) -> Likeness {
        let medium = self.medium.map(likeness_of_medium).unwrap_or(Likeness::Unclear);
        let kind = self.kind.map(likeness_of_media_type).unwrap_or(Likeness::Unclear);
        match (medium, kind) {
            (Likeness::Picture, _) | (_, Likeness::Picture) => Likeness::Picture,
            (Likeness::Other, _) | (_, Likeness::Other) => Likeness::Other,
            (Likeness::Unclear, Likeness::Unclear) => match likeness_of_extension(url) {
                Likeness::Unclear if self.is_timed => Likeness::Other,
                likeness => likeness,
            },
        }
    }
}

fn likeness_of_medium(medium: &str) -> Likeness {
    match medium.trim().to_ascii_lowercase().as_str() {
        "image" | "photo" => Likeness::Picture,
        "" => Likeness::Unclear,
        _ => Likeness::Other,
    }
}

fn likeness_of_media_type(kind: &str) -> Likeness {
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

fn likeness_of_extension(url: &str) -> Likeness {
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

/// The extension of a url's file name, in lower case. Some hosts append a size, as in
/// `a.jpg:large`, which is cut off.
fn extension(url: &str) -> String {
    let Some((_, extension)) = file_name(url).rsplit_once('.') else { return String::new() };
    let end = extension.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(extension.len());
    extension[..end].to_ascii_lowercase()
}

/// The last segment of an absolute url's path.
fn file_name(url: &str) -> &str {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    path.split_once('/').and_then(|(_, path)| path.rsplit('/').next()).unwrap_or_default()
}

/// Whether an image is a tracking pixel, a button or an avatar, judged by its url.
pub(super) fn is_decoration(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let is_decoration_url = DECORATION_URLS.iter().any(|decoration| {
        let (domain, path_start) = decoration.split_once('/').unwrap_or((decoration, ""));
        // The domain or one of its subdomains.
        let subdomains = host.strip_suffix(domain);
        let is_in_domain =
            subdomains.is_some_and(|prefix| prefix.is_empty() || prefix.ends_with('.'));
        is_in_domain && path.starts_with(path_start)
    });
    let stem = file_name(url).split('.').next().unwrap_or_default();
    is_decoration_url || DECORATION_FILES.iter().any(|file| stem.eq_ignore_ascii_case(file))
}

// The choice of the thumbnail among the pictures of an item. Feeds put pictures into many places,
// which are ranked here.

/// Widest picture that is preferred, in pixels. A wider one is used only if there is no other.
const WIDTH_MAX: u32 = 1_200;

/// The places of an item that can hold its picture, the best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// `media:thumbnail`.
    Thumbnail,
    /// A `media:content` that is an image.
    MediaContent,
    /// An enclosure that is an image.
    Enclosure,
    /// `itunes:image`, or the `image` of the item.
    Image,
    /// The first picture of the full text.
    Content,
    /// The first picture of the description or summary.
    Summary,
    /// A `media:content` that is an image wider than [`WIDTH_MAX`].
    Wide,
    /// A `media:content` whose kind is neither declared nor clear from its extension.
    Unclear,
    /// An avatar of an author, or an image of a few pixels.
    Decoration,
}

/// Collects the pictures of an item and chooses the best.
#[derive(Debug, Default)]
pub(super) struct Pictures {
    ranked: Ranked<Place, String>,
    /// The widest `media:content` up to [`WIDTH_MAX`], with its width.
    widest_content: Option<(u32, String)>,
    /// The narrowest `media:content` above [`WIDTH_MAX`], with its width.
    narrowest_wide: Option<(u32, String)>,
}

impl Pictures {
    /// Adds a picture. `url` is called only if the picture would be better than the best so far.
    pub(super) fn offer(&mut self, place: Place, url: impl FnOnce() -> Option<String>) {
        self.ranked.offer(place, url);
    }

    /// Adds a picture.
    pub(super) fn add(&mut self, place: Place, url: String) {
        let place = if is_decoration(&url) { Place::Decoration } else { place };
        self.ranked.offer(place, || Some(url));
    }

    /// Adds a picture whose element may declare its size.
    pub(super) fn add_sized(&mut self, place: Place, url: String, element: &Element) {
        let side = |name| element.attribute(name).and_then(|side| side.parse::<u32>().ok());
        let is_small = |name| side(name).is_some_and(|side| side < SIDE_MIN);
        let is_tiny = is_small("width") || is_small("height");
        self.add(if is_tiny { Place::Decoration } else { place }, url);
    }

    /// Adds a `media:content`. Of several images, the widest up to [`WIDTH_MAX`] is best. An image
    /// without a width counts as the narrowest.
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
            if self.narrowest_wide.as_ref().is_none_or(|(narrowest, _)| width < *narrowest) {
                self.narrowest_wide = Some((width, url));
            }
        } else if self.widest_content.as_ref().is_none_or(|(widest, _)| width > *widest) {
            self.widest_content = Some((width, url));
        }
    }

    /// The best picture: the thumbnail of the item.
    pub(super) fn best(mut self) -> Option<String> {
        self.ranked.offer(Place::MediaContent, || self.widest_content.map(|(_, url)| url));
        self.ranked.offer(Place::Wide, || self.narrowest_wide.map(|(_, url)| url));
        self.ranked.best()
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
