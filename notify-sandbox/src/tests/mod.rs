//! Tests of the sandbox from a sender's point of view, over real TLS and HTTP/2. The crate that signs the
//! tokens is not the one that verifies them.

mod apns;
mod client;
mod compatibility;
mod connection;
mod control;
mod fcm;
mod frame_filter;
mod messenger;
mod scripts;
mod telegram;
mod webpush;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::{Clock, Sandbox, SandboxConfig};
use client::Request;

/// The first time that the tests' clock shows.
const NOW_S: i64 = 1_790_000_000;

/// The longest time that a test waits for an event.
const WITHIN: Duration = Duration::from_secs(10);

const DEVICE: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";

/// A clock that stands still until a test advances it.
struct TestClock(watch::Sender<i64>);

impl TestClock {
    fn start() -> Self {
        Self(watch::Sender::new(NOW_S * 1_000))
    }

    fn clock(&self) -> Clock {
        Clock::manual(self.0.subscribe())
    }

    fn advance(&self, by: Duration) {
        self.0.send_modify(|now_ms| *now_ms += i64::try_from(by.as_millis()).unwrap());
    }
}

async fn start() -> (Sandbox, TestClock) {
    let clock = TestClock::start();
    let config = SandboxConfig { clock: clock.clock(), ..SandboxConfig::default() };
    (start_with(config).await, clock)
}

async fn start_with(config: SandboxConfig) -> Sandbox {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Sandbox::start(listener, config).await.unwrap()
}

/// A provider token of `config`, issued this many seconds from now. Each token is signed only once. Two
/// signatures of the same claims differ, and APNs would count them as two tokens.
fn apns_jwt(config: &Value, issued_in_s: i64) -> String {
    static SIGNED: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let header = Header {
        kid: Some(config["key_id"].as_str().unwrap().to_owned()),
        typ: None,
        ..Header::new(Algorithm::ES256)
    };
    let claims = json!({ "iss": config["team_id"], "iat": NOW_S + issued_in_s });
    let pem = config["private_key"].as_str().unwrap();
    let sign = || {
        let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
        jsonwebtoken::encode(&header, &claims, &key).unwrap()
    };
    let what = format!("{header:?}{claims}{pem}");
    SIGNED.lock().unwrap().entry(what).or_insert_with(sign).clone()
}

/// A push that APNs accepts.
fn push(sandbox: &Sandbox) -> Request {
    push_to(sandbox, DEVICE)
}

fn push_to(sandbox: &Sandbox, token: &str) -> Request {
    let config = sandbox.apns_config();
    Request::post(&format!("/apns/3/device/{token}"))
        .header("authorization", &format!("bearer {}", apns_jwt(&config, 0)))
        .header("apns-topic", config["topic"].as_str().unwrap())
        .header("apns-push-type", "alert")
        .header("apns-priority", "10")
        .header("apns-id", "123e4567-e89b-12d3-a456-426655440000")
        .json(&json!({ "aps": { "alert": { "body": "hello" } }, "url": "https://example.com" }))
}

/// The claims of an assertion that Google's token endpoint accepts.
fn assertion_claims(config: &Value) -> Value {
    json!({
        "iss": config["service_account"]["client_email"],
        "scope": "https://www.googleapis.com/auth/firebase.messaging",
        "aud": config["service_account"]["token_uri"],
        "iat": NOW_S,
        "exp": NOW_S + 3_600,
    })
}

fn assertion(config: &Value, claims: &Value) -> String {
    let account = &config["service_account"];
    let header = Header {
        kid: Some(account["private_key_id"].as_str().unwrap().to_owned()),
        ..Header::new(Algorithm::RS256)
    };
    let pem = account["private_key"].as_str().unwrap();
    let key = EncodingKey::from_rsa_pem(pem.as_bytes()).unwrap();
    jsonwebtoken::encode(&header, claims, &key).unwrap()
}

fn token_request(assertion: &str) -> Request {
    let form = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer")
        .append_pair("assertion", assertion)
        .finish();
    Request::post("/token").header("content-type", "application/x-www-form-urlencoded").body(form)
}

/// An access token.
async fn access_token(sandbox: &Sandbox, client: &mut client::Client) -> String {
    let config = sandbox.fcm_config();
    let assertion = assertion(&config, &assertion_claims(&config));
    let response = client.send(token_request(&assertion)).await.unwrap();
    assert_eq!(response.status, 200, "{}", response.body);
    response.body["access_token"].as_str().unwrap().to_owned()
}

/// A send of `message` with this access token.
fn fcm_send(access_token: &str, message: &Value) -> Request {
    Request::post("/fcm/v1/projects/notify-sandbox/messages:send")
        .header("authorization", &format!("Bearer {access_token}"))
        .header("content-type", "application/json")
        .json(&json!({ "message": message }))
}
