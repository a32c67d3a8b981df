//! Changes: what a commit changed, for the parts of the server that cache data in memory.

use notify_core::{Platform, ProviderKind};

use crate::store::{AppNo, DeviceKey, NotificationNo};

/// A change on which cached data may depend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// An application was renamed, suspended or removed.
    App(AppNo),
    /// An event of an application was written, or a webhook of the application has work.
    Events(AppNo),
    /// A key was revoked or renamed, or a session of the console ended.
    Keys,
    /// A change on which only delivery depends.
    Delivery(DeliveryChange),
    /// A change on which only enrichment depends.
    Enrichment(EnrichmentChange),
    /// Anything may have changed: this server may have missed changes that other servers committed.
    Resync,
}

/// A change for delivery: of notifications, devices, providers or circuit breakers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryChange {
    /// A notification that is due now was accepted.
    NotificationDue,
    /// A notification that is due later was accepted.
    NotificationScheduled,
    /// The rest of a notification must not be sent.
    NotificationCanceled(NotificationNo),
    /// The rest of a notification must wait.
    NotificationPaused(NotificationNo),
    /// The rest of a notification must not wait any more.
    NotificationResumed(NotificationNo),
    /// The address, state or tags of a device changed, or the device was erased. Open pages read
    /// the device again before they send to it.
    Device(DeviceKey),
    /// A provider was configured, changed or removed.
    Provider(AppNo, ProviderKind),
    /// The mass-unregister guard tripped: a provider reported many addresses of an application as
    /// unregistered within a short time. Nothing more is sent to the platform until an
    /// administrator resets the guard.
    GuardTripped(AppNo, Platform),
    /// A server published the state of a circuit breaker, or an administrator reset it.
    Breaker(AppNo, Platform),
}

/// A change of campaigns and feeds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EnrichmentChange {
    /// A campaign was created, changed, activated, disabled or deleted, or another one became the
    /// default.
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

/// A part of the server that reacts to changes.
pub trait ChangeListener: Send + Sync {
    /// Called for each change after its commit. For a change of this server, it is called on the
    /// thread of the writer, before the caller of the write gets its result. It must therefore return
    /// quickly and must not call the store. Changes of row-by-row writes come in the order of the
    /// commits. Changes of sets come from other threads, and can come at the same time.
    fn on_change(&self, change: Change);
}
