//! Building templates in code.

use super::{
    Article, ButtonKind, CampaignLayout, ContentFeed, CustomFeed, ExternalContent, ExternalOrigin,
    Feature, FeatureData, PaString, StringName, Template, TemplateButton, TemplateFeed,
    TemplateSettings, Translations,
};
use crate::{FeedId, Timestamp};

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
