//! Accepting notifications, reading them back, canceling.

use macro_rules_attribute::apply;
use notify_core::{
    CampaignId, CampaignRef, Counts, Event, EventType, NotificationId, NotificationRecord,
    NotificationStatus, Origin, Platform, Schedule, Timestamp,
};
use uuid::Uuid;

use super::fixtures::{self, NOW};
use super::{campaigns, is_unknown, refusal};
use crate::store::notification::NOTIFICATIONS_SCANNED_MAX;
use crate::store::{AppNo, Checkpoint, DeviceOutcome, Operation, Outcome, PageRequest, Store};

async fn read(store: &Store, app: AppNo, id: &NotificationId) -> NotificationRecord {
    store.notification(app, id.clone()).await.unwrap()
}

#[apply(set_contract)]
async fn accepted_notification_reads_back(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let new = fixtures::broadcast(&[Platform::Ios, Platform::Android]);
    let id = fixtures::accepted(store, app, new.clone()).await;
    let record = read(store, app, &id).await;
    assert_eq!((record.status, record.origin), (NotificationStatus::Queued, Origin::Created));
    assert_eq!((record.created_at, record.send_at), (NOW, Some(NOW)));
    assert_eq!((record.started_at, record.completed_at), (None, None));
    assert_eq!(record.request.as_str(), new.request);
    assert_eq!(record.counts, Counts::default());
    let platforms: Vec<_> = record.by_platform.iter().map(|row| row.platform).collect();
    assert_eq!(platforms, [Platform::Android, Platform::Ios]);
    assert!(is_unknown(&store.notification(other_app, id.clone()).await));
    assert!(is_unknown(&store.cancel_notification(other_app, id, NOW).await));
}

#[apply(set_contract)]
async fn notification_id_is_unique_within_an_application(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let new = fixtures::broadcast(&[Platform::Ios]);
    fixtures::accepted(store, app, new.clone()).await;
    assert!(refusal(store.accept_notification(app, new.clone(), None).await).starts_with("id: "));
    let same = fixtures::report(new.id.as_str());
    assert!(refusal(store.record_report(app, same, None).await).starts_with("id: "));
    fixtures::accepted(store, other_app, new).await;
}

/// The conditions are checked inside the transaction.
#[apply(set_contract)]
async fn accepting_requires_an_active_campaign(store: &Store) {
    let app = fixtures::app(store).await;
    let campaign = campaigns::made(store, app, "Summer").await;
    let naming =
        |campaign| fixtures::with_campaign(campaign, fixtures::broadcast(&[Platform::Ios]));
    fixtures::accepted(store, app, naming(CampaignRef::Id(campaign))).await;
    fixtures::accepted(store, app, naming(CampaignRef::Default)).await;
    let disabled = notify_core::CampaignStatus::Disabled;
    store.set_campaign_status(app, campaign, disabled).await.unwrap();
    for id in [campaign, CampaignId(Uuid::now_v7())] {
        let refused = store.accept_notification(app, naming(CampaignRef::Id(id)), None).await;
        assert!(refusal(refused).starts_with("campaign_id: "));
    }
}

#[apply(set_contract)]
async fn reports_are_listed_and_never_due(store: &Store) {
    let app = fixtures::app(store).await;
    let done = store.record_report(app, fixtures::report("mine"), None).await.unwrap();
    assert_eq!(fixtures::now(done).id.as_str(), "mine");
    let record = read(store, app, &NotificationId::new("mine").unwrap()).await;
    assert_eq!((record.status, record.origin), (NotificationStatus::Reported, Origin::Reported));
    assert_eq!((record.send_at, record.counts), (None, Counts::default()));
    assert_eq!(store.start_due(Timestamp(i64::MAX), 10).await.unwrap(), (vec![], false));
    assert_eq!(store.agenda(Timestamp(0)).await.unwrap().next_due, None);
}

#[apply(set_contract)]
async fn notifications_are_listed_newest_first(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.insert(0, fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await);
        fixtures::accepted(store, other_app, fixtures::broadcast(&[Platform::Ios])).await;
    }
    let first = store.list_notifications(app, None, fixtures::page(2)).await.unwrap();
    let rest =
        store.list_notifications(app, None, fixtures::next_page(2, first.next)).await.unwrap();
    let listed: Vec<_> = first.rows.into_iter().chain(rest.rows).map(|row| row.id).collect();
    assert_eq!((listed, rest.next), (ids, None));
}

#[apply(set_contract)]
async fn notifications_are_listed_by_status(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    fixtures::devices(store, app, 1).await;
    let mut expected = Vec::new();
    for _ in 0..2 {
        let sending = fixtures::android_dispatch(store, app).await.notification_id;
        expected.push((NotificationStatus::Sending, sending));
        let dispatch = fixtures::android_dispatch(store, app).await;
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        let settled = vec![fixtures::sent(keys[0])];
        let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, 1) };
        store.checkpoint(done).await.unwrap();
        expected.push((NotificationStatus::Completed, dispatch.notification_id));
    }
    for number in 0..3 {
        let later = || {
            let schedule = Schedule::At(NOW.plus_ms(1_000));
            fixtures::at_schedule(schedule, fixtures::broadcast(&[Platform::Ios]))
        };
        let scheduled = fixtures::accepted(store, app, later()).await;
        expected.push((NotificationStatus::Scheduled, scheduled));
        let canceled = fixtures::accepted(store, app, later()).await;
        store.cancel_notification(app, canceled.clone(), NOW).await.unwrap();
        expected.push((NotificationStatus::Canceled, canceled));
        let report = fixtures::report(&format!("report-{number}"));
        expected.push((NotificationStatus::Reported, report.report.id.clone()));
        store.record_report(app, report, None).await.unwrap();
        let queued = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
        expected.push((NotificationStatus::Queued, queued));
    }
    for status in NotificationStatus::ALL {
        let of_status = expected.iter().rev().filter(|(of, _)| *of == status);
        let ids: Vec<_> = of_status.map(|(_, id)| id.clone()).collect();
        assert!(ids.len() >= 2, "{status}");
        let first = store.list_notifications(app, Some(status), fixtures::page(1)).await.unwrap();
        let rest = fixtures::next_page(5, first.next);
        let rest = store.list_notifications(app, Some(status), rest).await.unwrap();
        let rows = first.rows.into_iter().chain(rest.rows);
        let listed: Vec<_> = rows.map(|row| (row.status, row.id)).collect();
        let of_ids: Vec<_> = ids.into_iter().map(|id| (status, id)).collect();
        assert_eq!((listed, rest.next), (of_ids, None), "{status}");
        let other = store.list_notifications(other_app, Some(status), fixtures::page(5)).await;
        assert_eq!(other.unwrap().rows, []);
    }
}

/// No page reads all notifications to find the few with a status.
#[apply(set_contract)]
async fn search_for_a_status_reads_a_bounded_number_of_notifications(store: &Store) {
    let app = fixtures::app(store).await;
    let queued = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    let first = app.key_prefix() | 1_000;
    let filled = store.write(Operation::AcceptNotification, move |tx| {
        tx.prepare_cached(
            "with recursive n (i) as (select 0 union all select i + 1 from n where i < ?3)
             insert into notifications (no, app_no, id, origin, status, created_at, request,
             platforms, names_devices, ttl_seconds)
             select ?1 + i, ?2, 'n' || i, 'created', 'completed', 1, '{}', 1, 0, 0 from n",
        )?
        .execute([first, app.0, NOTIFICATIONS_SCANNED_MAX])?;
        Ok(())
    });
    filled.await.unwrap();
    let list = |status, page| store.list_notifications(app, Some(status), page);
    let empty = list(NotificationStatus::Queued, fixtures::page(10)).await.unwrap();
    assert_eq!(empty.rows, []);
    let page = fixtures::next_page(10, empty.next);
    let found = list(NotificationStatus::Queued, page).await.unwrap();
    let ids: Vec<_> = found.rows.into_iter().map(|row| row.id).collect();
    assert_eq!((ids, found.next), (vec![queued], None));
    let (mut page, mut rows, mut pages) = (fixtures::page(1_000), 0, 0);
    loop {
        let listed = list(NotificationStatus::Completed, page).await.unwrap();
        (rows, pages) = (rows + listed.rows.len(), pages + 1);
        if listed.next.is_none() {
            break;
        }
        page = fixtures::next_page(1_000, listed.next);
    }
    assert_eq!((rows, pages), (10_001, 11));
}

/// More than one statement reads, of every kind: running, ended, reported, scheduled.
#[apply(set_contract)]
async fn listing_contains_what_reading_each_returns(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    for nth in 0..70_u32 {
        match nth % 4 {
            0 => {
                fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
                store.start_due(NOW, 10).await.unwrap();
            }
            1 => {
                let report = fixtures::report(&format!("report-{nth}"));
                store.record_report(app, report, None).await.unwrap();
            }
            _ => {
                let dispatch = fixtures::android_dispatch(store, app).await;
                let (keys, page) = fixtures::whole_page(store, &dispatch).await;
                let settled = vec![
                    fixtures::sent(keys[0]),
                    fixtures::outcome(keys[1], Outcome::Failed, Some("one")),
                    fixtures::outcome(keys[2], Outcome::Failed, Some("two")),
                    fixtures::outcome(keys[3], Outcome::Expired, None),
                ];
                let done = Checkpoint {
                    settled: settled.into_iter().take(2 + (nth as usize / 4) % 3).collect(),
                    finished: nth.is_multiple_of(3),
                    ..fixtures::checkpoint(page, 4)
                };
                store.checkpoint(done).await.unwrap();
                let notification_id = dispatch.notification_id;
                let kind = EventType::Opened;
                let event =
                    Event { kind, notification_id, device_id: fixtures::id("d000"), at: None };
                store.record_events(app, vec![event], NOW, None).await.unwrap();
            }
        }
    }
    let listed = store.list_notifications(app, None, fixtures::page(100)).await.unwrap();
    assert_eq!((listed.rows.len(), listed.next), (70, None));
    let (mut failures, mut opened) = (0, 0);
    for row in listed.rows {
        failures += row.failures.len();
        opened += row.engagement.opened;
        assert_eq!(row, read(store, app, &row.id).await);
    }
    assert!(failures > 30 && opened > 30, "{failures} {opened}");
}

/// More open dispatches than one statement reads.
#[apply(set_contract)]
async fn listing_counts_every_dispatch(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let platforms = [Platform::Android, Platform::Ios, Platform::Web];
    for _ in 0..40 {
        fixtures::accepted(store, app, fixtures::broadcast(&platforms)).await;
        let (started, _) = store.start_due(NOW, 10).await.unwrap();
        for no in started {
            let dispatch = store.dispatch(no).await.unwrap();
            if dispatch.platform == Platform::Android {
                let (keys, page) = fixtures::whole_page(store, &dispatch).await;
                let settled = vec![fixtures::sent(keys[0])];
                let done = Checkpoint { settled, ..fixtures::checkpoint(page, 2) };
                store.checkpoint(done).await.unwrap();
            }
        }
    }
    let listed = store.list_notifications(app, None, fixtures::page(100)).await.unwrap().rows;
    let under_way = Counts { targeted: 2, sent: 1, pending: 1, ..Counts::default() };
    for row in &listed {
        let of = |nth: usize| (row.by_platform[nth].platform, row.by_platform[nth].counts);
        assert_eq!((row.counts, of(0)), (under_way, (Platform::Android, under_way)));
        assert_eq!(
            [of(1), of(2)],
            [Platform::Ios, Platform::Web].map(|on| (on, Counts::default()))
        );
    }
    assert_eq!(listed.len(), 40);
}

#[apply(set_contract)]
async fn most_frequent_failures_are_listed(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 103).await;
    for kinds in [101, 3] {
        let dispatch = fixtures::android_dispatch(store, app).await;
        let (keys, page) = fixtures::whole_page(store, &dispatch).await;
        let settled = keys.iter().enumerate().map(|(nth, key)| DeviceOutcome {
            reason: Some(format!("r{:03}", nth % kinds).into()),
            ..fixtures::outcome(*key, Outcome::Failed, None)
        });
        let settled = settled.collect();
        let done = Checkpoint { settled, finished: true, ..fixtures::checkpoint(page, keys.len()) };
        store.checkpoint(done).await.unwrap();
    }
    let listed = store.list_notifications(app, None, fixtures::page(10)).await.unwrap().rows;
    let failures = |nth: usize| -> Vec<_> {
        listed[nth].failures.iter().map(|row| (row.reason.as_str(), row.count)).collect()
    };
    assert_eq!(failures(0), [("r000", 35), ("r001", 34), ("r002", 34)]);
    let many = failures(1);
    assert_eq!(many[..3], [("r000", 2), ("r001", 2), ("r002", 1)]);
    assert_eq!((many.len(), many[99]), (100, ("r099", 1)), "the last one of 101 is left out");
}

#[apply(set_contract)]
async fn page_of_large_requests_ends_early(store: &Store) {
    let app = fixtures::app(store).await;
    let mut ids = Vec::new();
    for _ in 0..12 {
        let mut large = fixtures::broadcast(&[Platform::Ios]);
        large.request = serde_json::json!({"text": "t".repeat(1_000_000)}).to_string();
        ids.insert(0, fixtures::accepted(store, app, large).await);
    }
    let (mut listed, mut pages, mut next) = (Vec::new(), 0, None);
    loop {
        let request = PageRequest { limit: 1_000, cursor: next };
        let page = store.list_notifications(app, None, request).await.unwrap();
        assert!((1..=8).contains(&page.rows.len()), "{}", page.rows.len());
        listed.extend(page.rows.into_iter().map(|row| row.id));
        pages += 1;
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    assert_eq!(listed, ids, "none is left out, none is repeated");
    assert!(pages >= 2, "{pages}");
    let two = store.list_notifications(app, None, fixtures::page(2)).await.unwrap();
    assert_eq!((two.rows.len(), two.next.is_some()), (2, true), "the limit holds all the same");
}

#[apply(set_contract)]
async fn canceling_before_the_start_ends_at_once(store: &Store) {
    let app = fixtures::app(store).await;
    let mut later = fixtures::broadcast(&[Platform::Ios]);
    later.checked.schedule = Schedule::At(NOW.plus_ms(60_000));
    for new in [fixtures::broadcast(&[Platform::Ios]), later] {
        let id = fixtures::accepted(store, app, new).await;
        store.cancel_notification(app, id.clone(), NOW).await.unwrap();
        let record = read(store, app, &id).await;
        assert_eq!(record.status, NotificationStatus::Canceled);
        assert_eq!(record.completed_at, Some(NOW));
    }
    assert_eq!(store.start_due(NOW.plus_ms(60_000), 10).await.unwrap(), (vec![], false));
    assert_eq!(store.agenda(Timestamp(0)).await.unwrap().next_due, None);
}

#[apply(set_contract)]
async fn ended_notification_cannot_be_canceled(store: &Store) {
    let app = fixtures::app(store).await;
    store.record_report(app, fixtures::report("mine"), None).await.unwrap();
    let canceled = fixtures::accepted(store, app, fixtures::broadcast(&[Platform::Ios])).await;
    store.cancel_notification(app, canceled.clone(), NOW).await.unwrap();
    let without_devices = fixtures::accepted(store, app, fixtures::direct(&["nobody"], &[])).await;
    store.start_due(NOW, 10).await.unwrap();
    assert_eq!(read(store, app, &without_devices).await.status, NotificationStatus::Completed);
    for id in [NotificationId::new("mine").unwrap(), canceled, without_devices] {
        let refused = store.cancel_notification(app, id, NOW).await;
        assert!(refusal(refused).starts_with("id: "));
    }
    let missing = NotificationId::new("missing").unwrap();
    assert!(is_unknown(&store.cancel_notification(app, missing, NOW).await));
}

#[apply(set_contract)]
async fn canceling_ends_retries_and_counts_the_rest(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 3).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let id = dispatch.notification_id.clone();
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    let first = Checkpoint {
        settled: vec![fixtures::sent(keys[0])],
        retries: vec![fixtures::retry(keys[1])],
        ..fixtures::checkpoint(page, 3)
    };
    let page = store.checkpoint(first).await.unwrap();
    store.cancel_notification(app, id.clone(), NOW).await.unwrap();
    assert!(store.dispatch(dispatch.no).await.unwrap().canceled);
    assert_eq!(store.open_retries(app, Platform::Android, NOW).await.unwrap(), 0);
    assert_eq!(read(store, app, &id).await.status, NotificationStatus::Sending);
    let again = store.cancel_notification(app, id.clone(), NOW).await;
    assert!(refusal(again).starts_with("id: "), "nothing is left to cancel");
    let rest = Checkpoint {
        settled: vec![fixtures::outcome(keys[2], Outcome::Canceled, None)],
        finished: true,
        ..fixtures::checkpoint(page, 3)
    };
    store.checkpoint(rest).await.unwrap();
    let record = read(store, app, &id).await;
    assert_eq!(record.status, NotificationStatus::Canceled);
    assert_eq!(record.counts, Counts { targeted: 3, sent: 1, canceled: 2, ..Counts::default() });
    let outcome = store.delivery_outcome(dispatch.no, keys[1]).await.unwrap().unwrap();
    assert_eq!(outcome.settled, Outcome::Canceled);
}
