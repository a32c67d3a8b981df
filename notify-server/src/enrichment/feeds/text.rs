//! Texts of feeds as people are to read them: without markup, entities decoded once more than the
//! format did, so twice at most (protocols of feeds: titles are often HTML inside XML).

use std::borrow::Cow;

use quick_xml::escape::resolve_html5_entity;
use url::Url;

/// Most characters of a title that are kept.
pub(super) const TITLE_CHARS_MAX: usize = 300;
/// Most bytes of a url that is kept; browsers and stores of images take no longer ones either.
pub(super) const URL_BYTES_MAX: usize = 2_048;
/// Longest name of an entity, `&CounterClockwiseContourIntegral;`.
const ENTITY_BYTES_MAX: usize = 33;

/// Elements of HTML that stand within a word.
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

/// Plain text as HTML: it may hold what only looks like markup.
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
    for word in decoded.split(|one: char| one.is_whitespace() || one.is_control()) {
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
        // Words of two paragraphs are not one word.
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

/// Bytes of the tag or comment that a text begins with. One that is not closed goes to the end.
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
    // To the end, so that no text is looked through twice.
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

/// A text with entities decoded once; what is none stays as it is.
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

/// Adds what an entity stands for; false when it stands for nothing.
pub(super) fn push_entity(name: &str, text: &mut String) -> bool {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        let character = code.ok().and_then(char::from_u32).filter(|one| *one != '\0');
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
