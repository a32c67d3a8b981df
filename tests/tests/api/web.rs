//! Browsers without an API key (`/web/v1`): allowed origins, CORS, and devices that only their own
//! browser can change. Nothing is sent to the endpoints.

use notify_tests::{Caller, Response, TestServer};
use reqwest::Method;
use serde_json::{Value, json};

use crate::fixtures::template;

const SITE: &str = "https://shop.example";
/// A point of P-256 and a secret (RFC 8291, section 5).
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

/// A server whose first application lets [`SITE`] in, with web push, and the path of its pages.
async fn open() -> (TestServer, String) {
    open_with(TestServer::without_providers().await).await
}

async fn open_with(server: TestServer) -> (TestServer, String) {
    let admin = server.admin();
    let apps = admin.get("/admin/v1/apps").await.ok();
    let app = apps["apps"][0]["id"].as_str().unwrap().to_owned();
    let path = format!("/admin/v1/apps/{app}");
    let webpush = json!({"subject": "mailto:push@shop.example.com"});
    admin.put(&format!("{path}/providers/webpush"), &webpush).await.ok();
    let access = json!({"allowed_origins": [SITE], "allowed_tags": ["news"]});
    admin.put(&format!("{path}/web"), &access).await.ok();
    (server, format!("/web/v1/{app}"))
}

fn browser(endpoint: &str) -> Value {
    json!({"subscription": {"endpoint": format!("https://fcm.googleapis.com/fcm/send/{endpoint}"),
        "expirationTime": null, "keys": {"p256dh": P256DH, "auth": AUTH}}})
}

fn page(server: &TestServer) -> Caller {
    Caller::with_header(server.origin(), "origin", SITE)
}

/// Subscribes a browser; its id and secret.
async fn subscribed(server: &TestServer, web: &str, endpoint: &str) -> (String, String) {
    let answer = page(server).post(&format!("{web}/devices"), &browser(endpoint)).await.ok();
    let text = |name: &str| answer[name].as_str().unwrap().to_owned();
    (text("id"), text("device_secret"))
}

async fn with_secret(
    server: &TestServer,
    method: Method,
    path: &str,
    secret: &str,
    body: String,
) -> Response {
    let request = page(server).request(method, path).header("x-device-secret", secret);
    Response::of(request.body(body)).await
}

fn report(notification: &str) -> String {
    json!({"events": [{"type": "opened", "notification_id": notification}]}).to_string()
}

async fn notification(server: &TestServer) -> String {
    let body = json!({"id": "own", "text": "t", "platforms": ["web"]});
    server.caller().post("/v1/notifications/notify", &body).await.ok();
    "own".to_owned()
}

#[tokio::test]
async fn a_browser_subscribes_reports_and_unsubscribes_without_a_key() {
    let (server, web) = open().await;
    let config = page(&server).get(&web).await.ok();
    assert_eq!(config["vapid_public_key"].as_str().map(str::len), Some(87));
    assert_eq!(format!("/web/v1/{}", config["app"].as_str().unwrap()), web);

    let mut body = browser("a");
    body["language"] = json!("de");
    body["timezone"] = json!("GMT+02:00");
    body["tags"] = json!([{"name": "news", "type": "bool", "value": true}]);
    let made = page(&server).post(&format!("{web}/devices"), &body).await.ok();
    let (id, secret) = (made["id"].as_str().unwrap(), made["device_secret"].as_str().unwrap());
    let device = server.caller().get(&format!("/v1/devices/{id}")).await.ok();
    assert_eq!(
        json!([device["platform"], device["language"], device["timezone"], device["tags"]]),
        json!(["web", "de", "GMT+02:00", body["tags"]])
    );

    // Again, as the same browser with another address: the device stays, and so does its secret.
    let mut again = browser("b");
    again["device_id"] = json!(id);
    again["device_secret"] = json!(secret);
    let again = page(&server).post(&format!("{web}/devices"), &again).await.ok();
    assert_eq!(again, json!({"id": id, "device_secret": null}));

    let notification = notification(&server).await;
    let device = format!("{web}/devices/{id}");
    let events = format!("{device}/events");
    for _ in 0..2 {
        let answer =
            with_secret(&server, Method::POST, &events, secret, report(&notification)).await;
        assert_eq!(answer.ok(), json!({"accepted": 1, "ignored": []}));
    }
    let record = server.caller().get("/v1/notifications/own").await.ok();
    assert_eq!(record["engagement"]["opened"], 1, "each counts once");

    let deleted = with_secret(&server, Method::DELETE, &device, secret, String::new()).await.ok();
    assert_eq!(deleted, json!({"success": true}));
    server.caller().get(&format!("/v1/devices/{id}")).await.is(404);
}

#[tokio::test]
async fn a_browser_reads_the_enrichment_of_a_campaign() {
    let (server, web) = open().await;
    let (id, secret) = subscribed(&server, &web, "a").await;
    let campaign = server.caller().post("/v1/campaigns", &template("spring")).await.id();
    let path = format!("{web}/devices/{id}/enrichments/{campaign}");
    let get = |path: String, secret: String| {
        let server = &server;
        async move { with_secret(server, Method::GET, &path, &secret, String::new()).await }
    };
    let enrichment = get(path.clone(), secret.clone()).await;
    assert_eq!(enrichment.header("access-control-allow-origin"), SITE);
    assert_eq!(enrichment.ok()["campaign_id"], json!(campaign));
    get(path.clone(), "wrong".to_owned()).await.rejected(401, &["missing or wrong device secret"]);
    get(format!("{path}?notification_id=nothing"), secret.clone()).await.is(404);
    let with_query = format!("{path}?device_id={id}");
    get(with_query, secret).await.rejected(400, &["device_id: is given in the path"]);
}

#[tokio::test]
async fn only_allowed_origins_are_accepted() {
    let (server, web) = open().await;
    let unknown = "/web/v1/0190a7c0-0000-7000-8000-00000000ffff";
    let foreign = [
        "https://evil.example",
        "null",
        "http://shop.example",
        "https://shop.example:81",
        "https://shop.example.evil.example",
        "https://SHOP.example",
    ];
    let mut refused = vec![(server.anonymous(), web.clone()), (page(&server), unknown.to_owned())];
    refused.extend(
        foreign.map(|origin| (Caller::with_header(server.origin(), "origin", origin), web.clone())),
    );
    for (caller, path) in refused {
        for method in [Method::GET, Method::OPTIONS] {
            let request = caller.request(method, &path);
            let request = request.header("access-control-request-method", "GET");
            let answer = Response::of(request).await;
            assert_eq!(answer.header("access-control-allow-origin"), "");
            assert_eq!(answer.header("vary"), "origin");
            answer.rejected(401, &["this origin may not call"]);
        }
        let path = format!("{path}/devices");
        caller.post(&path, &browser("a")).await.is(401);
    }
    let devices = server.caller().get("/v1/devices").await.ok();
    assert_eq!(devices["devices"], json!([]), "no device was made");
}

#[tokio::test]
async fn a_preflight_lists_allowed_methods_and_headers() {
    let (server, web) = open().await;
    for (path, methods) in [
        (web.clone(), "GET, HEAD"),
        (format!("{web}/devices"), "POST"),
        (format!("{web}/devices/d"), "DELETE"),
        (format!("{web}/devices/d/user"), "DELETE, PUT"),
        (format!("{web}/devices/d/events"), "POST"),
        (format!("{web}/devices/d/enrichments/default"), "GET, HEAD"),
    ] {
        let answer = Response::of(page(&server).request(Method::OPTIONS, &path)).await;
        let header = |name| answer.header(name).to_owned();
        assert_eq!(
            (
                answer.status,
                header("access-control-allow-origin").as_str(),
                header("vary").as_str()
            ),
            (204, SITE, "origin")
        );
        assert_eq!(header("access-control-allow-methods"), methods, "{path}");
        assert_eq!(header("access-control-allow-headers"), "content-type, x-device-secret");
        assert_eq!(header("access-control-allow-credentials"), "");
    }
    // What goes wrong inside can be read by the page too.
    let answer = page(&server).post(&format!("{web}/devices"), &json!({})).await;
    assert_eq!(answer.header("access-control-allow-origin"), SITE);
    answer.is(400);
    // Elsewhere there is no CORS, and OPTIONS is 405.
    let answer = Response::of(page(&server).request(Method::OPTIONS, "/healthz")).await;
    assert_eq!(answer.header("access-control-allow-origin"), "");
    answer.is(405);
}

#[tokio::test]
async fn a_removed_origin_is_refused_at_once() {
    let (server, web) = open().await;
    let admin = server.admin();
    let app = web.replace("/web/v1/", "/admin/v1/apps/");
    page(&server).get(&web).await.ok();
    admin.patch(&app, &json!({"status": "suspended"})).await.ok();
    page(&server).get(&web).await.is(401);
    admin.patch(&app, &json!({"status": "active"})).await.ok();
    page(&server).get(&web).await.ok();
    admin.delete(&format!("{app}/web")).await.ok();
    page(&server).get(&web).await.is(401);
    admin.get(&format!("{app}/web")).await.is(404);
    admin.delete(&format!("{app}/web")).await.is(404);
}

#[tokio::test]
async fn a_browser_cannot_act_for_another_device() {
    let (server, web) = open().await;
    let (own, secret) = subscribed(&server, &web, "a").await;
    let (other, other_secret) = {
        // Other keys: the same would be the same browser.
        let mut body = browser("b");
        body["subscription"]["keys"]["auth"] = json!("AAAAAAAAAAAAAAAAAAAAAA");
        let made = page(&server).post(&format!("{web}/devices"), &body).await.ok();
        (
            made["id"].as_str().unwrap().to_owned(),
            made["device_secret"].as_str().unwrap().to_owned(),
        )
    };
    let notification = notification(&server).await;
    let path = format!("{web}/devices/{other}");
    for secret in [&*secret, "", "wrong"] {
        for (method, path, body) in [
            (Method::DELETE, path.clone(), String::new()),
            (Method::DELETE, format!("{path}/user"), String::new()),
            (Method::PUT, format!("{path}/user"), r#"{"user_token": "nu_x"}"#.to_owned()),
            (Method::POST, format!("{path}/events"), report(&notification)),
            (Method::GET, format!("{path}/enrichments/default"), String::new()),
        ] {
            let answer = with_secret(&server, method, &path, secret, body).await;
            answer.rejected(401, &["missing or wrong device secret"]);
        }
    }
    // Nor does its id with a wrong secret subscribe as it.
    let mut body = browser("c");
    body["device_id"] = json!(other);
    body["device_secret"] = json!(secret);
    let made = page(&server).post(&format!("{web}/devices"), &body).await.ok();
    assert!(made["id"] != json!(other) && made["id"] != json!(own), "{made}");
    // A device of the API has no secret at all, and the right one does not open it elsewhere.
    let phone = json!({"device_id": "phone", "platform": "android", "sdk_type": "android_push"});
    server.caller().post("/v1/devices", &phone).await.ok();
    let path = format!("{web}/devices/phone");
    with_secret(&server, Method::DELETE, &path, &other_secret, String::new()).await.is(401);
    server.caller().get("/v1/devices/phone").await.ok();
    server.caller().get(&format!("/v1/devices/{other}")).await.ok();
}

#[tokio::test]
async fn fields_that_a_browser_may_not_set_are_rejected() {
    let (server, web) = open().await;
    let mut foreign = browser("a");
    foreign["subscription"]["endpoint"] = json!("https://collect.example/a");
    let mut tagged = browser("a");
    tagged["tags"] = json!([{"name": "staff", "type": "bool", "value": true}]);
    let mut half = browser("a");
    half["device_id"] = json!("d");
    for (body, errors) in [
        (foreign, "subscription.endpoint: does not belong to an allowed push service"),
        (tagged, "tags[0].name: is not a tag that browsers may set"),
        (half, "device_secret: is required with device_id"),
    ] {
        let answer = page(&server).post(&format!("{web}/devices"), &body).await;
        answer.rejected(400, &[errors]);
    }
    let large = "a".repeat(70_000);
    page(&server).post_bytes(&format!("{web}/devices"), large).await.is(413);
    // No list, no other area.
    page(&server).get(&format!("{web}/devices")).await.is(405);
    page(&server).get("/v1/devices").await.is(401);
}

#[tokio::test]
async fn browsers_are_rate_limited_by_device_address_and_application() {
    let server = TestServer::without_providers_with(|config| {
        config.web_requests_per_minute = 2;
        config.web_address_requests_per_minute = 5;
        config.web_subscriptions_per_minute = 2;
    });
    let (server, web) = open_with(server.await).await;
    let mut statuses = Vec::new();
    let path = format!("{web}/devices");
    let (id, secret) = subscribed(&server, &web, "a").await;
    for endpoint in ["b", "c"] {
        statuses.push(page(&server).post(&path, &browser(endpoint)).await.status);
    }
    assert_eq!(statuses, [200, 429], "two devices of the application");
    let mut last = page(&server).get(&web).await;
    assert_eq!(last.status, 200, "other calls go on");
    for _ in 0..2 {
        last = page(&server).get(&web).await;
    }
    assert_eq!(last.header("access-control-allow-origin"), SITE, "the page can read it");
    let wait: u32 = last.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
    last.rejected(429, &["too many requests"]);
    // The limit of the address does not concern a browser with its secret, which may also subscribe again.
    let mut again = browser("d");
    again["device_id"] = json!(id);
    again["device_secret"] = json!(secret);
    let expected = json!({"id": id, "device_secret": null});
    for _ in 0..2 {
        assert_eq!(page(&server).post(&path, &again).await.ok(), expected);
    }
    page(&server).post(&path, &again).await.rejected(429, &["too many requests"]);
}

#[tokio::test]
async fn web_access_reads_back_normalized_and_invalid_origins_are_rejected() {
    let (server, web) = open().await;
    let path = format!("{}/web", web.replace("/web/v1/", "/admin/v1/apps/"));
    let access = json!({"allowed_origins": ["https://Shop.example:443/", SITE, "http://localhost:8000"],
        "push_services": ["*.Push.example"]});
    server.admin().put(&path, &access).await.ok();
    let expected = json!({"allowed_origins": [SITE, "http://localhost:8000"], "allowed_tags": [],
        "push_services": ["*.push.example"]});
    assert_eq!(server.admin().get(&path).await.ok(), expected);
    let wrong = json!({"allowed_origins": ["*", "http://shop.example"], "push_services": ["a:1"]});
    server.admin().put(&path, &wrong).await.rejected(
        400,
        &[
            "allowed_origins[0]: must be one origin: there is no wildcard",
            "allowed_origins[1]: must be https, but for localhost",
            "push_services[0]: must be a host, such as push.example or *.push.example",
        ],
    );
    let none = json!({"allowed_origins": []});
    server.admin().put(&path, &none).await.is(400);
    assert_eq!(server.admin().get(&path).await.ok(), expected, "nothing changed");
    server.caller().get(&path).await.is(401);
}

#[tokio::test]
async fn the_sdk_is_served_with_an_etag() {
    let server = TestServer::without_providers().await;
    for (path, has_scope) in [("/sdk/notify.js", false), ("/sdk/notify-sw.js", true)] {
        let answer = server.anonymous().get(path).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.header("content-type"), "text/javascript; charset=utf-8");
        let scope = answer.header("service-worker-allowed").to_owned();
        assert_eq!(scope, if has_scope { "/" } else { "" });
        let etag = answer.header("etag").to_owned();
        let request = server.anonymous().request(Method::GET, path).header("if-none-match", etag);
        assert_eq!(Response::of(request).await.status, 304);
    }
}

#[tokio::test]
async fn a_browser_logs_in_with_a_token_and_never_with_an_id() {
    let (server, web) = open().await;
    let (id, secret) = subscribed(&server, &web, "a").await;
    let backend = server.caller();
    let token = backend.post("/v1/users/ada/tokens", &json!({})).await.ok();
    let path = format!("{web}/devices/{id}/user");
    let user = async || backend.get(&format!("/v1/devices/{id}")).await.ok()["user_id"].clone();
    let log_in = async |body: Value| {
        with_secret(&server, Method::PUT, &path, &secret, body.to_string()).await
    };
    log_in(json!({"user_id": "ada"}))
        .await
        .rejected(400, &["user_id: unknown field", "user_token: is required"]);
    log_in(json!({"user_token": "nu_invented"}))
        .await
        .rejected(400, &["user_token: is not a valid token of this application"]);
    assert_eq!(user().await, Value::Null);
    log_in(json!({"user_token": token["user_token"]})).await.ok();
    assert_eq!(user().await, "ada");
    for _ in 0..2 {
        with_secret(&server, Method::DELETE, &path, &secret, String::new()).await.ok();
    }
    assert_eq!(user().await, Value::Null);
}
