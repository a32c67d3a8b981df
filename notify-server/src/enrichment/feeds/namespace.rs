//! The vocabularies of feeds, by the many names that feeds give them.

/// A vocabulary that feeds use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ns {
    /// None, or one of the names that RSS goes by.
    Rss,
    Atom,
    Media,
    /// Apple's vocabulary of podcasts, and those that copy its elements.
    Itunes,
    Content,
    DublinCore,
    FeedBurner,
    Xhtml,
    Other,
}

/// The vocabulary that a declaration binds a prefix to. An address that is not known leaves a known
/// prefix its usual meaning: feeds misspell addresses far more often than they reuse such a prefix.
pub(super) fn declared(prefix: &str, address: &str) -> Ns {
    let ns = by_address(address);
    if ns == Ns::Other && !prefix.is_empty() { by_prefix(prefix) } else { ns }
}

/// The usual meaning of a prefix, declared or not.
pub(super) fn by_prefix(prefix: &str) -> Ns {
    match prefix {
        "" | "rss" => Ns::Rss,
        // The second is what .NET's `SyndicationFeed` writes.
        "atom" | "a10" => Ns::Atom,
        "media" => Ns::Media,
        "itunes" | "googleplay" => Ns::Itunes,
        "content" => Ns::Content,
        "dc" | "dcterms" => Ns::DublinCore,
        "feedburner" => Ns::FeedBurner,
        "xhtml" => Ns::Xhtml,
        _ => Ns::Other,
    }
}

/// Addresses are compared without scheme, `www`, case and final slash.
fn by_address(address: &str) -> Ns {
    let address = address.trim().to_ascii_lowercase();
    let address =
        address.strip_prefix("https:").or(address.strip_prefix("http:")).unwrap_or(&address);
    let address = address.trim_start_matches('/').trim_end_matches(['/', '#']);
    let address = address.strip_prefix("www.").unwrap_or(address);
    match address {
        ""
        | "purl.org/rss/1.0"
        | "purl.org/rss/2.0"
        | "purl.org/net/rss1.1"
        | "purl.org/rss/1.0/modules/rss091"
        | "my.netscape.com/rdf/simple/0.9"
        | "channel.netscape.com/rdf/simple/0.9"
        | "my.netscape.com/publish/formats/rss-0.91.dtd"
        | "backend.userland.com/rss"
        | "backend.userland.com/rss091"
        | "backend.userland.com/rss092"
        | "backend.userland.com/rss2"
        | "blogs.law.harvard.edu/tech/rss"
        | "cyber.law.harvard.edu/rss"
        | "cyber.law.harvard.edu/rss/rss.html"
        | "rssboard.org/rss-specification" => Ns::Rss,
        "w3.org/2005/atom" | "purl.org/atom/ns" | "purl.org/atom" => Ns::Atom,
        "purl.org/rss/1.0/modules/content" => Ns::Content,
        "google.com/schemas/play-podcasts/1.0" => Ns::Itunes,
        "purl.org/dc/elements/1.1" | "purl.org/dc/elements/1.0" | "purl.org/dc/terms" => {
            Ns::DublinCore
        }
        "rssnamespace.org/feedburner/ext/1.0" => Ns::FeedBurner,
        "w3.org/1999/xhtml" => Ns::Xhtml,
        // Of several hosts: Yahoo's with and without `search`, and the RSS Advisory Board's.
        _ => match address.rsplit('/').next() {
            Some("mrss" | "media-rss") => Ns::Media,
            Some("podcast-1.0.dtd") => Ns::Itunes,
            _ => Ns::Other,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vocabulary_has_many_names() {
        let cases = [
            ("media", "http://search.yahoo.com/mrss/", Ns::Media),
            ("m", "https://search.yahoo.com/mrss", Ns::Media),
            ("m", "http://www.rssboard.org/media-rss", Ns::Media),
            ("m", "http://tools.search.yahoo.com/mrss/", Ns::Media),
            ("media", "http://search.yahoo.com/mrss/\"", Ns::Media),
            ("i", "http://www.itunes.com/DTDs/Podcast-1.0.dtd", Ns::Itunes),
            ("googleplay", "https://www.google.com/schemas/play-podcasts/1.0/", Ns::Itunes),
            ("", "http://www.w3.org/2005/Atom", Ns::Atom),
            ("", "http://www.w3.org/2005/Atom/", Ns::Atom),
            ("", "http://purl.org/atom/ns#", Ns::Atom),
            ("a10", "http://www.w3.org/2005/Atom", Ns::Atom),
            ("", "http://my.netscape.com/rdf/simple/0.9/", Ns::Rss),
            ("", "http://purl.org/rss/1.0/", Ns::Rss),
            ("", "", Ns::Rss),
            ("d", "http://purl.org/dc/terms/", Ns::DublinCore),
            ("", "https://news.example/own", Ns::Other),
            ("x", "https://news.example/own", Ns::Other),
        ];
        for (prefix, address, expected) in cases {
            assert_eq!(declared(prefix, address), expected, "{prefix} {address}");
        }
    }
}
