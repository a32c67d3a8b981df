//! Hostile feeds: each one is refused at once with a specific error. Time and memory are measured on the whole server
//! (`tests/tests/feeds`).

use super::{json_feed, read, rss, thumbnail};
use crate::enrichment::feeds::ParseError;
use crate::enrichment::feeds::parse::{FEED_BYTES_MAX, ITEMS_MAX, ITEMS_READ_MAX};
use crate::enrichment::feeds::text::TITLE_CHARS_MAX;
use crate::enrichment::feeds::xml::{
    ATTRIBUTES_MAX, DEPTH_MAX, ELEMENTS_MAX, NAMESPACES_MAX, TEXT_BYTES_MAX,
};

fn many(count: usize, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect()
}

#[test]
fn bounds_are_inclusive() {
    let attributes = |count| rss(&format!("<x {}/>", many(count, |n| format!(" a{n}=''"))));
    let namespaces = |count| rss(&format!("<x {}/>", many(count, |n| format!(" xmlns:a{n}='u'"))));
    let nested = |count| {
        let inside = format!("{}{}", "<x>".repeat(count), "</x>".repeat(count));
        format!("<rss><channel>{inside}</channel></rss>")
    };
    let stray_ends = |count| {
        let item = "<item><title>T</title><link>/1</link></item>";
        format!("<rss><channel>{item}{}</channel></rss>", "</x>".repeat(count))
    };
    let elements = |count| format!("<rss><channel>{}</channel></rss>", "<x/>".repeat(count));
    let items = |count| rss(&"<item><title>T</title><link>/1</link></item>".repeat(count));
    let json_items =
        |count: usize| json_feed(&vec![r#"{"title":"T","url":"/1"}"#; count].join(","));
    let cases = [
        (attributes(ATTRIBUTES_MAX), None),
        (attributes(ATTRIBUTES_MAX + 1), Some(ParseError::TooMany("attributes of one element"))),
        // Five namespaces are in scope already.
        (namespaces(NAMESPACES_MAX - 5), None),
        (namespaces(NAMESPACES_MAX - 4), Some(ParseError::TooMany("namespaces"))),
        (nested(DEPTH_MAX - 2), None),
        (nested(DEPTH_MAX - 1), Some(ParseError::TooDeep)),
        // A closing tag without an element counts as an element.
        (stray_ends(ELEMENTS_MAX - 5), None),
        (stray_ends(ELEMENTS_MAX - 4), Some(ParseError::TooMany("elements"))),
        (elements(ELEMENTS_MAX - 2), None),
        (elements(ELEMENTS_MAX - 1), Some(ParseError::TooMany("elements"))),
        (items(ITEMS_READ_MAX), None),
        (items(ITEMS_READ_MAX + 1), Some(ParseError::TooMany("items"))),
        (json_items(ITEMS_READ_MAX), None),
        (json_items(ITEMS_READ_MAX + ITEMS_MAX + 1), Some(ParseError::TooMany("items"))),
    ];
    for (feed, expected) in cases {
        assert_eq!(read(&feed).err(), expected, "{}", &feed[..200.min(feed.len())]);
    }
}

#[test]
fn excess_items_are_counted() {
    let item = "<item><title>T</title><link>/1</link></item>";
    let feeds = [
        rss(&item.repeat(ITEMS_MAX + 7)),
        json_feed(&vec![r#"{"title":"T","url":"/1"}"#; ITEMS_MAX + 7].join(",")),
    ];
    for feed in feeds {
        let feed = read(&feed).unwrap();
        assert_eq!((feed.items.len(), feed.beyond, feed.left_out), (ITEMS_MAX, 7, 0));
    }
}

#[test]
fn doctype_with_declarations_is_refused() {
    let laughs =
        many(10, |n| format!("<!ENTITY lol{} \"{}\">", n + 1, format!("&lol{n};").repeat(10)));
    let feed = |kind: &str| {
        format!(
            "{kind}<rss><channel><item><title>A &x; &lol9;</title><link>/1</link></item></channel></rss>"
        )
    };
    let declaring = [
        r#"<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>"#.to_owned(),
        format!("<!DOCTYPE rss [<!ENTITY lol0 \"lol\">{laughs}]>"),
        "<!DOCTYPE rss SYSTEM 'http://127.0.0.1/[.dtd' [<!ENTITY % x SYSTEM 'a'>%x;]>".to_owned(),
        "<!DOCTYPE rss []>".to_owned(),
    ];
    for kind in declaring {
        assert_eq!(read(&feed(&kind)), Err(ParseError::DocumentType), "{kind}");
    }
    let harmless = [
        "<!DOCTYPE rss>",
        "<!doctype rss>",
        r#"<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://127.0.0.1/rss.dtd">"#,
        "<!DOCTYPE rss SYSTEM 'http://127.0.0.1/[.dtd'>",
    ];
    for kind in harmless {
        let items = read(&feed(kind)).unwrap().items;
        // Entities of the document type are not decoded.
        assert_eq!(items[0].title, "A &x; &lol9;", "{kind}");
    }
}

#[test]
fn deep_json_is_skipped_without_recursion() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let feed = json_feed(&format!(r#"{{"title": "T", "url": "/1", "x": {deep}}}"#));
    assert_eq!(read(&feed).unwrap().items.len(), 1);
}

#[test]
fn overlong_base_url_is_ignored() {
    let relative = "<item><title>T</title><link>here</link></item>";
    let feed =
        |base: &str| format!(r#"<rss><channel xml:base="{base}">{relative}</channel></rss>"#);
    let url = |feed: String| read(&feed).unwrap().items.remove(0).url;
    assert_eq!(url(feed("https://b.example/x/")), "https://b.example/x/here");
    let long = format!("https://b.example/{}/", "x".repeat(2_048));
    assert_eq!(url(feed(&long)), "https://news.example/feeds/here");
    // A base that becomes too long inside another base is ignored too.
    let half = "x".repeat(1_500);
    let nested = format!(
        r#"<rss xml:base="https://b.example/{half}/"><channel xml:base="{half}/">{relative}</channel></rss>"#
    );
    assert_eq!(url(nested), format!("https://b.example/{half}/here"));
}

#[test]
fn texts_are_read_up_to_a_bound() {
    let rest = "x&lt;b&gt;".repeat(FEED_BYTES_MAX / 20);
    for element in ["description", "content:encoded"] {
        // An image before the end of the text that is kept, and an image after it.
        let with_image_after = |bytes: usize| {
            let before = "x".repeat(bytes);
            let text = format!("{before}&lt;img src='/i.png'&gt;{rest}");
            rss(&format!("<item><link>/1</link><{element}>{text}</{element}></item>"))
        };
        let (near, far) = (with_image_after(1_000), with_image_after(TEXT_BYTES_MAX));
        if element == "description" {
            let title = read(&far).unwrap().items.remove(0).title;
            assert_eq!(title.chars().count(), TITLE_CHARS_MAX);
        } else {
            let with_title = |feed: &str| feed.replace("<link>/1", "<title>T</title><link>/1");
            assert_eq!(
                thumbnail(&with_title(&near)).as_deref(),
                Some("https://news.example/i.png")
            );
            assert_eq!(thumbnail(&with_title(&far)), None);
        }
    }
}
