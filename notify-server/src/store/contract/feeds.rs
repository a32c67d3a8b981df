//! Feeds (B30).

use notify_core::{FeedId, FeedStatus, NewFeed};
use uuid::Uuid;

use super::given::{self, NOW};
use super::{campaigns, is_unknown, refusal};
use crate::store::{AppNo, Store};

/// Makes a feed, or finds the one with its url.
async fn made(store: &dyn Store, app: AppNo, url: &str) -> FeedId {
    let feed = NewFeed { url: url.to_owned(), name: "News".to_owned() };
    let id = FeedId(Uuid::now_v7());
    given::now(store.create_feed(app, id, feed, NOW, None).await.unwrap()).id
}

pub async fn a_url_is_one_feed(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    let id = made(store, app, "https://a.example/").await;
    assert_eq!(made(store, app, "https://a.example/").await, id);
    assert_ne!(made(store, app, "https://b.example/").await, id);
    assert_ne!(made(store, other, "https://a.example/").await, id);
    let feeds = store.list_feeds(app, given::page(10)).await.unwrap().rows;
    let feed = &feeds[1];
    assert_eq!(
        (feed.id, feed.name.as_str(), feed.url.as_str()),
        (id, "News", "https://a.example/")
    );
    assert_eq!((feed.status, feed.items, feed.created_at), (FeedStatus::Pending, 0, NOW));
    assert_eq!((feed.last_fetched_at, feed.last_error.as_deref()), (None, None));
}

pub async fn a_feed_in_use_is_not_deleted(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    let (used, free) = (
        made(store, app, "https://a.example/").await,
        made(store, app, "https://b.example/").await,
    );
    campaigns::made_with_feed(store, app, used).await;
    assert!(refusal(store.delete_feed(app, used).await).starts_with("id: "));
    assert!(is_unknown(&store.delete_feed(other, free).await));
    store.delete_feed(app, free).await.unwrap();
    assert!(is_unknown(&store.delete_feed(app, free).await));
}

pub async fn feeds_are_listed_newest_first(store: &dyn Store) {
    let app = given::app(store).await;
    let mut ids = Vec::new();
    for number in 0..3 {
        ids.insert(0, made(store, app, &format!("https://{number}.example/")).await);
    }
    let first = store.list_feeds(app, given::page(2)).await.unwrap();
    let rest = store.list_feeds(app, given::next_page(2, first.next)).await.unwrap();
    let listed: Vec<_> = first.rows.iter().chain(&rest.rows).map(|feed| feed.id).collect();
    assert_eq!((listed, rest.next), (ids, None));
}
