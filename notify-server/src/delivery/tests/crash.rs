//! Crashes, fencing and recovery (hazards 1, 4, 5 and 11).

use std::collections::HashMap;

use notify_core::{DeviceId, NotificationStatus, Timestamp};

use super::rig::{Rig, START, ScriptedAnswer, delivered};
use crate::store::{
    Checkpoint, DeviceKey, DeviceOutcome, InstanceId, Outcome, ReclaimRequest, StoreError,
};

fn repeats(journal: &[String]) -> usize {
    let mut seen: HashMap<&String, usize> = HashMap::new();
    for token in journal {
        *seen.entry(token).or_default() += 1;
    }
    seen.values().map(|count| count - 1).sum()
}

#[tokio::test]
async fn a_crash_loses_nothing_and_repeats_at_most_what_was_in_flight() {
    let mut rig = Rig::new(8).await;
    rig.config.max_unacked = 24;
    rig.devices(500).await;
    let mut sent = 0;
    let id = rig.broadcast().await;
    for round in 1..=4 {
        // Each round answers some attempts and leaves others without an answer.
        let until = round * 90;
        let provider = rig.provider.clone();
        rig.provider.script(move |_, _| {
            if provider.journal().len() < until {
                ScriptedAnswer::Answer(delivered())
            } else {
                ScriptedAnswer::Held(delivered())
            }
        });
        rig.start();
        rig.provider.arrived(until + 1).await;
        rig.crash().await;
        sent = rig.provider.journal().len();
    }
    assert!(sent >= 360);
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (500, 500));
    let journal = rig.provider.journal();
    assert_eq!(journal.len() - repeats(&journal), 500, "every device gets the message");
    assert!(repeats(&journal) <= 4 * 24, "each crash repeats at most the unacked limit");
    rig.stop().await;
}

/// Hazard 1: outcomes are keyed by device, so that a page whose devices changed during the crash
/// neither skips nor repeats a device.
#[tokio::test]
async fn a_page_that_changed_while_the_process_was_down_is_resumed_by_key() {
    let mut rig = Rig::new(1).await;
    rig.devices(10).await;
    rig.provider.script(|token, _| match token {
        "token-d00005" => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(6).await;
    rig.until(&id, |record| record.counts.sent == 5).await;
    rig.crash().await;
    for name in ["d00001", "d00007"] {
        rig.store.delete_device(rig.app, DeviceId::new(name).unwrap(), START).await.unwrap();
    }
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    rig.start();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    let mut journal = rig.provider.journal().split_off(6);
    journal.sort();
    let rest = ["token-d00005", "token-d00006", "token-d00008", "token-d00009"];
    assert_eq!(
        journal, rest,
        "the attempt in flight is repeated, and each other device gets the message once"
    );
    assert_eq!(record.counts.sent, 9, "the outcome of the erased device stays");
    rig.stop().await;
}

/// Hazard 4: deliveries in flight and uncommitted outcomes together never exceed the limit.
#[tokio::test]
async fn no_stream_opens_at_the_limit_of_unacked_deliveries() {
    let mut rig = Rig::new(100).await;
    rig.config.max_unacked = 7;
    rig.devices(60).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(7).await;
    rig.until(&id, |record| record.counts.targeted == 60).await;
    assert_eq!(rig.provider.journal().len(), 7);
    rig.provider.release();
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    rig.stop().await;
}

/// Hazard 5: a server that lost a page commits nothing more of that page, and the new owner continues.
#[tokio::test]
async fn a_fenced_checkpoint_changes_nothing_and_its_page_continues_elsewhere() {
    let mut rig = Rig::new(4).await;
    rig.devices(4).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(4).await;
    let other = InstanceId(1);
    let adoption = ReclaimRequest {
        instance: other,
        now: START,
        lease_until: START.plus_ms(15_000),
        clustered: false,
    };
    let adopted = rig.store.reclaim(adoption).await.unwrap();
    let page = adopted.pages[0];
    rig.provider.release();
    // The engine's checkpoint is rejected. The engine requests recovery and sends again.
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 4);
    assert_eq!(
        repeats(&rig.provider.journal()),
        4,
        "the attempts that were in flight are repeated once"
    );
    let late = Checkpoint {
        page,
        settled: vec![DeviceOutcome {
            message_id: None,
            key: DeviceKey(page.from.0 + 1),
            settled: Outcome::Failed,
            reason: Some("late".into()),
            attempts: 1,
        }],
        retries: Vec::new(),
        dead: Vec::new(),
        moved: Vec::new(),
        verified: Vec::new(),
        targeted: 4,
        excluded: 0,
        at: START,
        lease_until: START.plus_ms(15_000),
        finished: false,
        intents: None,
    };
    let refused = rig.store.checkpoint(late).await;
    assert!(matches!(refused, Err(StoreError::Fenced)));
    assert_eq!(rig.read(&id).await.counts.failed, 0);
    rig.stop().await;
}

#[tokio::test]
async fn an_orderly_stop_commits_what_was_in_flight_and_leaves_the_rest() {
    let mut rig = Rig::new(5).await;
    rig.devices(50).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(5).await;
    let provider = rig.provider.clone();
    let released = tokio::spawn(async move { provider.release() });
    rig.stop().await;
    released.await.unwrap();
    let sent = rig.read(&id).await.counts.sent;
    assert_eq!(sent, rig.provider.journal().len() as u64, "the engine waited for every answer");
    rig.start();
    rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(repeats(&rig.provider.journal()), 0);
    assert_eq!(rig.provider.journal().len(), 50);
    rig.stop().await;
}

#[tokio::test]
async fn a_retry_claimed_by_a_dead_process_is_attempted_by_the_next_one() {
    let mut rig = Rig::new(5).await;
    rig.device("one").await;
    rig.provider.script(|_, attempt| match attempt {
        1 => ScriptedAnswer::Answer(crate::providers::SendResult::Unknown {
            reason: "HTTP 418".into(),
        }),
        2 => ScriptedAnswer::Held(delivered()),
        _ => ScriptedAnswer::Answer(delivered()),
    });
    rig.start();
    let id = rig.broadcast().await;
    rig.until(&id, |record| record.counts.pending == 1).await;
    rig.provider.arrived(1).await;
    rig.retry_due_within(START, 2_000).await;
    rig.clock.advance(std::time::Duration::from_secs(2));
    rig.provider.arrived(2).await;
    rig.crash().await;
    rig.start();
    let record = rig.until(&id, |record| record.status == NotificationStatus::Completed).await;
    assert_eq!(record.counts.sent, 1);
    assert_eq!(record.completed_at.map(Timestamp::as_ms), Some(START.as_ms() + 2_000));
    rig.stop().await;
}
