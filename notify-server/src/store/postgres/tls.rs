//! TLS to the database. It uses the same cryptography library as the rest of the server.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls13_signature_with_raw_key};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, PeerMisbehaved, RootCertStore,
    SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;
use x509_cert::der::asn1::AnyRef;
use x509_cert::der::{self, Decode, Encode, Reader, SliceReader, Tag, TagNumber};
use x509_cert::spki::SubjectPublicKeyInfoRef;

use super::url::TlsMode;
use crate::outbound::{system_roots, trusting};

/// Makes the TLS connector of a mode; `None` without TLS.
pub(super) fn connector(mode: &TlsMode) -> io::Result<Option<MakeRustlsConnect>> {
    Ok(client_config(mode)?.map(MakeRustlsConnect::new))
}

/// Makes the TLS configuration of a mode; `None` without TLS.
pub(super) fn client_config(mode: &TlsMode) -> io::Result<Option<ClientConfig>> {
    let provider = || Arc::new(aws_lc_rs::default_provider());
    let (path, has_any_name) = match mode {
        TlsMode::Disable => return Ok(None),
        TlsMode::Prefer => {
            let mut config = trusting(RootCertStore::empty());
            config.dangerous().set_certificate_verifier(Arc::new(NoVerifier(provider())));
            return Ok(Some(config));
        }
        TlsMode::VerifyIssuer(path) => (path, true),
        TlsMode::Verify(path) => (path, false),
    };
    let (roots, named) = match path {
        Some(path) => roots_of(path)?,
        None => (system_roots(), Vec::new()),
    };
    let mut config = trusting(roots.clone());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider())
        .build()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let verifier = Arc::new(Verifier { verifier, named, has_any_name });
    config.dangerous().set_certificate_verifier(verifier);
    Ok(Some(config))
}

/// The root certificates in a file, for a verifier and as they are.
fn roots_of(path: &Path) -> io::Result<(RootCertStore, Vec<CertificateDer<'static>>)> {
    let pem = std::fs::read(path)?;
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(certificates.iter().cloned());
    if added == 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "there is no certificate in it"));
    }
    Ok((roots, certificates))
}

/// Verifies a certificate as libpq does. It also accepts a certificate that `sslrootcert` itself names: OpenSSL
/// does so for a self-signed certificate, which `openssl req -x509` marks as one of an authority.
#[derive(Debug)]
struct Verifier {
    verifier: Arc<WebPkiServerVerifier>,
    /// The certificates of `sslrootcert`.
    named: Vec<CertificateDer<'static>>,
    /// Whether the certificate may have another name than the host (`verify-ca`).
    has_any_name: bool,
}

impl Verifier {
    /// Verifies the certificate alone, which `sslrootcert` names.
    fn verify_named(
        &self,
        certificate: &CertificateDer<'_>,
        host: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let parsed = x509_cert::Certificate::from_der(certificate).map_err(bad_encoding)?;
        let validity = parsed.tbs_certificate.validity;
        let now = Duration::from_secs(now.as_secs());
        if now < validity.not_before.to_unix_duration() {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > validity.not_after.to_unix_duration() {
            return Err(CertificateError::Expired.into());
        }
        if !self.has_any_name {
            verify_server_name(&ParsedCertificate::try_from(certificate)?, host)?;
        }
        Ok(ServerCertVerified::assertion())
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        use CertificateError::{NotValidForName, NotValidForNameContext};
        let verified =
            self.verifier.verify_server_cert(certificate, intermediates, host, ocsp, now);
        match verified {
            // The name is checked last, after the issuer and the validity.
            Err(rustls::Error::InvalidCertificate(
                NotValidForName | NotValidForNameContext { .. },
            )) if self.has_any_name => Ok(ServerCertVerified::assertion()),
            Err(_) if self.named.iter().any(|named| named == certificate) => {
                self.verify_named(certificate, host, now)
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Accepts every certificate. `sslmode=prefer` does not protect against an active attacker, since
/// it also allows a connection without TLS.
///
/// The server must still prove that it has the key of its certificate: channel binding of SCRAM
/// (RFC 5929, section 4) relies on it. Only the key is read from the certificate, since rustls reads
/// no certificates of X.509 version 1, which Citus makes by default.
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
        let read_key = || {
            let key = SubjectPublicKeyInfoRef::from_der(public_key_of(certificate)?)?;
            Ok((key.algorithm.to_der()?, key.subject_public_key.raw_bytes()))
        };
        let (key_algorithm, key) = read_key().map_err(bad_encoding)?;
        let key_algorithm = AnyRef::from_der(&key_algorithm).map_err(bad_encoding)?;
        let algorithms = self.0.signature_verification_algorithms.mapping.iter();
        let (_, algorithms) = algorithms
            .clone()
            .find(|(scheme, _)| *scheme == signed.scheme)
            .ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        // In TLS 1.2, the scheme does not determine the curve of the key.
        let verified = algorithms.iter().any(|algorithm| {
            algorithm.public_key_alg_id().as_ref() == key_algorithm.value()
                && algorithm.verify_signature(key, message, signed.signature()).is_ok()
        });
        if verified {
            Ok(HandshakeSignatureValid::assertion())
        } else {
            Err(CertificateError::BadSignature.into())
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = public_key_of(certificate).map_err(bad_encoding)?.into();
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// The public key of a certificate: its `SubjectPublicKeyInfo` (RFC 5280, section 4.1). Nothing else
/// is parsed, since nothing else is used.
fn public_key_of<'c>(certificate: &'c CertificateDer<'_>) -> der::Result<&'c [u8]> {
    const VERSION: Tag = Tag::ContextSpecific { constructed: true, number: TagNumber::N0 };
    let whole = AnyRef::from_der(certificate)?;
    let signed = AnyRef::decode(&mut SliceReader::new(whole.value())?)?;
    let mut fields = SliceReader::new(signed.value())?;
    if fields.peek_tag()? == VERSION {
        AnyRef::decode(&mut fields)?;
    }
    for _before_the_key in ["serialNumber", "signature", "issuer", "validity", "subject"] {
        AnyRef::decode(&mut fields)?;
    }
    fields.tlv_bytes()
}

fn bad_encoding(_: der::Error) -> rustls::Error {
    CertificateError::BadEncoding.into()
}
