//! Users and attributes over HTTP, and notifications to users.

use notify_tests::{Caller, NOW, TestServer};
use serde_json::{Value, json};

use crate::fixtures::{android, to_android};

async fn logged_in(caller: &Caller, device: &str, user: &str) {
    caller.post("/v1/devices", &android(device)).await.ok();
    let path = format!("/v1/devices/{device}/user");
    caller.put(&path, &json!({"user_id": user})).await.ok();
}

fn to_users(ids: &[&str]) -> Value {
    json!({"text": "hello", "user_ids": ids})
}

#[tokio::test]
async fn a_user_exists_from_the_first_write_that_names_it() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.get("/v1/users/ada").await.is(404);
    logged_in(&caller, "d1", "ada").await;
    let ada = json!({
        "user_id": "ada", "attributes": {},
        "devices": [{"device_id": "d1", "platform": "android", "enabled": true}],
        "created_at": NOW.0, "updated_at": NOW.0,
    });
    assert_eq!(caller.get("/v1/users/ada").await.ok(), ada);
    let changed = json!({"attributes": {"plan": "pro", "seats": 3, "beta": true}});
    let answer = caller.patch("/v1/users/bob%2F1", &changed).await.ok();
    let bob = json!({
        "user_id": "bob/1", "attributes": changed["attributes"], "devices": [],
        "created_at": NOW.0, "updated_at": NOW.0,
    });
    assert_eq!(answer, bob);
    let merged = json!({"attributes": {"plan": null, "seats": 2.5}});
    let answer = caller.patch("/v1/users/bob%2F1", &merged).await.ok();
    assert_eq!(answer["attributes"], json!({"beta": true, "seats": 2.5}));
    let first = caller.get("/v1/users?limit=1").await.ok();
    assert_eq!(first["users"], json!([ada]));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = caller.get(&format!("/v1/users?limit=1&cursor={cursor}")).await.ok();
    assert_eq!((&second["users"], &second["next_cursor"]), (&json!([answer]), &Value::Null));
    assert_eq!(caller.delete("/v1/users/bob%2F1").await.ok(), json!({"success": true}));
    caller.delete("/v1/users/bob%2F1").await.is(404);
}

#[tokio::test]
async fn a_device_shows_its_user_and_its_own_attributes() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    logged_in(&caller, "d1", "ada").await;
    caller.patch("/v1/users/ada", &json!({"attributes": {"plan": "pro"}})).await.ok();
    let changes = json!({"seats": 3, "gone": null, "beta": false});
    let answer = caller.patch("/v1/devices/d1/attributes", &changes).await.ok();
    assert_eq!(answer, json!({"success": true}));
    let read = caller.get("/v1/devices/d1").await.ok();
    let expected = (&json!("ada"), &json!({"beta": false, "seats": 3}));
    assert_eq!((&read["user_id"], &read["attributes"]), expected);
    let listed = caller.get("/v1/devices?user_id=ada").await.ok();
    assert_eq!(listed["devices"], json!([read]));
    assert_eq!(caller.get("/v1/devices?user_id=bob").await.ok()["devices"], json!([]));

    // A registration without a user keeps the log-in; one with a user logs it in.
    caller.post("/v1/devices", &android("d1")).await.ok();
    assert_eq!(caller.get("/v1/devices/d1").await.ok()["user_id"], "ada");
    let mut with_user = android("d1");
    with_user["user_id"] = json!("bob");
    caller.post("/v1/devices", &with_user).await.ok();
    assert_eq!(caller.get("/v1/devices/d1").await.ok()["user_id"], "bob");
    let chat = json!({"platform": "chatapp", "recipient_id": "7", "user_id": "bob"});
    let chat = caller.post("/v1/subscriptions", &chat).await.id();
    let bob = caller.get("/v1/users/bob").await.ok();
    let devices = json!([{"device_id": "d1", "platform": "android", "enabled": true},
        {"device_id": chat, "platform": "chatapp", "enabled": true}]);
    assert_eq!(bob["devices"], devices);
    for _ in 0..2 {
        let answer = caller.delete("/v1/devices/d1/user").await.ok();
        assert_eq!(answer, json!({"success": true}));
        assert_eq!(caller.get("/v1/devices/d1").await.ok()["user_id"], Value::Null);
    }
}

#[tokio::test]
async fn deleting_a_user_deletes_its_devices_unless_they_are_kept() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for (device, user) in [("d1", "ada"), ("d2", "ada"), ("d3", "bob")] {
        logged_in(&caller, device, user).await;
    }
    let notification = caller.post("/v1/notifications", &to_users(&["ada", "bob"])).await.id();
    caller.delete("/v1/users/bob?devices=keep").await.ok();
    assert_eq!(caller.get("/v1/devices/d3").await.ok()["user_id"], Value::Null);
    caller.delete("/v1/users/ada").await.ok();
    caller.get("/v1/devices/d1").await.is(404);
    caller.get("/v1/devices/d2").await.is(404);
    let read = caller.get(&format!("/v1/notifications/{notification}")).await.ok();
    assert_eq!(read["request"], json!({"text": "hello", "user_ids": []}));
    caller
        .delete("/v1/users/ada?devices=drop")
        .await
        .rejected(400, &["devices: must be one of keep"]);
}

/// Each rule of users and attributes, with the error of the API.
#[tokio::test]
async fn wrong_requests_about_users_are_refused() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("d1")).await.ok();
    let name = "must be a lower-case letter, then up to 63 lower-case letters, digits and \
        underscores";
    let long = "x".repeat(256);
    let rows = [
        ("/v1/devices/d1/user", "PUT", json!({}), "user_id: is required".to_owned()),
        ("/v1/devices/d1/user", "PUT", json!({"user_id": ""}), "user_id: is required".to_owned()),
        (
            "/v1/devices/d1/user",
            "PUT",
            json!({"user_id": 7}),
            "user_id: expected a string".to_owned(),
        ),
        (
            "/v1/devices/d1/user",
            "PUT",
            json!({"user_id": "a", "token": "b"}),
            "token: unknown field".to_owned(),
        ),
        ("/v1/devices/d1/attributes", "PATCH", json!({"Plan": 1}), format!("Plan: {name}")),
        (
            "/v1/devices/d1/attributes",
            "PATCH",
            json!({"plan": [1]}),
            "plan: expected a boolean, a number or a string".to_owned(),
        ),
        (
            "/v1/devices/d1/attributes",
            "PATCH",
            json!({"plan": long}),
            "plan: must be at most 255 characters".to_owned(),
        ),
        (
            "/v1/users/ada",
            "PATCH",
            json!({"attributes": {"9": 1}}),
            format!("attributes.9: {name}"),
        ),
        ("/v1/users/ada", "PATCH", json!({"plan": 1}), "plan: unknown field".to_owned()),
    ];
    for (path, method, body, error) in rows {
        let answer = match method {
            "PUT" => caller.put(path, &body).await,
            _ => caller.patch(path, &body).await,
        };
        answer.rejected(400, &[&error]);
    }
    caller.get("/v1/users/ada").await.is(404);
    caller.put("/v1/devices/ghost/user", &json!({"user_id": "a"})).await.is(404);
    caller.delete("/v1/devices/ghost/user").await.is(404);
    caller.patch("/v1/devices/ghost/attributes", &json!({"a": 1})).await.is(404);
}

/// Each rule of `user_ids`. No field widens an audience.
#[tokio::test]
async fn wrong_user_ids_are_refused() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let many: Vec<String> = (0..1_001).map(|number| number.to_string()).collect();
    let at_least_one = "user_ids: must hold at least 1 id when it is given";
    let combined = "user_ids: must not be combined with device ids";
    for (body, errors) in [
        (json!({"text": "t", "user_ids": []}), vec![at_least_one]),
        (json!({"text": "t", "user_ids": [], "platforms": ["ios"]}), vec![at_least_one]),
        (json!({"text": "t", "user_ids": ["a"], "device_ids": ["d"]}), vec![combined]),
        (json!({"text": "t", "user_ids": ["a"], "ios_device_ids": ["d"]}), vec![combined]),
        (json!({"text": "t", "user_ids": many}), vec!["user_ids: must hold at most 1000 elements"]),
        (json!({"text": "t", "user_ids": ["a", ""]}), vec!["user_ids[1]: must not be empty"]),
        (
            json!({"text": "t", "user_ids": ["a"], "platforms": []}),
            vec![
                "platforms: must contain at least one of android, ios, web, fb-messenger, chatapp",
            ],
        ),
    ] {
        caller.post("/v1/notifications", &body).await.rejected(400, &errors);
        caller.post("/v1/notifications/preview", &body).await.rejected(400, &errors);
    }
    let report = json!({"id": "mine", "text": "t", "platforms": ["ios"], "user_ids": ["a"]});
    caller.post("/v1/notifications/notify", &report).await.is(400);
}

#[tokio::test]
async fn a_preview_counts_the_devices_of_users() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for (device, user) in [("d1", "ada"), ("d2", "ada"), ("d3", "bob")] {
        logged_in(&caller, device, user).await;
    }
    let mut off = android("d2");
    off["push_disabled"] = json!(true);
    caller.post("/v1/devices", &off).await.ok();
    let preview =
        caller.post("/v1/notifications/preview", &to_users(&["ada", "bob", "ghost"])).await.ok();
    let platforms = preview["platforms"].as_array().unwrap();
    assert_eq!(platforms.len(), 1);
    assert_eq!(
        (&platforms[0]["platform"], &platforms[0]["devices"]),
        (&json!("android"), &json!(2))
    );
    assert_eq!(preview["unknown"], 1);
    let narrowed = json!({"text": "t", "user_ids": ["ada"], "platforms": ["ios"]});
    let preview = caller.post("/v1/notifications/preview", &narrowed).await.ok();
    assert_eq!(preview["platforms"], json!([]));
}

/// The record of a request without the new fields has nulls, and is otherwise as before.
#[tokio::test]
async fn other_notifications_have_no_users() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    let read = caller.get(&format!("/v1/notifications/{id}")).await.ok();
    assert_eq!((&read["users"], &read["audience"]), (&Value::Null, &Value::Null));
    let users = caller.get(&format!("/v1/notifications/{id}/users")).await.ok();
    assert_eq!(users, json!({"users": [], "next_cursor": null}));
    caller.get("/v1/notifications/ghost/users").await.is(404);
    caller.get(&format!("/v1/notifications/{id}/users?state=lost")).await.is(400);
}
