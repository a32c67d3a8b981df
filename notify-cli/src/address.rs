//! What a url says of the place of its host.

use std::net::IpAddr;

/// Whether any machine of the internet may find the host of a url, as far as its name or address tells.
pub(crate) fn is_public(url: &str) -> bool {
    let host = host_of(url);
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(IpAddr::V4(address)) => {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_private()
                || address.is_link_local())
        }
        Ok(IpAddr::V6(address)) => {
            !(address.is_loopback()
                || address.is_unspecified()
                || address.is_unique_local()
                || address.is_unicast_link_local())
        }
        Err(_) => {
            let host = host.trim_end_matches('.');
            let ends = [".localhost", ".local", ".internal", ".home.arpa"];
            host.contains('.') && !ends.iter().any(|end| host.ends_with(end))
        }
    }
}

/// Whether a url names another port than those of the web.
pub(crate) fn has_other_port(url: &str) -> bool {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let behind_host = authority.rsplit_once(']').map_or(authority, |(_, behind)| behind);
    let port = behind_host.rsplit_once(':').map(|(_, port)| port);
    port.is_some_and(|port| !matches!(port, "" | "80" | "443"))
}

fn host_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split('/').next().unwrap_or_default();
    match authority.strip_prefix('[').and_then(|literal| literal.split_once(']')) {
        Some((literal, _)) => literal,
        None => authority.split(':').next().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_told_from_the_rest_of_a_url() {
        for (url, is_other) in [
            ("https://a.example/rss", false),
            ("https://a.example:443/rss", false),
            ("http://a.example:80", false),
            ("https://a.example/rss?at=9:00", false),
            ("https://a.example:8443/rss", true),
            ("http://[2001:db8::1]/rss", false),
            ("http://[2001:db8::1]:8080/rss", true),
        ] {
            assert_eq!(has_other_port(url), is_other, "{url}");
        }
    }
}
