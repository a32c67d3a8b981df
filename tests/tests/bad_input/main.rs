//! Bad input on every route that reads a body: it gets a list of errors, stores nothing and never
//! causes a 5xx, and the server keeps running.

mod ambiguous_http;
mod mutation;
mod response_sizes;
mod target;

use std::cell::Cell;

use anyhow::{Context, Result};
use http::Method;
use notify_tests::{Route, body, routes};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use serde_json::Value;

use crate::mutation::{change, mutated};
use crate::target::Target;

/// The levels of nesting, which are more than any parser follows.
const DEPTH: usize = 100_000;
/// The total number of mutated bodies.
const CASES: u32 = 4_000;

/// Bodies that no route accepts, with the statuses that they may get.
fn bad_bodies(route: &Route) -> Vec<(&'static str, Vec<u8>, u16)> {
    let good = body(route).map_or_else(String::new, |body| body.to_string());
    let inside = |member: &str| {
        let rest = good[1..].trim_start();
        let comma = if rest == "}" { "" } else { "," };
        format!("{{{member}{comma}{rest}").into_bytes()
    };
    let name = serde_json::from_str::<Value>(&good)
        .ok()
        .and_then(|body| body.as_object()?.keys().next().cloned())
        .unwrap_or_else(|| "device_id".to_owned());
    let deep_arrays = format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH));
    vec![
        ("truncated", good.as_bytes()[..good.len() - 1].to_vec(), 400),
        ("only the beginning", b"{\"".to_vec(), 400),
        ("more behind it", format!("{good} {good}").into_bytes(), 400),
        ("not UTF-8", [good.as_bytes(), b"\xff\xfe"].concat(), 400),
        ("not UTF-8 in a key", inside("\"UTF8\":1").iter().map(not_utf8).collect(), 400),
        ("a lone surrogate", inside(r#""\ud800":1"#), 400),
        ("nested arrays", deep_arrays.clone().into_bytes(), 400),
        ("nested objects", deep_objects.clone().into_bytes(), 400),
        ("nested arrays inside", inside(&format!("\"{name}\":{deep_arrays}")), 400),
        ("nested objects inside", inside(&format!("\"ZZ\":{deep_objects}")), 400),
        ("a number that no double holds", inside("\"ZZ\":1e400"), 400),
        ("a number without digits", inside("\"ZZ\":-"), 400),
        ("a key twice", inside(&format!("\"{name}\":1,\"{name}\":2")), 400),
        ("an unknown field", inside("\"ZZ\":1"), 400),
        ("U+0000", inside("\"ZZ\\u0000\":\"\\u0000\""), 400),
        ("null", b"null".to_vec(), 400),
        ("a list", b"[]".to_vec(), 400),
        ("a text", b"\"text\"".to_vec(), 400),
        ("10 MB", inside(&format!("\"ZZ\":\"{}\"", "a".repeat(10_000_000))), 413),
        ("10 MB of nothing", vec![b' '; 10_000_000], 413),
        ("a megabyte of keys", inside(&keys(60_000)), 400),
    ]
}

/// Replaces the text `UTF8` by bytes that are not UTF-8.
fn not_utf8(byte: &u8) -> u8 {
    if *byte == b'8' { 0xc3 } else { *byte }
}

fn keys(count: usize) -> String {
    let keys: Vec<String> = (0..count).map(|number| format!("\"k{number}\":0")).collect();
    keys.join(",")
}

#[tokio::test]
async fn malformed_bodies_are_rejected_and_store_nothing_on_every_route() -> Result<()> {
    let target = Target::start().await?;
    assert!(target.routes.len() >= 15, "{:?}", target.routes);
    let (before, memory) = (target.stored().await?, target.server.memory_peak()?);
    for route in &target.routes {
        for (what, body, status) in bad_bodies(route) {
            let case = format!("{} {}: {what}", route.method, route.template);
            let reply = target.send(route, body).await;
            // A body over the limit may be cut off while it is still being written.
            let Ok(reply) = reply else {
                assert_eq!(status, 413, "{case}: no answer");
                continue;
            };
            assert_eq!(reply.status, status, "{case}: {}", reply.text);
            let errors = reply.errors().with_context(|| format!("{case}: {}", reply.text))?;
            assert!(errors.iter().all(|error| error.len() < 4_096), "{case}: {errors:?}");
        }
    }
    assert_eq!(target.stored().await?, before, "nothing is stored");
    target.is_well(memory).await?;
    target.server.kill().await
}

#[tokio::test]
async fn invalid_methods_ids_and_heads_are_rejected() -> Result<()> {
    let target = Target::start().await?;
    let (before, memory) = (target.stored().await?, target.server.memory_peak()?);
    for route in routes(&target.app).await? {
        let path = target.resources.path(&route.template);
        for method in ["BREW", "TRACE", "OPTIONS"] {
            let reply = target.caller(&route).send(&method.parse()?, &path, "").await?;
            assert_eq!(reply.status, 405, "{method} {path}");
            assert!(reply.header("allow").contains(route.method.as_str()), "{method} {path}");
            assert!(reply.errors().is_some(), "{}", reply.text);
        }
        if !route.template.contains('{') {
            continue;
        }
        let body = body(&route).map_or_else(String::new, |body| body.to_string());
        // A segment can have any name that a tag can have, and a user any ID without control
        // characters.
        let valid_ids: &[&str] = match (&route.method, route.template.as_str()) {
            (&Method::PUT, template) if template.contains("/segments/") => {
                &["%0A", "..%2F..", "%2e%2e"]
            }
            (&Method::PATCH, template) if template.contains("/users/") => &["..%2F..", "%2e%2e"],
            // A request for a token creates the user.
            (&Method::POST, template) if template.starts_with("/v1/users/") => {
                &["..%2F..", "%2e%2e"]
            }
            _ => &[],
        };
        for id in ["%00", "a%00b", "%FF%FE", "%0A", "..%2F..", "%2e%2e", &"a".repeat(2_000)] {
            let placeholder = route.template.find('{').unwrap_or_default();
            let behind = route.template[placeholder..].find('}').unwrap_or_default();
            let rest = &route.template[placeholder + behind + 1..];
            let path = format!("{}{id}{rest}", &route.template[..placeholder]);
            let path = target.resources.path(&path);
            let sent = url::Url::parse(&format!("http://host{path}"))?;
            if id == "%2e%2e" && sent.path() != path {
                // The client resolves these dots itself, and would send a request to another route.
                continue;
            }
            let reply = target.caller(&route).send(&route.method, &path, body.clone()).await?;
            if valid_ids.contains(&id) {
                assert_eq!(reply.status, 200, "{route:?} {id}: {}", reply.text);
                continue;
            }
            assert!((400..500).contains(&reply.status), "{route:?} {id}: {}", reply.status);
            assert!(reply.errors().is_some(), "{path}: {}", reply.text);
        }
    }
    let endless = format!("GET /v1/devices HTTP/1.1\r\nhost: a\r\nx: {}", "a".repeat(4_000_000));
    let many: String = (0..100_000).map(|number| format!("x-{number}: a\r\n")).collect();
    for head in [
        endless,
        format!("GET /v1/devices HTTP/1.1\r\nhost: a\r\n{many}"),
        format!("GET /{} HTTP/1.1\r\nhost: a\r\n\r\n", "a".repeat(1_000_000)),
        "NOT HTTP\r\n\r\n".to_owned(),
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n".to_owned(),
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n{}"
            .to_owned(),
        "POST /v1/devices HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n"
            .to_owned(),
    ] {
        let answer = target.app.exchange(head.as_bytes()).await;
        let refused = answer.is_empty() || answer.starts_with("HTTP/1.1 4");
        assert!(refused, "{}: {answer}", &head[..head.len().min(60)]);
    }
    assert_eq!(target.stored().await?, before, "nothing is stored");
    target.is_well(memory).await?;
    target.server.kill().await
}

#[test]
fn mutated_bodies_never_cause_a_server_error() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let target = runtime.block_on(Target::start())?;
    let memory = target.server.memory_peak()?;
    let changes = proptest::collection::vec(change(), 1..4);
    let (accepted, refused) = (Cell::new(0), Cell::new(0));
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let outcome =
        TestRunner::new(config).run(&(0..target.routes.len(), changes), |(route, changes)| {
            let route = &target.routes[route];
            let body = mutated(body(route).unwrap_or_default(), &changes);
            let reply = runtime
                .block_on(target.send(route, body))
                .map_err(|error| TestCaseError::fail(format!("{route:?}: {error:#}")))?;
            let is_error = reply.errors().is_some();
            let tally = if is_error { &refused } else { &accepted };
            tally.set(tally.get() + 1);
            let as_it_should = match reply.status {
                200 => !is_error && reply.json().is_object(),
                400 | 404 | 409 | 413 => is_error,
                _ => false,
            };
            prop_assert!(as_it_should, "{route:?}: {} {}", reply.status, reply.text);
            Ok(())
        });
    outcome.map_err(|error| anyhow::anyhow!("{error}"))?;
    // Mutations that were all refused at the door would prove nothing of the rooms behind it.
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(accepted > CASES / 20 && refused > CASES / 4, "{accepted} accepted, {refused} refused");
    runtime.block_on(async {
        target.is_well(memory).await?;
        let good = Route { method: Method::POST, template: "/v1/devices".to_owned() };
        let last = body(&good).context("a body")?;
        assert_eq!(target.send(&good, last.to_string()).await?.status, 200, "it still accepts");
        target.server.kill().await
    })
}
