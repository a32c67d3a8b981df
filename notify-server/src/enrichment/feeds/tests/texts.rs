//! Titles as plain text for people.

use super::{read, rss};

#[test]
fn titles_are_stripped_of_markup_and_entities() {
    let cases = [
        ("Plain", Some("Plain")),
        ("  two\n  words\t", Some("two words")),
        ("<![CDATA[A <b>bold</b> word]]>", Some("A bold word")),
        ("A &lt;b&gt;bold&lt;/b&gt; word", Some("A bold word")),
        ("Q&amp;A", Some("Q&A")),
        // Entities are decoded at most twice.
        ("Q&amp;amp;A", Some("Q&A")),
        ("Q&amp;amp;amp;A", Some("Q&amp;A")),
        ("&amp;amp;lt;script&amp;amp;gt;", Some("&lt;script&gt;")),
        ("caf&#233; &amp;#x2013; &amp;eacute;t&amp;eacute;", Some("café – été")),
        // XML does not define these entities, but feeds use them.
        ("caf&eacute;&nbsp;&hellip;", Some("café …")),
        ("AT&T &unknown; &;", Some("AT&T &unknown; &;")),
        ("1 < 2", Some("1 < 2")),
        ("I <3 it <- so", Some("I <3 it <- so")),
        ("&lt;![CDATA[Escaped &lt;b&gt;twice&lt;/b&gt;]]&gt;", Some("Escaped twice")),
        ("<![CDATA[1 < 2 > 0]]>", Some("1 < 2 > 0")),
        ("<![CDATA[it's <i title='a>b'>his</i> isn't it]]>", Some("it's his isn't it")),
        ("<![CDATA[<p>One</p><p>Two</p>]]>", Some("One Two")),
        ("<![CDATA[#<span>one</span>, <A HREF='/'>tw</A>o<br>three]]>", Some("#one, two three")),
        ("<![CDATA[A<script>alert('<b>')</script>B]]>", Some("A B")),
        ("<![CDATA[A<!-- <b> hidden -->B]]>", Some("A B")),
        ("<![CDATA[A<b unclosed]]>", Some("A<b unclosed")),
        ("&#0;&#1;A", Some("&#0; A")),
        ("<![CDATA[<img src=x>]]>", None),
        ("", None),
    ];
    for (title, expected) in cases {
        let feed = rss(&format!("<item><title>{title}</title><link>/1</link></item>"));
        let found = read(&feed).ok().and_then(|mut feed| feed.items.pop()).map(|item| item.title);
        assert_eq!(found.as_deref(), expected, "{title}");
    }
}

#[test]
fn long_title_is_cut_at_a_character_boundary() {
    for (title, expected) in [
        ("ü".repeat(300), "ü".repeat(300)),
        ("ü".repeat(301), "ü".repeat(299) + "…"),
        ("ü ".repeat(300), "ü ".repeat(149) + "ü…"),
        ("ü".repeat(300) + " a", "ü".repeat(299) + "…"),
        ("ü".repeat(298) + " ü a", "ü".repeat(298) + " …"),
    ] {
        let feed = rss(&format!("<item><title>{title}</title><link>/1</link></item>"));
        let found = read(&feed).unwrap().items.remove(0).title;
        assert!(found.chars().count() <= 300, "{}", found.chars().count());
        assert_eq!(found, expected);
    }
}
