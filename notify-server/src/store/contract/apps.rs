//! Applications, keys and providers.

use macro_rules_attribute::apply;
use std::sync::{Arc, Mutex};

use notify_core::{
    AppChange, AppId, AppStatus, DeviceLimits, KeyGrant, KeyId, KeyScope, KeyScopes, KeyTerms,
    ProviderKind, Timestamp,
};
use uuid::Uuid;

use super::fixtures::{self, NOW};
use super::is_unknown;
use crate::store::{
    AppNo, Change, ChangeListener, DeliveryChange, EXPIRED_KEYS_LISTED_MS, NewKey, ProviderRow,
    Store,
};

#[apply(contract)]
async fn bootstrap_creates_the_first_application_once(store: &Store) {
    let id = AppId(Uuid::now_v7());
    let (api, admin) = (fixtures::key(1), fixtures::key(2));
    let made = store.bootstrap(id, fixtures::new_app("default"), api.clone(), admin.clone()).await;
    assert!(made.unwrap());
    let other = AppId(Uuid::now_v7());
    let again = store
        .bootstrap(other, fixtures::new_app("default"), fixtures::key(3), fixtures::key(4))
        .await;
    assert!(!again.unwrap());
    assert_eq!(store.list_apps(fixtures::page(10)).await.unwrap().rows.len(), 1);
    let access = store.find_app_by_key(api.hash).await.unwrap().unwrap();
    assert_eq!((access.app.id, access.key), (id, api.id));
    assert_eq!(store.admin_key(admin.hash).await.unwrap().map(|key| key.id), Some(admin.id));
    assert_eq!(store.find_app_by_key([3; 32]).await.unwrap(), None);
}

#[apply(contract)]
async fn unshown_keys_get_additional_keys(store: &Store) {
    let replaced = store.add_keys_if_unshown(fixtures::key(5), fixtures::key(6)).await;
    assert!(!replaced.unwrap(), "there is no application yet");
    let id = AppId(Uuid::now_v7());
    let [first, second] =
        [(1, 2), (3, 4)].map(|(api, admin)| (fixtures::key(api), fixtures::key(admin)));
    let app = fixtures::new_app("default");
    store.bootstrap(id, app, first.0.clone(), first.1.clone()).await.unwrap();
    let replaced = store.add_keys_if_unshown(second.0.clone(), second.1.clone()).await;
    assert!(replaced.unwrap());
    for (api, admin) in [first, second] {
        let access = store.find_app_by_key(api.hash).await.unwrap().unwrap();
        assert_eq!((access.app.id, access.key), (id, api.id));
        assert_eq!(store.admin_key(admin.hash).await.unwrap().map(|key| key.id), Some(admin.id));
    }
    store.keys_shown().await.unwrap();
    let replaced = store.add_keys_if_unshown(fixtures::key(5), fixtures::key(6)).await;
    assert!(!replaced.unwrap(), "they were shown");
    assert_eq!(store.find_app_by_key(fixtures::key(5).hash).await.unwrap(), None);
}

#[apply(contract)]
async fn applications_are_listed_by_a_range_of_ids(store: &Store) {
    let id = |number: u128| AppId(Uuid::from_u128((0x7 << 124) | number));
    for number in [1, 2, 3, 4] {
        let app = fixtures::new_app("app");
        store.create_app(id(number), app, None, NOW).await.unwrap();
    }
    fixtures::named_app(store, "with a random id").await;
    store.delete_app(id(3)).await.unwrap();
    assert_eq!(store.apps_between(id(2), id(4)).await.unwrap(), [id(2), id(4)]);
    assert_eq!(store.apps_between(id(5), id(9)).await.unwrap(), []);
}

#[apply(contract)]
async fn created_application_reads_back(store: &Store) {
    let (id, no) = fixtures::named_app(store, "Laden").await;
    let (read_no, app) = store.app(id).await.unwrap();
    assert_eq!(read_no, no);
    assert_eq!((app.id, app.name.as_str(), app.language.as_str()), (id, "Laden", "en"));
    assert_eq!((app.status, app.created_at), (AppStatus::Active, NOW));
    assert!(is_unknown(&store.app(AppId(Uuid::now_v7())).await));
}

#[apply(contract)]
async fn changing_an_application_keeps_other_fields(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let change = AppChange { status: Some(AppStatus::Suspended), ..AppChange::default() };
    store.change_app(id, change).await.unwrap();
    let rename = AppChange { name: Some("Store".into()), ..AppChange::default() };
    store.change_app(id, rename.clone()).await.unwrap();
    let (_, app) = store.app(id).await.unwrap();
    assert_eq!((app.name.as_str(), app.status), ("Store", AppStatus::Suspended));
    assert!(is_unknown(&store.change_app(AppId(Uuid::now_v7()), rename).await));
}

#[apply(contract)]
async fn applications_are_listed_oldest_first(store: &Store) {
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(fixtures::named_app(store, name).await.0);
    }
    let first = store.list_apps(fixtures::page(2)).await.unwrap();
    assert_eq!(first.rows.iter().map(|app| app.id).collect::<Vec<_>>(), ids[..2]);
    let rest = store.list_apps(fixtures::next_page(2, first.next)).await.unwrap();
    assert_eq!(rest.rows.iter().map(|app| app.id).collect::<Vec<_>>(), ids[2..]);
    assert_eq!(rest.next, None);
}

#[apply(contract)]
async fn key_finds_its_application_until_revoked(store: &Store) {
    let (id, no) = fixtures::named_app(store, "Shop").await;
    let key = fixtures::key(7);
    store.add_key(id, key.clone(), KeyTerms::default()).await.unwrap();
    let access = store.find_app_by_key(key.hash).await.unwrap().unwrap();
    assert_eq!((access.no, access.app.id, access.key), (no, id, key.id));
    let suspend = AppChange { status: Some(AppStatus::Suspended), ..AppChange::default() };
    store.change_app(id, suspend).await.unwrap();
    let access = store.find_app_by_key(key.hash).await.unwrap().unwrap();
    assert_eq!(access.app.status, AppStatus::Suspended);
    store.revoke_key(id, key.id).await.unwrap();
    assert_eq!(store.find_app_by_key(key.hash).await.unwrap(), None);
    assert!(is_unknown(&store.revoke_key(id, key.id).await));
}

#[apply(contract)]
async fn revoking_a_key_of_another_application_fails(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let (other, _) = fixtures::named_app(store, "Other").await;
    let (first, second) = (fixtures::key(7), fixtures::key(8));
    store.add_key(id, first.clone(), KeyTerms::default()).await.unwrap();
    store.add_key(id, second.clone(), KeyTerms::default()).await.unwrap();
    assert!(is_unknown(&store.revoke_key(other, first.id).await));
    let keys = store.list_keys(id).await.unwrap();
    assert_eq!(keys.iter().map(|key| key.id).collect::<Vec<_>>(), [first.id, second.id]);
    assert_eq!((keys[0].name.as_deref(), keys[0].last_used_at), (Some("backend"), None));
    assert_eq!(store.list_keys(other).await.unwrap(), []);
    assert!(is_unknown(&store.list_keys(AppId(Uuid::now_v7())).await));
}

#[apply(contract)]
async fn a_key_has_its_scopes_and_its_expiry(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let some = KeyScopes::Only(vec![KeyScope::Read, KeyScope::Webhooks]);
    let limits = DeviceLimits {
        allowed_tags: vec!["news".to_owned()],
        allowed_attributes: vec!["plan".to_owned()],
    };
    for (byte, grant, scopes) in [
        (7, KeyGrant::Api(KeyScopes::All), KeyScope::ALL.to_vec()),
        (8, KeyGrant::Api(some), vec![KeyScope::Read, KeyScope::Webhooks]),
        (9, KeyGrant::Devices(limits.clone()), vec![]),
    ] {
        let key = fixtures::key(byte);
        let expires_at = (byte == 8).then(|| NOW.plus_ms(1));
        let terms = KeyTerms { grant: grant.clone(), expires_at };
        store.add_key(id, key.clone(), terms.clone()).await.unwrap();
        let access = store.find_app_by_key(key.hash).await.unwrap().unwrap();
        assert_eq!((access.key, access.terms), (key.id, terms));
        let listed = store.list_keys(id).await.unwrap();
        let listed = listed.iter().find(|listed| listed.id == key.id).unwrap();
        assert_eq!((&listed.scopes, listed.expires_at), (&scopes, expires_at));
        assert_eq!(listed.kind, grant.kind());
        let listed = (listed.allowed_tags.clone(), listed.allowed_attributes.clone());
        let expected = if byte == 9 { limits.clone() } else { DeviceLimits::default() };
        assert_eq!(listed, (expected.allowed_tags, expected.allowed_attributes));
    }
}

#[apply(contract)]
async fn a_rotated_key_ends_after_the_overlap_and_never_later(store: &Store) {
    let (id, no) = fixtures::named_app(store, "Shop").await;
    let (other, _) = fixtures::named_app(store, "Other").await;
    let grant = KeyGrant::Api(KeyScopes::Only(vec![KeyScope::Read]));
    let hour = 3_600_000;
    for (nth, lifetime, overlap, end, successor_end) in [
        (0, None, hour, hour, None),
        (1, None, 0, 0, None),
        (2, Some(10 * hour), hour, hour, Some(10 * hour)),
        (3, Some(hour), 10 * hour, hour, Some(hour)),
    ] {
        let (key, successor) = (fixtures::key(10 + nth), fixtures::key(20 + nth));
        let ends = |ms: i64| NOW.plus_ms(ms);
        let terms = KeyTerms { grant: grant.clone(), expires_at: lifetime.map(ends) };
        store.add_key(id, key.clone(), terms).await.unwrap();
        assert!(is_unknown(&store.rotate_key(other, key.id, successor.clone(), overlap).await));
        let nameless = NewKey { name: None, ..successor.clone() };
        store.rotate_key(id, key.id, nameless, overlap).await.unwrap();
        let rotated = store.find_app_by_key(key.hash).await.unwrap().unwrap();
        assert_eq!(rotated.terms.expires_at, Some(ends(end)), "{nth}");
        assert!(!rotated.is_valid(ends(end)) && (end == 0 || rotated.is_valid(ends(end - 1))));
        let new = store.find_app_by_key(successor.hash).await.unwrap().unwrap();
        assert_eq!((new.no, new.key, &new.terms.grant), (no, successor.id, &grant));
        assert_eq!(new.terms.expires_at, successor_end.map(ends), "{nth}");
        let listed = store.list_keys(id).await.unwrap();
        let listed = listed.iter().find(|listed| listed.id == successor.id).unwrap();
        assert_eq!(listed.name, key.name);
    }
    assert!(store.list_keys(other).await.unwrap().is_empty(), "nothing was made there");
    let unknown = KeyId(Uuid::now_v7());
    assert!(is_unknown(&store.rotate_key(id, unknown, fixtures::key(30), hour).await));
}

#[apply(contract)]
async fn a_second_rotation_plans_the_same_lifetime(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let terms = KeyTerms { expires_at: Some(NOW.plus_ms(1_000_000)), ..KeyTerms::default() };
    let key = fixtures::key(1);
    store.add_key(id, key.clone(), terms).await.unwrap();
    // The first successor is lost, so the same key is rotated again.
    for (byte, later) in [(2, 1_000), (3, 2_000)] {
        let successor = NewKey { created_at: NOW.plus_ms(later), ..fixtures::key(byte) };
        store.rotate_key(id, key.id, successor.clone(), 500).await.unwrap();
        let access = store.find_app_by_key(successor.hash).await.unwrap().unwrap();
        assert_eq!(access.terms.expires_at, Some(NOW.plus_ms(later + 1_000_000)));
    }
    let rotated = store.find_app_by_key(key.hash).await.unwrap().unwrap();
    assert_eq!(rotated.terms.expires_at, Some(NOW.plus_ms(1_500)), "a rotation extends nothing");
}

#[apply(contract)]
async fn a_new_key_removes_keys_that_expired_long_ago(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let terms = KeyTerms { expires_at: Some(NOW.plus_ms(1)), ..KeyTerms::default() };
    let (expired, lasting) = (fixtures::key(1), fixtures::key(2));
    store.add_key(id, expired.clone(), terms).await.unwrap();
    store.add_key(id, lasting.clone(), KeyTerms::default()).await.unwrap();
    for (byte, later, is_listed) in [(3, 1, true), (4, 2, false)] {
        let created_at = NOW.plus_ms(EXPIRED_KEYS_LISTED_MS + later);
        let key = NewKey { created_at, ..fixtures::key(byte) };
        store.add_key(id, key, KeyTerms::default()).await.unwrap();
        let listed = store.list_keys(id).await.unwrap();
        assert_eq!(listed.iter().any(|key| key.id == expired.id), is_listed);
        assert!(listed.iter().any(|key| key.id == lasting.id));
    }
}

#[apply(contract)]
async fn admin_keys_find_no_application(store: &Store) {
    let key = fixtures::key(9);
    store.add_admin_key(key.clone()).await.unwrap();
    assert_eq!(store.admin_key(key.hash).await.unwrap().map(|key| key.id), Some(key.id));
    assert_eq!(store.find_app_by_key(key.hash).await.unwrap(), None);
    assert_eq!(store.admin_key([1; 32]).await.unwrap(), None);
}

#[apply(contract)]
async fn last_use_of_a_key_never_decreases(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let key = fixtures::key(7);
    store.add_key(id, key.clone(), KeyTerms::default()).await.unwrap();
    let later = NOW.plus_ms(60_000);
    let unknown = (KeyId(Uuid::now_v7()), NOW);
    store.touch_keys(vec![(key.id, later), unknown], vec![]).await.unwrap();
    store.touch_keys(vec![(key.id, NOW)], vec![]).await.unwrap();
    assert_eq!(store.list_keys(id).await.unwrap()[0].last_used_at, Some(later));
}

#[apply(contract)]
async fn deleting_an_application_keeps_others(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    let (other_id, other) = fixtures::named_app(store, "Other").await;
    for (id, app, byte) in [(id, app, 1), (other_id, other, 2)] {
        store.add_key(id, fixtures::key(byte), KeyTerms::default()).await.unwrap();
        let (_, keys) = fixtures::retried(store, app, 3).await;
        assert_eq!(keys.len(), 3);
        fixtures::tagged(store, app, "d000", "vip", true).await;
    }
    store.delete_app(id).await.unwrap();
    assert!(is_unknown(&store.app(id).await));
    assert!(is_unknown(&store.device(app, fixtures::id("d000")).await));
    assert!(is_unknown(&store.delete_app(id).await));
    assert_eq!(store.find_app_by_key([1; 32]).await.unwrap(), None);
    assert_eq!(store.open_retries(app, notify_core::Platform::Android, NOW).await.unwrap(), 0);
    assert!(store.find_app_by_key([2; 32]).await.unwrap().is_some());
    assert_eq!(store.device(other, fixtures::id("d000")).await.unwrap().tags.len(), 1);
    assert_eq!(store.open_retries(other, notify_core::Platform::Android, NOW).await.unwrap(), 3);
    let next = fixtures::app(store).await;
    assert!(next > other, "the number of an application is not given again");
}

#[apply(contract)]
async fn providers_are_stored_sealed_with_versions(store: &Store) {
    let (id, no) = fixtures::named_app(store, "Shop").await;
    let row = |provider, sealed: &[u8]| ProviderRow {
        provider,
        sealed: sealed.to_vec(),
        updated_at: NOW,
    };
    store.put_provider(id, row(ProviderKind::Fcm, b"one")).await.unwrap();
    store.put_provider(id, row(ProviderKind::Apns, b"two")).await.unwrap();
    store.put_provider(id, row(ProviderKind::Fcm, b"three")).await.unwrap();
    let rows = store.providers(id).await.unwrap();
    let names: Vec<_> = rows.iter().map(|row| row.provider).collect();
    assert_eq!(names, [ProviderKind::Apns, ProviderKind::Fcm]);
    assert_eq!(rows[1].sealed, b"three");
    assert!(rows[1].updated_at > NOW, "two versions of one instant differ");
    let (bound_to, found) = store.provider(no, ProviderKind::Fcm).await.unwrap().unwrap();
    assert_eq!((bound_to, found.sealed.as_slice()), (id, b"three".as_slice()));
    assert_eq!(store.provider(no, ProviderKind::WebPush).await.unwrap(), None);
    store.delete_provider(id, ProviderKind::Fcm).await.unwrap();
    assert!(is_unknown(&store.delete_provider(id, ProviderKind::Fcm).await));
    assert!(is_unknown(&store.put_provider(AppId(Uuid::now_v7()), rows[0].clone()).await));
}

#[apply(contract)]
async fn dropped_configurations_are_not_returned_as_sealed(store: &Store) {
    let (id, _) = fixtures::named_app(store, "Shop").await;
    let row = |sealed: &[u8]| ProviderRow {
        provider: ProviderKind::Fcm,
        sealed: sealed.to_vec(),
        updated_at: NOW,
    };
    assert_eq!(store.any_sealed().await.unwrap(), None);
    store.put_provider(id, row(b"one")).await.unwrap();
    assert_eq!(store.any_sealed().await.unwrap(), Some((id, row(b"one"))));
    store.put_provider(id, row(b"")).await.unwrap();
    assert_eq!(store.any_sealed().await.unwrap(), None);
    store.put_provider(id, row(b"two")).await.unwrap();
    assert!(store.any_sealed().await.unwrap().is_some());
    store.delete_app(id).await.unwrap();
    assert_eq!(store.any_sealed().await.unwrap(), None);
}

/// Records changes.
#[derive(Default)]
pub(crate) struct ChangeRecorder(Mutex<Vec<Change>>);

impl ChangeListener for ChangeRecorder {
    fn on_change(&self, change: Change) {
        self.0.lock().unwrap().push(change);
    }
}

impl ChangeRecorder {
    pub(crate) fn take(&self) -> Vec<Change> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

#[apply(contract)]
async fn listeners_are_called_before_the_write_returns(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    let changes = Arc::new(ChangeRecorder::default());
    store.subscribe(changes.clone());
    fixtures::accepted(store, app, fixtures::broadcast(&[notify_core::Platform::Ios])).await;
    assert_eq!(changes.take(), [Change::Delivery(DeliveryChange::NotificationDue)]);
    let mut later = fixtures::broadcast(&[notify_core::Platform::Ios]);
    later.checked.schedule = notify_core::Schedule::At(Timestamp(NOW.0 + 1));
    let later = fixtures::accepted(store, app, later).await;
    assert_eq!(changes.take(), [Change::Delivery(DeliveryChange::NotificationScheduled)]);
    store.cancel_notification(app, later.clone(), NOW).await.unwrap();
    assert!(matches!(
        changes.take()[..],
        [Change::Delivery(DeliveryChange::NotificationCanceled(_))]
    ));
    fixtures::devices(store, app, 1).await;
    assert!(matches!(changes.take()[..], [Change::Delivery(DeliveryChange::Device(_))]));
    store.change_app(id, AppChange::default()).await.unwrap();
    assert_eq!(changes.take(), [Change::App(app)]);
    assert!(store.cancel_notification(app, later, NOW).await.is_err());
    assert!(is_unknown(&store.device(AppNo(app.0 + 1), fixtures::id("d000")).await));
    assert_eq!(changes.take(), [], "what failed changed nothing");
}
