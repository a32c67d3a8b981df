//! What only a faulty provider does: answers that no one should give, certificates that nobody may
//! take, connections that end all at once, windows that stay closed.

use std::time::Duration;

use serde_json::json;

use super::client::{Client, Request, begin_tls, read};
use super::{WITHIN, push, push_to, start, start_with};
use crate::sandbox::{Answer, Certificate, Provider, Rule, RuleError, SandboxConfig, Settings};

/// How long a test looks whether something comes that must not.
const A_MOMENT: Duration = Duration::from_millis(50);

#[tokio::test]
async fn an_answer_can_have_header_fields_and_a_body_of_its_own() {
    let (sandbox, _) = start().await;
    let rule = Rule::on(Provider::Apns, Answer::status(429))
        .header("retry-after", "Fri, 31 Dec 9999 23:59:59 GMT")
        .body("{\"reason\":");
    sandbox.script(rule).unwrap();
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!(response.status, 429);
    assert_eq!(response.header("retry-after"), Some("Fri, 31 Dec 9999 23:59:59 GMT"));
    assert_eq!(response.body, json!("{\"reason\":"));
    let broken = Rule::on(Provider::Fcm, Answer::ok()).header("not a name", "x");
    assert_eq!(sandbox.script(broken), Err(RuleError::Headers));
    let endless = Rule::on(Provider::Fcm, Answer::ok()).more_bytes(u64::MAX, 0);
    assert_eq!(sandbox.script(endless), Err(RuleError::MoreBytes));
}

#[tokio::test]
async fn more_bytes_come_as_fast_as_they_are_taken_over_both_protocols() {
    const MORE: usize = 1_000_000;
    let (sandbox, _) = start().await;
    for provider in [Provider::Apns, Provider::Oauth] {
        let more = Rule::on(provider, Answer::status(500)).body("!").more_bytes(MORE as u64, 0);
        sandbox.script(more).unwrap();
    }
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!(response.body.as_str().map(str::len), Some(1 + MORE));
    let url = format!("http://{}/token", sandbox.addr());
    let body = reqwest::Client::new().post(url).send().await.unwrap().bytes().await.unwrap();
    assert_eq!(body.len(), 1 + MORE);
}

#[tokio::test]
async fn bytes_can_trickle_by_the_sandbox_s_clock() {
    let (sandbox, clock) = start().await;
    let slow = Rule::on(Provider::Apns, Answer::status(503)).body("").more_bytes(2, 10_000);
    sandbox.script(slow).unwrap();
    let mut client = Client::connect(&sandbox).await;
    let answer = client.begin(push(&sandbox)).await.unwrap();
    let mut reading = tokio::spawn(read(answer));
    for _ in 0..2 {
        let early = tokio::time::timeout(A_MOMENT, &mut reading).await;
        assert!(early.is_err(), "it is not over: {early:?}");
        clock.advance(Duration::from_secs(10));
    }
    let response = tokio::time::timeout(WITHIN, reading).await.unwrap().unwrap().unwrap();
    assert_eq!((response.status, response.body), (503, json!("xx")));
}

#[tokio::test]
async fn a_closed_window_lets_no_body_through() {
    let settings = Settings { stream_window_bytes: 0, ..Settings::default() };
    let sandbox = start_with(SandboxConfig { settings, ..SandboxConfig::default() }).await;
    let mut client = Client::connect(&sandbox).await;
    // What has no body comes through; by its answer the client knows the window.
    let answer = client.send(Request::get("/sandbox/counts")).await.unwrap();
    assert_eq!(answer.status, 200);
    let answer = client.begin(push_to(&sandbox, "00aa")).await.unwrap();
    assert!(tokio::time::timeout(A_MOMENT, read(answer)).await.is_err());
    assert_eq!(sandbox.counts().received, 0);
}

#[tokio::test]
async fn certificates_that_nobody_may_take_are_not_taken() {
    let (sandbox, _) = start().await;
    for certificate in [Certificate::Expired, Certificate::Elsewhere, Certificate::Stranger] {
        sandbox.set(Settings { certificate, ..Settings::default() });
        assert!(begin_tls(&sandbox, b"h2").await.is_err(), "{certificate:?}");
    }
    sandbox.set(Settings::default());
    let mut client = Client::connect(&sandbox).await;
    assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    let counts = sandbox.counts();
    assert_eq!((counts.failed_handshakes, counts.connections), (3, 1));
}

#[tokio::test]
async fn all_connections_can_be_cut_at_once() {
    let (sandbox, _) = start().await;
    let (mut first, mut second) =
        (Client::connect(&sandbox).await, Client::connect(&sandbox).await);
    for client in [&mut first, &mut second] {
        assert_eq!(client.send(push(&sandbox)).await.unwrap().status, 200);
    }
    sandbox.cut();
    for client in [first, second] {
        tokio::time::timeout(WITHIN, client.ended).await.unwrap().unwrap().ok();
    }
    let mut third = Client::connect(&sandbox).await;
    assert_eq!(third.send(push(&sandbox)).await.unwrap().status, 200);
}
