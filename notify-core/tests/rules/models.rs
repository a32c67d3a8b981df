//! Models that are built in code: they serialize to bodies that are read back, and they are validated.

use notify_core::{
    AndroidOptions, AndroidSettings, Audience, ButtonKind, CampaignLayout, CreateNotification,
    CreatePoll, FeatureData, IosOptions, LogIn, PatchAttributes, PatchUser, Platform,
    PreviewSegment, Priority, PushSubscription, PutSegment, RegisterDevice, ReportEvent,
    ReportEvents, ReportNotification, Request, SetTags, StringName, Subscribe, Tag, Template,
    TemplateButton, TemplateFeed, Timestamp, WebOptions, WebPushAction, json::JsonObject,
};

use crate::support::NOW;

fn round_trip<R>(model: R)
where
    R: Request + serde::Serialize + Clone + PartialEq + std::fmt::Debug,
    R::Valid: PartialEq + std::fmt::Debug,
{
    let body = serde_json::to_vec(&model).unwrap();
    assert_eq!(R::from_json(&body).unwrap(), model);
    assert_eq!(R::parse(&body, NOW), model.clone().validate(NOW));
    assert!(model.validate(NOW).is_ok());
}

#[test]
fn models_survive_a_round_trip() {
    let own = JsonObject::new(r#"{"z":1.50,"a":2}"#).unwrap();
    round_trip(
        CreateNotification::to_platforms([Platform::Ios, Platform::Web], "hi")
            .tag("vip")
            .url("myapp://x")
            .image_url("https://x.example/i.png")
            .campaign("default")
            .extra("order", own.clone())
            .send_at(Timestamp(NOW.0 + 1))
            .ttl_seconds(60)
            .priority(Priority::Normal)
            .collapse_key("k")
            .android_settings(AndroidSettings { title: Some("t".into()), sound: None })
            .ios_settings(0, "default")
            .web_push_action(WebPushAction { title: "a".into(), ..WebPushAction::default() })
            .view_button("Open")
            .ios_options(IosOptions { relevance_score: Some(1.0), ..IosOptions::default() })
            .android_options(AndroidOptions {
                visibility: Some("public".into()),
                notification_count: Some(0),
                ..AndroidOptions::default()
            })
            .web_options(WebOptions { renotify: Some(false), ..WebOptions::default() })
            .android_json(own.clone())
            .ios_json(JsonObject::new(r#"{"aps":{"alert":"a","badge":1,"sound":"s"}}"#).unwrap()),
    );
    round_trip(
        CreateNotification::to_platforms([Platform::Ios], "hi").send_at_local("2026-05-01T09:00"),
    );
    round_trip(ReportNotification::new("own", [Platform::ChatApp], "hi"));
    round_trip(CreateNotification::to_devices(["a"], ["b"], "hi").unwrap());
    round_trip(CreateNotification::to_any_devices(["a", "b"], "hi").unwrap());
    round_trip(CreateNotification::poll([Platform::Ios], CreatePoll::text("?", ["a", "b"])));
    let images = ["https://x.example/1", "https://x.example/2"];
    round_trip(CreateNotification::poll([Platform::Ios], CreatePoll::images("?", images)));
    let wide = images.map(|url| ("a", url));
    round_trip(CreateNotification::poll([Platform::Ios], CreatePoll::wide_images("?", wide)));
    round_trip(RegisterDevice::android("d", "t"));
    round_trip(RegisterDevice::ios("d", "t").ios_env(notify_core::IosEnv::Sandbox));
    round_trip(Subscribe::messenger("1"));
    round_trip(Subscribe::chat("1"));
    round_trip(SetTags { tags: vec![Tag::new("a", true)] });
    round_trip(ReportEvents {
        events: vec![ReportEvent {
            kind: "opened".to_owned(),
            notification_id: "n".to_owned(),
            device_id: "d".to_owned(),
            at: Some(NOW),
        }],
    });
    let event = TemplateButton::calendar(NOW, Timestamp(NOW.0 + 1), "d");
    let share = TemplateButton::of(ButtonKind::Wa).titled("t");
    round_trip(
        Template::new("n", CampaignLayout::ContentWithTwo)
            .feature(1, FeatureData::ActionButton(event))
            .feature(2, FeatureData::ActionButton(share)),
    );
    let mut button = TemplateButton::navigate(1.5, -2.0);
    button.data = Some(own);
    round_trip(
        Template::new("n", CampaignLayout::ContentWithThree)
            .string(StringName::ExtPrefix, "by ")
            .as_default()
            .feature(1, FeatureData::content_feed([TemplateFeed::by_url("https://x.example", "f")]))
            .feature(1, FeatureData::external_content("w"))
            .feature(1, FeatureData::ActionButton(button))
            .feature(3, FeatureData::ActionButton(TemplateButton::custom("t", "icon")))
            .feature(2, FeatureData::ActionButton(TemplateButton::video("https://x.example/v"))),
    );
}

#[test]
fn models_of_users_and_audiences_survive_a_round_trip() {
    round_trip(
        CreateNotification::to_users(["a", "b"], "hi")
            .unwrap()
            .on_platforms([Platform::Web])
            .audience(Audience::tag("vip").or(Audience::segment("fans").negate())),
    );
    round_trip(LogIn::new("u"));
    round_trip(PutSegment::new(Audience::platform().is_in(Platform::Ios, [Platform::Web])));
    round_trip(PreviewSegment::new(Audience::country().exists(false)));
    round_trip(PatchUser { attributes: Some(PatchAttributes::default().set("a", 1).remove("b")) });
}

#[test]
fn models_are_validated_without_json() {
    let mut notification = CreateNotification::to_platforms([], "a\0");
    notification.ttl_seconds = Some(u32::MAX);
    notification.content.tags = Some(vec!["a".to_owned(), "b".to_owned()]);
    assert_eq!(
        notification.validate(NOW).unwrap_err().as_slice(),
        [
            "text: must not contain U+0000",
            "ttl_seconds: must be at most 2419200",
            "platforms: must contain at least one of android, ios, web, fb-messenger, chatapp",
            "tags: must hold at most 1 element",
        ]
    );
    let subscription = Subscribe::web(PushSubscription::default());
    assert_eq!(subscription.validate(NOW).unwrap_err().as_slice().len(), 3);
}
