//! A bare sender of Web Push. It encrypts each message for its browser (RFC 8291) with aws-lc-rs and sends
//! it, from one thread over one connection, and stores nothing. One VAPID token (RFC 8292) serves all
//! messages. The sender runs in a separate process, so that its CPU time can be measured.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use aws_lc_rs::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{ECDH_P256, PrivateKey, UnparsedPublicKey, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Method, Request, Version};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::bare::h2_client::headers;
use crate::bare::h2_connection::H2;
use crate::proc::Cost;
use crate::process::{self, run_measured, start_worker};
use crate::seed::now;

/// The record size, in bytes. A message is one record.
const RECORD_BYTES: u32 = 4_096;
/// The length of a public key, in bytes.
const POINT_BYTES: u8 = 65;
/// The lifetime of a VAPID token, in seconds.
const TOKEN_SECONDS: i64 = 12 * 3_600;

/// The parameters of the child process, and of the peer from npm.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Parameters {
    pub(crate) address: SocketAddr,
    /// The body of `PUT …/providers/webpush`.
    pub(crate) config: Value,
    pub(crate) headers: Vec<(String, String)>,
    /// The decrypted payload.
    pub(crate) payload: String,
    /// A JSON file with a list of [`Subscription`]s.
    pub(crate) subscriptions: PathBuf,
    pub(crate) count: u64,
}

/// A subscription, as a browser creates it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) endpoint: String,
    pub(crate) keys: Keys,
}

/// The keys of a browser in base64url.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Keys {
    pub(crate) p256dh: String,
    pub(crate) auth: String,
}

/// Sends the messages in a child process and returns the cost.
pub(crate) fn run(parameters: &Parameters) -> anyhow::Result<Cost> {
    start_worker("bare-web-push", parameters)?.measure(parameters.count)
}

/// Runs in the child process.
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
    // The first message warms up the connection.
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

/// The length of derived key material, in bytes.
#[derive(Clone, Copy)]
struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

/// Encrypts a message for a browser's public key and secret, with a new key pair and salt (RFC 8291).
fn encrypt(text: &[u8], public: &[u8], secret: &[u8]) -> Result<Bytes, Unspecified> {
    let mut salt = [0; 16];
    aws_lc_rs::rand::fill(&mut salt)?;
    let sender = PrivateKey::generate(&ECDH_P256)?;
    let sender_public = sender.compute_public_key()?;
    let mut material = [0; 32];
    agree(&sender, UnparsedPublicKey::new(&ECDH_P256, public), Unspecified, |shared| {
        let info = [b"WebPush: info\0".as_slice(), public, sender_public.as_ref()];
        let browser_key = Salt::new(HKDF_SHA256, secret).extract(shared);
        browser_key.expand(&info, Length(32))?.fill(&mut material)
    })?;
    let message_key = Salt::new(HKDF_SHA256, &salt).extract(&material);
    let (mut key, mut nonce) = ([0; 16], [0; 12]);
    message_key.expand(&[b"Content-Encoding: aes128gcm\0"], Length(16))?.fill(&mut key)?;
    message_key.expand(&[b"Content-Encoding: nonce\0"], Length(12))?.fill(&mut nonce)?;

    let mut body = Vec::with_capacity(text.len() + 103);
    body.extend_from_slice(&salt);
    body.extend_from_slice(&RECORD_BYTES.to_be_bytes());
    body.push(POINT_BYTES);
    body.extend_from_slice(sender_public.as_ref());
    let head = body.len();
    body.extend_from_slice(text);
    body.push(2);
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key)?);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::empty(), &mut body[head..])?;
    body.extend_from_slice(tag.as_ref());
    Ok(body.into())
}

/// The `authorization` header of every message to a push service (RFC 8292).
fn vapid(private: &str, subject: &str, origin: &str) -> anyhow::Result<String> {
    let raw = URL_SAFE_NO_PAD.decode(private)?;
    let public = PrivateKey::from_private_key(&ECDH_P256, &raw)?.compute_public_key()?;
    let pair = EcdsaKeyPair::from_private_key_and_public_key(
        &ECDSA_P256_SHA256_FIXED_SIGNING,
        &raw,
        public.as_ref(),
    )?;
    let claims =
        json!({ "aud": origin, "exp": now().as_seconds() + TOKEN_SECONDS, "sub": subject });
    let part = |json: Value| URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(json!({ "typ": "JWT", "alg": "ES256" })), part(claims));
    let signature = pair.sign(&SystemRandom::new(), signed.as_bytes())?;
    let signature = URL_SAFE_NO_PAD.encode(signature);
    let key = URL_SAFE_NO_PAD.encode(public);
    Ok(format!("vapid t={signed}.{signature}, k={key}"))
}
