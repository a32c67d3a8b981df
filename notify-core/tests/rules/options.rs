//! `ios_options`, `android_options` and `web_options`.

use notify_core::{
    AndroidPresentation, AndroidVisibility, Content, CreateNotification, InterruptionLevel,
    IosPresentation, Message, ReportNotification, Request, WebPresentation,
};
use serde_json::{Value, json};

use crate::notifications::{full, minimal, parse};
use crate::support::{NOW, check};

fn message(body: &Value) -> Message {
    let Content::Message(message) = parse(body).content else { panic!("no message") };
    *message
}

#[test]
fn every_option_is_kept() {
    let message = message(&full());
    assert_eq!(
        message.ios,
        IosPresentation {
            subtitle: Some("s".to_owned()),
            thread_id: Some("t".to_owned()),
            category: Some("c".to_owned()),
            interruption_level: Some(InterruptionLevel::Passive),
            relevance_score: Some(0.5),
            mutable_content: Some(true),
        }
    );
    assert_eq!(
        message.android,
        AndroidPresentation {
            channel_id: Some("c".to_owned()),
            icon: Some("i".to_owned()),
            color: Some("#12aBeF".to_owned()),
            notification_count: Some(3),
            visibility: Some(AndroidVisibility::Secret),
            analytics_label: Some("l".to_owned()),
            direct_boot_ok: Some(true),
        }
    );
    assert_eq!(
        message.web,
        WebPresentation {
            icon: Some("https://x.example/i.png".to_owned()),
            badge: Some("https://x.example/b.png".to_owned()),
            require_interaction: Some(true),
            silent: Some(false),
            renotify: Some(true),
        }
    );
    let report = json!({"id": "own", "text": "hi", "platforms": ["ios"],
        "ios_options": {"subtitle": "s"}});
    let report = ReportNotification::parse(report.to_string().as_bytes(), NOW).unwrap();
    let Content::Message(reported) = report.content else { panic!("no message") };
    assert_eq!(reported.ios.subtitle.as_deref(), Some("s"));
}

#[test]
fn options_are_checked() {
    const LEVELS: &str =
        "ios_options.interruption_level: must be one of passive, active, time-sensitive, critical";
    const SCORE: &str = "ios_options.relevance_score: must be from 0 to 1";
    const COLOR: &str = "android_options.color: must be a color as #rrggbb";
    const WHOLE: &str = "android_options.notification_count: must be a whole number without sign, \
        fraction or exponent";
    let rows: &[(&str, &str, &[&str])] = &[
        ("/ios_options", "{}", &[]),
        ("/ios_options/subtitle", "\"\"", &[]),
        ("/ios_options/interruption_level", "\"\"", &[]),
        ("/ios_options/interruption_level", "\"time-sensitive\"", &[]),
        ("/ios_options/interruption_level", "\"loud\"", &[LEVELS]),
        ("/ios_options/relevance_score", "0", &[]),
        ("/ios_options/relevance_score", "1", &[]),
        ("/ios_options/relevance_score", "1.0001", &[SCORE]),
        ("/ios_options/relevance_score", "-0.1", &[SCORE]),
        (
            "/ios_options/sub_title",
            "\"x\"",
            &["ios_options.sub_title: unknown field, did you mean `subtitle`?"],
        ),
        ("/android_options", "{}", &[]),
        ("/android_options/color", "\"\"", &[]),
        ("/android_options/color", "\"#000000\"", &[]),
        ("/android_options/color", "\"000000\"", &[COLOR]),
        ("/android_options/color", "\"#00000\"", &[COLOR]),
        ("/android_options/color", "\"#0000000\"", &[COLOR]),
        ("/android_options/color", "\"#00000g\"", &[COLOR]),
        ("/android_options/color", "\"#äää\"", &[COLOR]),
        ("/android_options/notification_count", "2147483647", &[]),
        (
            "/android_options/notification_count",
            "2147483648",
            &["android_options.notification_count: must be at most 2147483647"],
        ),
        ("/android_options/notification_count", "-1", &[WHOLE]),
        (
            "/android_options/visibility",
            "\"hidden\"",
            &["android_options.visibility: must be one of private, public, secret"],
        ),
        ("/web_options", "{}", &[]),
        ("/web_options/badge", "\"\"", &[]),
        (
            "/web_options/badge",
            "\"app:b\"",
            &["web_options.badge: must be an absolute http or https url"],
        ),
    ];
    check::<CreateNotification>(&full(), rows);
}

#[test]
fn polls_ignore_options() {
    let mut poll = minimal();
    poll["poll"] = json!({"text": "?", "layout_id": "poll_text",
        "answers": [{"text": "a"}, {"text": "b"}]});
    poll["ios_options"] = json!({"interruption_level": "loud", "relevance_score": 7});
    poll["android_options"] = json!({"color": "red", "notification_count": -1.5});
    poll["web_options"] = json!({"icon": "app:i"});
    check::<CreateNotification>(
        &poll,
        &[
            ("/ios_options", "{}", &[]),
            ("/ios_options/subtitle", "1", &["ios_options.subtitle: expected a string"]),
            (
                "/android_options/notification_count",
                "\"x\"",
                &["android_options.notification_count: expected a number"],
            ),
        ],
    );
}
