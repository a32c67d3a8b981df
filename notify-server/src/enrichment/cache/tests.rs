//! Cached responses are reused, but never older than the last write.

use notify_core::{
    AppId, CampaignContentFeed, CampaignFeature, CampaignFeatureData, CampaignLayout,
    CampaignSettings, CampaignStatus, CampaignTemplate, FeedId, NewApp, Timestamp,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{CampaignDraft, FeedFetch, FeedItemRow, FeedItems, Store, Validators};

const NOW: Timestamp = Timestamp(1_780_000_000_000);
const URLS: [&str; 2] = ["https://a.example/", "https://b.example/"];

/// A store with one application, and the cache of its responses.
struct Stage {
    store: Arc<Store>,
    answers: EnrichmentCache,
    id: AppId,
    app: AppNo,
    folder: tempfile::TempDir,
}

impl Stage {
    async fn set() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("notify.db");
        let store = sqlite::open(&file, SqliteOptions::default()).unwrap();
        let answers = EnrichmentCache::new(store.clone());
        let id = AppId(Uuid::now_v7());
        let app = NewApp { name: "Shop".to_owned(), language: "en".to_owned() };
        let app = store.create_app(id, app, None, NOW).await.unwrap();
        Self { store, answers, id, app, folder }
    }

    async fn make(&self, draft: CampaignDraft) -> CampaignRef {
        let id = draft.id;
        self.store.create_campaign(self.app, draft, None).await.unwrap();
        CampaignRef::Id(id)
    }

    /// The response. Requests it twice: the second response must be the same cached bytes.
    async fn shows(&self, campaign: CampaignRef) -> Value {
        let ready = self.answers.get(self.app, campaign).await.unwrap();
        let again = self.answers.get(self.app, campaign).await.unwrap();
        assert!(Arc::ptr_eq(&ready, &again), "it is kept");
        serde_json::from_slice(&ready.body).unwrap()
    }

    async fn is_missing(&self, campaign: CampaignRef) -> bool {
        let found = self.answers.get(self.app, campaign).await;
        matches!(found, Err(StoreError::NotFound))
    }

    /// Stores a fetch of every due feed with items of these titles, one for each hour.
    async fn fetch(&self, now: Timestamp, titles: &[&str]) {
        for claim in self.store.claim_feeds(now, now.plus_ms(1), 10).await.unwrap() {
            let host = if claim.url == URLS[0] { "a" } else { "b" };
            let rows = titles.iter().enumerate().map(|(hour, title)| FeedItemRow {
                title: format!("{host} {title}"),
                url: format!("https://{host}.example/{title}"),
                image_url: None,
                published_at: Some(NOW.plus_ms(-3_600_000 * hour as i64 - i64::from(host == "b"))),
            });
            let mut digest = [0; 32];
            digest[..8].copy_from_slice(&now.0.to_be_bytes());
            let validators = Validators::default();
            let items = FeedItems { rows: rows.collect(), digest, validators, ttl_minutes: None };
            let fetch = FeedFetch {
                at: now,
                next_at: Some(now.plus_ms(1)),
                error: None,
                failures: 0,
                items: Some(items),
                moved: None,
                url: None,
            };
            self.store.finish_feed(claim.feed, claim.claim, fetch).await.unwrap();
        }
    }
}

fn draft(layout_id: CampaignLayout, urls: &[&str]) -> CampaignDraft {
    let feeds =
        urls.iter().map(|url| FeedRef::Url { url: (*url).to_owned(), name: format!("Feed {url}") });
    let data = CampaignFeatureData::ContentFeed(CampaignContentFeed {
        feeds: feeds.collect(),
        view_ext_on_browser: false,
        recommendations_title: true,
    });
    let settings = CampaignSettings {
        big_share_button: false,
        small_view: true,
        build_without_image: true,
        small_share_button: false,
        drag_to_expand: false,
    };
    CampaignDraft {
        id: CampaignId(Uuid::now_v7()),
        template: CampaignTemplate {
            name: "News".to_owned(),
            layout_id,
            settings,
            strings: Vec::new(),
            is_default: false,
            features: vec![CampaignFeature { position: 1, data }],
        },
        feed_ids: urls.iter().map(|_| FeedId(Uuid::now_v7())).collect(),
        at: NOW,
    }
}

fn titles(answer: &Value) -> Vec<&str> {
    let items = answer["features"][0]["data"]["items"].as_array().unwrap();
    items.iter().map(|item| item["title"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn feature_shows_newest_items_of_all_feeds_up_to_layout_size() {
    let stage = Stage::set().await;
    let layouts = [
        (CampaignLayout::ContentWithTwo, 2),
        (CampaignLayout::ContentWithThree, 3),
        (CampaignLayout::ContentWideImageWithTwo, 2),
        (CampaignLayout::ContentWideImageWithThree, 3),
    ];
    let mut campaigns = Vec::new();
    for (layout, count) in layouts {
        campaigns.push((stage.make(draft(layout, &URLS)).await, count));
    }
    // The feature of a feed that was never fetched has no items; the rest of the response is complete.
    assert_eq!(titles(&stage.shows(campaigns[0].0).await), [""; 0]);
    stage.fetch(NOW, &["1", "2", "3", "4"]).await;
    for (campaign, count) in campaigns {
        let answer = stage.shows(campaign).await;
        assert_eq!(titles(&answer), ["a 1", "b 1", "a 2"][..count]);
        let first = &answer["features"][0]["data"]["items"][0];
        let expected = json!({"title": "a 1", "url": "https://a.example/1", "image_url": null,
            "published_at": NOW.0, "source": "Feed https://a.example/", "is_external": false});
        assert_eq!(first, &expected);
    }
}

#[tokio::test]
async fn visible_changes_invalidate_the_cache() {
    let stage = Stage::set().await;
    let (app, layout) = (stage.app, CampaignLayout::ContentWithTwo);
    let mut one = draft(layout, &URLS[..1]);
    let campaign = stage.make(one.clone()).await;
    assert_eq!(stage.shows(campaign).await["features"][0]["position"], 1);
    // A change of the feed items.
    stage.fetch(NOW, &["1"]).await;
    assert_eq!(titles(&stage.shows(campaign).await), ["a 1"]);
    stage.fetch(NOW.plus_ms(1), &["2", "3"]).await;
    assert_eq!(titles(&stage.shows(campaign).await), ["a 2", "a 3"]);
    // A change of the template, and of the default campaign.
    assert!(stage.is_missing(CampaignRef::Default).await);
    one.template.features[0].position = 2;
    one.template.is_default = true;
    stage.store.replace_campaign(app, one.clone()).await.unwrap();
    for asked in [campaign, CampaignRef::Default] {
        assert_eq!(stage.shows(asked).await["features"][0]["position"], 2);
    }
    let mut other = draft(layout, &[]);
    other.template.features.clear();
    other.template.is_default = true;
    let other = stage.make(other).await;
    assert_eq!(stage.shows(CampaignRef::Default).await["features"], json!([]));
    // A change of the campaign's state.
    let CampaignRef::Id(id) = campaign else { unreachable!() };
    stage.store.set_campaign_status(app, id, CampaignStatus::Disabled).await.unwrap();
    assert!(stage.is_missing(campaign).await);
    stage.store.set_campaign_status(app, id, CampaignStatus::Active).await.unwrap();
    assert_eq!(stage.shows(campaign).await["features"][0]["position"], 2);
    stage.store.delete_campaign(app, id).await.unwrap();
    assert!(stage.is_missing(campaign).await);
    // A change of the application.
    assert_eq!(stage.shows(other).await["features"], json!([]));
    stage.store.delete_app(stage.id).await.unwrap();
    assert!(stage.is_missing(other).await && stage.is_missing(CampaignRef::Default).await);
}

#[tokio::test]
async fn writes_of_other_servers_show_after_seconds() {
    let stage = Stage::set().await;
    let campaign = stage.make(draft(CampaignLayout::ContentWithTwo, &[])).await;
    stage.shows(campaign).await;
    let file = stage.folder.path().join("notify.db");
    let unlocked = SqliteOptions { lock: false, ..SqliteOptions::default() };
    let other = sqlite::open(&file, unlocked).unwrap();
    let CampaignRef::Id(id) = campaign else { unreachable!() };
    other.set_campaign_status(stage.app, id, CampaignStatus::Disabled).await.unwrap();
    tokio::time::pause();
    tokio::time::advance(AGE_MAX).await;
    tokio::time::resume();
    assert!(stage.is_missing(campaign).await);
}

#[tokio::test]
async fn responses_are_per_application_and_storage_errors_are_returned() {
    let stage = Stage::set().await;
    let campaign = stage.make(draft(CampaignLayout::ContentWithTwo, &[])).await;
    stage.shows(campaign).await;
    let other = AppNo(stage.app.0 + 1);
    assert!(matches!(stage.answers.get(other, campaign).await, Err(StoreError::NotFound)));
    stage.store.close().await;
    // A cached response is still correct. A response that is not cached cannot be built without the store.
    stage.answers.get(stage.app, campaign).await.unwrap();
    let found = stage.answers.get(stage.app, CampaignRef::Default).await;
    assert!(matches!(found, Err(StoreError::Unavailable(_))), "{found:?}");
}
