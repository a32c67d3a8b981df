//! Feeds as common publishers write them: `corpus/NAME.xml` (or `.rss`, `.rdf`, `.atom`, `.json`), and
//! `corpus/NAME.expected.json` with the charset of the response header and every expected item, or the
//! error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use url::Url;

use crate::enrichment::feeds::{Source, parse};

/// Smallest number of feeds that the corpus must contain.
const FEEDS_MIN: usize = 60;
/// Bytes between two cuts. The number is odd, so that some cuts are inside characters.
const CUT_STEP: usize = 37;
const EXPECTED: &str = ".expected.json";

/// The expected result of parsing a feed.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Expected {
    /// The charset of the response's header.
    charset: Option<String>,
    items: Vec<Item>,
    left_out: usize,
    is_broken: bool,
    is_charset_guess: bool,
    error: Option<String>,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Item {
    title: String,
    url: String,
    published_at: Option<String>,
    image_url: Option<String>,
}

#[derive(Default)]
struct Pair {
    feed: Option<PathBuf>,
    expected: Option<PathBuf>,
}

/// The feeds of the corpus, by name.
fn pairs() -> BTreeMap<String, Pair> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/enrichment/feeds/tests/corpus");
    let mut pairs: BTreeMap<String, Pair> = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.starts_with('.') {
            continue;
        }
        if let Some(name) = name.strip_suffix(EXPECTED) {
            pairs.entry(name.to_owned()).or_default().expected = Some(path);
        } else {
            let (name, _) = name.rsplit_once('.').expect("a feed has an extension");
            let other = pairs.entry(name.to_owned()).or_default().feed.replace(path);
            assert_eq!(other, None, "two feeds of one name");
        }
    }
    pairs
}

/// The result of parsing a feed, in the form of the expected result.
fn read(bytes: &[u8], charset: Option<String>) -> Expected {
    let url = Url::parse("https://news.example/feeds/all.xml").unwrap();
    let feed = match parse(&Source { bytes, charset: charset.as_deref(), url: &url }) {
        Ok(feed) => feed,
        Err(error) => {
            return Expected { charset, error: Some(error.to_string()), ..Expected::default() };
        }
    };
    let instant = |ms| jiff::Timestamp::from_millisecond(ms).unwrap().to_string();
    let items = feed.items.into_iter().map(|item| Item {
        title: item.title,
        url: item.url,
        published_at: item.published_at.map(|at| instant(at.0)),
        image_url: item.image_url,
    });
    Expected {
        charset,
        items: items.collect(),
        left_out: feed.left_out,
        is_broken: feed.is_broken,
        is_charset_guess: feed.is_charset_guess,
        error: None,
    }
}

#[test]
fn corpus_feeds_parse_as_expected() {
    let pairs = pairs();
    assert!(pairs.len() >= FEEDS_MIN, "{} feeds", pairs.len());
    let mut wrong = Vec::new();
    for (name, pair) in pairs {
        let (Some(feed), Some(expected)) = (pair.feed, pair.expected) else {
            wrong.push(format!("{name}: the feed or its expectation is missing"));
            continue;
        };
        let expected: Expected = serde_json::from_slice(&fs::read(expected).unwrap()).unwrap();
        let found = read(&fs::read(feed).unwrap(), expected.charset.clone());
        if found != expected {
            wrong.push(format!("{name}:\n  found    {found:?}\n  expected {expected:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn truncated_feed_gives_a_subset_of_items_or_an_error() {
    for (name, pair) in pairs() {
        let expected: Expected =
            serde_json::from_slice(&fs::read(pair.expected.unwrap()).unwrap()).unwrap();
        let bytes = fs::read(pair.feed.unwrap()).unwrap();
        for end in (0..bytes.len()).step_by(CUT_STEP) {
            let found = read(&bytes[..end], expected.charset.clone());
            // The charset that is guessed from fewer bytes may be a different one.
            let is_guess = found.is_charset_guess || expected.is_charset_guess;
            let is_of_whole = found.items.iter().all(|item| expected.items.contains(item));
            assert!(is_of_whole || is_guess, "{name}, cut at {end}: {found:?}");
        }
    }
}
