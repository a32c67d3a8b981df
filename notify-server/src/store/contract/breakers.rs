//! Circuit breakers that servers replicate.

use macro_rules_attribute::apply;
use std::sync::Arc;

use notify_core::{Platform, ProviderKind, ProviderStatus, Timestamp};

use super::apps::ChangeRecorder;
use super::fixtures::{self, INSTANCE, NOW};
use super::is_unknown;
use crate::store::{
    AppNo, BreakerKey, BreakerRecord, BreakerUpdate, Change, DeliveryChange, InstanceId,
    ProviderRow, Store, StoreError,
};

const OTHER: InstanceId = InstanceId(12);

fn key(app: AppNo, service: &str) -> BreakerKey {
    BreakerKey { app, platform: Platform::Android, service: service.into() }
}

fn rejected() -> ProviderStatus {
    let reason = Some("PERMISSION_DENIED".to_owned());
    ProviderStatus::AuthRejected { reason, probe_at: NOW.plus_ms(60_000) }
}

fn update(app: AppNo, status: ProviderStatus, known: i64) -> BreakerUpdate {
    BreakerUpdate { key: key(app, ""), status, by: INSTANCE, known_no: known, at: NOW }
}

/// A record of a breaker.
pub(super) async fn one_of_each(store: &Store, app: AppNo) {
    store.publish_breaker(update(app, rejected(), 0)).await.unwrap();
}

async fn all(store: &Store) -> Vec<BreakerRecord> {
    store.breakers_since(None, 0, 100).await.unwrap()
}

#[apply(contract)]
async fn every_status_reads_back_as_published(store: &Store) {
    let app = fixtures::app(store).await;
    let at = Timestamp(1_790_000_000_123);
    let mut known = 0;
    for status in [
        rejected(),
        ProviderStatus::AuthRejected { reason: None, probe_at: at },
        ProviderStatus::Throttled { until: at },
        ProviderStatus::Unreachable { probe_at: at },
        ProviderStatus::Tripped,
        ProviderStatus::Available,
    ] {
        let record = store.publish_breaker(update(app, status.clone(), known)).await.unwrap();
        assert!(record.no > known, "a later record has a higher number");
        known = record.no;
        let expected = BreakerRecord { no: known, key: key(app, ""), status, by: Some(INSTANCE) };
        assert_eq!(record, expected);
        assert_eq!(all(store).await, [expected], "one record per breaker");
    }
}

#[apply(contract)]
async fn a_publisher_that_missed_a_record_gets_it_instead(store: &Store) {
    let app = fixtures::app(store).await;
    let first = store.publish_breaker(update(app, rejected(), 0)).await.unwrap();
    for known in [0, first.no - 1, first.no + 1] {
        let late = BreakerUpdate { by: OTHER, ..update(app, ProviderStatus::Available, known) };
        assert_eq!(store.publish_breaker(late).await.unwrap(), first, "{known}");
    }
    let next = BreakerUpdate { by: OTHER, ..update(app, ProviderStatus::Available, first.no) };
    let next = store.publish_breaker(next).await.unwrap();
    assert_eq!((next.status, next.by), (ProviderStatus::Available, Some(OTHER)));
    let unknown_app = update(AppNo(app.0 + 1), rejected(), 0);
    assert!(is_unknown(&store.publish_breaker(unknown_app).await));
}

#[apply(contract)]
async fn one_of_many_concurrent_publishers_succeeds(store: &Store) {
    let app = fixtures::app(store).await;
    let published = (1..=8).map(|n| {
        let throttled = ProviderStatus::Throttled { until: NOW.plus_ms(n) };
        store.publish_breaker(BreakerUpdate { by: InstanceId(n), ..update(app, throttled, 0) })
    });
    let published = futures_util::future::join_all(published).await;
    let published: Vec<_> = published.into_iter().map(Result::unwrap).collect();
    assert!(published.iter().all(|breaker| *breaker == published[0]), "{published:?}");
}

#[apply(contract)]
async fn records_are_read_in_order_after_the_last_one(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    let mut numbers = Vec::new();
    for (app, service) in [(app, ""), (other_app, ""), (app, "https://push.example")] {
        let new = BreakerUpdate { key: key(app, service), ..update(app, rejected(), 0) };
        numbers.push(store.publish_breaker(new).await.unwrap().no);
    }
    let read = async |lane, after, limit| -> Vec<i64> {
        let records = store.breakers_since(lane, after, limit).await.unwrap();
        records.into_iter().map(|record| record.no).collect()
    };
    assert_eq!(read(None, 0, 2).await, numbers[..2]);
    assert_eq!(read(None, numbers[1], 2).await, numbers[2..]);
    let lane = Some((app, Platform::Android));
    assert_eq!(read(lane, 0, 10).await, [numbers[0], numbers[2]]);
    assert_eq!(read(Some((app, Platform::Ios)), 0, 10).await, [0; 0]);
}

#[apply(contract)]
async fn an_administrator_closes_every_breaker(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    let row = ProviderRow { provider: ProviderKind::Fcm, sealed: vec![1], updated_at: NOW };
    store.put_provider(id, row.clone()).await.unwrap();
    let changes = Arc::new(ChangeRecorder::default());
    store.subscribe(changes.clone());
    let mut known = 0;
    for round in 0..3 {
        let published = store.publish_breaker(update(app, rejected(), known)).await.unwrap();
        let breaker = Change::Delivery(DeliveryChange::Breaker(app, Platform::Android));
        assert_eq!(changes.take(), [breaker]);
        let released: Result<(), StoreError> = match round {
            0 => store.release_provider(id, ProviderKind::Fcm).await,
            1 => store.put_provider(id, row.clone()).await,
            _ => store.delete_provider(id, ProviderKind::Fcm).await,
        };
        released.unwrap();
        assert!(changes.take().contains(&breaker));
        let [closed] = &all(store).await[..] else { panic!("one record") };
        assert_eq!((&closed.status, closed.by), (&ProviderStatus::Available, None));
        assert!(closed.no > published.no);
        // A publisher that does not know of the release yet is too late.
        let late = store.publish_breaker(update(app, rejected(), published.no)).await.unwrap();
        assert_eq!(late, *closed);
        known = closed.no;
    }
}

#[apply(contract)]
async fn records_end_with_their_application_and_with_time(store: &Store) {
    let (id, app) = fixtures::named_app(store, "Shop").await;
    let old = BreakerUpdate { key: key(app, "old"), ..update(app, ProviderStatus::Available, 0) };
    store.publish_breaker(old).await.unwrap();
    let still_rejected = BreakerUpdate { key: key(app, "rejected"), ..update(app, rejected(), 0) };
    store.publish_breaker(still_rejected).await.unwrap();
    let later = BreakerUpdate { at: NOW.plus_ms(86_400_001), ..update(app, rejected(), 0) };
    store.publish_breaker(later).await.unwrap();
    let services: Vec<_> = all(store).await.into_iter().map(|record| record.key.service).collect();
    assert_eq!(services, ["rejected".into(), "".into()]);
    store.delete_app(id).await.unwrap();
    assert_eq!(all(store).await, []);
}
