//! A bare h2 client. It sends the requests that the server sends, from one thread over one TLS connection,
//! and stores nothing. It runs in a separate process, so that its CPU time can be measured.

use std::net::SocketAddr;

use anyhow::{Context, bail};
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Request, Uri, Version};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bare::h2_connection::H2;
use crate::http_load::{Connection, write_request};
use crate::proc::Cost;
use crate::process::{self, run_measured, start_worker};
use crate::seed::{now, push_token, splitmix64};

/// The placeholder of a device's token in path and body.
pub(crate) const TOKEN: &str = "{token}";

/// The parameters of the child process.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) address: SocketAddr,
    /// The body of `PUT …/providers/:provider`.
    pub(crate) config: Value,
    /// The origin and the path, with [`TOKEN`] in place of a token.
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
    /// Whether each request has a different `apns-id`.
    pub(crate) has_id: bool,
    pub(crate) body: String,
    /// The number of the first device. Every second device from there has the same platform.
    pub(crate) first: u64,
    pub(crate) count: u64,
}

/// Sends the requests in a child process and returns the cost.
pub(crate) fn run(parameters: &Parameters) -> anyhow::Result<Cost> {
    start_worker("bare-client", parameters)?.measure(parameters.count)
}

/// Runs in the child process.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let parameters: Parameters = process::read_parameters()?;
    let authorization = authorization(&parameters).await?;
    let requests = Requests::of(&parameters, authorization)?;
    let ca = parameters.config["ca_certificate"].as_str().context("a certificate")?;
    let connection = H2::open(parameters.address, ca).await?;
    // The first request, which warms up the connection, goes to a device outside the measured range.
    let warm_up = parameters.first + 2 * parameters.count;
    connection.send(std::iter::once_with(|| requests.to(warm_up))).await?;
    let numbers = (parameters.first..).step_by(2).take(usize::try_from(parameters.count)?);
    run_measured(connection.send(numbers.map(|number| requests.to(number)))).await
}

/// A text that is split at the placeholder for the token, if it has one.
struct Text {
    before: Bytes,
    after: Option<Bytes>,
}

impl Text {
    fn of(text: &str) -> Self {
        let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        match text.split_once(TOKEN) {
            Some((before, after)) => Self { before: bytes(before), after: Some(bytes(after)) },
            None => Self { before: bytes(text), after: None },
        }
    }

    fn with(&self, token: &str) -> Bytes {
        let Some(after) = &self.after else { return self.before.clone() };
        let mut text = BytesMut::with_capacity(self.before.len() + token.len() + after.len());
        text.extend_from_slice(&self.before);
        text.extend_from_slice(token.as_bytes());
        text.extend_from_slice(after);
        text.freeze()
    }
}

/// The parts from which the requests are made.
struct Requests {
    headers: HeaderMap,
    has_id: bool,
    url: Text,
    body: Text,
}

impl Requests {
    fn of(parameters: &Parameters, authorization: HeaderValue) -> anyhow::Result<Self> {
        let mut headers = headers(&parameters.headers)?;
        headers.insert(AUTHORIZATION, authorization);
        let (url, body) = (Text::of(&parameters.url), Text::of(&parameters.body));
        Ok(Self { headers, has_id: parameters.has_id, url, body })
    }

    /// The request to the device with this number.
    fn to(&self, number: u64) -> anyhow::Result<(Request<()>, Bytes)> {
        let token = push_token(number);
        let mut request = Request::new(());
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = Uri::from_maybe_shared(self.url.with(&token))?;
        *request.headers_mut() = self.headers.clone();
        if self.has_id {
            let id = uuid::Uuid::from_u64_pair(splitmix64(number), splitmix64(!number)).to_string();
            request.headers_mut().insert("apns-id", id.try_into()?);
        }
        Ok((request, self.body.with(&token)))
    }
}

/// Converts the header fields of the parameters.
pub(crate) fn headers(fields: &[(String, String)]) -> anyhow::Result<HeaderMap> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.insert(HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
    }
    Ok(headers)
}

/// The `authorization` header: with a provider token for APNs, or with an access token from the sandbox for
/// FCM.
async fn authorization(parameters: &Parameters) -> anyhow::Result<HeaderValue> {
    let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
    let at = now().as_seconds();
    let account = &parameters.config["service_account"];
    if account.is_null() {
        let config = &parameters.config;
        let mut header = Header::new(Algorithm::ES256);
        header.kid = Some(text(&config["key_id"])?);
        let key = EncodingKey::from_ec_pem(text(&config["private_key"])?.as_bytes())?;
        let claims = json!({ "iss": config["team_id"], "iat": at });
        let token = jsonwebtoken::encode(&header, &claims, &key)?;
        return Ok(format!("bearer {token}").try_into()?);
    }
    let key = EncodingKey::from_rsa_pem(text(&account["private_key"])?.as_bytes())?;
    let claims = json!({
        "iss": account["client_email"], "aud": account["token_uri"], "iat": at, "exp": at + 3_600,
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
    });
    let assertion = jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &key)?;
    let kind = "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer";
    let form = format!("grant_type={kind}&assertion={assertion}");
    let length = form.len().to_string();
    let headers = [
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", length.as_str()),
    ];
    let mut request = Vec::new();
    write_request(&mut request, ("POST", "/token"), &headers, b"");
    request.extend_from_slice(form.as_bytes());
    let mut connection = Connection::open(parameters.address).await?;
    let (status, answer) = connection.exchange(&request).await?;
    if status != 200 {
        bail!("no access token: {status} {}", String::from_utf8_lossy(answer));
    }
    let answer: Value = serde_json::from_slice(answer)?;
    Ok(format!("Bearer {}", text(&answer["access_token"])?).try_into()?)
}
