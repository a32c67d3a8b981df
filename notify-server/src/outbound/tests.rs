//! Private addresses are refused in every notation that a url or a resolver can use.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use super::{BLOCKED_V4, BLOCKED_V6, Outbound, Policy, Refused, Resolver, Unreachable, is_public};

/// A resolver with answers that a test sets. Each name returns its answers in order, and the last
/// answer repeatedly. An address resolves to itself.
#[derive(Default)]
pub(crate) struct TestResolver(Mutex<HashMap<String, VecDeque<Vec<SocketAddr>>>>);

impl TestResolver {
    /// Adds an answer for a name.
    pub(crate) fn answers(&self, name: &str, addresses: &[SocketAddr]) {
        let mut names = self.0.lock().unwrap();
        names.entry(name.to_owned()).or_default().push_back(addresses.to_vec());
    }
}

#[async_trait::async_trait]
impl Resolver for TestResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        if let Ok(literal) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(literal, port)]);
        }
        let mut names = self.0.lock().unwrap();
        let answers = names.get_mut(host).ok_or(io::ErrorKind::NotFound)?;
        let answer = answers.front().cloned().unwrap_or_default();
        if answers.len() > 1 {
            answers.pop_front();
        }
        Ok(answer)
    }
}

impl Outbound {
    /// A guard over a test's resolver.
    pub(crate) fn over(resolver: Arc<TestResolver>) -> Self {
        Self { policy: Policy::Public, is_for_users: true, resolver, proxy: None }
    }

    /// A guard over a test's resolver that treats one address as public.
    pub(crate) fn over_with(resolver: Arc<TestResolver>, public: IpAddr) -> Self {
        Self { policy: Policy::PublicAnd(public), is_for_users: true, resolver, proxy: None }
    }
}

/// Notations of hosts that are this machine or a private network.
pub(crate) const DISGUISES: [&str; 66] = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "a.b.LocalHost.",
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "0x7f.1",
    "0x7f.0.0.1",
    "0x7f000001",
    "2130706433",
    "017700000001",
    "0177.0.0.1",
    "0177.0.0.0x1",
    "127.255.255.254",
    "1２7.0.0.1",
    "１２７.０.０.１",
    "①②⑦.0.0.1",
    "127。0。0。1",
    "%31%32%37.0.0.1",
    "0",
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "100.127.255.255",
    "169.254.169.254",
    "0xa9fea9fe",
    "2852039166",
    "172.16.0.1",
    "172.31.255.255",
    "192.0.0.1",
    "192.0.2.1",
    "192.88.99.1",
    "192.168.0.1",
    "198.19.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "255.255.255.255",
    "[::]",
    "[::1]",
    "[::127.0.0.1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::ffff:a9fe:a9fe]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[fe80::1]",
    "[fc00::1]",
    "[fec0::1]",
    "[ff02::1]",
    "168.63.129.16",
    "[::ffff:0:7f00:1]",
    "[::ffff:0:127.0.0.1]",
    "[64:ff9b:1::a00:1]",
    "[64:ff9b::10.0.0.1]",
    "[64:ff9b::a9fe:a9fe]",
    "[64:ff9b::a83f:8110]",
    "[64:ff9b:1::127.0.0.1]",
    "[64:ff9b:1:808:8:800::]",
    "[64:ff9b:1:1::808:808]",
    "[64:ff9b:0:1::808:808]",
    "[64:ff9a::808:808]",
    "[2001:20::1]",
    "[4000::1]",
];

fn strict() -> Outbound {
    Outbound::over(Arc::default())
}

#[test]
fn private_urls_are_refused_in_every_notation() {
    for host in DISGUISES {
        for path in ["", "/", "/push/1?q#f"] {
            let url = format!("https://{host}{path}");
            assert_eq!(strict().target(&url), Err(Refused::Address), "{url}");
        }
    }
}

#[test]
fn a_url_is_https_on_443_without_credentials() {
    let rows = [
        ("https://push.example/x", Ok(())),
        ("https://push.example:443/x", Ok(())),
        ("HTTPS://PUSH.EXAMPLE/x", Ok(())),
        ("https://1.1.1.1/x", Ok(())),
        ("https://[2606:4700::1]/x", Ok(())),
        ("https://localhost.example/x", Ok(())),
        ("https://xn--mnchen-3ya.example/x", Ok(())),
        ("https://münchen.example/x", Ok(())),
        ("http://push.example/x", Err(Refused::NotHttps)),
        ("ftp://push.example/x", Err(Refused::NotHttps)),
        ("file:///etc/passwd", Err(Refused::NotHttps)),
        ("gopher://push.example/x", Err(Refused::NotHttps)),
        ("push.example/x", Err(Refused::NotHttps)),
        ("https://", Err(Refused::NotHttps)),
        ("https://[fe80::1%25eth0]/", Err(Refused::NotHttps)),
        ("https://1.2.3.4.5/", Err(Refused::NotHttps)),
        ("", Err(Refused::NotHttps)),
        ("https://user@push.example/", Err(Refused::Credentials)),
        ("https://user:password@push.example/", Err(Refused::Credentials)),
        ("https://:password@push.example/", Err(Refused::Credentials)),
        ("https://1.1.1.1@127.0.0.1/", Err(Refused::Credentials)),
        ("https://push.example:22/", Err(Refused::Port)),
        ("https://push.example:25/", Err(Refused::Port)),
        ("https://push.example:80/", Err(Refused::Port)),
        ("https://push.example:6379/", Err(Refused::Port)),
        ("https://push.example:0/", Err(Refused::Port)),
        ("https://127.0.0.1:22/", Err(Refused::Address)),
    ];
    for (url, expected) in rows {
        assert_eq!(strict().target(url).map(drop), expected, "{url}");
    }
    let url = strict().target("https://push.example/x?q=1#fragment").unwrap();
    assert_eq!(url.as_str(), "https://push.example/x?q=1", "a fragment is never sent");
}

#[test]
fn http_webhook_needs_private_networks() {
    let refused = strict().webhook("http://127.0.0.1:9000/hook").unwrap_err();
    assert_eq!(refused, Refused::PlainHttp);
    assert!(refused.to_string().contains("--allow-private-networks"));
    assert_eq!(strict().webhook("ftp://a.example/"), Err(Refused::NotHttps));
    assert!(Outbound::new(true).webhook("http://127.0.0.1:9000/hook").is_ok());
}

#[test]
fn private_networks_still_require_https_and_no_credentials() {
    let lenient = Outbound::new(true);
    for host in DISGUISES {
        let url = format!("https://{host}:8443/push");
        assert!(lenient.target(&url).is_ok(), "{url}");
    }
    assert_eq!(lenient.target("http://127.0.0.1/"), Err(Refused::NotHttps));
    assert_eq!(lenient.target("https://a@127.0.0.1/"), Err(Refused::Credentials));
}

#[test]
fn ranges_are_blocked_entirely_also_when_mapped() {
    for range in BLOCKED_V4 {
        for address in [range.network(), range.broadcast()] {
            assert!(!is_public(address.into()), "{address}");
            assert!(!is_public(address.to_ipv6_mapped().into()), "{address} mapped");
        }
    }
    for range in BLOCKED_V6 {
        for address in [range.network(), range.broadcast()] {
            assert!(!is_public(address.into()), "{address}");
        }
    }
}

/// Ranges of the IANA registries of special-purpose addresses whose column "Globally Reachable" is
/// not `True`, the reserved parts of the IPv6 address space, and services of clouds: first and last
/// address.
#[rustfmt::skip]
const SPECIAL: [(&str, &str, &str); 41] = [
    ("RFC 791, this network", "0.0.0.0", "0.255.255.255"),
    ("RFC 1918, private", "10.0.0.0", "10.255.255.255"),
    ("RFC 6598, shared", "100.64.0.0", "100.127.255.255"),
    ("RFC 1122, loopback", "127.0.0.0", "127.255.255.255"),
    ("RFC 3927, link-local", "169.254.0.0", "169.254.255.255"),
    ("RFC 1918, private", "172.16.0.0", "172.31.255.255"),
    ("RFC 6890, protocol assignments", "192.0.0.0", "192.0.0.255"),
    ("RFC 5737, documentation", "192.0.2.0", "192.0.2.255"),
    ("RFC 7526, 6to4 relays", "192.88.99.0", "192.88.99.255"),
    ("RFC 1918, private", "192.168.0.0", "192.168.255.255"),
    ("RFC 2544, benchmarks", "198.18.0.0", "198.19.255.255"),
    ("RFC 5737, documentation", "198.51.100.0", "198.51.100.255"),
    ("RFC 5737, documentation", "203.0.113.0", "203.0.113.255"),
    ("RFC 1112, multicast and reserved", "224.0.0.0", "255.255.255.255"),
    ("Azure, WireServer", "168.63.129.16", "168.63.129.16"),
    ("AWS, Azure, Google, DigitalOcean: metadata", "169.254.169.254", "169.254.169.254"),
    ("AWS, metadata of containers", "169.254.170.2", "169.254.170.2"),
    ("Alibaba, metadata", "100.100.100.200", "100.100.100.200"),
    ("Oracle, metadata", "192.0.0.192", "192.0.0.192"),
    ("AWS, metadata", "fd00:ec2::254", "fd00:ec2::254"),
    ("RFC 4291, unspecified and loopback", "::", "::1"),
    ("RFC 4291, IPv4-compatible", "::127.0.0.1", "::255.255.255.255"),
    ("RFC 7915, IPv4-translated", "::ffff:0:0:0", "::ffff:0:ffff:ffff"),
    ("RFC 6052, NAT64", "64:ff9b::", "64:ff9b::ffff:ffff"),
    ("RFC 8215, NAT64 of one network", "64:ff9b:1::", "64:ff9b:1:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 6666, discard", "100::", "100::ffff:ffff:ffff:ffff"),
    ("RFC 9780, dummy", "100:0:0:1::", "100:0:0:1:ffff:ffff:ffff:ffff"),
    ("RFC 4291, unassigned", "100:0:0:2::", "1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 2928, protocol assignments", "2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 4380, Teredo", "2001::1", "2001:0:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 5180, benchmarks", "2001:2::", "2001:2:0:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 4843, ORCHID", "2001:10::", "2001:1f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 7343, ORCHIDv2", "2001:20::", "2001:2f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 9374, drones", "2001:30::", "2001:3f:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 3849, documentation", "2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 3056, 6to4", "2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 9637, documentation", "3fff::", "3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 4291, unassigned", "4000::", "5eff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 9602, segment routing", "5f00::", "5f00:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 4193, unique local", "fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
    ("RFC 4291, link-local to multicast", "fe80::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
];

#[test]
fn no_special_address_of_the_registries_is_public() {
    for (what, first, last) in SPECIAL {
        for text in [first, last] {
            let address: IpAddr = text.parse().unwrap();
            assert!(!is_public(address), "{what}: {address}");
            let IpAddr::V4(inside) = address else { continue };
            for form in ["::ffff:", "::ffff:0:", "::", "64:ff9b::", "64:ff9b:1::"] {
                let carried: IpAddr = format!("{form}{inside}").parse().unwrap();
                assert!(!is_public(carried), "{what}: {carried}");
            }
        }
    }
}

#[test]
fn addresses_next_to_blocked_ranges_are_public() {
    let rows = [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.0.3.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "168.63.129.15",
        "168.63.129.17",
        "2000::",
        "2001:200::",
        "2001:db7:ffff:ffff:ffff:ffff:ffff:ffff",
        "2001:db9::",
        "2620:4f:8000::1",
        "2606:4700::1",
        "2a00:1450:4001::200e",
        "3ffe:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        "3fff:1000::",
        "2001:4860::8888",
        "2003::1",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "64:ff9b::a83f:810f",
        "64:ff9b:1::1.1.1.1",
    ];
    for row in rows {
        assert!(is_public(row.parse().unwrap()), "{row}");
    }
}

#[tokio::test]
async fn names_are_judged_by_their_addresses() {
    // Name, what it resolves to, and what may be connected to of it.
    type Row = (&'static str, Vec<SocketAddr>, Option<Vec<SocketAddr>>);
    let public = "1.1.1.1:443".parse::<SocketAddr>().unwrap();
    let private = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
    let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), 443));
    let six = SocketAddr::from((Ipv6Addr::LOCALHOST, 443));
    let resolver = Arc::new(TestResolver::default());
    let translated = "[64:ff9b::1.1.1.1]:443".parse::<SocketAddr>().unwrap();
    let hidden = "[64:ff9b::10.0.0.1]:443".parse::<SocketAddr>().unwrap();
    let rows: [Row; 8] = [
        ("public", vec![public], Some(vec![public])),
        ("private", vec![private], None),
        ("mapped", vec![mapped], None),
        ("all-private", vec![six, private, mapped], None),
        ("mixed", vec![six, public, private], Some(vec![public])),
        ("behind-nat64", vec![translated], Some(vec![translated])),
        ("hidden-by-nat64", vec![hidden], None),
        ("mixed-last", vec![public, private], Some(vec![public])),
    ];
    for (name, answer, _) in &rows {
        resolver.answers(name, answer);
    }
    let guard = Outbound::over(resolver.clone());
    for (name, _, expected) in rows {
        let found = guard.addresses(name, 443).await;
        match expected {
            Some(expected) => assert_eq!(found.unwrap(), expected, "{name}"),
            None => assert!(matches!(found, Err(Unreachable::NotAllowed)), "{name}: {found:?}"),
        }
    }
    let unknown = guard.addresses("unknown", 443).await;
    assert!(matches!(unknown, Err(Unreachable::Unresolved(_))), "{unknown:?}");
    resolver.answers("nothing", &[]);
    let nothing = guard.addresses("nothing", 443).await;
    assert!(matches!(nothing, Err(Unreachable::Unresolved(_))), "{nothing:?}");
}

#[tokio::test]
async fn rebound_name_is_checked_each_time() {
    let public = "1.1.1.1:443".parse::<SocketAddr>().unwrap();
    let private = SocketAddr::from((Ipv4Addr::LOCALHOST, 443));
    let resolver = Arc::new(TestResolver::default());
    resolver.answers("rebound", &[public]);
    resolver.answers("rebound", &[private]);
    let guard = Outbound::over(resolver);
    assert_eq!(guard.addresses("rebound", 443).await.unwrap(), [public]);
    let second = guard.addresses("rebound", 443).await;
    assert!(matches!(second, Err(Unreachable::NotAllowed)), "{second:?}");
}
