//! Checks the data of features.

use super::{
    Article, CampaignArticle, CampaignContentFeed, CampaignCustomFeed, CampaignExternalContent,
    CampaignFeatureData, CampaignLayout, ContentFeed, CustomFeed, ExternalContent, ExternalOrigin,
    FEEDS_MAX, FEEDS_MIN, FeatureData, FeedRef, TemplateFeed, check_button,
};
use crate::rules::LISTED_NAME_CHARS_MAX;
use crate::violations::{Findings, Path};

/// `None` when a rule is broken.
pub(super) fn check(
    at: &Path<'_>,
    data: FeatureData,
    layout: Option<CampaignLayout>,
    findings: &mut Findings,
) -> Option<CampaignFeatureData> {
    match data {
        FeatureData::ContentFeed(feed) => Some(content_feed(at, feed, findings)),
        FeatureData::ExternalContent(content) => external_content(at, content, findings),
        FeatureData::ActionButton(button) => {
            check_button::check(at, button, findings).map(CampaignFeatureData::ActionButton)
        }
        FeatureData::CustomFeed(feed) => Some(custom_feed(at, feed, layout, findings)),
    }
}

fn content_feed(at: &Path<'_>, data: ContentFeed, findings: &mut Findings) -> CampaignFeatureData {
    let feeds_path = at.field("feeds");
    if data.feeds.len() < FEEDS_MIN {
        findings.broken(&feeds_path, format_args!("must hold at least {FEEDS_MIN} feed"));
    }
    findings.at_most(&feeds_path, data.feeds.len(), FEEDS_MAX, "feeds");
    let mut feeds = Vec::with_capacity(data.feeds.len());
    for (place, feed) in data.feeds.into_iter().enumerate() {
        feeds.extend(check_feed(&feeds_path.index(place), feed, findings));
    }
    CampaignFeatureData::ContentFeed(CampaignContentFeed {
        feeds,
        view_ext_on_browser: data.view_ext_on_browser.unwrap_or(false),
        recommendations_title: data.recommendations_title.unwrap_or(false),
    })
}

/// A feed names either `id`, or `url` with `name`.
fn check_feed(at: &Path<'_>, feed: TemplateFeed, findings: &mut Findings) -> Option<FeedRef> {
    let id_path = at.field("id");
    let id = findings
        .optional_id(&id_path, feed.id.as_deref(), |id| id.parse().map_err(|_| "names no feed"));
    let url = findings.http_url(&at.field("url"), feed.url);
    let name = findings.text_up_to(&at.field("name"), feed.name, LISTED_NAME_CHARS_MAX);
    match (feed.id.is_some(), url, name) {
        (true, None, _) => id.map(|id| FeedRef::Id { id }),
        (true, Some(_), _) => {
            findings.broken(&at.field("url"), "must not be combined with id");
            None
        }
        (false, Some(url), Some(name)) => Some(FeedRef::Url { url, name }),
        (false, Some(_), None) => {
            findings.broken(&at.field("name"), "is required with url");
            None
        }
        (false, None, Some(_)) => {
            findings.broken(&at.field("url"), "is required with name");
            None
        }
        (false, None, None) => {
            findings.broken(&id_path, "is required, or url with name");
            None
        }
    }
}

fn external_content(
    at: &Path<'_>,
    data: ExternalContent,
    findings: &mut Findings,
) -> Option<CampaignFeatureData> {
    let type_path = at.field("type");
    let kind = findings.word(&type_path, &data.kind, &ExternalOrigin::ALL, ExternalOrigin::as_str);
    let widget_path = at.field("ob_widget_id");
    let ob_widget_id = findings.text(&widget_path, data.ob_widget_id);
    if kind == Some(ExternalOrigin::ObSdk) && ob_widget_id.is_none() {
        findings.broken(&widget_path, "is required for type ob_sdk");
    }
    Some(CampaignFeatureData::ExternalContent(CampaignExternalContent {
        kind: kind?,
        ob_widget_id: ob_widget_id?,
        view_ext_on_browser: data.view_ext_on_browser.unwrap_or(false),
        recommendations_title: data.recommendations_title.unwrap_or(false),
    }))
}

fn custom_feed(
    at: &Path<'_>,
    data: CustomFeed,
    layout: Option<CampaignLayout>,
    findings: &mut Findings,
) -> CampaignFeatureData {
    let articles_path = at.field("articles");
    if let Some(layout) = layout
        && data.articles.len() != layout.articles()
    {
        let (count, layout) = (layout.articles(), layout.as_str());
        let what = format_args!("must hold exactly {count} articles for layout {layout}");
        findings.broken(&articles_path, what);
    }
    let mut articles = Vec::with_capacity(data.articles.len());
    for (place, article) in data.articles.into_iter().enumerate() {
        articles.push(check_article(&articles_path.index(place), article, findings));
    }
    let recommendations_title = data.recommendations_title.unwrap_or(false);
    CampaignFeatureData::CustomFeed(CampaignCustomFeed { articles, recommendations_title })
}

fn check_article(at: &Path<'_>, article: Article, findings: &mut Findings) -> CampaignArticle {
    CampaignArticle {
        url: findings.required_http_url(&at.field("url"), article.url),
        title: findings.required(&at.field("title"), article.title),
        thumb_url: findings.required_http_url(&at.field("thumb_url"), article.thumb_url),
        is_external: article.is_external.unwrap_or(false),
    }
}
