//! Metrics, readiness, diagnostics, provider tests, and the deletion of expired data.

use std::time::Duration;

use notify_core::Timestamp;
use notify_server::store::sqlite::Fault;
use notify_tests::{NOW, Response, TestServer, logged};
use serde_json::{Value, json};

use crate::PATIENCE;
use crate::fixtures::{android, to_android};

const DAY: Duration = Duration::from_secs(86_400);
/// How long the result of a readiness check is used.
const RESULT_KEPT: Duration = Duration::from_secs(1);
/// A clock that is set wrong.
const LEAP: Duration = Duration::from_secs(20 * 365 * 86_400);

/// The value of a series, in full.
fn series(metrics: &str, name: &str) -> Option<f64> {
    let value = metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    Some(value.parse().unwrap())
}

/// Asks until the answer is as it should be. Bounded.
async fn until(server: &TestServer, path: &str, is_so: impl Fn(&Response) -> bool) -> Response {
    let asking = async {
        loop {
            let answer = server.caller().get(path).await;
            if is_so(&answer) {
                return answer;
            }
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.expect("it comes to be so")
}

#[tokio::test]
async fn metrics_are_served_in_the_requested_format() {
    let server = TestServer::without_providers().await;
    let anyone = server.anonymous();
    for (accept, form, ends) in [
        ("*/*", "text/plain; version=0.0.4; charset=utf-8", false),
        (
            "application/openmetrics-text; version=1.0.0",
            "application/openmetrics-text; version=1.0.0; charset=utf-8",
            true,
        ),
    ] {
        let request = anyone.request(reqwest::Method::GET, "/metrics").header("accept", accept);
        let answer = Response::of(request).await;
        assert_eq!(answer.header("content-type"), form);
        assert_eq!(answer.text.ends_with("# EOF\n"), ends);
    }
}

#[tokio::test]
async fn metrics_count_deliveries_by_outcome() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    for id in ["a", "b"] {
        caller.post("/v1/devices", &android(id)).await.ok();
    }
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    let path = format!("/v1/notifications/{id}");
    until(&server, &path, |answer| answer.json()["status"] == "completed").await;
    let metrics = server.anonymous().get("/metrics").await.text;
    let ended = "notify_deliveries_total{channel=\"fcm\",outcome=\"failed\",\
        reason=\"provider_not_configured\"}";
    assert_eq!(series(&metrics, ended), Some(2.0));
    assert_eq!(series(&metrics, "notify_delivery_attempts_total{channel=\"fcm\"}"), Some(0.0));
    assert_eq!(series(&metrics, "notify_oldest_due_age_seconds{channel=\"fcm\"}"), Some(0.0));
    assert_eq!(
        series(&metrics, "notify_queue_depth{channel=\"fcm\",state=\"sending\"}"),
        Some(0.0)
    );
}

/// The values of a metric by its label `app`.
fn by_app(metrics: &str, name: &str) -> Vec<(String, String)> {
    let prefix = format!("{name}{{app=\"");
    let lines = metrics.lines().filter_map(|line| line.strip_prefix(&prefix)?.split_once("\"} "));
    lines.map(|(app, value)| (app.to_owned(), value.to_owned())).collect()
}

#[tokio::test]
async fn metrics_by_application_have_a_bound() {
    let mut server = TestServer::without_providers_with(|config| config.metrics_apps = 1).await;
    let first = server.app_id.to_string();
    let (_, second) = server.create_app("Second").await;
    let (_, third) = server.create_app("Third").await;
    let accepted = "notify_app_notifications_accepted_total";
    let send = async |caller: &notify_tests::Caller| {
        caller.post("/v1/devices", &android("a")).await.ok();
        caller.post("/v1/notifications", &to_android()).await.ok();
    };
    let row = |app: &str, value: &str| (app.to_owned(), value.to_owned());
    let expect = async |server: &TestServer, rows: [(String, String); 2]| {
        let answer = until(server, "/metrics", |answer| {
            let mut found = by_app(&answer.text, accepted);
            found.sort_by_key(|(app, _)| app == "other");
            found == rows
        });
        answer.await.text
    };
    for caller in [&server.caller(), &second, &third, &third] {
        send(caller).await;
    }
    // The application that was counted first has its series. The two others share one.
    expect(&server, [row(&first, "1"), row("other", "3")]).await;
    let failed =
        |app: &str| format!("notify_app_deliveries_total{{app=\"{app}\",outcome=\"failed\"}}");
    until(&server, "/metrics", |answer| {
        let ended = [series(&answer.text, &failed(&first)), series(&answer.text, &failed("other"))];
        ended == [Some(1.0), Some(3.0)]
    })
    .await;
    server.restart().await;
    // After a start, the oldest application has the series, whichever is counted first.
    let text = expect(&server, [row(&first, "0"), row("other", "0")]).await;
    for name in ["notify_app_queue_depth", "notify_app_oldest_due_age_seconds"] {
        assert_eq!(by_app(&text, name).len(), 2, "{name} in {text}");
    }
    server.restart_with(|config| config.metrics_apps = 0).await;
    let text = server.anonymous().get("/metrics").await.text;
    assert!(!text.contains("notify_app_"), "{text}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn metrics_describe_the_process() {
    let server = TestServer::without_providers().await;
    let metrics = server.anonymous().get("/metrics").await.text;
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_virtual_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_threads",
    ] {
        assert!(series(&metrics, name) > Some(0.0), "{name} in {metrics}");
    }
    // The start of the manual clock, `NOW`.
    assert_eq!(series(&metrics, "process_start_time_seconds"), Some(1_795_219_200.0));
}

#[tokio::test]
async fn a_server_that_cannot_write_is_not_ready() {
    let server = TestServer::without_providers().await;
    let anyone = server.anonymous();
    anyone.get("/readyz").await.ok();
    server.store().fail(Fault::FailEveryCommit);
    server.clock().advance(RESULT_KEPT);
    anyone.get("/readyz").await.rejected(503, &["storage cannot be read and written"]);
    server.store().remove_fault();
    server.clock().advance(RESULT_KEPT);
    anyone.get("/readyz").await.ok();
}

/// How many checks were written to the file.
fn checks(server: &TestServer) -> i64 {
    let file = rusqlite::Connection::open(server.data_dir().join("notify.db")).unwrap();
    file.query_row("select count from storage_checks", [], |row| row.get(0)).unwrap()
}

/// It needs no key, so it must not cost a commit each time.
#[tokio::test]
async fn readiness_requests_within_a_second_share_one_check() {
    let server = TestServer::without_providers_on_sqlite().await;
    let anyone = server.anonymous();
    let asked = async || {
        let before = checks(&server);
        let asking = (0..200).map(|_| anyone.get("/readyz"));
        for answer in futures_util::future::join_all(asking).await {
            answer.ok();
        }
        checks(&server) - before
    };
    assert_eq!(asked().await, 1);
    server.clock().advance(RESULT_KEPT - Duration::from_millis(1));
    assert_eq!(asked().await, 0);
    server.clock().advance(Duration::from_millis(1));
    assert_eq!(asked().await, 1);
}

#[cfg(unix)]
#[tokio::test]
async fn without_its_database_file_the_server_is_not_ready_and_writes_nothing() {
    let server = TestServer::without_providers_on_sqlite().await;
    let (anyone, caller) = (server.anonymous(), server.caller());
    let file = server.data_dir().join("notify.db");
    let moved = server.data_dir().join("other.db");
    let problem = ["a file of the database was deleted or replaced"];
    anyone.get("/readyz").await.ok();
    std::fs::rename(&file, &moved).unwrap();
    server.clock().advance(RESULT_KEPT);
    for _ in 0..3 {
        anyone.get("/readyz").await.rejected(503, &problem);
        server.clock().advance(RESULT_KEPT);
    }
    caller.post("/v1/devices", &android("a")).await.rejected(503, &["unavailable"]);
    assert!(!file.exists(), "no other is made in its place");
    let message = format!("{} was deleted or replaced while the server runs", file.display());
    let lines = logged().lines().filter(|line| line.contains(&message)).count();
    assert!((1..=2).contains(&lines), "readiness is logged once, the request once: {lines}");
    // A copy in its place is another file.
    std::fs::copy(&moved, &file).unwrap();
    server.clock().advance(RESULT_KEPT);
    anyone.get("/readyz").await.rejected(503, &problem);
    caller.post("/v1/devices", &android("a")).await.rejected(503, &["unavailable"]);
    std::fs::rename(&moved, &file).unwrap();
    server.clock().advance(RESULT_KEPT);
    anyone.get("/readyz").await.ok();
    caller.post("/v1/devices", &android("a")).await.ok();
}

#[tokio::test]
async fn diagnostics_show_the_servers_settings() {
    let server = TestServer::without_providers_on_sqlite().await;
    server.caller().get("/admin/v1/diagnostics").await.is(401);
    let mut diagnostics = server.admin().get("/admin/v1/diagnostics").await.ok();
    let storage = diagnostics["storage"].take();
    let expected = json!({"version": env!("CARGO_PKG_VERSION"), "at": NOW.0, "storage": null,
        "public_url": server.origin(), "obstacles": [],
        "certificate_not_after": null, "clock_leap_ms": 0, "clock_ahead_ms": null, "egress_proxy": null,
        "started_at": NOW.0, "servers": 1,
        "pending_erasures": {"ids": 0, "oldest_at": null, "requests_left": 0}, "refused_calls": []});
    assert_eq!(diagnostics, expected);
    let set = ["backend", "journal_mode", "synchronous"].map(|name| storage[name].clone());
    assert_eq!(set, ["sqlite", "wal", "full"]);
    for size in ["database_bytes", "free_bytes"] {
        assert!(storage[size].as_u64().unwrap() > 0, "{size} of {storage}");
    }
}

#[tokio::test]
async fn diagnostics_of_an_application_count_its_ios_devices() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let app = admin.get("/admin/v1/apps").await.ok()["apps"][0]["id"].as_str().unwrap().to_owned();
    for (id, env) in [("a", "sandbox"), ("b", "")] {
        let device = json!({"device_id": id, "platform": "ios", "sdk_type": "ios_push",
            "ios_env": env, "push_token": format!("0{id}"), "store_identifier": "com.example.app"});
        server.caller().post("/v1/devices", &device).await.ok();
    }
    let diagnostics = admin.get(&format!("/admin/v1/apps/{app}/devices/diagnostics")).await.ok();
    let identifiers = json!([{"store_identifier": "com.example.app", "devices": 2}]);
    // Devices that nothing configured serves.
    let open = json!({"state": "open", "reason": null, "until": null});
    let apns = json!({"provider": "apns", "configured": false, "devices": 2, "channel": open});
    let expected = json!({"ios": {"topic": null, "sampled": 2, "sandbox": 1,
        "store_identifiers": identifiers}, "channels": [apns], "webhooks": [], "feeds": [],
        "expiring_keys": [], "anonymous_devices": {"devices": 0, "max": 1_000_000}});
    assert_eq!(diagnostics, expected);
    let missing = "01a1fcc4-9bb4-7002-8cbb-878d20259b58";
    admin
        .get(&format!("/admin/v1/apps/{missing}/devices/diagnostics"))
        .await
        .rejected(404, &["not found"]);
}

/// Feeds and webhooks belong to applications; the operator of the server sees those that are broken.
#[tokio::test]
async fn diagnostics_of_an_application_list_its_failures() {
    let server =
        TestServer::without_providers_with(|config| config.allow_private_networks = true).await;
    let (admin, caller) = (server.admin(), server.caller());
    let app = admin.get("/admin/v1/apps").await.ok()["apps"][0]["id"].as_str().unwrap().to_owned();
    // Nothing listens there.
    let (hook, feed) = ("http://127.0.0.1:1/hook", "http://127.0.0.1:1/rss");
    let made = caller.post("/v1/webhooks", &json!({"url": hook})).await.ok();
    let id = made["id"].as_str().unwrap();
    caller.post(&format!("/v1/webhooks/{id}/test"), &json!({})).await.ok();
    caller.post("/v1/feeds", &json!({"url": feed, "name": "News"})).await.ok();
    let failing = |list: &Value| list["feeds"][0]["status"] == "failing";
    let feeds = until(&server, "/v1/feeds", |answer| failing(&answer.json())).await.ok();
    let diagnostics = admin.get(&format!("/admin/v1/apps/{app}/devices/diagnostics")).await.ok();
    let webhooks = caller.get("/v1/webhooks").await.ok();
    assert_eq!(diagnostics["webhooks"][0]["failing_since"], NOW.0, "{diagnostics}");
    assert_eq!(
        (&diagnostics["webhooks"], &diagnostics["feeds"]),
        (&webhooks["webhooks"], &feeds["feeds"])
    );

    // One that was disabled by request receives nothing either.
    caller.patch(&format!("/v1/webhooks/{id}"), &json!({"enabled": false})).await.ok();
    let diagnostics = admin.get(&format!("/admin/v1/apps/{app}/devices/diagnostics")).await.ok();
    assert_eq!(diagnostics["webhooks"][0]["enabled"], false);
    assert_eq!(diagnostics["webhooks"][0]["disabled_reason"], Value::Null);
}

#[tokio::test]
async fn an_unconfigured_provider_is_neither_tested_nor_resumed() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let app = admin.get("/admin/v1/apps").await.ok()["apps"][0]["id"].as_str().unwrap().to_owned();
    for word in ["test", "resume"] {
        for provider in ["fcm", "smoke-signals"] {
            let path = format!("/admin/v1/apps/{app}/providers/{provider}/{word}");
            admin.post(&path, &json!({})).await.rejected(404, &["not found"]);
        }
        let path = format!("/admin/v1/apps/{app}/providers/fcm/{word}");
        let unknown = ["force: unknown field"];
        admin.post(&path, &json!({"force": true})).await.rejected(400, &unknown);
        server.caller().post(&path, &json!({})).await.is(401);
    }
}

#[tokio::test]
async fn expired_data_is_deleted() {
    let server = TestServer::without_providers_with(|config| {
        config.keep_notifications_days = 10;
        config.keep_outcomes_days = 1;
    })
    .await;
    let caller = server.caller();
    caller.post("/v1/devices", &android("a")).await.ok();
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    let path = format!("/v1/notifications/{id}");
    let ended = until(&server, &path, |answer| answer.json()["status"] == "completed").await.ok();
    let scheduled = json!({"text": "later", "platforms": ["android"],
        "send_at": NOW.0 + 300 * 86_400_000});
    let scheduled = caller.post("/v1/notifications", &scheduled).await.id();
    server.clock().advance(2 * DAY);
    let kept: Value = caller.get(&path).await.ok();
    assert_eq!(kept["counts"], ended["counts"]);
    server.clock().advance(9 * DAY);
    until(&server, &path, |answer| answer.status == 404).await;
    caller.get(&format!("/v1/notifications/{scheduled}")).await.ok();
    caller.get("/v1/devices/a").await.ok();
    let statistics = caller.get("/v1/statistics/devices").await.ok();
    assert_eq!(statistics["total"], 1, "{statistics}");
}

/// Waits until retention has looked under this clock, and whether that is in doubt then.
async fn looked(server: &TestServer, trusted_since: Timestamp) -> bool {
    let looking = async {
        loop {
            let mark = server.store().clock_mark().await.unwrap();
            if let Some(mark) = mark.filter(|mark| mark.trusted_at >= trusted_since) {
                return mark.in_doubt;
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.expect("retention looks")
}

#[tokio::test]
async fn a_clock_leap_deletes_nothing_until_it_is_confirmed() {
    let mut server = TestServer::without_providers_with(|config| {
        config.keep_notifications_days = 10;
        config.keep_outcomes_days = 1;
    })
    .await;
    let caller = server.caller();
    let key = caller.post_once("/v1/notifications", "k", &to_android()).await.id();
    let path = format!("/v1/notifications/{key}");
    until(&server, &path, |answer| answer.json()["status"] == "completed").await;
    assert!(!looked(&server, NOW).await);
    let hour = Duration::from_secs(3_600);
    server.clock().leap(LEAP);
    server.clock().advance(hour);
    assert!(looked(&server, NOW.plus_ms(3_600_000)).await);
    caller.get(&path).await.ok();
    let again = caller.post_once("/v1/notifications", "k", &to_android()).await;
    assert_eq!((again.id(), again.header("idempotency-replayed")), (key.clone(), "true"));
    let leap = "notify_clock_leap_seconds";
    let metrics = server.anonymous().get("/metrics").await.text;
    assert_eq!(series(&metrics, leap), Some(LEAP.as_secs_f64()));
    server.anonymous().get("/readyz").await.ok();

    // It outlives a restart.
    server.restart().await;
    server.clock().advance(hour);
    assert!(looked(&server, NOW.plus_ms(3_600_000)).await);
    let caller = server.caller();
    caller.get(&path).await.ok();

    assert!(server.store().confirm_clock().await.unwrap());
    assert!(!server.store().confirm_clock().await.unwrap(), "once is enough");
    server.clock().advance(hour);
    until(&server, &path, |answer| answer.status == 404).await;
    assert!(!looked(&server, NOW.plus_ms(3_600_000)).await);
    // Data that ends for another reason is deleted as before.
    let id = caller.post("/v1/notifications", &to_android()).await.id();
    let path = format!("/v1/notifications/{id}");
    until(&server, &path, |answer| answer.json()["status"] == "completed").await;
    server.clock().advance(11 * DAY);
    until(&server, &path, |answer| answer.status == 404).await;
}
