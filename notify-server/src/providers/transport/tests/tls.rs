//! TLS: trust and negotiation.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use super::{Pools, Protocols, body, request};
use crate::outbound::Outbound;
use crate::provider_config::{BaseUrl, ExtraRoots};
use crate::providers::Processing;
use crate::providers::transport::dial::TlsConfigs;
use crate::providers::transport::{Http1, ProviderResponse, TransportError};
use notify_sandbox::{Certificate, Sandbox, SandboxConfig, Settings};
use tokio::time::{Duration, Instant};

/// A TLS configuration with a self-signed certificate for these names, and the certificate.
fn acceptor(names: &[&str], alpn: &[&str]) -> (TlsAcceptor, String) {
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
    (TlsAcceptor::from(Arc::new(config)), made.cert.pem())
}

/// Starts a TLS server that answers 200 to everything. Returns the port and the certificate.
async fn serve(names: &[&str], alpn: &[&str]) -> (u16, String) {
    let (acceptor, pem) = acceptor(names, alpn);
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
    (port, pem)
}

async fn send_to(
    host: &str,
    port: u16,
    pem: Option<&str>,
    protocols: Protocols,
) -> Result<ProviderResponse, TransportError> {
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
        assert_eq!(failure.outcome, Processing::NotProcessed);
    }
}

/// A sandbox that was restarted has another authority with the same name.
#[tokio::test]
async fn recreated_authority_error_has_a_remedy() {
    let start = async || {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Sandbox::start(listener, SandboxConfig::default()).await.unwrap()
    };
    let (before, after) = (start().await, start().await);
    let (port, pem) = (after.addr().port(), before.ca_certificate());
    let failure = send_to("127.0.0.1", port, Some(pem), Protocols::Http2).await.unwrap_err();
    let cause = "the issuer of the certificate is not trusted; ca_certificate is another one: was the \
                sandbox restarted?";
    assert_eq!(failure.reason, format!("tls_failed: {cause}"));

    // Requests to the token endpoint use HTTP/1.1.
    let http1 = Http1::new(
        &TlsConfigs::default(),
        &Some(ExtraRoots::parse(pem).unwrap()),
        &Outbound::new(true),
    );
    let url = format!("{}/token", after.origin());
    let deadline = Instant::now() + Duration::from_secs(30);
    let failure = http1.post(&url, HeaderMap::new(), Bytes::new(), deadline).await.unwrap_err();
    assert_eq!(failure.reason, format!("tls_failed: {cause}"));
}

#[test]
fn untrusted_authority_error_has_a_remedy() {
    use rustls::{CertificateError, Error};
    let reason = |wrong: Error, has_extra_trust| {
        let error = std::io::Error::other(std::io::Error::other(wrong));
        TransportError::unconnected(&error, has_extra_trust).reason.into_owned()
    };
    let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
    let cause = "tls_failed: the issuer of the certificate is not trusted; ca_certificate is";
    assert_eq!(reason(unknown(), true), format!("{cause} another one: was the sandbox restarted?"));
    assert_eq!(
        reason(unknown(), false),
        format!("{cause} not set, and the system does not trust it")
    );
    let expired = Error::InvalidCertificate(CertificateError::Expired);
    assert_eq!(reason(expired, true), "tls_failed: the certificate has expired");
}

#[tokio::test]
async fn server_without_http2_is_reported() {
    let (port, pem) = serve(&["localhost"], &["http/1.1"]).await;
    let failure =
        send_to("localhost", port, Some(&pem), Protocols::Http2OrHttp1).await.unwrap_err();
    assert!(failure.is_http1_only);
    assert_eq!(failure.outcome, Processing::NotProcessed);
    let failure = send_to("localhost", port, Some(&pem), Protocols::Http2).await.unwrap_err();
    assert!(failure.reason.starts_with("tls_failed: "), "{}", failure.reason);
}

/// A sandbox with an invalid certificate, and the roots that trust its authority.
async fn showing(certificate: Certificate) -> (Sandbox, BaseUrl, Option<ExtraRoots>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let settings = Settings { certificate, ..Settings::default() };
    let config = SandboxConfig { settings, ..SandboxConfig::default() };
    let sandbox = Sandbox::start(listener, config).await.unwrap();
    let base_url = BaseUrl::parse(&sandbox.origin()).unwrap();
    let roots = Some(ExtraRoots::parse(sandbox.ca_certificate()).unwrap());
    (sandbox, base_url, roots)
}

/// T7: no byte is sent unencrypted, and all requests together try an origin once a second.
#[tokio::test(start_paused = true)]
async fn bad_certificates_get_no_data_and_are_retried_once_a_second() {
    for certificate in [Certificate::Expired, Certificate::Elsewhere, Certificate::Stranger] {
        let (sandbox, base_url, roots) = showing(certificate).await;
        let pools = Pools::default();
        let pool = |credential: &str| {
            pools.get(&base_url, credential.to_owned(), roots.clone(), Protocols::Http2)
        };
        let (one, two) = (pool("one"), pool("two"));
        let began = Instant::now();
        for _ in 0..3 {
            for pool in [&one, &two] {
                let deadline = Instant::now() + Duration::from_secs(30);
                let failure = pool.send(request, body(), deadline).await.unwrap_err();
                assert!(failure.reason.starts_with("tls_failed: "), "{}", failure.reason);
                assert_eq!(failure.outcome, Processing::NotProcessed);
            }
        }
        assert!(began.elapsed() >= Duration::from_secs(5), "six tries, a second apart");
        let http1 = Http1::new(pools.tls(), &roots, pools.unguarded());
        let url = format!("{}/token", sandbox.origin());
        let deadline = Instant::now() + Duration::from_secs(30);
        let failure = http1.post(&url, HeaderMap::new(), body(), deadline).await.unwrap_err();
        assert_eq!(
            failure.outcome,
            Processing::NotProcessed,
            "{certificate:?}: {}",
            failure.reason
        );
        assert_eq!(sandbox.counts().connections, 0, "{certificate:?}: nothing came through");
    }
}

/// How a connection breaks off under the requests on it.
#[derive(Debug, Clone, Copy)]
enum Break {
    /// An alert that is not even encrypted.
    Alert,
    /// `RST` in place of `FIN`.
    Reset,
}

/// Accepts a number of requests on one connection over TLS, and then breaks the connection.
async fn break_off(acceptor: TlsAcceptor, tcp: TcpStream, how: Break, requests: usize) {
    let mut tls = acceptor.accept(tcp).await.unwrap();
    // Empty SETTINGS.
    tls.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
    let wanted = requests * body().len();
    let (mut received, mut chunk) = (Vec::new(), [0; 4_096]);
    let bodies = |received: &[u8]| {
        let whole = body();
        received.windows(whole.len()).filter(|at| *at == whole).count() * whole.len()
    };
    while bodies(&received) < wanted {
        let read = tls.read(&mut chunk).await.unwrap();
        received.extend_from_slice(&chunk[..read]);
    }
    let tcp = tls.get_mut().0;
    match how {
        // Content type 21, TLS 1.2, two bytes: fatal, internal_error (RFC 8446 section 6).
        Break::Alert => tcp.write_all(&[21, 3, 3, 0, 2, 2, 80]).await.unwrap(),
        Break::Reset => tcp.set_zero_linger().unwrap(),
    }
}

/// T7: the server may have accepted requests that were sent, so none of them is sent again at once.
#[tokio::test]
async fn alert_or_reset_in_flight_leaves_outcomes_unknown() {
    const REQUESTS: usize = 20;
    for how in [Break::Alert, Break::Reset] {
        let (acceptor, pem) = acceptor(&["localhost"], &["h2"]);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
        let base_url = BaseUrl::parse(&base_url).unwrap();
        let roots = Some(ExtraRoots::parse(&pem).unwrap());
        let pools = Pools::default();
        let pool = pools.get(&base_url, "one".to_owned(), roots, Protocols::Http2);
        let sent: Vec<_> = (0..REQUESTS)
            .map(|_| {
                let pool = Arc::clone(&pool);
                let deadline = Instant::now() + Duration::from_secs(30);
                tokio::spawn(async move { pool.send(request, body(), deadline).await })
            })
            .collect();
        let (tcp, _) = listener.accept().await.unwrap();
        break_off(acceptor, tcp, how, REQUESTS).await;
        for sent in sent {
            let failure = sent.await.unwrap().unwrap_err();
            assert_eq!(failure.outcome, Processing::Unknown, "{how:?}: {}", failure.reason);
        }
        assert_eq!(pools.connections("one"), [0, 0], "{how:?}");
    }
}
