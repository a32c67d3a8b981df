//! TLS: who is trusted, and what is negotiated.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::{Pools, Protocols, body, request};
use crate::provider_config::{BaseUrl, ExtraRoots};
use crate::providers::Certainty;
use crate::providers::transport::tls::TlsConfigs;
use crate::providers::transport::{Failure, Http1, Reply};
use crate::sandbox::{Sandbox, SandboxConfig};
use tokio::time::{Duration, Instant};

/// Serves TLS with a certificate of its own for these names; answers 200 to everything. Gives the
/// port and the certificate.
async fn serve(names: &[&str], alpn: &[&str]) -> (u16, String) {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let Ok(tls) = acceptor.accept(tcp).await else { continue };
            tokio::spawn(async move {
                let Ok(mut connection) = h2::server::handshake(tls).await else { return };
                while let Some(Ok((_, mut respond))) = connection.accept().await {
                    let _ = respond.send_response(Response::new(()), true);
                }
            });
        }
    });
    (port, made.cert.pem())
}

async fn send_to(
    host: &str,
    port: u16,
    pem: Option<&str>,
    protocols: Protocols,
) -> Result<Reply, Failure> {
    let base_url = BaseUrl::parse(&format!("https://{host}:{port}")).unwrap();
    let trust = pem.map(|pem| ExtraRoots::parse(pem).unwrap());
    let pool = Pools::default().get(&base_url, "one".to_owned(), trust, protocols);
    pool.send(request, body(), Instant::now() + Duration::from_secs(30)).await
}

#[tokio::test]
async fn a_certificate_of_the_given_authority_is_trusted_by_name_and_by_address() {
    let (port, pem) = serve(&["localhost", "127.0.0.1"], &["h2"]).await;
    for host in ["localhost", "127.0.0.1"] {
        let reply = send_to(host, port, Some(&pem), Protocols::Http2).await.unwrap();
        assert_eq!(reply.status, StatusCode::OK, "{host}");
    }
}

#[tokio::test]
async fn an_unknown_authority_and_a_wrong_name_are_refused_before_anything_is_sent() {
    let (port, _) = serve(&["localhost"], &["h2"]).await;
    let (wrong_port, wrong_pem) = serve(&["elsewhere.example"], &["h2"]).await;
    let (_, other_pem) = serve(&["localhost"], &["h2"]).await;
    for (port, pem) in [(port, other_pem), (wrong_port, wrong_pem)] {
        let failure = send_to("localhost", port, Some(&pem), Protocols::Http2).await.unwrap_err();
        assert!(failure.reason.starts_with("tls_failed: "), "{}", failure.reason);
        assert!(!failure.reason.contains("ca_certificate") || port != wrong_port);
        assert_eq!(failure.outcome, Certainty::NotProcessed);
    }
}

/// A sandbox that was restarted has another authority of the same name.
#[tokio::test]
async fn an_authority_that_was_made_anew_is_told_with_its_cure() {
    let start = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Sandbox::start(listener, SandboxConfig::default()).await.unwrap()
    };
    let (before, after) = (start().await, start().await);
    let (port, pem) = (after.addr().port(), before.ca_certificate());
    let failure = send_to("127.0.0.1", port, Some(pem), Protocols::Http2).await.unwrap_err();
    let told = "invalid peer certificate: BadSignature; ca_certificate is another one: was the \
                sandbox restarted?";
    assert_eq!(failure.reason, format!("tls_failed: {told}"));

    // The token endpoint is asked over HTTP/1.1.
    let http1 = Http1::new(&TlsConfigs::default(), &Some(ExtraRoots::parse(pem).unwrap()));
    let url = format!("{}/token", after.origin());
    let deadline = Instant::now() + Duration::from_secs(30);
    let failure = http1.post(&url, HeaderMap::new(), Bytes::new(), deadline).await.unwrap_err();
    assert_eq!(failure.reason, format!("connect_failed: {told}"));
}

#[test]
fn an_authority_that_nobody_trusts_is_told_with_its_cure() {
    use rustls::{CertificateError, Error};
    let reason = |wrong: Error, has_extra_trust| {
        let error = std::io::Error::other(std::io::Error::other(wrong));
        Failure::unconnected("tls_failed", &error, has_extra_trust).reason.into_owned()
    };
    let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let told = "tls_failed: invalid peer certificate: UnknownIssuer; ca_certificate is";
    assert_eq!(reason(unknown(), true), format!("{told} another one: was the sandbox restarted?"));
    assert_eq!(
        reason(unknown(), false),
        format!("{told} not set, and the system does not trust it")
    );
    let expired = Error::InvalidCertificate(CertificateError::Expired);
    assert_eq!(reason(expired, true), "tls_failed: invalid peer certificate: Expired");
}

#[tokio::test]
async fn a_server_without_http2_says_so() {
    let (port, pem) = serve(&["localhost"], &["http/1.1"]).await;
    let failure =
        send_to("localhost", port, Some(&pem), Protocols::Http2OrHttp1).await.unwrap_err();
    assert!(failure.is_http1_only);
    assert_eq!(failure.outcome, Certainty::NotProcessed);
    let failure = send_to("localhost", port, Some(&pem), Protocols::Http2).await.unwrap_err();
    assert!(failure.reason.starts_with("tls_failed: "), "{}", failure.reason);
}
