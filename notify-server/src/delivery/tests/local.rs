//! Notifications at a wall-clock time of each device.

use std::time::Duration;

use notify_core::{CreateNotification, NotificationId, NotificationStatus, RegisterDevice};

use super::rig::{Rig, START};
use crate::clock::Clock;

/// Eight in the morning of the day after [`START`], 2026-05-28T20:26:40Z.
const MORNING: &str = "2026-05-29T08:00";

async fn in_zone(rig: &Rig, name: &str, minutes: i32) {
    let mut device = RegisterDevice::android(name, format!("token-{name}"));
    device.utc_offset = Some(minutes.to_string());
    rig.register(device).await;
}

fn in_the_morning() -> CreateNotification {
    CreateNotification {
        text: Some("Good morning".into()),
        platforms: Some(vec!["android".into()]),
        send_at_local: Some(MORNING.into()),
        ..CreateNotification::default()
    }
}

/// Sets the clock to that hour, in UTC, of the day of [`MORNING`].
fn turn_to(rig: &Rig, hour: i64) {
    let midnight = START.as_ms() - START.as_ms().rem_euclid(86_400_000) + 86_400_000;
    let wait_ms = midnight + hour * 3_600_000 - rig.clock.now().as_ms();
    rig.clock.advance(Duration::from_millis(wait_ms.unsigned_abs()));
}

async fn sent(rig: &Rig, id: &NotificationId, count: u64) {
    rig.until(id, |record| record.counts.sent == count).await;
}

#[tokio::test]
async fn each_zone_gets_it_at_its_own_time_and_no_device_twice() {
    let mut rig = Rig::new(4).await;
    for (name, hours) in [("tokyo", 9), ("berlin", 2), ("utc", 0), ("new-york", -4)] {
        in_zone(&rig, name, hours * 60).await;
    }
    in_zone(&rig, "eastward", -4 * 60).await;
    in_zone(&rig, "westward", 9 * 60).await;
    rig.start();
    let id = rig.accept(in_the_morning()).await;
    turn_to(&rig, -2);
    let record = rig.read(&id).await;
    assert_eq!((record.status, record.counts.targeted), (NotificationStatus::Scheduled, 0));

    turn_to(&rig, -1);
    sent(&rig, &id, 2).await;
    assert_eq!(
        rig.read(&id).await.status,
        NotificationStatus::Sending,
        "it is sending until its last zone is done"
    );
    // One device had its turn and moves to another zone. Another one moves to a zone whose time has
    // passed.
    in_zone(&rig, "westward", -4 * 60).await;
    in_zone(&rig, "eastward", 9 * 60).await;
    in_zone(&rig, "late-in-berlin", 2 * 60).await;
    in_zone(&rig, "late-in-tokyo", 9 * 60 + 30).await;

    turn_to(&rig, 6);
    let journal_after_berlin =
        ["token-berlin", "token-late-in-berlin", "token-tokyo", "token-westward"];
    rig.until(&id, |record| record.counts.sent >= 4).await;
    turn_to(&rig, 8);
    rig.until(&id, |record| record.counts.sent >= 5).await;
    let mut journal = rig.provider.journal();
    journal.sort();
    assert!(journal_after_berlin.iter().all(|token| journal.contains(&(*token).to_owned())));
    assert!(!journal.contains(&"token-new-york".to_owned()));

    turn_to(&rig, 12);
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    let mut journal = rig.provider.journal();
    journal.sort();
    let each_once = [
        "token-berlin",
        "token-eastward",
        "token-late-in-berlin",
        "token-late-in-tokyo",
        "token-new-york",
        "token-tokyo",
        "token-utc",
        "token-westward",
    ];
    assert_eq!(journal, each_once);
    assert_eq!((record.counts.targeted, record.counts.sent), (8, 8));
    rig.stop().await;
}

/// If the time has passed in a device's zone, the device gets the notification at once.
#[tokio::test]
async fn named_devices_use_their_own_zone_and_a_past_time_is_sent_at_once() {
    let mut rig = Rig::new(4).await;
    in_zone(&rig, "kiritimati", 14 * 60).await;
    in_zone(&rig, "berlin", 2 * 60).await;
    in_zone(&rig, "unnamed", 14 * 60).await;
    turn_to(&rig, -3);
    rig.start();
    let named = ["kiritimati", "berlin", "nobody"].map(String::from).to_vec();
    let request =
        CreateNotification { platforms: None, android_device_ids: Some(named), ..in_the_morning() };
    let id = rig.accept(request).await;
    sent(&rig, &id, 1).await;
    assert_eq!(rig.provider.journal(), ["token-kiritimati"]);
    turn_to(&rig, 6);
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal(), ["token-kiritimati", "token-berlin"]);
    let counts = &record.counts;
    assert_eq!((counts.targeted, counts.sent, counts.unknown, counts.excluded), (2, 2, 1, 0));
    rig.stop().await;
}

/// The accepting commit reads the notification's zones. The idle engine has to wake for the
/// next zone.
#[tokio::test]
async fn an_idle_engine_wakes_for_the_zones_of_an_accepted_notification() {
    let mut rig = Rig::new(4).await;
    in_zone(&rig, "tokyo", 9 * 60).await;
    rig.start();
    let mut before = rig.broadcast().await;
    for _ in 0..20 {
        rig.until(&before, |record| record.status == NotificationStatus::Completed).await;
        before = rig.broadcast().await;
    }
    rig.until(&before, |record| record.status == NotificationStatus::Completed).await;
    let mut progress = rig.progress();
    progress.mark_unchanged();
    let id = rig.accept(in_the_morning()).await;
    progress.changed().await.unwrap();
    turn_to(&rig, -1);
    sent(&rig, &id, 1).await;
    rig.stop().await;
}

#[tokio::test]
async fn future_zones_are_canceled_with_the_notification() {
    let mut rig = Rig::new(4).await;
    in_zone(&rig, "tokyo", 9 * 60).await;
    in_zone(&rig, "berlin", 2 * 60).await;
    rig.start();
    let id = rig.accept(in_the_morning()).await;
    turn_to(&rig, -1);
    sent(&rig, &id, 1).await;
    let is_idle = async || rig.store.agenda(rig.clock.now()).await.unwrap().next_due.is_some();
    assert!(is_idle().await, "the zone of Berlin is not due yet");
    rig.store.cancel_notification(rig.app, id.clone(), rig.clock.now()).await.unwrap();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Canceled).await;
    assert_eq!((record.counts.sent, record.counts.pending), (1, 0));
    turn_to(&rig, 9);
    let next = rig.broadcast().await;
    rig.until(&next, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(rig.provider.journal().len(), 3, "one device in Tokyo and two in the next zone");
    rig.stop().await;
}

/// A notification without devices ends when the time has passed in UTC. A crash before that changes
/// nothing.
#[tokio::test]
async fn zones_continue_after_a_crash_and_an_empty_audience_ends_with_utc() {
    let mut rig = Rig::new(4).await;
    rig.start();
    let empty = rig.accept(in_the_morning()).await;
    turn_to(&rig, 7);
    assert_ne!(
        rig.read(&empty).await.status,
        NotificationStatus::Completed,
        "it does not end earlier"
    );
    turn_to(&rig, 8);
    rig.until(&empty, |record| record.status == NotificationStatus::Completed).await;

    in_zone(&rig, "honolulu", -10 * 60).await;
    let id = rig.accept(in_the_morning()).await;
    rig.crash().await;
    rig.start();
    turn_to(&rig, 18);
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 1);
    rig.stop().await;
}

/// Corrects the offsets of devices, as the worker of a server does.
async fn correct_offsets(rig: &Rig) {
    let mut correction = rig.store.begin_offset_correction(rig.clock.now()).await.unwrap();
    while let Some(current) = correction {
        correction = rig.store.correct_offsets(current, rig.clock.now()).await.unwrap();
    }
}

/// Daylight saving time ends in Europe between the acceptance of a notification and its local time.
#[tokio::test]
async fn a_device_whose_zone_changes_its_offset_gets_it_once_at_its_own_time() {
    let mut rig = Rig::new(4).await;
    let turn_to = |rig: &Rig, time: &str| {
        let time = time.parse::<jiff::Timestamp>().unwrap().as_millisecond();
        let wait_ms = time - rig.clock.now().as_ms();
        rig.clock.advance(Duration::from_millis(wait_ms.unsigned_abs()));
    };
    turn_to(&rig, "2026-10-24T20:00:00Z");
    correct_offsets(&rig).await;
    for zone in ["Africa/Algiers", "Africa/Johannesburg", "Asia/Kolkata", "Europe/Vienna"] {
        let mut device = RegisterDevice::android(zone, zone);
        device.timezone = Some(zone.to_owned());
        rig.register(device).await;
    }
    rig.start();
    let id = rig
        .accept(CreateNotification {
            send_at_local: Some("2026-10-25T03:05".into()),
            ..in_the_morning()
        })
        .await;
    turn_to(&rig, "2026-10-24T21:35:00Z");
    sent(&rig, &id, 1).await;

    // In Vienna it is 02:05, in Johannesburg 03:05. The engine waits for the correction, because the last
    // change of offsets was less than 15 minutes ago.
    turn_to(&rig, "2026-10-25T01:05:00Z");
    correct_offsets(&rig).await;
    turn_to(&rig, "2026-10-25T01:06:00Z");
    sent(&rig, &id, 2).await;
    assert_eq!(rig.provider.journal(), ["Asia/Kolkata", "Africa/Johannesburg"]);
    turn_to(&rig, "2026-10-25T02:05:00Z");
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    let mut journal = rig.provider.journal();
    journal.sort();
    let each_once = ["Africa/Algiers", "Africa/Johannesburg", "Asia/Kolkata", "Europe/Vienna"];
    assert_eq!(journal, each_once);
    rig.stop().await;
}
