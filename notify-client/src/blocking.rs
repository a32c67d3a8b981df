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
//! It must not be used inside an asynchronous task: it would block, or panic.

use std::{io::Read, sync::Arc};

use url::Url;

use crate::{
    Error,
    attempts::{Attempts, Step},
    builder::{ANSWER_BYTES_MAX, http_client},
    call::{Answer, Call},
    call::{Prepared, Shared},
};
pub use crate::{builder::ClientBuilder, page::blocking::Pages, resources::blocking::*};

/// A blocking client of one Notify server. Cheap to clone; all clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::blocking::Client,
    shared: Arc<Shared>,
}

impl Client {
    /// Begins a client of the server at this address, such as `https://notify.example.com`.
    #[must_use]
    pub fn builder(base_url: &str) -> ClientBuilder<Self> {
        ClientBuilder::new(base_url)
    }

    pub(crate) fn send<T>(
        &self,
        call: Result<Call<T>, Error>,
        key: Option<&str>,
    ) -> Result<T, Error> {
        let call = call?;
        let prepared = self.shared.prepare(&call, key)?;
        let mut attempts = Attempts::new(&self.shared.delays, &call);
        loop {
            let answer = self.attempt(&prepared);
            match attempts
                .after(answer.and_then(|answer| call.outcome(&answer, &self.shared.base_url)))
            {
                Step::End(result) => return result,
                Step::Again(delay) => std::thread::sleep(delay),
            }
        }
    }

    fn attempt(&self, prepared: &Prepared) -> Result<Answer, Error> {
        let mut request = self
            .http
            .request(prepared.method.clone(), prepared.url.clone())
            .headers(prepared.headers.clone());
        if let Some(body) = &prepared.body {
            request = request.body(body.clone());
        }
        let base = &self.shared.base_url;
        let mut response = request.send().map_err(Error::from_transport(base))?;
        let status = response.status().as_u16();
        let headers = std::mem::take(response.headers_mut());
        let mut body = Vec::new();
        let limit = ANSWER_BYTES_MAX as u64 + 1;
        let read = response.take(limit).read_to_end(&mut body);
        read.map_err(|error| read_failed(base, error))?;
        if body.len() > ANSWER_BYTES_MAX {
            return Err(Error::transport(base, "the answer is too large"));
        }
        Ok(Answer { status, headers, body })
    }
}

/// The blocking body reports through `io::Error`; inside it is what the other transport reports.
fn read_failed(base: &Url, error: std::io::Error) -> Error {
    match error.downcast::<reqwest::Error>() {
        Ok(error) => Error::from_transport(base)(error),
        Err(error) => Error::transport(base, error),
    }
}

impl ClientBuilder<Client> {
    /// Makes the client. No connection is made yet.
    ///
    /// # Errors
    /// [`Error::Config`] when the base url, a key or a certificate is none.
    pub fn build(self) -> Result<Client, Error> {
        let shared = self.shared()?;
        let http = http_client!(reqwest::blocking::Client::builder(), &self, shared);
        Ok(Client { http, shared: Arc::new(shared) })
    }
}
