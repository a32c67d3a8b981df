//! Every row of the Bot API's table.

use std::time::Duration;

use http::HeaderValue;
use notify_core::Timestamp;
use serde_json::{Value, json};

use super::{Classification, Decoration, classify};
use crate::providers::tests::results::{
    assert_status_decides, bad, config, reply, retry, throttle, unknown,
};
use crate::providers::{Processing, Scope, SendResult};

const NOW: Timestamp = Timestamp(1_700_000_000_000);

fn answer(status: u16, body: &str) -> SendResult {
    classify(&reply(status, body), NOW).answer
}

fn error(code: u16, description: &str, parameters: Option<Value>) -> String {
    let mut body = json!({"ok": false, "error_code": code, "description": description});
    if let Some(parameters) = parameters {
        body["parameters"] = parameters;
    }
    body.to_string()
}

fn dead(reason: &str, ambiguous: bool) -> SendResult {
    SendResult::Unregistered { reason: reason.to_owned().into(), ambiguous, since: None }
}

fn wait(seconds: u64) -> SendResult {
    SendResult::Throttle {
        reason: "http_429".into(),
        after: Some(Duration::from_secs(seconds)),
        scope: Scope::Address,
    }
}

#[test]
fn every_row_of_telegram_s_table_is_classified() {
    let to = |chat: &str| SendResult::AddressChanged { to: chat.into() };
    // Status, description, parameters, and the expected result.
    let rows = [
        // The wait is a second longer than requested, because Telegram counts whole seconds.
        (429, "Too Many Requests: retry after 5", Some(json!({"retry_after": 5})), wait(6)),
        (429, "Too Many Requests: retry after 60", Some(json!({"retry_after": 60})), wait(61)),
        (429, "Too Many Requests", Some(json!({"retry_after": 90_000_000})), wait(86_401)),
        (429, "Too Many Requests", None, throttle("http_429", Scope::Address)),
        (403, "Forbidden: bot was blocked by the user", None, dead("bot_was_blocked", false)),
        (403, "Forbidden: user is deactivated", None, dead("user_is_deactivated", false)),
        (403, "Forbidden: bot was kicked from the group chat", None, dead("bot_was_kicked", false)),
        (
            403,
            "Forbidden: bot was kicked from the supergroup chat",
            None,
            dead("bot_was_kicked", false),
        ),
        (
            403,
            "Forbidden: bot is not a member of the channel chat",
            None,
            dead("bot_is_not_a_member", false),
        ),
        (403, "Forbidden: the group chat was deleted", None, dead("chat_was_deleted", false)),
        (
            403,
            "Forbidden: bot can't initiate conversation with a user",
            None,
            dead("chat_was_never_started", true),
        ),
        (400, "Bad Request: chat not found", None, dead("chat_not_found", true)),
        (400, "Bad Request: private chat not found", None, dead("chat_not_found", true)),
        (400, "Bad Request: message thread not found", None, dead("topic_not_found", false)),
        (400, "Bad Request: TOPIC_DELETED", None, dead("topic_not_found", false)),
        (
            400,
            "Bad Request: group chat was upgraded to a supergroup chat",
            Some(json!({"migrate_to_chat_id": -1_001_234_567_890_i64})),
            to("-1001234567890"),
        ),
        (400, "Bad Request: message text is empty", None, bad("text_is_empty")),
        (400, "Bad Request: message is too long", None, bad("text_is_too_long")),
        (400, "Bad Request: TOPIC_CLOSED", None, bad("topic_is_closed")),
        (401, "Unauthorized", None, config("http_401")),
        (401, "Unauthorized: invalid token specified", None, config("http_401")),
        (404, "Not Found", None, config("http_404")),
        (404, "Not Found: method not found", None, config("http_404")),
        // Two programs read the bot's updates, which does not affect sending.
        (409, "Conflict: terminated by other getUpdates request", None, retry("http_409")),
        (413, "Request Entity Too Large", None, bad("http_413")),
        (500, "Internal Server Error", None, retry("http_500")),
        (502, "Bad Gateway", None, retry("http_502")),
        (504, "Gateway Timeout", None, retry("http_504")),
        // These are not in the table. They are retried as unknown answers.
        (403, "Forbidden: something new", None, unknown("http_403")),
        (400, "Bad Request: something new", None, unknown("http_400")),
        (400, "Bad Request: bot was blocked by the user", None, unknown("http_400")),
    ];
    for (status, description, parameters, expected) in rows {
        let body = error(status, description, parameters);
        let classification = Classification { answer: expected, refused: None };
        assert_eq!(classify(&reply(status, &body), NOW), classification, "{status} {description}");
    }
}

#[test]
fn refused_photos_and_buttons_are_distinguished() {
    use Decoration::{Buttons, Photo};
    let rows = [
        ("Bad Request: can't parse entities: Unsupported start tag", "cannot_parse"),
        ("Bad Request: BUTTON_URL_INVALID", "button_url_is_invalid"),
        (
            "Bad Request: inline keyboard button URL 'http://shop' is invalid: Wrong HTTP URL",
            "button_url_is_invalid",
        ),
        ("Bad Request: reply markup is too long", "reply_markup_is_too_long"),
        ("Bad Request: REPLY_MARKUP_TOO_LONG", "reply_markup_is_too_long"),
        ("Bad Request: can't parse inline keyboard button: text is empty", "button_is_invalid"),
        ("Bad Request: can't parse reply keyboard markup JSON object", "button_is_invalid"),
        ("Bad Request: BUTTON_DATA_INVALID", "button_is_invalid"),
        ("Bad Request: BUTTON_TYPE_INVALID", "button_is_invalid"),
        ("Bad Request: message caption is too long", "caption_is_too_long"),
        ("Bad Request: wrong type of the web page content", "photo_is_no_image"),
        ("Bad Request: failed to get HTTP URL content", "photo_cannot_be_fetched"),
        ("Bad Request: wrong file identifier/HTTP URL specified", "photo_cannot_be_fetched"),
        ("Bad Request: WEBPAGE_CURL_FAILED", "photo_cannot_be_fetched"),
        ("Bad Request: WEBPAGE_MEDIA_EMPTY", "photo_is_no_image"),
        ("Bad Request: IMAGE_PROCESS_FAILED", "photo_is_no_image"),
        ("Bad Request: PHOTO_INVALID_DIMENSIONS", "photo_has_wrong_dimensions"),
    ];
    for (description, reason) in rows {
        let is_button = reason.starts_with("button") || reason.starts_with("reply");
        let refused = Some(if is_button { Buttons } else { Photo });
        let classification = Classification { answer: bad(reason), refused };
        let body = error(400, description, None);
        assert_eq!(classify(&reply(400, &body), NOW), classification, "{description}");
    }
}

#[test]
fn non_telegram_responses_never_unregister() {
    let pages = ["", "<html>502 Bad Gateway</html>", "{", "[]", "{\"ok\":7}", "{\"error\":{}}"];
    let unsure =
        SendResult::Retry { reason: "http_200".into(), after: None, outcome: Processing::Unknown };
    let rows = [
        (200, unsure),
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
    ];
    assert_status_decides(&pages, rows, answer);
}

#[test]
fn a_success_carries_telegram_s_number_of_the_message() {
    let body = json!({"ok": true, "result": {"message_id": 17, "chat": {"id": 1}}}).to_string();
    assert_eq!(answer(200, &body), SendResult::Delivered { message_id: Some("17".into()) });
    assert_eq!(answer(200, "{\"ok\":true}"), SendResult::Delivered { message_id: None });
    assert_eq!(answer(502, "{\"ok\":true}"), retry("http_502"), "the status contradicts the body");
}

#[test]
fn retry_after_header_is_used_if_the_body_has_none() {
    let mut reply = reply(429, &error(429, "Too Many Requests", None));
    reply.headers.insert("retry-after", HeaderValue::from_static("7"));
    assert_eq!(classify(&reply, NOW).answer, wait(8));
}
