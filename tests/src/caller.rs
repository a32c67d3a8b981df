//! Plain HTTP, for what the SDK refuses to say.

use anyhow::{Context, Result};
use bytes::Bytes;
use http::Method;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::WAIT_MAX;

/// Someone with a key, or without.
#[derive(Debug, Clone)]
pub struct Caller {
    http: reqwest::Client,
    origin: String,
    key: (&'static str, String),
}

/// An answer.
#[derive(Debug, Clone)]
pub struct Reply {
    /// Its status.
    pub status: u16,
    /// Its headers.
    pub headers: http::HeaderMap,
    /// Its body.
    pub body: Bytes,
}

impl Caller {
    /// A caller with an application's key.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn app(origin: &str, api_key: &str) -> Result<Self> {
        Self::with(origin, ("x-api-key", api_key.to_owned()))
    }

    /// A caller with an admin key.
    ///
    /// # Errors
    /// When no HTTP client can be made.
    pub fn admin(origin: &str, admin_key: &str) -> Result<Self> {
        Self::with(origin, ("authorization", format!("Bearer {admin_key}")))
    }

    fn with(origin: &str, key: (&'static str, String)) -> Result<Self> {
        let http = reqwest::Client::builder()
            .timeout(WAIT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .tls_certs_only(Vec::new())
            .build()?;
        Ok(Self { http, origin: origin.to_owned(), key })
    }

    /// Sends a request.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Reply> {
        self.send_with(method, path, body, &[]).await
    }

    /// Sends a request with more headers.
    ///
    /// # Errors
    /// When no whole answer comes.
    pub async fn send_with(
        &self,
        method: &Method,
        path: &str,
        body: impl Into<reqwest::Body>,
        headers: &[(&str, &str)],
    ) -> Result<Reply> {
        let request = self
            .http
            .request(method.clone(), format!("{}{path}", self.origin))
            .header(self.key.0, &self.key.1);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let what = || format!("{method} {path}");
        let mut response = request.body(body).send().await.with_context(what)?;
        let headers = std::mem::take(response.headers_mut());
        let status = response.status().as_u16();
        Ok(Reply { status, headers, body: response.bytes().await.with_context(what)? })
    }

    /// Reads a path that must be there.
    ///
    /// # Errors
    /// When it is not.
    pub async fn get(&self, path: &str) -> Result<Value> {
        self.send(&Method::GET, path, "").await?.ok()
    }

    /// Posts a body that must be accepted.
    ///
    /// # Errors
    /// When it is not.
    pub async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.send(&Method::POST, path, body.to_string()).await?.ok()
    }

    /// Sends bytes on a connection of their own and reads until it is closed.
    ///
    /// # Errors
    /// When it is not closed in time.
    pub async fn exchange(&self, bytes: &[u8]) -> Result<String> {
        let address = self.origin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await?;
        // The server may close before it has taken everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let read = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut answer)).await;
        // A reset after the answer is an end, too.
        let _ = read.context("the server closes the connection")?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

impl Reply {
    /// A header as text.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    ///
    /// # Errors
    /// When it is none.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_slice(&self.body).with_context(|| self.text())
    }

    /// The body of a success.
    ///
    /// # Errors
    /// When it is none.
    pub fn ok(&self) -> Result<Value> {
        anyhow::ensure!(self.status == 200, "{} {}", self.status, self.text());
        self.json()
    }

    /// The errors, when the answer is one in the one shape of errors (B3).
    #[must_use]
    pub fn errors(&self) -> Option<Vec<String>> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Errors {
            errors: Vec<String>,
        }
        let is_json = self.header("content-type") == "application/json; charset=utf-8";
        let body: Errors = serde_json::from_slice(&self.body).ok().filter(|_| is_json)?;
        (!body.errors.is_empty()).then_some(body.errors)
    }
}
