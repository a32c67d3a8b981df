//! `--admin-listen`: an address that alone has the admin API, the metrics and the console.

use notify_tests::{Caller, Launch, Operator, ServerCertificate, TestServer};
use reqwest::Method;

/// A server whose admin API has an address of its own.
async fn apart() -> TestServer {
    TestServer::without_providers_with(|config| {
        config.admin_listen = Some("127.0.0.1:0".to_owned());
    })
    .await
}

#[tokio::test]
async fn the_public_address_does_not_know_what_is_for_operators() {
    let server = apart().await;
    assert_ne!(server.admin_origin(), server.origin());
    assert_eq!(server.console_origin(), server.admin_origin());
    let admin = Caller::admin(server.origin(), server.admin_key());
    let id = server.app_id;
    let provider = format!("/admin/v1/apps/{id}/providers/fcm");
    for (method, path) in [
        (Method::GET, "/metrics"),
        (Method::POST, "/metrics"),
        (Method::GET, "/admin"),
        (Method::GET, "/admin/v1"),
        (Method::GET, "/admin/v1/apps"),
        (Method::POST, "/admin/v1/apps"),
        (Method::PATCH, "/admin/v1/apps"),
        (Method::PUT, &provider),
        (Method::GET, "/admin/v1/diagnostics"),
        (Method::GET, "/no-such-path"),
    ] {
        // With and without a key, the answer is that of any unknown path, and not a 401 or a 405.
        for caller in [&admin, &server.anonymous()] {
            let body = if method == Method::GET { "" } else { "{}" };
            let answer = caller.send(&method, path, body).await.unwrap();
            assert_eq!(answer.status, 404, "{method} {path}");
            assert_eq!(answer.text, r#"{"errors":["not found"]}"#, "{method} {path}");
        }
    }
    // The checks of `Caller` expect pages at these paths.
    for path in ["/console", "/console/", "/console/sign-in"] {
        let answer = reqwest::get(format!("{}{path}", server.origin())).await.unwrap();
        assert_eq!(answer.status(), 404, "{path}");
        assert_eq!(answer.text().await.unwrap(), r#"{"errors":["not found"]}"#, "{path}");
    }
    let anyone = server.anonymous();
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        anyone.get(path).await.ok();
    }
    server.caller().get("/v1/devices").await.ok();
    server.caller().get("/admin/v1/apps").await.is(404);
}

#[tokio::test]
async fn the_admin_address_has_everything() {
    let server = apart().await;
    let origin = server.admin_origin();
    let anyone = Caller::with_header(origin, "x-nothing", "at all");
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        anyone.get(path).await.ok();
    }
    assert!(anyone.get("/metrics").await.text.contains("notify_build_info"));
    anyone.get("/admin/v1/apps").await.is(401);
    server.admin().get("/admin/v1/apps").await.ok();
    // `notify` has one url, for the keys of applications too.
    Caller::app(origin, server.api_key()).get("/v1/devices").await.ok();
    let link = server.first_sign_in_link();
    assert!(link.starts_with(&format!("{origin}/console/first?code=")), "{link}");
    let operator = Operator::sign_in(origin, server.admin_key()).await.unwrap();
    assert!(operator.get("").await.text.contains("<h1>Overview</h1>"));
    // All addresses stop together.
    server.stop().await;
}

#[tokio::test]
async fn the_console_can_have_an_address_besides_that_of_the_admin_api() {
    let server = TestServer::without_providers_with(|config| {
        config.admin_listen = Some("127.0.0.1:0".to_owned());
        config.console_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    let (admin, console) = (server.admin_origin(), server.console_origin());
    assert_ne!(admin, console);
    let visitor = |origin: &str| Caller::with_header(origin, "x-nothing", "at all");
    for (origin, path, status) in [
        (admin, "/metrics", 200),
        (console, "/metrics", 404),
        (console, "/admin/v1/apps", 404),
        (admin, "/console", 404),
        (server.origin(), "/console", 404),
        (console, "/console/sign-in", 200),
    ] {
        let answer = reqwest::get(format!("{origin}{path}")).await.unwrap();
        assert_eq!(answer.status(), status, "{origin}{path}");
    }
    for origin in [admin, console, server.origin()] {
        visitor(origin).get("/readyz").await.ok();
    }
}

#[tokio::test]
async fn the_admin_address_has_connections_of_its_own() {
    let server = TestServer::without_providers_with(|config| {
        config.max_connections = 1;
        config.admin_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    let only_connection = server.connect().await;
    server.admin().get("/admin/v1/apps").await.ok();
    // The server closes an idle connection when another one waits for its permit.
    let read = only_connection.try_read(&mut [0]);
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
}

#[tokio::test]
async fn the_admin_address_has_the_certificate_of_the_server() {
    let certificate = ServerCertificate::of("127.0.0.1").unwrap();
    let server = TestServer::without_providers_with(|config| {
        certificate.configure(config);
        config.admin_listen = Some("127.0.0.1:0".to_owned());
    })
    .await;
    let http = certificate.client().build().unwrap();
    assert!(server.admin_origin().starts_with("https://"));
    let metrics = http.get(format!("{}/metrics", server.admin_origin())).send().await.unwrap();
    assert_eq!(metrics.status(), 200);
    let metrics = http.get(format!("{}/metrics", server.origin())).send().await.unwrap();
    assert_eq!(metrics.status(), 404);
}

#[tokio::test]
async fn an_admin_address_that_is_taken_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let taken = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let launch = Launch::on(folder.path()).argument("--admin-listen").argument(&address);
    let (status, words) = launch.ended().await.unwrap();
    assert_eq!(status.code(), Some(1), "{words}");
    let expected =
        format!("cannot listen on {address}; choose another address with --admin-listen");
    assert!(words.contains(&expected), "{words}");
}
