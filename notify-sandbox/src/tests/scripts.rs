//! Responses by script: one row for each response of APNs and FCM, selected by token and by rule.

use std::time::Duration;

use serde_json::{Value, json};

use super::client::Client;
use super::{NOW_S, WITHIN, access_token, fcm_send, push, push_to, start};
use crate::{ApnsReason, Provider, Rule, RuleError, ScriptedResponse, apns_token, fcm_token};

#[tokio::test]
async fn a_token_can_script_every_reason_of_apns() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    for (seed, reason) in (0..).zip(ApnsReason::ALL) {
        let token = apns_token(seed, &ScriptedResponse::reason(reason.name));
        let response = client.send(push_to(&sandbox, &token)).await.unwrap();
        let body = match reason.status {
            410 => json!({ "reason": reason.name, "timestamp": NOW_S * 1_000 }),
            _ => json!({ "reason": reason.name }),
        };
        assert_eq!((response.status, response.body), (reason.status, body), "{token}");
    }
}

/// The contents of the `details` of an FCM error: the error code, and the other types.
fn details(body: &Value) -> (Option<&str>, Vec<&str>) {
    let details = body["error"]["details"].as_array().map_or(&[][..], Vec::as_slice);
    let code = details.iter().find_map(|detail| detail["errorCode"].as_str());
    let kinds = details.iter().filter(|detail| detail.get("errorCode").is_none());
    (code, kinds.map(|detail| detail["@type"].as_str().unwrap()).collect())
}

#[tokio::test]
async fn a_token_can_script_every_error_of_fcm() {
    const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";
    const QUOTA: &str = "type.googleapis.com/google.rpc.QuotaFailure";
    type Row = (&'static str, u16, &'static str, Option<&'static str>, &'static [&'static str]);
    let rows: [Row; 16] = [
        ("unregistered", 404, "NOT_FOUND", Some("UNREGISTERED"), &[]),
        ("notfound", 404, "NOT_FOUND", None, &[]),
        ("invalid", 400, "INVALID_ARGUMENT", Some("INVALID_ARGUMENT"), &[BAD_REQUEST]),
        ("badrequest", 400, "INVALID_ARGUMENT", None, &[BAD_REQUEST]),
        ("mismatch", 403, "PERMISSION_DENIED", Some("SENDER_ID_MISMATCH"), &[]),
        ("denied", 403, "PERMISSION_DENIED", None, &[]),
        ("unauthenticated", 401, "UNAUTHENTICATED", None, &[]),
        ("thirdparty", 401, "UNAUTHENTICATED", Some("THIRD_PARTY_AUTH_ERROR"), &[]),
        ("quota", 429, "RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED"), &[QUOTA]),
        ("internal", 500, "INTERNAL", Some("INTERNAL"), &[]),
        ("unspecified", 500, "UNKNOWN", Some("UNSPECIFIED_ERROR"), &[]),
        ("unavailable", 503, "UNAVAILABLE", Some("UNAVAILABLE"), &[]),
        ("404", 404, "NOT_FOUND", Some("UNREGISTERED"), &[]),
        ("429", 429, "RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED"), &[QUOTA]),
        ("500", 500, "INTERNAL", Some("INTERNAL"), &[]),
        ("503", 503, "UNAVAILABLE", Some("UNAVAILABLE"), &[]),
    ];
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let token = access_token(&sandbox, &mut client).await;
    for (word, status, canonical, code, others) in rows {
        let message = json!({ "token": format!("phone~{word}") });
        let response = client.send(fcm_send(&token, &message)).await.unwrap();
        assert_eq!(response.status, status, "{word}");
        assert_eq!(response.body["error"]["code"], json!(status), "{word}");
        assert_eq!(response.body["error"]["status"], json!(canonical), "{word}");
        assert_eq!(details(&response.body), (code, others.to_vec()), "{word}");
        assert_eq!(response.header("retry-after"), None, "{word}");
    }
    let empty = client.send(fcm_send(&token, &json!({ "token": "phone~empty" }))).await.unwrap();
    assert_eq!((empty.status, empty.body), (503, json!("")));
}

#[tokio::test]
async fn only_an_ending_after_a_tilde_selects_an_answer() {
    let rows = [
        ("fcm-token-502", 200, false),
        ("my-token-503x2", 200, false),
        ("phone-unregistered", 200, false),
        ("phone~", 200, false),
        ("phone~nothing", 200, false),
        ("phone~200x", 200, false),
        ("fcm-token-502~502", 502, true),
        ("phone~503x1", 503, true),
        ("phone~503x1", 200, false),
    ];
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    for (token, status, is_by_ending) in rows {
        let response = client.send(fcm_send(&access, &json!({ "token": token }))).await.unwrap();
        assert_eq!(response.status, status, "{token}");
        let last = sandbox.received().pop().unwrap();
        assert_eq!((last.status, last.is_by_ending), (status, is_by_ending), "{token}");
    }
}

#[tokio::test]
async fn a_token_that_asks_for_two_failures_is_accepted_the_third_time() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let answer = ScriptedResponse::status(503).first(2);
    let token = fcm_token(1, &answer.clone().retry_after(3));
    assert_eq!(token, "fcm000000000001:sandbox~503:3x2");
    for (status, retry_after) in [(503, Some("3")), (503, Some("3")), (200, None), (200, None)] {
        let message = json!({ "token": token });
        let response = client.send(fcm_send(&access, &message)).await.unwrap();
        assert_eq!((response.status, response.header("retry-after")), (status, retry_after));
    }
    let token = apns_token(1, &answer);
    assert!(token.ends_with("dea25030"), "{token}");
    let mut client = Client::connect(&sandbox).await;
    for status in [503, 503, 200, 200] {
        assert_eq!(client.send(push_to(&sandbox, &token)).await.unwrap().status, status);
    }
}

#[tokio::test]
async fn rules_apply_in_order_and_are_removed_after_use() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let throttled = ScriptedResponse::reason("TooManyRequests").retry_after(7).first(2);
    sandbox.add_rule(Rule::on(Provider::Apns, throttled).after(1)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let response = client.send(push(&sandbox)).await.unwrap();
        seen.push((response.status, response.header("retry-after").map(str::to_owned)));
    }
    let seven = Some("7".to_owned());
    assert_eq!(seen, [(200, None), (429, seven.clone()), (429, seven), (200, None)]);
}

#[tokio::test]
async fn a_rule_can_take_every_third_request() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let rule = Rule::on(Provider::Apns, ScriptedResponse::status(503).first(2));
    sandbox.add_rule(rule.after(1).every(3)).unwrap();
    let mut seen = Vec::new();
    for _ in 0..8 {
        seen.push(client.send(push(&sandbox)).await.unwrap().status);
    }
    assert_eq!(seen, [200, 503, 200, 200, 503, 200, 200, 200]);
}

#[tokio::test]
async fn a_rule_for_one_token_leaves_the_others_and_wrong_requests_alone() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let unregistered =
        ScriptedResponse { timestamp_ms: Some(5), ..ScriptedResponse::reason("Unregistered") };
    sandbox.add_rule(Rule::on(Provider::Apns, unregistered).token("00aa")).unwrap();
    assert_eq!(client.send(push_to(&sandbox, "00bb")).await.unwrap().status, 200);
    let response = client.send(push_to(&sandbox, "00aa")).await.unwrap();
    assert_eq!(response.body, json!({ "reason": "Unregistered", "timestamp": 5 }));
    let wrong = push_to(&sandbox, "00aa").without("apns-topic");
    assert_eq!(client.send(wrong).await.unwrap().body, json!({ "reason": "MissingTopic" }));
}

#[tokio::test]
async fn an_unknown_reason_with_a_status_is_sent_as_given() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let answer = ScriptedResponse { status: Some(418), ..ScriptedResponse::reason("Teapot") };
    sandbox.add_rule(Rule::on(Provider::Fcm, answer.clone())).unwrap();
    let response = client.send(fcm_send(&access, &json!({ "token": "a" }))).await.unwrap();
    assert_eq!((response.status, details(&response.body)), (418, (Some("Teapot"), vec![])));
    sandbox.add_rule(Rule::on(Provider::Apns, answer)).unwrap();
    let mut client = Client::connect(&sandbox).await;
    let response = client.send(push(&sandbox)).await.unwrap();
    assert_eq!((response.status, response.body), (418, json!({ "reason": "Teapot" })));
}

#[tokio::test]
async fn a_delayed_response_waits_for_the_clock() {
    let (sandbox, clock) = start().await;
    let mut client = Client::connect(&sandbox).await;
    sandbox.add_rule(Rule::on(Provider::Apns, ScriptedResponse::ok()).delay_ms(700_000)).unwrap();
    let mut answer = client.begin(push(&sandbox)).await.unwrap();
    sandbox.wait_for(1, WITHIN).await;
    // The server would have sent an earlier response before this one.
    let mut other = Client::connect(&sandbox).await;
    other.send(super::client::Request::get("/sandbox/counts")).await.unwrap();
    assert!(futures_util::FutureExt::now_or_never(&mut answer).is_none());
    clock.advance(Duration::from_secs(700));
    assert_eq!(super::client::read(answer).await.unwrap().status, 200);
}

#[tokio::test]
async fn impossible_rules_are_refused() {
    let (sandbox, _) = start().await;
    let rows = [
        (ScriptedResponse::status(100), 0, RuleError::Status),
        (ScriptedResponse::status(600), 0, RuleError::Status),
        (ScriptedResponse::reason("Teapot"), 0, RuleError::UnknownReason),
        (ScriptedResponse::ok(), 3_600_001, RuleError::Delay),
    ];
    for (answer, delay_ms, error) in rows {
        for provider in [Provider::Apns, Provider::Fcm] {
            let rule = Rule::on(provider, answer.clone()).delay_ms(delay_ms);
            assert_eq!(sandbox.add_rule(rule), Err(error.clone()));
        }
    }
}

/// Two rules with `every` make a cycle: each request that the first rule answers does not reach the
/// second.
#[tokio::test]
async fn the_next_answer_precedes_the_lasting_rules() {
    let (sandbox, _) = start().await;
    let mut client = Client::connect(&sandbox).await;
    let access = access_token(&sandbox, &mut client).await;
    let failing = || Rule::on(Provider::Fcm, ScriptedResponse::status(503)).token("phone");
    sandbox.add_rule(failing().every(3)).unwrap();
    sandbox.add_rule(failing().every(2)).unwrap();
    let next = |response: ScriptedResponse| {
        sandbox.set_next(Rule::on(Provider::Fcm, response.first(1)).token("phone")).unwrap();
    };
    let mut send = async || {
        let message = json!({ "token": "phone" });
        client.send(fcm_send(&access, &message)).await.unwrap().status
    };
    let mut statuses = Vec::new();
    for _ in 0..7 {
        statuses.push(send().await);
    }
    assert_eq!(statuses, [503, 503, 200, 503, 503, 200, 503]);
    next(ScriptedResponse::reason("UNREGISTERED"));
    // The later answer replaces the one before it, but no lasting rule.
    next(ScriptedResponse::ok());
    let statuses = [send().await, send().await, send().await];
    assert_eq!(statuses, [200, 503, 200]);
    let unknown = Rule::on(Provider::Fcm, ScriptedResponse::reason("NO_SUCH_REASON"));
    assert_eq!(sandbox.set_next(unknown), Err(RuleError::UnknownReason));
}
