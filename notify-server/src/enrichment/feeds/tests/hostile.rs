//! What feeds may do to whoever reads them: each is told in its own word, at once. How much time and
//! memory it takes is measured on the whole server (`tests/tests/feeds`).

use super::{json_feed, read, rss, rss_item};
use crate::enrichment::feeds::ParseError;
use crate::enrichment::feeds::parse::{FEED_BYTES_MAX, ITEMS_MAX, ITEMS_READ_MAX};
use crate::enrichment::feeds::xml::{ATTRIBUTES_MAX, DEPTH_MAX, ELEMENTS_MAX, NAMESPACES_MAX};

fn many(count: usize, piece: impl Fn(usize) -> String) -> String {
    (0..count).map(piece).collect()
}

#[test]
fn what_is_exaggerated_is_refused_and_the_bound_itself_is_not() {
    let attributes = |count| rss(&format!("<x {}/>", many(count, |n| format!(" a{n}=''"))));
    let namespaces = |count| rss(&format!("<x {}/>", many(count, |n| format!(" xmlns:a{n}='u'"))));
    let nested = |count| {
        let inside = format!("{}{}", "<x>".repeat(count), "</x>".repeat(count));
        format!("<rss><channel>{inside}</channel></rss>")
    };
    let elements = |count| format!("<rss><channel>{}</channel></rss>", "<x/>".repeat(count));
    let items = |count| rss(&"<item><title>T</title><link>/1</link></item>".repeat(count));
    let json_items =
        |count: usize| json_feed(&vec![r#"{"title":"T","url":"/1"}"#; count].join(","));
    let cases = [
        (attributes(ATTRIBUTES_MAX), None),
        (attributes(ATTRIBUTES_MAX + 1), Some(ParseError::TooMany("attributes of one element"))),
        // Five are in scope already.
        (namespaces(NAMESPACES_MAX - 5), None),
        (namespaces(NAMESPACES_MAX - 4), Some(ParseError::TooMany("namespaces"))),
        (nested(DEPTH_MAX - 2), None),
        (nested(DEPTH_MAX - 1), Some(ParseError::TooDeep)),
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
fn the_first_items_are_kept_and_the_others_counted() {
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
fn a_document_type_is_refused_whatever_it_holds() {
    let laughs =
        many(10, |n| format!("<!ENTITY lol{} \"{}\">", n + 1, format!("&lol{n};").repeat(10)));
    let types = [
        "<!DOCTYPE rss>".to_owned(),
        r#"<!DOCTYPE rss PUBLIC "-//Netscape//DTD RSS 0.91//EN" "http://127.0.0.1/rss.dtd">"#
            .to_owned(),
        r#"<!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>"#.to_owned(),
        format!("<!DOCTYPE rss [<!ENTITY lol0 \"lol\">{laughs}]>"),
    ];
    for kind in types {
        let feed =
            format!("{kind}<rss><channel><item><title>&x;&lol9;</title></item></channel></rss>");
        assert_eq!(read(&feed), Err(ParseError::DocumentType), "{kind}");
    }
}

#[test]
fn deep_json_is_passed_over_without_a_stack() {
    let deep = format!("{}{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    let feed = json_feed(&format!(r#"{{"title": "T", "url": "/1", "x": {deep}}}"#));
    assert_eq!(read(&feed).unwrap().items.len(), 1);
}

#[test]
fn a_text_as_large_as_a_feed_may_be_is_cut() {
    let large = "ü<b>&amp;lt;".replace("<b>", "&lt;b&gt;");
    let text = large.repeat(FEED_BYTES_MAX / large.len());
    for inside in [
        format!("<description>{text}</description>"),
        format!("<content:encoded>{text}</content:encoded>"),
    ] {
        assert_eq!(read(&rss_item(&inside)).unwrap().items[0].title, "T");
    }
}
