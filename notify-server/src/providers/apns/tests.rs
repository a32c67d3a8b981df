//! Every row of Apple's table.

mod tokens;

use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode};
use notify_core::{ProviderKind, Timestamp};
use serde_json::json;

use super::token::{ProviderToken, ProviderTokens};
use super::{Host, Refusal, classify, push_path_segment};
use crate::clock::Reading;
use crate::provider_config::{ApnsConfig, BaseUrl, ProviderConfig};
use crate::providers::tests::results::{bad, config, retry, throttle, unknown};
use crate::providers::transport::{Pools, Protocols};
use crate::providers::{Processing, Scope, SendResult};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const MINUTE_MS: i64 = 60_000;

fn answer(status: u16, body: &str) -> (SendResult, Refusal) {
    classify(&StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), NOW)
}

fn dead(reason: &str, ambiguous: bool, since: Option<i64>) -> SendResult {
    SendResult::Unregistered {
        reason: reason.to_owned().into(),
        ambiguous,
        since: since.map(Timestamp),
    }
}

#[test]
fn every_reason_of_apples_table_is_classified() {
    let rows: Vec<(u16, &str, SendResult, Refusal)> = vec![
        (400, "BadDeviceToken", dead("BadDeviceToken", true, None), Refusal::None),
        (400, "DeviceTokenNotForTopic", bad("DeviceTokenNotForTopic"), Refusal::None),
        (400, "MissingTopic", config("MissingTopic"), Refusal::None),
        (400, "BadTopic", config("BadTopic"), Refusal::None),
        (400, "TopicDisallowed", config("TopicDisallowed"), Refusal::None),
        (400, "BadCollapseId", bad("BadCollapseId"), Refusal::None),
        (400, "BadExpirationDate", bad("BadExpirationDate"), Refusal::None),
        (400, "BadMessageId", bad("BadMessageId"), Refusal::None),
        (400, "BadPriority", bad("BadPriority"), Refusal::None),
        (400, "InvalidPushType", bad("InvalidPushType"), Refusal::None),
        (400, "DuplicateHeaders", bad("DuplicateHeaders"), Refusal::None),
        (400, "PayloadEmpty", bad("PayloadEmpty"), Refusal::None),
        (400, "MissingDeviceToken", bad("MissingDeviceToken"), Refusal::None),
        (400, "IdleTimeout", retry("IdleTimeout"), Refusal::ConnectionEnds),
        (403, "ExpiredProviderToken", config("ExpiredProviderToken"), Refusal::TokenExpired),
        (403, "InvalidProviderToken", config("InvalidProviderToken"), Refusal::None),
        (403, "MissingProviderToken", config("MissingProviderToken"), Refusal::None),
        (403, "BadCertificate", config("BadCertificate"), Refusal::None),
        (403, "BadCertificateEnvironment", config("BadCertificateEnvironment"), Refusal::None),
        (403, "Forbidden", config("Forbidden"), Refusal::None),
        (403, "UnrelatedKeyIdInToken", config("UnrelatedKeyIdInToken"), Refusal::WrongConnection),
        (
            403,
            "BadEnvironmentKeyIdInToken",
            config("BadEnvironmentKeyIdInToken"),
            Refusal::WrongConnection,
        ),
        (
            403,
            "BadEnvironmentKeyInToken",
            config("BadEnvironmentKeyInToken"),
            Refusal::WrongConnection,
        ),
        (404, "BadPath", bad("BadPath"), Refusal::None),
        (405, "MethodNotAllowed", bad("MethodNotAllowed"), Refusal::None),
        (410, "Unregistered", dead("Unregistered", false, None), Refusal::None),
        (410, "ExpiredToken", dead("ExpiredToken", false, None), Refusal::None),
        (413, "PayloadTooLarge", bad("PayloadTooLarge"), Refusal::None),
        (429, "TooManyRequests", throttle("TooManyRequests", Scope::Address), Refusal::None),
        (
            429,
            "TooManyProviderTokenUpdates",
            throttle("TooManyProviderTokenUpdates", Scope::Provider),
            Refusal::TooManyTokens,
        ),
        (500, "InternalServerError", retry("InternalServerError"), Refusal::None),
        (503, "ServiceUnavailable", retry("ServiceUnavailable"), Refusal::None),
        (503, "Shutdown", retry("Shutdown"), Refusal::ConnectionEnds),
        // Reasons that are not in the table, and a reason with another status than in the table.
        (400, "Brand_New", unknown("http_400 Brand_New"), Refusal::None),
        (403, "BrandNew", unknown("http_403 BrandNew"), Refusal::None),
        (410, "BrandNew", unknown("http_410 BrandNew"), Refusal::None),
        (403, "BadDeviceToken", unknown("http_403 BadDeviceToken"), Refusal::None),
        (429, "BrandNew", throttle("http_429 BrandNew", Scope::Provider), Refusal::None),
        (502, "BrandNew", retry("http_502 BrandNew"), Refusal::None),
    ];
    for (status, reason, expected, refusal) in rows {
        let body = json!({"reason": reason}).to_string();
        assert_eq!(answer(status, &body), (expected, refusal), "{status} {reason}");
    }
}

#[test]
fn foreign_responses_never_unregister_or_pause() {
    let pages = ["", "<html>nope</html>", "{", "[1]", "{\"reason\":7}", "\u{0}\u{1}"];
    let rows = [
        (301, unknown("http_301")),
        (400, unknown("http_400")),
        (401, unknown("http_401")),
        (403, unknown("http_403")),
        (404, unknown("http_404")),
        (408, retry("http_408")),
        (410, unknown("http_410")),
        (413, bad("http_413")),
        (418, unknown("http_418")),
        (429, throttle("http_429", Scope::Provider)),
        (500, retry("http_500")),
        (502, retry("http_502")),
        (503, retry("http_503")),
        (599, retry("http_599")),
    ];
    for (status, expected) in rows {
        for page in pages {
            assert_eq!(answer(status, page), (expected.clone(), Refusal::None), "{status} {page}");
        }
    }
    let echo = json!({"reason": "token aa bb cc"}).to_string();
    assert_eq!(answer(400, &echo).0, unknown("http_400"), "only a word is repeated");
}

#[test]
fn unregistered_since_is_never_in_the_future() {
    let rows = [
        (json!(1_600_000_000_000_i64), Some(1_600_000_000_000)),
        (json!(253_402_300_799_999_i64), Some(NOW.as_ms())),
        (json!(-5), None),
        (json!("soon"), None),
        (json!(1e300), None),
        (json!(null), None),
    ];
    for (timestamp, since) in rows {
        let body = json!({"reason": "Unregistered", "timestamp": timestamp}).to_string();
        assert_eq!(answer(410, &body).0, dead("Unregistered", false, since), "{timestamp}");
    }
}

#[test]
fn retry_after_is_passed_on() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_static("7"));
    let body = br#"{"reason":"ServiceUnavailable"}"#;
    let (answer, _) = classify(&StatusCode::SERVICE_UNAVAILABLE, &headers, body, NOW);
    let expected = SendResult::Retry {
        reason: "ServiceUnavailable".into(),
        after: Some(Duration::from_secs(7)),
        outcome: Processing::Failed,
    };
    assert_eq!(answer, expected);
}

#[test]
fn a_success_carries_apples_id() {
    let mut headers = HeaderMap::new();
    headers.insert("apns-id", HeaderValue::from_static("id-1"));
    let (answer, _) = classify(&StatusCode::OK, &headers, b"", NOW);
    assert_eq!(answer, SendResult::Delivered { message_id: Some("id-1".into()) });
}

#[test]
fn token_is_escaped_in_the_path() {
    let base_url = BaseUrl::parse("https://127.0.0.1:8443/fake").unwrap();
    let pool = Pools::default().get(&base_url, String::new(), None, Protocols::Http2);
    let host = Host::new(&base_url, pool);
    for (token, path) in [
        ("AAbb01", "aabb01"),
        ("Good-Token_1.~", "Good-Token_1.~"),
        ("a/../b?c#d%e", "a%2F..%2Fb%3Fc%23d%25e"),
        ("ä \u{1}", "%C3%A4%20%01"),
        ("", ""),
    ] {
        let uri = host.uri(token).to_string();
        assert_eq!(uri, format!("https://127.0.0.1:8443/fake/3/device/{path}"));
        let mut written = String::new();
        push_path_segment(&mut written, token);
        assert_eq!(written, path);
    }
}

fn apns_config(key: &rcgen::KeyPair) -> ApnsConfig {
    let body = json!({
        "team_id": "TEAM123456",
        "key_id": "KEY1234567",
        "private_key": key.serialize_pem(),
        "topic": "com.example.shop",
    });
    let config = ProviderConfig::parse(ProviderKind::Apns, &body).unwrap();
    let ProviderConfig::Apns(config) = config else { unreachable!("asked for APNs") };
    config
}

fn key() -> rcgen::KeyPair {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap()
}

/// A clock that agrees with the wall clock.
fn at(now: Timestamp) -> Reading {
    Reading { now, wall: now }
}
