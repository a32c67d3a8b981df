//! While one application reads and changes as many rows as it can, on each route that lists, counts or
//! changes many of them, another application's notifications are accepted, and the server is ready.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use http::Method;
use notify_core::{DeviceId, Tag, TagType};
use notify_server::store::AppNo;
use notify_tests::{Caller, Resources, TestServer, routes};
use serde_json::{Value, json};

/// The devices of the application that keeps the server busy.
const DEVICES: usize = 2_000;
/// The tags of each device.
const TAGS: usize = 5;
/// How many devices are registered at the same time.
const AT_ONCE: usize = 250;
/// How many requests of the busy application run at the same time.
const PARALLEL: usize = 24;
/// How many notifications the other application sends meanwhile.
const SENDS: usize = 2;
/// The conditions of the audience of slow requests.
const CONDITIONS: usize = 25;
/// How long `/readyz` repeats its last answer.
const READINESS_KEPT: Duration = Duration::from_secs(1);

/// A request that reads or changes many rows.
struct Slow {
    method: Method,
    path: String,
    body: Option<Value>,
}

/// Registers devices with tags and a language.
async fn register(server: &TestServer, app: AppNo) -> Result<()> {
    let caller = server.caller();
    let devices: Vec<String> = (0..DEVICES).map(|number| format!("d{number:05}")).collect();
    for some in devices.chunks(AT_ONCE) {
        let caller = &caller;
        try_join_all(some.iter().map(|device| async move {
            let body = json!({"device_id": device, "platform": "android", "language": "de",
                "sdk_type": "android_push", "push_token": format!("token-{device}")});
            caller.send(&Method::POST, "/v1/devices", body.to_string()).await?.ok();
            let tag = |number| Tag { name: format!("t{number}"), kind: TagType::Bool, value: true };
            let tags = (0..TAGS).map(tag).collect();
            let id = DeviceId::new(device.as_str()).map_err(anyhow::Error::msg)?;
            server.store().set_tags(app, id, tags, None).await?;
            anyhow::Ok(())
        }))
        .await?;
    }
    Ok(())
}

/// A condition that every device meets, after a look at each of them.
fn condition() -> Value {
    let others: Vec<Value> = (0..CONDITIONS)
        .map(|number| json!({"not": {"tag": format!("t0-{number}")}}))
        .chain([json!({"tag": "t0"})])
        .collect();
    json!({"all": others})
}

/// The requests of the busy application: every route that reads, and the writes of many rows.
async fn slow_requests(caller: &Caller, owned: &Resources) -> Result<Vec<Slow>> {
    let mut requests = Vec::new();
    for route in routes(caller).await? {
        let is_read = route.method == Method::GET && route.template.starts_with("/v1/");
        if is_read && route.template != "/v1/events/stream" {
            let path = owned.path(&route.template);
            requests.push(Slow { method: route.method, path, body: None });
        }
    }
    ensure!(requests.len() > 20, "{} routes read", requests.len());
    for path in [
        "/v1/devices?limit=1000",
        "/v1/devices?limit=1000&tag=t0",
        "/v1/devices?limit=1000&state=disabled",
        "/v1/devices?limit=1000&segment=busy",
        "/v1/users?limit=1000",
        "/v1/statistics/devices?date_from=1",
    ] {
        requests.push(Slow { method: Method::GET, path: path.to_owned(), body: None });
    }
    let attributes: serde_json::Map<_, _> =
        (0..100).map(|number| (format!("a{number}"), json!(number))).collect();
    let tags: Vec<Value> = (0..1_000)
        .map(|number| json!({"name": format!("many{number}"), "type": "bool", "value": true}))
        .collect();
    let platforms = json!(["android", "ios", "web"]);
    for (method, path, body) in [
        ("POST", "/v1/segments/preview", json!({"platforms": platforms, "audience": condition()})),
        (
            "POST",
            "/v1/notifications/preview",
            json!({"text": "t", "platforms": platforms, "audience": condition()}),
        ),
        (
            "POST",
            "/v1/notifications/preview",
            json!({"text": "t", "platforms": platforms, "tags": ["t0"]}),
        ),
        ("PATCH", "/v1/users/busy", json!({"attributes": attributes})),
        ("PATCH", "/v1/devices/d00000/attributes", json!(attributes)),
        ("POST", "/v1/devices/d00000/tags", json!({"tags": tags})),
    ] {
        requests.push(Slow { method: method.parse()?, path: path.to_owned(), body: Some(body) });
    }
    Ok(requests)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_one_application_leave_the_server_to_the_others() -> Result<()> {
    let server = TestServer::without_providers().await;
    let busy = server.caller();
    let (app, _) = server.store().app(server.app_id).await?;
    register(&server, app).await?;
    let owned = Resources::create(&busy, "phone").await?;
    busy.put("/v1/segments/busy", &json!({"audience": condition()})).await.ok();
    for number in 0..100 {
        let path = format!("/v1/devices/d{number:05}/user");
        busy.put(&path, &json!({"user_id": "busy"})).await.ok();
    }
    let (_, other) = server.create_app("other").await;
    let phone = json!({"device_id": "phone", "platform": "android", "sdk_type": "android_push"});
    other.post("/v1/devices", &phone).await.ok();
    let anonymous = server.anonymous();
    for slow in slow_requests(&busy, &owned).await? {
        let what = format!("{} {}", slow.method, slow.path);
        let body = slow.body.map_or_else(String::new, |body| body.to_string());
        let asking =
            join_all((0..PARALLEL).map(|_| busy.send(&slow.method, &slow.path, body.clone())));
        let sending = async {
            for _ in 0..SENDS {
                let sent = json!({"text": "t", "android_device_ids": ["phone"]});
                let sent = other.send(&Method::POST, "/v1/notifications", sent.to_string()).await?;
                ensure!(sent.status == 200, "{what}: {}", sent.json());
                server.clock().advance(READINESS_KEPT);
                let ready = anonymous.send(&Method::GET, "/readyz", "").await?;
                ensure!(ready.status == 200, "{what}: {}", ready.json());
            }
            Ok(())
        };
        let (asked, sent) = tokio::join!(asking, sending);
        sent?;
        for answer in asked {
            let status = answer.with_context(|| what.clone())?.status;
            // It may be refused, but it breaks nothing.
            ensure!(status < 500 || status == 503, "{what}: {status}");
        }
    }
    server.stop().await;
    Ok(())
}
