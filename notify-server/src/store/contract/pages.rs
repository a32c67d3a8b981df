//! Claiming pages and committing checkpoints.

use macro_rules_attribute::apply;
use notify_core::{Counts, NotificationStatus, Platform};

use super::fixtures::{self, INSTANCE, LEASE, NOW, android, id};
use super::unregistered::report;
use crate::store::{
    AppNo, Checkpoint, DeviceKey, Dispatch, EventCursor, EventTypes, InstanceId, NewNotification,
    OpenPage, Outcome, PageClaim, Store, StoreError,
};

#[apply(set_contract)]
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

#[apply(set_contract)]
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
#[apply(set_contract)]
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
#[apply(set_contract)]
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
#[apply(set_contract)]
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
    assert_eq!(store.open_retries(app, Platform::Android, NOW).await.unwrap(), 2);
}

/// Outcomes are keyed by device sequence, so an erased device does not shift them.
#[apply(set_contract)]
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
    assert_eq!(store.settled_devices(&page).await.unwrap().done, [keys[0], keys[2]]);
    let left = store.read_range(&dispatch, page.from, page.to).await.unwrap();
    let left: Vec<DeviceKey> = left.iter().map(|device| device.key).collect();
    assert_eq!(left, [keys[0], keys[2], keys[3]]);
    let outcome = |key| store.delivery_outcome(dispatch.no, key);
    assert_eq!(outcome(keys[0]).await.unwrap(), Some(fixtures::sent(keys[0])));
    assert_eq!(outcome(keys[2]).await.unwrap(), Some(failed));
    assert_eq!(outcome(keys[1]).await.unwrap(), None);
    assert_eq!(outcome(keys[3]).await.unwrap(), None);
}

#[apply(set_contract)]
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
#[apply(set_contract)]
async fn removing_a_tag_does_not_shift_outcomes(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    for device in ["d000", "d001", "d002"] {
        fixtures::tagged(store, app, device, "vip", true).await;
    }
    let mut new = fixtures::broadcast(&[Platform::Android]);
    new.checked.recipients.tag = Some("vip".into());
    let dispatch = fixtures::dispatch(store, app, new).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let first =
        Checkpoint { settled: vec![fixtures::sent(keys[1])], ..fixtures::checkpoint(page, 3) };
    let page = store.checkpoint(first).await.unwrap();
    store.remove_tag(app, id("d000"), "vip".into()).await.unwrap();
    let left = store.read_range(&dispatch, page.from, page.to).await.unwrap();
    assert_eq!(left.iter().map(|device| device.key).collect::<Vec<_>>(), keys[1..]);
    assert_eq!(store.settled_devices(&page).await.unwrap().done, [keys[1]]);
}

/// A dispatch to this many devices, with a page for each, and the last checkpoint of each page.
async fn page_for_each(
    store: &Store,
    app: AppNo,
    new: NewNotification,
    devices: usize,
) -> (Dispatch, Vec<Checkpoint>) {
    let mut dispatch = fixtures::dispatch(store, app, new).await;
    let mut last = Vec::new();
    while !dispatch.scan_done {
        let batch = store.read_batch(&dispatch, dispatch.cursor, 1).await.unwrap();
        let claim = fixtures::claim(&dispatch, batch.to, batch.end);
        let page = store.open_page(PageClaim { targeted: 1, ..claim }).await.unwrap();
        let settled = vec![fixtures::sent(batch.devices[0].key)];
        last.push(Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) });
        dispatch = store.dispatch(dispatch.no).await.unwrap();
    }
    assert_eq!(last.len(), devices);
    (dispatch, last)
}

#[apply(set_contract)]
async fn pages_finished_at_once_end_the_notification_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    store.keep_events_until(app, NOW.plus_ms(1_000_000), NOW).await.unwrap();
    let start = store.read_events(app, EventCursor::End, EventTypes::EVERY).await.unwrap();
    let broadcast = fixtures::broadcast(&[Platform::Android]);
    let (dispatch, mut last) = page_for_each(store, app, broadcast, 4).await;
    for (checkpoint, reason) in last.iter_mut().zip(["one", "two", "two"]) {
        let key = checkpoint.settled[0].key;
        checkpoint.settled = vec![fixtures::outcome(key, Outcome::Failed, Some(reason))];
    }
    last[2].at = NOW.plus_ms(70);
    let commits = last.into_iter().map(|checkpoint| store.checkpoint(checkpoint));
    for result in futures_util::future::join_all(commits).await {
        assert_eq!(result.unwrap().checkpoint_no, 1);
    }
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Completed);
    assert_eq!(record.counts, Counts { targeted: 4, sent: 1, failed: 3, ..Counts::default() });
    let failures: Vec<_> =
        record.failures.iter().map(|row| (row.reason.as_str(), row.count)).collect();
    assert_eq!(failures, [("two", 2), ("one", 1)]);
    let from = EventCursor::After(start.cursor);
    assert_eq!(store.read_events(app, from, EventTypes::EVERY).await.unwrap().events.len(), 1);
}

/// Checkpoints that are committed together do not affect each other.
#[apply(set_contract)]
async fn fenced_checkpoint_affects_no_other(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let broadcast = fixtures::broadcast(&[Platform::Android]);
    let (dispatch, last) = page_for_each(store, app, broadcast, 3).await;
    let of_other = |checkpoint: &Checkpoint| Checkpoint {
        page: OpenPage { instance: InstanceId(12), ..checkpoint.page },
        ..checkpoint.clone()
    };
    let results = tokio::join!(
        store.checkpoint(of_other(&last[0])),
        store.checkpoint(last[1].clone()),
        store.checkpoint(last[1].clone()),
        store.checkpoint(of_other(&last[2])),
        store.checkpoint(last[2].clone()),
    );
    assert!(matches!(results.0, Err(StoreError::Fenced)), "{results:?}");
    assert_eq!(results.1.unwrap(), results.2.unwrap(), "the same checkpoint twice");
    assert!(matches!(results.3, Err(StoreError::Fenced)), "{:?}", results.3);
    results.4.unwrap();
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Sending);
    assert_eq!(record.counts, Counts { targeted: 3, sent: 2, pending: 1, ..Counts::default() });
}

#[apply(set_contract)]
async fn pages_of_many_notifications_are_finished_together(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    store.keep_events_until(app, NOW.plus_ms(1_000_000), NOW).await.unwrap();
    let start = store.read_events(app, EventCursor::End, EventTypes::EVERY).await.unwrap();
    let (mut dispatches, mut last) = (Vec::new(), Vec::new());
    for number in 0..6 {
        let new = fixtures::direct(&[["d000", "d001"][number % 2]], &[]);
        let (dispatch, mut of_page) = page_for_each(store, app, new, 1).await;
        dispatches.push(dispatch);
        last.append(&mut of_page);
    }
    let canceled = &dispatches[1];
    store.cancel_notification(app, canceled.notification_id.clone(), NOW).await.unwrap();
    last[1].settled[0].settled = Outcome::Canceled;
    let mut fenced = last[5].clone();
    fenced.page.instance = InstanceId(12);
    let (first, second) = (last[..3].to_vec(), [&last[2..], &[fenced]].concat());
    let (first, second) = tokio::join!(store.finish_pages(first), store.finish_pages(second));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert!(first.iter().chain(&second[..4]).all(Result::is_ok), "{first:?} {second:?}");
    assert!(matches!(second[4], Err(StoreError::Fenced)), "{:?}", second[4]);
    assert_eq!(first[2].as_ref().unwrap(), second[0].as_ref().unwrap(), "it was finished once");
    for (number, dispatch) in dispatches.iter().enumerate() {
        let record = store.notification(app, dispatch.notification_id.clone()).await.unwrap();
        let (status, counts) = if number == 1 {
            let counts = Counts { targeted: 1, canceled: 1, ..Counts::default() };
            (NotificationStatus::Canceled, counts)
        } else {
            let counts = Counts { targeted: 1, sent: 1, ..Counts::default() };
            (NotificationStatus::Completed, counts)
        };
        assert_eq!((record.status, record.counts), (status, counts), "{number}");
    }
    let from = EventCursor::After(start.cursor);
    assert_eq!(store.read_events(app, from, EventTypes::EVERY).await.unwrap().events.len(), 6);
}

/// The retries of a canceled dispatch end, even if other pages have checkpoints at the same time.
#[apply(set_contract)]
async fn new_retries_of_a_canceled_dispatch_end_at_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let broadcast = || fixtures::broadcast(&[Platform::Android]);
    let (canceled, first) = page_for_each(store, app, broadcast(), 1).await;
    let (other, second) = page_for_each(store, app, broadcast(), 1).await;
    store.cancel_notification(app, canceled.notification_id.clone(), NOW).await.unwrap();
    let retried = |last: &Checkpoint| Checkpoint {
        retries: vec![fixtures::retry(last.settled[0].key)],
        settled: vec![],
        ..last.clone()
    };
    let results =
        tokio::join!(store.checkpoint(retried(&first[0])), store.checkpoint(retried(&second[0])));
    assert!(results.0.is_ok() && results.1.is_ok(), "{results:?}");
    assert_eq!(store.open_retries(app, Platform::Android, NOW).await.unwrap(), 1);
    let record = store.notification(app, canceled.notification_id).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Canceled);
    assert_eq!(record.counts, Counts { targeted: 1, canceled: 1, ..Counts::default() });
    let record = store.notification(app, other.notification_id).await.unwrap();
    assert_eq!(record.counts, Counts { targeted: 1, pending: 1, ..Counts::default() });
}

#[apply(set_contract)]
async fn pages_of_several_dispatches_are_claimed_at_once(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let first = fixtures::android_dispatch(store, app).await;
    let second = fixtures::android_dispatch(store, app).await;
    let all = |dispatch: &Dispatch| PageClaim {
        targeted: 2,
        ..fixtures::claim(dispatch, dispatch.until, true)
    };
    let elsewhere = PageClaim { from: second.until, ..all(&second) };
    let results = tokio::join!(
        store.open_page(all(&first)),
        store.open_page(all(&second)),
        store.open_page(all(&first)),
        store.open_page(elsewhere),
    );
    let (one, other) = (results.0.unwrap(), results.1.unwrap());
    assert_eq!((one.dispatch, other.dispatch), (first.no, second.no));
    assert_ne!(one.no, other.no);
    assert!(matches!(results.2, Err(StoreError::Fenced)), "{:?}", results.2);
    assert!(matches!(results.3, Err(StoreError::Fenced)), "{:?}", results.3);
    assert_eq!(store.unscanned_dispatches(10, NOW).await.unwrap(), []);
}

/// A checkpoint records to which devices messages are being sent, in place of those of the one before.
#[apply(set_contract)]
async fn intents_without_an_outcome_are_in_doubt(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let recorded =
        |page, settled, intents| Checkpoint { settled, intents, ..fixtures::checkpoint(page, 4) };
    let first = recorded(page, vec![], Some(vec![keys[0], keys[1], keys[2]]));
    let page = store.checkpoint(first.clone()).await.unwrap();
    assert_eq!(store.checkpoint(first).await.unwrap(), page, "a repetition");
    let settled = store.settled_devices(&page).await.unwrap();
    assert_eq!((settled.done, settled.in_doubt), (vec![], keys[..3].to_vec()));

    let others = vec![fixtures::sent(keys[1])];
    let page = store.checkpoint(recorded(page, others, None)).await.unwrap();
    let settled = store.settled_devices(&page).await.unwrap();
    assert_eq!((settled.done, settled.in_doubt), (vec![keys[1]], vec![keys[0], keys[2]]));

    let next = recorded(page, vec![fixtures::sent(keys[0])], Some(vec![keys[3]]));
    let page = store.checkpoint(next).await.unwrap();
    let settled = store.settled_devices(&page).await.unwrap();
    assert_eq!((settled.done, settled.in_doubt), (keys[..2].to_vec(), vec![keys[3]]));

    let page = store.checkpoint(recorded(page, vec![], Some(vec![]))).await.unwrap();
    assert_eq!(store.settled_devices(&page).await.unwrap().in_doubt, []);
}
