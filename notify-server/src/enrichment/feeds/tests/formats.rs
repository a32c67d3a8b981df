//! Titles, urls, times and the order of items in each format.

use super::{atom, atom_entry, json_feed, json_item, read, rss, rss_item};
use crate::enrichment::feeds::ParseError;

/// Titles, addresses and times of the items of a feed.
fn summary(feed: &str) -> Vec<(String, String, Option<i64>)> {
    let items = read(feed).unwrap().items.into_iter();
    items.map(|item| (item.title, item.url, item.published_at.map(|at| at.0))).collect()
}

fn one(title: &str, url: &str, at: Option<i64>) -> Vec<(String, String, Option<i64>)> {
    vec![(title.to_owned(), url.to_owned(), at)]
}

#[test]
fn rss_item_fields_use_the_first_nonempty_source() {
    let at = Some(1_780_389_000_000);
    let news = "https://news.example/1";
    let cases = [
        (rss_item("<pubDate>Tue, 02 Jun 2026 08:30:00 GMT</pubDate>"), one("T", news, at)),
        (rss_item("<dc:date>2026-06-02T08:30:00Z</dc:date>"), one("T", news, at)),
        (
            rss_item(
                "<dc:date>2020-01-01</dc:date><pubDate>Tue, 02 Jun 2026 08:30:00 GMT</pubDate>",
            ),
            one("T", news, at),
        ),
        (rss_item("<pubDate>soon</pubDate>"), one("T", news, None)),
        // Elements of other vocabularies have the same names.
        (
            rss_item("<media:title>Other</media:title><itunes:title>Other</itunes:title>"),
            one("T", news, None),
        ),
        (
            rss("<item><description>&lt;p&gt;Said &lt;b&gt;so&lt;/b&gt;&lt;/p&gt;</description>
                <guid>https://news.example/2</guid></item>"),
            one("Said so", "https://news.example/2", None),
        ),
        (
            rss("<item><title> </title><description>D</description><link>/3?a=1&b=2</link></item>"),
            one("D", "https://news.example/3?a=1&b=2", None),
        ),
        (
            rss(r#"<item xml:base="https://cdn.example/x/"><title>T</title><link>3</link></item>"#),
            one("T", "https://cdn.example/x/3", None),
        ),
    ];
    for (feed, expected) in cases {
        assert_eq!(summary(&feed), expected, "{feed}");
    }
}

#[test]
fn item_without_link_or_title_is_dropped() {
    let feed = rss(r#"<item><title>No link</title></item>
        <item><link>https://news.example/no-title</link></item>
        <item><title>An id</title><guid isPermaLink="false">https://news.example/4</guid></item>
        <item><title>No address</title><guid>tag:news.example,2026:5</guid></item>
        <item><title>Code</title><link>javascript:alert(1)</link></item>
        <item><title>A file</title><link>file:///etc/passwd</link></item>"#);
    let feed = read(&feed).unwrap();
    assert_eq!((feed.items.len(), feed.left_out), (0, 6));
}

#[test]
fn atom_entry_fields_use_the_first_nonempty_source() {
    let at = Some(1_780_389_000_000);
    let news = "https://news.example/1";
    let cases = [
        (atom_entry("<updated>2026-06-02T08:30:00Z</updated>"), one("T", news, at)),
        (
            atom_entry(
                "<updated>2027-01-01T00:00:00Z</updated>
                <published>2026-06-02T10:30:00+02:00</published>",
            ),
            one("T", news, at),
        ),
        (
            atom(
                r#"<entry><title type="html">A &amp;lt;b&gt;B&lt;/b> &amp;amp; C</title>
                <link rel="edit" href="https://news.example/edit"/>
                <link rel="alternate" href="/2"/></entry>"#,
            ),
            one("A <b>B & C", "https://news.example/2", None),
        ),
        (
            atom(r#"<entry><title>1 &lt; 2 &amp;amp; 3</title><link href="2"/></entry>"#),
            one("1 < 2 &amp; 3", "https://news.example/feeds/2", None),
        ),
        (
            atom(
                r#"<entry><title type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml">A
                <em>B</em></div></title><link href="2"/></entry>"#,
            ),
            one("A B", "https://news.example/feeds/2", None),
        ),
        (
            r#"<feed xmlns="http://www.w3.org/2005/Atom" xml:base="https://a.example/b/">
                <entry xml:base="c/"><title>T</title><link href="d"/></entry></feed>"#
                .to_owned(),
            one("T", "https://a.example/b/c/d", None),
        ),
        (
            r#"<feed><entry><title>T</title><link href="/2"/></entry></feed>"#.to_owned(),
            one("T", "https://news.example/2", None),
        ),
        (
            r#"<a:feed xmlns:a="http://www.w3.org/2005/Atom"><a:entry><a:title>T</a:title>
                <a:link href="/2"/></a:entry></a:feed>"#
                .to_owned(),
            one("T", "https://news.example/2", None),
        ),
    ];
    for (feed, expected) in cases {
        assert_eq!(summary(&feed), expected, "{feed}");
    }
}

#[test]
fn json_item_fields_use_the_first_nonempty_source() {
    let at = Some(1_780_389_000_000);
    let news = "https://news.example/1";
    let cases = [
        (json_item(r#""date_published": "2026-06-02T08:30:00Z""#), one("T", news, at)),
        (json_item(r#""date_modified": "2026-06-02T08:30:00Z""#), one("T", news, at)),
        (json_item(r#""external_url": "https://else.example/""#), one("T", news, None)),
        (
            json_feed(r#"{"id": "2", "external_url": "/2", "content_text": "Words"}"#),
            one("Words", "https://news.example/2", None),
        ),
        // A plain text that looks like markup, and an empty text, which does not replace another title.
        (
            json_feed(r#"{"url": "/2", "title": "Use <b> &amp; <i>"}"#),
            one("Use <b> &amp; <i>", "https://news.example/2", None),
        ),
        (
            json_feed(r#"{"url": "/2", "summary": " ", "content_text": "Words"}"#),
            one("Words", "https://news.example/2", None),
        ),
        (
            json_feed(r#"{"id": "2", "url": "/2", "title": null, "summary": "Less"}"#),
            one("Less", "https://news.example/2", None),
        ),
        ("\u{feff} ".to_owned() + &json_item(r#""tags": ["a"]"#), one("T", news, None)),
    ];
    for (feed, expected) in cases {
        assert_eq!(summary(&feed), expected, "{feed}");
    }
}

#[test]
fn items_are_sorted_newest_first_and_undated_last() {
    let dated = |title: &str, date: &str| {
        format!("<item><title>{title}</title><link>/{title}</link><pubDate>{date}</pubDate></item>")
    };
    let feed = rss(&[
        dated("none", ""),
        dated("old", "2026-01-01"),
        dated("new", "2026-03-01"),
        dated("twin", "2026-03-01"),
        dated("nought", ""),
    ]
    .concat());
    let titles: Vec<_> = summary(&feed).into_iter().map(|(title, ..)| title).collect();
    assert_eq!(titles, ["new", "twin", "old", "none", "nought"]);
}

#[test]
fn ttl_is_parsed_and_garbage_ignored() {
    for (ttl, expected) in [("60", Some(60)), (" 5 ", Some(5)), ("soon", None), ("-1", None)] {
        let feed = rss(&format!("<ttl>{ttl}</ttl>"));
        assert_eq!(read(&feed).unwrap().ttl_minutes, expected, "{ttl}");
    }
}

#[test]
fn prolog_and_older_formats_are_parsed() {
    let cases = [
        "\n\n".to_owned() + &rss_item(""),
        "\u{feff}".to_owned() + &rss_item(""),
        "<?xml version='1.0'?><?xml-stylesheet href='a'?><!-- hello -->".to_owned()
            + rss_item("").split_once("?>").unwrap().1,
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"
            xmlns="http://purl.org/rss/1.0/"><channel><title>N</title></channel>
            <item><title>T</title><link>https://news.example/1</link></item></rdf:RDF>"#
            .to_owned(),
        r#"<rss version="0.92"><channel><item><title>T</title>
            <link>https://news.example/1</link></item></channel></rss>"#
            .to_owned(),
    ];
    for feed in cases {
        assert_eq!(summary(&feed), one("T", "https://news.example/1", None), "{feed}");
    }
}

#[test]
fn non_feeds_are_reported_by_kind() {
    let cases = [
        ("", ParseError::NotAFeed),
        ("hello", ParseError::NotAFeed),
        ("<html><body>404</body></html>", ParseError::NotAFeed),
        ("{}", ParseError::NotAFeed),
        (r#"{"version": "https://jsonfeed.org/version/1.1", "items": 3}"#, ParseError::NotAFeed),
        (r#"{"version": "1", "items": []}"#, ParseError::NotAFeed),
        (r#"{"version": "#, ParseError::NotWellFormed),
        ("<rss><channel>", ParseError::NotWellFormed),
        ("<rss><channel></rss>", ParseError::NotWellFormed),
        ("<rss><channel><item><title>T</channel></rss>", ParseError::NotWellFormed),
        ("<rss", ParseError::NotWellFormed),
    ];
    for (text, expected) in cases {
        assert_eq!(read(text), Err(expected), "{text}");
    }
}
