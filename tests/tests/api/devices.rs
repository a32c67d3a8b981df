//! Devices, tags, subscriptions and statistics over HTTP. Their rules are tested in notify-core.

use std::time::Duration;

use notify_tests::{NOW, TestServer};
use serde_json::{Value, json};

use crate::fixtures::android;

/// The error of an endpoint whose address is not public.
const PRIVATE: &str = "must not be a private address: this server sends to none without \
    --allow-private-networks";

#[tokio::test]
async fn a_device_reads_back_as_it_was_registered() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let body = json!({"device_id": "d1", "platform": "ios", "sdk_type": "ios_push",
        "push_token": "00ff", "ios_env": "sandbox", "timezone": "GMT+02:00", "language": "de"});
    assert_eq!(caller.post("/v1/devices", &body).await.ok(), json!({"success": true}));
    let read = caller.get("/v1/devices/d1").await.ok();
    assert_eq!(
        read,
        json!({
            "device_id": "d1", "platform": "ios", "sdk_type": "ios_push", "push_token": "00ff",
            "push_disabled": false, "ios_env": "sandbox", "android_id": null, "ad_id": null,
            "imei": null, "sdk_version": null, "app_version": null, "os_version": null,
            "store_identifier": null, "timezone": "GMT+02:00", "country": null,
            "utc_offset": null, "language": "de", "device_description": null, "tags": [],
            "user_id": null, "attributes": {},
            "enabled": true, "disabled_reason": null, "created_at": NOW.0, "updated_at": NOW.0,
        })
    );
    server.clock().advance(Duration::from_millis(10));
    let plain = json!({"device_id": "d1", "platform": "ios", "sdk_type": "ios_push",
        "push_disabled": true});
    caller.post("/v1/devices", &plain).await.ok();
    let read = caller.get("/v1/devices/d1").await.ok();
    let kept = (&read["created_at"], &read["updated_at"], &read["language"], &read["enabled"]);
    assert_eq!(kept, (&json!(NOW.0), &json!(NOW.0 + 10), &Value::Null, &json!(false)));
    assert_eq!(read["disabled_reason"], "push_disabled");
}

#[tokio::test]
async fn a_time_zone_has_one_spelling_and_an_unknown_one_is_refused() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let chat = json!({"platform": "chatapp", "recipient_id": "1", "device_id": "d2"});
    let phone = json!({"device_id": "d1", "platform": "android", "sdk_type": "android_push"});
    for (path, id, mut body) in [("/v1/devices", "d1", phone), ("/v1/subscriptions", "d2", chat)] {
        for (timezone, shown) in
            [("europe/vienna", "Europe/Vienna"), ("UTC+2", "GMT+02:00"), ("GMT+05:30", "GMT+05:30")]
        {
            body["timezone"] = json!(timezone);
            caller.post(path, &body).await.ok();
            let read = caller.get(&format!("/v1/devices/{id}")).await.ok();
            assert_eq!((&read["timezone"], &read["utc_offset"]), (&json!(shown), &Value::Null));
        }
        body["timezone"] = json!("Mars/Phobos");
        let rule = "timezone: must be a time zone of the IANA database, such as Europe/Vienna, or \
            GMT or GMT±HH:MM within ±14:00";
        caller.post(path, &body).await.rejected(400, &[rule]);
    }
}

#[tokio::test]
async fn every_violation_of_a_registration_is_listed() {
    let server = TestServer::without_providers().await;
    let body = json!({"platform": "ios", "sdk_type": "android_push", "surprise": 1});
    let answer = server.caller().post("/v1/devices", &body).await;
    answer.rejected(
        400,
        &[
            "surprise: unknown field",
            "device_id: is required",
            "sdk_type: must be ios_push for platform ios",
        ],
    );
}

#[tokio::test]
async fn a_deleted_device_is_not_found() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d1")).await.ok();
    assert_eq!(caller.delete("/v1/devices/d1").await.ok(), json!({"success": true}));
    caller.get("/v1/devices/d1").await.is(404);
    caller.delete("/v1/devices/d1").await.is(404);
}

#[tokio::test]
async fn listings_page_to_their_end_and_filter() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for number in 0..5 {
        caller.post("/v1/devices", &android(&format!("d{number}"))).await.ok();
    }
    let tags = json!({"tags": [{"name": "vip", "type": "bool", "value": true}]});
    caller.post("/v1/devices/d3/tags", &tags).await.ok();
    let (mut path, mut seen) = ("/v1/devices?limit=2".to_owned(), Vec::new());
    for _ in 0..5 {
        let page = caller.get(&path).await.ok();
        let devices = page["devices"].as_array().unwrap().clone();
        seen.extend(devices.iter().map(|device| device["device_id"].as_str().unwrap().to_owned()));
        let Some(cursor) = page["next_cursor"].as_str() else { break };
        path = format!("/v1/devices?limit=2&cursor={cursor}");
    }
    assert_eq!(seen, ["d0", "d1", "d2", "d3", "d4"]);
    let ids = async |path: &str| caller.get(path).await.ok()["devices"].as_array().unwrap().len();
    assert_eq!(ids("/v1/devices?tag=vip").await, 1);
    assert_eq!(ids("/v1/devices?platform=ios").await, 0);
    assert_eq!(ids("/v1/devices?platform=android").await, 5);
    caller.get("/v1/devices?platform=toaster").await.is(400);
}

#[tokio::test]
async fn tags_are_set_listed_and_removed() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d1")).await.ok();
    let tag = |name: &str, value: bool| json!({"name": name, "type": "bool", "value": value});
    let tags = json!({"tags": [tag("a", true), tag("b c", false)]});
    caller.post("/v1/devices/d1/tags", &tags).await.ok();
    caller.post("/v1/devices/missing/tags", &tags).await.is(404);
    let twice = json!({"tags": [tag("a", true), tag("a", false)]});
    caller.post("/v1/devices/d1/tags", &twice).await.is(400);
    assert_eq!(
        caller.get("/v1/tags").await.ok()["tags"],
        json!([{"name": "a", "type": "bool", "devices": 1},
            {"name": "b c", "type": "bool", "devices": 0}])
    );
    caller.delete("/v1/devices/d1/tags/b%20c").await.ok();
    caller.delete("/v1/devices/d1/tags/b%20c").await.is(404);
    assert_eq!(caller.get("/v1/devices/d1").await.ok()["tags"], json!([tag("a", true)]));
}

#[tokio::test]
async fn a_tag_is_removed_by_any_name_it_can_be_set_by() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d1")).await.ok();
    for (name, in_path) in [("a\nb", "a%0Ab"), ("..", ".."), ("a/b", "a%2Fb"), ("ü%", "%C3%BC%25")]
    {
        let tags = json!({"tags": [{"name": name, "type": "bool", "value": true}]});
        caller.post("/v1/devices/d1/tags", &tags).await.ok();
        // A client library would resolve `..`. This request sends the path unchanged.
        let request = format!(
            "DELETE /v1/devices/d1/tags/{in_path} HTTP/1.1\r\nHost: a\r\nX-API-Key: {}\r\n\
             Connection: close\r\n\r\n",
            server.api_key()
        );
        let answer = server.anonymous().exchange(request.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{name:?}: {answer}");
    }
    assert_eq!(caller.get("/v1/tags").await.ok()["tags"], json!([]));
    caller.delete("/v1/devices/a%0Ab").await.is(404);
    caller.delete("/v1/devices/d1/tags/%00").await.is(404);
}

#[tokio::test]
async fn a_subscription_creates_a_device() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let body = json!({"platform": "chatapp", "recipient_id": "42", "language": "en"});
    let id = caller.post("/v1/subscriptions", &body).await.id();
    assert_eq!(caller.post("/v1/subscriptions", &body).await.id(), id, "the same address");
    let read = caller.get(&format!("/v1/devices/{id}")).await.ok();
    assert_eq!((&read["platform"], &read["recipient_id"]), (&json!("chatapp"), &json!("42")));
    caller.post("/v1/devices", &android("phone")).await.ok();
    let conflicting = json!({"platform": "chatapp", "recipient_id": "43", "device_id": "phone"});
    let answer = caller.post("/v1/subscriptions", &conflicting).await;
    answer.rejected(400, &["device_id: is in use by a device of another platform"]);
}

#[tokio::test]
async fn a_private_endpoint_is_rejected_unless_allowed() {
    let body = |host: &str| {
        // The public point and secret of RFC 8291, appendix A.
        json!({"platform": "web", "subscription": {"endpoint": format!("https://{host}/push"),
            "keys": {"auth": "BTBZMqHH6r4Tts7J_aSIgg", "p256dh": "BCVxsr7N_eNgVRqvHtD0zTZsEc6-\
                VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"}}})
    };
    let path = "/v1/subscriptions";
    let server = TestServer::without_providers().await;
    let refused = server.caller().post(path, &body("127.0.0.1")).await;
    refused.rejected(400, &[&format!("subscription.endpoint: {PRIVATE}")]);
    for (host, rule) in [
        ("localhost", PRIVATE),
        ("0x7f.1", PRIVATE),
        ("[::ffff:10.0.0.1]", PRIVATE),
        ("169.254.169.254", PRIVATE),
        ("user@push.example", "must not contain credentials"),
        ("push.example:8443", "must not name a port other than 443"),
    ] {
        let refused = server.caller().post(path, &body(host)).await;
        refused.rejected(400, &[&format!("subscription.endpoint: {rule}")]);
    }
    server.caller().post(path, &body("push.example")).await.id();
    let lenient =
        TestServer::without_providers_with(|config| config.allow_private_networks = true).await;
    lenient.caller().post(path, &body("127.0.0.1")).await.id();
    lenient.caller().post(path, &body("127.0.0.1:8443")).await.id();
}

#[tokio::test]
async fn a_browser_key_must_be_a_point_on_the_curve() {
    let server = TestServer::without_providers().await;
    // 4, and 64 times 1: it has the form of an uncompressed point but is not on the curve.
    let nowhere = format!("BAEB{}", "AQEB".repeat(20) + "AQE");
    let body = json!({"platform": "web", "subscription": {"endpoint": "https://push.example/push",
        "keys": {"auth": "BTBZMqHH6r4Tts7J_aSIgg", "p256dh": nowhere}}});
    let refused = server.caller().post("/v1/subscriptions", &body).await;
    refused.rejected(400, &["subscription.keys.p256dh: must be a point of the curve P-256"]);
}

#[tokio::test]
async fn statistics_count_by_platform_and_state() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for id in ["d1", "d2", "d3"] {
        caller.post("/v1/devices", &android(id)).await.ok();
    }
    let disabled = json!({"device_id": "d3", "platform": "android", "sdk_type": "android_push",
        "push_disabled": true});
    caller.post("/v1/devices", &disabled).await.ok();
    let android = json!({
        "platform": "android", "enabled_count": 2, "disabled_count": 1, "total_count": 3,
        "total_enabled_percentage": 100.0, "total_disabled_percentage": 100.0,
        "enabled_percentage": 66.67, "disabled_percentage": 33.33,
    });
    let ios = json!({
        "platform": "ios", "enabled_count": 0, "disabled_count": 0, "total_count": 0,
        "total_enabled_percentage": 0.0, "total_disabled_percentage": 0.0,
        "enabled_percentage": 0.0, "disabled_percentage": 0.0,
    });
    let expected = json!({"platforms": [android, ios], "total_enabled": 2, "total_disabled": 1,
        "total": 3});
    let path = "/v1/statistics/devices";
    assert_eq!(caller.get(path).await.ok(), expected);
    assert_eq!(caller.get(&format!("{path}?date_to=now&date_from={}", NOW.0)).await.ok(), expected);
    let before = caller.get(&format!("{path}?date_to={}", NOW.0 - 1)).await.ok();
    assert_eq!(before["total"], 0);
    for wrong in ["date_from=x", "date_to=1.5", "date_from=2&date_to=1", "date_from=now"] {
        caller.get(&format!("{path}?{wrong}")).await.is(400);
    }
}
