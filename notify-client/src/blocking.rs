//! The same client and handles without `async`, for programs without a runtime.
//!
//! ```no_run
//! use notify_client::{blocking::Client, notify_core::DeviceId};
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let notify = Client::builder("https://notify.example.com").api_key("nk_…").build()?;
//! let device = notify.devices().get(&DeviceId::new("pixel-7")?)?;
//! # Ok(())
//! # }
//! ```
//!
//! Do not use it inside an asynchronous task: it would block the task, or panic.

use std::io::Read;
use std::sync::Arc;

use url::Url;

use crate::Error;
use crate::builder::{RESPONSE_BYTES_MAX, http_client};
use crate::call::{Call, Response};
use crate::request::{Config, HttpRequest};
use crate::retry::{Decision, Retry};
pub use crate::{builder::ClientBuilder, page::blocking::Pages, resources::blocking::*};

/// A blocking client of one Notify server. Cheap to clone; all clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::blocking::Client,
    config: Arc<Config>,
}

impl Client {
    /// Starts building a client of the server at `base_url`, such as `https://notify.example.com`.
    #[must_use]
    pub fn builder(base_url: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(base_url)
    }

    /// Executes a call, with retries.
    pub(crate) fn send<T>(
        &self,
        call: &Call<T>,
        idempotency_key: Option<&str>,
    ) -> Result<T, Error> {
        let request = self.config.request(call, idempotency_key)?;
        let mut retry = Retry::new(&self.config.backoff, call);
        loop {
            let response = self.attempt(&request);
            let result =
                response.and_then(|response| call.result(&response, &self.config.base_url));
            match retry.decide(result) {
                Decision::Finish(result) => return result,
                Decision::RetryAfter(delay) => std::thread::sleep(delay),
            }
        }
    }

    fn attempt(&self, request: &HttpRequest) -> Result<Response, Error> {
        let HttpRequest { method, url, headers, body } = request;
        let mut builder = self.http.request(method.clone(), url.clone()).headers(headers.clone());
        if let Some(body) = body {
            builder = builder.body(body.clone());
        }
        let base = &self.config.base_url;
        let mut response = builder.send().map_err(Error::from_transport(base))?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        let limit = RESPONSE_BYTES_MAX as u64 + 1;
        let outcome = response.take(limit).read_to_end(&mut body);
        outcome.map_err(|error| read_error(base, error))?;
        if body.len() > RESPONSE_BYTES_MAX {
            return Err(Error::transport(base, "the response is too large"));
        }
        Ok(Response { status, headers, body })
    }
}

/// Converts the error of reading a response body. The blocking body reports an `io::Error`, which usually
/// wraps an error of reqwest.
fn read_error(base: &Url, error: std::io::Error) -> Error {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => Error::from_transport(base)(error),
        Err(error) => Error::transport(base, error),
    }
}

impl ClientBuilder<Client> {
    /// Builds the client, without opening a connection.
    ///
    /// # Errors
    /// [`Error::Config`] if the base url, a key or a certificate is invalid.
    pub fn build(self) -> Result<Client, Error> {
        let config = self.config()?;
        let http = http_client!(reqwest::blocking::Client::builder(), &self, config);
        Ok(Client { http, config: Arc::new(config) })
    }
}
