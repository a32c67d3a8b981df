//! A self-signed certificate of a server, and clients that trust it.

use std::path::PathBuf;

use anyhow::Result;
use notify_server::config::Config;
use reqwest::{Certificate, ClientBuilder};
use tempfile::TempDir;

/// A self-signed certificate and its key, in files.
pub struct ServerCertificate {
    folder: TempDir,
    root: Certificate,
}

impl ServerCertificate {
    /// A certificate for this host.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn of(host: &str) -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let made = rcgen::generate_simple_self_signed([host.to_owned()])?;
        let root = Certificate::from_pem(made.cert.pem().as_bytes())?;
        let certificate = Self { folder, root };
        std::fs::write(certificate.path(), made.cert.pem())?;
        std::fs::write(certificate.key_path(), made.signing_key.serialize_pem())?;
        Ok(certificate)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("cert.pem")
    }

    fn key_path(&self) -> PathBuf {
        self.folder.path().join("key.pem")
    }

    /// Makes a server use the certificate.
    pub fn configure(&self, config: &mut Config) {
        config.tls_cert = Some(self.path());
        config.tls_key = Some(self.key_path());
    }

    /// The builder of a client that trusts only this certificate.
    pub fn client(&self) -> ClientBuilder {
        reqwest::Client::builder().tls_backend_rustls().tls_certs_only([self.root.clone()])
    }
}
