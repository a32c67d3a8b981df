//! Small bodies: tags, feeds, events, campaign status, browsers, and the admin API.

use notify_core::{
    AppChange, AppStatus, CampaignStatus, CreateAdminKey, CreateApp, CreateFeed, CreateKey,
    CreateUserToken, DeviceId, DeviceLimits, KEY_LIFETIME_MS_MAX, KeyGrant, KeyScope, KeyScopes,
    LogInWithToken, NewApiKey, RegisterAppDevice, ReportEvents, Request, RotateKey,
    SetCampaignStatus, SetTags, Tag, UpdateApp,
};
use serde_json::json;

use crate::support::{NOW, check, check_types, errors_of};

#[test]
fn tags_are_checked() {
    let base = json!({"tags": [
        {"name": "a", "type": "bool", "value": true}, {"name": "b", "type": "bool", "value": false},
    ]});
    let name = |count: usize| format!("\"{}\"", "n".repeat(count));
    check::<SetTags>(
        &base,
        &[
            ("/tags", "-", &["tags: is required"]),
            ("/tags", "{}", &["tags: expected a list"]),
            ("/tags/1/name", "-", &["tags[1].name: is required"]),
            ("/tags/1/name", "\"a\"", &["tags[1].name: is given twice"]),
            ("/tags/1/name", &name(255), &[]),
            ("/tags/1/name", &name(256), &["tags[1].name: must be at most 255 characters"]),
            ("/tags/1/type", "-", &["tags[1].type: is required"]),
            ("/tags/1/type", "\"int\"", &["tags[1].type: must be bool"]),
            ("/tags/1/value", "-", &["tags[1].value: is required"]),
            ("/tags/1/value", "1", &["tags[1].value: expected true or false"]),
            ("/tags/1/values", "1", &["tags[1].values: unknown field, did you mean `value`?"]),
        ],
    );
    let many = |count: usize| {
        let tags: Vec<Tag> = (0..count).map(|n| Tag::new(format!("t{n}"), true)).collect();
        json!({"tags": tags}).to_string()
    };
    assert_eq!(errors_of::<SetTags>(&many(1_000)), [""; 0]);
    assert_eq!(errors_of::<SetTags>(&many(1_001)), ["tags: must hold at most 1000 tags"]);
    let tags = SetTags::parse(base.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(tags, [Tag::new("a", true), Tag::new("b", false)]);
}

#[test]
fn feeds_are_checked() {
    let base = json!({"url": "https://x.example/rss", "name": "n"});
    check::<CreateFeed>(
        &base,
        &[
            ("/url", "-", &["url: is required"]),
            ("/url", "\"feed://x\"", &["url: must be an absolute http or https url"]),
            ("/name", "\"\"", &["name: is required"]),
            ("/nam", "1", &["nam: unknown field, did you mean `name`?"]),
        ],
    );
    check_types::<CreateFeed>(&base, &[("/url", "a string"), ("/name", "a string")]);
}

#[test]
fn events_are_checked() {
    let event = json!({"type": "opened", "notification_id": "n", "device_id": "d", "at": 1});
    let base = json!({"events": [event]});
    check::<ReportEvents>(
        &base,
        &[
            ("/events", "-", &["events: is required"]),
            ("/events", "[]", &["events: must hold at least 1 element"]),
            (
                "/events/0/type",
                "\"seen\"",
                &["events[0].type: must be one of received, opened, clicked, dismissed"],
            ),
            ("/events/0/type", "-", &["events[0].type: is required"]),
            ("/events/0/notification_id", "\"\"", &["events[0].notification_id: is required"]),
            ("/events/0/device_id", "\"..\"", &["events[0].device_id: must not be `.` or `..`"]),
            ("/events/0/at", "-", &[]),
            ("/events/0/at", "253402300799999", &[]),
            (
                "/events/0/at",
                "253402300800000",
                &["events[0].at: must be unix milliseconds within the years 1970 to 9999"],
            ),
        ],
    );
    for kind in ["received", "opened", "clicked", "dismissed"] {
        check::<ReportEvents>(&base, &[("/events/0/type", &format!("\"{kind}\""), &[])]);
    }
    let many = |count: usize| json!({"events": vec![&event; count]}).to_string();
    assert_eq!(errors_of::<ReportEvents>(&many(1_000)), [""; 0]);
    assert_eq!(
        errors_of::<ReportEvents>(&many(1_001)),
        ["events: must hold at most 1000 elements"]
    );
}

#[test]
fn campaign_status_is_active_or_disabled() {
    let base = json!({"status": "active"});
    check::<SetCampaignStatus>(
        &base,
        &[
            ("/status", "\"disabled\"", &[]),
            ("/status", "\"all\"", &["status: must be one of active, disabled"]),
            ("/status", "-", &["status: is required"]),
            ("/status", "true", &["status: expected a string"]),
        ],
    );
    assert_eq!(
        SetCampaignStatus::parse(base.to_string().as_bytes(), NOW),
        Ok(CampaignStatus::Active)
    );
}

#[test]
fn applications_are_checked() {
    let long = format!("\"{}\"", "n".repeat(256));
    check::<CreateApp>(
        &json!({"name": "n", "language": "de"}),
        &[
            ("/name", "-", &["name: is required"]),
            ("/name", &long, &["name: must be at most 255 characters"]),
            ("/language", "1", &["language: expected a string"]),
        ],
    );
    assert_eq!(CreateApp::parse(br#"{"name":"n"}"#, NOW).unwrap().language, "en");
    check::<UpdateApp>(
        &json!({"status": "suspended"}),
        &[
            ("/status", "\"active\"", &[]),
            ("/status", "\"gone\"", &["status: must be one of active, suspended"]),
            ("/name", &long, &["name: must be at most 255 characters"]),
            ("/on_crash", "\"skip\"", &[]),
            ("/on_crash", "\"resend\"", &["on_crash: must be one of repeat, skip"]),
        ],
    );
    let change = AppChange { status: Some(AppStatus::Suspended), ..AppChange::default() };
    assert_eq!(UpdateApp::parse(br#"{"status":"suspended"}"#, NOW), Ok(change));
}

#[test]
fn keys_are_checked() {
    assert_eq!(CreateKey::parse(b"", NOW), Ok(NewApiKey::default()));
    check::<CreateKey>(
        &json!({"name": "ci", "scopes": ["read"], "expires_at": NOW.0 + 1}),
        &[
            ("/expires_at", &(NOW.0 + KEY_LIFETIME_MS_MAX).to_string(), &[]),
            (
                "/expires_at",
                &(NOW.0 + KEY_LIFETIME_MS_MAX + 1).to_string(),
                &["expires_at: must be at most ten years ahead"],
            ),
            ("/expires_at", &NOW.0.to_string(), &["expires_at: must be in the future"]),
            ("/expires_at", "0", &["expires_at: must be in the future"]),
            (
                "/expires_at",
                "-1",
                &["expires_at: must be a whole number without sign, fraction or exponent"],
            ),
            (
                "/expires_at",
                "253402300800000",
                &["expires_at: must be unix milliseconds within the years 1970 to 9999"],
            ),
            ("/expires_at", "\"90d\"", &["expires_at: expected a whole number"]),
            ("/name", "1", &["name: expected a string"]),
            ("/scopes", "[]", &["scopes: must hold at least 1 element"]),
            ("/scopes", "\"read\"", &["scopes: expected a list"]),
            ("/scopes", "[1]", &["scopes[0]: expected a string"]),
            ("/scopes", "[\"\"]", &["scopes[0]: must not be empty"]),
            (
                "/scopes",
                "[\"read\", \"write\"]",
                &["scopes[1]: must be one of read, send, devices, content, webhooks"],
            ),
        ],
    );
    let grant = |body: &str| CreateKey::parse(body.as_bytes(), NOW).unwrap().terms.grant;
    let all = KeyGrant::Api(KeyScopes::All);
    assert_eq!(grant("{}"), all);
    assert_eq!(grant(r#"{"scopes": null, "kind": "", "allowed_tags": null}"#), all);
    assert_eq!(
        grant(r#"{"scopes": ["send", "read", "send"], "kind": "secret"}"#),
        KeyGrant::Api(KeyScopes::Only(vec![KeyScope::Read, KeyScope::Send]))
    );
    publishable_keys_are_checked();
    check::<RotateKey>(
        &json!({"overlap_seconds": 0}),
        &[
            ("/overlap_seconds", "2592000", &[]),
            ("/overlap_seconds", "2592001", &["overlap_seconds: must be at most 2592000"]),
            (
                "/overlap_seconds",
                "-1",
                &["overlap_seconds: must be a whole number without sign, fraction or exponent"],
            ),
        ],
    );
    let overlap = |body: &str| RotateKey::parse(body.as_bytes(), NOW).map(|it| it.overlap_ms);
    assert_eq!(overlap(""), Ok(86_400_000));
    assert_eq!(overlap(r#"{"overlap_seconds": 0}"#), Ok(0));
    assert!(RotateKey { overlap_seconds: Some(u32::MAX) }.validate(NOW).is_err());
    check::<CreateAdminKey>(
        &json!({"name": "ada"}),
        &[("/scopes", "[]", &["scopes: unknown field"])],
    );
}

fn publishable_keys_are_checked() {
    const FOR_BACKENDS: &str = "must be absent unless kind is publishable";
    let many = |what: &str, count: usize| json!(vec![what; count]).to_string();
    check::<CreateKey>(
        &json!({"kind": "publishable", "allowed_tags": ["news"], "allowed_attributes": ["plan"]}),
        &[
            ("/allowed_tags", "-", &[]),
            ("/allowed_tags", "[]", &[]),
            ("/allowed_tags", &many("t", 50), &[]),
            ("/allowed_tags", &many("t", 51), &["allowed_tags: must hold at most 50 elements"]),
            ("/allowed_tags/0", "\"\"", &["allowed_tags[0]: must not be empty"]),
            ("/allowed_attributes", "[]", &[]),
            (
                "/allowed_attributes",
                &many("a", 101),
                &["allowed_attributes: must hold at most 100 elements"],
            ),
            (
                "/allowed_attributes/0",
                "\"Plan\"",
                &["allowed_attributes[0]: must be a lower-case letter, then up to 63 lower-case \
                   letters, digits and underscores"],
            ),
            ("/scopes", "[\"read\"]", &["scopes: must be absent unless kind is secret"]),
            ("/kind", "\"public\"", &["kind: must be one of secret, publishable"]),
            (
                "/kind",
                "\"secret\"",
                &[
                    &format!("allowed_tags: {FOR_BACKENDS}"),
                    &format!("allowed_attributes: {FOR_BACKENDS}"),
                ],
            ),
        ],
    );
    let body = br#"{"kind": "publishable", "allowed_tags": ["news"]}"#;
    let limits = DeviceLimits { allowed_tags: vec!["news".to_owned()], allowed_attributes: vec![] };
    assert_eq!(CreateKey::parse(body, NOW).unwrap().terms.grant, KeyGrant::Devices(limits));
    assert!(
        CreateKey::publishable(["news"], ["plan"]).scope(KeyScope::Read).validate(NOW).is_err()
    );
}

#[test]
fn registrations_of_apps_are_checked() {
    let long = format!("\"{}\"", "v".repeat(256));
    check::<RegisterAppDevice>(
        &json!({"platform": "ios", "sdk_type": "ios_push", "push_token": "t", "ios_env": "sandbox",
            "device_id": "d", "device_secret": "s"}),
        &[
            ("/device_secret", "-", &["device_secret: is required with device_id"]),
            ("/device_secret", "\"\"", &["device_secret: is required with device_id"]),
            ("/device_id", "-", &["device_id: is required with device_secret"]),
            ("/device_id", "\"\"", &["device_id: must not be empty"]),
            ("/user_id", "\"ada\"", &["user_id: unknown field"]),
            ("/user_token", "\"nu_\"", &["user_token: unknown field, did you mean `push_token`?"]),
            ("/sdk_type", "\"android_push\"", &["sdk_type: must be ios_push for platform ios"]),
            ("/push_token", "-", &[]),
            ("/app_version", &long, &["app_version: must be at most 255 characters"]),
            (
                "/platform",
                "\"web\"",
                &["platform: must be one of android, ios (POST /v1/subscriptions takes web, \
                   fb-messenger, chatapp)"],
            ),
        ],
    );
    let new = br#"{"platform": "android", "sdk_type": "android_push", "timezone": "GMT+02:00"}"#;
    let new = RegisterAppDevice::parse(new, NOW).unwrap();
    assert!(new.device.is_none());
    let registration = new.into_registration(DeviceId::new("made").unwrap());
    assert_eq!((registration.device_id.as_str(), registration.user_id), ("made", None));
    assert_eq!(registration.timezone_minutes, Some(120));
}

#[test]
fn user_tokens_are_checked() {
    check::<CreateUserToken>(
        &json!({"ttl_seconds": 60}),
        &[
            ("/ttl_seconds", "86400", &[]),
            ("/ttl_seconds", "86401", &["ttl_seconds: must be from 60 to 86400"]),
            ("/ttl_seconds", "59", &["ttl_seconds: must be from 60 to 86400"]),
            ("/ttl_seconds", "0", &["ttl_seconds: must be from 60 to 86400"]),
            ("/ttl_seconds", "\"1h\"", &["ttl_seconds: expected a whole number"]),
        ],
    );
    assert_eq!(CreateUserToken::parse(b"", NOW).unwrap().ttl_ms, 3_600_000);
    assert!(CreateUserToken { ttl_seconds: Some(u32::MAX) }.validate(NOW).is_err());
    let long = format!("\"{}\"", "t".repeat(256));
    check::<LogInWithToken>(
        &json!({"user_token": "nu_x"}),
        &[
            ("/user_token", "-", &["user_token: is required"]),
            ("/user_token", "\"\"", &["user_token: is required"]),
            ("/user_token", &long, &["user_token: must be at most 255 characters"]),
            ("/user_token", "1", &["user_token: expected a string"]),
            ("/user_id", "\"ada\"", &["user_id: unknown field"]),
        ],
    );
}
