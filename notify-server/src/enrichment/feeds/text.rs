//! Texts of feeds as people are to read them: without markup, entities decoded once more than the
//! format did, so twice at most (protocols of feeds: titles are often HTML inside XML).

use std::borrow::Cow;

use quick_xml::escape::resolve_html5_entity;
use url::Url;

use crate::enrichment::feeds::picture::{SIDE_MIN, is_decoration};

/// Longest title, in characters.
pub(super) const TITLE_CHARS_MAX: usize = 300;
/// Longest url, in bytes; browsers and image stores have similar limits.
pub(super) const URL_BYTES_MAX: usize = 2_048;
/// Longest name of an entity, `&CounterClockwiseContourIntegral;`.
const ENTITY_BYTES_MAX: usize = 33;

/// Inline elements of HTML, which do not separate words.
pub(super) const INLINE: [&str; 13] =
    ["a", "span", "b", "i", "em", "strong", "u", "s", "small", "sub", "sup", "code", "wbr"];
const CDATA_START: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

/// XML in which each `<` that starts no markup is escaped, as in `1 < 2`: feeds that are put together
/// by hand have some.
pub(super) fn escape_stray_brackets(xml: &str) -> Cow<'_, str> {
    let (mut escaped, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(found) = xml[at..].find('<') {
        at += found;
        let rest = &xml[at..];
        let end = [("<!--", "-->"), (CDATA_START, CDATA_END)]
            .iter()
            .find(|(start, _)| rest.starts_with(start))
            .map(|(_, end)| rest.find(end).map_or(rest.len(), |end| end + 1));
        let next = rest[1..].chars().next();
        let is_markup = next.is_some_and(|next| {
            next.is_alphabetic() || matches!(next, '/' | '!' | '?' | '_' | ':')
        });
        // The end of the text may be where it breaks off.
        if !is_markup && next.is_some() {
            escaped.push_str(&xml[copied..at]);
            escaped.push_str("&lt;");
            copied = at + 1;
        }
        at += end.unwrap_or(1);
    }
    if copied == 0 {
        return Cow::Borrowed(xml);
    }
    escaped.push_str(&xml[copied..]);
    Cow::Owned(escaped)
}

/// Plain text as HTML, in which apparent markup is literal.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// A line of text: tags taken out, entities decoded, white space as one space, not too long. `None`
/// when nothing is left.
pub(super) fn line(html: &str) -> Option<String> {
    // Some escape the section with its text.
    let html = match html.contains(CDATA_START) {
        true => Cow::Owned(html.replace(CDATA_START, "").replace(CDATA_END, "")),
        false => Cow::Borrowed(html),
    };
    let without_tags = without_tags(&html);
    let decoded = decoded(&without_tags);
    let mut line = String::new();
    let mut chars = 0;
    for word in decoded.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        let space = usize::from(!line.is_empty());
        let left = TITLE_CHARS_MAX.saturating_sub(chars + space);
        let length = word.chars().count();
        if length > left {
            let kept = left.saturating_sub(1);
            if space == 1 && kept > 0 {
                line.push(' ');
            }
            line.extend(word.chars().take(kept));
            line.push('…');
            break;
        }
        if space == 1 {
            line.push(' ');
        }
        line.push_str(word);
        chars += space + length;
    }
    (!line.is_empty()).then_some(line)
}

/// The tags of a piece of HTML, in order, without comments and what scripts and styles hold.
pub(super) fn tags(html: &str) -> impl Iterator<Item = &str> {
    let mut rest = html;
    std::iter::from_fn(move || {
        loop {
            rest = &rest[rest.find('<')?..];
            let Some(length) = tag_length(rest) else {
                rest = &rest[1..];
                continue;
            };
            let (tag, after) = rest.split_at(length);
            let hidden = ["script", "style"].into_iter().find(|name| is_tag(tag, name));
            rest = hidden.map_or(after, |name| &after[end_of(after, name)..]);
            if !tag.starts_with("<!--") {
                return Some(tag);
            }
        }
    })
}

/// A text without what looks like a tag or a comment; a bare `<` stays. What scripts and styles
/// hold goes with them.
fn without_tags(html: &str) -> Cow<'_, str> {
    if !html.contains('<') {
        return Cow::Borrowed(html);
    }
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        rest = &rest[open..];
        let Some(length) = tag_length(rest) else {
            text.push('<');
            rest = &rest[1..];
            continue;
        };
        // Paragraphs separate words.
        if !INLINE.into_iter().any(|name| is_tag_of(rest, name)) {
            text.push(' ');
        }
        let hidden = ["script", "style"].into_iter().find(|name| is_tag(rest, name));
        rest = &rest[length..];
        if let Some(name) = hidden {
            rest = &rest[end_of(rest, name)..];
        }
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// Length of the tag or comment at the start of a text. An unclosed one extends to the end.
fn tag_length(text: &str) -> Option<usize> {
    if text.starts_with("<!--") {
        return Some(text.find("-->").map_or(text.len(), |at| at + 3));
    }
    let next = text[1..].chars().next()?;
    if !(next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')) {
        return None;
    }
    // A quote counts behind `=` alone, so that an apostrophe swallows nothing.
    let (mut quote, mut before) = (None, b' ');
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'>') => return Some(at + 1),
            (None, b'"' | b'\'') if before == b'=' => quote = Some(byte),
            (Some(open), byte) if open == byte => quote = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    // To the end, so that no text is scanned twice.
    Some(text.len())
}

/// Whether a text begins with an opening or a closing tag of that name.
fn is_tag_of(text: &str, name: &str) -> bool {
    let closing = text.strip_prefix("</").is_some_and(|_| is_tag(&text[1..], name));
    closing || is_tag(text, name)
}

fn is_tag(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > name.len()
        && bytes[1..=name.len()].eq_ignore_ascii_case(name.as_bytes())
        && bytes.get(name.len() + 1).is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// Where the closing tag of that name begins, or the end.
fn end_of(text: &str, name: &str) -> usize {
    let closing = |at: &usize| {
        let rest = &text.as_bytes()[at + 2..];
        rest.len() >= name.len() && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes())
    };
    text.match_indices("</").map(|(at, _)| at).find(closing).unwrap_or(text.len())
}

/// A text with entities decoded once; anything else stays unchanged.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('&') else { return Cow::Borrowed(text) };
    let mut decoded = String::with_capacity(text.len());
    decoded.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(ENTITY_BYTES_MAX + 1).position(|byte| byte == b';');
        let known = end.filter(|end| push_entity(&rest[1..*end], &mut decoded));
        if known.is_none() {
            decoded.push('&');
        }
        rest = &rest[known.map_or(1, |end| end + 1)..];
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// Appends the character of an entity; false if it is unknown.
pub(super) fn push_entity(name: &str, text: &mut String) -> bool {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        let character = code.ok().and_then(char::from_u32).filter(|c| *c != '\0');
        text.extend(character);
        return character.is_some();
    }
    let known = resolve_html5_entity(name);
    text.push_str(known.unwrap_or_default());
    known.is_some()
}

/// An address of the web, made absolute. One that begins with `www.` lacks its scheme.
pub(super) fn web_url(base: &Url, text: &str) -> Option<String> {
    let text = text.trim();
    if text.is_empty() || text.len() > URL_BYTES_MAX {
        return None;
    }
    let is_host = text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("www."));
    let url = if is_host { base.join(&format!("//{text}")) } else { base.join(text) }.ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    (is_web && url.as_str().len() <= URL_BYTES_MAX).then(|| url.into())
}

// The first picture of a text in HTML or XHTML, as articles carry it.

/// Most images of a text that are checked for a picture.
const IMAGES_MAX: usize = 32;
/// Most attributes of a tag that are read.
const TAG_ATTRIBUTES_MAX: usize = 64;
/// Most addresses of one `srcset` that are checked.
const CANDIDATES_MAX: usize = 32;
/// Widest candidate of a `srcset` that is taken while a narrower one is there, in pixels.
const CANDIDATE_WIDTH_MAX: f64 = 1_200.0;

/// Attributes of lazily loaded images; `src` is a placeholder then.
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
        if search.is_complete() {
            break;
        }
    }
    search.first()
}

/// Elements that are searched in order for the first picture.
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
        if !matches!(name, "img" | "amp-img" | "source" | "video") || self.is_complete() {
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
    fn is_complete(&self) -> bool {
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
    let is_gap = |c: char| c.is_ascii_whitespace() || c == ',';
    let (mut best, mut rest) = (None::<(f64, &str)>, set);
    for _ in 0..CANDIDATES_MAX {
        rest = rest.trim_start_matches(is_gap);
        if rest.is_empty() {
            break;
        }
        let end = rest.find(|c: char| c.is_ascii_whitespace()).unwrap_or(rest.len());
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

/// The width in a candidate's descriptor; a density is compared like a width.
fn width_of(descriptor: &str) -> f64 {
    let number = descriptor.trim().trim_end_matches(['w', 'x']);
    number.parse().ok().filter(|width: &f64| width.is_finite()).unwrap_or(1.0)
}

/// A side in pixels; a share of the page is none.
fn pixels(side: &str) -> Option<u32> {
    let side = side.trim();
    let digits = side.find(|c: char| !c.is_ascii_digit()).unwrap_or(side.len());
    let unit = side[digits..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
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
    let name = tag[1..].split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
    let wanted = ["img", "amp-img", "source", "video"];
    wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)).then_some(name)
}

/// The attributes of a tag that are read, from behind its name, with their entities decoded.
fn attributes(tag: &str) -> Vec<(&str, Cow<'_, str>)> {
    let mut attributes = Vec::new();
    let mut rest = tag.strip_suffix('>').unwrap_or(tag);
    for _ in 0..TAG_ATTRIBUTES_MAX {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        let Some(end) = rest.find(|c: char| c.is_ascii_whitespace() || c == '=') else {
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
            None => {
                value.split_at(value.find(|c: char| c.is_ascii_whitespace()).unwrap_or(value.len()))
            }
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
    fn tracking_pixels_buttons_and_placeholders_are_no_pictures() {
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
