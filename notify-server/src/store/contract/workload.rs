//! Whether the delivery engine has work.

use std::collections::BTreeSet;

use macro_rules_attribute::apply;
use notify_core::{Platform, Schedule, Timestamp};

use super::fixtures::{self, NOW};
use crate::store::{AppNo, Checkpoint, GrantRequest, Store, Workload};

const SECOND: Timestamp = NOW.plus_ms(1_000);

async fn busy(store: &Store, at: Timestamp) -> bool {
    store.workload(at).await.unwrap().is_busy()
}

async fn idle_until(store: &Store, at: Timestamp, next_due: Option<Timestamp>) {
    let idle = Workload { has_starts_due: false, lanes: BTreeSet::new(), next_due };
    assert_eq!(store.workload(at).await.unwrap(), idle);
}

async fn busy_on_android(store: &Store, app: AppNo, at: Timestamp) -> bool {
    let workload = store.workload(at).await.unwrap();
    !workload.has_starts_due && workload.lanes == BTreeSet::from([(app, Platform::Android)])
}

#[apply(contract)]
async fn a_notification_is_work_from_its_due_time_to_its_last_outcome(store: &Store) {
    let app = fixtures::app(store).await;
    idle_until(store, NOW, None).await;
    fixtures::devices(store, app, 2).await;
    let mut later = fixtures::broadcast(&[Platform::Android]);
    later.checked.schedule = Schedule::At(SECOND);
    fixtures::accepted(store, app, later).await;
    idle_until(store, NOW, Some(SECOND)).await;
    assert!(busy(store, SECOND).await, "it is due");
    let (started, _) = store.start_due(SECOND, 10).await.unwrap();
    assert!(busy_on_android(store, app, SECOND).await, "its devices are not read");
    let dispatch = store.dispatch(started[0]).await.unwrap();
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    assert!(busy_on_android(store, app, SECOND).await, "its page is open");
    let settled = keys.iter().map(|key| fixtures::sent(*key)).collect();
    let last = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
    store.checkpoint(last).await.unwrap();
    idle_until(store, SECOND, None).await;
}

#[apply(contract)]
async fn a_retry_is_work_once_it_is_due_and_while_it_is_claimed(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::retried(store, app, 1).await;
    idle_until(store, NOW, Some(SECOND)).await;
    assert!(busy_on_android(store, app, SECOND).await);
    store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    assert!(busy_on_android(store, app, SECOND).await, "it is claimed");
}

#[apply(contract)]
async fn retries_that_are_due_hide_no_later_ones_of_others(store: &Store) {
    let (app, other) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::retried(store, app, 1).await;
    fixtures::retried(store, other, 1).await;
    let claimed = store.claim_retries(fixtures::retry_claim(other)).await.unwrap();
    assert_eq!(claimed.len(), 1);
    let workload = store.workload(SECOND).await.unwrap();
    assert!(workload.lanes.contains(&(app, Platform::Android)));
    assert!(
        workload.next_due.is_some_and(|due| due > SECOND),
        "the end of its lease: {workload:?}"
    );
}

#[apply(contract)]
async fn what_waits_for_a_pause_or_a_rate_is_not_due(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let request = GrantRequest { notification: dispatch.notification, interval_ms: 1_000, at: NOW };
    store.grant_attempts(request).await.unwrap();
    idle_until(store, NOW, Some(SECOND)).await;
    assert!(busy(store, SECOND).await);
    let id = dispatch.notification_id;
    store.pause_notification(app, id, NOW, None).await.unwrap();
    idle_until(store, SECOND, None).await;
}
