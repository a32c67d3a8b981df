//! How many devices an audience would reach now (B37), without reading it: whole platforms from
//! the counters of B26, tags by a bounded scan, named devices by their ids.

use std::collections::BTreeMap;

use notify_core::{Audience, DeviceId, Platform, Target};

use super::super::delivery::named_devices;
use super::super::device::{count_enabled, keys_by_ids};
use super::super::row::{count_at, live_app};
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, DeviceKey, Reach, Reached, SEQUENCE_MAX, StoreError};

/// Most devices that one count looks at.
const DEVICES_LOOKED_AT_MAX: i64 = 100_000;

/// Counts the devices of an audience.
pub(super) fn count(
    connection: &Connection,
    app: AppNo,
    audience: &Audience,
) -> Result<Reached, StoreError> {
    live_app(connection, app)?;
    let tag = audience.tag.as_deref();
    match &audience.target {
        Target::Platforms(platforms) => {
            let platforms = platforms.iter().map(|platform| match tag {
                None => whole_platform(connection, app, *platform),
                Some(tag) => tagged(connection, app, *platform, tag),
            });
            Ok(Reached { platforms: platforms.collect::<Result<_, _>>()?, unknown: 0 })
        }
        Target::Devices { android, ios, any } => {
            named(connection, app, &Named { android, ios, any, tag })
        }
    }
}

fn reach(platform: Platform, devices: u64) -> Reach {
    Reach { platform, devices, is_exact: true, unknown: 0, excluded: 0 }
}

/// The keys of a platform, both ends left out.
fn keys(app: AppNo, platform: Platform) -> (i64, i64) {
    let first = DeviceKey::before_first(app, platform);
    (first.0, DeviceKey::new(app, platform, SEQUENCE_MAX).0)
}

/// The enabled devices of a platform, by its counters, less those without an address.
fn whole_platform(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<Reach, StoreError> {
    let enabled = count_enabled(connection, app, platform)?;
    let (after, last) = keys(app, platform);
    let without_address = connection
        .prepare_cached(
            "select count(*) from (select 1 from devices indexed by devices_without_address
             where address is null and push_disabled = 0 and dead_at is null
             and key > ?1 and key <= ?2 limit ?3) found",
        )?
        .query_row([after, last, DEVICES_LOOKED_AT_MAX], |row| count_at(row, 0))?;
    let is_exact = without_address < DEVICES_LOOKED_AT_MAX.unsigned_abs();
    let devices = enabled.saturating_sub(without_address);
    Ok(Reach { is_exact, ..reach(platform, devices) })
}

/// The devices of a tag, over the tag's own index.
fn tagged(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    tag: &str,
) -> Result<Reach, StoreError> {
    let (after, last) = keys(app, platform);
    let (devices, looked_at) = connection
        .prepare_cached(
            "select count(*) filter (where value = 1 and push_disabled = 0 and dead_at is null
             and address is not null), count(*) from
             (select dt.value, d.push_disabled, d.dead_at, d.address
              from tags t cross join device_tags dt cross join devices d
              where t.app_no = ?1 and t.name = ?2 and dt.tag_no = t.no
              and dt.device_key > ?3 and dt.device_key <= ?4 and d.key = dt.device_key limit ?5) found",
        )?
        .query_row(params![app.0, tag, after, last, DEVICES_LOOKED_AT_MAX], |row| {
            Ok((count_at(row, 0)?, count_at(row, 1)?))
        })?;
    let is_exact = looked_at < DEVICES_LOOKED_AT_MAX.unsigned_abs();
    Ok(Reach { is_exact, ..reach(platform, devices) })
}

/// What a target of devices names.
struct Named<'a> {
    android: &'a [DeviceId],
    ios: &'a [DeviceId],
    any: &'a [DeviceId],
    tag: Option<&'a str>,
}

/// Named devices (B12, B64), at most as many as one request may name.
fn named(connection: &Connection, app: AppNo, named: &Named<'_>) -> Result<Reached, StoreError> {
    let Named { android, ios, any, tag } = named;
    let ids = android.iter().chain(*ios).chain(*any);
    let found = keys_by_ids(connection, app, &ids.map(DeviceId::as_str).collect::<Vec<_>>())?;
    let key_of = |id: &DeviceId| found.get(id.as_str()).copied();
    let mut platforms = BTreeMap::<Platform, Reach>::new();
    let mut keys = Vec::with_capacity(found.len());
    for (platform, ids) in [(Platform::Android, android), (Platform::Ios, ios)] {
        for id in *ids {
            let of_platform = platforms.entry(platform).or_insert_with(|| reach(platform, 0));
            match key_of(id).filter(|key| key.platform() == platform) {
                Some(key) => keys.push(key),
                None => of_platform.unknown += 1,
            }
        }
    }
    let mut unknown = 0;
    for id in *any {
        match key_of(id) {
            Some(key) => keys.push(key),
            None => unknown += 1,
        }
    }
    for device in named_devices(connection, app, &keys, *tag)? {
        let platform = device.key.platform();
        let of_platform = platforms.entry(platform).or_insert_with(|| reach(platform, 0));
        let is_reached = device.eligible && device.address.is_some();
        *if is_reached { &mut of_platform.devices } else { &mut of_platform.excluded } += 1;
    }
    Ok(Reached { platforms: platforms.into_values().collect(), unknown })
}
