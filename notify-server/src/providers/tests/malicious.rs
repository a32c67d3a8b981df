//! Malicious and meaningless responses from every provider: every attempt ends in time, with a result that
//! disables only a device that the response names, and with a wait of at most a day.

use std::time::{Duration, Instant};

use notify_core::ProviderKind;
use serde_json::json;

use super::{Fixture, SendResult, fixture, prepare, to_apns, to_fcm};
use crate::providers::{Address, REQUEST_TIMEOUT_SECONDS, RESPONSE_BYTES_MAX, SharedProvider};
use notify_sandbox::{
    Provider, Rule, ScriptedResponse, apns_token, fcm_token, messenger_recipient, telegram_chat,
};

/// The longest wait that is honoured, plus the margin for Telegram.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3_600 + 60);
/// Statuses with arbitrary bodies.
const STATUSES: [u16; 10] = [200, 201, 204, 400, 401, 403, 410, 429, 500, 503];

/// Bodies that are not JSON, have wrong types, are nested too deeply, or are absurd.
fn bodies() -> Vec<String> {
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(5_000), close.repeat(5_000));
    let huge = u128::MAX;
    vec![
        String::new(),
        "{".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "\"text\"".to_owned(),
        "\u{0}\u{0}\u{7f}\u{202e}".to_owned(),
        deep("[", "]"),
        deep("{\"error\":", "}"),
        format!("{{\"reason\":{huge},\"timestamp\":-1}}"),
        json!({"reason": ["Unregistered"], "timestamp": "yesterday"}).to_string(),
        json!({"reason": "x".repeat(60_000), "timestamp": 1e300}).to_string(),
        json!({"name": 7, "error": {"code": "x", "status": 5, "details": "none"}}).to_string(),
        json!({"error": {"details": vec![json!({"errorCode": "A\r\nB"}); 1_000]}}).to_string(),
        json!({"error": {"code": 1e300, "error_subcode": -1, "message": null}}).to_string(),
        json!({"ok": false, "error_code": 4_000_000, "description": 3}).to_string(),
        json!({"ok": false, "error_code": 99, "description": "\u{0}"}).to_string(),
        json!({"ok": false, "error_code": 429, "parameters": {"retry_after": u64::MAX}})
            .to_string(),
        json!({"ok": false, "error_code": 429, "parameters": {"retry_after": -5}}).to_string(),
        json!({"ok": "yes", "result": {"message_id": "\u{1f480}"}}).to_string(),
        json!({"errno": 1e30, "recipient_id": {}, "message_id": []}).to_string(),
    ]
}

/// Unreasonable waits.
const WAITS: [&str; 8] = [
    "1000000000000000000",
    "99999999999999999999999999999999",
    "-1",
    "-9223372036854775808",
    "1e400",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Mon, 99 Foo 2026 99:99:99 GMT",
    "soon",
];

/// Every provider with an address at the sandbox.
fn all(fixture: &Fixture) -> Vec<(Provider, SharedProvider, Address)> {
    let ok = ScriptedResponse::ok();
    let sandbox = &fixture.sandbox;
    let telegram = fixture.build(ProviderKind::Telegram, &sandbox.telegram_config());
    let messenger = fixture.build(ProviderKind::Messenger, &sandbox.messenger_config());
    let browser = sandbox.subscribe(None, &ok).unwrap();
    let recipient = messenger_recipient(1, &ok).into_boxed_str();
    vec![
        (Provider::Apns, fixture.apns(), to_apns(&apns_token(1, &ok))),
        (Provider::Fcm, fixture.fcm(), to_fcm(&fcm_token(1, &ok))),
        (Provider::WebPush, fixture.web_push(), Address::WebPush(Box::new(browser))),
        (Provider::Messenger, messenger, Address::Messenger { recipient, last_inbound_at: None }),
        (Provider::Telegram, telegram, Address::Telegram { chat: telegram_chat(1, &ok).into() }),
    ]
}

/// Checks that an answer does no harm.
#[track_caller]
fn is_harmless(answer: &SendResult, what: &str) {
    let (reason, after) = match answer {
        SendResult::Delivered { .. } | SendResult::AddressChanged { .. } => return,
        SendResult::Retry { reason, after, .. } | SendResult::Throttle { reason, after, .. } => {
            (reason, *after)
        }
        SendResult::Unregistered { reason, .. }
        | SendResult::AuthRejected { reason }
        | SendResult::ServiceRefused { reason }
        | SendResult::InvalidMessage { reason }
        | SendResult::NotPermitted { reason }
        | SendResult::Unknown { reason } => (reason, None),
    };
    assert!(after.is_none_or(|after| after <= WAIT_MAX), "{what}: {answer:?}");
    assert!(reason.len() <= 128, "{what}: {} bytes", reason.len());
    assert!(!reason.chars().any(char::is_control), "{what}: {reason:?}");
}

#[tokio::test]
async fn no_body_breaks_a_provider_or_disables_a_device_against_the_status() {
    let fixture = fixture().await;
    for (of, provider, address) in all(&fixture) {
        let prepared = prepare(&provider);
        for status in STATUSES {
            for body in bodies() {
                fixture.sandbox.clear();
                let rule = Rule::on(of, ScriptedResponse::status(status)).body(&body);
                fixture.sandbox.add_rule(rule).unwrap();
                let answer = provider.attempt(&prepared, &address).await;
                let what = format!("{of:?} {status} {}", &body[..body.len().min(40)]);
                is_harmless(&answer, &what);
                // The status of a push service is enough to disable a device. Other providers must
                // also send a code.
                let is_named = of == Provider::WebPush && status == 410;
                let is_dead = matches!(answer, SendResult::Unregistered { .. });
                assert_eq!(is_dead, is_named, "{what}: {answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn waits_are_capped_at_a_day() {
    let fixture = fixture().await;
    for (of, provider, address) in all(&fixture) {
        let prepared = prepare(&provider);
        for wait in WAITS {
            for status in [429, 503] {
                fixture.sandbox.clear();
                let rule =
                    Rule::on(of, ScriptedResponse::status(status)).header("retry-after", wait);
                fixture.sandbox.add_rule(rule).unwrap();
                let answer = provider.attempt(&prepared, &address).await;
                let what = format!("{of:?} {status} {wait}: {answer:?}");
                assert!(
                    matches!(answer, SendResult::Retry { .. } | SendResult::Throttle { .. }),
                    "{what}"
                );
                is_harmless(&answer, &what);
            }
        }
    }
}

/// The body is a gibibyte, or sends a byte an hour after 64 KiB. The attempt ends once the limit is read.
#[tokio::test]
async fn endless_response_times_out() {
    let fixture = fixture().await;
    for (of, provider, address) in all(&fixture) {
        let prepared = prepare(&provider);
        for (body, more, every_ms) in
            [(String::new(), 1 << 30, 0), ("x".repeat(RESPONSE_BYTES_MAX), 1_000, 3_600_000)]
        {
            fixture.sandbox.clear();
            let rule =
                Rule::on(of, ScriptedResponse::status(500)).body(&body).more_bytes(more, every_ms);
            fixture.sandbox.add_rule(rule).unwrap();
            let began = Instant::now();
            let answer = provider.attempt(&prepared, &address).await;
            assert!(matches!(answer, SendResult::Retry { .. }), "{of:?}: {answer:?}");
            // A client that read more would wait until the deadline.
            let deadline = Duration::from_secs(REQUEST_TIMEOUT_SECONDS);
            assert!(began.elapsed() < deadline, "{of:?}: {:?}", began.elapsed());
            fixture.sandbox.clear();
            let answer = provider.attempt(&prepared, &address).await;
            assert!(matches!(answer, SendResult::Delivered { .. }), "{of:?} goes on: {answer:?}");
        }
    }
}

/// A response with too many header fields ends the request and does not harm the provider.
#[tokio::test]
async fn header_bombs_end_only_the_request() {
    let fixture = fixture().await;
    for (of, provider, address) in all(&fixture) {
        let prepared = prepare(&provider);
        let one =
            Rule::on(of, ScriptedResponse::status(500)).header("x-bomb", &"x".repeat(1_000_000));
        let many = (0..5_000).fold(Rule::on(of, ScriptedResponse::status(500)), |rule, number| {
            rule.header(&format!("x-{number}"), "bomb")
        });
        for rule in [one, many] {
            fixture.sandbox.clear();
            fixture.sandbox.add_rule(rule).unwrap();
            let answer = provider.attempt(&prepared, &address).await;
            assert!(matches!(answer, SendResult::Retry { .. }), "{of:?}: {answer:?}");
            is_harmless(&answer, &format!("{of:?}"));
            fixture.sandbox.clear();
            let answer = provider.attempt(&prepared, &address).await;
            assert!(matches!(answer, SendResult::Delivered { .. }), "{of:?} goes on: {answer:?}");
        }
    }
}

/// The same limits apply to the token endpoint.
#[tokio::test]
async fn unusual_access_tokens_are_handled() {
    let fixture = fixture().await;
    let grants = [
        json!({"access_token": "x".repeat(200_000), "expires_in": 3_600}),
        json!({"access_token": "a\r\nx-injected: 1", "expires_in": 3_600}),
        json!({"access_token": "t", "expires_in": i64::MIN}),
        json!({"access_token": "t", "expires_in": 1e300}),
        json!({"access_token": "", "expires_in": "soon"}),
        json!({"access_token": null}),
        json!([1, 2, 3]),
    ];
    for grant in grants {
        fixture.sandbox.clear();
        let rule = Rule::on(Provider::Oauth, ScriptedResponse::ok()).body(&grant.to_string());
        fixture.sandbox.add_rule(rule).unwrap();
        let fcm = fixture.fcm();
        let answer =
            fcm.attempt(&prepare(&fcm), &to_fcm(&fcm_token(1, &ScriptedResponse::ok()))).await;
        is_harmless(&answer, &grant.to_string()[..grant.to_string().len().min(60)]);
        assert!(
            !matches!(answer, SendResult::Delivered { .. } | SendResult::Unregistered { .. }),
            "{grant}"
        );
    }
}
