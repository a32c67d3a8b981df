//! `POST /v1/devices` and `POST /v1/subscriptions`.

use notify_core::{
    Endpoint, IosEnv, PUSH_TOKEN_CHARS_MAX, RegisterDevice, Request, Subscribe, Timestamp,
    WebSubscription,
};
use serde_json::{Value, json};

use crate::support::{NOW, check, check_types, errors_of};

fn minimal() -> Value {
    json!({"device_id": "d", "platform": "android", "sdk_type": "android_push"})
}

const REGISTERED: &str = "platform: must be one of android, ios (POST /v1/subscriptions takes web, \
                          fb-messenger, chatapp)";

pub(crate) fn full() -> Value {
    json!({
        "device_id": "d", "platform": "ios", "sdk_type": "ios_push", "android_id": "a",
        "push_token": "t", "push_disabled": true, "ad_id": "ad", "imei": "i", "sdk_version": "1",
        "app_version": "2", "os_version": "3", "store_identifier": "com.example",
        "timezone": "GMT+05:30", "country": "US", "utc_offset": "60", "language": "en",
        "device_description": "Phone", "ios_env": "sandbox",
    })
}

const OPTIONAL_TEXTS: [&str; 12] = [
    "/android_id",
    "/push_token",
    "/ad_id",
    "/imei",
    "/sdk_version",
    "/app_version",
    "/os_version",
    "/store_identifier",
    "/country",
    "/language",
    "/device_description",
    "/ios_env",
];
const ZONE: &[&str] =
    &["timezone: must be a time zone of the IANA database, such as Europe/Vienna, or GMT or \
    GMT±HH:MM within ±14:00"];
const OFFSET: &[&str] = &["utc_offset: must be a whole number of minutes within ±840"];

#[test]
fn required_fields_and_enums_are_checked() {
    check::<RegisterDevice>(
        &minimal(),
        &[
            ("/device_id", "-", &["device_id: is required"]),
            ("/device_id", "null", &["device_id: is required"]),
            ("/device_id", "\"\"", &["device_id: is required"]),
            ("/device_id", "\"..\"", &["device_id: must not be `.` or `..`"]),
            ("/device_id", "\"a\\tb\"", &["device_id: must not contain control characters"]),
            ("/device_id", &format!("\"{}\"", "é".repeat(255)), &[]),
            (
                "/device_id",
                &format!("\"{}\"", "é".repeat(256)),
                &["device_id: must be at most 255 characters"],
            ),
            ("/platform", "-", &["platform: is required"]),
            ("/platform", "\"web\"", &[REGISTERED]),
            ("/platform", "\"telegram\"", &[REGISTERED]),
            ("/platform", "\"ios\"", &["sdk_type: must be ios_push for platform ios"]),
            ("/sdk_type", "-", &["sdk_type: is required"]),
            ("/sdk_type", "\"ios_push\"", &["sdk_type: must be android_push for platform android"]),
            ("/sdk_type", "\"push\"", &["sdk_type: must be one of android_push, ios_push"]),
            ("/ios_env", "\"\"", &[]),
            ("/ios_env", "\"sandbox\"", &["ios_env: must be absent or empty for platform android"]),
            ("/tag", "1", &["tag: unknown field"]),
            ("/push_tokn", "1", &["push_tokn: unknown field, did you mean `push_token`?"]),
            ("/pushToken", "1", &["pushToken: unknown field, did you mean `push_token`?"]),
        ],
    );
}

#[test]
fn optional_fields_are_checked() {
    let token = |count| format!("\"{}\"", "t".repeat(count));
    check::<RegisterDevice>(
        &full(),
        &[
            ("/ios_env", "\"production\"", &[]),
            ("/ios_env", "\"test\"", &["ios_env: must be one of production, sandbox"]),
            ("/push_token", &token(PUSH_TOKEN_CHARS_MAX), &[]),
            (
                "/push_token",
                &token(PUSH_TOKEN_CHARS_MAX + 1),
                &["push_token: must be at most 4096 characters"],
            ),
            ("/push_disabled", "false", &[]),
            ("/push_disabled", "null", &[]),
            ("/imei", &token(1_025), &["imei: must be at most 1024 characters"]),
            ("/timezone", "\"GMT\"", &[]),
            ("/timezone", "\"GMT+14:00\"", &[]),
            ("/timezone", "\"GMT-14:00\"", &[]),
            ("/timezone", "\"GMT+14:01\"", ZONE),
            ("/timezone", "\"GMT+01:60\"", ZONE),
            ("/timezone", "\"GMT+1:00\"", &[]),
            ("/timezone", "\"GMT 01:00\"", ZONE),
            ("/timezone", "\"GMT+\"", ZONE),
            ("/timezone", "\"GMT-00:00\"", &[]),
            ("/timezone", "\"gmt+01:00\"", &[]),
            ("/timezone", "\"GMT\u{2212}01:00\"", &[]),
            ("/timezone", "\"UTC\"", &[]),
            ("/timezone", "\"UTC+02:00\"", &[]),
            ("/timezone", "\"Europe/Vienna\"", &[]),
            ("/timezone", "\"Europe/Wien\"", ZONE),
            ("/timezone", "\"Etc/Unknown\"", ZONE),
            ("/utc_offset", "\"840\"", &[]),
            ("/utc_offset", "\"-840\"", &[]),
            ("/utc_offset", "\"+60\"", &[]),
            ("/utc_offset", "\" 60\"", OFFSET),
            ("/utc_offset", "\"99999999999\"", OFFSET),
            ("/utc_offset", "\"841\"", OFFSET),
            ("/utc_offset", "\"-841\"", OFFSET),
            ("/utc_offset", "\"1.5\"", OFFSET),
            ("/utc_offset", "\"one\"", OFFSET),
        ],
    );
    for pointer in OPTIONAL_TEXTS.into_iter().chain(["/timezone", "/utc_offset"]) {
        check::<RegisterDevice>(
            &full(),
            &[(pointer, "-", &[]), (pointer, "null", &[]), (pointer, "\"\"", &[])],
        );
        check_types::<RegisterDevice>(&full(), &[(pointer, "a string")]);
    }
    check_types::<RegisterDevice>(
        &full(),
        &[
            ("/device_id", "a string"),
            ("/platform", "a string"),
            ("/sdk_type", "a string"),
            ("/push_disabled", "true or false"),
        ],
    );
}

#[test]
fn all_violations_are_listed_together() {
    let body = r#"{"platform": "tv", "imei": "x", "utc_offset": "x", "tokn": 1}"#;
    assert_eq!(
        errors_of::<RegisterDevice>(body),
        [
            "tokn: unknown field",
            "device_id: is required",
            REGISTERED,
            "sdk_type: is required",
            "utc_offset: must be a whole number of minutes within ±840",
        ]
    );
    let body = r#"{"platform": 1, "imei": [], "extra": 1}"#;
    assert_eq!(
        errors_of::<RegisterDevice>(body),
        ["platform: expected a string", "imei: expected a string", "extra: unknown field"]
    );
    assert_eq!(errors_of::<RegisterDevice>("[]"), ["body: expected an object"]);
}

#[test]
fn absent_fields_have_defaults() {
    let empty = json!({
        "device_id": "d", "platform": "ios", "sdk_type": "ios_push", "push_token": "",
        "push_disabled": null, "ios_env": "", "imei": "",
    });
    let registration = RegisterDevice::parse(empty.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(registration.endpoint, Endpoint::Ios { push_token: None, env: None });
    assert!(!registration.push_disabled);
    assert_eq!(registration.utc_offset_minutes, 0);
    assert_eq!(registration.details.imei, None);

    let registration = RegisterDevice::parse(full().to_string().as_bytes(), NOW).unwrap();
    let endpoint = Endpoint::Ios { push_token: Some("t".to_owned()), env: Some(IosEnv::Sandbox) };
    assert_eq!(registration.endpoint, endpoint);
    assert!(registration.push_disabled);
    assert_eq!(registration.utc_offset_minutes, 330, "the time zone takes precedence");
    assert_eq!(registration.details.utc_offset.as_deref(), Some("60"));
}

/// The offset of a named zone is that of the instant.
#[test]
fn a_time_zone_has_one_spelling_and_the_offset_of_now() {
    let (winter, summer) = (Timestamp(1_768_478_400_000), Timestamp(1_784_116_800_000));
    for (timezone, stored, [in_winter, in_summer]) in [
        ("europe/vienna", "Europe/Vienna", [60, 120]),
        ("America/New_York", "America/New_York", [-300, -240]),
        ("Asia/Kolkata", "Asia/Kolkata", [330, 330]),
        ("UTC+2", "GMT+02:00", [120, 120]),
        ("GMT+05:30", "GMT+05:30", [330, 330]),
    ] {
        let mut body = full();
        body["timezone"] = json!(timezone);
        for (now, expected) in [(winter, in_winter), (summer, in_summer)] {
            let registration = RegisterDevice::parse(body.to_string().as_bytes(), now).unwrap();
            assert_eq!(registration.details.timezone.as_deref(), Some(stored));
            assert_eq!(registration.utc_offset_minutes, expected, "{timezone}");
            assert_eq!(registration.timezone_minutes, Some(expected), "{timezone}");
        }
    }
}

/// The first key of RFC 8291, appendix A.
const P256DH: &str =
    "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4";
const AUTH: &str = "BTBZMqHH6r4Tts7J_aSIgg";

pub(crate) fn web() -> Value {
    json!({"platform": "web", "subscription": {
        "endpoint": "https://push.example/x", "expirationTime": null,
        "keys": {"p256dh": P256DH, "auth": AUTH},
    }})
}

const SUBSCRIBED: &str =
    "platform: must be one of web, fb-messenger, chatapp (POST /v1/devices takes android, ios)";

#[test]
fn browser_subscriptions_are_checked() {
    const POINT: &str = "subscription.keys.p256dh: must be an uncompressed P-256 point, 65 bytes in base64url or \
         base64";
    let compressed = P256DH.replacen('B', "A", 1);
    check::<Subscribe>(
        &web(),
        &[
            ("/platform", "-", &["platform: is required"]),
            ("/platform", "\"ios\"", &[SUBSCRIBED]),
            ("/platform", "\"messenger\"", &[SUBSCRIBED]),
            ("/subscription", "-", &["subscription: is required for platform web"]),
            ("/subscription", "[]", &["subscription: expected an object"]),
            ("/subscription/expirationTime", "1700000000000.5", &[]),
            (
                "/subscription/expirationTime",
                "\"x\"",
                &["subscription.expirationTime: expected a number"],
            ),
            ("/subscription/contentEncoding", "\"aes128gcm\"", &[]),
            ("/subscription/supportedContentEncodings", "[\"aes128gcm\", \"aesgcm\"]", &[]),
            ("/subscription/supportedContentEncodings", "null", &[]),
            (
                "/subscription/supportedContentEncodings",
                &serde_json::to_string(&[""; 17]).unwrap(),
                &["subscription.supportedContentEncodings: must hold at most 16 elements"],
            ),
            ("/subscription/options", "{\"userVisibleOnly\": true}", &[]),
            ("/subscription/subscriptionId", "\"x\"", &[]),
            ("/subscription/endpoint", "-", &["subscription.endpoint: is required"]),
            (
                "/subscription/endpoint",
                "\"http://push.example\"",
                &["subscription.endpoint: must be an https url"],
            ),
            ("/subscription/keys", "-", &["subscription.keys: is required"]),
            (
                "/subscription/keys",
                "{}",
                &["subscription.keys.p256dh: is required", "subscription.keys.auth: is required"],
            ),
            ("/subscription/keys/p256dh", "\"AAAA\"", &[POINT]),
            ("/subscription/keys/p256dh", &format!("\"{compressed}\""), &[POINT]),
            (
                "/subscription/keys/p256dh",
                "\"?\"",
                &["subscription.keys.p256dh: must be base64url or base64"],
            ),
            ("/subscription/keys/auth", &format!("\"{AUTH}==\""), &[]),
            (
                "/subscription/keys/auth",
                "\"AAAA\"",
                &["subscription.keys.auth: must be 16 bytes in base64url or base64"],
            ),
            ("/recipient_id", "\"1\"", &["recipient_id: must be absent for platform web"]),
            ("/device_id", "\"own\"", &[]),
            ("/device_id", "\"\"", &["device_id: must not be empty"]),
            ("/timezone", "\"GMT+15:00\"", ZONE),
            ("/utc_offset", "\"1000\"", OFFSET),
            ("/push_token", "\"t\"", &["push_token: unknown field"]),
        ],
    );
}

#[test]
fn messenger_and_chat_subscriptions_are_checked() {
    for platform in ["fb-messenger", "chatapp"] {
        let base = json!({"platform": platform, "recipient_id": "1", "language": "en"});
        check::<Subscribe>(
            &base,
            &[
                (
                    "/recipient_id",
                    "-",
                    &[&format!("recipient_id: is required for platform {platform}")],
                ),
                (
                    "/recipient_id",
                    "\"\"",
                    &[&format!("recipient_id: is required for platform {platform}")],
                ),
                ("/recipient_id", "1", &["recipient_id: expected a string"]),
                ("/recipient_id", "\" 1\\n\"", &[]),
                ("/recipient_id", "\"1-nouser\"", &[]),
            ],
        );
    }
}

#[test]
fn a_recipient_is_a_number_or_the_name_of_a_chat() {
    const CHAT: &str = "must be the id of a chat, which is an integer, or the @name of a public chat; a topic of a group \
         is written as `-1001234567890/42`";
    const PERSON: &str = "recipient_id: must be a page-scoped id, which is a number";
    let chat = json!({"platform": "chatapp", "recipient_id": "-1001234567890"});
    check::<Subscribe>(
        &chat,
        &[
            ("/recipient_id", "\"@Shop_News\"", &[]),
            ("/recipient_id", "\"12 34\"", &[&format!("recipient_id: {CHAT}")]),
            ("/recipient_id", "\"12-34\"", &[&format!("recipient_id: {CHAT}")]),
            ("/recipient_id", "\"-1001234567890/42\"", &[]),
            ("/recipient_id", "\"@Shop/007\"", &[]),
            ("/recipient_id", "\"-77~429x2/3\"", &[]),
            ("/recipient_id", "\"-1001/1000000000\"", &[&format!("recipient_id: {CHAT}")]),
            ("/recipient_id", "\"12/31\"", &[&format!("recipient_id: {CHAT}")]),
            ("/recipient_id", "\"-77-blocked\"", &[]),
            ("/recipient_id", "\"77~429x2\"", &[]),
            (
                "/recipient_id",
                "\"https://t.me/Shop\"",
                &[&format!("recipient_id: {CHAT}, did you mean `@shop`?")],
            ),
        ],
    );
    let person = json!({"platform": "fb-messenger", "recipient_id": "12345678901234567"});
    check::<Subscribe>(
        &person,
        &[
            ("/recipient_id", "\"-1\"", &[PERSON]),
            ("/recipient_id", "\"12 34\"", &[PERSON]),
            ("/recipient_id", "\"660-123-4567\"", &[PERSON]),
            ("/recipient_id", "\"@name\"", &[PERSON]),
        ],
    );
    for (text, stored) in [(" 0042 ", "42"), ("+42", "42"), ("@Shop", "@shop")] {
        let body = json!({"platform": "chatapp", "recipient_id": text}).to_string();
        let subscription = Subscribe::parse(body.as_bytes(), NOW).unwrap();
        let expected = Endpoint::ChatApp { recipient_id: stored.to_owned() };
        assert_eq!(subscription.endpoint, expected);
    }
}

#[test]
fn a_push_token_has_one_spelling() {
    let hex = "ab12".repeat(16);
    let registered = |platform: &str, token: &str| {
        let body = json!({"device_id": "d", "platform": platform,
            "sdk_type": format!("{platform}_push"), "push_token": token});
        RegisterDevice::parse(body.to_string().as_bytes(), NOW).unwrap().endpoint
    };
    let ios =
        |token: Option<&str>| Endpoint::Ios { push_token: token.map(str::to_owned), env: None };
    for text in
        [hex.to_uppercase(), format!(" {hex}\n"), format!("<{} {}>", &hex[..32], &hex[32..])]
    {
        assert_eq!(registered("ios", &text), ios(Some(&hex)), "{text}");
    }
    assert_eq!(registered("ios", " "), ios(None));
    assert_eq!(registered("ios", " a:B "), ios(Some("a:B")));
    let android = Endpoint::Android { push_token: Some("a:B".to_owned()) };
    assert_eq!(registered("android", "a:B\n"), android);
}

#[test]
fn subscription_keys_are_normalized() {
    let standard = |key: &str| key.replace('-', "+").replace('_', "/");
    let mut padded = web();
    padded["subscription"]["keys"] = json!({"p256dh": format!("{}=", standard(P256DH)), "auth": format!("{}==", standard(AUTH))});
    let subscription = Subscribe::parse(padded.to_string().as_bytes(), NOW).unwrap();
    let expected = WebSubscription {
        endpoint: "https://push.example/x".to_owned(),
        p256dh: P256DH.to_owned(),
        auth: AUTH.to_owned(),
    };
    assert_eq!(subscription.endpoint, Endpoint::Web(expected));
}
