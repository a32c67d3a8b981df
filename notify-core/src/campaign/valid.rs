//! The validated form of templates, and the rules of templates. The server stores and returns the
//! validated form, which has the defaults of absent fields.

use serde::{Deserialize, Serialize};

use super::{
    ACTION_BUTTONS_MAX, Article, ButtonFields, ButtonKind, CONTENT_FEEDS_MAX, CUSTOM_FEEDS_MAX,
    CampaignArticle, CampaignButton, CampaignContentFeed, CampaignCustomFeed,
    CampaignExternalContent, CampaignFeature, CampaignFeatureData, ContentFeed, CustomFeed,
    EXTERNAL_CONTENTS_MAX, ExternalContent, ExternalOrigin, FEEDS_MAX, FEEDS_MIN, Feature,
    FeatureData, FeatureKind, FeedRef, LATITUDE_MAX, LIST_KEPT_MAX, LONGITUDE_MAX, Template,
    TemplateButton, TemplateFeed, TemplateSettings, TemplateString,
};
use crate::json::{BodyPresence, JsonObject, Object, Value};
use crate::violations::{LISTED_NAME_CHARS_MAX, Path, REQUIRED, Validator, path};
use crate::wire_enum::wire_enum;
use crate::{Request, Timestamp, Violations, is_blank, request};

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
    pub fn articles(self) -> usize {
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

/// A template, and the index in the body of each of its features. The two indexes of a feature can differ:
/// the model cannot express a feature of an unknown type, so the template has no such features. Violations
/// must have the index in the body.
struct TemplateDraft {
    template: Template,
    feature_indexes: Vec<usize>,
}

impl From<Template> for TemplateDraft {
    fn from(template: Template) -> Self {
        let feature_indexes = (0..template.features.len()).collect();
        Self { template, feature_indexes }
    }
}

impl TemplateDraft {
    fn read(object: &mut Object<'_, '_>) -> Self {
        let mut template = Template::read(object);
        object.require("features");
        let features =
            object.take("features", |value| value.list(LIST_KEPT_MAX, Feature::with_index));
        let feature_indexes;
        (feature_indexes, template.features) = features.unwrap_or_default().into_iter().unzip();
        Self { template, feature_indexes }
    }
}

impl Feature {
    fn with_index(value: Value<'_, '_>) -> Option<(usize, Self)> {
        let index = value.index();
        let feature = value.object(Self::read).flatten()?;
        Some((index, feature))
    }

    fn read(object: &mut Object<'_, '_>) -> Option<Self> {
        object.require("type");
        object.require("position");
        object.require("data");
        let position = object.u32("position", u32::MAX).unwrap_or_default();
        let Some(kind) = Self::read_kind(object) else {
            // The fields of `data` depend on the type. Without one, `data` must only be an object.
            object.optional::<JsonObject>("data");
            return None;
        };
        let data = match kind {
            FeatureKind::ContentFeed => FeatureData::ContentFeed(object.optional("data")?),
            FeatureKind::ExternalContent => FeatureData::ExternalContent(object.optional("data")?),
            FeatureKind::ActionButton => FeatureData::ActionButton(object.optional("data")?),
            FeatureKind::CustomFeed => FeatureData::CustomFeed(object.optional("data")?),
        };
        Some(Self { position, data })
    }

    fn read_kind(object: &mut Object<'_, '_>) -> Option<FeatureKind> {
        let name: String = object.optional("type")?;
        match name.parse() {
            Ok(kind) => return Some(kind),
            Err(_) if name.is_empty() => object.violation("type", REQUIRED),
            Err(unknown) => object.violation("type", unknown),
        }
        None
    }
}

impl Request for Template {
    type Valid = CampaignTemplate;
    const NEEDS_BODY: bool = true;

    fn from_json(body: &[u8]) -> Result<Self, Violations> {
        request::from_json(body, BodyPresence::Required, TemplateDraft::read)
            .map(|draft| draft.template)
    }

    fn validate(self, now: Timestamp) -> Result<CampaignTemplate, Violations> {
        request::validate(TemplateDraft::from(self), now, TemplateDraft::check)
    }

    fn parse(body: &[u8], now: Timestamp) -> Result<CampaignTemplate, Violations> {
        request::parse(body, BodyPresence::Required, now, TemplateDraft::read, TemplateDraft::check)
    }
}

impl TemplateDraft {
    fn check(self, _now: Timestamp, validator: &mut Validator) -> Option<CampaignTemplate> {
        let Self { template, feature_indexes } = self;
        let name =
            validator.required_visible_up_to(&path("name"), template.name, LISTED_NAME_CHARS_MAX);
        let layout_id = validator.one_of(&path("layout_id"), &template.layout_id);
        if template.settings.is_none() {
            validator.violation(&path("settings"), REQUIRED);
        }
        let settings = template.settings.unwrap_or_default().with_defaults();
        let strings = check_strings(template.strings.unwrap_or_default(), validator);
        let features = feature_indexes.into_iter().zip(template.features).collect();
        let features = check_features(features, layout_id, validator);
        Some(CampaignTemplate {
            name,
            layout_id: layout_id?,
            settings,
            strings,
            is_default: template.is_default.unwrap_or(false),
            features,
        })
    }
}

impl TemplateSettings {
    fn with_defaults(&self) -> CampaignSettings {
        let defaults = CampaignSettings::default();
        CampaignSettings {
            big_share_button: self.big_share_button.unwrap_or(defaults.big_share_button),
            small_view: self.small_view.unwrap_or(defaults.small_view),
            build_without_image: self.build_without_image.unwrap_or(defaults.build_without_image),
            small_share_button: self.small_share_button.unwrap_or(defaults.small_share_button),
            drag_to_expand: self.drag_to_expand.unwrap_or(defaults.drag_to_expand),
        }
    }
}

fn check_strings(strings: Vec<TemplateString>, validator: &mut Validator) -> Vec<CampaignString> {
    let at = path("strings");
    let mut valid: Vec<CampaignString> = Vec::with_capacity(strings.len());
    for (index, string) in strings.into_iter().enumerate() {
        let string_path = at.index(index);
        let name_path = string_path.field("name");
        let name = validator.one_of(&name_path, &string.name);
        let translations_path = string_path.field("translations");
        let def = validator.required(&translations_path.field("def"), string.translations.def);
        let Some(name) = name else { continue };
        if valid.iter().any(|earlier| earlier.name == name) {
            validator.violation(&name_path, "is given twice");
        }
        valid.push(CampaignString { name, translations: CampaignTranslations { def } });
    }
    valid
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

/// Checks features, each with its index in the body. Returns the valid ones.
fn check_features(
    features: Vec<(usize, Feature)>,
    layout: Option<CampaignLayout>,
    validator: &mut Validator,
) -> Vec<CampaignFeature> {
    let at = path("features");
    for kind in FeatureKind::ALL {
        let count = features.iter().filter(|(_, feature)| feature.data.kind() == kind).count();
        validator.max_len(&at, count, count_max(kind), format_args!("of type {kind}"));
    }
    let mut used_slots = Vec::with_capacity(features.len());
    let mut valid = Vec::with_capacity(features.len());
    for (index, feature) in features {
        let feature_path = at.index(index);
        let position_path = feature_path.field("position");
        let kind = feature.data.kind();
        let slot = (kind, feature.position);
        if feature.position == 0 {
            validator.violation(&position_path, "must be at least 1");
        } else if used_slots.contains(&slot) {
            let what = format_args!("is the position of another {kind}");
            validator.violation(&position_path, what);
        }
        used_slots.push(slot);
        let data = feature.data.check(&feature_path.field("data"), layout, validator);
        valid.extend(data.map(|data| CampaignFeature { position: feature.position, data }));
    }
    valid
}

impl FeatureData {
    fn check(
        self,
        at: &Path<'_>,
        layout: Option<CampaignLayout>,
        validator: &mut Validator,
    ) -> Option<CampaignFeatureData> {
        Some(match self {
            Self::ContentFeed(feed) => CampaignFeatureData::ContentFeed(feed.check(at, validator)),
            Self::ExternalContent(content) => {
                CampaignFeatureData::ExternalContent(content.check(at, validator)?)
            }
            Self::ActionButton(button) => {
                CampaignFeatureData::ActionButton(button.check(at, validator)?)
            }
            Self::CustomFeed(feed) => {
                CampaignFeatureData::CustomFeed(feed.check(at, layout, validator))
            }
        })
    }
}

impl ContentFeed {
    fn check(self, at: &Path<'_>, validator: &mut Validator) -> CampaignContentFeed {
        let feeds_path = at.field("feeds");
        if self.feeds.len() < FEEDS_MIN {
            let what = format_args!("must hold at least {FEEDS_MIN} feed");
            validator.violation(&feeds_path, what);
        }
        validator.max_len(&feeds_path, self.feeds.len(), FEEDS_MAX, "feeds");
        let mut feeds = Vec::with_capacity(self.feeds.len());
        for (index, feed) in self.feeds.into_iter().enumerate() {
            feeds.extend(feed.check(&feeds_path.index(index), validator));
        }
        CampaignContentFeed {
            feeds,
            view_ext_on_browser: self.view_ext_on_browser.unwrap_or(false),
            recommendations_title: self.recommendations_title.unwrap_or(false),
        }
    }
}

impl TemplateFeed {
    /// Checks that a feed has either `id`, or `url` and `name`.
    fn check(self, at: &Path<'_>, validator: &mut Validator) -> Option<FeedRef> {
        let id_path = at.field("id");
        let id = validator.optional_id(&id_path, self.id.as_deref(), |id| {
            id.parse().map_err(|_| "no feed has this id")
        });
        let url = validator.http_url(&at.field("url"), self.url);
        let name = validator.visible_up_to(&at.field("name"), self.name, LISTED_NAME_CHARS_MAX);
        let (field, what) = match (self.id, url, name) {
            (Some(_), None, _) => return id.map(|id| FeedRef::Id { id }),
            (None, Some(url), Some(name)) => return Some(FeedRef::Url { url, name }),
            (Some(_), Some(_), _) => ("url", "must not be combined with id"),
            (None, Some(_), None) => ("name", "is required with url"),
            (None, None, Some(_)) => ("url", "is required with name"),
            (None, None, None) => ("id", "is required, or url with name"),
        };
        validator.violation(&at.field(field), what);
        None
    }
}

impl ExternalContent {
    fn check(self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignExternalContent> {
        let kind = validator.one_of(&at.field("type"), &self.kind);
        let widget_path = at.field("ob_widget_id");
        let ob_widget_id = validator.visible(&widget_path, self.ob_widget_id);
        if kind == Some(ExternalOrigin::ObSdk) && ob_widget_id.is_none() {
            validator.violation(&widget_path, "is required for type ob_sdk");
        }
        Some(CampaignExternalContent {
            kind: kind?,
            ob_widget_id: ob_widget_id?,
            view_ext_on_browser: self.view_ext_on_browser.unwrap_or(false),
            recommendations_title: self.recommendations_title.unwrap_or(false),
        })
    }
}

impl CustomFeed {
    fn check(
        self,
        at: &Path<'_>,
        layout: Option<CampaignLayout>,
        validator: &mut Validator,
    ) -> CampaignCustomFeed {
        let articles_path = at.field("articles");
        if let Some(layout) = layout
            && self.articles.len() != layout.articles()
        {
            let count = layout.articles();
            let what = format_args!("must hold exactly {count} articles for layout {layout}");
            validator.violation(&articles_path, what);
        }
        let mut articles = Vec::with_capacity(self.articles.len());
        for (index, article) in self.articles.into_iter().enumerate() {
            articles.push(article.check(&articles_path.index(index), validator));
        }
        let recommendations_title = self.recommendations_title.unwrap_or(false);
        CampaignCustomFeed { articles, recommendations_title }
    }
}

impl Article {
    fn check(self, at: &Path<'_>, validator: &mut Validator) -> CampaignArticle {
        CampaignArticle {
            url: validator.required_http_url(&at.field("url"), self.url),
            title: validator.required(&at.field("title"), self.title),
            thumb_url: validator.required_http_url(&at.field("thumb_url"), self.thumb_url),
            is_external: self.is_external.unwrap_or(false),
        }
    }
}

impl TemplateButton {
    fn check(self, at: &Path<'_>, validator: &mut Validator) -> Option<CampaignButton> {
        let kind = validator.one_of(&at.field("type"), &self.kind);
        if let Some(kind) = kind {
            self.check_required(kind, at, validator);
        }
        let mut fields = ButtonFields {
            url: validator.uri(&at.field("url"), self.url),
            start_date: validator.instant(&at.field("start_date"), self.start_date),
            end_date: validator.instant(&at.field("end_date"), self.end_date),
            description: validator.visible(&at.field("description"), self.description),
            lat: self.lat,
            lng: self.lng,
            title: validator.visible(&at.field("title"), self.title),
            icon: validator.visible(&at.field("icon"), self.icon),
            icon_url: validator.http_url(&at.field("icon_url"), self.icon_url),
        };
        if kind == Some(ButtonKind::Cal)
            && let (Some(start), Some(end)) = (fields.start_date, fields.end_date)
            && end < start
        {
            validator.violation(&at.field("end_date"), "must not be before start_date");
        }
        if kind == Some(ButtonKind::Nav) {
            check_degrees(&at.field("lat"), self.lat, LATITUDE_MAX, validator);
            check_degrees(&at.field("lng"), self.lng, LONGITUDE_MAX, validator);
        }
        let action = fields.take_action(kind?)?;
        Some(CampaignButton { action, data: self.data, other_fields: fields })
    }

    /// Adds a violation for each field that the type requires and that is absent.
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
        if kind == ButtonKind::Custom && !has(&self.icon) && !has(&self.icon_url) {
            validator.violation(&at.field("icon"), "is required for type custom, or icon_url");
        }
    }
}

fn check_degrees(at: &Path<'_>, degrees: Option<f64>, max: f64, validator: &mut Validator) {
    // This also refuses NaN, which is outside of every range.
    if degrees.is_some_and(|degrees| !(-max..=max).contains(&degrees)) {
        validator.violation(at, format_args!("must be within ±{max}"));
    }
}
