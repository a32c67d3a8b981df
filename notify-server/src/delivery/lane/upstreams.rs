//! The upstreams of one lane: the push services of Web Push, or the two hosts of APNs. Each upstream
//! has its own circuit breaker and its own count of streams. An upstream that rejects messages, fails
//! or does not answer therefore stops only the devices behind it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use notify_core::{ProviderStatus, Timestamp, WEB_PUSH_SERVICES_DEFAULT};

use crate::delivery::breaker::{Admission, CircuitBreaker};
use crate::delivery::breaker_sync::{LaneOutbox, PeerSync};
use crate::providers::Reason;
use crate::store::AddressTrust;

/// Most upstreams with their own circuit breaker. Subscriptions name the upstreams and anyone may
/// subscribe, so there can be any number; further upstreams share one circuit breaker.
const UPSTREAMS_MAX: usize = 64;
/// Most upstreams with their own circuit breaker, for an upstream behind a verified address. This limit
/// is higher than [`UPSTREAMS_MAX`], so that a stranger who subscribes with many invented upstreams
/// cannot take the circuit breakers of real ones.
const VERIFIED_UPSTREAMS_MAX: usize = 2 * UPSTREAMS_MAX;
/// How long the probe of an upstream waits for an address of the kind whose turn it is (verified or
/// unverified) before an address of the other kind becomes the probe, in milliseconds.
const OTHER_TRUST_PROBE_DELAY_MS: i64 = 5_000;
/// Most consecutive reports of dead addresses that are believed while no message is delivered, for
/// addresses that are not verified. Further reports may be a fault of the upstream.
const CONSECUTIVE_UNREGISTERED_MAX: u32 = 20;
/// How long an upstream counts as healthy after it delivered a message, in milliseconds.
const HEALTHY_WINDOW_MS: i64 = 60_000;
/// How long after a delivered message a rejection at an unverified address counts as the address's
/// own fault, in milliseconds.
const DELIVERED_WINDOW_MS: i64 = 300_000;
/// Untested upstreams together get at most the lane's streams divided by this number. Upstreams that
/// accept connections and never answer thus leave streams for the tested ones.
const UNTESTED_STREAMS_DIVISOR: usize = 4;

/// Consecutive reports of a dead address, at addresses whose reports prove nothing about our credentials.
/// Many of them, without a delivered message, may be a fault of the provider or of our configuration.
#[derive(Debug, Default)]
pub(super) struct UnregisteredInARow(AtomicU32);

impl UnregisteredInARow {
    /// Records a report. Returns whether to believe it.
    pub(super) fn record(&self) -> bool {
        self.0.fetch_add(1, Ordering::AcqRel) < CONSECUTIVE_UNREGISTERED_MAX
    }

    /// Records a delivered message.
    pub(super) fn reset(&self) {
        self.0.store(0, Ordering::Release);
    }

    fn has_any(&self) -> bool {
        self.0.load(Ordering::Acquire) > 0
    }
}

/// The upstreams of a lane.
pub(crate) struct Upstreams {
    by_name: Mutex<HashMap<Box<str>, Arc<Upstream>>>,
    probe_every_ms: i64,
    /// Publishes changes of the circuit breakers to other servers; `None` for a single server.
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
    unregistered_in_a_row: UnregisteredInARow,
    /// When a message was last delivered, in unix milliseconds; `i64::MIN` if no message was delivered
    /// since the provider changed.
    delivered_at: AtomicI64,
    /// Whether the upstream delivered a message, and no attempt timed out since then.
    is_tested: AtomicBool,
    /// Whether the next probe goes to an unverified address, because the last probe went to a verified
    /// address and was rejected. Verified and unverified addresses take turns, because all verified
    /// addresses may belong to an earlier key.
    is_next_probe_unverified: AtomicBool,
    /// The counter [`Upstreams::untested`], which all upstreams of the lane share.
    untested: Arc<AtomicUsize>,
}

/// The kind of address that the probe of an upstream should go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeAddress {
    Verified,
    Unverified,
}

impl ProbeAddress {
    /// Whether an address of that trust is of this kind.
    pub(crate) fn matches(self, trust: AddressTrust) -> bool {
        trust.is_verified() == (self == Self::Verified)
    }
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

    /// The upstream of that name, which is created if it does not exist; `None` if it shares a circuit
    /// breaker with other upstreams.
    pub(crate) fn get_with_own_breaker(&self, name: &str) -> Option<Arc<Upstream>> {
        let upstream = self.get_or_create(name, AddressTrust::Verified);
        let by_name = self.by_name.lock().expect("no holder of the upstreams panics");
        // At the limit, `get_or_create` returns the shared upstream and does not add the name.
        by_name.contains_key(name).then_some(upstream)
    }

    /// The upstreams with their own circuit breaker. These breakers are replicated to other servers.
    pub(crate) fn all_with_own_breaker(&self) -> Vec<(Box<str>, Arc<Upstream>)> {
        let by_name = self.by_name.lock().expect("no holder of the upstreams panics");
        // The upstream with the empty name has the shared breaker.
        let with_own_breaker = by_name.iter().filter(|(name, _)| !name.is_empty());
        with_own_breaker.map(|(name, upstream)| (name.clone(), upstream.clone())).collect()
    }

    /// The upstream of that name, for an address of that trust. When the limit of upstreams is reached,
    /// this is the upstream with the empty name, which all further names share.
    pub(crate) fn get_or_create(&self, name: &str, trust: AddressTrust) -> Arc<Upstream> {
        let mut by_name = self.by_name.lock().expect("no holder of the upstreams panics");
        if let Some(upstream) = by_name.get(name) {
            return upstream.clone();
        }
        if by_name.len() >= UPSTREAMS_MAX {
            // Unused upstreams without relevant state are removed to make room.
            by_name.retain(|_, upstream| {
                Arc::strong_count(upstream) > 1 || upstream.has_relevant_state()
            });
        }
        let limit = if trust.is_verified() { VERIFIED_UPSTREAMS_MAX } else { UPSTREAMS_MAX };
        let has_own_breaker = by_name.len() < limit || is_well_known(name);
        let key = if has_own_breaker { name } else { "" };
        let upstream = by_name.entry(key.into()).or_insert_with(|| {
            // The state of the shared breaker is no evidence about a single upstream, so it is not
            // replicated.
            let outbox = self.outbox.clone().filter(|_| !key.is_empty());
            let peers = outbox.map(PeerSync::new);
            Arc::new(Upstream {
                breaker: CircuitBreaker::new(self.probe_every_ms, peers),
                in_flight: AtomicUsize::new(0),
                consecutive_refusals: AtomicU16::new(0),
                unregistered_in_a_row: UnregisteredInARow::default(),
                delivered_at: AtomicI64::new(i64::MIN),
                is_tested: AtomicBool::new(false),
                is_next_probe_unverified: AtomicBool::new(false),
                untested: self.untested.clone(),
            })
        });
        upstream.clone()
    }

    /// The worst status of all upstreams at that time.
    pub(crate) fn worst_status(&self, now: Timestamp) -> ProviderStatus {
        let by_name = self.by_name.lock().expect("no holder of the upstreams panics");
        let statuses = by_name.values().map(|upstream| upstream.breaker.status(now));
        statuses.max().unwrap_or(ProviderStatus::Available)
    }

    /// Closes all circuit breakers, because the provider was reconfigured or released.
    pub(crate) fn reset(&self) {
        for upstream in self.by_name.lock().expect("no holder of the upstreams panics").values() {
            upstream.breaker.close();
            upstream.consecutive_refusals.store(0, Ordering::Release);
            upstream.unregistered_in_a_row.reset();
            upstream.delivered_at.store(i64::MIN, Ordering::Release);
            upstream.is_tested.store(false, Ordering::Release);
            upstream.is_next_probe_unverified.store(false, Ordering::Release);
        }
    }

    /// The status of every upstream at that time, sorted by name.
    pub(crate) fn statuses(&self, now: Timestamp) -> Vec<(Box<str>, ProviderStatus)> {
        let by_name = self.by_name.lock().expect("no holder of the upstreams panics");
        let status = |upstream: &Upstream| upstream.breaker.status(now);
        let mut statuses: Vec<_> =
            by_name.iter().map(|(name, upstream)| (name.clone(), status(upstream))).collect();
        statuses.sort_by(|(left, _), (right, _)| left.cmp(right));
        statuses
    }
}

impl Upstream {
    /// Whether the state of this upstream affects the next delivery to it.
    fn has_relevant_state(&self) -> bool {
        !self.breaker.is_closed()
            || self.consecutive_refusals.load(Ordering::Acquire) > 0
            || self.unregistered_in_a_row.has_any()
            || self.is_tested.load(Ordering::Acquire)
    }

    /// The number of further deliveries that this upstream accepts now.
    ///
    /// # Errors
    /// If it accepts none: the time to check again; `None` if all its streams are in use, because the
    /// end of a stream wakes the waiting pages.
    pub(crate) fn capacity(
        &self,
        candidate: Candidate,
        now: Timestamp,
    ) -> Result<usize, Option<Timestamp>> {
        if let Admission::Wait(until) = self.breaker.peek(now) {
            return Err(Some(until));
        }
        if let (Some(due_at), Some(probe_address)) =
            (self.breaker.probe_due_at(), self.next_probe_address())
            && !probe_address.matches(candidate.trust)
        {
            // It is the turn of the other kind of address.
            let may_probe_at = due_at.plus_ms(OTHER_TRUST_PROBE_DELAY_MS);
            if now < may_probe_at {
                return Err(Some(may_probe_at));
            }
        }
        let in_flight = self.in_flight.load(Ordering::Acquire);
        let mut free_streams =
            candidate.upstream_concurrency.unwrap_or(usize::MAX).saturating_sub(in_flight);
        if candidate.upstream_concurrency.is_some() && !self.is_tested.load(Ordering::Acquire) {
            let untested_max = candidate.lane_streams / UNTESTED_STREAMS_DIVISOR;
            let untested_free = untested_max.saturating_sub(self.untested.load(Ordering::Acquire));
            // Every upstream gets at least one stream to show that it works.
            let guaranteed = if in_flight == 0 { 1 } else { 0 };
            free_streams = free_streams.min(untested_free.max(guaranteed));
        }
        if free_streams == 0 { Err(None) } else { Ok(free_streams) }
    }

    /// The kind of address that the next delivery should go to; `None` if the next delivery is not a
    /// probe, so that any address will do.
    pub(crate) fn next_probe_address(&self) -> Option<ProbeAddress> {
        self.breaker.probe_due_at()?;
        let is_unverified = self.is_next_probe_unverified.load(Ordering::Acquire);
        Some(if is_unverified { ProbeAddress::Unverified } else { ProbeAddress::Verified })
    }

    /// Records a rejection of our credentials at a verified address. Returns the number of consecutive
    /// rejections, this one included.
    pub(crate) fn record_refusal(&self) -> u16 {
        let increment = |refusals: u16| Some(refusals.saturating_add(1));
        let before =
            self.consecutive_refusals.fetch_update(Ordering::AcqRel, Ordering::Acquire, increment);
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

    /// Records a report that an anonymous or unverified address is dead. Returns whether to believe it.
    pub(crate) fn record_unregistered(&self) -> bool {
        self.unregistered_in_a_row.record()
    }

    /// Records a delivered message.
    pub(crate) fn record_delivery(&self, now: Timestamp) {
        self.delivered_at.store(now.as_ms(), Ordering::Release);
        self.is_tested.store(true, Ordering::Release);
        self.unregistered_in_a_row.reset();
        self.is_next_probe_unverified.store(false, Ordering::Release);
        self.record_answer();
    }

    /// Records an answer that shows that the upstream accepts our credentials.
    pub(crate) fn record_answer(&self) {
        self.consecutive_refusals.store(0, Ordering::Release);
        self.breaker.on_success();
    }

    /// Records a timeout or a broken connection. The upstream counts as untested until it delivers a
    /// message again.
    pub(crate) fn record_timeout(&self) {
        self.is_tested.store(false, Ordering::Release);
    }

    /// Whether the upstream accepts our credentials, so that a rejection at an unverified address is
    /// the fault of that address. This is so if a message was delivered since the first attempt or
    /// within [`DELIVERED_WINDOW_MS`], and no verified address was rejected since then.
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

/// One attempt in flight at an upstream. The attempt counts until this value is dropped.
pub(crate) struct UpstreamGuard {
    upstream: Arc<Upstream>,
    /// Whether the upstream was untested when the attempt started.
    was_untested: bool,
    /// Whether the attempt is the probe of the upstream.
    is_probe: bool,
}

impl UpstreamGuard {
    pub(crate) fn start(upstream: Arc<Upstream>, now: Timestamp) -> Self {
        let is_probe = upstream.breaker.probe_due_at().is_some();
        // The result is ignored: the caller checked the breaker just before, on the same thread. The
        // call marks this attempt as the probe if one is due.
        let _ = upstream.breaker.admit(now);
        upstream.in_flight.fetch_add(1, Ordering::AcqRel);
        let was_untested = !upstream.is_tested.load(Ordering::Acquire);
        if was_untested {
            upstream.untested.fetch_add(1, Ordering::AcqRel);
        }
        Self { upstream, was_untested, is_probe }
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
        if self.was_untested {
            self.upstream.untested.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Whether this is the push service of a common browser. Such a push service always has its own
/// circuit breaker, even if the addresses name more upstreams than the limit.
fn is_well_known(name: &str) -> bool {
    let Some(host) = name.strip_prefix("https://") else { return false };
    WEB_PUSH_SERVICES_DEFAULT.iter().any(|pattern| match pattern.strip_prefix('*') {
        Some(domain) => host.ends_with(domain) && !host.contains(':'),
        None => host == *pattern,
    })
}
