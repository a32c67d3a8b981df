//! Several servers on one database: they share the work, take over the work of dead servers, and
//! notice that they lost their own lease (hazard 5).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use notify_core::{NotificationId, NotificationRecord, NotificationStatus};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::clock::ManualClock;

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_secs(3);

async fn rig_among_others(slots: usize, devices: usize) -> Rig {
    let mut rig = Rig::new(slots).await;
    rig.config.clustered = true;
    rig.config.page_rows = 10;
    rig.config.lane_devices_max = 20;
    rig.devices(devices).await;
    rig
}

/// Longest wait for a heartbeat that is due.
const BEATEN_WITHIN: Duration = Duration::from_secs(20);
/// Real time that a server gets between two clock steps.
const ACTED_WITHIN: Duration = Duration::from_millis(100);

fn completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// Advances the clock from heartbeat to heartbeat until a notification is completed.
async fn beating(rig: &Rig, id: &NotificationId) -> NotificationRecord {
    let mut progress = rig.progress();
    for _ in 0..20 {
        let record = rig.read(id).await;
        if completed(&record) {
            return record;
        }
        progress.mark_unchanged();
        rig.clock.advance(BEAT);
        let beaten = tokio::time::timeout(BEATEN_WITHIN, progress.changed());
        beaten.await.expect("a heartbeat is a commit").expect("the engine lives");
        // The effects of the heartbeat complete before the next one, or within this time.
        let _ = tokio::time::timeout(ACTED_WITHIN, rig.until(id, completed)).await;
    }
    panic!("not in time: {:?}", rig.read(id).await);
}

/// Tokens that both servers sent to.
fn by_both(one: &FakeProvider, other: &FakeProvider) -> Vec<String> {
    let one: HashSet<_> = one.journal().into_iter().collect();
    other.journal().into_iter().filter(|token| one.contains(token)).collect()
}

#[tokio::test]
async fn two_servers_share_a_notification_and_repeat_nothing() {
    let mut rig = rig_among_others(8, 400).await;
    let other = FakeProvider::new(8);
    for provider in [&rig.provider, &other] {
        provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    }
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(8).await;
    // At its first heartbeat, the second server finds the work that the first server started.
    rig.start_peer(other.clone(), rig.clock.clone());
    other.arrived(8).await;
    for provider in [&rig.provider, &other] {
        provider.release();
    }
    let record = beating(&rig, &id).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (400, 400));
    let (ours, theirs) = (rig.provider.journal().len(), other.journal().len());
    assert_eq!((ours + theirs, by_both(&rig.provider, &other)), (400, vec![]));
    rig.stop_peer().await;
    rig.stop().await;
}

#[tokio::test]
async fn the_work_of_a_dead_server_is_taken_over_within_its_lease() {
    let mut rig = rig_among_others(8, 100).await;
    rig.config.max_unacked = 8;
    let dies = FakeProvider::new(8);
    dies.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start_peer(dies.clone(), rig.clock.clone());
    let id = rig.broadcast().await;
    dies.arrived(8).await;
    rig.crash_peer().await;
    rig.start();
    // Unclaimed work continues at once; the claims of the dead server continue when its lease
    // expires.
    let held = rig.until(&id, |record| record.counts.sent >= 80).await;
    assert!(held.counts.pending > 0, "{held:?}");
    let before = crate::clock::Clock::now(&*rig.clock);
    beating(&rig, &id).await;
    let waited_ms = crate::clock::Clock::now(&*rig.clock).ms_since(before);
    assert!(waited_ms <= 15_000 + 2 * 3_000, "taken over after {waited_ms} ms");
    let record = rig.read(&id).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (100, 100));
    assert_eq!(by_both(&dies, &rig.provider).len(), 8, "what was in flight, once more");
    rig.stop().await;
}

#[tokio::test]
async fn an_orderly_stop_releases_the_pages_of_a_server_at_once() {
    let mut rig = rig_among_others(8, 100).await;
    let stops = FakeProvider::new(8);
    let (answers, holds) = (5, ScriptedAnswer::Held(delivered()));
    let provider = stops.clone();
    stops.script(move |_, _| match provider.journal().len() < answers {
        true => ScriptedAnswer::Answer(delivered()),
        false => holds.clone(),
    });
    rig.start_peer(stops.clone(), rig.clock.clone());
    let id = rig.broadcast().await;
    stops.arrived(answers + 8).await;
    stops.release();
    rig.stop_peer().await;
    rig.start();
    let record = rig.until(&id, completed).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (100, 100));
    assert_eq!(by_both(&stops, &rig.provider), [""; 0]);
    rig.stop().await;
}

/// A server that is suspended or cut off: its clock stands still while the clock of the others continues.
#[tokio::test]
async fn a_server_that_resumes_after_losing_its_lease_changes_nothing() {
    let mut rig = rig_among_others(8, 60).await;
    let sleeps = FakeProvider::new(8);
    sleeps.script(|_, _| ScriptedAnswer::Held(delivered()));
    let own_clock: Arc<ManualClock> = ManualClock::at(START);
    rig.start_peer(sleeps.clone(), own_clock.clone());
    let id = rig.broadcast().await;
    sleeps.arrived(8).await;
    rig.start();
    beating(&rig, &id).await;
    let record = rig.read(&id).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (60, 60));
    let asleep = sleeps.journal().len();
    assert_eq!(asleep, 8, "it sent nothing more");
    // When it resumes, the results of its attempts are rejected, and it sends nothing that it does not
    // own.
    sleeps.release();
    let next = rig.broadcast().await;
    own_clock.advance(Duration::from_secs(60));
    beating(&rig, &next).await;
    let record = rig.read(&id).await;
    assert_eq!((record.counts.targeted, record.counts.sent), (60, 60));
    assert_eq!(rig.read(&next).await.counts.sent, 60);
    rig.stop_peer().await;
    rig.stop().await;
}

/// A server whose heartbeats fail sends nothing, even if the leases of its pages are valid.
#[tokio::test]
async fn a_server_without_heartbeats_sends_nothing() {
    let mut rig = rig_among_others(8, 40).await;
    rig.provider.script(|_, _| ScriptedAnswer::Held(delivered()));
    rig.start();
    let id = rig.broadcast().await;
    rig.provider.arrived(8).await;
    let deaf = "before insert on servers begin select raise(abort, 'deaf'); end";
    rig.execute_raw(&format!("create trigger deaf {deaf}"));
    rig.clock.advance(Duration::from_secs(16));
    rig.provider.release();
    rig.until(&id, |record| record.counts.sent == 8).await;
    assert_eq!(rig.provider.journal().len(), 8);
    rig.execute_raw("drop trigger deaf");
    let record = beating(&rig, &id).await;
    assert_eq!(record.counts.sent, 40);
    rig.stop().await;
}
