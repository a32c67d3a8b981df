//! What lies behind one lane: push services, or the two hosts of APNs. Each has a circuit breaker
//! and a count of its own, so that one that refuses, fails or does not answer stops the devices behind
//! it and no others.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::{ProviderStatus, Timestamp, WEB_PUSH_SERVICES_DEFAULT};

use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::providers::Reason;
use crate::store::AddressTrust;

/// Most services that a lane tells apart: subscriptions name them, and anybody may subscribe.
/// Further ones share one circuit breaker.
const SERVICES_MAX: usize = 64;
/// The same for services behind an address that took a message before: unverified addresses that name
/// many services leave room for these.
const VERIFIED_SERVICES_MAX: usize = 2 * SERVICES_MAX;
/// How long the probe of a service waits for an address of the kind whose turn it is, in milliseconds.
const OTHER_PROBES_AFTER_MS: i64 = 5_000;
/// Most addresses that are no evidence and that one service may report dead in a row while no message
/// gets through. More may be a fault of the service.
const DEATHS_IN_A_ROW_MAX: u32 = 20;
/// How long after a message got through a service counts as working, in milliseconds.
const WORKS_FOR_MS: i64 = 60_000;
/// How long after a message got through a refusal of an address that never took one counts as the
/// address's own fault, in milliseconds.
const GETS_THROUGH_FOR_MS: i64 = 300_000;
/// The part of a lane's streams for services that have not taken a message lately is one in so many. A
/// service that accepts connections and never answers thus leaves the others their streams.
const UNTESTED_STREAMS_PART: usize = 4;

/// The services behind a lane.
pub(crate) struct Upstreams {
    known: Mutex<HashMap<Box<str>, Arc<Upstream>>>,
    probe_every_ms: i64,
    /// For the replication to other servers; `None` for a single server.
    outbox: Option<LaneOutbox>,
    /// Streams in flight at services that were untested when the stream began.
    untested: Arc<AtomicUsize>,
}

/// One of them.
pub(crate) struct Upstream {
    pub(crate) breaker: CircuitBreaker,
    in_flight: AtomicUsize,
    /// Refusals of our credentials in a row, at addresses that took messages before.
    refusals_in_a_row: AtomicU16,
    /// Deaths in a row of addresses that are no evidence.
    deaths_in_a_row: AtomicU32,
    /// When a message last got through, in unix milliseconds; `i64::MIN`: not since the provider changed.
    delivered_at: AtomicI64,
    /// Whether it took a message, and timed out on none since.
    is_tested: AtomicBool,
    /// Whether the next probe goes to an address that never took a message: the last one went to one that
    /// did, and was refused. Such addresses may all belong to an earlier key, so both kinds take turns.
    is_next_probe_unverified: AtomicBool,
    untested: Arc<AtomicUsize>,
}

/// A device that waits for a stream of a service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    /// What its answer will say about the credentials.
    pub(crate) trust: AddressTrust,
    /// How many streams the service takes; `None`: the lane alone limits them.
    pub(crate) service_concurrency: Option<usize>,
    /// How many streams the lane has.
    pub(crate) lane_slots: usize,
}

impl Upstreams {
    pub(crate) fn new(probe_every_ms: i64, outbox: Option<LaneOutbox>) -> Self {
        Self { known: Mutex::default(), probe_every_ms, outbox, untested: Arc::default() }
    }

    /// The service of that name, unless it has to share a circuit breaker with others.
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Upstream>> {
        let service = self.get_or_create(name, AddressTrust::Verified);
        let known = self.known.lock().expect("no holder of the services panics");
        known.contains_key(name).then_some(service)
    }

    /// The services with a circuit breaker of their own, which is replicated to the other servers.
    pub(crate) fn named(&self) -> Vec<(Box<str>, Arc<Upstream>)> {
        let known = self.known.lock().expect("no holder of the services panics");
        let named = known.iter().filter(|(name, _)| !name.is_empty());
        named.map(|(name, service)| (name.clone(), service.clone())).collect()
    }

    /// The service of that name, behind an address of that trust.
    pub(crate) fn get_or_create(&self, name: &str, trust: AddressTrust) -> Arc<Upstream> {
        let mut known = self.known.lock().expect("no holder of the services panics");
        if let Some(service) = known.get(name) {
            return service.clone();
        }
        if known.len() >= SERVICES_MAX {
            // Anybody may name one: those of which nothing is to be remembered make room.
            known.retain(|_, service| Arc::strong_count(service) > 1 || service.is_remembered());
        }
        let most = if trust.is_verified() { VERIFIED_SERVICES_MAX } else { SERVICES_MAX };
        let name = if known.len() < most || is_well_known(name) { name } else { "" };
        let service = known.entry(name.into()).or_insert_with(|| {
            // A breaker that several services share says nothing about one of them.
            let outbox = self.outbox.clone().filter(|_| !name.is_empty());
            let peers = outbox.map(PeerSync::new);
            Arc::new(Upstream {
                breaker: CircuitBreaker::new(self.probe_every_ms, peers),
                in_flight: AtomicUsize::new(0),
                refusals_in_a_row: AtomicU16::new(0),
                deaths_in_a_row: AtomicU32::new(0),
                delivered_at: AtomicI64::new(i64::MIN),
                is_tested: AtomicBool::new(false),
                is_next_probe_unverified: AtomicBool::new(false),
                untested: self.untested.clone(),
            })
        });
        service.clone()
    }

    /// The worst status of any of them at that instant.
    pub(crate) fn worst_status(&self, now: Timestamp) -> ProviderStatus {
        let known = self.known.lock().expect("no holder of the services panics");
        let statuses = known.values().map(|service| service.breaker.status(now));
        statuses.max().unwrap_or(ProviderStatus::Available)
    }

    /// Closes all circuit breakers: the provider was reconfigured or released.
    pub(crate) fn reset(&self) {
        for service in self.known.lock().expect("no holder of the services panics").values() {
            service.breaker.close();
            service.refusals_in_a_row.store(0, Ordering::Release);
            service.deaths_in_a_row.store(0, Ordering::Release);
            service.delivered_at.store(i64::MIN, Ordering::Release);
            service.is_tested.store(false, Ordering::Release);
            service.is_next_probe_unverified.store(false, Ordering::Release);
        }
    }

    /// The status of every service at that instant, sorted by name.
    pub(crate) fn statuses(&self, now: Timestamp) -> Vec<(Box<str>, ProviderStatus)> {
        let known = self.known.lock().expect("no holder of the services panics");
        let status = |service: &Upstream| service.breaker.status(now);
        let mut statuses: Vec<_> =
            known.iter().map(|(name, service)| (name.clone(), status(service))).collect();
        statuses.sort_by(|(one, _), (other, _)| one.cmp(other));
        statuses
    }
}

impl Upstream {
    /// Whether it did anything that the next delivery has to know of.
    fn is_remembered(&self) -> bool {
        !self.breaker.is_closed()
            || self.refusals_in_a_row.load(Ordering::Acquire) > 0
            || self.deaths_in_a_row.load(Ordering::Acquire) > 0
            || self.is_tested.load(Ordering::Acquire)
    }

    /// How many deliveries more it takes now; with none, when to look again at the latest.
    ///
    /// # Errors
    /// When that is known; not when all its streams are in use: one that ends has others looked for.
    pub(crate) fn room(
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
            let own_turn = due_at.plus_ms(OTHER_PROBES_AFTER_MS);
            if now < own_turn {
                return Err(Some(own_turn));
            }
        }
        let in_flight = self.in_flight.load(Ordering::Acquire);
        let mut room =
            candidate.service_concurrency.unwrap_or(usize::MAX).saturating_sub(in_flight);
        if candidate.service_concurrency.is_some() && !self.is_tested.load(Ordering::Acquire) {
            let most = candidate.lane_slots / UNTESTED_STREAMS_PART;
            let left = most.saturating_sub(self.untested.load(Ordering::Acquire));
            // Every service has one stream to show how it is.
            room = room.min(left.max(usize::from(in_flight == 0)));
        }
        if room == 0 { Err(None) } else { Ok(room) }
    }

    /// Which address the next delivery should go to, if it is a probe: one that took a message before
    /// (`true`), or one that never did.
    pub(crate) fn wants_probe_of_verified(&self) -> Option<bool> {
        self.breaker.probe_due_at()?;
        Some(!self.is_next_probe_unverified.load(Ordering::Acquire))
    }

    /// It refused our credentials at an address that took a message before: how often in a row now.
    pub(crate) fn refused(&self) -> u16 {
        let more = |refusals: u16| Some(refusals.saturating_add(1));
        let before = self.refusals_in_a_row.fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        self.is_next_probe_unverified.store(true, Ordering::Release);
        before.unwrap_or_default().saturating_add(1)
    }

    /// It refused our credentials at an address that never took a message. `is_probe`: this delivery
    /// tried whether the service still refuses them.
    pub(crate) fn refused_unverified(&self, reason: &Reason, is_probe: bool, now: Timestamp) {
        if is_probe {
            self.is_next_probe_unverified.store(false, Ordering::Release);
            self.breaker.on_probe_rejected(reason, now);
        }
    }

    /// It reported an address dead that is no evidence. Returns whether the server believes it: many in
    /// a row while no message gets through may be the service's own fault.
    pub(crate) fn believes_death(&self) -> bool {
        self.deaths_in_a_row.fetch_add(1, Ordering::AcqRel) < DEATHS_IN_A_ROW_MAX
    }

    /// It took a message.
    pub(crate) fn delivered(&self, now: Timestamp) {
        self.delivered_at.store(now.as_ms(), Ordering::Release);
        self.is_tested.store(true, Ordering::Release);
        self.deaths_in_a_row.store(0, Ordering::Release);
        self.is_next_probe_unverified.store(false, Ordering::Release);
        self.answered();
    }

    /// It gave another answer that shows that it accepts our credentials.
    pub(crate) fn answered(&self) {
        self.refusals_in_a_row.store(0, Ordering::Release);
        self.breaker.on_success();
    }

    /// It did not answer in time, or broke off.
    pub(crate) fn timed_out(&self) {
        self.is_tested.store(false, Ordering::Release);
    }

    /// Whether our credentials get through while it refuses an address that never took a message: one
    /// got through since the first attempt, or shortly before, and no address that took messages before
    /// was refused since.
    pub(crate) fn gets_through(&self, first_attempt_at: Timestamp, now: Timestamp) -> bool {
        let since = first_attempt_at.min(now.plus_ms(-GETS_THROUGH_FOR_MS));
        self.refusals_in_a_row.load(Ordering::Acquire) == 0 && self.delivered_since(since)
    }

    /// Whether a message got through since that instant.
    fn delivered_since(&self, since: Timestamp) -> bool {
        self.delivered_at.load(Ordering::Acquire) >= since.as_ms()
    }

    /// Whether a message got through lately.
    pub(crate) fn works(&self, now: Timestamp) -> bool {
        self.delivered_since(now.plus_ms(-WORKS_FOR_MS))
    }
}

/// One delivery under way through a service: counted there until this goes.
pub(crate) struct UpstreamGuard {
    service: Arc<Upstream>,
    /// Whether the service was untested when the delivery began.
    is_test: bool,
    /// Whether the delivery tries if the service is well again.
    is_probe: bool,
}

impl UpstreamGuard {
    pub(crate) fn start(service: Arc<Upstream>, now: Timestamp) -> Self {
        let is_probe = service.breaker.probe_due_at().is_some();
        // Looked at just before, on the same thread: this may be the probe.
        let _ = service.breaker.admit(now);
        service.in_flight.fetch_add(1, Ordering::AcqRel);
        let is_test = !service.is_tested.load(Ordering::Acquire);
        if is_test {
            service.untested.fetch_add(1, Ordering::AcqRel);
        }
        Self { service, is_test, is_probe }
    }

    /// Whether the delivery tries if the service is well again.
    pub(crate) fn is_probe(&self) -> bool {
        self.is_probe
    }
}

impl std::ops::Deref for UpstreamGuard {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.service
    }
}

impl Drop for UpstreamGuard {
    fn drop(&mut self) {
        self.service.in_flight.fetch_sub(1, Ordering::AcqRel);
        if self.is_test {
            self.service.untested.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether it is a push service of the usual browsers, which has a circuit breaker of its own however
/// many services addresses name.
fn is_well_known(service: &str) -> bool {
    let Some(host) = service.strip_prefix("https://") else { return false };
    WEB_PUSH_SERVICES_DEFAULT.iter().any(|known| match known.strip_prefix('*') {
        Some(domain) => host.ends_with(domain) && !host.contains(':'),
        None => host == *known,
    })
}
