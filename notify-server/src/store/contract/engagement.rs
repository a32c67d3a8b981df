//! Engagement.

use futures_util::future::join_all;
use macro_rules_attribute::apply;
use notify_core::{
    Day, DayCount, DayPeriod, Engagement, Event, EventType, EventsAccepted, IgnoredEvent,
    NotificationId, Platform, Timestamp,
};

use super::fixtures::{self, NOW, id};
use crate::store::{
    AppNo, Checkpoint, Outcome, RetentionCutoffs, RetryOutcome, RetryResult, Store,
};

const DAY_MS: i64 = 86_400_000;

fn event(kind: EventType, notification: &NotificationId, device: &str) -> Event {
    Event { kind, notification_id: notification.clone(), device_id: id(device), at: None }
}

async fn record(store: &Store, app: AppNo, events: Vec<Event>) -> EventsAccepted {
    fixtures::now(store.record_events(app, events, NOW, None).await.unwrap())
}

#[apply(set_contract)]
async fn event_counts_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let notification =
        fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Android])).await;
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

#[apply(set_contract)]
async fn unknown_name_ignores_only_that_event(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 1).await;
    let notification =
        fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Android])).await;
    let foreign = fixtures::broadcast(&[Platform::Android]);
    let foreign = fixtures::accepted(store, other_app, foreign).await;
    let answer = record(
        store,
        app,
        vec![
            event(EventType::Opened, &foreign, "d000"),
            event(EventType::Opened, &notification, "missing"),
            event(EventType::Opened, &notification, "d000"),
        ],
    )
    .await;
    let ignored = [(0, "unknown notification"), (1, "unknown device")];
    let ignored = ignored.map(|(index, reason)| IgnoredEvent { index, reason: reason.to_owned() });
    assert_eq!(answer, EventsAccepted { accepted: 1, ignored: ignored.to_vec() });
}

#[apply(set_contract)]
async fn names_are_looked_up_within_the_application(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 1).await;
    let notification =
        fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Android])).await;
    let missing = NotificationId::new("missing").unwrap();
    for (app, notification, device, exist) in [
        (app, None, None, true),
        (app, Some(&notification), Some("d000"), true),
        (app, Some(&missing), Some("d000"), false),
        (app, Some(&notification), Some("missing"), false),
        (other_app, Some(&notification), None, false),
        (other_app, None, Some("d000"), false),
    ] {
        let found = store.names_exist(app, notification.cloned(), device.map(id)).await;
        assert_eq!(found.unwrap(), exist, "{notification:?} {device:?}");
    }
}

/// Concurrent callers with the same events.
#[apply(set_contract)]
async fn concurrent_events_count_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 8).await;
    let notification =
        fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Android])).await;
    let of_all = |kind| -> Vec<Event> {
        (0..8).map(|device| event(kind, &notification, &format!("d{device:03}"))).collect()
    };
    let callers = (0..40).map(|caller| record(store, app, of_all(EventType::ALL[caller % 3])));
    for answer in join_all(callers).await {
        assert_eq!(answer, EventsAccepted { accepted: 8, ignored: vec![] });
    }
    let counted = Engagement { received: 8, opened: 8, clicked: 8, dismissed: 0 };
    assert_eq!(store.notification(app, notification).await.unwrap().engagement, counted);
    let day = counts(store, app, 0, 0).await;
    assert_eq!((day[0].received, day[0].opened, day[0].clicked, day[0].dismissed), (8, 8, 8, 0));
}

/// The counters of a range of days relative to now.
async fn counts(store: &Store, app: AppNo, from: i64, to: i64) -> Vec<DayCount> {
    let day = |days: i64| Day::of(NOW.plus_ms(days * DAY_MS));
    let period = DayPeriod { first: Some(day(from)), last: day(to) };
    store.count_days(app, period).await.unwrap()
}

fn nothing_on(days: i64) -> DayCount {
    let day = Day::of(NOW.plus_ms(days * DAY_MS));
    DayCount {
        day,
        sent: 0,
        failed: 0,
        unregistered: 0,
        expired: 0,
        received: 0,
        opened: 0,
        clicked: 0,
        dismissed: 0,
    }
}

#[apply(set_contract)]
async fn daily_counters_count_on_the_day_of_recording(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    assert_eq!(counts(store, app, -1, 9).await, []);
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let failed = fixtures::outcome(keys[2], Outcome::Failed, Some("SENDER_ID_MISMATCH"));
    let last = Checkpoint {
        settled: vec![fixtures::sent(keys[0]), fixtures::sent(keys[1]), failed],
        retries: vec![fixtures::retry(keys[3])],
        finished: true,
        ..fixtures::checkpoint(page, 4)
    };
    // Twice: the second finds it stored.
    for checkpoint in [last.clone(), last] {
        store.checkpoint(checkpoint).await.unwrap();
    }
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let step =
        RetryResult::Final { settled: Outcome::Sent, reason: None, attempts: 2, message_id: None };
    let outcome = || RetryOutcome {
        no: claimed[0].no,
        result: step.clone(),
        dead: None,
        moved: None,
        verified: None,
    };
    // Twice: the second finds it settled.
    for days in [1, 2] {
        let at = NOW.plus_ms(days * DAY_MS);
        store.settle_retries(fixtures::INSTANCE, vec![outcome()], at).await.unwrap();
    }
    let notification = dispatch.notification_id;
    // It happened on day 0 by the device's clock; it became known on day 3.
    let opened = Event { at: Some(NOW), ..event(EventType::Opened, &notification, "d000") };
    let dismissed = event(EventType::Dismissed, &notification, "d001");
    for days in [3, 4] {
        let events = vec![opened.clone(), dismissed.clone(), opened.clone()];
        store.record_events(app, events, NOW.plus_ms(days * DAY_MS), None).await.unwrap();
    }
    let expected = [
        DayCount { sent: 2, failed: 1, ..nothing_on(0) },
        DayCount { sent: 1, ..nothing_on(1) },
        DayCount { opened: 1, dismissed: 1, ..nothing_on(3) },
    ];
    assert_eq!(counts(store, app, -1, 9).await, expected);
    assert_eq!(counts(store, app, 1, 2).await, expected[1..2]);
    assert_eq!(counts(store, other_app, -1, 9).await, []);
    // From the beginning, as far back as a response goes.
    for (days, kept) in [(9, 3), (365, 3), (366, 2), (369, 0)] {
        let period = DayPeriod { first: None, last: Day::of(NOW.plus_ms(days * DAY_MS)) };
        assert_eq!(store.count_days(app, period).await.unwrap().len(), kept, "{days}");
    }
}

#[apply(set_contract)]
async fn daily_counters_count_every_outcome_but_canceled(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 12).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let (of_page, of_retries) = keys.split_at(6);
    // One outcome of each kind, and another one that failed.
    let kinds: Vec<Outcome> = Outcome::ALL.into_iter().chain([Outcome::Failed]).collect();
    let outcomes = of_page.iter().zip(&kinds);
    let last = Checkpoint {
        settled: outcomes.map(|(key, kind)| fixtures::outcome(*key, *kind, None)).collect(),
        retries: of_retries.iter().map(|key| fixtures::retry(*key)).collect(),
        finished: true,
        ..fixtures::checkpoint(page, keys.len())
    };
    let claim = async || store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    // Twice: the second finds it stored.
    for checkpoint in [last.clone(), last] {
        store.checkpoint(checkpoint).await.unwrap();
    }
    let of_day = |days| {
        let nothing = nothing_on(days);
        DayCount { sent: 1, failed: 2, unregistered: 1, expired: 1, ..nothing }
    };
    assert_eq!(counts(store, app, 0, 9).await, [of_day(0)]);
    let settled: Vec<RetryOutcome> = claim()
        .await
        .iter()
        .zip(&kinds)
        .map(|(retry, settled)| {
            let (reason, message_id) = (None, None);
            let settled = *settled;
            RetryOutcome::of(
                retry.no,
                RetryResult::Final { settled, reason, attempts: 2, message_id },
            )
        })
        .collect();
    assert_eq!(settled.len(), kinds.len());
    // Twice: the second finds them settled.
    for days in [1, 2] {
        let at = NOW.plus_ms(days * DAY_MS);
        store.settle_retries(fixtures::INSTANCE, settled.clone(), at).await.unwrap();
    }
    assert_eq!(counts(store, app, 0, 9).await, [of_day(0), of_day(1)]);
}

#[apply(set_contract)]
async fn daily_counters_survive_deletion(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let settled = vec![fixtures::sent(keys[0]), fixtures::outcome(keys[1], Outcome::Expired, None)];
    let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 2) };
    store.checkpoint(last).await.unwrap();
    record(store, app, vec![event(EventType::Clicked, &dispatch.notification_id, "d000")]).await;
    let before = counts(store, app, 0, 0).await;
    assert_eq!(before, [DayCount { sent: 1, expired: 1, clicked: 1, ..nothing_on(0) }]);
    let later = NOW.plus_ms(DAY_MS);
    let cutoffs = RetentionCutoffs {
        idempotency_before: Timestamp(0),
        outcomes_before: Some(later),
        events_before: Some(later),
        notifications_before: Some(later),
        anonymous_before: None,
        anonymous_surplus: None,
        audit_before: None,
        sessions: fixtures::NO_SESSIONS,
        at: NOW,
    };
    while store.delete_expired(cutoffs).await.unwrap().more {}
    store.delete_device(app, id("d000"), later).await.unwrap();
    assert_eq!(counts(store, app, 0, 0).await, before);
}
