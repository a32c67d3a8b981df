//! Replication of circuit breakers between servers.

use std::time::Duration;

use notify_core::{
    NotificationId, NotificationRecord, NotificationStatus, Platform, ProviderKind, ProviderStatus,
};

use super::rig::{FakeProvider, Rig, START, ScriptedAnswer, delivered};
use crate::clock::Clock;
use crate::providers::{Processing, Scope, SendResult};

/// Streams of each server.
const SLOTS: usize = 4;
const DEVICES: usize = 200;
/// More devices than a server holds if its own requests are rejected: one page in flight, one page read
/// ahead, and the devices that it took each time the other server closed its breaker.
const HELD: usize = 100;
/// Step of the clock.
const SECOND: Duration = Duration::from_secs(1);

fn refused() -> ScriptedAnswer {
    ScriptedAnswer::Answer(SendResult::AuthRejected { reason: "PERMISSION_DENIED".into() })
}

fn failing() -> ScriptedAnswer {
    let reason = "UNAVAILABLE".into();
    let outcome = Processing::NotProcessed;
    ScriptedAnswer::Answer(SendResult::Retry { reason, after: None, outcome })
}

fn throttled() -> ScriptedAnswer {
    let after = Some(Duration::from_secs(90));
    let reason = "QUOTA_EXCEEDED".into();
    ScriptedAnswer::Answer(SendResult::Throttle { reason, after, scope: Scope::Provider })
}

fn looks_dead() -> ScriptedAnswer {
    ScriptedAnswer::Answer(SendResult::Unregistered {
        reason: "BadDeviceToken".into(),
        ambiguous: true,
        since: None,
    })
}

fn is_held(status: &ProviderStatus) -> bool {
    matches!(status, ProviderStatus::AuthRejected { .. })
}

fn is_available(status: &ProviderStatus) -> bool {
    *status == ProviderStatus::Available
}

fn completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// Two servers with one database. The answers to the other server wait until they are released.
struct Pair {
    rig: Rig,
    other: std::sync::Arc<FakeProvider>,
}

impl Pair {
    /// Starts a notification that both servers send. `ours` is the answer to this server.
    async fn sending(ours: ScriptedAnswer) -> (Self, NotificationId) {
        let mut rig = Rig::new(SLOTS).await;
        rig.config.clustered = true;
        rig.config.page_rows = 20;
        rig.config.lane_devices_max = 20;
        rig.configure(ProviderKind::Fcm, Some(rig.provider.clone())).await;
        rig.devices(DEVICES).await;
        let other = FakeProvider::new(SLOTS);
        other.script(|_, _| ScriptedAnswer::Held(delivered()));
        rig.start_peer(other.clone(), rig.clock.clone());
        let id = rig.broadcast().await;
        other.arrived(SLOTS).await;
        rig.provider.script(move |_, _| ours.clone());
        rig.start();
        (Self { rig, other }, id)
    }

    /// Releases the answers to the other server, and checks that it sent no other requests.
    async fn release_other_and_check(&self, id: &NotificationId) {
        self.other.release();
        self.rig.until_read(id, |record| record.counts.sent as usize == SLOTS).await;
        assert_eq!(self.other.journal().len(), SLOTS, "it sends no further request");
    }

    /// Makes the provider accept everything from now on.
    fn recover(&self) {
        self.rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
        self.other.script(|_, _| ScriptedAnswer::Answer(delivered()));
    }

    async fn ends(mut self, id: &NotificationId) -> NotificationRecord {
        let record = self.rig.advance_until(id, SECOND, completed).await;
        self.rig.stop_peer().await;
        self.rig.stop().await;
        record
    }
}

#[tokio::test]
async fn rejected_credentials_hold_every_server_until_one_probe_succeeds() {
    let (pair, id) = Pair::sending(refused()).await;
    pair.rig.until_statuses(is_held).await;
    pair.release_other_and_check(&id).await;
    let ours = pair.rig.provider.journal().len();
    pair.recover();
    // The other server probes first, because this server reported the rejection.
    pair.rig.clock.advance(Duration::from_secs(61));
    pair.rig.until_statuses(is_available).await;
    assert!(pair.other.journal().len() > SLOTS);
    let record = pair.ends(&id).await;
    assert_eq!(record.counts.sent as usize, DEVICES);
    assert!(ours <= SLOTS, "{ours} were in flight");
}

#[tokio::test]
async fn a_release_reaches_every_server() {
    for is_new in [false, true] {
        let (pair, id) = Pair::sending(refused()).await;
        pair.rig.until_statuses(is_held).await;
        pair.release_other_and_check(&id).await;
        pair.recover();
        match is_new {
            false => {
                let released = pair.rig.store.release_provider(pair.rig.app_id, ProviderKind::Fcm);
                released.await.unwrap();
            }
            true => pair.rig.configure(ProviderKind::Fcm, Some(pair.rig.provider.clone())).await,
        }
        pair.rig.until_statuses(is_available).await;
        assert_eq!(pair.ends(&id).await.counts.sent as usize, DEVICES);
    }
}

#[tokio::test]
async fn a_throttle_reaches_every_server() {
    let (pair, id) = Pair::sending(throttled()).await;
    let until = START.plus_ms(90_000);
    pair.rig.until_statuses(|status| *status == ProviderStatus::Throttled { until }).await;
    pair.release_other_and_check(&id).await;
    pair.recover();
    pair.rig.clock.advance(Duration::from_secs(89));
    pair.rig.until_statuses(|status| *status == ProviderStatus::Throttled { until }).await;
    assert_eq!(pair.other.journal().len(), SLOTS);
    assert_eq!(pair.ends(&id).await.counts.sent as usize, DEVICES);
}

#[tokio::test]
async fn an_outage_detected_by_one_server_reaches_the_others() {
    let (pair, id) = Pair::sending(failing()).await;
    pair.rig.until_statuses(|status| matches!(status, ProviderStatus::Unreachable { .. })).await;
    assert_eq!(pair.other.journal().len(), SLOTS, "it sends no further request");
    let attempts = pair.rig.provider.journal().len();
    pair.recover();
    // Any success ends an outage on every server, before the next probe is due.
    pair.other.release();
    pair.rig.until_statuses(is_available).await;
    pair.rig.provider.arrived(attempts + 1).await;
    let record = pair.ends(&id).await;
    assert_eq!(record.counts.sent as usize, DEVICES);
}

#[tokio::test]
async fn a_tripped_guard_stops_every_server_until_the_release() {
    let (pair, id) = Pair::sending(looks_dead()).await;
    pair.rig.until_statuses(|status| *status == ProviderStatus::Tripped).await;
    pair.release_other_and_check(&id).await;
    pair.recover();
    pair.rig.clock.advance(Duration::from_secs(3_600));
    pair.rig.until_statuses(|status| *status == ProviderStatus::Tripped).await;
    pair.rig.store.release_provider(pair.rig.app_id, ProviderKind::Fcm).await.unwrap();
    pair.rig.until_statuses(is_available).await;
    let record = pair.ends(&id).await;
    assert!(record.counts.sent as usize > DEVICES / 2, "{record:?}");
}

#[tokio::test]
async fn a_new_server_applies_the_published_status() {
    let mut rig = Rig::new(SLOTS).await;
    rig.config.clustered = true;
    rig.devices(DEVICES).await;
    rig.provider.script(|_, _| refused());
    rig.start();
    let id = rig.broadcast().await;
    rig.until_statuses(is_held).await;
    rig.until_published(Platform::Android).await;
    rig.stop().await;
    let attempts = rig.provider.journal().len();
    rig.start();
    rig.until_statuses(is_held).await;
    assert_eq!(rig.provider.journal().len(), attempts);
    rig.clock.advance(Duration::from_secs(62));
    rig.provider.arrived(attempts + 1).await;
    rig.until_statuses(is_held).await;
    assert_eq!(rig.provider.journal().len(), attempts + 1, "one probe");
    rig.provider.script(|_, _| ScriptedAnswer::Answer(delivered()));
    assert_eq!(rig.advance_until(&id, SECOND, completed).await.counts.sent as usize, DEVICES);
    rig.stop().await;
}

/// A server whose own network, clock or credentials are broken must not stop the others.
#[tokio::test]
async fn a_broken_server_stops_the_others_only_once() {
    let (mut pair, id) = Pair::sending(refused()).await;
    pair.rig.until_statuses(is_held).await;
    pair.release_other_and_check(&id).await;
    pair.other.script(|_, _| ScriptedAnswer::Answer(delivered()));
    pair.rig.clock.advance(Duration::from_secs(61));
    // The devices of the broken server wait until its credentials work.
    let but_its_own = |record: &NotificationRecord| record.counts.sent as usize >= DEVICES - HELD;
    pair.rig.advance_until(&id, SECOND, but_its_own).await;
    // The other server continues while this server is rejected again and again.
    for _ in 0..3 {
        let next = pair.rig.broadcast().await;
        let began = pair.rig.clock.now();
        // Small steps, so that the test measures the simulated clock and not the speed of the machine.
        pair.rig.advance_until(&next, SECOND / 20, but_its_own).await;
        let took_ms = pair.rig.clock.now().ms_since(began);
        assert!(took_ms < 60_000, "it waited {took_ms} ms for a probe");
        pair.rig.clock.advance(Duration::from_secs(61));
    }
    pair.rig.stop_peer().await;
    pair.rig.stop().await;
}
