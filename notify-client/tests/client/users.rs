//! Users and segments: the request of each method and its decoded response.

use notify_client::{Error, notify_core::*};
use serde_json::{Value, json};

use crate::common::{Server, line, response, success};

fn user_id() -> UserId {
    UserId::new("a b/ü").unwrap()
}

/// The id of [`user_id`] as a segment of a path.
const USER: &str = "a%20b%2F%C3%BC";

fn user() -> Value {
    json!({
        "user_id": "a b/ü", "attributes": {"plan": "pro", "seats": 3, "trial": false},
        "devices": [{"device_id": "d", "platform": "ios", "enabled": true}],
        "created_at": 1, "updated_at": 2,
    })
}

fn segment_name() -> SegmentName {
    SegmentName::new("50%/new").unwrap()
}

/// The name of [`segment_name`] as a segment of a path.
const SEGMENT: &str = "50%25%2Fnew";

fn segment() -> Value {
    json!({
        "name": "50%/new", "created_at": 1, "updated_at": 2,
        "audience": {"not": {"field": "created_at", "within_days": 30}},
    })
}

#[tokio::test]
async fn users_are_read_and_listed() {
    let server = Server::with_body(user()).await;
    let read = server.client().users().get(&user_id()).await.unwrap();
    server.assert_received(&format!("GET /v1/users/{USER}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), user());
    assert_eq!(read.attributes["seats"], AttributeValue::from(3));

    let server = Server::with_responses(vec![
        response(200, json!({ "users": [user()], "next_cursor": "two" })),
        response(200, json!({ "users": [], "next_cursor": null })),
    ])
    .await;
    let notify = server.client();
    let query = PageQuery { limit: Some(1), cursor: None };
    let mut all = notify.users().all(&query);
    assert_eq!(all.next().await.unwrap().unwrap(), read);
    assert!(all.next().await.is_none());
    let lines: Vec<_> = server.requests().await.iter().map(line).collect();
    assert_eq!(lines, ["GET /v1/users?limit=1", "GET /v1/users?limit=1&cursor=two"]);
}

#[tokio::test]
async fn users_are_changed() {
    for (change, body) in [
        (PatchUser::default(), json!({})),
        (
            PatchUser {
                attributes: Some(
                    PatchAttributes::default().set("plan", "pro").set("trial", true).remove("x"),
                ),
            },
            json!({ "attributes": {"plan": "pro", "trial": true, "x": null} }),
        ),
    ] {
        let server = Server::with_body(user()).await;
        let changed = server.client().users().update(&user_id(), &change).await.unwrap();
        server.assert_received(&format!("PATCH /v1/users/{USER}"), Some(body)).await;
        assert_eq!(changed.devices.len(), 1);
    }
    let server = Server::with_body(user()).await;
    let long = PatchAttributes::default().set("plan", "x".repeat(256));
    let change = PatchUser { attributes: Some(long) };
    let error = server.client().users().update(&user_id(), &change).await.unwrap_err();
    let Error::Invalid(rules) = error else { panic!("{error:?}") };
    assert_eq!(rules.as_slice(), ["attributes.plan: must be at most 255 characters"]);
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn users_are_deleted() {
    let server = Server::with_body(success()).await;
    server.client().users().delete(&user_id()).await.unwrap();
    server.assert_received(&format!("DELETE /v1/users/{USER}"), None).await;

    let server = Server::with_body(success()).await;
    server.client().users().delete_keeping_devices(&user_id()).await.unwrap();
    server.assert_received(&format!("DELETE /v1/users/{USER}?devices=keep"), None).await;
}

/// The server may have executed a request whose response was lost. Every request except a `POST` may be repeated.
#[tokio::test]
async fn changes_are_repeated_after_a_failure() {
    let busy = || response(503, json!({ "errors": ["busy"] }));
    let server = Server::with_responses(vec![busy(), response(200, user())]).await;
    server.client().users().update(&user_id(), &PatchUser::default()).await.unwrap();
    assert_eq!(server.requests().await.len(), 2);

    let server = Server::with_responses(vec![busy(), response(200, segment())]).await;
    let put = PutSegment::new(Audience::tag("vip"));
    server.client().segments().put(&segment_name(), &put).await.unwrap();
    assert_eq!(server.requests().await.len(), 2);

    let missing = || response(404, json!({ "errors": ["not found"] }));
    let server = Server::with_responses(vec![busy(), missing()]).await;
    server.client().users().delete(&user_id()).await.unwrap();
    let server = Server::with_responses(vec![missing()]).await;
    let error = server.client().users().delete(&user_id()).await.unwrap_err();
    assert!(matches!(error, Error::NotFound { .. }), "{error:?}");
}

#[tokio::test]
async fn segments_are_put_read_and_deleted() {
    let path = format!("/v1/segments/{SEGMENT}");
    let server = Server::with_body(segment()).await;
    let audience = Audience::created_at().within_days(30).negate();
    let put = PutSegment::new(audience.clone());
    let stored = server.client().segments().put(&segment_name(), &put).await.unwrap();
    let body = json!({ "audience": segment()["audience"] });
    server.assert_received(&format!("PUT {path}"), Some(body)).await;
    assert_eq!(stored.audience, audience);

    let server = Server::with_body(segment()).await;
    let read = server.client().segments().get(&segment_name()).await.unwrap();
    server.assert_received(&format!("GET {path}"), None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), segment());

    let server = Server::with_body(success()).await;
    server.client().segments().delete(&segment_name()).await.unwrap();
    server.assert_received(&format!("DELETE {path}"), None).await;

    let server = Server::with_body(json!({})).await;
    for name in [".", ".."] {
        let name = SegmentName::new(name).unwrap();
        let error = server.client().segments().get(&name).await.unwrap_err();
        assert!(matches!(error, Error::Invalid(_)), "{error}");
    }
    let nested = PutSegment::new(Audience::segment("other"));
    let error = server.client().segments().put(&segment_name(), &nested).await.unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error}");
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn segments_are_listed() {
    let server = Server::with_body(json!({ "segments": [segment()], "next_cursor": "n" })).await;
    let query = PageQuery { limit: Some(1), cursor: Some("c".into()) };
    let page = server.client().segments().list(&query).await.unwrap();
    server.assert_received("GET /v1/segments?limit=1&cursor=c", None).await;
    assert_eq!((page.segments.len(), page.next_cursor), (1, Some("n".into())));
}

#[tokio::test]
async fn segments_are_previewed() {
    let preview = json!({ "platforms": [{"platform": "ios", "devices": 7, "exact": true}] });
    let server = Server::with_body(preview.clone()).await;
    let segment = PreviewSegment {
        platforms: Some(vec!["ios".into()]),
        ..PreviewSegment::new(Audience::segment("fans"))
    };
    let seen = server.client().segments().preview(&segment).await.unwrap();
    assert_eq!(serde_json::to_value(seen).unwrap(), preview);
    let body = json!({ "audience": {"segment": "fans"}, "platforms": ["ios"] });
    server.assert_received("POST /v1/segments/preview", Some(body)).await;
}
