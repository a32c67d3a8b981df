//! Listing deliveries, facts about one delivery, and counting audiences.

use macro_rules_attribute::apply;
use notify_core::{
    Delivery, DeliveryOutcome, DeviceId, Endpoint, NotificationId, NotificationStatus, Platform,
    Recipients, Schedule, Target,
};

use super::fixtures::{self, INSTANCE, NOW, id};
use super::{is_unknown, refusal};
use crate::store::{
    AppNo, Checkpoint, DeliveryFilter, DeliveryProgress, DeviceOutcome, Dispatch, Outcome,
    PageClaim, PageRequest, Reach, RetryOutcome, RetryResult, Store,
};

/// All deliveries, read in pages of this size.
async fn all(
    store: &Store,
    app: AppNo,
    notification: &NotificationId,
    filter: &DeliveryFilter,
    limit: u32,
) -> Vec<Delivery> {
    let (mut rows, mut cursor) = (Vec::new(), None);
    loop {
        let request = PageRequest { limit, cursor };
        let listed =
            store.list_deliveries(app, notification.clone(), filter.clone(), request).await;
        let page = listed.unwrap();
        assert!(page.rows.len() <= limit as usize);
        rows.extend(page.rows);
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
}

fn delivery(device: &str, outcome: DeliveryOutcome) -> Delivery {
    let settled = outcome != DeliveryOutcome::Pending;
    Delivery {
        device_id: Some(id(device)),
        platform: Platform::Android,
        outcome,
        reason: None,
        attempts: u32::from(settled),
        provider_message_id: None,
        at: settled.then_some(NOW),
        next_attempt_at: None,
    }
}

/// Six devices: sent with a message id, failed, with a retry, pending, disabled, and sent by a
/// retry.
async fn under_way(store: &Store, app: AppNo) -> Dispatch {
    fixtures::devices(store, app, 4).await;
    let disabled = notify_core::Registration { push_disabled: true, ..fixtures::android("d004") };
    fixtures::registered(store, app, disabled).await;
    fixtures::registered(store, app, fixtures::android("d005")).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let sent = DeviceOutcome { message_id: Some("id-0".into()), ..fixtures::sent(keys[0]) };
    let failed = fixtures::outcome(keys[1], Outcome::Failed, Some("BadTopic"));
    let first = Checkpoint {
        settled: vec![failed, sent],
        retries: vec![fixtures::retry(keys[4])],
        ..fixtures::checkpoint(page, 5)
    };
    let page = store.checkpoint(first).await.unwrap();
    let claimed = store.claim_retries(fixtures::retry_claim(app)).await.unwrap();
    let step = RetryResult::Final {
        settled: Outcome::Sent,
        reason: None,
        attempts: 2,
        message_id: Some("id-5".into()),
    };
    let through =
        RetryOutcome { no: claimed[0].no, result: step, dead: None, moved: None, verified: None };
    store.settle_retries(INSTANCE, vec![through], NOW.plus_ms(9)).await.unwrap();
    let second = Checkpoint {
        retries: vec![fixtures::retry(keys[2])],
        at: NOW.plus_ms(5),
        ..fixtures::checkpoint(page, 5)
    };
    store.checkpoint(second).await.unwrap();
    dispatch
}

#[apply(set_contract)]
async fn deliveries_are_listed_with_retries_and_pending_ones(store: &Store) {
    use DeliveryOutcome::{Failed, Pending, Sent};
    let app = fixtures::app(store).await;
    let notification = under_way(store, app).await.notification_id;
    let expected = [
        Delivery { provider_message_id: Some("id-0".into()), ..delivery("d000", Sent) },
        Delivery { reason: Some("BadTopic".into()), ..delivery("d001", Failed) },
        Delivery {
            attempts: 1,
            reason: Some("ServiceUnavailable".into()),
            next_attempt_at: Some(NOW.plus_ms(1_000)),
            ..delivery("d002", Pending)
        },
        delivery("d003", Pending),
        Delivery {
            attempts: 2,
            provider_message_id: Some("id-5".into()),
            at: Some(NOW.plus_ms(9)),
            ..delivery("d005", Sent)
        },
    ];
    for limit in [1, 2, 3, 5, 1_000] {
        assert_eq!(
            all(store, app, &notification, &DeliveryFilter::default(), limit).await,
            expected,
            "{limit}"
        );
    }
    for outcome in DeliveryOutcome::ALL {
        let of_outcome: Vec<Delivery> =
            expected.iter().filter(|row| row.outcome == outcome).cloned().collect();
        let filter = DeliveryFilter { outcome: Some(outcome), reason: None };
        let found = all(store, app, &notification, &filter, 1).await;
        assert_eq!(found, of_outcome, "{outcome}");
    }
    for (outcome, reason, row) in [
        (None, "BadTopic", Some(1)),
        (None, "ServiceUnavailable", Some(2)),
        (Some(Failed), "BadTopic", Some(1)),
        (Some(Sent), "BadTopic", None),
        (None, "Bad", None),
    ] {
        let filter = DeliveryFilter { outcome, reason: Some(reason.to_owned()) };
        let found = all(store, app, &notification, &filter, 1).await;
        let with_reason: Vec<Delivery> = row.map(|row| expected[row].clone()).into_iter().collect();
        assert_eq!(found, with_reason, "{filter:?}");
    }
}

/// A notification to this many Android devices, each on its own page, of which every tenth failed,
/// and to one iOS device.
pub(crate) async fn in_pages_of_one(store: &Store, app: AppNo, count: usize) -> NotificationId {
    fixtures::devices(store, app, count).await;
    fixtures::registered(store, app, fixtures::ios("i")).await;
    let new = fixtures::broadcast(&[Platform::Ios, Platform::Android]);
    let notification = fixtures::accepted(store, app, new).await;
    let (started, _) = store.start_due(NOW, 10).await.unwrap();
    for no in started {
        let mut dispatch = store.dispatch(no).await.unwrap();
        loop {
            let slice = store.read_batch(&dispatch, dispatch.cursor, 1).await.unwrap();
            let targeted = slice.devices.len() as u64;
            let claim = PageClaim { targeted, ..fixtures::claim(&dispatch, slice.to, slice.end) };
            let page = store.open_page(claim).await.unwrap();
            if let Some(device) = slice.devices.first() {
                let is_odd = device.key.sequence() % 10 == 7;
                let settled = if is_odd { Outcome::Failed } else { Outcome::Sent };
                let settled = vec![fixtures::outcome(device.key, settled, None)];
                let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) };
                store.checkpoint(done).await.unwrap();
            }
            if slice.end {
                break;
            }
            dispatch.cursor = slice.to;
        }
    }
    notification
}

/// No delivery is left out or listed twice, and the platforms follow each other.
#[apply(set_contract)]
async fn delivery_listing_of_many_pages_is_complete(store: &Store) {
    const COUNT: usize = 40;
    let app = fixtures::app(store).await;
    let notification = in_pages_of_one(store, app, COUNT).await;
    let names = |rows: Vec<Delivery>| -> Vec<String> {
        rows.into_iter().map(|row| row.device_id.unwrap().as_str().to_owned()).collect()
    };
    let mut expected: Vec<String> = (0..COUNT).map(|number| format!("d{number:03}")).collect();
    expected.push("i".to_owned());
    for limit in [7, 1_000] {
        assert_eq!(
            names(all(store, app, &notification, &DeliveryFilter::default(), limit).await),
            expected
        );
    }
    let failed = DeliveryFilter { outcome: Some(DeliveryOutcome::Failed), reason: None };
    let failed = all(store, app, &notification, &failed, 1_000).await;
    assert_eq!(names(failed), ["d006", "d016", "d026", "d036"]);
}

#[apply(set_contract)]
async fn delivery_of_an_erased_device_has_no_id(store: &Store) {
    let app = fixtures::app(store).await;
    let notification = under_way(store, app).await.notification_id;
    for device in ["d000", "d002", "d003"] {
        store.delete_device(app, id(device), NOW.plus_ms(20)).await.unwrap();
    }
    let rows = all(store, app, &notification, &DeliveryFilter::default(), 50).await;
    let rows: Vec<_> = rows
        .iter()
        .map(|row| (row.device_id.as_ref().map(DeviceId::as_str), row.outcome, row.at))
        .collect();
    let expected = [
        (None, DeliveryOutcome::Sent, Some(NOW)),
        (Some("d001"), DeliveryOutcome::Failed, Some(NOW)),
        // Its retry ended with it; its pending delivery is counted when the page reaches it.
        (None, DeliveryOutcome::Canceled, Some(NOW.plus_ms(20))),
        (Some("d005"), DeliveryOutcome::Sent, Some(NOW.plus_ms(9))),
    ];
    assert_eq!(rows, expected);
}

#[apply(set_contract)]
async fn delivery_listing_contains_one_notification(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let notification = under_way(store, app).await.notification_id;
    let elsewhere = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    let list = |app, id: &NotificationId, page| {
        store.list_deliveries(app, id.clone(), DeliveryFilter::default(), page)
    };
    let next = list(app, &notification, fixtures::page(1)).await.unwrap().next;
    let refused = list(app, &elsewhere, fixtures::next_page(1, next)).await;
    assert_eq!(refusal(refused), "cursor: is not a cursor of this list");
    assert!(is_unknown(&list(other_app, &notification, fixtures::page(1)).await));
    let ghost = NotificationId::new("ghost").unwrap();
    assert!(is_unknown(&list(app, &ghost, fixtures::page(1)).await));
    let facts = |app, device| store.delivery_facts(app, notification.clone(), id(device));
    assert!(is_unknown(&facts(other_app, "d000").await) && is_unknown(&facts(app, "ghost").await));
    assert_eq!(list(app, &elsewhere, fixtures::page(1)).await.unwrap().rows, []);
}

#[apply(set_contract)]
async fn facts_report_the_progress_of_a_delivery(store: &Store) {
    let app = fixtures::app(store).await;
    let notification = under_way(store, app).await.notification_id;
    fixtures::registered(store, app, fixtures::android("later")).await;
    fixtures::registered(store, app, fixtures::ios("ios")).await;
    let settled = |outcome, reason: Option<&str>| DeliveryProgress::Settled {
        outcome,
        reason: reason.map(str::to_owned),
        attempts: 1,
        first_attempt_at: None,
        at: NOW,
    };
    let cases = [
        ("d000", settled(Outcome::Sent, None)),
        ("d001", settled(Outcome::Failed, Some("BadTopic"))),
        (
            "d002",
            DeliveryProgress::Retrying {
                attempts: 1,
                first_attempt_at: NOW,
                reason: Some("ServiceUnavailable".into()),
                due_at: NOW.plus_ms(1_000),
            },
        ),
        ("d003", DeliveryProgress::InOpenPage),
        ("d004", DeliveryProgress::InOpenPage),
        (
            "d005",
            DeliveryProgress::Settled {
                outcome: Outcome::Sent,
                reason: None,
                attempts: 2,
                first_attempt_at: Some(NOW),
                at: NOW.plus_ms(9),
            },
        ),
        ("later", DeliveryProgress::RegisteredLater),
        ("ios", DeliveryProgress::None),
    ];
    for (device, progress) in cases {
        let facts = store.delivery_facts(app, notification.clone(), id(device)).await.unwrap();
        assert_eq!(facts.progress, progress, "{device}");
        assert_eq!(facts.notification.status, NotificationStatus::Sending);
        assert_eq!(facts.notification.platforms, [Platform::Android]);
        assert_eq!((facts.device.push_disabled, facts.device.created_at), (device == "d004", NOW));
    }
}

/// The fixed audience decides whether a device is skipped, and not the sequence of the device
/// alone.
#[apply(set_contract)]
async fn facts_report_whether_a_device_is_named_and_tagged(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    fixtures::tagged(store, app, "d000", "vip", true).await;
    fixtures::tagged(store, app, "d001", "vip", false).await;
    for (send_at, progress) in [
        (
            None,
            [DeliveryProgress::NotReached, DeliveryProgress::None, DeliveryProgress::NotReached],
        ),
        (
            Some(NOW.plus_ms(60_000)),
            [DeliveryProgress::None, DeliveryProgress::None, DeliveryProgress::None],
        ),
    ] {
        let mut new = fixtures::direct(&["d000", "d002"], &[]);
        new.checked.recipients.tag = Some("vip".into());
        new.checked.schedule = send_at.map_or(Schedule::Now, Schedule::At);
        let notification = fixtures::accepted(store, app, new).await;
        store.start_due(NOW, 10).await.unwrap();
        for ((device, named, tagged), progress) in
            [("d000", true, true), ("d001", false, false), ("d002", true, false)]
                .into_iter()
                .zip(progress)
        {
            let facts = store.delivery_facts(app, notification.clone(), id(device)).await.unwrap();
            let state = (facts.device.is_named, facts.device.has_tag, facts.progress);
            assert_eq!(state, (named, tagged, progress), "{device} {send_at:?}");
            assert!(facts.notification.names_devices);
        }
    }
}

#[apply(set_contract)]
async fn unreachable_device_is_reported_as_skipped(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let new = NewTagged { tag: "vip", devices: &["d000"] };
    let dispatch = new.dispatch(store, app).await;
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let settled = vec![fixtures::sent(keys[0])];
    let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) };
    store.checkpoint(done).await.unwrap();
    // It gets the tag afterwards, although its sequence is within the audience.
    fixtures::tagged(store, app, "d001", "vip", true).await;
    let facts =
        store.delivery_facts(app, dispatch.notification_id.clone(), id("d001")).await.unwrap();
    assert_eq!((facts.progress, facts.device.has_tag), (DeliveryProgress::Skipped, true));
}

/// A notification to all devices with a tag.
struct NewTagged<'a> {
    tag: &'a str,
    devices: &'a [&'a str],
}

impl NewTagged<'_> {
    async fn dispatch(&self, store: &Store, app: AppNo) -> Dispatch {
        for device in self.devices {
            fixtures::tagged(store, app, device, self.tag, true).await;
        }
        let mut new = fixtures::broadcast(&[Platform::Android]);
        new.checked.recipients.tag = Some(self.tag.to_owned());
        fixtures::dispatch(store, app, new).await
    }
}

#[apply(set_contract)]
async fn audience_is_counted_as_it_is_now(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, other_app, 2).await;
    fixtures::devices(store, app, 4).await;
    let disabled = notify_core::Registration { push_disabled: true, ..fixtures::android("off") };
    fixtures::registered(store, app, disabled).await;
    let bare = fixtures::registration("bare", Endpoint::Android { push_token: None });
    fixtures::registered(store, app, bare).await;
    fixtures::registered(store, app, fixtures::ios("i")).await;
    for (device, value) in [("d000", true), ("d001", false), ("off", true), ("i", true)] {
        fixtures::tagged(store, app, device, "vip", value).await;
    }
    let reach =
        |platform, devices| Reach { platform, devices, is_exact: true, unknown: 0, excluded: 0 };
    let both = Target::Platforms(vec![Platform::Ios, Platform::Android, Platform::Web]);
    let ids = Target::Devices {
        android: ["d000", "d001", "off", "bare", "i", "ghost"].map(id).to_vec(),
        ios: vec![id("i")],
        any: Vec::new(),
    };
    let any = Target::Devices {
        android: ["d000", "missing"].map(id).to_vec(),
        ios: Vec::new(),
        any: ["i", "off", "d001", "ghost", "phantom"].map(id).to_vec(),
    };
    let (ios, web) = (reach(Platform::Ios, 1), reach(Platform::Web, 0));
    let cases = [
        (both.clone(), None, vec![ios, reach(Platform::Android, 4), web], 0),
        (both, Some("vip"), vec![ios, reach(Platform::Android, 1), web], 0),
        (
            ids.clone(),
            None,
            vec![Reach { unknown: 2, excluded: 2, ..reach(Platform::Android, 2) }, ios],
            0,
        ),
        (
            ids,
            Some("vip"),
            vec![Reach { unknown: 2, excluded: 3, ..reach(Platform::Android, 1) }, ios],
            0,
        ),
        (any, None, vec![Reach { unknown: 1, excluded: 1, ..reach(Platform::Android, 2) }, ios], 2),
    ];
    for (target, tag, expected, unknown) in cases {
        let recipients = Recipients { target, tag: tag.map(str::to_owned), audience: None };
        let reached = store.reach(app, recipients.clone(), None, NOW).await.unwrap();
        let expected = (expected, unknown);
        assert_eq!((reached.platforms, reached.unknown), expected, "{recipients:?}");
    }
    // Changes count at once: a token moves, a token is removed.
    let reused = Endpoint::Android { push_token: Some("token-d003".into()) };
    fixtures::registered(store, app, fixtures::registration("bare", reused)).await;
    let target = Target::Platforms(vec![Platform::Android]);
    let android = Recipients { target, tag: None, audience: None };
    let reached = store.reach(app, android.clone(), None, NOW).await.unwrap().platforms;
    assert_eq!(reached, [reach(Platform::Android, 4)]);
    fixtures::registered(
        store,
        app,
        fixtures::registration("bare", Endpoint::Android { push_token: None }),
    )
    .await;
    let reached = store.reach(app, android, None, NOW).await.unwrap().platforms;
    assert_eq!(reached, [reach(Platform::Android, 3)]);
}
