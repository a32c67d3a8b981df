//! Every refusal of APNs that a request can cause.

use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use super::client::{Client, Request};
use super::{DEVICE, NOW_S, apns_jwt, push, push_to, start};
use crate::Environment;
use crate::state::TokenInfo;

type Change = fn(Request) -> Request;

const REFUSED: &[(&str, Change, u16, &str)] = &[
    ("another method", |r| r.method(Method::PUT), 405, "MethodNotAllowed"),
    ("another path", |r| r.path("/apns/4/device/00ff"), 404, "BadPath"),
    ("no path", |r| r.path("/apns"), 404, "BadPath"),
    ("no token", |r| r.path("/apns/3/device/"), 400, "MissingDeviceToken"),
    ("an odd token", |r| r.path("/apns/3/device/00f"), 400, "BadDeviceToken"),
    ("a token that is no hex", |r| r.path("/apns/3/device/00fg"), 400, "BadDeviceToken"),
    ("no provider token", |r| r.without("authorization"), 403, "MissingProviderToken"),
    ("no JWT", |r| r.header("authorization", "bearer x"), 403, "InvalidProviderToken"),
    ("no bearer", |r| r.header("authorization", "basic eDp5"), 403, "InvalidProviderToken"),
    ("a header twice", |r| r.also("apns-priority", "5"), 400, "DuplicateHeaders"),
    ("no topic", |r| r.without("apns-topic"), 400, "MissingTopic"),
    ("a topic with a blank", |r| r.header("apns-topic", "com.example notify"), 400, "BadTopic"),
    ("a foreign topic", |r| r.header("apns-topic", "com.example.other"), 400, "TopicDisallowed"),
    ("a push type", |r| r.header("apns-push-type", "banner"), 400, "InvalidPushType"),
    ("voip on the app's topic", |r| r.header("apns-push-type", "voip"), 400, "InvalidPushType"),
    ("priority 7", |r| r.header("apns-priority", "7"), 400, "BadPriority"),
    ("background at 10", |r| r.header("apns-push-type", "background"), 400, "BadPriority"),
    ("an expiration", |r| r.header("apns-expiration", "soon"), 400, "BadExpirationDate"),
    ("a negative one", |r| r.header("apns-expiration", "-1"), 400, "BadExpirationDate"),
    ("65 bytes", |r| r.header("apns-collapse-id", &"c".repeat(65)), 400, "BadCollapseId"),
    ("an id", |r| r.header("apns-id", "1"), 400, "BadMessageId"),
    (
        "an id in upper case",
        |r| r.header("apns-id", "123E4567-E89B-12D3-A456-426655440000"),
        400,
        "BadMessageId",
    ),
    ("no payload", |r| r.body(""), 400, "PayloadEmpty"),
    ("no JSON", |r| r.body("{"), 400, "PayloadEmpty"),
    ("no aps", |r| r.json(&json!({ "alert": "hello" })), 400, "PayloadEmpty"),
    ("aps that is no object", |r| r.json(&json!({ "aps": "hello" })), 400, "PayloadEmpty"),
    ("4,097 bytes", |r| r.json(&sized(4_097)), 413, "PayloadTooLarge"),
];

const ACCEPTED: &[(&str, Change)] = &[
    ("as it is", |r| r),
    ("4,096 bytes", |r| r.json(&sized(4_096))),
    ("voip of 5,120 bytes", |r| {
        r.header("apns-push-type", "voip")
            .header("apns-topic", "com.example.notify.voip")
            .json(&sized(5_120))
    }),
    ("background at 5", |r| r.header("apns-push-type", "background").header("apns-priority", "5")),
    ("no push type, no priority", |r| r.without("apns-push-type").without("apns-priority")),
    ("64 bytes", |r| r.header("apns-collapse-id", &"c".repeat(64))),
    ("expiration 0", |r| r.header("apns-expiration", "0")),
    ("a token in upper case", |r| r.path(&format!("/apns/3/device/{}", DEVICE.to_uppercase()))),
];

/// A payload of exactly this many bytes.
fn sized(bytes: usize) -> Value {
    let empty = json!({ "aps": { "alert": "" } }).to_string().len();
    json!({ "aps": { "alert": "x".repeat(bytes - empty) } })
}

#[tokio::test]
async fn each_wrong_request_is_refused_with_its_reason() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    for (name, change, status, reason) in REFUSED {
        let response = client.send(change(push(&sandbox))).await.unwrap();
        let answer = (response.status, &response.body);
        assert_eq!(answer, (*status, &json!({ "reason": reason })), "{name}");
        assert_eq!(response.header("apns-id").unwrap().len(), 36, "{name}");
    }
    let reasons: Vec<_> =
        sandbox.received().into_iter().map(|entry| entry.reason.unwrap()).collect();
    assert_eq!(reasons, REFUSED.iter().map(|row| row.3.to_owned()).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_right_request_is_accepted() {
    let (sandbox, _) = start().await;
    for (name, change) in ACCEPTED {
        let mut client = Client::connect(&sandbox).await;
        let response = client.send(change(push(&sandbox))).await.unwrap();
        assert_eq!((response.status, &response.body), (200, &json!("")), "{name}");
        assert_eq!(response.header("apns-id"), Some("123e4567-e89b-12d3-a456-426655440000"));
        assert_eq!(response.header("apns-unique-id"), None);
    }
}

#[tokio::test]
async fn the_development_host_sends_a_unique_id() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let request = push(&sandbox).path(&format!("/apns-sandbox/3/device/{DEVICE}"));
    let response = client.send(request.without("apns-id")).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(response.header("apns-unique-id").unwrap().len(), 36);
    let entry = &sandbox.received()[0];
    assert_eq!(entry.environment, Some(Environment::Sandbox));
    assert_eq!(entry.message_id.as_deref(), response.header("apns-id"));
}

#[tokio::test]
async fn a_provider_token_counts_from_its_key_team_and_age() {
    let (sandbox, _) = start().await;
    let (own, other) = (sandbox.apns_config(), sandbox.second_apns_config());
    let mut wrong_team = own.clone();
    wrong_team["team_id"] = other["team_id"].clone();
    let mut wrong_key = own.clone();
    wrong_key["private_key"] = other["private_key"].clone();
    let mut unknown_key = own.clone();
    unknown_key["key_id"] = json!("ABCDEFGHIJ");
    let mut tampered = apns_jwt(&own, 0);
    let middle = tampered.find('.').unwrap() + 4;
    tampered.replace_range(middle..=middle, "_");
    let rows = [
        ("fresh", apns_jwt(&own, 0), None),
        ("an hour old", apns_jwt(&own, -3_600), None),
        ("older", apns_jwt(&own, -3_601), Some("ExpiredProviderToken")),
        ("from the future", apns_jwt(&own, 120), Some("InvalidProviderToken")),
        ("of another team", apns_jwt(&wrong_team, 0), Some("InvalidProviderToken")),
        ("signed by another key", apns_jwt(&wrong_key, 0), Some("InvalidProviderToken")),
        ("of an unknown key", apns_jwt(&unknown_key, 0), Some("InvalidProviderToken")),
        ("tampered with", tampered, Some("InvalidProviderToken")),
        ("of the second team", apns_jwt(&other, 0), None),
    ];
    for (name, token, reason) in rows {
        let mut client = Client::connect(&sandbox).await;
        let request = push(&sandbox).header("authorization", &format!("bearer {token}"));
        let response = client.send(request).await.unwrap();
        let (status, body) = match reason {
            None => (200, json!("")),
            Some(reason) => (403, json!({ "reason": reason })),
        };
        assert_eq!((response.status, response.body), (status, body), "{name}");
    }
}

#[tokio::test]
async fn a_token_expires_on_an_open_connection_and_is_renewed_every_20_minutes_at_most() {
    let (sandbox, clock) = start().await;
    let config = sandbox.apns_config();
    let mut client = Client::connect(&sandbox).await;
    let with = |issued_in_s| {
        let token = apns_jwt(&config, issued_in_s);
        push(&sandbox).header("authorization", &format!("bearer {token}"))
    };
    let first = with(0);
    assert_eq!(client.send(first.clone()).await.unwrap().status, 200);

    clock.advance(Duration::from_secs(1_199));
    let early = client.send(with(1_199)).await.unwrap();
    let body = json!({ "reason": "TooManyProviderTokenUpdates" });
    assert_eq!((early.status, early.body), (429, body));
    assert_eq!(client.send(first.clone()).await.unwrap().status, 200);

    clock.advance(Duration::from_secs(1));
    assert_eq!(client.send(with(1_200)).await.unwrap().status, 200);
    assert_eq!(client.send(first.clone()).await.unwrap().status, 200, "still in flight");

    clock.advance(Duration::from_secs(2_401));
    let late = client.send(first).await.unwrap();
    assert_eq!((late.status, late.body), (403, json!({ "reason": "ExpiredProviderToken" })));
}

#[tokio::test]
async fn a_connection_is_bound_to_its_first_key_and_app() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    let foreign = apns_jwt(&sandbox.second_apns_config(), 0);
    let rows = [
        push(&sandbox).header("authorization", &format!("bearer {foreign}")),
        push(&sandbox).header("apns-topic", "com.example.second"),
    ];
    for request in rows {
        let response = client.send(request).await.unwrap();
        let body = json!({ "reason": "UnrelatedKeyIdInToken" });
        assert_eq!((response.status, response.body), (403, body));
    }
}

#[tokio::test]
async fn a_declared_token_belongs_to_one_host_and_one_app() {
    let (sandbox, _) = start().await;
    let info = TokenInfo { environment: Some(Environment::Sandbox), topic: None };
    sandbox.state.set_token_info("00aa", info);
    let info = TokenInfo { environment: None, topic: Some("com.example.second".to_owned()) };
    sandbox.state.set_token_info("00bb", info);
    let mut client = Client::connect(&sandbox).await;

    let wrong_host = client.send(push_to(&sandbox, "00aa")).await.unwrap();
    assert_eq!(wrong_host.body, json!({ "reason": "BadDeviceToken" }));
    let right_host = push(&sandbox).path("/apns-sandbox/3/device/00aa");
    assert_eq!(client.send(right_host).await.unwrap().status, 200);
    let wrong_app = client.send(push_to(&sandbox, "00bb")).await.unwrap();
    assert_eq!(wrong_app.body, json!({ "reason": "DeviceTokenNotForTopic" }));
}

#[tokio::test]
async fn the_log_holds_the_message_and_no_credential() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    client.send(push(&sandbox)).await.unwrap();
    let log = serde_json::to_value(sandbox.wait_for(1, super::WITHIN).await).unwrap();
    let expected = json!([{
        "at_ms": NOW_S * 1_000,
        "provider": "apns",
        "environment": "production",
        "token": DEVICE,
        "headers": {
            "authorization": "bearer ***",
            "apns-topic": "com.example.notify",
            "apns-push-type": "alert",
            "apns-priority": "10",
            "apns-id": "123e4567-e89b-12d3-a456-426655440000",
        },
        "payload": { "aps": { "alert": { "body": "hello" } }, "url": "https://example.com" },
        "status": 200,
        "reason": null,
        "message_id": "123e4567-e89b-12d3-a456-426655440000",
        "connection": 1,
        "stream": 1,
        "is_by_ending": false,
    }]);
    assert_eq!(log, expected);
}
