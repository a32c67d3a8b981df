//! RSS 2.0, and its predecessors as far as they look like it.

use super::parse::{Draft, ParseError, ParsedFeed};
use super::text::{first_image, web_url};
use super::thumbnail::is_image;
use super::time;
use super::xml::{Document, Element, Ns, Piece};

/// Reads a feed whose root was just opened.
pub(super) fn parse(mut document: Document<'_>) -> Result<ParsedFeed, ParseError> {
    let mut feed = ParsedFeed::default();
    // Items stand in the channel; in RSS 1.0 beside it.
    while let Some(piece) = document.next()? {
        let Piece::Start(element) = piece else { continue };
        match (element.ns, element.name.as_str()) {
            (Ns::Rss, "channel") => {}
            (Ns::Rss, "item") => {
                let draft = item(&mut document)?;
                feed.add(draft)?;
            }
            (Ns::Rss, "ttl") => feed.ttl_minutes = document.text(|_, _| {})?.trim().parse().ok(),
            _ => document.skip()?,
        }
    }
    Ok(feed)
}

/// Reads the item that was just opened. The titles are its own and its description, the addresses
/// its link and its guid, the times its date and Dublin Core's.
fn item(document: &mut Document<'_>) -> Result<Draft, ParseError> {
    let outside = document.depth() - 1;
    let mut draft = Draft::default();
    while document.depth() > outside {
        let Piece::Start(element) = document.next()?.ok_or(ParseError::NotWellFormed)? else {
            continue;
        };
        match (element.ns, element.name.as_str()) {
            (Ns::Rss, "title") => fill(&mut draft.titles[0], document.text(|_, _| {})?),
            (Ns::Rss, "description") => fill(&mut draft.titles[1], document.text(|_, _| {})?),
            (Ns::Rss, "link") => {
                let text = document.text(|_, _| {})?;
                draft.urls[0] = web_url(document.base(), &text).or(draft.urls[0].take());
            }
            (Ns::Rss, "guid") => {
                let is_link = element.attribute("isPermaLink") != Some("false");
                let text = document.text(|_, _| {})?;
                // Relative ids would all be links to the feed's own host.
                let is_link = is_link && text.trim().starts_with("http");
                draft.urls[1] = is_link.then(|| web_url(document.base(), &text)).flatten();
            }
            (Ns::Rss, "pubDate") => draft.times[0] = time::read(&document.text(|_, _| {})?),
            (Ns::DublinCore, "date") => draft.times[1] = time::read(&document.text(|_, _| {})?),
            (Ns::Content, "encoded") => text_of(document, &mut draft)?,
            _ => picture(document, &element, &mut draft)?,
        }
    }
    Ok(draft)
}

/// The pictures that elements name by themselves; what is in a group is read where it comes.
fn picture(
    document: &mut Document<'_>,
    element: &Element,
    draft: &mut Draft,
) -> Result<(), ParseError> {
    let url = |name| element.attribute(name).and_then(|text| web_url(document.base(), text));
    let pictures = &mut draft.pictures;
    match (element.ns, element.name.as_str()) {
        (Ns::Media, "group") => return Ok(()),
        (Ns::Media, "thumbnail") => pictures.thumbnail = pictures.thumbnail.take().or(url("url")),
        (Ns::Media, "content") => {
            let medium = element.attribute("medium").map(str::to_ascii_lowercase);
            if medium.as_deref() == Some("image") || is_image(element.attribute("type")) {
                pictures.add_content(url("url"), element.attribute("width"));
            }
            // A thumbnail may stand inside.
            return Ok(());
        }
        (Ns::Rss, "enclosure") if is_image(element.attribute("type")) => {
            pictures.enclosure = pictures.enclosure.take().or(url("url"));
        }
        (Ns::Itunes, "image") => pictures.itunes = pictures.itunes.take().or(url("href")),
        _ => {}
    }
    document.skip()
}

/// The text of an item, for its first image.
fn text_of(document: &mut Document<'_>, draft: &mut Draft) -> Result<(), ParseError> {
    let mut image = None;
    let html =
        document.text(|base, source| image = image.take().or_else(|| web_url(base, source)))?;
    let found = image.or_else(|| first_image(&html, document.base()));
    draft.pictures.in_text = draft.pictures.in_text.take().or(found);
    Ok(())
}

/// The first text that is not empty counts.
fn fill(place: &mut Option<String>, text: String) {
    if place.is_none() && !text.trim().is_empty() {
        *place = Some(text);
    }
}
