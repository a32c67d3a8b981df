//! Checks whether the host and the port of a url look reachable from the internet.

use std::net::Ipv4Addr;

use url::{Host, Url};

/// Whether the host of a url may be public. The result depends only on the name or address in the url:
/// names are not resolved.
pub(crate) fn is_public(url: &str) -> bool {
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

fn is_public_v4(address: Ipv4Addr) -> bool {
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_private()
        || address.is_link_local())
}

/// Whether a url has a port other than 80 and 443.
pub(crate) fn has_unusual_port(url: &str) -> bool {
    let port = Url::parse(url).ok().and_then(|url| url.port());
    port.is_some_and(|port| !matches!(port, 80 | 443))
}

#[cfg(test)]
mod tests {
    use super::*;

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
