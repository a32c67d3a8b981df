//! Campaigns.

use macro_rules_attribute::apply;
use notify_core::{
    CampaignContentFeed, CampaignFeature, CampaignFeatureData, CampaignFilter, CampaignId,
    CampaignLayout, CampaignPage, CampaignRef, CampaignSettings, CampaignStatus, CampaignTemplate,
    FeedId, FeedRef, Timestamp,
};
use uuid::Uuid;

use super::fixtures::{self, NOW};
use super::{is_unknown, refusal};
use crate::store::{AppNo, CampaignDraft, Store};

fn template(name: &str) -> CampaignTemplate {
    CampaignTemplate {
        name: name.to_owned(),
        layout_id: CampaignLayout::ContentWithTwo,
        settings: CampaignSettings {
            big_share_button: false,
            small_view: true,
            build_without_image: true,
            small_share_button: false,
            drag_to_expand: false,
        },
        strings: Vec::new(),
        is_default: false,
        features: Vec::new(),
    }
}

fn with_feeds(name: &str, feeds: Vec<FeedRef>) -> CampaignTemplate {
    let data = CampaignFeatureData::ContentFeed(CampaignContentFeed {
        feeds,
        view_ext_on_browser: true,
        recommendations_title: false,
    });
    CampaignTemplate { features: vec![CampaignFeature { position: 1, data }], ..template(name) }
}

fn url(url: &str) -> FeedRef {
    FeedRef::Url { url: url.to_owned(), name: "News".to_owned() }
}

fn draft(template: CampaignTemplate) -> CampaignDraft {
    CampaignDraft {
        id: CampaignId(Uuid::now_v7()),
        template,
        feed_ids: vec![FeedId(Uuid::now_v7()), FeedId(Uuid::now_v7())],
        at: NOW,
    }
}

/// Creates a campaign.
pub(crate) async fn made(store: &Store, app: AppNo, name: &str) -> CampaignId {
    create(store, app, draft(template(name))).await
}

/// Creates a campaign that uses a feed.
pub(crate) async fn made_with_feed(store: &Store, app: AppNo, feed: FeedId) -> CampaignId {
    create(store, app, draft(with_feeds("Fed", vec![FeedRef::Id { id: feed }]))).await
}

async fn create(store: &Store, app: AppNo, draft: CampaignDraft) -> CampaignId {
    fixtures::now(store.create_campaign(app, draft, None).await.unwrap()).id
}

async fn default_of(store: &Store, app: AppNo) -> Option<CampaignId> {
    let found = store.active_campaign(app, CampaignRef::Default).await;
    found.ok().map(|record| record.campaign.id)
}

#[apply(contract)]
async fn campaign_reads_back_with_feeds_by_id(store: &Store) {
    let app = fixtures::app(store).await;
    let draft = draft(with_feeds("A", vec![url("https://a.example/"), url("https://b.example/")]));
    let ids = draft.feed_ids.clone();
    let id = create(store, app, draft).await;
    let record = store.campaign(app, id).await.unwrap();
    assert_eq!((record.campaign.id, record.campaign.name.as_str()), (id, "A"));
    assert_eq!(
        (record.campaign.status, record.campaign.is_default),
        (CampaignStatus::Active, false)
    );
    assert_eq!(record.campaign.created_at, NOW);
    let named = ids.iter().map(|id| FeedRef::Id { id: *id }).collect();
    assert_eq!(record.template, with_feeds("A", named));
    let again = with_feeds("B", vec![url("https://b.example/"), FeedRef::Id { id: ids[0] }]);
    store.replace_campaign(app, CampaignDraft { id, ..self::draft(again) }).await.unwrap();
    let record = store.campaign(app, id).await.unwrap();
    let named = vec![FeedRef::Id { id: ids[1] }, FeedRef::Id { id: ids[0] }];
    assert_eq!(record.template, with_feeds("B", named), "a known url is that feed as it is");
    assert_eq!(store.list_feeds(app, fixtures::page(10)).await.unwrap().rows.len(), 2);
}

#[apply(contract)]
async fn unknown_feed_is_refused_with_its_path(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let elsewhere = draft(with_feeds("A", vec![url("https://a.example/")]));
    let foreign = elsewhere.feed_ids[0];
    create(store, other_app, elsewhere).await;
    let feeds = vec![url("https://new.example/"), FeedRef::Id { id: foreign }];
    let refused = store.create_campaign(app, draft(with_feeds("A", feeds)), None).await;
    assert!(refusal(refused).starts_with("features[0].data.feeds[1].id: "));
    assert_eq!(store.list_feeds(app, fixtures::page(10)).await.unwrap().rows, []);
}

#[apply(contract)]
async fn one_campaign_is_the_default(store: &Store) {
    let app = fixtures::app(store).await;
    let default = |name| CampaignTemplate { is_default: true, ..template(name) };
    let first = create(store, app, draft(default("A"))).await;
    let second = create(store, app, draft(default("B"))).await;
    assert_eq!(default_of(store, app).await, Some(second));
    assert!(!store.campaign(app, first).await.unwrap().template.is_default);
    let back = CampaignDraft { id: first, ..draft(default("A")) };
    store.replace_campaign(app, back).await.unwrap();
    assert_eq!(default_of(store, app).await, Some(first));
    let none = CampaignDraft { id: first, ..draft(template("A")) };
    store.replace_campaign(app, none).await.unwrap();
    assert_eq!(default_of(store, app).await, None);
}

#[apply(contract)]
async fn default_campaign_cannot_be_disabled_or_deleted(store: &Store) {
    let app = fixtures::app(store).await;
    let default = CampaignTemplate { is_default: true, ..template("A") };
    let id = create(store, app, draft(default.clone())).await;
    let disabled = store.set_campaign_status(app, id, CampaignStatus::Disabled).await;
    assert!(refusal(disabled).starts_with("status: "));
    assert!(refusal(store.delete_campaign(app, id).await).starts_with("id: "));
    let other = made(store, app, "B").await;
    store.set_campaign_status(app, other, CampaignStatus::Disabled).await.unwrap();
    let replaced = store.replace_campaign(app, CampaignDraft { id: other, ..draft(default) }).await;
    assert!(refusal(replaced).starts_with("is_default: "));
    assert_eq!(default_of(store, app).await, Some(id));
}

#[apply(contract)]
async fn referenced_campaign_cannot_be_deleted(store: &Store) {
    let app = fixtures::app(store).await;
    let (named, free) = (made(store, app, "A").await, made(store, app, "B").await);
    let new = fixtures::broadcast(&[notify_core::Platform::Ios]);
    let new = fixtures::with_campaign(CampaignRef::Id(named), new);
    fixtures::accepted(store, app, new).await;
    assert!(refusal(store.delete_campaign(app, named).await).starts_with("id: "));
    store.delete_campaign(app, free).await.unwrap();
    assert!(is_unknown(&store.campaign(app, free).await));
    assert!(is_unknown(&store.delete_campaign(app, free).await));
}

#[apply(contract)]
async fn campaigns_are_found_by_part_of_their_name(store: &Store) {
    let app = fixtures::app(store).await;
    for (name, after) in [("Größe 50%", 0), ("ΟΔΟΣ", 10), ("summer_sale", 20), ("Summer", 20)]
    {
        let mut new = draft(template(name));
        new.at = Timestamp(NOW.0 + after);
        create(store, app, new).await;
    }
    let find = |name: &str, offset, limit| {
        let page = CampaignPage {
            offset,
            limit,
            name: (!name.is_empty()).then(|| name.to_owned()),
            status: CampaignFilter::Active,
        };
        async move {
            let found = store.list_campaigns(app, page).await.unwrap();
            found.into_iter().map(|campaign| campaign.name).collect::<Vec<_>>()
        }
    };
    let all = ["Summer", "summer_sale", "ΟΔΟΣ", "Größe 50%"];
    assert_eq!(find("", 0, 10).await, all, "newest first, equal times by id descending");
    assert_eq!(find("", 1, 2).await, all[1..3]);
    for (part, found) in [
        ("SUMMER", &all[..2]),
        ("r_s", &all[1..2]),
        ("_", &all[1..2]),
        ("%", &all[3..]),
        ("GRÖSSE", &all[3..]),
        ("οδος", &all[2..3]),
        ("δος", &all[2..3]),
        ("winter", &[]),
    ] {
        assert_eq!(find(part, 0, 10).await, found, "{part}");
    }
}

#[apply(contract)]
async fn disabled_campaigns_enrich_nothing(store: &Store) {
    let app = fixtures::app(store).await;
    let (on, off) = (made(store, app, "A").await, made(store, app, "B").await);
    store.set_campaign_status(app, off, CampaignStatus::Disabled).await.unwrap();
    assert!(store.active_campaign(app, CampaignRef::Id(on)).await.is_ok());
    assert!(is_unknown(&store.active_campaign(app, CampaignRef::Id(off)).await));
    for (status, expected) in [
        (CampaignFilter::Active, vec![on]),
        (CampaignFilter::Disabled, vec![off]),
        (CampaignFilter::All, vec![off, on]),
    ] {
        let page = CampaignPage { offset: 0, limit: 10, name: None, status };
        let found = store.list_campaigns(app, page).await.unwrap();
        assert_eq!(found.iter().map(|campaign| campaign.id).collect::<Vec<_>>(), expected);
    }
}

#[apply(contract)]
async fn campaigns_of_other_applications_are_unknown(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let id = made(store, app, "A").await;
    assert!(is_unknown(&store.campaign(other_app, id).await));
    assert!(is_unknown(&store.delete_campaign(other_app, id).await));
    let active = CampaignStatus::Active;
    assert!(is_unknown(&store.set_campaign_status(other_app, id, active).await));
    let stolen = CampaignDraft { id, ..draft(template("Mine")) };
    assert!(is_unknown(&store.replace_campaign(other_app, stolen).await));
    assert_eq!(store.campaign(app, id).await.unwrap().campaign.name, "A");
}
