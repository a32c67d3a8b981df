//! Counting the devices of an audience, in slices. A whole platform is counted from the device
//! counters, the devices of a tag by a bounded scan, those that meet a condition by a bounded scan or
//! from a sample, and named devices by their ids.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use notify_core::{Condition, DeviceId, Platform, Recipients, Target, Timestamp, UserId};

use crate::store::delivery::matching::{Cover, Keys, Matcher, Matching, range_of};
use crate::store::delivery::named_devices;
use crate::store::device::{count_all, count_enabled, keys_by_ids};
use crate::store::sql::row::{count_at, require_app};
use crate::store::sql::{Connection, NUMBERS, list_of, params};
use crate::store::{AppNo, DeviceKey, Reach, Reached, SEQUENCE_MAX, StoreError, UserNo, user};

/// The most devices that one count scans.
const DEVICES_SCANNED_MAX: i64 = 100_000;
/// The most devices of a tag that one slice scans.
const DEVICES_PER_SLICE_MAX: i64 = 10_000;
/// The most named devices that one slice reads.
const NAMED_PER_SLICE_MAX: usize = 2_000;
/// The most ids of devices that are counted with one short read.
const NAMED_SHORT_MAX: usize = 2_000;
/// The most ids of users whose devices are counted with one short read.
const USERS_SHORT_MAX: usize = 100;
/// The number of parts of the key range of a platform from which a sample is taken.
const SAMPLE_PARTS: i64 = 100;

/// A count that is under way.
pub(super) struct Counting {
    app: AppNo,
    recipients: Recipients,
    matching: Option<Matching>,
    /// `None` before the first slice.
    progress: Option<Progress>,
}

enum Progress {
    Platforms {
        left: VecDeque<Platform>,
        counted: Vec<Reach>,
        /// The scan of the first platform that is left; `None` before it.
        scan: Option<PlatformScan>,
    },
    Named {
        left: VecDeque<DeviceKey>,
        counted: BTreeMap<Platform, Reach>,
        unknown: u64,
    },
}

/// A scan of the devices of a platform.
struct PlatformScan {
    /// The cover of the condition.
    cover: Cover,
    stage: Stage,
    rest: Keys,
    devices: u64,
    looked_at: usize,
}

#[derive(Clone, Copy)]
enum Stage {
    /// All devices are looked at, from the first on.
    All,
    /// There are too many: those at the beginning of each part are looked at.
    Sample { part: i64, first: i64, last: i64 },
}

impl Counting {
    /// A count of the recipients of a notification. `within_days` of the condition counts from `at`.
    pub(super) fn new(
        app: AppNo,
        recipients: Recipients,
        condition: Option<Condition>,
        at: Timestamp,
    ) -> Self {
        let matching = condition.map(|condition| Matching {
            condition: Arc::new(condition),
            tag: recipients.tag.clone(),
            at,
        });
        Self { app, recipients, matching, progress: None }
    }

    /// Whether the count looks at a few devices.
    pub(super) fn is_short(&self) -> bool {
        let is_short = match &self.recipients.target {
            Target::Platforms(_) => self.recipients.tag.is_none(),
            Target::Devices { android, ios, any } => {
                android.len() + ios.len() + any.len() <= NAMED_SHORT_MAX
            }
            Target::Users { ids, .. } => ids.len() <= USERS_SHORT_MAX,
        };
        is_short && self.matching.is_none()
    }

    /// Counts without a pause.
    pub(super) fn finish(mut self, connection: &Connection) -> Result<Reached, StoreError> {
        loop {
            match self.next(connection)? {
                ControlFlow::Continue(next) => self = next,
                ControlFlow::Break(reached) => return Ok(reached),
            }
        }
    }

    /// Counts the devices of the next slice.
    pub(super) fn next(
        mut self,
        connection: &Connection,
    ) -> Result<ControlFlow<Reached, Self>, StoreError> {
        let progress = match self.progress.take() {
            Some(progress) => progress,
            None => self.begin(connection)?,
        };
        let (tag, matching) = (self.recipients.tag.as_deref(), self.matching.as_ref());
        let next = match progress {
            Progress::Platforms { mut left, mut counted, scan } => {
                let Some(platform) = left.front().copied() else {
                    return Ok(ControlFlow::Break(Reached { platforms: counted, unknown: 0 }));
                };
                let step = match (matching, tag) {
                    (Some(matching), _) => {
                        count_matching(connection, self.app, platform, matching, scan)?
                    }
                    (None, Some(tag)) => count_tagged(connection, self.app, platform, tag, scan)?,
                    (None, None) => {
                        ControlFlow::Break(count_platform(connection, self.app, platform)?)
                    }
                };
                let scan = match step {
                    ControlFlow::Continue(scan) => Some(scan),
                    ControlFlow::Break(reach) => {
                        counted.push(reach);
                        left.pop_front();
                        None
                    }
                };
                if left.is_empty() {
                    return Ok(ControlFlow::Break(Reached { platforms: counted, unknown: 0 }));
                }
                Progress::Platforms { left, counted, scan }
            }
            Progress::Named { mut left, mut counted, unknown } => {
                let keys: Vec<DeviceKey> =
                    left.drain(..left.len().min(NAMED_PER_SLICE_MAX)).collect();
                add_named(connection, self.app, &keys, tag, matching, &mut counted)?;
                if left.is_empty() {
                    let platforms = counted.into_values().collect();
                    return Ok(ControlFlow::Break(Reached { platforms, unknown }));
                }
                Progress::Named { left, counted, unknown }
            }
        };
        self.progress = Some(next);
        Ok(ControlFlow::Continue(self))
    }

    fn begin(&self, connection: &Connection) -> Result<Progress, StoreError> {
        let app = self.app;
        require_app(connection, app)?;
        match &self.recipients.target {
            Target::Platforms(platforms) => Ok(Progress::Platforms {
                left: platforms.iter().copied().collect(),
                counted: Vec::new(),
                scan: None,
            }),
            Target::Devices { android, ios, any } => find_named(connection, app, android, ios, any),
            Target::Users { ids, platforms } => {
                let names: Vec<&str> = ids.iter().map(UserId::as_str).collect();
                let numbers = user::numbers_by_id(connection, app, &names)?;
                let unknown = (ids.len() - numbers.len()) as u64;
                let users: Vec<UserNo> = numbers.into_values().collect();
                let left = user::devices_of_users(connection, &users)?
                    .into_iter()
                    .map(|(key, _)| key)
                    .filter(|key| platforms.contains(&key.platform()))
                    .collect();
                Ok(Progress::Named { left, counted: BTreeMap::new(), unknown })
            }
        }
    }
}

/// An exact count of devices, without unknown and excluded devices.
fn exact_reach(platform: Platform, devices: u64) -> Reach {
    Reach { platform, devices, is_exact: true, unknown: 0, excluded: 0 }
}

/// The range of the device keys of a platform: the key before the first, and the last.
fn key_range(app: AppNo, platform: Platform) -> (i64, i64) {
    let first = DeviceKey::before_first(app, platform);
    (first.0, DeviceKey::new(app, platform, SEQUENCE_MAX).0)
}

/// Counts the devices of a whole platform: the enabled devices from the counters, minus the devices
/// without an address, which are few and scanned.
fn count_platform(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
) -> Result<Reach, StoreError> {
    let enabled = count_enabled(connection, app, platform)?;
    let (after, last) = key_range(app, platform);
    let without_address = connection
        .prepare_cached(
            "select count(*) from (select 1 from devices indexed by devices_without_address
             where address is null and push_disabled = 0 and dead_at is null
             and key > ?1 and key <= ?2 limit ?3) found",
        )?
        .query_row([after, last, DEVICES_SCANNED_MAX], |row| count_at(row, 0))?;
    let is_exact = without_address < DEVICES_SCANNED_MAX.unsigned_abs();
    let devices = enabled.saturating_sub(without_address);
    Ok(Reach { is_exact, ..exact_reach(platform, devices) })
}

/// Counts the devices of a platform that have a tag, by scanning the index of the tag.
fn count_tagged(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    tag: &str,
    scan: Option<PlatformScan>,
) -> Result<ControlFlow<Reach, PlatformScan>, StoreError> {
    let mut scan = scan.unwrap_or_else(|| PlatformScan::of(app, platform, None));
    let (devices, scanned, last) = connection
        .prepare_cached(
            "select count(*) filter (where value = 1 and push_disabled = 0 and dead_at is null
             and address is not null), count(*), coalesce(max(key), 0) from
             (select dt.value, d.push_disabled, d.dead_at, d.address, d.key
              from tags t cross join device_tags dt cross join devices d
              where t.app_no = ?1 and t.name = ?2 and dt.tag_no = t.no
              and dt.device_key > ?3 and dt.device_key <= ?4 and d.key = dt.device_key
              order by dt.device_key limit ?5) found",
        )?
        .query_row(
            params![app.0, tag, scan.rest.after, scan.rest.to, DEVICES_PER_SLICE_MAX],
            |row| Ok((count_at(row, 0)?, row.get::<i64>(1)?, row.get::<i64>(2)?)),
        )?;
    scan.devices += devices;
    scan.looked_at += scanned.unsigned_abs() as usize;
    let is_at_end = scanned < DEVICES_PER_SLICE_MAX;
    if is_at_end || scan.looked_at >= DEVICES_SCANNED_MAX.unsigned_abs() as usize {
        return Ok(ControlFlow::Break(Reach {
            is_exact: is_at_end,
            ..exact_reach(platform, scan.devices)
        }));
    }
    scan.rest.after = last;
    Ok(ControlFlow::Continue(scan))
}

impl PlatformScan {
    /// The beginning of a scan of all devices of a platform.
    fn of(app: AppNo, platform: Platform, cover: Cover) -> Self {
        let (after, to) = key_range(app, platform);
        Self { cover, stage: Stage::All, rest: Keys { after, to }, devices: 0, looked_at: 0 }
    }
}

/// Counts the devices of a platform that meet a condition. The count is exact if at most
/// [`DEVICES_SCANNED_MAX`] devices have to be looked at. Otherwise it is estimated from a sample of so many
/// devices, spread evenly over the platform.
fn count_matching(
    connection: &Connection,
    app: AppNo,
    platform: Platform,
    matching: &Matching,
    scan: Option<PlatformScan>,
) -> Result<ControlFlow<Reach, PlatformScan>, StoreError> {
    let matcher = Matcher::new(connection, app, matching)?;
    let (after, to) = key_range(app, platform);
    let mut scan = match scan {
        Some(scan) => scan,
        None => {
            let cover = matcher.cover(Keys { after, to })?;
            PlatformScan::of(app, platform, cover)
        }
    };
    let scanned_max = DEVICES_SCANNED_MAX.unsigned_abs() as usize;
    let Stage::Sample { mut part, first, last } = scan.stage else {
        let matched = matcher.next_matches_in(&scan.cover, scan.rest, usize::MAX)?;
        scan.devices += count_reachable(connection, &matched.keys)?;
        scan.looked_at += matched.looked_at;
        scan.rest.after = matched.to;
        if scan.rest.after >= scan.rest.to {
            return Ok(ControlFlow::Break(exact_reach(platform, scan.devices)));
        }
        if scan.looked_at >= scanned_max {
            let [first, last] = ends_of(connection, after, to)?;
            scan.stage = Stage::Sample { part: 0, first, last };
            (scan.devices, scan.looked_at) = (0, 0);
        }
        return Ok(ControlFlow::Continue(scan));
    };
    let step = (last - first) / SAMPLE_PARTS + 1;
    let per_part = scanned_max / SAMPLE_PARTS.unsigned_abs() as usize;
    let mut in_slice = 0;
    while part < SAMPLE_PARTS && in_slice < matcher.keys_per_batch() {
        let begin = first - 1 + part * step;
        let keys = Keys { after: begin, to: (begin + step).min(last) };
        let sampled = matcher.sample(keys, per_part)?;
        scan.devices += count_reachable(connection, &sampled.keys)?;
        in_slice += sampled.looked_at.max(1);
        scan.looked_at += sampled.looked_at;
        part += 1;
    }
    if part < SAMPLE_PARTS {
        scan.stage = Stage::Sample { part, first, last };
        return Ok(ControlFlow::Continue(scan));
    }
    let all = count_all(connection, app, platform)?;
    let devices = (scan.devices * all).checked_div(scan.looked_at as u64).unwrap_or(0);
    Ok(ControlFlow::Break(Reach { is_exact: false, ..exact_reach(platform, devices) }))
}

/// The first and the last device of a range.
fn ends_of(connection: &Connection, after: i64, to: i64) -> Result<[i64; 2], StoreError> {
    let ends = connection
        .prepare_cached(
            "select coalesce(min(key), 0), coalesce(max(key), 0) from device_fields
             where key > ?1 and key <= ?2",
        )?
        .query_row([after, to], |row| Ok([row.get::<i64>(0)?, row.get::<i64>(1)?]))?;
    Ok(ends)
}

/// Counts those of the devices that are enabled and have an address.
fn count_reachable(connection: &Connection, keys: &[i64]) -> Result<u64, StoreError> {
    if keys.is_empty() {
        return Ok(0);
    }
    let devices = match range_of(keys) {
        Some([first, last]) => {
            let reachable = connection
                .prepare_cached(
                    "select key from devices where key >= ?1 and key <= ?2
                     and push_disabled = 0 and dead_at is null and address is not null",
                )?
                .query_map([first, last], |row| row.get::<i64>(0))?
                .collect::<Result<Vec<_>, _>>()?;
            reachable.iter().filter(|key| keys.binary_search(key).is_ok()).count() as u64
        }
        None => connection
            .prepare_cached(&format!(
                "select count(*) from devices where key in {NUMBERS}
                 and push_disabled = 0 and dead_at is null and address is not null"
            ))?
            .query_row([list_of(keys)], |row| count_at(row, 0))?,
    };
    Ok(devices)
}

/// Finds named devices. A request bounds their number.
fn find_named(
    connection: &Connection,
    app: AppNo,
    android: &[DeviceId],
    ios: &[DeviceId],
    any: &[DeviceId],
) -> Result<Progress, StoreError> {
    let ids = android.iter().chain(ios).chain(any);
    let keys_by_id = keys_by_ids(connection, app, &ids.map(DeviceId::as_str).collect::<Vec<_>>())?;
    let key_of = |id: &DeviceId| keys_by_id.get(id.as_str()).copied();
    let mut counted = BTreeMap::<Platform, Reach>::new();
    let mut left = BTreeSet::new();
    for (platform, ids) in [(Platform::Android, android), (Platform::Ios, ios)] {
        for id in ids {
            let reach_on_platform =
                counted.entry(platform).or_insert_with(|| exact_reach(platform, 0));
            match key_of(id).filter(|key| key.platform() == platform) {
                Some(key) => {
                    left.insert(key);
                }
                None => reach_on_platform.unknown += 1,
            }
        }
    }
    let mut unknown = 0;
    for id in any {
        match key_of(id) {
            Some(key) => {
                left.insert(key);
            }
            None => unknown += 1,
        }
    }
    Ok(Progress::Named { left: left.into_iter().collect(), counted, unknown })
}

/// Adds named devices to the counts of their platforms, as reached or as excluded.
fn add_named(
    connection: &Connection,
    app: AppNo,
    keys: &[DeviceKey],
    tag: Option<&str>,
    matching: Option<&Matching>,
    platforms: &mut BTreeMap<Platform, Reach>,
) -> Result<(), StoreError> {
    let devices = named_devices(connection, app, keys, tag)?;
    let numbers: Vec<i64> = devices.iter().map(|device| device.key.0).collect();
    let matches = match matching {
        Some(matching) => Matcher::new(connection, app, matching)?.which_match(&numbers)?,
        None => numbers,
    };
    for device in devices {
        let platform = device.key.platform();
        let reach_on_platform =
            platforms.entry(platform).or_insert_with(|| exact_reach(platform, 0));
        let is_reached = device.eligible
            && device.address.is_some()
            && matches.binary_search(&device.key.0).is_ok();
        if is_reached {
            reach_on_platform.devices += 1;
        } else {
            reach_on_platform.excluded += 1;
        }
    }
    Ok(())
}
