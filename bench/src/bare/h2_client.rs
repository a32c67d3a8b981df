//! A bare h2 client: the requests that the server sends, from one thread over one TLS connection,
//! with nothing stored. It runs as a process of its own, so that its CPU can be told apart.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use h2::client::SendRequest;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::children::Process;
use crate::http_load::{Connection, write_request};
use crate::process::{Cost, cpu_us};
use crate::seed::{mixed, now, push_token};
use crate::table::say;

/// Requests under way at once; APNs and the sandbox offer as many streams.
const STREAMS: usize = 1_000;
/// Bytes of answers that may be under way, as in the server.
const WINDOW_BYTES: u32 = 1_048_576;
/// What stands for a device's token in path and body.
pub(crate) const TOKEN: &str = "{token}";

/// What the client is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) address: SocketAddr,
    /// The body of `PUT …/providers/:provider`.
    pub(crate) config: Value,
    /// Origin and path.
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Whether each request has an `apns-id` of its own.
    pub(crate) has_id: bool,
    pub(crate) body: String,
    /// The number of the first device; every second one is of its platform.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Has a child carry them out.
pub(crate) fn run(orders: &Orders) -> anyhow::Result<Cost> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    let mut child = Process::start(command.arg("bare-client"))?;
    child.tell(&serde_json::to_string(orders)?)?;
    // The connection stands, the first request is answered.
    child.hear()?;
    let cpu_before = cpu_us(child.id())?;
    child.tell("go")?;
    let wall_us: u64 = child.hear()?.parse()?;
    let cpu_us = cpu_us(child.id())? - cpu_before;
    Ok(Cost { count: orders.count, wall: Duration::from_micros(wall_us), cpu_us })
}

/// The child's side.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let orders: Orders = serde_json::from_str(&line)?;
    let authorization = authorization(&orders).await?;
    let client = Client::open(&orders, authorization).await?;
    // A device that is not among those counted.
    client.send(orders.first + 2 * orders.count, 1).await?;
    say("ready");
    std::io::stdin().read_line(&mut line)?;
    let started = std::time::Instant::now();
    client.send(orders.first, orders.count).await?;
    say(&started.elapsed().as_micros().to_string());
    // The parent looks at us once more, then closes the input.
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

/// A text with a place for the token, or without one.
struct Text {
    before: Bytes,
    after: Option<Bytes>,
}

impl Text {
    fn of(text: &str) -> Self {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        match text.split_once(TOKEN) {
            Some((before, after)) => Self { before: bytes(before), after: Some(bytes(after)) },
            None => Self { before: bytes(text), after: None },
        }
    }

    fn with(&self, token: &str) -> Bytes {
        let Some(after) = &self.after else { return self.before.clone() };
        let mut text = BytesMut::with_capacity(self.before.len() + token.len() + after.len());
        text.extend_from_slice(&self.before);
        text.extend_from_slice(token.as_bytes());
        text.extend_from_slice(after);
        text.freeze()
    }
}

struct Client {
    send: SendRequest<Bytes>,
    headers: HeaderMap,
    has_id: bool,
    url: Text,
    body: Text,
}

impl Client {
    async fn open(orders: &Orders, authorization: HeaderValue) -> anyhow::Result<Self> {
        let mut roots = rustls::RootCertStore::empty();
        let ca = orders.config["ca_certificate"].as_str().context("a certificate")?;
        roots.add(CertificateDer::from_pem_slice(ca.as_bytes())?)?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h2".to_vec()];
        let tcp = TcpStream::connect(orders.address).await?;
        tcp.set_nodelay(true)?;
        let name = ServerName::from(orders.address.ip());
        let io = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, tcp).await?;
        let mut builder = h2::client::Builder::new();
        builder.enable_push(false).initial_connection_window_size(WINDOW_BYTES);
        let (send, connection) = builder.handshake::<_, Bytes>(io).await?;
        tokio::spawn(connection);
        let mut headers = HeaderMap::new();
        for (name, value) in &orders.headers {
            headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
        }
        headers.insert(AUTHORIZATION, authorization);
        let (url, body) = (Text::of(&orders.url), Text::of(&orders.body));
        Ok(Self { send, headers, has_id: orders.has_id, url, body })
    }

    fn request(&self, number: u64, token: &str) -> anyhow::Result<(Request<()>, Bytes)> {
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_maybe_shared(self.url.with(token))?;
        *request.headers_mut() = self.headers.clone();
        if self.has_id {
            let id = uuid::Uuid::from_u64_pair(mixed(number), mixed(!number)).to_string();
            request.headers_mut().insert("apns-id", id.try_into()?);
        }
        Ok((request, self.body.with(token)))
    }

    /// Sends to every second device from `first` on; anything but 200 ends it.
    async fn send(&self, first: u64, count: u64) -> anyhow::Result<()> {
        let permits = Arc::new(Semaphore::new(STREAMS));
        let mut tasks = JoinSet::new();
        let mut send = self.send.clone();
        for number in (first..).step_by(2).take(usize::try_from(count)?) {
            let permit = Arc::clone(&permits).acquire_owned().await?;
            while let Some(done) = tasks.try_join_next() {
                done??;
            }
            send = send.ready().await?;
            let (request, body) = self.request(number, &push_token(number))?;
            let (response, mut stream) = send.send_request(request, false)?;
            stream.send_data(body, true)?;
            tasks.spawn(async move {
                let (head, mut body) = response.await?.into_parts();
                let mut text = BytesMut::new();
                while let Some(chunk) = body.data().await {
                    let chunk = chunk?;
                    body.flow_control().release_capacity(chunk.len())?;
                    text.extend_from_slice(&chunk);
                }
                drop(permit);
                if head.status != 200 {
                    bail!("{} {}", head.status, String::from_utf8_lossy(&text));
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = tasks.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// The provider token of APNs, or an access token of Google's kind.
async fn authorization(orders: &Orders) -> anyhow::Result<HeaderValue> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let at = now().as_seconds();
    let account = &orders.config["service_account"];
    if account.is_null() {
        let config = &orders.config;
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(text(&config["key_id"])?);
        let key = EncodingKey::from_ec_pem(text(&config["private_key"])?.as_bytes())?;
        let claims = json!({ "iss": config["team_id"], "iat": at });
        let token = jsonwebtoken::encode(&header, &claims, &key)?;
        return Ok(format!("bearer {token}").try_into()?);
    }
    let key = EncodingKey::from_rsa_pem(text(&account["private_key"])?.as_bytes())?;
    let claims = json!({
        "iss": account["client_email"], "aud": account["token_uri"], "iat": at, "exp": at + 3_600,
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
    });
    let assertion = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key)?;
    let kind = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let form = format!("grant_type={kind}&assertion={assertion}");
    let length = form.len().to_string();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", length.as_str()),
    ];
    let mut request = Vec::new();
    write_request(&mut request, ("POST", "/token"), &headers, b"");
    request.extend_from_slice(form.as_bytes());
    let mut connection = Connection::open(orders.address).await?;
    let (status, answer) = connection.exchange(&request).await?;
    if status != 200 {
        bail!("no access token: {status} {}", String::from_utf8_lossy(answer));
    }
    let answer: Value = serde_json::from_slice(answer)?;
    Ok(format!("Bearer {}", text(&answer["access_token"])?).try_into()?)
}
