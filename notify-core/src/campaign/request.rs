//! Body of `POST /v1/campaigns` and `PUT /v1/campaigns/:id`: a template.

use serde::Serialize;

use super::valid::Features;
use crate::campaign::{
    ButtonKind, CampaignLayout, CampaignStatus, ExternalOrigin, FeatureKind, StringName,
};
use crate::field::{
    AnyObject, Flag, HttpUrl, Id, Instant, List, NameOf, Nested, Number, Required, Uri, Visible,
};
use crate::json::JsonObject;
use crate::request::model;
use crate::violations::LISTED_NAME_CHARS_MAX;
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
/// Most constant texts: one of each name.
pub const STRINGS_MAX: usize = StringName::ALL.len();
/// Fewest articles of a custom feed.
pub const ARTICLES_MIN: usize = CampaignLayout::ContentWithTwo.articles();
/// Most articles of a custom feed.
pub const ARTICLES_MAX: usize = CampaignLayout::ContentWithThree.articles();
/// Farthest latitude from the equator, in degrees.
pub const LATITUDE_MAX: f64 = 90.0;
/// Farthest longitude from Greenwich, in degrees.
pub const LONGITUDE_MAX: f64 = 180.0;

model! {
    /// Body of `POST /v1/campaigns` and `PUT /v1/campaigns/:id`: the template that defines a campaign.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct Template with TemplateFields {
        /// Name of the campaign.
        pub name: String as Visible<LISTED_NAME_CHARS_MAX>,
        /// Layout.
        pub layout_id: String as NameOf<CampaignLayout>,
        /// Which parts of the notification are shown. Required.
        pub settings: Option<TemplateSettings> as Required<Nested<TemplateSettings>>,
        /// Constant texts.
        pub strings: Option<Vec<TemplateString>> as List<Nested<TemplateString>, 0, STRINGS_MAX>,
        /// Whether this becomes the default campaign; false when absent.
        pub is_default: Option<bool> as Flag,
        /// Features of the enrichment.
        pub features: Vec<Feature> as Features,
    }
}

model! {
    /// Settings of a template.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct TemplateSettings with TemplateSettingsFields {
        /// Show the share button in the big view; true when absent.
        pub big_share_button: Option<bool> as Flag,
        /// Show the enrichment in the small view; true when absent.
        pub small_view: Option<bool> as Flag,
        /// Show the enrichment even if the notification has no image; true when absent.
        pub build_without_image: Option<bool> as Flag,
        /// Show the share button in the small view; true when absent.
        pub small_share_button: Option<bool> as Flag,
        /// Show a drag-to-expand text in place of the share button in the small view; false when absent.
        pub drag_to_expand: Option<bool> as Flag,
    }
}

model! {
    /// A constant text of a template.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct TemplateString with TemplateStringFields {
        /// Name of the text; each at most once.
        pub name: String as NameOf<StringName>,
        /// The text.
        pub translations: Translations as Nested<Translations>,
    }
}

model! {
    /// Values of a constant text.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Translations with TranslationsFields {
        /// The default value.
        pub def: String as Visible,
    }
}

/// A feature of a template. Its `type` determines the fields of `data`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Feature {
    /// Position in the notification, from 1; unique among the features of one type.
    pub position: u32,
    /// `type` and `data`.
    #[serde(flatten)]
    pub data: FeatureData,
}

/// `type` and `data` of a [`Feature`].
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum FeatureData {
    /// Articles of feeds.
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

model! {
    /// A feature with articles of feeds.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ContentFeed with ContentFeedFields {
        /// 1 to 100 feeds.
        pub feeds: Vec<TemplateFeed> as List<Nested<TemplateFeed>, FEEDS_MIN, FEEDS_MAX>,
        /// Open external articles in the browser; false when absent.
        pub view_ext_on_browser: Option<bool> as Flag,
        /// Show the title above recommendations; false when absent.
        pub recommendations_title: Option<bool> as Flag,
    }
}

model! {
    /// A feed of a template: either `id`, or `url` and `name`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct TemplateFeed with TemplateFeedFields {
        /// Id of an existing feed.
        pub id: Option<String> as Id<FeedId>,
        /// Url of a feed to create; a feed that has this url already is reused.
        pub url: Option<String> as HttpUrl,
        /// Name of the feed to create.
        pub name: Option<String> as Visible<LISTED_NAME_CHARS_MAX>,
    }
}

model! {
    /// A feature with content of an external provider.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct ExternalContent with ExternalContentFields {
        /// Origin of the content; always `ob_sdk`.
        pub kind ("type"): String as NameOf<ExternalOrigin>,
        /// Id of the widget at the external content provider. Required.
        pub ob_widget_id: Option<String> as Required<Visible>,
        /// Open promoted content in the browser; false when absent.
        pub view_ext_on_browser: Option<bool> as Flag,
        /// Show the title above recommendations; false when absent.
        pub recommendations_title: Option<bool> as Flag,
    }
}

model! {
    /// A feature with fixed articles.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct CustomFeed with CustomFeedFields {
        /// The articles. Their number must be that of the layout.
        pub articles: Vec<Article> as List<Nested<Article>, ARTICLES_MIN, ARTICLES_MAX>,
        /// Show the title above recommendations; false when absent.
        pub recommendations_title: Option<bool> as Flag,
    }
}

model! {
    /// An article.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct Article with ArticleFields {
        /// Url of the article.
        pub url: String as HttpUrl,
        /// Title.
        pub title: String as Visible,
        /// Url of the thumbnail.
        pub thumb_url: String as HttpUrl,
        /// Marks the article as external content; false when absent.
        pub is_external: Option<bool> as Flag,
    }
}

model! {
    /// An action button. Its `type` determines which fields are required.
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct TemplateButton with TemplateButtonFields {
        /// `fb`, `wa`, `sms`, `email`, `cal`, `video`, `url`, `nav` or `custom`.
        pub kind ("type"): String as NameOf<ButtonKind>,
        /// Title; required for `custom`.
        pub title: Option<String> as Visible,
        /// Url to open; required for `url` and `video`. Can have a custom scheme.
        pub url: Option<String> as Uri,
        /// Start of the calendar event, unix ms; required for `cal`.
        pub start_date: Option<Timestamp> as Instant,
        /// End of the calendar event, unix ms; required for `cal`.
        pub end_date: Option<Timestamp> as Instant,
        /// Description of the calendar event; required for `cal`.
        pub description: Option<String> as Visible,
        /// Latitude in degrees, within ±90; required for `nav`.
        pub lat: Option<f64> as Number,
        /// Longitude in degrees, within ±180; required for `nav`.
        pub lng: Option<f64> as Number,
        /// File name of an icon in the app's resources; `custom` requires this or `icon_url`.
        pub icon: Option<String> as Visible,
        /// Url of an icon; `custom` requires this or `icon`.
        pub icon_url: Option<String> as HttpUrl,
        /// Extra data for the app, passed on a click.
        pub data: Option<JsonObject> as AnyObject,
    }
}

model! {
    /// Body of `PUT /v1/campaigns/:id/status`.
    #[derive(Debug, Clone, Default, PartialEq, Eq)]
    pub struct SetCampaignStatus with SetCampaignStatusFields {
        /// `active` or `disabled`.
        pub status: String as NameOf<CampaignStatus>,
    }
}

/// Query of `GET /v1/campaigns`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListCampaigns {
    /// Number of results to skip; 0 when absent.
    pub offset: Option<u64>,
    /// Page size; 50 when absent.
    pub limit: Option<u32>,
    /// Part of the name; the letter case is ignored.
    pub name: Option<String>,
    /// `active`, `disabled` or `all`; `active` when absent.
    pub status: Option<String>,
}

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
            layout_id: layout.to_string(),
            settings: Some(TemplateSettings::default()),
            ..Self::default()
        }
    }

    /// Adds a constant text.
    #[must_use]
    pub fn string(mut self, name: StringName, text: impl Into<String>) -> Self {
        let translations = Translations { def: text.into() };
        let string = TemplateString { name: name.to_string(), translations };
        self.strings.get_or_insert_default().push(string);
        self
    }

    /// Adds a feature at a position, from 1. Features of one type need different positions.
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

    /// A feed to create, or to reuse if the application has one with this url.
    #[must_use]
    pub fn by_url(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self { id: None, url: Some(url.into()), name: Some(name.into()) }
    }
}

impl FeatureData {
    /// Articles of feeds.
    #[must_use]
    pub fn content_feed(feeds: impl IntoIterator<Item = TemplateFeed>) -> Self {
        let feeds = feeds.into_iter().collect();
        Self::ContentFeed(ContentFeed { feeds, ..ContentFeed::default() })
    }

    /// Content of an external provider, by widget id.
    #[must_use]
    pub fn external_content(ob_widget_id: impl Into<String>) -> Self {
        Self::ExternalContent(ExternalContent {
            kind: ExternalOrigin::ObSdk.to_string(),
            ob_widget_id: Some(ob_widget_id.into()),
            ..ExternalContent::default()
        })
    }

    /// Fixed articles. Their number must be that of the layout.
    #[must_use]
    pub fn custom_feed(articles: impl IntoIterator<Item = Article>) -> Self {
        let articles = articles.into_iter().collect();
        Self::CustomFeed(CustomFeed { articles, recommendations_title: None })
    }
}

impl TemplateButton {
    /// A button of a type without required fields, such as those that share.
    ///
    /// ```
    /// use notify_core::{ButtonKind, TemplateButton};
    ///
    /// let share = TemplateButton::of(ButtonKind::Email).titled("Tell a friend");
    /// assert_eq!(share.kind, "email");
    /// ```
    #[must_use]
    pub fn of(kind: ButtonKind) -> Self {
        Self { kind: kind.to_string(), ..Self::default() }
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
            start_date: Some(start),
            end_date: Some(end),
            description: Some(description.into()),
            ..Self::of(ButtonKind::Cal)
        }
    }

    /// A custom button of the app with an icon from its resources. The app handles it by its `data`.
    #[must_use]
    pub fn custom(title: impl Into<String>, icon: impl Into<String>) -> Self {
        Self { icon: Some(icon.into()), ..Self::of(ButtonKind::Custom) }.titled(title)
    }

    /// A button that opens a url, which can have a custom scheme.
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
