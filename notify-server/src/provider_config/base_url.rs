//! Where a provider is reached: an origin with an optional path prefix.

use url::{Host, Url};

/// An origin with an optional path prefix. It comes from an administrator, so it may be `http` and
/// private.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct BaseUrl {
    /// Whether TLS is spoken.
    pub tls: bool,
    /// Host to resolve and to verify, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
    /// `host` or `host:port` as requests name it.
    pub authority: String,
    /// Path before every path; empty, or begins with `/` and does not end with one.
    pub prefix: String,
}

impl BaseUrl {
    /// Reads an address.
    ///
    /// # Errors
    /// The rule that it breaks.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const RULE: &str = "must be an http or https origin with an optional path";
        let url = Url::parse(text).map_err(|_| RULE)?;
        let tls = match url.scheme() {
            "https" => true,
            "http" => false,
            _ => return Err(RULE),
        };
        let extra = url.query().is_some()
            || url.fragment().is_some()
            || !url.username().is_empty()
            || url.password().is_some();
        if extra {
            return Err("must not have a query, a fragment or credentials");
        }
        let host = match url.host().ok_or(RULE)? {
            Host::Domain(name) => name.to_owned(),
            Host::Ipv4(address) => address.to_string(),
            Host::Ipv6(address) => address.to_string(),
        };
        Ok(Self {
            tls,
            host,
            port: url.port_or_known_default().ok_or(RULE)?,
            authority: url.authority().to_owned(),
            prefix: url.path().trim_end_matches('/').to_owned(),
        })
    }

    /// `https://host:port`, without the prefix.
    #[must_use]
    pub(crate) fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority)
    }

    /// `http` or `https`.
    #[must_use]
    pub(crate) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }
}

impl std::fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.origin(), self.prefix)
    }
}
