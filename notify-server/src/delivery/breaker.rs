//! The circuit breaker of a lane, or of one push service behind it: whether deliveries of one
//! application through one provider may go out now.
//!
//! ```text
//!           throttled            auth failure        next delivery
//! Throttled ◀────────── Closed ──────────────▶ Suspect ─────────▶ HalfOpen ──auth failure─▶ AuthRejected
//!     └───── expired ─────▶ ▲ │                                     ▲ │ ▲                       │
//!                           │ └──── failures ────▶ Unreachable ─────┘ │ └────── probe due ──────┘
//!                           └─────────────── any other answer ────────┘
//! ```
//!
//! Every state can also become `Tripped`, which only an administrator ends. While the breaker is
//! half-open, one delivery is in flight as a probe.

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
    /// Deliveries go out.
    Closed,
    /// The provider asked to slow down.
    Throttled {
        /// End of the wait.
        until: Timestamp,
    },
    /// The provider rejected our credentials for one delivery. The next one shows whether the
    /// credentials are at fault or that address alone.
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
        /// When the probe counts as lost, and another one is sent.
        until: Timestamp,
        /// Whether the probe tests credentials that were rejected.
        tests_credentials: bool,
    },
    /// So many addresses looked dead that the configuration may be wrong; an administrator has to
    /// release it.
    Tripped,
}

impl BreakerState {
    /// The status that this state means at that instant.
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
    /// The rejection may concern that address alone: the delivery is retried like any other.
    Suspected,
    /// Everything is held; no delivery fails for it.
    Confirmed {
        /// Whether this is the first report since the last success.
        is_first: bool,
    },
}

/// Whether one delivery may go out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may go out.
    Go,
    /// Not before that instant, or a change of the breaker.
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
    /// Whether an auth failure was reported since the last success: a failed probe is not reported again.
    auth_failure_reported: AtomicBool,
    /// Consecutive times that the breaker became unreachable: the exponent of the backoff.
    consecutive_outages: AtomicU32,
    /// Replication to the other servers; `None` for a single server, and for a breaker that several
    /// push services share.
    peers: Option<PeerSync>,
}

/// First wait for a provider that is unreachable, in milliseconds. It doubles with each failed probe.
const OUTAGE_BACKOFF_MS: i64 = 1_000;
/// Most doublings of that wait: it stays at about a minute.
const OUTAGE_DOUBLINGS_MAX: u32 = 6;
/// Consecutive attempts that end in 5xx before the provider counts as unreachable: a few may be about
/// the message.
const CONSECUTIVE_FAILURES_MAX: u32 = 20;
/// Longest wait of a delivery at a tripped breaker before it checks again, in milliseconds. A release
/// wakes it earlier.
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

    /// Asks for one delivery to go out. Where a probe is due, this makes it the probe.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        let mut state = self.lock();
        let (admission, next) = self.look(&state, now);
        if let Some(next) = next {
            *state = next;
        }
        admission
    }

    /// What [`CircuitBreaker::admit`] would return, without making anything the probe.
    pub(crate) fn peek(&self, now: Timestamp) -> Admission {
        self.look(&self.lock(), now).0
    }

    /// When the next admitted delivery goes out as a probe; `None` if it is none.
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

    /// A probe of the credentials was rejected at an address whose answers are no evidence about them.
    /// The credentials still count as rejected.
    pub(crate) fn on_probe_rejected(&self, reason: &Reason, now: Timestamp) {
        let probe_at = now.plus_ms(self.probe_every_ms);
        self.change(|state| {
            matches!(state, BreakerState::HalfOpen { tests_credentials: true, .. })
                .then(|| BreakerState::AuthRejected { reason: reason.clone(), probe_at })
        });
    }

    /// The provider gave an answer that shows that it is reachable and is no evidence about our
    /// credentials. An unreachable provider is available again; a probe of the credentials is repeated
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

    fn look(&self, state: &BreakerState, now: Timestamp) -> (Admission, Option<BreakerState>) {
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

    /// Whether deliveries go out, and why not.
    pub(crate) fn status(&self, now: Timestamp) -> ProviderStatus {
        self.lock().status(now)
    }

    /// Whether nothing is known against the provider; a suspected auth failure or an expired throttle
    /// is.
    pub(crate) fn is_closed(&self) -> bool {
        *self.lock() == BreakerState::Closed
    }

    /// Whether everything waits for valid credentials, for the probe that tests them, or for an
    /// administrator, at that instant.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let tests_reachability =
            matches!(*state, BreakerState::HalfOpen { tests_credentials: false, .. });
        !tests_reachability && state.is_waiting_for_probe(now)
    }

    /// Whether everything waits at that instant for the result of a probe, or for an administrator.
    /// Either may come at any time, so no later instant is known.
    pub(crate) fn is_waiting_for_probe(&self, now: Timestamp) -> bool {
        self.lock().is_waiting_for_probe(now)
    }

    /// The provider asked to slow down. The later of two instants counts.
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

    /// The provider rejected our credentials for a delivery. The first time, one more delivery is sent
    /// as a probe; when that is rejected too, everything is held.
    pub(crate) fn on_auth_failure(&self, reason: &Reason, now: Timestamp) -> AuthFailure {
        let mut is_suspected = false;
        self.change(|state| match state {
            BreakerState::Closed | BreakerState::Unreachable { .. } => {
                is_suspected = true;
                Some(BreakerState::Suspect)
            }
            // The wait continues; the delivery after it shows whether the credentials are at fault.
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

    /// Holds everything: our credentials are rejected.
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

    /// Stops everything until an administrator releases it. Returns whether it was not stopped before.
    pub(crate) fn trip(&self) -> bool {
        let mut is_first = false;
        self.change(|state| {
            is_first = *state != BreakerState::Tripped;
            is_first.then_some(BreakerState::Tripped)
        });
        is_first
    }

    /// An attempt failed without an answer about us or the message. A provider that is out of reach, or
    /// that fails many times in a row, is left alone for a while, then probed: an outage turns few
    /// deliveries into retries, and causes few requests. Returns whether this begins an outage.
    pub(crate) fn on_failure(&self, certainty: Processing, now: Timestamp) -> bool {
        let is_outage = match certainty {
            Processing::NotProcessed => true,
            Processing::Failed => {
                let before = self.consecutive_failures.fetch_add(1, Ordering::AcqRel);
                before + 1 >= CONSECUTIVE_FAILURES_MAX
            }
            // One connection that breaks ends a thousand streams, and predicts nothing about the next
            // one. It ends a probe without a result, and the next probe must not wait for it.
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

    /// The provider gave an answer that does not blame our credentials: a probe succeeded.
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

    /// Closes the breaker from any state: the provider was reconfigured or released.
    pub(crate) fn close(&self) {
        self.reset_counters();
        self.change(|_| Some(BreakerState::Closed));
    }

    fn reset_counters(&self) {
        self.consecutive_failures.store(0, Ordering::Release);
        self.consecutive_outages.store(0, Ordering::Release);
        self.auth_failure_reported.store(false, Ordering::Release);
    }

    /// Wakes the tasks that wait at the breaker, to check something other than its state.
    pub(crate) fn wake_waiters(&self) {
        self.changed.notify();
    }

    /// Notifies of every change.
    pub(crate) fn subscribe(&self) -> Waiter {
        self.changed.subscribe()
    }

    /// The status to publish to the other servers, if it changed since it was last taken.
    pub(crate) fn take_update(&self, now: Timestamp) -> Option<PendingUpdate> {
        let state = self.lock();
        self.peers.as_ref()?.take_update(&state, now)
    }

    /// An update that was taken could not be published.
    pub(crate) fn requeue_update(&self) {
        if let Some(peers) = &self.peers {
            peers.mark_dirty();
        }
    }

    /// Applies the latest published record, this server's or another's.
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
