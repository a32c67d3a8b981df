//! Devices that apps register with a publishable key.

use macro_rules_attribute::apply;
use notify_core::{
    AppDeviceRegistration, DeviceDetails, DeviceId, Endpoint, IosEnv, Platform, Subscription,
    Timestamp, UserId,
};

use super::fixtures::{self, NOW, id};
use super::is_unknown;
use crate::store::{
    AddressTrust, AppNo, Checkpoint, DeviceFilter, NewAppDevice, REGISTRATION_WRITTEN_EVERY_MS,
    RetentionCutoffs, Store, StoreError, VerifiedAddress,
};

const SECRET: [u8; 32] = [7; 32];
const OTHER: [u8; 32] = [8; 32];

pub(super) fn android(token: &str) -> Endpoint {
    Endpoint::Android { push_token: Some(token.to_owned()) }
}

fn ios(token: &str) -> Endpoint {
    Endpoint::Ios { push_token: Some(token.to_owned()), env: Some(IosEnv::Sandbox) }
}

/// An app with this address, whose new device gets this id.
pub(super) fn app_device(endpoint: Endpoint, made: &str) -> NewAppDevice {
    NewAppDevice {
        registration: AppDeviceRegistration {
            device: None,
            endpoint,
            push_disabled: false,
            utc_offset_minutes: 0,
            timezone_minutes: None,
            details: DeviceDetails::default(),
        },
        existing: None,
        generated_id: id(made),
        secret: SECRET,
    }
}

/// The same app again, which presents an id and a secret.
fn again(endpoint: Endpoint, existing: &str, secret: [u8; 32]) -> NewAppDevice {
    NewAppDevice { existing: Some((id(existing), secret)), ..app_device(endpoint, "unused") }
}

async fn registered(store: &Store, app: AppNo, device: NewAppDevice) -> Option<DeviceId> {
    store.register_app_device(app, device, NOW).await.unwrap()
}

#[apply(contract)]
async fn an_app_device_is_found_by_its_secret_alone(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    assert_eq!(registered(store, app, app_device(android("t"), "a")).await, Some(id("a")));
    let is_secret = async |app, device, secret| {
        store.is_app_device_secret(app, id(device), secret).await.unwrap()
    };
    assert!(is_secret(app, "a", SECRET).await);
    for (app, device, secret) in
        [(other_app, "a", SECRET), (app, "a", OTHER), (app, "b", SECRET), (app, "a", [0; 32])]
    {
        assert!(!is_secret(app, device, secret).await);
        let refused = again(android("stolen"), device, secret);
        assert_eq!(registered(store, app, refused).await, None);
    }
    assert_eq!(
        store.device(app, id("a")).await.unwrap().push_token.as_deref(),
        Some("t"),
        "nothing was written"
    );
    assert!(is_unknown(&store.device(app, id("b")).await));
    assert!(!store.is_device_secret(app, id("a"), SECRET).await.unwrap(), "it is no browser");
    // A device that was registered with an API key has no secret until it gets one.
    fixtures::registered(store, app, fixtures::android("p")).await;
    assert!(!is_secret(app, "p", [0; 32]).await);
    assert!(is_unknown(&store.give_device_secret(other_app, id("p"), OTHER).await));
    store.give_device_secret(app, id("p"), SECRET).await.unwrap();
    store.give_device_secret(app, id("p"), OTHER).await.unwrap();
    assert!(!is_secret(app, "p", SECRET).await && is_secret(app, "p", OTHER).await);
    store.delete_device(app, id("a"), NOW).await.unwrap();
    assert!(!is_secret(app, "a", SECRET).await);
}

#[apply(contract)]
async fn only_phones_get_a_secret(store: &Store) {
    let app = fixtures::app(store).await;
    let chat = Subscription {
        device_id: Some(id("c")),
        endpoint: Endpoint::ChatApp { recipient_id: "1".to_owned() },
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    };
    store.subscribe_device(app, chat, id("c"), NOW, None).await.unwrap();
    let refused = store.give_device_secret(app, id("c"), SECRET).await.unwrap_err();
    assert!(matches!(refused, StoreError::Refused(_)), "{refused}");
    assert!(is_unknown(&store.give_device_secret(app, id("x"), SECRET).await));
}

#[apply(contract)]
async fn a_repeated_registration_of_an_app_replaces_its_fields(store: &Store) {
    let app = fixtures::app(store).await;
    registered(store, app, app_device(ios("t"), "a")).await;
    store.log_in(app, id("a"), UserId::new("ada").unwrap(), NOW).await.unwrap();
    let same = registered(store, app, again(ios("t"), "a", SECRET)).await;
    assert_eq!(same, Some(id("a")));
    let mut later = again(ios("t2"), "a", SECRET);
    later.registration.push_disabled = true;
    let at = NOW.plus_ms(REGISTRATION_WRITTEN_EVERY_MS);
    assert_eq!(store.register_app_device(app, later, at).await.unwrap(), Some(id("a")));
    let device = store.device(app, id("a")).await.unwrap();
    assert_eq!((device.push_token.as_deref(), device.push_disabled), (Some("t2"), true));
    assert_eq!(device.user_id.as_ref().map(UserId::as_str), Some("ada"), "the log-in stays");
    assert_eq!((device.created_at, device.updated_at), (NOW, at));
    assert!(store.is_app_device_secret(app, id("a"), SECRET).await.unwrap());
    let other = store.register_app_device(app, again(android("t3"), "a", SECRET), at).await;
    assert!(matches!(other, Err(StoreError::Refused(_))), "the platform stays");
    assert_eq!(store.device(app, id("a")).await.unwrap().platform, Platform::Ios);
}

#[apply(contract)]
async fn an_app_takes_a_token_only_from_a_device_with_a_secret(store: &Store) {
    let app = fixtures::app(store).await;
    let token = async |device: &str| store.device(app, id(device)).await.unwrap().push_token;
    registered(store, app, app_device(android("t"), "a")).await;
    // The app was installed again, and has lost its secret.
    assert_eq!(registered(store, app, app_device(android("t"), "b")).await, Some(id("b")));
    assert_eq!((token("a").await, token("b").await.as_deref()), (None, Some("t")));
    fixtures::registered(store, app, fixtures::android("p")).await;
    let of_backend = token("p").await.unwrap();
    let taken = store.register_app_device(app, app_device(android(&of_backend), "c"), NOW).await;
    assert!(matches!(taken, Err(StoreError::Refused(_))));
    let taken = store.register_app_device(app, again(android(&of_backend), "b", SECRET), NOW).await;
    assert!(matches!(taken, Err(StoreError::Refused(_))));
    assert_eq!(token("p").await.as_deref(), Some(&*of_backend));
    assert_eq!(token("b").await.as_deref(), Some("t"), "nothing was written");
    assert!(is_unknown(&store.device(app, id("c")).await));
    store.give_device_secret(app, id("p"), OTHER).await.unwrap();
    assert!(registered(store, app, app_device(android(&of_backend), "c")).await.is_some());
    assert_eq!(token("p").await, None);
}

#[apply(contract)]
async fn a_token_of_an_app_is_unverified_until_it_accepts_a_message(store: &Store) {
    use AddressTrust::{Unverified, Verified};
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, fixtures::android("p")).await;
    registered(store, app, app_device(android("t"), "a")).await;
    let audience = async || {
        let broadcast = fixtures::broadcast(&[Platform::Android]);
        let dispatch = fixtures::dispatch(store, app, broadcast).await;
        let batch = store.read_batch(&dispatch, dispatch.cursor, 100).await.unwrap();
        (dispatch, batch.devices)
    };
    let trust = async || audience().await.1.iter().map(|device| device.trust).collect::<Vec<_>>();
    assert_eq!(trust().await, [Verified, Unverified]);
    let (dispatch, devices) = audience().await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let verified = vec![VerifiedAddress { key: devices[1].key, address: "t".into() }];
    let settled = keys.iter().map(|key| fixtures::sent(*key)).collect();
    let done =
        Checkpoint { settled, verified, finished: true, ..fixtures::checkpoint(page, keys.len()) };
    store.checkpoint(done).await.unwrap();
    assert_eq!(trust().await, [Verified, Verified]);
    registered(store, app, again(android("t"), "a", SECRET)).await;
    assert_eq!(trust().await, [Verified, Verified], "the same token again");
    registered(store, app, again(android("t2"), "a", SECRET)).await;
    assert_eq!(trust().await, [Verified, Unverified], "another token");
}

/// Removes the devices that were last seen before a time. Returns their number.
async fn removed(store: &Store, before: Timestamp) -> u64 {
    let cutoffs = RetentionCutoffs { anonymous_before: Some(before), ..fixtures::NOTHING_EXPIRED };
    store.delete_expired(cutoffs).await.unwrap().anonymous_devices
}

#[apply(contract)]
async fn a_device_that_never_got_a_message_expires_after_its_last_registration(store: &Store) {
    let app = fixtures::app(store).await;
    let later = NOW.plus_ms(REGISTRATION_WRITTEN_EVERY_MS);
    let without_address = Endpoint::Android { push_token: None };
    for (device, made) in [
        (android("a"), "never seen again"),
        (without_address, "without an address"),
        (ios("b"), "seen later"),
        (android("c"), "reached"),
        (android("d"), "logged in"),
        (android("e"), "known to the backend"),
    ] {
        registered(store, app, app_device(device, made)).await;
    }
    let seen = again(ios("b"), "seen later", SECRET);
    store.register_app_device(app, seen, later).await.unwrap();
    let key = store.device_key(app, id("reached")).await.unwrap();
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (_, page) = fixtures::whole_page(store, &dispatch).await;
    let verified = vec![VerifiedAddress { key, address: "c".into() }];
    store.checkpoint(Checkpoint { verified, ..fixtures::checkpoint(page, 4) }).await.unwrap();
    store.log_in(app, id("logged in"), UserId::new("ada").unwrap(), NOW).await.unwrap();
    store.give_device_secret(app, id("known to the backend"), OTHER).await.unwrap();

    assert_eq!(removed(store, NOW).await, 0);
    assert_eq!(removed(store, NOW.plus_ms(1)).await, 2);
    let ids = async || {
        let listed = store.list_devices(app, DeviceFilter::default(), fixtures::page(10)).await;
        let mut ids: Vec<_> =
            listed.unwrap().rows.iter().map(|device| device.device_id.to_string()).collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(ids().await, ["known to the backend", "logged in", "reached", "seen later"]);
    assert_eq!(removed(store, later.plus_ms(1)).await, 1);
    assert_eq!(ids().await, ["known to the backend", "logged in", "reached"]);
}

#[apply(contract)]
async fn an_application_keeps_a_bounded_number_of_devices_that_never_got_a_message(store: &Store) {
    let (app, other) = (fixtures::app(store).await, fixtures::named_app(store, "other").await.1);
    registered(store, other, app_device(android("x"), "of another")).await;
    for (made, after_ms) in [("c", 2), ("a", 0), ("b", 1), ("d", 2)] {
        let device = app_device(android(made), made);
        store.register_app_device(app, device, NOW.plus_ms(after_ms)).await.unwrap();
    }
    registered(store, app, again(android("y"), "y", SECRET)).await;
    fixtures::registered(store, app, fixtures::android("of the backend")).await;
    assert_eq!(store.count_anonymous_devices(app, 10).await.unwrap(), 4);
    assert_eq!(store.count_anonymous_devices(app, 3).await.unwrap(), 3);
    for (max, surplus) in [
        (0, None),
        (4, None),
        (3, Some(NOW.plus_ms(1))),
        (2, Some(NOW.plus_ms(2))),
        // Devices that were last seen at the same time stay together.
        (1, Some(NOW.plus_ms(2))),
    ] {
        let expected: Vec<_> = surplus.map(|before| (app, before)).into_iter().collect();
        assert_eq!(store.anonymous_surplus(max).await.unwrap(), expected, "{max}");
    }
    let anonymous_surplus = Some((app, NOW.plus_ms(2)));
    let cutoffs = RetentionCutoffs { anonymous_surplus, ..fixtures::NOTHING_EXPIRED };
    let deleted = store.delete_expired(cutoffs).await.unwrap();
    assert_eq!((deleted.anonymous_devices, deleted.more), (2, false));
    for (app, made, is_there) in [
        (app, "a", false),
        (app, "b", false),
        (app, "c", true),
        (app, "d", true),
        (app, "of the backend", true),
        (other, "of another", true),
    ] {
        assert_eq!(store.device(app, id(made)).await.is_ok(), is_there, "{made}");
    }
}
