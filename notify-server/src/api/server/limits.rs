//! The limits of connections.

use std::time::Duration;

use crate::config::Networks;

/// The limits of connections.
#[derive(Debug, Clone)]
pub(crate) struct Limits {
    /// Time for the TLS handshake, and for each request's head.
    pub(crate) header_timeout: Duration,
    /// How long a connection may be without a request.
    pub(crate) idle_timeout: Duration,
    /// How long a client may stop reading.
    pub(crate) write_timeout: Duration,
    /// The maximum number of connections.
    pub(crate) connections_max: usize,
    /// The maximum number of connections from one address; 0 means no limit. One address never gets
    /// more than half of all connections if there is a limit. Trusted proxies are not limited.
    pub(crate) connections_per_address_max: usize,
    /// Proxies whose connections carry many clients.
    pub(crate) trusted_proxies: Networks,
}
