//! JSON Feed 1.1 and 1.0, read with serde: what is not read is skipped without being kept.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use url::Url;

use super::parse::{Draft, ITEMS_MAX, ITEMS_READ_MAX, ParseError, ParsedFeed};
use super::text::{escaped, web_url};
use super::thumbnail::is_image;
use super::time;

/// Most attachments of an item that are looked at.
const ATTACHMENTS_MAX: usize = 32;
/// What the version of every JSON feed begins with.
const VERSION: &str = "https://jsonfeed.org/version/";

#[derive(Deserialize)]
struct Feed {
    #[serde(default)]
    version: String,
    #[serde(default)]
    items: First<Item, ITEMS_MAX>,
}

#[derive(Deserialize)]
struct Item {
    url: Option<String>,
    external_url: Option<String>,
    title: Option<String>,
    summary: Option<String>,
    content_text: Option<String>,
    image: Option<String>,
    banner_image: Option<String>,
    date_published: Option<String>,
    date_modified: Option<String>,
    #[serde(default)]
    attachments: First<Attachment, ATTACHMENTS_MAX>,
}

#[derive(Deserialize)]
struct Attachment {
    url: Option<String>,
    mime_type: Option<String>,
}

/// The first of a list; the others are counted.
struct First<T, const MAX: usize> {
    kept: Vec<T>,
    beyond: usize,
}

impl<T, const MAX: usize> Default for First<T, MAX> {
    fn default() -> Self {
        Self { kept: Vec::new(), beyond: 0 }
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for First<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for List<T, MAX> {
            type Value = First<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut first = First::default();
                while first.kept.len() < MAX {
                    let Some(one) = list.next_element()? else { return Ok(first) };
                    first.kept.push(one);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    first.beyond += 1;
                }
                Ok(first)
            }
        }

        deserializer.deserialize_seq(List(PhantomData))
    }
}

/// Reads a feed.
pub(super) fn parse(text: &str, url: &Url) -> Result<ParsedFeed, ParseError> {
    let feed: Feed = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ParseError::NotAFeed,
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => ParseError::NotWellFormed,
    })?;
    if !feed.version.starts_with(VERSION) {
        return Err(ParseError::NotAFeed);
    }
    if feed.items.beyond > ITEMS_READ_MAX {
        return Err(ParseError::TooMany("items"));
    }
    let mut parsed = ParsedFeed { beyond: feed.items.beyond, ..ParsedFeed::default() };
    for item in feed.items.kept {
        parsed.add(draft(item, url))?;
    }
    Ok(parsed)
}

fn draft(item: Item, base: &Url) -> Draft {
    let web = |text: Option<String>| text.and_then(|text| web_url(base, &text));
    // All of them are plain text by the format; the first that says something counts.
    let plain = |text: Option<String>| text.map(|text| escaped(&text));
    let summary = item.summary.filter(|text| !text.trim().is_empty()).or(item.content_text);
    let mut draft = Draft {
        titles: [plain(item.title), plain(summary)],
        urls: [web(item.url), web(item.external_url)],
        times: [item.date_published, item.date_modified]
            .map(|text| text.and_then(|text| time::read(&text))),
        ..Draft::default()
    };
    let pictures = &mut draft.pictures;
    pictures.thumbnail = web(item.image).or(web(item.banner_image));
    let mut images =
        item.attachments.kept.into_iter().filter(|one| is_image(one.mime_type.as_deref()));
    pictures.enclosure = images.find_map(|one| web(one.url));
    draft
}
