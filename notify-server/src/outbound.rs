//! Outgoing connections, and the guard for those to urls that users supply, such as feeds,
//! webhooks and the endpoints of browsers. The guard checks the url, and when the server connects,
//! the addresses to which the host name resolves.
//!
//! A name is resolved once for each connection, and the server connects to the address that was
//! checked, itself or through the proxy. So a name that changes its address between the check and the
//! connection (DNS rebinding) does not get around the guard.
//!
//! Urls that an administrator configures are not checked.

mod client;
mod dial;
mod no_proxy;
mod proxy;
mod retry_after;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use client::{HttpClient, RequestError, next_chunk};
pub(crate) use dial::{DialError, Stream};
pub(crate) use no_proxy::NoProxy;
pub(crate) use proxy::{EgressProxy, ProxyProblem, ProxyUrl, ProxyUrlError};
pub(crate) use retry_after::retry_after;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

use ipnet::{Ipv4Net, Ipv6Net};
use notify_core::EgressProxyDiagnostics;
use notify_core::address::is_local_name;
use rustls::{ClientConfig, RootCertStore};
use url::{Host, Url};

/// The only allowed port, unless private networks are allowed.
const PORT: u16 = 443;
/// The allowed ports of web pages, unless private networks are allowed.
const PAGE_PORTS: [u16; 2] = [80, PORT];

/// The most addresses of a host that are tried for one connection.
const ADDRESSES_MAX: usize = 8;

/// Why a url is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// The url cannot be parsed, or is not `https`.
    #[error("must be an https url")]
    NotHttps,
    /// The url of a webhook is `http`.
    #[error("must be an https url, unless the server has --allow-private-networks")]
    PlainHttp,
    /// The url cannot be parsed, or is neither `http` nor `https`.
    #[error("must be an http or https url")]
    NotWeb,
    /// The url contains a user name or a password.
    #[error("must not contain credentials")]
    Credentials,
    /// The host is a name of this machine, or a private address.
    #[error(
        "must not be a private address: this server sends to none without --allow-private-networks"
    )]
    Address,
    /// The port is not allowed.
    #[error("must not name a port other than {PORT}")]
    Port,
}

/// Why the server does not connect to a host.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// The name does not resolve.
    #[error("the name does not resolve")]
    Unresolved(#[source] io::Error),
    /// The name resolves only to private addresses.
    #[error("the address is not allowed")]
    NotAllowed,
}

/// Resolves names.
#[async_trait::async_trait]
pub(crate) trait Resolver: Send + Sync {
    /// The addresses of a host name. A host that is an address resolves to itself.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The system's resolver.
struct SystemResolver;

#[async_trait::async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}

/// Which addresses may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// All addresses (`--allow-private-networks`).
    Any,
    /// Public addresses.
    Public,
    /// Public addresses, and an address that a test treats as public.
    #[cfg(test)]
    PublicAnd(IpAddr),
}

/// Decides to which urls and addresses the server may connect, and connects.
#[derive(Clone)]
pub(crate) struct Outbound {
    policy: Policy,
    /// Whether users supply the urls. An administrator configures the others.
    is_for_users: bool,
    resolver: Arc<dyn Resolver>,
    proxy: Option<Arc<EgressProxy>>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Outbound {
    /// Connections without a proxy, with the system's resolver.
    #[must_use]
    pub(crate) fn new(allow_private_networks: bool) -> Self {
        let policy = if allow_private_networks { Policy::Any } else { Policy::Public };
        Self { policy, is_for_users: true, resolver: Arc::new(SystemResolver), proxy: None }
    }

    /// The same connections through a proxy.
    #[must_use]
    pub(crate) fn through(self, proxy: Option<EgressProxy>) -> Self {
        Self { proxy: proxy.map(Arc::new), ..self }
    }

    /// The same connections to urls that an administrator configured, whose addresses are not checked.
    #[must_use]
    pub(crate) fn unguarded(&self) -> Self {
        Self { policy: Policy::Any, is_for_users: false, ..self.clone() }
    }

    /// The proxy and its last failure, for operators; `None` without a proxy.
    pub(crate) fn proxy_diagnostics(&self) -> Option<EgressProxyDiagnostics> {
        let proxy = self.proxy.as_ref()?;
        let failure = proxy.failure().map(|failure| failure.to_string());
        Some(EgressProxyDiagnostics { address: proxy.authority().to_owned(), failure })
    }

    /// Parses a url that a user supplied. Addresses are recognized in all notations of the URL
    /// standard, such as `0x7f.1` and `2130706433`. Names are checked when the server connects.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn target(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "https");
        self.check(url.ok_or(Refused::NotHttps)?, &[PORT])
    }

    /// Parses the url of a webhook like [`Self::target`], but also accepts `http` if private
    /// networks are allowed. The messages are signed, but not secret.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn webhook(&self, url: &str) -> Result<Url, Refused> {
        match Url::parse(url) {
            Ok(url) if url.scheme() == "http" && self.policy == Policy::Any => {
                self.check(url, &[PORT])
            }
            Ok(url) if url.scheme() == "http" => Err(Refused::PlainHttp),
            _ => self.target(url),
        }
    }

    /// Parses the url of a web page, such as a feed, which may also be `http`.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn page(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        self.check(url.ok_or(Refused::NotWeb)?, &PAGE_PORTS)
    }

    /// Checks the credentials, the host and the port of a url, and removes its fragment.
    fn check(&self, mut url: Url, ports: &[u16]) -> Result<Url, Refused> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        let is_allowed = match url.host().ok_or(Refused::NotHttps)? {
            Host::Domain(name) => self.policy == Policy::Any || !is_local_name(name),
            Host::Ipv4(address) => self.allows(address.into()),
            Host::Ipv6(address) => self.allows(address.into()),
        };
        if !is_allowed {
            return Err(Refused::Address);
        }
        let is_allowed_port = url.port_or_known_default().is_some_and(|port| ports.contains(&port));
        if self.policy != Policy::Any && !is_allowed_port {
            return Err(Refused::Port);
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// Resolves a host and returns its allowed addresses, at most [`ADDRESSES_MAX`]. Other addresses
    /// beside them are no error, because networks that translate addresses add private ones to an answer.
    ///
    /// # Errors
    /// When the host does not resolve, or none of its addresses is allowed.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Unreachable> {
        let addresses = self.resolver.resolve(host, port).await.map_err(Unreachable::Unresolved)?;
        if addresses.is_empty() {
            return Err(Unreachable::Unresolved(io::ErrorKind::NotFound.into()));
        }
        let allowed = addresses.into_iter().filter(|address| self.allows(address.ip()));
        let allowed: Vec<_> = allowed.take(ADDRESSES_MAX).collect();
        if allowed.is_empty() { Err(Unreachable::NotAllowed) } else { Ok(allowed) }
    }

    fn allows(&self, address: IpAddr) -> bool {
        match self.policy {
            Policy::Any => true,
            Policy::Public => is_public(address),
            #[cfg(test)]
            Policy::PublicAnd(exempt) => address == exempt || is_public(address),
        }
    }
}

// Addresses that are not public. Sources: the IANA registries of special-purpose addresses (RFC
// 6890, <https://www.iana.org/assignments/iana-ipv4-special-registry>,
// <https://www.iana.org/assignments/iana-ipv6-special-registry>), the IANA registry of the IPv6
// address space, and addresses at which clouds serve only their own machines.

const fn v4(a: u8, b: u8, c: u8, prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, 0), prefix)
}

const fn v6(first: u16, second: u16, third: u16, prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(first, second, third, 0, 0, 0, 0, 0), prefix)
}

/// IPv4 ranges to which the server does not connect.
const BLOCKED_V4: [Ipv4Net; 17] = [
    v4(0, 0, 0, 8),       // this network
    v4(10, 0, 0, 8),      // private
    v4(100, 64, 0, 10),   // carriers' address translation, with the metadata service of Alibaba
    v4(127, 0, 0, 8),     // loopback
    v4(169, 254, 0, 16),  // link-local, with the metadata services of most clouds
    v4(172, 16, 0, 12),   // private
    v4(192, 0, 0, 24),    // protocol assignments, with the metadata service of Oracle
    v4(192, 0, 2, 24),    // documentation
    v4(192, 88, 99, 24),  // 6to4 relays
    v4(192, 168, 0, 16),  // private
    v4(198, 18, 0, 15),   // benchmarks
    v4(198, 51, 100, 24), // documentation
    v4(203, 0, 113, 24),  // documentation
    v4(224, 0, 0, 4),     // multicast
    v4(240, 0, 0, 4),     // reserved
    Ipv4Net::new_assert(Ipv4Addr::BROADCAST, 32),
    // Azure's WireServer. The address is public by the registry, but only Azure's own machines
    // reach it (https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16).
    Ipv4Net::new_assert(Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The only IPv6 range with addresses of the public internet (RFC 4291 section 2.4). Loopback,
/// unique local, link-local and multicast addresses are outside of it. So are the notations of IPv4
/// addresses: IPv4-compatible, translated (RFC 7915) and NAT64 addresses (RFC 6052, RFC 8215).
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// IPv6 ranges inside [`GLOBAL_V6`] to which the server does not connect.
const BLOCKED_V6: [Ipv6Net; 4] = [
    v6(0x2001, 0, 0, 23), // protocol assignments: Teredo, benchmarks, ORCHID, drones
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16), // 6to4
    v6(0x3fff, 0, 0, 20), // documentation
];

/// The IPv6 ranges whose last four bytes are the IPv4 address that the packets reach. A host without IPv4 gets
/// such addresses from its resolver (RFC 6147). The second range is for translators of one network; its
/// prefixes of other lengths than 96 have the IPv4 address elsewhere (RFC 6052 section 2.2), and are refused.
const NAT64: [Ipv6Net; 2] = [
    v6(0x64, 0xff9b, 0, 96),
    Ipv6Net::new_assert(Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, 0, 0), 96),
];

/// The IPv4 address to which the packets for an IPv6 address go, or the address itself.
fn reached(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(translated) if NAT64.iter().any(|range| range.contains(&translated)) => {
            let [.., a, b, c, d] = translated.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        address => address,
    }
}

/// Whether an address is public. An IPv4 address inside an IPv6 address is checked as an IPv4 address.
fn is_public(address: IpAddr) -> bool {
    match reached(address) {
        IpAddr::V4(address) => !BLOCKED_V4.iter().any(|range| range.contains(&address)),
        IpAddr::V6(address) => {
            GLOBAL_V6.contains(&address) && !BLOCKED_V6.iter().any(|range| range.contains(&address))
        }
    }
}

/// The system's root certificates. Certificates that rustls cannot parse are skipped, because some
/// systems contain such certificates. They are read once per process, because that takes a while.
pub(crate) fn system_roots() -> RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    ROOTS.get_or_init(read).clone()
}

/// A TLS configuration that trusts these root certificates. Without any root, plain `http` still
/// works, and every TLS handshake fails.
pub(crate) fn trusting(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}
