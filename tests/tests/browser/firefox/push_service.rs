//! A push service for Firefox. Browsers connect to it with a WebSocket (the protocol of Mozilla's autopush),
//! and servers post to its endpoints over TLS (RFC 8030).

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming as Body};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs::default_provider;
use tokio_rustls::rustls::pki_types::PrivatePkcs8KeyDer;

use super::websocket::{Frame, Outgoing, accept};

/// The number of frames that may wait for the browser.
const FRAMES_WAITING_MAX: usize = 16;
const ENDPOINTS: &str = "/wpush/v2/";

/// The state of the service.
#[derive(Default)]
struct State {
    /// The subscriptions. Each has the key that must sign its messages.
    channels: BTreeMap<String, String>,
    browser: Option<mpsc::Sender<Reply>>,
    /// The headers of the received messages.
    posted: Vec<http::HeaderMap>,
    /// The messages that the browser has acknowledged.
    acknowledged: Vec<Value>,
}

enum Reply {
    Text(Value),
    Pong(Vec<u8>),
}

/// A running service.
pub(super) struct PushService {
    /// The value for `dom.push.serverURL`.
    pub(super) url: String,
    /// The certificate that servers must trust, as PEM.
    pub(super) certificate: String,
    state: Arc<Mutex<State>>,
    serving: [JoinHandle<()>; 2],
}

impl Drop for PushService {
    fn drop(&mut self) {
        self.serving.iter().for_each(JoinHandle::abort);
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushService {
    pub(super) async fn start() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
        let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
        let tls = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key.into())?;
        let tls = TlsAcceptor::from(Arc::new(tls));
        let state = Arc::<Mutex<State>>::default();
        let (servers, browsers) =
            (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
        let endpoints = format!("https://{}{ENDPOINTS}", servers.local_addr()?);
        let url = format!("ws://{}/", browsers.local_addr()?);
        let (its, seen) = (state.clone(), state.clone());
        let serving = [
            tokio::spawn(async move {
                while let Ok((stream, _)) = servers.accept().await {
                    // An error means that the server has closed the connection.
                    tokio::spawn(posts(stream, tls.clone(), its.clone()));
                }
            }),
            tokio::spawn(async move {
                while let Ok((stream, _)) = browsers.accept().await {
                    tokio::spawn(browser(stream, endpoints.clone(), seen.clone()));
                }
            }),
        ];
        Ok(Self { url, certificate: made.cert.pem(), state, serving })
    }

    /// The headers of the received messages.
    pub(super) fn posted(&self) -> Vec<http::HeaderMap> {
        lock(&self.state).posted.clone()
    }

    /// The messages that the browser has acknowledged.
    pub(super) fn acknowledged(&self) -> Vec<Value> {
        lock(&self.state).acknowledged.clone()
    }

    /// The key of the only subscription.
    pub(super) fn key(&self) -> Option<String> {
        lock(&self.state).channels.values().next().cloned()
    }

    /// Ends all subscriptions, as a push service does when it has not seen a browser for months.
    pub(super) fn forget(&self) {
        lock(&self.state).channels.clear();
    }
}

/// Serves one connection of a server.
async fn posts(stream: TcpStream, tls: TlsAcceptor, state: Arc<Mutex<State>>) -> Result<()> {
    let stream = tls.accept(stream).await?;
    let post = service_fn(move |request: http::Request<Body>| {
        let state = state.clone();
        async move {
            let status = take(request, &state).await.unwrap_or(http::StatusCode::BAD_REQUEST);
            let mut answer = http::Response::new(Empty::<Bytes>::new());
            *answer.status_mut() = status;
            Ok::<_, Infallible>(answer)
        }
    });
    let connection = hyper::server::conn::http1::Builder::new();
    Ok(connection.serve_connection(TokioIo::new(stream), post).await?)
}

/// Receives a message and forwards it unchanged, because the service cannot decrypt it.
async fn take(request: http::Request<Body>, state: &Mutex<State>) -> Result<http::StatusCode> {
    let (head, body) = request.into_parts();
    let channel = head.uri.path().strip_prefix(ENDPOINTS).context("an endpoint")?.to_owned();
    let encoding = head.headers.get("content-encoding").context("an encoding")?.to_str()?;
    let data = URL_SAFE_NO_PAD.encode(body.collect().await?.to_bytes());
    let (browser, version) = {
        let mut state = lock(state);
        if !state.channels.contains_key(&channel) {
            return Ok(http::StatusCode::GONE);
        }
        state.posted.push(head.headers.clone());
        (state.browser.clone().context("a browser")?, state.posted.len())
    };
    let message = json!({"messageType": "notification", "channelID": channel,
        "version": format!("message-{version}"), "data": data, "headers": {"encoding": encoding}});
    browser.send(Reply::Text(message)).await?;
    Ok(http::StatusCode::CREATED)
}

/// Serves a browser until it disconnects.
async fn browser(stream: TcpStream, endpoints: String, state: Arc<Mutex<State>>) -> Result<()> {
    let (mut incoming, outgoing) = accept(stream).await?;
    let (replies, waiting) = mpsc::channel(FRAMES_WAITING_MAX);
    tokio::spawn(write(outgoing, waiting));
    loop {
        let reply = match incoming.next().await? {
            Frame::Close => return Ok(()),
            Frame::Ping(bytes) => Some(Reply::Pong(bytes)),
            Frame::Text(text) => {
                answer(&serde_json::from_str(&text)?, &endpoints, &state, &replies)?
            }
        };
        if let Some(reply) = reply {
            replies.send(reply).await?;
        }
    }
}

async fn write(mut outgoing: Outgoing, mut waiting: mpsc::Receiver<Reply>) -> Result<()> {
    while let Some(reply) = waiting.recv().await {
        match reply {
            Reply::Text(message) => outgoing.text(&message.to_string()).await?,
            Reply::Pong(bytes) => outgoing.pong(&bytes).await?,
        }
    }
    Ok(())
}

/// The response to a message of the browser.
fn answer(
    asked: &Value,
    endpoints: &str,
    state: &Mutex<State>,
    replies: &mpsc::Sender<Reply>,
) -> Result<Option<Reply>> {
    let kind = &asked["messageType"];
    let channel = &asked["channelID"];
    let mut state = lock(state);
    let answer = match kind.as_str() {
        Some("hello") => {
            state.browser = Some(replies.clone());
            json!({"uaid": "0123456789abcdef0123456789abcdef", "use_webpush": true,
                "broadcasts": {}})
        }
        Some("register") => {
            let (name, key) = (channel.as_str().context("a channel")?, &asked["key"]);
            let key = key.as_str().context("a key")?.trim_end_matches('=');
            state.channels.insert(name.to_owned(), key.to_owned());
            json!({"channelID": channel, "pushEndpoint": format!("{endpoints}{name}")})
        }
        Some("unregister") => {
            state.channels.remove(channel.as_str().context("a channel")?);
            json!({"channelID": channel})
        }
        Some("ack") => {
            state.acknowledged.extend(asked["updates"].as_array().into_iter().flatten().cloned());
            return Ok(None);
        }
        Some("ping") => return Ok(Some(Reply::Text(json!({})))),
        Some("broadcast_subscribe") => return Ok(None),
        // An empty object is also a ping.
        None if *asked == json!({}) => return Ok(Some(Reply::Text(json!({})))),
        _ => bail!("unknown path {asked}"),
    };
    let mut answer = answer;
    answer["messageType"] = kind.clone();
    answer["status"] = json!(200);
    Ok(Some(Reply::Text(answer)))
}
