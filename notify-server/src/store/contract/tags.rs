//! Tags (B24).

use super::given::{self, id, tag};
use super::is_unknown;
use crate::store::Store;

pub async fn setting_tags_leaves_the_others(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 1).await;
    let device = id("d000");
    let first = vec![tag("vip", true), tag("news", true)];
    store.set_tags(app, device.clone(), first, None).await.unwrap();
    store.set_tags(app, device.clone(), vec![tag("vip", false)], None).await.unwrap();
    let tags = store.device(app, device).await.unwrap().tags;
    assert_eq!(tags, [tag("news", true), tag("vip", false)]);
    assert!(is_unknown(&store.set_tags(app, id("nobody"), vec![], None).await));
}

pub async fn a_tag_is_removed_once(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 1).await;
    given::tagged(store, app, "d000", "vip", true).await;
    store.remove_tag(app, id("d000"), "vip".into()).await.unwrap();
    assert_eq!(store.device(app, id("d000")).await.unwrap().tags, []);
    assert!(is_unknown(&store.remove_tag(app, id("d000"), "vip".into()).await));
    assert!(is_unknown(&store.remove_tag(app, id("nobody"), "vip".into()).await));
}

pub async fn tags_are_listed_by_name_with_their_devices(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 3).await;
    for (device, name, value) in [
        ("d000", "vip", true),
        ("d001", "vip", true),
        ("d002", "vip", false),
        ("d000", "Äpfel", true),
        ("d001", "beta", false),
    ] {
        given::tagged(store, app, device, name, value).await;
    }
    given::tagged(store, app, "d001", "vip", false).await;
    let first = store.list_tags(app, given::page(2)).await.unwrap();
    let rest = store.list_tags(app, given::next_page(2, first.next)).await.unwrap();
    assert_eq!(rest.next, None);
    let tags: Vec<_> =
        first.rows.into_iter().chain(rest.rows).map(|tag| (tag.name, tag.devices)).collect();
    assert_eq!(tags, [("beta".into(), 0), ("vip".into(), 1), ("Äpfel".into(), 1)]);
}

pub async fn tags_of_others_are_unknown(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    given::devices(store, app, 1).await;
    given::devices(store, other, 1).await;
    given::tagged(store, app, "d000", "vip", true).await;
    assert_eq!(store.list_tags(other, given::page(10)).await.unwrap().rows, []);
    assert!(is_unknown(&store.remove_tag(other, id("d000"), "vip".into()).await));
    assert_eq!(store.device(other, id("d000")).await.unwrap().tags, []);
}
