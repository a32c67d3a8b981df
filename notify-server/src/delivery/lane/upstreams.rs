//! The upstream services of one lane: push services, or the two hosts of APNs. Each has its own
//! circuit breaker and its own count of streams, so that one that rejects, fails or does not answer
//! stops only the devices behind it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::{ProviderStatus, Timestamp, WEB_PUSH_SERVICES_DEFAULT};

use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::providers::Reason;
use crate::store::AddressTrust;

/// Most upstreams that a lane distinguishes: subscriptions name them, and anyone may subscribe.
/// Further ones share one circuit breaker.
const UPSTREAMS_MAX: usize = 64;
/// The same limit for upstreams behind an address that took a message before: unverified addresses
/// that name many upstreams leave room for these.
const VERIFIED_UPSTREAMS_MAX: usize = 2 * UPSTREAMS_MAX;
/// How long the probe of an upstream waits for an address of the kind whose turn it is, in
/// milliseconds.
const OTHER_TRUST_PROBE_DELAY_MS: i64 = 5_000;
/// Most consecutive reports of a dead address that are believed while no message gets through, for
/// addresses that prove nothing about our credentials. More of them may be a fault of the upstream.
const CONSECUTIVE_UNREGISTERED_MAX: u32 = 20;
/// How long an upstream counts as working after it took a message, in milliseconds.
const HEALTHY_WINDOW_MS: i64 = 60_000;
/// How long after a delivered message a rejection at an unverified address counts as the address's
/// own fault, in milliseconds.
const DELIVERED_WINDOW_MS: i64 = 300_000;
/// Untested upstreams get at most one in this many of a lane's streams. An upstream that accepts
/// connections and never answers thus leaves streams to the others.
const UNTESTED_STREAMS_DIVISOR: usize = 4;

/// The upstreams of a lane.
pub(crate) struct Upstreams {
    by_name: Mutex<HashMap<Box<str>, Arc<Upstream>>>,
    probe_every_ms: i64,
    /// For the replication to other servers; `None` for a single server.
    outbox: Option<LaneOutbox>,
    /// Streams in flight at upstreams that were untested when the stream started.
    untested: Arc<AtomicUsize>,
}

/// One upstream of a lane.
pub(crate) struct Upstream {
    pub(crate) breaker: CircuitBreaker,
    in_flight: AtomicUsize,
    /// Consecutive rejections of our credentials at verified addresses.
    consecutive_refusals: AtomicU16,
    /// Consecutive reports of a dead address, at anonymous and unverified addresses.
    consecutive_unregistered: AtomicU32,
    /// When a message was last delivered, in unix milliseconds; `i64::MIN` if none was since the
    /// provider changed.
    delivered_at: AtomicI64,
    /// Whether it took a message, and no attempt timed out since.
    is_tested: AtomicBool,
    /// Whether the next probe goes to an unverified address, because the last one went to a
    /// verified address and was rejected. All verified addresses may belong to an earlier key, so
    /// both kinds take turns.
    is_next_probe_unverified: AtomicBool,
    untested: Arc<AtomicUsize>,
}

/// A device that waits for a stream of an upstream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// What an answer for its address proves about our credentials.
    pub(crate) trust: AddressTrust,
    /// Most streams that the upstream accepts; `None` if only the lane limits them.
    pub(crate) upstream_concurrency: Option<usize>,
    /// Number of streams of the lane.
    pub(crate) lane_streams: usize,
}

impl Upstreams {
    pub(crate) fn new(probe_every_ms: i64, outbox: Option<LaneOutbox>) -> Self {
        Self { by_name: Mutex::default(), probe_every_ms, outbox, untested: Arc::default() }
    }

    /// The upstream of that name, unless it shares a circuit breaker with others.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Upstream>> {
        let service = self.get_or_create(name, AddressTrust::Verified);
        let known = self.by_name.lock().expect("no holder of the upstreams panics");
        known.contains_key(name).then_some(service)
    }

    /// The upstreams with their own circuit breaker, which is replicated to the other servers.
    pub(crate) fn named(&self) -> Vec<(Box<str>, Arc<Upstream>)> {
        let known = self.by_name.lock().expect("no holder of the upstreams panics");
        let named = known.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, service)| (name.clone(), service.clone())).collect()
    }

    /// The upstream of that name, for an address of that trust.
    pub(crate) fn get_or_create(&self, name: &str, trust: AddressTrust) -> Arc<Upstream> {
        let mut known = self.by_name.lock().expect("no holder of the upstreams panics");
        if let Some(service) = known.get(name) {
            return service.clone();
        }
        if known.len() >= UPSTREAMS_MAX {
            // Anyone may name an upstream, so those without state to remember make room.
            known.retain(|_, service| Arc::strong_count(service) > 1 || service.is_remembered());
        }
        let most = if trust.is_verified() { VERIFIED_UPSTREAMS_MAX } else { UPSTREAMS_MAX };
        let name = if known.len() < most || is_well_known(name) { name } else { "" };
        let service = known.entry(name.into()).or_insert_with(|| {
            // A shared breaker says nothing about a single upstream, so it is not replicated.
            let outbox = self.outbox.clone().filter(|_| !name.is_empty());
            let peers = outbox.map(PeerSync::new);
            Arc::new(Upstream {
                breaker: CircuitBreaker::new(self.probe_every_ms, peers),
                in_flight: AtomicUsize::new(0),
                consecutive_refusals: AtomicU16::new(0),
                consecutive_unregistered: AtomicU32::new(0),
                delivered_at: AtomicI64::new(i64::MIN),
                is_tested: AtomicBool::new(false),
                is_next_probe_unverified: AtomicBool::new(false),
                untested: self.untested.clone(),
            })
        });
        service.clone()
    }

    /// The worst status of all upstreams at that time.
    pub(crate) fn worst_status(&self, now: Timestamp) -> ProviderStatus {
        let known = self.by_name.lock().expect("no holder of the upstreams panics");
        let statuses = known.values().map(|service| service.breaker.status(now));
        statuses.max().unwrap_or(ProviderStatus::Available)
    }

    /// Closes all circuit breakers: the provider was reconfigured or released.
    pub(crate) fn reset(&self) {
        for service in self.by_name.lock().expect("no holder of the upstreams panics").values() {
            service.breaker.close();
            service.consecutive_refusals.store(0, Ordering::Release);
            service.consecutive_unregistered.store(0, Ordering::Release);
            service.delivered_at.store(i64::MIN, Ordering::Release);
            service.is_tested.store(false, Ordering::Release);
            service.is_next_probe_unverified.store(false, Ordering::Release);
        }
    }

    /// The status of every upstream at that time, sorted by name.
    pub(crate) fn statuses(&self, now: Timestamp) -> Vec<(Box<str>, ProviderStatus)> {
        let known = self.by_name.lock().expect("no holder of the upstreams panics");
        let status = |service: &Upstream| service.breaker.status(now);
        let mut statuses: Vec<_> =
            known.iter().map(|(name, service)| (name.clone(), status(service))).collect();
        statuses.sort_by(|(one, _), (other, _)| one.cmp(other));
        statuses
    }
}

impl Upstream {
    /// Whether its state matters to the next delivery.
    fn is_remembered(&self) -> bool {
        !self.breaker.is_closed()
            || self.consecutive_refusals.load(Ordering::Acquire) > 0
            || self.consecutive_unregistered.load(Ordering::Acquire) > 0
            || self.is_tested.load(Ordering::Acquire)
    }

    /// Number of further deliveries that it accepts now.
    ///
    /// # Errors
    /// When none: the latest time to check again, or `None` if all its streams are in use, since
    /// the end of a stream wakes the waiting pages.
    pub(crate) fn capacity(
        &self,
        candidate: Candidate,
        now: Timestamp,
    ) -> Result<usize, Option<Timestamp>> {
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Err(Some(until));
        }
        if let Some(due_at) = self.breaker.probe_due_at()
            && candidate.trust.is_verified()
                == self.is_next_probe_unverified.load(Ordering::Acquire)
        {
            let own_turn = due_at.plus_ms(OTHER_TRUST_PROBE_DELAY_MS);
            if now < own_turn {
                return Err(Some(own_turn));
            }
        }
        let in_flight = self.in_flight.load(Ordering::Acquire);
        let mut room =
            candidate.upstream_concurrency.unwrap_or(usize::MAX).saturating_sub(in_flight);
        if candidate.upstream_concurrency.is_some() && !self.is_tested.load(Ordering::Acquire) {
            let most = candidate.lane_streams / UNTESTED_STREAMS_DIVISOR;
            let left = most.saturating_sub(self.untested.load(Ordering::Acquire));
            // Every upstream gets one stream to show that it works.
            room = room.min(left.max(usize::from(in_flight == 0)));
        }
        if room == 0 { Err(None) } else { Ok(room) }
    }

    /// The kind of address that the next delivery should go to if it is a probe: verified (`true`)
    /// or unverified.
    pub(crate) fn wants_probe_of_verified(&self) -> Option<bool> {
        self.breaker.probe_due_at()?;
        Some(!self.is_next_probe_unverified.load(Ordering::Acquire))
    }

    /// Records a rejection of our credentials at a verified address. Returns the number of
    /// consecutive ones.
    pub(crate) fn record_refusal(&self) -> u16 {
        let more = |refusals: u16| Some(refusals.saturating_add(1));
        let before =
            self.consecutive_refusals.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        self.is_next_probe_unverified.store(true, Ordering::Release);
        before.unwrap_or_default().saturating_add(1)
    }

    /// Records a rejection of our credentials at an unverified address. `is_probe`: the delivery
    /// was the probe of a held upstream.
    pub(crate) fn record_unverified_refusal(
        &self,
        reason: &Reason,
        is_probe: bool,
        now: Timestamp,
    ) {
        if is_probe {
            self.is_next_probe_unverified.store(false, Ordering::Release);
            self.breaker.on_probe_rejected(reason, now);
        }
    }

    /// Records a report that an anonymous or unverified address is dead. Returns whether to believe
    /// it: many in a row while no message gets through may be the upstream's own fault.
    pub(crate) fn accepts_unregistered(&self) -> bool {
        self.consecutive_unregistered.fetch_add(1, Ordering::AcqRel) < CONSECUTIVE_UNREGISTERED_MAX
    }

    /// Records a delivered message.
    pub(crate) fn record_delivery(&self, now: Timestamp) {
        self.delivered_at.store(now.as_ms(), Ordering::Release);
        self.is_tested.store(true, Ordering::Release);
        self.consecutive_unregistered.store(0, Ordering::Release);
        self.is_next_probe_unverified.store(false, Ordering::Release);
        self.record_answer();
    }

    /// Records another answer that shows that it accepts our credentials.
    pub(crate) fn record_answer(&self) {
        self.consecutive_refusals.store(0, Ordering::Release);
        self.breaker.on_success();
    }

    /// Records a timeout or a broken connection.
    pub(crate) fn record_timeout(&self) {
        self.is_tested.store(false, Ordering::Release);
    }

    /// Whether the upstream accepts our credentials although it rejects an unverified address: a
    /// message was delivered since the first attempt, or shortly before it, and no verified address
    /// was rejected since.
    pub(crate) fn accepts_credentials(&self, first_attempt_at: Timestamp, now: Timestamp) -> bool {
        let since = first_attempt_at.min(now.plus_ms(-DELIVERED_WINDOW_MS));
        self.consecutive_refusals.load(Ordering::Acquire) == 0 && self.delivered_since(since)
    }

    /// Whether a message was delivered since that time.
    fn delivered_since(&self, since: Timestamp) -> bool {
        self.delivered_at.load(Ordering::Acquire) >= since.as_ms()
    }

    /// Whether a message was delivered recently.
    pub(crate) fn is_healthy(&self, now: Timestamp) -> bool {
        self.delivered_since(now.plus_ms(-HEALTHY_WINDOW_MS))
    }
}

/// One attempt in flight at an upstream. It counts until this is dropped.
pub(crate) struct UpstreamGuard {
    upstream: Arc<Upstream>,
    /// Whether the upstream was untested when the attempt started.
    is_test: bool,
    /// Whether the attempt is the probe of the upstream.
    is_probe: bool,
}

impl UpstreamGuard {
    pub(crate) fn start(upstream: Arc<Upstream>, now: Timestamp) -> Self {
        let is_probe = upstream.breaker.probe_due_at().is_some();
        // The caller checked the breaker just before, on the same thread. Admission marks the
        // probe.
        let _ = upstream.breaker.admit(now);
        upstream.in_flight.fetch_add(1, Ordering::AcqRel);
        let is_test = !upstream.is_tested.load(Ordering::Acquire);
        if is_test {
            upstream.untested.fetch_add(1, Ordering::AcqRel);
        }
        Self { upstream, is_test, is_probe }
    }

    /// Whether the attempt is the probe of the upstream.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }
}

impl std::ops::Deref for UpstreamGuard {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

impl Drop for UpstreamGuard {
    fn drop(&mut self) {
        self.upstream.in_flight.fetch_sub(1, Ordering::AcqRel);
        if self.is_test {
            self.upstream.untested.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether it is the push service of a common browser. These have their own circuit breaker however
/// many upstreams the addresses name.
fn is_well_known(name: &str) -> bool {
    let Some(host) = name.strip_prefix("https://") else { return false };
    WEB_PUSH_SERVICES_DEFAULT.iter().any(|known| match known.strip_prefix('*') {
        Some(domain) => host.ends_with(domain) && !host.contains(':'),
        None => host == *known,
    })
}
