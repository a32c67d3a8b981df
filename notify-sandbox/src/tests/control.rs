//! The control API, the page, the limit of the log, and plain HTTP/1.1.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::client::{Client, Request, tls};
use super::{TestClock, access_token, fcm_send, push, push_to, start, start_with};
use crate::{Sandbox, SandboxConfig, Settings};

/// Sends one request over plain HTTP/1.1. Returns the status and the body.
async fn plain(sandbox: &Sandbox, method: &str, path: &str, body: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(sandbox.addr()).await.unwrap();
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

async fn plain_json(sandbox: &Sandbox, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let (status, body) = plain(sandbox, method, path, &body).await;
    (status, serde_json::from_str(&body).unwrap())
}

#[tokio::test]
async fn the_configuration_is_served_as_the_bodies_to_put() {
    let (sandbox, _) = start().await;
    let origin = format!("https://127.0.0.1:{}", sandbox.addr().port());
    assert_eq!(sandbox.origin(), origin);
    let (apns, fcm) = (sandbox.apns_config(), sandbox.fcm_config());
    let webpush = sandbox.webpush_config();
    let (messenger, telegram) = (sandbox.messenger_config(), sandbox.telegram_config());
    let all = json!({ "apns": apns, "fcm": fcm, "webpush": webpush, "messenger": messenger, "telegram": telegram });
    let rows = [
        ("/sandbox/config/apns", apns.clone()),
        ("/sandbox/config/fcm", fcm.clone()),
        ("/sandbox/config/messenger", messenger.clone()),
        ("/sandbox/config/telegram", telegram.clone()),
        ("/sandbox/config", all),
    ];
    for (path, expected) in rows {
        assert_eq!(plain_json(&sandbox, "GET", path, &Value::Null).await, (200, expected));
    }
    let pem = plain(&sandbox, "GET", "/sandbox/ca.pem", "").await;
    assert_eq!(pem, (200, sandbox.ca_certificate().to_owned()));
    let mut keys: Vec<_> = apns.as_object().unwrap().keys().cloned().collect();
    keys.sort();
    let expected = [
        "ca_certificate",
        "endpoint",
        "key_id",
        "private_key",
        "sandbox_endpoint",
        "team_id",
        "topic",
    ];
    assert_eq!(keys, expected);
    assert_eq!(fcm["endpoint"], json!(format!("{origin}/fcm")));
    assert_eq!(messenger["endpoint"], json!(format!("{origin}/messenger")));
    assert_eq!(telegram["endpoint"], json!(format!("{origin}/telegram")));
    assert_eq!(fcm["service_account"]["token_uri"], json!(format!("{origin}/token")));
    let mut client = Client::connect(&sandbox).await;
    let over_h2 = client.send(Request::get("/sandbox/config/apns")).await.unwrap();
    assert_eq!(over_h2.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(over_h2.body, apns);
    for line in [
        format!("{origin}/apns"),
        "/sandbox/config/fcm".to_owned(),
        "/sandbox/config/messenger".to_owned(),
        "/sandbox/config/telegram".to_owned(),
    ] {
        assert!(sandbox.instructions().contains(&line), "{line}");
    }
}

#[tokio::test]
async fn rules_come_and_go_over_http() {
    let (sandbox, _) = start().await;
    let rule = json!({ "provider": "apns", "status": 503, "times": 1, "retry_after": 4 });
    let stored = json!({ "provider": "apns", "action": "answer", "status": 503, "times": 1,
        "retry_after": 4, "after": 0, "delay_ms": 0 });
    let expected = json!({ "rules": [stored] });
    let added = plain_json(&sandbox, "POST", "/sandbox/rules", &rule).await;
    assert_eq!(added, (200, expected.clone()));
    assert_eq!(plain_json(&sandbox, "GET", "/sandbox/rules", &Value::Null).await, (200, expected));

    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!((response.status, response.header("retry-after")), (503, Some("4")));
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);

    let many =
        json!([{ "provider": "fcm", "action": "cut" }, { "provider": "oauth", "status": 500 }]);
    let (status, all) = plain_json(&sandbox, "POST", "/sandbox/rules", &many).await;
    assert_eq!((status, all["rules"].as_array().unwrap().len()), (200, 2));
    plain_json(&sandbox, "DELETE", "/sandbox/rules", &Value::Null).await;
    let none = plain_json(&sandbox, "GET", "/sandbox/rules", &Value::Null).await;
    assert_eq!(none, (200, json!({ "rules": [] })));
}

#[tokio::test]
async fn a_wrong_call_gets_an_error_that_names_the_mistake() {
    let (sandbox, _) = start().await;
    let rows = [
        ("GET", "/nowhere", Value::Null, 404, "no such path"),
        ("PUT", "/sandbox/rules", Value::Null, 405, "no such method on this path"),
        ("POST", "/sandbox/counts", Value::Null, 405, "no such method on this path"),
        (
            "POST",
            "/sandbox/rules",
            json!({ "provider": "apns", "status": 99 }),
            400,
            "status: must be between 200 and 599",
        ),
        (
            "GET",
            "/sandbox/received?provider=x",
            Value::Null,
            400,
            "provider: must be apns, fcm, webpush, messenger or telegram",
        ),
        ("GET", "/sandbox/received?limit=x", Value::Null, 400, "limit: must be a number"),
        ("GET", "/sandbox/received?x=1", Value::Null, 400, "x: is not a parameter"),
    ];
    for (method, path, body, status, error) in rows {
        let answer = plain_json(&sandbox, method, path, &body).await;
        assert_eq!(answer, (status, json!({ "errors": [error] })), "{method} {path}");
    }
    for body in ["{", "{\"provider\": \"apns\", \"x\": 1}", "{\"provider\": \"wns\"}"] {
        let (status, answer) = plain(&sandbox, "POST", "/sandbox/rules", body).await;
        assert_eq!((status, answer.starts_with("{\"errors\":[\"body: ")), (400, true), "{answer}");
    }
}

#[tokio::test]
async fn received_messages_are_listed_filtered_counted_and_cleared() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    for token in ["a", "b", "a"] {
        client.send(fcm_send(&access, &json!({ "token": token }))).await.unwrap();
    }
    client.send(push_to(&sandbox, "00aa").without("apns-topic")).await.unwrap();
    let rows = [
        ("", vec!["a", "b", "a", "00aa"]),
        ("?provider=fcm", vec!["a", "b", "a"]),
        ("?provider=fcm&token=a", vec!["a", "a"]),
        ("?limit=2", vec!["a", "00aa"]),
    ];
    for (query, tokens) in rows {
        let path = format!("/sandbox/received{query}");
        let (_, listed) = plain_json(&sandbox, "GET", &path, &Value::Null).await;
        let listed: Vec<_> = listed["received"].as_array().unwrap().iter().collect();
        assert_eq!(listed.iter().map(|entry| &entry["token"]).collect::<Vec<_>>(), tokens);
    }
    let (_, counts) = plain_json(&sandbox, "GET", "/sandbox/counts", &Value::Null).await;
    let expected = json!({
        "received": 4, "dropped": 0, "accepted": 3, "accepted_tokens": 2,
        "connections": counts["connections"], "failed_handshakes": 0, "refused_streams": 0,
        "answers": [
            { "provider": "apns", "status": 400, "reason": "MissingTopic", "count": 1 },
            { "provider": "fcm", "status": 200, "reason": null, "count": 3 },
            { "provider": "oauth", "status": 200, "reason": null, "count": 1 },
        ],
    });
    assert_eq!(counts, expected);
    plain_json(&sandbox, "DELETE", "/sandbox/received", &Value::Null).await;
    assert_eq!((sandbox.received(), sandbox.counts().answers), (vec![], vec![]));
}

#[tokio::test]
async fn settings_and_tokens_are_changed_over_http() {
    let (sandbox, _) = start().await;
    let changes = json!({ "max_concurrent_streams": 5 });
    let (_, all) = plain_json(&sandbox, "POST", "/sandbox/settings", &changes).await;
    let mut expected = serde_json::to_value(Settings::default()).unwrap();
    expected["max_concurrent_streams"] = json!(5);
    assert_eq!(all, expected);
    let declared = json!({ "token": "00AA", "environment": "sandbox" });
    plain_json(&sandbox, "POST", "/sandbox/tokens", &declared).await;
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push_to(&sandbox, "00aa")).await.unwrap();
    assert_eq!(response.body, json!({ "reason": "BadDeviceToken" }));
    client.send(push(&sandbox)).await.unwrap();
    assert_eq!(client.requests.current_max_send_streams(), 5);
}

#[tokio::test]
async fn the_page_escapes_what_it_shows_and_runs_no_script_but_its_own() {
    let (sandbox, _) = start().await;
    let (status, empty) = plain(&sandbox, "GET", "/", "").await;
    assert_eq!(status, 200);
    assert!(empty.contains("/sandbox/config/fcm"));
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let nasty = "<script>alert('x')</script>";
    client
        .send(fcm_send(&access, &json!({ "token": nasty, "data": { "k": nasty } })))
        .await
        .unwrap();
    let (_, page) = plain(&sandbox, "GET", "/", "").await;
    let own = "<script src=\"sandbox/page.js\" defer></script>";
    assert_eq!((page.matches("<script").count(), page.matches(own).count()), (1, 1), "{page}");
    assert_eq!(page.matches("&lt;script&gt;").count(), 3, "{page}");
    assert!(page.contains("<a href=\"./\">Reload</a>") && !page.contains("http-equiv"), "{page}");
    let (status, script) = plain(&sandbox, "GET", "/sandbox/page.js", "").await;
    assert!(status == 200 && script.contains("fetch(\"./\")"), "{script}");
}

/// A check of the credentials must not look like a failed push.
#[tokio::test]
async fn the_page_marks_checks_of_credentials() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let message = json!({ "validate_only": true, "message": { "token": "none-notatoken" } });
    client.send(fcm_send(&access, &json!({})).json(&message)).await.unwrap();
    client.send(push_to(&sandbox, &"0".repeat(64))).await.unwrap();
    client.send(push_to(&sandbox, "00bb-410")).await.unwrap();
    let (_, page) = plain(&sandbox, "GET", "/", "").await;
    let rows = page.split("<tr data-number=\"").skip(1).map(|row| row.split('>').next().unwrap());
    let expected = ["3\" class=\"refused\"", "2\" class=\"check\"", "1\" class=\"check\""];
    assert_eq!(rows.collect::<Vec<_>>(), expected, "{page}");
    assert_eq!(page.matches("check of the credentials, no push").count(), 2);
}

#[tokio::test]
async fn the_page_says_when_an_ending_selected_the_answer() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    for token in ["fcm-token-502", "phone~502"] {
        client.send(fcm_send(&access, &json!({ "token": token }))).await.unwrap();
    }
    let (_, page) = plain(&sandbox, "GET", "/", "").await;
    assert_eq!(page.matches("selected by the ending of the token").count(), 1, "{page}");
    let (_, received) = plain(&sandbox, "GET", "/sandbox/received", "").await;
    let received: Value = serde_json::from_str(&received).unwrap();
    let by_ending = |at: usize| &received["received"][at]["is_by_ending"];
    assert_eq!((by_ending(0), by_ending(1)), (&json!(false), &json!(true)));
}

#[tokio::test]
async fn a_sandbox_without_the_control_api_serves_only_providers() {
    let clock = TestClock::start().clock();
    let config = SandboxConfig { serves_control: false, clock, ..SandboxConfig::default() };
    let sandbox = start_with(config).await;
    for path in ["/", "/sandbox/config", "/sandbox/received", "/sandbox/rules"] {
        let (status, body) = plain(&sandbox, "GET", path, "").await;
        assert_eq!((status, &*body), (404, ""), "{path}");
    }
    let mut client = Client::connect(&sandbox).await;
    assert!(!access_token(&sandbox, &mut client).await.is_empty());
}

#[tokio::test]
async fn the_log_is_bounded_and_the_counts_are_not() {
    for (entries_max, kept, dropped) in [(2, vec!["2", "3"], 2), (0, vec![], 4)] {
        let clock = TestClock::start().clock();
        let config =
            SandboxConfig { log_entries_max: entries_max, clock, ..SandboxConfig::default() };
        let sandbox = start_with(config).await;
        let mut client = Client::connect(&sandbox).await;
        let access = access_token(&sandbox, &mut client).await;
        for token in ["0", "1", "2", "3"] {
            client.send(fcm_send(&access, &json!({ "token": token }))).await.unwrap();
        }
        let log = sandbox.wait_for(4, super::WITHIN).await;
        let tokens: Vec<_> = log.iter().filter_map(|entry| entry.token.as_deref()).collect();
        assert_eq!(tokens, kept);
        let counts = sandbox.counts();
        assert_eq!((counts.received, counts.dropped, counts.accepted_tokens), (4, dropped, 4));
    }
}

#[tokio::test]
async fn fcm_takes_http_1_and_apns_does_not() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let body = json!({ "message": { "token": "a" } }).to_string();
    let rows =
        [("/fcm/v1/projects/notify-sandbox/messages:send", "200"), ("/apns/3/device/00aa", "505")];
    for (path, status) in rows {
        let mut stream = tls(&sandbox, b"http/1.1").await;
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\nauthorization: Bearer {access}\
             \r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len(),
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The server may close the connection without a TLS close_notify.
        let _ = stream.read_to_end(&mut response).await;
        assert_eq!(std::str::from_utf8(&response).unwrap().get(9..12), Some(status), "{path}");
    }
}

#[tokio::test]
async fn a_fault_closes_an_http_1_connection_without_an_answer() {
    let (sandbox, _) = start().await;
    let rule = json!({ "provider": "oauth", "action": "cut" });
    plain_json(&sandbox, "POST", "/sandbox/rules", &rule).await;
    let mut stream = TcpStream::connect(sandbox.addr()).await.unwrap();
    let request = "POST /token HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    assert_eq!(response, b"");
}
