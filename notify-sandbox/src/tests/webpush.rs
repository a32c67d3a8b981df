//! The fake push service: its requirements, its errors, and the browsers that it creates.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use notify_core::WebSubscription;
use serde_json::{Value, json};

use super::client::{Client, Request, Response};
use super::{NOW_S, start};
use crate::webpush::script;
use crate::{Provider, Rule, Sandbox, ScriptedResponse, SubscribeError, WebPushError};

/// The server of a page, with its VAPID key.
struct Page {
    signing: EncodingKey,
    public: String,
}

impl Page {
    fn new() -> Self {
        let pair = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        Self {
            signing: EncodingKey::from_ec_der(&pair.serialize_der()),
            public: URL_SAFE_NO_PAD.encode(pair.public_key_raw()),
        }
    }

    fn vapid(&self, claims: &Value) -> String {
        let header = Header::new(Algorithm::ES256);
        let token = jsonwebtoken::encode(&header, claims, &self.signing).unwrap();
        format!("vapid t={token}, k={}", self.public)
    }
}

fn claims(sandbox: &Sandbox) -> Value {
    json!({"aud": sandbox.origin(), "exp": NOW_S + 3_600, "sub": "mailto:push@shop.com"})
}

fn path_of(sandbox: &Sandbox, to: &WebSubscription) -> String {
    to.endpoint.strip_prefix(&sandbox.origin()).unwrap().to_owned()
}

/// A message without text that every service accepts.
fn push(sandbox: &Sandbox, page: &Page, to: &WebSubscription) -> Request {
    Request::post(&path_of(sandbox, to))
        .header("ttl", "60")
        .header("authorization", &page.vapid(&claims(sandbox)))
}

fn subscribe(sandbox: &Sandbox, page: &Page) -> WebSubscription {
    sandbox.subscribe(Some(&page.public), &ScriptedResponse::ok()).unwrap()
}

/// Mozilla's error number, Apple's reason, or the text.
fn word(response: &Response) -> String {
    let body = &response.body;
    match (&body["errno"], &body["reason"]) {
        (Value::Number(errno), _) => format!("errno_{errno}"),
        (_, Value::String(reason)) => reason.clone(),
        _ => body.as_str().unwrap_or_default().to_owned(),
    }
}

#[tokio::test]
async fn a_message_is_refused_for_each_thing_that_a_service_demands() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let (page, other) = (Page::new(), Page::new());
    let to = subscribe(&sandbox, &page);
    let good = || push(&sandbox, &page, &to);
    let signed = |changed: &str, value: Value| {
        let mut claims = claims(&sandbox);
        claims[changed] = value;
        good().header("authorization", &page.vapid(&claims))
    };
    let vapid = page.vapid(&claims(&sandbox));
    let (token, _) = vapid.split_once(", ").unwrap();
    let with = |authorization: &str| good().header("authorization", authorization);
    let mismatch = "the VAPID credentials in the authorization header do not correspond to the \
                    credentials used to create the subscriptions.\n";
    let no_endpoint = path_of(&sandbox, &to).replace("/push/", "/push/0");
    let rows: Vec<(&str, Request, u16, &str)> = vec![
        ("good", good(), 201, ""),
        ("a topic", good().header("topic", &"t-_4".repeat(8)), 201, ""),
        ("a ttl of 0", good().header("ttl", "0"), 201, ""),
        ("no such endpoint", good().path(&no_endpoint), 404, "errno_102"),
        ("no endpoint", good().path("/push"), 404, "errno_102"),
        ("a longer path", good().path(&format!("{no_endpoint}/x")), 404, "errno_102"),
        ("another method", good().method(http::Method::PUT), 405, ""),
        ("no ttl", good().without("ttl"), 400, "errno_111"),
        ("a ttl that is none", good().header("ttl", "1h"), 400, "errno_112"),
        ("a negative ttl", good().header("ttl", "-1"), 400, "errno_112"),
        ("a long topic", good().header("topic", &"t".repeat(33)), 400, "errno_113"),
        ("a topic with a dot", good().header("topic", "a.b"), 400, "errno_113"),
        ("an urgency that is none", good().header("urgency", "now"), 400, "errno_110"),
        ("a body over 4,096", good().body(vec![0; 4_097]), 413, "errno_104"),
        ("no authorization", good().without("authorization"), 401, "errno_109"),
        ("another scheme", with(&vapid.replacen("vapid", "bearer", 1)), 401, "errno_109"),
        ("no key", with(token), 401, "errno_109"),
        ("another's key", with(&format!("{token}, k={}", other.public)), 401, "errno_109"),
        ("another's token", with(&other.vapid(&claims(&sandbox))), 403, mismatch),
        ("another origin", signed("aud", json!("https://push.example")), 401, "errno_109"),
        ("an origin with a path", signed("aud", json!(to.endpoint)), 401, "errno_109"),
        ("an end that has passed", signed("exp", json!(NOW_S)), 401, "errno_109"),
        ("an end too far", signed("exp", json!(NOW_S + 86_401)), 401, "errno_109"),
        ("an end as a text", signed("exp", json!((NOW_S + 60).to_string())), 401, "errno_109"),
        ("no contact", signed("sub", Value::Null), 401, "errno_109"),
        ("a contact that is none", signed("sub", json!("push@shop.com")), 401, "errno_109"),
        ("no encoding", good().body(vec![1; 200]), 400, "errno_111"),
        (
            "what is not encrypted",
            good().header("content-encoding", "aes128gcm").body(vec![1; 200]),
            400,
            "errno_110",
        ),
    ];
    for (what, request, status, expected) in rows {
        let response = client.send(request).await.unwrap();
        assert_eq!((response.status, word(&response).as_str()), (status, expected), "{what}");
    }
}

#[tokio::test]
async fn a_message_that_is_accepted_has_a_place_and_its_ttl() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let page = Page::new();
    let to = subscribe(&sandbox, &page);
    let response = client.send(push(&sandbox, &page, &to)).await.unwrap();
    assert_eq!(response.header("ttl"), Some("60"));
    let place = response.header("location").unwrap();
    assert!(place.starts_with(&format!("{}/push-messages/", sandbox.origin())), "{place}");
    let log = sandbox.received();
    assert_eq!(log[0].message_id.as_deref(), Some(place));
    assert!(to.endpoint.ends_with(log[0].token.as_deref().unwrap()));
    assert_eq!((sandbox.counts().accepted, log[0].status), (1, 201));
}

#[tokio::test]
async fn an_endpoint_can_script_every_keyword_and_status() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let page = Page::new();
    let ask = |answer: &ScriptedResponse| sandbox.subscribe(Some(&page.public), answer).unwrap();
    for refusal in WebPushError::ALL {
        let by_name = ScriptedResponse::reason(refusal.reason);
        assert_eq!(script(&by_name).as_deref(), refusal.keyword, "{refusal:?}");
        if refusal.keyword.is_some() {
            let to = ask(&by_name);
            let response = client.send(push(&sandbox, &page, &to)).await.unwrap();
            assert_eq!(response.status, refusal.status, "{refusal:?}");
        }
        let to = ask(&ScriptedResponse::status(refusal.status).retry_after(7));
        let response = client.send(push(&sandbox, &page, &to)).await.unwrap();
        let answer = (response.status, response.header("retry-after"));
        assert_eq!(answer, (refusal.status, Some("7")), "{refusal:?}");
    }
    let twice = ask(&ScriptedResponse::status(503).first(2));
    for expected in [503, 503, 201, 201] {
        let response = client.send(push(&sandbox, &page, &twice)).await.unwrap();
        assert_eq!(response.status, expected);
    }
    for wrong in [
        ScriptedResponse::reason("errno_101"),
        ScriptedResponse::status(700),
        ScriptedResponse::status(99),
    ] {
        let refused = sandbox.subscribe(None, &wrong);
        assert!(matches!(refused, Err(SubscribeError::Script)), "{wrong:?}");
    }
    let refused = sandbox.subscribe(Some("AAAA"), &ScriptedResponse::ok());
    assert!(matches!(refused, Err(SubscribeError::Key)), "{refused:?}");
}

#[tokio::test]
async fn a_rule_refuses_one_subscription_or_all_and_can_redirect() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let page = Page::new();
    let (first, second) = (subscribe(&sandbox, &page), subscribe(&sandbox, &page));
    let id = first.endpoint.rsplit_once('/').unwrap().1;
    sandbox
        .add_rule(Rule::on(Provider::WebPush, ScriptedResponse::reason("Unregistered")).token(id))
        .unwrap();
    let mut status =
        async |to: &WebSubscription| client.send(push(&sandbox, &page, to)).await.unwrap().status;
    assert_eq!((status(&first).await, status(&second).await), (410, 201));
    sandbox.clear();
    sandbox.add_rule(Rule::on(Provider::WebPush, ScriptedResponse::status(429))).unwrap();
    assert_eq!((status(&first).await, status(&second).await), (429, 429));
    sandbox.clear();
    let elsewhere = ScriptedResponse {
        status: Some(307),
        ..ScriptedResponse::reason("https://elsewhere.example/")
    };
    sandbox.add_rule(Rule::on(Provider::WebPush, elsewhere)).unwrap();
    let response = client.send(push(&sandbox, &page, &first)).await.unwrap();
    let answer = (response.status, response.header("location"));
    assert_eq!(answer, (307, Some("https://elsewhere.example/")));
}

#[tokio::test]
async fn a_browser_subscribes_over_http_as_it_would_for_a_page() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let page = Page::new();
    let path = "/sandbox/subscriptions";
    let body = json!({"application_server_key": page.public, "script": "410x1"});
    let response = client.send(Request::post(path).json(&body)).await.unwrap();
    let endpoint = response.body["endpoint"].as_str().unwrap().to_owned();
    assert!(endpoint.starts_with(&format!("{}/push/", sandbox.origin())), "{endpoint}");
    assert!(endpoint.ends_with("~410x1"), "{endpoint}");
    assert_eq!(response.body["expirationTime"], Value::Null);
    let length = |name: &str| {
        URL_SAFE_NO_PAD.decode(response.body["keys"][name].as_str().unwrap()).unwrap().len()
    };
    assert_eq!((length("p256dh"), length("auth")), (65, 16));
    let to = WebSubscription { endpoint, p256dh: String::new(), auth: String::new() };
    for status in [410, 201] {
        let response = client.send(push(&sandbox, &page, &to)).await.unwrap();
        assert_eq!(response.status, status);
    }
    // A request without a body subscribes with the key of `/sandbox/config/webpush`.
    let response = client.send(Request::post(path)).await.unwrap();
    assert_eq!(response.status, 200, "{}", response.body);
    for (wrong, error) in [
        (json!({"script": "nonsense"}), "script: is not known"),
        (
            json!({"application_server_key": "x"}),
            "application_server_key: must be a P-256 public key, 65 bytes in base64url",
        ),
    ] {
        let response = client.send(Request::post(path).json(&wrong)).await.unwrap();
        assert_eq!((response.status, response.body), (400, json!({"errors": [error]})));
    }
    let response = client.send(Request::get(path)).await.unwrap();
    assert_eq!(response.status, 405);
    let config = client.send(Request::get("/sandbox/config/webpush")).await.unwrap();
    assert_eq!(config.body, sandbox.webpush_config());
}
