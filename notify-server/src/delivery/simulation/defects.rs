//! Defects that are added on purpose, to check that the simulation finds them.

use std::path::Path;
use std::sync::Arc;

use crate::delivery::context::EngineContext;
use crate::delivery::start::Overlooked;
use crate::store::{Change, ChangeListener, DeliveryChange, sqlite};

/// A defect of the engine or its store, imitated by the simulated environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// An answer never reaches the engine.
    AnswerLost,
    /// A message is sent twice.
    SentTwice,
    /// A notification goes to the same address again and again.
    OldAddress,
    /// A rejected message is recorded as sent.
    FailureRecordedAsSent,
    /// The engine exceeds its limit of unacked deliveries.
    UnackedLimitExceeded,
    /// Retries are lost.
    RetriesDropped,
    /// A cancellation is not stored.
    CancellationLost,
    /// A device is disabled without a report that it is dead.
    LiveDeviceDisabled,
    /// An accepted notification is lost.
    NotificationLost,
    /// An acknowledged registration is lost.
    RegistrationLost,
    /// Pages end without storing their outcomes.
    OutcomesLost,
    /// A log-out is not stored.
    LogOutLost,
    /// The condition of an audience is lost.
    AudienceLost,
    /// A notification to users is sent to their devices, even after another user has logged in.
    UserNotChecked,
    /// The engine misses the changes of devices, and reads devices rarely.
    ChangesMissed,
    /// A deleted user is kept, so a new user with the same id is the same user.
    UserKept,
    /// A pause is stored with the notification alone, and not with its dispatches.
    PauseLost,
    /// The engine misses pauses.
    PauseMissed,
    /// Grants of first attempts are not stored.
    GrantLost,
    /// The rest of an audience does not wait for its canary.
    CanaryIgnored,
    /// The `collapse_key` of notifications is not stored.
    CollapseKeyLost,
    /// The intents of pages are not stored.
    IntentsLost,
    /// The intents of retries are not stored.
    RetryIntentsLost,
    /// The cache of keys misses revocations.
    RevocationMissed,
    /// The expiry of keys is not stored.
    ExpiryLost,
    /// Attempts start in spite of this.
    Overlooks(Overlooked),
}

impl Defect {
    pub(super) const ALL: [Self; 30] = [
        Self::AnswerLost,
        Self::SentTwice,
        Self::OldAddress,
        Self::FailureRecordedAsSent,
        Self::UnackedLimitExceeded,
        Self::RetriesDropped,
        Self::CancellationLost,
        Self::LiveDeviceDisabled,
        Self::NotificationLost,
        Self::RegistrationLost,
        Self::OutcomesLost,
        Self::LogOutLost,
        Self::AudienceLost,
        Self::UserNotChecked,
        Self::ChangesMissed,
        Self::UserKept,
        Self::PauseLost,
        Self::PauseMissed,
        Self::GrantLost,
        Self::CanaryIgnored,
        Self::CollapseKeyLost,
        Self::IntentsLost,
        Self::RetryIntentsLost,
        Self::RevocationMissed,
        Self::ExpiryLost,
        Self::Overlooks(Overlooked::Change),
        Self::Overlooks(Overlooked::Expiry),
        Self::Overlooks(Overlooked::Leaving),
        Self::Overlooks(Overlooked::Overtaking),
        Self::Overlooks(Overlooked::Pause),
    ];

    /// Installs the defect in the database, if it is a defect of the database.
    pub(super) fn plant(self, path: &Path) {
        if let Some(trigger) = self.trigger_on_devices().or(self.trigger_on_notifications()) {
            sqlite::execute_raw(path, trigger);
        }
    }

    /// The trigger of a defect of devices, users and keys.
    fn trigger_on_devices(self) -> Option<&'static str> {
        let trigger = match self {
            Self::LiveDeviceDisabled => {
                "create trigger defect after update of sent on pages when new.sent > old.sent begin
                 update devices set dead_reason = 'gone', dead_at = new.lease_until
                 where dead_at is null and key = (select max(key) from devices); end"
            }
            Self::RegistrationLost => {
                "create trigger defect before update of address on devices
                 begin select raise(ignore); end"
            }
            Self::LogOutLost => {
                "create trigger defect before update of user_no on device_fields
                 when new.user_no is null begin select raise(ignore); end"
            }
            Self::UserKept => {
                "create trigger defect before delete on users begin select raise(ignore); end"
            }
            Self::ExpiryLost => {
                "create trigger defect after insert on api_keys when new.expires_at is not null
                 begin update api_keys set expires_at = null where no = new.no; end"
            }
            _ => return None,
        };
        Some(trigger)
    }

    /// The trigger of a defect of notifications and their deliveries.
    fn trigger_on_notifications(self) -> Option<&'static str> {
        let trigger = match self {
            Self::RetriesDropped => {
                "create trigger defect before insert on retries begin select raise(ignore); end"
            }
            Self::CancellationLost => {
                "create trigger defect before update of is_canceled on dispatches
                 begin select raise(ignore); end"
            }
            Self::NotificationLost => {
                "create trigger defect after insert on notifications when new.no % 3 = 0
                 begin delete from notifications where no = new.no; end"
            }
            Self::OutcomesLost => {
                "create trigger defect before insert on outcomes begin select raise(ignore); end"
            }
            Self::AudienceLost => {
                "create trigger defect after insert on notifications when new.audience is not null
                 begin update notifications set audience = null where no = new.no; end"
            }
            Self::UserNotChecked => {
                "create trigger defect after insert on dispatches when new.named_users is not null
                 begin update dispatches set named_users = null where no = new.no; end"
            }
            Self::PauseLost => {
                "create trigger defect before update of paused_until on dispatches
                 when new.paused_until is not null begin select raise(ignore); end"
            }
            Self::GrantLost => {
                "create trigger defect after update of next_grant_at on notifications
                 when new.next_grant_at > 0
                 begin update notifications set next_grant_at = 0 where no = new.no; end"
            }
            Self::CanaryIgnored => {
                "create trigger defect before update of paused_until on dispatches
                 when new.portion >= 31000 and new.portion < 32000
                 begin select raise(ignore); end"
            }
            Self::CollapseKeyLost => {
                "create trigger defect after insert on notifications when new.collapse_key is not null
                 begin update notifications set collapse_key = null where no = new.no; end"
            }
            Self::IntentsLost => {
                "create trigger defect after update of intents on pages when new.intents <> x''
                 begin update pages set intents = null where no = new.no; end"
            }
            Self::RetryIntentsLost => {
                "create trigger defect after update of has_intent on retries when new.has_intent = 1
                 begin update retries set has_intent = 0 where no = new.no; end"
            }
            _ => return None,
        };
        Some(trigger)
    }
}

impl Defect {
    /// Whether the engine misses a change.
    fn hides(self, change: Change) -> bool {
        match change {
            Change::Delivery(DeliveryChange::Device(_)) => self == Self::ChangesMissed,
            Change::Delivery(DeliveryChange::NotificationPaused(_)) => self == Self::PauseMissed,
            _ => false,
        }
    }
}

/// Passes every change to the engine, except those that the defect hides.
pub(super) struct LossyListener(pub(super) Arc<EngineContext>, pub(super) Defect);

impl ChangeListener for LossyListener {
    fn on_change(&self, change: Change) {
        if !self.1.hides(change) {
            self.0.on_change(change);
        }
    }
}
