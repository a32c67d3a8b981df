//! Opening a byte stream to another host, directly or through the egress proxy. All outgoing connections except
//! those to PostgreSQL are made here.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use notify_core::address::is_local_name;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

use super::proxy::{EgressProxy, ProxyError};
use super::{Outbound, Policy, Unreachable};

/// How long the connection to one address may take before the next address is tried too (RFC 8305 section 5). A
/// dead IPv6 route then costs little.
const ADDRESS_DELAY: Duration = Duration::from_millis(250);

/// What a connection can do.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// A connection to a host.
pub(crate) type Stream = Box<dyn ByteStream>;

/// Why there is no connection to a host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DialError {
    /// There is no allowed address.
    #[error(transparent)]
    Unreachable(#[from] Unreachable),
    /// No address accepts a connection.
    #[error("no address accepts a connection")]
    Refused(#[source] io::Error),
    /// There was no connection in time.
    #[error("there was no connection in time")]
    TimedOut,
    /// TLS to the host failed, or took too long.
    #[error("TLS failed")]
    Tls(#[source] io::Error),
    /// The proxy failed, or could not reach the host.
    #[error(transparent)]
    Proxy(#[from] ProxyError),
}

impl Outbound {
    /// Connects to a host, a name or an address without brackets, in at most `limit`. If a proxy is set, the
    /// connection goes through it, unless the host is this machine or one that `NO_PROXY` lists.
    ///
    /// # Errors
    /// When the guard allows no address, or no connection was made in time.
    pub(crate) async fn connect(
        &self,
        host: &str,
        port: u16,
        limit: Duration,
    ) -> Result<Stream, DialError> {
        let deadline = Instant::now() + limit;
        let Some(proxy) = self.proxy_for(host, port) else {
            let connecting = timeout_at(deadline, self.connect_directly(host, port));
            return Ok(Box::new(connecting.await.map_err(|_| DialError::TimedOut)??));
        };
        let result = self.connect_through(proxy, host, port, deadline).await;
        let of_proxy = match &result {
            Ok(_) => Ok(()),
            Err(DialError::Proxy(error)) => Err(error),
            Err(_) => return result,
        };
        proxy.record(of_proxy, (host, port), self.is_for_users);
        result
    }

    /// The proxy for a host; `None` if the host is reached without a proxy.
    fn proxy_for(&self, host: &str, port: u16) -> Option<&EgressProxy> {
        self.proxy.as_deref().filter(|proxy| !is_loopback(host) && !proxy.skips(host, port))
    }

    async fn connect_directly(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        let addresses = self.addresses(host, port).await?;
        connect_to_any(addresses).await.map_err(DialError::Refused)
    }

    /// Connects through the proxy. If the guard checks addresses, the server resolves the name, and the proxy gets
    /// an address that the guard allowed. So the proxy does not resolve the name again, and a name that changes
    /// its address (DNS rebinding) does not get around the guard. Otherwise the proxy gets the name, because a
    /// server behind a proxy often cannot resolve names of the internet.
    async fn connect_through(
        &self,
        proxy: &EgressProxy,
        host: &str,
        port: u16,
        deadline: Instant,
    ) -> Result<Stream, DialError> {
        if self.policy == Policy::Any {
            let target = authority(host, port);
            return Ok(proxy.tunnel(&*self.resolver, &target, deadline).await?);
        }
        let resolving = timeout_at(deadline, self.addresses(host, port));
        let mut addresses = resolving.await.map_err(|_| DialError::TimedOut)??.into_iter();
        loop {
            let address = addresses.next().expect("the loop ends at the last address");
            let left = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
            // A dead address takes only its share of the time.
            let now = Instant::now();
            let share = now + deadline.saturating_duration_since(now) / (left + 1);
            match proxy.tunnel(&*self.resolver, &address.to_string(), share).await {
                Err(error) if left > 0 && error.is_about_target() => {}
                result => return Ok(result?),
            }
        }
    }
}

/// Whether a host is this machine, so that no proxy may see the request.
fn is_loopback(host: &str) -> bool {
    match host.parse::<IpAddr>().map(|address| address.to_canonical()) {
        Ok(address) => address.is_loopback() || address.is_unspecified(),
        Err(_) => is_local_name(host),
    }
}

/// Host and port as in a url.
fn authority(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Connects to the first address that accepts a connection. Each address is tried when the one before it has
/// failed, or has taken [`ADDRESS_DELAY`].
///
/// # Errors
/// The last error.
pub(super) async fn connect_to_any(addresses: Vec<SocketAddr>) -> io::Result<TcpStream> {
    let mut rest = addresses.into_iter();
    let mut tries = FuturesUnordered::new();
    let mut last_error = io::ErrorKind::NotFound.into();
    loop {
        let result = if let Some(address) = rest.next() {
            tries.push(TcpStream::connect(address));
            if rest.len() > 0 {
                timeout(ADDRESS_DELAY, tries.next()).await.ok().flatten()
            } else {
                tries.next().await
            }
        } else {
            let Some(result) = tries.next().await else { return Err(last_error) };
            Some(result)
        };
        match result.map(|tcp| tcp.and_then(|tcp| tcp.set_nodelay(true).map(|()| tcp))) {
            Some(Ok(tcp)) => return Ok(tcp),
            Some(Err(error)) => last_error = error,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[test]
    fn this_machine_is_recognised() {
        for host in [
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "127.0.0.1",
            "127.9.9.9",
            "::1",
            "0.0.0.0",
            "::",
        ] {
            assert!(is_loopback(host), "{host}");
        }
        assert!(is_loopback("::ffff:127.0.0.1"));
        for host in ["localhost.example", "10.0.0.1", "128.0.0.1", "fd00::1", "a.example"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[tokio::test]
    async fn the_address_that_accepts_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let open = listener.local_addr().unwrap();
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let closed = free.local_addr().unwrap();
        drop(free);
        for addresses in
            [vec![open], vec![closed, open], vec![open, closed], vec![closed, closed, open]]
        {
            let tcp = connect_to_any(addresses.clone()).await.unwrap();
            assert_eq!(tcp.peer_addr().unwrap(), open, "{addresses:?}");
        }
        for addresses in [vec![closed], vec![closed, closed]] {
            let error = connect_to_any(addresses).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        }
        assert_eq!(connect_to_any(Vec::new()).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
