//! The first picture of a text in HTML or XHTML, as articles carry it.

use std::borrow::Cow;

use url::Url;

use super::picture::{SIDE_MIN, is_decoration};
use super::text::{decoded, tags, web_url};

/// Most images of a text that are looked at for a picture.
const IMAGES_MAX: usize = 32;
/// Most attributes of a tag that are read.
const TAG_ATTRIBUTES_MAX: usize = 64;
/// Most addresses of one `srcset` that are looked at.
const CANDIDATES_MAX: usize = 32;
/// Widest candidate of a `srcset` that is taken while a narrower one is there, in pixels.
const CANDIDATE_WIDTH_MAX: f64 = 1_200.0;

/// Where scripts that load images late keep the address; `src` holds a placeholder then.
const LAZY_SOURCES: [&str; 9] = [
    "data-src",
    "data-lazy-src",
    "data-original",
    "data-original-src",
    "data-actualsrc",
    "data-full-src",
    "data-hi-res-src",
    "data-echo",
    "data-image",
];
const LAZY_SETS: [&str; 2] = ["data-srcset", "data-lazy-srcset"];
/// Classes of images that are part of the text or of the page rather than pictures.
const DECORATION_CLASSES: [&str; 6] =
    ["wp-smiley", "emoji", "smiley", "avatar", "gravatar", "feedflare"];

/// Whether an attribute is read to find a picture.
pub(super) fn is_picture_attribute(name: &str) -> bool {
    matches!(name, "src" | "srcset" | "width" | "height" | "style" | "class" | "poster")
        || name.starts_with("data-") && (LAZY_SOURCES.contains(&name) || LAZY_SETS.contains(&name))
}

/// The first picture of a piece of HTML.
pub(super) fn first_picture(html: &str, base: &Url) -> Option<String> {
    let mut search = PictureSearch::default();
    for tag in tags(html) {
        let Some(name) = image_name(tag) else { continue };
        let attributes = attributes(&tag[1 + name.len()..]);
        let attribute = |wanted: &str| {
            let found = attributes.iter().find(|(known, _)| known.eq_ignore_ascii_case(wanted));
            found.map(|(_, value)| value.trim())
        };
        search.look_at(&name.to_ascii_lowercase(), attribute, base);
        if search.is_over() {
            break;
        }
    }
    search.first()
}

/// Elements that are looked at one after the other for the first picture.
#[derive(Debug, Default)]
pub(super) struct PictureSearch {
    image: Option<String>,
    /// The still of a video or the source of a `picture`: counts while there is no image.
    still: Option<String>,
    seen: usize,
}

impl PictureSearch {
    /// Looks at an element, by its name in lower case.
    pub(super) fn look_at<'v>(
        &mut self,
        name: &str,
        attribute: impl Fn(&str) -> Option<&'v str>,
        base: &Url,
    ) {
        if !matches!(name, "img" | "amp-img" | "source" | "video") || self.is_over() {
            return;
        }
        self.seen += 1;
        match name {
            "img" | "amp-img" => self.image = image(attribute, base),
            "source" if self.still.is_none() => {
                self.still = attribute("srcset").and_then(|set| best_of_set(set, base));
            }
            "video" if self.still.is_none() => {
                self.still = attribute("poster").and_then(|url| usable(url, base));
            }
            _ => {}
        }
    }

    /// Whether further elements change nothing.
    fn is_over(&self) -> bool {
        self.image.is_some() || self.seen == IMAGES_MAX
    }

    /// The picture.
    pub(super) fn first(self) -> Option<String> {
        self.image.or(self.still)
    }
}

/// The address of an image, unless it is a pixel that counts readers, a button or a face.
fn image<'v>(attribute: impl Fn(&str) -> Option<&'v str>, base: &Url) -> Option<String> {
    let is_small = |name| attribute(name).and_then(pixels).is_some_and(|side| side < SIDE_MIN);
    if is_small("width") || is_small("height") || attribute("style").is_some_and(is_hidden_by) {
        return None;
    }
    let mut classes = attribute("class").unwrap_or_default().split_ascii_whitespace();
    if classes.any(|class| DECORATION_CLASSES.contains(&class)) {
        return None;
    }
    let lazy = LAZY_SOURCES.into_iter().filter_map(&attribute).find_map(|url| {
        // Some keep `true` or a number there.
        url.contains(['/', '.']).then(|| usable(url, base)).flatten()
    });
    let of_sets = |names: &[&str]| {
        names.iter().filter_map(|name| attribute(name)).find_map(|set| best_of_set(set, base))
    };
    lazy.or_else(|| of_sets(&LAZY_SETS))
        .or_else(|| attribute("src").and_then(|url| usable(url, base)))
        .or_else(|| of_sets(&["srcset"]))
}

fn usable(url: &str, base: &Url) -> Option<String> {
    web_url(base, url).filter(|url| !is_decoration(url))
}

/// The widest address of a `srcset` up to the limit, or the narrowest of those beyond it. Addresses
/// may hold commas, so that a space ends them.
fn best_of_set(set: &str, base: &Url) -> Option<String> {
    let is_gap = |one: char| one.is_ascii_whitespace() || one == ',';
    let (mut best, mut rest) = (None::<(f64, &str)>, set);
    for _ in 0..CANDIDATES_MAX {
        rest = rest.trim_start_matches(is_gap);
        if rest.is_empty() {
            break;
        }
        let end = rest.find(|one: char| one.is_ascii_whitespace()).unwrap_or(rest.len());
        let (mut url, after) = rest.split_at(end);
        let mut descriptor = "";
        if url.ends_with(',') {
            url = url.trim_end_matches(',');
            rest = after;
        } else {
            (descriptor, rest) = after.split_once(',').unwrap_or((after, ""));
        }
        let width = width_of(descriptor);
        let is_better = best.is_none_or(|(known, _)| match known <= CANDIDATE_WIDTH_MAX {
            true => width > known && width <= CANDIDATE_WIDTH_MAX,
            false => width < known,
        });
        if is_better && !url.starts_with("data:") {
            best = Some((width, url));
        }
    }
    best.and_then(|(_, url)| usable(url, base))
}

/// The width that a candidate's descriptor names; a density counts as one beside others.
fn width_of(descriptor: &str) -> f64 {
    let number = descriptor.trim().trim_end_matches(['w', 'x']);
    number.parse().ok().filter(|width: &f64| width.is_finite()).unwrap_or(1.0)
}

/// A side in pixels; a share of the page is none.
fn pixels(side: &str) -> Option<u32> {
    let side = side.trim();
    let digits = side.find(|one: char| !one.is_ascii_digit()).unwrap_or(side.len());
    let unit = side[digits..].trim_start_matches(|one: char| one == '.' || one.is_ascii_digit());
    matches!(unit.trim(), "" | "px").then(|| side[..digits].parse().ok())?
}

/// Whether a style hides an image, or makes it a dot.
fn is_hidden_by(style: &str) -> bool {
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(property, value)| {
        let value = value.trim();
        match property.trim() {
            "display" => value.starts_with("none"),
            "width" | "height" => pixels(value).is_some_and(|side| side < SIDE_MIN),
            _ => false,
        }
    })
}

/// The name of a tag that may hold a picture, as it is written.
fn image_name(tag: &str) -> Option<&str> {
    let name = tag[1..].split(|one: char| !one.is_ascii_alphanumeric() && one != '-').next()?;
    let wanted = ["img", "amp-img", "source", "video"];
    wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)).then_some(name)
}

/// The attributes of a tag that are read, from behind its name, with their entities decoded.
fn attributes(tag: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut attributes = Vec::new();
    let mut rest = tag.strip_suffix('>').unwrap_or(tag);
    for _ in 0..TAG_ATTRIBUTES_MAX {
        rest = rest.trim_start_matches(|one: char| one.is_ascii_whitespace() || one == '/');
        let Some(end) = rest.find(|one: char| one.is_ascii_whitespace() || one == '=') else {
            break;
        };
        let (name, after) = rest.split_at(end);
        let Some(value) = after.trim_start().strip_prefix('=') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => value[1..].split_once(quote).unwrap_or((&value[1..], "")),
            None => value
                .split_at(value.find(|one: char| one.is_ascii_whitespace()).unwrap_or(value.len())),
        };
        if is_picture_attribute(&name.to_ascii_lowercase()) {
            attributes.push((name, decoded(value)));
        }
        rest = after;
    }
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_picture_is_no_pixel_no_button_and_no_placeholder() {
        let cases = [
            ("<img src='/a.jpg'>", Some("/a.jpg")),
            ("<p>x<IMG ALT=a SRC=/a.jpg></p>", Some("/a.jpg")),
            ("<img src='/t.gif' width=1 height='1'/><img src='/a.jpg'>", Some("/a.jpg")),
            ("<img src='/t.gif' height=\"1px\"><img src='/a.jpg' width='100%'>", Some("/a.jpg")),
            ("<img src='/t.gif' style='display: none'><img src='/a.jpg'>", Some("/a.jpg")),
            ("<img style='max-width:100%;width:1px' src='/t.gif'>", None),
            ("<img src='/a.jpg' style='width:640px;max-height:1px'>", Some("/a.jpg")),
            ("<img class='a wp-smiley' src='/smile.png'><img src='/a.jpg'>", Some("/a.jpg")),
            (
                "<img src='https://feeds.feedburner.com/~ff/x?d=y'><img src='/a.jpg'>",
                Some("/a.jpg"),
            ),
            ("<img src='data:image/gif;base64,R0' data-src='/a.jpg'>", Some("/a.jpg")),
            ("<img src='/lazy/blank.gif' data-lazy-src='/a.jpg'>", Some("/a.jpg")),
            ("<img data-src=true src='/a.jpg'>", Some("/a.jpg")),
            ("<img src='/img/spacer.gif'>", None),
            ("<img srcset='/s.jpg 300w, /m.jpg 1200w, /l.jpg 2000w'>", Some("/m.jpg")),
            ("<img srcset='/l.jpg 2000w, /xl.jpg 4000w'>", Some("/l.jpg")),
            ("<img srcset='/l,w_2.jpg 2x,/a,b.jpg'>", Some("/l,w_2.jpg")),
            ("<img src='/a.jpg' srcset='/m.jpg 1200w'>", Some("/a.jpg")),
            ("<picture><source srcset='/a.webp'><img src='/a.jpg'></picture>", Some("/a.jpg")),
            ("<video poster='/still.jpg'><source src='/v.mp4'></video>", Some("/still.jpg")),
            ("<!-- <img src='/no.jpg'> --><img src='/a.jpg'>", Some("/a.jpg")),
            ("<script>'<img src=/no.jpg>'</script><img src='/a.jpg'>", Some("/a.jpg")),
            ("<img src='/a.jpg?b=1&amp;c=2'>", Some("/a.jpg?b=1&c=2")),
            ("<imgx src='/a.jpg'><image src='/b.jpg'>", None),
            ("<img src='/a.jpg", Some("/a.jpg")),
            ("<img src=''><img>", None),
        ];
        let base = Url::parse("https://news.example").unwrap();
        for (html, expected) in cases {
            let expected = expected.map(|path| format!("https://news.example{path}"));
            assert_eq!(first_picture(html, &base), expected, "{html}");
        }
    }
}
