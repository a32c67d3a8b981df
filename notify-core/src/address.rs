//! Judges urls by their host and port: whether they look reachable from the internet, or can never be.

use core::net::Ipv4Addr;

use url::{Host, Url};

/// Whether the host of a url may be public. The result depends only on the name or address in the url:
/// names are not resolved.
#[must_use]
pub fn is_public(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    match url.host() {
        Some(Host::Ipv4(address)) => is_public_v4(address),
        Some(Host::Ipv6(address)) => match address.to_ipv4_mapped() {
            Some(mapped) => is_public_v4(mapped),
            None => {
                !(address.is_loopback()
                    || address.is_unspecified()
                    || address.is_unique_local()
                    || address.is_unicast_link_local())
            }
        },
        Some(Host::Domain(host)) => {
            let host = host.trim_end_matches('.');
            let private_suffixes = [".localhost", ".local", ".internal", ".home.arpa"];
            host.contains('.') && !private_suffixes.iter().any(|suffix| host.ends_with(suffix))
        }
        None => false,
    }
}

/// Whether the host of a url is `invalid`, or below it. No such name exists (RFC 6761, section 6.4). A browser
/// uses one as the endpoint of a push subscription that was removed for good.
#[must_use]
pub fn is_below_invalid(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    let Some(Host::Domain(host)) = url.host() else { return false };
    let host = host.strip_suffix('.').unwrap_or(host);
    host.rsplit('.').next() == Some("invalid")
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_private()
        || address.is_link_local())
}

/// Whether a url has a port other than 80 and 443.
#[must_use]
pub fn has_unusual_port(url: &str) -> bool {
    let port = Url::parse(url).ok().and_then(|url| url.port());
    port.is_some_and(|port| !matches!(port, 80 | 443))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_exist_are_recognised() {
        for (url, expected) in [
            ("https://permanently-removed.invalid/fcm/send/x", true),
            ("https://PERMANENTLY-REMOVED.INVALID/", true),
            ("https://a.b.invalid.:8443/x", true),
            ("https://invalid/x", true),
            ("https://invalid.example/x", false),
            ("https://notinvalid/x", false),
            ("https://push.example/x.invalid", false),
            ("https://user@push.example/.invalid", false),
            ("no url", false),
        ] {
            assert_eq!(is_below_invalid(url), expected, "{url}");
        }
    }

    #[test]
    fn unusual_ports_are_recognised() {
        for (url, is_unusual) in [
            ("https://a.example/rss", false),
            ("https://a.example:443/rss", false),
            ("http://a.example:80", false),
            ("https://a.example/rss?at=9:00", false),
            ("https://a.example:8443/rss", true),
            ("http://[2001:db8::1]/rss", false),
            ("http://[2001:db8::1]:8080/rss", true),
        ] {
            assert_eq!(has_unusual_port(url), is_unusual, "{url}");
        }
    }
}
