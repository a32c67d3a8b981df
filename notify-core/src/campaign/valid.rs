//! The validated form of templates, and the rules of templates. The server stores and returns the
//! validated form, which has the defaults of absent fields.

use serde::{Deserialize, Serialize};

use super::{
    ACTION_BUTTONS_MAX, ARTICLES_MAX, ARTICLES_MIN, Article, ArticleFields, ButtonFields,
    ButtonKind, CONTENT_FEEDS_MAX, CUSTOM_FEEDS_MAX, CampaignArticle, CampaignButton,
    CampaignContentFeed, CampaignCustomFeed, CampaignExternalContent, CampaignFeature,
    CampaignFeatureData, ContentFeed, CustomFeed, CustomFeedFields, EXTERNAL_CONTENTS_MAX,
    ExternalContent, Feature, FeatureData, FeatureKind, FeedRef, LATITUDE_MAX, LONGITUDE_MAX,
    Template, TemplateButton, TemplateFeed, TemplateFields, TemplateSettings, TemplateString,
    TemplateStringFields, Translations,
};
use crate::field::{AnyObject, Integer, Kind, Model, ModelFields, Nested, Text};
use crate::is_blank;
use crate::json::{BodyPresence, Object, Value};
use crate::request::request;
#[cfg(feature = "openapi")]
use crate::schema::{Schemas, Together, given, given_text, unset};
use crate::violations::{Path, REQUIRED, Validator};
use crate::wire_enum::wire_enum;

/// The validated form of [`crate::Template`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTemplate {
    /// Name, not empty.
    pub name: String,
    /// Layout.
    pub layout_id: CampaignLayout,
    /// Settings.
    pub settings: CampaignSettings,
    /// Constant texts; each name occurs at most once.
    pub strings: Vec<CampaignString>,
    /// Whether it is the default campaign.
    pub is_default: bool,
    /// Features.
    pub features: Vec<CampaignFeature>,
}

wire_enum! {
    /// Layout of a campaign.
    pub enum CampaignLayout {
        /// Content with two articles.
        ContentWithTwo = "content_with_two",
        /// Content with three articles.
        ContentWithThree = "content_with_three",
        /// Wide image with two articles.
        ContentWideImageWithTwo = "content_wide_image_with_two",
        /// Wide image with three articles.
        ContentWideImageWithThree = "content_wide_image_with_three",
    }
}

impl CampaignLayout {
    /// How many articles the layout shows.
    #[must_use]
    pub const fn articles(self) -> usize {
        match self {
            Self::ContentWithTwo | Self::ContentWideImageWithTwo => 2,
            Self::ContentWithThree | Self::ContentWideImageWithThree => 3,
        }
    }
}

/// Settings of a campaign.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[expect(clippy::struct_excessive_bools, reason = "the fields of the API")]
pub struct CampaignSettings {
    /// Show the share button in the big view.
    pub big_share_button: bool,
    /// Show the enrichment in the small view.
    pub small_view: bool,
    /// Show the enrichment even if the notification has no image.
    pub build_without_image: bool,
    /// Show the share button in the small view.
    pub small_share_button: bool,
    /// Show a drag-to-expand text in place of the share button in the small view.
    pub drag_to_expand: bool,
}

impl Default for CampaignSettings {
    fn default() -> Self {
        Self {
            big_share_button: true,
            small_view: true,
            build_without_image: true,
            small_share_button: true,
            drag_to_expand: false,
        }
    }
}

wire_enum! {
    /// Name of a constant text.
    pub enum StringName {
        /// Text above recommendations.
        RecommendationsTitle = "recommendations_title",
        /// Prefix of shared text.
        SharePrefix = "share_prefix",
        /// Subject of the share action.
        ShareSubject = "share_subject",
        /// Prefix of external content.
        ExtPrefix = "ext_prefix",
    }
}

/// A constant text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignString {
    /// Name.
    pub name: StringName,
    /// The text.
    pub translations: CampaignTranslations,
}

/// Values of a constant text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CampaignTranslations {
    /// The default value.
    pub def: String,
}

request!(Template => CampaignTemplate, BodyPresence::Required);

impl Model for Template {
    type Valid = CampaignTemplate;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignTemplate> {
        let fields = self.check_fields(at, validator);
        if let Ok(layout) = self.layout_id.parse() {
            check_articles(&self.features, layout, &at.field("features"), validator);
        }
        let strings = self.strings.as_deref().unwrap_or_default();
        for (index, string) in strings.iter().enumerate() {
            let is_known = string.name.parse::<StringName>().is_ok();
            if is_known && strings[..index].iter().any(|earlier| earlier.name == string.name) {
                let at = at.field("strings");
                validator.violation(&at.index(index).field("name"), "is given twice");
            }
        }
        let TemplateFields { name, layout_id, settings, strings, is_default, features } = fields?;
        Some(CampaignTemplate {
            name,
            layout_id,
            settings: settings?,
            strings: strings.unwrap_or_default(),
            is_default: is_default.unwrap_or(false),
            features,
        })
    }
}

impl Model for TemplateSettings {
    type Valid = CampaignSettings;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignSettings> {
        let given = self.check_fields(at, validator)?;
        let defaults = CampaignSettings::default();
        Some(CampaignSettings {
            big_share_button: given.big_share_button.unwrap_or(defaults.big_share_button),
            small_view: given.small_view.unwrap_or(defaults.small_view),
            build_without_image: given.build_without_image.unwrap_or(defaults.build_without_image),
            small_share_button: given.small_share_button.unwrap_or(defaults.small_share_button),
            drag_to_expand: given.drag_to_expand.unwrap_or(defaults.drag_to_expand),
        })
    }
}

impl Model for TemplateString {
    type Valid = CampaignString;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignString> {
        let TemplateStringFields { name, translations } = self.check_fields(at, validator)?;
        Some(CampaignString { name, translations })
    }
}

impl Model for Translations {
    type Valid = CampaignTranslations;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignTranslations> {
        Some(CampaignTranslations { def: self.check_fields(at, validator)?.def })
    }
}

/// Checks that each custom feed has as many articles as the layout.
fn check_articles(
    features: &[Feature],
    layout: CampaignLayout,
    at: &Path<'_>,
    validator: &mut Validator,
) {
    for (index, feature) in features.iter().enumerate() {
        let FeatureData::CustomFeed(CustomFeed { articles, .. }) = &feature.data else { continue };
        // Other numbers are refused in every layout.
        let is_of_a_layout = (ARTICLES_MIN..=ARTICLES_MAX).contains(&articles.len());
        if is_of_a_layout && articles.len() != layout.articles() {
            let count = layout.articles();
            let what = format_args!("must hold exactly {count} articles for layout {layout}");
            let at = at.index(index);
            validator.violation(&at.field("data").field("articles"), what);
        }
    }
}

/// Most features of all types together.
const FEATURES_MAX: usize =
    CONTENT_FEEDS_MAX + EXTERNAL_CONTENTS_MAX + ACTION_BUTTONS_MAX + CUSTOM_FEEDS_MAX;

/// The position of a feature.
type Position = Integer<1, { u32::MAX }>;

/// The features of a template. Each type has a limit, and its features have different positions.
pub(crate) struct Features;

impl Kind for Features {
    type Raw = Vec<Feature>;
    type Valid = Vec<CampaignFeature>;

    fn read(value: Value<'_, '_>) -> Option<Vec<Feature>> {
        // Features after one that the model cannot express would have another index in violations.
        let mut are_readable = true;
        value.list(FEATURES_MAX, |value| {
            let feature = value.object(Feature::read).flatten();
            are_readable &= feature.is_some();
            feature.filter(|_| are_readable)
        })
    }

    fn check(
        raw: &Vec<Feature>,
        at: &Path<'_>,
        validator: &mut Validator,
    ) -> Option<Vec<CampaignFeature>> {
        for kind in FeatureKind::ALL {
            let count = raw.iter().filter(|feature| feature.data.kind() == kind).count();
            validator.max_len(at, count, count_max(kind), format_args!("of type {kind}"));
        }
        let mut used_slots = Vec::with_capacity(raw.len());
        let mut valid = Vec::with_capacity(raw.len());
        for (index, feature) in raw.iter().enumerate() {
            let at = at.index(index);
            let kind = feature.data.kind();
            let slot = (kind, feature.position);
            let position = Position::check(&feature.position, &at.field("position"), validator);
            if position.is_some() && used_slots.contains(&slot) {
                let what = format_args!("is the position of another {kind}");
                validator.violation(&at.field("position"), what);
            }
            used_slots.push(slot);
            let data = feature.data.check(&at.field("data"), validator);
            valid.extend(
                position.zip(data).map(|(position, data)| CampaignFeature { position, data }),
            );
        }
        (valid.len() == raw.len()).then_some(valid)
    }

    #[cfg(feature = "openapi")]
    fn schema(schemas: &mut Schemas) -> serde_json::Value {
        use serde_json::json;

        let variants: Vec<_> = FeatureKind::ALL
            .into_iter()
            .map(|kind| {
                let data = match kind {
                    FeatureKind::ContentFeed => schemas.add::<ContentFeed>(),
                    FeatureKind::ExternalContent => schemas.add::<ExternalContent>(),
                    FeatureKind::ActionButton => schemas.add::<TemplateButton>(),
                    FeatureKind::CustomFeed => schemas.add::<CustomFeed>(),
                };
                let mut position = Position::schema(schemas);
                position["description"] = json!(
                    "Position in the notification, from 1; unique among the features of one type."
                );
                json!({
                    "type": "object",
                    "required": ["position", "type", "data"],
                    "properties": {
                        "position": position,
                        "type": { "type": "string", "enum": [kind.as_str()] },
                        "data": data,
                    },
                    "additionalProperties": false,
                })
            })
            .collect();
        let feature = schemas.add_schema(
            "Feature",
            json!({
                "description": "A feature of a template. Its `type` determines the fields of `data`.",
                "oneOf": variants,
            }),
        );
        json!({ "type": "array", "maxItems": FEATURES_MAX, "items": feature })
    }
}

impl Feature {
    fn read(object: &mut Object<'_, '_>) -> Option<Self> {
        object.require("type");
        object.require("position");
        object.require("data");
        let position = object.take("position", Position::read).unwrap_or_default();
        let Some(kind) = Self::read_kind(object) else {
            // The fields of `data` depend on the type. Without one, `data` must only be an object.
            object.take("data", AnyObject::read);
            return None;
        };
        let data = match kind {
            FeatureKind::ContentFeed => {
                FeatureData::ContentFeed(object.take("data", Nested::<ContentFeed>::read)?)
            }
            FeatureKind::ExternalContent => {
                FeatureData::ExternalContent(object.take("data", Nested::<ExternalContent>::read)?)
            }
            FeatureKind::ActionButton => {
                FeatureData::ActionButton(object.take("data", Nested::<TemplateButton>::read)?)
            }
            FeatureKind::CustomFeed => {
                FeatureData::CustomFeed(object.take("data", Nested::<CustomFeed>::read)?)
            }
        };
        Some(Self { position, data })
    }

    /// Reads the type. The model cannot express a feature without a known one.
    fn read_kind(object: &mut Object<'_, '_>) -> Option<FeatureKind> {
        let name: String = object.take("type", <Text>::read)?;
        match name.parse() {
            Ok(kind) => return Some(kind),
            Err(_) if name.is_empty() => object.violation("type", REQUIRED),
            Err(unknown) => object.violation("type", unknown),
        }
        None
    }
}

/// The largest number of features of this type in a template.
fn count_max(kind: FeatureKind) -> usize {
    match kind {
        FeatureKind::ContentFeed => CONTENT_FEEDS_MAX,
        FeatureKind::ExternalContent => EXTERNAL_CONTENTS_MAX,
        FeatureKind::ActionButton => ACTION_BUTTONS_MAX,
        FeatureKind::CustomFeed => CUSTOM_FEEDS_MAX,
    }
}

impl FeatureData {
    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignFeatureData> {
        Some(match self {
            Self::ContentFeed(feed) => CampaignFeatureData::ContentFeed(feed.check(at, validator)?),
            Self::ExternalContent(content) => {
                CampaignFeatureData::ExternalContent(content.check(at, validator)?)
            }
            Self::ActionButton(button) => {
                CampaignFeatureData::ActionButton(button.check(at, validator)?)
            }
            Self::CustomFeed(feed) => CampaignFeatureData::CustomFeed(feed.check(at, validator)?),
        })
    }
}

impl Model for ContentFeed {
    type Valid = CampaignContentFeed;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignContentFeed> {
        let fields = self.check_fields(at, validator)?;
        Some(CampaignContentFeed {
            feeds: fields.feeds,
            view_ext_on_browser: fields.view_ext_on_browser.unwrap_or(false),
            recommendations_title: fields.recommendations_title.unwrap_or(false),
        })
    }
}

impl Model for TemplateFeed {
    type Valid = FeedRef;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<FeedRef> {
        let fields = self.check_fields(at, validator);
        let has_url = self.url.as_ref().is_some_and(|url| !url.is_empty());
        let has_name = self.name.as_ref().is_some_and(|name| !is_blank(name));
        let violation = match (self.id.is_some(), has_url, has_name) {
            (true, false, _) | (false, true, true) => None,
            (true, true, _) => Some(("url", "must not be combined with id")),
            (false, true, false) => Some(("name", "is required with url")),
            (false, false, true) => Some(("url", "is required with name")),
            (false, false, false) => Some(("id", "is required, or url with name")),
        };
        if let Some((field, what)) = violation {
            validator.violation(&at.field(field), what);
        }
        let fields = fields?;
        match fields.id {
            Some(id) => Some(FeedRef::Id { id }),
            None => Some(FeedRef::Url { url: fields.url?, name: fields.name? }),
        }
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        use serde_json::json;
        Together {
            about: "`url` requires `name`.",
            keywords: json!({ "anyOf": [
                { "required": ["id"], "properties": { "id": given(), "url": unset() } },
                {
                    "required": ["url", "name"],
                    "properties": { "id": { "type": "null" }, "url": given(), "name": given_text() },
                },
            ] }),
        }
    }
}

impl Model for ExternalContent {
    type Valid = CampaignExternalContent;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignExternalContent> {
        let fields = self.check_fields(at, validator)?;
        Some(CampaignExternalContent {
            kind: fields.kind,
            ob_widget_id: fields.ob_widget_id?,
            view_ext_on_browser: fields.view_ext_on_browser.unwrap_or(false),
            recommendations_title: fields.recommendations_title.unwrap_or(false),
        })
    }
}

impl Model for CustomFeed {
    type Valid = CampaignCustomFeed;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignCustomFeed> {
        let CustomFeedFields { articles, recommendations_title } =
            self.check_fields(at, validator)?;
        let recommendations_title = recommendations_title.unwrap_or(false);
        Some(CampaignCustomFeed { articles, recommendations_title })
    }
}

impl Model for Article {
    type Valid = CampaignArticle;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignArticle> {
        let ArticleFields { url, title, thumb_url, is_external } =
            self.check_fields(at, validator)?;
        let is_external = is_external.unwrap_or(false);
        Some(CampaignArticle { url, title, thumb_url, is_external })
    }
}

impl Model for TemplateButton {
    type Valid = CampaignButton;

    fn check(&self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignButton> {
        let fields = self.check_fields(at, validator);
        if let Ok(kind) = self.kind.parse() {
            self.check_required(kind, at, validator);
        }
        let fields = fields?;
        if fields.kind == ButtonKind::Cal
            && fields.end_date.is_some_and(|end| Some(end) < fields.start_date)
        {
            validator.violation(&at.field("end_date"), "must not be before start_date");
        }
        let mut others = ButtonFields {
            url: fields.url,
            start_date: fields.start_date,
            end_date: fields.end_date,
            description: fields.description,
            lat: fields.lat,
            lng: fields.lng,
            title: fields.title,
            icon: fields.icon,
            icon_url: fields.icon_url,
        };
        let action = others.take_action(fields.kind)?;
        Some(CampaignButton { action, data: fields.data, other_fields: others })
    }

    #[cfg(feature = "openapi")]
    fn together() -> Together {
        let variants: Vec<_> = ButtonKind::ALL.into_iter().flat_map(button_variants).collect();
        Together {
            about: "`cal` requires `start_date`, `end_date` and `description`; `video` and `url` require `url`; \
                `nav` requires `lat` and `lng`; `custom` requires `title` and at least one of `icon` and \
                `icon_url`.",
            keywords: serde_json::json!({ "anyOf": variants }),
        }
    }
}

impl TemplateButton {
    /// Checks the rules of the type: the fields that it requires, and what it requires of them.
    fn check_required(&self, kind: ButtonKind, at: &Path<'_>, validator: &mut Validator) {
        let has = |text: &Option<String>| text.as_ref().is_some_and(|text| !is_blank(text));
        let required: &[(&str, bool)] = match kind {
            ButtonKind::Fb | ButtonKind::Wa | ButtonKind::Sms | ButtonKind::Email => &[],
            ButtonKind::Cal => &[
                ("start_date", self.start_date.is_some()),
                ("end_date", self.end_date.is_some()),
                ("description", has(&self.description)),
            ],
            ButtonKind::Video | ButtonKind::Url => &[("url", has(&self.url))],
            ButtonKind::Nav => &[("lat", self.lat.is_some()), ("lng", self.lng.is_some())],
            ButtonKind::Custom => &[("title", has(&self.title))],
        };
        for (name, _) in required.iter().filter(|(_, is_given)| !is_given) {
            validator.violation(&at.field(name), format_args!("is required for type {kind}"));
        }
        match kind {
            ButtonKind::Custom if !has(&self.icon) && !has(&self.icon_url) => {
                validator.violation(&at.field("icon"), "is required for type custom, or icon_url");
            }
            ButtonKind::Nav => {
                check_degrees(&at.field("lat"), self.lat, LATITUDE_MAX, validator);
                check_degrees(&at.field("lng"), self.lng, LONGITUDE_MAX, validator);
            }
            _ => {}
        }
    }
}

fn check_degrees(at: &Path<'_>, degrees: Option<f64>, max: f64, validator: &mut Validator) {
    if degrees.is_some_and(|degrees| !(-max..=max).contains(&degrees)) {
        validator.violation(at, format_args!("must be within ±{max}"));
    }
}

/// The required fields of a button of the given type. There are several variants if the caller has a
/// choice, such as between two kinds of icons.
#[cfg(feature = "openapi")]
fn button_variants(kind: ButtonKind) -> Vec<serde_json::Value> {
    use serde_json::{Map, Value, json};

    let variant = |required: &[&str], form: Value| {
        let mut properties = Map::new();
        properties.insert("type".to_owned(), json!({ "const": kind.as_str() }));
        properties.extend(required.iter().map(|name| ((*name).to_owned(), form.clone())));
        json!({ "required": required, "properties": properties })
    };
    match kind {
        ButtonKind::Fb | ButtonKind::Wa | ButtonKind::Sms | ButtonKind::Email => {
            vec![variant(&[], json!(true))]
        }
        ButtonKind::Cal => {
            let mut cal = variant(&["start_date", "end_date"], json!({ "type": "integer" }));
            cal["required"] = json!(["start_date", "end_date", "description"]);
            cal["properties"]["description"] = given_text();
            vec![cal]
        }
        ButtonKind::Video | ButtonKind::Url => vec![variant(&["url"], given())],
        ButtonKind::Nav => {
            let within = |max: f64| json!({ "type": "number", "minimum": -max, "maximum": max });
            let mut nav = variant(&["lat", "lng"], json!(true));
            nav["properties"]["lat"] = within(LATITUDE_MAX);
            nav["properties"]["lng"] = within(LONGITUDE_MAX);
            vec![nav]
        }
        ButtonKind::Custom => {
            vec![
                variant(&["title", "icon"], given_text()),
                variant(&["title", "icon_url"], given_text()),
            ]
        }
    }
}
