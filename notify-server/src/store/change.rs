//! What the rest of the process hears of a commit, at once.

use notify_core::{Platform, ProviderKind};

use crate::store::{AppNo, DeviceKey, NotificationNo};

/// A change that something in memory may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// A notification was accepted that is due now.
    NotificationDue,
    /// A notification was accepted or planned for later.
    NotificationScheduled,
    /// What is left of a notification is not to be sent.
    NotificationCanceled(NotificationNo),
    /// Address, state or tags of a device changed, or it was erased: pages that are open
    /// read it again before they send.
    DeviceChanged(DeviceKey),
    /// A provider was configured, changed or removed.
    ProviderChanged(AppNo, ProviderKind),
    /// So many addresses of an application looked dead at once that nothing more is sent to that
    /// platform before an administrator says so (B40).
    PurgeStopped(AppNo, Platform),
    /// A server published the status of a circuit breaker, or an administrator closed it.
    BreakerChanged(AppNo, Platform),
    /// An application was renamed, suspended or removed.
    AppChanged(AppNo),
    /// An event of an application was written, or a webhook of it has something to do.
    EventsDue(AppNo),
    /// A campaign was made, changed, activated, disabled or deleted, or the default moved.
    CampaignChanged(AppNo),
    /// A feed may be due now.
    FeedDue,
    /// The items of a feed changed.
    FeedChanged(AppNo),
    /// An API key or admin key was revoked.
    KeyRevoked,
    /// Anything may have: what other servers did was not heard for a while.
    Everything,
}

/// Hears of changes: after the commit, before the caller is answered. Must be quick and must not
/// call the store.
pub trait ChangeListener: Send + Sync {
    /// Takes note.
    fn changed(&self, change: Change);
}
