//! What callers and push services know about each notification.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use notify_core::{NotificationId, Platform, Timestamp};
use tokio::time::Instant;

use super::audiences::AudienceKind;
use super::devices::State;
use crate::store::AppNo;

/// Longest time until an outcome is stored, with all faults of the disk and all times for which the process is
/// stopped.
const STORED_WITHIN: Duration = Duration::from_secs(90);

/// Progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestState {
    /// Not requested.
    NotRequested,
    /// The request is in flight and may have had its effect.
    InFlight,
    /// Acknowledged.
    Acknowledged,
    /// Rejected, or lost in a crash.
    Failed,
}

/// What a push service recorded for one address.
#[derive(Debug, Clone, Default)]
pub(super) struct AddressRecord {
    /// The event of the last attempt.
    pub(super) began: u64,
    /// Answered attempts, without throttled ones.
    pub(super) attempts: u64,
    /// How often the service accepted the message.
    pub(super) delivered: u64,
    /// When the service accepted it last.
    pub(super) delivered_at: Option<Instant>,
    /// Attempts in flight.
    pub(super) in_flight: u64,
    /// Whether the process died after the service accepted the message, or while it was being sent.
    pub(super) is_in_doubt: bool,
    /// Whether the service reported the address as dead.
    pub(super) dead: bool,
    /// Whether the service did so with an earlier configuration of the provider, so that the engine
    /// attempts it again.
    pub(super) looked_dead_before: bool,
    /// Whether the service rejected the address, which may be the fault of the address.
    pub(super) refused: bool,
}

/// A notification.
#[derive(Debug, Clone)]
pub(super) struct ExpectedNotification {
    pub(super) id: NotificationId,
    pub(super) app: AppNo,
    pub(super) platforms: Vec<Platform>,
    /// The devices that it names, by platform.
    pub(super) names: Option<BTreeMap<Platform, BTreeSet<String>>>,
    /// The users that it names, without those deleted since.
    pub(super) users: Option<BTreeSet<String>>,
    /// The number of users in the request.
    pub(super) named_users: u64,
    pub(super) tagged: bool,
    pub(super) audience: Option<AudienceKind>,
    /// In seconds; `None` means the default of 28 days.
    pub(super) ttl: Option<u32>,
    /// With the same key, it may be overtaken by one that became due later.
    pub(super) collapse_key: Option<String>,
    pub(super) per_minute: Option<u32>,
    pub(super) has_canary: bool,
    /// When an address had its first attempt, in the last minute.
    pub(super) first_attempts: Vec<Timestamp>,
    pub(super) due_at: Timestamp,
    pub(super) is_scheduled: bool,
    pub(super) accepted: RequestState,
    pub(super) canceled: RequestState,
    /// Whether a pause was acknowledged, and no request to resume was sent since then.
    pub(super) is_paused: bool,
    /// Whether a request to pause or resume it is in flight.
    pub(super) is_pausing: bool,
    /// The event that sent the request, and the one that acknowledged it.
    pub(super) requested_event: u64,
    pub(super) acknowledged_event: Option<u64>,
    pub(super) by_address: BTreeMap<(Platform, String), AddressRecord>,
    /// Devices that had an attempt. Later attempts to them are retries, also at another address.
    pub(super) attempted: BTreeSet<String>,
    pub(super) in_flight: u64,
    /// Number of accepted messages.
    pub(super) delivered: u64,
    /// Number of accepted messages that were not recorded when a process died.
    pub(super) lost_outcomes: u64,
    /// Number of messages that may have been sent again after a process died.
    pub(super) repeats_max: u64,
    /// Number of accepted messages that may stay unrecorded, because their delivery ended while in flight.
    pub(super) waived: u64,
    /// Reasons that the services returned.
    pub(super) reasons: BTreeSet<String>,
}

impl ExpectedNotification {
    /// Whether it targets a device with that name and platform, whatever the other state of the device is.
    fn names(&self, platform: Platform, name: &str) -> bool {
        match &self.names {
            None => self.platforms.contains(&platform),
            Some(names) => names.get(&platform).is_some_and(|names| names.contains(name)),
        }
    }

    /// Whether a device in that state gets the notification.
    pub(super) fn targets(&self, name: &str, state: &State) -> bool {
        self.names(state.platform, name)
            && !state.disabled
            && (!self.tagged || state.tag == Some(true))
            && self.audience.is_none_or(|audience| audience.includes(state))
            && self
                .users
                .as_ref()
                .is_none_or(|users| state.user.as_ref().is_some_and(|user| users.contains(user)))
    }

    /// Whether `other` has the same `collapse_key`, became due later, and was delivered to the address so long
    /// ago that its outcome is stored.
    pub(super) fn is_overtaken_by(&self, other: &Self, platform: Platform, token: &str) -> bool {
        let reached = other.by_address.get(&(platform, token.to_owned()));
        let delivered_at = reached.and_then(|reached| reached.delivered_at);
        self.app == other.app
            && self.collapse_key.is_some()
            && self.collapse_key == other.collapse_key
            && self.due_at < other.due_at
            && delivered_at.is_some_and(|at| at.elapsed() > STORED_WITHIN)
    }

    /// When attempts end; `None` if there is one attempt only.
    pub(super) fn expires_at(&self) -> Option<Timestamp> {
        match self.ttl {
            Some(0) => None,
            Some(seconds) => Some(self.due_at.plus_ms(i64::from(seconds) * 1_000)),
            None => Some(Timestamp(i64::MAX)),
        }
    }

    /// Records an attempt to an address. Returns whether there are too many first attempts in a minute.
    pub(super) fn exceeds_rate(&mut self, is_first: bool, now: Timestamp) -> bool {
        let Some(per_minute) = self.per_minute.filter(|_| is_first) else { return false };
        self.first_attempts.retain(|at| now.ms_since(*at) < 60_000);
        self.first_attempts.push(now);
        self.first_attempts.len() > (per_minute + per_minute.div_ceil(12)) as usize
    }

    /// Accepted messages that are unrecorded without a known excuse.
    pub(super) fn unrecorded(&self, recorded: u64) -> u64 {
        self.delivered.saturating_sub(recorded + self.lost_outcomes + self.waived)
    }
}

impl ExpectedNotification {
    /// A stand-in for a notification that no caller requested.
    pub(super) fn unknown(app: AppNo) -> Self {
        Self {
            id: uuid::Uuid::nil().into(),
            app,
            platforms: Vec::new(),
            names: None,
            users: None,
            named_users: 0,
            tagged: false,
            audience: None,
            ttl: None,
            collapse_key: None,
            per_minute: None,
            has_canary: false,
            first_attempts: Vec::new(),
            due_at: Timestamp(0),
            is_scheduled: false,
            accepted: RequestState::NotRequested,
            canceled: RequestState::NotRequested,
            is_paused: false,
            is_pausing: false,
            requested_event: 0,
            acknowledged_event: None,
            by_address: BTreeMap::new(),
            attempted: BTreeSet::new(),
            in_flight: 0,
            delivered: 0,
            lost_outcomes: 0,
            repeats_max: 0,
            waived: 0,
            reasons: BTreeSet::new(),
        }
    }
}
