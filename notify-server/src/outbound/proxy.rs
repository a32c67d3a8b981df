//! The egress proxy: an HTTP proxy through which the server reaches other hosts, with the method CONNECT (RFC 9110
//! section 9.3.6). The proxy sees the hosts, and not what is sent to them over TLS.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use url::{Host, Url};
use zeroize::Zeroizing;

use super::dial::{ByteStream, Stream, connect_to_any};
use super::{NoProxy, Resolver, system_roots, trusting};
use crate::tls_problem::TlsProblem;

/// Longest head of the proxy's response, in bytes.
const HEAD_BYTES_MAX: u64 = 16_384;
/// Shortest time between two lines in the log about a failing proxy.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The url of an HTTP proxy, with or without credentials. The credentials are never displayed.
#[derive(Clone)]
pub struct ProxyUrl {
    tls: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Host and port.
    place: Arc<str>,
    /// The value of `Proxy-Authorization` (RFC 7617).
    authorization: Option<SecretString>,
}

/// Why a url is not the url of a proxy. The url is not quoted, since it may contain a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyUrlError {
    /// It cannot be parsed, has another scheme or more than an origin.
    #[error(
        "must be an http or https url, such as http://user:password@proxy.example:3128; in a name or password, \
         `@` is written %40, `/` %2F, `#` %23, `?` %3F, `:` %3A"
    )]
    Form,
    /// The user name contains a colon, which `Basic` credentials cannot transfer.
    #[error("has a `:` in the user name")]
    ColonInUser,
}

impl FromStr for ProxyUrl {
    type Err = ProxyUrlError;

    /// Parses a url. Without a scheme it is `http`, as other programs read `HTTPS_PROXY`.
    fn from_str(text: &str) -> Result<Self, ProxyUrlError> {
        let with_scheme = Zeroizing::new(if text.contains("://") {
            text.to_owned()
        } else {
            format!("http://{text}")
        });
        let url = Url::parse(&with_scheme).map_err(|_| ProxyUrlError::Form)?;
        let tls = match url.scheme() {
            "http" => false,
            "https" => true,
            _ => return Err(ProxyUrlError::Form),
        };
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyUrlError::Form);
        }
        let (host, port) =
            url.host().zip(url.port_or_known_default()).ok_or(ProxyUrlError::Form)?;
        let place = format!("{host}:{port}").into();
        let host = match host {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self { tls, host, port, place, authorization: authorization(&url)? })
    }
}

/// The credentials of a url, as the value of `Proxy-Authorization`.
fn authorization(url: &Url) -> Result<Option<SecretString>, ProxyUrlError> {
    if url.username().is_empty() && url.password().is_none() {
        return Ok(None);
    }
    let mut credentials: Zeroizing<Vec<u8>> = Zeroizing::default();
    credentials.extend(percent_decode_str(url.username()));
    if credentials.contains(&b':') {
        return Err(ProxyUrlError::ColonInUser);
    }
    credentials.push(b':');
    credentials.extend(percent_decode_str(url.password().unwrap_or_default()));
    Ok(Some(format!("Basic {}", BASE64.encode(&*credentials)).into()))
}

impl std::fmt::Display for ProxyUrl {
    /// Host and port.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.place)
    }
}

impl std::fmt::Debug for ProxyUrl {
    /// Never shows the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProxyUrl").field(&self.place).finish()
    }
}

impl Serialize for ProxyUrl {
    /// Host and port, without credentials.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.place)
    }
}

impl<'de> Deserialize<'de> for ProxyUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Why the proxy made no connection. The text names the proxy, and contains no text of the proxy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the proxy {proxy} {problem}")]
pub(crate) struct ProxyError {
    /// Host and port of the proxy.
    proxy: Arc<str>,
    pub(crate) problem: ProxyProblem,
}

/// What the proxy did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProxyProblem {
    #[error("cannot be reached: its name does not resolve")]
    Unresolved,
    #[error("cannot be reached: {0}")]
    Unreachable(io::ErrorKind),
    #[error("cannot be reached over TLS: {0}")]
    Tls(TlsProblem),
    #[error("requires credentials (status 407)")]
    NoCredentials,
    #[error("refuses the credentials (status 407)")]
    WrongCredentials,
    #[error("refuses the connection (status {0})")]
    Refused(u16),
    #[error("does not answer like an HTTP proxy")]
    NotProxy,
    /// It reports that it does not reach the host.
    #[error("does not reach the host (status {0})")]
    TargetUnreached(u16),
    /// The proxy is too slow, or the host is.
    #[error("makes no connection in time")]
    TimedOut,
}

impl ProxyError {
    /// Whether the target may be the obstacle, and not the proxy or its settings.
    pub(crate) fn is_about_target(&self) -> bool {
        matches!(self.problem, ProxyProblem::TargetUnreached(_) | ProxyProblem::TimedOut)
    }
}

/// The proxy of a server, and how it does.
pub(crate) struct EgressProxy {
    url: ProxyUrl,
    no_proxy: NoProxy,
    /// For a proxy with `https`. It is created at the first connection, because reading the system's root
    /// certificates takes a while.
    tls: OnceLock<Arc<ClientConfig>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Why the last connection failed, if the proxy was the cause.
    failure: Option<ProxyError>,
    logged_at: Option<Instant>,
}

impl EgressProxy {
    pub(crate) fn new(url: ProxyUrl, no_proxy: NoProxy) -> Self {
        Self { url, no_proxy, tls: OnceLock::new(), state: Mutex::default() }
    }

    /// The same proxy, whose certificate comes from these authorities.
    #[cfg(test)]
    pub(super) fn trusted_by(self, roots: rustls::RootCertStore) -> Self {
        Self { tls: Arc::new(trusting(roots)).into(), ..self }
    }

    /// Host and port.
    pub(super) fn place(&self) -> &str {
        &self.url.place
    }

    /// Why the last connection failed, if the proxy was the cause.
    pub(super) fn failure(&self) -> Option<ProxyError> {
        self.state.lock().expect("nothing panics under this lock").failure.clone()
    }

    /// Whether a host is reached without the proxy.
    pub(super) fn skips(&self, host: &str, port: u16) -> bool {
        self.no_proxy.contains(host, port)
    }

    /// Keeps the result of a connection, and logs a failure of the proxy. The names of the targets come from users
    /// too, and the results for them do not name the proxy.
    pub(super) fn record(&self, result: Result<(), &ProxyError>, host: &str, port: u16) {
        let failure = result.err().filter(|error| !error.is_about_target());
        let mut state = self.state.lock().expect("nothing panics under this lock");
        state.failure = failure.cloned();
        let Some(failure) = failure else { return };
        if state.logged_at.is_none_or(|at| at.elapsed() >= LOG_INTERVAL) {
            state.logged_at = Some(Instant::now());
            tracing::warn!(host, port, "no connection: {failure}");
        }
    }

    /// The error of a connection that took too long.
    pub(super) fn timed_out(&self) -> ProxyError {
        self.error(ProxyProblem::TimedOut)
    }

    fn error(&self, problem: ProxyProblem) -> ProxyError {
        ProxyError { proxy: self.url.place.clone(), problem }
    }

    /// A connection to a target, host and port, through the proxy.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) async fn tunnel(
        &self,
        resolver: &dyn Resolver,
        target: &str,
    ) -> Result<Stream, ProxyError> {
        self.open(resolver, target).await.map_err(|problem| self.error(problem))
    }

    async fn open(&self, resolver: &dyn Resolver, target: &str) -> Result<Stream, ProxyProblem> {
        let resolved = resolver.resolve(&self.url.host, self.url.port).await;
        let addresses = resolved.map_err(|_| ProxyProblem::Unresolved)?;
        let unreachable = |error: io::Error| ProxyProblem::Unreachable(error.kind());
        let tcp = connect_to_any(addresses).await.map_err(unreachable)?;
        if !self.url.tls {
            return self.ask(BufReader::new(tcp), target).await;
        }
        let name = ServerName::try_from(self.url.host.clone());
        let name = name.map_err(|_| ProxyProblem::Tls(TlsProblem::WrongName))?;
        let config = self.tls.get_or_init(|| Arc::new(trusting(system_roots())));
        let tls = TlsConnector::from(config.clone()).connect(name, tcp).await;
        let tls = tls.map_err(|error| match TlsProblem::of(&error) {
            Some(problem) => ProxyProblem::Tls(problem),
            None => unreachable(error),
        })?;
        self.ask(BufReader::new(tls), target).await
    }

    /// Requests the connection. What the target sends at once can arrive together with the response of the proxy. It
    /// then waits in the buffer of the stream.
    async fn ask<T>(&self, mut stream: BufReader<T>, target: &str) -> Result<Stream, ProxyProblem>
    where
        T: ByteStream + 'static,
    {
        let mut request =
            Zeroizing::new(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"));
        if let Some(authorization) = &self.url.authorization {
            request.push_str("Proxy-Authorization: ");
            request.push_str(authorization.expose_secret());
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        let exchange = async {
            stream.write_all(request.as_bytes()).await?;
            stream.flush().await?;
            read_status(&mut stream).await
        };
        let status = exchange.await.map_err(|error| ProxyProblem::Unreachable(error.kind()))?;
        match status.ok_or(ProxyProblem::NotProxy)? {
            200..300 => Ok(Box::new(stream)),
            407 if self.url.authorization.is_some() => Err(ProxyProblem::WrongCredentials),
            407 => Err(ProxyProblem::NoCredentials),
            status @ 500..600 => Err(ProxyProblem::TargetUnreached(status)),
            status => Err(ProxyProblem::Refused(status)),
        }
    }
}

/// The status of a response, of which the whole head is read; `None` if it is not a response of HTTP/1, or its head
/// is too long.
async fn read_status<T: ByteStream>(stream: &mut BufReader<T>) -> io::Result<Option<u16>> {
    let mut head = stream.take(HEAD_BYTES_MAX);
    let mut line = Vec::new();
    head.read_until(b'\n', &mut line).await?;
    let Some(status) = status_of(&line) else { return Ok(None) };
    while !matches!(line.as_slice(), b"\r\n" | b"\n") {
        line.clear();
        if head.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(status))
}

/// The status in a status line (RFC 9112 section 4).
fn status_of(line: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(line).ok()?;
    let mut parts = line.strip_prefix("HTTP/1.")?.split_ascii_whitespace();
    let (_, status) = (parts.next()?, parts.next()?);
    status.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests;
