//! Idempotency.

use macro_rules_attribute::apply;
use notify_core::Platform;

use super::fixtures::{self, NOW, id, once, tag};
use super::is_unknown;
use crate::store::{Idempotent, IdempotentRequest, REPLAY_KEPT_MS, Store, StoreError};

#[apply(set_contract)]
async fn repeated_request_is_replayed(store: &Store) {
    let app = fixtures::app(store).await;
    let key = once("/v1/notifications", "k", 1);
    assert_eq!(store.replay(app, &key).await.unwrap(), None);
    let new = fixtures::broadcast(&[Platform::Ios]);
    let done = store.accept_notification(app, new, Some(key.clone())).await.unwrap();
    let answer = serde_json::to_string(&fixtures::now(done)).unwrap();
    let again = fixtures::broadcast(&[Platform::Ios]);
    let replayed = store.accept_notification(app, again, Some(key.clone())).await.unwrap();
    assert_eq!(replayed, Idempotent::Replayed(answer.clone()));
    assert_eq!(store.replay(app, &key).await.unwrap(), Some(answer));
    let listed = store.list_notifications(app, None, fixtures::page(10)).await.unwrap();
    assert_eq!(listed.rows.len(), 1);
}

#[apply(set_contract)]
async fn key_with_another_body_is_refused(store: &Store) {
    let app = fixtures::app(store).await;
    let register = |device: &'static str, digest| {
        let key = Some(once("/v1/devices", "k", digest));
        async move { store.register_device(app, fixtures::android(device), NOW, key).await }
    };
    register("one", 1).await.unwrap();
    assert!(matches!(register("two", 2).await, Err(StoreError::KeyReused)));
    assert!(is_unknown(&store.device(app, id("two")).await));
    let other_body = once("/v1/devices", "k", 2);
    assert!(matches!(store.replay(app, &other_body).await, Err(StoreError::KeyReused)));
}

#[apply(set_contract)]
async fn refusals_are_not_replayed(store: &Store) {
    let app = fixtures::app(store).await;
    let key = Some(once("/v1/devices/d000/tags", "k", 1));
    let tags = vec![tag("vip", true)];
    let unknown = store.set_tags(app, id("d000"), tags.clone(), key.clone()).await;
    assert!(is_unknown(&unknown));
    fixtures::devices(store, app, 1).await;
    let done = store.set_tags(app, id("d000"), tags, key).await.unwrap();
    assert!(
        matches!(done, Idempotent::Executed(_)),
        "a request that was not executed is evaluated again"
    );
}

#[apply(set_contract)]
async fn key_is_scoped_to_path_and_application(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    for (app, path) in [(app, "/v1/devices"), (other_app, "/v1/devices"), (app, "/v1/other")] {
        let key = Some(once(path, "k", 1));
        let done = store.register_device(app, fixtures::android("x"), NOW, key).await.unwrap();
        assert!(matches!(done, Idempotent::Executed(_)), "{app:?} {path}");
    }
}

#[apply(set_contract)]
async fn replay_ends_after_a_day(store: &Store) {
    let app = fixtures::app(store).await;
    let at = |after, digest| IdempotentRequest {
        at: NOW.plus_ms(after),
        ..once("/v1/devices", "k", digest)
    };
    let register = |key: IdempotentRequest| async move {
        store.register_device(app, fixtures::android("x"), key.at, Some(key)).await.unwrap()
    };
    assert!(matches!(register(at(0, 1)).await, Idempotent::Executed(_)));
    assert!(matches!(register(at(REPLAY_KEPT_MS - 1, 1)).await, Idempotent::Replayed(_)));
    assert!(matches!(register(at(REPLAY_KEPT_MS, 2)).await, Idempotent::Executed(_)));
    assert!(matches!(register(at(REPLAY_KEPT_MS, 2)).await, Idempotent::Replayed(_)));
}
