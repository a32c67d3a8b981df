//! An HTTP/2 client that sends exactly the headers, or even the frames, of a test.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::HeaderMap;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

use super::WITHIN;
use crate::Sandbox;

/// A request that is not sent yet.
#[derive(Clone)]
pub(super) struct Request {
    pub(super) method: http::Method,
    pub(super) path: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Bytes,
}

impl Request {
    pub(super) fn post(path: &str) -> Self {
        Self {
            method: http::Method::POST,
            path: path.to_owned(),
            headers: Vec::new(),
            body: Bytes::new(),
        }
    }

    pub(super) fn get(path: &str) -> Self {
        Self { method: http::Method::GET, ..Self::post(path) }
    }

    pub(super) fn method(self, method: http::Method) -> Self {
        Self { method, ..self }
    }

    pub(super) fn path(self, path: &str) -> Self {
        Self { path: path.to_owned(), ..self }
    }

    /// Sets a header and removes existing headers of the same name.
    pub(super) fn header(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header and keeps existing headers of the same name.
    pub(super) fn also(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(super) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(other, _)| other != name);
        self
    }

    pub(super) fn body(self, body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), ..self }
    }

    pub(super) fn json(self, body: &Value) -> Self {
        self.body(body.to_string())
    }
}

/// A complete response.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// The body as JSON, or as a string when it is not JSON.
    pub(super) body: Value,
}

impl Response {
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// One HTTP/2 connection.
pub(super) struct Client {
    pub(super) requests: SendRequest<Bytes>,
    pub(super) ended: JoinHandle<Result<(), h2::Error>>,
}

impl Client {
    /// Connects over TLS.
    pub(super) async fn connect(sandbox: &Sandbox) -> Self {
        Self::over(tls(sandbox, b"h2").await).await
    }

    /// Connects without TLS, with prior knowledge.
    pub(super) async fn connect_plainly(sandbox: &Sandbox) -> Self {
        Self::over(TcpStream::connect(sandbox.addr()).await.unwrap()).await
    }

    pub(super) async fn over<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (requests, connection) = h2::client::handshake(stream).await.unwrap();
        Self { requests, ended: tokio::spawn(connection) }
    }

    /// Sends a request and reads its response.
    pub(super) async fn send(&mut self, request: Request) -> Result<Response, h2::Error> {
        let answer = self.begin(request).await?;
        read(answer).await
    }

    /// Waits until the stream limit allows a request, then sends it.
    pub(super) async fn begin(&mut self, request: Request) -> Result<ResponseFuture, h2::Error> {
        let mut ready = self.requests.clone().ready().await?;
        Self::begin_on(&mut ready, request)
    }

    /// Sends a request even if the stream limit does not allow it.
    pub(super) fn begin_on(
        requests: &mut SendRequest<Bytes>,
        request: Request,
    ) -> Result<ResponseFuture, h2::Error> {
        let mut builder = http::Request::builder()
            .method(request.method)
            .uri(format!("https://127.0.0.1{}", request.path));
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let head = builder.body(()).unwrap();
        let (answer, mut body) = requests.send_request(head, request.body.is_empty())?;
        if !request.body.is_empty() {
            body.send_data(request.body, true)?;
        }
        Ok(answer)
    }
}

/// Waits for a response and reads it.
pub(super) async fn read(answer: ResponseFuture) -> Result<Response, h2::Error> {
    tokio::time::timeout(WITHIN, async {
        let (head, mut body) = answer.await?.into_parts();
        let mut whole = Vec::new();
        while let Some(chunk) = body.data().await {
            let chunk = chunk?;
            body.flow_control().release_capacity(chunk.len())?;
            whole.extend_from_slice(&chunk);
        }
        let text = || Value::String(String::from_utf8(whole.clone()).unwrap());
        Ok(Response {
            status: head.status.as_u16(),
            headers: head.headers,
            body: serde_json::from_slice(&whole).unwrap_or_else(|_| text()),
        })
    })
    .await
    .expect("an answer comes in time")
}

/// Opens a TLS connection that offers `protocol`, or no protocol when it is empty.
pub(super) async fn tls(sandbox: &Sandbox, protocol: &[u8]) -> TlsStream<TcpStream> {
    begin_tls(sandbox, protocol).await.unwrap()
}

/// Like [`tls`], but returns an error when the handshake fails.
pub(super) async fn begin_tls(
    sandbox: &Sandbox,
    protocol: &[u8],
) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(sandbox.ca_certificate().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = if protocol.is_empty() { Vec::new() } else { vec![protocol.to_vec()] };
    let stream = TcpStream::connect(sandbox.addr()).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await
}

pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const GOAWAY: u8 = 7;

/// The flag of an acknowledgement.
pub(super) const ACK: u8 = 0x1;

/// The flags of a request without a body.
pub(super) const END: u8 = 0x5;

/// An error code.
pub(super) const REFUSED_STREAM: u8 = 7;

/// `GET https /token`, authority `x`, in HPACK without the dynamic table.
pub(super) const GET_TOKEN: &[u8] = b"\x82\x87\x04\x06/token\x01\x01x";

pub(super) struct Frame {
    pub(super) kind: u8,
    pub(super) stream: u32,
    pub(super) payload: Vec<u8>,
}

/// A connection over TLS that has sent the preface and empty settings.
pub(super) struct Raw(TlsStream<TcpStream>);

impl Raw {
    pub(super) async fn connect(sandbox: &Sandbox) -> Self {
        let mut raw = Self(tls(sandbox, b"h2").await);
        raw.0.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        raw.write(SETTINGS, 0, 0, b"").await;
        raw
    }

    pub(super) async fn write(&mut self, kind: u8, flags: u8, stream: u8, payload: &[u8]) {
        let length = u8::try_from(payload.len()).unwrap();
        self.0.write_all(&[0, 0, length, kind, flags, 0, 0, 0, stream]).await.unwrap();
        self.0.write_all(payload).await.unwrap();
    }

    /// Returns the next frame of this type and skips all other frames.
    pub(super) async fn read_until(&mut self, is_wanted: impl Fn(&Frame) -> bool) -> Frame {
        let reading = async {
            loop {
                let frame = self.read().await;
                if is_wanted(&frame) {
                    return frame;
                }
            }
        };
        tokio::time::timeout(WITHIN, reading).await.expect("the frame comes in time")
    }

    async fn read(&mut self) -> Frame {
        let mut header = [0; 9];
        self.0.read_exact(&mut header).await.unwrap();
        let [a, b, c, kind, _, stream @ ..] = header;
        let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
        self.0.read_exact(&mut payload).await.unwrap();
        Frame { kind, stream: u32::from_be_bytes(stream), payload }
    }
}
