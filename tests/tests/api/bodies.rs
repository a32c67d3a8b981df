//! Bad input: a clear list of errors, nothing stored, never a 5xx.

use reqwest::Method;
use serde_json::json;

use crate::kit::{Answer, TestServer, android, to_android};

#[tokio::test]
async fn bodies_that_are_not_what_they_should_be_are_400_and_store_nothing() {
    let server = TestServer::start().await;
    let caller = server.caller();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_member = format!(
        r#"{{"text":"a","platforms":["android"],"android_json":{}{}}}"#,
        r#"{"a":"#.repeat(50_000),
        "}".repeat(50_000)
    );
    let bodies: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"   ".to_vec(),
        b"{".to_vec(),
        br#"{"text": "a", "platforms": ["andr"#.to_vec(),
        b"null".to_vec(),
        b"[]".to_vec(),
        b"\"text\"".to_vec(),
        b"{\"text\": \"\xff\xfe\"}".to_vec(),
        br#"{"text": "a", "platforms": ["android"]} x"#.to_vec(),
        deep.into_bytes(),
        deep_member.into_bytes(),
        br#"{"text":"a","platforms":["android"],"ttl_seconds":1e400}"#.to_vec(),
        br#"{"text":"a","platforms":["android"],"ttl_seconds":1.0}"#.to_vec(),
        br#"{"text":"a","text":"b","platforms":["android"]}"#.to_vec(),
        br#"{"text":"a\u0000","platforms":["android"]}"#.to_vec(),
        br#"{"text":"a","platforms":["android"],"tag":["x"]}"#.to_vec(),
        br#"{"text":"a","platforms":["toaster"]}"#.to_vec(),
        br#"{"text":"a","android_device_ids":[]}"#.to_vec(),
    ];
    for body in bodies {
        let shown = String::from_utf8_lossy(&body[..body.len().min(60)]).into_owned();
        for path in
            ["/v1/notifications", "/v1/notifications/notify", "/v1/devices", "/v1/campaigns"]
        {
            let answer = caller.post_bytes(path, body.clone()).await;
            assert_eq!(answer.status, 400, "{path} {shown}");
        }
    }
    for listing in ["notifications", "devices", "campaigns"] {
        let listed = caller.get(&format!("/v1/{listing}")).await.ok();
        assert_eq!(listed[listing], json!([]), "nothing is stored");
    }
}

#[tokio::test]
async fn a_body_is_json_whatever_its_type_says_and_a_byte_order_mark_is_no_error() {
    let server = TestServer::start().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", ""] {
        let request = server.caller().request(Method::POST, "/v1/notifications");
        let request = request.header("content-type", content_type);
        Answer::of(request.body(to_android().to_string())).await.id();
    }
    let body = format!("\u{feff}{}", to_android());
    let id = server.caller().post_bytes("/v1/notifications", body).await.id();
    let read = server.caller().get(&format!("/v1/notifications/{id}")).await.ok();
    assert_eq!(read["request"], to_android());
}

#[tokio::test]
async fn bodies_over_the_limit_are_413_chunked_or_not() {
    let server = TestServer::start_with(|config| config.max_body_bytes = 2_000).await;
    let expected = ["body: must be at most 2000 bytes"];
    let large = format!(r#"{{"text":"{}","platforms":["android"]}}"#, "a".repeat(3_000));
    server.caller().post_bytes("/v1/notifications", large.clone()).await.rejected(413, &expected);

    let chunk = format!("{:x}\r\n{large}\r\n0\r\n\r\n", large.len());
    let head = format!(
        "POST /v1/notifications HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\n",
        server.api_key
    );
    let answer = server.exchange(format!("{head}{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains(expected[0]), "{answer}");

    let fits = r#"{"text":"a","platforms":["android"]}"#;
    let chunk =
        format!("5\r\n{}\r\n{:x}\r\n{}\r\n0\r\n\r\n", &fits[..5], fits.len() - 5, &fits[5..]);
    let answer = server.exchange(format!("{head}{chunk}").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn ten_megabytes_are_refused_by_their_length() {
    let server = TestServer::start().await;
    let head = format!(
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\nx-api-key: {}\r\ncontent-length: 10485760\r\n\r\n",
        server.api_key
    );
    let answer = server.exchange(head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn heads_over_the_limits_are_refused() {
    let server = TestServer::start().await;
    let caller = server.caller();
    let long = format!("/v1/devices?tag={}", "a".repeat(9_000));
    caller.get(&long).await.rejected(400, &["url: must be at most 8192 bytes"]);
    let words = ["headers: must be at most 100 fields and 16384 bytes together"];
    let large = caller.request(Method::GET, "/v1/devices").header("x-large", "a".repeat(17_000));
    Answer::of(large).await.rejected(400, &words);
    let many = (0..120).fold(caller.request(Method::GET, "/v1/devices"), |request, number| {
        request.header(format!("x-{number}"), "a")
    });
    Answer::of(many).await.rejected(400, &words);
    caller.get("/v1/devices").await.ok();
}

#[tokio::test]
async fn headers_without_end_end_the_connection() {
    let server = TestServer::start().await;
    let endless = format!("GET /healthz HTTP/1.1\r\nhost: a\r\nx-long: {}", "a".repeat(200_000));
    let answer = server.exchange(endless.as_bytes()).await;
    let words = r#"{"errors":["headers: are more than this server reads"]}"#;
    assert!(answer.starts_with("HTTP/1.1 431 ") && answer.ends_with(words), "{answer}");
    let garbage = server.exchange(b"\x16\x03\x01 not http at all\r\n\r\n").await;
    let words = r#"{"errors":["request: is not HTTP"]}"#;
    assert!(garbage.starts_with("HTTP/1.1 400 ") && garbage.ends_with(words), "{garbage}");
    server.anyone().get("/healthz").await.ok();
}

#[tokio::test]
async fn ids_that_cannot_be_name_nothing() {
    let server = TestServer::start().await;
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
        caller.get(&format!("/v1/polls/{id}")).await.rejected(400, &["id: names no poll"]);
        caller.delete(&format!("/v1/devices/d/tags/{id}")).await.is(404);
        caller.delete(&format!("/v1/feeds/{id}")).await.is(404);
        server.admin().get(&format!("/admin/v1/apps/{id}")).await.is(404);
    }
}

#[tokio::test]
async fn ids_of_paths_are_decoded_once() {
    let server = TestServer::start().await;
    for (id, path) in [("a b/ü%", "a%20b%2F%C3%BC%25"), ("a%20b", "a%2520b")] {
        server.caller().post("/v1/devices", &android(id)).await.ok();
        let read = server.caller().get(&format!("/v1/devices/{path}")).await.ok();
        assert_eq!(read["device_id"], id);
    }
}

#[tokio::test]
async fn a_payload_over_a_providers_limit_is_refused_with_its_size() {
    let server = TestServer::start().await;
    let body = json!({"text": "a".repeat(5_000), "platforms": ["ios"]});
    let answer = server.caller().post("/v1/notifications", &body).await;
    answer.is(400);
    let error = answer.json()["errors"][0].as_str().unwrap().to_owned();
    assert!(error.starts_with("ios: the payload for ios would be "), "{error}");
    assert!(error.ends_with(" bytes, 4096 are allowed"), "{error}");
    assert_eq!(server.caller().get("/v1/notifications").await.ok()["notifications"], json!([]));
}
