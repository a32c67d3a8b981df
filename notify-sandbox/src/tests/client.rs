//! A bare HTTP/2 client: what it sends is what the test says, header by header.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use http::HeaderMap;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::WITHIN;
use crate::sandbox::Sandbox;

/// A request to be.
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

    /// Sets a header in the place of those of its name.
    pub(super) fn header(self, name: &str, value: &str) -> Self {
        self.without(name).also(name, value)
    }

    /// Adds a header beside those of its name.
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

/// An answer, read to its end.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    /// JSON, or a string where it is none.
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
    /// Over TLS.
    pub(super) async fn connect(sandbox: &Sandbox) -> Self {
        Self::over(tls(sandbox, b"h2").await).await
    }

    /// Without TLS, with prior knowledge.
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

    /// Sends a request and reads its answer.
    pub(super) async fn send(&mut self, request: Request) -> Result<Response, h2::Error> {
        let answer = self.begin(request).await?;
        read(answer).await
    }

    /// Sends a request when the connection has room for it.
    pub(super) async fn begin(&mut self, request: Request) -> Result<ResponseFuture, h2::Error> {
        let mut ready = self.requests.clone().ready().await?;
        Self::begin_on(&mut ready, request)
    }

    /// Sends a request whether the connection has room or not.
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

/// Waits for an answer and reads it.
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

/// A TLS connection that offers `protocol`; none when it is empty.
pub(super) async fn tls(
    sandbox: &Sandbox,
    protocol: &[u8],
) -> tokio_rustls::client::TlsStream<TcpStream> {
    begin_tls(sandbox, protocol).await.unwrap()
}

/// The same, which may fail.
pub(super) async fn begin_tls(
    sandbox: &Sandbox,
    protocol: &[u8],
) -> std::io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
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
