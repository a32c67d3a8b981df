//! Browsers that register without an API key.

use macro_rules_attribute::apply;
use notify_core::{
    AppChange, AppStatus, DeviceDetails, Endpoint, Platform, Subscription, Timestamp, WebAccess,
    WebSubscription,
};

use super::fixtures::{self, NOW, id};
use super::is_unknown;
use crate::store::{
    AddressTrust, AppNo, AudienceDevice, Checkpoint, Dispatch, NewBrowser, RetentionCutoffs, Store,
    SubscribedBrowser, VerifiedAddress,
};

fn access(origin: &str) -> WebAccess {
    WebAccess { allowed_origins: vec![origin.to_owned()], ..WebAccess::default() }
}

/// A browser with this endpoint, keys of this letter and this generated device id.
fn browser(endpoint: &str, keys: char, made: &str) -> NewBrowser {
    let subscription = Subscription {
        device_id: None,
        endpoint: Endpoint::Web(WebSubscription {
            endpoint: format!("https://push.example/{endpoint}"),
            p256dh: String::from(keys),
            auth: String::from(keys),
        }),
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    };
    NewBrowser {
        subscription,
        existing: None,
        generated_id: id(made),
        secret: secret(made),
        tags: vec![],
    }
}

/// Allows a site, and subscribes one of its browsers.
pub(super) async fn one_of_each(store: &Store, id: notify_core::AppId, no: AppNo) {
    store.set_web_access(id, access("https://a.example")).await.unwrap();
    subscribed(store, no, browser("1", 'k', "a")).await;
}

/// The secret of the device with this id.
fn secret(made: &str) -> [u8; 32] {
    [made.as_bytes()[0]; 32]
}

async fn subscribed(store: &Store, app: AppNo, browser: NewBrowser) -> SubscribedBrowser {
    store.subscribe_browser(app, browser, NOW).await.unwrap()
}

#[apply(contract)]
async fn browser_access_is_stored_until_cleared(store: &Store) {
    let (app, no) = fixtures::named_app(store, "web").await;
    assert_eq!(store.web_access(app).await.unwrap(), None);
    assert!(is_unknown(&store.clear_web_access(app).await));
    for origin in ["https://a.example", "https://b.example"] {
        store.set_web_access(app, access(origin)).await.unwrap();
        let found = store.web_access(app).await.unwrap().unwrap();
        assert_eq!((found.no, found.status, found.access), (no, AppStatus::Active, access(origin)));
    }
    let suspend = AppChange { status: Some(AppStatus::Suspended), ..AppChange::default() };
    store.change_app(app, suspend).await.unwrap();
    assert_eq!(store.web_access(app).await.unwrap().unwrap().status, AppStatus::Suspended);
    store.clear_web_access(app).await.unwrap();
    assert_eq!(store.web_access(app).await.unwrap(), None);
    store.set_web_access(app, access("https://a.example")).await.unwrap();
    store.delete_app(app).await.unwrap();
    assert_eq!(store.web_access(app).await.unwrap(), None);
    assert!(is_unknown(&store.set_web_access(app, access("https://a.example")).await));
}

#[apply(contract)]
async fn browser_is_identified_by_its_secret(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let first = subscribed(store, app, browser("1", 'k', "a")).await;
    assert_eq!(first, SubscribedBrowser { id: id("a"), has_new_secret: true });
    // Another address, as after a change of the server's key.
    let mut again = browser("2", 'l', "b");
    again.existing = Some((id("a"), secret("a")));
    again.tags = vec![fixtures::tag("vip", true)];
    let again = subscribed(store, app, again).await;
    assert_eq!(again, SubscribedBrowser { id: id("a"), has_new_secret: false });
    let device = store.device(app, id("a")).await.unwrap();
    assert_eq!((device.platform, device.tags), (Platform::Web, vec![fixtures::tag("vip", true)]));
    assert!(is_unknown(&store.device(app, id("b")).await));
    // Neither a wrong secret nor the right secret in another application gives access.
    let mut wrong = browser("3", 'm', "c");
    wrong.existing = Some((id("a"), secret("c")));
    assert_eq!(subscribed(store, app, wrong).await.id, id("c"));
    let mut elsewhere = browser("4", 'n', "d");
    elsewhere.existing = Some((id("a"), secret("a")));
    assert_eq!(subscribed(store, other_app, elsewhere).await.id, id("d"));
}

#[apply(contract)]
async fn address_alone_does_not_identify_a_browser(store: &Store) {
    let app = fixtures::app(store).await;
    subscribed(store, app, browser("1", 'k', "a")).await;
    // With the same keys it is the same browser. It has lost its secret and gets a new one.
    let same = subscribed(store, app, browser("1", 'k', "b")).await;
    assert_eq!(same, SubscribedBrowser { id: id("a"), has_new_secret: true });
    assert!(!store.is_device_secret(app, id("a"), secret("a")).await.unwrap());
    assert!(store.is_device_secret(app, id("a"), secret("b")).await.unwrap());
    // With other keys it is another browser: the device keeps everything except the address.
    let other_browser = subscribed(store, app, browser("1", 'x', "c")).await;
    assert_eq!(other_browser.id, id("c"));
    assert!(!store.is_device_secret(app, id("a"), secret("c")).await.unwrap());
    assert!(store.is_device_secret(app, id("a"), secret("b")).await.unwrap());
}

#[apply(contract)]
async fn secret_is_deleted_with_its_device(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    subscribed(store, app, browser("1", 'k', "a")).await;
    assert!(store.is_device_secret(app, id("a"), secret("a")).await.unwrap());
    for (app, device, with) in [(other_app, "a", "a"), (app, "a", "b"), (app, "b", "a")] {
        assert!(!store.is_device_secret(app, id(device), secret(with)).await.unwrap());
    }
    store.delete_device(app, id("a"), NOW).await.unwrap();
    assert!(!store.is_device_secret(app, id("a"), secret("a")).await.unwrap());
    // Nor is there one for a device with this id that is not a browser.
    subscribed(store, app, browser("2", 'k', "p")).await;
    fixtures::registered(store, app, fixtures::android("p")).await;
    assert!(!store.is_device_secret(app, id("p"), secret("p")).await.unwrap());
}

/// A subscription of a backend, with an API key.
async fn subscribed_by_backend(store: &Store, app: AppNo, endpoint: &str, device: &str) {
    let NewBrowser { mut subscription, .. } = browser(endpoint, 'k', device);
    subscription.device_id = Some(id(device));
    store.subscribe_device(app, subscription, id(device), NOW, None).await.unwrap();
}

/// The trust of the application's browsers, in the order of their keys.
async fn trust(store: &Store, app: AppNo) -> Vec<AddressTrust> {
    audience(store, app).await.1.iter().map(|device| device.trust).collect()
}

async fn audience(store: &Store, app: AppNo) -> (Dispatch, Vec<AudienceDevice>) {
    let dispatch = fixtures::dispatch(store, app, fixtures::broadcast(&[Platform::Web])).await;
    let slice = store.read_batch(&dispatch, dispatch.cursor, 100).await.unwrap();
    (dispatch, slice.devices)
}

/// Records that devices received a message at these addresses.
async fn verify(store: &Store, app: AppNo, addresses: &[(usize, &str)]) {
    let (dispatch, devices) = audience(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let verified = addresses
        .iter()
        .map(|(nth, endpoint)| VerifiedAddress {
            key: devices[*nth].key,
            address: format!("https://push.example/{endpoint}").into(),
        })
        .collect();
    let settled = keys.iter().map(|key| fixtures::sent(*key)).collect();
    let done =
        Checkpoint { settled, verified, finished: true, ..fixtures::checkpoint(page, keys.len()) };
    store.checkpoint(done).await.unwrap();
}

#[apply(contract)]
async fn web_address_is_verified_by_its_first_message(store: &Store) {
    use AddressTrust::{Anonymous, Unverified, Verified};
    let app = fixtures::app(store).await;
    subscribed(store, app, browser("1", 'k', "a")).await;
    subscribed_by_backend(store, app, "2", "b").await;
    subscribed_by_backend(store, app, "3", "c").await;
    assert_eq!(trust(store, app).await, [Unverified; 3]);
    // The third device has another address when the message to its first address is recorded.
    subscribed_by_backend(store, app, "4", "c").await;
    verify(store, app, &[(0, "1"), (1, "2"), (2, "3")]).await;
    assert_eq!(trust(store, app).await, [Anonymous, Verified, Unverified]);
    // Registering again does not change the trust. Another address does.
    subscribed(store, app, browser("1", 'k', "a")).await;
    subscribed_by_backend(store, app, "2", "b").await;
    assert_eq!(trust(store, app).await, [Anonymous, Verified, Unverified]);
    subscribed_by_backend(store, app, "5", "b").await;
    assert_eq!(trust(store, app).await, [Anonymous, Unverified, Unverified]);
    // So does a browser's own.
    let mut moved = browser("6", 'k', "y");
    moved.existing = Some((id("a"), secret("a")));
    subscribed(store, app, moved).await;
    assert_eq!(trust(store, app).await, [Unverified; 3]);
    // A device of another platform is always verified.
    fixtures::registered(store, app, fixtures::android("p")).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let slice = store.read_batch(&dispatch, dispatch.cursor, 100).await.unwrap();
    assert_eq!(slice.devices[0].trust, Verified);
}

#[apply(contract)]
async fn anonymous_devices_expire_before_their_first_message(store: &Store) {
    const DAY_MS: i64 = 86_400_000;
    let app = fixtures::app(store).await;
    for (endpoint, device) in [("1", "a"), ("2", "b"), ("3", "c")] {
        subscribed(store, app, browser(endpoint, 'k', device)).await;
    }
    subscribed_by_backend(store, app, "4", "d").await;
    verify(store, app, &[(1, "2")]).await;
    // The third device registers again a day later, in another time zone.
    let later = NOW.plus_ms(DAY_MS);
    let mut back = browser("3", 'k', "x");
    back.subscription.utc_offset_minutes = 60;
    store.subscribe_browser(app, back, later).await.unwrap();
    // The backend registers the fifth device with its API key.
    subscribed(store, app, browser("5", 'k', "e")).await;
    subscribed_by_backend(store, app, "5", "e").await;
    let cutoffs = |before| RetentionCutoffs {
        idempotency_before: Timestamp(0),
        outcomes_before: None,
        events_before: None,
        notifications_before: None,
        anonymous_before: before,
        anonymous_surplus: None,
        audit_before: None,
        sessions: fixtures::NO_SESSIONS,
        at: later,
    };
    for (before, removed, left) in [
        (None, 0, &["a", "b", "c", "d", "e"][..]),
        (Some(NOW), 0, &["a", "b", "c", "d", "e"]),
        (Some(NOW.plus_ms(1)), 1, &["b", "c", "d", "e"]),
        (Some(later.plus_ms(1)), 1, &["b", "d", "e"]),
        (Some(later.plus_ms(DAY_MS)), 0, &["b", "d", "e"]),
    ] {
        let mut sum = 0;
        loop {
            let deleted = store.delete_expired(cutoffs(before)).await.unwrap();
            sum += deleted.anonymous_devices;
            if !deleted.more {
                break;
            }
        }
        assert_eq!(sum, removed, "{before:?}");
        for device in ["a", "b", "c", "d", "e"] {
            let found = store.device(app, id(device)).await;
            assert_eq!(!is_unknown(&found), left.contains(&device), "{device} {before:?}");
        }
    }
    let counts = store.count_devices(app, None, later, later).await.unwrap();
    assert_eq!((counts[0].enabled, counts[0].disabled), (3, 0));
}
