//! Claiming pages and committing checkpoints.

use macro_rules_attribute::apply;
use notify_core::{Counts, NotificationStatus, Platform};

use super::fixtures::{self, INSTANCE, LEASE, NOW, android, id};
use super::unregistered::report;
use crate::store::{Checkpoint, DeviceKey, InstanceId, Outcome, PageClaim, Store, StoreError};

#[apply(contract)]
async fn dispatch_cursor_moves_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let slice = store.read_batch(&dispatch, dispatch.cursor, 2).await.unwrap();
    let claim = PageClaim { targeted: 2, ..fixtures::claim(&dispatch, slice.to, false) };
    let page = store.open_page(claim).await.unwrap();
    assert_eq!((page.from, page.to, page.instance), (dispatch.cursor, slice.to, INSTANCE));
    assert_eq!((page.checkpoint_no, page.lease_until), (0, LEASE));
    let second = PageClaim { instance: InstanceId(99), ..claim };
    assert!(matches!(store.open_page(second).await, Err(StoreError::Fenced)));
    let moved = store.dispatch(dispatch.no).await.unwrap();
    assert_eq!((moved.cursor, moved.scan_done), (slice.to, false));
    let rest = PageClaim { targeted: 2, ..fixtures::claim(&moved, moved.until, true) };
    store.open_page(rest).await.unwrap();
    assert!(store.dispatch(dispatch.no).await.unwrap().scan_done);
    let expired = fixtures::claim(&store.dispatch(dispatch.no).await.unwrap(), moved.until, true);
    assert!(matches!(store.open_page(expired).await, Err(StoreError::Fenced)));
}

#[apply(contract)]
async fn page_without_targets_is_finished_at_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let mut off = android("d000");
    off.push_disabled = true;
    fixtures::registered(store, app, off).await;
    let dispatch = fixtures::dispatch(store, app, fixtures::direct(&["d000"], &[])).await;
    let claim = PageClaim { excluded: 1, ..fixtures::claim(&dispatch, dispatch.until, true) };
    let page = store.open_page(claim).await.unwrap();
    let record = store.notification(app, dispatch.notification_id.clone()).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Completed);
    assert_eq!(record.counts, Counts { excluded: 1, ..Counts::default() });
    let again = Checkpoint { finished: true, excluded: 1, ..fixtures::checkpoint(page, 0) };
    store.checkpoint(again).await.unwrap();
    let twice = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(twice, record, "finishing it again changes nothing");
}

/// The change that leaves nothing open ends the dispatch; the last dispatch ends the notification.
#[apply(contract)]
async fn last_checkpoint_ends_the_notification(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 5).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let counts =
        || async { store.notification(app, dispatch.notification_id.clone()).await.unwrap() };
    assert_eq!(counts().await.counts, Counts { targeted: 5, pending: 5, ..Counts::default() });
    let first = Checkpoint {
        settled: vec![
            fixtures::sent(keys[0]),
            fixtures::outcome(keys[1], Outcome::Failed, Some("PayloadTooLarge")),
        ],
        ..fixtures::checkpoint(page, 5)
    };
    let page = store.checkpoint(first).await.unwrap();
    assert_eq!(page.checkpoint_no, 1);
    let open = counts().await;
    assert_eq!(open.status, NotificationStatus::Sending);
    let so_far = Counts { targeted: 5, sent: 1, failed: 1, pending: 3, ..Counts::default() };
    assert_eq!(open.counts, so_far);
    let last = Checkpoint {
        settled: vec![
            fixtures::outcome(keys[4], Outcome::Canceled, None),
            fixtures::outcome(keys[2], Outcome::Unregistered, Some("Unregistered")),
            fixtures::outcome(keys[3], Outcome::Expired, Some("expired")),
        ],
        at: NOW.plus_ms(70),
        finished: true,
        ..fixtures::checkpoint(page, 5)
    };
    store.checkpoint(last).await.unwrap();
    let done = counts().await;
    assert_eq!(done.status, NotificationStatus::Completed);
    assert_eq!(done.completed_at, Some(NOW.plus_ms(70)));
    let each = Counts {
        targeted: 5,
        sent: 1,
        failed: 1,
        unregistered: 1,
        expired: 1,
        canceled: 1,
        ..Counts::default()
    };
    assert_eq!((done.counts, done.by_platform[0].counts), (each, each));
}

/// A checkpoint compares instance and checkpoint number with the row.
#[apply(contract)]
async fn fenced_checkpoint_stores_nothing(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let with = |page, key| Checkpoint {
        settled: vec![fixtures::sent(key)],
        ..fixtures::checkpoint(page, 2)
    };
    let next = store.checkpoint(with(page, keys[0])).await.unwrap();
    let mut stale = with(page, keys[1]);
    stale.dead.push(report(keys[1], "token-d001", None));
    assert!(matches!(store.checkpoint(stale).await, Err(StoreError::Fenced)));
    let adopted = store.reclaim(fixtures::adoption(InstanceId(12))).await.unwrap();
    assert_eq!(adopted.pages.len(), 1);
    assert!(matches!(store.checkpoint(with(next, keys[1])).await, Err(StoreError::Fenced)));
    let record = store.notification(app, dispatch.notification_id.clone()).await.unwrap();
    assert_eq!(record.counts, Counts { targeted: 2, sent: 1, pending: 1, ..Counts::default() });
    assert_eq!(store.delivery_outcome(dispatch.no, keys[1]).await.unwrap(), None);
    assert!(store.device(app, id("d001")).await.unwrap().enabled);
    store.checkpoint(with(adopted.pages[0], keys[1])).await.unwrap();
}

/// A checkpoint is repeated if its reply was lost.
#[apply(contract)]
async fn repeated_checkpoint_is_stored_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let first = Checkpoint {
        settled: vec![fixtures::sent(keys[0])],
        retries: vec![fixtures::retry(keys[1])],
        ..fixtures::checkpoint(page, 4)
    };
    let next = store.checkpoint(first.clone()).await.unwrap();
    assert_eq!(store.checkpoint(first.clone()).await.unwrap(), next);
    let empty = fixtures::checkpoint(next, 4);
    let next = store.checkpoint(empty.clone()).await.unwrap();
    assert_eq!(store.checkpoint(empty).await.unwrap(), next);
    let last = Checkpoint {
        settled: vec![fixtures::sent(keys[2])],
        retries: vec![fixtures::retry(keys[3])],
        finished: true,
        ..fixtures::checkpoint(next, 4)
    };
    let finished = store.checkpoint(last.clone()).await.unwrap();
    for other in [
        Checkpoint { settled: vec![fixtures::sent(keys[3])], ..last.clone() },
        Checkpoint { settled: vec![], ..last.clone() },
        Checkpoint { retries: vec![fixtures::retry(keys[0])], ..last.clone() },
        Checkpoint { finished: false, ..last.clone() },
        Checkpoint { targeted: 3, ..last.clone() },
        first,
    ] {
        assert!(matches!(store.checkpoint(other).await, Err(StoreError::Fenced)));
    }
    assert_eq!(store.checkpoint(last).await.unwrap(), finished);
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.counts, Counts { targeted: 4, sent: 2, pending: 2, ..Counts::default() });
    assert_eq!(store.open_retries(app, Platform::Android).await.unwrap(), 2);
}

/// Outcomes are keyed by device sequence, so an erased device does not shift them.
#[apply(contract)]
async fn outcomes_are_keyed_by_device(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    store.delete_device(app, id("d001"), NOW).await.unwrap();
    let failed = crate::store::DeviceOutcome {
        attempts: 3,
        ..fixtures::outcome(keys[2], Outcome::Failed, Some("TopicDisallowed"))
    };
    let first = Checkpoint {
        settled: vec![failed.clone(), fixtures::sent(keys[0])],
        ..fixtures::checkpoint(page, 4)
    };
    let page = store.checkpoint(first).await.unwrap();
    assert_eq!(store.settled_devices(&page).await.unwrap(), [keys[0], keys[2]]);
    let left = store.read_range(&dispatch, page.from, page.to).await.unwrap();
    let left: Vec<DeviceKey> = left.iter().map(|device| device.key).collect();
    assert_eq!(left, [keys[0], keys[2], keys[3]]);
    let outcome = |key| store.delivery_outcome(dispatch.no, key);
    assert_eq!(outcome(keys[0]).await.unwrap(), Some(fixtures::sent(keys[0])));
    assert_eq!(outcome(keys[2]).await.unwrap(), Some(failed));
    assert_eq!(outcome(keys[1]).await.unwrap(), None);
    assert_eq!(outcome(keys[3]).await.unwrap(), None);
}

#[apply(contract)]
async fn failures_are_counted_by_reason(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 5).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let settled = vec![
        fixtures::outcome(keys[0], Outcome::Failed, Some("one")),
        fixtures::outcome(keys[1], Outcome::Unregistered, Some("two")),
        fixtures::outcome(keys[2], Outcome::Unregistered, Some("two")),
        fixtures::outcome(keys[3], Outcome::Expired, Some("three")),
        fixtures::sent(keys[4]),
    ];
    let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 5) };
    store.checkpoint(done).await.unwrap();
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    let failures: Vec<_> =
        record.failures.iter().map(|row| (row.reason.as_str(), row.count)).collect();
    assert_eq!(failures, [("two", 2), ("one", 1)]);
}

/// Removing a tag takes a device out of the range, and does not shift outcomes.
#[apply(contract)]
async fn removing_a_tag_does_not_shift_outcomes(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for device in ["d000", "d001", "d002"] {
        fixtures::tagged(store, app, device, "vip", true).await;
    }
    let mut new = fixtures::broadcast(&[Platform::Android]);
    new.tag = Some("vip".into());
    let dispatch = fixtures::dispatch(store, app, new).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let first =
        Checkpoint { settled: vec![fixtures::sent(keys[1])], ..fixtures::checkpoint(page, 3) };
    let page = store.checkpoint(first).await.unwrap();
    store.remove_tag(app, id("d000"), "vip".into()).await.unwrap();
    let left = store.read_range(&dispatch, page.from, page.to).await.unwrap();
    assert_eq!(left.iter().map(|device| device.key).collect::<Vec<_>>(), keys[1..]);
    assert_eq!(store.settled_devices(&page).await.unwrap(), [keys[1]]);
}
