//! How many connections may be open, in total and from one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api::network::network;
use crate::api::server::limits::Limits;
use crate::telemetry::LogThrottle;

/// The divisor of the share of all connections that one address may have: 2 means half of them.
const ADDRESS_SHARE: usize = 2;
/// The maximum number of streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// The number of streams that all connections from one address share: the more connections the
/// address has, the fewer streams a new connection gets. The reason is memory: a stream whose
/// response is not read takes about 13 kB.
const STREAMS_OF_ADDRESS: usize = 2_000;
/// The minimum number of streams of one HTTP/2 connection, regardless of how many connections its
/// address has.
const STREAMS_MIN: u32 = 4;
/// How long a connection may be idle while other connections wait for a permit.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(5);

/// The permits of all connections.
pub(super) struct ConnPermits {
    free: Arc<Semaphore>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    connections_max: usize,
    address_max: usize,
    /// Whether connections wait for a permit.
    is_crowded: AtomicBool,
}

/// A permit that is not assigned to an address yet.
pub(super) struct FreePermit(OwnedSemaphorePermit);

/// The permit of a connection, released on drop.
pub(super) struct ConnPermit {
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
    _permit: OwnedSemaphorePermit,
}

impl ConnPermits {
    pub(super) fn new(limits: &Limits) -> Self {
        let half = (limits.connections_max / ADDRESS_SHARE).max(1);
        let address_max = match limits.connections_per_address_max {
            0 => usize::MAX,
            max => max.min(half),
        };
        let free = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
        let is_crowded = AtomicBool::new(false);
        let connections_max = limits.connections_max;
        Self { free, by_address: Arc::default(), connections_max, address_max, is_crowded }
    }

    /// Waits until a permit is free and returns it. The caller accepts no further connection in the
    /// meantime: new connections wait in the listener's queue. `None` if the semaphore is closed.
    pub(super) async fn acquire(&self, crowded_log: &mut LogThrottle) -> Option<FreePermit> {
        let permit = match self.try_acquire() {
            Some(permit) => permit,
            None => {
                if crowded_log.try_acquire() {
                    tracing::warn!(
                        connections_max = self.connections_max,
                        "the limit of connections is reached (--max-connections, the limit of open \
                         files, or that of --admin-listen or --console-listen): new ones wait"
                    );
                }
                self.is_crowded.store(true, Ordering::Relaxed);
                FreePermit(self.free.clone().acquire_owned().await.ok()?)
            }
        };
        self.is_crowded.store(false, Ordering::Relaxed);
        Some(permit)
    }

    /// A permit, if one is free.
    pub(super) fn try_acquire(&self) -> Option<FreePermit> {
        self.free.clone().try_acquire_owned().ok().map(FreePermit)
    }

    /// Assigns a permit to the address of a connection; `None` if the address has too many
    /// connections already.
    pub(super) fn assign(
        &self,
        permit: FreePermit,
        peer: IpAddr,
        limits: &Limits,
    ) -> Option<ConnPermit> {
        let address = network(peer);
        let is_capped = !limits.trusted_proxies.contains(peer.to_canonical());
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_address.get(&address).copied().unwrap_or_default();
        if is_capped && open >= self.address_max {
            return None;
        }
        by_address.insert(address, open + 1);
        Some(ConnPermit { by_address: self.by_address.clone(), address, _permit: permit.0 })
    }

    /// The maximum number of streams of a new HTTP/2 connection. `is_shared` means that the
    /// connection belongs to a trusted proxy, which carries the requests of many clients.
    pub(super) fn streams_max(&self, peer: IpAddr, is_shared: bool) -> u32 {
        if is_shared {
            return STREAMS_MAX;
        }
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_address.get(&network(peer)).copied().unwrap_or(1);
        let share = u32::try_from(STREAMS_OF_ADDRESS / open.max(1)).unwrap_or(u32::MAX);
        share.clamp(STREAMS_MIN, STREAMS_MAX)
    }

    /// How long a connection may be idle: less than usual while other connections wait for a
    /// permit.
    pub(super) fn idle_timeout(&self, limits: &Limits) -> Duration {
        if self.is_crowded.load(Ordering::Relaxed) {
            limits.idle_timeout.min(CROWDED_IDLE_TIMEOUT)
        } else {
            limits.idle_timeout
        }
    }
}

impl Drop for ConnPermit {
    fn drop(&mut self) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = by_address.get_mut(&self.address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    fn limits(all: usize, of_address: usize) -> Limits {
        Limits {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(60),
            write_timeout: Duration::from_secs(15),
            connections_max: all,
            connections_per_address_max: of_address,
            trusted_proxies: "10.0.0.1".parse().unwrap(),
        }
    }

    async fn take(permits: &ConnPermits, peer: &str, limits: &Limits) -> Option<ConnPermit> {
        let free = permits.acquire(&mut LogThrottle::default()).await.unwrap();
        permits.assign(free, peer.parse().unwrap(), limits)
    }

    #[tokio::test]
    async fn no_address_gets_more_than_half_of_the_permits() {
        let limits = limits(8, 8_192);
        let permits = ConnPermits::new(&limits);
        let mut permits_held = Vec::new();
        for _ in 0..4 {
            permits_held.push(take(&permits, "1.1.1.1", &limits).await.unwrap());
        }
        assert!(take(&permits, "1.1.1.1", &limits).await.is_none());
        assert!(take(&permits, "::ffff:1.1.1.1", &limits).await.is_none(), "the same address");
        for _ in 0..4 {
            permits_held.push(take(&permits, "10.0.0.1", &limits).await.unwrap());
        }
        drop(permits_held);
        assert!(take(&permits, "1.1.1.1", &limits).await.is_some(), "permits are released");
    }

    #[tokio::test]
    async fn addresses_of_one_ipv6_network_share_permits() {
        let limits = limits(8, 1);
        let permits = ConnPermits::new(&limits);
        let _first = take(&permits, "2001:db8::1", &limits).await.unwrap();
        assert!(take(&permits, "2001:db8::2", &limits).await.is_none());
        assert!(take(&permits, "2001:db8:0:1::1", &limits).await.is_some(), "another network");
    }

    #[tokio::test]
    async fn waits_for_a_free_permit() {
        let limits = limits(1, 0);
        let permits = ConnPermits::new(&limits);
        let only = take(&permits, "1.1.1.1", &limits).await.unwrap();
        let mut warnings = LogThrottle::default();
        let mut waiting = Box::pin(permits.acquire(&mut warnings));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(permits.idle_timeout(&limits), CROWDED_IDLE_TIMEOUT);
        drop(only);
        assert!(waiting.await.is_some());
        assert_eq!(permits.idle_timeout(&limits), limits.idle_timeout);
        assert!(!warnings.try_acquire(), "the warning was logged once");
    }

    #[tokio::test]
    async fn more_connections_of_an_address_mean_fewer_streams_for_a_new_one() {
        let limits = limits(6_000, 0);
        let permits = ConnPermits::new(&limits);
        let (many, other) = ("1.1.1.1".parse().unwrap(), "1.1.1.2".parse().unwrap());
        let mut permits_held = Vec::new();
        for (connections, streams) in [(1, 100), (20, 100), (40, 50), (500, 4), (5_000, 4)] {
            while permits_held.len() < connections {
                permits_held.push(take(&permits, "1.1.1.1", &limits).await.unwrap());
            }
            assert_eq!(permits.streams_max(many, false), streams, "{connections}");
            assert_eq!(permits.streams_max(many, true), STREAMS_MAX, "a proxy's");
            assert_eq!(permits.streams_max(other, false), STREAMS_MAX, "another address");
        }
    }
}
