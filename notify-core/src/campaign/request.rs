//! Body of `POST /v1/campaigns` and `PUT /v1/campaigns/:id`: a Template.

use serde::Serialize;

#[cfg(feature = "openapi")]
use crate::campaign::CampaignStatus;
use crate::campaign::{ButtonKind, CampaignLayout, ExternalOrigin, FeatureKind, StringName};
use crate::json::JsonObject;
use crate::{FeedId, Timestamp};

/// Most features of type `content_feed`.
pub const CONTENT_FEEDS_MAX: usize = 1;
/// Most features of type `external_content`.
pub const EXTERNAL_CONTENTS_MAX: usize = 1;
/// Most features of type `action_button`.
pub const ACTION_BUTTONS_MAX: usize = 3;
/// Most features of type `custom_feed`.
pub const CUSTOM_FEEDS_MAX: usize = 1;
/// Fewest feeds of a content feed.
pub const FEEDS_MIN: usize = 1;
/// Most feeds of a content feed.
pub const FEEDS_MAX: usize = 100;
/// Farthest latitude from the equator, in degrees.
pub const LATITUDE_MAX: f64 = 90.0;
/// Farthest longitude from Greenwich, in degrees.
pub const LONGITUDE_MAX: f64 = 180.0;

/// Template: the definition of a campaign.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Template {
    /// Template name.
    pub name: String,
    /// One of the four layouts.
    #[cfg_attr(feature = "openapi", schema(value_type = CampaignLayout))]
    pub layout_id: String,
    /// Parts of the notification UI. Required: `None` is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = TemplateSettings, required = true))]
    pub settings: Option<TemplateSettings>,
    /// Constant texts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strings: Option<Vec<PaString>>,
    /// Makes this the default campaign.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_default: Option<bool>,
    /// Enrichment features.
    pub features: Vec<Feature>,
}

/// `TemplateSettings`; each takes its own default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateSettings {
    /// Show share button in big view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub big_share_button: Option<bool>,
    /// Show the enrichment UI in small view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_view: Option<bool>,
    /// Show enrichment even if the main notification has no image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_without_image: Option<bool>,
    /// Show share button in small view.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub small_share_button: Option<bool>,
    /// Show a drag-to-expand text in small view instead of the share button.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drag_to_expand: Option<bool>,
}

/// `PA_String`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PaString {
    /// Key of the string.
    #[cfg_attr(feature = "openapi", schema(value_type = StringName))]
    pub name: String,
    /// Localized values.
    pub translations: Translations,
}

/// `Translations`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Translations {
    /// The default text.
    pub def: String,
}

/// `Feature`. Its `type` is the variant of `data`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Feature {
    /// Position in the notification layout; starts at 1.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: FeatureData,
}

/// `type` and `data` of a [`Feature`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum FeatureData {
    /// Content of own feeds.
    ContentFeed(ContentFeed),
    /// Content of an external provider.
    ExternalContent(ExternalContent),
    /// An action button.
    ActionButton(TemplateButton),
    /// Fixed articles.
    CustomFeed(CustomFeed),
}

impl FeatureData {
    /// The type of the feature.
    #[must_use]
    pub fn kind(&self) -> FeatureKind {
        match self {
            Self::ContentFeed(_) => FeatureKind::ContentFeed,
            Self::ExternalContent(_) => FeatureKind::ExternalContent,
            Self::ActionButton(_) => FeatureKind::ActionButton,
            Self::CustomFeed(_) => FeatureKind::CustomFeed,
        }
    }
}

/// `ContentFeedObject`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ContentFeed {
    /// At least one.
    pub feeds: Vec<TemplateFeed>,
    /// Open external content in an external browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_ext_on_browser: Option<bool>,
    /// Show the title above recommendations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendations_title: Option<bool>,
}

/// `Feed` of a template: an `id`, or a `url` with a `name`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateFeed {
    /// Id of an existing feed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Url of a feed to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Name of the feed to create.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// `ExternalContentObject`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ExternalContent {
    /// Origin; `ob_sdk`.
    #[cfg_attr(feature = "openapi", schema(value_type = ExternalOrigin))]
    #[serde(rename = "type")]
    pub kind: String,
    /// Widget id at the external content provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ob_widget_id: Option<String>,
    /// Open promoted content in an external browser.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub view_ext_on_browser: Option<bool>,
    /// Show the title above recommendations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendations_title: Option<bool>,
}

/// `CustomFeedObject`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CustomFeed {
    /// Exactly as many as the layout shows.
    pub articles: Vec<Article>,
    /// Show the title above recommendations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recommendations_title: Option<bool>,
}

/// `Article`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Article {
    /// Article url.
    pub url: String,
    /// Displayed title.
    pub title: String,
    /// Thumbnail url.
    pub thumb_url: String,
    /// Marks external content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_external: Option<bool>,
}

/// `ActionButtonObject`. Which fields are required depends on `type`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TemplateButton {
    /// `fb`, `wa`, `sms`, `email`, `cal`, `video`, `url`, `nav` or `custom`.
    #[cfg_attr(feature = "openapi", schema(value_type = ButtonKind))]
    #[serde(rename = "type")]
    pub kind: String,
    /// Button title; required for `custom`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Required for `url` and `video`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Required for `cal`: event start, unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_date: Option<i64>,
    /// Required for `cal`: event end, unix ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_date: Option<i64>,
    /// Required for `cal`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Required for `nav`: latitude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lat: Option<f64>,
    /// Required for `nav`: longitude.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lng: Option<f64>,
    /// For `custom`, this or `icon_url`: file name of an app resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<String>,
    /// For `custom`, this or `icon`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon_url: Option<String>,
    /// Extra data passed to the activity on click.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<JsonObject>,
}

/// Body of `PUT /v1/campaigns/:id/status`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetCampaignStatus {
    /// `active` or `disabled`.
    #[cfg_attr(feature = "openapi", schema(value_type = CampaignStatus))]
    pub status: String,
}

/// Query of `GET /v1/campaigns`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListCampaigns {
    /// Results to skip; 0 when absent.
    pub offset: Option<u64>,
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Part of the name, letter case ignored.
    pub name: Option<String>,
    /// `active` when absent, `disabled` or `all`.
    pub status: Option<String>,
}

// Building templates in code.

impl Template {
    /// A template with default settings and no features yet.
    ///
    /// ```
    /// use notify_core::{
    ///     CampaignLayout, FeatureData, Request, StringName, Template, TemplateButton,
    ///     TemplateFeed, Timestamp,
    /// };
    ///
    /// let news = TemplateFeed::by_url("https://example.com/rss", "News");
    /// let template = Template::new("Daily", CampaignLayout::ContentWithTwo)
    ///     .string(StringName::SharePrefix, "Look: ")
    ///     .feature(1, FeatureData::content_feed([news]))
    ///     .feature(1, FeatureData::ActionButton(TemplateButton::open("myapp://more")));
    /// assert!(template.validate(Timestamp(0)).is_ok());
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, layout: CampaignLayout) -> Self {
        Self {
            name: name.into(),
            layout_id: layout.as_str().to_owned(),
            settings: Some(TemplateSettings::default()),
            ..Self::default()
        }
    }

    /// Adds a constant text.
    #[must_use]
    pub fn string(mut self, name: StringName, text: impl Into<String>) -> Self {
        let translations = Translations { def: text.into() };
        let string = PaString { name: name.as_str().to_owned(), translations };
        self.strings.get_or_insert_default().push(string);
        self
    }

    /// Adds a feature at a position, from 1; features of one type do not share one.
    #[must_use]
    pub fn feature(mut self, position: u32, data: FeatureData) -> Self {
        self.features.push(Feature { position, data });
        self
    }

    /// Makes this the default campaign.
    #[must_use]
    pub fn as_default(mut self) -> Self {
        self.is_default = Some(true);
        self
    }
}

impl TemplateFeed {
    /// An existing feed.
    #[must_use]
    pub fn by_id(id: FeedId) -> Self {
        Self { id: Some(id.to_string()), ..Self::default() }
    }

    /// A feed to create, or to reuse when the application has its url already.
    #[must_use]
    pub fn by_url(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: None, url: Some(url.into()), name: Some(name.into()) }
    }
}

impl FeatureData {
    /// Content of own feeds.
    #[must_use]
    pub fn content_feed(feeds: impl IntoIterator<Item = TemplateFeed>) -> Self {
        let feeds = feeds.into_iter().collect();
        Self::ContentFeed(ContentFeed { feeds, ..ContentFeed::default() })
    }

    /// Content of the external content provider, by widget id.
    #[must_use]
    pub fn external_content(ob_widget_id: impl Into<String>) -> Self {
        Self::ExternalContent(ExternalContent {
            kind: ExternalOrigin::ObSdk.as_str().to_owned(),
            ob_widget_id: Some(ob_widget_id.into()),
            ..ExternalContent::default()
        })
    }

    /// Fixed articles, as many as the layout shows.
    #[must_use]
    pub fn custom_feed(articles: impl IntoIterator<Item = Article>) -> Self {
        let articles = articles.into_iter().collect();
        Self::CustomFeed(CustomFeed { articles, recommendations_title: None })
    }
}

impl TemplateButton {
    /// A button of a type that requires nothing more, such as the four that share.
    ///
    /// ```
    /// use notify_core::{ButtonKind, TemplateButton};
    ///
    /// let share = TemplateButton::of(ButtonKind::Email).titled("Tell a friend");
    /// assert_eq!(share.kind, "email");
    /// ```
    #[must_use]
    pub fn of(kind: ButtonKind) -> Self {
        Self { kind: kind.as_str().to_owned(), ..Self::default() }
    }

    /// Sets the title.
    #[must_use]
    pub fn titled(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// A button that adds an event to the calendar.
    #[must_use]
    pub fn calendar(start: Timestamp, end: Timestamp, description: impl Into<String>) -> Self {
        Self {
            start_date: Some(start.as_ms()),
            end_date: Some(end.as_ms()),
            description: Some(description.into()),
            ..Self::of(ButtonKind::Cal)
        }
    }

    /// A button of the app's own, with an icon of its resources; `data` tells it what to do.
    #[must_use]
    pub fn custom(title: impl Into<String>, icon: impl Into<String>) -> Self {
        Self { icon: Some(icon.into()), ..Self::of(ButtonKind::Custom) }.titled(title)
    }

    /// A button that opens a url, custom schemes included.
    #[must_use]
    pub fn open(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::of(ButtonKind::Url) }
    }

    /// A button that plays a video.
    #[must_use]
    pub fn video(url: impl Into<String>) -> Self {
        Self { url: Some(url.into()), ..Self::of(ButtonKind::Video) }
    }

    /// A button that opens navigation.
    #[must_use]
    pub fn navigate(lat: f64, lng: f64) -> Self {
        Self { lat: Some(lat), lng: Some(lng), ..Self::of(ButtonKind::Nav) }
    }
}
