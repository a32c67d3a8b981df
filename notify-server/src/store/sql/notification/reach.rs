//! How many devices an audience would reach now (B37), without reading it: whole platforms from
//! the counters of B26, tags by a bounded scan, named devices one by one.

use notify_core::{Audience, DeviceId, Platform, Target};

use super::super::delivery::one_device;
use super::super::device::{count_enabled, key_by_id};
use super::super::row::{count_at, live_app};
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, DeviceKey, Reach, SEQUENCE_MAX, StoreError};

/// Most devices that one count looks at.
const DEVICES_LOOKED_AT_MAX: i64 = 100_000;

/// Counts the devices of an audience.
pub(super) fn count(
    connection: &Connection,
    app: AppNo,
    audience: &Audience,
) -> Result<Vec<Reach>, StoreError> {
    live_app(connection, app)?;
    let tag = audience.tag.as_deref();
    match &audience.target {
        Target::Platforms(platforms) => platforms
            .iter()
            .map(|platform| match tag {
                None => whole_platform(connection, app, *platform),
                Some(tag) => tagged(connection, app, *platform, tag),
            })
            .collect(),
        Target::Devices { android, ios } => [(Platform::Android, android), (Platform::Ios, ios)]
            .into_iter()
            .filter(|(_, ids)| !ids.is_empty())
            .map(|(platform, ids)| named(connection, app, (platform, ids), tag))
            .collect(),
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

/// Named devices (B12), at most as many as one request may name.
fn named(
    connection: &Connection,
    app: AppNo,
    (platform, ids): (Platform, &[DeviceId]),
    tag: Option<&str>,
) -> Result<Reach, StoreError> {
    let mut reach = reach(platform, 0);
    for id in ids {
        let key = key_by_id(connection, app, id.as_str())?;
        let Some(key) = key.filter(|key| key.platform() == platform) else {
            reach.unknown += 1;
            continue;
        };
        let device = one_device(connection, key, tag)?;
        let is_reached = device.is_some_and(|device| device.eligible && device.address.is_some());
        *if is_reached { &mut reach.devices } else { &mut reach.excluded } += 1;
    }
    Ok(reach)
}
