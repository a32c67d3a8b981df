//! Keys, request ids and rate limits, which are checked before a route handles a request.

use notify_tests::{Caller, Response, TestServer};
use reqwest::Method;
use serde_json::json;

use crate::fixtures::{android, to_android};

#[tokio::test]
async fn without_a_valid_key_every_v1_path_is_401_before_any_other_check() {
    let server = TestServer::without_providers().await;
    let (start, last) = server.api_key().split_at(server.api_key().len() - 1);
    // One key in 62 ends in an x already.
    let mutated = format!("{start}{}", if last == "x" { "y" } else { "x" });
    let unknown = "nk_0000000000000000000000000000000000000000000".to_owned();
    const REFUSED: &str = "missing or invalid API key";
    const MISPLACED: &str =
        "missing or invalid API key: send it in the header X-API-Key, not in Authorization";
    const ADMIN_KEY: &str = "missing or invalid API key: an admin key opens only /admin/v1";
    let callers = [
        (server.anonymous(), REFUSED),
        (Caller::app(server.origin(), &mutated), REFUSED),
        (Caller::app(server.origin(), &unknown), REFUSED),
        (Caller::app(server.origin(), server.admin_key()), ADMIN_KEY),
        (Caller::admin(server.origin(), server.admin_key()), ADMIN_KEY),
        (Caller::admin(server.origin(), server.api_key()), MISPLACED),
        (
            Caller::with_header(server.origin(), "authorization", format!("bearer {mutated}")),
            MISPLACED,
        ),
    ];
    for (caller, refused) in callers {
        for (method, path, body) in [
            (Method::POST, "/v1/notifications", "{"),
            (Method::GET, "/v1/notifications", ""),
            (Method::GET, "/v1/nowhere", ""),
            (Method::GET, "/v1", ""),
            (Method::PATCH, "/v1/devices", ""),
            (Method::OPTIONS, "/v1/devices", ""),
        ] {
            let answer = Response::of(caller.request(method, path).body(body)).await;
            answer.rejected(401, &[refused]);
        }
        let answer = caller.get("/admin/v1/nowhere").await;
        if refused == ADMIN_KEY {
            answer.is(404);
        } else {
            answer.rejected(401, &["missing or invalid admin key"]);
        }
    }
}

/// Behind a proxy with its own authentication, `Authorization` has the credentials of the proxy.
#[tokio::test]
async fn an_admin_key_in_x_api_key_is_accepted() {
    let server = TestServer::without_providers().await;
    let key = server.admin_key();
    let unknown = format!("na_{}", "0".repeat(key.len() - 3));
    let basic = "Basic dXNlcjpwYXNzd29yZA==".to_owned();
    let rows = [
        (None, Some(key), 200),
        (Some(basic.clone()), Some(key), 200),
        (Some("Bearer token-of-the-proxy".to_owned()), Some(key), 200),
        (Some(format!("Bearer {key}")), None, 200),
        (Some(format!("Bearer {key}")), Some(server.api_key()), 200),
        (Some(format!("Bearer {key}")), Some(&*unknown), 200),
        (Some(format!("Bearer {unknown}")), Some(key), 401),
        (Some(basic.clone()), Some(server.api_key()), 401),
        (Some(basic), None, 401),
        (Some(format!("Basic {key}")), None, 401),
    ];
    for (authorization, api_key, status) in rows {
        let mut request = server.anonymous().request(Method::GET, "/admin/v1/apps");
        for (name, value) in [("authorization", authorization.as_deref()), ("x-api-key", api_key)] {
            if let Some(value) = value {
                request = request.header(name, value);
            }
        }
        let answer = Response::of(request).await;
        assert_eq!(answer.status, status, "{authorization:?} {api_key:?}: {}", answer.text);
    }
    // The other APIs take no admin key.
    let device = server.anonymous().request(Method::POST, "/device/v1/devices");
    Response::of(device.header("x-api-key", key)).await.is(401);
}

#[tokio::test]
async fn api_keys_and_admin_keys_are_not_interchangeable() {
    let server = TestServer::without_providers().await;
    server.caller().get("/v1/devices").await.ok();
    server.admin().get("/admin/v1/apps").await.ok();
    server.caller().get("/admin/v1/apps").await.is(401);
    server.admin().get("/v1/devices").await.is(401);
}

#[tokio::test]
async fn a_revoked_key_and_a_suspended_application_are_refused_at_once() {
    let server = TestServer::without_providers().await;
    let admin = server.admin();
    let (app, caller) = server.create_app("other").await;
    caller.get("/v1/devices").await.ok();

    let path = format!("/admin/v1/apps/{app}");
    admin.patch(&path, &json!({"status": "suspended"})).await.ok();
    caller.get("/v1/devices").await.rejected(401, &["missing or invalid API key"]);
    admin.patch(&path, &json!({"status": "active"})).await.ok();
    caller.get("/v1/devices").await.ok();

    let keys = admin.get(&format!("{path}/keys")).await.ok();
    let key = keys["keys"][0]["id"].as_str().unwrap().to_owned();
    admin.delete(&format!("{path}/keys/{key}")).await.ok();
    caller.get("/v1/devices").await.rejected(401, &["missing or invalid API key"]);
    admin.delete(&format!("{path}/keys/{key}")).await.is(404);
}

#[tokio::test]
async fn the_body_is_not_read_before_the_key_is_checked() {
    let server = TestServer::without_providers().await;
    let head = "POST /v1/notifications HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\
                expect: 100-continue\r\nconnection: close\r\n\r\n";
    let answer = server.anonymous().exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 401 "), "{answer}");
}

#[tokio::test]
async fn clients_that_fail_to_authenticate_are_rate_limited_alone() {
    let server =
        TestServer::without_providers_with(|config| config.auth_failures_per_minute = 5).await;
    let mut statuses = Vec::new();
    for _ in 0..8 {
        statuses.push(server.anonymous().get("/v1/devices").await.status);
    }
    assert_eq!(statuses, [401, 401, 401, 401, 401, 429, 429, 429]);
    let slowed = server.anonymous().get("/v1/devices").await;
    let wait: u32 = slowed.header("retry-after").parse().unwrap();
    assert!((1..=60).contains(&wait));
    server.caller().get("/v1/devices").await.ok();
}

#[tokio::test]
async fn a_key_over_its_rate_gets_429_with_retry_after() {
    let server = TestServer::without_providers_with(|config| config.rate_limit = 2).await;
    let caller = server.caller();
    let mut limited = None;
    for _ in 0..10 {
        let answer = caller.get("/v1/devices").await;
        if answer.status == 429 {
            limited = Some(answer);
            break;
        }
    }
    let limited = limited.expect("ten requests at once are more than two a second");
    limited.rejected(429, &["too many requests"]);
    assert_eq!(limited.header("retry-after"), "1");
    let (_, other) = server.create_app("other").await;
    other.get("/v1/devices").await.ok();
}

#[tokio::test]
async fn a_valid_request_id_is_kept_and_any_other_replaced() {
    let server = TestServer::without_providers().await;
    let with_id = async |id: &str| {
        let request = server.caller().request(Method::GET, "/v1/devices");
        Response::of(request.header("x-request-id", id)).await.header("x-request-id").to_owned()
    };
    assert_eq!(with_id("abc-123").await, "abc-123");
    assert_ne!(with_id("with space").await, "with space");
    assert_eq!(with_id(&"a".repeat(65)).await.len(), 36);
}

#[tokio::test]
async fn the_probes_need_no_key() {
    let server = TestServer::without_providers().await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(server.anonymous().get(path).await.ok(), json!({"success": true}));
    }
    server.caller().post("/v1/devices", &android("d1")).await.ok();
    server.caller().post("/v1/notifications", &to_android()).await.ok();
    let metrics = server.anonymous().get("/metrics").await;
    for line in [
        "notify_http_requests_total{route=\"/v1/devices\",code=\"200\",method=\"POST\"} 1",
        "notify_notifications_accepted_total 1",
    ] {
        assert!(metrics.text.lines().any(|found| found == line), "{}", metrics.text);
    }
    assert!(!metrics.text.contains("d1"));
}

#[tokio::test]
async fn the_reference_page_loads_nothing_from_other_origins() {
    let server = TestServer::without_providers().await;
    let page = server.anonymous().get("/docs").await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert!(!page.text.contains("//"), "{}", page.text);
    let parts = page.text.split('"').filter(|part| part.starts_with("docs/"));
    let parts: Vec<&str> = parts.collect();
    assert_eq!(parts.len(), 4, "{parts:?}");
    for part in parts {
        server.anonymous().get(&format!("/{part}")).await.is(200);
    }
    server.anonymous().get("/docs/swagger-initializer.js").await.is(404);
}

#[tokio::test]
async fn the_root_redirects_browsers_to_the_reference_page() {
    let server = TestServer::without_providers().await;
    let http = notify_tests::http_client().redirect(reqwest::redirect::Policy::none());
    let http = http.build().unwrap();
    for (path, location) in [("/", "docs"), ("/docs/", "../docs")] {
        let answer = http.get(format!("{}{path}", server.origin())).send().await.unwrap();
        assert_eq!(answer.status(), 303);
        assert_eq!(answer.headers()["location"], location);
    }
}
