//! An HTTP/1.1 client over [`Outbound`]. It follows no redirect and decompresses nothing.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Method, Request, Response, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use super::{DialError, Outbound, Stream};

/// Sends requests.
#[derive(Clone)]
pub(crate) struct HttpClient(Client<Connector, Full<Bytes>>);

/// Why there is no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// The url cannot be requested.
    #[error("the url cannot be requested")]
    Url(#[from] http::uri::InvalidUri),
    /// There was no connection, or it ended.
    #[error("the request failed")]
    Failed(#[from] Error),
}

impl RequestError {
    /// Why there was no connection, if that is the cause.
    pub(crate) fn dial_error(&self) -> Option<&DialError> {
        match self {
            Self::Failed(error) => error.source()?.downcast_ref(),
            Self::Url(_) => None,
        }
    }
}

impl HttpClient {
    /// A client with this TLS configuration. A connection is made within `connect_limit`, TLS included. At most
    /// `idle_max` connections to one host are kept for further requests.
    pub(crate) fn new(
        outbound: &Outbound,
        tls: Arc<ClientConfig>,
        connect_limit: Duration,
        idle_max: usize,
    ) -> Self {
        let connector = Connector { outbound: outbound.clone(), tls, connect_limit };
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(idle_max)
            .build(connector);
        Self(client)
    }

    /// Sends a request and returns the response, of which only the head was read.
    ///
    /// # Errors
    /// When there is no response.
    pub(crate) async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Response<Incoming>, RequestError> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        *request.uri_mut() = url.parse()?;
        *request.headers_mut() = headers;
        request.headers_mut().entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        Ok(self.0.request(request).await?)
    }
}

/// The next piece of a body; `None` at its end.
///
/// # Errors
/// When the connection ends before the body.
pub(crate) async fn next_chunk(body: &mut Incoming) -> hyper::Result<Option<Bytes>> {
    while let Some(frame) = body.frame().await {
        if let Ok(chunk) = frame?.into_data() {
            return Ok(Some(chunk));
        }
    }
    Ok(None)
}

/// Opens the connections of a client.
#[derive(Clone)]
struct Connector {
    outbound: Outbound,
    tls: Arc<ClientConfig>,
    connect_limit: Duration,
}

impl Connector {
    async fn open(self, uri: Uri) -> Result<TokioIo<Stream>, DialError> {
        let deadline = Instant::now() + self.connect_limit;
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri.host().unwrap_or_default();
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let port = uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 });
        let stream = self.outbound.connect(host, port, self.connect_limit).await?;
        if !is_tls {
            return Ok(TokioIo::new(stream));
        }
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|error| DialError::Tls(io::Error::other(error)))?;
        let handshake = TlsConnector::from(self.tls).connect(name, stream);
        match timeout_at(deadline, handshake).await {
            Ok(Ok(tls)) => Ok(TokioIo::new(Box::new(tls))),
            Ok(Err(error)) => Err(DialError::Tls(error)),
            Err(_) => Err(DialError::TimedOut),
        }
    }
}

impl tower_service::Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = DialError;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, DialError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), DialError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().open(uri))
    }
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}
