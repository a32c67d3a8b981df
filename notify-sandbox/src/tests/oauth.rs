//! The token endpoint: what it refuses, and what its tokens are worth.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Request};
use super::{NOW_S, access_token, assertion, assertion_claims, fcm_send, start, token_request};
use crate::sandbox::{Answer, Provider, Rule};

/// A change to the claims, and the error that comes of it.
type Row = (&'static str, Value, &'static str, &'static str);

const LIFETIME: &str = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a \
     reasonable timeframe. Check your iat and exp values in the JWT claim.";

fn rows() -> Vec<Row> {
    let account = "Invalid grant: account not found";
    let audience = "Invalid JWT: Failed audience check.";
    let scope = "Invalid OAuth scope or ID token audience provided.";
    let expired = json!({ "iat": NOW_S - 3_600, "exp": NOW_S });
    vec![
        ("another account", json!({ "iss": "x@example.com" }), "invalid_grant", account),
        ("another audience", json!({ "aud": "https://example.com" }), "invalid_grant", audience),
        ("too long", json!({ "exp": NOW_S + 3_601 }), "invalid_grant", LIFETIME),
        ("expired", expired, "invalid_grant", LIFETIME),
        ("not yet", json!({ "iat": NOW_S + 301 }), "invalid_grant", LIFETIME),
        ("no scope", json!({ "scope": "" }), "invalid_scope", scope),
    ]
}

#[tokio::test]
async fn each_wrong_claim_is_refused() {
    let (sandbox, _) = start().await;
    let config = sandbox.fcm_config();
    let mut client = Client::connect(&sandbox).await;
    for (name, changes, error, description) in rows() {
        let mut claims = assertion_claims(&config);
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        let response = client.send(token_request(&assertion(&config, &claims))).await.unwrap();
        let body = json!({ "error": error, "error_description": description });
        assert_eq!((response.status, response.body), (400, body), "{name}");
    }
    assert_eq!(sandbox.journal(), [], "token requests are no messages");
}

#[tokio::test]
async fn each_wrong_request_is_refused() {
    let (sandbox, _) = start().await;
    let config = sandbox.fcm_config();
    let good = assertion(&config, &assertion_claims(&config));
    let mut tampered = good.clone();
    tampered.replace_range(good.len() - 20..good.len() - 18, "AA");
    let form = |body: &'static str| {
        let form = "application/x-www-form-urlencoded";
        Request::post("/token").header("content-type", form).body(body)
    };
    let rows = [
        ("tampered with", token_request(&tampered), "invalid_grant"),
        ("no JWT", token_request("x.y.z"), "invalid_grant"),
        ("JSON", token_request(&good).header("content-type", "text/plain"), "invalid_request"),
        ("GET", token_request(&good).method(http::Method::GET), "invalid_request"),
        ("nothing", form(""), "invalid_request"),
        ("another grant", form("grant_type=password"), "unsupported_grant_type"),
    ];
    let mut client = Client::connect(&sandbox).await;
    for (name, request, error) in rows {
        let response = client.send(request).await.unwrap();
        assert_eq!((response.status, &response.body["error"]), (400, &json!(error)), "{name}");
    }
}

#[tokio::test]
async fn an_access_token_lasts_until_it_expires() {
    let (sandbox, clock) = start().await;
    let config = sandbox.fcm_config();
    let mut client = Client::connect(&sandbox).await;
    let good = assertion(&config, &assertion_claims(&config));
    let response = client.send(token_request(&good)).await.unwrap();
    let token = response.body["access_token"].as_str().unwrap();
    let expected = json!({ "access_token": token, "expires_in": 3_599, "token_type": "Bearer" });
    assert_eq!((response.status, &response.body), (200, &expected));

    let send = fcm_send(token, &json!({ "token": "a" }));
    assert_eq!(client.send(send.clone()).await.unwrap().status, 200);
    clock.advance(Duration::from_secs(3_599));
    assert_eq!(client.send(send).await.unwrap().status, 401);
}

#[tokio::test]
async fn a_token_without_the_messaging_scope_sends_nothing() {
    let (sandbox, _) = start().await;
    let config = sandbox.fcm_config();
    let mut claims = assertion_claims(&config);
    claims["scope"] = json!("https://www.googleapis.com/auth/drive");
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(token_request(&assertion(&config, &claims))).await.unwrap();
    let token = response.body["access_token"].as_str().unwrap();
    let refused = client.send(fcm_send(token, &json!({ "token": "a" }))).await.unwrap();
    let message = "Request had insufficient authentication scopes.";
    let error = json!({ "code": 403, "message": message, "status": "PERMISSION_DENIED" });
    assert_eq!((refused.status, refused.body), (403, json!({ "error": error })));
}

#[tokio::test]
async fn a_rule_makes_the_endpoint_fail() {
    let (sandbox, _) = start().await;
    let config = sandbox.fcm_config();
    let mut client = Client::connect(&sandbox).await;
    sandbox.script(Rule::on(Provider::Oauth, Answer::status(503).first(1))).unwrap();
    let good = assertion(&config, &assertion_claims(&config));
    let failed = client.send(token_request(&good)).await.unwrap();
    assert_eq!((failed.status, &failed.body["error"]), (503, &json!("internal_failure")));
    access_token(&sandbox, &mut client).await;
}
