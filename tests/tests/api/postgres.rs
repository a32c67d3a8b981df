//! A server on PostgreSQL, seen by its users.

use notify_server::store::postgres::testing::TestCluster;
use notify_tests::{Caller, TestServer, empty_database, logged};
use serde_json::json;

use crate::fixtures::{android, on_database, to_android};

#[tokio::test]
async fn data_survives_a_restart_on_postgresql() {
    let database = empty_database();
    let mut server = TestServer::without_providers_with(on_database(&database)).await;
    server.anonymous().get("/readyz").await.ok();
    let caller = server.caller();
    caller.post("/v1/devices", &android("d1")).await.ok();
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    server.restart().await;
    let caller = server.caller();
    let device = caller.get("/v1/devices/d1").await.ok();
    assert_eq!(device["platform"], "android");
    assert_eq!(caller.get(&format!("/v1/notifications/{id}")).await.ok()["id"], id);
    let storage = server.admin().get("/admin/v1/diagnostics").await.ok()["storage"].take();
    let values = ["backend", "synchronous"].map(|name| storage[name].clone());
    assert_eq!(values, ["postgres", "full"]);
    assert!(!server.data_dir().join("notify.db").exists());
    assert!(!server.data_dir().join("master.key").exists());
    server.stop().await;
}

/// An entry of an index holds less than a path may have.
#[tokio::test]
async fn a_repeat_on_a_long_path_is_replayed() {
    let database = empty_database();
    let server = TestServer::without_providers_with(on_database(&database)).await;
    let caller = server.caller();
    let id = "\u{1f514}".repeat(255);
    caller.post("/v1/devices", &android(&id)).await.ok();
    let path = format!("/v1/devices/{}/tags", "%F0%9F%94%94".repeat(255));
    let tags = json!({"tags": [{"name": "vip", "type": "bool", "value": true}]});
    for replayed in ["", "true"] {
        let answer = caller.post_once(&path, "once", &tags).await;
        assert_eq!((answer.status, answer.header("idempotency-replayed")), (200, replayed));
    }
    server.stop().await;
}

#[tokio::test]
async fn two_servers_serve_one_database() {
    let database = empty_database();
    let first = TestServer::without_providers_with(on_database(&database)).await;
    let second = first.start_another().await;
    second.caller().post("/v1/devices", &android("d1")).await.ok();
    first.caller().get("/v1/devices/d1").await.ok();
    // A key that the first revokes is soon refused by the second.
    let admin = first.admin();
    let apps = admin.get("/admin/v1/apps").await.ok();
    let keys = format!("/admin/v1/apps/{}/keys", apps["apps"][0]["id"].as_str().unwrap());
    let made = admin.post(&keys, &json!({})).await.ok();
    let key = Caller::app(second.origin(), made["api_key"].as_str().unwrap());
    key.get("/v1/devices/d1").await.ok();
    admin.delete(&format!("{keys}/{}", made["id"].as_str().unwrap())).await.ok();
    notify_tests::until("the second refuses it", async || {
        Ok((key.get("/v1/devices/d1").await.status == 401).then_some(()))
    })
    .await
    .unwrap();
    second.stop().await;
    first.stop().await;
}

/// PostgreSQL keeps it in no text.
#[tokio::test]
async fn u0000_is_rejected_in_bodies_and_not_found_in_paths() {
    let database = empty_database();
    let server = TestServer::without_providers_with(on_database(&database)).await;
    let caller = server.caller();
    let answer = caller.post("/v1/devices", &android("d\0")).await;
    let broken = ["device_id", "push_token"].map(|path| format!("{path}: must not contain U+0000"));
    answer.rejected(400, &broken.each_ref().map(String::as_str));
    for path in ["/v1/devices/d%00", "/v1/notifications/n%00"] {
        let answer = caller.get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path}: {}", answer.text);
    }
    server.stop().await;
}

#[tokio::test]
async fn an_unreachable_database_is_503_until_it_returns() {
    let database = empty_database();
    let server = TestServer::without_providers_with(on_database(&database)).await;
    let caller = server.caller();
    caller.get("/v1/notifications").await.ok();
    let (cluster, name) = (TestCluster::shared(), database.name());
    cluster.execute(&format!("alter database {name} with allow_connections false"));
    cluster.execute(&format!(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'"
    ));
    let answer = caller.post("/v1/notifications", &to_android()).await;
    answer.rejected(503, &["unavailable"]);
    assert!(logged().contains(answer.header("x-request-id")), "the cause is logged");
    server.anonymous().get("/readyz").await.rejected(503, &["storage cannot be read and written"]);
    cluster.execute(&format!("alter database {name} with allow_connections true"));
    server.clock().advance(std::time::Duration::from_secs(1));
    server.anonymous().get("/readyz").await.ok();
    caller.post("/v1/notifications", &to_android()).await.id();
    server.stop().await;
}
