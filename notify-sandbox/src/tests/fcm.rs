//! The requests that FCM and its token endpoint refuse, and the permissions of access tokens.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::{Client, Request};
use super::{NOW_S, access_token, assertion, assertion_claims, fcm_send, start, token_request};
use crate::{Provider, Rule, ScriptedResponse};

const FCM_ERROR: &str = "type.googleapis.com/google.firebase.fcm.v1.FcmError";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";

/// A message, the field in its error, and the description of the error.
type Row = (Value, &'static str, String);

/// Messages that the mapping from JSON refuses before FCM sees them.
fn mistyped() -> Vec<Row> {
    let row = |message, field, text: &str| (message, field, text.to_owned());
    let unknown = |name: &str, at: &str| {
        let place = format!("Unknown name \"{name}\" at '{at}': Cannot find field.");
        format!("Invalid JSON payload received. {place}")
    };
    let duration = "'message.android.ttl' (type.googleapis.com/google.protobuf.Duration)";
    let priority = "'message.android.priority' (AndroidConfig.AndroidMessagePriority)";
    let android = |android: Value| json!({ "token": "a", "android": android });
    let data = |data: Value| json!({ "token": "a", "data": data });
    vec![
        row(json!({ "token": "a", "x": 1 }), "message", &unknown("x", "message")),
        row(
            android(json!({ "prio": "HIGH" })),
            "message.android",
            &unknown("prio", "message.android"),
        ),
        row(
            data(json!({ "a": "b", "n": 12 })),
            "message.data[1].value",
            "Invalid value at 'message.data[1].value' (TYPE_STRING), 12",
        ),
        row(data(json!([])), "message.data", "Invalid value at 'message.data' (Map), []"),
        row(
            android(json!({ "priority": "URGENT" })),
            "message.android.priority",
            &format!("Invalid value at {priority}, \"URGENT\""),
        ),
        row(
            android(json!({ "ttl": "60" })),
            "message.android.ttl",
            &format!("Invalid value at {duration}, \"60\""),
        ),
        row(
            android(json!({ "ttl": 60 })),
            "message.android.ttl",
            &format!("Invalid value at {duration}, 60"),
        ),
        row(
            json!({ "token": "a", "topic": "b" }),
            "message",
            "Invalid value at 'message' (oneof), oneof field 'target' is already set by 'token'. \
             Cannot set 'topic'",
        ),
    ]
}

/// Messages that FCM refuses.
fn against_the_rules() -> Vec<Row> {
    let row = |message, field, text: &str| (message, field, text.to_owned());
    let (long, too_long) = ("v".repeat(2_048), "v".repeat(4_096));
    let mut rows = vec![
        row(json!({ "data": {} }), "message", "Recipient of the message is not set."),
        row(json!({ "token": "a", "data": { "k": too_long } }), "message", "Message is too big."),
        row(json!({ "topic": "a", "data": { "k": long } }), "message", "Message is too big."),
        row(
            json!({ "token": "a b" }),
            "message.token",
            "The registration token is not a valid FCM registration token",
        ),
        row(
            json!({ "token": "a", "android": { "data": { "gcm.n": "a" } } }),
            "message.android.data[0].key",
            "Invalid data payload key: gcm.n",
        ),
    ];
    for key in ["from", "gcm", "message_type", "google.c", "googleplus"] {
        let text = format!("Invalid data payload key: {key}");
        rows.push((json!({ "token": "a", "data": { key: "v" } }), "message.data[0].key", text));
    }
    for ttl in ["2419201s", "-1s"] {
        let text = "Invalid time to live: it must be between 0 and 2419200 seconds.";
        let message = json!({ "token": "a", "android": { "ttl": ttl } });
        rows.push(row(message, "message.android.ttl", text));
    }
    rows
}

#[tokio::test]
async fn each_wrong_message_is_refused_where_it_is_wrong() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    let mistyped = mistyped().into_iter().map(|row| (row, false));
    let by_fcm = against_the_rules().into_iter().map(|row| (row, true));
    for ((message, field, description), by_fcm) in mistyped.chain(by_fcm) {
        let response = client.send(fcm_send(&token, &message)).await.unwrap();
        let violation = json!({ "field": field, "description": description });
        let mut details = vec![json!({ "@type": BAD_REQUEST, "fieldViolations": [violation] })];
        if by_fcm {
            let code = json!({ "@type": FCM_ERROR, "errorCode": "INVALID_ARGUMENT" });
            details.insert(0, code);
        }
        let error = json!({
            "code": 400,
            "message": description,
            "status": "INVALID_ARGUMENT",
            "details": details,
        });
        assert_eq!((response.status, response.body), (400, json!({ "error": error })), "{message}");
    }
}

#[tokio::test]
async fn a_right_message_is_accepted() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    let accepted = [
        json!({ "token": "a:b-c_D9" }),
        json!({ "topic": "news" }),
        json!({ "condition": "'a' in topics" }),
        json!({ "token": "a", "data": { "k": "v".repeat(4_095) } }),
        json!({ "token": "a", "android": { "ttl": "2419200s", "priority": "HIGH" } }),
        json!({ "token": "a", "android": { "ttl": "3.5s", "priority": "normal" } }),
        json!({ "token": "a", "android": { "collapseKey": "k", "notification": { "channelId": "c" } } }),
        json!({
            "token": "a",
            "notification": { "title": "t", "body": "b", "image": null },
            "android": { "notification": { "sound": "default", "tag": "t" }, "collapse_key": "k" },
            "apns": { "headers": { "apns-priority": "5" }, "payload": { "aps": {} } },
            "webpush": { "headers": { "TTL": "5" }, "fcm_options": { "link": "https://e.com" } },
            "fcm_options": { "analytics_label": "l" },
        }),
    ];
    for message in accepted {
        let response = client.send(fcm_send(&token, &message)).await.unwrap();
        assert_eq!(response.status, 200, "{message}: {}", response.body);
        let name = response.body["name"].as_str().unwrap();
        assert!(name.starts_with("projects/notify-sandbox/messages/0:"), "{name}");
        let entry = sandbox.received().pop().unwrap();
        assert_eq!(entry.message_id.as_deref(), Some(name));
        assert_eq!(entry.payload, json!({ "message": message }));
        assert_eq!(entry.headers["authorization"], "Bearer ***");
    }
}

#[tokio::test]
async fn validate_only_sends_nothing_but_is_checked() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    let body = json!({ "message": { "token": "a" }, "validate_only": true });
    let response = client.send(fcm_send(&token, &json!({})).json(&body)).await.unwrap();
    let name = json!({ "name": "projects/notify-sandbox/messages/fake_message_id" });
    assert_eq!((response.status, response.body), (200, name));
}

#[tokio::test]
async fn a_wrong_request_is_refused_before_its_message_is_checked() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    let send = || fcm_send(&token, &json!({ "token": "a" }));
    let other_project = "/fcm/v1/projects/other/messages:send";
    let rows = [
        ("no token", send().without("authorization"), 401, "UNAUTHENTICATED"),
        ("a foreign token", send().header("authorization", "Bearer x"), 401, "UNAUTHENTICATED"),
        ("another project", send().path(other_project), 404, "NOT_FOUND"),
        ("no JSON", send().body("{"), 400, "INVALID_ARGUMENT"),
        ("a form", send().header("content-type", "text/plain"), 400, "INVALID_ARGUMENT"),
    ];
    for (name, request, status, canonical) in rows {
        let response = client.send(request).await.unwrap();
        let error = &response.body["error"];
        let answer = (response.status, &error["status"], error.get("details"));
        assert_eq!(answer, (status, &json!(canonical), None), "{name}");
    }
    for path in ["/fcm/v1/projects/notify-sandbox/messages", "/fcm/send", "/fcm"] {
        let response = client.send(send().path(path)).await.unwrap();
        let page = response.header("content-type");
        assert_eq!((response.status, page), (404, Some("text/html; charset=UTF-8")), "{path}");
    }
}

/// A change to the claims, and the error that it causes.
type ClaimsRow = (&'static str, Value, &'static str, &'static str);

const LIFETIME: &str = "Invalid JWT: Token must be a short-lived token (60 minutes) and in a \
     reasonable timeframe. Check your iat and exp values in the JWT claim.";

fn refused_claims() -> Vec<ClaimsRow> {
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
    for (name, changes, error, description) in refused_claims() {
        let mut claims = assertion_claims(&config);
        for (claim, value) in changes.as_object().unwrap() {
            claims[claim] = value.clone();
        }
        let response = client.send(token_request(&assertion(&config, &claims))).await.unwrap();
        let body = json!({ "error": error, "error_description": description });
        assert_eq!((response.status, response.body), (400, body), "{name}");
    }
    assert_eq!(sandbox.received(), [], "token requests are no messages");
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
    sandbox.add_rule(Rule::on(Provider::Oauth, ScriptedResponse::status(503).first(1))).unwrap();
    let good = assertion(&config, &assertion_claims(&config));
    let failed = client.send(token_request(&good)).await.unwrap();
    assert_eq!((failed.status, &failed.body["error"]), (503, &json!("internal_failure")));
    access_token(&sandbox, &mut client).await;
}
