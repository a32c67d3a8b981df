//! Converts texts of feeds to plain text for people: removes markup and decodes entities. Titles
//! are often HTML inside XML, so entities are decoded once more after the XML parser decoded them.

use std::borrow::Cow;

use notify_core::beginning;
use quick_xml::escape::resolve_html5_entity;
use url::Url;

use crate::enrichment::feeds::picture::{SIDE_MIN, is_decoration};

/// Longest title, in characters.
pub(super) const TITLE_CHARS_MAX: usize = 300;
/// Longest url, in bytes. Browsers have similar limits.
pub(super) const URL_BYTES_MAX: usize = 2_048;
/// Length of the longest entity, `&CounterClockwiseContourIntegral;`, in bytes.
const ENTITY_BYTES_MAX: usize = 33;

/// Inline elements of HTML, which do not separate words.
pub(super) const INLINE: [&str; 13] =
    ["a", "span", "b", "i", "em", "strong", "u", "s", "small", "sub", "sup", "code", "wbr"];
/// The names of elements of HTML, obsolete ones included, and of the SVG and `MathML` inside it, sorted. What has
/// another name is text, as in `Option<T>`.
const ELEMENTS: [&str; 145] = [
    "a",
    "abbr",
    "acronym",
    "address",
    "applet",
    "area",
    "article",
    "aside",
    "audio",
    "b",
    "base",
    "basefont",
    "bdi",
    "bdo",
    "bgsound",
    "big",
    "blink",
    "blockquote",
    "body",
    "br",
    "button",
    "canvas",
    "caption",
    "center",
    "cite",
    "code",
    "col",
    "colgroup",
    "data",
    "datalist",
    "dd",
    "del",
    "details",
    "dfn",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "em",
    "embed",
    "fieldset",
    "figcaption",
    "figure",
    "font",
    "footer",
    "form",
    "frame",
    "frameset",
    "g",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hgroup",
    "hr",
    "html",
    "i",
    "iframe",
    "image",
    "img",
    "input",
    "ins",
    "isindex",
    "kbd",
    "keygen",
    "label",
    "legend",
    "li",
    "link",
    "listing",
    "main",
    "map",
    "mark",
    "marquee",
    "math",
    "menu",
    "menuitem",
    "meta",
    "meter",
    "nav",
    "nobr",
    "noembed",
    "noframes",
    "noscript",
    "object",
    "ol",
    "optgroup",
    "option",
    "output",
    "p",
    "param",
    "path",
    "picture",
    "plaintext",
    "portal",
    "pre",
    "progress",
    "q",
    "rb",
    "rp",
    "rt",
    "rtc",
    "ruby",
    "s",
    "samp",
    "script",
    "search",
    "section",
    "select",
    "slot",
    "small",
    "source",
    "spacer",
    "span",
    "strike",
    "strong",
    "style",
    "sub",
    "summary",
    "sup",
    "svg",
    "table",
    "tbody",
    "td",
    "template",
    "textarea",
    "tfoot",
    "th",
    "thead",
    "time",
    "title",
    "tr",
    "track",
    "tt",
    "u",
    "ul",
    "var",
    "video",
    "wbr",
    "xmp",
];
const CDATA_START: &str = "<![CDATA[";
const CDATA_END: &str = "]]>";

/// Escapes each `<` that does not start markup, as in `1 < 2`. Feeds that are written by hand
/// contain such brackets.
pub(super) fn escape_stray_brackets(xml: &str) -> Cow<'_, str> {
    let (mut escaped, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(distance) = xml[at..].find('<') {
        at += distance;
        let rest = &xml[at..];
        let end = [("<!--", "-->"), (CDATA_START, CDATA_END)]
            .iter()
            .find(|(start, _)| rest.starts_with(start))
            .map(|(_, end)| rest.find(end).map_or(rest.len(), |end| end + 1));
        let next = rest[1..].chars().next();
        let is_markup = next.is_some_and(|next| {
            next.is_alphabetic() || matches!(next, '/' | '!' | '?' | '_' | ':')
        });
        // A `<` at the very end is not escaped: a tag may have been cut off there.
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

/// Converts plain text to HTML, in which text that looks like markup is literal.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

/// Converts HTML to one line of plain text: without tags, with entities decoded, and with each run
/// of white space replaced by one space. A text longer than [`TITLE_CHARS_MAX`] is cut between two grapheme
/// clusters and ends with `…`.
/// `None` when no text is left.
pub(super) fn line(html: &str) -> Option<String> {
    // Some feeds escape the markers of a CDATA section together with its text.
    let html = if html.contains(CDATA_START) {
        Cow::Owned(html.replace(CDATA_START, "").replace(CDATA_END, ""))
    } else {
        Cow::Borrowed(html)
    };
    let encoded_text = without_tags(&html);
    let decoded_text = decoded(&encoded_text);
    let mut line = String::new();
    let words = decoded_text.split(|c: char| c.is_whitespace() || c.is_control());
    for word in words.filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(TITLE_CHARS_MAX + 1));
        if line.chars().nth(TITLE_CHARS_MAX).is_some() {
            line.truncate(beginning(&line, TITLE_CHARS_MAX - 1).len());
            line.push('…');
            break;
        }
    }
    (!line.is_empty()).then_some(line)
}

/// The title that a text contains, as [`line()`] converts it. A title that is nothing but a tag without attributes
/// is about this tag, and stays as it is.
pub(super) fn title(html: &str) -> Option<String> {
    let is_literal = || !html.contains('=') && !html.contains("</") && !html.contains("<!");
    line(html).or_else(|| line(&escaped(html)).filter(|_| is_literal()))
}

/// The tags of HTML, in order. Comments and the contents of scripts and styles are skipped.
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
            let hidden = ["script", "style"].into_iter().find(|name| is_opening_tag(tag, name));
            rest = hidden.map_or(after, |name| &after[closing_tag_position(after, name)..]);
            if !tag.starts_with("<!--") {
                return Some(tag);
            }
        }
    })
}

/// Removes tags, comments, and the contents of scripts and styles. A `<` that starts no tag stays, and so does
/// one whose tag is not closed or has no name of HTML.
fn without_tags(html: &str) -> Cow<'_, str> {
    if !html.contains('<') {
        return Cow::Borrowed(html);
    }
    let mut text = String::with_capacity(html.len());
    let mut rest = html;
    let mut ends = Ends::default();
    while let Some(open) = rest.find('<') {
        text.push_str(&rest[..open]);
        rest = &rest[open..];
        let Some(length) = ends.markup_length(rest) else {
            text.push('<');
            rest = &rest[1..];
            continue;
        };
        // Paragraphs and other block elements separate words.
        if !INLINE.into_iter().any(|name| is_opening_or_closing_tag(rest, name)) {
            text.push(' ');
        }
        let hidden = ["script", "style"].into_iter().find(|name| is_opening_tag(rest, name));
        rest = &rest[length..];
        if let Some(name) = hidden {
            rest = &rest[closing_tag_position(rest, name)..];
        }
    }
    text.push_str(rest);
    Cow::Owned(text)
}

/// What the rest of a text does not have any more. Without this, the rest would be scanned again for every `<` in
/// it, which takes quadratic time.
#[derive(Default)]
struct Ends {
    no_comment_ends: bool,
    no_tag_ends: bool,
    /// A tag ended only if its quotes were ignored. They are ignored from then on.
    ignores_quotes: bool,
}

impl Ends {
    /// Length of the tag of HTML, the comment or the declaration at the start of a text, in bytes; `None` if there
    /// is none, or it is not closed.
    fn markup_length(&mut self, text: &str) -> Option<usize> {
        if text.starts_with("<!--") {
            let end = if self.no_comment_ends { None } else { text.find("-->") };
            self.no_comment_ends = end.is_none();
            return end.map(|at| at + 3);
        }
        let is_declaration = text[1..].starts_with(['!', '?'])
            && text[2..].starts_with(|next: char| next.is_ascii_alphabetic());
        if self.no_tag_ends || !(is_declaration || has_name_of_html(text)) {
            return None;
        }
        if !self.ignores_quotes
            && let Some(length) = closed_tag_length(text)
        {
            return Some(length);
        }
        self.ignores_quotes = true;
        let end = text.find('>');
        self.no_tag_ends = end.is_none();
        end.map(|at| at + 1)
    }
}

/// Whether a text begins with an opening or closing tag of an element of HTML.
fn has_name_of_html(text: &str) -> bool {
    let name = text[1..].strip_prefix('/').unwrap_or(&text[1..]);
    let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(name.len());
    let (name, after) = name.split_at(end);
    let name = name.to_ascii_lowercase();
    after.starts_with(|c: char| c.is_ascii_whitespace() || matches!(c, '/' | '>'))
        && (ELEMENTS.binary_search(&name.as_str()).is_ok() || name.starts_with("amp-"))
}

/// Length of the tag or comment at the start of a text, in bytes; `None` if there is none. A tag or
/// comment that is not closed extends to the end.
fn tag_length(text: &str) -> Option<usize> {
    if text.starts_with("<!--") {
        return Some(text.find("-->").map_or(text.len(), |at| at + 3));
    }
    let next = text[1..].chars().next()?;
    if !(next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?')) {
        return None;
    }
    // An unclosed tag extends to the end. Otherwise the rest would be scanned again for every `<`
    // in it, which takes quadratic time.
    Some(closed_tag_length(text).unwrap_or(text.len()))
}

/// Length of a tag, whose beginning was checked, in bytes; `None` if it is not closed.
fn closed_tag_length(text: &str) -> Option<usize> {
    // A quote starts a quoted value only directly after `=`. Otherwise an apostrophe in a tag would
    // hide the rest of the text.
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
    None
}

/// Whether a text begins with an opening or closing tag of this name.
fn is_opening_or_closing_tag(text: &str, name: &str) -> bool {
    let is_closing_tag = text.strip_prefix("</").is_some_and(|_| is_opening_tag(&text[1..], name));
    is_closing_tag || is_opening_tag(text, name)
}

/// Whether a text begins with an opening tag of this name.
fn is_opening_tag(text: &str, name: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() > name.len()
        && bytes[1..=name.len()].eq_ignore_ascii_case(name.as_bytes())
        && bytes.get(name.len() + 1).is_none_or(|next| !next.is_ascii_alphanumeric())
}

/// The position of the closing tag of this name, or the end of the text.
fn closing_tag_position(text: &str, name: &str) -> usize {
    let closing = |at: &usize| {
        let rest = &text.as_bytes()[at + 2..];
        rest.len() >= name.len() && rest[..name.len()].eq_ignore_ascii_case(name.as_bytes())
    };
    text.match_indices("</").map(|(at, _)| at).find(closing).unwrap_or(text.len())
}

/// Decodes the entities of a text once. Unknown entities stay unchanged.
pub(super) fn decoded(text: &str) -> Cow<'_, str> {
    let Some(first) = text.find('&') else { return Cow::Borrowed(text) };
    let mut decoded = String::with_capacity(text.len());
    decoded.push_str(&text[..first]);
    let mut rest = &text[first..];
    while let Some(at) = rest.find('&') {
        decoded.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(ENTITY_BYTES_MAX + 1).position(|byte| byte == b';');
        match end {
            Some(end) if push_entity(&rest[1..end], &mut decoded) => rest = &rest[end + 1..],
            _ => {
                decoded.push('&');
                rest = &rest[1..];
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// Appends the character of an entity to a text. Returns false if the entity is unknown.
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
    let characters = resolve_html5_entity(name);
    text.push_str(characters.unwrap_or_default());
    characters.is_some()
}

/// The absolute url of a web page or picture; `None` for other schemes and urls that are too long.
/// A text that begins with `www.` is a host without its scheme.
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

// The search for the first picture in HTML or XHTML.

/// Most images of a text that are searched for a picture.
const IMAGES_MAX: usize = 32;
/// Most attributes of a tag that are read.
const TAG_ATTRIBUTES_MAX: usize = 64;
/// Most urls of one `srcset` that are compared.
const CANDIDATES_MAX: usize = 32;
/// Widest candidate of a `srcset` that is preferred, in pixels. A wider one is used only if there
/// is no other.
const CANDIDATE_WIDTH_MAX: f64 = 1_200.0;

/// Attributes with the url of an image that the page loads lazily. `src` is only a placeholder
/// then.
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
/// Classes of images that belong to the text or the page and are not pictures, such as smileys.
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
            let attribute = attributes.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            attribute.map(|(_, value)| value.trim())
        };
        search.look_at(&name.to_ascii_lowercase(), attribute, base);
        if search.is_complete() {
            break;
        }
    }
    search.first()
}

/// A search for the first picture among elements that are offered in the order of the document.
#[derive(Debug, Default)]
pub(super) struct PictureSearch {
    image: Option<String>,
    /// The poster of a video, or a source of a `picture`. Used if there is no image.
    still: Option<String>,
    seen: usize,
}

impl PictureSearch {
    /// Offers an element to the search. `name` is in lower case.
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
                self.still = attribute("srcset").and_then(|set| best_of_srcset(set, base));
            }
            "video" if self.still.is_none() => {
                self.still = attribute("poster").and_then(|url| picture_url(url, base));
            }
            _ => {}
        }
    }

    /// Whether further elements cannot change the result.
    fn is_complete(&self) -> bool {
        self.image.is_some() || self.seen == IMAGES_MAX
    }

    /// The result of the search.
    pub(super) fn first(self) -> Option<String> {
        self.image.or(self.still)
    }
}

/// The url of an image; `None` if the image is a tracking pixel, a button or an avatar.
fn image<'v>(attribute: impl Fn(&str) -> Option<&'v str>, base: &Url) -> Option<String> {
    let is_small = |name| attribute(name).and_then(pixels).is_some_and(|side| side < SIDE_MIN);
    if is_small("width") || is_small("height") || attribute("style").is_some_and(hides_image) {
        return None;
    }
    let mut classes = attribute("class").unwrap_or_default().split_ascii_whitespace();
    if classes.any(|class| DECORATION_CLASSES.contains(&class)) {
        return None;
    }
    // Some pages write `true` or a number into these attributes.
    let looks_like_url = |value: &&str| value.contains(['/', '.']);
    let mut lazy_urls = LAZY_SOURCES.into_iter().filter_map(&attribute).filter(looks_like_url);
    if let Some(url) = lazy_urls.find_map(|url| picture_url(url, base)) {
        return Some(url);
    }
    let mut lazy_sets = LAZY_SETS.into_iter().filter_map(&attribute);
    if let Some(url) = lazy_sets.find_map(|set| best_of_srcset(set, base)) {
        return Some(url);
    }
    if let Some(url) = attribute("src").and_then(|url| picture_url(url, base)) {
        return Some(url);
    }
    attribute("srcset").and_then(|set| best_of_srcset(set, base))
}

/// The absolute url of a picture; `None` if it is not a url of the web or is a decoration.
fn picture_url(url: &str, base: &Url) -> Option<String> {
    web_url(base, url).filter(|url| !is_decoration(url))
}

/// The best url of a `srcset`: the widest up to [`CANDIDATE_WIDTH_MAX`], or else the narrowest. A
/// url may contain commas, so only white space ends it.
fn best_of_srcset(set: &str, base: &Url) -> Option<String> {
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
        let is_better = best.is_none_or(|(best_width, _)| {
            if best_width <= CANDIDATE_WIDTH_MAX {
                width > best_width && width <= CANDIDATE_WIDTH_MAX
            } else {
                width < best_width
            }
        });
        if is_better && !url.starts_with("data:") {
            best = Some((width, url));
        }
    }
    best.and_then(|(_, url)| picture_url(url, base))
}

/// The number in the descriptor of a candidate: a width (`300w`) or a density (`2x`), which is
/// compared like a width. 1 if there is none.
fn width_of(descriptor: &str) -> f64 {
    let number = descriptor.trim().trim_end_matches(['w', 'x']);
    number.parse().ok().filter(|width: &f64| width.is_finite()).unwrap_or(1.0)
}

/// The length of a side in pixels; `None` for other units, such as per cent.
fn pixels(side: &str) -> Option<u32> {
    let side = side.trim();
    let digits = side.find(|c: char| !c.is_ascii_digit()).unwrap_or(side.len());
    let unit = side[digits..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    matches!(unit.trim(), "" | "px").then(|| side[..digits].parse().ok())?
}

/// Whether a style hides an image, or makes it smaller than [`SIDE_MIN`].
fn hides_image(style: &str) -> bool {
    style.split(';').filter_map(|rule| rule.split_once(':')).any(|(property, value)| {
        let value = value.trim();
        match property.trim() {
            "display" => value.starts_with("none"),
            "width" | "height" => pixels(value).is_some_and(|side| side < SIDE_MIN),
            _ => false,
        }
    })
}

/// The name of a tag, as it is written; `None` if tags of this name cannot contain a picture.
fn image_name(tag: &str) -> Option<&str> {
    let name = tag[1..].split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next()?;
    let wanted = ["img", "amp-img", "source", "video"];
    wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)).then_some(name)
}

/// The attributes that are used to find a picture, with their entities decoded. `tag` is the text
/// of the tag after its name.
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
    fn only_closed_tags_of_html_are_removed_from_a_text() {
        assert!(ELEMENTS.is_sorted());
        let cases = [
            ("x <y and z", "x <y and z"),
            ("x &lt;y and z", "x <y and z"),
            ("Option<T> vs Result<T, E>", "Option<T> vs Result<T, E>"),
            ("<antirez> on Redis", "<antirez> on Redis"),
            ("<antirez>", "<antirez>"),
            ("std::vec<std::string>", "std::vec<std::string>"),
            ("a <b and c", "a <b and c"),
            ("a < b > c", "a < b > c"),
            ("1<2", "1<2"),
            ("<user@example.org> writes", "<user@example.org> writes"),
            ("see <https://example.org>", "see <https://example.org>"),
            ("i <3 this", "i <3 this"),
            ("<foo-bar>x</foo-bar>", "<foo-bar>x</foo-bar>"),
            ("cut <!-- off", "cut <!-- off"),
            ("cut <a href=\"/x", "cut <a href=\"/x"),
            ("<b>bold</b> and <EM class='x>y'>strong</EM>", "bold and strong"),
            ("<h1>a</h1><p>b<br/>c", "a b c"),
            ("<!DOCTYPE html><p>a<!-- b -->c", "a c"),
            ("<a title=\"unclosed>x</a> y", "x y"),
            ("<script>x</script>y", "y"),
        ];
        for (html, expected) in cases {
            assert_eq!(line(html).as_deref(), Some(expected), "{html}");
        }
        for (html, expected) in [
            ("<canvas>", Some("<canvas>")),
            ("<input> <select>", Some("<input> <select>")),
            ("<b>x</b>", Some("x")),
            ("<b></b>", None),
            ("<img src='/a.jpg'>", None),
            ("<!-- x -->", None),
            (" ", None),
        ] {
            assert_eq!(title(html).as_deref(), expected, "{html}");
        }
        let family = "👨‍👩‍👧‍👦";
        for (kept, added) in [(295, "a"), (292, family), (298, "é")] {
            let long = format!("{}{added}{family}{family}", "x".repeat(kept));
            assert_eq!(line(&long), Some(format!("{}{added}…", "x".repeat(kept))));
        }
        // Takes linear time.
        let _ = line(&"<a b=\"".repeat(200_000));
        let _ = line(&"<a b=\">\"".repeat(200_000));
        let _ = line(&"<!--<a".repeat(200_000));
    }

    #[test]
    fn tracking_pixels_buttons_and_placeholders_are_not_pictures() {
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
