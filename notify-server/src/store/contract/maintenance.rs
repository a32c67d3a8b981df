//! Queues, retention, storage settings and the clock.

use macro_rules_attribute::apply;
use notify_core::{
    DeviceDetails, Endpoint, Event, EventType, IosEnv, NotificationId, NotificationRecord,
    NotificationStatus, Platform, Schedule, Timestamp,
};

use super::fixtures::{self, NOW, id};
use super::{is_unknown, refusal};
use crate::clock::ClockMark;
use crate::store::{
    AppNo, AppQueue, Checkpoint, Dispatch, GrantRequest, NewReport, Outcome, Queue, REPLAY_KEPT_MS,
    RetentionCutoffs, RetentionProgress, RetryOutcome, RetryResult, Store,
};

const DAY_MS: i64 = 86_400_000;
/// A time after the end of all notifications of the checks.
const LATER: Timestamp = NOW.plus_ms(DAY_MS);

/// Deletes until nothing is left; returns the sum and the number of steps.
async fn delete_all(store: &Store, cutoffs: RetentionCutoffs) -> (RetentionProgress, u32) {
    let (mut sum, mut steps) = (RetentionProgress::default(), 0);
    loop {
        let step = store.delete_expired(cutoffs).await.unwrap();
        steps += 1;
        sum.idempotency_records += step.idempotency_records;
        sum.outcomes += step.outcomes;
        sum.events += step.events;
        sum.notifications += step.notifications;
        if !step.more {
            return (sum, steps);
        }
    }
}

/// Deletes everything that has ended.
pub(super) async fn delete_everything(store: &Store) {
    let cutoffs = RetentionCutoffs {
        notifications_before: Some(LATER.plus_ms(999 * DAY_MS)),
        ..fixtures::NOTHING_EXPIRED
    };
    assert!(delete_all(store, cutoffs).await.0.notifications > 0);
}

/// A notification to three devices: sent, failed, and sent by a retry.
pub(super) async fn ended(store: &Store, app: AppNo) -> (NotificationId, Dispatch) {
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let failed = fixtures::outcome(keys[1], Outcome::Failed, Some("SENDER_ID_MISMATCH"));
    let last = Checkpoint {
        settled: vec![fixtures::sent(keys[0]), failed],
        retries: vec![fixtures::retry(keys[2])],
        finished: true,
        ..fixtures::checkpoint(page, 3)
    };
    store.checkpoint(last).await.unwrap();
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let step =
        RetryResult::Final { settled: Outcome::Sent, reason: None, attempts: 2, message_id: None };
    let outcome =
        RetryOutcome { no: claimed[0].no, result: step, dead: None, moved: None, verified: None };
    store.settle_retries(fixtures::INSTANCE, vec![outcome], NOW.plus_ms(2_000)).await.unwrap();
    (dispatch.notification_id.clone(), dispatch)
}

async fn read(store: &Store, app: AppNo, id: &NotificationId) -> NotificationRecord {
    store.notification(app, id.clone()).await.unwrap()
}

fn event(notification: &NotificationId, kind: EventType) -> Event {
    Event { kind, notification_id: notification.clone(), device_id: id("d000"), at: None }
}

#[apply(contract)]
async fn expired_outcomes_are_deleted_and_counters_stay(store: &Store) {
    let app = fixtures::app(store).await;
    let (notification, dispatch) = ended(store, app).await;
    let before = read(store, app, &notification).await;
    assert_eq!((before.counts.sent, before.counts.failed, before.failures.len()), (2, 1, 1));
    let key = dispatch.until;
    assert!(store.delivery_outcome(dispatch.no, key).await.unwrap().is_some());
    let cutoffs = RetentionCutoffs { outcomes_before: Some(LATER), ..fixtures::NOTHING_EXPIRED };
    let (deleted, _) = delete_all(store, cutoffs).await;
    assert_eq!(deleted, RetentionProgress { outcomes: 1, ..RetentionProgress::default() });
    assert_eq!(store.delivery_outcome(dispatch.no, key).await.unwrap(), None);
    assert_eq!(read(store, app, &notification).await, before);
    let (again, _) = delete_all(store, cutoffs).await;
    assert_eq!(again, RetentionProgress::default(), "once is enough");
    store.delete_device(app, id("d002"), LATER).await.unwrap();
    assert_eq!(read(store, app, &notification).await.counts, before.counts);
}

/// The age of a notification counts from its end, not from its beginning.
#[apply(contract)]
async fn unfinished_and_recent_notifications_stay(store: &Store) {
    let app = fixtures::app(store).await;
    let (done, _) = ended(store, app).await;
    let mut later = fixtures::broadcast(&[Platform::Android]);
    later.checked.schedule = Schedule::At(LATER);
    let scheduled = fixtures::accepted(store, app, later).await;
    let open = fixtures::android_dispatch(store, app).await;
    let (_, page) = fixtures::whole_page(store, &open).await;
    let all = |before: Timestamp| RetentionCutoffs {
        idempotency_before: before,
        outcomes_before: Some(before),
        events_before: Some(before),
        notifications_before: Some(before),
        anonymous_before: None,
        anonymous_surplus: None,
        audit_before: None,
        sessions: fixtures::NO_SESSIONS,
        at: NOW,
    };
    let ended_at = read(store, app, &done).await.completed_at.unwrap();
    let (deleted, _) = delete_all(store, all(ended_at)).await;
    assert_eq!(deleted, RetentionProgress::default());
    let (deleted, _) = delete_all(store, all(LATER.plus_ms(999 * DAY_MS))).await;
    assert_eq!(deleted, RetentionProgress { notifications: 1, ..RetentionProgress::default() });
    assert_eq!(read(store, app, &scheduled).await.status, NotificationStatus::Scheduled);
    let sending = read(store, app, &open.notification_id).await;
    assert_eq!((sending.status, sending.counts.targeted), (NotificationStatus::Sending, 3));
    let done = Checkpoint { finished: true, ..fixtures::checkpoint(page, 3) };
    store.checkpoint(done).await.expect("its page is still there");
}

#[apply(contract)]
async fn expired_notification_is_deleted_completely(store: &Store) {
    let app = fixtures::app(store).await;
    let (notification, _) = ended(store, app).await;
    let reported = NotificationId::new("own-1").unwrap();
    let report = || NewReport { poll: Some(fixtures::poll()), ..fixtures::report("own-1") };
    store.record_report(app, report(), None).await.unwrap();
    let events = vec![event(&notification, EventType::Opened), event(&reported, EventType::Opened)];
    store.record_events(app, events, NOW, None).await.unwrap();
    assert_eq!(refusal(store.record_report(app, report(), None).await), "id: is in use already");
    let cutoffs =
        RetentionCutoffs { notifications_before: Some(LATER), ..fixtures::NOTHING_EXPIRED };
    let (deleted, _) = delete_all(store, cutoffs).await;
    assert_eq!(deleted, RetentionProgress { notifications: 2, ..RetentionProgress::default() });
    for id in [&notification, &reported] {
        assert!(is_unknown(&store.notification(app, id.clone()).await));
    }
    assert!(is_unknown(&store.poll(app, reported.clone()).await));
    store.record_report(app, report(), None).await.expect("its id is free again");
    let fresh = read(store, app, &reported).await;
    assert_eq!(fresh.engagement.opened, 0);
    store.device(app, id("d000")).await.expect("devices stay");
}

#[apply(contract)]
async fn deleted_events_do_not_count_again(store: &Store) {
    let app = fixtures::app(store).await;
    let (notification, _) = ended(store, app).await;
    let opened = || vec![event(&notification, EventType::Opened)];
    store.record_events(app, opened(), NOW, None).await.unwrap();
    let cutoffs = RetentionCutoffs { events_before: Some(LATER), ..fixtures::NOTHING_EXPIRED };
    let (deleted, _) = delete_all(store, cutoffs).await;
    assert_eq!(deleted, RetentionProgress { events: 1, ..RetentionProgress::default() });
    let answer = fixtures::now(store.record_events(app, opened(), LATER, None).await.unwrap());
    assert_eq!((answer.accepted, answer.ignored.len()), (0, 1));
    let reason = "events of this notification are not kept any more";
    assert_eq!(answer.ignored[0].reason, reason);
    assert_eq!(read(store, app, &notification).await.engagement.opened, 1);
    // The rest is deleted at its own time.
    let (deleted, _) =
        delete_all(store, RetentionCutoffs { outcomes_before: Some(LATER), ..cutoffs }).await;
    assert_eq!(deleted, RetentionProgress { outcomes: 1, ..RetentionProgress::default() });
}

#[apply(contract)]
async fn idempotency_records_expire_without_requests(store: &Store) {
    let app = fixtures::app(store).await;
    for number in 0..3 {
        let key = fixtures::once("/v1/devices", &format!("k{number}"), 1);
        store.register_device(app, fixtures::android("x"), NOW, Some(key)).await.unwrap();
    }
    let (kept, _) = delete_all(
        store,
        RetentionCutoffs { idempotency_before: NOW.plus_ms(-1), ..fixtures::NOTHING_EXPIRED },
    )
    .await;
    assert_eq!(kept, RetentionProgress::default());
    let at = NOW.plus_ms(REPLAY_KEPT_MS);
    let cutoffs = RetentionCutoffs {
        idempotency_before: at.plus_ms(-REPLAY_KEPT_MS),
        ..fixtures::NOTHING_EXPIRED
    };
    let (deleted, _) = delete_all(store, cutoffs).await;
    assert_eq!(
        deleted,
        RetentionProgress { idempotency_records: 3, ..RetentionProgress::default() }
    );
}

/// An interrupted deletion continues where it stopped.
#[apply(contract)]
async fn deletion_steps_are_bounded(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    for number in 0..1_200 {
        let new = fixtures::report(&format!("own-{number}"));
        store.record_report(app, new, None).await.unwrap();
    }
    let cutoffs =
        RetentionCutoffs { notifications_before: Some(LATER), ..fixtures::NOTHING_EXPIRED };
    let first = store.delete_expired(cutoffs).await.unwrap();
    assert!(first.more && (1..=1_000).contains(&first.notifications), "{first:?}");
    let (rest, steps) = delete_all(store, cutoffs).await;
    assert_eq!(first.notifications + rest.notifications, 1_200);
    assert!(steps < 10);
    assert!(store.list_notifications(app, None, fixtures::page(10)).await.unwrap().rows.is_empty());
}

async fn platform_queues(store: &Store, now: Timestamp) -> Vec<Queue> {
    store.queues(now).await.unwrap().platforms
}

async fn app_queues(store: &Store, now: Timestamp) -> Vec<AppQueue> {
    store.queues(now).await.unwrap().apps
}

#[apply(contract)]
async fn queues_report_waiting_work(store: &Store) {
    let app = fixtures::app(store).await;
    assert_eq!(platform_queues(store, NOW).await, Platform::ALL.map(Queue::empty).to_vec());
    fixtures::devices(store, app, 3).await;
    let to_all = fixtures::broadcast(&[Platform::Android, Platform::Web]);
    fixtures::accepted(store, app, to_all).await;
    let of = async |platform: Platform, now: Timestamp| {
        let queues = platform_queues(store, now).await;
        queues.into_iter().find(|queue| queue.platform == platform).unwrap()
    };
    let due = |platform| Queue { oldest_due_at: Some(NOW), ..Queue::empty(platform) };
    let (android, web) = (Platform::Android, Platform::Web);
    assert_eq!(of(android, NOW).await, due(android), "accepted, and not started");
    assert_eq!(of(web, NOW).await, due(web));
    assert_eq!(of(android, NOW.plus_ms(-1)).await, Queue::empty(android), "not due yet");
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    assert_eq!(of(android, NOW).await, due(android), "its audience is not read");
    for no in started {
        let dispatch = store.dispatch(no).await.unwrap();
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        if dispatch.platform == android {
            assert_eq!(of(android, NOW).await, Queue { sending: 3, ..due(android) });
            let last = Checkpoint {
                settled: vec![fixtures::sent(keys[0])],
                retries: keys[1..].iter().map(|key| fixtures::retry(*key)).collect(),
                finished: true,
                ..fixtures::checkpoint(page, 3)
            };
            store.checkpoint(last).await.unwrap();
        }
    }
    let waiting = Queue { retry_waiting: 2, ..Queue::empty(android) };
    assert_eq!(of(android, NOW).await, waiting);
    let then = NOW.plus_ms(1_000);
    let ready = Queue { retry_due: 2, oldest_due_at: Some(then), ..Queue::empty(android) };
    assert_eq!(of(android, then).await, ready);
    assert_eq!(of(web, then).await, Queue::empty(web), "there are no devices");
}

#[apply(contract)]
async fn queues_of_applications_add_up_their_work(store: &Store) {
    assert_eq!(app_queues(store, NOW).await, []);
    let (shop_id, shop) = fixtures::named_app(store, "Shop").await;
    let (cafe_id, cafe) = fixtures::named_app(store, "Cafe").await;
    let apps = vec![(shop, shop_id), (cafe, cafe_id)];
    assert_eq!(store.oldest_apps(2).await.unwrap(), apps);
    assert_eq!(store.oldest_apps(1).await.unwrap(), apps[..1]);
    let gone = AppNo(77);
    let ids = store.app_ids(vec![cafe, gone]).await.unwrap();
    assert_eq!(ids, [(cafe, Some(cafe_id)), (gone, None)]);
    for app in [shop, cafe] {
        fixtures::devices(store, app, 3).await;
        let to_all = fixtures::broadcast(&[Platform::Android]);
        fixtures::accepted(store, app, to_all).await;
    }
    let queue = |app, open| AppQueue { app, open, oldest_due_at: Some(NOW) };
    assert_eq!(app_queues(store, NOW.plus_ms(-1)).await, [], "not due yet");
    assert_eq!(app_queues(store, NOW).await, [queue(shop, 0), queue(cafe, 0)]);
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    assert_eq!(app_queues(store, NOW).await, [queue(shop, 0), queue(cafe, 0)]);
    for no in started {
        let dispatch = store.dispatch(no).await.unwrap();
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        if keys[0].app() == shop {
            let part = Checkpoint {
                settled: vec![fixtures::sent(keys[0])],
                retries: vec![fixtures::retry(keys[1])],
                ..fixtures::checkpoint(page, 3)
            };
            store.checkpoint(part).await.unwrap();
        }
    }
    // One delivery of the page is open, and one waits for its retry.
    assert_eq!(app_queues(store, NOW).await, [queue(shop, 2), queue(cafe, 3)]);
}

/// Otherwise the alert about late deliveries would fire for every long pause and slow rate.
#[apply(contract)]
async fn what_waits_for_a_pause_or_a_rate_is_not_overdue(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let due_at = async |at: Timestamp| {
        let queues = store.queues(at).await.unwrap();
        let android = queues.platforms.iter().find(|queue| queue.platform == Platform::Android);
        assert_eq!(android.unwrap().oldest_due_at, queues.apps[0].oldest_due_at);
        queues.apps[0].oldest_due_at
    };
    let then = NOW.plus_ms(60_000);
    let request =
        GrantRequest { notification: dispatch.notification, interval_ms: 60_000, at: NOW };
    store.grant_attempts(request).await.unwrap();
    assert_eq!(due_at(then.plus_ms(-1)).await, None, "the rate allows nothing yet");
    assert_eq!(due_at(then.plus_ms(5)).await, Some(then), "due since the rate allows it");
    let id = dispatch.notification_id.clone();
    let pause = async || {
        store.pause_notification(app, id.clone(), then, None).await.unwrap();
    };
    let resume = async || {
        store.resume_notification(app, id.clone(), then, None).await.unwrap();
    };
    pause().await;
    assert_eq!(due_at(then.plus_ms(5)).await, None, "paused");
    resume().await;
    // The same for an open page and for a retry.
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    assert_eq!(due_at(then).await, Some(then), "the page is open");
    pause().await;
    assert_eq!(due_at(then).await, None);
    resume().await;
    let last = Checkpoint {
        retries: keys.iter().map(|key| fixtures::retry(*key)).collect(),
        finished: true,
        ..fixtures::checkpoint(page, 3)
    };
    store.checkpoint(last).await.unwrap();
    assert_eq!(due_at(then).await, Some(NOW.plus_ms(1_000)), "the retries are due");
    pause().await;
    assert_eq!(due_at(then).await, None);
    let queues = platform_queues(store, then).await;
    let android = queues.into_iter().find(|queue| queue.platform == Platform::Android).unwrap();
    assert_eq!((android.retry_due, android.retry_waiting), (0, 3));
}

#[apply(contract)]
async fn newest_ios_devices_are_sampled(store: &Store) {
    let (app_id, app) = fixtures::named_app(store, "Shop").await;
    let ios = |number: usize, env: Option<IosEnv>, identifier: Option<&str>| {
        let push_token = Some(format!("token-{number}"));
        let mut new =
            fixtures::registration(&format!("i{number}"), Endpoint::Ios { push_token, env });
        new.details = DeviceDetails {
            store_identifier: identifier.map(str::to_owned),
            ..DeviceDetails::default()
        };
        new
    };
    let none = store.ios_devices(app_id).await.unwrap();
    assert_eq!((none.sampled, none.sandbox), (0, 0));
    fixtures::devices(store, app, 1).await;
    for (number, (env, identifier)) in [
        (None, Some("com.example.app")),
        (Some(IosEnv::Sandbox), Some("com.example.app.dev")),
        (Some(IosEnv::Production), Some("com.example.app")),
        (None, None),
    ]
    .into_iter()
    .enumerate()
    {
        fixtures::registered(store, app, ios(number, env, identifier)).await;
    }
    let devices = store.ios_devices(app_id).await.unwrap();
    assert_eq!((devices.sampled, devices.sandbox), (4, 1));
    let expected = [("com.example.app".to_owned(), 2), ("com.example.app.dev".to_owned(), 1)];
    assert_eq!(devices.store_identifiers, expected);
    assert!(is_unknown(&store.ios_devices(notify_core::AppId(uuid::Uuid::now_v7())).await));
}

#[apply(contract)]
async fn commits_wait_for_the_disk(store: &Store) {
    let report = store.storage().await.unwrap();
    assert!(report.database_bytes > 0);
    assert_eq!(report.synchronous, "full", "a commit waits for the disk");
    assert_eq!(store.busy(), 0);
}

#[apply(contract)]
async fn clock_doubt_is_stored_until_confirmed(store: &Store) {
    assert_eq!(store.clock_mark().await.unwrap(), None);
    assert!(!store.confirm_clock().await.unwrap(), "it is not in doubt");
    let mark = |in_doubt| ClockMark { trusted_at: NOW, in_doubt };
    for mark in [mark(false), mark(true)] {
        assert!(!store.store_clock_mark(mark).await.unwrap());
        assert_eq!(store.clock_mark().await.unwrap(), Some(mark));
    }
    assert!(store.confirm_clock().await.unwrap());
    assert!(store.store_clock_mark(mark(true)).await.unwrap(), "it was confirmed");
    assert_eq!(store.clock_mark().await.unwrap(), None);
    // One server has seen the confirmation; so does the next one.
    let confirmed = ClockMark { trusted_at: NOW.plus_ms(2 * DAY_MS), in_doubt: false };
    assert!(!store.store_clock_mark(confirmed).await.unwrap());
    assert!(store.store_clock_mark(mark(true)).await.unwrap());
    assert_eq!(store.clock_mark().await.unwrap(), Some(confirmed));
}
