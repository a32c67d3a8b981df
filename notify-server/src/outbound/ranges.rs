//! Addresses that are not public: the IANA registries of special-purpose addresses (RFC 6890), and
//! the ranges that carry an IPv4 address inside an IPv6 one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 ranges that nothing is sent to.
pub(super) const BLOCKED_V4: [Ipv4Net; 16] = [
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // carriers' address translation
    v4(127, 0, 0, 8),     // loopback
    v4(169, 254, 0, 16),  // link-local, with the metadata services of clouds
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // protocol assignments
    v4(192, 0, 2, 24),    // documentation
    v4(192, 88, 99, 24),  // 6to4 relays
    v4(192, 168, 0, 16),  // private
    v4(198, 18, 0, 15),   // benchmarks
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved
    Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32),
];

/// IPv6 ranges that nothing is sent to.
pub(super) const BLOCKED_V6: [Ipv6Net; 15] = [
    v6(0, 0, 0, 96),          // unspecified, loopback and IPv4-compatible
    v6(0x64, 0xff9b, 0, 96),  // NAT64
    v6(0x64, 0xff9b, 1, 48),  // NAT64 of one network
    v6(0x100, 0, 0, 64),      // discard
    v6(0x2001, 0, 0, 32),     // Teredo
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16),     // 6to4
    v6(0x3fff, 0, 0, 20),     // documentation
    v6(0x5f00, 0, 0, 16),     // segment routing
    v6(0xfc00, 0, 0, 7),      // unique local
    v6(0xfe80, 0, 0, 10),     // link-local
    v6(0xfec0, 0, 0, 10),     // site-local
    v6(0xff00, 0, 0, 8),      // multicast
    v6(0x2001, 0x2, 0, 48),   // benchmarks
    v6(0x2001, 0x10, 0, 28),  // ORCHID
];

/// Whether an address is one of the public internet; one mapped into IPv6 is what it maps.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !BLOCKED_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => !BLOCKED_V6.iter().any(|range| range.contains(&address)),
    }
}
