//! Atom (RFC 4287); one that forgot to name its namespace is read as well.

use super::parse::{Draft, ParseError, ParsedFeed};
use super::text::{escaped, first_image, web_url};
use super::thumbnail::is_image;
use super::time;
use super::xml::{Document, Element, Ns, Piece};

/// Reads a feed whose root was just opened.
pub(super) fn parse(mut document: Document<'_>) -> Result<ParsedFeed, ParseError> {
    let mut feed = ParsedFeed::default();
    while let Some(piece) = document.next()? {
        let Piece::Start(element) = piece else { continue };
        match (element.ns, element.name.as_str()) {
            (Ns::Atom | Ns::Rss, "entry") => {
                let draft = entry(&mut document)?;
                feed.add(draft)?;
            }
            _ => document.skip()?,
        }
    }
    Ok(feed)
}

/// Reads the entry that was just opened. The titles are its own and its summary, the times when it
/// was published and when it changed.
fn entry(document: &mut Document<'_>) -> Result<Draft, ParseError> {
    let outside = document.depth() - 1;
    let mut draft = Draft::default();
    while document.depth() > outside {
        let Piece::Start(element) = document.next()?.ok_or(ParseError::NotWellFormed)? else {
            continue;
        };
        match (element.ns, element.name.as_str()) {
            (Ns::Atom | Ns::Rss, "title") => draft.titles[0] = Some(words(document, &element)?),
            (Ns::Atom | Ns::Rss, "summary") => {
                draft.titles[1] = Some(text_of(document, &element, &mut draft)?);
            }
            (Ns::Atom | Ns::Rss, "content") => {
                text_of(document, &element, &mut draft)?;
            }
            (Ns::Atom | Ns::Rss, "published") => {
                draft.times[0] = time::read(&document.text(|_, _| {})?)
            }
            (Ns::Atom | Ns::Rss, "updated") => {
                draft.times[1] = time::read(&document.text(|_, _| {})?)
            }
            (Ns::Atom | Ns::Rss, "link") => {
                link(document, &element, &mut draft);
                document.skip()?;
            }
            // What is in a group, or in content, is read where it comes.
            (Ns::Media, "group" | "content") => {}
            (Ns::Media, "thumbnail") => {
                let url = element.attribute("url").and_then(|url| web_url(document.base(), url));
                draft.pictures.thumbnail = draft.pictures.thumbnail.take().or(url);
                document.skip()?;
            }
            _ => document.skip()?,
        }
    }
    Ok(draft)
}

fn link(document: &Document<'_>, element: &Element, draft: &mut Draft) {
    let url = element.attribute("href").and_then(|url| web_url(document.base(), url));
    match element.attribute("rel").unwrap_or("alternate") {
        "alternate" => draft.urls[0] = draft.urls[0].take().or(url),
        "enclosure" if is_image(element.attribute("type")) => {
            draft.pictures.enclosure = draft.pictures.enclosure.take().or(url);
        }
        _ => {}
    }
}

/// A text construct as HTML: plain text may hold what only looks like markup.
fn words(document: &mut Document<'_>, element: &Element) -> Result<String, ParseError> {
    let text = document.text(|_, _| {})?;
    Ok(if is_html(element) { text } else { escaped(&text) })
}

/// A summary or content as HTML, with its first image noted.
fn text_of(
    document: &mut Document<'_>,
    element: &Element,
    draft: &mut Draft,
) -> Result<String, ParseError> {
    let mut image = None;
    let text =
        document.text(|base, source| image = image.take().or_else(|| web_url(base, source)))?;
    if is_html(element) {
        image = image.or_else(|| first_image(&text, document.base()));
    }
    draft.pictures.in_text = draft.pictures.in_text.take().or(image);
    Ok(if is_html(element) { text } else { escaped(&text) })
}

fn is_html(element: &Element) -> bool {
    matches!(element.attribute("type"), Some("html" | "text/html"))
}
