//! HTTP for addresses that users give: every name that it connects to has passed the guard, no
//! redirect is followed automatically, no proxy is used, and no state is kept between requests.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use rustls::{ClientConfig, RootCertStore};

use super::{Outbound, Unreachable};

/// Longest time to connect, TLS included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Resolves to the addresses that the guard allows, and no others. It sees no host that is an
/// address itself: urls pass the guard before they come here.
pub(crate) struct Guarded(pub(crate) Outbound);

impl Resolve for Guarded {
    fn resolve(&self, name: Name) -> Resolving {
        let guard = self.0.clone();
        Box::pin(async move {
            // Port 0 means the url's port.
            let addresses = guard.addresses(name.as_str(), 0).await?;
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

/// Whether it is the guard that gave nothing to connect to.
pub(crate) fn unreachable(error: &reqwest::Error) -> Option<&Unreachable> {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    loop {
        if let Some(unreachable) = cause.downcast_ref() {
            return Some(unreachable);
        }
        cause = cause.source()?;
    }
}

/// What of the system's roots can be read; some systems carry certificates that rustls refuses. Read
/// once per process, since that takes a while.
pub(crate) fn system_roots() -> RootCertStore {
    static ROOTS: OnceLock<RootCertStore> = OnceLock::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        roots
    };
    ROOTS.get_or_init(read).clone()
}

/// TLS that trusts these roots. Without any, plain `http` still works; TLS then fails for want of an
/// issuer.
pub(crate) fn trusting(roots: RootCertStore) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("aws-lc-rs has the default protocol versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

/// Builder of an HTTP/1.1 client without proxies and redirects. Which addresses a name may resolve
/// for is not its matter: give it [`Guarded`] where users name hosts.
pub(crate) fn plain_client(tls: ClientConfig) -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .tls_backend_preconfigured(tls)
        .http1_only()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
}

/// A client behind the guard that trusts the system's roots.
pub(crate) fn guarded_client(guard: &Outbound) -> reqwest::Client {
    plain_client(trusting(system_roots()))
        .dns_resolver(Guarded(guard.clone()))
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_max_idle_per_host(0)
        .build()
        .expect("a client with its TLS given needs nothing of the system")
}
