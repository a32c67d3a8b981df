//! TLS to the database. It uses the same cryptography library as the rest of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::url::TlsMode;
use crate::outbound::{system_roots, trusting};

/// Makes the TLS connector of a mode; `None` without TLS.
pub(super) fn connector(mode: &TlsMode) -> io::Result<Option<MakeRustlsConnect>> {
    let mut config = match mode {
        TlsMode::Disable => return Ok(None),
        TlsMode::Prefer => trusting(RootCertStore::empty()),
        TlsMode::Verify(None) => trusting(system_roots()),
        TlsMode::Verify(Some(path)) => trusting(roots_of(path)?),
    };
    if *mode == TlsMode::Prefer {
        let provider = Arc::new(aws_lc_rs::default_provider());
        config.dangerous().set_certificate_verifier(Arc::new(NoVerifier(provider)));
    }
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn roots_of(path: &Path) -> io::Result<RootCertStore> {
    let pem = std::fs::read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates);
    if added == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no certificate in it"));
    }
    Ok(roots)
}

/// Accepts every certificate. `sslmode=prefer` does not protect against an active attacker, since
/// it also allows a connection without TLS.
#[derive(Debug)]
struct NoVerifier(Arc<CryptoProvider>);

impl ServerCertVerifier for NoVerifier {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
