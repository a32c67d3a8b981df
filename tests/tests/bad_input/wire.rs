//! T16: HTTP that two readers could read in two ways, and bodies that begin or end in odd ways.

use anyhow::Result;
use http::Method;
use notify_tests::{body, routes};
use serde_json::Value;

use crate::target::Target;

/// What a second, hidden request would be answered with, were it read as one.
const ANSWER: &str = "HTTP/1.1 ";

/// Requests that end where one reader says and go on where another does. What follows them asks
/// for something without a key.
const HIDING: [&str; 6] = [
    "content-length: 6\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "transfer-encoding: chunked\r\ncontent-length: 6\r\n\r\n0\r\n\r\n",
    "content-length: 0\r\ncontent-length: 5\r\n\r\n",
    "content-length: +5\r\n\r\n{}   ",
    "transfer-encoding: identity, chunked, x\r\n\r\n0\r\n\r\n",
    "transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
];

#[tokio::test]
async fn what_could_hide_a_request_behind_another_ends_the_connection() -> Result<()> {
    let target = Target::start().await?;
    let before = target.stored().await?;
    for hiding in HIDING {
        let hidden = "DELETE /v1/devices/phone HTTP/1.1\r\nhost: a\r\n\r\n";
        let head = "POST /v1/devices HTTP/1.1\r\nhost: a\r\n";
        let answer = target.app.exchange(format!("{head}{hiding}{hidden}").as_bytes()).await?;
        let answers = answer.matches(ANSWER).count();
        assert!(answers <= 1, "{hiding:?}: {answer}");
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{hiding:?}: {answer}");
    }
    assert_eq!(target.stored().await?, before, "nothing is done");
    target.server.kill().await
}

/// Bodies that are nearly right, with the statuses that they may get, and how they are told to be
/// read.
#[tokio::test]
async fn marks_numbers_and_types_that_are_nearly_right_get_an_answer_like_any() -> Result<()> {
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
            format!("{{}}\u{feff}{good}"),
            with("\"zz\":9223372036854775808"),
            with("\"zz\":-0"),
            with("\"zz\":1e999999999"),
            with("\"\":{}"),
            format!("{good}\u{0}"),
            Value::Array(vec![good.clone()]).to_string(),
        ];
        for body in wrong {
            let reply = target.send(&route, body.clone()).await?;
            let what = format!("{} {}: {body}: {}", route.method, route.template, reply.text());
            assert_eq!(reply.status, 400, "{what}");
            assert!(reply.errors().is_some(), "{what}");
        }
    }
    // Whatever the body says that it is, it is read as JSON or refused.
    for kind in ["text/html", "multipart/form-data; boundary=x", "\u{e9}", "", "a/b;c=\"d"] {
        let headers = [("content-type", kind)];
        let reply = target.app.send_with(&Method::POST, "/v1/devices", "{\"a\":", &headers).await?;
        assert!(matches!(reply.status, 400 | 415), "{kind}: {}", reply.text());
        assert!(reply.errors().is_some(), "{kind}: {}", reply.text());
    }
    target.is_well(memory).await?;
    target.server.kill().await
}
