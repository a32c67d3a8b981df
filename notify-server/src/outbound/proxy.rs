//! The egress proxy: an HTTP proxy through which the server reaches other hosts, with the method CONNECT (RFC 9110
//! section 9.3.6). The proxy sees the hosts, and not what is sent to them over TLS. Requests with `http` use
//! CONNECT too: a proxy that forwards a request replaces its `Host` (RFC 9112 section 3.2.2), and a request
//! for a checked address would lose the name of the host.

use std::io;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use percent_encoding::percent_decode_str;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;
use url::{Host, Url};
use zeroize::Zeroizing;

use super::dial::{Stream, connect_to_any};
use super::{ADDRESSES_MAX, NoProxy, Resolver, system_roots, trusting};
use crate::telemetry::LogThrottle;
use crate::tls_problem::TlsProblem;

/// Longest head of the proxy's response, in bytes.
const HEAD_BYTES_MAX: u64 = 16_384;

/// The url of an HTTP proxy, with or without credentials. The credentials are never displayed.
#[derive(Clone)]
pub struct ProxyUrl {
    tls: bool,
    /// Without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Host and port.
    authority: Arc<str>,
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
        let authority = format!("{host}:{port}").into();
        let host = match host {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self { tls, host, port, authority, authorization: authorization(&url)? })
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
        f.write_str(&self.authority)
    }
}

impl std::fmt::Debug for ProxyUrl {
    /// Never shows the credentials.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ProxyUrl").field(&self.authority).finish()
    }
}

impl Serialize for ProxyUrl {
    /// Host and port, without credentials.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.authority)
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
    #[error("ends the connection: {0}")]
    Ended(io::ErrorKind),
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
    /// The proxy accepted the request in time, and did not answer it in time. The proxy is too slow, or the host is.
    #[error("makes no connection in time")]
    TimedOut,
}

impl ProxyError {
    /// Whether the proxy was not reached, so that the target cannot be the cause.
    fn is_before_request(&self) -> bool {
        matches!(
            self.problem,
            ProxyProblem::Unresolved | ProxyProblem::Unreachable(_) | ProxyProblem::Tls(_)
        )
    }

    /// Whether the target may be the cause, and not the proxy or its settings.
    pub(crate) fn is_about_target(&self) -> bool {
        matches!(self.problem, ProxyProblem::TargetUnreached(_) | ProxyProblem::TimedOut)
    }
}

/// The proxy of a server, and its last failure.
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
    log: LogThrottle,
    /// Separate, so that refused urls of users do not keep failures of providers out of the log.
    log_of_users: LogThrottle,
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
    pub(super) fn authority(&self) -> &str {
        &self.url.authority
    }

    /// Why the last connection failed, if the proxy was the cause.
    pub(super) fn failure(&self) -> Option<ProxyError> {
        self.state.lock().expect("nothing panics under this lock").failure.clone()
    }

    /// Whether a host is reached without the proxy.
    pub(super) fn skips(&self, host: &str, port: u16) -> bool {
        self.no_proxy.contains(host, port)
    }

    /// Keeps the result of a connection, and logs a failure of the proxy. If the url of the target is a user's, what
    /// the proxy answers is only logged: it may depend on the target.
    pub(super) fn record(
        &self,
        result: Result<(), &ProxyError>,
        (host, port): (&str, u16),
        is_users: bool,
    ) {
        let failure = match result {
            // The proxy accepts connections, and its credentials are unknown.
            Err(error) if error.problem == ProxyProblem::TimedOut => return,
            result => result.err().filter(|error| !error.is_about_target()),
        };
        let mut state = self.state.lock().expect("nothing panics under this lock");
        let is_evident =
            failure.or(state.failure.as_ref()).is_some_and(ProxyError::is_before_request);
        if !is_users || is_evident {
            state.failure = failure.cloned();
        }
        let log = if is_users { &mut state.log_of_users } else { &mut state.log };
        if let Some(failure) = failure
            && log.try_acquire()
        {
            tracing::warn!(host, port, "no connection: {failure}");
        }
    }

    fn error(&self, problem: ProxyProblem) -> ProxyError {
        ProxyError { proxy: self.url.authority.clone(), problem }
    }

    /// A connection to a target, host and port, through the proxy.
    ///
    /// # Errors
    /// Why there is none at the deadline.
    pub(super) async fn tunnel(
        &self,
        resolver: &dyn Resolver,
        target: &str,
        deadline: Instant,
    ) -> Result<Stream, ProxyError> {
        let open = async {
            let late = ProxyProblem::Unreachable(io::ErrorKind::TimedOut);
            let proxy = timeout_at(deadline, self.reach(resolver)).await.map_err(|_| late)??;
            let asked = timeout_at(deadline, self.ask(BufReader::new(proxy), target)).await;
            asked.map_err(|_| ProxyProblem::TimedOut)?
        };
        open.await.map_err(|problem| self.error(problem))
    }

    /// A connection to the proxy.
    async fn reach(&self, resolver: &dyn Resolver) -> Result<Stream, ProxyProblem> {
        let resolved = resolver.resolve(&self.url.host, self.url.port).await;
        let mut addresses = resolved.map_err(|_| ProxyProblem::Unresolved)?;
        addresses.truncate(ADDRESSES_MAX);
        let unreachable = |error: io::Error| ProxyProblem::Unreachable(error.kind());
        let tcp = connect_to_any(addresses).await.map_err(unreachable)?;
        if !self.url.tls {
            return Ok(Box::new(tcp));
        }
        let name = ServerName::try_from(self.url.host.clone());
        let name = name.map_err(|_| ProxyProblem::Tls(TlsProblem::WrongName))?;
        let config = self.tls.get_or_init(|| Arc::new(trusting(system_roots())));
        let tls = TlsConnector::from(config.clone()).connect(name, tcp).await;
        let tls = tls.map_err(|error| match TlsProblem::of(&error) {
            Some(problem) => ProxyProblem::Tls(problem),
            None => unreachable(error),
        })?;
        Ok(Box::new(tls))
    }

    /// Requests the connection. What the target sends at once can arrive together with the response of the proxy. It
    /// then waits in the buffer of the stream.
    async fn ask(
        &self,
        mut stream: BufReader<Stream>,
        target: &str,
    ) -> Result<Stream, ProxyProblem> {
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
        let status = exchange.await.map_err(|error| ProxyProblem::Ended(error.kind()))?;
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
async fn read_status(stream: &mut BufReader<Stream>) -> io::Result<Option<u16>> {
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
