//! Every place of a thumbnail takes precedence over every place that is ranked after it.

use super::{atom_entry, json_item, rss_item, thumbnail};

/// Places of thumbnails in RSS, the best first.
const RSS: [(&str, &str); 6] = [
    ("thumbnail", r#"<media:thumbnail url="https://i.example/thumbnail"/>"#),
    ("content", r#"<media:content url="https://i.example/content" medium="image" width="600"/>"#),
    ("enclosure", r#"<enclosure url="https://i.example/enclosure" type="image/png" length="1"/>"#),
    ("itunes", r#"<itunes:image href="https://i.example/itunes"/>"#),
    (
        "text",
        "<content:encoded><![CDATA[<p><img alt='a > b' src='https://i.example/text'></p>]]>\
         </content:encoded>",
    ),
    ("wide", r#"<media:content url="https://i.example/wide" type="image/jpeg" width="1201"/>"#),
];

/// Places of thumbnails in Atom, the best first.
const ATOM: [(&str, &str); 3] = [
    (
        "thumbnail",
        r#"<media:group><media:thumbnail url="https://i.example/thumbnail"/></media:group>"#,
    ),
    ("enclosure", r#"<link rel="enclosure" type="image/png" href="https://i.example/enclosure"/>"#),
    ("text", r#"<content type="html">&lt;img src="https://i.example/text"></content>"#),
];

/// Places of thumbnails in JSON Feed, the best first.
const JSON: [(&str, &str); 3] = [
    ("image", r#""image": "https://i.example/image""#),
    ("banner", r#""banner_image": "https://i.example/banner""#),
    (
        "attachment",
        r#""attachments": [{"url": "https://i.example/a.mp3", "mime_type": "audio/mpeg"},
            {"url": "https://i.example/attachment", "mime_type": "image/png"}]"#,
    ),
];

/// Every place takes precedence over the places after it, in any order of the elements.
fn check(places: &[(&str, &str)], separator: &str, item: impl Fn(&str) -> String) {
    for first in 0..places.len() {
        let (name, _) = places[first];
        let expected = Some(format!("https://i.example/{name}"));
        let mut parts: Vec<_> = places[first..].iter().map(|(_, part)| *part).collect();
        assert_eq!(thumbnail(&item(&parts.join(separator))), expected, "{name}");
        parts.reverse();
        assert_eq!(thumbnail(&item(&parts.join(separator))), expected, "{name}, reversed");
    }
}

#[test]
fn picture_sources_are_tried_in_order() {
    check(&RSS, "", rss_item);
    check(&ATOM, "", atom_entry);
    check(&JSON, ",", json_item);
}

#[test]
fn rss_sources_count_only_with_a_picture() {
    let cases = [
        // As in feeds of the BBC, which contain only a thumbnail.
        (r#"<media:thumbnail width="240" height="135" url="https://i.example/1"/>"#, Some("1")),
        // Of several sizes, the widest up to the limit is used.
        (
            r#"<media:content url="https://i.example/1" type="image/jpeg" width="140"/>
               <media:content url="https://i.example/2" type="image/jpeg" width="1200"/>
               <media:content url="https://i.example/3" type="image/jpeg" width="1201"/>"#,
            Some("2"),
        ),
        (
            r#"<media:content url="https://i.example/1" medium="image"/>
               <media:content url="https://i.example/2" medium="image" width="300"/>"#,
            Some("2"),
        ),
        (
            r#"<media:content url="https://i.example/1" medium="image" width="3000"/>
               <media:content url="https://i.example/2" medium="image" width="2000"/>"#,
            Some("2"),
        ),
        // A picture in a group, and a thumbnail inside a `media:content`.
        (
            r#"<media:group><media:content url="https://i.example/v" type="video/mp4"/>
               <media:content url="https://i.example/1" type="image/webp"/></media:group>"#,
            Some("1"),
        ),
        (
            r#"<media:content url="https://i.example/v" type="video/mp4">
               <media:thumbnail url="https://i.example/1"/></media:content>"#,
            Some("1"),
        ),
        // These are not pictures.
        (r#"<media:content url="https://i.example/v" medium="video"/>"#, None),
        (r#"<media:content url="https://i.example/v" duration="60"/>"#, None),
        (r#"<media:content url="https://i.example/v.mp4"/>"#, None),
        (r#"<enclosure url="https://i.example/a.mp3" type="audio/mpeg"/>"#, None),
        (r#"<enclosure url="https://i.example/v"/>"#, None),
        // Without a type, the extension decides.
        (r#"<media:content url="/a.JPG?w=140"/>"#, Some("https://news.example/a.JPG?w=140")),
        (r#"<enclosure url="/a.jpg"/>"#, Some("https://news.example/a.jpg")),
        // A url of an unclear kind is used only if there is no certain picture.
        (r#"<media:content url="https://i.example/v"/>"#, Some("v")),
        (
            r#"<media:content url="https://i.example/v"/>
               <description>&lt;img src='https://i.example/1'></description>"#,
            Some("1"),
        ),
        // An avatar of the author.
        (
            r#"<media:content url="https://gravatar.com/avatar/0" medium="image"/>
               <media:content url="https://i.example/1" medium="image"/>"#,
            Some("1"),
        ),
        (
            r#"<media:thumbnail url="https://i.example/face" width="30" height="30"/>
               <content:encoded>&lt;img src='https://i.example/1'></content:encoded>"#,
            Some("1"),
        ),
        (r#"<media:thumbnail url="data:image/png;base64,AAAA"/>"#, None),
        (r#"<media:thumbnail url="javascript:alert(1)"/>"#, None),
        // If the url of an element is not usable, the next place is used.
        (
            r#"<media:thumbnail url=""/><enclosure url="/1" type="image/gif"/>"#,
            Some("https://news.example/1"),
        ),
        (r#"<media:thumbnail url="//i.example/1"/>"#, Some("1")),
        // An `image` as in RSS channels, and an `image` with the url as text.
        ("<image><url>https://i.example/1</url><link>https://i.example/</link></image>", Some("1")),
        ("<image> https://i.example/1 </image>", Some("1")),
        ("<source url='https://i.example/1'>x</source>", None),
    ];
    check_items(&cases);
}

#[test]
fn rss_text_provides_its_first_picture() {
    let cases = [
        // The first usable url in the text.
        (
            r#"<content:encoded>&lt;img src="data:image/gif;base64,R0"&gt;
               &lt;IMG class=x SRC=/a?b=1&amp;amp;c=2&gt;</content:encoded>"#,
            Some("https://news.example/a?b=1&c=2"),
        ),
        ("<content:encoded>&lt;image src='/1'></content:encoded>", None),
        (
            "<content:encoded>&lt;img data-src='/2'></content:encoded>",
            Some("https://news.example/2"),
        ),
        ("<content:encoded>&lt;img src='/1</content:encoded>", Some("https://news.example/1")),
        // The picture of the description is used only without a picture in the full text.
        ("<description>&lt;img src='https://i.example/1'></description>", Some("1")),
        ("<description><p><img src='https://i.example/1'/></p></description>", Some("1")),
        (
            "<description>&lt;img src='https://i.example/2'></description>
             <content:encoded>&lt;img src='https://i.example/1'></content:encoded>",
            Some("1"),
        ),
    ];
    check_items(&cases);
}

/// Contents of RSS items, and their expected thumbnails. A single character is a path on `i.example`.
fn check_items(cases: &[(&str, Option<&str>)]) {
    for (inside, expected) in cases {
        let expected = expected.map(|name| match name.len() {
            1 => format!("https://i.example/{name}"),
            _ => name.to_owned(),
        });
        let found = thumbnail(&rss_item(inside));
        assert_eq!(found, expected, "{inside}");
    }
}

#[test]
fn atom_pictures_come_from_html_and_xhtml() {
    let cases = [
        (
            r#"<content type="xhtml"><div xmlns="http://www.w3.org/1999/xhtml"><p>
               <img src="/1"/></p></div></content>"#,
            Some("https://news.example/1"),
        ),
        (r#"<summary type="html">&lt;img src="/1"></summary>"#, Some("https://news.example/1")),
        // Plain text that looks like markup contains no picture.
        (r#"<content type="text">&lt;img src="/1"></content>"#, None),
        (r#"<link rel="enclosure" type="video/mp4" href="/1"/>"#, None),
    ];
    for (inside, expected) in cases {
        assert_eq!(thumbnail(&atom_entry(inside)).as_deref(), expected, "{inside}");
    }
}
