//! What a commit changed, for the parts of the process that keep something in memory.

use notify_core::{Platform, ProviderKind};

use crate::store::{AppNo, DeviceKey, NotificationNo};

/// A change that something in memory may depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An application was renamed, suspended or removed.
    App(AppNo),
    /// An event of an application was written, or one of its webhooks has work.
    Events(AppNo),
    /// An API key or admin key was revoked.
    KeyRevoked,
    /// What only delivery depends on.
    Delivery(DeliveryChange),
    /// What only enrichment depends on.
    Enrichment(EnrichmentChange),
    /// Anything may have changed: changes that other servers committed may have been missed.
    Resync,
}

/// A change of what is sent, to which devices, and through which providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryChange {
    /// A notification was accepted that is due now.
    NotificationDue,
    /// A notification was accepted or planned for later.
    NotificationScheduled,
    /// The rest of a notification must not be sent.
    NotificationCanceled(NotificationNo),
    /// Address, state or tags of a device changed, or it was erased: open pages read it again before
    /// they send.
    Device(DeviceKey),
    /// A provider was configured, changed or removed.
    Provider(AppNo, ProviderKind),
    /// Providers reported so many addresses of an application as unregistered at once that nothing more
    /// is sent to that platform until an administrator allows it.
    GuardTripped(AppNo, Platform),
    /// A server published the state of a circuit breaker, or an administrator reset it.
    Breaker(AppNo, Platform),
}

/// A change of campaigns and feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrichmentChange {
    /// A campaign was created, changed, activated, disabled or deleted, or another one became the default.
    Campaign(AppNo),
    /// A feed may be due now.
    FeedDue,
    /// The items of a feed changed.
    FeedItems(AppNo),
}

impl From<DeliveryChange> for Change {
    fn from(change: DeliveryChange) -> Self {
        Self::Delivery(change)
    }
}

impl From<EnrichmentChange> for Change {
    fn from(change: EnrichmentChange) -> Self {
        Self::Enrichment(change)
    }
}

/// Receives every change after its commit and before the caller of the write gets its result. Must be
/// quick and must not call the store.
pub trait ChangeListener: Send + Sync {
    /// Called for each change, in the order of the commit.
    fn on_change(&self, change: Change);
}
