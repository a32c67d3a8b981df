//! The guard for user-supplied addresses, such as the endpoints of browsers: what such a url
//! may look like and, on connecting, which addresses its name may resolve to. A name is
//! resolved once for each connection, and the checked address is the one connected to, so that a name
//! that changes its address in between (DNS rebinding) gains nothing.
//!
//! Addresses that an administrator configures are not checked here.

mod client;
mod ranges;
mod retry_after;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use client::{
    Guarded, guarded_client, plain_client, system_roots, trusting, unreachable,
};
pub(crate) use retry_after::retry_after;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use url::{Host, Url};

/// The only port, unless private networks are allowed.
const PORT: u16 = 443;
/// The ports of web pages, unless private networks are allowed.
const PAGE_PORTS: [u16; 2] = [80, PORT];

/// Why a url is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It cannot be parsed, or is not `https`.
    #[error("must be an https url")]
    NotHttps,
    /// The url of a webhook is `http`.
    #[error("must be an https url: this server sends to no other without --allow-private-networks")]
    PlainHttp,
    /// It cannot be parsed, or is neither `http` nor `https`.
    #[error("must be an http or https url")]
    NotWeb,
    /// It carries a user name or a password.
    #[error("must not contain credentials")]
    Credentials,
    /// Its host is a name of this machine, or a private address.
    #[error(
        "must not be a private address: this server sends to none without --allow-private-networks"
    )]
    Address,
    /// Its port is not allowed.
    #[error("must not name a port other than {PORT}")]
    Port,
}

/// Why a host has no allowed address.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// Its name does not resolve.
    #[error("the name does not resolve")]
    Unresolved(#[source] io::Error),
    /// It resolves only to private addresses.
    #[error("the address is not allowed")]
    NotAllowed,
}

/// Resolves names.
#[async_trait::async_trait]
pub(crate) trait Resolver: Send + Sync {
    /// The addresses of a name, or of a literal.
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
    /// All: `--allow-private-networks`.
    Any,
    /// Public ones.
    Public,
    /// Public ones, and one that a test treats as public.
    #[cfg(test)]
    PublicAnd(IpAddr),
}

/// The guard.
#[derive(Clone)]
pub(crate) struct Outbound {
    policy: Policy,
    resolver: Arc<dyn Resolver>,
}

impl std::fmt::Debug for Outbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbound").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Outbound {
    /// A guard over the system's resolver.
    #[must_use]
    pub(crate) fn new(allow_private_networks: bool) -> Self {
        let policy = if allow_private_networks { Policy::Any } else { Policy::Public };
        Self { policy, resolver: Arc::new(SystemResolver) }
    }

    /// Parses a user-supplied url. Addresses in all forms of the URL standard
    /// (`0x7f.1`, `2130706433`) are recognized as addresses; names are checked when
    /// they are connected to.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn target(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "https");
        self.checked(url.ok_or(Refused::NotHttps)?, &[PORT])
    }

    /// Parses the url of a webhook: like [`Self::target`], and also `http` if private networks are
    /// allowed. The messages are signed, not secret.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn webhook(&self, url: &str) -> Result<Url, Refused> {
        match Url::parse(url) {
            Ok(url) if url.scheme() == "http" && self.policy == Policy::Any => {
                self.checked(url, &[PORT])
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
        self.checked(url.ok_or(Refused::NotWeb)?, &PAGE_PORTS)
    }

    fn checked(&self, mut url: Url, ports: &[u16]) -> Result<Url, Refused> {
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Refused::Credentials);
        }
        let is_allowed = match url.host().ok_or(Refused::NotHttps)? {
            Host::Domain(name) => self.policy == Policy::Any || !is_this_machine(name),
            Host::Ipv4(address) => self.allows(address.into()),
            Host::Ipv6(address) => self.allows(address.into()),
        };
        if !is_allowed {
            return Err(Refused::Address);
        }
        let is_port = url.port_or_known_default().is_some_and(|port| ports.contains(&port));
        if self.policy != Policy::Any && !is_port {
            return Err(Refused::Port);
        }
        url.set_fragment(None);
        Ok(url)
    }

    /// The addresses of a host that may be connected to: of several, those that are allowed.
    ///
    /// # Errors
    /// When there is none.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        port: u16,
    ) -> Result<Vec<SocketAddr>, Unreachable> {
        let found = self.resolver.resolve(host, port).await.map_err(Unreachable::Unresolved)?;
        if found.is_empty() {
            return Err(Unreachable::Unresolved(io::ErrorKind::NotFound.into()));
        }
        let allowed: Vec<_> = found.into_iter().filter(|found| self.allows(found.ip())).collect();
        if allowed.is_empty() { Err(Unreachable::NotAllowed) } else { Ok(allowed) }
    }

    fn allows(&self, address: IpAddr) -> bool {
        match self.policy {
            Policy::Any => true,
            Policy::Public => ranges::is_public(address),
            #[cfg(test)]
            Policy::PublicAnd(exempt) => address == exempt || ranges::is_public(address),
        }
    }
}

/// Names of this machine, regardless of the resolver (RFC 6761 §6.3).
fn is_this_machine(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}
