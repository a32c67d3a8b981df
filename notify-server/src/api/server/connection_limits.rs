//! Places of connections: as many as the settings and the descriptors of the process allow, and no
//! address has all of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::Instant;

use super::Limits;

/// Part of all places that one address may have, as a divisor.
const ADDRESS_PART: usize = 2;
/// Most streams of one HTTP/2 connection.
const STREAMS_MAX: u32 = 100;
/// Streams that the connections of one address share: the more it has, the fewer streams a new one
/// gets. A stream whose answer is not read costs some 13 kB.
const STREAMS_OF_ADDRESS: usize = 2_000;
/// Fewest streams of one HTTP/2 connection, however many connections its address has.
const STREAMS_MIN: u32 = 4;
/// How long a connection may be idle while others wait for its place.
const CROWDED_IDLE_TIMEOUT: Duration = Duration::from_secs(5);
/// Least time between two warnings of the same kind.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// The places, taken and free.
pub(super) struct Places {
    free: Arc<Semaphore>,
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address_max: usize,
    /// Whether connections wait for a place.
    is_crowded: AtomicBool,
}

/// A free place.
pub(super) struct FreePlace(OwnedSemaphorePermit);

/// A connection's place; given back when it is dropped.
pub(super) struct Place {
    by_address: Arc<Mutex<HashMap<IpAddr, usize>>>,
    holder: IpAddr,
    _place: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        let half = (limits.connections_max / ADDRESS_PART).max(1);
        let address_max = match limits.connections_per_address_max {
            0 => usize::MAX,
            max => max.min(half),
        };
        let free = Arc::new(Semaphore::new(limits.connections_max.min(Semaphore::MAX_PERMITS)));
        let is_crowded = AtomicBool::new(false);
        Self { free, by_address: Arc::default(), address_max, is_crowded }
    }

    /// A place for a connection that came in, as soon as one is free. Further connections wait in
    /// the listener's queue until then.
    pub(super) async fn free(&self, crowded: &mut Occasional) -> Option<FreePlace> {
        let place = match self.free.clone().try_acquire_owned() {
            Ok(place) => Ok(place),
            Err(TryAcquireError::Closed) => return None,
            Err(TryAcquireError::NoPermits) => {
                if crowded.is_due() {
                    tracing::warn!(
                        "all places of connections are taken (--max-connections, or the limit of \
                         open files): new ones wait"
                    );
                }
                self.is_crowded.store(true, Ordering::Relaxed);
                self.free.clone().acquire_owned().await
            }
        };
        self.is_crowded.store(false, Ordering::Relaxed);
        place.ok().map(FreePlace)
    }

    /// The place of a connection, or none where its address has too many: it is closed at once.
    pub(super) fn take(&self, place: FreePlace, peer: IpAddr, limits: &Limits) -> Option<Place> {
        let holder = network(peer);
        let is_capped = !limits.trusted_proxies.contains(peer.to_canonical());
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = by_address.get(&holder).copied().unwrap_or_default();
        if is_capped && taken >= self.address_max {
            return None;
        }
        by_address.insert(holder, taken + 1);
        Some(Place { by_address: self.by_address.clone(), holder, _place: place.0 })
    }

    /// How many streams a new connection of HTTP/2 may have. A trusted proxy carries the requests
    /// of many clients.
    pub(super) fn streams_max(&self, peer: IpAddr, is_shared: bool) -> u32 {
        if is_shared {
            return STREAMS_MAX;
        }
        let by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        let open = by_address.get(&network(peer)).copied().unwrap_or(1);
        let share = u32::try_from(STREAMS_OF_ADDRESS / open.max(1)).unwrap_or(u32::MAX);
        share.clamp(STREAMS_MIN, STREAMS_MAX)
    }

    /// How long a connection may be idle now.
    pub(super) fn idle_timeout(&self, limits: &Limits) -> Duration {
        match self.is_crowded.load(Ordering::Relaxed) {
            true => limits.idle_timeout.min(CROWDED_IDLE_TIMEOUT),
            false => limits.idle_timeout,
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut by_address = self.by_address.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(taken) = by_address.get_mut(&self.holder) {
            *taken -= 1;
            if *taken == 0 {
                by_address.remove(&self.holder);
            }
        }
    }
}

/// An IPv6 client is its /64: one household has all of it.
pub(crate) fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6((u128::from(address) & !u128::from(u64::MAX)).into()),
    }
}

/// Lets a warning through once in a while.
#[derive(Debug, Default)]
pub(super) struct Occasional(Option<Instant>);

impl Occasional {
    pub(super) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        if self.0.is_some_and(|last| now.duration_since(last) < WARN_EVERY) {
            return false;
        }
        self.0 = Some(now);
        true
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

    async fn take(places: &Places, peer: &str, limits: &Limits) -> Option<Place> {
        let free = places.free(&mut Occasional::default()).await.unwrap();
        places.take(free, peer.parse().unwrap(), limits)
    }

    #[tokio::test]
    async fn no_address_has_more_than_half_of_the_places() {
        let limits = limits(8, 8_192);
        let places = Places::new(&limits);
        let mut taken = Vec::new();
        for _ in 0..4 {
            taken.push(take(&places, "1.1.1.1", &limits).await.unwrap());
        }
        assert!(take(&places, "1.1.1.1", &limits).await.is_none());
        assert!(take(&places, "::ffff:1.1.1.1", &limits).await.is_none(), "the same address");
        for _ in 0..4 {
            taken.push(take(&places, "10.0.0.1", &limits).await.unwrap());
        }
        drop(taken);
        assert!(take(&places, "1.1.1.1", &limits).await.is_some(), "places are given back");
    }

    #[tokio::test]
    async fn the_addresses_of_one_ipv6_network_share_their_places() {
        let limits = limits(8, 1);
        let places = Places::new(&limits);
        let _first = take(&places, "2001:db8::1", &limits).await.unwrap();
        assert!(take(&places, "2001:db8::2", &limits).await.is_none());
        assert!(take(&places, "2001:db8:0:1::1", &limits).await.is_some(), "another network");
    }

    #[tokio::test]
    async fn who_finds_no_place_waits_for_one() {
        let limits = limits(1, 0);
        let places = Places::new(&limits);
        let only = take(&places, "1.1.1.1", &limits).await.unwrap();
        let mut warnings = Occasional::default();
        let mut waiting = Box::pin(places.free(&mut warnings));
        assert!(waiting.as_mut().now_or_never().is_none());
        assert_eq!(places.idle_timeout(&limits), CROWDED_IDLE_TIMEOUT);
        drop(only);
        assert!(waiting.await.is_some());
        assert_eq!(places.idle_timeout(&limits), limits.idle_timeout);
        assert!(!warnings.is_due(), "it was warned of once");
    }

    #[tokio::test]
    async fn the_more_connections_an_address_has_the_fewer_streams_a_new_one_gets() {
        let limits = limits(6_000, 0);
        let places = Places::new(&limits);
        let (many, other) = ("1.1.1.1".parse().unwrap(), "1.1.1.2".parse().unwrap());
        let mut taken = Vec::new();
        for (connections, streams) in [(1, 100), (20, 100), (40, 50), (500, 4), (5_000, 4)] {
            while taken.len() < connections {
                taken.push(take(&places, "1.1.1.1", &limits).await.unwrap());
            }
            assert_eq!(places.streams_max(many, false), streams, "{connections}");
            assert_eq!(places.streams_max(many, true), STREAMS_MAX, "a proxy's");
            assert_eq!(places.streams_max(other, false), STREAMS_MAX, "another address");
        }
    }
}
