//! What the callers and the push services know of each notification.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{NotificationId, Platform, Timestamp};

use crate::store::AppNo;

/// How far a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asked {
    /// Not asked for.
    No,
    /// Under way: it may have happened.
    Sent,
    /// Acknowledged.
    Done,
    /// Refused, or lost with a crash.
    Undone,
}

/// What a push service saw of one address.
#[derive(Debug, Clone, Default)]
pub(super) struct Reached {
    /// Attempts that were answered, pauses apart.
    pub(super) tries: u64,
    /// How often it took the message.
    pub(super) taken: u64,
    /// Whether it called the address dead.
    pub(super) dead: bool,
    /// Whether it refused the address, which may be the address's own fault.
    pub(super) refused: bool,
}

/// A notification.
#[derive(Debug, Clone)]
pub(super) struct Notice {
    pub(super) id: NotificationId,
    pub(super) app: AppNo,
    pub(super) platforms: Vec<Platform>,
    /// The devices that it names, by platform.
    pub(super) names: Option<BTreeMap<Platform, BTreeSet<String>>>,
    pub(super) tagged: bool,
    /// Seconds; `None` is the default of 28 days.
    pub(super) ttl: Option<u32>,
    /// Whether it names a `collapse_key`: a newer one may take the place of its retries.
    pub(super) replaces: bool,
    pub(super) due_at: Timestamp,
    pub(super) is_scheduled: bool,
    pub(super) accepted: Asked,
    pub(super) canceled: Asked,
    /// The event that sent the request, and the one that acknowledged it.
    pub(super) asked: u64,
    pub(super) acknowledged: Option<u64>,
    pub(super) reached: BTreeMap<(Platform, String), Reached>,
    pub(super) in_flight: u64,
    /// How many messages were taken.
    pub(super) taken: u64,
    /// Of these, how many were not recorded when a process died, as far as is known.
    pub(super) forgotten: u64,
    /// How many may have gone out again after that.
    pub(super) repeats_max: u64,
    /// How many more may stay unrecorded: their delivery was ended while it was under way.
    pub(super) waived: u64,
    /// Reasons that the services gave.
    pub(super) reasons: BTreeSet<String>,
}

impl Notice {
    /// Whether a device of that name and platform, tag apart, is meant.
    pub(super) fn names(&self, platform: Platform, name: &str) -> bool {
        match &self.names {
            None => self.platforms.contains(&platform),
            Some(names) => names.get(&platform).is_some_and(|names| names.contains(name)),
        }
    }

    /// When tries end; `None`: one try (B19).
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        match self.ttl {
            Some(0) => None,
            Some(seconds) => Some(self.due_at.plus_ms(i64::from(seconds) * 1_000)),
            None => Some(Timestamp(i64::MAX)),
        }
    }

    /// Taken messages of which nothing is known to be allowed to stay unrecorded.
    pub(super) fn unrecorded(&self, recorded: u64) -> u64 {
        self.taken.saturating_sub(recorded + self.forgotten + self.waived)
    }
}

impl Notice {
    /// Stands for one that nobody asked for.
    pub(super) fn unknown(app: AppNo) -> Self {
        Self {
            id: uuid::Uuid::nil().into(),
            app,
            platforms: Vec::new(),
            names: None,
            tagged: false,
            ttl: None,
            replaces: false,
            due_at: Timestamp(0),
            is_scheduled: false,
            accepted: Asked::No,
            canceled: Asked::No,
            asked: 0,
            acknowledged: None,
            reached: BTreeMap::new(),
            in_flight: 0,
            taken: 0,
            forgotten: 0,
            repeats_max: 0,
            waived: 0,
            reasons: BTreeSet::new(),
        }
    }
}
