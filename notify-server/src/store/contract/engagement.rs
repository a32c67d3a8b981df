//! Engagement (B33).

use notify_core::{
    Engagement, Event, EventType, EventsAccepted, IgnoredEvent, NotificationId, Platform,
};

use super::given::{self, NOW, id};
use crate::store::{AppNo, Store};

fn event(kind: EventType, notification: &NotificationId, device: &str) -> Event {
    Event { kind, notification_id: notification.clone(), device_id: id(device), at: None }
}

async fn record(store: &dyn Store, app: AppNo, events: Vec<Event>) -> EventsAccepted {
    given::now(store.record_events(app, events, NOW, None).await.unwrap())
}

pub async fn an_event_counts_once(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 2).await;
    let notification = given::accepted(store, app, given::broadcast(&[Platform::Android])).await;
    let events = vec![
        event(EventType::Received, &notification, "d000"),
        event(EventType::Received, &notification, "d001"),
        event(EventType::Received, &notification, "d000"),
        event(EventType::Opened, &notification, "d000"),
        event(EventType::Dismissed, &notification, "d001"),
    ];
    assert_eq!(record(store, app, events.clone()).await.accepted, 5, "repeats are no error");
    assert_eq!(record(store, app, events).await, EventsAccepted { accepted: 5, ignored: vec![] });
    let record = store.notification(app, notification).await.unwrap();
    let counted = Engagement { received: 2, opened: 1, clicked: 0, dismissed: 1 };
    assert_eq!(record.engagement, counted);
}

pub async fn an_unknown_name_ignores_that_event_alone(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    given::devices(store, app, 1).await;
    let notification = given::accepted(store, app, given::broadcast(&[Platform::Android])).await;
    let foreign = given::broadcast(&[Platform::Android]);
    let foreign = given::accepted(store, other, foreign).await;
    let answer = record(
        store,
        app,
        vec![
            event(EventType::Opened, &foreign, "d000"),
            event(EventType::Opened, &notification, "nobody"),
            event(EventType::Opened, &notification, "d000"),
        ],
    )
    .await;
    let ignored = [(0, "unknown notification"), (1, "unknown device")];
    let ignored = ignored.map(|(index, reason)| IgnoredEvent { index, reason: reason.to_owned() });
    assert_eq!(answer, EventsAccepted { accepted: 1, ignored: ignored.to_vec() });
}

pub async fn names_are_looked_up_within_the_application(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    given::devices(store, app, 1).await;
    let notification = given::accepted(store, app, given::broadcast(&[Platform::Android])).await;
    let unheard = NotificationId::new("unheard").unwrap();
    for (app, notification, device, exist) in [
        (app, None, None, true),
        (app, Some(&notification), Some("d000"), true),
        (app, Some(&unheard), Some("d000"), false),
        (app, Some(&notification), Some("nobody"), false),
        (other, Some(&notification), None, false),
        (other, None, Some("d000"), false),
    ] {
        let found = store.names_exist(app, notification.cloned(), device.map(id)).await;
        assert_eq!(found.unwrap(), exist, "{notification:?} {device:?}");
    }
}
