//! How deliveries of an application through a provider stand now: what the API may know of the
//! engine, which it does not see.

use notify_core::{Platform, Timestamp};

use crate::store::AppNo;

/// How deliveries of one application on one platform stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// They go out.
    Open,
    /// They wait: the provider asked to slow down.
    Throttled {
        /// Until when.
        until: Timestamp,
    },
    /// They wait: the provider cannot be reached, or fails whatever it is asked.
    Unreachable {
        /// When the next one is tried as a probe, or the one that is out counts as lost.
        probe_at: Timestamp,
    },
    /// They are held: the provider refuses the server's credentials (B40).
    Held {
        /// Its word; `None` while a probe is out.
        reason: Option<String>,
        /// When the next one is tried as a probe.
        probe_at: Timestamp,
    },
    /// So many addresses looked dead at once that nothing is sent before an administrator says so.
    Stopped,
}

/// How deliveries to one push service, or one host of APNs, stand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceState {
    /// Its name; empty for all those that are not told apart.
    pub(crate) service: Box<str>,
    /// How they stand.
    pub(crate) state: ChannelState,
}

/// Tells how deliveries stand.
pub(crate) trait Channels: Send + Sync {
    /// How those of one application on one platform stand in this process.
    fn state(&self, app: AppNo, platform: Platform) -> ChannelState;

    /// The push services, or hosts, of the platform to which nothing goes out now, by name.
    fn closed_services(&self, app: AppNo, platform: Platform) -> Vec<ServiceState>;
}
