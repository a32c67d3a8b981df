//! Posts messages to a url as the server posts them to a webhook: the same headers, signature and time limit.
//! Each message is posted once.

use std::time::Duration;

use clap::Args;
use notify_client::{
    notify_core::Timestamp,
    webhook::{Signer, generate_secret},
};
use reqwest::{Certificate, Url, redirect::Policy};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::{
    connection::variable,
    failure::{Failure, root_cause},
    input,
    session::Session,
};

/// The longest duration of a request, including the connection. It is that of the server.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The `User-Agent` of the server's messages.
const AGENT: &str = concat!("notify/", env!("CARGO_PKG_VERSION"));
/// The variable with the secret.
const SECRET_VARIABLE: &str = "NOTIFY_WEBHOOK_SECRET";

/// The secret of the signatures.
#[derive(Debug, Args)]
pub(super) struct SecretArgs {
    #[arg(
        long,
        value_name = "SECRET",
        help = "Secret to sign with: `whsec_` and base64 [env: NOTIFY_WEBHOOK_SECRET]"
    )]
    secret: Option<SecretString>,
}

impl SecretArgs {
    /// The secret of the option or of the variable.
    pub(super) fn get(self) -> Option<SecretString> {
        self.secret.or_else(|| variable(SECRET_VARIABLE).map(SecretString::from))
    }

    /// The secret of the option or of the variable, or else a new one, and whether it is new.
    pub(super) fn get_or_generate(self) -> (SecretString, bool) {
        self.get().map_or_else(|| (generate_secret().into(), true), |secret| (secret, false))
    }
}

/// A url that receives messages.
pub(super) struct Endpoint {
    url: Url,
    http: reqwest::Client,
    signer: Signer,
}

impl Endpoint {
    /// Opens no connection. `option` is the name of the option with the url.
    pub(super) fn new(
        option: &str,
        url: &str,
        secret: &SecretString,
        session: &Session,
    ) -> Result<Self, Failure> {
        let url = parse_url(url).map_err(|why| Failure::Usage(format!("{option}: {why}")))?;
        let signer = Signer::new(secret.expose_secret())
            .map_err(|error| Failure::Usage(format!("--secret: {error}")))?;
        // The server follows no redirect either. A proxy could not reach a url of this machine.
        let builder = reqwest::Client::builder()
            .tls_backend_rustls()
            .timeout(TIMEOUT)
            .user_agent(AGENT)
            .redirect(Policy::none())
            .http1_only()
            .no_proxy();
        let builder = if url.scheme() == "http" {
            // `http` needs no certificates, and loading them fails on a machine that has none.
            builder.tls_certs_only(Vec::new())
        } else {
            builder.tls_certs_merge(session.ca_certificate().map_or(Ok(Vec::new()), |path| {
                let invalid = |error| Failure::Usage(format!("{}: {error}", path.display()));
                Certificate::from_pem_bundle(&input::read(&path)?).map_err(invalid)
            })?)
        };
        let http = builder
            .build()
            .map_err(|error| Failure::Usage(format!("{option}: {}", root_cause(&error))))?;
        Ok(Self { url, http, signer })
    }

    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Posts a message with this `webhook-id`.
    pub(super) async fn post(&self, id: &str, body: String) -> PostResult {
        let started = Instant::now();
        let mut request =
            self.http.post(self.url.clone()).header("content-type", "application/json");
        let now = Timestamp::from_ms(jiff::Timestamp::now().as_millisecond());
        for (name, value) in self.signer.sign(id, now, body.as_bytes()) {
            request = request.header(name, value);
        }
        // Only the status of the answer counts, so the body is not read.
        let answer = match request.body(body).send().await {
            Ok(response) => Answer::Status(response.status().as_u16()),
            Err(error) if error.is_timeout() => {
                Answer::None(format!("no answer within {} s", TIMEOUT.as_secs()))
            }
            Err(error) => Answer::None(root_cause(&error)),
        };
        PostResult { answer, latency: started.elapsed() }
    }
}

/// The result of a post.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PostResult {
    pub(super) answer: Answer,
    pub(super) latency: Duration,
}

/// The answer of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The HTTP status.
    Status(u16),
    /// No answer, and why.
    None(String),
}

impl PostResult {
    /// Whether the endpoint accepted the message. The server accepts the same answers.
    pub(super) fn is_accepted(&self) -> bool {
        matches!(self.answer, Answer::Status(200..300))
    }

    /// The result for people: `204  12 ms`.
    pub(super) fn line(&self) -> String {
        let milliseconds = self.latency.as_millis();
        match &self.answer {
            Answer::Status(status) if self.is_accepted() => format!("{status}  {milliseconds} ms"),
            Answer::Status(status) => format!("{status} (not sent again)  {milliseconds} ms"),
            Answer::None(why) => format!("failed: {why} (not sent again)  {milliseconds} ms"),
        }
    }

    /// Adds the result to an object for programs.
    pub(super) fn add_to(&self, line: &mut Value) {
        let (status, error) = match &self.answer {
            Answer::Status(status) => (Some(status), None),
            Answer::None(why) => (None, Some(why)),
        };
        line["status"] = json!(status);
        line["error"] = json!(error);
        line["latency_ms"] = json!(u64::try_from(self.latency.as_millis()).unwrap_or(u64::MAX));
    }
}

/// Parses the url of an endpoint. Without a scheme, as in `localhost:3000/hooks`, it is `http`.
fn parse_url(text: &str) -> Result<Url, String> {
    let invalid = || format!("`{text}` is not a url like http://localhost:3000/hooks/notify");
    let with_scheme = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url = Url::parse(&with_scheme).map_err(|_| invalid())?;
    // The parser skips slashes before the host: a path would become a host.
    let is_path = text.starts_with('/');
    if matches!(url.scheme(), "http" | "https") && !is_path { Ok(url) } else { Err(invalid()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_scheme_is_http() {
        for (text, url) in [
            ("http://localhost:3000/hooks", Some("http://localhost:3000/hooks")),
            ("https://a.example/x?y=1", Some("https://a.example/x?y=1")),
            ("localhost:3000/hooks", Some("http://localhost:3000/hooks")),
            ("127.0.0.1:3000", Some("http://127.0.0.1:3000/")),
            ("ftp://a.example/", None),
            ("/hooks", None),
            ("", None),
        ] {
            assert_eq!(parse_url(text).ok().as_ref().map(Url::as_str), url, "{text}");
        }
    }

    #[test]
    fn only_2xx_is_accepted_and_the_line_says_that_nothing_is_repeated() {
        let failed = || Answer::None("connection refused".to_owned());
        for (answer, is_accepted, line) in [
            (Answer::Status(204), true, "204  7 ms"),
            (Answer::Status(299), true, "299  7 ms"),
            (Answer::Status(301), false, "301 (not sent again)  7 ms"),
            (Answer::Status(500), false, "500 (not sent again)  7 ms"),
            (failed(), false, "failed: connection refused (not sent again)  7 ms"),
        ] {
            let posted = PostResult { answer, latency: Duration::from_millis(7) };
            assert_eq!((posted.is_accepted(), &*posted.line()), (is_accepted, line));
        }
    }
}
