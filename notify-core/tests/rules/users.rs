//! Users and segments: log-ins, notifications to users, and the responses.

use notify_core::{
    Attributes, Audience, CreateNotification, DeleteUser, Device, DeviceId, LogIn, NoUserIds,
    NotificationUsers, Platform, PreviewSegment, Query, Recipients, RegisterDevice, Request,
    SegmentName, SegmentToPreview, Subscribe, Target, UserId, UserState,
};
use serde_json::{Value, json};

use crate::devices;
use crate::support::{NOW, Row, check};

const PLATFORMS: &str = "android, ios, web, fb-messenger, chatapp";

#[test]
fn log_ins_are_checked() {
    check::<LogIn>(
        &json!({"user_id": "u"}),
        &[
            ("/user_id", "-", &["user_id: is required"]),
            ("/user_id", "null", &["user_id: is required"]),
            ("/user_id", "\"\"", &["user_id: is required"]),
            ("/user_id", "7", &["user_id: expected a string"]),
            ("/user_id", "\"..\"", &["user_id: must not be `.` or `..`"]),
            ("/user_id", "\"a\\n\"", &["user_id: must not contain control characters"]),
        ],
    );
    assert_eq!(LogIn::new("u").validate(NOW), Ok(UserId::new("u").unwrap()));
    let rows: &[Row<'_>] = &[
        ("/user_id", "null", &[]),
        ("/user_id", "\"u\"", &[]),
        ("/user_id", "\"\"", &["user_id: must not be empty"]),
        ("/user_id", "\".\"", &["user_id: must not be `.` or `..`"]),
    ];
    check::<RegisterDevice>(&devices::full(), rows);
    check::<Subscribe>(&devices::web(), rows);
    let body = crate::support::changed(&devices::full(), "/user_id", "\"u\"");
    let registration = RegisterDevice::parse(body.as_bytes(), NOW).unwrap();
    assert_eq!(registration.user_id.as_ref().map(UserId::as_str), Some("u"));
}

/// The time zone of a device is known only if `timezone` or `utc_offset` is given.
#[test]
fn timezones_are_known_or_not() {
    for (timezone, utc_offset, expected) in [
        (Some("GMT+01:30"), None, Some(90)),
        (Some("GMT"), Some("60"), Some(0)),
        (None, Some("-60"), Some(-60)),
        (None, Some("0"), Some(0)),
        (None, None, None),
        (Some(""), Some(""), None),
    ] {
        let body = json!({"platform": "chatapp", "recipient_id": "1", "timezone": timezone,
            "utc_offset": utc_offset})
        .to_string();
        let subscription = Subscribe::parse(body.as_bytes(), NOW).unwrap();
        assert_eq!(subscription.timezone_minutes, expected);
        assert_eq!(subscription.utc_offset_minutes, expected.unwrap_or(0));
        let mut device = RegisterDevice::android("d", "t");
        device.timezone = timezone.map(str::to_owned);
        device.utc_offset = utc_offset.map(str::to_owned);
        let registration = device.validate(NOW).unwrap();
        assert_eq!(registration.timezone_minutes, expected);
        assert_eq!(registration.utc_offset_minutes, expected.unwrap_or(0));
    }
}

#[test]
fn notifications_to_users_are_checked() {
    let empty = "must hold at least 1 id when it is given";
    let combined = "user_ids: must not be combined with device ids";
    let ids = |count: usize| json!(vec!["same"; count]).to_string();
    let rows: &[Row<'_>] = &[
        ("/user_ids", &ids(1_000), &[]),
        ("/user_ids", &ids(1_001), &["user_ids: must hold at most 1000 elements"]),
        ("/user_ids", "[]", &[&format!("user_ids: {empty}")]),
        ("/user_ids", "\"u\"", &["user_ids: expected a list"]),
        ("/user_ids", "[\"u\", 7]", &["user_ids[1]: expected a string"]),
        ("/user_ids", "[\"u\", \"\"]", &["user_ids[1]: must not be empty"]),
        ("/user_ids", "[\"..\"]", &["user_ids[0]: must not be `.` or `..`"]),
        ("/user_ids", "null", &[&format!("platforms: must contain at least one of {PLATFORMS}")]),
        ("/device_ids", "[\"d\"]", &[combined]),
        ("/ios_device_ids", "[\"d\"]", &[combined]),
        ("/android_device_ids", "[]", &[&format!("android_device_ids: {empty}")]),
        ("/device_ids", "null", &[]),
        ("/platforms", "null", &[]),
        ("/platforms", "[\"ios\", \"ios\"]", &[]),
        ("/platforms", "[]", &[&format!("platforms: must contain at least one of {PLATFORMS}")]),
        ("/platforms", "[\"tv\"]", &[&format!("platforms[0]: must be one of {PLATFORMS}")]),
        ("/audience", "{\"tag\": \"a\"}", &[]),
        ("/tags", "[\"a\"]", &[]),
    ];
    check::<CreateNotification>(&json!({"text": "t", "user_ids": ["u", "v", "u"]}), rows);
    // With device ids, platforms are ignored; the list of users is refused in any form.
    let to_devices = json!({"text": "t", "device_ids": ["d"], "platforms": ["tv"]});
    check::<CreateNotification>(
        &to_devices,
        &[
            ("/user_ids", "[]", &[&format!("user_ids: {empty}")]),
            ("/user_ids", "[\"u\"]", &[combined]),
        ],
    );
    let to_platforms = json!({"text": "t", "platforms": ["ios"]});
    check::<CreateNotification>(
        &to_platforms,
        &[("/user_ids", "[]", &[&format!("user_ids: {empty}")])],
    );
}

#[test]
fn users_are_a_target() {
    let id = |text: &str| UserId::new(text).unwrap();
    let recipients = |notification: CreateNotification| {
        let body = serde_json::to_vec(&notification).unwrap();
        let parsed = CreateNotification::parse(&body, NOW);
        assert_eq!(parsed, notification.validate(NOW));
        parsed.unwrap().recipients
    };
    let to_users = CreateNotification::to_users(["u", "v", "u"], "t").unwrap();
    let target = Target::Users { ids: vec![id("u"), id("v")], platforms: Platform::ALL.to_vec() };
    assert_eq!(target.platforms(), Platform::ALL);
    assert_eq!(recipients(to_users.clone()), Recipients { target, tag: None, audience: None });

    let audience = Audience::segment("fans").or(Audience::tag("a"));
    let narrowed = to_users.on_platforms([Platform::Web, Platform::Web]).audience(audience.clone());
    let recipients = recipients(narrowed);
    let target = Target::Users { ids: vec![id("u"), id("v")], platforms: vec![Platform::Web] };
    assert_eq!(recipients, Recipients { target, tag: None, audience: Some(audience) });
    let lookup = |name: &str| (name == "fans").then(|| Audience::tag("fan"));
    let condition = recipients.condition(&lookup).unwrap().unwrap();
    assert_eq!(condition.tags(), ["fan", "a"]);
    assert_eq!(
        recipients.condition(&|_| None).unwrap_err().as_slice(),
        ["audience: there is no segment `fans`"]
    );
    let no_ids: [&str; 0] = [];
    assert_eq!(CreateNotification::to_users(no_ids, "t"), Err(NoUserIds));
}

#[test]
fn deleted_users_can_keep_their_devices() {
    let parse = |query: &[(&str, &str)]| {
        let pairs: Vec<(String, String)> =
            query.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        DeleteUser::parse(&pairs, NOW).map_err(|errors| errors.into_vec().join("; "))
    };
    assert_eq!(parse(&[]), Ok(DeleteUser { keep_devices: false }));
    assert_eq!(parse(&[("devices", "")]), Err("devices: must not be empty".to_owned()));
    assert_eq!(parse(&[("devices", "keep")]), Ok(DeleteUser { keep_devices: true }));
    assert_eq!(parse(&[("devices", "erase")]), Err("devices: must be one of keep".to_owned()));
    assert_eq!(
        parse(&[("device", "keep")]),
        Err("device: unknown parameter, did you mean `devices`?".to_owned())
    );
}

#[test]
fn names_of_segments_are_checked() {
    for (name, rule) in [
        ("fans", None),
        ("loyal / customers", None),
        ("..", None),
        ("", Some("must not be empty")),
        ("preview", Some("must not be `preview`")),
        ("a\0", Some("must not contain U+0000")),
    ] {
        assert_eq!(SegmentName::new(name).err(), rule, "{name:?}");
        let parsed: Result<SegmentName, _> = name.parse();
        assert_eq!(parsed.err().map(|error| error.rule()), rule, "{name:?}");
    }
    assert!(SegmentName::new("é".repeat(255)).is_ok());
    assert_eq!(SegmentName::new("é".repeat(256)), Err("must be at most 255 characters"));
}

#[test]
fn previews_of_segments_are_checked() {
    let base = json!({"audience": {"segment": "fans"}, "platforms": ["ios", "web", "ios"]});
    let none = format!("platforms: must contain at least one of {PLATFORMS}");
    check::<PreviewSegment>(
        &base,
        &[
            ("/audience", "-", &["audience: is required"]),
            ("/audience", "{\"tag\": \"\"}", &["audience.tag: is required"]),
            ("/platforms", "null", &[]),
            ("/platforms", "[]", &[&none]),
            ("/platforms/1", "\"tv\"", &[&format!("platforms[1]: must be one of {PLATFORMS}")]),
            ("/name", "1", &["name: unknown field"]),
        ],
    );
    let valid = PreviewSegment::parse(base.to_string().as_bytes(), NOW).unwrap();
    let platforms = vec![Platform::Ios, Platform::Web];
    assert_eq!(valid, SegmentToPreview { audience: Audience::segment("fans"), platforms });
    let all = PreviewSegment::new(Audience::tag("a")).validate(NOW).unwrap();
    assert_eq!(all.platforms, Platform::ALL);
}

/// A client can read the answers of an older server, which does not know users.
#[test]
fn fields_of_users_may_be_absent_in_answers() {
    let mut device = json!({
        "device_id": "d", "platform": "ios", "sdk_type": null, "push_token": null,
        "push_disabled": false, "ios_env": null, "tags": [], "enabled": true,
        "disabled_reason": null, "created_at": 1, "updated_at": 1,
    });
    let old: Device = serde_json::from_value(device.clone()).unwrap();
    assert_eq!((old.user_id, old.attributes), (None, Attributes::new()));
    device["user_id"] = json!("u");
    device["attributes"] = json!({"plan": "pro", "seats": 3, "trial": false});
    let read: Device = serde_json::from_value(device).unwrap();
    let written = serde_json::to_value(&read).unwrap();
    assert_eq!(written["user_id"], "u");
    assert_eq!(written["attributes"], json!({"plan": "pro", "seats": 3, "trial": false}));
    assert_eq!(read.device_id, DeviceId::new("d").unwrap());
    let users: NotificationUsers = serde_json::from_value(json!({"users": [
        {"user_id": "u", "state": "reached", "devices": 2},
        {"user_id": null, "state": "unknown", "devices": 0},
    ], "next_cursor": null}))
    .unwrap();
    assert_eq!(users.users[1].state, UserState::Unknown);
    assert_eq!(serde_json::to_value(&users).unwrap()["users"][0]["user_id"], Value::from("u"));
}
