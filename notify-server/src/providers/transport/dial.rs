//! Opening a connection: name, TCP, TLS, each within its time.

use std::io;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;
use super::tls::{TlsConfigs, Trust};
use super::{ADDRESS_TIMEOUT, CONNECT_TIMEOUT, TLS_TIMEOUT};
use crate::provider_config::BaseUrl;

/// What is offered in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Protocols {
    /// HTTP/2 or nothing (APNs).
    Http2,
    /// HTTP/2 rather than HTTP/1.1.
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
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// How the connections of one pool are opened.
pub(super) struct Dial {
    pub(super) base_url: BaseUrl,
    pub(super) trust: Trust,
    pub(super) protocols: Protocols,
    pub(super) tls: Arc<TlsConfigs>,
}

impl Dial {
    pub(super) async fn open(&self) -> Result<Io, Failure> {
        let tcp = match timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(tcp)) => tcp,
            Ok(Err(error)) => return Err(Failure::unsent_because("connect_failed", &error)),
            Err(_) => return Err(Failure::unsent("connect_timeout")),
        };
        if !self.base_url.tls {
            return Ok(Io::Plain(tcp));
        }
        match timeout(TLS_TIMEOUT, self.handshake(tcp)).await {
            Ok(done) => done.map(|stream| Io::Tls(Box::new(stream))),
            Err(_) => Err(Failure::unsent("tls_timeout")),
        }
    }

    async fn connect(&self) -> io::Result<TcpStream> {
        let mut failed = None;
        for address in lookup_host((self.base_url.host.as_str(), self.base_url.port)).await? {
            let connected = match timeout(ADDRESS_TIMEOUT, TcpStream::connect(address)).await {
                Ok(connected) => connected,
                Err(_) => Err(io::ErrorKind::TimedOut.into()),
            };
            match connected {
                Ok(tcp) => {
                    tcp.set_nodelay(true)?;
                    return Ok(tcp);
                }
                Err(error) => failed = Some(error),
            }
        }
        Err(failed.unwrap_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no address")))
    }

    async fn handshake(&self, tcp: TcpStream) -> Result<TlsStream<TcpStream>, Failure> {
        let config = self
            .tls
            .get(&self.trust, self.protocols.alpn())
            .ok_or_else(|| Failure::unsent("no_root_certificates"))?;
        let name = ServerName::try_from(self.base_url.host.clone())
            .map_err(|error| Failure::unsent_because("tls_failed", &error))?;
        let stream = TlsConnector::from(config)
            .connect(name, tcp)
            .await
            .map_err(|error| Failure::unconnected("tls_failed", &error, self.trust.is_some()))?;
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            Ok(stream)
        } else {
            Err(Failure::http1_only())
        }
    }
}
