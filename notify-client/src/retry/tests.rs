//! Which errors are retried, and after which delay.

use notify_core::Success;
use reqwest::Method;

use super::*;

fn backoff(times: usize) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(4))
        .with_max_times(times)
}

fn retry(call: &Call<()>) -> Retry<()> {
    Retry::new(&backoff(2), call)
}

fn creation() -> Call<()> {
    Call::<Success>::v1(Method::POST, &["devices"]).discard_response()
}

fn admin_creation() -> Call<()> {
    Call::<Success>::admin(Method::POST, &["apps"]).discard_response()
}

fn deletion() -> Call<()> {
    Call::<Success>::v1(Method::DELETE, &["devices", "a"]).discard_response()
}

fn rejected(status: u16, retry_after: Option<u64>) -> Error {
    let retry_after = retry_after.map(Duration::from_secs);
    Error::Rejected { status, errors: Vec::new(), request_id: None, retry_after }
}

fn server(status: u16, retry_after: Option<u64>) -> Error {
    let retry_after = retry_after.map(Duration::from_secs);
    Error::Server { status, errors: Vec::new(), request_id: None, retry_after }
}

fn base() -> url::Url {
    url::Url::parse("http://a.example").unwrap()
}

fn connection_refused() -> Error {
    Error::Connect { origin: "http://a.example".to_owned(), source: "refused".into() }
}

fn not_found() -> Error {
    Error::NotFound { call: String::new(), errors: Vec::new(), request_id: None }
}

fn delay(call: &Call<()>, error: Error) -> Option<Duration> {
    match retry(call).decide(Err(error)) {
        Decision::RetryAfter(delay) => Some(delay),
        Decision::Finish(result) => {
            assert!(result.is_err());
            None
        }
    }
}

#[test]
fn only_v1_retries_a_creation_that_may_have_been_executed() {
    type Row = (fn() -> Error, bool, bool);
    let rows: [Row; 12] = [
        (connection_refused, true, true),
        (|| Error::timeout(&base(), "late"), true, false),
        (|| Error::transport(&base(), "reset"), true, false),
        (|| rejected(429, None), true, true),
        (|| rejected(409, Some(1)), true, true),
        (|| rejected(409, None), false, false),
        (|| rejected(400, None), false, false),
        (|| server(500, None), false, false),
        (|| server(502, None), true, false),
        (|| server(503, None), true, false),
        (|| server(504, None), true, false),
        (not_found, false, false),
    ];
    for (error, under_v1, under_admin) in rows {
        assert_eq!(delay(&creation(), error()).is_some(), under_v1, "{}", error());
        assert_eq!(delay(&admin_creation(), error()).is_some(), under_admin, "{}", error());
    }
}

#[test]
fn delays_grow_and_retries_are_limited() {
    let mut retry = retry(&creation());
    let mut delays = Vec::new();
    let end = loop {
        match retry.decide(Err(server(503, None))) {
            Decision::RetryAfter(delay) => delays.push(delay.as_secs()),
            Decision::Finish(result) => break result,
        }
    };
    assert_eq!(delays, [1, 2]);
    assert_eq!(end.unwrap_err().status(), Some(503));
}

#[test]
fn a_delay_is_at_least_retry_after() {
    let seconds = |error| delay(&creation(), error).map(|delay| delay.as_secs());
    assert_eq!(seconds(rejected(429, Some(30))), Some(30));
    assert_eq!(seconds(server(503, Some(60))), Some(60));
    assert_eq!(
        seconds(server(503, Some(0))),
        Some(1),
        "a shorter Retry-After does not shorten the delay"
    );
    assert_eq!(seconds(server(503, Some(61))), None, "longer than RETRY_AFTER_MAX");
}

#[test]
fn a_deletion_whose_response_was_lost_succeeds_on_404() {
    let mut after_reset = retry(&deletion());
    assert!(matches!(
        after_reset.decide(Err(Error::transport(&base(), "reset"))),
        Decision::RetryAfter(_)
    ));
    assert!(matches!(after_reset.decide(Err(not_found())), Decision::Finish(Ok(()))));

    let mut first_attempt = retry(&deletion());
    assert!(matches!(first_attempt.decide(Err(not_found())), Decision::Finish(Err(_))));

    let mut never_sent = retry(&deletion());
    assert!(matches!(never_sent.decide(Err(connection_refused())), Decision::RetryAfter(_)));
    assert!(matches!(never_sent.decide(Err(not_found())), Decision::Finish(Err(_))));
}
