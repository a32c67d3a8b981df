//! Origins and hosts as an administrator writes them.

use url::{Host, Origin, Url};

use super::{HOST_CHARS_MAX, ORIGIN_CHARS_MAX};

/// The origin as browsers write it in `Origin` (RFC 6454, section 6.2). Plain `http` is for this
/// machine alone: nowhere else do browsers subscribe without TLS.
pub(super) fn origin(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be an origin, such as https://shop.example";
    if text.chars().nth(ORIGIN_CHARS_MAX).is_some() {
        return Err(RULE);
    }
    if text == "*" || text == "null" {
        return Err("must be one origin: there is no wildcard");
    }
    let url = Url::parse(text).map_err(|_| RULE)?;
    let is_bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
    if !is_bare || !url.username().is_empty() || url.password().is_some() {
        return Err(RULE);
    }
    let is_local = match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match (url.scheme(), url.origin()) {
        ("https", origin @ Origin::Tuple(..)) => Ok(origin.ascii_serialization()),
        ("http", origin @ Origin::Tuple(..)) if is_local => Ok(origin.ascii_serialization()),
        ("http", _) => Err("must be https, but for localhost"),
        _ => Err(RULE),
    }
}

/// The host of a push service in lower case, `*.` before those of a whole domain.
pub(super) fn push_service(text: &str) -> Result<String, &'static str> {
    const RULE: &str = "must be a host, such as push.example or *.push.example";
    let host = text.to_ascii_lowercase();
    let name = host.strip_prefix("*.").unwrap_or(&host);
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-.[]:".contains(&byte);
    let fits = !name.is_empty() && name.len() <= HOST_CHARS_MAX && name.bytes().all(is_in_name);
    // What is read as something else than it was written, such as a port, is no host.
    let read = Host::parse(name).map_err(|_| RULE)?;
    if fits && read.to_string() == name { Ok(host) } else { Err(RULE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_kept_as_browsers_write_it() {
        for (text, expected) in [
            ("https://shop.example", Some("https://shop.example")),
            ("https://Shop.Example:443/", Some("https://shop.example")),
            ("https://shop.example:8443", Some("https://shop.example:8443")),
            ("https://bücher.example", Some("https://xn--bcher-kva.example")),
            ("http://localhost:8000", Some("http://localhost:8000")),
            ("http://app.localhost", Some("http://app.localhost")),
            ("http://127.0.0.1:5", Some("http://127.0.0.1:5")),
            ("http://[::1]:5", Some("http://[::1]:5")),
            ("http://shop.example", None),
            ("http://localhost.shop.example", None),
            ("https://shop.example/path", None),
            ("https://shop.example?q", None),
            ("https://me@shop.example", None),
            ("https://*.shop.example/x", None),
            ("ftp://shop.example", None),
            ("file:///tmp", None),
            ("shop.example", None),
            ("null", None),
            ("*", None),
            ("", None),
        ] {
            assert_eq!(origin(text).ok().as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_push_service_is_a_host() {
        for (text, expected) in [
            ("FCM.googleapis.com", Some("fcm.googleapis.com")),
            ("*.push.apple.com", Some("*.push.apple.com")),
            ("127.0.0.1", Some("127.0.0.1")),
            ("[::1]", Some("[::1]")),
            ("push.example:443", None),
            ("https://push.example", None),
            ("*", None),
            ("*.", None),
            ("a.*.example", None),
            ("2130706433", None),
            ("", None),
        ] {
            assert_eq!(push_service(text).ok().as_deref(), expected, "{text}");
        }
    }
}
