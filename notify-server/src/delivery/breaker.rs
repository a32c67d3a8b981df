//! The gate of a lane: whether deliveries of one application through one provider may go out now.
//!
//! ```text
//!       throttled            refused          next one out
//! Paused ◀──────────── Open ──────────▶ Doubted ──────────▶ Probing ──refused──▶ Held
//!    └──── time over ───▶ ▲ │                                 ▲ │ ▲               │
//!                         │ └─ out of reach, failing ─▶ Failing │ └── probe due ──┘
//!                         └─────────── any other answer ────────┘
//! ```

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::{Platform, Timestamp};

use crate::changes::{Changes, Heard as ChangesHeard};
use crate::delivery::breaker_sync::News;
use crate::providers::{Certainty, Reason};
use crate::store::{AppNo, ChannelTold, ChannelWord, Epoch};
use crate::telemetry::Pause;

/// State of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum GateState {
    /// Deliveries go out.
    Open,
    /// The provider asked to slow down.
    Paused {
        /// Until when.
        until: Timestamp,
    },
    /// The provider refused our credentials for one delivery: the next one tells whether it is them,
    /// or that address alone.
    Doubted,
    /// The provider refuses our credentials.
    Held {
        /// Its word.
        reason: Reason,
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// The provider cannot be reached, or fails every request.
    Failing {
        /// When one delivery is tried as a probe.
        probe_at: Timestamp,
    },
    /// One delivery is out as a probe.
    Probing {
        /// When the probe counts as lost, and another goes out.
        until: Timestamp,
        /// Whether it tries credentials that were refused.
        credentials: bool,
    },
    /// Released by an administrator alone: so many addresses looked dead that it may be our fault.
    Stopped,
}

impl GateState {
    fn awaits_word(&self, now: Timestamp) -> bool {
        match *self {
            Self::Open | Self::Paused { .. } | Self::Failing { .. } | Self::Doubted => false,
            Self::Held { probe_at: until, .. } | Self::Probing { until, .. } => now < until,
            Self::Stopped => true,
        }
    }
}

/// What a refusal of our credentials comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It may be about that address alone: the delivery is tried again like any other.
    Doubted,
    /// Everything is held; nothing is failed.
    Held {
        /// Whether it was not before.
        news: bool,
    },
}

/// What a gate says to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may go out.
    Go,
    /// Not before that instant, or a change of the gate.
    Wait(Timestamp),
}

/// The gate of a lane.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    changed: Changes,
    probe_every_ms: i64,
    /// Attempts in a row that failed without a word about us or the message.
    failures_in_a_row: AtomicU32,
    /// Whether it was held since the last good answer: a probe that fails is no news.
    was_held: AtomicBool,
    /// Pauses in a row that did not help.
    pauses_in_a_row: AtomicU32,
    /// The other servers, where there may be some.
    others: Option<Others>,
}

/// First pause of a provider that fails, in milliseconds; it doubles.
const FAILING_PAUSE_MS: i64 = 1_000;
/// Most doublings of that pause: it stays at about a minute.
const FAILING_DOUBLINGS_MAX: u32 = 6;
/// Attempts in a row that end in 5xx before the provider counts as failing: one or two are theirs.
const FAILURES_IN_A_ROW_MAX: u32 = 20;
/// Longest wait of one that is stopped before it looks again, in milliseconds: it is woken before.
const STOPPED_LOOK_MS: i64 = 3_600_000;

impl Gate {
    pub(crate) fn new(probe_every_ms: i64, others: Option<Others>) -> Self {
        Self {
            others,
            state: Mutex::new(GateState::Open),
            changed: Changes::default(),
            probe_every_ms,
            failures_in_a_row: AtomicU32::new(0),
            was_held: AtomicBool::new(false),
            pauses_in_a_row: AtomicU32::new(0),
        }
    }

    /// Asks for one delivery to go out. From [`GateState::Held`] and [`GateState::Failing`] this
    /// makes it the probe.
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        let mut state = self.lock();
        let (admission, next) = self.look(&state, now);
        if let Some(next) = next {
            *state = next;
        }
        admission
    }

    /// What [`Gate::admit`] would say, without making anything the probe.
    pub(crate) fn peek(&self, now: Timestamp) -> Admission {
        self.look(&self.lock(), now).0
    }

    /// When the next delivery that is admitted goes out as a probe; `None`: it goes as usual.
    pub(crate) fn probe_due_at(&self) -> Option<Timestamp> {
        match *self.lock() {
            GateState::Held { probe_at: due_at, .. }
            | GateState::Failing { probe_at: due_at }
            | GateState::Probing { until: due_at, .. } => Some(due_at),
            GateState::Open
            | GateState::Paused { .. }
            | GateState::Doubted
            | GateState::Stopped => None,
        }
    }

    /// A probe of the credentials was refused by an address whose answers say nothing about them. The
    /// provider stays held.
    pub(crate) fn probe_refused(&self, reason: &Reason, now: Timestamp) {
        let probe_at = now.plus_ms(self.probe_every_ms);
        self.change(|state| {
            matches!(state, GateState::Probing { credentials: true, .. })
                .then(|| GateState::Held { reason: reason.clone(), probe_at })
        });
    }

    /// The provider gave an answer that shows that it is reachable and says nothing about our
    /// credentials. A failing gate opens; a gate that probes the credentials waits for the next probe.
    pub(crate) fn reached(&self, now: Timestamp) {
        self.failures_in_a_row.store(0, Ordering::Release);
        self.change(|state| match state {
            GateState::Probing { credentials: true, .. } => {
                Some(GateState::Probing { until: now, credentials: true })
            }
            GateState::Probing { credentials: false, .. } | GateState::Failing { .. } => {
                self.pauses_in_a_row.store(0, Ordering::Release);
                Some(GateState::Open)
            }
            GateState::Open
            | GateState::Doubted
            | GateState::Paused { .. }
            | GateState::Held { .. }
            | GateState::Stopped => None,
        });
    }

    fn look(&self, state: &GateState, now: Timestamp) -> (Admission, Option<GateState>) {
        let probe = |credentials| {
            let until = now.plus_ms(self.probe_every_ms);
            (Admission::Go, Some(GateState::Probing { until, credentials }))
        };
        match *state {
            GateState::Open => (Admission::Go, None),
            GateState::Doubted => probe(true),
            GateState::Paused { until } if now >= until => (Admission::Go, Some(GateState::Open)),
            GateState::Held { probe_at, .. } if now >= probe_at => probe(true),
            GateState::Failing { probe_at } if now >= probe_at => probe(false),
            GateState::Probing { until, credentials } if now >= until => probe(credentials),
            GateState::Paused { until }
            | GateState::Probing { until, .. }
            | GateState::Failing { probe_at: until }
            | GateState::Held { probe_at: until, .. } => (Admission::Wait(until), None),
            GateState::Stopped => (Admission::Wait(now.plus_ms(STOPPED_LOOK_MS)), None),
        }
    }

    fn lock(&self) -> MutexGuard<'_, GateState> {
        self.state.lock().expect("no holder of the gate panics")
    }

    /// How it stands.
    pub(crate) fn state(&self) -> GateState {
        self.lock().clone()
    }

    /// Whether everything waits for credentials, for the probe that tries them, or for an
    /// administrator, at that instant.
    pub(crate) fn is_held(&self, now: Timestamp) -> bool {
        let state = self.lock();
        let tries_reach = matches!(*state, GateState::Probing { credentials: false, .. });
        !tries_reach && state.awaits_word(now)
    }

    /// Whether everything waits at that instant for somebody's word: the provider's about a probe,
    /// or an administrator's. It may come at any time, so that no later instant is known.
    pub(crate) fn awaits_word(&self, now: Timestamp) -> bool {
        self.lock().awaits_word(now)
    }

    /// Why deliveries wait at that instant, if they do.
    pub(crate) fn closed(&self, now: Timestamp) -> Option<Pause> {
        match *self.lock() {
            GateState::Paused { until } if now < until => Some(Pause::Throttled),
            GateState::Open | GateState::Paused { .. } | GateState::Doubted => None,
            GateState::Failing { .. } | GateState::Probing { credentials: false, .. } => {
                Some(Pause::Unreachable)
            }
            GateState::Held { .. } | GateState::Probing { credentials: true, .. } => {
                Some(Pause::Credentials)
            }
            GateState::Stopped => Some(Pause::Guard),
        }
    }

    /// The provider asked to slow down; a later instant stands.
    pub(crate) fn pause(&self, until: Timestamp) {
        self.change(|state| match state {
            GateState::Open
            | GateState::Probing { .. }
            | GateState::Failing { .. }
            | GateState::Doubted => Some(GateState::Paused { until }),
            GateState::Paused { until: before } if *before < until => {
                Some(GateState::Paused { until })
            }
            GateState::Paused { .. } | GateState::Held { .. } | GateState::Stopped => None,
        });
    }

    /// The provider refused our credentials for a delivery: the first time one more is tried, and
    /// when it is refused as well everything is held (B40).
    pub(crate) fn refused(&self, reason: &Reason, now: Timestamp) -> Refusal {
        let mut is_first = false;
        self.change(|state| match state {
            GateState::Open | GateState::Failing { .. } => {
                is_first = true;
                Some(GateState::Doubted)
            }
            // The pause stands; who comes after it tells.
            GateState::Paused { .. } => {
                is_first = true;
                None
            }
            GateState::Doubted
            | GateState::Probing { .. }
            | GateState::Held { .. }
            | GateState::Stopped => None,
        });
        if is_first { Refusal::Doubted } else { self.hold(reason, now) }
    }

    /// Holds everything: our credentials are refused.
    pub(crate) fn hold(&self, reason: &Reason, now: Timestamp) -> Refusal {
        let probe_at = now.plus_ms(self.probe_every_ms);
        let mut news = false;
        self.change(|state| match state {
            GateState::Held { .. } | GateState::Stopped => None,
            GateState::Open
            | GateState::Paused { .. }
            | GateState::Failing { .. }
            | GateState::Doubted
            | GateState::Probing { .. } => {
                news = !self.was_held.swap(true, Ordering::AcqRel);
                Some(GateState::Held { reason: reason.clone(), probe_at })
            }
        });
        Refusal::Held { news }
    }

    /// Stops everything until an administrator releases it. Answers whether that is news.
    pub(crate) fn stop(&self) -> bool {
        let mut news = false;
        self.change(|state| {
            news = *state != GateState::Stopped;
            news.then_some(GateState::Stopped)
        });
        news
    }

    /// An attempt failed without a word about us or the message. A provider out of reach, or one
    /// that fails many times in a row, is left alone for a while, then probed: an outage turns few
    /// deliveries into rows of their own, and brings few requests. Answers whether that is news.
    pub(crate) fn failed(&self, outcome: Certainty, now: Timestamp) -> bool {
        let enough = match outcome {
            Certainty::NotProcessed => true,
            Certainty::Failed => {
                let before = self.failures_in_a_row.fetch_add(1, Ordering::AcqRel);
                before + 1 >= FAILURES_IN_A_ROW_MAX
            }
            // One connection that is cut ends a thousand streams, and says nothing of the next. A
            // probe that ends so is none, and the next must not wait for it.
            Certainty::Unknown => false,
        };
        let mut news = false;
        self.change(|state| {
            let probed = match state {
                GateState::Open | GateState::Doubted => enough,
                GateState::Probing { .. } => true,
                GateState::Paused { .. }
                | GateState::Failing { .. }
                | GateState::Held { .. }
                | GateState::Stopped => false,
            };
            probed.then(|| {
                let doublings = self.pauses_in_a_row.fetch_add(1, Ordering::AcqRel);
                news = doublings == 0;
                let pause_ms = FAILING_PAUSE_MS << doublings.min(FAILING_DOUBLINGS_MAX);
                GateState::Failing { probe_at: now.plus_ms(pause_ms) }
            })
        });
        news
    }

    /// The provider answered something that does not blame our credentials: a probe went well.
    pub(crate) fn answered(&self) {
        self.failures_in_a_row.store(0, Ordering::Release);
        self.change(|state| match state {
            GateState::Probing { .. } | GateState::Failing { .. } | GateState::Doubted => {
                self.pauses_in_a_row.store(0, Ordering::Release);
                self.was_held.store(false, Ordering::Release);
                Some(GateState::Open)
            }
            GateState::Open
            | GateState::Paused { .. }
            | GateState::Held { .. }
            | GateState::Stopped => None,
        });
    }

    /// Opens whatever the state: the provider was configured anew, or released.
    pub(crate) fn open(&self) {
        self.reset();
        self.change(|_| Some(GateState::Open));
    }

    fn reset(&self) {
        self.failures_in_a_row.store(0, Ordering::Release);
        self.pauses_in_a_row.store(0, Ordering::Release);
        self.was_held.store(false, Ordering::Release);
    }

    /// Wakes whoever waits at the gate, to look again at something else.
    pub(crate) fn nudge(&self) {
        self.changed.tell();
    }

    /// Hears of every change.
    pub(crate) fn subscribe(&self) -> ChangesHeard {
        self.changed.subscribe()
    }

    fn change(&self, next: impl FnOnce(&GateState) -> Option<GateState>) {
        let mut state = self.lock();
        if let Some(next) = next(&state) {
            *state = next;
            if let Some(others) = &self.others {
                others.changed();
            }
            drop(state);
            self.changed.tell();
        }
    }
}

// A gate and those of other servers: what one learns of a provider, the others take from it instead
// of finding out by themselves. Of a gate that is probed somebody else's server sends the next probe,
// so that one whose own network, clock or credentials are at fault is found out.

/// How long after everybody else the one probes whose word it is, in milliseconds.
const TELLER_WAITS_MS: i64 = 3_000;
/// Over how long the first probes of the others are spread, in milliseconds: the word of the first
/// comes before most of them.
const PROBES_SPREAD_MS: f64 = 1_000.0;
/// How long a server goes by its own requests alone after one contradicted another, in milliseconds:
/// one that is at fault itself must not close the others again and again.
const CONTRADICTED_MS: i64 = 600_000;
/// Least by which a pause has to grow for the others to hear of it, in milliseconds: every message in
/// flight may bring a later end.
const PAUSE_GROWS_MS: i64 = 1_000;

/// What a gate has of the other servers.
#[derive(Debug)]
pub(crate) struct Others {
    news: Arc<News>,
    of: (AppNo, Platform),
    /// Locked after the gate's state.
    told: Mutex<Told>,
}

#[derive(Debug)]
struct Told {
    /// Number of the latest word.
    known: i64,
    word: ChannelWord,
    /// Whose word closed it, while that is so.
    closed_by: Option<Epoch>,
    /// Something changed here since.
    has_news: bool,
    /// Others' words that close it are not taken before.
    own_until: Timestamp,
}

/// What the lane has to do about a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing: it is known, or not taken.
    Nothing,
    /// Nothing more: the gate is as the word says.
    Taken,
    /// To stop: the guard did.
    Stop,
    /// To go on: an administrator released it.
    Release,
}

/// Who hears a word, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hearer {
    /// This server.
    pub(crate) epoch: Epoch,
    /// Servers alive, this one included.
    pub(crate) servers: u32,
    /// The instant now.
    pub(crate) now: Timestamp,
    /// A share of the spread, 0 to 1.
    pub(crate) jitter: f64,
}

impl Others {
    pub(crate) fn new(news: Arc<News>, of: (AppNo, Platform)) -> Self {
        let told = Told {
            known: 0,
            word: ChannelWord::Open,
            closed_by: None,
            has_news: false,
            own_until: Timestamp(i64::MIN),
        };
        Self { news, of, told: Mutex::new(told) }
    }

    /// The gate's state changed here; under its lock.
    fn changed(&self) {
        self.lock().has_news = true;
        self.news.tell(self.of);
    }

    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().expect("no holder of what was told panics")
    }
}

impl Gate {
    /// What the others are to be told, if anything, and the number of the latest word known.
    pub(crate) fn to_tell(&self, now: Timestamp) -> Option<(ChannelWord, i64)> {
        let state = self.lock();
        let mut told = self.others.as_ref()?.lock();
        if !std::mem::take(&mut told.has_news) {
            return None;
        }
        let word = word_of(&state, now)?;
        let is_news = match (&word, at(&told.word, now)) {
            (ChannelWord::Paused { until }, ChannelWord::Paused { until: before }) => {
                until.ms_since(before) >= PAUSE_GROWS_MS
            }
            (word, before) => *word != before,
        };
        is_news.then_some((word, told.known))
    }

    /// What was to be told could not be.
    pub(crate) fn not_told(&self) {
        if let Some(others) = &self.others {
            others.changed();
        }
    }

    /// Takes the latest word, this server's or another's.
    pub(crate) fn heard(&self, latest: &ChannelTold, by: Hearer) -> Heard {
        let mut state = self.lock();
        let Some(others) = &self.others else { return Heard::Nothing };
        let mut told = others.lock();
        if latest.no <= told.known {
            return Heard::Nothing;
        }
        told.known = latest.no;
        let before = std::mem::replace(&mut told.word, latest.word.clone());
        if !is_closed(&latest.word) {
            let closed_by = told.closed_by.take();
            let is_contradicted =
                closed_by.is_some() && latest.by.is_some_and(|by| closed_by != Some(by));
            if latest.word == ChannelWord::Open && is_contradicted {
                told.own_until = by.now.plus_ms(CONTRADICTED_MS);
            }
        }
        if latest.by == Some(by.epoch) {
            if is_closed(&latest.word) {
                told.closed_by = latest.by;
                if by.servers > 1 {
                    put_off_probe(&mut state);
                }
            }
            return Heard::Nothing;
        }
        let own = by.now < told.own_until;
        if is_closed(&latest.word) && !own {
            told.closed_by = latest.by;
        }
        let taken = match &latest.word {
            ChannelWord::Stopped => return Heard::Stop,
            ChannelWord::Open if *state == GateState::Stopped => {
                // Stopped here and not known to the store yet is no answer to that.
                let is_released = before == ChannelWord::Stopped;
                return if is_released { Heard::Release } else { Heard::Nothing };
            }
            word => self.as_told(word, &state, (own, by)),
        };
        let Some(taken) = taken else { return Heard::Nothing };
        told.has_news = false;
        *state = taken;
        drop(told);
        drop(state);
        self.changed.tell();
        Heard::Taken
    }

    /// The state that another's word leads to.
    fn as_told(
        &self,
        word: &ChannelWord,
        state: &GateState,
        (own, by): (bool, Hearer),
    ) -> Option<GateState> {
        let spread = |probe_at: &Timestamp| {
            #[expect(clippy::cast_possible_truncation, reason = "a part of a second")]
            let later_ms = (by.jitter * PROBES_SPREAD_MS) as i64;
            probe_at.plus_ms(later_ms)
        };
        match (word, state) {
            (ChannelWord::Open, GateState::Open | GateState::Stopped)
            | (ChannelWord::Stopped, _) => None,
            (ChannelWord::Open, _) => {
                self.reset();
                Some(GateState::Open)
            }
            (ChannelWord::Paused { until }, _) => match state {
                GateState::Held { .. } | GateState::Stopped => None,
                GateState::Paused { until: before } if before >= until => None,
                GateState::Open
                | GateState::Doubted
                | GateState::Paused { .. }
                | GateState::Failing { .. }
                | GateState::Probing { .. } => {
                    (by.now < *until).then_some(GateState::Paused { until: *until })
                }
            },
            // The probe that is out tells more than a word of before.
            (ChannelWord::Held { .. } | ChannelWord::Failing { .. }, GateState::Probing { .. }) => {
                None
            }
            (ChannelWord::Held { .. } | ChannelWord::Failing { .. }, _) if own => None,
            (ChannelWord::Held { reason, probe_at }, _) => {
                self.was_held.store(true, Ordering::Release);
                let reason = reason.to_string().into();
                let held = GateState::Held { reason, probe_at: spread(probe_at) };
                (*state != GateState::Stopped).then_some(held)
            }
            (ChannelWord::Failing { probe_at }, GateState::Open | GateState::Failing { .. }) => {
                self.pauses_in_a_row.fetch_add(1, Ordering::AcqRel);
                Some(GateState::Failing { probe_at: spread(probe_at) })
            }
            (
                ChannelWord::Failing { .. },
                GateState::Paused { .. }
                | GateState::Doubted
                | GateState::Held { .. }
                | GateState::Stopped,
            ) => None,
        }
    }
}

/// A state as the others are told of it; what is about to be known is not.
fn word_of(state: &GateState, now: Timestamp) -> Option<ChannelWord> {
    Some(match state {
        GateState::Open => ChannelWord::Open,
        GateState::Paused { until } => at(&ChannelWord::Paused { until: *until }, now),
        GateState::Held { reason, probe_at } => {
            ChannelWord::Held { reason: reason.as_ref().into(), probe_at: *probe_at }
        }
        GateState::Failing { probe_at } => ChannelWord::Failing { probe_at: *probe_at },
        // The guard's stop is the store's to tell.
        GateState::Doubted | GateState::Probing { .. } | GateState::Stopped => return None,
    })
}

/// What a word says at that instant.
fn at(word: &ChannelWord, now: Timestamp) -> ChannelWord {
    match word {
        ChannelWord::Paused { until } if now >= *until => ChannelWord::Open,
        word => word.clone(),
    }
}

/// Whether it lasts until a probe went well.
fn is_closed(word: &ChannelWord) -> bool {
    match word {
        ChannelWord::Held { .. } | ChannelWord::Failing { .. } => true,
        ChannelWord::Open | ChannelWord::Paused { .. } | ChannelWord::Stopped => false,
    }
}

fn put_off_probe(state: &mut GateState) {
    if let GateState::Held { probe_at, .. } | GateState::Failing { probe_at } = state {
        *probe_at = probe_at.plus_ms(TELLER_WAITS_MS);
    }
}
