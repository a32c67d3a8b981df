//! How deliveries of an application through a provider stand now: what the API may know of the
//! engine, which it does not see.

use std::borrow::Cow;

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
    /// They wait: the provider cannot be reached, or fails every request.
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

/// The push service behind a subscription: scheme, host and port of its endpoint, however they are
/// written there.
pub(crate) fn service_of(endpoint: &str) -> Cow<'_, str> {
    let host = endpoint.find("://").map_or(0, |at| at + 3);
    let end = endpoint[host..].find(['/', '?', '#']).map_or(endpoint.len(), |at| host + at);
    let written = &endpoint[..end];
    // Browsers write it in small letters, with a port only where it is not the scheme's.
    let is_plain = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b':');
    let has_own_port = written.ends_with(":443") || written.ends_with(":80");
    if written.bytes().skip(host).all(is_plain) && !has_own_port {
        return written.into();
    }
    url::Url::parse(written).map_or(written.into(), |url| url.origin().ascii_serialization().into())
}
