//! Retries: deliveries that became rows of their own.

use std::borrow::Cow;

use notify_core::{Platform, Timestamp};

use super::{AudienceDevice, DeadAddress, Epoch, MovedAddress, VerifiedAddress};
use crate::store::{AppNo, DeviceKey, DispatchNo, RetryNo, Settled};

/// A delivery that is to be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewRetry {
    /// The device.
    pub key: DeviceKey,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// When the next is due.
    pub due_at: Timestamp,
    /// Why the last one failed.
    pub reason: Cow<'static, str>,
    /// How many attempts had an unknown outcome (B39).
    pub unknown_outcomes: u16,
}

/// A claim of due retries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryClaim {
    /// Application.
    pub app: AppNo,
    /// Platform.
    pub platform: Platform,
    /// Most rows.
    pub limit: u32,
    /// Who claims.
    pub epoch: Epoch,
    /// Until when.
    pub lease_until: Timestamp,
    /// Now.
    pub now: Timestamp,
    /// Those that the claimer is at work on still: left out, however old their claim.
    pub in_hand: Vec<RetryNo>,
    /// A claim failed in a way that leaves open whether it was committed: what the claimer has
    /// claimed and not in hand is taken too, however young its claim.
    pub after_lost: bool,
}

/// A retry that this process works on now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedRetry {
    /// Number.
    pub no: RetryNo,
    /// Its dispatch.
    pub dispatch: DispatchNo,
    /// The device.
    pub key: DeviceKey,
    /// The device as it is now; `None`: erased meanwhile.
    pub device: Option<AudienceDevice>,
    /// Attempts made so far.
    pub attempts: u16,
    /// When the first was made.
    pub first_attempt_at: Timestamp,
    /// How many attempts had an unknown outcome.
    pub unknown_outcomes: u16,
}

/// What became of a claimed retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RetryStep {
    /// It ended.
    Settled {
        /// How.
        settled: Settled,
        /// Why.
        reason: Option<Cow<'static, str>>,
        /// Attempts made.
        attempts: u16,
        /// The provider's id of the message, where it is to be kept (B20).
        message_id: Option<Box<str>>,
    },
    /// It waits longer; nothing was tried.
    Later {
        /// When it is due.
        due_at: Timestamp,
    },
    /// It is to be tried again.
    Again {
        /// Attempts made so far.
        attempts: u16,
        /// When the next is due.
        due_at: Timestamp,
        /// Why the last one failed.
        reason: Cow<'static, str>,
        /// How many attempts had an unknown outcome.
        unknown_outcomes: u16,
    },
}

/// A retry's step, with the address to disable when it showed one dead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryOutcome {
    /// The retry.
    pub no: RetryNo,
    /// What became of it.
    pub step: RetryStep,
    /// The address to disable.
    pub dead: Option<DeadAddress>,
    /// The address to replace.
    pub moved: Option<MovedAddress>,
    /// The address, when it took its first message.
    pub verified: Option<VerifiedAddress>,
}

impl RetryOutcome {
    /// One of which nothing else was learned.
    #[must_use]
    pub fn of(no: RetryNo, step: RetryStep) -> Self {
        Self { no, step, dead: None, moved: None, verified: None }
    }

    /// When it is tried next, unless it is over.
    #[must_use]
    pub fn due_at(&self) -> Option<Timestamp> {
        match self.step {
            RetryStep::Settled { .. } => None,
            RetryStep::Later { due_at } | RetryStep::Again { due_at, .. } => Some(due_at),
        }
    }
}
