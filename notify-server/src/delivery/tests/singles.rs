//! Single-device notifications: they are started, sent and settled together, as safely as all others.

use std::time::Duration;

use notify_core::{
    CreateNotification, NotificationId, NotificationRecord, NotificationStatus, RegisterDevice,
};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::providers::{Processing, Scope, SendResult};
use crate::store::sqlite::Fault;

const STEP: Duration = Duration::from_millis(250);

fn to(device: &str) -> CreateNotification {
    CreateNotification::to_devices([device], [], "Your order has shipped").unwrap()
}

fn is_completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// A rig whose engine starts single-device notifications with their page: its lane exists and is idle.
async fn rig(slots: usize, devices: usize) -> Rig {
    let mut rig = Rig::new(slots).await;
    rig.devices(devices).await;
    rig.device("first").await;
    rig.start();
    let rig = rig;
    for _ in 0..100 {
        let id = rig.accept(to("first")).await;
        rig.until(&id, is_completed).await;
        if rig.opened_with_start() > 0 {
            return rig;
        }
    }
    panic!("no page was opened with its start");
}

/// Sends to a device. The page is opened with the start.
async fn send(rig: &Rig, device: &str) -> NotificationId {
    let before = rig.opened_with_start();
    let mut progress = rig.progress();
    let id = rig.accept(to(device)).await;
    while rig.opened_with_start() == before {
        progress.changed().await.unwrap();
    }
    id
}

fn attempts(provider: &FakeProvider, token: &str) -> usize {
    provider.journal().iter().filter(|sent| *sent == token).count()
}

#[tokio::test]
async fn many_singles_are_settled_in_few_commits() {
    let mut rig = rig(100, 60).await;
    let commits = *rig.progress().borrow();
    let mut ids = Vec::new();
    for number in 0..60 {
        ids.push(rig.accept(to(&format!("d{number:05}"))).await);
    }
    for id in &ids {
        let record = rig.until(id, is_completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
        assert_eq!(record.started_at, Some(START));
    }
    let commits = *rig.progress().borrow() - commits;
    assert!(commits < 60 * 3, "{commits}");
    for number in 0..60 {
        assert_eq!(attempts(&rig.provider, &format!("token-d{number:05}")), 1);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_backlog_of_singles_is_opened_and_settled_in_few_commits() {
    const SENDS: usize = 200;
    let mut rig = Rig::new(SENDS).await;
    rig.devices(SENDS).await;
    let mut ids = Vec::new();
    for number in 0..SENDS {
        ids.push(rig.accept(to(&format!("d{number:05}"))).await);
    }
    let commits = rig.store.commits();
    rig.start();
    for id in &ids {
        let record = rig.until(id, is_completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
    }
    let commits = rig.store.commits() - commits;
    // Opened and settled alone, each takes two. How many share a commit depends on the load.
    assert!(commits < SENDS as u64, "{commits} commits for {SENDS} notifications");
    for number in 0..SENDS {
        assert_eq!(attempts(&rig.provider, &format!("token-d{number:05}")), 1);
    }
    rig.stop().await;
}

#[tokio::test]
async fn a_single_starts_in_the_commit_that_accepts_it_and_outcomes_share_a_commit() {
    const SENDS: usize = 20;
    let mut rig = rig(SENDS, SENDS).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    let sent = rig.provider.journal().len();
    let before = rig.store.commits();
    let mut ids = Vec::new();
    for number in 0..SENDS {
        let id = rig.accept(to(&format!("d{number:05}"))).await;
        let record = rig.store.notification(rig.app, id.clone()).await.unwrap();
        assert_eq!(record.status, NotificationStatus::Sending, "the accepting commit starts it");
        ids.push(id);
    }
    rig.provider.arrived(sent + SENDS).await;
    let accepted = rig.store.commits() - before;
    assert_eq!(accepted, SENDS as u64, "one commit accepts and starts each notification");
    rig.provider.release();
    for id in &ids {
        let record = rig.until(id, is_completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
    }
    let settled = rig.store.commits() - before - accepted;
    assert!(settled <= 3, "{settled} commits for the outcomes of {SENDS}");
    rig.stop().await;
}

/// Each one is accepted after the attempt of the last one, as from a caller that sends one at a
/// time.
#[tokio::test]
async fn sequential_sends_share_the_commits_of_their_outcomes() {
    const SENDS: usize = 20;
    let mut rig = rig(SENDS, SENDS).await;
    let sent = rig.provider.journal().len();
    let before = rig.store.commits();
    let mut ids = Vec::new();
    for number in 0..SENDS {
        ids.push(rig.accept(to(&format!("d{number:05}"))).await);
        rig.provider.arrived(sent + number + 1).await;
    }
    for id in &ids {
        rig.until(id, is_completed).await;
    }
    let settled = rig.store.commits() - before - SENDS as u64;
    assert!(settled <= SENDS as u64 / 2, "{settled} commits for the outcomes of {SENDS}");
    rig.stop().await;
}

/// Neither the caller nor the engine knows whether the commit succeeded.
#[tokio::test]
async fn a_single_whose_accept_has_an_unknown_outcome_is_sent_once() {
    let mut rig = rig(10, 2).await;
    let sent = rig.provider.journal().len();
    rig.database.fail(Fault::LoseCommitReply(1));
    rig.try_accept(to("d00000")).await.unwrap_err();
    rig.provider.arrived(sent + 1).await;
    let id = rig.accept(to("d00001")).await;
    rig.until(&id, is_completed).await;
    assert_eq!(attempts(&rig.provider, "token-d00000"), 1);
    assert_eq!(rig.store.agenda(START).await.unwrap().next_due, None);
    rig.stop().await;
}

/// One notification that occupies the only stream, and one that waits for it.
async fn held_and_waiting(rig: &Rig) -> [NotificationId; 2] {
    rig.provider.script(|token, _| match token {
        "token-d00000" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    let before = rig.provider.journal().len();
    let held = send(rig, "d00000").await;
    rig.provider.arrived(before + 1).await;
    [held, send(rig, "d00001").await]
}

/// The device may change while its notification waits for a stream (hazard 8).
#[tokio::test]
async fn a_waiting_single_uses_the_current_address_of_its_device() {
    let mut rig = rig(1, 2).await;
    let ids = held_and_waiting(&rig).await;
    rig.register(RegisterDevice::android("d00001", "token-new")).await;
    rig.provider.release();
    for id in ids {
        rig.until(&id, is_completed).await;
    }
    assert_eq!(attempts(&rig.provider, "token-d00001"), 0);
    assert_eq!(attempts(&rig.provider, "token-new"), 1);
    rig.stop().await;
}

#[tokio::test]
async fn a_waiting_single_can_be_canceled() {
    let mut rig = rig(1, 2).await;
    let [held, waiting] = held_and_waiting(&rig).await;
    rig.store.cancel_notification(rig.app, waiting.clone(), START).await.unwrap();
    rig.provider.release();
    rig.until(&held, is_completed).await;
    let is_canceled = |record: &NotificationRecord| record.status == NotificationStatus::Canceled;
    let record = rig.until(&waiting, is_canceled).await;
    assert_eq!((record.counts.canceled, record.counts.sent), (1, 0));
    assert_eq!(attempts(&rig.provider, "token-d00001"), 0);
    rig.stop().await;
}

#[tokio::test]
async fn a_throttled_or_failed_single_is_retried_and_a_dead_address_is_not() {
    let mut rig = rig(10, 3).await;
    let reason = || "UNAVAILABLE".into();
    rig.provider.script(move |token, attempt| {
        ScriptedAnswer::Answer(match (token, attempt) {
            ("token-d00000", 1) => {
                SendResult::Throttle { reason: reason(), after: None, scope: Scope::Provider }
            }
            ("token-d00001", 1) => {
                SendResult::Retry { reason: reason(), after: None, outcome: Processing::Failed }
            }
            ("token-d00002", _) => SendResult::Unregistered {
                reason: "UNREGISTERED".into(),
                ambiguous: false,
                since: None,
            },
            _ => delivered(),
        })
    });
    let failing = send(&rig, "d00001").await;
    let dead = send(&rig, "d00002").await;
    let throttled = send(&rig, "d00000").await;
    for (id, sent, attempts_made) in [(&failing, 1, 2), (&dead, 0, 1), (&throttled, 1, 2)] {
        let record = rig.advance_until(id, STEP, is_completed).await;
        assert_eq!((record.counts.sent, record.counts.unregistered), (sent, 1 - sent));
        let number = [&throttled, &failing, &dead].iter().position(|other| *other == id);
        let token = format!("token-d{:05}", number.unwrap());
        assert_eq!(attempts(&rig.provider, &token), attempts_made, "{token}");
    }
    let again = rig.accept(to("d00002")).await;
    let record = rig.until(&again, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.excluded), (0, 1), "it is disabled");
    rig.stop().await;
}

#[tokio::test]
async fn a_single_in_flight_at_a_crash_is_sent_again() {
    let mut rig = rig(10, 2).await;
    rig.provider.script(|_, attempt| match attempt {
        1 => ScriptedAnswer::Never,
        _ => ScriptedAnswer::Answer(delivered()),
    });
    let before = rig.provider.journal().len();
    let ids = [send(&rig, "d00000").await, send(&rig, "d00001").await];
    rig.provider.arrived(before + 2).await;
    rig.crash().await;
    rig.start();
    for id in &ids {
        let record = rig.until(id, is_completed).await;
        assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
    }
    rig.stop().await;
}

/// Outcomes survive a failure of storage during their commit.
#[tokio::test]
async fn outcomes_are_committed_once_storage_recovers() {
    let mut rig = rig(10, 1).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    let before = rig.provider.journal().len();
    let id = send(&rig, "d00000").await;
    rig.provider.arrived(before + 1).await;
    rig.database.fail(Fault::FailCommit(1));
    rig.provider.release();
    let record = rig.until(&id, is_completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (1, 1));
    assert_eq!(attempts(&rig.provider, "token-d00000"), 1, "nothing is sent twice");
    rig.stop().await;
}
