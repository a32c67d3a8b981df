//! Canaries, and the rates of notifications.

use macro_rules_attribute::apply;
use notify_core::{
    CanaryPlan, CanaryThen, NotificationStatus, Platform, Timestamp, WebhookData, WebhookEventType,
};

use super::fixtures::{self, NOW};
use super::webhooks::{claimed, webhook};
use crate::store::{
    AppNo, Checkpoint, DeviceKey, Dispatch, DispatchNo, Grant, GrantRequest, NewNotification,
    Outcome, Portion, Store, StoreError,
};

/// When a canary is first checked.
const CHECKED: Timestamp = NOW.plus_ms(5_000);
/// When a canary is judged whose first attempts were found at [`CHECKED`].
const JUDGED: Timestamp = NOW.plus_ms(65_000);

fn plan(then: CanaryThen) -> CanaryPlan {
    CanaryPlan { percent: 50, wait_seconds: 60, max_failed_percent: 5, then }
}

/// A message to every Android device with this canary.
fn to_android(then: CanaryThen) -> NewNotification {
    fixtures::with(fixtures::broadcast(&[Platform::Android]), |checked| {
        checked.canary = Some(plan(then));
    })
}

/// Starts a notification with a canary of half of the devices. Returns the dispatches of the canary and of
/// the rest.
async fn started(store: &Store, app: AppNo, new: NewNotification) -> (Dispatch, Dispatch) {
    fixtures::accepted(store, app, new).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    let [canary, rest] = started[..] else { panic!("{started:?}") };
    (store.dispatch(canary).await.unwrap(), store.dispatch(rest).await.unwrap())
}

async fn paused_until(store: &Store, dispatch: DispatchNo) -> Option<Timestamp> {
    store.dispatch(dispatch).await.unwrap().paused_until
}

/// The devices of a dispatch.
async fn keys(store: &Store, dispatch: &Dispatch) -> Vec<DeviceKey> {
    let batch = store.read_batch(dispatch, dispatch.cursor, 1_000).await.unwrap();
    batch.devices.into_iter().map(|device| device.key).collect()
}

/// Ends all deliveries of the canary with this outcome.
async fn send(store: &Store, canary: &Dispatch, outcome: Outcome) {
    let (keys, page) = fixtures::whole_page(store, canary).await;
    let settled = keys.iter().map(|key| fixtures::outcome(*key, outcome, Some("bad"))).collect();
    let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
    store.checkpoint(last).await.unwrap();
}

#[apply(set_contract)]
async fn canary_and_rest_share_the_audience_and_the_rest_waits(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 40).await;
    let scanned = to_android(CanaryThen::Continue);
    let names: Vec<String> = (0..40).map(|number| format!("d{number:03}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let named = fixtures::with(fixtures::direct(&names, &[]), |checked| {
        checked.canary = scanned.checked.canary;
    });
    for new in [scanned, named] {
        let (canary, rest) = started(store, app, new).await;
        assert_eq!((canary.portion, rest.portion), (Portion::Canary(50), Portion::Rest(50)));
        let (first, others) = (keys(store, &canary).await, keys(store, &rest).await);
        assert!((10..=30).contains(&first.len()), "{} of 40", first.len());
        let mut all = [first, others].concat();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 40, "each device in one of them");
        // The notifications of the fixtures expire after 600 seconds.
        let expires_at = NOW.plus_ms(600_000);
        assert_eq!((canary.paused_until, rest.paused_until), (None, Some(expires_at)));
        assert_eq!(store.agenda(NOW).await.unwrap().next_due, Some(CHECKED));
        // A pause and a resumption by request leave it waiting.
        let id = canary.notification_id.clone();
        store.pause_notification(app, id.clone(), NOW, None).await.unwrap();
        store.resume_notification(app, id.clone(), NOW, None).await.unwrap();
        assert_eq!(paused_until(store, canary.no).await, None);
        assert_eq!(paused_until(store, rest.no).await, Some(expires_at));
        store.cancel_notification(app, id, NOW).await.unwrap();
        assert_eq!(paused_until(store, rest.no).await, None);
        assert_eq!(store.agenda(NOW).await.unwrap().next_due, None);
    }
}

#[apply(set_contract)]
async fn a_canary_is_judged_after_its_wait(store: &Store) {
    for (outcome, then, reason) in [
        (Outcome::Sent, CanaryThen::Continue, None),
        (Outcome::Sent, CanaryThen::Pause, Some("canary_done")),
        (Outcome::Failed, CanaryThen::Continue, Some("canary_failed")),
        (Outcome::Expired, CanaryThen::Continue, Some("canary_failed")),
        (Outcome::Failed, CanaryThen::Pause, Some("canary_failed")),
        // An unregistered device does not fail the canary.
        (Outcome::Unregistered, CanaryThen::Continue, None),
    ] {
        let app = fixtures::app(store).await;
        webhook(store, app, &[WebhookEventType::NotificationPaused]).await;
        fixtures::devices(store, app, 10).await;
        let (canary, rest) = started(store, app, to_android(then)).await;
        // The first check finds an open scan.
        store.start_due(CHECKED, 10).await.unwrap();
        assert_eq!(store.agenda(NOW).await.unwrap().next_due, Some(CHECKED.plus_ms(5_000)));
        send(store, &canary, outcome).await;
        let sent_at = CHECKED.plus_ms(5_000);
        store.start_due(sent_at, 10).await.unwrap();
        let judged_at = JUDGED.plus_ms(5_000);
        assert_eq!(store.agenda(NOW).await.unwrap().next_due, Some(judged_at));
        store.start_due(judged_at.plus_ms(-1), 10).await.unwrap();
        assert!(paused_until(store, rest.no).await.is_some(), "not before its time");
        store.start_due(judged_at, 10).await.unwrap();
        assert_eq!(store.agenda(NOW).await.unwrap().next_due, None);
        let id = canary.notification_id.clone();
        let record = store.notification(app, id.clone()).await.unwrap();
        let paused = record.paused.map(|paused| paused.reason);
        assert_eq!(paused.as_deref(), reason, "{outcome:?} {then:?}");
        assert_eq!(paused_until(store, rest.no).await.is_some(), reason.is_some());
        if let Some(reason) = reason {
            let messages = claimed(store, NOW, 10).await.messages;
            let data: Vec<_> = messages.into_iter().map(|message| message.data).collect();
            let [WebhookData::NotificationPaused(paused)] = &data[..] else { panic!("{data:?}") };
            assert_eq!((&paused.notification_id, paused.reason.as_str()), (&id, reason));
        }
        store.resume_notification(app, id.clone(), judged_at, None).await.unwrap();
        assert_eq!(paused_until(store, rest.no).await, None);
        send(store, &rest, Outcome::Sent).await;
        let record = store.notification(app, id).await.unwrap();
        assert_eq!(record.status, NotificationStatus::Completed);
        assert_eq!(record.counts.targeted, 10);
    }
}

#[apply(contract)]
async fn a_paused_notification_is_judged_after_it_is_resumed(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 10).await;
    let (canary, rest) = started(store, app, to_android(CanaryThen::Continue)).await;
    send(store, &canary, Outcome::Failed).await;
    store.start_due(CHECKED, 10).await.unwrap();
    let id = canary.notification_id.clone();
    store.pause_notification(app, id.clone(), CHECKED, None).await.unwrap();
    store.start_due(JUDGED, 10).await.unwrap();
    let paused = store.notification(app, id.clone()).await.unwrap().paused.unwrap();
    assert_eq!(paused.reason, "requested");
    store.resume_notification(app, id.clone(), JUDGED, None).await.unwrap();
    // It waits again, because its retries could not run during the pause.
    store.start_due(JUDGED, 10).await.unwrap();
    store.start_due(JUDGED.plus_ms(59_999), 10).await.unwrap();
    assert!(paused_until(store, rest.no).await.is_some());
    assert_eq!(store.notification(app, id.clone()).await.unwrap().paused, None);
    store.start_due(JUDGED.plus_ms(60_000), 10).await.unwrap();
    let paused = store.notification(app, id).await.unwrap().paused.unwrap();
    assert_eq!(paused.reason, "canary_failed");
}

#[apply(contract)]
async fn a_canary_without_progress_is_judged_too(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 10).await;
    let (canary, rest) = started(store, app, to_android(CanaryThen::Continue)).await;
    // Without a page, nothing is known about its devices.
    let late = NOW.plus_ms(400_000);
    store.start_due(NOW.plus_ms(10_000), 10).await.unwrap();
    store.start_due(late, 10).await.unwrap();
    let id = canary.notification_id.clone();
    assert_eq!(store.notification(app, id.clone()).await.unwrap().paused, None);
    // The page is open, and its provider is unavailable.
    fixtures::whole_page(store, &canary).await;
    store.start_due(late.plus_ms(5_000), 10).await.unwrap();
    let judged_at = late.plus_ms(5_000 + 60_000 + 120_000);
    store.start_due(judged_at.plus_ms(-1), 10).await.unwrap();
    assert_eq!(store.notification(app, id.clone()).await.unwrap().paused, None);
    store.start_due(judged_at.plus_ms(5_000), 10).await.unwrap();
    let paused = store.notification(app, id).await.unwrap().paused.unwrap();
    assert_eq!(paused.reason, "canary_failed");
    assert!(paused_until(store, rest.no).await.is_some());
}

#[apply(contract)]
async fn attempts_are_granted_one_interval_after_another(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let grant = |at: Timestamp| {
        let notification = dispatch.notification;
        store.grant_attempts(GrantRequest { notification, interval_ms: 2_500, at })
    };
    let next = NOW.plus_ms(2_500);
    assert_eq!(grant(NOW).await.unwrap(), Grant::Granted);
    assert_eq!(grant(NOW).await.unwrap(), Grant::NotBefore(next));
    assert_eq!(grant(next.plus_ms(-1)).await.unwrap(), Grant::NotBefore(next));
    // Time that passes without a request is not made up for.
    let late = NOW.plus_ms(60_000);
    assert_eq!(grant(late).await.unwrap(), Grant::Granted);
    assert_eq!(grant(late).await.unwrap(), Grant::NotBefore(late.plus_ms(2_500)));
    // The clock was set back by hours.
    let earlier = NOW.plus_ms(-7_200_000);
    assert_eq!(grant(earlier).await.unwrap(), Grant::Granted);
    let other = fixtures::android_dispatch(store, app).await.notification;
    let request = GrantRequest { notification: other, interval_ms: 1, at: NOW };
    assert_eq!(store.grant_attempts(request).await.unwrap(), Grant::Granted);
    let unknown = crate::store::NotificationNo(other.0 + 99);
    let request = GrantRequest { notification: unknown, ..request };
    assert!(matches!(store.grant_attempts(request).await, Err(StoreError::NotFound)));
}
