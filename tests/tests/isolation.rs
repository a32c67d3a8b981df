//! Tenant isolation: on every route of the OpenAPI document, a request with one application's key
//! and another one's ids gets the response to ids that do not exist.

use anyhow::{Context, Result};
use http::Method;
use notify_tests::{Caller, Resources, TestServer, body, routes};
use serde_json::{Value, json};

/// The fields of a feed that a fetch changes at any time.
const FETCHED: [&str; 4] = ["status", "items", "last_fetched_at", "last_error"];

/// Reads all data that an application can read, except fields that change without a request.
async fn everything(caller: &Caller, resources: &Resources) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    for path in [
        "/v1/notifications".to_owned(),
        "/v1/devices".to_owned(),
        "/v1/tags".to_owned(),
        "/v1/feeds".to_owned(),
        "/v1/campaigns?status=all".to_owned(),
        "/v1/users".to_owned(),
        "/v1/segments".to_owned(),
        "/v1/statistics/devices".to_owned(),
        "/v1/statistics/notifications".to_owned(),
        format!("/v1/polls/{}", resources.poll),
        format!("/v1/campaigns/{}", resources.campaign),
    ] {
        let mut read = caller.get(&path).await.ok();
        for feed in read.get_mut("feeds").and_then(Value::as_array_mut).into_iter().flatten() {
            let feed = feed.as_object_mut().context("an object")?;
            feed.retain(|field, _| !FETCHED.contains(&field.as_str()));
        }
        all.push(read);
    }
    Ok(all)
}

#[tokio::test]
async fn ids_of_another_application_look_nonexistent_on_every_route() -> Result<()> {
    let server = TestServer::start().await;
    let owner = server.caller();
    let owned = Resources::create(&owner, "owners-phone").await?;
    let before = everything(&owner, &owned).await?;
    let (_, other_app) = server.create_app("other").await;
    let unknown = Resources::unknown();

    let mut asked = 0;
    for route in routes(&owner).await? {
        let names_something = route.template.contains('{') && route.template.starts_with("/v1");
        if !names_something {
            continue;
        }
        // These requests create the resource in their path, each in its own application.
        let creates_resource = matches!(
            (route.method.as_str(), route.template.as_str()),
            ("PUT", "/v1/segments/{name}")
                | ("PATCH", "/v1/users/{user_id}")
                | ("POST", "/v1/users/{user_id}/tokens")
        );
        if creates_resource {
            continue;
        }
        let body = body(&route).map_or_else(String::new, |body| body.to_string());
        let ask = async |resources: &Resources| -> Result<(u16, Value)> {
            let path = resources.path(&route.template);
            let reply = other_app.send(&route.method, &path, body.clone()).await?;
            Ok((reply.status, reply.json()))
        };
        let (theirs, never) = (ask(&owned).await?, ask(&unknown).await?);
        assert_eq!(theirs, never, "{route:?}");
        assert!(matches!(theirs.0, 400 | 404), "{route:?}: {theirs:?}");
        asked += 1;
    }
    assert!(asked >= 14, "{asked} routes have ids");
    assert_eq!(everything(&owner, &owned).await?, before, "nothing of it did anything");
    for (list, name) in [
        ("/v1/notifications", "notifications"),
        ("/v1/devices", "devices"),
        ("/v1/devices?state=enabled", "devices"),
        ("/v1/tags", "tags"),
        ("/v1/users", "users"),
        ("/v1/segments", "segments"),
        ("/v1/feeds", "feeds"),
        ("/v1/campaigns?status=all", "campaigns"),
    ] {
        assert_eq!(other_app.get(list).await.ok()[name], json!([]), "{list}");
        assert_ne!(owner.get(list).await.ok()[name], json!([]), "{list}");
    }
    assert_eq!(other_app.get("/v1/statistics/devices").await.ok()["total"], 0);
    assert_eq!(other_app.get("/v1/statistics/notifications").await.ok()["days"], json!([]));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn bodies_and_queries_cannot_reach_into_another_application() -> Result<()> {
    let server = TestServer::start().await;
    let owner = server.caller();
    let owned = Resources::create(&owner, "owners-phone").await?;
    let (_, other_app) = server.create_app("other").await;
    let own = Resources::create(&other_app, "other-phone").await?;
    let post =
        async |path: &str, body: Value| other_app.send(&Method::POST, path, body.to_string()).await;

    let campaign = json!({"text": "t", "platforms": ["ios"], "campaign_id": owned.campaign});
    assert_eq!(post("/v1/notifications", campaign).await?.status, 400);
    let mut template = notify_tests::template("c");
    template["features"] = json!([{"type": "content_feed", "position": 1,
        "data": {"feeds": [{"id": owned.feed}]}}]);
    assert_eq!(post("/v1/campaigns", template).await?.status, 400);
    // Each id exists in one of the applications, but the two ids do not exist in the same application.
    for (notification, device) in
        [(&owned.notification, &own.device), (&own.notification, &owned.device)]
    {
        let event = json!({"type": "opened", "notification_id": notification, "device_id": device});
        let answer = post("/v1/events", json!({"events": [event]})).await?.ok();
        assert_eq!(answer["accepted"], 0, "{answer}");
        let path = format!(
            "/v1/enrichments/{}?notification_id={notification}&device_id={device}",
            own.campaign
        );
        assert_eq!(other_app.send(&Method::GET, &path, "").await?.status, 404);
    }
    let vote = format!("/v1/polls/{}/answers/{}", own.poll, own.answer);
    assert_eq!(post(&vote, json!({"device_id": owned.device})).await?.status, 400);
    let named = json!({"text": "t", "android_device_ids": [owned.device]});
    let id = post("/v1/notifications", named).await?.ok()["id"].clone();
    let id = serde_json::from_value(id)?;
    let record = notify_tests::completed(&server.client(), &id).await;
    assert!(record.is_err(), "the owner does not see the other application's notification either");
    let path = format!("/v1/notifications/{id}");
    let counts = notify_tests::until("the other application's notification ends", async || {
        let record = other_app.get(&path).await.ok();
        Ok((record["status"] == "completed").then(|| record["counts"].clone()))
    })
    .await?;
    assert_eq!((&counts["unknown"], &counts["targeted"]), (&json!(1), &json!(0)));
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn two_applications_may_use_the_same_ids_and_keys() -> Result<()> {
    let server = TestServer::start().await;
    let owner = server.caller();
    let (_, other_app) = server.create_app("other").await;
    // An id that the server created for one application can be reported by the other.
    let made =
        owner.post("/v1/notifications", &json!({"text": "t", "platforms": ["ios"]})).await.id();
    let same = json!({"id": made, "text": "t", "platforms": ["ios"]});
    other_app.post("/v1/notifications/notify", &same).await.ok();
    let key = [("idempotency-key", "the-same")];
    let report = json!({"id": "order-1", "text": "t", "platforms": ["ios"]}).to_string();
    let device = |token: &str| {
        json!({"device_id": "phone", "platform": "android", "sdk_type": "android_push",
            "push_token": token})
    };
    for (caller, language) in [(&owner, "en"), (&other_app, "de")] {
        let path = "/v1/notifications/notify";
        let reply = caller.send_with(&Method::POST, path, report.clone(), &key).await?;
        assert_eq!((reply.status, reply.header("idempotency-replayed")), (200, ""), "{language}");
        // Another body under the same key is a conflict only within one application.
        let mut body = device("the-same-token");
        body["language"] = json!(language);
        let reply = caller.send_with(&Method::POST, "/v1/devices", body.to_string(), &key).await?;
        assert_eq!(reply.status, 200, "{}", reply.text);
    }
    for (caller, language) in [(&owner, "en"), (&other_app, "de")] {
        let read = caller.get("/v1/devices/phone").await.ok();
        let kept = (&read["language"], &read["push_token"]);
        assert_eq!(kept, (&json!(language), &json!("the-same-token")));
    }
    owner.send(&Method::DELETE, "/v1/devices/phone", "").await?.ok();
    other_app.get("/v1/devices/phone").await.ok();
    server.stop().await;
    Ok(())
}

#[tokio::test]
async fn keys_open_only_their_own_api_and_nothing_once_revoked() -> Result<()> {
    let server = TestServer::start().await;
    let (app, other_app) = server.create_app("other").await;
    let swapped = [
        (Caller::admin(server.origin(), server.api_key()), "/admin/v1"),
        (Caller::app(server.origin(), server.admin_key()), "/v1"),
    ];
    let resources = Resources::unknown();
    for route in routes(&other_app).await? {
        for (caller, below) in &swapped {
            if route.template.starts_with(below) {
                let path = resources.path(&route.template);
                // The server responds with 401 before it reads the body.
                let reply = caller.send(&route.method, &path, "{").await?;
                assert_eq!(reply.status, 401, "{route:?}");
                assert!(reply.errors().is_some(), "{}", reply.text);
            }
        }
    }
    let admin = server.admin();
    let keys = admin.get(&format!("/admin/v1/apps/{app}/keys")).await.ok();
    let key = keys["keys"][0]["id"].as_str().context("a key")?;
    let path = format!("/admin/v1/apps/{app}/keys/{key}");
    other_app.get("/v1/devices").await.ok();
    admin.send(&Method::DELETE, &path, "").await?.ok();
    assert_eq!(other_app.send(&Method::GET, "/v1/devices", "").await?.status, 401);
    server.caller().get("/v1/devices").await.ok();
    server.stop().await;
    Ok(())
}
