//! Every row of the push services' table, and when VAPID tokens are signed.

mod guard;

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use notify_core::{ProviderKind, Timestamp};
use serde_json::{Value, json};

use super::classify;
use super::vapid::{Signer, VapidTokens};
use crate::provider_config::{ProviderConfig, WebPushConfig};
use crate::providers::tests::results::{
    assert_status_decides, bad, reply, retry, throttle, unknown,
};
use crate::providers::{Scope, SendResult};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const HOUR_MS: i64 = 3_600_000;

fn answer(status: u16, body: &str) -> SendResult {
    classify(&reply(status, body), NOW)
}

fn dead(reason: &str, ambiguous: bool) -> SendResult {
    SendResult::Unregistered { reason: reason.to_owned().into(), ambiguous, since: None }
}

fn refused(reason: &str) -> SendResult {
    SendResult::ServiceRefused { reason: reason.to_owned().into() }
}

fn delivered() -> SendResult {
    SendResult::Delivered { message_id: None }
}

fn mozilla(code: u16, errno: u16) -> String {
    json!({"code": code, "errno": errno, "error": "Error", "message": "why"}).to_string()
}

fn apple(reason: &str) -> String {
    json!({ "reason": reason }).to_string()
}

#[test]
fn every_row_of_the_push_services_table_is_classified() {
    let google = "the VAPID credentials in the authorization header do not correspond to the \
                  credentials used to create the subscriptions.\n";
    let throttled = |reason| throttle(reason, Scope::Service);
    let rows: Vec<(u16, String, SendResult)> = vec![
        (201, String::new(), delivered()),
        (200, String::new(), delivered()),
        (202, String::new(), delivered()),
        (204, String::new(), delivered()),
        (400, mozilla(400, 110), bad("http_400 errno_110")),
        (400, mozilla(400, 113), bad("http_400 errno_113")),
        (400, "UnauthorizedRegistration\n".into(), bad("http_400 UnauthorizedRegistration")),
        (400, "InvalidTokenFormat".into(), bad("http_400 InvalidTokenFormat")),
        (401, mozilla(401, 109), refused("http_401 errno_109")),
        (403, apple("BadJwtToken"), refused("http_403 BadJwtToken")),
        (403, apple("VapidPkHashMismatch"), refused("http_403 VapidPkHashMismatch")),
        (403, google.into(), refused("http_403")),
        (404, mozilla(404, 102), dead("http_404 errno_102", true)),
        (410, mozilla(410, 103), dead("http_410 errno_103", false)),
        (410, mozilla(410, 105), dead("http_410 errno_105", false)),
        (410, mozilla(410, 106), dead("http_410 errno_106", false)),
        (410, apple("Unregistered"), dead("http_410 Unregistered", false)),
        (410, "push subscription has unsubscribed or expired.\n".into(), dead("http_410", false)),
        (413, mozilla(413, 104), bad("http_413 errno_104")),
        (413, apple("PayloadTooLarge"), bad("http_413 PayloadTooLarge")),
        (429, mozilla(429, 201), throttled("http_429 errno_201")),
        (429, apple("TooManyRequests"), throttled("http_429 TooManyRequests")),
        (406, String::new(), throttled("http_406")),
        (408, String::new(), retry("http_408")),
        (500, mozilla(500, 999), retry("http_500 errno_999")),
        (502, mozilla(502, 900), retry("http_502 errno_900")),
        (503, mozilla(503, 201), retry("http_503 errno_201")),
        (503, mozilla(503, 202), retry("http_503 errno_202")),
        (504, String::new(), retry("http_504")),
    ];
    for (status, body, expected) in rows {
        assert_eq!(answer(status, &body), expected, "{status} {body}");
    }
}

#[test]
fn redirects_and_unknown_statuses_are_no_success() {
    for status in [203, 205, 206, 300, 301, 302, 303, 304, 307, 308, 402, 405, 409, 411, 415, 418] {
        let expected = unknown(&format!("http_{status}"));
        assert_eq!(answer(status, ""), expected);
        assert_eq!(answer(status, &apple("BadJwtToken")), expected);
    }
}

#[test]
fn unknown_peer_texts_are_dropped() {
    let pages = [
        "",
        "<html>nope</html>",
        "{",
        "[]",
        "{\"reason\":\"secret-of-the-target\"}",
        "{\"reason\":[]}",
        "{\"errno\":12345}",
        "{\"errno\":\"102\"}",
        "secret",
        "\u{0}\u{1}",
    ];
    let rows = [
        (400, bad("http_400")),
        (403, refused("http_403")),
        (404, dead("http_404", true)),
        (410, dead("http_410", false)),
        (429, throttle("http_429", Scope::Service)),
        (500, retry("http_500")),
    ];
    assert_status_decides(&pages, rows, answer);
}

#[test]
fn retry_after_and_message_location_are_passed_on() {
    let mut throttled = reply(429, "");
    throttled.headers.insert("retry-after", HeaderValue::from_static("120"));
    let expected = SendResult::Throttle {
        reason: "http_429".into(),
        after: Some(Duration::from_secs(120)),
        scope: Scope::Service,
    };
    assert_eq!(classify(&throttled, NOW), expected);

    let place = |location: &str| {
        let mut created = reply(201, "");
        created.headers.insert("location", location.parse().unwrap());
        classify(&created, NOW)
    };
    let known = "https://push.example/message/1";
    assert_eq!(place(known), SendResult::Delivered { message_id: Some(known.into()) });
    assert_eq!(place(&"x".repeat(513)), delivered(), "so long an id is not stored");
}

fn config(subject: &str) -> WebPushConfig {
    let mut body = json!({ "subject": subject });
    ProviderConfig::fill_defaults(ProviderKind::WebPush, &mut body, None);
    WebPushConfig::parse(&body).unwrap()
}

/// The claims of a token, unverified: the sandbox verifies them.
fn claims(authorization: &HeaderValue) -> Value {
    let (_, token) = authorization.to_str().unwrap().split_once("t=").unwrap();
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    serde_json::from_slice(&claims).unwrap()
}

#[test]
fn vapid_token_has_subject_audience_and_expiry() {
    let config = config("mailto:push@shop.com");
    let token = VapidTokens::default()
        .get(&Signer::of(&config), "https://push.example", None, NOW)
        .unwrap();
    let text = token.authorization.to_str().unwrap();
    assert!(text.starts_with("vapid t=ey") && token.authorization.is_sensitive());
    assert!(text.ends_with(&format!(", k={}", config.vapid.public)), "{text}");
    assert_eq!(
        claims(&token.authorization),
        json!({
            "aud": "https://push.example",
            "exp": NOW.as_seconds() + 12 * 3_600,
            "sub": "mailto:push@shop.com",
        })
    );
}

#[test]
fn vapid_token_is_cached_by_key_contact_and_origin() {
    let tokens = VapidTokens::default();
    let (first_config, second_config) =
        (config("mailto:push@shop.com"), config("mailto:push@shop.com"));
    let get = |config: &WebPushConfig, origin: &str, after_ms: i64| {
        let token = tokens.get(&Signer::of(config), origin, None, NOW.plus_ms(after_ms)).unwrap();
        token.authorization.clone()
    };
    let first = get(&first_config, "https://a.example", 0);
    assert_eq!(get(&first_config, "https://a.example", 11 * HOUR_MS - 1), first);
    assert_ne!(get(&first_config, "https://b.example", 0), first);
    assert_ne!(get(&second_config, "https://a.example", 0), first);
    let moved = WebPushConfig { subject: "mailto:new@shop.com".to_owned(), ..first_config.clone() };
    assert_ne!(get(&moved, "https://a.example", 0), first);
    let second = get(&first_config, "https://a.example", 11 * HOUR_MS);
    assert_ne!(second, first);
    // The clock was set back. A push service would refuse a token with a time in the future.
    assert_ne!(get(&first_config, "https://a.example", 0), second);
}

#[test]
fn refused_vapid_token_is_replaced_once_unless_new() {
    let tokens = VapidTokens::default();
    let config = config("mailto:push@shop.com");
    let origin = "https://a.example";
    let first = tokens.get(&Signer::of(&config), origin, None, NOW).unwrap();
    let minutes = |minutes: i64| NOW.plus_ms(minutes * 60_000);
    assert!(!first.may_be_stale(minutes(4)));
    assert!(first.may_be_stale(minutes(5)));
    assert!(first.may_be_stale(minutes(-1)), "the clock was set back");
    let second = tokens.get(&Signer::of(&config), origin, Some(&first), minutes(5)).unwrap();
    assert_ne!(second.authorization, first.authorization);
    // Other requests that were refused with the first token share the second one.
    let third = tokens.get(&Signer::of(&config), origin, Some(&first), minutes(5)).unwrap();
    assert_eq!(third.authorization, second.authorization);
}
