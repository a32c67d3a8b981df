//! Users and conditions while a notification is being sent: a device that logs out or stops matching gets no
//! further message, even after a retry or a crash.

use std::time::Duration;

use notify_core::{
    AttributeChanges, Audience, CreateNotification, DeviceId, NotificationId, NotificationStatus,
    Platform, UserCounts, UserId,
};

use super::rig::{Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, SendResult};

fn failed() -> SendResult {
    SendResult::Retry { reason: "UNAVAILABLE".into(), after: None, outcome: Processing::Failed }
}

fn user(id: &str) -> UserId {
    UserId::new(id).unwrap()
}

fn id(device: &str) -> DeviceId {
    DeviceId::new(device).unwrap()
}

async fn log_in(rig: &Rig, device: &str, as_user: &str) {
    rig.store.log_in(rig.app, id(device), user(as_user), rig.clock.now()).await.unwrap();
}

async fn log_out(rig: &Rig, device: &str) {
    rig.store.log_out(rig.app, id(device)).await.unwrap();
}

/// Devices `d00000` and so on of the user `ada`.
async fn devices_of_ada(rig: &Rig, count: usize) {
    rig.devices(count).await;
    for number in 0..count {
        log_in(rig, &format!("d{number:05}"), "ada").await;
    }
}

fn to_ada() -> CreateNotification {
    CreateNotification::to_users(["ada"], "Your order is on its way").unwrap()
}

/// A broadcast to devices with an attribute.
fn to_pro() -> CreateNotification {
    CreateNotification::to_platforms([Platform::Android], "Hello")
        .audience(Audience::attribute("plan").is("pro"))
}

async fn set_plan(rig: &Rig, device: &str, plan: Option<&str>) {
    let changes = [("plan".to_owned(), plan.map(Into::into))].into_iter().collect();
    rig.store.change_attributes(rig.app, id(device), AttributeChanges(changes)).await.unwrap();
}

async fn completed(rig: &Rig, id: &NotificationId) -> notify_core::NotificationRecord {
    rig.until(id, |record| record.status == NotificationStatus::Completed).await
}

fn reached(named: u64, reached: u64, unreached: u64) -> Option<UserCounts> {
    Some(UserCounts { named, reached, unreached, ..UserCounts::default() })
}

#[tokio::test]
async fn a_device_that_logs_out_before_its_turn_gets_nothing() {
    let mut rig = Rig::new(4).await;
    devices_of_ada(&rig, 40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let notification = rig.accept(to_ada()).await;
    rig.provider.arrived(4).await;
    log_out(&rig, "d00030").await;
    log_in(&rig, "d00031", "bob").await;
    // This device logs in again before its turn, so it belongs to the user again.
    log_out(&rig, "d00032").await;
    log_in(&rig, "d00032", "ada").await;
    rig.provider.release();
    let record = completed(&rig, &notification).await;
    assert_eq!((record.counts.sent, record.counts.excluded), (38, 2));
    assert_eq!((record.counts.targeted, record.users), (38, reached(1, 1, 0)));
    let journal = rig.provider.journal();
    assert!(!journal.iter().any(|token| token == "token-d00030" || token == "token-d00031"));
    rig.stop().await;
}

/// This also holds if the retry has been claimed and waits for a stream.
#[tokio::test]
async fn a_retry_to_a_device_of_another_user_fails() {
    let mut rig = Rig::new(1).await;
    devices_of_ada(&rig, 3).await;
    rig.provider.script(|token, attempt| match (token, attempt) {
        (_, 1) => ScriptedAnswer::Answer(failed()),
        ("token-d00000", 2) => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let notification = rig.accept(to_ada()).await;
    rig.provider.arrived(3).await;
    while rig.store.open_retries(rig.app, Platform::Android, START).await.unwrap() < 3 {
        tokio::task::yield_now().await;
    }
    log_in(&rig, "d00001", "bob").await;
    rig.clock.advance(Duration::from_secs(2));
    rig.provider.arrived(4).await;
    log_out(&rig, "d00002").await;
    rig.provider.release();
    let step = Duration::from_secs(1);
    let is_completed =
        |record: &notify_core::NotificationRecord| record.status == NotificationStatus::Completed;
    let record = rig.advance_until(&notification, step, is_completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (1, 2));
    assert_eq!((record.failures[0].reason.as_str(), record.failures[0].count), ("user_changed", 2));
    assert_eq!(rig.provider.journal().len(), 4, "no retry to a device of another user");
    rig.stop().await;
}

#[tokio::test]
async fn a_log_out_counts_after_a_crash() {
    let mut rig = Rig::new(4).await;
    devices_of_ada(&rig, 20).await;
    rig.provider.script(|_, _| ScriptedAnswer::Never);
    rig.start();
    let notification = rig.accept(to_ada()).await;
    rig.provider.arrived(4).await;
    rig.crash().await;
    log_out(&rig, "d00010").await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = completed(&rig, &notification).await;
    assert_eq!((record.counts.sent, record.counts.excluded), (19, 1));
    assert!(!rig.provider.journal().contains(&"token-d00010".to_owned()));
    rig.stop().await;
}

/// The log-out goes through one server, and another one sends.
#[tokio::test]
async fn a_log_out_counts_on_every_server() {
    let mut rig = Rig::on_postgres(4).await;
    rig.config.clustered = true;
    devices_of_ada(&rig, 40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let notification = rig.accept(to_ada()).await;
    rig.provider.arrived(4).await;
    let other = rig.peer_store();
    other.log_out(rig.app, id("d00030")).await.unwrap();
    // If the sending server receives no announcement, the age of the devices that it has read is the bound.
    rig.clock.advance(Duration::from_millis(1_001));
    rig.provider.release();
    let record = completed(&rig, &notification).await;
    assert_eq!((record.counts.sent, record.counts.excluded), (39, 1));
    assert!(!rig.provider.journal().contains(&"token-d00030".to_owned()));
    other.close().await;
    rig.stop().await;
}

#[tokio::test]
async fn a_device_that_stops_matching_before_its_turn_gets_nothing() {
    let mut rig = Rig::new(4).await;
    rig.devices(40).await;
    for number in 0..38 {
        set_plan(&rig, &format!("d{number:05}"), Some("pro")).await;
    }
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let notification = rig.accept(to_pro()).await;
    rig.provider.arrived(4).await;
    set_plan(&rig, "d00030", Some("free")).await;
    set_plan(&rig, "d00031", None).await;
    // A device that begins to match is not added to an open page.
    set_plan(&rig, "d00039", Some("pro")).await;
    rig.provider.release();
    let record = completed(&rig, &notification).await;
    assert_eq!((record.counts.targeted, record.counts.sent, record.counts.excluded), (36, 36, 0));
    let journal = rig.provider.journal();
    for token in ["token-d00030", "token-d00031", "token-d00038", "token-d00039"] {
        assert!(!journal.contains(&token.to_owned()), "{token}");
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_to_a_device_that_stopped_matching_fails() {
    let mut rig = Rig::new(2).await;
    rig.devices(2).await;
    set_plan(&rig, "d00000", Some("pro")).await;
    set_plan(&rig, "d00001", Some("pro")).await;
    rig.provider.script(|_, attempt| {
        ScriptedAnswer::Answer(if attempt == 1 { failed() } else { delivered() })
    });
    rig.start();
    let notification = rig.accept(to_pro()).await;
    rig.provider.arrived(2).await;
    rig.retry_due_within(START, 10_000).await;
    set_plan(&rig, "d00001", Some("free")).await;
    let is_completed =
        |record: &notify_core::NotificationRecord| record.status == NotificationStatus::Completed;
    let record = rig.advance_until(&notification, Duration::from_secs(1), is_completed).await;
    assert_eq!((record.counts.sent, record.counts.failed), (1, 1));
    assert_eq!(record.failures[0].reason, "fails_audience");
    assert_eq!(rig.provider.journal().len(), 3);
    rig.stop().await;
}

/// A crash between pages, and changes while the server is down.
#[tokio::test]
async fn an_audience_is_reached_once_across_a_crash() {
    let mut rig = Rig::new(8).await;
    rig.config.page_rows = 10;
    rig.devices(100).await;
    for number in (0..100).step_by(2) {
        set_plan(&rig, &format!("d{number:05}"), Some("pro")).await;
    }
    rig.provider.script(|token, _| match token {
        "token-d00040" => ScriptedAnswer::Never,
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let notification = rig.accept(to_pro()).await;
    rig.provider.arrived(20).await;
    rig.crash().await;
    let before = rig.provider.journal().len();
    set_plan(&rig, "d00099", Some("pro")).await;
    set_plan(&rig, "d00098", Some("free")).await;
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = completed(&rig, &notification).await;
    // The devices of pages that were read before the crash are fixed; those of later pages are not.
    assert!((49..=51).contains(&record.counts.sent), "{:?}", record.counts);
    // Only what was sent before the crash is sent again, and only once.
    let journal = rig.provider.journal();
    let mut after_crash = journal[before..].to_vec();
    after_crash.sort();
    after_crash.dedup();
    assert_eq!(after_crash.len(), journal.len() - before, "{journal:?}");
    assert!(journal.iter().all(|token| token == "token-d00099" || {
        let number: usize = token.trim_start_matches("token-d").parse().unwrap();
        number.is_multiple_of(2)
    }));
    rig.stop().await;
}

/// The pages of the search have no targets, so they take no capacity and all open one after the other.
#[tokio::test]
async fn a_search_for_few_devices_does_not_delay_another_notification() {
    let mut rig = Rig::new(4).await;
    rig.config.page_rows = 1;
    rig.devices(1_000).await;
    rig.execute_raw(
        "update devices set push_disabled = 1 where device_id not in ('d00000', 'd00999')",
    );
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    let search = rig.broadcast().await;
    rig.start();
    rig.provider.arrived(1).await;
    let other = CreateNotification::to_devices(["d00000"], [], "Hello").unwrap();
    let other = rig.accept(other).await;
    completed(&rig, &other).await;
    completed(&rig, &search).await;
    assert_eq!(rig.provider.journal(), ["token-d00000", "token-d00000", "token-d00999"]);
    rig.stop().await;
}

/// No device is reached, so the notification ends at once.
#[tokio::test]
async fn a_condition_that_no_device_meets_completes_with_nothing_targeted() {
    let mut rig = Rig::new(4).await;
    rig.devices(10).await;
    rig.start();
    let notification = rig.accept(to_pro()).await;
    let record = completed(&rig, &notification).await;
    assert_eq!((record.counts.targeted, record.counts.excluded), (0, 0));
    let to_unknown = rig.accept(CreateNotification::to_users(["ghost"], "Hello").unwrap()).await;
    let record = completed(&rig, &to_unknown).await;
    assert_eq!((record.counts.targeted, record.counts.unknown), (0, 1));
    let users = UserCounts { named: 1, unknown: 1, ..UserCounts::default() };
    assert_eq!(record.users, Some(users));
    rig.stop().await;
}
