//! Previews: the payload that would be sent, and notes on it.

use notify_core::{CampaignRef, Content, Platform};
use serde_json::{Value, json};

use super::{Given, ID, full, object, poll, silent, to_apns, with_options};
use crate::payload::{PreviewSettings, preview};

fn settings(fcm_enriched_as_data: bool) -> PreviewSettings {
    PreviewSettings { apns_topic: Some("com.example.shop".into()), fcm_enriched_as_data }
}

fn seen(given: &Given, platform: Platform, as_data: bool) -> (Option<Value>, Vec<String>) {
    let preview = preview(platform, &given.context(), &settings(as_data));
    (preview.payload.map(|json| serde_json::from_slice(&json).unwrap()), preview.problems)
}

#[test]
fn preview_payload_equals_the_sent_one() {
    for given in [full(), Given::text("Hi"), poll()] {
        assert_eq!(seen(&given, Platform::Ios, false).0, Some(given.apns()));
        assert_eq!(seen(&given, Platform::Web, false).0, Some(given.web()));
        for as_data in [false, true] {
            let mut sent = given.fcm(as_data);
            sent["message"]["token"] = json!("device-token");
            assert_eq!(seen(&given, Platform::Android, as_data).0, Some(sent));
        }
    }
}

#[test]
fn preview_headers_equal_the_sent_ones_without_authorization() {
    let preview = preview(Platform::Ios, &Given::text("Hi").context(), &settings(false));
    let id = to_apns::delivery_id(&ID.parse().unwrap(), "device-token").to_string();
    let expected = [
        ("apns-push-type", "alert"),
        ("apns-priority", "10"),
        ("apns-expiration", "1700000000"),
        ("apns-collapse-id", ID),
        ("apns-id", &id),
        ("apns-topic", "com.example.shop"),
    ];
    for (name, value) in expected {
        assert_eq!(preview.headers[name], value);
    }
    assert_eq!(preview.headers.len(), expected.len());
    assert_eq!((preview.size, preview.limit), (preview.payload.unwrap().len(), 4_096));
}

#[test]
fn preview_lists_problems() {
    const SLEEPS: &str = "while the app sleeps the system shows this without its campaign or poll: \
        set enriched_as_data of the fcm provider";
    let raw = |platform| {
        let mut given = Given::text("Hi");
        let Content::Message(message) = &mut given.content else { unreachable!() };
        match platform {
            Platform::Ios => {
                message.ios_json = Some(object(r#"{"aps":{"alert":"a","badge":1,"sound":"s"}}"#));
            }
            Platform::Android => message.android_json = Some(object(r#"{"k":"v"}"#)),
            Platform::Web | Platform::FbMessenger | Platform::ChatApp => {}
        }
        given
    };
    let long = || Given { app_name: "t".repeat(5_000), ..Given::text("Hi") };
    let rows: [(Given, Platform, bool, &[&str]); 9] = [
        (Given::text("Hi"), Platform::Ios, false, &[]),
        (Given::text("Hi"), Platform::Android, false, &[]),
        (poll(), Platform::Android, false, &[SLEEPS]),
        (poll(), Platform::Android, true, &[]),
        (
            raw(Platform::Ios),
            Platform::Ios,
            false,
            &["ios_json replaces everything else of the notification"],
        ),
        (
            raw(Platform::Android),
            Platform::Android,
            false,
            &["android_json replaces everything else and goes as data: the app has to show it, \
               and a repeat after a crash is not recognised"],
        ),
        (long(), Platform::Ios, false, &["the title is shortened to fit"]),
        (long(), Platform::Android, false, &["the title is shortened to fit"]),
        (
            Given::text("x".repeat(5_000)),
            Platform::FbMessenger,
            false,
            &["the payload for fb-messenger would be 5000 characters, 2000 are allowed"],
        ),
    ];
    for (given, platform, as_data, problems) in rows {
        assert_eq!(seen(&given, platform, as_data).1, problems, "{platform}");
    }
}

#[test]
fn oversized_preview_has_size_and_no_payload() {
    let given = Given::text("x".repeat(5_000));
    for platform in [Platform::Android, Platform::Ios, Platform::Web, Platform::ChatApp] {
        let preview = preview(platform, &given.context(), &settings(false));
        assert!(preview.payload.is_none() && preview.size >= 5_000, "{platform}");
        assert!(preview.size > preview.limit && preview.problems.len() == 1, "{platform}");
    }
}

#[test]
fn preview_notes_options_without_effect() {
    let mut message = with_options();
    message.android.analytics_label = Some("spring sale".to_owned());
    message.campaign = Some(CampaignRef::Default);
    let given = Given::message(message);
    assert_eq!(
        seen(&given, Platform::Android, true).1,
        [
            "Google refuses this analytics_label: at most 50 of A-Z a-z 0-9 - _ . ~ %",
            "android_options do not show: the message goes as data alone",
        ]
    );
    assert!(seen(&Given::message(with_options()), Platform::Android, true).1.is_empty());
}

#[test]
fn preview_of_a_silent_message_has_no_notes_on_what_shows() {
    const FEW: &str = "silent: Apple delivers few of these messages, when the power state of the \
        device allows it";
    assert_eq!(seen(&silent(), Platform::Ios, false).1, [FEW]);
    assert!(seen(&silent(), Platform::Android, false).1.is_empty());
}
