//! Pausing and resuming notifications.

use macro_rules_attribute::apply;
use notify_core::{
    NotificationId, NotificationStatus, Pause, Platform, Schedule, TTL_SECONDS_MAX, Timestamp,
    WebhookData, WebhookEventType,
};

use super::fixtures::{self, INSTANCE, NOW};
use super::webhooks::{claimed, webhook};
use super::{is_unknown, refusal};
use crate::store::{
    AppNo, Checkpoint, InstanceId, Intervention, PageClaim, RetryClaim, RetryOutcome, RetryResult,
    Store, StoreError,
};

/// When the notifications of the fixtures expire, whose `ttl_seconds` is 600.
const EXPIRES_AT: Timestamp = NOW.plus_ms(600_000);

async fn pause(store: &Store, app: AppNo, id: &NotificationId) {
    store.pause_notification(app, id.clone(), NOW, None).await.unwrap();
}

async fn resume(store: &Store, app: AppNo, id: &NotificationId) {
    store.resume_notification(app, id.clone(), NOW, None).await.unwrap();
}

/// The number of retries that can be claimed at that time.
async fn claimable(store: &Store, app: AppNo, now: Timestamp) -> usize {
    let lease_until = now.plus_ms(1_000);
    let claim = RetryClaim { now, lease_until, ..fixtures::retry_claim(app) };
    store.claim_retries(claim).await.unwrap().len()
}

#[apply(set_contract)]
async fn page_of_a_paused_dispatch_is_claimed_only_after_it_expired(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let id = &dispatch.notification_id;
    pause(store, app, id).await;
    let paused = store.dispatch(dispatch.no).await.unwrap();
    assert_eq!(paused.paused_until, Some(EXPIRES_AT));
    let intervention =
        Intervention { dispatch: dispatch.no, canceled: false, paused_until: Some(EXPIRES_AT) };
    assert_eq!(store.interventions(vec![dispatch.no]).await.unwrap(), [intervention]);
    let scan = store.scan(dispatch.no).await.unwrap().unwrap();
    assert_eq!((scan.canceled, scan.paused_until), (false, Some(EXPIRES_AT)));
    for (now, unscanned) in [(NOW, vec![]), (EXPIRES_AT, vec![dispatch.no])] {
        assert_eq!(store.unscanned_dispatches(10, now).await.unwrap(), unscanned);
    }
    let claim = fixtures::claim(&dispatch, dispatch.until, true);
    let fenced = store.open_page(claim).await;
    assert!(matches!(fenced, Err(StoreError::Fenced)), "{fenced:?}");
    resume(store, app, id).await;
    assert_eq!(store.interventions(vec![dispatch.no]).await.unwrap(), []);
    pause(store, app, id).await;
    let late = PageClaim { at: EXPIRES_AT, targeted: 3, ..claim };
    assert!(store.open_page(late).await.is_ok());
}

#[apply(set_contract)]
async fn retries_of_a_paused_dispatch_cannot_be_claimed_until_it_is_resumed(store: &Store) {
    let app = fixtures::app(store).await;
    let (dispatch, _) = fixtures::retried(store, app, 2).await;
    let id = &dispatch.notification_id;
    let later = NOW.plus_ms(5_000);
    let reason = "busy".into();
    let failed = RetryResult::Retry { attempts: 2, due_at: later, reason, unknown_outcomes: 0 };
    for result in [failed, RetryResult::Deferred { due_at: later }] {
        let one = RetryClaim { limit: 1, now: later, ..fixtures::retry_claim(app) };
        let in_flight = store.claim_retries(one).await.unwrap().remove(0);
        pause(store, app, id).await;
        // The claim of the first has ended by then, too.
        let in_pause = EXPIRES_AT.plus_ms(-1);
        assert_eq!(claimable(store, app, in_pause).await, 0);
        assert_eq!(store.open_retries(app, Platform::Android, NOW).await.unwrap(), 0);
        // Another process takes over the retry that was in flight, and a repeated claim releases it.
        store.reclaim(fixtures::adoption(InstanceId(12))).await.unwrap();
        let again = RetryClaim { reclaim_own: true, now: in_pause, ..fixtures::retry_claim(app) };
        assert_eq!(store.claim_retries(again).await.unwrap(), []);
        resume(store, app, id).await;
        assert_eq!(store.agenda(NOW).await.unwrap().next_retry_due, Some(NOW.plus_ms(1_000)));
        // What ends its attempt during the pause waits for the end of the pause.
        let held = RetryClaim { now: later, ..fixtures::retry_claim(app) };
        assert_eq!(store.claim_retries(held).await.unwrap().len(), 2);
        pause(store, app, id).await;
        store
            .settle_retries(INSTANCE, vec![RetryOutcome::of(in_flight.no, result)], NOW)
            .await
            .unwrap();
        assert_eq!(claimable(store, app, in_pause).await, 0);
        resume(store, app, id).await;
        // The other is in flight: it was not given back.
        assert_eq!(claimable(store, app, later).await, 1);
        assert_eq!(claimable(store, app, NOW.plus_ms(600_000)).await, 2);
        let both = store.claim_retries(RetryClaim {
            reclaim_own: true,
            now: NOW.plus_ms(600_000),
            ..fixtures::retry_claim(app)
        });
        let both = both.await.unwrap();
        let outcomes = both.iter().map(|retry| {
            RetryOutcome::of(retry.no, RetryResult::Deferred { due_at: NOW.plus_ms(1_000) })
        });
        store.settle_retries(INSTANCE, outcomes.collect(), NOW).await.unwrap();
    }
}

#[apply(set_contract)]
async fn retry_of_a_delivery_that_was_in_flight_at_the_pause_waits(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let id = &dispatch.notification_id;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    pause(store, app, id).await;
    let retries = vec![fixtures::retry(keys[0])];
    let settled = vec![fixtures::sent(keys[1])];
    let last = Checkpoint { retries, settled, finished: true, ..fixtures::checkpoint(page, 2) };
    store.checkpoint(last).await.unwrap();
    assert_eq!(claimable(store, app, NOW.plus_ms(60_000)).await, 0);
    assert_eq!(store.agenda(NOW).await.unwrap().next_retry_due, Some(EXPIRES_AT));
    resume(store, app, id).await;
    assert_eq!(claimable(store, app, NOW.plus_ms(60_000)).await, 1);
}

#[apply(set_contract)]
async fn one_that_falls_due_while_paused_is_started_and_waits(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let due_at = NOW.plus_ms(60_000);
    for (ttl_seconds, until) in [(60, 120_000), (0, 60_000 + i64::from(TTL_SECONDS_MAX) * 1_000)] {
        let schedule = Schedule::At(due_at);
        let later = fixtures::with(fixtures::direct(&["d000"], &[]), |checked| {
            (checked.schedule, checked.ttl_seconds) = (schedule, ttl_seconds);
        });
        let id = fixtures::accepted(store, app, later).await;
        pause(store, app, &id).await;
        let (started, _) = store.start_due(due_at, 10).await.unwrap();
        let dispatch = store.dispatch(started[0]).await.unwrap();
        assert_eq!(dispatch.paused_until, Some(NOW.plus_ms(until)));
        let record = store.notification(app, id.clone()).await.unwrap();
        assert_eq!(record.status, NotificationStatus::Sending);
        let paused = Pause { at: NOW, reason: "requested".into() };
        assert_eq!(record.paused, Some(paused));
        store.cancel_notification(app, id.clone(), NOW).await.unwrap();
        assert_eq!(store.dispatch(started[0]).await.unwrap().paused_until, None);
        assert_eq!(store.notification(app, id).await.unwrap().paused, None);
    }
}

#[apply(set_contract)]
async fn what_has_ended_is_neither_paused_nor_resumed(store: &Store) {
    let (app, other) = (fixtures::app(store).await, fixtures::app(store).await);
    webhook(store, app, &[WebhookEventType::NotificationPaused]).await;
    let id = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    // Repeats change nothing.
    for _ in 0..2 {
        pause(store, app, &id).await;
    }
    for _ in 0..2 {
        resume(store, app, &id).await;
    }
    let messages = claimed(store, NOW, 10).await.messages;
    let data: Vec<_> = messages.into_iter().map(|message| message.data).collect();
    let [WebhookData::NotificationPaused(paused)] = &data[..] else { panic!("{data:?}") };
    assert_eq!((&paused.notification_id, paused.reason.as_str()), (&id, "requested"));
    assert!(is_unknown(&store.pause_notification(other, id.clone(), NOW, None).await));
    assert!(is_unknown(&store.resume_notification(other, id.clone(), NOW, None).await));
    store.cancel_notification(app, id.clone(), NOW).await.unwrap();
    store.record_report(app, fixtures::report("mine"), None).await.unwrap();
    for (id, state) in [(id, "was canceled"), (NotificationId::new("mine").unwrap(), "has ended")] {
        let text = format!("id: the notification {state} already");
        let paused = refusal(store.pause_notification(app, id.clone(), NOW, None).await);
        assert_eq!(paused, text);
        let resumed = refusal(store.resume_notification(app, id, NOW, None).await);
        assert_eq!(resumed, text);
    }
}
