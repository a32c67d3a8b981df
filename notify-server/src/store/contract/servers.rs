//! Several servers on one database. Live servers keep their work, and the work of dead servers is
//! reclaimed.

use macro_rules_attribute::apply;
use notify_core::Timestamp;

use super::fixtures::{self, INSTANCE, LEASE, NOW};
use crate::store::{
    ClusterStatus, Heartbeat, InstanceId, Intervention, ReclaimRequest, Reclaimed, Scan, Store,
    StoreError,
};

const OTHER: InstanceId = InstanceId(12);
/// More dispatches than one statement reads.
const MANY: usize = 40;

fn beat(instance: InstanceId, now: Timestamp) -> Heartbeat {
    Heartbeat { instance, now, lease_until: now.plus_ms(15_000) }
}

fn clustered(now: Timestamp) -> ReclaimRequest {
    ReclaimRequest {
        now,
        lease_until: now.plus_ms(15_000),
        clustered: true,
        ..fixtures::adoption(OTHER)
    }
}

#[apply(contract)]
async fn live_servers_are_counted(store: &Store) {
    let alone = ClusterStatus { servers: 1, has_orphans: false };
    assert_eq!(store.heartbeat(beat(INSTANCE, NOW)).await.unwrap(), alone);
    assert_eq!(store.heartbeat(beat(OTHER, NOW.plus_ms(1_000))).await.unwrap().servers, 2);
    let later = NOW.plus_ms(14_999);
    assert_eq!(store.heartbeat(beat(OTHER, later)).await.unwrap().servers, 2);
    let expired = NOW.plus_ms(15_000);
    assert_eq!(
        store.heartbeat(beat(OTHER, expired)).await.unwrap().servers,
        1,
        "the lease has expired"
    );
    assert_eq!(
        store.heartbeat(beat(INSTANCE, expired)).await.unwrap().servers,
        2,
        "it lives again"
    );
    store.leave(OTHER).await.unwrap();
    assert_eq!(store.heartbeat(beat(INSTANCE, expired)).await.unwrap(), alone, "it left");
}

#[apply(contract)]
async fn other_live_servers_are_counted_without_a_heartbeat(store: &Store) {
    assert_eq!(store.other_servers(INSTANCE, NOW).await.unwrap(), 0);
    store.heartbeat(beat(INSTANCE, NOW)).await.unwrap();
    assert_eq!(store.other_servers(INSTANCE, NOW).await.unwrap(), 0, "it does not count itself");
    assert_eq!(store.other_servers(OTHER, NOW).await.unwrap(), 1, "not yet a server itself");
    store.heartbeat(beat(OTHER, NOW)).await.unwrap();
    assert_eq!(store.other_servers(INSTANCE, NOW.plus_ms(14_999)).await.unwrap(), 1);
    assert_eq!(store.other_servers(INSTANCE, NOW.plus_ms(15_000)).await.unwrap(), 0, "expired");
    store.leave(OTHER).await.unwrap();
    assert_eq!(store.other_servers(INSTANCE, NOW).await.unwrap(), 0, "it left");
}

#[apply(contract)]
async fn page_belongs_to_its_server_while_it_is_alive(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 2).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    store.heartbeat(beat(INSTANCE, NOW)).await.unwrap();
    let (keys, page) = fixtures::whole_page(store, &dispatch).await;
    assert!(!store.heartbeat(beat(OTHER, NOW)).await.unwrap().has_orphans);
    let none = Reclaimed { pages: vec![], dispatches: vec![] };
    assert_eq!(store.reclaim(clustered(NOW)).await.unwrap(), none);
    // The lease of the page has ended, but the lease of its server has not.
    store.heartbeat(beat(INSTANCE, LEASE)).await.unwrap();
    assert_eq!(store.reclaim(clustered(LEASE.plus_ms(1))).await.unwrap(), none);

    let dead = LEASE.plus_ms(15_000);
    assert!(store.heartbeat(beat(OTHER, dead)).await.unwrap().has_orphans);
    let adopted = store.reclaim(clustered(dead)).await.unwrap();
    let [taken] = adopted.pages[..] else { panic!("{adopted:?}") };
    assert_eq!((taken.no, taken.instance), (page.no, OTHER));
    assert!(!store.heartbeat(beat(OTHER, dead)).await.unwrap().has_orphans);
    // A paused server that continues cannot change the reclaimed page.
    let late = crate::store::Checkpoint {
        settled: vec![fixtures::sent(keys[0])],
        ..fixtures::checkpoint(page, 2)
    };
    assert!(matches!(store.checkpoint(late).await, Err(StoreError::Fenced)));
}

#[apply(contract)]
async fn retries_of_a_stopped_server_are_released(store: &Store) {
    let app = fixtures::app(store).await;
    store.heartbeat(beat(INSTANCE, NOW)).await.unwrap();
    fixtures::retried(store, app, 2).await;
    assert_eq!(store.claim_retries(fixtures::retry_claim(app)).await.unwrap().len(), 2);
    store.heartbeat(beat(OTHER, NOW)).await.unwrap();
    store.reclaim(clustered(NOW)).await.unwrap();
    let claim = crate::store::RetryClaim { instance: OTHER, ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(claim.clone()).await.unwrap(), [], "they are held");
    store.leave(INSTANCE).await.unwrap();
    assert!(store.heartbeat(beat(OTHER, NOW)).await.unwrap().has_orphans);
    store.reclaim(clustered(NOW)).await.unwrap();
    assert_eq!(store.claim_retries(claim).await.unwrap().len(), 2);
}

#[apply(contract)]
async fn unscanned_dispatches_are_visible_to_all_servers(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 4).await;
    let dispatch = fixtures::android_dispatch(store, app).await;
    let at = |cursor| Some(Scan { cursor, canceled: false, paused_until: None });
    assert_eq!(store.unscanned_dispatches(10, NOW).await.unwrap(), [dispatch.no]);
    assert_eq!(store.unscanned_dispatches(0, NOW).await.unwrap(), []);
    assert_eq!(store.scan(dispatch.no).await.unwrap(), at(dispatch.cursor));
    let slice = store.read_batch(&dispatch, dispatch.cursor, 2).await.unwrap();
    store.open_page(fixtures::claim(&dispatch, slice.to, false)).await.unwrap();
    assert_eq!(store.scan(dispatch.no).await.unwrap(), at(slice.to));
    let rest = crate::store::PageClaim {
        from: slice.to,
        ..fixtures::claim(&dispatch, dispatch.until, true)
    };
    store.open_page(rest).await.unwrap();
    assert_eq!(store.scan(dispatch.no).await.unwrap(), None);
    assert_eq!(store.unscanned_dispatches(10, NOW).await.unwrap(), []);
}

#[apply(contract)]
async fn canceled_dispatches_are_distinguished(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let mut all = Vec::new();
    for _ in 0..MANY {
        all.push(fixtures::android_dispatch(store, app).await);
    }
    let numbers: Vec<_> = all.iter().map(|dispatch| dispatch.no).collect();
    assert_eq!(store.interventions(numbers.clone()).await.unwrap(), []);
    assert_eq!(store.interventions(Vec::new()).await.unwrap(), []);
    for dispatch in [&all[3], &all[MANY - 1]] {
        let id = dispatch.notification_id.clone();
        store.cancel_notification(app, id, NOW).await.unwrap();
    }
    let canceled = store.interventions(numbers.clone()).await.unwrap();
    let expected = [3, MANY - 1].map(|place| Intervention {
        dispatch: numbers[place],
        canceled: true,
        paused_until: None,
    });
    assert_eq!(canceled, expected);
    let others = numbers[..3].to_vec();
    assert_eq!(store.interventions(others).await.unwrap(), [], "of those that were asked for");
}
