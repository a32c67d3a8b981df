//! Endpoints with private addresses: no connection reaches a listener there, for any URL, resolver
//! or response. A public push service still works.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use notify_core::{Content, Message, NotificationId, Priority, ProviderKind};
use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::Instant;
use tokio_rustls::TlsAcceptor;

use super::NOW;
use crate::clock::ManualClock;
use crate::outbound::Outbound;
use crate::outbound::tests::{DISGUISES, TestResolver};
use crate::payload::RenderContext;
use crate::provider_config::{BaseUrl, ProviderConfig};
use crate::providers::transport::{Http1, Pools, TransportError, http2_post};
use crate::providers::web_push::{Services, VapidTokens, WebPush};
use crate::providers::{Address, Processing, Provider, RenderedMessage, SendResult};
use notify_sandbox::Browser;

/// An address that the test treats as public.
const PUBLIC: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const CONTROL: &str = "push.control.com";

/// A listener that nothing may connect to.
struct Canary {
    address: SocketAddr,
    hits: Arc<AtomicUsize>,
}

impl Canary {
    async fn on(ip: impl Into<IpAddr>) -> Self {
        let listener = TcpListener::bind((ip.into(), 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let hits = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&hits);
        tokio::spawn(async move {
            while let Ok((mut io, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::SeqCst);
                // Confirms to the client that it was counted.
                let _ = io.write_all(b"x").await;
            }
        });
        Self { address, hits }
    }

    /// Asserts that there was no connection. The test connects itself, and its connection must be the first.
    async fn is_silent(&self) {
        let mut io = TcpStream::connect(self.address).await.unwrap();
        io.read_u8().await.unwrap();
        assert_eq!(self.hits.swap(0, Ordering::SeqCst), 1, "{} was reached", self.address);
    }
}

/// A public push service that speaks only HTTP/1.1 and ends each connection.
struct Control {
    address: SocketAddr,
    ca_certificate: String,
    answer: Arc<Mutex<String>>,
    requests: Arc<AtomicUsize>,
}

impl Control {
    async fn start() -> Self {
        let made = rcgen::generate_simple_self_signed(vec![CONTROL.to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind((PUBLIC, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let answer = Arc::new(Mutex::new("201 Created".to_owned()));
        let requests = Arc::new(AtomicUsize::new(0));
        let (status_line, counted) = (Arc::clone(&answer), Arc::clone(&requests));
        tokio::spawn(async move {
            while let Ok((tcp, _)) = listener.accept().await {
                let Ok(mut tls) = acceptor.accept(tcp).await else { continue };
                let mut received = Vec::new();
                let mut chunk = [0; 8_192];
                while !is_whole(&received) {
                    match tls.read(&mut chunk).await {
                        Ok(read @ 1..) => received.extend_from_slice(&chunk[..read]),
                        _ => break,
                    }
                }
                if received.is_empty() {
                    continue;
                }
                counted.fetch_add(1, Ordering::SeqCst);
                let head = status_line.lock().unwrap().clone();
                let head =
                    format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                let _ = tls.write_all(head.as_bytes()).await;
                let _ = tls.shutdown().await;
            }
        });
        Self { address, ca_certificate: made.cert.pem(), answer, requests }
    }

    fn answers(&self, head: &str) {
        head.clone_into(&mut self.answer.lock().unwrap());
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// Whether the whole request, head and body, has arrived.
fn is_whole(received: &[u8]) -> bool {
    let text = String::from_utf8_lossy(received);
    let Some((head, _)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    received.len() >= head.len() + 4 + length
}

struct Fixture {
    canaries: [Canary; 2],
    control: Control,
    resolver: Arc<TestResolver>,
    services: Services,
    provider: WebPush,
    prepared: RenderedMessage,
    browser: Browser,
}

async fn fixture() -> Fixture {
    let control = Control::start().await;
    let resolver = Arc::new(TestResolver::default());
    let guard = Outbound::over_with(resolver.clone(), PUBLIC);
    let services = Services::with_limit(Arc::default(), guard, 8);
    let mut body =
        json!({"subject": "mailto:push@shop.com", "ca_certificate": control.ca_certificate});
    ProviderConfig::fill_defaults(ProviderKind::WebPush, &mut body, None);
    let Ok(ProviderConfig::WebPush(config)) = ProviderConfig::parse(ProviderKind::WebPush, &body)
    else {
        panic!("asked for Web Push");
    };
    let clock = ManualClock::at(NOW);
    let provider = WebPush::new(&config, clock, &services, &VapidTokens::default());
    let content =
        Content::Message(Box::new(Message { text: "Hello".to_owned(), ..Message::default() }));
    let outgoing = RenderContext {
        id: &NotificationId::new("1").unwrap(),
        app_name: "Shop",
        content: &content,
        poll_url: None,
        poll_answers: &[],
        priority: Priority::High,
        collapse_key: None,
        expires_at: None,
        ttl_seconds: 60,
    };
    Fixture {
        canaries: [Canary::on(Ipv4Addr::LOCALHOST).await, Canary::on(Ipv6Addr::LOCALHOST).await],
        prepared: provider.render(&outgoing).unwrap(),
        control,
        resolver,
        services,
        provider,
        browser: Browser::new().unwrap(),
    }
}

impl Fixture {
    async fn attempt(&self, endpoint: &str) -> SendResult {
        let address = Address::WebPush(Box::new(self.browser.subscription(endpoint)));
        self.provider.attempt(&self.prepared, &address).await
    }

    /// A URL that contains a private address ends the delivery, because a retry could not succeed.
    async fn is_refused(&self, endpoint: &str) {
        let answer = self.attempt(endpoint).await;
        let expected = SendResult::InvalidMessage { reason: "address_not_allowed".into() };
        assert_eq!(answer, expected, "{endpoint}");
    }

    /// A name that resolves to a private address is retried, like a name that does not resolve.
    async fn is_as_unknown(&self, endpoint: &str) {
        let nowhere = self.attempt("https://unresolved.com/").await;
        assert_eq!(self.attempt(endpoint).await, nowhere, "{endpoint}");
        let reason = "connect_failed".into();
        let outcome = Processing::NotProcessed;
        assert_eq!(nowhere, SendResult::Retry { reason, after: None, outcome });
    }

    async fn canaries_are_silent(&self) {
        for canary in &self.canaries {
            canary.is_silent().await;
        }
    }
}

#[tokio::test]
async fn no_url_reaches_private_addresses() {
    let fixture = fixture().await;
    let own = fixture.canaries.each_ref().map(|canary| canary.address.port());
    let ports = [443, 22, 25, 80, 6_379, own[0], own[1]];
    let mut cases = 0;
    for host in DISGUISES {
        for port in ports {
            for endpoint in [
                format!("https://{host}:{port}/push"),
                format!("http://{host}:{port}/push"),
                format!("https://push.example@{host}:{port}/"),
            ] {
                fixture.is_refused(&endpoint).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 500, "{cases}");
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn no_name_reaches_private_addresses() {
    let fixture = fixture().await;
    let [four, six] = fixture.canaries.each_ref().map(|canary| canary.address);
    let mapped = SocketAddr::from((Ipv4Addr::LOCALHOST.to_ipv6_mapped(), four.port()));
    let sets: [&[SocketAddr]; 6] =
        [&[four], &[six], &[mapped], &[four, six], &[six, mapped, four], &[four, four]];
    for (number, set) in sets.iter().enumerate() {
        let name = format!("inside-{number}.com");
        fixture.resolver.answers(&name, set);
        let endpoints = ["", "/a", "/b?c"].map(|path| format!("https://{name}{path}"));
        join_all(endpoints.iter().map(|endpoint| fixture.is_as_unknown(endpoint))).await;
    }
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn mixed_dns_response_uses_only_public_addresses() {
    let fixture = fixture().await;
    let [four, six] = fixture.canaries.each_ref().map(|canary| canary.address);
    fixture.resolver.answers(CONTROL, &[six, four, fixture.control.address, four]);
    for sent in 1..=3 {
        let answer = fixture.attempt(&format!("https://{CONTROL}/push")).await;
        assert_eq!(answer, SendResult::Delivered { message_id: None });
        assert_eq!(fixture.control.requests(), sent);
    }
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn a_name_that_is_rebound_is_checked_at_every_connection() {
    let fixture = fixture().await;
    let [four, six] = fixture.canaries.each_ref().map(|canary| canary.address);
    // The handshake that finds HTTP/1.1, the first message, then the turn.
    fixture.resolver.answers(CONTROL, &[fixture.control.address]);
    fixture.resolver.answers(CONTROL, &[fixture.control.address]);
    fixture.resolver.answers(CONTROL, &[four]);
    fixture.resolver.answers(CONTROL, &[six, four]);
    let endpoint = format!("https://{CONTROL}/push");
    assert_eq!(fixture.attempt(&endpoint).await, SendResult::Delivered { message_id: None });
    for _ in 0..20 {
        fixture.is_as_unknown(&endpoint).await;
    }
    assert_eq!(fixture.control.requests(), 1);
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let fixture = fixture().await;
    fixture.resolver.answers(CONTROL, &[fixture.control.address]);
    let canary = fixture.canaries[0].address;
    let mut sent = 0;
    for status in [301, 302, 303, 307, 308] {
        for to in [
            format!("https://{canary}/"),
            format!("http://{canary}/"),
            format!("//{canary}/"),
            "file:///etc/passwd".to_owned(),
            "gopher://127.0.0.1/".to_owned(),
            "/elsewhere".to_owned(),
        ] {
            fixture.control.answers(&format!("{status} Moved\r\nlocation: {to}"));
            let answer = fixture.attempt(&format!("https://{CONTROL}/push")).await;
            assert_eq!(answer, SendResult::Unknown { reason: format!("http_{status}").into() });
            sent += 1;
        }
    }
    assert_eq!(fixture.control.requests(), sent, "each once");
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn connections_are_guarded_independently_of_the_url_check() {
    let fixture = fixture().await;
    let guard = Outbound::new(false);
    let pools = Pools::default();
    let client = Http1::new(pools.tls(), &None, &guard);
    for canary in &fixture.canaries {
        let port = canary.address.port();
        let deadline = Instant::now() + Duration::from_secs(10);
        for host in ["localhost", "127.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0"] {
            let base_url = BaseUrl::parse(&format!("https://{host}:{port}")).unwrap();
            let pool = pools.get_guarded(&base_url, None, &guard);
            let request = || http2_post("https://x/".parse().unwrap(), http::HeaderMap::new());
            let failure = pool.send(request, Bytes::new(), deadline).await.unwrap_err();
            assert_eq!(failure, TransportError::unsent("connect_failed"), "{host}");
        }
        let url = format!("https://localhost:{port}/");
        let sent = client.post(&url, http::HeaderMap::new(), Bytes::new(), deadline).await;
        assert_eq!(sent.unwrap_err(), TransportError::unsent("connect_failed"));
    }
    fixture.canaries_are_silent().await;
}

#[tokio::test]
async fn number_of_push_services_is_bounded() {
    let fixture = fixture().await;
    for number in 0..40 {
        let name = format!("service-{number}.com");
        fixture.resolver.answers(&name, &[fixture.canaries[0].address]);
        fixture.is_as_unknown(&format!("https://{name}/")).await;
    }
    assert_eq!(fixture.services.kept(), 8);
    fixture.canaries_are_silent().await;
}
