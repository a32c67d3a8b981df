//! What an API key may do, and until when.

use std::time::Duration;

use notify_tests::{Caller, NOW, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::{android, to_android};

const SCOPES: [&str; 5] = ["read", "send", "devices", "content", "webhooks"];

/// The path of the keys of the first application.
fn keys_path(server: &TestServer) -> String {
    format!("/admin/v1/apps/{}/keys", server.app_id)
}

/// A caller with a new key of the first application.
async fn caller_with(server: &TestServer, key: &Value) -> Caller {
    let made = server.admin().post(&keys_path(server), key).await.ok();
    Caller::app(server.origin(), made["api_key"].as_str().unwrap())
}

async fn caller_with_scopes(server: &TestServer, scopes: &[&str]) -> Caller {
    caller_with(server, &json!({"scopes": scopes})).await
}

/// An operator who is about to revoke a key must see that it is in use.
#[tokio::test]
async fn the_last_use_of_a_key_is_listed_at_once() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let caller = caller_with_scopes(&server, &["read"]).await;
    let last_use = async |path: &str| {
        let keys = admin.get(path).await.ok();
        keys["keys"].as_array().unwrap().last().unwrap()["last_used_at"].clone()
    };
    let path = keys_path(&server);
    assert_eq!(last_use(&path).await, Value::Null);
    caller.get("/v1/tags").await.ok();
    assert_eq!(last_use(&path).await, json!(NOW.as_ms()));
    assert_eq!(last_use("/admin/v1/keys").await, json!(NOW.as_ms()));
}

#[tokio::test]
async fn every_endpoint_needs_the_scope_that_openapi_lists_and_no_other() {
    let server = TestServer::without_providers().await;
    let document = server.anonymous().get("/openapi.json").await.ok();
    let mut with_scope = Vec::new();
    for scope in SCOPES {
        let others: Vec<&str> = SCOPES.into_iter().filter(|other| *other != scope).collect();
        let with = caller_with_scopes(&server, &[scope]).await;
        with_scope.push((scope, with, caller_with_scopes(&server, &others).await));
    }
    let mut checked = 0;
    for (template, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            if !template.starts_with("/v1/") {
                assert!(operation["responses"].get("403").is_none(), "{method} {template}");
                continue;
            }
            assert!(operation["responses"].get("403").is_some(), "{method} {template}");
            let scopes = operation["security"][0]["api_key"].as_array().unwrap();
            assert_eq!(scopes.len(), 1, "{method} {template}");
            let path = template.replace(['{', '}'], "");
            let method: Method = method.to_uppercase().parse().unwrap();
            let (scope, with, without) =
                with_scope.iter().find(|(scope, ..)| scopes[0] == *scope).unwrap();
            let refused = Response::of(without.request(method.clone(), &path).body("{")).await;
            refused.rejected(403, &[&format!("the key lacks the scope `{scope}`")]);
            // The head alone: a stream has no end.
            let allowed = with.request(method.clone(), &path).body("{").send().await.unwrap();
            assert_ne!(allowed.status(), 403, "{method} {template}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked}");
}

#[tokio::test]
async fn a_key_without_scopes_in_its_request_may_do_everything() {
    let server = TestServer::without_providers().await;
    let (admin, path) = (server.admin(), keys_path(&server));
    for body in [json!({}), json!({"scopes": null})] {
        let caller = caller_with(&server, &body).await;
        caller.post("/v1/devices", &android("d1")).await.ok();
        caller.post("/v1/notifications", &to_android()).await.ok();
        caller.post("/v1/webhooks", &json!({"url": "https://a.example/hook"})).await.ok();
    }
    admin.post(&path, &json!({"scopes": ["send", "read", "send"]})).await.ok();
    let listed = admin.get(&path).await.ok();
    let scopes: Vec<&Value> =
        listed["keys"].as_array().unwrap().iter().map(|key| &key["scopes"]).collect();
    let all = json!(SCOPES);
    assert_eq!(scopes, [&all, &all, &all, &json!(["read", "send"])]);
    for (body, error) in [
        (json!({"scopes": []}), "scopes: must hold at least 1 element"),
        (
            json!({"scopes": ["write"]}),
            "scopes[0]: must be one of read, send, devices, content, webhooks",
        ),
        (json!({"scope": ["read"]}), "scope: unknown field, did you mean `scopes`?"),
    ] {
        admin.post(&path, &body).await.rejected(400, &[error]);
    }
    assert_eq!(admin.get(&path).await.ok(), listed, "nothing was stored");
}

#[tokio::test]
async fn a_missing_scope_is_403_after_401_404_and_405_and_before_the_body() {
    let server = TestServer::without_providers().await;
    let reader = caller_with_scopes(&server, &["read"]).await;
    Caller::app(server.origin(), "nk_x").post("/v1/notifications", &json!({})).await.is(401);
    reader.post("/v1/nowhere", &json!({})).await.is(404);
    reader.put("/v1/notifications", &json!({})).await.is(405);
    reader.post("/v1/notifications", &json!({})).await.is(403);
    Response::of(reader.request(Method::HEAD, "/v1/devices")).await.is(200);
    let sender = caller_with_scopes(&server, &["send"]).await;
    Response::of(sender.request(Method::HEAD, "/v1/devices")).await.is(403);
    let made = server.admin().post(&keys_path(&server), &json!({"scopes": ["read"]})).await.ok();
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\
         x-api-key: {}\r\nexpect: 100-continue\r\nconnection: close\r\n\r\n",
        made["api_key"].as_str().unwrap()
    );
    let answer = server.anonymous().exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 403 "), "{answer}");
    let notifications = server.caller().get("/v1/notifications").await.ok();
    assert_eq!(notifications["notifications"], json!([]), "nothing was accepted");
}

#[tokio::test]
async fn a_missing_scope_is_no_failed_authentication() {
    let server =
        TestServer::without_providers_with(|config| config.auth_failures_per_minute = 2).await;
    let reader = caller_with_scopes(&server, &["read"]).await;
    for _ in 0..5 {
        reader.post("/v1/notifications", &json!({})).await.is(403);
    }
    server.anonymous().get("/v1/devices").await.is(401);
}

#[tokio::test]
async fn a_key_without_the_scope_devices_does_not_read_addresses() {
    let server = TestServer::without_providers().await;
    let p256dh =
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
    let web = json!({"platform": "web", "device_id": "web", "subscription": {
        "endpoint": "https://push.example/secret-address",
        "keys": {"p256dh": p256dh, "auth": "BTBZMqHH6r4Tts7J_aSIgg"}}});
    let chat =
        json!({"platform": "chatapp", "device_id": "chat", "recipient_id": "4711-secret-address"});
    let mut phone = android("phone");
    phone["push_token"] = json!("secret-address");
    server.caller().post("/v1/devices", &phone).await.ok();
    for subscription in [&web, &chat] {
        server.caller().post("/v1/subscriptions", subscription).await.ok();
    }
    let blind = caller_with_scopes(&server, &["read", "send", "content", "webhooks"]).await;
    let sighted = caller_with_scopes(&server, &["read", "devices"]).await;
    let paths =
        ["/v1/devices/phone", "/v1/devices/web", "/v1/devices/chat", "/v1/devices?platform=web"];
    for path in paths {
        let answer = blind.get(path).await;
        assert!(!answer.text.contains("secret-address"), "{}", answer.text);
        assert!(!answer.text.contains(p256dh), "{}", answer.text);
        let device = answer.ok();
        let device = device["devices"].get(0).unwrap_or(&device);
        for field in ["push_token", "subscription", "recipient_id"] {
            assert_eq!(device[field], Value::Null, "{field}");
        }
        assert_eq!(device["address_hidden"], true);
        let answer = sighted.get(path).await;
        assert!(answer.text.contains("secret-address"));
        assert!(!answer.text.contains("address_hidden"), "{}", answer.text);
    }
    for path in ["/v1/notifications/preview", "/v1/notifications"] {
        let body = json!({"text": "t", "device_ids": ["phone", "web", "chat"]});
        let answer = blind.post(path, &body).await;
        assert!(!answer.text.contains("secret-address"), "{}", answer.text);
        answer.is(200);
    }
}

#[tokio::test]
async fn a_key_that_may_not_change_urls_does_not_read_their_secrets() {
    let server = TestServer::without_providers().await;
    let feed = json!({"name": "f", "url": "https://news.example/rss?page=1&key=s3cret"});
    server.caller().post("/v1/feeds", &feed).await.ok();
    let hook = json!({"url": "https://hooks.example/in?token=s3cret", "events": []});
    let hook = server.caller().post("/v1/webhooks", &hook).await.id();
    let hook = format!("/v1/webhooks/{hook}");
    let feeds = ("/v1/feeds", "content", "https://news.example/rss?page=hidden&key=hidden");
    let hooks = ("/v1/webhooks", "webhooks", "https://hooks.example/in?token=hidden");
    for (path, scope, hidden) in [feeds, hooks, (&*hook, hooks.1, hooks.2)] {
        let blind: Vec<&str> = ["read", "send", "devices", "content", "webhooks"]
            .into_iter()
            .filter(|held| *held != scope)
            .collect();
        let answer = caller_with_scopes(&server, &blind).await.get(path).await;
        assert!(!answer.text.contains("s3cret"), "{}", answer.text);
        assert!(answer.text.contains(hidden), "{}", answer.text);
        for sighted in [caller_with_scopes(&server, &["read", scope]).await, server.caller()] {
            assert!(sighted.get(path).await.text.contains("s3cret"), "{path}");
        }
    }
}

const HOUR_MS: i64 = 3_600_000;
const HOUR: Duration = Duration::from_secs(3_600);
const EXPIRED: &[&str] = &["the API key has expired: use its successor, or create another one"];

#[tokio::test]
async fn an_expired_key_is_refused_at_once() {
    let server = TestServer::without_providers().await;
    let mut key = json!({"expires_at": NOW.0 + HOUR_MS});
    let caller = caller_with(&server, &key).await;
    // The key is in the cache when it expires.
    server.clock().advance(HOUR - Duration::from_millis(1));
    caller.get("/v1/devices").await.ok();
    server.clock().advance(Duration::from_millis(1));
    for path in ["/v1/devices", "/v1/nowhere", "/v1/events/stream"] {
        caller.get(path).await.rejected(401, EXPIRED);
    }
    caller.post("/v1/devices", &android("d1")).await.rejected(401, EXPIRED);
    assert_eq!(server.caller().get("/v1/devices").await.ok()["devices"], json!([]));
    let (admin, path) = (server.admin(), keys_path(&server));
    let listed = admin.get(&path).await.ok();
    assert_eq!(listed["keys"][0]["expires_at"], Value::Null);
    assert_eq!(listed["keys"][1]["expires_at"], key["expires_at"], "it stays listed");
    for (expires_at, error) in [
        (NOW.0 + HOUR_MS, "expires_at: must be in the future"),
        (NOW.0 * 3, "expires_at: must be at most ten years ahead"),
    ] {
        key["expires_at"] = json!(expires_at);
        admin.post(&path, &key).await.rejected(400, &[error]);
    }
    assert_eq!(admin.get(&path).await.ok(), listed, "nothing was stored");
}

#[tokio::test]
async fn a_stream_ends_when_its_key_expires() {
    let server = TestServer::without_providers().await;
    let caller = caller_with(&server, &json!({"expires_at": NOW.0 + HOUR_MS})).await;
    let request = caller.request(Method::GET, "/v1/events/stream");
    let mut stream = request.send().await.unwrap();
    assert_eq!(stream.status(), 200);
    server.clock().advance(HOUR);
    let end = async { while stream.chunk().await.unwrap().is_some() {} };
    tokio::time::timeout(crate::PATIENCE, end).await.expect("the stream ends");
}

#[tokio::test]
async fn a_rotated_key_works_until_the_overlap_ends() {
    let server = TestServer::without_providers().await;
    let (admin, path) = (server.admin(), keys_path(&server));
    let body = json!({"name": "till", "scopes": ["read"], "expires_at": NOW.0 + 100 * HOUR_MS});
    let old = admin.post(&path, &body).await.ok();
    let id = old["id"].as_str().unwrap();
    let rotate = format!("{path}/{id}/rotate");
    let new = admin.post(&rotate, &json!({"overlap_seconds": 7_200})).await.ok();
    assert_eq!(new.as_object().unwrap().len(), 2);
    let caller = |key: &Value| Caller::app(server.origin(), key["api_key"].as_str().unwrap());
    let (old, new) = (caller(&old), caller(&new));
    for caller in [&old, &new] {
        caller.get("/v1/devices").await.ok();
        caller.post("/v1/devices", &android("d1")).await.is(403);
    }
    let keys = admin.get(&path).await.ok();
    let [rotated, successor] = [&keys["keys"][1], &keys["keys"][2]];
    assert_eq!(rotated["expires_at"], NOW.0 + 2 * HOUR_MS);
    assert_eq!(successor["expires_at"], NOW.0 + 100 * HOUR_MS, "it lives as long as planned");
    assert_eq!((&successor["name"], &successor["scopes"]), (&json!("till"), &json!(["read"])));
    let diagnostics = format!("/admin/v1/apps/{}/devices/diagnostics", server.app_id);
    let expiring = admin.get(&diagnostics).await.ok()["expiring_keys"].clone();
    assert_eq!(expiring, json!([rotated, successor]), "both expire within 14 days");
    server.clock().advance(2 * HOUR);
    old.get("/v1/devices").await.rejected(401, EXPIRED);
    new.get("/v1/devices").await.ok();
    let expiring = admin.get(&diagnostics).await.ok()["expiring_keys"].clone();
    assert_eq!(expiring.as_array().unwrap().len(), 1, "an expired key is not named");
    // At once, and by default after a day.
    let latest = successor["id"].as_str().unwrap();
    let newer = admin.post_bytes(&format!("{path}/{latest}/rotate"), "").await.ok();
    new.get("/v1/devices").await.ok();
    let newest = format!("{path}/{}/rotate", newer["id"].as_str().unwrap());
    admin.post(&newest, &json!({"overlap_seconds": 0})).await.ok();
    caller(&newer).get("/v1/devices").await.rejected(401, EXPIRED);
    server.clock().advance(24 * HOUR);
    new.get("/v1/devices").await.rejected(401, EXPIRED);
    // A rotation does not revive a key.
    admin.post(&rotate, &json!({"overlap_seconds": 7_200})).await.ok();
    old.get("/v1/devices").await.rejected(401, EXPIRED);
}

/// The expiry of a rotated key is planned. It is a warning only if the key is still in use.
#[tokio::test]
async fn a_rotated_key_is_a_warning_only_while_it_is_used() {
    let server = TestServer::without_providers().await;
    let (admin, path) = (server.admin(), keys_path(&server));
    let old = admin.post(&path, &json!({"name": "ci", "scopes": ["read"]})).await.ok();
    admin.post_bytes(&format!("{path}/{}/rotate", old["id"].as_str().unwrap()), "").await.ok();
    let diagnostics = format!("/admin/v1/apps/{}/devices/diagnostics", server.app_id);
    let expiring = async || admin.get(&diagnostics).await.ok()["expiring_keys"].clone();
    assert_eq!(expiring().await, json!([]));
    server.clock().advance(HOUR);
    let caller = Caller::app(server.origin(), old["api_key"].as_str().unwrap());
    caller.get("/v1/devices").await.ok();
    assert_eq!(expiring().await[0]["id"], old["id"]);
}

#[tokio::test]
async fn a_rotation_of_an_unknown_key_makes_no_key() {
    let server = TestServer::without_providers().await;
    let (admin, path) = (server.admin(), keys_path(&server));
    let (other, _) = server.create_app("other").await;
    let listed = admin.get(&path).await.ok();
    let key = listed["keys"][0]["id"].as_str().unwrap();
    for unknown in [
        format!("{path}/0190a7c0-0000-7000-8000-000000000000/rotate"),
        format!("{path}/x/rotate"),
        format!("/admin/v1/apps/{other}/keys/{key}/rotate"),
    ] {
        admin.post(&unknown, &json!({})).await.rejected(404, &["not found"]);
    }
    let rotate = format!("{path}/{key}/rotate");
    for (body, error) in [
        (json!({"overlap_seconds": 2_592_001}), "overlap_seconds: must be at most 2592000"),
        (json!({"overlap_seconds": "1d"}), "overlap_seconds: expected a whole number"),
        (json!({"scopes": ["send"]}), "scopes: unknown field"),
    ] {
        admin.post(&rotate, &body).await.rejected(400, &[error]);
    }
    server.caller().post(&rotate, &json!({})).await.is(401);
    assert_eq!(admin.get(&path).await.ok(), listed, "nothing was stored");
    let trail = admin.get("/admin/v1/audit").await.ok();
    let actions: Vec<&Value> =
        trail["entries"].as_array().unwrap().iter().map(|entry| &entry["action"]).collect();
    assert!(!actions.contains(&&json!("rotate_api_key")), "{trail}");
    admin.post(&rotate, &json!({})).await.ok();
    let trail = admin.get("/admin/v1/audit").await.ok();
    assert_eq!(trail["entries"][0]["action"], "rotate_api_key");
    assert_eq!(trail["entries"][0]["object"], key);
}
