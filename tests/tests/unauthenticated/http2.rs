//! HTTP/2 clients that use as many resources as they can.

use anyhow::{Context, Result};
use bytes::Bytes;
use futures_util::future::join_all;
use h2::client::{Builder, SendRequest};
use http::{Method, Request};
use notify_tests::WAIT_MAX;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// The number of connections of one attack.
pub(crate) const CONNECTIONS: usize = 10;
/// The number of requests on each connection: the most that the server accepts.
pub(crate) const STREAMS: usize = 100;
/// A flow-control window that allows the head of a response and no byte of its body.
pub(crate) const NO_WINDOW: u32 = 0;
/// The flow-control window of usual clients.
pub(crate) const USUAL_WINDOW: u32 = 65_535;

/// The request of each stream.
#[derive(Debug, Clone)]
pub(crate) struct Attack {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: Vec<(&'static str, String)>,
    /// The part of a body that is sent. The end of the body is never sent.
    pub(crate) unfinished: Option<Bytes>,
    /// The flow-control window for the response.
    pub(crate) window: u32,
}

impl Attack {
    /// Requests this path and reads no body.
    pub(crate) fn unread(path: impl Into<String>) -> Self {
        let path = path.into();
        let headers = Vec::new();
        Self { method: Method::GET, path, headers, unfinished: None, window: NO_WINDOW }
    }

    /// Posts a body without an end to this path.
    pub(crate) fn unfinished(path: impl Into<String>, bytes: usize) -> Self {
        let unfinished = Some(vec![b' '; bytes].into());
        Self { method: Method::POST, unfinished, window: USUAL_WINDOW, ..Self::unread(path) }
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Runs the attack on all connections until the server has ended every stream. Returns the number of
    /// streams with a response.
    pub(crate) async fn run(&self, origin: &str) -> Result<usize> {
        let connections = join_all((0..CONNECTIONS).map(|_| self.connection(origin)));
        let ended = tokio::time::timeout(WAIT_MAX, connections).await;
        let ended = ended.with_context(|| format!("{}: streams are left", self.path))?;
        ended.into_iter().sum()
    }

    async fn connection(&self, origin: &str) -> Result<usize> {
        let (requests, driver) = connect(origin, self.window).await?;
        let streams = join_all((0..STREAMS).map(|_| self.stream(origin, requests.clone())));
        let answered = streams.await.into_iter().filter(|is_answered| *is_answered).count();
        driver.abort();
        Ok(answered)
    }

    /// Runs one stream to its end. Returns whether a response began.
    async fn stream(&self, origin: &str, requests: SendRequest<Bytes>) -> bool {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(format!("{origin}{}", self.path))
            .body(())
            .expect("a request");
        for (name, value) in &self.headers {
            request.headers_mut().insert(*name, value.parse().expect("a header"));
        }
        let Ok(mut requests) = requests.ready().await else { return false };
        let is_end = self.unfinished.is_none();
        let Ok((response, mut sending)) = requests.send_request(request, is_end) else {
            return false;
        };
        if let Some(part) = &self.unfinished {
            let _ = sending.send_data(part.clone(), false);
        }
        let Ok(response) = response.await else { return false };
        let mut body = response.into_body();
        while let Some(Ok(_)) = body.data().await {}
        true
    }
}

/// A connection of a client that answers pings.
pub(crate) async fn connect(
    origin: &str,
    window: u32,
) -> Result<(SendRequest<Bytes>, JoinHandle<()>)> {
    let address = origin.strip_prefix("http://").context("plain HTTP")?;
    let stream = TcpStream::connect(address).await?;
    let mut builder = Builder::new();
    builder.initial_window_size(window);
    let (requests, connection) = builder.handshake(stream).await?;
    let driver = tokio::spawn(async move {
        // The end of the connection also ends its streams, which the test checks.
        let _ = connection.await;
    });
    Ok((requests, driver))
}
