//! Urls as messages carry them. A request may have a url with blanks or letters beyond ASCII, as people
//! write them. A URI has neither (RFC 3986), and some programs that get such a url make none of it.

use std::fmt::Write as _;

use url::Url;

/// The characters of visible ASCII that a URI has only in percent-encoding, apart from brackets, which
/// stand around an IPv6 address.
const EXCLUDED: &str = "\"<>\\^`{|}";

/// A url as a URI: what a URI cannot hold is percent-encoded, and an international host name is in its ASCII
/// form. What is encoded already stays as it is, and so does a url that is a URI.
///
/// ```
/// use notify_core::wire_url;
///
/// let written = "https://käse.example/käse kuchen?q=ä%20b";
/// assert_eq!(wire_url(written), "https://xn--kse-qla.example/k%C3%A4se%20kuchen?q=%C3%A4%20b");
/// assert_eq!(wire_url("https://e.org"), "https://e.org");
/// ```
#[must_use]
pub fn wire_url(url: &str) -> String {
    let mut encoded = String::with_capacity(url.len());
    let rest = match authority(url) {
        Some((before, authority, rest)) => {
            encoded.push_str(before);
            let (userinfo, host) = match authority.rsplit_once('@') {
                Some((userinfo, host)) => (Some(userinfo), host),
                None => (None, authority),
            };
            if let Some(userinfo) = userinfo {
                push(&mut encoded, userinfo);
                encoded.push('@');
            }
            push_host(&mut encoded, url, host);
            rest
        }
        None => url,
    };
    let (before_fragment, fragment) = match rest.split_once('#') {
        Some((before, fragment)) => (before, Some(fragment)),
        None => (rest, None),
    };
    push(&mut encoded, before_fragment);
    if let Some(fragment) = fragment {
        encoded.push('#');
        push(&mut encoded, fragment);
    }
    encoded
}

/// The part up to the authority, the authority, and the rest; `None` if there is no authority.
fn authority(url: &str) -> Option<(&str, &str, &str)> {
    let start = url.find(':')? + 3;
    let (before, behind) = url.split_at_checked(start)?;
    if !before.ends_with("://") {
        return None;
    }
    let end = behind.find(['/', '?', '#', '\\']).unwrap_or(behind.len());
    let (authority, rest) = behind.split_at(end);
    Some((before, authority, rest))
}

/// Appends a host with its port.
fn push_host(encoded: &mut String, url: &str, host: &str) {
    if host.bytes().all(|byte| byte.is_ascii_graphic() && !EXCLUDED.contains(char::from(byte))) {
        encoded.push_str(host);
        return;
    }
    // The parser converts the names of schemes that it knows, such as `https`.
    let parsed = Url::parse(url).ok().filter(Url::is_special);
    match parsed.as_ref().and_then(Url::host_str) {
        Some(ascii) => {
            encoded.push_str(ascii);
            if let Some((_, port)) = host.rsplit_once(':')
                && port.bytes().all(|byte| byte.is_ascii_digit())
            {
                encoded.push(':');
                encoded.push_str(port);
            }
        }
        None => push(encoded, host),
    }
}

/// Appends a part of a url other than its host.
fn push(encoded: &mut String, part: &str) {
    let bytes = part.as_bytes();
    for (at, character) in part.char_indices() {
        let is_kept = match character {
            '%' => {
                let is_digit = |offset| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
                is_digit(1) && is_digit(2)
            }
            '[' | ']' | '#' => false,
            character => character.is_ascii_graphic() && !EXCLUDED.contains(character),
        };
        if is_kept {
            encoded.push(character);
            continue;
        }
        for byte in character.encode_utf8(&mut [0; 4]).bytes() {
            write!(encoded, "%{byte:02X}").expect("a text can grow");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uri_cannot_hold_is_percent_encoded() {
        for (url, expected) in [
            ("https://e.org/käse kuchen?q=ä b", "https://e.org/k%C3%A4se%20kuchen?q=%C3%A4%20b"),
            ("https://e.org/a b/c.png", "https://e.org/a%20b/c.png"),
            ("https://e.org/100%", "https://e.org/100%25"),
            ("https://e.org/%zz%2", "https://e.org/%25zz%252"),
            ("https://e.org/?a[]=1", "https://e.org/?a%5B%5D=1"),
            ("https://e.org/?q={x}|\"y\"", "https://e.org/?q=%7Bx%7D%7C%22y%22"),
            ("https://e.org/#a#b ü", "https://e.org/#a%23b%20%C3%BC"),
            ("https://e.org/🎉", "https://e.org/%F0%9F%8E%89"),
            ("https://e.org/\u{a0}\u{200b}", "https://e.org/%C2%A0%E2%80%8B"),
            ("https://e.org/a\\b", "https://e.org/a%5Cb"),
            ("https://käse.example", "https://xn--kse-qla.example"),
            ("https://Käse.example:8443/ä", "https://xn--kse-qla.example:8443/%C3%A4"),
            ("https://jörg:pä ss@e.org/", "https://j%C3%B6rg:p%C3%A4%20ss@e.org/"),
            ("myapp://küche/1 2", "myapp://k%C3%BCche/1%202"),
            ("myapp:order 7", "myapp:order%207"),
            (
                "mailto:a@e.org?subject=Grüße an alle",
                "mailto:a@e.org?subject=Gr%C3%BC%C3%9Fe%20an%20alle",
            ),
        ] {
            assert_eq!(wire_url(url), expected, "{url}");
            assert_eq!(wire_url(expected), expected, "encoded once");
            assert!(Url::parse(expected).is_ok(), "{expected}");
        }
    }

    #[test]
    fn a_uri_stays_as_it_is() {
        for url in [
            "https://e.org",
            "HTTPS://E.org/A?b=c&d='e'#f",
            "https://user:p%40ss@e.org:443/%20%C3%A4?q=a+b;c=(d)*!$,~",
            "https://[2001:db8::1]:8443/x",
            "https://xn--kse-qla.example/",
            "myapp://kitchen?id=1",
            "myapp:kitchen",
            "tel:+43123456",
            "geo:48.2,16.4",
            "intent://x#Intent;scheme=a;end",
        ] {
            assert_eq!(wire_url(url), url);
        }
    }
}
