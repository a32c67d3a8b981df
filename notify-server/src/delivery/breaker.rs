//! The circuit breaker of a lane, or of one upstream of the lane. It decides whether deliveries of one
//! application through one provider may be sent now.
//!
//! ```text
//!           throttled            auth failure        next delivery
//! Throttled ◀────────── Closed ──────────────▶ Suspect ─────────▶ HalfOpen ──auth failure─▶ AuthRejected
//!     └───── expired ─────▶ ▲ │                                     ▲ │ ▲                       │
//!                           │ └──── failures ────▶ Unreachable ─────┘ │ └────── probe due ──────┘
//!                           └─────────────── any other answer ────────┘
//! ```
//!
//! Every state can also become `Tripped`, and only an administrator ends that state. While the breaker
//! is half-open, one delivery is in flight as a probe.

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use notify_core::{ProviderStatus, Timestamp};

use crate::delivery::breaker_sync::{ApplyContext, PeerSync, PendingUpdate, UpdateEffect};
use crate::providers::{Processing, Reason};
use crate::signal::{Signal, Waiter};
use crate::store::BreakerRecord;

/// State of a circuit breaker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BreakerState {
    /// Deliveries are sent.
    Closed,
    /// The provider asked to slow down.
    Throttled {
        /// End of the wait.
        until: Timestamp,
    },
    /// The provider rejected our credentials for one delivery. The next delivery shows whether the
    /// credentials are at fault or only the address of the first one.
    Suspect,
    /// The provider rejects our credentials.
    AuthRejected {
        /// The provider's error code.
        reason: Reason,
        /// When one delivery is sent as a probe.
        probe_at: Timestamp,
    },
    /// The provider cannot be reached, or fails every request.
    Unreachable {
        /// When one delivery is sent as a probe.
        probe_at: Timestamp,
    },
    /// One delivery is in flight as a probe.
    HalfOpen {
        /// When the probe counts as lost, so that another probe is sent.
        until: Timestamp,
        /// Whether the probe tests credentials that were rejected.
        tests_credentials: bool,
    },
    /// So many addresses looked dead that the configuration may be wrong. An administrator has to
    /// release the breaker.
    Tripped,
}

impl BreakerState {
    /// The status that clients see for this state at that time.
    pub(super) fn status(&self, now: Timestamp) -> ProviderStatus {
        match self {
            Self::Throttled { until } if now < *until => {
                ProviderStatus::Throttled { until: *until }
            }
            Self::Closed | Self::Suspect | Self::Throttled { .. } => ProviderStatus::Available,
            Self::Unreachable { probe_at }
            | Self::HalfOpen { until: probe_at, tests_credentials: false } => {
                ProviderStatus::Unreachable { probe_at: *probe_at }
            }
            Self::AuthRejected { reason, probe_at } => ProviderStatus::AuthRejected {
                reason: Some(reason.clone().into_owned()),
                probe_at: *probe_at,
            },
            Self::HalfOpen { until, tests_credentials: true } => {
                ProviderStatus::AuthRejected { reason: None, probe_at: *until }
            }
            Self::Tripped => ProviderStatus::Tripped,
        }
    }

    /// See [`CircuitBreaker::is_waiting_for_probe`].
    fn is_waiting_for_probe(&self, now: Timestamp) -> bool {
        match *self {
            Self::Closed | Self::Throttled { .. } | Self::Unreachable { .. } | Self::Suspect => {
                false
            }
            Self::AuthRejected { probe_at: until, .. } | Self::HalfOpen { until, .. } => {
                now < until
            }
            Self::Tripped => true,
        }
    }
}

/// The effect of an answer that rejects our credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthFailure {
    /// The rejection may concern that address alone, so its delivery is retried as after an unknown
    /// answer.
    Suspected,
    /// All deliveries are held, and none of them fails because of the rejection.
    Confirmed {
        /// Whether this is the first report since the last success.
        is_first: bool,
    },
}

/// Whether one delivery may be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// The delivery may be sent.
    Go,
    /// The delivery waits until that time, or until the breaker changes.
    Wait(Timestamp),
}

/// A circuit breaker.
#[derive(Debug)]
pub(crate) struct CircuitBreaker {
    state: Mutex<BreakerState>,
    changed: Signal,
    probe_every_ms: i64,
    /// Consecutive attempts that ended in 5xx.
    consecutive_failures: AtomicU32,
    /// Whether an auth failure was logged since the last success, so that failed probes are not logged
    /// again.
    auth_failure_reported: AtomicBool,
    /// Consecutive times that the breaker became unreachable. This is the exponent of the backoff.
    consecutive_outages: AtomicU32,
    /// Replication to other servers; `None` for a single server, and for a breaker that several
    /// upstreams share.
    peers: Option<PeerSync>,
}

/// First wait for an unreachable provider, in milliseconds. The wait doubles with each failed probe.
const OUTAGE_BACKOFF_MS: i64 = 1_000;
/// Most doublings of [`OUTAGE_BACKOFF_MS`], so that the wait grows to about a minute.
const OUTAGE_DOUBLINGS_MAX: u32 = 6;
/// Consecutive attempts that end in 5xx before the provider counts as unreachable. A few of them may be
/// the fault of single messages.
const CONSECUTIVE_FAILURES_MAX: u32 = 20;
/// Longest wait of a task at a tripped breaker before it checks again, in milliseconds. A release wakes
/// the task earlier.
const TRIPPED_RECHECK_MS: i64 = 3_600_000;

impl CircuitBreaker {
    pub(crate) fn new(probe_every_ms: i64, peers: Option<PeerSync>) -> Self {
        Self {
            peers,
            state: Mutex::new(BreakerState::Closed),
            changed: Signal::default(),
            probe_every_ms,
            consecutive_failures: AtomicU32::new(0),
            auth_failure_reported: AtomicBool::new(false),
            consecutive_outages: AtomicU32::new(0),
        }
    }

    /// Decides whether one delivery may be sent now. If a probe is due, the delivery becomes the probe.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        let mut state = self.lock();
        let (admission, next) = self.evaluate(&state, now);
        if let Some(next) = next {
            *state = next;
        }
        admission
    }

    /// The result that [`CircuitBreaker::admit`] would return. The state does not change, so no delivery
    /// becomes the probe.
    pub(crate) fn peek(&self, now: Timestamp) -> Admission {
        self.evaluate(&self.lock(), now).0
    }

    /// When the next delivery may be sent as a probe; `None` if the next delivery is not a probe.
    pub(crate) fn probe_due_at(&self) -> Option<Timestamp> {
        match *self.lock() {
            BreakerState::AuthRejected { probe_at: due_at, .. }
            | BreakerState::Unreachable { probe_at: due_at }
            | BreakerState::HalfOpen { until: due_at, .. } => Some(due_at),
            BreakerState::Closed
            | BreakerState::Throttled { .. }
            | BreakerState::Suspect
            | BreakerState::Tripped => None,
        }
    }

    /// Records that a probe of the credentials was rejected at an unverified address, whose answers are
    /// no evidence about the credentials. The credentials still count as rejected, and the next probe is
    /// sent after the usual interval.
    pub(crate) fn on_probe_rejected(&self, reason: &Reason, now: Timestamp) {
        let probe_at = now.plus_ms(self.probe_every_ms);
        self.change(|state| {
            matches!(state, BreakerState::HalfOpen { tests_credentials: true, .. })
                .then(|| BreakerState::AuthRejected { reason: reason.clone(), probe_at })
        });
    }

    /// Records an answer which shows that the provider is reachable, and which is no evidence about our
    /// credentials. An unreachable provider is available again. A probe of the credentials is repeated
    /// at once.
    pub(crate) fn on_reachable(&self, now: Timestamp) {
        self.consecutive_failures.store(0, Ordering::Release);
        self.change(|state| match state {
            BreakerState::HalfOpen { tests_credentials: true, .. } => {
                Some(BreakerState::HalfOpen { until: now, tests_credentials: true })
            }
            BreakerState::HalfOpen { tests_credentials: false, .. }
            | BreakerState::Unreachable { .. } => {
                self.consecutive_outages.store(0, Ordering::Release);
                Some(BreakerState::Closed)
            }
            BreakerState::Closed
            | BreakerState::Suspect
            | BreakerState::Throttled { .. }
            | BreakerState::AuthRejected { .. }
            | BreakerState::Tripped => None,
        });
    }

    /// When the probe in flight counts as lost; `None` if there is none. Directly after [`CircuitBreaker::admit`]
    /// admitted a delivery, that delivery is the probe.
    pub(crate) fn probe_until(&self) -> Option<Timestamp> {
        match *self.lock() {
            BreakerState::HalfOpen { until, .. } => Some(until),
            BreakerState::Closed
            | BreakerState::Throttled { .. }
            | BreakerState::Suspect
            | BreakerState::AuthRejected { .. }
            | BreakerState::Unreachable { .. }
            | BreakerState::Tripped => None,
        }
    }

    /// Records that the probe which would count as lost at `probe_until` is not sent. The next delivery becomes
    /// the probe.
    pub(crate) fn withdraw_probe(&self, probe_until: Timestamp) {
        self.change(|state| match *state {
            BreakerState::HalfOpen { until, tests_credentials } if until == probe_until => {
                let until = probe_until.plus_ms(-self.probe_every_ms);
                Some(BreakerState::HalfOpen { until, tests_credentials })
            }
            BreakerState::HalfOpen { .. }
            | BreakerState::Closed
            | BreakerState::Throttled { .. }
            | BreakerState::Suspect
            | BreakerState::AuthRejected { .. }
            | BreakerState::Unreachable { .. }
            | BreakerState::Tripped => None,
        });
    }

    /// Whether a delivery may be sent in that state, and the state after it was sent if that differs.
    fn evaluate(&self, state: &BreakerState, now: Timestamp) -> (Admission, Option<BreakerState>) {
        let probe = |tests_credentials| {
            let until = now.plus_ms(self.probe_every_ms);
            (Admission::Go, Some(BreakerState::HalfOpen { until, tests_credentials }))
        };
        match *state {
            BreakerState::Closed => (Admission::Go, None),
            BreakerState::Suspect => probe(true),
            BreakerState::Throttled { until } if now >= until => {
                (Admission::Go, Some(BreakerState::Closed))
            }
            BreakerState::AuthRejected { probe_at, .. } if now >= probe_at => probe(true),
            BreakerState::Unreachable { probe_at } if now >= probe_at => probe(false),
            BreakerState::HalfOpen { until, tests_credentials } if now >= until => {
                probe(tests_credentials)
            }
            BreakerState::Throttled { until }
            | BreakerState::HalfOpen { until, .. }
            | BreakerState::Unreachable { probe_at: until }
            | BreakerState::AuthRejected { probe_at: until, .. } => (Admission::Wait(until), None),
            BreakerState::Tripped => (Admission::Wait(now.plus_ms(TRIPPED_RECHECK_MS)), None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BreakerState> {
        self.state.lock().expect("no holder of the breaker panics")
    }

    /// The status that clients see: whether deliveries are sent, and if not, why.
    pub(crate) fn status(&self, now: Timestamp) -> ProviderStatus {
        self.lock().status(now)
    }

    /// Whether the breaker is closed. A breaker with a suspected auth failure or an expired throttle is
    /// not closed, although it admits deliveries.
    pub(crate) fn is_closed(&self) -> bool {
        *self.lock() == BreakerState::Closed
    }

    /// Whether all deliveries wait at that time for valid credentials, for the probe that tests the
    /// credentials, or for an administrator.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let tests_reachability =
            matches!(*state, BreakerState::HalfOpen { tests_credentials: false, .. });
        !tests_reachability && state.is_waiting_for_probe(now)
    }

    /// Whether all deliveries wait at that time for a probe of rejected credentials, for the result of a
    /// probe in flight, or for an administrator. The end of such a wait is not known in advance. This is
    /// false for an unreachable provider: its deliveries are given a new time and are sent after it.
    pub(crate) fn is_waiting_for_probe(&self, now: Timestamp) -> bool {
        self.lock().is_waiting_for_probe(now)
    }

    /// Records that the provider asked to slow down. If the breaker is throttled already, the later end
    /// counts.
    pub(crate) fn throttle(&self, until: Timestamp) {
        self.change(|state| match state {
            BreakerState::Closed
            | BreakerState::HalfOpen { .. }
            | BreakerState::Unreachable { .. }
            | BreakerState::Suspect => Some(BreakerState::Throttled { until }),
            BreakerState::Throttled { until: before } if *before < until => {
                Some(BreakerState::Throttled { until })
            }
            BreakerState::Throttled { .. }
            | BreakerState::AuthRejected { .. }
            | BreakerState::Tripped => None,
        });
    }

    /// Records that the provider rejected our credentials for a delivery. After the first rejection, one
    /// more delivery is sent as a probe. If the probe is rejected too, all deliveries are held.
    pub(crate) fn on_auth_failure(&self, reason: &Reason, now: Timestamp) -> AuthFailure {
        let mut is_suspected = false;
        self.change(|state| match state {
            BreakerState::Closed | BreakerState::Unreachable { .. } => {
                is_suspected = true;
                Some(BreakerState::Suspect)
            }
            // The throttle continues. The first delivery after it shows whether the credentials are at
            // fault.
            BreakerState::Throttled { .. } => {
                is_suspected = true;
                None
            }
            BreakerState::Suspect
            | BreakerState::HalfOpen { .. }
            | BreakerState::AuthRejected { .. }
            | BreakerState::Tripped => None,
        });
        if is_suspected { AuthFailure::Suspected } else { self.reject_credentials(reason, now) }
    }

    /// Holds all deliveries, because our credentials are rejected.
    pub(crate) fn reject_credentials(&self, reason: &Reason, now: Timestamp) -> AuthFailure {
        let probe_at = now.plus_ms(self.probe_every_ms);
        let mut is_first = false;
        self.change(|state| match state {
            BreakerState::AuthRejected { .. } | BreakerState::Tripped => None,
            BreakerState::Closed
            | BreakerState::Throttled { .. }
            | BreakerState::Unreachable { .. }
            | BreakerState::Suspect
            | BreakerState::HalfOpen { .. } => {
                is_first = !self.auth_failure_reported.swap(true, Ordering::AcqRel);
                Some(BreakerState::AuthRejected { reason: reason.clone(), probe_at })
            }
        });
        AuthFailure::Confirmed { is_first }
    }

    /// Stops all deliveries until an administrator releases the breaker. Returns false if the breaker was
    /// tripped before.
    pub(crate) fn trip(&self) -> bool {
        let mut trips_now = false;
        self.change(|state| {
            trips_now = *state != BreakerState::Tripped;
            trips_now.then_some(BreakerState::Tripped)
        });
        trips_now
    }

    /// Records an attempt that failed without an answer about our credentials or the message. After one
    /// failed connection, or many failures in a row, nothing is sent for a while, and then a probe. An
    /// outage therefore turns few deliveries into retries and causes few requests. Returns whether an
    /// outage begins.
    pub(crate) fn on_failure(&self, processing: Processing, now: Timestamp) -> bool {
        let is_outage = match processing {
            Processing::NotProcessed => true,
            Processing::Failed => {
                let before = self.consecutive_failures.fetch_add(1, Ordering::AcqRel);
                before + 1 >= CONSECUTIVE_FAILURES_MAX
            }
            // A single broken connection can end a thousand streams, and the next connection may work,
            // so this is not an outage. If the attempt was the probe, the code below still ends the
            // probe, so that the next probe need not wait until this one counts as lost.
            Processing::Unknown => false,
        };
        let mut begins_outage = false;
        self.change(|state| {
            let becomes_unreachable = match state {
                BreakerState::Closed | BreakerState::Suspect => is_outage,
                BreakerState::HalfOpen { .. } => true,
                BreakerState::Throttled { .. }
                | BreakerState::Unreachable { .. }
                | BreakerState::AuthRejected { .. }
                | BreakerState::Tripped => false,
            };
            becomes_unreachable.then(|| {
                let doublings = self.consecutive_outages.fetch_add(1, Ordering::AcqRel);
                begins_outage = doublings == 0;
                let wait_ms = OUTAGE_BACKOFF_MS << doublings.min(OUTAGE_DOUBLINGS_MAX);
                BreakerState::Unreachable { probe_at: now.plus_ms(wait_ms) }
            })
        });
        begins_outage
    }

    /// Records an answer that does not reject our credentials. If a probe is in flight, it has succeeded.
    pub(crate) fn on_success(&self) {
        self.consecutive_failures.store(0, Ordering::Release);
        self.change(|state| match state {
            BreakerState::HalfOpen { .. }
            | BreakerState::Unreachable { .. }
            | BreakerState::Suspect => {
                self.consecutive_outages.store(0, Ordering::Release);
                self.auth_failure_reported.store(false, Ordering::Release);
                Some(BreakerState::Closed)
            }
            BreakerState::Closed
            | BreakerState::Throttled { .. }
            | BreakerState::AuthRejected { .. }
            | BreakerState::Tripped => None,
        });
    }

    /// Closes the breaker from any state, because the provider was reconfigured or released.
    pub(crate) fn close(&self) {
        self.reset_counters();
        self.change(|_| Some(BreakerState::Closed));
    }

    fn reset_counters(&self) {
        self.consecutive_failures.store(0, Ordering::Release);
        self.consecutive_outages.store(0, Ordering::Release);
        self.auth_failure_reported.store(false, Ordering::Release);
    }

    /// Wakes the tasks that wait at the breaker although its state did not change, because another
    /// condition that they check may have changed.
    pub(crate) fn wake_waiters(&self) {
        self.changed.notify();
    }

    /// A waiter that is notified of every change of the breaker.
    pub(crate) fn subscribe(&self) -> Waiter {
        self.changed.subscribe()
    }

    /// The status to publish to the other servers, if it changed since it was last taken.
    pub(crate) fn take_update(&self, now: Timestamp) -> Option<PendingUpdate> {
        let state = self.lock();
        self.peers.as_ref()?.take_update(&state, now)
    }

    /// Marks the status as unpublished again, because an update that was taken could not be published.
    pub(crate) fn requeue_update(&self) {
        if let Some(peers) = &self.peers {
            peers.mark_dirty();
        }
    }

    /// Applies the latest published record, which this server or another one wrote.
    pub(crate) fn apply_record(
        &self,
        record: &BreakerRecord,
        context: ApplyContext,
    ) -> UpdateEffect {
        let mut state = self.lock();
        let Some(peers) = &self.peers else { return UpdateEffect::Ignored };
        let effect = peers.apply(&mut state, record, context);
        if effect == UpdateEffect::Applied {
            match *state {
                BreakerState::Closed => self.reset_counters(),
                BreakerState::AuthRejected { .. } => {
                    self.auth_failure_reported.store(true, Ordering::Release);
                }
                BreakerState::Unreachable { .. } => {
                    self.consecutive_outages.fetch_add(1, Ordering::AcqRel);
                }
                BreakerState::Throttled { .. }
                | BreakerState::Suspect
                | BreakerState::HalfOpen { .. }
                | BreakerState::Tripped => {}
            }
            drop(state);
            self.changed.notify();
        }
        effect
    }

    #[cfg(test)]
    pub(super) fn state(&self) -> BreakerState {
        self.lock().clone()
    }

    /// Changes the state to the result of `next`, if it returns one. Then the waiting tasks are woken and
    /// the new status is published.
    fn change(&self, next: impl FnOnce(&BreakerState) -> Option<BreakerState>) {
        let mut state = self.lock();
        if let Some(next) = next(&state) {
            *state = next;
            if let Some(peers) = &self.peers {
                peers.mark_dirty();
            }
            drop(state);
            self.changed.notify();
        }
    }
}
