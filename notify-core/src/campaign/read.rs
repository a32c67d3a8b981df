//! Reads the body of a Template.

use super::{
    Article, ContentFeed, CustomFeed, ExternalContent, FEEDS_MAX, Feature, FeatureData,
    FeatureKind, PaString, Template, TemplateButton, TemplateFeed, TemplateSettings, Translations,
};
use crate::{
    json::{Object, Value},
    rules::REQUIRED,
};

/// Elements of a list that are kept; far more than the rules allow of any of them.
const ELEMENTS_KEPT_MAX: usize = 100;

/// A template, and the place of each of its features in the body: a feature whose type is not
/// known has no model, yet those after it must be named by the caller's own indexes.
pub(crate) struct TemplateDraft {
    pub(super) template: Template,
    pub(super) places: Vec<usize>,
}

impl From<Template> for TemplateDraft {
    fn from(template: Template) -> Self {
        let places = (0..template.features.len()).collect();
        Self { template, places }
    }
}

pub(super) fn template(object: &mut Object<'_, '_>) -> TemplateDraft {
    let name = object.required_string("name");
    let layout_id = object.required_string("layout_id");
    let settings = object.object("settings", settings);
    let strings = object.objects("strings", ELEMENTS_KEPT_MAX, pa_string);
    let is_default = object.flag("is_default");
    object.require("features");
    let features = object.take("features", |value| value.list(ELEMENTS_KEPT_MAX, feature));
    let (places, features) = features.unwrap_or_default().into_iter().unzip();
    let template = Template { name, layout_id, settings, strings, is_default, features };
    TemplateDraft { template, places }
}

fn settings(object: &mut Object<'_, '_>) -> TemplateSettings {
    TemplateSettings {
        big_share_button: object.flag("big_share_button"),
        small_view: object.flag("small_view"),
        build_without_image: object.flag("build_without_image"),
        small_share_button: object.flag("small_share_button"),
        drag_to_expand: object.flag("drag_to_expand"),
    }
}

fn pa_string(object: &mut Object<'_, '_>) -> PaString {
    object.require("translations");
    let translations = object.object("translations", |translations| Translations {
        def: translations.required_string("def"),
    });
    PaString {
        name: object.required_string("name"),
        translations: translations.unwrap_or_default(),
    }
}

fn feature(value: Value<'_, '_>) -> Option<(usize, Feature)> {
    let place = value.place();
    let data = value.object(|object| {
        object.require("type");
        object.require("position");
        object.require("data");
        let position = object.whole("position", u32::MAX).unwrap_or_default();
        let word = object.string("type");
        let kind = FeatureKind::ALL.into_iter().find(|kind| word.as_deref() == Some(kind.as_str()));
        match (kind, word.as_deref()) {
            (Some(_), _) | (None, None) => {}
            (None, Some("")) => object.broken("type", REQUIRED),
            (None, Some(_)) => {
                let words = FeatureKind::ALL.map(FeatureKind::as_str).join(", ");
                object.broken("type", format_args!("must be one of {words}"));
            }
        }
        Feature { position, data: feature_data(object, kind)? }.into()
    });
    data.flatten().map(|feature| (place, feature))
}

fn feature_data(object: &mut Object<'_, '_>, kind: Option<FeatureKind>) -> Option<FeatureData> {
    match kind {
        None => {
            // Of no known type, it can only be an object.
            object.raw_object("data");
            None
        }
        Some(FeatureKind::ContentFeed) => {
            object.object("data", content_feed).map(FeatureData::ContentFeed)
        }
        Some(FeatureKind::ExternalContent) => {
            object.object("data", external_content).map(FeatureData::ExternalContent)
        }
        Some(FeatureKind::ActionButton) => {
            object.object("data", button).map(FeatureData::ActionButton)
        }
        Some(FeatureKind::CustomFeed) => {
            object.object("data", custom_feed).map(FeatureData::CustomFeed)
        }
    }
}

fn content_feed(object: &mut Object<'_, '_>) -> ContentFeed {
    let feeds = object.objects("feeds", FEEDS_MAX, |feed| TemplateFeed {
        id: feed.string("id"),
        url: feed.string("url"),
        name: feed.string("name"),
    });
    ContentFeed {
        feeds: feeds.unwrap_or_default(),
        view_ext_on_browser: object.flag("view_ext_on_browser"),
        recommendations_title: object.flag("recommendations_title"),
    }
}

fn external_content(object: &mut Object<'_, '_>) -> ExternalContent {
    ExternalContent {
        kind: object.required_string("type"),
        ob_widget_id: object.string("ob_widget_id"),
        view_ext_on_browser: object.flag("view_ext_on_browser"),
        recommendations_title: object.flag("recommendations_title"),
    }
}

fn custom_feed(object: &mut Object<'_, '_>) -> CustomFeed {
    object.require("articles");
    let articles = object.objects("articles", ELEMENTS_KEPT_MAX, |article| Article {
        url: article.required_string("url"),
        title: article.required_string("title"),
        thumb_url: article.required_string("thumb_url"),
        is_external: article.flag("is_external"),
    });
    CustomFeed {
        articles: articles.unwrap_or_default(),
        recommendations_title: object.flag("recommendations_title"),
    }
}

fn button(object: &mut Object<'_, '_>) -> TemplateButton {
    TemplateButton {
        kind: object.required_string("type"),
        title: object.string("title"),
        url: object.string("url"),
        start_date: object.instant("start_date"),
        end_date: object.instant("end_date"),
        description: object.string("description"),
        lat: object.float("lat"),
        lng: object.float("lng"),
        icon: object.string("icon"),
        icon_url: object.string("icon_url"),
        data: object.raw_object("data"),
    }
}
