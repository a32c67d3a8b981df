//! The admin API: the request of each method and its decoded response.

use crate::common::{ID, Server, response};
use notify_client::notify_core::*;
use serde_json::json;

fn app_id() -> AppId {
    ID.parse().unwrap()
}

fn app() -> serde_json::Value {
    json!({ "id": ID, "name": "Shop", "language": "en", "status": "active", "created_at": 1 })
}

#[tokio::test]
async fn apps_are_created_changed_and_deleted() {
    let server = Server::with_body(json!({ "id": ID })).await;
    let shop = CreateApp { name: "Shop".into(), language: Some("de".into()) };
    assert_eq!(server.client().admin().create_app(&shop).await.unwrap().id, app_id());
    let body = json!({ "name": "Shop", "language": "de" });
    server.assert_received("POST /admin/v1/apps", Some(body)).await;

    let server = Server::with_body(json!({ "success": true })).await;
    let suspend = UpdateApp { status: Some("suspended".into()), ..Default::default() };
    server.client().admin().update_app(app_id(), &suspend).await.unwrap();
    let body = json!({ "status": "suspended" });
    server.assert_received(&format!("PATCH /admin/v1/apps/{ID}"), Some(body)).await;

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().delete_app(app_id()).await.unwrap();
    server.assert_received(&format!("DELETE /admin/v1/apps/{ID}"), None).await;
}

#[tokio::test]
async fn apps_are_read_and_listed() {
    let server = Server::with_body(app()).await;
    let read = server.client().admin().get_app(app_id()).await.unwrap();
    server.assert_received(&format!("GET /admin/v1/apps/{ID}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), app());

    let server = Server::with_responses(vec![
        response(200, json!({ "apps": [app()], "next_cursor": "two" })),
        response(200, json!({ "apps": [app()], "next_cursor": null })),
    ])
    .await;
    let notify = server.client();
    let page = notify.admin().list_apps(&PageQuery::default()).await.unwrap();
    assert_eq!(page.apps.as_slice(), std::slice::from_ref(&read));
    server.assert_received("GET /admin/v1/apps", None).await;
    let rest = PageQuery { cursor: page.next_cursor, ..Default::default() };
    let mut all = notify.admin().all_apps(&rest);
    assert_eq!(all.next().await.unwrap().unwrap(), read);
    assert!(all.next().await.is_none());
}

#[tokio::test]
async fn web_access_is_set_read_and_cleared() {
    let server = Server::with_body(json!({ "success": true })).await;
    let access = SetWebAccess {
        allowed_origins: vec!["https://shop.example".into()],
        allowed_tags: Some(vec!["news".into()]),
        push_services: None,
    };
    server.client().admin().set_web_access(app_id(), &access).await.unwrap();
    let body = json!({ "allowed_origins": ["https://shop.example"], "allowed_tags": ["news"] });
    server.assert_received(&format!("PUT /admin/v1/apps/{ID}/web"), Some(body)).await;
    let wildcard = SetWebAccess { allowed_origins: vec!["*".into()], ..Default::default() };
    let refused = server.client().admin().set_web_access(app_id(), &wildcard).await;
    assert!(matches!(refused, Err(notify_client::Error::Invalid(..))), "{refused:?}");

    let read = json!({ "allowed_origins": ["https://shop.example"], "allowed_tags": [],
        "push_services": ["push.example"] });
    let server = Server::with_body(read.clone()).await;
    let access = server.client().admin().get_web_access(app_id()).await.unwrap();
    server.assert_received(&format!("GET /admin/v1/apps/{ID}/web"), None).await;
    assert_eq!(serde_json::to_value(&access).unwrap(), read);

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().clear_web_access(app_id()).await.unwrap();
    server.assert_received(&format!("DELETE /admin/v1/apps/{ID}/web"), None).await;
}

#[tokio::test]
async fn keys_are_created_listed_and_revoked() {
    let server = Server::with_body(json!({ "id": ID, "api_key": "nk_secret" })).await;
    let ci = CreateKey { name: Some("ci".into()), ..CreateKey::default() };
    let created = server.client().admin().create_key(app_id(), &ci).await.unwrap();
    assert_eq!(created.api_key, "nk_secret");
    assert!(!format!("{created:?}").contains("nk_secret"));
    let line = format!("POST /admin/v1/apps/{ID}/keys");
    server.assert_received(&line, Some(json!({ "name": "ci" }))).await;

    let key = json!({
        "id": ID, "name": null, "hint": "nk_…abcd", "created_at": 1, "last_used_at": 60_000,
    });
    let server = Server::with_body(json!({ "keys": [key] })).await;
    let keys = server.client().admin().list_keys(app_id()).await.unwrap();
    server.assert_received(&format!("GET /admin/v1/apps/{ID}/keys"), None).await;
    let listed = serde_json::to_value(&keys.keys[0]).unwrap();
    for (field, value) in key.as_object().unwrap() {
        assert_eq!(&listed[field], value, "{field}");
    }
    assert_eq!(keys.keys[0].scopes, KeyScope::ALL, "older servers do not limit keys");

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().revoke_key(app_id(), created.id).await.unwrap();
    server.assert_received(&format!("DELETE /admin/v1/apps/{ID}/keys/{ID}"), None).await;
}

#[tokio::test]
async fn providers_are_put_read_and_deleted() {
    let path = format!("/admin/v1/apps/{ID}/providers");
    let config = json!({ "service_account": {"type": "service_account"}, "rate_per_second": 5 });

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().put_provider(app_id(), ProviderKind::Fcm, &config).await.unwrap();
    server.assert_received(&format!("PUT {path}/fcm"), Some(config)).await;

    let held = json!({"state": "held", "reason": "InvalidProviderToken", "until": 9});
    let view = json!({
        "provider": "apns", "config": {"topic": "com.example"}, "updated_at": 3, "channel": held,
    });
    let server = Server::with_body(view.clone()).await;
    let read = server.client().admin().get_provider(app_id(), ProviderKind::Apns).await.unwrap();
    server.assert_received(&format!("GET {path}/apns"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), view);

    let server = Server::with_body(json!({ "providers": [view] })).await;
    let listed = server.client().admin().list_providers(app_id()).await.unwrap();
    server.assert_received(&format!("GET {path}"), None).await;
    assert_eq!(listed.providers, [read]);

    let checked = json!({ "ok": false, "detail": "InvalidProviderToken" });
    let server = Server::with_body(checked.clone()).await;
    let read = server.client().admin().test_provider(app_id(), ProviderKind::Apns).await.unwrap();
    server.assert_received(&format!("POST {path}/apns/test"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), checked);

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().resume_provider(app_id(), ProviderKind::Fcm).await.unwrap();
    server.assert_received(&format!("POST {path}/fcm/resume"), None).await;

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().delete_provider(app_id(), ProviderKind::WebPush).await.unwrap();
    server.assert_received(&format!("DELETE {path}/webpush"), None).await;
}

#[tokio::test]
async fn the_playground_is_started_read_and_stopped() {
    let path = "/admin/v1/playground";
    let running = json!({ "app_id": ID, "started_at": 1, "devices": [
        {"device_id": "phone", "platform": "android", "description": "works"}] });
    let mut started = running.clone();
    started["api_key"] = "nk_new".into();
    let server = Server::with_body(started.clone()).await;
    let read = server.client().admin().start_playground().await.unwrap();
    server.assert_received(&format!("POST {path}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), started);
    assert!(!format!("{read:?}").contains("nk_new"));

    let server = Server::with_body(running.clone()).await;
    let read = server.client().admin().get_playground().await.unwrap();
    server.assert_received(&format!("GET {path}"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), running);

    let messages = json!({ "messages": [{ "at": 1, "platform": "ios", "device_id": null,
        "is_credential_check": true, "headers": {"apns-topic": "t"}, "payload": {"aps": {}},
        "answer": {"status": 400, "reason": "BadDeviceToken"} }] });
    let server = Server::with_body(messages.clone()).await;
    let read = server.client().admin().list_playground_messages().await.unwrap();
    server.assert_received(&format!("GET {path}/messages"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), messages);

    let server = Server::with_body(json!({ "success": true })).await;
    let phone = DeviceId::new("a phone").unwrap();
    let answer = PlaygroundAnswer::Unregistered;
    server.client().admin().set_playground_answer(&phone, answer).await.unwrap();
    let body = json!({ "answer": "unregistered" });
    server.assert_received(&format!("PUT {path}/devices/a%20phone/answer"), Some(body)).await;

    let server = Server::with_body(json!({ "success": true })).await;
    server.client().admin().stop_playground().await.unwrap();
    server.assert_received(&format!("DELETE {path}"), None).await;
}

#[tokio::test]
async fn diagnostics_are_read() {
    let diagnostics = json!({
        "version": "1", "at": 1, "public_url": "http://a.example", "obstacles": ["x"],
        "storage": {"backend": "sqlite", "journal_mode": "wal", "synchronous": "full",
            "database_bytes": 1, "log_bytes": 2, "free_bytes": null, "foreign_roles": 3},
        "certificate_not_after": 5, "clock_leap_ms": 7, "clock_ahead_ms": -3,
        "egress_proxy": {"address": "proxy.example:3128", "failure": null}, "started_at": 3, "servers": 2,
        "refused_calls": [{"app_id": "01a1fcc4-9bb4-7002-8cbb-878d20259b58", "app_name": "Shop", "device": 1,
            "address": 2, "application": 3, "last_at": 4, "untrusted_proxy": "10.0.0.7"}],
    });
    let server = Server::with_body(diagnostics.clone()).await;
    let read = server.client().admin().diagnostics().await.unwrap();
    server.assert_received("GET /admin/v1/diagnostics", None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), diagnostics);

    let stopped = json!({"state": "stopped", "reason": null, "until": null});
    let diagnostics = json!({"ios": {"topic": null, "sampled": 2, "sandbox": 1,
        "store_identifiers": [{"store_identifier": "com.a", "devices": 2}]}, "channels": [
        {"provider": "apns", "configured": true, "devices": 2, "channel": stopped}],
        "webhooks": [], "feeds": [], "expiring_keys": []});
    let server = Server::with_body(diagnostics.clone()).await;
    let read = server.client().admin().app_diagnostics(app_id()).await.unwrap();
    server.assert_received(&format!("GET /admin/v1/apps/{ID}/devices/diagnostics"), None).await;
    assert_eq!(serde_json::to_value(&read).unwrap(), diagnostics);
}

#[tokio::test]
async fn readiness_includes_the_clock_of_the_server() {
    let date = "Fri, 02 Jan 2026 03:04:35 GMT";
    let ready = response(200, json!({ "success": true })).insert_header("date", date);
    let server = Server::with_responses(vec![ready]).await;
    let bare = notify_client::Client::builder(&server.0.uri()).build().unwrap();
    let read = bare.server().ready().await.unwrap();
    assert_eq!(read.date, Some(Timestamp(1_767_323_075_000)), "without any key");
}
