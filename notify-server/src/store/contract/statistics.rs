//! Device statistics.

use macro_rules_attribute::apply;
use notify_core::{Endpoint, Platform, PlatformCount, Timestamp};

use super::fixtures::{self, NOW, android, id, ios};
use crate::store::{AppNo, DeviceFilter, Store};

const HOUR_MS: i64 = 3_600_000;

fn count(platform: Platform, enabled: u64, disabled: u64) -> PlatformCount {
    PlatformCount { platform, enabled, disabled }
}

async fn all(store: &Store, app: AppNo) -> Vec<PlatformCount> {
    store.count_devices(app, None, NOW, NOW).await.unwrap()
}

#[apply(set_contract)]
async fn devices_are_counted_by_platform_and_state(store: &Store) {
    let (app, other_app) = (fixtures::app(store).await, fixtures::app(store).await);
    assert_eq!(all(store, app).await, []);
    fixtures::devices(store, app, 3).await;
    fixtures::registered(store, app, ios("phone")).await;
    let mut off = ios("off");
    off.push_disabled = true;
    fixtures::registered(store, app, off).await;
    fixtures::devices(store, other_app, 5).await;
    assert_eq!(all(store, app).await, [count(Platform::Android, 3, 0), count(Platform::Ios, 1, 1)]);
}

#[apply(set_contract)]
async fn period_is_exact_to_the_millisecond(store: &Store) {
    let app = fixtures::app(store).await;
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

#[apply(set_contract)]
async fn changing_state_moves_the_count(store: &Store) {
    let app = fixtures::app(store).await;
    fixtures::devices(store, app, 1).await;
    let mut off = android("d000");
    off.push_disabled = true;
    fixtures::registered(store, app, off).await;
    assert_eq!(all(store, app).await, [count(Platform::Android, 0, 1)]);
    fixtures::registered(store, app, ios("d000")).await;
    assert_eq!(all(store, app).await, [count(Platform::Ios, 1, 0)]);
    store.delete_device(app, id("d000"), NOW).await.unwrap();
    assert_eq!(all(store, app).await, []);
}

/// Counts the devices of a listing one by one.
async fn one_by_one(
    store: &Store,
    app: AppNo,
    from: Timestamp,
    to: Timestamp,
) -> Vec<PlatformCount> {
    let listed = store.list_devices(app, DeviceFilter::default(), fixtures::page(1_000)).await;
    let devices = listed.unwrap().rows;
    let counts = Platform::ALL.map(|platform| {
        let inside = |enabled: bool| {
            let counted = devices.iter().filter(|device| {
                device.platform == platform
                    && device.enabled == enabled
                    && (from..=to).contains(&device.created_at)
            });
            counted.count() as u64
        };
        count(platform, inside(true), inside(false))
    });
    counts.into_iter().filter(|count| count.enabled + count.disabled > 0).collect()
}

#[apply(set_contract)]
async fn counters_match_devices_after_random_changes(store: &Store) {
    let app = fixtures::app(store).await;
    let start = NOW.as_ms().div_euclid(HOUR_MS) * HOUR_MS;
    let mut random = fastrand::Rng::with_seed(26);
    let mut now = start;
    for _ in 0..300 {
        // Sometimes exactly at the beginning of an hour.
        now = if random.u8(..8) == 0 {
            (now.div_euclid(HOUR_MS) + 1) * HOUR_MS
        } else {
            now + random.i64(0..HOUR_MS / 20)
        };
        let name = format!("d{}", random.u8(..40));
        if random.u8(..5) == 0 {
            // Half of them do not exist.
            let _ = store.delete_device(app, id(&name), Timestamp(now)).await;
            continue;
        }
        let token = Some(format!("token-{}", random.u8(..30)));
        let endpoint = if random.bool() {
            Endpoint::Android { push_token: token }
        } else {
            Endpoint::Ios { push_token: token, env: None }
        };
        let mut device = fixtures::registration(&name, endpoint);
        device.push_disabled = random.u8(..3) == 0;
        store.register_device(app, device, Timestamp(now), None).await.unwrap();
    }
    let hours = (now - start).div_euclid(HOUR_MS) + 2;
    let mut edge = || {
        let at = start + random.i64(0..hours) * HOUR_MS;
        let off = if random.bool() { random.i64(-1..=1) } else { random.i64(0..HOUR_MS) };
        Timestamp(at + off)
    };
    for _ in 0..200 {
        let (one, other) = (edge(), edge());
        let (from, to) = (one.min(other), one.max(other));
        let counted = store.count_devices(app, Some(from), to, Timestamp(now)).await.unwrap();
        assert_eq!(counted, one_by_one(store, app, from, to).await, "{from} to {to}");
    }
}
