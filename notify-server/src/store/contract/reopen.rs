//! Reopening a store that was closed, or whose process crashed.

use macro_rules_attribute::apply;
use notify_core::{Counts, NotificationStatus, Platform};

use super::fixtures::{self, INSTANCE, NOW, id};
use super::{Backend, is_unknown, maintenance};
use crate::store::{Checkpoint, Idempotent, InstanceId, PageClaim, Reclaimed, StoreError};

const NEXT: InstanceId = InstanceId(12);

#[apply(contract)]
async fn data_survives_reopening(backend: &dyn Backend) {
    let store = backend.open();
    let app = fixtures::app(&store).await;
    fixtures::devices(&store, app, 2).await;
    let notification =
        fixtures::accepted(&store, app, fixtures::broadcast(&[Platform::Android])).await;
    drop(store);
    let store = backend.open();
    store.check().await.unwrap();
    assert!(store.device(app, id("d001")).await.is_ok());
    let record = store.notification(app, notification).await.unwrap();
    assert_eq!(record.status, NotificationStatus::Queued);
    assert_eq!(store.start_due(NOW, 10).await.unwrap().0.len(), 1);
}

/// Outcomes are stored by device. The remaining devices of a page are read again as they are now.
#[apply(contract)]
async fn reclaimed_page_knows_its_outcomes(backend: &dyn Backend) {
    let store = backend.open();
    let app = fixtures::app(&store).await;
    fixtures::devices(&store, app, 6).await;
    let dispatch = fixtures::android_dispatch(&store, app).await;
    let slice = store.read_batch(&dispatch, dispatch.cursor, 4).await.unwrap();
    let keys: Vec<_> = slice.devices.iter().map(|device| device.key).collect();
    let claim = PageClaim { targeted: 4, ..fixtures::claim(&dispatch, slice.to, false) };
    let page = store.open_page(claim).await.unwrap();
    let first = Checkpoint {
        settled: vec![fixtures::sent(keys[2])],
        retries: vec![fixtures::retry(keys[0])],
        ..fixtures::checkpoint(page, 4)
    };
    store.checkpoint(first).await.unwrap();
    drop(store);

    let store = backend.open();
    let adopted = store.reclaim(fixtures::adoption(NEXT)).await.unwrap();
    let [page] = adopted.pages[..] else { panic!("{adopted:?}") };
    assert_eq!(
        (page.instance, page.checkpoint_no, adopted.dispatches),
        (NEXT, 1, vec![dispatch.no])
    );
    store.delete_device(app, id("d001"), NOW).await.unwrap();
    assert_eq!(store.settled_devices(&page).await.unwrap().done, [keys[0], keys[2]]);
    let rest = Checkpoint {
        settled: vec![
            fixtures::sent(keys[3]),
            fixtures::outcome(keys[1], crate::store::Outcome::Canceled, None),
        ],
        finished: true,
        ..fixtures::checkpoint(page, 4)
    };
    store.checkpoint(rest).await.unwrap();
    let dispatch = store.dispatch(dispatch.no).await.unwrap();
    assert_eq!((dispatch.cursor, dispatch.scan_done), (slice.to, false));
    let record = store.notification(app, dispatch.notification_id).await.unwrap();
    let counts = Counts { targeted: 4, sent: 2, canceled: 1, pending: 1, ..Counts::default() };
    assert_eq!(record.counts, counts);
    let again = store.reclaim(fixtures::adoption(NEXT)).await.unwrap();
    assert_eq!(again, Reclaimed { pages: vec![], dispatches: vec![dispatch.no] });
}

#[apply(contract)]
async fn claimed_retry_is_released_after_a_restart(backend: &dyn Backend) {
    let store = backend.open();
    let app = fixtures::app(&store).await;
    fixtures::retried(&store, app, 2).await;
    assert_eq!(store.claim_retries(fixtures::retry_claim(app)).await.unwrap().len(), 2);
    drop(store);
    let store = backend.open();
    assert_eq!(store.reclaim(fixtures::adoption(NEXT)).await.unwrap(), Reclaimed::default());
    let claim = crate::store::RetryClaim { instance: NEXT, ..fixtures::retry_claim(app) };
    assert_eq!(store.claim_retries(claim.clone()).await.unwrap().len(), 2);
    assert_eq!(store.reclaim(fixtures::adoption(NEXT)).await.unwrap(), Reclaimed::default());
    assert_eq!(store.claim_retries(claim).await.unwrap(), [], "its own claims stay");
    assert_ne!(NEXT, INSTANCE);
}

#[apply(contract)]
async fn replay_survives_reopening(backend: &dyn Backend) {
    let key = fixtures::once("/v1/devices", "k", 1);
    let store = backend.open();
    let app = fixtures::app(&store).await;
    let device = fixtures::android("x");
    store.register_device(app, device.clone(), NOW, Some(key.clone())).await.unwrap();
    drop(store);
    let store = backend.open();
    let done = store.register_device(app, device, NOW, Some(key)).await.unwrap();
    assert_eq!(done, Idempotent::Replayed(r#"{"success":true}"#.to_owned()));
}

/// Events and cursors contain numbers, so they must stay unique.
#[apply(contract)]
async fn numbers_are_never_reused(backend: &dyn Backend) {
    let store = backend.open();
    let app = fixtures::app(&store).await;
    let (_, gone) = maintenance::ended(&store, app).await;
    let (id, erased) = fixtures::named_app(&store, "Gone").await;
    maintenance::delete_everything(&store).await;
    store.delete_app(id).await.unwrap();
    assert!(is_unknown(&store.dispatch(gone.no).await));
    store.close().await;
    let store = backend.open();
    let next = fixtures::android_dispatch(&store, app).await;
    assert!(next.no > gone.no && next.notification > gone.notification, "{gone:?} {next:?}");
    assert!(fixtures::app(&store).await > erased);
}

#[apply(contract)]
async fn closed_store_is_unavailable(backend: &dyn Backend) {
    let store = backend.open();
    let app = fixtures::app(&store).await;
    store.close().await;
    let read = store.device(app, id("d000")).await;
    assert!(matches!(read, Err(StoreError::Unavailable(_))));
    let written = store.register_device(app, fixtures::android("x"), NOW, None).await;
    assert!(matches!(written, Err(StoreError::Unavailable(_))));
    assert!(matches!(store.check().await, Err(StoreError::Unavailable(_))));
}
