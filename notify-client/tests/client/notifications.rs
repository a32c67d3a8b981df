//! Notifications, their polls and events: the request of each method and its decoded response.

use notify_client::notify_core::*;
use serde_json::json;

use crate::common::{ID, Server, notification_id, response, success};

fn record() -> serde_json::Value {
    let counts = json!({
        "targeted": 3, "sent": 1, "failed": 1, "unregistered": 0, "expired": 0, "canceled": 0,
        "pending": 1, "unknown": 0, "excluded": 0,
    });
    let mut android = counts.clone();
    android["platform"] = "android".into();
    json!({
        "id": "mine/1", "status": "sending", "origin": "created", "created_at": 1, "send_at": 2,
        "started_at": null, "completed_at": null,
        "paused": {"at": 3, "reason": "requested"}, "request": {"text": "hi", "z": 1.0, "a": 2},
        "counts": counts, "by_platform": [android],
        "failures": [{"platform": "android", "reason": "r", "count": 1}],
        "audience": {"all": [{"tag": "vip"}, {"field": "user", "exists": true}]},
        "users": {"named": 4, "reached": 1, "unreached": 1, "pending": 1, "unknown": 1},
        "engagement": {"received": 1, "opened": 0, "clicked": 0, "dismissed": 0},
        "a_field_of_tomorrow": [1],
    })
}

#[tokio::test]
async fn notifications_are_created() {
    let server = Server::with_body(json!({ "id": ID })).await;
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
    server.assert_received("POST /v1/notifications", Some(body)).await;
    let sent = String::from_utf8(server.requests().await.remove(0).body).unwrap();
    assert!(sent.contains(r#"{"z":1.50,"a":[]}"#), "the caller's own object is kept: {sent}");
}

#[tokio::test]
async fn notifications_are_previewed() {
    let preview = json!({"platforms": [{"platform": "ios", "devices": 2, "payload": null,
        "headers": {"apns-priority": "10"}, "bytes": 5000, "limit": 4096, "problems": ["large"]}]});
    let server = Server::with_body(preview.clone()).await;
    let notification = CreateNotification::to_platforms([Platform::Ios], "Hello");
    let seen = server.client().notifications().preview(&notification).await.unwrap();
    assert_eq!(serde_json::to_value(seen).unwrap(), preview);
    let body = json!({"text": "Hello", "platforms": ["ios"]});
    server.assert_received("POST /v1/notifications/preview", Some(body)).await;
}

#[tokio::test]
async fn deliveries_are_listed_and_one_is_explained() {
    let list = json!({"deliveries": [{"device_id": "a", "platform": "ios", "outcome": "pending",
        "reason": "Busy", "attempts": 1, "provider_message_id": null, "at": null,
        "next_attempt_at": 7}], "next_cursor": null});
    let server = Server::with_body(list.clone()).await;
    let query = ListDeliveries {
        limit: Some(2),
        cursor: Some("c".into()),
        outcome: Some(DeliveryOutcome::Pending),
        reason: Some("Busy".into()),
    };
    let id = notification_id();
    let seen = server.client().notifications().deliveries(&id, &query).await.unwrap();
    assert_eq!(serde_json::to_value(seen).unwrap(), list);
    let path = "GET /v1/notifications/mine%2F1";
    server
        .assert_received(
            &format!("{path}/deliveries?limit=2&cursor=c&outcome=pending&reason=Busy"),
            None,
        )
        .await;

    let explanation = json!({"device_id": "a b", "outcome": "not_targeted", "steps": [
        {"at": null, "what": "lacks_tag", "detail": "no"}]});
    let server = Server::with_body(explanation.clone()).await;
    let device = DeviceId::new("a b").unwrap();
    let seen = server.client().notifications().explain(&id, &device).await.unwrap();
    assert_eq!(serde_json::to_value(seen).unwrap(), explanation);
    server.assert_received(&format!("{path}/explain/a%20b"), None).await;
}

#[tokio::test]
async fn notifications_are_sent_to_users_and_to_an_audience() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let notification = CreateNotification::to_users(["user-7"], "Hello")
        .unwrap()
        .on_platforms([Platform::Ios])
        .audience(Audience::segment("fans").and(Audience::attribute("seats").at_least(3)));
    server.client().notifications().create(&notification).await.unwrap();
    let audience = json!({ "all": [{"segment": "fans"}, {"attribute": "seats", "at_least": 3}] });
    let body = json!({
        "text": "Hello", "user_ids": ["user-7"], "platforms": ["ios"], "audience": audience,
    });
    server.assert_received("POST /v1/notifications", Some(body)).await;
}

#[tokio::test]
async fn users_of_a_notification_are_listed() {
    let user = |id: Option<&str>, state: &str| json!({"user_id": id, "state": state, "devices": 2});
    let page = |users: serde_json::Value, cursor: Option<&str>| {
        response(200, json!({"users": users, "next_cursor": cursor}))
    };
    let server = Server::with_responses(vec![
        page(json!([user(Some("user-7"), "reached"), user(None, "reached")]), Some("c")),
        page(json!([]), None),
    ])
    .await;
    let query = ListNotificationUsers {
        limit: Some(2),
        state: Some(UserState::Reached),
        ..Default::default()
    };
    let (notify, id) = (server.client(), notification_id());
    let mut all = notify.notifications().all_users(&id, &query);
    let first = all.next().await.unwrap().unwrap();
    assert_eq!(serde_json::to_value(first).unwrap(), user(Some("user-7"), "reached"));
    assert_eq!(all.next().await.unwrap().unwrap().user_id, None);
    assert!(all.next().await.is_none());
    let lines: Vec<_> = server.requests().await.iter().map(crate::common::line).collect();
    let path = "GET /v1/notifications/mine%2F1/users?limit=2&state=reached";
    assert_eq!(lines, [path.to_owned(), format!("{path}&cursor=c")]);
}

#[tokio::test]
async fn notifications_are_reported() {
    let server = Server::with_body(json!({ "id": "mine/1" })).await;
    let report = ReportNotification {
        id: "mine/1".into(),
        text: Some("Hello".into()),
        platforms: Some(vec!["ios".into()]),
        ..Default::default()
    };
    let created = server.client().notifications().report(&report).await.unwrap();
    assert_eq!(created.id, notification_id());
    let body = json!({ "id": "mine/1", "text": "Hello", "platforms": ["ios"] });
    server.assert_received("POST /v1/notifications/notify", Some(body)).await;
}

#[tokio::test]
async fn notifications_are_read_and_listed() {
    let server = Server::with_body(record()).await;
    let read = server.client().notifications().get(&notification_id()).await.unwrap();
    server.assert_received("GET /v1/notifications/mine%2F1", None).await;
    assert_eq!(read.status, NotificationStatus::Sending);
    assert_eq!(read.request.as_str(), r#"{"a":2,"text":"hi","z":1.0}"#);
    assert_eq!(read.by_platform[0].counts, read.counts);
    assert_eq!((read.counts.targeted, read.send_at), (3, Some(Timestamp(2))));
    assert_eq!(read.audience, Some(Audience::tag("vip").and(Audience::has_user(true))));
    assert_eq!(read.users.map(|users| users.named), Some(4));

    let server =
        Server::with_body(json!({ "notifications": [record()], "next_cursor": null })).await;
    let status = Some(NotificationStatus::Sending);
    let query = ListNotifications { limit: Some(2), cursor: Some("a+b&c".into()), status };
    let page = server.client().notifications().list(&query).await.unwrap();
    server
        .assert_received("GET /v1/notifications?limit=2&cursor=a%2Bb%26c&status=sending", None)
        .await;
    assert_eq!((page.notifications, page.next_cursor), (vec![read], None));
}

#[tokio::test]
async fn notifications_are_canceled() {
    let server = Server::with_body(success()).await;
    server.client().notifications().cancel(&notification_id()).await.unwrap();
    server.assert_received("DELETE /v1/notifications/mine%2F1", None).await;
}

#[tokio::test]
async fn notifications_are_paused_and_resumed() {
    let server = Server::with_body(success()).await;
    server.client().notifications().pause(&notification_id()).await.unwrap();
    server.assert_received("POST /v1/notifications/mine%2F1/pause", None).await;
    let server = Server::with_body(success()).await;
    server.client().notifications().resume(&notification_id()).await.unwrap();
    server.assert_received("POST /v1/notifications/mine%2F1/resume", None).await;
}

#[tokio::test]
async fn polls_are_read_and_answered() {
    let poll = json!({
        "id": ID, "text": "Tea?", "url": "http://a/polls/x", "layout_id": "poll_text",
        "lang": "en", "created_at": 1,
        "answers": [{"id": ID, "text": "Yes", "image_url": "", "percentage": 66.67, "clicks": 2}],
    });
    let server = Server::with_body(poll.clone()).await;
    let read = server.client().polls().get(&NotificationId::new(ID).unwrap()).await.unwrap();
    server.assert_received(&format!("GET /v1/polls/{ID}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), poll);

    let server = Server::with_body(success()).await;
    let by = AnswerPoll { device_id: Some("a".into()) };
    server.client().polls().answer(&read.id, read.answers[0].id, &by).await.unwrap();
    let line = format!("POST /v1/polls/{ID}/answers/{ID}");
    server.assert_received(&line, Some(json!({ "device_id": "a" }))).await;
}

#[tokio::test]
async fn events_are_reported() {
    let accepted = json!({ "accepted": 1, "ignored": [{"index": 1, "reason": "unknown device"}] });
    let server = Server::with_body(accepted.clone()).await;
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
    server.assert_received("POST /v1/events", Some(body)).await;
}
