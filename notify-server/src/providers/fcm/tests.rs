//! Every row of FCM's table.

use std::time::Duration;

use http::HeaderValue;
use notify_core::Timestamp;
use serde_json::{Value, json};

use super::classify;
use crate::providers::tests::results::{
    assert_status_decides, bad, config, reply, retry, throttle, unknown,
};
use crate::providers::{Scope, SendResult};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn answer(status: u16, body: &str) -> SendResult {
    classify(&reply(status, body), NOW)
}

/// Google's error body.
fn error(
    status: u16,
    canonical: &str,
    code: Option<&str>,
    message: &str,
    more: &[Value],
) -> String {
    let code = code.map(|code| {
        json!({
            "@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError",
            "errorCode": code,
        })
    });
    let details: Vec<Value> = code.into_iter().chain(more.iter().cloned()).collect();
    let error =
        json!({"code": status, "message": message, "status": canonical, "details": details});
    json!({"error": error}).to_string()
}

fn dead(reason: &str, ambiguous: bool) -> SendResult {
    SendResult::Unregistered { reason: reason.to_owned().into(), ambiguous, since: None }
}

fn violation(field: &str) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.BadRequest",
        "fieldViolations": [{"field": field, "description": "Invalid value"}],
    })
}

fn quota(subject: &str) -> Value {
    json!({
        "@type": "type.googleapis.com/google.rpc.QuotaFailure",
        "violations": [{"subject": subject, "description": "exceeded"}],
    })
}

/// HTTP status, canonical status, `errorCode`, message, more details, and the expected result.
type Row = (u16, &'static str, Option<&'static str>, &'static str, Vec<Value>, SendResult);

#[test]
#[expect(clippy::too_many_lines, reason = "one row for each of Google's")]
fn every_row_of_googles_table_is_classified() {
    let token = "The registration token is not a valid FCM registration token";
    let invalid = "INVALID_ARGUMENT";
    let rows: Vec<Row> = vec![
        (
            404,
            "NOT_FOUND",
            Some("UNREGISTERED"),
            "Requested entity was not found.",
            vec![],
            dead("UNREGISTERED", false),
        ),
        (404, "NOT_FOUND", None, "Requested entity was not found.", vec![], config("NOT_FOUND")),
        (400, invalid, Some(invalid), token, vec![], dead(invalid, true)),
        (400, invalid, None, token, vec![], dead(invalid, true)),
        (400, invalid, Some(invalid), token, vec![violation("message.token")], dead(invalid, true)),
        (
            400,
            invalid,
            None,
            "Invalid value at 'message.data[0].value'",
            vec![violation("message.data[0].value")],
            bad(invalid),
        ),
        (400, invalid, Some(invalid), "Android message is too big", vec![], bad(invalid)),
        (
            403,
            "PERMISSION_DENIED",
            Some("SENDER_ID_MISMATCH"),
            "SenderId mismatch",
            vec![],
            bad("SENDER_ID_MISMATCH"),
        ),
        (
            403,
            "PERMISSION_DENIED",
            None,
            "API has not been used",
            vec![],
            config("PERMISSION_DENIED"),
        ),
        (401, "UNAUTHENTICATED", None, "invalid credentials", vec![], config("UNAUTHENTICATED")),
        (
            401,
            "UNAUTHENTICATED",
            Some("THIRD_PARTY_AUTH_ERROR"),
            "Auth error",
            vec![],
            config("THIRD_PARTY_AUTH_ERROR"),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            Some("QUOTA_EXCEEDED"),
            "Quota",
            vec![quota("project:1")],
            throttle("QUOTA_EXCEEDED", Scope::Provider),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            Some("QUOTA_EXCEEDED"),
            "Quota",
            vec![quota("Device:abc")],
            throttle("QUOTA_EXCEEDED", Scope::Address),
        ),
        (
            429,
            "RESOURCE_EXHAUSTED",
            None,
            "Quota",
            vec![],
            throttle("RESOURCE_EXHAUSTED", Scope::Provider),
        ),
        (500, "INTERNAL", Some("INTERNAL"), "Internal", vec![], retry("INTERNAL")),
        (500, "INTERNAL", None, "Internal", vec![], retry("INTERNAL")),
        (503, "UNAVAILABLE", Some("UNAVAILABLE"), "Unavailable", vec![], retry("UNAVAILABLE")),
        (503, "UNAVAILABLE", None, "Unavailable", vec![], retry("UNAVAILABLE")),
        (500, "UNKNOWN", Some("UNSPECIFIED_ERROR"), "?", vec![], unknown("UNSPECIFIED_ERROR")),
        (400, "BRAND_NEW", Some("BRAND_NEW"), "?", vec![], unknown("http_400 BRAND_NEW")),
        (403, "BRAND_NEW", None, "?", vec![], unknown("http_403 BRAND_NEW")),
        (502, "BRAND_NEW", None, "?", vec![], retry("http_502 BRAND_NEW")),
    ];
    for (status, canonical, code, message, more, expected) in rows {
        let body = error(status, canonical, code, message, &more);
        assert_eq!(answer(status, &body), expected, "{status} {canonical} {code:?} {message}");
    }
}

#[test]
fn non_google_responses_never_unregister() {
    let pages = [
        "",
        "<html>nope</html>",
        "{",
        "[]",
        "{\"error\":7}",
        "{\"error\":{\"details\":[{\"errorCode\":[]}]}}",
        "\u{0}\u{1}",
    ];
    let rows = [
        (302, unknown("http_302")),
        (400, unknown("http_400")),
        (401, config("http_401")),
        (403, unknown("http_403")),
        (404, config("http_404")),
        (408, retry("http_408")),
        (413, bad("http_413")),
        (429, throttle("http_429", Scope::Provider)),
        (500, retry("http_500")),
        (503, retry("http_503")),
    ];
    assert_status_decides(&pages, rows, answer);
}

#[test]
fn a_success_carries_googles_name_of_the_message() {
    let name = "projects/shop-1/messages/0:17";
    let body = json!({"name": name}).to_string();
    assert_eq!(answer(200, &body), SendResult::Delivered { message_id: Some(name.into()) });
    assert_eq!(answer(200, "{}"), SendResult::Delivered { message_id: None });
    for page in ["", "<html>welcome</html>", "{", "[]", "7"] {
        assert_eq!(answer(200, page), unknown("http_200"), "{page} did not come from FCM");
    }
}

#[test]
fn retry_after_is_passed_on() {
    let mut reply = reply(429, &error(429, "RESOURCE_EXHAUSTED", Some("QUOTA_EXCEEDED"), "", &[]));
    reply.headers.insert("retry-after", HeaderValue::from_static("3600"));
    let expected = SendResult::Throttle {
        reason: "QUOTA_EXCEEDED".into(),
        after: Some(Duration::from_secs(3_600)),
        scope: Scope::Provider,
    };
    assert_eq!(classify(&reply, NOW), expected);
}
