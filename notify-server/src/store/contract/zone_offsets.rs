//! Offsets of devices in named time zones.

use macro_rules_attribute::apply;
use notify_core::{
    DeviceDetails, LocalTime, Platform, Registration, Schedule, Timestamp, offset_of_zone,
};

use super::fixtures::{self, android};
use crate::store::sql::{self, Row};
use crate::store::{DispatchNo, NewNotification, Store};

fn at(text: &str) -> Timestamp {
    Timestamp(text.parse::<jiff::Timestamp>().unwrap().as_millisecond())
}

/// Before the end of daylight saving time in the European Union, and after the other changes of that night.
fn summer() -> Timestamp {
    at("2026-10-25T00:30:00Z")
}

/// The end of daylight saving time in Europe.
fn change() -> Timestamp {
    at("2026-10-25T01:00:00Z")
}

/// A device that registers in summer.
fn in_zone(device: &str, zone: &str) -> Registration {
    let minutes = offset_of_zone(zone, summer()).unwrap_or(120);
    Registration {
        utc_offset_minutes: minutes,
        timezone_minutes: Some(minutes),
        details: DeviceDetails { timezone: Some(zone.to_owned()), ..DeviceDetails::default() },
        ..android(device)
    }
}

/// Corrects all offsets, as the worker of a server does. Returns the number of slices.
async fn correct(store: &Store, now: Timestamp) -> usize {
    let mut slices = 0;
    let mut correction = store.begin_offset_correction(now).await.unwrap();
    while let Some(current) = correction {
        correction = store.correct_offsets(current, now).await.unwrap();
        slices += 1;
    }
    slices
}

/// The devices, each with its offset and that which conditions read.
async fn offsets(store: &Store) -> Vec<(String, i64, Option<i64>)> {
    store
        .read(|connection| {
            let sql = "select d.device_id, d.utc_offset_minutes, f.timezone from devices d
                       join device_fields f on f.key = d.key order by d.device_id, d.key";
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_map([], read)?.collect::<sql::Result<_>>()?)
        })
        .await
        .unwrap()
}

/// The numbers of devices by offset.
async fn zones(store: &Store) -> Vec<(i64, i64)> {
    store
        .read(|connection| {
            let sql = "select utc_offset_minutes, sum(devices) from device_zones
                       group by utc_offset_minutes having sum(devices) > 0 order by 1";
            let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            let mut statement = connection.prepare_cached(sql)?;
            Ok(statement.query_map([], read)?.collect::<sql::Result<_>>()?)
        })
        .await
        .unwrap()
}

/// The devices of all applications have the offsets of their zones after a change, and nothing is read again
/// until the next one.
#[apply(contract)]
async fn offsets_follow_their_zones(store: &Store) {
    assert_eq!(correct(store, summer()).await, 0, "there are no devices");
    let (_, shop) = fixtures::named_app(store, "Shop").await;
    let (_, news) = fixtures::named_app(store, "News").await;
    for (app, device, zone) in [
        (shop, "fixed", "GMT+02:00"),
        (shop, "london", "Europe/London"),
        (shop, "vienna", "Europe/Vienna"),
        (news, "berlin", "Europe/Berlin"),
        (news, "kolkata", "Asia/Kolkata"),
    ] {
        fixtures::registered(store, app, in_zone(device, zone)).await;
    }
    fixtures::registered(store, shop, android("nowhere")).await;
    let in_summer = offsets(store).await;
    assert_eq!(correct(store, change().plus_ms(-1)).await, 0, "nothing has changed");
    assert_eq!(correct(store, change().plus_ms(4_999)).await, 0, "registrations settle first");
    assert_eq!(offsets(store).await, in_summer);

    assert_eq!(correct(store, change().plus_ms(5_000)).await, 2, "a slice, and its end");
    let device = |id: &str, offset: i64| (id.to_owned(), offset, Some(offset));
    let in_winter = vec![
        device("berlin", 60),
        device("fixed", 120),
        device("kolkata", 330),
        device("london", 0),
        ("nowhere".to_owned(), 0, None),
        device("vienna", 60),
    ];
    assert_eq!(offsets(store).await, in_winter);
    assert_eq!(zones(store).await, [(0, 2), (60, 2), (120, 1), (330, 1)]);
    assert_eq!(correct(store, change().plus_ms(60_000)).await, 0, "nothing has changed since");
    assert_eq!(correct(store, at("2027-03-28T01:00:05Z")).await, 2);
    assert_eq!(offsets(store).await, in_summer);
}

/// One of several servers corrects. Another one continues when that one has gone.
#[apply(contract)]
async fn one_server_corrects_offsets(store: &Store) {
    correct(store, summer()).await;
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, in_zone("vienna", "Europe/Vienna")).await;
    let now = change().plus_ms(10_000);
    let first = store.begin_offset_correction(now).await.unwrap();
    assert!(first.is_some());
    assert_eq!(store.begin_offset_correction(now.plus_ms(59_999)).await.unwrap(), None);
    let second = store.begin_offset_correction(now.plus_ms(60_000)).await.unwrap();
    assert!(second.is_some());
    let later = now.plus_ms(60_000);
    for _ in 0..2 {
        for correction in [first, second].into_iter().flatten() {
            store.correct_offsets(correction, later).await.unwrap();
        }
    }
    assert_eq!(offsets(store).await, [("vienna".to_owned(), 60, Some(60))]);
    assert_eq!(zones(store).await, [(60, 1)], "it is counted once");
    assert_eq!(correct(store, now.plus_ms(120_000)).await, 1, "none of them has ended");

    // Offsets change again before a correction has ended.
    let spring = at("2027-03-28T01:00:05Z");
    let begun = store.begin_offset_correction(spring).await.unwrap().unwrap();
    let autumn = at("2027-10-31T01:00:05Z");
    assert_eq!(store.correct_offsets(begun, autumn).await.unwrap(), None);
    correct(store, at("2027-10-31T02:00:05Z")).await;
    assert_eq!(offsets(store).await, [("vienna".to_owned(), 60, Some(60))]);
}

fn at_local(time: &str) -> NewNotification {
    let schedule = Schedule::Local(LocalTime(at(time).0));
    let new = fixtures::at_schedule(schedule, fixtures::broadcast(&[Platform::Android]));
    NewNotification { at: summer(), ..new }
}

/// The dispatches that start at a time.
async fn started(store: &Store, now: Timestamp) -> Vec<DispatchNo> {
    store.start_due(now, 10).await.unwrap().0
}

/// No zone is started with offsets of before a change.
#[apply(contract)]
async fn zones_wait_for_corrected_offsets(store: &Store) {
    correct(store, summer()).await;
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, in_zone("vienna", "Europe/Vienna")).await;
    fixtures::registered(store, app, in_zone("johannesburg", "Africa/Johannesburg")).await;
    fixtures::accepted(store, app, at_local("2026-10-25T03:05:00Z")).await;
    assert!(started(store, summer()).await.is_empty());

    // 03:05 two hours east of Greenwich, where Vienna no longer is.
    let due = at("2026-10-25T01:05:00Z");
    assert!(started(store, due).await.is_empty(), "offsets are not corrected yet");
    correct(store, due).await;
    let mut reached = Vec::new();
    for no in started(store, due.plus_ms(5_000)).await {
        let dispatch = store.dispatch(no).await.unwrap();
        reached.push(fixtures::whole_page(store, &dispatch).await.0.len());
    }
    assert_eq!(reached, [1], "Johannesburg");
    assert_eq!(started(store, at("2026-10-25T02:05:00Z")).await.len(), 1, "Vienna");
}

/// If no server corrects, notifications are not held for long.
#[apply(contract)]
async fn zones_do_not_wait_for_a_correction_that_does_not_begin(store: &Store) {
    correct(store, summer()).await;
    let app = fixtures::app(store).await;
    fixtures::registered(store, app, in_zone("vienna", "Europe/Vienna")).await;
    fixtures::accepted(store, app, at_local("2026-10-25T03:05:00Z")).await;
    for (time, expected) in
        [("2026-10-24T12:00:00Z", 0), ("2026-10-25T01:14:59Z", 0), ("2026-10-25T01:15:05Z", 1)]
    {
        assert_eq!(started(store, at(time)).await.len(), expected, "{time}");
    }
}
