//! What one server learns of a provider, the others of the storage take from it.

use std::time::Duration;

use notify_core::{NotificationId, NotificationRecord, NotificationStatus, Platform, ProviderKind};

use super::rig::{FakeProvider, Rig, START, Told, delivered};
use crate::clock::Clock;
use crate::providers::{Answer, Certainty, Scope};
use crate::push_service::ChannelState;

/// Streams of each server.
const SLOTS: usize = 4;
const DEVICES: usize = 200;
/// More devices than a server has in hand whose own requests are refused: a page that is sent, one that
/// is read ahead, and what it took whenever the other one opened its gate, before it was refused again.
const HELD: usize = 100;
/// Between two turns of the clock.
const SECOND: Duration = Duration::from_secs(1);

fn refused() -> Told {
    Told::Answer(Answer::Config { reason: "PERMISSION_DENIED".into() })
}

fn failing() -> Told {
    let reason = "UNAVAILABLE".into();
    let outcome = Certainty::NotProcessed;
    Told::Answer(Answer::Retry { reason, after: None, outcome })
}

fn throttled() -> Told {
    let after = Some(Duration::from_secs(90));
    let reason = "QUOTA_EXCEEDED".into();
    Told::Answer(Answer::Throttle { reason, after, scope: Scope::Provider })
}

fn looks_dead() -> Told {
    Told::Answer(Answer::TokenDead {
        reason: "BadDeviceToken".into(),
        ambiguous: true,
        since: None,
    })
}

fn is_held(state: &ChannelState) -> bool {
    matches!(state, ChannelState::Held { .. })
}

fn is_open(state: &ChannelState) -> bool {
    *state == ChannelState::Open
}

fn completed(record: &NotificationRecord) -> bool {
    record.status == NotificationStatus::Completed
}

/// Two servers of one storage. The answers of the other one wait until they are released.
struct Pair {
    rig: Rig,
    other: std::sync::Arc<FakeProvider>,
}

impl Pair {
    /// Both send, and `ours` is what the one hears.
    async fn sending(ours: Told) -> (Self, NotificationId) {
        let mut rig = Rig::new(SLOTS).await;
        rig.config.among_others = true;
        rig.config.page_rows = 20;
        rig.config.lane_devices_max = 20;
        rig.configure(ProviderKind::Fcm, Some(rig.provider.clone())).await;
        rig.devices(DEVICES).await;
        let other = FakeProvider::new(SLOTS);
        other.script(|_, _| Told::Held(delivered()));
        rig.start_other(other.clone(), rig.clock.clone());
        let id = rig.broadcast().await;
        other.arrived(SLOTS).await;
        rig.provider.script(move |_, _| ours.clone());
        rig.start();
        (Self { rig, other }, id)
    }

    /// The other one's answers come, and it has no more requests than those.
    async fn answered_alone(&self, id: &NotificationId) {
        self.other.release();
        self.rig.until_read(id, |record| record.counts.sent as usize == SLOTS).await;
        assert_eq!(self.other.journal().len(), SLOTS, "without a request of its own");
    }

    /// Both hear well from here on.
    fn mended(&self) {
        self.rig.provider.script(|_, _| Told::Answer(delivered()));
        self.other.script(|_, _| Told::Answer(delivered()));
    }

    async fn ends(mut self, id: &NotificationId) -> NotificationRecord {
        let record = self.rig.turning(id, SECOND, completed).await;
        self.rig.stop_other().await;
        self.rig.stop().await;
        record
    }
}

#[tokio::test]
async fn what_is_held_by_one_is_held_by_all_and_one_probe_opens_all() {
    let (pair, id) = Pair::sending(refused()).await;
    pair.rig.until_states(is_held).await;
    pair.answered_alone(&id).await;
    let ours = pair.rig.provider.journal().len();
    pair.mended();
    // The other one probes first: it has not asked yet.
    pair.rig.clock.advance(Duration::from_secs(61));
    pair.rig.until_states(is_open).await;
    assert!(pair.other.journal().len() > SLOTS);
    let record = pair.ends(&id).await;
    assert_eq!(record.counts.sent as usize, DEVICES);
    assert!(ours <= SLOTS, "{ours} were in flight");
}

#[tokio::test]
async fn what_an_administrator_releases_is_open_everywhere() {
    for is_new in [false, true] {
        let (pair, id) = Pair::sending(refused()).await;
        pair.rig.until_states(is_held).await;
        pair.answered_alone(&id).await;
        pair.mended();
        match is_new {
            false => {
                let released = pair.rig.store.release_provider(pair.rig.app_id, ProviderKind::Fcm);
                released.await.unwrap();
            }
            true => pair.rig.configure(ProviderKind::Fcm, Some(pair.rig.provider.clone())).await,
        }
        pair.rig.until_states(is_open).await;
        assert_eq!(pair.ends(&id).await.counts.sent as usize, DEVICES);
    }
}

#[tokio::test]
async fn a_pause_that_a_provider_asks_for_is_everybodys() {
    let (pair, id) = Pair::sending(throttled()).await;
    let until = START.plus_ms(90_000);
    pair.rig.until_states(|state| *state == ChannelState::Throttled { until }).await;
    pair.answered_alone(&id).await;
    pair.mended();
    pair.rig.clock.advance(Duration::from_secs(89));
    pair.rig.until_states(|state| *state == ChannelState::Throttled { until }).await;
    assert_eq!(pair.other.journal().len(), SLOTS);
    assert_eq!(pair.ends(&id).await.counts.sent as usize, DEVICES);
}

#[tokio::test]
async fn an_outage_is_found_out_by_one() {
    let (pair, id) = Pair::sending(failing()).await;
    pair.rig.until_states(|state| matches!(state, ChannelState::Unreachable { .. })).await;
    assert_eq!(pair.other.journal().len(), SLOTS, "without a request of its own");
    let asked = pair.rig.provider.journal().len();
    pair.mended();
    // Any good answer opens what fails, everywhere: the clock stands.
    pair.other.release();
    pair.rig.until_states(is_open).await;
    pair.rig.provider.arrived(asked + 1).await;
    let record = pair.ends(&id).await;
    assert_eq!(record.counts.sent as usize, DEVICES);
}

#[tokio::test]
async fn what_the_guard_stops_is_stopped_everywhere_until_it_is_released() {
    let (pair, id) = Pair::sending(looks_dead()).await;
    pair.rig.until_states(|state| *state == ChannelState::Stopped).await;
    pair.answered_alone(&id).await;
    pair.mended();
    pair.rig.clock.advance(Duration::from_secs(3_600));
    pair.rig.until_states(|state| *state == ChannelState::Stopped).await;
    pair.rig.store.release_provider(pair.rig.app_id, ProviderKind::Fcm).await.unwrap();
    pair.rig.until_states(is_open).await;
    let record = pair.ends(&id).await;
    assert!(record.counts.sent as usize > DEVICES / 2, "{record:?}");
}

/// Who starts finds out nothing anew: one probe goes out when it is due.
#[tokio::test]
async fn a_server_that_starts_takes_what_the_others_know() {
    let mut rig = Rig::new(SLOTS).await;
    rig.config.among_others = true;
    rig.devices(DEVICES).await;
    rig.provider.script(|_, _| refused());
    rig.start();
    let id = rig.broadcast().await;
    rig.until_states(is_held).await;
    rig.store_told(Platform::Android).await;
    rig.stop().await;
    let asked = rig.provider.journal().len();
    rig.start();
    rig.until_states(is_held).await;
    assert_eq!(rig.provider.journal().len(), asked);
    rig.clock.advance(Duration::from_secs(62));
    rig.provider.arrived(asked + 1).await;
    rig.until_states(is_held).await;
    assert_eq!(rig.provider.journal().len(), asked + 1, "one probe");
    rig.provider.script(|_, _| Told::Answer(delivered()));
    assert_eq!(rig.turning(&id, SECOND, completed).await.counts.sent as usize, DEVICES);
    rig.stop().await;
}

/// One whose own network, clock or key is at fault must not stop the others.
#[tokio::test]
async fn one_that_is_at_fault_itself_closes_the_others_once() {
    let (mut pair, id) = Pair::sending(refused()).await;
    pair.rig.until_states(is_held).await;
    pair.answered_alone(&id).await;
    pair.other.script(|_, _| Told::Answer(delivered()));
    pair.rig.clock.advance(Duration::from_secs(61));
    // What it has in hand waits for its own credentials.
    let but_its_own = |record: &NotificationRecord| record.counts.sent as usize >= DEVICES - HELD;
    pair.rig.turning(&id, SECOND, but_its_own).await;
    // The other one goes on, while this one is refused again and again.
    for _ in 0..3 {
        let next = pair.rig.broadcast().await;
        let began = pair.rig.clock.now();
        // Slowly, so that what counts is a wait for the clock and not for the machine.
        pair.rig.turning(&next, SECOND / 20, but_its_own).await;
        let took_ms = pair.rig.clock.now().ms_since(began);
        assert!(took_ms < 60_000, "it waited {took_ms} ms for a probe");
        pair.rig.clock.advance(Duration::from_secs(61));
    }
    pair.rig.stop_other().await;
    pair.rig.stop().await;
}
