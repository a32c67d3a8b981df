//! Feeds.

use macro_rules_attribute::apply;
use std::sync::Arc;

use notify_core::{
    AppChange, AppStatus, CampaignRef, Feed, FeedId, FeedStatus, NewFeed, Timestamp,
};
use uuid::Uuid;

use super::apps::ChangeRecorder;
use super::fixtures::{self, NOW};
use super::{campaigns, is_unknown, refusal};
use crate::store::{
    AppNo, Change, EnrichmentChange, FEEDS_MAX, FeedClaim, FeedFetch, FeedItemRow, FeedItems,
    Moved, Store, Validators,
};

/// Creates a feed, or finds the one with its URL.
async fn made(store: &Store, app: AppNo, url: &str) -> FeedId {
    let feed = NewFeed { url: url.to_owned(), name: "News".to_owned() };
    let id = FeedId(Uuid::now_v7());
    fixtures::now(store.create_feed(app, id, feed, NOW, None).await.unwrap()).id
}

/// Creates a feed with an item, and a campaign that shows it.
pub(super) async fn one_of_each(store: &Store, app: AppNo) {
    let feed = made(store, app, "https://a.example/").await;
    campaigns::made_with_feed(store, app, feed).await;
    for claim in claimed(store, NOW).await {
        finish(store, &claim, fetch(&["a"])).await;
    }
}

#[apply(contract)]
async fn same_url_is_one_feed(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let id = made(store, app, "https://a.example/").await;
    assert_eq!(made(store, app, "https://a.example/").await, id);
    assert_ne!(made(store, app, "https://b.example/").await, id);
    assert_ne!(made(store, other_app, "https://a.example/").await, id);
    let feeds = store.list_feeds(app, fixtures::page(10)).await.unwrap().rows;
    let feed = &feeds[1];
    assert_eq!(
        (feed.id, feed.name.as_str(), feed.url.as_str()),
        (id, "News", "https://a.example/")
    );
    assert_eq!((feed.status, feed.items, feed.created_at), (FeedStatus::Pending, 0, NOW));
    assert_eq!((feed.last_fetched_at, feed.last_error.as_deref()), (None, None));
}

/// The longest URL of a request, with incompressible characters.
#[apply(contract)]
async fn same_long_url_is_one_feed(store: &Store) {
    let app = fixtures::app(store).await;
    let mut random = fastrand::Rng::with_seed(1);
    let path: String = (0..2_000).map(|_| random.char('\u{20000}'..='\u{2a6d0}')).collect();
    let url = format!("https://a.example/{path}");
    let id = made(store, app, &url).await;
    assert_eq!(made(store, app, &url).await, id);
    assert_ne!(made(store, app, &format!("{url}x")).await, id);
}

#[apply(contract)]
async fn feeds_per_application_are_limited(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    for number in 0..FEEDS_MAX {
        made(store, app, &format!("https://{number}.example/")).await;
    }
    // An existing feed is still found.
    made(store, app, "https://7.example/").await;
    let feed = NewFeed { url: "https://more.example/".to_owned(), name: "News".to_owned() };
    let broken = refusal(store.create_feed(app, FeedId(Uuid::now_v7()), feed, NOW, None).await);
    assert_eq!(broken, format!("url: an application has at most {FEEDS_MAX} feeds"));
    made(store, other_app, "https://more.example/").await;
}

#[apply(contract)]
async fn creating_an_idle_feed_again_makes_it_due(store: &Store) {
    let app = fixtures::app(store).await;
    let id = made(store, app, "https://a.example/").await;
    let claims = claimed(store, NOW).await;
    finish(store, &claims[0], failed(None)).await;
    assert_eq!(store.next_feed_due().await.unwrap(), None);
    assert_eq!(made(store, app, "https://a.example/").await, id);
    assert_eq!(store.next_feed_due().await.unwrap(), Some(NOW));
    // A failing feed becomes due at once unless it is due soon, since the cause may be fixed.
    for (next, due) in [(NOW.plus_ms(120_001), NOW), (NOW.plus_ms(120_000), NOW.plus_ms(120_000))] {
        let claims = claimed(store, NOW).await;
        finish(store, &claims[0], failed(Some(next))).await;
        made(store, app, "https://a.example/").await;
        assert_eq!(store.next_feed_due().await.unwrap(), Some(due));
    }
    // A feed that does not fail keeps its schedule.
    let claims = claimed(store, NOW.plus_ms(120_000)).await;
    finish(store, &claims[0], fetch(&["a"])).await;
    let due = store.next_feed_due().await.unwrap();
    assert!(due > Some(NOW.plus_ms(120_000)));
    made(store, app, "https://a.example/").await;
    assert_eq!(store.next_feed_due().await.unwrap(), due);
}

#[apply(contract)]
async fn used_feed_cannot_be_deleted(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let (used, free) = (
        made(store, app, "https://a.example/").await,
        made(store, app, "https://b.example/").await,
    );
    campaigns::made_with_feed(store, app, used).await;
    assert!(refusal(store.delete_feed(app, used).await).starts_with("id: "));
    assert!(is_unknown(&store.delete_feed(other_app, free).await));
    store.delete_feed(app, free).await.unwrap();
    assert!(is_unknown(&store.delete_feed(app, free).await));
}

#[apply(contract)]
async fn feeds_are_listed_newest_first(store: &Store) {
    let app = fixtures::app(store).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.insert(0, made(store, app, &format!("https://{number}.example/")).await);
    }
    let first = store.list_feeds(app, fixtures::page(2)).await.unwrap();
    let rest = store.list_feeds(app, fixtures::next_page(2, first.next)).await.unwrap();
    let listed: Vec<_> = first.rows.iter().chain(&rest.rows).map(|feed| feed.id).collect();
    assert_eq!((listed, rest.next), (ids, None));
}

/// End of claims.
const UNTIL: Timestamp = NOW.plus_ms(60_000);
/// When a fetched feed is due again.
const NEXT: Timestamp = NOW.plus_ms(900_000);

/// Claims the due feeds.
async fn claimed(store: &Store, now: Timestamp) -> Vec<FeedClaim> {
    store.claim_feeds(now, now.plus_ms(60_000), 10).await.unwrap()
}

/// A successful fetch with items of these titles.
fn fetch(titles: &[&str]) -> FeedFetch {
    let rows: Vec<_> = titles
        .iter()
        .map(|title| FeedItemRow {
            title: (*title).to_owned(),
            url: format!("https://a.example/{title}"),
            image_url: None,
            published_at: Some(NOW),
        })
        .collect();
    let mut digest = [0; 32];
    let all = titles.concat().into_bytes();
    digest[..all.len()].copy_from_slice(&all);
    let validators = Validators { etag: Some("W/\"1\"".to_owned()), last_modified: None };
    let items = FeedItems { rows, digest, validators, ttl_minutes: Some(20) };
    FeedFetch {
        at: NOW,
        next_at: Some(NEXT),
        error: None,
        failures: 0,
        items: Some(items),
        moved: None,
        url: None,
    }
}

/// A fetch that failed.
fn failed(next_at: Option<Timestamp>) -> FeedFetch {
    let error = Some("the host does not answer".to_owned());
    FeedFetch { error, next_at, failures: 1, items: None, ..fetch(&[]) }
}

async fn finish(store: &Store, claim: &FeedClaim, fetch: FeedFetch) {
    store.finish_feed(claim.feed, claim.claim, fetch).await.unwrap();
}

async fn the_feed(store: &Store, app: AppNo) -> Feed {
    store.list_feeds(app, fixtures::page(10)).await.unwrap().rows.remove(0)
}

#[apply(contract)]
async fn new_feed_is_due_and_claimed_once(store: &Store) {
    let app = fixtures::app(store).await;
    assert_eq!(store.next_feed_due().await.unwrap(), None);
    made(store, app, "https://a.example/").await;
    assert_eq!(store.next_feed_due().await.unwrap(), Some(NOW));
    assert_eq!(store.claim_feeds(NOW.plus_ms(-1), UNTIL, 10).await.unwrap(), []);
    assert_eq!(store.claim_feeds(NOW, UNTIL, 0).await.unwrap(), []);
    let claims = claimed(store, NOW).await;
    assert_eq!(
        (claims.len(), claims[0].url.as_str(), claims[0].failures, claims[0].moved.as_ref()),
        (1, "https://a.example/", 0, None)
    );
    assert_eq!(claims[0].validators, Validators::default());
    assert_eq!(claimed(store, NOW).await, [], "another server gets none");
    assert_eq!(store.next_feed_due().await.unwrap(), Some(UNTIL));
    finish(store, &claims[0], fetch(&["a"])).await;
    assert_eq!(store.next_feed_due().await.unwrap(), Some(NEXT));
    let again = claimed(store, NEXT).await;
    assert_eq!(again[0].validators.etag.as_deref(), Some("W/\"1\""));
    assert_eq!(again[0].ttl_minutes, Some(20));
}

#[apply(contract)]
async fn feeds_due_at_once_are_claimed_oldest_first(store: &Store) {
    let (first, second) = (fixtures::app(store).await, fixtures::app(store).await);
    for (app, url) in [(second, "https://1.example/"), (first, "https://2.example/")] {
        made(store, app, url).await;
    }
    for url in ["https://1.example/", "https://2.example/"] {
        assert_eq!(store.claim_feeds(NOW, UNTIL, 1).await.unwrap()[0].url, url);
    }
}

#[apply(contract)]
async fn expired_feed_claim_cannot_finish(store: &Store) {
    let app = fixtures::app(store).await;
    let id = made(store, app, "https://a.example/").await;
    let lost = claimed(store, NOW).await.remove(0);
    let second = claimed(store, UNTIL).await.remove(0);
    assert_ne!(lost.claim, second.claim);
    assert!(is_unknown(&store.finish_feed(lost.feed, lost.claim, fetch(&["a"])).await));
    assert_eq!(the_feed(store, app).await.status, FeedStatus::Pending);
    finish(store, &second, fetch(&["a"])).await;
    assert_eq!(the_feed(store, app).await.status, FeedStatus::Ok);
    let third = claimed(store, NEXT).await.remove(0);
    store.delete_feed(app, id).await.unwrap();
    assert!(is_unknown(&store.finish_feed(third.feed, third.claim, fetch(&["a"])).await));
}

#[apply(contract)]
async fn failing_feed_keeps_its_items(store: &Store) {
    let app = fixtures::app(store).await;
    let id = made(store, app, "https://a.example/").await;
    let campaign = campaigns::made_with_feed(store, app, id).await;
    finish(store, &claimed(store, NOW).await[0], fetch(&["a", "b"])).await;
    finish(store, &claimed(store, NEXT).await[0], failed(Some(NEXT.plus_ms(1)))).await;
    let feed = the_feed(store, app).await;
    assert_eq!(
        (feed.status, feed.items, feed.last_fetched_at),
        (FeedStatus::Failing, 2, Some(NOW))
    );
    assert_eq!(feed.last_error.as_deref(), Some("the host does not answer"));
    let shown = store.shown_campaign(app, CampaignRef::Id(campaign)).await.unwrap();
    assert_eq!(shown.feeds[0].items.len(), 2);
    let claim = claimed(store, NEXT.plus_ms(1)).await.remove(0);
    assert_eq!((claim.failures, claim.validators.etag.as_deref()), (1, Some("W/\"1\"")));
    // Gone (410): the items stay, and it is never due again.
    finish(store, &claim, failed(None)).await;
    assert_eq!(store.next_feed_due().await.unwrap(), None);
    assert_eq!(the_feed(store, app).await.items, 2);
}

#[apply(contract)]
async fn unchanged_items_are_not_written(store: &Store) {
    let app = fixtures::app(store).await;
    made(store, app, "https://a.example/").await;
    let changes = Arc::new(ChangeRecorder::default());
    store.subscribe(changes.clone());
    let steps = [
        (fetch(&["a"]), &[Change::Enrichment(EnrichmentChange::FeedItems(app))][..]),
        (fetch(&["a"]), &[]),
        (failed(Some(NEXT)), &[]),
        (FeedFetch { items: None, ..fetch(&[]) }, &[]),
        (fetch(&["b", "c"]), &[Change::Enrichment(EnrichmentChange::FeedItems(app))]),
    ];
    for (number, (fetch, expected)) in steps.into_iter().enumerate() {
        let claim = claimed(store, NEXT.plus_ms(number as i64 * 900_000)).await.remove(0);
        finish(store, &claim, fetch).await;
        assert_eq!(changes.take(), expected, "{number}");
    }
    assert_eq!(the_feed(store, app).await.items, 2);
}

#[apply(contract)]
async fn feed_moves_unless_its_new_url_is_in_use(store: &Store) {
    let app = fixtures::app(store).await;
    made(store, app, "https://taken.example/").await;
    finish(store, &claimed(store, NOW).await[0], fetch(&["a"])).await;
    made(store, app, "https://a.example/").await;
    let moved = Some(Moved { to: "https://b.example/".to_owned(), times: 2 });
    let claim = claimed(store, NOW).await.remove(0);
    finish(store, &claim, FeedFetch { moved: moved.clone(), ..fetch(&["a"]) }).await;
    let mut now = NEXT;
    for (to, expected) in [
        ("https://taken.example/", "https://a.example/"),
        ("https://b.example/", "https://b.example/"),
    ] {
        let claims = claimed(store, now).await;
        let claim = claims.iter().find(|claim| claim.url == "https://a.example/").unwrap();
        assert_eq!(claim.moved, moved.clone().filter(|_| now == NEXT));
        finish(store, claim, FeedFetch { url: Some(to.to_owned()), ..fetch(&["a"]) }).await;
        assert_eq!(the_feed(store, app).await.url, expected);
        now = now.plus_ms(900_000);
    }
}

#[apply(contract)]
async fn feeds_of_a_suspended_application_are_not_due(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    made(store, app, "https://a.example/").await;
    let to = |status| AppChange { status: Some(status), ..AppChange::default() };
    store.change_app(id, to(AppStatus::Suspended)).await.unwrap();
    assert_eq!((store.next_feed_due().await.unwrap(), claimed(store, NOW).await), (None, vec![]));
    store.change_app(id, to(AppStatus::Active)).await.unwrap();
    assert_eq!(claimed(store, NOW).await.len(), 1);
}

#[apply(contract)]
async fn campaign_shows_the_newest_items(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let id = made(store, app, "https://a.example/").await;
    made(store, other_app, "https://a.example/").await;
    let campaign = CampaignRef::Id(campaigns::made_with_feed(store, app, id).await);
    for (claim, titles) in claimed(store, NOW).await.iter().zip([["a", "b", "c"], ["x", "y", "z"]])
    {
        finish(store, claim, fetch(&titles)).await;
    }
    let shown = store.shown_campaign(app, campaign).await.unwrap();
    let titles: Vec<_> = shown.feeds[0].items.iter().map(|item| item.title.as_str()).collect();
    // Two, as its layout shows.
    assert_eq!((shown.feeds.len(), shown.feeds[0].id, titles), (1, id, vec!["a", "b"]));
    assert!(is_unknown(&store.shown_campaign(other_app, campaign).await));
    assert!(is_unknown(&store.shown_campaign(app, CampaignRef::Default).await));
}

/// Such an item would otherwise be the first of its campaign until its date.
#[apply(contract)]
async fn an_item_dated_ahead_counts_as_the_time_when_it_was_first_seen(store: &Store) {
    let app = fixtures::app(store).await;
    let id = made(store, app, "https://a.example/").await;
    let campaign = CampaignRef::Id(campaigns::made_with_feed(store, app, id).await);
    let later = |hours: i64| NOW.plus_ms(hours * 3_600_000);
    // Hours of the fetch, the dates of the items in hours, and what the two newest items then are.
    type Dated = (&'static str, i64);
    let rows: [(i64, &[Dated], [Dated; 2]); 5] = [
        (0, &[("far", 600_000), ("a", -1), ("b", -2)], [("far", 0), ("a", -1)]),
        (1, &[("far", 600_000), ("new", 1), ("a", -1)], [("new", 1), ("far", 0)]),
        (2, &[("far", 600_000), ("soon", 5), ("new", 1)], [("soon", 2), ("new", 1)]),
        (
            4,
            &[("far", 600_001), ("soon", 5), ("newer", 3), ("new", 1)],
            [("newer", 3), ("soon", 2)],
        ),
        (6, &[("far", 600_000), ("soon", 5), ("newer", 3)], [("soon", 5), ("newer", 3)]),
    ];
    for (number, (hours, items, expected)) in rows.into_iter().enumerate() {
        let claim = claimed(store, NEXT.plus_ms(number as i64 * 900_000)).await.remove(0);
        let mut read = fetch(&[&number.to_string()]);
        read.at = later(hours);
        let rows = items.iter().map(|(title, hours)| FeedItemRow {
            title: (*title).to_owned(),
            url: format!("https://a.example/{title}"),
            image_url: None,
            published_at: Some(later(*hours)),
        });
        read.items.as_mut().unwrap().rows = rows.collect();
        finish(store, &claim, read).await;
        let shown = store.shown_campaign(app, campaign).await.unwrap();
        let found: Vec<_> = shown.feeds[0]
            .items
            .iter()
            .map(|item| (item.title.clone(), item.published_at))
            .collect();
        let expected = expected.map(|(title, hours)| (title.to_owned(), Some(later(hours))));
        assert_eq!(found, expected, "fetch {number}");
    }
}
