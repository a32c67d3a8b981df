//! Connections through a proxy that a test scripts.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::io::AsyncRead;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::*;
use crate::outbound::dial::ByteStream;
use crate::outbound::tests::TestResolver;
use crate::outbound::{DialError, Outbound, Unreachable};

const LIMIT: Duration = Duration::from_secs(10);
const HOST: &str = "push.example";

/// A proxy that gives these answers, one for each connection, and records the heads of the requests.
struct FakeProxy {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
}

impl FakeProxy {
    async fn start(answers: Vec<&'static str>) -> Self {
        Self::start_with(answers, None).await
    }

    async fn start_with(answers: Vec<&'static str>, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&heads);
        tokio::spawn(async move {
            for answer in answers {
                let (tcp, _) = listener.accept().await.unwrap();
                match &tls {
                    None => serve(BufReader::new(tcp), answer, &seen).await,
                    Some(acceptor) => {
                        let Ok(stream) = acceptor.accept(tcp).await else { continue };
                        serve(BufReader::new(stream), answer, &seen).await;
                    }
                }
            }
        });
        Self { address, heads }
    }

    fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().drain(..).collect()
    }

    fn url(&self, credentials: &str) -> String {
        format!("http://{credentials}{}", self.address)
    }
}

/// Reads the head of a request, answers, and waits until the client ends the connection.
async fn serve<T: ByteStream>(mut io: BufReader<T>, answer: &str, seen: &Mutex<Vec<String>>) {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if io.read_line(&mut head).await.unwrap_or(0) == 0 {
            break;
        }
    }
    seen.lock().unwrap().push(head);
    let _ = io.write_all(answer.as_bytes()).await;
    let _ = io.flush().await;
    if answer.starts_with("HTTP/1.1 2") {
        let _ = io.read_to_end(&mut Vec::new()).await;
    }
}

/// Connections through the proxy at a url. `is_guarded` is whether the guard checks addresses.
fn through(url: &str, resolver: &Arc<TestResolver>, is_guarded: bool, no_proxy: &str) -> Outbound {
    let proxy = EgressProxy::new(url.parse().unwrap(), no_proxy.parse().unwrap());
    let outbound = Outbound::over(Arc::clone(resolver)).through(Some(proxy));
    if is_guarded { outbound } else { outbound.unguarded() }
}

async fn refusal(outbound: &Outbound, host: &str) -> ProxyError {
    match outbound.connect(host, 443, LIMIT).await {
        Err(DialError::Proxy(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("there is a connection"),
    }
}

async fn received(stream: impl AsyncRead + Unpin, bytes: usize) -> String {
    let mut text = vec![0; bytes];
    BufReader::new(stream).read_exact(&mut text).await.unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_url_is_read_as_other_programs_read_it_and_shows_no_credentials() {
    let rows = [
        ("http://proxy.example:3128", Ok(("proxy.example:3128", None))),
        ("https://proxy.example:3129/", Ok(("proxy.example:3129", None))),
        ("proxy.example:3128", Ok(("proxy.example:3128", None))),
        ("HTTP://Proxy.Example", Ok(("proxy.example:80", None))),
        ("https://proxy.example", Ok(("proxy.example:443", None))),
        ("http://[fd00::1]:3128", Ok(("[fd00::1]:3128", None))),
        ("http://10.0.0.7:3128", Ok(("10.0.0.7:3128", None))),
        (
            "http://ada:geheim@proxy.example:1",
            Ok(("proxy.example:1", Some("Basic YWRhOmdlaGVpbQ=="))),
        ),
        ("ada:geheim@proxy.example:1", Ok(("proxy.example:1", Some("Basic YWRhOmdlaGVpbQ==")))),
        ("http://ada@proxy.example:1", Ok(("proxy.example:1", Some("Basic YWRhOg==")))),
        (
            "http://a:p%40%3A%2Fs@proxy.example:1",
            Ok(("proxy.example:1", Some("Basic YTpwQDovcw=="))),
        ),
        ("http://a%3Ab:geheim@proxy.example:1", Err(ProxyUrlError::ColonInUser)),
        ("socks5://proxy.example:1080", Err(ProxyUrlError::Form)),
        ("http://proxy.example:3128/path", Err(ProxyUrlError::Form)),
        ("http://proxy.example:3128?geheim", Err(ProxyUrlError::Form)),
        ("http://ada:ge#heim@proxy.example:3128", Err(ProxyUrlError::Form)),
        ("http://", Err(ProxyUrlError::Form)),
        ("", Err(ProxyUrlError::Form)),
    ];
    for (text, expected) in rows {
        let parsed = text.parse::<ProxyUrl>();
        let found = parsed.as_ref().map_err(|error| *error).map(|url| {
            (
                url.to_string(),
                url.authorization.as_ref().map(|value| value.expose_secret().to_owned()),
            )
        });
        let expected = expected.map(|(place, value)| (place.to_owned(), value.map(str::to_owned)));
        assert_eq!(found, expected, "{text}");
        let shown = format!(
            "{parsed:?} {}",
            parsed.as_ref().map_or_else(|e| e.to_string(), |_| String::new())
        );
        assert!(!shown.contains("geheim") && !shown.contains("YWRh"), "{shown}");
    }
}

#[tokio::test]
async fn the_request_names_the_target_and_has_the_credentials() {
    let proxy = FakeProxy::start(vec!["HTTP/1.1 200 OK\r\n\r\n"; 3]).await;
    let resolver = Arc::new(TestResolver::default());
    for (credentials, host, expected) in [
        ("", HOST, "CONNECT push.example:443 HTTP/1.1\r\nHost: push.example:443\r\n\r\n"),
        (
            "",
            "2606:4700::1",
            "CONNECT [2606:4700::1]:443 HTTP/1.1\r\nHost: [2606:4700::1]:443\r\n\r\n",
        ),
        (
            "ada:geheim@",
            HOST,
            "CONNECT push.example:443 HTTP/1.1\r\nHost: push.example:443\r\n\
             Proxy-Authorization: Basic YWRhOmdlaGVpbQ==\r\n\r\n",
        ),
    ] {
        let outbound = through(&proxy.url(credentials), &resolver, false, "");
        drop(outbound.connect(host, 443, LIMIT).await.unwrap());
        assert_eq!(proxy.heads(), [expected]);
        let diagnostics = outbound.proxy_diagnostics().unwrap();
        let address = proxy.address.to_string();
        assert_eq!(diagnostics, notify_core::EgressProxyDiagnostics { address, failure: None });
    }
}

#[tokio::test]
async fn bytes_of_the_target_behind_the_answer_are_kept() {
    let answer = "HTTP/1.1 200 Connection established\r\nvia: x\r\n\r\nearly";
    let proxy = FakeProxy::start(vec![answer]).await;
    let outbound = through(&proxy.url(""), &Arc::default(), false, "");
    let stream = outbound.connect(HOST, 443, LIMIT).await.unwrap();
    assert_eq!(received(stream, 5).await, "early");
}

#[tokio::test]
async fn what_is_wrong_with_the_proxy_is_named() {
    let long =
        Box::leak(format!("HTTP/1.1 200 OK\r\n{}", "a: b\r\n".repeat(4_000)).into_boxed_str());
    let rows: [(&str, &'static str, &str, bool); 11] = [
        ("", "HTTP/1.1 407 x\r\n\r\n", "requires credentials (status 407)", false),
        ("ada:geheim@", "HTTP/1.1 407 x\r\n\r\n", "refuses the credentials (status 407)", false),
        (
            "",
            "HTTP/1.1 403 geheim\r\n\r\n<html>geheim",
            "refuses the connection (status 403)",
            false,
        ),
        ("", "HTTP/1.0 405 x\r\n\r\n", "refuses the connection (status 405)", false),
        ("", "HTTP/1.1 302 x\r\nlocation: /\r\n\r\n", "refuses the connection (status 302)", false),
        ("", "HTTP/1.1 502 x\r\n\r\n", "does not reach the host (status 502)", true),
        ("", "HTTP/1.1 503 x\r\n\r\n", "does not reach the host (status 503)", true),
        ("", "SSH-2.0-geheim\r\n", "does not answer like an HTTP proxy", false),
        ("", "HTTP/1.1 999 x\r\n\r\n", "does not answer like an HTTP proxy", false),
        ("", "", "does not answer like an HTTP proxy", false),
        ("", long, "does not answer like an HTTP proxy", false),
    ];
    for (credentials, answer, expected, is_about_target) in rows {
        let proxy = FakeProxy::start(vec![answer]).await;
        let outbound = through(&proxy.url(credentials), &Arc::default(), false, "");
        let error = refusal(&outbound, HOST).await;
        let text = format!("the proxy {} {expected}", proxy.address);
        assert_eq!((error.to_string(), error.is_about_target()), (text.clone(), is_about_target));
        let failure = outbound.proxy_diagnostics().unwrap().failure;
        assert_eq!(failure, (!is_about_target).then_some(text), "{answer}");
    }
}

#[tokio::test]
async fn a_proxy_that_does_not_finish_its_answer_is_named() {
    let proxy = FakeProxy::start(vec!["HTTP/1.1 200 OK\r\nvia: x\r\n"]).await;
    let outbound = through(&proxy.url(""), &Arc::default(), false, "");
    let result = outbound.connect(HOST, 443, Duration::from_millis(50)).await;
    let Err(DialError::Proxy(error)) = result else { panic!("another result") };
    let expected = format!("the proxy {} makes no connection in time", proxy.address);
    assert_eq!((error.to_string(), error.is_about_target()), (expected, true));
}

/// The answer to a user's url says nothing about the hosts of providers.
#[tokio::test]
async fn answers_for_urls_of_users_neither_hide_nor_make_a_failure() {
    let (ok, gone) = ("HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 502 x\r\n\r\n");
    let (refused, wrong) = ("HTTP/1.1 403 x\r\n\r\n", "HTTP/1.1 407 x\r\n\r\n");
    let rows = [
        (true, refused, ""),
        (true, wrong, ""),
        (true, "", ""),
        (false, refused, "refuses the connection (status 403)"),
        (true, ok, "refuses the connection (status 403)"),
        (true, gone, "refuses the connection (status 403)"),
        (true, wrong, "refuses the connection (status 403)"),
        (false, gone, ""),
        (false, wrong, "requires credentials (status 407)"),
        (true, ok, "requires credentials (status 407)"),
        (false, ok, ""),
    ];
    let proxy = FakeProxy::start(rows.map(|(_, answer, _)| answer).to_vec()).await;
    let resolver = Arc::new(TestResolver::default());
    resolver.answers(HOST, &["1.1.1.1:443".parse().unwrap()]);
    let users = through(&proxy.url(""), &resolver, true, "");
    let providers = users.unguarded();
    for (nth, (is_users, _, expected)) in rows.into_iter().enumerate() {
        let outbound = if is_users { &users } else { &providers };
        drop(outbound.connect(HOST, 443, LIMIT).await);
        let failure = users.proxy_diagnostics().unwrap().failure.unwrap_or_default();
        let text = failure.strip_prefix(&format!("the proxy {} ", proxy.address));
        assert_eq!(text.unwrap_or_default(), expected, "{nth}: {failure}");
    }
}

#[tokio::test]
async fn urls_of_users_show_that_the_proxy_cannot_be_reached() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let resolver = Arc::new(TestResolver::default());
    resolver.answers(HOST, &["1.1.1.1:443".parse().unwrap()]);
    let users = through(&format!("http://{address}"), &resolver, true, "");
    refusal(&users, HOST).await;
    let failure = users.proxy_diagnostics().unwrap().failure.unwrap();
    assert_eq!(failure, format!("the proxy {address} cannot be reached: connection refused"));
}

#[tokio::test]
async fn a_proxy_that_cannot_be_reached_is_named() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let outbound = through(&format!("http://{address}"), &Arc::default(), false, "");
    let error = refusal(&outbound, HOST).await;
    let expected = format!("the proxy {address} cannot be reached: connection refused");
    assert_eq!(error.to_string(), expected);
    let outbound = through("http://ada:geheim@nowhere.example:3128", &Arc::default(), false, "");
    let error = refusal(&outbound, HOST).await;
    let expected = "the proxy nowhere.example:3128 cannot be reached: its name does not resolve";
    assert_eq!(error.to_string(), expected);
}

#[tokio::test]
async fn the_guard_checks_the_target_and_the_proxy_gets_its_address() {
    let answers = ["HTTP/1.1 503 x\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 503 x\r\n\r\n"];
    let proxy = FakeProxy::start(answers.to_vec()).await;
    let resolver = Arc::new(TestResolver::default());
    let private: SocketAddr = "10.0.0.7:443".parse().unwrap();
    let [first, second]: [SocketAddr; 2] =
        ["[2606:4700::1]:443", "1.1.1.1:443"].map(|address| address.parse().unwrap());
    resolver.answers("mixed.example", &[private, first, second]);
    resolver.answers("single.example", &[second]);
    resolver.answers("inside.example", &[private]);
    let outbound = through(&proxy.url(""), &resolver, true, "");
    drop(outbound.connect("mixed.example", 443, LIMIT).await.unwrap());
    let heads: Vec<String> =
        proxy.heads().iter().map(|head| head.lines().next().unwrap().to_owned()).collect();
    assert_eq!(heads, ["CONNECT [2606:4700::1]:443 HTTP/1.1", "CONNECT 1.1.1.1:443 HTTP/1.1"]);
    assert!(refusal(&outbound, "single.example").await.is_about_target());
    proxy.heads();
    for host in ["inside.example", "10.0.0.7", "localhost", "127.0.0.1", "169.254.169.254", "::1"] {
        let result = outbound.connect(host, 443, LIMIT).await;
        let is_refused = matches!(
            result,
            Err(DialError::Unreachable(Unreachable::NotAllowed | Unreachable::Unresolved(_)))
        );
        assert!(is_refused, "{host}");
    }
    assert_eq!(proxy.heads(), [""; 0], "the proxy hears nothing of refused targets");
}

#[tokio::test]
async fn this_machine_and_the_exceptions_are_reached_without_the_proxy() {
    let proxy = FakeProxy::start(Vec::new()).await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let resolver = Arc::new(TestResolver::default());
    for name in ["localhost", "direct.example"] {
        resolver.answers(name, &[address]);
    }
    let outbound = through(&proxy.url(""), &resolver, false, "direct.example");
    for host in ["localhost", "127.0.0.1", "direct.example"] {
        let port = address.port();
        let accepting = async { Ok(listener.accept().await.unwrap()) };
        let connected = tokio::try_join!(outbound.connect(host, port, LIMIT), accepting);
        let (_, (_, peer)) = connected.unwrap_or_else(|error| panic!("{host}: {error}"));
        assert_eq!(peer.ip(), IpAddr::V4(Ipv4Addr::LOCALHOST), "{host}");
    }
}

#[tokio::test]
async fn a_proxy_with_tls_must_have_a_trusted_certificate() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let tls = TlsAcceptor::from(Arc::new(config));
    let proxy = FakeProxy::start_with(vec!["HTTP/1.1 200 OK\r\n\r\nearly"; 2], Some(tls)).await;
    let url = format!("https://ada:geheim@{}", proxy.address);
    let outbound = |roots| {
        let proxy = EgressProxy::new(url.parse().unwrap(), NoProxy::default()).trusted_by(roots);
        Outbound::over(Arc::default()).through(Some(proxy)).unguarded()
    };
    let mut roots = rustls::RootCertStore::empty();
    let error = refusal(&outbound(roots.clone()), HOST).await;
    let expected = "cannot be reached over TLS: the issuer of the certificate is not trusted";
    assert_eq!(error.to_string(), format!("the proxy {} {expected}", proxy.address));
    assert_eq!(proxy.heads(), [""; 0], "the credentials are not sent");
    roots.add(made.cert.der().clone()).unwrap();
    let stream = outbound(roots).connect(HOST, 443, LIMIT).await.unwrap();
    assert_eq!(received(stream, 5).await, "early");
}
