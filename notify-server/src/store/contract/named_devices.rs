//! Notifications that name devices of any platform.

use macro_rules_attribute::apply;
use notify_core::{
    Counts, DeviceDetails, Endpoint, LocalTime, NotificationEnded, NotificationStatus, Platform,
    PlatformCounts, Schedule, Subscription, WebhookData,
};

use super::fixtures::{self, NOW, id};
use super::webhooks::{claimed, webhook};
use crate::store::{Checkpoint, Store};

/// An id counts once, for the platform of its device. An unknown id belongs to no platform.
#[apply(set_contract)]
async fn ids_of_any_platform_resolve_to_their_platforms(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    fixtures::registered(store, app, fixtures::ios("phone")).await;
    let chat = Subscription {
        device_id: Some(id("chat")),
        endpoint: Endpoint::ChatApp { recipient_id: "77".into() },
        utc_offset_minutes: 0,
        timezone_minutes: None,
        user_id: None,
        details: DeviceDetails::default(),
    };
    fixtures::now(store.subscribe_device(app, chat, id("made"), NOW, None).await.unwrap());
    let named = ["d000", "phone", "chat", "d001", "ghost", "phantom"];
    // `phone` is not an Android device, so only its naming for any platform counts.
    let new = fixtures::to_any(&named, &["d001", "phone", "d002", "missing"]);
    let id_of = fixtures::accepted(store, app, new).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    let mut reached = Vec::new();
    for no in started {
        let dispatch = store.dispatch(no).await.unwrap();
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        reached.push((dispatch.platform, keys.len()));
        let settled: Vec<_> = keys.iter().map(|key| fixtures::sent(*key)).collect();
        let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
        store.checkpoint(last).await.unwrap();
    }
    assert_eq!(reached, [(Platform::Android, 3), (Platform::Ios, 1), (Platform::ChatApp, 1)]);
    let record = store.notification(app, id_of.clone()).await.unwrap();
    let of = |platform, sent, unknown| PlatformCounts {
        platform,
        counts: Counts { targeted: sent, sent, unknown, ..Default::default() },
    };
    let by_platform =
        [of(Platform::Android, 3, 1), of(Platform::Ios, 1, 0), of(Platform::ChatApp, 1, 0)];
    assert_eq!(record.by_platform, by_platform);
    let (counts, status) = (&record.counts, record.status);
    assert_eq!((counts.sent, counts.unknown, status), (5, 3, NotificationStatus::Completed));
    for (device, is_named) in [("chat", true), ("phone", true), ("d002", true)] {
        let facts = store.delivery_facts(app, id_of.clone(), id(device)).await.unwrap();
        assert_eq!(facts.device.is_named, is_named, "{device}");
    }
}

/// By zone, each once, and unknown ids once.
#[apply(set_contract)]
async fn ids_of_any_platform_resolve_to_their_zones(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let mut east = fixtures::ios("east");
    east.utc_offset_minutes = 60;
    fixtures::registered(store, app, east).await;
    let mut new = fixtures::to_any(&["d000", "east", "ghost"], &[]);
    new.checked.schedule = Schedule::Local(LocalTime(NOW.plus_ms(3_600_000).0));
    let id_of = fixtures::accepted(store, app, new).await;
    let mut reached = Vec::new();
    for at in [NOW, NOW.plus_ms(3_600_000), NOW.plus_ms(7_200_000)] {
        let (started, _) = store.start_due(at, 10).await.unwrap();
        for no in started {
            let dispatch = store.dispatch(no).await.unwrap();
            let (keys, page) = fixtures::whole_page(store, &dispatch).await;
            reached.push((at.0 - NOW.0, dispatch.platform));
            let settled: Vec<_> = keys.iter().map(|key| fixtures::sent(*key)).collect();
            let last =
                Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
            store.checkpoint(last).await.unwrap();
        }
        store.start_due(at, 10).await.unwrap();
    }
    assert_eq!(reached, [(0, Platform::Ios), (3_600_000, Platform::Android)]);
    let counts = store.notification(app, id_of).await.unwrap().counts;
    assert_eq!((counts.sent, counts.targeted, counts.unknown), (2, 2, 1));
}

/// The result says so and the event is a failure, since nothing will ever be sent.
#[apply(set_contract)]
async fn notification_without_known_devices_reports_it(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    webhook(store, app, &[]).await;
    let cases = [
        (fixtures::to_any(&["ghost", "phantom"], &["missing"]), Some(3)),
        (fixtures::direct(&["ghost"], &["d000"]), Some(2)),
        (fixtures::to_any(&["d000", "ghost"], &[]), None),
        (fixtures::direct(&["d000", "ghost"], &[]), None),
    ];
    for (new, unknown) in cases {
        let request = new.request.clone();
        let id_of = new.id.clone();
        let created = fixtures::now(store.accept_notification(app, new, None).await.unwrap());
        assert_eq!((created.id, created.unknown), (id_of.clone(), unknown), "{request}");
        let (started, _) = store.start_due(NOW, 10).await.unwrap();
        if unknown.is_none() {
            assert_eq!(started.len(), 1, "{request}");
            continue;
        }
        assert_eq!(started, [], "{request}");
        let record = store.notification(app, id_of.clone()).await.unwrap();
        let counts = Counts { unknown: unknown.unwrap(), ..Default::default() };
        assert_eq!((record.status, record.counts), (NotificationStatus::Completed, counts));
        let data = claimed(store, NOW, 10).await.messages.remove(0).data;
        let ended = NotificationEnded {
            notification_id: id_of,
            status: NotificationStatus::Completed,
            counts,
            users: None,
            reason: Some("no_such_device".to_owned()),
        };
        assert_eq!(data, WebhookData::NotificationFailed(ended), "{request}");
    }
    // The ids of a later notification may exist when it becomes due.
    let mut later = fixtures::to_any(&["ghost"], &[]);
    later.checked.schedule = Schedule::At(NOW.plus_ms(1));
    let created = fixtures::now(store.accept_notification(app, later, None).await.unwrap());
    assert_eq!(created.unknown, None);
}
