//! The address of the client, behind proxies that are trusted to name it.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, header};

use crate::api::server::network;
use crate::config::Networks;

const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// Determines the addresses of clients.
#[derive(Debug)]
pub(super) struct ClientAddresses {
    trusted: Networks,
    has_warned: AtomicBool,
}

/// The origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Client {
    /// The nearest address that does not belong to a trusted proxy.
    nearest: IpAddr,
    /// Whether a trusted proxy named something that is not an address.
    is_hidden: bool,
}

impl ClientAddresses {
    pub(super) fn new(trusted: Networks) -> Self {
        Self { trusted, has_warned: AtomicBool::new(false) }
    }

    /// The client's address for rate limits. An IPv6 client is its /64, which belongs to one
    /// household.
    pub(super) fn client(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let client = client_of(headers, peer, &self.trusted);
        if client.is_hidden && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                proxy = %client.nearest,
                "a trusted proxy sends an X-Forwarded-For that is not an address: the clients behind \
                 it share the rate limits of one client"
            );
        }
        network(client.nearest)
    }
}

/// Reads `X-Forwarded-For` from its end, as far as trusted proxies wrote it.
fn client_of(headers: &HeaderMap, peer: IpAddr, trusted: &Networks) -> Client {
    let mut nearest = peer;
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    // As bytes: the part that the client wrote may not be text.
    let hops = lines.iter().rev().flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    // Empty elements of a list are ignored (RFC 9110 section 5.6.1).
    for hop in hops.map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty()) {
        if !trusted.contains(nearest.to_canonical()) {
            break;
        }
        // If a trusted proxy wrote something else than an address, the proxy itself counts: the
        // client may have invented everything before it.
        let Some(hop) = address(hop) else { return Client { nearest, is_hidden: true } };
        nearest = hop;
    }
    Client { nearest, is_hidden: false }
}

/// The address of one hop, in every form that proxies write: bare, with a port, in brackets, in
/// quotes, with an IPv6 zone. `unknown` and obfuscated names (RFC 7239 section 6) are not
/// addresses.
fn address(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let hop = hop.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(hop).trim();
    let bare = hop.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(hop);
    let with_port = || {
        let (host, port) = hop.rsplit_once(':')?;
        let host =
            host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).or_else(|| {
                // Without brackets, a colon can be part of an IPv6 address.
                (!host.contains(':')).then_some(host)
            })?;
        // RFC 7239 section 6: a port may be obfuscated too, such as `_x1`.
        (!port.is_empty()).then_some(host)
    };
    ip(bare).or_else(|| with_port().and_then(ip))
}

fn ip(text: &str) -> Option<IpAddr> {
    let without_zone = text.split_once('%').map_or(text, |(address, _)| address);
    without_zone.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRUSTED: &str = "10.0.0.0/8, 192.168.1.1, 2001:db8:ffff::/48";

    fn client(peer: &str, forwarded: &[&[u8]]) -> Client {
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(FORWARDED_FOR, http::HeaderValue::from_bytes(line).unwrap());
        }
        client_of(&headers, peer.parse().unwrap(), &TRUSTED.parse().unwrap())
    }

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let cases: [(&str, &[&[u8]], &str); 10] = [
            ("1.1.1.1", &[b"9.9.9.9"], "1.1.1.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &[b"9.9.9.9"], "9.9.9.9"),
            ("10.0.0.1", &[b"8.8.8.8, 9.9.9.9"], "9.9.9.9"),
            ("10.0.0.1", &[b"9.9.9.9, 192.168.1.1"], "9.9.9.9"),
            ("10.0.0.1", &[b"9.9.9.9, 192.168.1.2"], "192.168.1.2"),
            ("10.0.0.1", &[b"8.8.8.8", b"9.9.9.9"], "9.9.9.9"),
            ("10.0.0.1", &[b""], "10.0.0.1"),
            ("10.0.0.1", &[b"9.9.9.9, , "], "9.9.9.9"),
            ("10.0.0.1", &[b"\xff\xfe, 9.9.9.9"], "9.9.9.9"),
        ];
        for (peer, forwarded, expected) in cases {
            let nearest = expected.parse().unwrap();
            let expected = Client { nearest, is_hidden: false };
            assert_eq!(client(peer, forwarded), expected, "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn parses_every_form_of_a_hop() {
        let cases = [
            // Azure Application Gateway and IIS add the port.
            ("1.2.3.4:5678", "1.2.3.4"),
            ("10.0.0.9:1, 1.2.3.4:5678, 192.168.1.1:80", "1.2.3.4"),
            ("2001:db8::1", "2001:db8::1"),
            ("2001:db8::1:5678", "2001:db8::1:5678"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:5678", "2001:db8::1"),
            ("\"[2001:db8::1]:5678\"", "2001:db8::1"),
            ("\"1.2.3.4\"", "1.2.3.4"),
            ("\"1.2.3.4:_obfuscated\"", "1.2.3.4"),
            ("1.2.3.4:99999", "1.2.3.4"),
            ("fe80::1%eth0", "fe80::1"),
            ("[fe80::1%25eth0]:80", "fe80::1"),
            ("::ffff:1.2.3.4", "::ffff:1.2.3.4"),
            ("[::ffff:1.2.3.4]:80", "::ffff:1.2.3.4"),
            ("1.2.3.4, [2001:db8:ffff::1]:443", "1.2.3.4"),
        ];
        for (forwarded, expected) in cases {
            let nearest = expected.parse().unwrap();
            let expected = Client { nearest, is_hidden: false };
            assert_eq!(client("10.0.0.1", &[forwarded.as_bytes()]), expected, "{forwarded}");
        }
    }

    #[test]
    fn a_hop_that_is_not_an_address_counts_as_its_trusted_proxy() {
        for hop in [
            "unknown",
            "\"unknown\"",
            "_hidden",
            "_SEVKISEK",
            "junk",
            "1.2.3",
            "1.2.3.4:",
            ":80",
            "[1.2.3.4",
            "[2001:db8::1]x",
            "[]",
            "\"",
            "for=1.2.3.4",
        ] {
            let proxy = Client { nearest: "192.168.1.1".parse().unwrap(), is_hidden: true };
            // The client may have invented an address to the left of it.
            let forwarded = format!("9.9.9.9, {hop}, 192.168.1.1");
            assert_eq!(client("10.0.0.1", &[forwarded.as_bytes()]), proxy, "{hop}");
            // Without a trusted peer the header is ignored.
            let direct = Client { nearest: "1.1.1.1".parse().unwrap(), is_hidden: false };
            assert_eq!(client("1.1.1.1", &[forwarded.as_bytes()]), direct, "{hop}");
        }
    }

    #[test]
    fn ports_are_not_part_of_the_address() {
        let addresses = ClientAddresses::new(TRUSTED.parse().unwrap());
        let address = |forwarded: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(FORWARDED_FOR, http::HeaderValue::from_static(forwarded));
            addresses.client(&headers, IpAddr::from([10, 0, 0, 1])).to_string()
        };
        assert_eq!(address("1.2.3.4:1"), address("1.2.3.4:2"));
        assert_ne!(address("1.2.3.4:1"), address("1.2.3.5:1"));
        assert_eq!(address("[2001:db8:0:1:2:3:4:5]:80"), "2001:db8:0:1::");
        assert_eq!(address("[::ffff:1.2.3.4]:80"), "1.2.3.4");
    }
}
