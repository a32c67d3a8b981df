//! Parses JSON Feed 1.1 and 1.0 with serde. Unknown fields are skipped without being stored.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use url::Url;

use super::item::{Draft, TimeRank, TitleRank, UrlRank};
use super::parse::{ITEMS_MAX, ITEMS_READ_MAX, ParseError, ParsedFeed};
use super::picture::{Claim, Likeness};
use super::text::{escaped, line, web_url};
use super::time;
use crate::enrichment::feeds::picture::Place;
use crate::enrichment::feeds::text::first_picture;

/// Most attachments of an item that are searched for a picture.
const ATTACHMENTS_MAX: usize = 32;
/// The start of the `version` of every JSON feed, without the scheme.
const VERSION: &str = "//jsonfeed.org/version/";

#[derive(Deserialize)]
struct Feed {
    #[serde(default)]
    version: String,
    #[serde(default)]
    items: First<Item, ITEMS_MAX>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Item {
    id: Text,
    url: Text,
    external_url: Text,
    title: Text,
    summary: Text,
    content_text: Text,
    content_html: Text,
    image: Text,
    banner_image: Text,
    date_published: Text,
    date_modified: Text,
    attachments: First<Attachment, ATTACHMENTS_MAX>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Attachment {
    url: Text,
    mime_type: Text,
}

/// A text, or a number as text. Any other value gives an empty text, so that one wrong field does
/// not make the whole feed unreadable.
#[derive(Default)]
struct Text(String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl<'de> Visitor<'de> for AnyValue {
            type Value = Text;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text")
            }

            fn visit_str<E>(self, text: &str) -> Result<Text, E> {
                Ok(Text(text.to_owned()))
            }

            fn visit_string<E>(self, text: String) -> Result<Text, E> {
                Ok(Text(text))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_u64<E>(self, number: u64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Text, E> {
                Ok(Text(number.to_string()))
            }

            fn visit_unit<E>(self) -> Result<Text, E> {
                Ok(Text::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Text, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Text, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Text::default())
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

/// The first `MAX` entries of a list. Further entries are only counted.
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

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(First::default())
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut first = First::default();
                while first.kept.len() < MAX {
                    let Some(entry) = list.next_element()? else { return Ok(first) };
                    first.kept.push(entry);
                }
                while list.next_element::<IgnoredAny>()?.is_some() {
                    first.beyond += 1;
                }
                Ok(first)
            }
        }

        deserializer.deserialize_any(List(PhantomData))
    }
}

/// Parses a feed. `url` is the base of relative urls.
pub(super) fn parse(text: &str, url: &Url) -> Result<ParsedFeed, ParseError> {
    let feed: Feed = serde_json::from_str(text).map_err(|error| match error.classify() {
        serde_json::error::Category::Data => ParseError::NotAFeed,
        serde_json::error::Category::Syntax
        | serde_json::error::Category::Eof
        | serde_json::error::Category::Io => ParseError::NotWellFormed,
    })?;
    let version_url = feed.version.trim();
    let version = version_url.strip_prefix("https:").or(version_url.strip_prefix("http:"));
    if !version.is_some_and(|version| version.replacen("//www.", "//", 1).starts_with(VERSION)) {
        return Err(ParseError::NotAFeed);
    }
    if feed.items.beyond > ITEMS_READ_MAX {
        return Err(ParseError::TooMany("items"));
    }
    let mut parsed = ParsedFeed { beyond: feed.items.beyond, ..ParsedFeed::default() };
    for item in feed.items.kept {
        parsed.add(make_draft(&item, url))?;
    }
    Ok(parsed)
}

fn make_draft(item: &Item, base: &Url) -> Draft {
    let mut draft = Draft::default();
    // All texts except `content_html` are plain text.
    let plain = |text: &Text| line(&escaped(&text.0));
    draft.title.offer(TitleRank::Title, || plain(&item.title));
    draft.title.offer(TitleRank::Summary, || plain(&item.summary));
    draft.title.offer(TitleRank::Content, || {
        plain(&item.content_text).or_else(|| line(&item.content_html.0))
    });
    let web = |text: &Text| web_url(base, &text.0);
    draft.url.offer(UrlRank::Link, || web(&item.url).or_else(|| web(&item.external_url)));
    draft.add_id(base, &item.id.0);
    draft.time.offer(TimeRank::Published, || time::read(&item.date_published.0));
    draft.time.offer(TimeRank::Updated, || time::read(&item.date_modified.0));
    let pictures = &mut draft.pictures;
    pictures.offer(Place::Thumbnail, || web(&item.image).or_else(|| web(&item.banner_image)));
    pictures.offer(Place::Enclosure, || {
        item.attachments.kept.iter().find_map(|attachment| {
            let url = web(&attachment.url)?;
            let claim = Claim { kind: Some(&attachment.mime_type.0), ..Claim::default() };
            (claim.likeness(&url) == Likeness::Picture).then_some(url)
        })
    });
    pictures.offer(Place::Content, || first_picture(&item.content_html.0, base));
    draft
}
