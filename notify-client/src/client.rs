//! The asynchronous client: sends what [`crate::call`] describes.

use std::sync::Arc;
use std::time::Duration;

use backon::{DefaultSleeper, Sleeper};
use url::Url;

use crate::{
    ClientBuilder, Error,
    attempts::{Attempts, Step},
    builder::{ANSWER_BYTES_MAX, http_client},
    call::{Answer, Call},
    call::{Prepared, Shared},
};

/// How long an answer that goes on for as long as one likes may take to begin, or a refusal of it to
/// be read.
const HEAD_MAX: Duration = Duration::from_secs(30);

/// A client of one Notify server. Cheap to clone; all clones share their connections.
///
/// It runs on a Tokio runtime.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    shared: Arc<Shared>,
}

impl Client {
    /// Begins a client of the server at this address, such as `https://notify.example.com`.
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

    pub(crate) async fn send<T>(
        &self,
        call: Result<Call<T>, Error>,
        key: Option<&str>,
    ) -> Result<T, Error> {
        let call = call?;
        let prepared = self.shared.prepare(&call, key)?;
        let mut attempts = Attempts::new(&self.shared.delays, &call);
        loop {
            let answer = self.attempt(&prepared).await;
            match attempts
                .after(answer.and_then(|answer| call.outcome(&answer, &self.shared.base_url)))
            {
                Step::End(result) => return result,
                Step::Again(delay) => DefaultSleeper::default().sleep(delay).await,
            }
        }
    }

    /// Opens an answer that is read as it comes, and lasts so long at most.
    pub(crate) async fn open(
        &self,
        call: &Call<()>,
        life: Duration,
    ) -> Result<reqwest::Response, Error> {
        let prepared = self.shared.prepare(call, None)?;
        let request = self.http.request(prepared.method, prepared.url).headers(prepared.headers);
        // The life is that of the whole; its beginning has as long as any answer has.
        let base = &self.shared.base_url;
        let opening = async {
            let sent = request.timeout(life).send().await;
            let response = sent.map_err(Error::from_transport(base))?;
            if response.status().is_success() {
                return Ok(response);
            }
            Err(answer(response, base).await?.error(call.name(base)))
        };
        let opened = tokio::time::timeout(HEAD_MAX, opening).await;
        opened.unwrap_or_else(|elapsed| Err(Error::timeout(base, elapsed)))
    }

    /// The address that calls go to.
    pub(crate) fn base_url(&self) -> &Url {
        &self.shared.base_url
    }

    async fn attempt(&self, prepared: &Prepared) -> Result<Answer, Error> {
        let mut request = self
            .http
            .request(prepared.method.clone(), prepared.url.clone())
            .headers(prepared.headers.clone());
        if let Some(body) = &prepared.body {
            request = request.body(body.clone());
        }
        let base = &self.shared.base_url;
        answer(request.send().await.map_err(Error::from_transport(base))?, base).await
    }
}

/// Reads an answer, within bounds: whoever answers may not be who was meant.
async fn answer(mut response: reqwest::Response, base: &Url) -> Result<Answer, Error> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(Error::from_transport(base))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(Error::transport(base, "the answer is too large"));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Answer {
        status: response.status().as_u16(),
        headers: std::mem::take(response.headers_mut()),
        body,
    })
}

impl ClientBuilder<Client> {
    /// Makes the client. No connection is made yet.
    ///
    /// # Errors
    /// [`Error::Config`] when the base url, a key or a certificate is none.
    pub fn build(self) -> Result<Client, Error> {
        let shared = self.shared()?;
        let http = http_client!(reqwest::Client::builder(), &self, shared);
        Ok(Client { http, shared: Arc::new(shared) })
    }
}
