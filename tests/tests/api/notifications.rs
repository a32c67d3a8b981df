//! Notifications over HTTP: accepted, reported, read back, canceled.

use notify_tests::{NOW, TestServer};
use serde_json::{Value, json};

use crate::fixtures::{android, template, to_android};

const HOUR_MS: i64 = 3_600_000;
/// An id that names nothing.
const UNKNOWN: &str = "01890000-0000-7000-8000-000000000000";

#[tokio::test]
async fn a_scheduled_notification_reads_back_and_can_be_canceled_once() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let mut body = to_android();
    body["send_at"] = json!(NOW.0 + HOUR_MS);
    let id = caller.post("/v1/notifications", &body).await.id();
    let path = format!("/v1/notifications/{id}");
    let none = json!({"targeted": 0, "sent": 0, "failed": 0, "unregistered": 0, "expired": 0,
        "canceled": 0, "pending": 0, "unknown": 0, "excluded": 0});
    let read = caller.get(&path).await.ok();
    assert_eq!(read["request"], body);
    assert_eq!(
        (&read["status"], &read["origin"], &read["created_at"], &read["send_at"], &read["counts"]),
        (&json!("scheduled"), &json!("created"), &json!(NOW.0), &body["send_at"], &none)
    );
    assert_eq!(caller.delete(&path).await.ok(), json!({"success": true}));
    assert_eq!(caller.get(&path).await.ok()["status"], "canceled");
    let answer = caller.delete(&path).await;
    answer.rejected(400, &["id: the notification was canceled already"]);
    caller.delete("/v1/notifications/unknown").await.is(404);
}

#[tokio::test]
async fn a_notification_is_paused_and_resumed_until_it_ends() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let mut body = to_android();
    body["send_at"] = json!(NOW.0 + HOUR_MS);
    let id = caller.post("/v1/notifications", &body).await.id();
    let path = format!("/v1/notifications/{id}");
    let (pause, resume) = (format!("{path}/pause"), format!("{path}/resume"));
    assert_eq!(caller.get(&path).await.ok()["paused"], Value::Null);
    // Repeats, and a resumption without a pause, change nothing.
    for (change, paused) in [
        (&resume, Value::Null),
        (&pause, json!({"at": NOW.0, "reason": "requested"})),
        (&pause, json!({"at": NOW.0, "reason": "requested"})),
        (&resume, Value::Null),
    ] {
        assert_eq!(caller.post(change, &json!({})).await.ok(), json!({"success": true}));
        let read = caller.get(&path).await.ok();
        assert_eq!((&read["paused"], &read["status"]), (&paused, &json!("scheduled")), "{change}");
    }
    caller.post(&pause, &json!({"reason": "x"})).await.is(400);
    caller.post("/v1/notifications/unknown/pause", &json!({})).await.is(404);
    caller.delete(&path).await.ok();
    for change in [&pause, &resume] {
        let refused = caller.post(change, &json!({})).await;
        refused.rejected(400, &["id: the notification was canceled already"]);
    }
}

#[tokio::test]
async fn a_report_has_the_callers_id_which_must_be_unique() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let body = json!({"id": "mine/1", "text": "a", "platforms": ["ios"]});
    assert_eq!(caller.post("/v1/notifications/notify", &body).await.id(), "mine/1");
    let read = caller.get("/v1/notifications/mine%2F1").await.ok();
    assert_eq!((&read["status"], &read["origin"]), (&json!("reported"), &json!("reported")));
    let answer = caller.post("/v1/notifications/notify", &body).await;
    answer.is(400);
    assert!(answer.json()["errors"][0].as_str().unwrap().starts_with("id: "), "{answer:?}");
    let targeted = json!({"id": "x", "text": "a", "platforms": ["ios"], "ios_device_ids": ["d"]});
    caller.post("/v1/notifications/notify", &targeted).await.is(400);
    let reserved = json!({"id": "preview", "text": "a", "platforms": ["ios"]});
    caller.post("/v1/notifications/notify", &reserved).await.is(400);
}

/// Sizes are those of the platforms that the ids are of, as is what one request may name.
#[tokio::test]
async fn listed_ids_select_devices_of_any_platform() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for number in 0..601 {
        caller.post("/v1/devices", &android(&format!("d{number}"))).await.ok();
    }
    let chat = json!({"platform": "fb-messenger", "recipient_id": "7", "device_id": "m"});
    caller.post("/v1/subscriptions", &chat).await.ok();
    let long = "x".repeat(2_001);
    let to = |ids: &[&str]| json!({"text": long, "device_ids": ids});
    caller.post("/v1/notifications", &to(&["d0", "ghost"])).await.ok();
    let answer = caller.post("/v1/notifications", &to(&["d0", "m"])).await;
    answer.is(400);
    let error = answer.json()["errors"][0].as_str().unwrap().to_owned();
    assert!(error.starts_with("fb-messenger: "), "{error}");

    let both = |any: std::ops::Range<u32>, android: std::ops::Range<u32>| {
        let ids = |range: std::ops::Range<u32>| range.map(|n| format!("d{n}")).collect::<Vec<_>>();
        json!({"text": "t", "device_ids": ids(any), "android_device_ids": ids(android)})
    };
    let too_many = "device_ids: names, with the other lists, 1001 devices on android: at most 1000";
    for path in ["/v1/notifications", "/v1/notifications/preview"] {
        caller.post(path, &both(0..601, 601..1_001)).await.rejected(400, &[too_many]);
        caller.post(path, &both(0..601, 0..1_000)).await.ok();
    }
    let preview = json!({"text": "t", "device_ids": ["m", "d0", "ghost", "phantom"],
        "ios_device_ids": ["d1"]});
    let preview = caller.post("/v1/notifications/preview", &preview).await.ok();
    let rows: Vec<_> = preview["platforms"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["platform"].as_str().unwrap(), row["devices"].as_u64().unwrap()))
        .collect();
    assert_eq!(rows, [("android", 1), ("ios", 0), ("fb-messenger", 1)]);
    assert_eq!(preview["unknown"], 2);
}

/// The problems of a preview that concern the request, by platform.
fn of_request(preview: &Value) -> Vec<Vec<String>> {
    let problems = |platform: &Value| {
        let all = platform["problems"].as_array().unwrap().iter();
        all.map(|problem| problem.as_str().unwrap().to_owned())
            .filter(|problem| {
                let of_request = [
                    "send_at: ",
                    "audience: ",
                    "campaign_id: ",
                    "per_minute: ",
                    "canary: ",
                    "personalize: ",
                ];
                of_request.iter().any(|path| problem.starts_with(path))
            })
            .collect()
    };
    preview["platforms"].as_array().unwrap().iter().map(problems).collect()
}

/// These are accepted; only a preview lists them.
#[tokio::test]
async fn a_preview_lists_problems_of_the_request() {
    const PAST: &str = "send_at: is in the past, so it would be sent at once";
    const NO_DEFAULT: &str = "campaign_id: there is no default campaign now";
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let soon = NOW.0 + HOUR_MS;
    let rows = [
        (json!({}), vec![]),
        (json!({"send_at": soon}), vec![]),
        (json!({"send_at": NOW.0 - 1}), vec![PAST.to_owned()]),
        (json!({"send_at": 1_000_000_000_000_i64}), vec![PAST.to_owned()]),
        (json!({"campaign_id": "default"}), vec![NO_DEFAULT.to_owned()]),
        (json!({"canary": {"percent": 5}, "ttl_seconds": 601}), vec![]),
        (
            json!({"canary": {"percent": 5}, "ttl_seconds": 600}),
            vec![
                "canary: is judged after 600 s, and ttl_seconds is 600: the other devices expire"
                    .to_owned(),
            ],
        ),
        (json!({"text": "Hello {{first_name|you}}", "personalize": true}), vec![]),
        (
            json!({"text": "Hello {{first_name|you}}"}),
            vec![
                "personalize: is not set, so people see `{{first_name|you}}` and not the attribute"
                    .to_owned(),
            ],
        ),
        // Inside `not`, a name that nothing has selects everybody.
        (
            json!({"audience": {"not": {"any": [
                {"tag": "vpi"}, {"attribute": "pln", "is": "pro"}, {"attribute": "plan", "is": "x"},
                {"attribute": "platfrom", "is": "ios"},
            ]}}}),
            vec![
                "audience: no device has a tag `vpi`".to_owned(),
                "audience: no device and no user has an attribute `pln`".to_owned(),
                "audience: no device and no user has an attribute `platfrom`; did you mean \
                 `platform`?"
                    .to_owned(),
            ],
        ),
    ];
    let user = json!({"attributes": {"plan": "free"}});
    caller.patch("/v1/users/ada", &user).await.ok();
    for (more, expected) in rows {
        let mut body = json!({"text": "t", "platforms": ["android", "ios"]});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let preview = caller.post("/v1/notifications/preview", &body).await.ok();
        assert_eq!(of_request(&preview), [expected.clone(), expected], "{body}");
    }
    let mut default = template("welcome");
    default["is_default"] = json!(true);
    caller.post("/v1/campaigns", &default).await.ok();
    let body = json!({"text": "t", "platforms": ["ios"], "campaign_id": "default"});
    let preview = caller.post("/v1/notifications/preview", &body).await.ok();
    assert_eq!(of_request(&preview), [Vec::<String>::new()]);
}

#[tokio::test]
async fn a_preview_warns_of_a_rate_that_is_too_slow() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for number in 0..3 {
        caller.post("/v1/devices", &android(&format!("d{number}"))).await.ok();
    }
    let slow = |ttl_seconds| json!({"text": "t", "platforms": ["android"], "per_minute": 1, "ttl_seconds": ttl_seconds});
    for (ttl_seconds, expected) in [
        (180, vec![]),
        (0, vec![]),
        (
            179,
            vec![
                "per_minute: 3 devices take 3 minutes at 1 a minute, longer than ttl_seconds (179): \
                 the last ones expire"
                    .to_owned(),
            ],
        ),
    ] {
        let preview = caller.post("/v1/notifications/preview", &slow(ttl_seconds)).await.ok();
        assert_eq!(of_request(&preview), [expected]);
    }
}

/// The response is the contract's, with an addition only when no listed device exists.
#[tokio::test]
async fn the_response_says_when_every_listed_id_is_unknown() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d0")).await.ok();
    let cases = [
        (json!({"device_ids": ["ghost", "phantom", "ghost"]}), json!(2)),
        (json!({"ios_device_ids": ["d0"]}), json!(1)),
        (json!({"android_device_ids": ["ghost"], "device_ids": ["ghost"]}), json!(1)),
        (json!({"android_device_ids": ["ghost", "d0"]}), Value::Null),
        (json!({"device_ids": ["d0", "ghost"]}), Value::Null),
        (json!({"device_ids": ["ghost"], "send_at": NOW.0 + HOUR_MS}), Value::Null),
    ];
    for (number, (mut body, unknown)) in cases.into_iter().enumerate() {
        body["text"] = json!("t");
        let key = format!("case-{number}");
        let first = caller.post_once("/v1/notifications", &key, &body);
        let answer = first.await.ok();
        let mut expected = json!({"id": answer["id"]});
        if !unknown.is_null() {
            expected["unknown"] = unknown;
        }
        assert_eq!(answer, expected, "{body}");
        let again = caller.post_once("/v1/notifications", &key, &body);
        assert_eq!(again.await.ok(), answer, "a repeat says the same");
    }
}

#[tokio::test]
async fn the_listing_is_newest_first() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let mut made = Vec::new();
    for _ in 0..3 {
        server.clock().advance(std::time::Duration::from_millis(1));
        made.insert(0, caller.post("/v1/notifications", &to_android()).await.id());
    }
    let page = caller.get("/v1/notifications?limit=2").await.ok();
    let ids = |page: &Value| -> Vec<String> {
        let rows = page["notifications"].as_array().unwrap().iter();
        rows.map(|row| row["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&page), made[..2]);
    let cursor = page["next_cursor"].as_str().unwrap();
    let rest = caller.get(&format!("/v1/notifications?limit=2&cursor={cursor}")).await.ok();
    assert_eq!((ids(&rest), &rest["next_cursor"]), (made[2..].to_vec(), &Value::Null));
}

#[tokio::test]
async fn a_campaign_must_exist_and_be_active() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let campaign = caller.post("/v1/campaigns", &template("c")).await.id();
    let mut body = to_android();
    for (id, status) in [(&*campaign, 200), ("default", 200), ("unknown", 400)] {
        body["campaign_id"] = json!(id);
        caller.post("/v1/notifications", &body).await.is(status);
    }
    let path = format!("/v1/campaigns/{campaign}/status");
    caller.put(&path, &json!({"status": "disabled"})).await.ok();
    body["campaign_id"] = json!(campaign);
    let answer = caller.post("/v1/notifications", &body).await;
    answer.rejected(400, &["campaign_id: no active campaign has this id"]);
}

#[tokio::test]
async fn events_are_counted_and_unknown_ones_reported() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    caller.post("/v1/devices", &android("d1")).await.ok();
    let event = |notification: &str, device: &str| json!({"type": "opened", "notification_id": notification, "device_id": device});
    let body = json!({"events": [event(&id, "d1"), event("x", "d1"), event(&id, "x")]});
    assert_eq!(
        caller.post("/v1/events", &body).await.ok(),
        json!({"accepted": 1, "ignored": [
            {"index": 1, "reason": "unknown notification"},
            {"index": 2, "reason": "unknown device"},
        ]})
    );
    caller.post("/v1/events", &body).await.ok();
    let read = caller.get(&format!("/v1/notifications/{id}")).await.ok();
    assert_eq!(
        read["engagement"],
        json!({"received": 0, "opened": 1, "clicked": 0, "dismissed": 0})
    );
}

#[tokio::test]
async fn violations_that_depend_on_stored_data_are_listed_together() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let report = json!({"id": "mine", "text": "a", "platforms": ["ios"]});
    caller.post("/v1/notifications/notify", &report).await.id();
    let mut again = report.clone();
    again["campaign_id"] = json!(UNKNOWN);
    caller
        .post("/v1/notifications/notify", &again)
        .await
        .rejected(400, &["campaign_id: no active campaign has this id", "id: is in use already"]);
    let mut large = to_android();
    large["text"] = json!("x".repeat(5_000));
    large["campaign_id"] = json!(UNKNOWN);
    let answer = caller.post("/v1/notifications", &large).await;
    let size = "android: the payload for android would be 5153 bytes, 4096 are allowed";
    answer.rejected(400, &[size, "campaign_id: no active campaign has this id"]);
}

/// A notification at a wall-clock time has no instant of its own: that of the device is shown.
#[tokio::test]
async fn an_explanation_gives_a_devices_local_send_time() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let device = json!({"device_id": "d1", "platform": "ios", "sdk_type": "ios_push",
        "push_token": "00ff", "timezone": "GMT+02:00"});
    caller.post("/v1/devices", &device).await.ok();
    let message = json!({"text": "x", "platforms": ["ios"], "send_at_local": "2026-11-22T09:00"});
    let id = caller.post("/v1/notifications", &message).await.id();
    let explanation = caller.get(&format!("/v1/notifications/{id}/explain/d1")).await.ok();
    let step = |at: Option<i64>, what: &str, detail: &str| json!({"at": at, "what": what, "detail": detail});
    let turn =
        "the device's turn comes at 2026-11-22T07:00:00Z, by its offset from UTC now (+02:00)";
    let steps = [
        step(Some(NOW.0), "accepted", "accepted"),
        step(Some(1_795_330_800_000), "scheduled", turn),
        step(None, "targeted", "it goes to ios, the platform of the device"),
        step(None, "enabled", "is enabled now"),
        step(None, "has_address", "has an address now"),
        step(None, "provider_not_configured", "apns is not configured now"),
    ];
    assert_eq!(explanation, json!({"device_id": "d1", "outcome": "pending", "steps": steps}));
}

#[tokio::test]
async fn an_explanation_names_the_platform_a_device_was_wrongly_listed_under() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for id in ["phone", "other"] {
        caller.post("/v1/devices", &android(id)).await.ok();
    }
    let mistaken = json!({"text": "t", "ios_device_ids": ["phone"]});
    let scheduled = json!({"text": "t", "ios_device_ids": ["phone"], "send_at": NOW.0 + HOUR_MS});
    let under_ios = "the notification names this device under ios, but its platform is android";
    let nowhere = "it names devices, and this one is not among those on android";
    for (body, device, expected) in [
        (&mistaken, "phone", under_ios),
        (&scheduled, "phone", under_ios),
        (&mistaken, "other", nowhere),
    ] {
        let id = caller.post("/v1/notifications", body).await.id();
        let explanation =
            caller.get(&format!("/v1/notifications/{id}/explain/{device}")).await.ok();
        assert_eq!(explanation["outcome"], "not_targeted", "{explanation}");
        let last = explanation["steps"].as_array().unwrap().last().unwrap();
        assert_eq!((&last["what"], &last["detail"]), (&json!("not_targeted"), &json!(expected)));
    }
}
