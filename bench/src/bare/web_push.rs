//! A bare sender of Web Push: each message encrypted for its browser and sent at once, from one
//! thread over one connection, with nothing stored. It runs in a process of its own.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Version};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bare::encryption::{encrypt, vapid};
use crate::bare::h2_client::headers;
use crate::bare::h2_connection::H2;
use crate::proc::Cost;
use crate::process::{self, run_measured, start_worker};

/// The task, also of the peer from npm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) address: SocketAddr,
    /// The body of `PUT …/providers/webpush`.
    pub(crate) config: Value,
    pub(crate) headers: Vec<(String, String)>,
    /// The decrypted payload.
    pub(crate) payload: String,
    /// A list of [`Subscription`]s in JSON.
    pub(crate) subscriptions: PathBuf,
    pub(crate) count: u64,
}

/// A subscription, as a browser creates it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) endpoint: String,
    pub(crate) keys: Keys,
}

/// A browser's keys, base64url.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) p256dh: String,
    pub(crate) auth: String,
}

/// Runs them in a child process.
pub(crate) fn run(parameters: &Parameters) -> anyhow::Result<Cost> {
    start_worker("bare-web-push", parameters)?.measure(parameters.count)
}

/// The child's side.
pub(crate) async fn serve() -> anyhow::Result<()> {
    let parameters: Parameters = process::read_parameters()?;
    let text = |name: &str| parameters.config[name].as_str().with_context(|| name.to_owned());
    let origin = format!("https://{}", parameters.address);
    let token = vapid(text("vapid_private_key")?, text("subject")?, &origin)?;
    let mut fields = headers(&parameters.headers)?;
    fields.insert(AUTHORIZATION, token.try_into()?);
    let all: Vec<Subscription> =
        serde_json::from_slice(&std::fs::read(&parameters.subscriptions)?)?;
    let connection = H2::open(parameters.address, text("ca_certificate")?).await?;
    let payload = parameters.payload.as_bytes();
    let to = |subscription: &Subscription| request(&fields, payload, subscription);
    connection.send(all.iter().take(1).map(to)).await?;
    let count = usize::try_from(parameters.count)?;
    run_measured(connection.send(all.iter().take(count).map(to))).await
}

fn request(
    fields: &HeaderMap,
    payload: &[u8],
    to: &Subscription,
) -> anyhow::Result<(Request<()>, Bytes)> {
    let public = URL_SAFE_NO_PAD.decode(&to.keys.p256dh)?;
    let secret = URL_SAFE_NO_PAD.decode(&to.keys.auth)?;
    let mut request = Request::new(());
    *request.method_mut() = Method::POST;
    *request.version_mut() = Version::HTTP_2;
    *request.uri_mut() = to.endpoint.parse()?;
    *request.headers_mut() = fields.clone();
    Ok((request, encrypt(payload, &public, &secret)?))
}
