//! Rate limits: authentication failures and votes by client address, all other requests by API key. Failing
//! requests never slow down requests with a valid key. The calls of devices have limits of their own
//! (`device_calls.rs`).
//!
//! [`ClientAddresses`] finds the address of a client behind trusted proxies.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{HeaderMap, Method, header};
use notify_core::KeyId;

use crate::api::caller::Caller;
use crate::api::error::ApiError;
use crate::api::handlers::poll_page;
use crate::api::limiter::Limiter;
use crate::api::router::RouteMatch;
use crate::config::{Config, Networks};

/// The most wrong keys per minute from one client address at the sign-in of the console. A person types or
/// pastes a key; nothing is locked out for longer.
const SIGN_IN_FAILURES_PER_MINUTE: u32 = 10;

/// All rate limits of the API.
pub(super) struct RateLimits {
    requests_by_key: Limiter<KeyId>,
    auth_failures: Limiter<IpAddr>,
    sign_in_failures: Limiter<IpAddr>,
    votes: Limiter<IpAddr>,
}

impl RateLimits {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            requests_by_key: Limiter::per_second(config.rate_limit),
            auth_failures: Limiter::per_minute(config.auth_failures_per_minute),
            sign_in_failures: Limiter::per_minute(SIGN_IN_FAILURES_PER_MINUTE),
            votes: Limiter::per_minute(config.poll_votes_per_minute),
        }
    }

    /// Counts a request.
    ///
    /// # Errors
    /// 429 when the caller exceeds its limit.
    pub(super) fn check(
        &self,
        caller: &Caller,
        route: &RouteMatch<'_>,
        client: IpAddr,
    ) -> Result<(), ApiError> {
        match caller {
            Caller::App(access) => self.requests_by_key.check(&access.key),
            Caller::Anonymous if route.is_endpoint(&Method::POST, poll_page::VOTES) => {
                self.votes.check(&client)
            }
            Caller::Browser(_)
            | Caller::DeviceApp(_)
            | Caller::Anonymous
            | Caller::Admin(_)
            | Caller::Console(_)
            | Caller::Platform(_) => Ok(()),
        }
    }

    /// Counts a request with missing or wrong credentials.
    ///
    /// # Errors
    /// 429 when the client has sent too many requests of this kind.
    pub(super) fn count_auth_failure(&self, client: IpAddr) -> Result<(), ApiError> {
        self.auth_failures.check(&client)
    }

    /// Counts a wrong key at the sign-in of the console.
    ///
    /// # Errors
    /// 429 when the client has sent too many wrong keys.
    pub(super) fn count_sign_in_failure(&self, client: IpAddr) -> Result<(), ApiError> {
        self.sign_in_failures.check(&client)
    }

    /// Removes keys and clients that are no longer limited.
    pub(super) fn prune(&self) {
        self.requests_by_key.prune();
        self.auth_failures.prune();
        self.sign_in_failures.prune();
        self.votes.prune();
    }
}

const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// Determines the addresses of clients, behind proxies that are trusted to name them.
#[derive(Debug)]
pub(super) struct ClientAddresses {
    trusted: Networks,
    has_warned: AtomicBool,
}

/// The client that a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Client {
    /// The nearest address that does not belong to a trusted proxy. If `is_hidden`, the address of
    /// the proxy itself.
    address: IpAddr,
    /// Whether a trusted proxy sent something that is not an address.
    is_hidden: bool,
}

impl ClientAddresses {
    pub(super) fn new(trusted: Networks) -> Self {
        Self { trusted, has_warned: AtomicBool::new(false) }
    }

    /// The address of the client, and that of the proxy which forwarded the request if it is not trusted. An
    /// IPv4 address that is mapped to IPv6 is returned as IPv4.
    pub(super) fn find(&self, headers: &HeaderMap, peer: IpAddr) -> (IpAddr, Option<IpAddr>) {
        (self.address(headers, peer), self.untrusted_proxy(headers, peer))
    }

    fn address(&self, headers: &HeaderMap, peer: IpAddr) -> IpAddr {
        let client = client_of(headers, peer, &self.trusted);
        if client.is_hidden && !self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                proxy = %client.address,
                "a trusted proxy sends an X-Forwarded-For that is not an address: the clients behind \
                 it share the rate limits of one client"
            );
        }
        client.address.to_canonical()
    }

    /// The other end of the connection, if it says that it forwards a request and is not trusted to.
    fn untrusted_proxy(&self, headers: &HeaderMap, peer: IpAddr) -> Option<IpAddr> {
        let peer = peer.to_canonical();
        (headers.contains_key(FORWARDED_FOR) && !self.trusted.contains(peer)).then_some(peer)
    }
}

/// The client of a request. Each proxy appends the address of its peer to `X-Forwarded-For`. The header is
/// read from its end, while the address read so far is that of a trusted proxy.
fn client_of(headers: &HeaderMap, peer: IpAddr, trusted: &Networks) -> Client {
    let mut address = peer;
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    // The lines are read as bytes, because the part that the client wrote may not be text.
    let hops = lines.iter().rev().flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b','));
    // Empty elements of a list are ignored (RFC 9110 section 5.6.1).
    for hop in hops.map(<[u8]>::trim_ascii).filter(|hop| !hop.is_empty()) {
        if !trusted.contains(address.to_canonical()) {
            break;
        }
        // If a trusted proxy wrote something else than an address, the proxy itself counts: the
        // client may have invented everything before it.
        let Some(next) = parse_hop(hop) else { return Client { address, is_hidden: true } };
        address = next;
    }
    Client { address, is_hidden: false }
}

/// The address of one hop. Proxies write it in many forms: bare, with a port, in brackets, in
/// quotes, with an IPv6 zone. `unknown` and obfuscated names (RFC 7239 section 6) are not
/// addresses.
fn parse_hop(hop: &[u8]) -> Option<IpAddr> {
    let hop = std::str::from_utf8(hop).ok()?;
    let hop = hop.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(hop).trim();
    let bare = in_brackets(hop).unwrap_or(hop);
    if let Some(address) = parse_ip(bare) {
        return Some(address);
    }
    parse_ip(without_port(hop)?)
}

/// The host of `host:port`; `None` if the hop does not have this form.
fn without_port(hop: &str) -> Option<&str> {
    let (host, port) = hop.rsplit_once(':')?;
    // RFC 7239 section 6: a port may be obfuscated too, such as `_x1`.
    if port.is_empty() {
        return None;
    }
    match in_brackets(host) {
        Some(host) => Some(host),
        // Without brackets, the last colon can be part of an IPv6 address.
        None if host.contains(':') => None,
        None => Some(host),
    }
}

fn in_brackets(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

fn parse_ip(text: &str) -> Option<IpAddr> {
    let without_zone = text.split_once('%').map_or(text, |(address, _)| address);
    without_zone.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::network::network;

    fn limits(per_minute: u32) -> RateLimits {
        RateLimits {
            requests_by_key: Limiter::per_second(per_minute),
            auth_failures: Limiter::per_minute(per_minute),
            sign_in_failures: Limiter::per_minute(per_minute),
            votes: Limiter::per_minute(per_minute),
        }
    }

    #[test]
    fn failures_of_one_client_do_not_limit_another() {
        let limits = limits(2);
        let (bad, good) = (IpAddr::from([1, 1, 1, 1]), IpAddr::from([2, 2, 2, 2]));
        assert!(limits.count_auth_failure(bad).is_ok() && limits.count_auth_failure(bad).is_ok());
        let refused = limits.count_auth_failure(bad).unwrap_err();
        assert!(matches!(refused, ApiError::RateLimited { retry_after_seconds: 1..=31 }));
        assert!(limits.count_auth_failure(good).is_ok());
    }

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
            let address = expected.parse().unwrap();
            let expected = Client { address, is_hidden: false };
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
            let address = expected.parse().unwrap();
            let expected = Client { address, is_hidden: false };
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
            let proxy = Client { address: "192.168.1.1".parse().unwrap(), is_hidden: true };
            // The client may have invented an address to the left of it.
            let forwarded = format!("9.9.9.9, {hop}, 192.168.1.1");
            assert_eq!(client("10.0.0.1", &[forwarded.as_bytes()]), proxy, "{hop}");
            // Without a trusted peer the header is ignored.
            let direct = Client { address: "1.1.1.1".parse().unwrap(), is_hidden: false };
            assert_eq!(client("1.1.1.1", &[forwarded.as_bytes()]), direct, "{hop}");
        }
    }

    #[test]
    fn a_proxy_that_is_not_trusted_is_noticed() {
        let addresses = ClientAddresses::new(TRUSTED.parse().unwrap());
        let mut headers = HeaderMap::new();
        let proxy = |headers: &HeaderMap, peer: &str| {
            addresses.untrusted_proxy(headers, peer.parse().unwrap()).map(|proxy| proxy.to_string())
        };
        assert_eq!(proxy(&headers, "1.1.1.1"), None, "no proxy");
        headers.insert(FORWARDED_FOR, http::HeaderValue::from_static("9.9.9.9"));
        assert_eq!(proxy(&headers, "10.0.0.1"), None, "trusted");
        assert_eq!(proxy(&headers, "1.1.1.1").as_deref(), Some("1.1.1.1"));
        assert_eq!(proxy(&headers, "::ffff:1.1.1.1").as_deref(), Some("1.1.1.1"));
    }

    #[test]
    fn ports_are_not_part_of_the_address() {
        let addresses = ClientAddresses::new(TRUSTED.parse().unwrap());
        let address = |forwarded: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(FORWARDED_FOR, http::HeaderValue::from_static(forwarded));
            network(addresses.address(&headers, IpAddr::from([10, 0, 0, 1]))).to_string()
        };
        assert_eq!(address("1.2.3.4:1"), address("1.2.3.4:2"));
        assert_ne!(address("1.2.3.4:1"), address("1.2.3.5:1"));
        assert_eq!(address("[2001:db8:0:1:2:3:4:5]:80"), "2001:db8:0:1::");
        assert_eq!(address("[::ffff:1.2.3.4]:80"), "1.2.3.4");
    }
}
