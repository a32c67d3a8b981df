//! Templates of campaigns.

use serde_json::{Value, json};

use super::{
    ModelRules, counted, given, instant, max_items, required, required_up_to, required_url, unset,
    up_to, uri, url,
};
use crate::schema::SERVER_ID;
use crate::{
    ACTION_BUTTONS_MAX, ButtonKind, CONTENT_FEEDS_MAX, CUSTOM_FEEDS_MAX, CampaignLayout,
    EXTERNAL_CONTENTS_MAX, FEEDS_MAX, FEEDS_MIN, LATITUDE_MAX, LISTED_NAME_CHARS_MAX,
    LONGITUDE_MAX, StringName,
};

/// Most features of all types together.
const FEATURES_MAX: usize =
    CONTENT_FEEDS_MAX + EXTERNAL_CONTENTS_MAX + ACTION_BUTTONS_MAX + CUSTOM_FEEDS_MAX;

pub(super) fn rules() -> Vec<ModelRules> {
    let articles = CampaignLayout::ALL.map(CampaignLayout::articles);
    let (fewest, most) = (articles.iter().min(), articles.iter().max());
    vec![
        ModelRules::new(
            "Template",
            vec![
                ("name", required_up_to(LISTED_NAME_CHARS_MAX)),
                ("strings", max_items(StringName::ALL.len())),
                ("features", max_items(FEATURES_MAX)),
            ],
        ),
        ModelRules::new("Translations", vec![("def", required())]),
        ModelRules::new(
            "Feature",
            vec![("position", json!({ "format": "int64", "minimum": 1, "maximum": u32::MAX }))],
        ),
        ModelRules::new("ContentFeed", vec![("feeds", counted(FEEDS_MIN, FEEDS_MAX))]),
        feed(),
        ModelRules::new("ExternalContent", vec![("ob_widget_id", json!({}))]).together(json!({
            "required": ["type", "ob_widget_id"],
            "properties": { "ob_widget_id": given() },
        })),
        ModelRules::new(
            "CustomFeed",
            vec![("articles", json!({ "minItems": fewest, "maxItems": most }))],
        ),
        ModelRules::new(
            "Article",
            vec![("url", required_url()), ("title", required()), ("thumb_url", required_url())],
        ),
        button(),
    ]
}

fn feed() -> ModelRules {
    let fields = vec![
        ("id", json!({ "format": "uuid", "pattern": SERVER_ID })),
        ("url", url()),
        ("name", up_to(LISTED_NAME_CHARS_MAX)),
    ];
    ModelRules::new("TemplateFeed", fields).together(json!({ "anyOf": [
        { "required": ["id"], "properties": { "id": given(), "url": unset() } },
        {
            "required": ["url", "name"],
            "properties": { "id": { "type": "null" }, "url": given(), "name": given() },
        },
    ] }))
}

fn button() -> ModelRules {
    let fields = vec![
        ("url", uri()),
        ("start_date", instant()),
        ("end_date", instant()),
        ("icon_url", url()),
    ];
    let variants: Vec<Value> = ButtonKind::ALL.into_iter().flat_map(variants).collect();
    ModelRules::new("TemplateButton", fields).together(json!({ "anyOf": variants }))
}

/// Required fields of a button of the given type; several variants where there is a choice.
fn variants(kind: ButtonKind) -> Vec<Value> {
    let of = |required: &[&str], form: Value| {
        let mut properties = serde_json::Map::new();
        properties.insert("type".to_owned(), json!({ "const": kind.as_str() }));
        properties.extend(required.iter().map(|name| ((*name).to_owned(), form.clone())));
        json!({ "required": required, "properties": properties })
    };
    match kind {
        ButtonKind::Fb | ButtonKind::Wa | ButtonKind::Sms | ButtonKind::Email => {
            vec![of(&[], json!(true))]
        }
        ButtonKind::Cal => {
            let mut cal = of(&["start_date", "end_date"], json!({ "type": "integer" }));
            cal["required"] = json!(["start_date", "end_date", "description"]);
            cal["properties"]["description"] = given();
            vec![cal]
        }
        ButtonKind::Video | ButtonKind::Url => vec![of(&["url"], given())],
        ButtonKind::Nav => {
            let within = |max: f64| json!({ "type": "number", "minimum": -max, "maximum": max });
            let mut nav = of(&["lat", "lng"], json!(true));
            nav["properties"]["lat"] = within(LATITUDE_MAX);
            nav["properties"]["lng"] = within(LONGITUDE_MAX);
            vec![nav]
        }
        ButtonKind::Custom => {
            vec![of(&["title", "icon"], given()), of(&["title", "icon_url"], given())]
        }
    }
}
