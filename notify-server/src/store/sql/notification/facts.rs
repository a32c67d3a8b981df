//! Reading what is known of one device and one notification (B38).

use notify_core::{DeviceId, NotificationId, NotificationStatus, Platform, Timestamp};

use super::super::delivery::{covering, read_dispatch, settled_of};
use super::super::device::Named;
use super::super::row::{live_app, platforms_of, unknown_value};
use crate::channel::service_of;
use crate::store::sql::{Connection, OptionalExtension, Type, params};
use crate::store::{
    AppNo, DeliveryFacts, DeviceFacts, DeviceKey, Dispatch, DispatchNo, NotificationFacts,
    NotificationNo, Progress, Settled, Source, StoreError, platform_code,
};

/// Reads the facts; either id may name nothing.
pub(super) fn read(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
    device: &DeviceId,
) -> Result<DeliveryFacts, StoreError> {
    live_app(connection, app)?;
    let (no, notification, request) = notification(connection, app, id)?;
    let (key, mut facts) = device_of(connection, app, device)?;
    facts.has_tag = match &notification.tag {
        Some(tag) => has_tag(connection, key, tag)?,
        None => false,
    };
    // One, or one for each zone that was due.
    let dispatches = connection
        .prepare_cached("select no from dispatches where notification_no = ?1 and platform = ?2")?
        .query_map([no.0, platform_code(key.platform())], |row| row.get(0).map(DispatchNo))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut told = if zones_to_come(connection, no)? { Progress::Ahead } else { Progress::None };
    let mut is_listed = false;
    for no in dispatches {
        let dispatch = read_dispatch(connection, no)?;
        let on_list = match &dispatch.source {
            Source::Named { keys, .. } => keys.binary_search(&key).is_ok(),
            Source::Platform | Source::Tag(_) => false,
        };
        is_listed |= on_list;
        let here = progress(connection, &dispatch, (key, on_list))?;
        if weight(&here) > weight(&told) {
            told = here;
        }
    }
    facts.is_named = match &request {
        Some(request) => is_listed || names(request, device, key)?,
        None => false,
    };
    Ok(DeliveryFacts { notification, device: facts, progress: told })
}

/// Which of several zones tells most of a device.
fn weight(progress: &Progress) -> u8 {
    match progress {
        Progress::None => 0,
        Progress::RegisteredLater => 1,
        Progress::PassedOver => 2,
        Progress::Ahead => 3,
        Progress::InOpenPage => 4,
        Progress::Retrying { .. } => 5,
        Progress::Settled { .. } => 6,
    }
}

/// Whether zones of the notification are still to come (B19).
fn zones_to_come(connection: &Connection, no: NotificationNo) -> Result<bool, StoreError> {
    let to_come = connection
        .prepare_cached(
            "select 1 from notifications where no = ?1 and status = 'sending'
             and next_zone_at is not null",
        )?
        .exists([no.0])?;
    Ok(to_come)
}

fn notification(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<(NotificationNo, NotificationFacts, Option<String>), StoreError> {
    connection
        .prepare_cached(
            "select no, status, created_at, due_at, started_at, cancel_requested_at, platforms,
             names_devices, tag, case when names_devices = 1 then request end, local_time
             from notifications where app_no = ?1 and id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let status: String = row.get(1)?;
            let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
            let local_time = time(10)?;
            let facts = NotificationFacts {
                status: NotificationStatus::from_word(&status)
                    .ok_or_else(|| unknown_value(1, Type::Text))?,
                created_at: Timestamp(row.get(2)?),
                due_at: if local_time.is_some() { None } else { time(3)? },
                started_at: time(4)?,
                cancel_requested_at: time(5)?,
                platforms: platforms_of(row.get(6)?),
                names_devices: row.get(7)?,
                tag: row.get(8)?,
                local_time,
            };
            Ok((NotificationNo(row.get(0)?), facts, row.get(9)?))
        })
        .optional()?
        .ok_or(StoreError::NotFound)
}

fn device_of(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
) -> Result<(DeviceKey, DeviceFacts), StoreError> {
    connection
        .prepare_cached(
            "select key, push_disabled, dead_reason, dead_at, address, moved_at,
             created_at, utc_offset_minutes from devices where app_no = ?1 and device_id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let key = DeviceKey(row.get(0)?);
            let dead_at = row.get::<Option<i64>>(3)?.map(Timestamp);
            let address: Option<String> = row.get(4)?;
            let facts = DeviceFacts {
                platform: key.platform(),
                is_named: false,
                has_tag: false,
                push_disabled: row.get(1)?,
                dead: row.get::<Option<String>>(2)?.zip(dead_at),
                has_address: address.is_some(),
                service: address
                    .filter(|_| key.platform() == Platform::Web)
                    .map(|endpoint| service_of(&endpoint).into_owned()),
                moved_at: row.get::<Option<i64>>(5)?.map(Timestamp),
                created_at: Timestamp(row.get(6)?),
                utc_offset_minutes: row.get(7)?,
            };
            Ok((key, facts))
        })
        .optional()?
        .ok_or(StoreError::NotFound)
}

/// Whether a device has a tag set to true.
fn has_tag(connection: &Connection, key: DeviceKey, tag: &str) -> Result<bool, StoreError> {
    let has = connection
        .prepare_cached(
            "select 1 from tags t cross join device_tags dt
             where t.app_no = ?1 and t.name = ?2
             and dt.tag_no = t.no and dt.device_key = ?3 and dt.value = 1",
        )?
        .exists(params![key.app().0, tag, key.0])?;
    Ok(has)
}

/// Whether a request names the device, on its platform or on any (B64).
fn names(request: &str, device: &DeviceId, key: DeviceKey) -> Result<bool, StoreError> {
    use notify_core::Platform;
    let named: Named = serde_json::from_str(request)?;
    let of_platform = match key.platform() {
        Platform::Android => named.android_device_ids,
        Platform::Ios => named.ios_device_ids,
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => None,
    };
    let mut ids = of_platform.iter().chain(&named.device_ids).flatten();
    Ok(ids.any(|id| id == device.as_str()))
}

/// How far a dispatch has come with a device: by its own row, its page or the cursor, never by its
/// sequence alone.
fn progress(
    connection: &Connection,
    dispatch: &Dispatch,
    (key, is_named): (DeviceKey, bool),
) -> Result<Progress, StoreError> {
    if let Some(retried) = retried(connection, dispatch.no, key)? {
        return Ok(retried);
    }
    if key > dispatch.until {
        return Ok(Progress::RegisteredLater);
    }
    if matches!(dispatch.source, Source::Named { .. }) && !is_named {
        return Ok(Progress::None);
    }
    let Some((page, from, is_finished)) = covering(connection, dispatch.no, key)? else {
        let is_ahead = !dispatch.scan_done && key > dispatch.cursor;
        return Ok(if is_ahead { Progress::Ahead } else { Progress::PassedOver });
    };
    let mut settled = settled_of(connection, page, from)?.into_iter();
    Ok(match settled.find(|(outcome, _)| outcome.key == key) {
        Some((outcome, at)) => Progress::Settled {
            settled: outcome.settled,
            reason: outcome.reason.map(std::borrow::Cow::into_owned),
            attempts: outcome.attempts,
            first_attempt_at: None,
            at,
        },
        None if is_finished => Progress::PassedOver,
        None => Progress::InOpenPage,
    })
}

fn retried(
    connection: &Connection,
    dispatch: DispatchNo,
    key: DeviceKey,
) -> Result<Option<Progress>, StoreError> {
    let retried = connection
        .prepare_cached(
            "select outcome, reason, attempts, first_attempt_at, due_at,
             coalesce(settled_at, due_at)
             from retries where dispatch_no = ?1 and device_key = ?2",
        )?
        .query_row([dispatch.0, key.0], |row| {
            let (reason, attempts) = (row.get(1)?, row.get(2)?);
            let first_attempt_at = Timestamp(row.get(3)?);
            let Some(code) = row.get::<Option<u8>>(0)? else {
                let due_at = Timestamp(row.get(4)?);
                return Ok(Progress::Retrying { attempts, first_attempt_at, reason, due_at });
            };
            Ok(Progress::Settled {
                settled: Settled::from_code(code).ok_or_else(|| unknown_value(0, Type::Integer))?,
                reason,
                attempts,
                first_attempt_at: Some(first_attempt_at),
                at: Timestamp(row.get(5)?),
            })
        })
        .optional()?;
    Ok(retried)
}
