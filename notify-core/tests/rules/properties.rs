//! Reading any bytes results in a value or a limited list of violations, and never panics.

use notify_core::{
    AnswerPoll, CreateApp, CreateFeed, CreateKey, CreateNotification, LogIn, PatchAttributes,
    PatchUser, PreviewSegment, PutSegment, RegisterDevice, ReportEvents, ReportNotification,
    Request, SetCampaignStatus, SetTags, Subscribe, Template, UpdateApp, VIOLATIONS_LISTED_MAX,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::NOW;

fn read<R: Request>(body: &[u8]) {
    let errors = R::parse(body, NOW).err();
    let count = errors.map_or(0, |errors| errors.as_slice().len());
    assert!(count <= VIOLATIONS_LISTED_MAX + 1);
    if let Ok(model) = R::from_json(body) {
        let parsed = R::parse(body, NOW).is_ok();
        assert_eq!(model.validate(NOW).is_ok(), parsed, "`parse` and `validate` agree");
    }
}

fn read_as_everything(body: &[u8]) {
    read::<CreateNotification>(body);
    read::<ReportNotification>(body);
    read::<RegisterDevice>(body);
    read::<Subscribe>(body);
    read::<SetTags>(body);
    read::<Template>(body);
    read::<SetCampaignStatus>(body);
    read::<CreateFeed>(body);
    read::<ReportEvents>(body);
    read::<AnswerPoll>(body);
    read::<PatchAttributes>(body);
    read::<PatchUser>(body);
    read::<LogIn>(body);
    read::<PutSegment>(body);
    read::<PreviewSegment>(body);
    read::<CreateApp>(body);
    read::<UpdateApp>(body);
    read::<CreateKey>(body);
}

const NAMES: [&str; 67] = [
    "text",
    "per_minute",
    "canary",
    "percent",
    "ios_options",
    "relevance_score",
    "android_options",
    "notification_count",
    "web_options",
    "silent",
    "personalize",
    "platforms",
    "android_device_ids",
    "ios_device_ids",
    "device_ids",
    "tags",
    "url",
    "image_url",
    "campaign_id",
    "custom_json_key",
    "custom_json_value",
    "android_json",
    "ios_json",
    "aps",
    "ios_settings",
    "badge",
    "sound",
    "web_push_settings",
    "actions",
    "title",
    "poll",
    "layout_id",
    "answers",
    "send_at",
    "send_at_local",
    "ttl_seconds",
    "id",
    "device_id",
    "platform",
    "sdk_type",
    "subscription",
    "keys",
    "name",
    "settings",
    "strings",
    "translations",
    "features",
    "type",
    "position",
    "data",
    "events",
    "user_ids",
    "user_id",
    "attributes",
    "audience",
    "all",
    "any",
    "not",
    "tag",
    "segment",
    "attribute",
    "field",
    "is",
    "in",
    "exists",
    "at_least",
    "within_days",
];
const TEXTS: [&str; 18] = [
    "",
    "a",
    "ios",
    "android",
    "web",
    "ios_push",
    "poll_text",
    "https://x.example/",
    "default",
    "action_button",
    "custom_feed",
    "content_feed",
    "content_with_two",
    "cal",
    "bool",
    "2026-02-28T10:00",
    "language",
    "3.10",
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..4).prop_map(Value::from),
        any::<f64>().prop_map(|number| json!(number)),
        proptest::sample::select(&TEXTS[..]).prop_map(Value::from),
        "\\PC{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 6, |inner| {
        let name = prop_oneof![
            9 => proptest::sample::select(&NAMES[..]).prop_map(str::to_owned),
            1 => "\\PC{0,6}",
        ];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name, inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_are_accepted_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        read_as_everything(&body);
    }

    #[test]
    fn any_text_like_json_is_accepted_or_refused(body in "[\\[\\]{}\",:0-9eE+.\\\\u\\-a-d \u{0}]{0,80}") {
        read_as_everything(body.as_bytes());
    }

    #[test]
    fn any_json_of_known_names_is_accepted_or_refused(body in any_value()) {
        read_as_everything(body.to_string().as_bytes());
    }

    #[test]
    fn a_body_cut_anywhere_is_refused(cut in 1_usize..60) {
        let body = json!({"device_id": "d", "platform": "ios", "sdk_type": "ios_push"}).to_string();
        let cut = cut.min(body.len() - 1);
        prop_assert!(RegisterDevice::parse(&body.as_bytes()[..cut], NOW).is_err());
        prop_assert!(RegisterDevice::parse(body.as_bytes(), NOW).is_ok());
    }
}
