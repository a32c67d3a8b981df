//! Feeds of every format, every source of a thumbnail, and hostile feeds.

mod corpus;
mod fetching;
mod formats;
mod hostile;
mod texts;
mod thumbnails;

use url::Url;

use super::{ParseError, ParsedFeed, Source, parse};

/// Parses a feed that was fetched from `https://news.example/feeds/all.xml`.
fn read(text: &str) -> Result<ParsedFeed, ParseError> {
    let url = Url::parse("https://news.example/feeds/all.xml").unwrap();
    parse(&Source { bytes: text.as_bytes(), charset: None, url: &url })
}

/// An RSS feed with these items and with all namespaces that feeds use.
fn rss(items: &str) -> String {
    format!(
        r#"<?xml version="1.0" encoding="UTF-8"?>
        <rss version="2.0" xmlns:media="http://search.yahoo.com/mrss/"
            xmlns:itunes="http://www.itunes.com/dtds/podcast-1.0.dtd"
            xmlns:content="http://purl.org/rss/1.0/modules/content/"
            xmlns:dc="http://purl.org/dc/elements/1.1/"
            xmlns:atom="http://www.w3.org/2005/Atom">
        <channel><title>News</title><link>https://news.example/</link>
        <atom:link rel="self" href="https://news.example/feeds/all.xml"/>
        <image><url>https://news.example/logo.png</url><title>News</title></image>
        {items}</channel></rss>"#
    )
}

/// An RSS feed of one item that contains a title, a link and `inside`.
fn rss_item(inside: &str) -> String {
    rss(&format!("<item><title>T</title><link>https://news.example/1</link>{inside}</item>"))
}

/// An Atom feed with these entries.
fn atom(entries: &str) -> String {
    format!(
        r#"<feed xmlns="http://www.w3.org/2005/Atom" xmlns:media="http://search.yahoo.com/mrss/">
        <title>News</title><link rel="self" href="https://news.example/atom"/>{entries}</feed>"#
    )
}

fn atom_entry(inside: &str) -> String {
    atom(&format!(
        r#"<entry><title>T</title><link href="https://news.example/1"/>{inside}</entry>"#
    ))
}

/// A JSON feed with these items.
fn json_feed(items: &str) -> String {
    format!(
        r#"{{"version": "https://jsonfeed.org/version/1.1", "title": "News", "items": [{items}]}}"#
    )
}

fn json_item(inside: &str) -> String {
    json_feed(&format!(r#"{{"id": 1, "title": "T", "url": "https://news.example/1", {inside}}}"#))
}

/// The thumbnail of the only item.
fn thumbnail(feed: &str) -> Option<String> {
    let mut items = read(feed).unwrap().items;
    assert_eq!(items.len(), 1, "{feed}");
    items.remove(0).image_url
}
