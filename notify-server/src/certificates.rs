//! The TLS certificate of the server: read from its files, replaced when they change, and watched
//! for its expiry. An unusable pair never replaces a usable one.

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

// The pair: a certificate with its key.

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
struct Pair {
    key: Arc<CertifiedKey>,
    /// `None`: the certificate's validity cannot be read.
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

    /// Whether another pair has the same chain. The key belongs to the chain's first certificate.
    fn is(&self, other: &Self) -> bool {
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
struct Stamp([Option<FileStamp>; 2]);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// Device, inode and time of the last change of either, where there are such.
    place: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(files: &TlsFiles) -> Self {
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

// The task that reads the files again when they change.

/// How often the files are checked, in milliseconds.
const LOOK_EVERY_MS: i64 = 30_000;
/// How often a certificate that ends soon is warned about, in milliseconds.
const WARN_EVERY_MS: i64 = 86_400_000;

/// Follows the files until `stopping`, and warns of the certificate's end.
pub(crate) async fn watch(
    certificates: Arc<Certificates>,
    clock: SharedClock,
    stopping: CancellationToken,
) {
    // The pair was read at start-up, before this stamp; reading it once more costs nothing.
    let mut checked = CheckedFiles::default();
    let mut warned_at: Option<Timestamp> = None;
    loop {
        let now = clock.now();
        if warned_at.is_none_or(|at| now.ms_since(at) >= WARN_EVERY_MS) {
            warn_of_expiry(clock.wall(), certificates.not_after());
            warned_at = Some(now);
        }
        let is_forced = tokio::select! {
            () = stopping.cancelled() => return,
            () = certificates.asked.notified() => true,
            () = clock.sleep_until(now.plus_ms(LOOK_EVERY_MS)) => false,
        };
        let before = certificates.pair();
        checked = follow(&certificates, checked, is_forced).await;
        if !Arc::ptr_eq(&before, &certificates.pair()) {
            // A warning about the previous pair does not apply to this one.
            warned_at = None;
        }
    }
}

/// The files as of the last check.
#[derive(Debug, Default)]
struct CheckedFiles {
    /// The stamp when they were read; `None`: they are read at the next check, because they were
    /// not read yet or could not be.
    stamp: Option<Stamp>,
    /// Why they could not be read or used.
    error: Option<String>,
}

/// Reads the files when they have changed, must be read, or could not be read before.
async fn follow(
    certificates: &Arc<Certificates>,
    checked: CheckedFiles,
    is_forced: bool,
) -> CheckedFiles {
    let reading = certificates.clone();
    // The files may lie on a disk that hangs.
    let read = tokio::task::spawn_blocking(move || {
        // Taken before the files are read, so that a change in between is noticed at the next check.
        let stamp = reading.stamp();
        let is_due = is_forced || checked.stamp != Some(stamp);
        let read = is_due.then(|| Pair::read(&reading.files));
        (stamp, read, checked)
    });
    match read.await {
        Ok((_, None, checked)) => checked,
        Ok((stamp, Some(Ok(pair)), _)) => {
            replace(certificates, pair, is_forced);
            CheckedFiles { stamp: Some(stamp), error: None }
        }
        Ok((_, Some(Err(error)), checked)) => {
            let cause = error_chain(&error).to_string();
            // Read again at each check: the fault may be repaired without a change of the files.
            if is_forced || checked.error.as_ref() != Some(&cause) {
                tracing::error!(
                    cause,
                    "the TLS certificate was not reloaded; the server keeps the previous one"
                );
            }
            CheckedFiles { stamp: None, error: Some(cause) }
        }
        Err(error) => {
            tracing::error!(%error, "reading the TLS certificate failed");
            CheckedFiles::default()
        }
    }
}

fn replace(certificates: &Certificates, pair: Pair, is_forced: bool) {
    if !pair.is(&certificates.pair()) {
        warn_if_exposed(&certificates.files.key);
        certificates.served.send_replace(Arc::new(pair));
        tracing::info!("the TLS certificate was reloaded");
    } else if is_forced {
        tracing::info!("the TLS certificate and key are the ones that are served already");
    }
}

// The expiry of the certificate.

/// How long before its end a certificate is warned about, in milliseconds: 14 days. Renewals by ACME
/// come 30 days before the end or earlier, so that one is overdue by then.
const WARNED_BEFORE_MS: i64 = 14 * 86_400_000;

/// The state of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expiry {
    /// Its end is far, or unknown.
    Far,
    /// It ends within [`WARNED_BEFORE_MS`].
    Near,
    /// It has ended.
    Expired,
}

impl Expiry {
    fn at(wall: Timestamp, not_after: Option<Timestamp>) -> Self {
        match not_after.map(|not_after| not_after.ms_since(wall)) {
            Some(left) if left < 0 => Self::Expired,
            Some(left) if left < WARNED_BEFORE_MS => Self::Near,
            Some(_) | None => Self::Far,
        }
    }
}

/// Warns about a certificate that ends soon or has ended.
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
