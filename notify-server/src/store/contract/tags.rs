//! Tags.

use macro_rules_attribute::apply;
use notify_core::{TAGS_PER_DEVICE_MAX, Tag};

use super::fixtures::{self, id, tag};
use super::is_unknown;
use crate::store::{Store, StoreError};

#[apply(set_contract)]
async fn setting_tags_keeps_other_tags(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let device = id("d000");
    let first = vec![tag("vip", true), tag("news", true)];
    store.set_tags(app, device.clone(), first, None).await.unwrap();
    store.set_tags(app, device.clone(), vec![tag("vip", false)], None).await.unwrap();
    let tags = store.device(app, device).await.unwrap().tags;
    assert_eq!(tags, [tag("news", true), tag("vip", false)]);
    assert!(is_unknown(&store.set_tags(app, id("missing"), vec![], None).await));
}

/// Also for concurrent requests that exceed the limit together.
#[apply(set_contract)]
async fn tags_per_device_are_limited(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let most = usize::try_from(TAGS_PER_DEVICE_MAX).unwrap();
    let some = |from: usize, count: usize| -> Vec<Tag> {
        (from..from + count).map(|number| tag(&format!("t{number:04}"), true)).collect()
    };
    let set = |tags: Vec<Tag>| store.set_tags(app, id("d000"), tags, None);
    let (a, b, c) = tokio::join!(
        set(some(0, most / 2)),
        set(some(most / 2, most / 2)),
        set(some(most, most / 2))
    );
    let outcomes = [a, b, c];
    let refused: Vec<_> = outcomes.into_iter().filter_map(Result::err).collect();
    assert_eq!(refused.len(), 1, "one of three exceeds the limit: {refused:?}");
    let Some(StoreError::Refused(what)) = refused.into_iter().next() else { panic!("refused") };
    assert_eq!(what.as_slice(), ["tags: must leave the device at most 1000 tags"]);
    let tags = || async { store.device(app, id("d000")).await.unwrap().tags };
    let full = tags().await;
    assert_eq!(full.len(), most, "nothing of what was refused is there");
    let refused = set(vec![tag("one more", false)]).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))));
    // Existing tags can change, and removing one makes room.
    set(vec![tag(&full[0].name, false)]).await.unwrap();
    store.remove_tag(app, id("d000"), full[0].name.clone()).await.unwrap();
    set(vec![tag("one more", false)]).await.unwrap();
    assert_eq!(tags().await.len(), most);
    // The limit applies per device.
    store.set_tags(app, id("d001"), some(0, most), None).await.unwrap();
}

#[apply(set_contract)]
async fn removing_a_tag_twice_is_not_found(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    fixtures::tagged(store, app, "d000", "vip", true).await;
    store.remove_tag(app, id("d000"), "vip".into()).await.unwrap();
    assert_eq!(store.device(app, id("d000")).await.unwrap().tags, []);
    assert!(is_unknown(&store.remove_tag(app, id("d000"), "vip".into()).await));
    assert!(is_unknown(&store.remove_tag(app, id("missing"), "vip".into()).await));
}

#[apply(set_contract)]
async fn tags_are_listed_by_name_with_device_counts(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for (device, name, value) in [
        ("d000", "vip", true),
        ("d001", "vip", true),
        ("d002", "vip", false),
        ("d000", "Äpfel", true),
        ("d001", "beta", false),
    ] {
        fixtures::tagged(store, app, device, name, value).await;
    }
    fixtures::tagged(store, app, "d001", "vip", false).await;
    let first = store.list_tags(app, fixtures::page(2)).await.unwrap();
    let rest = store.list_tags(app, fixtures::next_page(2, first.next)).await.unwrap();
    assert_eq!(rest.next, None);
    let tags: Vec<_> =
        first.rows.into_iter().chain(rest.rows).map(|tag| (tag.name, tag.devices)).collect();
    assert_eq!(tags, [("beta".into(), 0), ("vip".into(), 1), ("Äpfel".into(), 1)]);
}

#[apply(set_contract)]
async fn tags_of_other_applications_are_unknown(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 1).await;
    fixtures::devices(store, other_app, 1).await;
    fixtures::tagged(store, app, "d000", "vip", true).await;
    assert_eq!(store.list_tags(other_app, fixtures::page(10)).await.unwrap().rows, []);
    assert!(is_unknown(&store.remove_tag(other_app, id("d000"), "vip".into()).await));
    assert_eq!(store.device(other_app, id("d000")).await.unwrap().tags, []);
}
