//! A plain HTTP client for requests that the SDK cannot make, and the checks that every response must pass.

use anyhow::{Context, Result};
use http::{HeaderMap, Method};
use reqwest::RequestBuilder;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::WAIT_MAX;

/// The builder of an HTTP client that trusts no certificate. It does not use OpenSSL, which reads every
/// certificate of the system for each client: most of the time of the tests would go there.
pub fn http_client() -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_backend_rustls().tls_certs_only(Vec::new())
}

/// A client that sends one header, usually a key, with each request.
#[derive(Debug, Clone)]
pub struct Caller {
    http: reqwest::Client,
    origin: String,
    header: (&'static str, String),
}

impl Caller {
    /// A caller with an application's key.
    #[must_use]
    pub fn app(origin: &str, api_key: &str) -> Self {
        Self::with_header(origin, "x-api-key", api_key)
    }

    /// A caller with an admin key.
    #[must_use]
    pub fn admin(origin: &str, admin_key: &str) -> Self {
        Self::with_header(origin, "authorization", format!("Bearer {admin_key}"))
    }

    /// A caller that sends a header with each request.
    ///
    /// # Panics
    /// When no HTTP client can be made.
    #[must_use]
    pub fn with_header(origin: &str, name: &'static str, value: impl Into<String>) -> Self {
        let http = http_client()
            .timeout(WAIT_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .expect("an HTTP client can be made");
        Self { http, origin: origin.to_owned(), header: (name, value.into()) }
    }

    /// Builds a request. [`Response::of`] sends it.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.origin);
        self.http.request(method, url).header(self.header.0, &self.header.1)
    }

    /// Sends a request without checking the response, for a server that may fail.
    ///
    /// # Errors
    /// When no complete response arrives.
    pub async fn send(
        &self,
        method: &Method,
        path: &str,
        body: impl Into<reqwest::Body>,
    ) -> Result<Response> {
        self.send_with(method, path, body, &[]).await
    }

    /// Like [`Self::send`], with additional headers.
    ///
    /// # Errors
    /// When no complete response arrives.
    pub async fn send_with(
        &self,
        method: &Method,
        path: &str,
        body: impl Into<reqwest::Body>,
        headers: &[(&str, &str)],
    ) -> Result<Response> {
        let request =
            headers.iter().fold(self.request(method.clone(), path), |request, (name, value)| {
                request.header(*name, *value)
            });
        Response::read(request.body(body)).await.with_context(|| format!("{method} {path}"))
    }

    /// Sends `GET`.
    pub async fn get(&self, path: &str) -> Response {
        Response::of(self.request(Method::GET, path)).await
    }

    /// Sends `DELETE`.
    pub async fn delete(&self, path: &str) -> Response {
        Response::of(self.request(Method::DELETE, path)).await
    }

    /// Sends `POST` with JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.post_bytes(path, body.to_string()).await
    }

    /// Sends `POST` with bytes.
    pub async fn post_bytes(&self, path: &str, body: impl Into<reqwest::Body>) -> Response {
        Response::of(self.request(Method::POST, path).body(body)).await
    }

    /// Sends `POST` with an `Idempotency-Key`.
    pub async fn post_once(&self, path: &str, key: &str, body: &Value) -> Response {
        let request = self.request(Method::POST, path).header("idempotency-key", key);
        Response::of(request.body(body.to_string())).await
    }

    /// Sends `PUT` with JSON.
    pub async fn put(&self, path: &str, body: &Value) -> Response {
        Response::of(self.request(Method::PUT, path).body(body.to_string())).await
    }

    /// Sends `PATCH` with JSON.
    pub async fn patch(&self, path: &str, body: &Value) -> Response {
        Response::of(self.request(Method::PATCH, path).body(body.to_string())).await
    }

    /// Sends bytes on a new connection and reads until the server closes it.
    ///
    /// # Panics
    /// When the server does not close the connection in time.
    pub async fn exchange(&self, bytes: &[u8]) -> String {
        let address = self.origin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(address).await.expect("the server takes connections");
        // The server may close the connection before it has read all bytes.
        let _ = stream.write_all(bytes).await;
        read_to_end(&mut stream).await
    }
}

/// Reads until the other side closes the connection.
///
/// # Panics
/// When the other side does not close the connection in time.
pub async fn read_to_end(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut bytes = Vec::new();
    let read = tokio::time::timeout(WAIT_MAX, stream.read_to_end(&mut bytes)).await;
    // A reset after the response also ends the connection.
    let _ = read.expect("the server closes the connection");
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A response of the server.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub text: String,
    /// Whether it is an HTML page, as polls and the console have.
    is_page: bool,
}

impl Response {
    /// Sends a request and checks the rules for all responses of the server.
    ///
    /// # Panics
    /// When no complete response arrives, or it breaks a rule.
    pub async fn of(request: RequestBuilder) -> Self {
        let response = Self::read(request).await.expect("the server responds");
        response.check();
        response
    }

    async fn read(request: RequestBuilder) -> Result<Self> {
        let mut response = request.send().await?;
        let headers = std::mem::take(response.headers_mut());
        let status = response.status().as_u16();
        let path = response.url().path();
        let is_page = path.starts_with("/polls") || path.starts_with("/console");
        let text = String::from_utf8_lossy(&response.bytes().await?).into_owned();
        Ok(Self { status, headers, text, is_page })
    }

    fn check(&self) {
        assert!(!self.header("x-request-id").is_empty(), "every response has an id: {self:?}");
        assert_eq!(self.header("x-content-type-options"), "nosniff");
        assert!(!self.header("cache-control").is_empty(), "no cache may guess: {self:?}");
        if self.status >= 400 && self.is_page {
            assert_eq!(self.header("content-type"), "text/html; charset=utf-8");
        } else if self.status >= 400 && !self.text.is_empty() {
            assert!(self.errors().is_some(), "{self:?}");
        }
        assert!(self.status < 500 || self.status == 503, "{self:?}");
    }

    /// A header as text; empty when it is missing.
    #[must_use]
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is not JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The body of a successful response.
    ///
    /// # Panics
    /// When the status is not 200.
    #[track_caller]
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        assert_eq!(self.header("content-type"), "application/json; charset=utf-8");
        self.json()
    }

    /// The id in a successful response.
    ///
    /// # Panics
    /// When the status is not 200.
    #[track_caller]
    pub fn id(&self) -> String {
        self.ok()["id"].as_str().expect("the response has an id").to_owned()
    }

    /// Checks the status and the errors of a failure.
    ///
    /// # Panics
    /// When the status or the errors differ.
    #[track_caller]
    pub fn rejected(&self, status: u16, errors: &[&str]) {
        assert_eq!((self.status, self.json()), (status, json!({"errors": errors})), "{self:?}");
    }

    /// Checks only the status, for a failure whose text is tested elsewhere.
    ///
    /// # Panics
    /// When the status differs.
    #[track_caller]
    pub fn is(&self, status: u16) {
        assert_eq!(self.status, status, "{self:?}");
    }

    /// The errors, if the body is an error body with at least one error.
    #[must_use]
    pub fn errors(&self) -> Option<Vec<String>> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Errors {
            errors: Vec<String>,
        }
        let is_json = self.header("content-type") == "application/json; charset=utf-8";
        let body: Errors = serde_json::from_str(&self.text).ok().filter(|_| is_json)?;
        (!body.errors.is_empty()).then_some(body.errors)
    }
}
