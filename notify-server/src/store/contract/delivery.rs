//! Starting due notifications, and reading their audience.

use macro_rules_attribute::apply;
use notify_core::{Endpoint, NotificationStatus, Platform, Schedule};

use super::fixtures::{self, NOW, android};
use super::is_unknown;
use crate::store::{
    Agenda, AppNo, AudienceSource, Checkpoint, DispatchNo, InstanceId, OpenedDispatch, Opening,
    StartDue, Started, Store, StoreError,
};

#[apply(set_contract)]
async fn due_notifications_start_oldest_first_within_the_limit(store: &Store) {
    let app = fixtures::app(store).await;
    let mut ids = Vec::new();
    for after in [300, 100, 200, 9_000] {
        let mut new = fixtures::broadcast(&[Platform::Android]);
        new.checked.schedule = Schedule::At(NOW.plus_ms(after));
        ids.push(fixtures::accepted(store, app, new).await);
    }
    assert_eq!(store.start_due(NOW, 10).await.unwrap(), (vec![], false));
    assert_eq!(store.agenda(NOW).await.unwrap().next_due, Some(NOW.plus_ms(100)));
    let then = NOW.plus_ms(500);
    let (first, more) = store.start_due(then, 2).await.unwrap();
    assert!(more);
    let (rest, more) = store.start_due(then, 2).await.unwrap();
    assert!(!more);
    let mut started = Vec::new();
    for no in first.into_iter().chain(rest) {
        started.push(store.dispatch(no).await.unwrap().notification_id);
    }
    assert_eq!(started, [ids[1].clone(), ids[2].clone(), ids[0].clone()]);
    assert_eq!(store.agenda(NOW).await.unwrap().next_due, Some(NOW.plus_ms(9_000)));
    let record = store.notification(app, ids[0].clone()).await.unwrap();
    assert_eq!((record.status, record.started_at), (NotificationStatus::Sending, Some(then)));
    assert!(is_unknown(&store.dispatch(DispatchNo(9_999)).await));
}

/// The order does not depend on the number of the application.
#[apply(set_contract)]
async fn notifications_due_at_once_start_in_order_of_acceptance(store: &Store) {
    let (first, second) = (fixtures::app(store).await, fixtures::app(store).await);
    let due = NOW.plus_ms(100);
    let mut ids = Vec::new();
    for app in [second, first, second, first] {
        let mut new = fixtures::broadcast(&[Platform::Android]);
        new.checked.schedule = Schedule::At(due);
        ids.push(fixtures::accepted(store, app, new).await);
    }
    let mut made = Vec::new();
    for more in [true, true, true, false] {
        let (started, is_more) = store.start_due(due, 1).await.unwrap();
        assert_eq!((started.len(), is_more), (1, more));
        made.extend(started);
    }
    for (no, id) in made.iter().zip(&ids) {
        assert_eq!(&store.dispatch(*no).await.unwrap().notification_id, id);
    }
    assert_eq!(store.unscanned_dispatches(10, NOW).await.unwrap(), made);
    assert_eq!(store.unscanned_dispatches(1, NOW).await.unwrap(), made[..1]);
    assert_eq!(
        store.reclaim(fixtures::adoption(fixtures::INSTANCE)).await.unwrap().dispatches,
        made
    );
}

/// The audience ends at a device sequence when the notification is due, and not at a time.
#[apply(set_contract)]
async fn audience_is_fixed_when_a_notification_becomes_due(store: &Store) {
    let app = fixtures::app(store).await;
    let mut later = fixtures::broadcast(&[Platform::Android]);
    later.checked.schedule = Schedule::At(NOW.plus_ms(1));
    let later = fixtures::accepted(store, app, later).await;
    fixtures::registered(store, app, android("early")).await;
    let at_once = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Android])).await;
    fixtures::registered(store, app, android("late")).await;
    let (started, _) = store.start_due(NOW.plus_ms(1), 10).await.unwrap();
    fixtures::registered(store, app, android("after")).await;
    for no in started {
        let dispatch = store.dispatch(no).await.unwrap();
        let slice = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap();
        let expected = if dispatch.notification_id == at_once { 1 } else { 2 };
        assert!(dispatch.notification_id == at_once || dispatch.notification_id == later);
        assert_eq!((slice.devices.len(), slice.to, slice.end), (expected, dispatch.until, true));
    }
}

#[apply(set_contract)]
async fn every_platform_of_the_target_has_its_dispatch(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let mut new = fixtures::broadcast(&[Platform::Android, Platform::Web]);
    let poll = fixtures::poll();
    new.poll = Some(poll.clone());
    let request = new.request.clone();
    let notification = fixtures::accepted(store, app, new).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    assert_eq!(started.len(), 2);
    let dispatch = store.dispatch(started[0]).await.unwrap();
    assert_eq!((dispatch.app, dispatch.app_name.as_str()), (app, "Shop"));
    assert_eq!(
        (dispatch.platform, dispatch.source.clone()),
        (Platform::Android, AudienceSource::Platform)
    );
    assert_eq!((dispatch.due_at, dispatch.ttl_seconds), (NOW, 600));
    assert_eq!((dispatch.request.clone(), dispatch.canceled), (request, false));
    assert_eq!(dispatch.poll_public_id, Some(poll.public_id));
    assert_eq!(dispatch.poll_answers, poll.answers, "in their order");
    for no in started {
        let dispatch = store.dispatch(no).await.unwrap();
        let open = store.notification(app, notification.clone()).await.unwrap();
        assert_eq!(open.status, NotificationStatus::Sending);
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        if !keys.is_empty() {
            let settled = keys.iter().map(|key| fixtures::sent(*key)).collect();
            let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) };
            store.checkpoint(done).await.unwrap();
        }
    }
    let record = store.notification(app, notification).await.unwrap();
    assert_eq!((record.status, record.completed_at), (NotificationStatus::Completed, Some(NOW)));
}

#[apply(set_contract)]
async fn named_ids_are_resolved_and_unknown_ones_counted(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch =
        fixtures::dispatch(store, app, fixtures::direct(&["d002", "d000", "missing"], &["d001"]))
            .await;
    let AudienceSource::Named { keys, users: None, tag: None } = &dispatch.source else {
        panic!("{dispatch:?}")
    };
    assert!(keys.is_sorted());
    let slice = store.read_batch(&dispatch, dispatch.cursor, 1).await.unwrap();
    assert_eq!((slice.devices.len(), slice.to, slice.end), (1, keys[0], false));
    let rest = store.read_batch(&dispatch, slice.to, 10).await.unwrap();
    assert_eq!((rest.devices[0].key, rest.to, rest.end), (keys[1], dispatch.until, true));
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    assert_eq!((record.counts.unknown, record.counts.targeted), (2, 0));
    let of_ios = &record.by_platform[1];
    assert_eq!((of_ios.platform, of_ios.counts.unknown), (Platform::Ios, 1));
}

/// The result of a start that opens pages.
async fn started(store: &Store, lanes: &[(AppNo, Platform)]) -> Started {
    let lanes = lanes.iter().copied().collect();
    let opening =
        Some(Opening { instance: fixtures::INSTANCE, lease_until: fixtures::LEASE, lanes });
    store.start(StartDue { now: NOW, limit: 10, opening }).await.unwrap()
}

#[apply(set_contract)]
async fn start_opens_the_page_of_a_single_device(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let id = fixtures::accepted(store, app, fixtures::direct(&["d001", "missing"], &[])).await;
    let Started { dispatches, mut opened, agenda } =
        started(store, &[(app, Platform::Android)]).await;
    assert_eq!((dispatches, opened.len(), agenda), (vec![], 1, Agenda::default()));
    let OpenedDispatch { dispatch, page, device } = opened.remove(0);
    assert_eq!(store.dispatch(dispatch.no).await.unwrap(), dispatch);
    let range = store.read_range(&dispatch, page.from, page.to).await.unwrap();
    assert_eq!(range, std::slice::from_ref(&device));
    let open = store.notification(app, id.clone()).await.unwrap();
    assert_eq!((open.status, open.counts.unknown), (NotificationStatus::Sending, 1));
    assert_eq!((open.counts.targeted, open.counts.pending), (1, 1));
    assert_eq!(store.unscanned_dispatches(10, NOW).await.unwrap(), []);
    // Another process reclaims it like any page.
    let adopted = store.reclaim(fixtures::adoption(InstanceId(12))).await.unwrap();
    assert_eq!(adopted.pages.iter().map(|page| page.no).collect::<Vec<_>>(), [page.no]);
    let done = |page| Checkpoint {
        settled: vec![fixtures::sent(device.key)],
        finished: true,
        ..fixtures::checkpoint(page, 1)
    };
    let finished = store.finish_pages(vec![done(page), done(adopted.pages[0])]).await.unwrap();
    assert!(matches!(finished[0], Err(StoreError::Fenced)), "{finished:?}");
    assert!(finished[1].is_ok(), "{finished:?}");
    let record = store.notification(app, id).await.unwrap();
    assert_eq!((record.status, record.counts.sent), (NotificationStatus::Completed, 1));
    assert_eq!(store.agenda(NOW).await.unwrap(), Agenda::default());
}

/// In all other cases the notification is started without a page.
#[apply(set_contract)]
async fn start_opens_no_page_unless_it_is_the_only_one(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    fixtures::registered(store, app, fixtures::ios("phone")).await;
    let mut off = android("off");
    off.push_disabled = true;
    fixtures::registered(store, app, off).await;
    let mut with_poll = fixtures::direct(&["d000"], &[]);
    with_poll.poll = Some(fixtures::poll());
    let mut tagged = fixtures::direct(&["d000"], &[]);
    tagged.checked.recipients.tag = Some("sports".into());
    let cases = [
        ("two devices", fixtures::direct(&["d000", "d001"], &[]), 1),
        ("two platforms", fixtures::direct(&["d000"], &["phone"]), 2),
        ("another platform", fixtures::direct(&[], &["phone"]), 1),
        ("a disabled device", fixtures::direct(&["off"], &[]), 1),
        ("a device without the tag", tagged, 1),
        ("a poll", with_poll, 1),
        ("missing", fixtures::direct(&["missing"], &[]), 0),
    ];
    for (what, new, dispatches) in cases {
        fixtures::accepted(store, app, new).await;
        let made = started(store, &[(app, Platform::Android)]).await;
        assert_eq!((made.dispatches.len(), made.opened), (dispatches, vec![]), "{what}");
    }
}

/// A read bounds the scanned rows, not the matching rows.
#[apply(set_contract)]
async fn batch_bounds_the_rows_it_scans(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, other_app, 2).await;
    for number in 0..5 {
        let mut device = android(&format!("d{number}"));
        device.push_disabled = number % 2 == 0;
        fixtures::registered(store, app, device).await;
    }
    fixtures::registered(store, app, fixtures::ios("phone")).await;
    let bare = fixtures::registration("bare", Endpoint::Android { push_token: None });
    fixtures::registered(store, app, bare).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let mut after = dispatch.cursor;
    let mut seen = Vec::new();
    loop {
        let slice = store.read_batch(&dispatch, after, 4).await.unwrap();
        assert!(slice.devices.len() <= 4 && slice.to > after);
        let range = store.read_range(&dispatch, after, slice.to).await.unwrap();
        assert_eq!(range, slice.devices, "a range reads back what the slice showed");
        seen.extend(slice.devices.iter().map(|device| (device.eligible, device.address.is_some())));
        after = slice.to;
        if slice.end {
            break;
        }
    }
    assert_eq!(after, dispatch.until);
    let (on, off) = ((true, true), (false, true));
    assert_eq!(seen, [off, on, off, on, off, (true, false)]);
}

#[apply(set_contract)]
async fn tag_audience_scans_only_devices_with_the_tag(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 6).await;
    fixtures::tagged(store, app, "d001", "vip", true).await;
    fixtures::tagged(store, app, "d003", "vip", false).await;
    fixtures::tagged(store, app, "d005", "vip", true).await;
    let mut new = fixtures::broadcast(&[Platform::Android]);
    new.checked.recipients.tag = Some("vip".into());
    let dispatch = fixtures::dispatch(store, app, new).await;
    assert_eq!(dispatch.source, AudienceSource::Tag("vip".into()));
    let slice = store.read_batch(&dispatch, dispatch.cursor, 2).await.unwrap();
    let eligible: Vec<_> = slice.devices.iter().map(|device| device.eligible).collect();
    assert_eq!((eligible, slice.end), (vec![true, false], false));
    let rest = store.read_batch(&dispatch, slice.to, 2).await.unwrap();
    assert_eq!((rest.devices.len(), rest.to, rest.end), (1, dispatch.until, true));
    let mut named = fixtures::direct(&["d000", "d001", "d003"], &[]);
    named.checked.recipients.tag = Some("vip".into());
    let named = fixtures::dispatch(store, app, named).await;
    let slice = store.read_batch(&named, named.cursor, 10).await.unwrap();
    let eligible: Vec<_> = slice.devices.iter().map(|device| device.eligible).collect();
    assert_eq!(eligible, [false, true, false]);
}

/// A device has the previous owner of its token, so that the engine does not send to the token
/// twice.
#[apply(set_contract)]
async fn moved_token_names_its_previous_owner(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let reused =
        fixtures::registration("d001", Endpoint::Android { push_token: Some("token-d000".into()) });
    store.register_device(app, reused, NOW.plus_ms(9), None).await.unwrap();
    let dispatch = fixtures::android_dispatch(store, app).await;
    let devices = store.read_batch(&dispatch, dispatch.cursor, 10).await.unwrap().devices;
    assert_eq!((devices[0].address.as_deref(), devices[0].previous_owner), (None, None));
    assert_eq!(devices[1].address.as_deref(), Some("token-d000"));
    assert_eq!(devices[1].previous_owner, Some((devices[0].key, NOW.plus_ms(9))));
}
