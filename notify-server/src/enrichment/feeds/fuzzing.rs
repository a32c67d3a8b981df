//! Properties of the reader of feeds.

use std::fmt::Write;

use jiff::fmt::rfc2822::DateTimeParser;
use notify_core::Timestamp;
use serde_json::json;
use url::Url;

use super::parse::{ITEMS_MAX, ITEMS_READ_MAX};
use super::text::{TITLE_CHARS_MAX, URL_BYTES_MAX, escaped, first_picture, line};
use super::{FEED_BYTES_MAX, ParsedFeed, Source, parse, time};
use crate::store::FeedItemRow;

/// The latest time of a feed: the end of the year 9999.
const TIME_MAX: Timestamp = Timestamp(253_402_300_799_999);

/// Reads a feed, a date or a piece of HTML. The first byte of the input selects which, and the charset that
/// the header names.
///
/// # Panics
/// If an item breaks a limit, or if what was read reads differently after it was written again, in any of
/// the three formats.
pub fn feeds(data: &[u8]) {
    let Some((selector, input)) = data.split_first() else { return };
    match (selector, std::str::from_utf8(input)) {
        (b'd', Ok(text)) => check_date(text),
        (b'h', Ok(html)) => check_html(html),
        (b'd' | b'h', Err(_)) => {}
        (b'1', _) => check_feed(input, Some("utf-8")),
        (b'2', _) => check_feed(input, Some("iso-8859-1")),
        (b'3', _) => check_feed(input, Some("shift_jis")),
        _ => check_feed(input, None),
    }
}

fn base() -> Url {
    Url::parse("https://news.example/feeds/all.xml").expect("a url")
}

fn read(bytes: &[u8], charset: Option<&str>) -> Option<ParsedFeed> {
    assert!(bytes.len() <= FEED_BYTES_MAX);
    parse(&Source { bytes, charset, url: &base() }).ok()
}

fn check_feed(bytes: &[u8], charset: Option<&str>) {
    let Some(feed) = read(bytes, charset) else { return };
    assert!(feed.items.len() <= ITEMS_MAX);
    assert!(feed.items.len() + feed.left_out + feed.beyond <= ITEMS_READ_MAX + ITEMS_MAX);
    assert!(feed.items.is_sorted_by(|one, next| one.published_at >= next.published_at));
    for item in &feed.items {
        check_title(&item.title);
        check_url(&item.url);
        item.image_url.as_deref().into_iter().for_each(check_url);
        assert!(item.published_at.is_none_or(|at| (Timestamp(0)..=TIME_MAX).contains(&at)));
    }
    for (format, document) in [
        ("JSON", json_feed(&feed.items)),
        ("Atom", atom_feed(&feed.items)),
        ("RSS", rss_feed(&feed.items)),
    ] {
        let again = read(document.as_bytes(), None);
        let again = again.unwrap_or_else(|| panic!("{format} cannot be read: {document}"));
        assert_eq!(again.items, feed.items, "written as {format}: {document}");
        assert!(!again.is_broken && again.left_out == 0, "written as {format}: {document}");
    }
}

fn check_title(title: &str) {
    assert!((1..=TITLE_CHARS_MAX).contains(&title.chars().count()), "{title:?}");
    let is_one_line = title.split(' ').all(|word| {
        !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || c.is_control())
    });
    assert!(is_one_line, "{title:?}");
    assert_eq!(line(&escaped(title)).as_deref(), Some(title), "escaped");
}

fn check_url(text: &str) {
    assert!(text.len() <= URL_BYTES_MAX, "{} bytes", text.len());
    let url = Url::parse(text).expect("a url of a feed is absolute");
    assert!(matches!(url.scheme(), "http" | "https") && url.has_host(), "{text}");
    assert_eq!(url.as_str(), text);
}

fn json_feed(items: &[FeedItemRow]) -> String {
    let items: Vec<_> = items
        .iter()
        .map(|item| {
            let published = item.published_at.map(instant);
            json!({"title": item.title, "url": item.url, "image": item.image_url,
                "date_published": published})
        })
        .collect();
    json!({"version": "https://jsonfeed.org/version/1.1", "items": items}).to_string()
}

fn atom_feed(items: &[FeedItemRow]) -> String {
    let mut feed =
        r#"<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/">"#
            .to_owned();
    for item in items {
        let (title, url) = (xml(&item.title), xml(&item.url));
        let _ = write!(feed, "<entry><title>{title}</title><link href=\"{url}\"/>");
        push_picture(&mut feed, item);
        if let Some(at) = item.published_at {
            let _ = write!(feed, "<published>{}</published>", instant(at));
        }
        feed.push_str("</entry>");
    }
    feed + "</feed>"
}

/// The titles of RSS are HTML.
fn rss_feed(items: &[FeedItemRow]) -> String {
    let mut feed =
        r#"<rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"><channel>"#.to_owned();
    for item in items {
        let (title, url) = (xml(&escaped(&item.title)), xml(&item.url));
        let _ = write!(feed, "<item><title>{title}</title><link>{url}</link>");
        push_picture(&mut feed, item);
        if let Some(at) = item.published_at {
            let _ = write!(feed, "<pubDate>{}</pubDate>", instant(at));
        }
        feed.push_str("</item>");
    }
    feed + "</channel></rss>"
}

fn push_picture(feed: &mut String, item: &FeedItemRow) {
    if let Some(url) = &item.image_url {
        let _ = write!(feed, "<media:thumbnail url=\"{}\"/>", xml(url));
    }
}

fn xml(text: &str) -> String {
    quick_xml::escape::escape(text).into_owned()
}

/// A time in RFC 3339, with milliseconds.
fn instant(at: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(at.as_ms()).expect("a time of a feed").to_string()
}

fn check_date(text: &str) {
    let read = time::read(text);
    if let Some(at) = read {
        assert!((Timestamp(0)..=TIME_MAX).contains(&at), "{at}");
        assert_eq!(time::read(&instant(at)), read, "{}", instant(at));
    }
    assert_eq!(time::read(&format!(" \n{text}\t")), read, "with white space around it");
    // What RFC 2822 defines has no other meaning.
    let strict = DateTimeParser::new().relaxed_weekday(true).parse_timestamp(text);
    if let Ok(strict) = strict
        && strict.as_millisecond() >= 0
    {
        assert_eq!(read, Some(Timestamp(strict.as_millisecond())), "{text:?}");
    }
}

fn check_html(html: &str) {
    if let Some(title) = line(html) {
        check_title(&title);
    }
    if let Some(url) = first_picture(html, &base()) {
        check_url(&url);
    }
}
