//! Device statistics (B26).

use notify_core::{Platform, PlatformCount, Timestamp};

use super::given::{self, NOW, android, id, ios};
use crate::store::{AppNo, Store};

const HOUR_MS: i64 = 3_600_000;

fn count(platform: Platform, enabled: u64, disabled: u64) -> PlatformCount {
    PlatformCount { platform, enabled, disabled }
}

async fn all(store: &dyn Store, app: AppNo) -> Vec<PlatformCount> {
    store.count_devices(app, None, NOW, NOW).await.unwrap()
}

pub async fn devices_are_counted_by_platform_and_state(store: &dyn Store) {
    let (app, other) = (given::app(store).await, given::app(store).await);
    assert_eq!(all(store, app).await, []);
    given::devices(store, app, 3).await;
    given::registered(store, app, ios("phone")).await;
    let mut off = ios("off");
    off.push_disabled = true;
    given::registered(store, app, off).await;
    given::devices(store, other, 5).await;
    assert_eq!(all(store, app).await, [count(Platform::Android, 3, 0), count(Platform::Ios, 1, 1)]);
}

pub async fn a_period_counts_its_edges_to_the_millisecond(store: &dyn Store) {
    let app = given::app(store).await;
    let start = NOW.as_ms().div_euclid(HOUR_MS) * HOUR_MS;
    let times = [
        start - 1,
        start,
        start + 1,
        start + HOUR_MS - 1,
        start + HOUR_MS,
        start + 3 * HOUR_MS + 7,
        start + 5 * HOUR_MS,
    ];
    for (number, at) in times.iter().enumerate() {
        let device = android(&format!("d{number}"));
        store.register_device(app, device, Timestamp(*at), None).await.unwrap();
    }
    let now = start + 6 * HOUR_MS;
    let mut edges: Vec<i64> = times.iter().flat_map(|at| [at - 1, *at, at + 1]).collect();
    edges.push(now);
    for from in edges.iter().map(|from| Some(*from)).chain([None]) {
        for to in &edges {
            let inside =
                times.iter().filter(|at| from.is_none_or(|from| from <= **at) && *at <= to).count();
            let counted = store
                .count_devices(app, from.map(Timestamp), Timestamp(*to), Timestamp(now))
                .await
                .unwrap();
            let counted: u64 = counted.iter().map(|count| count.enabled).sum();
            assert_eq!(counted, inside as u64, "{from:?} to {to}");
        }
    }
}

pub async fn a_change_of_state_moves_the_count(store: &dyn Store) {
    let app = given::app(store).await;
    given::devices(store, app, 1).await;
    let mut off = android("d000");
    off.push_disabled = true;
    given::registered(store, app, off).await;
    assert_eq!(all(store, app).await, [count(Platform::Android, 0, 1)]);
    given::registered(store, app, ios("d000")).await;
    assert_eq!(all(store, app).await, [count(Platform::Ios, 1, 0)]);
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    assert_eq!(all(store, app).await, []);
}
