//! Certificates that change while the server runs, tested with TLS handshakes of a real client.

use std::path::Path;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio_rustls::TlsConnector;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::clock::ManualClock;

/// Longest time that a test waits for anything.
const PATIENCE: Duration = Duration::from_secs(60);
const NOW: Timestamp = Timestamp(1_795_219_200_000);

struct Made {
    certificate: String,
    key: String,
    der: CertificateDer<'static>,
}

fn made() -> Made {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let key = made.signing_key.serialize_pem();
    Made { certificate: made.cert.pem(), key, der: made.cert.der().clone() }
}

fn write(files: &TlsFiles, made: &Made) {
    std::fs::write(&files.certificate, &made.certificate).unwrap();
    std::fs::write(&files.key, &made.key).unwrap();
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("cert.pem"), key: folder.join("key.pem") }
}

/// The certificate that the server presents to a client that trusts `trusted`.
async fn shown(
    certificates: &Arc<Certificates>,
    trusted: &Made,
) -> Option<CertificateDer<'static>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.der.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let (ours, theirs) = tokio::io::duplex(16_384);
    let acceptor = certificates.acceptor().unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = TlsConnector::from(Arc::new(client));
    let (_, connected) = tokio::join!(acceptor.accept(ours), connector.connect(name, theirs));
    let connected = connected.ok()?;
    connected.get_ref().1.peer_certificates()?.first().cloned().map(CertificateDer::into_owned)
}

/// Certificates that are watched with a manual clock.
struct Watched {
    folder: tempfile::TempDir,
    certificates: Arc<Certificates>,
    clock: Arc<ManualClock>,
    stopping: CancellationToken,
}

impl Watched {
    fn start(first: &Made) -> Self {
        let folder = tempfile::tempdir().unwrap();
        write(&files(folder.path()), first);
        let certificates = Certificates::read(files(folder.path())).unwrap();
        let (clock, stopping) = (ManualClock::at(NOW), CancellationToken::new());
        tokio::spawn(watch(certificates.clone(), clock.clone(), stopping.clone()));
        Self { folder, certificates, clock, stopping }
    }

    fn files(&self) -> TlsFiles {
        files(self.folder.path())
    }

    /// Advances the clock until another pair is served.
    async fn next_pair(&self) {
        let mut served = self.certificates.served.subscribe();
        let turning = async {
            while !served.has_changed().unwrap() {
                self.clock.advance(Duration::from_millis(CHECK_INTERVAL_MS.unsigned_abs()));
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(PATIENCE, turning).await.unwrap();
        served.mark_unchanged();
    }
}

#[tokio::test]
async fn new_files_are_served_to_new_connections_without_a_restart() {
    let (first, second, third) = (made(), made(), made());
    let watched = Watched::start(&first);
    let certificates = &watched.certificates;
    assert_eq!(shown(certificates, &first).await.as_ref(), Some(&first.der));
    write(&watched.files(), &second);
    assert_eq!(shown(certificates, &first).await.as_ref(), Some(&first.der), "not looked at yet");
    watched.next_pair().await;
    assert_eq!(shown(certificates, &second).await.as_ref(), Some(&second.der));
    assert_eq!(shown(certificates, &first).await, None, "the one before is gone");
    // A requested reload does not wait for the clock.
    let mut served = certificates.served.subscribe();
    write(&watched.files(), &third);
    certificates.reload();
    tokio::time::timeout(PATIENCE, served.changed()).await.unwrap().unwrap();
    assert_eq!(shown(certificates, &third).await.as_ref(), Some(&third.der));
    watched.stopping.cancel();
}

/// Certbot and Kubernetes renew certificates in this way: the paths stay, and the targets of
/// symbolic links change.
#[cfg(unix)]
#[tokio::test]
async fn changed_symbolic_link_is_a_change() {
    let (first, second) = (made(), made());
    let folder = tempfile::tempdir().unwrap();
    for (name, pair) in [("1", &first), ("2", &second)] {
        let inside = folder.path().join(name);
        std::fs::create_dir(&inside).unwrap();
        write(&files(&inside), pair);
    }
    let (link, draft) = (folder.path().join("live"), folder.path().join("draft"));
    std::os::unix::fs::symlink("1", &link).unwrap();
    let certificates = Certificates::read(files(&link)).unwrap();
    let before = certificates.stamp();
    assert_eq!(certificates.stamp(), before, "nothing has changed");
    std::os::unix::fs::symlink("2", &draft).unwrap();
    std::fs::rename(&draft, &link).unwrap();
    assert_ne!(certificates.stamp(), before);
}

#[tokio::test]
async fn unusable_pair_keeps_the_previous_one() {
    let (first, other, last) = (made(), made(), made());
    let watched = Watched::start(&first);
    let files = watched.files();
    let half = &other.certificate[..other.certificate.len() / 2];
    for (what, certificate, key) in [
        ("half a certificate", Some(half), Some(&*other.key)),
        ("a certificate without its key", Some(&*other.certificate), Some(&*first.key)),
        ("a key without its certificate", Some(&*first.certificate), Some(&*other.key)),
        ("no PEM", Some("certificate"), Some("key")),
        ("empty files", Some(""), Some("")),
        ("no key", Some(&*other.certificate), None),
        ("no files", None, None),
    ] {
        for (path, content) in [(&files.certificate, certificate), (&files.key, key)] {
            match content {
                Some(content) => std::fs::write(path, content).unwrap(),
                None => drop(std::fs::remove_file(path)),
            }
        }
        assert!(Pair::read(&files).is_err(), "{what}");
        let before = watched.certificates.pair();
        for _ in 0..3 {
            watched.clock.advance(Duration::from_millis(CHECK_INTERVAL_MS.unsigned_abs()));
            tokio::task::yield_now().await;
        }
        assert!(Arc::ptr_eq(&before, &watched.certificates.pair()), "{what}");
    }
    assert_eq!(shown(&watched.certificates, &first).await, Some(first.der.clone()));
    // The files are still watched: the next usable pair is served.
    write(&files, &last);
    watched.next_pair().await;
    assert_eq!(shown(&watched.certificates, &last).await, Some(last.der.clone()));
}

#[tokio::test]
async fn expiry_is_parsed_and_expired_certificate_is_served() {
    const DAY_SECONDS: i64 = 86_400;
    let now_seconds = NOW.0 / 1_000;
    // 2049 and 2050 are written in two forms (RFC 5280 section 4.1.2.5).
    for not_after in
        [now_seconds - DAY_SECONDS, now_seconds + 7 * DAY_SECONDS, 2_524_607_999, 2_524_608_000]
    {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        parameters.not_before = rcgen::date_time_ymd(2_020, 1, 1);
        let length = Duration::from_secs(u64::try_from(not_after).unwrap());
        parameters.not_after = (std::time::UNIX_EPOCH + length).into();
        let files = files(folder.path());
        let certificate = parameters.self_signed(&key).unwrap();
        std::fs::write(&files.certificate, certificate.pem()).unwrap();
        std::fs::write(&files.key, key.serialize_pem()).unwrap();
        let certificates = Certificates::read(files).unwrap();
        assert_eq!(certificates.not_after(), Some(Timestamp(not_after * 1_000)));
    }
    assert_eq!(WARN_INTERVAL_MS, DAY_SECONDS * 1_000);
}

#[test]
fn certificate_expiry_warns_from_14_days_before() {
    let wall = Timestamp(1_795_219_200_000);
    for (left, expected) in [
        (i64::MAX - wall.0, Expiry::Far),
        (WARN_BEFORE_MS, Expiry::Far),
        (WARN_BEFORE_MS - 1, Expiry::Near),
        (0, Expiry::Near),
        (-1, Expiry::Expired),
    ] {
        assert_eq!(Expiry::at(wall, Some(wall.plus_ms(left))), expected, "{left}");
    }
    assert_eq!(Expiry::at(wall, None), Expiry::Far);
}
