//! Campaigns: the list, and one campaign drawn as a phone shows it.

use std::collections::HashMap;

use askama::Template;
use http::Method;
use notify_core::{
    ButtonAction, ButtonKind, Campaign, CampaignArticle, CampaignButton, CampaignFeature,
    CampaignFeatureData, CampaignFilter, CampaignList, CampaignRecord, CampaignSettings,
    CampaignStatus, Enrichment, EnrichmentFeatureData, Feed, FeedId, FeedItem, FeedList, FeedRef,
    SetCampaignStatus, Success,
};
use warp::reply::Response;

use crate::api::console::calls::{AppScope, encoded};
use crate::api::console::form::Form;
use crate::api::console::page::base_of;
use crate::api::console::page::{Layout, redirect, show};
use crate::api::console::problems::Problems;
use crate::api::console::screen::{action, screen};
use crate::api::console::visit::Visit;
use crate::api::error::ApiError;
use crate::api::router::Endpoint;

/// A campaign that an empty list shows.
pub(super) const EXAMPLE: &str = include_str!("../templates/example_campaign.toml");

/// The campaigns of a page.
const ROWS: usize = 50;

pub(super) fn routes() -> Vec<Endpoint> {
    vec![
        screen("/console/apps/{app}/campaigns", list),
        screen("/console/apps/{app}/campaigns/{id}", campaign),
        action("/console/apps/{app}/campaigns/{id}/status", set_status),
        action("/console/apps/{app}/campaigns/{id}/default", make_default),
        action("/console/apps/{app}/campaigns/{id}/delete", delete),
    ]
}

#[derive(Template)]
#[template(path = "campaigns.html")]
struct List {
    layout: Layout,
    base: String,
    campaigns: Vec<Campaign>,
    name: String,
    status: String,
    statuses: &'static [&'static str],
    is_filtered: bool,
    next: Option<usize>,
    example: &'static str,
}

async fn list(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let layout = visit.app_layout(&scope, "Campaigns", "Campaigns").await?;
    let (name, status) = (visit.query("name")?, visit.query("status")?);
    let offset: usize = visit.query("offset")?.parse().unwrap_or(0);
    let filter = if status.is_empty() { CampaignFilter::All.as_str() } else { &status };
    // One more than a page shows whether there is another page.
    let path = format!(
        "/v1/campaigns?offset={offset}&limit={}&status={}&name={}",
        ROWS + 1,
        encoded(filter),
        encoded(&name)
    );
    let CampaignList { mut campaigns } = visit.get(&scope, &path).await?;
    let next = (campaigns.len() > ROWS).then_some(offset.saturating_add(ROWS));
    campaigns.truncate(ROWS);
    let page = List {
        base: base_of(&layout, &scope),
        is_filtered: !name.is_empty() || !status.is_empty() || offset > 0,
        statuses: &CampaignStatus::NAMES,
        example: EXAMPLE,
        layout,
        campaigns,
        name,
        status,
        next,
    };
    show(&page)
}

#[derive(Template)]
#[template(path = "campaign.html")]
struct CampaignPage {
    layout: Layout,
    base: String,
    record: CampaignRecord,
    is_active: bool,
    drawing: Drawing,
    features: Vec<FeatureRow>,
    settings: Vec<Setting>,
    problems: Problems,
}

/// A setting of a campaign.
struct Setting {
    name: &'static str,
    is_on: bool,
}

fn settings_of(settings: CampaignSettings) -> Vec<Setting> {
    [
        ("Share button in the big view", settings.big_share_button),
        ("Share button in the small view", settings.small_share_button),
        ("Content in the small view", settings.small_view),
        ("Content also without an image", settings.build_without_image),
        ("“Drag to expand” in the small view", settings.drag_to_expand),
    ]
    .map(|(name, is_on)| Setting { name, is_on })
    .into_iter()
    .collect()
}

/// A feature of a campaign.
struct FeatureRow {
    position: u32,
    kind: &'static str,
    text: String,
    feeds: Vec<FeedLink>,
}

/// A feed that a campaign shows.
struct FeedLink {
    name: String,
    id: Option<FeedId>,
}

impl FeatureRow {
    fn of(feature: &CampaignFeature, feeds: &HashMap<FeedId, Feed>) -> Self {
        let mut links = Vec::new();
        let (kind, text) = match &feature.data {
            CampaignFeatureData::ContentFeed(content) => {
                links = content.feeds.iter().map(|feed| FeedLink::of(feed, feeds)).collect();
                ("Articles of feeds", String::new())
            }
            CampaignFeatureData::ExternalContent(content) => {
                ("External content", format!("widget {}", content.ob_widget_id))
            }
            CampaignFeatureData::ActionButton(button) => ("Button", button_text(button)),
            CampaignFeatureData::CustomFeed(feed) => {
                let titles: Vec<&str> =
                    feed.articles.iter().map(|article| article.title.as_str()).collect();
                ("Fixed articles", titles.join(" · "))
            }
        };
        Self { position: feature.position, kind, text, feeds: links }
    }
}

impl FeedLink {
    fn of(feed: &FeedRef, feeds: &HashMap<FeedId, Feed>) -> Self {
        match feed {
            FeedRef::Id { id } => {
                let name = feeds.get(id).map_or_else(|| id.to_string(), |feed| feed.name.clone());
                Self { name, id: Some(*id) }
            }
            FeedRef::Url { name, .. } => Self { name: name.clone(), id: None },
        }
    }
}

/// What a button does, in words.
fn button_text(button: &CampaignButton) -> String {
    let label = button_label(button);
    match &button.action {
        ButtonAction::Url { url } | ButtonAction::Video { url } => format!("{label}: {url}"),
        ButtonAction::Nav { lat, lng } => format!("{label}: {lat}, {lng}"),
        ButtonAction::Cal { description, .. } => format!("{label}: {description}"),
        ButtonAction::Custom { .. }
        | ButtonAction::Fb
        | ButtonAction::Wa
        | ButtonAction::Sms
        | ButtonAction::Email => label,
    }
}

/// The text on a button: its title, or what its type means.
fn button_label(button: &CampaignButton) -> String {
    if let ButtonAction::Custom { title, .. } = &button.action {
        return title.clone();
    }
    if let Some(title) = &button.other_fields.title {
        return title.clone();
    }
    let label = match button.action.kind() {
        ButtonKind::Fb => "Facebook",
        ButtonKind::Wa => "WhatsApp",
        ButtonKind::Sms => "SMS",
        ButtonKind::Email => "E-mail",
        ButtonKind::Cal => "Add to calendar",
        ButtonKind::Video => "Play video",
        ButtonKind::Url => "Open",
        ButtonKind::Nav => "Directions",
        ButtonKind::Custom => "Custom",
    };
    label.to_owned()
}

/// What a phone shows for a campaign.
struct Drawing {
    is_wide: bool,
    has_share: bool,
    title: Option<String>,
    articles: Vec<Article>,
    has_external: bool,
    buttons: Vec<String>,
}

/// An article of a drawing. The number of articles is that of the layout; one without a title is not there
/// yet.
#[derive(Default)]
struct Article {
    title: String,
    source: String,
    image: Option<String>,
}

impl Article {
    fn of_feed(item: FeedItem) -> Self {
        Self { title: item.title, source: item.source, image: item.image_url.and_then(shown_image) }
    }

    fn fixed(article: CampaignArticle) -> Self {
        let image = shown_image(article.thumb_url);
        Self { title: article.title, source: String::new(), image }
    }
}

/// The address of an image that the policy of the pages allows.
pub(super) fn shown_image(url: String) -> Option<String> {
    Some(url).filter(|url| url.starts_with("https://"))
}

impl Drawing {
    fn of(enrichment: Enrichment) -> Self {
        let layout = enrichment.layout_id;
        let (mut articles, mut buttons) = (Vec::new(), Vec::new());
        let (mut has_title, mut has_external) = (false, false);
        for feature in enrichment.features {
            match feature.data {
                EnrichmentFeatureData::ContentFeed(feed) => {
                    has_title |= feed.recommendations_title;
                    articles.extend(feed.items.into_iter().map(Article::of_feed));
                }
                EnrichmentFeatureData::CustomFeed(feed) => {
                    has_title |= feed.recommendations_title;
                    articles.extend(feed.articles.into_iter().map(Article::fixed));
                }
                EnrichmentFeatureData::ExternalContent(content) => {
                    has_title |= content.recommendations_title;
                    has_external = true;
                }
                EnrichmentFeatureData::ActionButton(button) => buttons.push(button_label(&button)),
            }
        }
        articles.resize_with(layout.articles(), Article::default);
        let title = enrichment.strings.get("recommendations_title").cloned();
        Self {
            is_wide: layout.as_str().contains("wide_image"),
            has_share: enrichment.settings.big_share_button,
            title: title.filter(|_| has_title),
            articles,
            has_external,
            buttons,
        }
    }
}

/// The feeds of an application by id. An application has at most 1,000.
pub(super) async fn feeds_by_id(
    visit: &Visit,
    scope: &AppScope,
) -> Result<HashMap<FeedId, Feed>, ApiError> {
    let FeedList { feeds, .. } = visit.get(scope, "/v1/feeds?limit=1000").await?;
    Ok(feeds.into_iter().map(|feed| (feed.id, feed)).collect())
}

async fn campaign(visit: Visit) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    show(&campaign_page(&visit, &scope, Problems::default()).await?)
}

async fn campaign_page(
    visit: &Visit,
    scope: &AppScope,
    problems: Problems,
) -> Result<CampaignPage, ApiError> {
    let layout = visit.app_layout(scope, "Campaign", "Campaigns").await?;
    let id = encoded(&visit.ctx.path_param("id")?);
    let record: CampaignRecord = visit.get(scope, &format!("/v1/campaigns/{id}")).await?;
    let enrichment = match visit.get(scope, &format!("/v1/enrichments/{id}")).await {
        Ok(enrichment) => enrichment,
        // Devices get no content of a disabled campaign; the page draws it without items.
        Err(ApiError::NotFound) => {
            Enrichment::from_template(record.campaign.id, &record.template, |_| Vec::new())
        }
        Err(error) => return Err(error),
    };
    let feeds = feeds_by_id(visit, scope).await?;
    let mut features: Vec<&CampaignFeature> = record.template.features.iter().collect();
    features.sort_by_key(|feature| (feature.position, feature.data.kind()));
    Ok(CampaignPage {
        base: base_of(&layout, scope),
        layout,
        is_active: record.campaign.status == CampaignStatus::Active,
        drawing: Drawing::of(enrichment),
        features: features.into_iter().map(|feature| FeatureRow::of(feature, &feeds)).collect(),
        settings: settings_of(record.template.settings),
        record,
        problems,
    })
}

/// The response to an action on a campaign: its page, with the problems if the API refused the action.
async fn after(
    visit: &Visit,
    scope: &AppScope,
    result: Result<Success, ApiError>,
) -> Result<Response, ApiError> {
    match result {
        Ok(Success { .. }) => {
            let id = encoded(&visit.ctx.path_param("id")?);
            Ok(redirect(&format!("../{id}?done=saved")))
        }
        Err(error) => show(&campaign_page(visit, scope, Problems::of(error)?).await?),
    }
}

async fn set_status(visit: Visit, form: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/campaigns/{}/status", encoded(&visit.ctx.path_param("id")?));
    let status = SetCampaignStatus { status: form.text("status").to_owned() };
    let result = visit.change(&scope, Method::PUT, &path, &status, None).await;
    after(&visit, &scope, result).await
}

async fn make_default(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/campaigns/{}", encoded(&visit.ctx.path_param("id")?));
    let mut record: CampaignRecord = visit.get(&scope, &path).await?;
    record.template.is_default = true;
    let result = visit.change(&scope, Method::PUT, &path, &record.template, None).await;
    after(&visit, &scope, result).await
}

async fn delete(visit: Visit, _: Form) -> Result<Response, ApiError> {
    let scope = visit.app_scope().await?;
    let path = format!("/v1/campaigns/{}", encoded(&visit.ctx.path_param("id")?));
    match visit.change(&scope, Method::DELETE, &path, &(), None).await {
        Ok(Success { .. }) => Ok(redirect("../../campaigns?done=deleted")),
        Err(error) => show(&campaign_page(&visit, &scope, Problems::of(error)?).await?),
    }
}
