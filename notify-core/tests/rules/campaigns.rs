//! Templates of campaigns.

use notify_core::{CampaignSettings, CampaignTemplate, Request, Template};
use serde_json::{Value, json};

use crate::{
    buttons::button,
    support::{NOW, changed, check, check_types, errors_of},
};

const FEED: &str = "0197f9a0-0000-7000-8000-000000000002";

fn article() -> Value {
    json!({"url": "https://x.example/a", "title": "A", "thumb_url": "https://x.example/t"})
}

pub(crate) fn full() -> Value {
    json!({
        "name": "n", "layout_id": "content_with_two",
        "settings": {
            "big_share_button": false, "small_view": false, "build_without_image": false,
            "small_share_button": false, "drag_to_expand": true,
        },
        "strings": [
            {"name": "recommendations_title", "translations": {"def": "More"}},
            {"name": "share_prefix", "translations": {"def": "p"}},
            {"name": "share_subject", "translations": {"def": "s"}},
            {"name": "ext_prefix", "translations": {"def": "e"}},
        ],
        "is_default": true,
        "features": [
            {"type": "content_feed", "position": 1, "data": {
                "feeds": [{"id": FEED}, {"url": "https://x.example/rss", "name": "f"}],
                "view_ext_on_browser": true, "recommendations_title": true}},
            {"type": "external_content", "position": 1, "data": {
                "type": "ob_sdk", "ob_widget_id": "w", "view_ext_on_browser": true,
                "recommendations_title": true}},
            {"type": "custom_feed", "position": 2, "data": {
                "articles": [article(), article()], "recommendations_title": true}},
            {"type": "action_button", "position": 1, "data": {
                "type": "custom", "title": "t", "icon": "i", "data": {"z": 1.0, "a": [null]}}},
        ],
    })
}

#[test]
fn templates_are_checked() {
    const LAYOUTS: &str = "layout_id: must be one of content_with_two, content_with_three, \
                           content_wide_image_with_two, content_wide_image_with_three";
    const NAMES: &str = "strings[1].name: must be one of recommendations_title, share_prefix, \
                         share_subject, ext_prefix";
    check::<Template>(
        &full(),
        &[
            ("/name", "-", &["name: is required"]),
            ("/name", "\"\"", &["name: is required"]),
            ("/layout_id", "-", &["layout_id: is required"]),
            ("/layout_id", "\"x\"", &[LAYOUTS]),
            ("/layout_id", "\"content_wide_image_with_two\"", &[]),
            (
                "/layout_id",
                "\"content_with_three\"",
                &[
                    "features[2].data.articles: must hold exactly 3 articles for layout content_with_three",
                ],
            ),
            ("/settings", "-", &["settings: is required"]),
            ("/settings", "null", &["settings: is required"]),
            ("/settings", "{}", &[]),
            (
                "/settings/smal_view",
                "true",
                &["settings.smal_view: unknown field, did you mean `small_view`?"],
            ),
            ("/strings", "-", &[]),
            ("/strings", "[]", &[]),
            ("/strings/1/name", "\"x\"", &[NAMES]),
            ("/strings/1/name", "\"ext_prefix\"", &["strings[3].name: is given twice"]),
            ("/strings/1/translations", "-", &["strings[1].translations: is required"]),
            ("/strings/1/translations", "{}", &["strings[1].translations.def: is required"]),
            ("/strings/1/translations/def", "\"\"", &["strings[1].translations.def: is required"]),
            ("/strings/1/translations/en", "\"x\"", &["strings[1].translations.en: unknown field"]),
            ("/is_default", "-", &[]),
            ("/features", "-", &["features: is required"]),
            ("/features", "[]", &[]),
        ],
    );
    check_types::<Template>(
        &full(),
        &[
            ("/name", "a string"),
            ("/layout_id", "a string"),
            ("/settings", "an object"),
            ("/settings/big_share_button", "true or false"),
            ("/settings/small_view", "true or false"),
            ("/settings/build_without_image", "true or false"),
            ("/settings/small_share_button", "true or false"),
            ("/settings/drag_to_expand", "true or false"),
            ("/strings", "a list"),
            ("/is_default", "true or false"),
            ("/features", "a list"),
        ],
    );
}

#[test]
fn features_are_checked() {
    const TYPES: &str = "must be one of content_feed, external_content, action_button, custom_feed";
    const WHOLE: &str = "features[0].position: must be a whole number without sign, fraction or \
                         exponent";
    check::<Template>(
        &full(),
        &[
            ("/features/0/type", "-", &["features[0].type: is required"]),
            ("/features/0/type", "\"\"", &["features[0].type: is required"]),
            ("/features/0/type", "7", &["features[0].type: expected a string"]),
            ("/features/0/type", "\"x\"", &[&format!("features[0].type: {TYPES}")]),
            ("/features/0/position", "-", &["features[0].position: is required"]),
            ("/features/0/position", "0", &["features[0].position: must be from 1 to 4294967295"]),
            ("/features/0/position", "-1", &[WHOLE]),
            ("/features/0/position", "1.5", &[WHOLE]),
            ("/features/0/position", "\"1\"", &["features[0].position: expected a whole number"]),
            ("/features/0/data", "-", &["features[0].data: is required"]),
            ("/features/0/data", "[]", &["features[0].data: expected an object"]),
            ("/features/0/data/x", "1", &["features[0].data.x: unknown field"]),
            ("/features/0/data/feeds", "-", &["features[0].data.feeds: is required"]),
            (
                "/features/0/data/feeds",
                "[]",
                &["features[0].data.feeds: must hold at least 1 element"],
            ),
            (
                "/features/0/data/feeds/0",
                "{}",
                &["features[0].data.feeds[0].id: is required, or url with name"],
            ),
            (
                "/features/0/data/feeds/0/id",
                "\"x\"",
                &["features[0].data.feeds[0].id: no feed has this id"],
            ),
            (
                "/features/0/data/feeds/0/id",
                "\"\"",
                &["features[0].data.feeds[0].id: must not be empty"],
            ),
            (
                "/features/0/data/feeds/0/url",
                "\"https://x.example\"",
                &["features[0].data.feeds[0].url: must not be combined with id"],
            ),
            (
                "/features/0/data/feeds/1/name",
                "-",
                &["features[0].data.feeds[1].name: is required with url"],
            ),
            (
                "/features/0/data/feeds/1/url",
                "-",
                &["features[0].data.feeds[1].url: is required with name"],
            ),
            (
                "/features/0/data/feeds/1/url",
                "\"feed:x\"",
                &["features[0].data.feeds[1].url: must be an absolute http or https url"],
            ),
        ],
    );
}

#[test]
fn fixed_and_external_content_are_checked() {
    check::<Template>(
        &full(),
        &[
            ("/features/1/data/type", "-", &["features[1].data.type: is required"]),
            ("/features/1/data/type", "\"x\"", &["features[1].data.type: must be one of ob_sdk"]),
            ("/features/1/data/ob_widget_id", "-", &["features[1].data.ob_widget_id: is required"]),
            ("/features/2/data/articles", "-", &["features[2].data.articles: is required"]),
            (
                "/features/2/data/articles",
                "[]",
                &["features[2].data.articles: must hold at least 2 elements"],
            ),
            (
                "/features/2/data/articles/0",
                "{\"is_external\": true}",
                &[
                    "features[2].data.articles[0].url: is required",
                    "features[2].data.articles[0].title: is required",
                    "features[2].data.articles[0].thumb_url: is required",
                ],
            ),
            (
                "/features/2/data/articles/1/thumb_url",
                "\"x\"",
                &["features[2].data.articles[1].thumb_url: must be an absolute url"],
            ),
        ],
    );
}

#[test]
fn features_of_a_type_are_limited_and_have_unique_positions() {
    let feature = |kind: &str, position: u32| {
        let full = full();
        let mut features = full["features"].as_array().unwrap().iter();
        let mut feature = features.find(|feature| feature["type"] == kind).unwrap().clone();
        feature["position"] = json!(position);
        feature
    };
    let with = |features: Vec<Value>| changed(&full(), "/features", &json!(features).to_string());
    for (kind, max) in
        [("content_feed", 1), ("external_content", 1), ("action_button", 3), ("custom_feed", 1)]
    {
        let features = |count: u32| (1..=count).map(|place| feature(kind, place)).collect();
        assert_eq!(errors_of::<Template>(&with(features(max))), [""; 0]);
        assert_eq!(
            errors_of::<Template>(&with(features(max + 1))),
            [format!("features: must hold at most {max} of type {kind}")]
        );
    }
    let twice = with(vec![feature("action_button", 2), feature("action_button", 2)]);
    assert_eq!(
        errors_of::<Template>(&twice),
        ["features[1].position: is the position of another action_button"]
    );
    let after_unknown = with(vec![json!({"type": "x", "position": 1, "data": {"y": 1}}), {
        let mut broken = feature("action_button", 0);
        broken["data"]["icon"] = json!("");
        broken
    }]);
    assert_eq!(
        errors_of::<Template>(&after_unknown),
        ["features[0].type: must be one of content_feed, external_content, action_button, \
             custom_feed",],
        "a feature after one of an unknown type is not checked"
    );
}

#[test]
fn each_layout_requires_its_number_of_articles() {
    for (layout, count) in [
        ("content_with_two", 2),
        ("content_with_three", 3),
        ("content_wide_image_with_two", 2),
        ("content_wide_image_with_three", 3),
    ] {
        let articles = |count: usize| json!(vec![article(); count]).to_string();
        let mut base = full();
        base["layout_id"] = json!(layout);
        base["features"][2]["data"]["articles"] = json!(vec![article(); count]);
        let at = "/features/2/data/articles";
        let line = |count_given| match count_given {
            1 => "features[2].data.articles: must hold at least 2 elements".to_owned(),
            4 => "features[2].data.articles: must hold at most 3 elements".to_owned(),
            _ => format!(
                "features[2].data.articles: must hold exactly {count} articles for layout {layout}"
            ),
        };
        for wrong in [count - 1, count + 1] {
            check::<Template>(&base, &[(at, &articles(wrong), &[&line(wrong)])]);
        }
    }
}

#[test]
fn stored_templates_have_defaults_and_survive_a_round_trip() {
    let minimal = json!({"name": "n", "layout_id": "content_with_two", "settings": {},
        "features": [{"type": "content_feed", "position": 1, "data": {"feeds": [{"id": FEED}]}}]});
    let template = Template::parse(minimal.to_string().as_bytes(), NOW).unwrap();
    assert_eq!(template.settings, CampaignSettings::default());
    assert_eq!(
        serde_json::to_value(&template).unwrap(),
        json!({"name": "n", "layout_id": "content_with_two", "is_default": false, "strings": [],
            "settings": {"big_share_button": true, "small_view": true,
                "build_without_image": true, "small_share_button": true, "drag_to_expand": false},
            "features": [{"type": "content_feed", "position": 1, "data": {"feeds": [{"id": FEED}],
                "view_ext_on_browser": false, "recommendations_title": false}}]})
    );
    let own = r#"{"z":1.50,"a":{"k":[null,1e3]}}"#;
    let bodies = [
        full().to_string(),
        button(&json!({"type": "cal", "start_date": 1, "end_date": 2, "description": "d"}))
            .to_string(),
        button(&json!({"type": "custom", "title": "t", "icon_url": "https://x.example"}))
            .to_string(),
        button(&json!({"type": "custom", "title": "t", "icon": "i",
            "icon_url": "https://x.example"}))
        .to_string(),
        button(&json!({"type": "wa", "title": "t", "icon": "i"})).to_string(),
        button(&json!({"type": "nav", "lat": 1.25, "lng": 2, "url": "tel:1"})).to_string(),
        button(&json!({"type": "fb", "url": "https://x.example", "data": {"own": 1}}))
            .to_string()
            .replace(r#"{"own":1}"#, own),
    ];
    for body in &bodies {
        let template = Template::parse(body.as_bytes(), NOW).unwrap();
        let stored = serde_json::to_string(&template).unwrap();
        let read: CampaignTemplate = serde_json::from_str(&stored).unwrap();
        assert_eq!(read, template);
        assert_eq!(serde_json::to_string(&read).unwrap(), stored);
        assert_eq!(
            body.contains(own),
            stored.contains(own),
            "the object is kept as it was written"
        );
    }
    assert!(serde_json::from_str::<CampaignTemplate>("{}").is_err());
}
