//! Each method under `/v1`: what it sends, whole, and what it makes of the answer.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{ID, Server, answer};
use notify_client::{EnrichmentAnswer, notify_core::*};
use serde_json::json;

fn done() -> serde_json::Value {
    json!({ "success": true })
}

fn notification_id() -> NotificationId {
    NotificationId::new("mine/1").unwrap()
}

fn device_id() -> DeviceId {
    DeviceId::new("a b/ü").unwrap()
}

/// The device above in a path.
const DEVICE: &str = "a%20b%2F%C3%BC";

fn record() -> serde_json::Value {
    let counts = json!({
        "targeted": 3, "sent": 1, "failed": 1, "unregistered": 0, "expired": 0, "canceled": 0,
        "pending": 1, "unknown": 0, "excluded": 0,
    });
    let mut android = counts.clone();
    android["platform"] = "android".into();
    json!({
        "id": "mine/1", "status": "sending", "origin": "created", "created_at": 1, "send_at": 2,
        "started_at": null, "completed_at": null, "request": {"text": "hi", "z": 1.0, "a": 2},
        "counts": counts, "by_platform": [android],
        "failures": [{"platform": "android", "reason": "r", "count": 1}],
        "engagement": {"received": 1, "opened": 0, "clicked": 0, "dismissed": 0},
        "a_field_of_tomorrow": [1],
    })
}

#[tokio::test]
async fn notifications_are_created() {
    let server = Server::answering(json!({ "id": ID })).await;
    let notification = CreateNotification {
        text: Some("Hello".into()),
        android_device_ids: Some(vec!["a".into()]),
        content: NotificationContent {
            tags: Some(vec!["vip".into()]),
            custom_json_key: Some("order".into()),
            custom_json_value: Some(json::JsonObject::new(r#"{"z":1.50,"a":[]}"#).unwrap()),
            ios_settings: Some(IosSettings { badge: Some(1), sound: "default".into() }),
            ..Default::default()
        },
        ttl_seconds: Some(60),
        ..Default::default()
    };
    let created = server.client().notifications().create(&notification).await.unwrap();
    assert_eq!(created.id.as_str(), ID);
    let body = json!({
        "text": "Hello", "android_device_ids": ["a"], "tags": ["vip"], "custom_json_key": "order",
        "custom_json_value": {"z": 1.5, "a": []}, "ios_settings": {"badge": 1, "sound": "default"},
        "ttl_seconds": 60,
    });
    server.saw("POST /v1/notifications", Some(body)).await;
    let sent = String::from_utf8(server.requests().await.remove(0).body).unwrap();
    assert!(sent.contains(r#"{"z":1.50,"a":[]}"#), "the caller's own object is kept: {sent}");
}

#[tokio::test]
async fn notifications_are_reported() {
    let server = Server::answering(json!({ "id": "mine/1" })).await;
    let report = ReportNotification {
        id: "mine/1".into(),
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..Default::default()
    };
    let created = server.client().notifications().report(&report).await.unwrap();
    assert_eq!(created.id, notification_id());
    let body = json!({ "id": "mine/1", "text": "Hello", "platforms": ["ios"] });
    server.saw("POST /v1/notifications/notify", Some(body)).await;
}

#[tokio::test]
async fn notifications_read_back() {
    let server = Server::answering(record()).await;
    let read = server.client().notifications().get(&notification_id()).await.unwrap();
    server.saw("GET /v1/notifications/mine%2F1", None).await;
    assert_eq!(read.status, NotificationStatus::Sending);
    assert_eq!(read.request.as_str(), r#"{"a":2,"text":"hi","z":1.0}"#);
    assert_eq!(read.by_platform[0].counts, read.counts);
    assert_eq!((read.counts.targeted, read.send_at), (3, Some(Timestamp(2))));

    let server =
        Server::answering(json!({ "notifications": [record()], "next_cursor": null })).await;
    let query = PageQuery { limit: Some(2), cursor: Some("a+b&c".into()) };
    let page = server.client().notifications().list(&query).await.unwrap();
    server.saw("GET /v1/notifications?limit=2&cursor=a%2Bb%26c", None).await;
    assert_eq!((page.notifications, page.next_cursor), (vec![read], None));
}

#[tokio::test]
async fn notifications_are_canceled() {
    let server = Server::answering(done()).await;
    server.client().notifications().cancel(&notification_id()).await.unwrap();
    server.saw("DELETE /v1/notifications/mine%2F1", None).await;
}

fn device() -> serde_json::Value {
    json!({
        "device_id": "a b/ü", "platform": "android", "sdk_type": "android_push",
        "push_token": "t", "push_disabled": false, "ios_env": null, "android_id": null,
        "ad_id": null, "imei": null, "sdk_version": null, "app_version": "1.2", "os_version": null,
        "store_identifier": null, "timezone": null, "country": null, "utc_offset": null,
        "language": "de", "device_description": null,
        "tags": [{"name": "vip", "type": "bool", "value": true}], "enabled": false,
        "disabled_reason": "unregistered", "created_at": 1, "updated_at": 2,
    })
}

#[tokio::test]
async fn devices_are_registered() {
    let server = Server::answering(done()).await;
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
    server.saw("POST /v1/devices", Some(body)).await;
}

#[tokio::test]
async fn devices_read_back() {
    let server = Server::answering(device()).await;
    let read = server.client().devices().get(&device_id()).await.unwrap();
    server.saw(&format!("GET /v1/devices/{DEVICE}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), device());

    let server = Server::answering(json!({ "devices": [device()], "next_cursor": "n" })).await;
    let query = ListDevices {
        limit: Some(1),
        platform: Some(Platform::FbMessenger),
        tag: Some("vip".into()),
        ..Default::default()
    };
    let page = server.client().devices().list(&query).await.unwrap();
    server.saw("GET /v1/devices?limit=1&platform=fb-messenger&tag=vip", None).await;
    assert_eq!((page.devices, page.next_cursor), (vec![read], Some("n".into())));
}

#[tokio::test]
async fn devices_are_walked_page_by_page() {
    let server = Server::giving(vec![
        answer(200, json!({ "devices": [device(), device()], "next_cursor": "two" })),
        answer(200, json!({ "devices": [], "next_cursor": "three" })),
        answer(200, json!({ "devices": [device()], "next_cursor": null })),
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
    let lines: Vec<_> = server.requests().await.iter().map(common::line).collect();
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
async fn a_walk_ends_after_an_error() {
    let server = Server::giving(vec![
        answer(200, json!({ "devices": [device()], "next_cursor": "two" })),
        answer(400, json!({ "errors": ["cursor: is not one"] })),
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
    let server = Server::answering(done()).await;
    server.client().devices().delete(&device_id()).await.unwrap();
    server.saw(&format!("DELETE /v1/devices/{DEVICE}"), None).await;

    let server = Server::answering(done()).await;
    let vip = Tag { name: "vip".into(), kind: TagType::Bool, value: true };
    let tags = SetTags { tags: vec![vip] };
    server.client().devices().set_tags(&device_id(), &tags).await.unwrap();
    let body = json!({ "tags": [{"name": "vip", "type": "bool", "value": true}] });
    server.saw(&format!("POST /v1/devices/{DEVICE}/tags"), Some(body)).await;

    let server = Server::answering(done()).await;
    server.client().devices().remove_tag(&device_id(), "50%/x").await.unwrap();
    server.saw(&format!("DELETE /v1/devices/{DEVICE}/tags/50%25%2Fx"), None).await;

    let server = Server::answering(done()).await;
    for name in ["", ".", ".."] {
        let error = server.client().devices().remove_tag(&device_id(), name).await.unwrap_err();
        assert!(matches!(error, notify_client::Error::Invalid(_)), "{error}");
    }
    assert!(server.requests().await.is_empty());
}

#[tokio::test]
async fn subscriptions_are_created() {
    let server = Server::answering(json!({ "id": "d" })).await;
    let chat = Subscribe {
        platform: "chatapp".into(),
        recipient_id: Some("4711".into()),
        language: Some("en".into()),
        ..Default::default()
    };
    let created = server.client().subscriptions().create(&chat).await.unwrap();
    assert_eq!(created.id.as_str(), "d");
    let body = json!({ "platform": "chatapp", "recipient_id": "4711", "language": "en" });
    server.saw("POST /v1/subscriptions", Some(body)).await;
}

#[tokio::test]
async fn tags_are_listed() {
    let tags =
        json!({ "tags": [{"name": "vip", "type": "bool", "devices": 7}], "next_cursor": null });
    let server = Server::answering(tags.clone()).await;
    let listed = server.client().tags().list(&PageQuery::default()).await.unwrap();
    server.saw("GET /v1/tags", None).await;
    assert_eq!(serde_json::to_value(listed).unwrap(), tags);
}

fn template() -> Template {
    Template {
        name: "spring".into(),
        layout_id: "content_with_two".into(),
        settings: Some(TemplateSettings { small_view: Some(false), ..Default::default() }),
        features: vec![Feature {
            position: 1,
            data: FeatureData::ActionButton(TemplateButton {
                kind: "url".into(),
                url: Some("shop://sale".into()),
                data: Some(json::JsonObject::new(r#"{"n":1.0}"#).unwrap()),
                ..Default::default()
            }),
        }],
        ..Default::default()
    }
}

fn template_body() -> serde_json::Value {
    json!({
        "name": "spring", "layout_id": "content_with_two", "settings": {"small_view": false},
        "features": [{
            "position": 1, "type": "action_button",
            "data": {"type": "url", "url": "shop://sale", "data": {"n": 1.0}},
        }],
    })
}

fn campaign() -> serde_json::Value {
    json!({ "id": ID, "name": "spring", "status": "active", "is_default": false, "created_at": 5 })
}

fn campaign_id() -> CampaignId {
    ID.parse().unwrap()
}

#[tokio::test]
async fn campaigns_are_created_replaced_and_deleted() {
    let server = Server::answering(json!({ "id": ID })).await;
    let created = server.client().campaigns().create(&template()).await.unwrap();
    assert_eq!(created.id, campaign_id());
    server.saw("POST /v1/campaigns", Some(template_body())).await;

    let server = Server::answering(done()).await;
    server.client().campaigns().replace(campaign_id(), &template()).await.unwrap();
    server.saw(&format!("PUT /v1/campaigns/{ID}"), Some(template_body())).await;

    let server = Server::answering(done()).await;
    let campaigns = server.client();
    campaigns.campaigns().set_status(campaign_id(), CampaignStatus::Disabled).await.unwrap();
    let body = json!({ "status": "disabled" });
    server.saw(&format!("PUT /v1/campaigns/{ID}/status"), Some(body)).await;

    let server = Server::answering(done()).await;
    server.client().campaigns().delete(campaign_id()).await.unwrap();
    server.saw(&format!("DELETE /v1/campaigns/{ID}"), None).await;
}

#[tokio::test]
async fn campaigns_read_back() {
    let server = Server::answering(json!({ "campaigns": [campaign()] })).await;
    let query = ListCampaigns {
        offset: Some(3),
        limit: Some(2),
        name: Some("50 %".into()),
        status: Some("all".into()),
    };
    let page = server.client().campaigns().list(&query).await.unwrap();
    server.saw("GET /v1/campaigns?offset=3&limit=2&name=50+%25&status=all", None).await;
    assert_eq!(serde_json::to_value(&page.campaigns).unwrap(), json!([campaign()]));

    let mut body = campaign();
    body["template"] = json!({
        "name": "spring", "layout_id": "content_with_two",
        "settings": {
            "big_share_button": true, "small_view": false, "build_without_image": true,
            "small_share_button": true, "drag_to_expand": false,
        },
        "strings": [], "is_default": false,
        "features": [{
            "position": 1, "type": "action_button",
            "data": {"type": "url", "url": "shop://sale", "data": {"n": 1.0}},
        }],
    });
    let server = Server::answering(body.clone()).await;
    let read = server.client().campaigns().get(campaign_id()).await.unwrap();
    server.saw(&format!("GET /v1/campaigns/{ID}"), None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), body);
}

#[tokio::test]
async fn feeds_are_created_listed_and_deleted() {
    let server = Server::answering(json!({ "id": ID })).await;
    let news = CreateFeed { url: "https://example.com/rss".into(), name: "News".into() };
    let created = server.client().feeds().create(&news).await.unwrap();
    assert_eq!(created.id.to_string(), ID);
    let body = json!({ "url": "https://example.com/rss", "name": "News" });
    server.saw("POST /v1/feeds", Some(body)).await;

    let feed = json!({
        "id": ID, "name": "News", "url": "https://example.com/rss", "status": "failing",
        "items": 3, "last_fetched_at": 9, "last_error": "timed out", "created_at": 1,
    });
    let server = Server::answering(json!({ "feeds": [feed], "next_cursor": null })).await;
    let listed = server.client().feeds().list(&PageQuery::default()).await.unwrap();
    server.saw("GET /v1/feeds", None).await;
    assert_eq!(serde_json::to_value(listed.feeds).unwrap(), json!([feed]));

    let server = Server::answering(done()).await;
    server.client().feeds().delete(created.id).await.unwrap();
    server.saw(&format!("DELETE /v1/feeds/{ID}"), None).await;
}

#[tokio::test]
async fn polls_are_read_and_answered() {
    let poll = json!({
        "id": ID, "text": "Tea?", "url": "http://a/polls/x", "layout_id": "poll_text",
        "lang": "en", "created_at": 1,
        "answers": [{"id": ID, "text": "Yes", "image_url": "", "percentage": 66.67, "clicks": 2}],
    });
    let server = Server::answering(poll.clone()).await;
    let read = server.client().polls().get(&NotificationId::new(ID).unwrap()).await.unwrap();
    server.saw(&format!("GET /v1/polls/{ID}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), poll);

    let server = Server::answering(done()).await;
    let by = AnswerPoll { device_id: Some("a".into()) };
    server.client().polls().answer(&read.id, read.answers[0].id, &by).await.unwrap();
    let line = format!("POST /v1/polls/{ID}/answers/{ID}");
    server.saw(&line, Some(json!({ "device_id": "a" }))).await;
}

#[tokio::test]
async fn events_are_reported() {
    let accepted = json!({ "accepted": 1, "ignored": [{"index": 1, "reason": "unknown device"}] });
    let server = Server::answering(accepted.clone()).await;
    let event = ReportEvent {
        kind: "opened".into(),
        notification_id: "n".into(),
        device_id: "d".into(),
        at: Some(Timestamp(7)),
    };
    let events = ReportEvents { events: vec![event.clone(), ReportEvent { at: None, ..event }] };
    let answer = server.client().events().report(&events).await.unwrap();
    assert_eq!(serde_json::to_value(answer).unwrap(), accepted);
    let body = json!({ "events": [
        {"type": "opened", "notification_id": "n", "device_id": "d", "at": 7},
        {"type": "opened", "notification_id": "n", "device_id": "d"},
    ] });
    server.saw("POST /v1/events", Some(body)).await;
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
    let server = Server::answering(statistics.clone()).await;
    let period =
        DeviceStatisticsQuery { date_from: Some(Timestamp(1)), date_to: Some(Timestamp(2)) };
    let read = server.client().statistics().devices(&period).await.unwrap();
    server.saw("GET /v1/statistics/devices?date_from=1&date_to=2", None).await;
    assert_eq!(serde_json::to_value(read).unwrap(), statistics);
}

#[tokio::test]
async fn enrichments_are_read_once_per_version() {
    let enrichment = json!({
        "campaign_id": ID, "layout_id": "content_with_two",
        "settings": {
            "big_share_button": true, "small_view": true, "build_without_image": true,
            "small_share_button": true, "drag_to_expand": false,
        },
        "strings": {"share_prefix": "Look:"},
        "features": [{
            "position": 1, "type": "content_feed",
            "data": {
                "items": [{
                    "title": "T", "url": "https://e/1", "image_url": null, "published_at": 4,
                    "source": "News", "is_external": false,
                }],
                "view_ext_on_browser": false, "recommendations_title": true,
            },
        }],
    });
    let server =
        Server::giving(vec![answer(200, enrichment.clone()).insert_header("etag", "\"v1\"")]).await;
    let query = EnrichmentQuery {
        notification_id: Some("mine/1".into()),
        device_id: Some("a b/ü".into()),
    };
    let read = server.client().enrichments().get(CampaignRef::Default, &query, None).await.unwrap();
    let line = "GET /v1/enrichments/default?notification_id=mine%2F1&device_id=a+b%2F%C3%BC";
    server.saw(line, None).await;
    let EnrichmentAnswer::Fresh { enrichment: fresh, etag } = read else {
        panic!("it is fresh: {read:?}");
    };
    assert_eq!(serde_json::to_value(fresh).unwrap(), enrichment);

    let server = Server::giving(vec![wiremock::ResponseTemplate::new(304)]).await;
    let query = EnrichmentQuery::default();
    let campaign = CampaignRef::Id(campaign_id());
    let read = server.client().enrichments().get(campaign, &query, etag.as_deref()).await.unwrap();
    assert_eq!(read, EnrichmentAnswer::NotModified);
    server.saw(&format!("GET /v1/enrichments/{ID}"), None).await;
    assert_eq!(common::header(&server.requests().await[0], "if-none-match"), Some("\"v1\""));
}
