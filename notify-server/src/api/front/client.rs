//! Whose requests fail: the client's address, through proxies that are trusted to name it.

use std::net::IpAddr;

use http::{HeaderMap, header};

use crate::config::Networks;

const FORWARDED_FOR: header::HeaderName = header::HeaderName::from_static("x-forwarded-for");

/// The nearest address that is no trusted proxy's. An IPv6 client is its /64: one household has
/// all of it.
pub(super) fn client_address(headers: &HeaderMap, peer: IpAddr, trusted: &Networks) -> IpAddr {
    let mut nearest = peer;
    let lines: Vec<_> = headers.get_all(FORWARDED_FOR).iter().collect();
    let hops = lines.iter().rev().flat_map(|line| {
        line.to_str().unwrap_or_default().rsplit(',').map(|hop| hop.trim().parse::<IpAddr>())
    });
    for hop in hops {
        if !trusted.contains(nearest.to_canonical()) {
            break;
        }
        // What a proxy wrote that is no address stands for the proxy itself.
        let Ok(hop) = hop else { break };
        nearest = hop;
    }
    match nearest.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => {
            let network = u128::from(address) & !u128::from(u64::MAX);
            IpAddr::V6(network.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_trusted_proxies_name_the_client() {
        let trusted: Networks = "10.0.0.0/8, 192.168.1.1".parse().unwrap();
        let cases = [
            ("1.1.1.1", "9.9.9.9", "1.1.1.1"),
            ("10.0.0.1", "9.9.9.9", "9.9.9.9"),
            ("10.0.0.1", "8.8.8.8, 9.9.9.9", "9.9.9.9"),
            ("10.0.0.1", "9.9.9.9, 192.168.1.1", "9.9.9.9"),
            ("10.0.0.1", "9.9.9.9, 192.168.1.2", "192.168.1.2"),
            ("10.0.0.1", "junk", "10.0.0.1"),
            ("10.0.0.1", "", "10.0.0.1"),
            ("2001:db8::1:2:3:4", "", "2001:db8::"),
            ("::ffff:1.1.1.1", "", "1.1.1.1"),
        ];
        for (peer, forwarded, expected) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(FORWARDED_FOR, forwarded.parse().unwrap());
            let found = client_address(&headers, peer.parse().unwrap(), &trusted);
            assert_eq!(found, expected.parse::<IpAddr>().unwrap(), "{peer} {forwarded}");
        }
    }
}
