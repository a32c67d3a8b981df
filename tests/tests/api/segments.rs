//! Audiences and segments over HTTP. The rules of conditions are tested in notify-core.

use notify_tests::{Caller, NOW, TestServer};
use serde_json::{Value, json};

use crate::fixtures::{android, to_android};

/// Devices `d0` to `d9`. Those with an odd number are of version 3.10 and have the plan `pro`.
async fn ten_devices(caller: &Caller) {
    for number in 0..10 {
        let mut device = android(&format!("d{number}"));
        device["app_version"] = json!(if number % 2 == 1 { "3.10" } else { "3.9" });
        device["language"] = json!("de-AT");
        caller.post("/v1/devices", &device).await.ok();
        if number % 2 == 1 {
            let path = format!("/v1/devices/d{number}/attributes");
            caller.patch(&path, &json!({"plan": "pro"})).await.ok();
        }
    }
    let vip = json!({"tags": [{"name": "vip", "type": "bool", "value": true}]});
    caller.post("/v1/devices/d3/tags", &vip).await.ok();
}

fn with(audience: &Value) -> Value {
    let mut body = to_android();
    body["audience"] = audience.clone();
    body
}

async fn size(caller: &Caller, audience: &Value) -> Value {
    let body = json!({"audience": audience, "platforms": ["android"]});
    caller.post("/v1/segments/preview", &body).await.ok()["platforms"][0].clone()
}

#[tokio::test]
async fn a_condition_narrows_a_target() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    ten_devices(&caller).await;
    let plan = json!({"attribute": "plan", "is": "pro"});
    for (audience, devices) in [
        (json!({"field": "language", "is": "de"}), 10),
        (plan.clone(), 5),
        (json!({"field": "app_version", "at_least": "3.10"}), 5),
        (json!({"tag": "vip"}), 1),
        (json!({"all": [plan, {"not": {"tag": "vip"}}]}), 4),
        (json!({"any": [{"tag": "vip"}, {"attribute": "plan", "exists": false}]}), 6),
        (json!({"field": "user", "exists": true}), 0),
        (json!({"attribute": "unknown", "is": true}), 0),
        (json!({"attribute": "plan", "is": true}), 0),
    ] {
        let expected = json!({"platform": "android", "devices": devices, "exact": true});
        assert_eq!(size(&caller, &audience).await, expected, "{audience}");
        let preview = caller.post("/v1/notifications/preview", &with(&audience)).await.ok();
        assert_eq!(preview["platforms"][0]["devices"], devices, "{audience}");
        let id = caller.post("/v1/notifications", &with(&audience)).await.id();
        let read = caller.get(&format!("/v1/notifications/{id}")).await.ok();
        assert_eq!((&read["audience"], &read["request"]), (&audience, &with(&audience)));
    }
}

#[tokio::test]
async fn a_segment_is_copied_when_a_notification_is_accepted() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    ten_devices(&caller).await;
    let condition = json!({"tag": "vip"});
    let made = caller.put("/v1/segments/the%20best", &json!({"audience": condition})).await.ok();
    let segment = json!({"name": "the best", "audience": condition, "created_at": NOW.0,
        "updated_at": NOW.0});
    assert_eq!(made, segment);
    assert_eq!(caller.get("/v1/segments/the%20best").await.ok(), segment);
    let listed = caller.get("/v1/segments").await.ok();
    assert_eq!(listed, json!({"segments": [segment], "next_cursor": null}));
    let devices = caller.get("/v1/devices?segment=the%20best").await.ok()["devices"].clone();
    assert_eq!(devices.as_array().unwrap().len(), 1);
    assert_eq!(devices[0]["device_id"], "d3");

    let named = json!({"not": {"segment": "the best"}});
    assert_eq!(size(&caller, &named).await["devices"], 9);
    let id = caller.post("/v1/notifications", &with(&named)).await.id();
    caller.put("/v1/segments/the%20best", &json!({"audience": {"tag": "other"}})).await.ok();
    caller.delete("/v1/segments/the%20best").await.ok();
    caller.delete("/v1/segments/the%20best").await.is(404);
    let read = caller.get(&format!("/v1/notifications/{id}")).await.ok();
    assert_eq!(read["audience"], json!({"not": {"tag": "vip"}}));
    let unknown = &["audience: there is no segment `the best`"];
    caller.post("/v1/notifications", &with(&named)).await.rejected(400, unknown);
    caller.post("/v1/notifications/preview", &with(&named)).await.rejected(400, unknown);
    let unknown = &["segment: there is no such segment"];
    caller.get("/v1/devices?segment=the%20best").await.rejected(400, unknown);
}

/// An empty list or object never selects all devices.
#[tokio::test]
async fn wrong_audiences_are_refused_everywhere() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.put("/v1/segments/fans", &json!({"audience": {"tag": "fan"}})).await.ok();
    let one_form = "must have exactly one of all, any, not, segment, tag, attribute, field";
    let mut deep = json!({"tag": "vip"});
    for _ in 0..8 {
        deep = json!({"not": deep});
    }
    let wide = json!({"any": vec![json!({"tag": "vip"}); 64]});
    for (audience, error) in [
        (json!({}), format!("audience: {one_form}")),
        (json!({"all": []}), "audience.all: must hold at least 1 condition".to_owned()),
        (json!({"any": []}), "audience.any: must hold at least 1 condition".to_owned()),
        (json!({"any": [{}]}), format!("audience.any[0]: {one_form}")),
        (json!({"tag": "a", "segment": "b"}), format!("audience: {one_form}")),
        (deep, "audience: must nest at most 8 levels".to_owned()),
        (wide, "audience: must hold at most 64 conditions".to_owned()),
    ] {
        let errors = [error.as_str()];
        caller.post("/v1/notifications", &with(&audience)).await.rejected(400, &errors);
        caller.post("/v1/notifications/preview", &with(&audience)).await.rejected(400, &errors);
        let body = json!({"audience": audience});
        caller.post("/v1/segments/preview", &body).await.rejected(400, &errors);
        caller.put("/v1/segments/new", &body).await.rejected(400, &errors);
    }
    let nested = caller.put("/v1/segments/new", &json!({"audience": {"segment": "fans"}})).await;
    nested.is(400);
    let body = json!({"audience": {"tag": "a"}});
    caller.put("/v1/segments/preview", &body).await.is(405);
    let long = "x".repeat(256);
    let too_long = &["name: must be at most 255 characters"];
    caller.put(&format!("/v1/segments/{long}"), &body).await.rejected(400, too_long);
    let report = json!({"id": "mine", "text": "t", "platforms": ["ios"], "audience": {"tag": "a"}});
    caller.post("/v1/notifications/notify", &report).await.is(400);
    // `null` equals an absent audience, as in every field.
    caller.post("/v1/notifications", &with(&Value::Null)).await.ok();
}

#[tokio::test]
async fn applications_do_not_share_segments_and_attributes() {
    let server = TestServer::without_providers().await;
    let (one, (_, two)) = (server.caller(), server.create_app("Other").await);
    ten_devices(&one).await;
    one.put("/v1/segments/fans", &json!({"audience": {"tag": "vip"}})).await.ok();
    two.get("/v1/segments/fans").await.is(404);
    two.post("/v1/notifications", &with(&json!({"segment": "fans"}))).await.is(400);
    two.post("/v1/devices", &android("d3")).await.ok();
    let plan = json!({"attribute": "plan", "is": "pro"});
    assert_eq!(size(&two, &plan).await["devices"], 0);
    assert_eq!(size(&one, &plan).await["devices"], 5);
}
