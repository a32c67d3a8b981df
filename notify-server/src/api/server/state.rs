//! What all connections share.

use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api::pipeline::{Pipeline, Port};
use crate::api::server::limits::Limits;
use crate::api::server::permits::ConnPermits;

/// The maximum numbers of connections to `--admin-listen` and to `--console-listen`. They use descriptors of
/// the reserve that `descriptors.rs` keeps.
const ADMIN_CONNECTIONS_MAX: usize = 32;
const CONSOLE_CONNECTIONS_MAX: usize = 32;

/// The state that all connections share.
pub(crate) struct ServerState {
    /// Handles requests.
    pub(crate) pipeline: Arc<Pipeline>,
    /// The limits of connections.
    pub(crate) limits: Limits,
    /// Does the TLS handshake, if TLS is configured.
    pub(crate) tls: Option<TlsAcceptor>,
    /// Cancelled when the server stops: it accepts only what is in the queues of its listeners, and refuses
    /// new requests.
    pub(crate) stopping: CancellationToken,
    /// Cancelled when the requests in flight or the grace period have ended: closes the
    /// connections.
    pub(crate) closing: CancellationToken,
    /// Tracks the tasks that accept connections, so that the stop can wait until each has accepted its queue.
    pub(crate) listeners: TaskTracker,
    /// Tracks all connections, so that the stop can wait for them.
    pub(crate) connections: TaskTracker,
    /// Tracks all requests in flight, so that the stop can wait for them before it closes
    /// connections.
    pub(crate) requests: TaskTracker,
    /// The permits of connections to `--listen`.
    permits: ConnPermits,
    /// The permits of connections to `--admin-listen`. Operators and collectors of metrics reach it even
    /// when the clients of the API use up theirs.
    admin_permits: ConnPermits,
    /// The permits of connections to `--console-listen`.
    console_permits: ConnPermits,
}

impl ServerState {
    pub(crate) fn new(
        pipeline: Arc<Pipeline>,
        limits: Limits,
        tls: Option<TlsAcceptor>,
        stopping: CancellationToken,
    ) -> Arc<Self> {
        let of_admin = Limits { connections_max: ADMIN_CONNECTIONS_MAX, ..limits.clone() };
        let of_console = Limits { connections_max: CONSOLE_CONNECTIONS_MAX, ..limits.clone() };
        Arc::new(Self {
            pipeline,
            tls,
            stopping,
            closing: CancellationToken::new(),
            listeners: TaskTracker::new(),
            connections: TaskTracker::new(),
            requests: TaskTracker::new(),
            permits: ConnPermits::new(&limits),
            admin_permits: ConnPermits::new(&of_admin),
            console_permits: ConnPermits::new(&of_console),
            limits,
        })
    }

    /// The permits of connections to an address.
    pub(super) fn permits(&self, port: Port) -> &ConnPermits {
        match port {
            Port::Main => &self.permits,
            Port::Admin => &self.admin_permits,
            Port::Console => &self.console_permits,
        }
    }
}
