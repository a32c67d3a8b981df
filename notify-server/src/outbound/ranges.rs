//! Addresses that are not public. Sources: the IANA registries of special-purpose addresses (RFC 6890,
//! <https://www.iana.org/assignments/iana-ipv4-special-registry>,
//! <https://www.iana.org/assignments/iana-ipv6-special-registry>), the IANA registry of the IPv6
//! address space, and what clouds serve to their own machines alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 ranges that nothing is sent to.
pub(super) const BLOCKED_V4: [Ipv4Net; 17] = [
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // carriers' address translation, with the metadata service of Alibaba
    v4(127, 0, 0, 8),     // loopback
    v4(169, 254, 0, 16),  // link-local, with the metadata services of most clouds
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // protocol assignments, with the metadata service of Oracle
    v4(192, 0, 2, 24),    // documentation
    v4(192, 88, 99, 24),  // 6to4 relays
    v4(192, 168, 0, 16),  // private
    v4(198, 18, 0, 15),   // benchmarks
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved
    Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32),
    // WireServer: a public address by the registry, which Azure serves to its own machines alone
    // (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16).
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The only IPv6 range with addresses of the public internet (RFC 4291 section 2.4). Outside of it lie
/// loopback, unique local, link-local and multicast addresses, and all forms that carry an IPv4
/// address: compatible, translated (RFC 7915) and of NAT64 (RFC 6052, RFC 8215).
pub(super) const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// IPv6 ranges inside [`GLOBAL_V6`] that nothing is sent to.
pub(super) const BLOCKED_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 0, 23), // protocol assignments: Teredo, benchmarks, ORCHID, drones
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16), // 6to4
    v6(0x3fff, 0, 0, 20), // documentation
];

/// Whether an address is public; an IPv4 address mapped into IPv6 counts as IPv4.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => !BLOCKED_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !BLOCKED_V6.iter().any(|range| range.contains(&address))
        }
    }
}
