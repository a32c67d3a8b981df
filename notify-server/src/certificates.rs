//! The TLS certificate of the server. The server reads certificate and key from files, reads them
//! again when the files change, and warns before the certificate expires. A certificate and key
//! that cannot be used never replace a pair that can.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use notify_core::Timestamp;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use x509_cert::der::Decode;

use crate::clock::SharedClock;
use crate::error_chain::error_chain;
use crate::secrets::warn_if_exposed;

/// Paths of certificate and key.
#[derive(Debug, Clone)]
pub(crate) struct TlsFiles {
    /// The certificate chain, PEM.
    pub(crate) certificate: PathBuf,
    /// The private key of the certificate, PEM.
    pub(crate) key: PathBuf,
}

/// The certificate that is served now.
#[derive(Debug)]
pub(crate) struct Certificates {
    files: TlsFiles,
    served: watch::Sender<Arc<Pair>>,
    reload_requested: Notify,
}

impl Certificates {
    /// Reads the files.
    ///
    /// # Errors
    /// When the files contain no usable pair.
    pub(crate) fn read(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let served = watch::Sender::new(Arc::new(Pair::read(&files)?));
        warn_if_exposed(&files.key);
        Ok(Arc::new(Self { files, served, reload_requested: Notify::new() }))
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

    /// Makes the task of `watch` read the files again, even if they look unchanged.
    pub(crate) fn reload(&self) {
        self.reload_requested.notify_one();
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

// The pair: a certificate with its key.

/// Why TLS cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("cannot read {} as PEM", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why it cannot be read.
        #[source]
        source: rustls::pki_types::pem::Error,
    },
    /// The file contains no certificate.
    #[error("{} holds no certificate", .0.display())]
    NoCertificate(PathBuf),
    /// The key does not belong to the certificate, or TLS cannot use the pair.
    #[error("the TLS certificate and key cannot be used")]
    Pair(#[source] rustls::Error),
}

/// A certificate with its key.
#[derive(Debug)]
struct Pair {
    key: Arc<CertifiedKey>,
    /// When the certificate expires; `None` if that cannot be read.
    not_after: Option<Timestamp>,
}

impl Pair {
    fn read(files: &TlsFiles) -> Result<Self, TlsError> {
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

    /// Whether another pair has the same chain. Then it has the same key too, because the key
    /// belongs to the first certificate of the chain.
    fn has_same_chain(&self, other: &Self) -> bool {
        self.key.cert == other.key.cert
    }
}

/// When a certificate expires. A certificate that this parser cannot read is served all the same,
/// because clients may accept it.
fn not_after(certificate: &CertificateDer<'_>) -> Option<Timestamp> {
    match x509_cert::Certificate::from_der(certificate) {
        Ok(certificate) => {
            let since_epoch = certificate.tbs_certificate.validity.not_after.to_unix_duration();
            i64::try_from(since_epoch.as_millis()).ok().map(Timestamp)
        }
        Err(error) => {
            tracing::warn!(%error, "the expiry of the TLS certificate cannot be read");
            None
        }
    }
}

/// The state of both files on the disk. It changes when a file is written or replaced, also behind
/// a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp([Option<FileStamp>; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, inode and change time of the inode (seconds, nanoseconds), on systems that have
    /// them.
    inode: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(files: &TlsFiles) -> Self {
        Self([&files.certificate, &files.key].map(|path| {
            let metadata = std::fs::metadata(path).ok()?;
            let modified = metadata.modified().ok();
            Some(FileStamp { modified, bytes: metadata.len(), inode: inode(&metadata) })
        }))
    }
}

#[cfg(unix)]
fn inode(metadata: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
}

#[cfg(not(unix))]
fn inode(_: &std::fs::Metadata) -> (u64, u64, i64, i64) {
    (0, 0, 0, 0)
}

// The task that reads the files again when they change.

/// How often the files are checked, in milliseconds.
const CHECK_INTERVAL_MS: i64 = 30_000;
/// How often the server warns about a certificate that expires soon, in milliseconds.
const WARN_INTERVAL_MS: i64 = 86_400_000;

/// Reads the files again when they change, and warns before the certificate expires, until
/// `stopping` is cancelled.
pub(crate) async fn watch(
    certificates: Arc<Certificates>,
    clock: SharedClock,
    stopping: CancellationToken,
) {
    // The first check reads the files again. Without a stamp from the start, it cannot know whether
    // they changed.
    let mut checked = CheckedFiles::default();
    let mut warned_at: Option<Timestamp> = None;
    loop {
        let now = clock.now();
        if warned_at.is_none_or(|at| now.ms_since(at) >= WARN_INTERVAL_MS) {
            warn_of_expiry(clock.wall(), certificates.not_after());
            warned_at = Some(now);
        }
        let is_forced = tokio::select! {
            () = stopping.cancelled() => return,
            () = certificates.reload_requested.notified() => true,
            () = clock.sleep_until(now.plus_ms(CHECK_INTERVAL_MS)) => false,
        };
        let before = certificates.pair();
        checked = reload_if_changed(&certificates, checked, is_forced).await;
        if !Arc::ptr_eq(&before, &certificates.pair()) {
            // A warning about the previous pair does not apply to the new pair.
            warned_at = None;
        }
    }
}

/// The files as of the last check.
#[derive(Debug, Default)]
struct CheckedFiles {
    /// The stamp of the files when they were read. With `None`, the next check reads them: they
    /// were not read yet, or could not be used.
    stamp: Option<Stamp>,
    /// Why the files could not be read or used.
    error: Option<String>,
}

/// Reads the files if they have changed, if a reload was requested, or if they could not be used
/// before. Serves the new pair if it can be used.
async fn reload_if_changed(
    certificates: &Arc<Certificates>,
    checked: CheckedFiles,
    is_forced: bool,
) -> CheckedFiles {
    let (certificates_to_read, checked_stamp) = (certificates.clone(), checked.stamp);
    // On a blocking thread, because the disk of the files may hang.
    let reading = tokio::task::spawn_blocking(move || {
        // The stamp is taken before the files are read, so that the next check notices a change in
        // between.
        let stamp = certificates_to_read.stamp();
        let is_due = is_forced || checked_stamp != Some(stamp);
        (stamp, is_due.then(|| Pair::read(&certificates_to_read.files)))
    });
    let (stamp, pair) = match reading.await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "reading the TLS certificate failed");
            return CheckedFiles::default();
        }
    };
    match pair {
        // The files have not changed.
        None => checked,
        Some(Ok(pair)) => {
            replace(certificates, pair, is_forced);
            CheckedFiles { stamp: Some(stamp), error: None }
        }
        Some(Err(error)) => {
            let cause = error_chain(&error).to_string();
            // Without a stamp, each check reads the files again: the fault may be repaired without
            // a change of the files.
            if is_forced || checked.error.as_ref() != Some(&cause) {
                tracing::error!(
                    cause,
                    "the TLS certificate was not reloaded; the server keeps the previous one"
                );
            }
            CheckedFiles { stamp: None, error: Some(cause) }
        }
    }
}

/// Serves a pair, if it is not served already.
fn replace(certificates: &Certificates, pair: Pair, is_forced: bool) {
    if !pair.has_same_chain(&certificates.pair()) {
        warn_if_exposed(&certificates.files.key);
        certificates.served.send_replace(Arc::new(pair));
        tracing::info!("the TLS certificate was reloaded");
    } else if is_forced {
        tracing::info!("the TLS certificate and key have not changed");
    }
}

// The expiry of the certificate.

/// How long before the expiry of a certificate the server warns, in milliseconds: 14 days. ACME
/// clients renew a certificate 30 days before its expiry or earlier, so a renewal is overdue by
/// then.
const WARN_BEFORE_MS: i64 = 14 * 86_400_000;

/// How close a certificate is to its expiry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// The expiry is far away, or unknown.
    Far,
    /// The certificate expires within [`WARN_BEFORE_MS`].
    Near,
    /// The certificate has expired.
    Expired,
}

impl Expiry {
    fn at(wall: Timestamp, not_after: Option<Timestamp>) -> Self {
        match not_after.map(|not_after| not_after.ms_since(wall)) {
            Some(left) if left < 0 => Self::Expired,
            Some(left) if left < WARN_BEFORE_MS => Self::Near,
            Some(_) | None => Self::Far,
        }
    }
}

/// Logs a warning if the certificate expires soon or has expired.
fn warn_of_expiry(wall: Timestamp, not_after: Option<Timestamp>) {
    let instant = not_after.and_then(|at| jiff::Timestamp::from_millisecond(at.0).ok());
    let not_after_text = instant.map(|at| at.to_string()).unwrap_or_default();
    match Expiry::at(wall, not_after) {
        Expiry::Far => {}
        Expiry::Near => tracing::warn!(
            not_after = not_after_text,
            "the TLS certificate expires within 14 days: renew it"
        ),
        Expiry::Expired => tracing::error!(
            not_after = not_after_text,
            "the TLS certificate has expired: clients refuse to connect"
        ),
    }
}
