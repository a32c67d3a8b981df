//! Every row of the Send API's table, and the effect of the usage headers.

mod quota;

use std::time::Duration;

use http::HeaderValue;
use notify_core::Timestamp;
use serde_json::json;

use super::{classify, messages_uri, names_version};
use crate::provider_config::BaseUrl;
use crate::providers::tests::results::{
    assert_status_decides, bad, config, reply, retry, throttle, unknown,
};
use crate::providers::{Processing, Scope, SendResult};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn answer(status: u16, body: &str) -> SendResult {
    classify(&reply(status, body), NOW)
}

fn policy(reason: &str) -> SendResult {
    SendResult::NotPermitted { reason: reason.to_owned().into() }
}

#[test]
fn every_row_of_meta_s_table_is_classified() {
    let throttled = |reason| throttle(reason, Scope::Provider);
    let no_such_user = SendResult::Unregistered {
        reason: "no_such_user (100/2018001)".into(),
        ambiguous: true,
        since: None,
    };
    // HTTP status, code, subcode, and the expected result.
    let rows = [
        (500, 1200, 0, retry("temporarily_unavailable (1200)")),
        (500, 2, 0, retry("service_unavailable (2)")),
        (500, 1, 0, retry("unknown_error (1)")),
        (400, 1, 99, config("permission_missing (1/99)")),
        (400, 4, 0, throttled("app_limit (4)")),
        (400, 4, 2_018_022, throttled("phone_number_limit (4/2018022)")),
        (400, 17, 0, throttled("user_limit (17)")),
        (400, 32, 0, throttled("page_limit (32)")),
        (400, 613, 0, throttled("custom_limit (613)")),
        (400, 80_006, 0, throttled("messenger_limit (80006)")),
        (400, 613, 1_893_016, policy("abuse_warning (613/1893016)")),
        (403, 10, 2_018_278, policy("outside_messaging_window (10/2018278)")),
        (403, 10, 2_018_065, policy("outside_messaging_window (10/2018065)")),
        (403, 10, 2_018_108, policy("person_cannot_receive (10/2018108)")),
        (400, 551, 1_545_041, policy("person_not_available (551/1545041)")),
        (400, 551, 0, policy("person_not_available (551)")),
        (403, 200, 1_545_041, policy("person_not_available (200/1545041)")),
        (400, 100, 2_018_001, no_such_user),
        (400, 100, 2_018_109, bad("attachment_too_large (100/2018109)")),
        (400, 100, 2_018_034, bad("message_empty (100/2018034)")),
        (400, 100, 0, bad("invalid_parameter (100)")),
        (400, 100, 33, bad("invalid_parameter (100/33)")),
        (400, 190, 0, config("access_token_refused (190)")),
        (401, 190, 458, config("access_token_refused (190/458)")),
        (401, 190, 460, config("access_token_refused (190/460)")),
        (401, 190, 463, config("access_token_refused (190/463)")),
        (401, 190, 467, config("access_token_refused (190/467)")),
        (403, 200, 2_018_028, config("app_not_live (200/2018028)")),
        (403, 200, 2_018_027, config("permission_missing (200/2018027)")),
        (403, 200, 2_018_021, config("permission_missing (200/2018021)")),
        (403, 200, 0, config("permission_missing (200)")),
        (403, 10, 0, config("permission_missing (10)")),
        (403, 230, 0, config("permission_missing (230)")),
        (400, 368, 0, config("blocked_for_policy (368)")),
        // A 403 with an unknown code is not in the table. It is retried as an unknown answer.
        (403, 10, 7, unknown("http_403 code_10_7")),
        (403, 200, 7, unknown("http_403 code_200_7")),
        (400, 803, 0, unknown("http_400 code_803_0")),
        (429, 99_999, 0, throttled("http_429 code_99999_0")),
        (500, 99_999, 1, retry("http_500 code_99999_1")),
    ];
    for (status, code, subcode, expected) in rows {
        let error = json!({
            "message": "(#1) words", "type": "OAuthException", "code": code,
            "error_subcode": subcode, "fbtrace_id": "A",
        });
        let body = json!({"error": error}).to_string();
        assert_eq!(answer(status, &body), expected, "{status} {code}/{subcode}");
        if subcode == 0 {
            let body = json!({"error": {"code": code, "message": "without subcode"}}).to_string();
            assert_eq!(answer(status, &body), expected, "{status} {code}");
        }
    }
}

#[test]
fn non_meta_responses_never_unregister() {
    let pages =
        ["", "<html>nope</html>", "{", "[]", "{\"error\":7}", "{\"error\":{\"code\":\"x\"}}"];
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
        (502, retry("http_502")),
        (504, retry("http_504")),
    ];
    assert_status_decides(&pages, rows, answer);
}

#[test]
fn a_success_carries_meta_s_id_and_a_broken_one_is_an_unknown_outcome() {
    let body = json!({"recipient_id": "4711", "message_id": "m_1"}).to_string();
    assert_eq!(answer(200, &body), SendResult::Delivered { message_id: Some("m_1".into()) });
    assert_eq!(answer(200, "{}"), SendResult::Delivered { message_id: None });
    let unsure =
        SendResult::Retry { reason: "http_200".into(), after: None, outcome: Processing::Unknown };
    for page in ["", "<html>", "{\"recipient_id\": \"47", "7"] {
        assert_eq!(answer(200, page), unsure, "{page}");
    }
}

#[test]
fn retry_after_is_passed_on() {
    let mut reply = reply(500, r#"{"error":{"code":2}}"#);
    reply.headers.insert("retry-after", HeaderValue::from_static("120"));
    let expected = SendResult::Retry {
        reason: "service_unavailable (2)".into(),
        after: Some(Duration::from_secs(120)),
        outcome: Processing::Failed,
    };
    assert_eq!(classify(&reply, NOW), expected);
}

#[test]
fn graph_version_can_be_set_by_the_endpoint() {
    let rows = [
        ("https://graph.facebook.com", "https://graph.facebook.com/v25.0/me/messages"),
        ("http://127.0.0.1:8081/messenger", "http://127.0.0.1:8081/messenger/v25.0/me/messages"),
        ("https://graph.facebook.com/v26.0", "https://graph.facebook.com/v26.0/me/messages"),
        ("https://graph.facebook.com/v26", "https://graph.facebook.com/v26/v25.0/me/messages"),
        ("https://graph.facebook.com/v.1", "https://graph.facebook.com/v.1/v25.0/me/messages"),
    ];
    for (endpoint, expected) in rows {
        let base_url = BaseUrl::parse(endpoint).unwrap();
        assert_eq!(messages_uri(&base_url, "token", None), expected, "{endpoint}");
    }
    assert!(!names_version(&BaseUrl::parse("https://x/v2.0/y").unwrap()));
}

#[test]
fn app_secret_proof_is_sent_with_every_call() {
    let base_url = BaseUrl::parse("https://graph.facebook.com").unwrap();
    let uri = messages_uri(&base_url, "what do ya want for nothing?", Some(&"Jefe".into()));
    // RFC 4231, test case 2.
    let proof = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    let expected = format!("https://graph.facebook.com/v25.0/me/messages?appsecret_proof={proof}");
    assert_eq!(uri, expected.as_str());
}
