//! The blocking client: the same requests, retries and errors, without a Tokio runtime.

use crate::common::{ID, Server, header, response};
use notify_client::{Error, blocking::Client, notify_core::*};
use serde_json::json;

/// Runs blocking calls on another thread than the mock server.
async fn blocking<T: Send + 'static>(
    server: &Server,
    run: impl FnOnce(Client) -> T + Send + 'static,
) -> T {
    let builder = server.configure(Client::builder(&server.0.uri()));
    tokio::task::spawn_blocking(move || run(builder.build().unwrap())).await.unwrap()
}

fn pixel() -> RegisterDevice {
    RegisterDevice {
        device_id: "pixel".into(),
        platform: "android".into(),
        sdk_type: "android_push".into(),
        ..Default::default()
    }
}

#[tokio::test]
async fn a_call_sends_the_same_request() {
    let server = Server::with_body(json!({ "success": true })).await;
    blocking(&server, |notify| notify.devices().register(&pixel())).await.unwrap();
    let body = json!({ "device_id": "pixel", "platform": "android", "sdk_type": "android_push" });
    server.assert_received("POST /v1/devices", Some(body)).await;
}

#[tokio::test]
async fn a_retry_carries_the_same_idempotency_key() {
    let server = Server::with_responses(vec![
        response(503, json!({ "errors": ["busy"] })),
        response(200, json!({ "success": true })),
    ])
    .await;
    blocking(&server, |notify| notify.devices().register(&pixel())).await.unwrap();
    let requests = server.requests().await;
    assert_eq!(requests.len(), 2);
    let key = header(&requests[0], "idempotency-key");
    assert!(key.is_some());
    assert_eq!(header(&requests[1], "idempotency-key"), key);
}

#[tokio::test]
async fn failures_have_the_same_errors() {
    let server = Server::with_responses(vec![response(400, json!({ "errors": ["no"] }))]).await;
    let error = blocking(&server, |notify| notify.devices().register(&pixel())).await.unwrap_err();
    assert!(matches!(error, Error::Rejected { status: 400, .. }), "{error:?}");

    let server = Server::with_body(json!({})).await;
    let error = blocking(&server, |notify| {
        notify.devices().register(&RegisterDevice { sdk_type: "ios_push".into(), ..pixel() })
    })
    .await
    .unwrap_err();
    assert!(matches!(error, Error::Invalid(_)), "{error:?}");
    assert!(server.requests().await.is_empty());

    let late = response(200, json!({})).set_delay(std::time::Duration::from_secs(600));
    let server = Server::with_responses(vec![late]).await;
    let builder = server.configure(Client::builder(&server.0.uri())).retries(0);
    let builder = builder.timeout(std::time::Duration::from_millis(50));
    let error = tokio::task::spawn_blocking(move || {
        builder.build().unwrap().admin().list_apps(&PageQuery::default()).unwrap_err()
    })
    .await
    .unwrap();
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}

#[tokio::test]
async fn listings_are_iterators() {
    let tag = |name| json!({ "name": name, "type": "bool", "devices": 1 });
    let server = Server::with_responses(vec![
        response(200, json!({ "tags": [tag("a")], "next_cursor": "n" })),
        response(200, json!({ "tags": [tag("b")], "next_cursor": null })),
    ])
    .await;
    let names: Result<Vec<_>, _> = blocking(&server, |notify| {
        notify.tags().all(&PageQuery::default()).map(|tag| Ok::<_, Error>(tag?.name)).collect()
    })
    .await;
    assert_eq!(names.unwrap(), ["a", "b"]);
}

#[tokio::test]
async fn a_created_key_is_returned() {
    let server = Server::with_body(json!({ "id": ID, "api_key": "nk_new" })).await;
    let app: AppId = ID.parse().unwrap();
    let key =
        blocking(&server, move |notify| notify.admin().create_key(app, &CreateKey::default()))
            .await
            .unwrap();
    assert_eq!(key.api_key, "nk_new");
    server.assert_received(&format!("POST /admin/v1/apps/{ID}/keys"), Some(json!({}))).await;
}
