//! Which outcomes are tried again, and after how long.

use notify_core::Success;
use reqwest::Method;

use super::*;

fn delays(times: usize) -> ExponentialBuilder {
    ExponentialBuilder::new()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_secs(4))
        .with_max_times(times)
}

fn attempts(call: &Call<()>) -> Attempts<()> {
    Attempts::new(&delays(2), call)
}

fn creation() -> Call<()> {
    Call::<Success>::v1(Method::POST, &["devices"]).done()
}

fn admin_creation() -> Call<()> {
    Call::<Success>::admin(Method::POST, &["apps"]).done()
}

fn deletion() -> Call<()> {
    Call::<Success>::v1(Method::DELETE, &["devices", "a"]).done()
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

fn refused() -> Error {
    Error::Connect { origin: "http://a.example".to_owned(), source: "refused".into() }
}

fn not_found() -> Error {
    Error::NotFound { call: String::new(), errors: Vec::new(), request_id: None }
}

fn delay(call: &Call<()>, error: Error) -> Option<Duration> {
    match attempts(call).after(Err(error)) {
        Step::Again(delay) => Some(delay),
        Step::End(result) => {
            assert!(result.is_err());
            None
        }
    }
}

#[test]
fn a_creation_is_repeated_under_v1_alone_once_it_may_have_been_done() {
    type Row = (fn() -> Error, bool, bool);
    let rows: [Row; 12] = [
        (refused, true, true),
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
fn delays_grow_and_end() {
    let mut attempts = attempts(&creation());
    let mut waited = Vec::new();
    let end = loop {
        match attempts.after(Err(server(503, None))) {
            Step::Again(delay) => waited.push(delay.as_secs()),
            Step::End(result) => break result,
        }
    };
    assert_eq!(waited, [1, 2]);
    assert_eq!(end.unwrap_err().status(), Some(503));
}

#[test]
fn retry_after_is_never_undercut() {
    let seconds = |error| delay(&creation(), error).map(|delay| delay.as_secs());
    assert_eq!(seconds(rejected(429, Some(30))), Some(30));
    assert_eq!(seconds(server(503, Some(60))), Some(60));
    assert_eq!(seconds(server(503, Some(0))), Some(1), "nor does it shorten the delay");
    assert_eq!(seconds(server(503, Some(61))), None, "longer than the client waits");
}

#[test]
fn a_deletion_that_was_done_before_its_answer_was_lost_is_a_success() {
    let mut after_loss = attempts(&deletion());
    assert!(matches!(after_loss.after(Err(Error::transport(&base(), "reset"))), Step::Again(_)));
    assert!(matches!(after_loss.after(Err(not_found())), Step::End(Ok(()))));

    let mut at_once = attempts(&deletion());
    assert!(matches!(at_once.after(Err(not_found())), Step::End(Err(_))));

    let mut never_sent = attempts(&deletion());
    assert!(matches!(never_sent.after(Err(refused())), Step::Again(_)));
    assert!(matches!(never_sent.after(Err(not_found())), Step::End(Err(_))));
}
