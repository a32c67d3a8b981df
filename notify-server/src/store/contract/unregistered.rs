//! Disabling devices whose addresses are unregistered, and no others.

use macro_rules_attribute::apply;
use notify_core::{DeviceDetails, Endpoint, IosEnv, Platform, Subscription, Timestamp};

use super::fixtures::{self, NOW, android, id};
use crate::store::{
    AppNo, Checkpoint, DeadAddress, DeviceKey, MovedAddress, REGISTRATION_WRITTEN_EVERY_MS, Store,
    StoreError,
};

pub(in crate::store) fn report(
    key: DeviceKey,
    address: &str,
    since: Option<Timestamp>,
) -> DeadAddress {
    DeadAddress {
        key,
        address: address.into(),
        ios_env: IosEnv::Production,
        reason: "Unregistered".into(),
        since,
        at: NOW,
        ambiguous: None,
    }
}

/// An ambiguous report of an unregistered address.
pub(super) async fn one_of_each(store: &Store, app: AppNo) {
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let dead = vec![DeadAddress { ambiguous: Some(0), ..report(keys[0], "token-d000", None) }];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, keys.len()) }).await.unwrap();
}

/// A device that has another token by now is not disabled. A device that registers the same token
/// again stays disabled.
#[apply(set_contract)]
async fn unregistered_address_disables_its_device(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let renewed =
        fixtures::registration("d001", Endpoint::Android { push_token: Some("new".into()) });
    fixtures::registered(store, app, renewed).await;
    let dead = vec![report(keys[0], "token-d000", None), report(keys[1], "token-d001", None)];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 2) }).await.unwrap();
    let device = store.device(app, id("d000")).await.unwrap();
    let reason = Some(notify_core::DisabledReason::Unregistered);
    assert_eq!((device.enabled, device.disabled_reason), (false, reason));
    assert!(store.device(app, id("d001")).await.unwrap().enabled);
    let counts = store.count_devices(app, None, NOW, NOW).await.unwrap();
    assert_eq!((counts[0].enabled, counts[0].disabled), (1, 1));
    fixtures::registered(store, app, android("d000")).await;
    assert!(!store.device(app, id("d000")).await.unwrap().enabled, "the same token stays dead");
    let renewed =
        fixtures::registration("d000", Endpoint::Android { push_token: Some("newer".into()) });
    fixtures::registered(store, app, renewed).await;
    assert!(store.device(app, id("d000")).await.unwrap().enabled);
}

/// A token looks unregistered on the wrong host, and works on the host that the device has now.
#[apply(set_contract)]
async fn device_with_another_apns_host_stays_enabled(store: &Store) {
    let app = fixtures::app(store).await;
    let phone = |device: &str, env| {
        let push_token = Some(format!("token-{device}"));
        fixtures::registration(device, Endpoint::Ios { push_token, env })
    };
    for (device, env) in [("d000", None), ("d001", Some(IosEnv::Sandbox))] {
        fixtures::registered(store, app, phone(device, env)).await;
    }
    let dispatch = fixtures::dispatch(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    for (device, env) in [("d000", Some(IosEnv::Sandbox)), ("d001", None)] {
        fixtures::registered(store, app, phone(device, env)).await;
    }
    let from_sandbox =
        DeadAddress { ios_env: IosEnv::Sandbox, ..report(keys[1], "token-d001", None) };
    let dead = vec![report(keys[0], "token-d000", None), from_sandbox.clone()];
    let page =
        store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 2) }).await.unwrap();
    for device in ["d000", "d001"] {
        assert!(store.device(app, id(device)).await.unwrap().enabled, "{device}");
    }
    let dead = vec![DeadAddress { ios_env: IosEnv::Production, ..from_sandbox }];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 2) }).await.unwrap();
    assert!(!store.device(app, id("d001")).await.unwrap().enabled, "the host it has now");
}

/// The time of a report is compared with the last registration, even if that is only buffered.
#[apply(set_contract)]
async fn later_registration_keeps_a_device_enabled(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let again = NOW.plus_ms(REGISTRATION_WRITTEN_EVERY_MS);
    store.register_device(app, android("d001"), again, None).await.unwrap();
    let dead = vec![
        report(keys[0], "token-d000", Some(NOW.plus_ms(-1))),
        report(keys[1], "token-d001", Some(again.plus_ms(-1))),
        report(keys[2], "token-d002", Some(NOW.plus_ms(1))),
    ];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 3) }).await.unwrap();
    for (device, enabled) in [("d000", true), ("d001", true), ("d002", false)] {
        assert_eq!(store.device(app, id(device)).await.unwrap().enabled, enabled, "{device}");
    }
}

/// Answers that a wrong key or host would also cause are applied one by one, and undone once they
/// come en masse; an administrator goes on from there.
#[apply(set_contract)]
async fn guard_keeps_devices_enabled_on_mass_unregistration(store: &Store) {
    let (app_id, app) = fixtures::named_app(store, "Shop").await;
    fixtures::devices(store, app, 30).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, mut page) = fixtures::whole_page(store, &dispatch).await;
    let looks_dead = |nth: usize| DeadAddress {
        ambiguous: Some(0),
        ..report(keys[nth], &format!("token-d{nth:03}"), None)
    };
    let disabled = async || store.count_devices(app, None, NOW, NOW).await.unwrap()[0].disabled;
    for nth in 0..20 {
        let dead = vec![looks_dead(nth)];
        page =
            store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 30) }).await.unwrap();
    }
    assert_eq!(disabled().await, 20, "2 % of a thousand answers may be");
    assert!(!store.guard_tripped(app, Platform::Android).await.unwrap());
    let dead = vec![looks_dead(20), looks_dead(21)];
    page = store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 30) }).await.unwrap();
    assert_eq!(disabled().await, 0, "all of them are enabled again");
    assert!(store.device(app, id("d000")).await.unwrap().enabled);
    assert!(store.guard_tripped(app, Platform::Android).await.unwrap());
    assert!(!store.guard_tripped(app, Platform::Ios).await.unwrap());

    let kind = notify_core::ProviderKind::Fcm;
    assert!(matches!(store.release_provider(app_id, kind).await, Err(StoreError::NotFound)));
    fixtures::provider(store, app_id, kind).await;
    store.release_provider(app_id, kind).await.unwrap();
    assert!(!store.guard_tripped(app, Platform::Android).await.unwrap());
    let dead = vec![looks_dead(22)];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 30) }).await.unwrap();
    assert_eq!(disabled().await, 1, "counted from the beginning");
}

/// The guard counts reports within a window of responses, so other responses in between push old
/// reports out.
#[apply(set_contract)]
async fn guard_allows_occasional_unregistrations(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 40).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, mut page) = fixtures::whole_page(store, &dispatch).await;
    for (nth, key) in keys.iter().enumerate() {
        let mut looks_dead = report(*key, &format!("token-d{nth:03}"), None);
        looks_dead.ambiguous = Some(60);
        let dead = vec![looks_dead];
        page =
            store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 40) }).await.unwrap();
    }
    let counts = store.count_devices(app, None, NOW, NOW).await.unwrap();
    assert_eq!(counts[0].disabled, 40);
}

/// A new address that a provider reports replaces the address that was sent to.
#[apply(set_contract)]
async fn replaced_address_is_stored(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let moved = |nth: usize, from: &str, to: &str| MovedAddress {
        key: keys[nth],
        from: from.into(),
        to: to.into(),
        at: NOW,
    };
    let all = vec![
        moved(0, "token-d000", "chat-2"),
        moved(1, "token-of-before", "chat-3"),
        moved(2, "token-d002", "token-d001"),
    ];
    store.checkpoint(Checkpoint { moved: all, ..fixtures::checkpoint(page, 3) }).await.unwrap();
    let read = store.read_range(&dispatch, dispatch.cursor, dispatch.until).await.unwrap();
    let addresses: Vec<_> = read.iter().map(|device| device.address.as_deref()).collect();
    assert_eq!(addresses, [Some("chat-2"), None, Some("token-d001")]);
    assert_eq!(read[2].previous_owner.map(|(from, _)| from), Some(keys[1]), "one device has it");
}

/// A subscription counts as a registration, even if it changes nothing.
#[apply(set_contract)]
async fn later_subscription_keeps_a_device_enabled(store: &Store) {
    let app = fixtures::app(store).await;
    let subscribe = |at| async move {
        let subscription = Subscription {
            device_id: Some(id("chat")),
            endpoint: Endpoint::ChatApp { recipient_id: "123".into() },
            utc_offset_minutes: 0,
            timezone_minutes: None,
            user_id: None,
            details: DeviceDetails::default(),
        };
        store.subscribe_device(app, subscription, id("made"), at, None).await.unwrap();
    };
    subscribe(NOW).await;
    let dispatch = fixtures::dispatch(store, app, fixtures::broadcast(&[Platform::ChatApp])).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let again = NOW.plus_ms(REGISTRATION_WRITTEN_EVERY_MS);
    subscribe(again).await;
    let dead = vec![report(keys[0], "123", Some(again.plus_ms(-1)))];
    let page =
        store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 1) }).await.unwrap();
    assert!(store.device(app, id("chat")).await.unwrap().enabled);
    let dead = vec![report(keys[0], "123", Some(again))];
    store.checkpoint(Checkpoint { dead, ..fixtures::checkpoint(page, 1) }).await.unwrap();
    assert!(!store.device(app, id("chat")).await.unwrap().enabled);
}
