//! Defects that are planted to see that they are found.

use std::path::Path;

use crate::store::sqlite;

/// A defect of the engine or its store, played by somebody in its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Defect {
    /// An answer never reaches the engine.
    AnswerLost,
    /// A message is sent twice.
    SentTwice,
    /// A notification goes to the same address again and again.
    OldAddress,
    /// A message that was refused is recorded as sent.
    FailureTakenForSent,
    /// The engine allows itself more than its credit.
    CreditPassed,
    /// Deliveries that are to be tried again are forgotten.
    RetriesDropped,
    /// A cancellation is not written down.
    CancellationForgotten,
    /// A device is disabled that nobody called dead.
    LivingBuried,
    /// An accepted notification is gone.
    NotificationLost,
    /// A registration that was acknowledged is not kept.
    RegistrationLost,
    /// Pages end without their outcomes.
    OutcomesLost,
}

impl Defect {
    pub(super) const ALL: [Self; 11] = [
        Self::AnswerLost,
        Self::SentTwice,
        Self::OldAddress,
        Self::FailureTakenForSent,
        Self::CreditPassed,
        Self::RetriesDropped,
        Self::CancellationForgotten,
        Self::LivingBuried,
        Self::NotificationLost,
        Self::RegistrationLost,
        Self::OutcomesLost,
    ];

    /// Puts it in the store's file, if that is where it works.
    pub(super) fn plant(self, path: &Path) {
        let trigger = match self {
            Self::AnswerLost
            | Self::SentTwice
            | Self::OldAddress
            | Self::FailureTakenForSent
            | Self::CreditPassed => return,
            Self::RetriesDropped => {
                "create trigger defect before insert on retries begin select raise(ignore); end"
            }
            Self::CancellationForgotten => {
                "create trigger defect before update of is_canceled on dispatches
                 begin select raise(ignore); end"
            }
            Self::LivingBuried => {
                "create trigger defect after update of sent on pages when new.sent > old.sent begin
                 update devices set dead_reason = 'gone', dead_at = new.lease_until
                 where dead_at is null and key = (select max(key) from devices); end"
            }
            Self::NotificationLost => {
                "create trigger defect after insert on notifications when new.no % 3 = 0
                 begin delete from notifications where no = new.no; end"
            }
            Self::RegistrationLost => {
                "create trigger defect before update of address on devices
                 begin select raise(ignore); end"
            }
            Self::OutcomesLost => {
                "create trigger defect before insert on outcomes begin select raise(ignore); end"
            }
        };
        sqlite::execute_raw(path, trigger);
    }
}
