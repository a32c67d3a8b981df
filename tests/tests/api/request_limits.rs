//! Limits of bodies, heads and ids, and how bodies and paths are decoded. What every route does with a
//! malformed body is tested in `tests/bad_input`.

use notify_tests::{Response, TestServer};
use reqwest::Method;

use crate::fixtures::{android, to_android};

#[tokio::test]
async fn a_body_is_json_for_any_content_type_and_may_begin_with_a_byte_order_mark() {
    let server = TestServer::without_providers().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = server.caller().request(Method::POST, "/v1/notifications");
        let request = request.header("content-type", content_type);
        Response::of(request.body(to_android().to_string())).await.id();
    }
    let body = format!("\u{feff}{}", to_android());
    let id = server.caller().post_bytes("/v1/notifications", body).await.id();
    let read = server.caller().get(&format!("/v1/notifications/{id}")).await.ok();
    assert_eq!(read["request"], to_android());
}

#[tokio::test]
async fn bodies_over_the_limit_are_413() {
    let server = TestServer::without_providers_with(|config| config.max_body_bytes = 2_000).await;
    let expected = ["body: must be at most 2000 bytes"];
    let large = format!(r#"{{"text":"{}","platforms":["android"]}}"#, "a".repeat(3_000));
    server.caller().post_bytes("/v1/notifications", large.clone()).await.rejected(413, &expected);

    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        server.api_key()
    );
    let answer = server.anonymous().exchange(format!("{head}{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(expected[0]), "{answer}");

    let fits = r#"{"text":"a","platforms":["android"]}"#;
    let chunk =
        format!("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", &fits[..5], fits.len() - 5, &fits[5..]);
    let answer = server.anonymous().exchange(format!("{head}{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");

    // A length alone is enough: the body is not read.
    let head = head.replace("transfer-encoding: chunked", "content-length: 10485760");
    let answer = server.anonymous().exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn heads_over_the_limits_are_refused() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let long = format!("/v1/devices?tag={}", "a".repeat(9_000));
    caller.get(&long).await.rejected(400, &["url: must be at most 8192 bytes"]);
    let words = ["headers: must be at most 100 fields and 16384 bytes together"];
    let large = caller.request(Method::GET, "/v1/devices").header("x-large", "a".repeat(17_000));
    Response::of(large).await.rejected(400, &words);
    let many = (0..120).fold(caller.request(Method::GET, "/v1/devices"), |request, number| {
        request.header(format!("x-{number}"), "a")
    });
    Response::of(many).await.rejected(400, &words);
    caller.get("/v1/devices").await.ok();
}

#[tokio::test]
async fn endless_headers_and_garbage_close_the_connection() {
    let server = TestServer::without_providers().await;
    let endless = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx-long: {}", "a".repeat(200_000));
    let answer = server.anonymous().exchange(endless.as_bytes()).await;
    let words = r#"{"errors":["headers: are more than this server reads"]}"#;
    assert!(answer.starts_with("HTTP/1.1 431 ") && answer.ends_with(words), "{answer}");
    let garbage = server.anonymous().exchange(b"\x16\x03\x01 not http at all\r\n\r\n").await;
    let words = r#"{"errors":["request: is not HTTP"]}"#;
    assert!(garbage.starts_with("HTTP/1.1 400 ") && garbage.ends_with(words), "{garbage}");
    server.anonymous().get("/healthz").await.ok();
}

#[tokio::test]
async fn malformed_ids_are_not_found() {
    let server = TestServer::without_providers().await;
    let caller = server.caller();
    let long = "a".repeat(256);
    for id in ["%00", "a%00b", "%FF", "%0A", &long] {
        for path in [
            format!("/v1/devices/{id}"),
            format!("/v1/notifications/{id}"),
            format!("/v1/campaigns/{id}"),
            format!("/v1/enrichments/{id}"),
        ] {
            caller.get(&path).await.rejected(404, &["not found"]);
        }
        caller.get(&format!("/v1/polls/{id}")).await.rejected(400, &["id: no poll has this id"]);
        caller.delete(&format!("/v1/devices/d/tags/{id}")).await.is(404);
        caller.delete(&format!("/v1/feeds/{id}")).await.is(404);
        server.admin().get(&format!("/admin/v1/apps/{id}")).await.is(404);
    }
}

#[tokio::test]
async fn ids_in_paths_are_decoded_once() {
    let server = TestServer::without_providers().await;
    for (id, path) in [("a b/ü%", "a%20b%2F%C3%BC%25"), ("a%20b", "a%2520b")] {
        server.caller().post("/v1/devices", &android(id)).await.ok();
        let read = server.caller().get(&format!("/v1/devices/{path}")).await.ok();
        assert_eq!(read["device_id"], id);
    }
}
