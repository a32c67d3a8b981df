//! The networks of callers.

use std::net::IpAddr;

/// The address that counts as one client: an IPv4 address as it is, an IPv6 address as its /64
/// network, which belongs to one household.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}
