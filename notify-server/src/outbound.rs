//! The one guard for addresses that users give, such as the endpoints of browsers: what such a url
//! may look like, and, when it is connected to, which addresses its name may stand for. A name is
//! resolved once for each connection, and what was checked is what is connected to, so that a name
//! that changes its address meanwhile (DNS rebinding) gains nothing.
//!
//! What an administrator configures does not pass here.

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
/// The ports of pages of the web, unless private networks are allowed.
const PAGE_PORTS: [u16; 2] = [80, PORT];

/// Why a url is not taken, as the rule that it breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    /// It cannot be read, or is not `https`.
    #[error("must be an https url")]
    NotHttps,
    /// The url of a webhook is `http`.
    #[error("must be an https url: this server sends to no other without --allow-private-networks")]
    PlainHttp,
    /// It cannot be read, or is neither `http` nor `https`.
    #[error("must be an http or https url")]
    NotWeb,
    /// It carries a user name or a password.
    #[error("must not contain credentials")]
    Credentials,
    /// Its host is a name of this machine, or an address that is not public.
    #[error(
        "must not be a private address: this server sends to none without --allow-private-networks"
    )]
    Address,
    /// It names a port of another service.
    #[error("must not name a port other than {PORT}")]
    Port,
}

/// Why a host gives nothing to connect to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreachable {
    /// Its name does not resolve.
    #[error("the name does not resolve")]
    Unresolved(#[source] io::Error),
    /// It resolves, to addresses that are not public alone.
    #[error("the address is not allowed")]
    NotAllowed,
}

/// Turns names into addresses.
#[async_trait::async_trait]
pub(crate) trait Resolver: Send + Sync {
    /// The addresses of a name, or the one that a literal is.
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
    /// Every one: `--allow-private-networks`.
    Any,
    /// Public ones.
    Public,
    /// Public ones, and one that plays a public one.
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

    /// Reads a url that a user gave. Numbers in all the forms that the URL standard knows
    /// (`0x7f.1`, `2130706433`) are seen as the addresses that they are; names are looked at when
    /// they are connected to.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub(crate) fn target(&self, url: &str) -> Result<Url, Refused> {
        let url = Url::parse(url).ok().filter(|url| url.scheme() == "https");
        self.checked(url.ok_or(Refused::NotHttps)?, &[PORT])
    }

    /// Reads the url of a webhook: as [`Self::target`], and `http` too where private networks are
    /// allowed. What is sent there is signed, not secret.
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

    /// The same for a page of the web, such as a feed, which may be `http` too.
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

    /// The addresses that may be connected to for a host: of a mixed answer those that are allowed.
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

/// Names that stand for this machine whatever a resolver says (RFC 6761 §6.3).
fn is_this_machine(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}
