//! Disabling devices whose addresses are dead, and sparing all others (B22).

use notify_core::{DeviceDetails, Endpoint, IosEnv, Platform, Subscription, Timestamp};

use super::given::{self, NOW, android, id};
use crate::store::{Checkpoint, DeadAddress, DeviceKey, Store};

pub(super) fn report(key: DeviceKey, address: &str, since: Option<Timestamp>) -> DeadAddress {
    DeadAddress {
        key,
        address: address.into(),
        ios_env: IosEnv::Production,
        reason: "Unregistered".into(),
        since,
        at: NOW,
    }
}

/// A device that has another token by now is spared; B22: the same token stays dead.
pub async fn a_dead_address_disables_the_device_that_still_has_it(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 2).await;
    let dispatch = given::android_dispatch(store, app).await;
    let (keys, page) = given::whole_page(store, &dispatch).await;
    let renewed = given::registration("d001", Endpoint::Android { push_token: Some("new".into()) });
    given::registered(store, app, renewed).await;
    let dead = vec![report(keys[0], "token-d000", None), report(keys[1], "token-d001", None)];
    store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 2) }).await.unwrap();
    let device = store.device(app, id("d000")).await.unwrap();
    let reason = Some(notify_core::DisabledReason::Unregistered);
    assert_eq!((device.enabled, device.disabled_reason), (false, reason));
    assert!(store.device(app, id("d001")).await.unwrap().enabled);
    let counts = store.count_devices(app, None, NOW, NOW).await.unwrap();
    assert_eq!((counts[0].enabled, counts[0].disabled), (1, 1));
    given::registered(store, app, android("d000")).await;
    assert!(!store.device(app, id("d000")).await.unwrap().enabled, "the same token stays dead");
    let renewed =
        given::registration("d000", Endpoint::Android { push_token: Some("newer".into()) });
    given::registered(store, app, renewed).await;
    assert!(store.device(app, id("d000")).await.unwrap().enabled);
}

/// B22: a token that was sent to the wrong host looks dead, and is not on the host it has now.
pub async fn a_device_that_has_another_host_by_now_is_spared(store: &dyn Store) {
    let app = given::app(store).await;
    let phone = |device: &str, env| {
        let push_token = Some(format!("token-{device}"));
        given::registration(device, Endpoint::Ios { push_token, env })
    };
    for (device, env) in [("d000", None), ("d001", Some(IosEnv::Sandbox))] {
        given::registered(store, app, phone(device, env)).await;
    }
    let dispatch = given::dispatch(store, app, given::broadcast(&[Platform::Ios])).await;
    let (keys, page) = given::whole_page(store, &dispatch).await;
    for (device, env) in [("d000", Some(IosEnv::Sandbox)), ("d001", None)] {
        given::registered(store, app, phone(device, env)).await;
    }
    let from_sandbox =
        DeadAddress { ios_env: IosEnv::Sandbox, ..report(keys[1], "token-d001", None) };
    let dead = vec![report(keys[0], "token-d000", None), from_sandbox.clone()];
    let page = store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 2) }).await.unwrap();
    for device in ["d000", "d001"] {
        assert!(store.device(app, id(device)).await.unwrap().enabled, "{device}");
    }
    let dead = vec![DeadAddress { ios_env: IosEnv::Production, ..from_sandbox }];
    store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 2) }).await.unwrap();
    assert!(!store.device(app, id("d001")).await.unwrap().enabled, "the host it has now");
}

/// Compared with the last registration, written or not.
pub async fn a_later_registration_spares_a_device(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 3).await;
    let dispatch = given::android_dispatch(store, app).await;
    let (keys, page) = given::whole_page(store, &dispatch).await;
    store.register_device(app, android("d001"), NOW.plus_ms(500), None).await.unwrap();
    let dead = vec![
        report(keys[0], "token-d000", Some(NOW.plus_ms(-1))),
        report(keys[1], "token-d001", Some(NOW.plus_ms(499))),
        report(keys[2], "token-d002", Some(NOW.plus_ms(1))),
    ];
    store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 3) }).await.unwrap();
    for (device, enabled) in [("d000", true), ("d001", true), ("d002", false)] {
        assert_eq!(store.device(app, id(device)).await.unwrap().enabled, enabled, "{device}");
    }
}

/// A subscription is a registration too (B25), also one that changes nothing.
pub async fn a_later_subscription_spares_a_device(store: &dyn Store) {
    let app = given::app(store).await;
    let subscribe = |at| async move {
        let subscription = Subscription {
            device_id: Some(id("chat")),
            endpoint: Endpoint::ChatApp { recipient_id: "123".into() },
            utc_offset_minutes: 0,
            details: DeviceDetails::default(),
        };
        store.subscribe_device(app, subscription, id("made"), at, None).await.unwrap();
    };
    subscribe(NOW).await;
    let dispatch = given::dispatch(store, app, given::broadcast(&[Platform::ChatApp])).await;
    let (keys, page) = given::whole_page(store, &dispatch).await;
    subscribe(NOW.plus_ms(500)).await;
    let dead = vec![report(keys[0], "123", Some(NOW.plus_ms(499)))];
    let page = store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 1) }).await.unwrap();
    assert!(store.device(app, id("chat")).await.unwrap().enabled);
    let dead = vec![report(keys[0], "123", Some(NOW.plus_ms(500)))];
    store.checkpoint(Checkpoint { dead, ..given::checkpoint(page, 1) }).await.unwrap();
    assert!(!store.device(app, id("chat")).await.unwrap().enabled);
}
