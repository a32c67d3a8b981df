//! Clients other than Notify. The sandbox accepts the requests that Apple and Google accept from them.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jsonwebtoken::{Algorithm, EncodingKey};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::client::{Client, END, HEADERS, RST_STREAM, Raw, tls};
use super::{
    DEVICE, NOW_S, access_token, assertion, assertion_claims, fcm_send, push, start, token_request,
};
use crate::{Environment, Sandbox};

/// `:scheme: https:` as Node's HTTP/2 encodes it, with indexing.
const NODE_SCHEME: &[u8] = b"\x46\x85\x9d\x29\xad\x17\x3f";
/// The first entry of the dynamic table, which is `:scheme: https:` after that.
const NODE_SCHEME_AGAIN: &[u8] = b"\xbe";
/// `GET`, the path `/token` and the authority `x`.
const GET: &[u8] = b"\x82";
const TOKEN: &[u8] = b"\x04\x06/token\x01\x01x";

/// aioapns offers no ALPN and speaks HTTP/2 at once.
#[tokio::test]
async fn http_2_without_alpn_is_accepted() {
    let (sandbox, _) = start().await;
    let mut client = Client::over(tls(&sandbox, b"").await).await;
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
}

#[tokio::test]
async fn http_1_without_alpn_is_accepted() {
    let (sandbox, _) = start().await;
    let mut stream = tls(&sandbox, b"").await;
    let request = b"GET /sandbox/counts HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"), "{}", String::from_utf8_lossy(&answer));
}

/// firebase-admin for Node sends `:scheme: https:` in full first, and then by its index.
#[tokio::test]
async fn a_scheme_with_a_colon_is_accepted() {
    let (sandbox, _) = start().await;
    let mut raw = Raw::connect(&sandbox).await;
    raw.write(HEADERS, END, 1, &[GET, NODE_SCHEME, TOKEN].concat()).await;
    raw.write(HEADERS, END, 3, &[GET, NODE_SCHEME_AGAIN, TOKEN].concat()).await;
    for stream in [1, 3] {
        let is_answer = |kind| kind == HEADERS || kind == RST_STREAM;
        let answer = raw.read_until(|frame| frame.stream == stream && is_answer(frame.kind)).await;
        assert_eq!(answer.kind, HEADERS, "stream {stream} is answered and not reset");
    }
}

/// google-auth for Python signs Google's audience for any `token_uri`.
#[tokio::test]
async fn an_assertion_for_googles_own_endpoint_is_accepted() {
    let (sandbox, _) = start().await;
    let config = sandbox.fcm_config();
    let mut client = Client::connect(&sandbox).await;
    let mut claims = assertion_claims(&config);
    claims["aud"] = json!("https://oauth2.googleapis.com/token");
    let granted = client.send(token_request(&assertion(&config, &claims))).await.unwrap();
    assert_eq!(granted.status, 200, "{}", granted.body);
    let token = granted.body["access_token"].as_str().unwrap();
    let message = json!({ "token": "phone", "notification": { "body": "hello" } });
    assert_eq!(client.send(fcm_send(token, &message)).await.unwrap().status, 200);
}

/// The crate `a2` pads the base64 of its token, which only APNs accepts.
#[tokio::test]
async fn only_apns_accepts_a_token_in_padded_base64() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = padded(&sandbox);
    assert!(token.contains('='), "{token}");
    let authorization = format!("bearer {token}");
    let request = push(&sandbox).header("authorization", &authorization);
    assert_eq!(client.send(request).await.unwrap().status, 200);
    let broken = authorization.replacen("bearer ", "bearer A", 1);
    let request = push(&sandbox).header("authorization", &broken);
    assert_eq!(client.send(request).await.unwrap().status, 403);

    access_token(&sandbox, &mut client).await;
    let config = sandbox.fcm_config();
    let signed = assertion(&config, &assertion_claims(&config));
    let padded: Vec<String> = signed
        .split('.')
        .map(|part| STANDARD.encode(URL_SAFE_NO_PAD.decode(part).unwrap()))
        .collect();
    let refused = client.send(token_request(&padded.join("."))).await.unwrap();
    assert_eq!(refused.body["error"], "invalid_grant");
}

/// A provider token whose parts are in padded base64. A signature of 64 bytes needs padding.
fn padded(sandbox: &Sandbox) -> String {
    let config = sandbox.apns_config();
    let header = json!({ "alg": "ES256", "kid": config["key_id"] });
    let claims = json!({ "iss": config["team_id"], "iat": NOW_S });
    let encode = |value: &Value| STANDARD.encode(value.to_string());
    let signed = format!("{}.{}", encode(&header), encode(&claims));
    let pem = config["private_key"].as_str().unwrap();
    let key = EncodingKey::from_ec_pem(pem.as_bytes()).unwrap();
    let signature = jsonwebtoken::crypto::sign(signed.as_bytes(), &key, Algorithm::ES256).unwrap();
    let signature = STANDARD.encode(URL_SAFE_NO_PAD.decode(signature).unwrap());
    format!("{signed}.{signature}")
}

/// Most APNs clients have a fixed path. Their users can set only the host.
#[tokio::test]
async fn a_fixed_path_is_production() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let request = push(&sandbox).path(&format!("/3/device/{DEVICE}"));
    assert_eq!(client.send(request).await.unwrap().status, 200);
    let received = sandbox.received();
    assert_eq!(received[0].environment, Some(Environment::Production));
    assert_eq!(received[0].token.as_deref(), Some(DEVICE));
    let refused = client.send(push(&sandbox).path("/3/device/00fg")).await.unwrap();
    assert_eq!((refused.status, &refused.body["reason"]), (400, &json!("BadDeviceToken")));
}
