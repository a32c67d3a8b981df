//! Devices, tags, subscriptions and statistics: the request of each method and its decoded response.

use notify_client::notify_core::*;
use serde_json::json;

use crate::common::{Server, device_id, response, success};

/// The id of [`device_id`] as a segment of a path.
const DEVICE: &str = "a%20b%2F%C3%BC";

fn device() -> serde_json::Value {
    json!({
        "device_id": "a b/ü", "platform": "android", "sdk_type": "android_push",
        "push_token": "t", "push_disabled": false, "ios_env": null, "android_id": null,
        "ad_id": null, "imei": null, "sdk_version": null, "app_version": "1.2", "os_version": null,
        "store_identifier": null, "timezone": null, "country": null, "utc_offset": null,
        "language": "de", "device_description": null,
        "tags": [{"name": "vip", "type": "bool", "value": true}], "user_id": "user-7",
        "attributes": {"plan": "pro", "seats": 3, "trial": false}, "enabled": false,
        "disabled_reason": "unregistered", "created_at": 1, "updated_at": 2,
    })
}

#[tokio::test]
async fn devices_are_registered() {
    let server = Server::with_body(success()).await;
    let register = RegisterDevice {
        device_id: "a b/ü".into(),
        platform: "ios".into(),
        sdk_type: "ios_push".into(),
        push_disabled: Some(true),
        ios_env: Some("sandbox".into()),
        ..Default::default()
    };
    server.client().devices().register(&register).await.unwrap();
    let body = json!({
        "device_id": "a b/ü", "platform": "ios", "sdk_type": "ios_push", "push_disabled": true,
        "ios_env": "sandbox",
    });
    server.assert_received("POST /v1/devices", Some(body)).await;
}

#[tokio::test]
async fn devices_are_read_and_listed() {
    let server = Server::with_body(device()).await;
    let read = server.client().devices().get(&device_id()).await.unwrap();
    server.assert_received(&format!("GET /v1/devices/{DEVICE}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), device());

    let server = Server::with_body(json!({ "devices": [device()], "next_cursor": "n" })).await;
    let query = ListDevices {
        limit: Some(1),
        platform: Some(Platform::FbMessenger),
        tag: Some("vip".into()),
        state: Some(DeviceState::Unregistered),
        push_token: Some("a+b".into()),
        ..Default::default()
    };
    let page = server.client().devices().list(&query).await.unwrap();
    let filters = "platform=fb-messenger&tag=vip&state=unregistered&push_token=a%2Bb";
    server.assert_received(&format!("GET /v1/devices?limit=1&{filters}"), None).await;
    assert_eq!((page.devices, page.next_cursor), (vec![read], Some("n".into())));

    let server = Server::with_body(json!({ "devices": [], "next_cursor": null })).await;
    let query = ListDevices {
        segment: Some("a b".into()),
        user_id: Some("user/7".into()),
        ..Default::default()
    };
    server.client().devices().list(&query).await.unwrap();
    server.assert_received("GET /v1/devices?segment=a+b&user_id=user%2F7", None).await;
}

#[tokio::test]
async fn all_devices_are_fetched_page_by_page() {
    let server = Server::with_responses(vec![
        response(200, json!({ "devices": [device(), device()], "next_cursor": "two" })),
        response(200, json!({ "devices": [], "next_cursor": "three" })),
        response(200, json!({ "devices": [device()], "next_cursor": null })),
    ])
    .await;
    let notify = server.client();
    let query = ListDevices { tag: Some("vip".into()), ..Default::default() };
    let mut all = notify.devices().all(&query);
    let mut count = 0;
    while let Some(device) = all.next().await {
        assert_eq!(device.unwrap().device_id, device_id());
        count += 1;
    }
    assert_eq!(count, 3);
    assert!(all.next().await.is_none());
    let lines: Vec<_> = server.requests().await.iter().map(crate::common::line).collect();
    assert_eq!(
        lines,
        [
            "GET /v1/devices?tag=vip",
            "GET /v1/devices?tag=vip&cursor=two",
            "GET /v1/devices?tag=vip&cursor=three",
        ]
    );
}

#[tokio::test]
async fn iteration_ends_after_an_error() {
    let server = Server::with_responses(vec![
        response(200, json!({ "devices": [device()], "next_cursor": "two" })),
        response(400, json!({ "errors": ["cursor: is not one"] })),
    ])
    .await;
    let notify = server.client();
    let mut all = notify.devices().all(&ListDevices::default());
    assert!(all.next().await.unwrap().is_ok());
    assert_eq!(all.next().await.unwrap().unwrap_err().status(), Some(400));
    assert!(all.next().await.is_none());
}

#[tokio::test]
async fn devices_are_deleted_and_tagged() {
    let server = Server::with_body(success()).await;
    server.client().devices().delete(&device_id()).await.unwrap();
    server.assert_received(&format!("DELETE /v1/devices/{DEVICE}"), None).await;

    let server = Server::with_body(success()).await;
    let vip = Tag { name: "vip".into(), kind: TagType::Bool, value: true };
    let tags = SetTags { tags: vec![vip] };
    server.client().devices().set_tags(&device_id(), &tags).await.unwrap();
    let body = json!({ "tags": [{"name": "vip", "type": "bool", "value": true}] });
    server.assert_received(&format!("POST /v1/devices/{DEVICE}/tags"), Some(body)).await;

    let server = Server::with_body(success()).await;
    server.client().devices().remove_tag(&device_id(), "50%/x").await.unwrap();
    server.assert_received(&format!("DELETE /v1/devices/{DEVICE}/tags/50%25%2Fx"), None).await;

    let server = Server::with_body(success()).await;
    for name in ["", ".", ".."] {
        let error = server.client().devices().remove_tag(&device_id(), name).await.unwrap_err();
        assert!(matches!(error, notify_client::Error::Invalid(_)), "{error}");
    }
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn devices_are_logged_in_and_out() {
    let server = Server::with_body(success()).await;
    server.client().devices().log_in(&device_id(), &UserId::new("u/7").unwrap()).await.unwrap();
    let body = json!({ "user_id": "u/7" });
    server.assert_received(&format!("PUT /v1/devices/{DEVICE}/user"), Some(body)).await;

    let server = Server::with_body(success()).await;
    server.client().devices().log_out(&device_id()).await.unwrap();
    server.assert_received(&format!("DELETE /v1/devices/{DEVICE}/user"), None).await;
}

/// A 404 means that there is no such device, and not that an earlier attempt has logged it out.
#[tokio::test]
async fn a_retried_log_out_of_an_unknown_device_is_an_error() {
    let busy = response(503, json!({ "errors": ["busy"] }));
    let missing = response(404, json!({ "errors": ["not found"] }));
    let server = Server::with_responses(vec![busy, missing]).await;
    let error = server.client().devices().log_out(&device_id()).await.unwrap_err();
    assert!(matches!(error, notify_client::Error::NotFound { .. }), "{error:?}");
    assert_eq!(server.requests().await.len(), 2);
}

#[tokio::test]
async fn attributes_of_devices_are_changed() {
    let server = Server::with_body(success()).await;
    let change = PatchAttributes::default().set("plan", "pro").set("seats", 3).remove("trial");
    server.client().devices().update_attributes(&device_id(), &change).await.unwrap();
    let body = json!({ "plan": "pro", "seats": 3, "trial": null });
    let line = format!("PATCH /v1/devices/{DEVICE}/attributes");
    server.assert_received(&line, Some(body)).await;

    let server = Server::with_body(success()).await;
    let wrong = PatchAttributes::default().set("Plan", "pro");
    let error = server.client().devices().update_attributes(&device_id(), &wrong).await;
    assert!(matches!(error, Err(notify_client::Error::Invalid(_))), "{error:?}");
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn subscriptions_are_created() {
    let server = Server::with_body(json!({ "id": "d" })).await;
    let chat = Subscribe {
        platform: "chatapp".into(),
        recipient_id: Some("4711".into()),
        language: Some("en".into()),
        ..Default::default()
    };
    let created = server.client().subscriptions().create(&chat).await.unwrap();
    assert_eq!(created.id.as_str(), "d");
    let body = json!({ "platform": "chatapp", "recipient_id": "4711", "language": "en" });
    server.assert_received("POST /v1/subscriptions", Some(body)).await;
}

#[tokio::test]
async fn tags_are_listed() {
    let tags =
        json!({ "tags": [{"name": "vip", "type": "bool", "devices": 7}], "next_cursor": null });
    let server = Server::with_body(tags.clone()).await;
    let listed = server.client().tags().list(&PageQuery::default()).await.unwrap();
    server.assert_received("GET /v1/tags", None).await;
    assert_eq!(serde_json::to_value(listed).unwrap(), tags);
}

#[tokio::test]
async fn statistics_are_read() {
    let statistics = json!({
        "platforms": [{
            "platform": "ios", "enabled_count": 1, "disabled_count": 2, "total_count": 3,
            "total_enabled_percentage": 100.0, "total_disabled_percentage": 100.0,
            "enabled_percentage": 33.33, "disabled_percentage": 66.67,
        }],
        "total_enabled": 1, "total_disabled": 2, "total": 3,
    });
    let server = Server::with_body(statistics.clone()).await;
    let period =
        DeviceStatisticsQuery { date_from: Some(Timestamp(1)), date_to: Some(Timestamp(2)) };
    let read = server.client().statistics().devices(&period).await.unwrap();
    server.assert_received("GET /v1/statistics/devices?date_from=1&date_to=2", None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), statistics);

    let statistics = json!({
        "days": [{"date": 0, "sent": 5, "failed": 6, "unregistered": 7, "expired": 8, "received": 4,
            "opened": 3, "clicked": 2, "dismissed": 1}],
        "total_sent": 5, "total_failed": 6, "total_unregistered": 7, "total_expired": 8,
        "total_received": 4, "total_opened": 3, "total_clicked": 2,
        "total_dismissed": 1,
    });
    let server = Server::with_body(statistics.clone()).await;
    let period = NotificationStatisticsQuery { date_from: None, date_to: Some(Timestamp(2)) };
    let read = server.client().statistics().notifications(&period).await.unwrap();
    server.assert_received("GET /v1/statistics/notifications?date_to=2", None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), statistics);
}
