//! Facts about one notification and one device, from which the API explains a delivery.

use std::collections::BTreeMap;
use std::sync::Arc;

use notify_core::{
    Condition, DeviceId, NotificationId, NotificationStatus, Pause, Platform, Timestamp,
    TokenProblem,
};

use serde::de::IgnoredAny;

use crate::push_service::service_of;
use crate::store::delivery::matching::{Matcher, Matching};
use crate::store::delivery::{outcomes_of_page, page_containing, read_dispatch};
use crate::store::device::NamedIds;
use crate::store::sql::row::{platforms_of, require_app, unexpected_value};
use crate::store::sql::{Connection, OptionalExtension, Type, params};
use crate::store::{
    AppNo, AudienceSource, DeviceKey, Dispatch, DispatchNo, NotificationNo, Outcome, Portion,
    StoreError, UserNo, erased_ids, platform_code, user,
};

/// The facts about one notification and one device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryFacts {
    /// The notification.
    pub notification: NotificationFacts,
    /// The device as it is now.
    pub device: DeviceFacts,
    /// The progress of the delivery.
    pub progress: DeliveryProgress,
    /// The canary, if the notification has one and has started.
    pub canary: Option<CanaryFacts>,
}

/// The canary of a notification, and whether it has a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CanaryFacts {
    /// Whether the device is in the canary.
    pub has_device: bool,
    /// Whether the canary was judged.
    pub is_judged: bool,
    /// When it is judged, at the earliest; `None` before its first check, and afterwards.
    pub judge_at: Option<Timestamp>,
}

/// The fields of a notification that decide which devices get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotificationFacts {
    /// The status.
    pub status: NotificationStatus,
    /// When the notification was accepted.
    pub created_at: Timestamp,
    /// When it is or was due; `None` for a report and for a notification at a local time.
    pub due_at: Option<Timestamp>,
    /// When sending began.
    pub started_at: Option<Timestamp>,
    /// When a request canceled it.
    pub cancel_requested_at: Option<Timestamp>,
    /// When and why it was paused, if it is paused.
    pub paused: Option<Pause>,
    /// The platforms of the target.
    pub platforms: Vec<Platform>,
    /// Whether the target names devices or users.
    pub names_devices: bool,
    /// Whether the target names users.
    pub names_users: bool,
    /// Whether devices must meet a condition.
    pub has_condition: bool,
    /// The tag that devices of the target must have.
    pub tag: Option<String>,
    /// The local time at which each device gets it, stored as if it were a time in UTC.
    pub local_time: Option<Timestamp>,
    /// The languages of its translations.
    pub languages: Vec<String>,
}

/// The fields of a device that decide what it gets, as they are now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The platform.
    pub platform: Platform,
    /// Whether the notification names the device.
    pub is_named: bool,
    /// Whether the device has the tag of the notification set to true.
    pub has_tag: bool,
    /// Whether it belonged to a named user when the notification became due, and no longer does.
    pub user_changed: bool,
    /// Whether a user is logged in on it.
    pub is_logged_in: bool,
    /// The first condition of the audience that the device does not meet, as an expression.
    pub unmet: Option<String>,
    /// Whether the user turned push off.
    pub push_disabled: bool,
    /// Why and when the device was disabled as unregistered, if it was.
    pub dead: Option<(String, Timestamp)>,
    /// Whether it has an address.
    pub has_address: bool,
    /// Why nothing can be sent to the address, if it cannot be a token of its provider.
    pub token_problem: Option<TokenProblem>,
    /// The origin of the push service of a browser; `None` on other platforms.
    pub service: Option<String>,
    /// When the device took over its address from another device, if it did.
    pub moved_at: Option<Timestamp>,
    /// When the device was first registered.
    pub created_at: Timestamp,
    /// The offset from UTC, in minutes.
    pub utc_offset_minutes: i32,
    /// The time zone as it was registered.
    pub timezone: Option<String>,
    /// The language.
    pub language: Option<String>,
}

/// The progress of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryProgress {
    /// The notification is not sent on the device's platform, or not to this device.
    None,
    /// The device was registered after the audience was fixed.
    RegisteredLater,
    /// The scan of the audience has not reached the device.
    NotReached,
    /// The device is in an open page and has no outcome.
    InOpenPage,
    /// The scan skipped the device, because nothing could be sent to it. The device has no outcome and no
    /// retry.
    Skipped,
    /// The delivery has a retry.
    Retrying {
        /// The number of attempts.
        attempts: u16,
        /// When the first attempt was made.
        first_attempt_at: Timestamp,
        /// Why the last attempt failed.
        reason: Option<String>,
        /// When the next attempt is due.
        due_at: Timestamp,
    },
    /// The delivery has ended.
    Settled {
        /// The outcome.
        outcome: Outcome,
        /// The reason, unless it was sent.
        reason: Option<String>,
        /// The number of attempts.
        attempts: u16,
        /// When the first attempt was made, if it is stored.
        first_attempt_at: Option<Timestamp>,
        /// When the outcome was committed.
        at: Timestamp,
    },
}

// Reading the facts about one notification and one device.

/// Reads the facts about one notification and one device.
///
/// # Errors
/// `NotFound` when the application, the notification or the device does not exist.
pub(super) fn read(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
    device_id: &DeviceId,
) -> Result<DeliveryFacts, StoreError> {
    require_app(connection, app)?;
    let StoredNotification { no: notification_no, facts: notification, naming_request, condition } =
        read_notification(connection, app, id)?;
    let naming_request = naming_request
        .map(|request| erased_ids::readable(connection, app, notification_no, request))
        .transpose()?;
    let (key, device_facts) = read_device(connection, app, device_id)?;
    let mut notification = notification;
    if let Some(request) = &naming_request {
        let named: NamedIds = serde_json::from_str(request)?;
        notification.names_users = named.user_ids.is_some();
    }
    let has_tag = match &notification.tag {
        Some(tag) => device_has_tag(connection, key, tag)?,
        None => false,
    };
    // A notification at a local time has a dispatch for each zone that was due, and one with a canary has
    // another for the rest.
    let dispatch_numbers = connection
        .prepare_cached("select no from dispatches where notification_no = ?1 and platform = ?2")?
        .query_map([notification_no.0, platform_code(key.platform())], |row| {
            row.get(0).map(DispatchNo)
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let mut progress = if has_later_zones(connection, notification_no)? {
        DeliveryProgress::NotReached
    } else {
        DeliveryProgress::None
    };
    let mut is_named_by_a_dispatch = false;
    let current_user = user::user_of(connection, key)?;
    let (mut user_changed, mut due_at) = (false, notification.due_at);
    let mut canary = None;
    for dispatch_no in dispatch_numbers {
        let dispatch = read_dispatch(connection, dispatch_no)?;
        if let Portion::Canary(_) = dispatch.portion {
            let has_device = dispatch.portion.may_have(notification_no, key);
            canary = Some(read_canary(connection, notification_no, has_device)?);
        }
        if !dispatch.portion.may_have(notification_no, key) {
            continue;
        }
        is_named_by_a_dispatch |= dispatch_names(&dispatch, key);
        let named_user = user_in(&dispatch, key);
        user_changed |= named_user.is_some() && named_user != current_user;
        due_at = due_at.or(Some(dispatch.due_at));
        let dispatch_progress = progress_in(connection, &dispatch, key)?;
        if rank(&dispatch_progress) > rank(&progress) {
            progress = dispatch_progress;
        }
    }
    // Before the notification starts, only its request names devices.
    let is_named = match &naming_request {
        Some(request) => {
            is_named_by_a_dispatch
                || request_names(request, device_id, key)?
                || (notification.started_at.is_none()
                    && request_names_user(connection, request, key)?)
        }
        None => false,
    };
    let unmet = match condition {
        Some(condition) => {
            let at = due_at.unwrap_or(notification.created_at);
            let matching = Matching { condition, tag: None, at };
            Matcher::new(connection, app, &matching)?.first_unmet(key)?
        }
        None => None,
    };
    let is_logged_in = current_user.is_some();
    let device =
        DeviceFacts { is_named, has_tag, user_changed, is_logged_in, unmet, ..device_facts };
    Ok(DeliveryFacts { notification, device, progress, canary })
}

fn read_canary(
    connection: &Connection,
    no: NotificationNo,
    has_device: bool,
) -> Result<CanaryFacts, StoreError> {
    let facts = connection
        .prepare_cached(
            "select canary_check_at is null, canary_judge_at from notifications where no = ?1",
        )?
        .query_row([no.0], |row| {
            Ok(CanaryFacts {
                has_device,
                is_judged: row.get(0)?,
                judge_at: row.get::<Option<i64>>(1)?.map(Timestamp),
            })
        })?;
    Ok(facts)
}

/// Whether a dispatch has a list of devices and the device is on it.
fn dispatch_names(dispatch: &Dispatch, key: DeviceKey) -> bool {
    match &dispatch.source {
        AudienceSource::Named { keys, .. } => keys.binary_search(&key).is_ok(),
        AudienceSource::Platform | AudienceSource::Tag(_) => false,
    }
}

/// The named user to whom the device belonged when the notification became due.
fn user_in(dispatch: &Dispatch, key: DeviceKey) -> Option<UserNo> {
    match &dispatch.source {
        AudienceSource::Named { keys, users: Some(users), .. } => {
            keys.binary_search(&key).ok().and_then(|place| users.get(place)).copied()
        }
        AudienceSource::Named { users: None, .. }
        | AudienceSource::Platform
        | AudienceSource::Tag(_) => None,
    }
}

/// How specific a progress is. A notification with `send_at_local` has one dispatch for each zone; the API
/// reports the progress of the device that has the highest rank.
fn rank(progress: &DeliveryProgress) -> u8 {
    match progress {
        DeliveryProgress::None => 0,
        DeliveryProgress::RegisteredLater => 1,
        DeliveryProgress::Skipped => 2,
        DeliveryProgress::NotReached => 3,
        DeliveryProgress::InOpenPage => 4,
        DeliveryProgress::Retrying { .. } => 5,
        DeliveryProgress::Settled { .. } => 6,
    }
}

/// Whether zones of the notification have not started.
fn has_later_zones(connection: &Connection, no: NotificationNo) -> Result<bool, StoreError> {
    let has_later = connection
        .prepare_cached(
            "select 1 from notifications where no = ?1 and status = 'sending'
             and next_zone_at is not null",
        )?
        .exists([no.0])?;
    Ok(has_later)
}

/// A notification as [`read_notification`] reads it.
struct StoredNotification {
    no: NotificationNo,
    facts: NotificationFacts,
    /// The body of the request in JSON, if the request names devices or users.
    naming_request: Option<String>,
    /// The condition of the audience.
    condition: Option<Arc<Condition>>,
}

fn read_notification(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
) -> Result<StoredNotification, StoreError> {
    connection
        .prepare_cached(
            "select no, status, created_at, due_at, started_at, cancel_requested_at, platforms,
             names_devices, tag, case when names_devices = 1 then request end, local_time, audience,
             request, paused_at, paused_reason
             from notifications where app_no = ?1 and id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let status: String = row.get(1)?;
            let time = |column| row.get::<Option<i64>>(column).map(|at| at.map(Timestamp));
            let local_time = time(10)?;
            let facts = NotificationFacts {
                status: status.parse().map_err(|_| unexpected_value(1, Type::Text))?,
                created_at: Timestamp(row.get(2)?),
                due_at: if local_time.is_some() { None } else { time(3)? },
                started_at: time(4)?,
                cancel_requested_at: time(5)?,
                paused: time(13)?
                    .zip(row.get::<Option<String>>(14)?)
                    .map(|(at, reason)| Pause { at, reason }),
                platforms: platforms_of(row.get(6)?),
                names_devices: row.get(7)?,
                names_users: false,
                has_condition: row.get::<Option<String>>(11)?.is_some(),
                tag: row.get(8)?,
                local_time,
                languages: languages_of(&row.get::<String>(12)?),
            };
            let condition = match row.get::<Option<String>>(11)? {
                Some(json) => {
                    let parsed = Condition::parse_stored(&json);
                    Some(Arc::new(parsed.map_err(|_| unexpected_value(11, Type::Text))?))
                }
                None => None,
            };
            Ok(StoredNotification {
                no: NotificationNo(row.get(0)?),
                facts,
                naming_request: row.get(9)?,
                condition,
            })
        })
        .optional()?
        .ok_or(StoreError::NotFound)
}

/// The languages of the translations in the body of a request. A poll has none.
fn languages_of(request: &str) -> Vec<String> {
    #[derive(serde::Deserialize)]
    struct Translated {
        translations: Option<BTreeMap<String, Option<IgnoredAny>>>,
        poll: Option<IgnoredAny>,
    }

    let Ok(Translated { translations, poll: None }) = serde_json::from_str(request) else {
        return Vec::new();
    };
    let languages = translations.into_iter().flatten();
    languages.filter_map(|(language, given)| given.map(|_| language)).collect()
}

/// Reads a device. `is_named` and `has_tag` depend on the notification; they are false here, and
/// the caller sets them.
fn read_device(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
) -> Result<(DeviceKey, DeviceFacts), StoreError> {
    connection
        .prepare_cached(
            "select d.key, d.push_disabled, d.dead_reason, d.dead_at, d.address, d.moved_at,
             d.created_at, d.utc_offset_minutes, f.language, json(d.details) ->> 'timezone'
             from devices d left join device_fields f on f.key = d.key
             where d.app_no = ?1 and d.device_id = ?2",
        )?
        .query_row(params![app.0, id.as_str()], |row| {
            let key = DeviceKey(row.get(0)?);
            let dead_at = row.get::<Option<i64>>(3)?.map(Timestamp);
            let address: Option<String> = row.get(4)?;
            let facts = DeviceFacts {
                platform: key.platform(),
                is_named: false,
                has_tag: false,
                user_changed: false,
                is_logged_in: false,
                unmet: None,
                push_disabled: row.get(1)?,
                dead: row.get::<Option<String>>(2)?.zip(dead_at),
                has_address: address.is_some(),
                token_problem: address
                    .as_deref()
                    .and_then(|address| TokenProblem::of(key.platform(), address)),
                service: address
                    .filter(|_| key.platform() == Platform::Web)
                    .map(|endpoint| service_of(&endpoint).into_owned()),
                moved_at: row.get::<Option<i64>>(5)?.map(Timestamp),
                created_at: Timestamp(row.get(6)?),
                utc_offset_minutes: row.get(7)?,
                language: row.get(8)?,
                timezone: row.get(9)?,
            };
            Ok((key, facts))
        })
        .optional()?
        .ok_or(StoreError::NotFound)
}

/// Whether a device has a tag set to true.
fn device_has_tag(connection: &Connection, key: DeviceKey, tag: &str) -> Result<bool, StoreError> {
    let has_tag = connection
        .prepare_cached(
            "select 1 from tags t cross join device_tags dt
             where t.app_no = ?1 and t.name = ?2
             and dt.tag_no = t.no and dt.device_key = ?3 and dt.value = 1",
        )?
        .exists(params![key.app().0, tag, key.0])?;
    Ok(has_tag)
}

/// Whether the body of a request names the device, in the list of its platform or in the list for
/// any platform.
fn request_names(request: &str, device: &DeviceId, key: DeviceKey) -> Result<bool, StoreError> {
    let named: NamedIds = serde_json::from_str(request)?;
    let of_platform = match key.platform() {
        Platform::Android => named.android_device_ids,
        Platform::Ios => named.ios_device_ids,
        Platform::Web | Platform::FbMessenger | Platform::ChatApp => None,
    };
    let mut ids = of_platform.iter().chain(&named.device_ids).flatten();
    Ok(ids.any(|id| id == device.as_str()))
}

/// Whether the body of a request names the user of the device.
fn request_names_user(
    connection: &Connection,
    request: &str,
    key: DeviceKey,
) -> Result<bool, StoreError> {
    let named: NamedIds = serde_json::from_str(request)?;
    let Some(user) = user::ids_by_device(connection, &[key.0])?.remove(&key.0) else {
        return Ok(false);
    };
    Ok(named.user_ids.iter().flatten().any(|id| id == user.as_str()))
}

/// The progress of a device in a dispatch. It is read from the retry or the page of the device. If
/// the device has neither, the progress follows from the position of the scan.
fn progress_in(
    connection: &Connection,
    dispatch: &Dispatch,
    key: DeviceKey,
) -> Result<DeliveryProgress, StoreError> {
    if let Some(progress) = progress_of_retry(connection, dispatch.no, key)? {
        return Ok(progress);
    }
    if key > dispatch.until {
        return Ok(DeliveryProgress::RegisteredLater);
    }
    let names_devices = matches!(dispatch.source, AudienceSource::Named { .. });
    if names_devices && !dispatch_names(dispatch, key) {
        return Ok(DeliveryProgress::None);
    }
    let Some((page, from, is_finished)) = page_containing(connection, dispatch.no, key)? else {
        let is_ahead = !dispatch.scan_done && key > dispatch.cursor;
        return Ok(if is_ahead { DeliveryProgress::NotReached } else { DeliveryProgress::Skipped });
    };
    let mut outcomes = outcomes_of_page(connection, page, from)?.into_iter();
    Ok(match outcomes.find(|(device, _)| device.key == key) {
        Some((device, at)) => DeliveryProgress::Settled {
            outcome: device.settled,
            reason: device.reason.map(std::borrow::Cow::into_owned),
            attempts: device.attempts,
            first_attempt_at: None,
            at,
        },
        None if is_finished => DeliveryProgress::Skipped,
        None => DeliveryProgress::InOpenPage,
    })
}

/// The progress of a delivery that has or had a retry.
fn progress_of_retry(
    connection: &Connection,
    dispatch: DispatchNo,
    key: DeviceKey,
) -> Result<Option<DeliveryProgress>, StoreError> {
    let progress = connection
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
                return Ok(DeliveryProgress::Retrying {
                    attempts,
                    first_attempt_at,
                    reason,
                    due_at,
                });
            };
            Ok(DeliveryProgress::Settled {
                outcome: Outcome::from_code(code)
                    .ok_or_else(|| unexpected_value(0, Type::Integer))?,
                reason,
                attempts,
                first_attempt_at: Some(first_attempt_at),
                at: Timestamp(row.get(5)?),
            })
        })
        .optional()?;
    Ok(progress)
}
