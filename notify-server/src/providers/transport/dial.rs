//! Opening a connection: a byte stream and TLS, each with a timeout.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::outbound::{Outbound, Stream, system_roots, trusting};
use crate::provider_config::{BaseUrl, ExtraRoots};
use crate::providers::transport::coalesced::Coalesced;
use crate::providers::transport::response::{TLS_FAILED, TransportError};
use crate::providers::transport::{CONNECT_TIMEOUT, TLS_TIMEOUT};
use crate::tls_problem::TlsProblem;

/// The protocols that are offered in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocols {
    /// Only HTTP/2, for APNs.
    Http2,
    /// HTTP/2 preferred, and HTTP/1.1.
    Http2OrHttp1,
}

impl Protocols {
    fn alpn(self) -> &'static [&'static str] {
        match self {
            Self::Http2 => &["h2"],
            Self::Http2OrHttp1 => &["h2", "http/1.1"],
        }
    }
}

/// A byte stream ready for HTTP/2.
pub(super) enum Io {
    Plain(Coalesced<Stream>),
    Tls(Box<TlsStream<Coalesced<Stream>>>),
}

/// How the connections of one pool are opened.
pub(super) struct Dial {
    pub(super) base_url: BaseUrl,
    pub(super) trust: Trust,
    pub(super) protocols: Protocols,
    pub(super) tls: Arc<TlsConfigs>,
    /// Connects, and decides which addresses may be connected to.
    pub(super) outbound: Outbound,
}

impl Dial {
    /// Opens a byte stream for HTTP/2.
    pub(super) async fn open(&self) -> Result<Io, TransportError> {
        let (host, port) = (&self.base_url.host, self.base_url.port);
        let stream = self.outbound.connect(host, port, CONNECT_TIMEOUT).await;
        let stream = stream
            .map_err(|error| TransportError::of_dial(&error, self.trust.is_some()))
            .map(Coalesced::new)?;
        if !self.base_url.tls {
            return Ok(Io::Plain(stream));
        }
        match timeout(TLS_TIMEOUT, self.handshake(stream)).await {
            Ok(result) => result.map(|stream| Io::Tls(Box::new(stream))),
            Err(_) => Err(TransportError::unsent("tls_timeout")),
        }
    }

    async fn handshake(
        &self,
        stream: Coalesced<Stream>,
    ) -> Result<TlsStream<Coalesced<Stream>>, TransportError> {
        let config = self
            .tls
            .get(&self.trust, self.protocols.alpn())
            .ok_or_else(|| TransportError::unsent("no_root_certificates"))?;
        let name = ServerName::try_from(self.base_url.host.clone())
            .map_err(|error| TransportError::unsent_because(TLS_FAILED, &error))?;
        let stream = TlsConnector::from(config).connect(name, stream).await.map_err(|error| {
            match TlsProblem::of(&error) {
                Some(_) => TransportError::unconnected(&error, self.trust.is_some()),
                // The connection ended during the handshake.
                None => TransportError::unsent_because(TLS_FAILED, &error),
            }
        })?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Ok(stream)
        } else {
            Err(TransportError::http1_only())
        }
    }
}

/// Most cached configurations. Far fewer are in use at a time, but each change of a `ca_certificate` adds
/// one to the cache.
const CONFIGS_KEPT_MAX: usize = 1_024;

/// Roots that are trusted in addition to the system's.
pub(crate) type Trust = Option<ExtraRoots>;

/// Shared TLS configurations, created on first use.
#[derive(Default)]
pub(crate) struct TlsConfigs {
    configs: Mutex<HashMap<ConfigKey, Option<Arc<ClientConfig>>>>,
}

/// The trusted roots and the protocols offered.
type ConfigKey = (Trust, &'static [&'static str]);

impl TlsConfigs {
    /// The configuration for these roots and protocols; `None` if there are no roots at all, so that no
    /// certificate could be verified.
    pub(crate) fn get(
        &self,
        trust: &Trust,
        alpn: &'static [&'static str],
    ) -> Option<Arc<ClientConfig>> {
        let mut configs = self.configs.lock().expect("nothing panics under this lock");
        if configs.len() >= CONFIGS_KEPT_MAX {
            // Open connections keep their configuration. It is created again for the next connection.
            configs.clear();
        }
        configs.entry((trust.clone(), alpn)).or_insert_with(|| self.make(trust, alpn)).clone()
    }

    fn make(&self, trust: &Trust, alpn: &[&str]) -> Option<Arc<ClientConfig>> {
        let mut roots = system_roots();
        if let Some(extra) = trust {
            extra.add_to(&mut roots).expect("extra roots were read when they were configured");
        }
        if roots.is_empty() {
            return None;
        }
        let mut config = trusting(roots);
        config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
        Some(Arc::new(config))
    }
}
