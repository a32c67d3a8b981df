//! T16: HTTP that two parsers could read differently, and bodies that begin or end in unusual ways.

use anyhow::Result;
use http::Method;
use notify_tests::{body, routes};
use serde_json::Value;

use crate::target::Target;

/// The response to a hidden second request, if the server processed it.
const ANSWER: &str = "HTTP/1.1 ";

/// Requests whose end two parsers could see at different places. The bytes after the first possible end are a
/// request without a key.
const HIDING: [&str; 6] = [
    "content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n",
    "content-length: 0\r\ncontent-length: 5\r\n\r\n",
    "content-length: +5\r\n\r\n{}   ",
    "transfer-encoding: identity, chunked, x\r\n\r\n0\r\n\r\n",
    "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
];

#[tokio::test]
async fn request_smuggling_attempts_close_the_connection() -> Result<()> {
    let target = Target::start().await?;
    let before = target.stored().await?;
    for hiding in HIDING {
        let hidden = "DELETE /v1/devices/phone HTTP/1.1\r\nhost: a\r\n\r\n";
        let head = "POST /v1/devices HTTP/1.1\r\nhost: a\r\n";
        let answer = target.app.exchange(format!("{head}{hiding}{hidden}").as_bytes()).await;
        let answers = answer.matches(ANSWER).count();
        assert!(answers <= 1, "{hiding:?}: {answer}");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{hiding:?}: {answer}");
    }
    assert_eq!(target.stored().await?, before, "nothing is done");
    target.server.kill().await
}

/// Requests for which a proxy and a server could see different hosts or bodies, with the error of each (RFC
/// 9112 sections 3.2 and 6.1).
const AMBIGUOUS: [(&str, &str); 12] = [
    ("GET /healthz HTTP/1.1\r\n\r\n", "host: is required"),
    ("GET /healthz HTTP/1.1\r\nx-host: a\r\n\r\n", "host: is required"),
    ("GET http://a/healthz HTTP/1.1\r\n\r\n", "host: is required"),
    ("GET /healthz HTTP/1.1\r\nhost: a\r\nhost: a\r\n\r\n", "host: must be given once"),
    ("GET /healthz HTTP/1.1\r\nhost: a\r\nHost: b\r\n\r\n", "host: must be given once"),
    ("GET /healthz HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n", "host: must be given once"),
    ("GET /healthz HTTP/1.1\r\nhost: a/b\r\n\r\n", "host: is not a host"),
    ("GET /healthz HTTP/1.1\r\nhost: a, b\r\n\r\n", "host: is not a host"),
    (
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "transfer-encoding: must be chunked alone",
    ),
    (
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "transfer-encoding: must be chunked alone",
    ),
    (
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked, chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        "transfer-encoding: must be chunked alone",
    ),
    ("GET /healthz HTTP/1.1\r\nhost: a\r\ntransfer-encoding: identity\r\n\r\n", ""),
];

#[tokio::test]
async fn ambiguous_hosts_and_transfer_encodings_are_400_and_close_the_connection() -> Result<()> {
    let target = Target::start().await?;
    let before = target.stored().await?;
    for (request, error) in AMBIGUOUS {
        // The second request gets no response, because the server closes the connection after the first.
        let behind = "GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
        let answer = target.app.exchange(format!("{request}{behind}").as_bytes()).await;
        let status = answer.get("HTTP/1.1 ".len()..).unwrap_or_default();
        assert!(status.starts_with("400 "), "{request:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.").count(), 1, "{request:?}: {answer}");
        assert!(answer.contains(&format!("{{\"errors\":[\"{error}")), "{request:?}: {answer}");
    }
    for request in [
        "GET /healthz HTTP/1.0\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nhost: [::1]:8080\r\nconnection: close\r\n\r\n",
        "GET http://a/healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    ] {
        let answer = target.app.exchange(request.as_bytes()).await;
        let is_ok = answer.starts_with("HTTP/1.1 200 ") || answer.starts_with("HTTP/1.0 200 ");
        assert!(is_ok, "{request:?}: {answer}");
    }
    assert_eq!(target.stored().await?, before, "nothing is done");
    target.server.kill().await
}

#[tokio::test]
async fn bodies_with_something_around_or_unknown_members_are_400() -> Result<()> {
    let target = Target::start().await?;
    let memory = target.server.memory_peak()?;
    for route in routes(&target.app).await? {
        let Some(good) = body(&route) else { continue };
        let with = |member: &str| {
            let text = good.to_string();
            let comma = if text == "{}" { "" } else { "," };
            format!("{{{member}{comma}{}", &text[1..])
        };
        let wrong = [
            // A byte order mark, and nothing before it that is allowed.
            format!("{{}}\u{feff}{good}"),
            // Unknown members are refused whatever their value is. Reading these values does no harm.
            with("\"ZZ\":9223372036854775808"),
            with("\"ZZ\":-0"),
            with("\"ZZ\":1e999999999"),
            with("\"\":{}"),
            format!("{good}\u{0}"),
            Value::Array(vec![good.clone()]).to_string(),
        ];
        for body in wrong {
            let reply = target.send(&route, body.clone()).await?;
            let what = format!("{} {}: {body}: {}", route.method, route.template, reply.text);
            assert_eq!(reply.status, 400, "{what}");
            assert!(reply.errors().is_some(), "{what}");
        }
    }
    target.is_well(memory).await?;
    target.server.kill().await
}

#[tokio::test]
async fn a_broken_body_is_refused_under_any_content_type() -> Result<()> {
    let target = Target::start().await?;
    let memory = target.server.memory_peak()?;
    for kind in ["text/html", "multipart/form-data; boundary=x", "\u{e9}", "", "a/b;c=\"d"] {
        let headers = [("content-type", kind)];
        let reply = target.app.send_with(&Method::POST, "/v1/devices", "{\"a\":", &headers).await?;
        assert!(matches!(reply.status, 400 | 415), "{kind}: {}", reply.text);
        assert!(reply.errors().is_some(), "{kind}: {}", reply.text);
    }
    target.is_well(memory).await?;
    target.server.kill().await
}
