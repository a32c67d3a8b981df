//! A certificate with its key, from PEM files, for HTTP/2 and HTTP/1.1.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use notify_core::Timestamp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use x509_cert::der::Decode;

use super::TlsFiles;

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is no PEM.
    #[error("cannot read {} as PEM", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file holds no certificate.
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// Certificate and key do not go together, or are of no use.
    #[error("the TLS certificate and key cannot be used")]
    Pair(#[source] rustls::Error),
}

/// A certificate with its key.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) key: Arc<CertifiedKey>,
    /// `None`: the certificate's validity cannot be read.
    pub(super) not_after: Option<Timestamp>,
}

impl Pair {
    pub(super) fn read(files: &TlsFiles) -> Result<Self, TlsError> {
        let file = |path: &Path| {
            let path = path.to_owned();
            move |source| TlsError::File { path, source }
        };
        let chain = CertificateDer::pem_file_iter(&files.certificate)
            .map_err(file(&files.certificate))?
            .collect::<Result<Vec<_>, _>>()
            .map_err(file(&files.certificate))?;
        let Some(leaf) = chain.first() else {
            return Err(TlsError::NoCertificate(files.certificate.clone()));
        };
        let not_after = not_after(leaf);
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(file(&files.key))?;
        let key =
            CertifiedKey::from_der(chain, key, &default_provider()).map_err(TlsError::Pair)?;
        Ok(Self { key: Arc::new(key), not_after })
    }

    /// Whether another pair has the same chain. The key belongs to the chain's first certificate.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

/// When a certificate ends. One that our parser does not read may be one that clients accept.
fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    match x509_cert::Certificate::from_der(certificate) {
        Ok(certificate) => {
            let since_epoch = certificate.tbs_certificate.validity.not_after.to_unix_duration();
            i64::try_from(since_epoch.as_millis()).ok().map(Timestamp)
        }
        Err(error) => {
            tracing::warn!(%error, "when the TLS certificate expires cannot be read");
            None
        }
    }
}

/// Changes when one of the files is written or replaced, even behind a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp([Option<FileStamp>; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, inode and time of the last change of either, where there are such.
    place: (u64, u64, i64, i64),
}

impl Stamp {
    pub(super) fn of(files: &TlsFiles) -> Self {
        Self([&files.certificate, &files.key].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            let modified = metadata.modified().ok();
            Some(FileStamp { modified, bytes: metadata.len(), place: place(&metadata) })
        }))
    }
}

#[cfg(unix)]
fn place(metadata: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn place(_: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}
