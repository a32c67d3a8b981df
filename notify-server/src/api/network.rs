//! Whether a url names a private address by itself (B25). Names are resolved where something is
//! sent; here an obviously private endpoint is refused before it is stored.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// Whether the url's host is an address that is not public, or this machine's name.
pub(crate) fn names_private_address(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return true };
    match url.host() {
        None => true,
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => is_private(address.into()),
        Some(Host::Ipv6(address)) => is_private(address.into()),
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_private_v4(address),
        IpAddr::V6(address) => match carried_v4(address) {
            Some(carried) => is_private_v4(carried),
            None => is_private_v6(address),
        },
    }
}

fn is_private_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19))
}

fn is_private_v6(address: Ipv6Addr) -> bool {
    address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unique_local()
        || address.is_unicast_link_local()
        || address.segments()[..2] == [0x2001, 0x0db8]
}

/// The IPv4 address that an IPv6 one stands for: mapped, NAT64 or 6to4.
fn carried_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let joined = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x2002, high, low, ..] => Some(joined(high, low)),
        _ => address.to_ipv4_mapped(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_addresses_are_seen_through_their_disguises() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.1",
            "0x7f.1",
            "2130706433",
            "0177.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.0.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "[::1]",
            "[::]",
            "[fc00::1]",
            "[fe80::1]",
            "[ff02::1]",
            "[::ffff:127.0.0.1]",
            "[64:ff9b::7f00:1]",
            "[2002:7f00:1::]",
        ] {
            assert!(names_private_address(&format!("https://{host}/x")), "{host}");
        }
        for host in ["push.example", "1.1.1.1", "localhost.example", "[2606:4700::1]"] {
            assert!(!names_private_address(&format!("https://{host}/x")), "{host}");
        }
    }
}
