//! A gate and those of other servers: what one learns of a provider, the others take from it instead
//! of finding out by themselves. Of a gate that is probed somebody else's server sends the next probe,
//! so that one whose own network, clock or credentials are at fault is found out.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard};

use notify_core::{Platform, Timestamp};

use super::{Gate, GateState};
use crate::delivery::news::News;
use crate::store::{AppNo, ChannelTold, ChannelWord, Epoch};

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
    pub(super) fn changed(&self) {
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
