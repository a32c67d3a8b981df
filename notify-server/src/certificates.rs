//! The TLS certificate of the server: read from its files, replaced when they change, and watched
//! for its expiry. An unusable pair never replaces a usable one.

mod expiry;
mod pair;
mod reload;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::sync::Arc;

use notify_core::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

pub use pair::TlsError;
pub(crate) use reload::watch;

use self::pair::{Pair, Stamp};
use crate::private_file::warn_if_exposed;

/// Paths of certificate and key.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// The chain, PEM.
    pub(crate) certificate: PathBuf,
    /// Its private key, PEM.
    pub(crate) key: PathBuf,
}

/// The certificate that is served now.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsFiles,
    served: watch::Sender<Arc<Pair>>,
    asked: Notify,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// When they contain no usable pair.
    pub(crate) fn read(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let served = watch::Sender::new(Arc::new(Pair::read(&files)?));
        warn_if_exposed(&files.key);
        Ok(Arc::new(Self { files, served, asked: Notify::new() }))
    }

    /// A TLS acceptor that always uses the current certificate.
    ///
    /// # Errors
    /// When the protocol versions cannot be set up.
    pub(crate) fn acceptor(self: &Arc<Self>) -> Result<TlsAcceptor, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Pair)?;
        let mut config = builder.with_no_client_auth().with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    /// Reads the files again, even if they look unchanged.
    pub(crate) fn reload(&self) {
        self.asked.notify_one();
    }

    /// When the served certificate expires, if that can be parsed.
    pub(crate) fn not_after(&self) -> Option<Timestamp> {
        self.pair().not_after
    }

    fn pair(&self) -> Arc<Pair> {
        self.served.borrow().clone()
    }

    fn stamp(&self) -> Stamp {
        Stamp::of(&self.files)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.pair().key.clone())
    }
}
