//! The asynchronous client.

use std::sync::Arc;
use std::time::Duration;

use backon::{DefaultSleeper, Sleeper};
use url::Url;

use crate::builder::{RESPONSE_BYTES_MAX, http_client};
use crate::call::{Call, Response};
use crate::request::{Config, HttpRequest};
use crate::retry::{Decision, Retry};
use crate::{ClientBuilder, Error};

/// Time limit of a stream's response head, and of the body if the response is an error.
const STREAM_HEAD_TIMEOUT: Duration = Duration::from_secs(30);

/// A client of one Notify server. Cheap to clone; all clones share their connections.
///
/// The client needs a Tokio runtime.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    config: Arc<Config>,
}

impl Client {
    /// Starts building a client of the server at `base_url`, such as `https://notify.example.com`.
    ///
    /// ```no_run
    /// use std::time::Duration;
    ///
    /// # fn example() -> Result<(), notify_client::Error> {
    /// let notify = notify_client::Client::builder("https://notify.example.com")
    ///     .api_key("nk_…")
    ///     .timeout(Duration::from_secs(10))
    ///     .retries(2)
    ///     .build()?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn builder(base_url: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(base_url)
    }

    /// Executes a call, with retries.
    pub(crate) async fn send<T>(
        &self,
        call: &Call<T>,
        idempotency_key: Option<&str>,
    ) -> Result<T, Error> {
        let request = self.config.request(call, idempotency_key)?;
        let mut retry = Retry::new(&self.config.backoff, call);
        loop {
            let response = self.attempt(&request).await;
            let result = response.and_then(|response| call.result(&response, self.base_url()));
            match retry.decide(result) {
                Decision::Finish(result) => return result,
                Decision::RetryAfter(delay) => DefaultSleeper::default().sleep(delay).await,
            }
        }
    }

    /// Opens a streaming response that may last up to `lifetime`.
    pub(crate) async fn open(
        &self,
        call: &Call<()>,
        lifetime: Duration,
    ) -> Result<reqwest::Response, Error> {
        let HttpRequest { method, url, headers, .. } = self.config.request(call, None)?;
        let request = self.http.request(method, url).headers(headers);
        let base = self.base_url();
        let open = async {
            let response = request.timeout(lifetime).send().await;
            let response = response.map_err(Error::from_transport(base))?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(read_response(response, base).await?.error(call.endpoint(base)))
        };
        let opened = tokio::time::timeout(STREAM_HEAD_TIMEOUT, open).await;
        opened.unwrap_or_else(|elapsed| Err(Error::timeout(base, elapsed)))
    }

    pub(crate) fn base_url(&self) -> &Url {
        &self.config.base_url
    }

    async fn attempt(&self, request: &HttpRequest) -> Result<Response, Error> {
        let HttpRequest { method, url, headers, body } = request;
        let mut builder = self.http.request(method.clone(), url.clone()).headers(headers.clone());
        if let Some(body) = body {
            builder = builder.body(body.clone());
        }
        let base = self.base_url();
        let response = builder.send().await.map_err(Error::from_transport(base))?;
        read_response(response, base).await
    }
}

/// Reads a response completely. Its size is limited, because the peer may not be a Notify server.
async fn read_response(mut response: reqwest::Response, base: &Url) -> Result<Response, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Error::from_transport(base))? {
        if body.len() + chunk.len() > RESPONSE_BYTES_MAX {
            return Err(Error::transport(base, "the response is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Response {
        status: response.status().as_u16(),
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}

impl ClientBuilder<Client> {
    /// Builds the client, without opening a connection.
    ///
    /// # Errors
    /// [`Error::Config`] if the base url, a key or a certificate is invalid.
    pub fn build(self) -> Result<Client, Error> {
        let config = self.config()?;
        let http = http_client!(reqwest::Client::builder(), &self, config);
        Ok(Client { http, config: Arc::new(config) })
    }
}
