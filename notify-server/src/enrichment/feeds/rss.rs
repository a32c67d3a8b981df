//! Parses feeds of RSS, from 0.90 to 2.0, and of Atom, 0.3 and 1.0 (RFC 4287). A feed that does not
//! declare its namespace is parsed as well.

use super::ParseError;
use super::item::parse_item;
use super::parse::ParsedFeed;
use super::xml::{Document, Piece};
use crate::enrichment::feeds::xml::Ns;

/// Parses a feed after its root element, named `root`, was opened. A feed that ends early keeps the
/// items that are complete.
pub(super) fn parse(mut document: Document<'_>, root: &str) -> Result<ParsedFeed, ParseError> {
    let mut feed = ParsedFeed::default();
    document.adopt_default_namespace(root != "feed");
    match read_items(&mut document, &mut feed) {
        Ok(()) => feed.is_broken = document.has_mismatch(),
        Err(ParseError::NotWellFormed) => feed.is_broken = true,
        Err(error) => return Err(error),
    }
    if feed.is_broken && feed.items.is_empty() {
        return Err(ParseError::NotWellFormed);
    }
    Ok(feed)
}

/// Reads all items of the document into `feed`.
fn read_items(document: &mut Document<'_>, feed: &mut ParsedFeed) -> Result<(), ParseError> {
    while let Some(piece) = document.next()? {
        let Piece::Start(element) = piece else { continue };
        match (element.ns, element.name.as_str()) {
            // The items are inside the channel; in RSS 1.0 next to it, in RSS 1.1 in a list inside
            // it.
            (Ns::Rss | Ns::Atom, "channel" | "items") => {}
            (Ns::Rss | Ns::Atom, "item" | "entry") => {
                // RSS 1.0 identifies an item by its url.
                let about = element.attribute("rdf:about").map(str::to_owned);
                let mut draft = parse_item(document)?;
                if let Some(about) = about {
                    draft.add_id(document.base(), &about);
                }
                feed.add(draft)?;
            }
            (Ns::Rss, "ttl") => feed.ttl_minutes = document.text()?.text.trim().parse().ok(),
            _ => document.skip()?,
        }
    }
    Ok(())
}
