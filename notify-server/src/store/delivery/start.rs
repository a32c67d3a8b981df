//! Starting due notifications: a dispatch is created for each platform of the target.

use std::collections::{BTreeMap, BTreeSet};

use notify_core::{AppId, CanaryPlan, NotificationId, OnCrash, Platform, Timestamp};

use crate::failpoint::{self, Stage};
use crate::store::app::on_crash_at;
use crate::store::delivery::settle;
use crate::store::delivery::settle::PendingDelta;
use crate::store::delivery::{canary, dispatch, page, retry, zones};
use crate::store::device::{IdLists, NamedIds, keys_by_ids};
use crate::store::sql::error::inserted;
use crate::store::sql::row::{platforms_of, unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{Connection, OptionalExtension, Type, params, seq_of};
use crate::store::{
    Agenda, AppNo, AudienceDevice, AudienceSource, DeliveryChange, DeviceKey, Dispatch, DispatchNo,
    NotificationNo, OpenedDispatch, Opening, Operation, PageClaim, Portion, StartDue, StartHook,
    StartInAccept, Started, StoreError, UserNo, erased_ids, platform_code, user,
};

/// A notification that is due.
pub(super) struct DueNotification {
    pub(super) no: NotificationNo,
    pub(super) app: AppNo,
    pub(super) platforms: i64,
    /// The body of the request in JSON, if it names devices; `None` if the target is whole
    /// platforms.
    pub(super) naming_request: Option<String>,
    /// The last device sequence of the audience.
    pub(super) audience: i64,
    pub(super) due_at: Timestamp,
    /// Whether the notification is paused: its audience is fixed, and nothing is sent.
    pub(super) is_paused: bool,
    /// The canary of the notification.
    pub(super) canary: Option<CanaryPlan>,
}

impl DueNotification {
    /// The notification without the ids of devices and users that were erased since it was accepted.
    pub(super) fn without_erased(self, tx: &Connection) -> Result<Self, StoreError> {
        let Some(request) = self.naming_request else { return Ok(self) };
        let request = erased_ids::without_erased(tx, self.app, self.no, request)?;
        Ok(Self { naming_request: Some(request), ..self })
    }
}

/// The data for rendering a dispatch to a single device.
struct Rendering {
    id: String,
    app_id: AppId,
    app_name: String,
    on_crash: OnCrash,
    request: String,
    tag: Option<String>,
    ttl_seconds: u32,
}

/// The audience of one dispatch.
pub(super) struct PlatformAudience {
    pub(super) platform: Platform,
    /// The named devices, sorted; `None` if all devices of the platform are scanned.
    pub(super) named: Option<Vec<NamedDevice>>,
    /// The number of ids in the list of this platform that name no device of the platform.
    pub(super) unknown: i64,
}

/// A device that a request names, or a device of a user that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NamedDevice {
    pub(super) key: DeviceKey,
    /// The named user.
    pub(super) user: Option<UserNo>,
}

/// The audience of a request that names devices or users.
pub(super) struct Resolved {
    /// The audience on each platform.
    pub(super) parts: Vec<PlatformAudience>,
    /// The number of unknown ids in the list for any platform, or of unknown user ids.
    pub(super) unknown: i64,
    /// The named users, sorted; `None` if the request names devices.
    pub(super) users: Option<Vec<UserNo>>,
}

impl PlatformAudience {
    /// The audience of all devices of a platform.
    pub(super) fn scanned(platform: Platform) -> Self {
        Self { platform, named: None, unknown: 0 }
    }

    /// An audience of named devices, still without devices.
    pub(super) fn named(platform: Platform) -> Self {
        Self { platform, named: Some(Vec::new()), unknown: 0 }
    }
}

/// Starts due notifications in the order of their due times; notifications with the same due time
/// in the order of their acceptance.
pub(super) fn due(tx: &mut WriteTx<'_>, start_due: &StartDue) -> Result<Started, StoreError> {
    let mut started = Started::default();
    for (notification, rendering) in read_due(tx, start_due.now, start_due.limit)? {
        start_notification(tx, &notification, rendering, start_due, &mut started)?;
    }
    started.dispatches.extend(zones::due(tx, start_due.now, start_due.limit)?);
    canary::check_due(tx, start_due.now, start_due.limit)?;
    started.agenda = agenda(tx, start_due.now)?;
    Ok(started)
}

/// A start in a transaction that is not committed yet.
pub(in crate::store) struct StartInCommit {
    started: Started,
    done: Box<dyn FnOnce(Option<Started>) + Send>,
}

impl StartInCommit {
    /// Calls [`StartInAccept::done`] with the result of the start. `is_committed` is false if the
    /// commit failed or its result is unknown.
    pub(in crate::store) fn finish(self, is_committed: bool) {
        if is_committed {
            failpoint::reach(Operation::Start.as_str(), Stage::Committed);
        }
        (self.done)(is_committed.then_some(self.started));
    }
}

/// Starts the notifications that a transaction made due, in the same transaction. If the start
/// fails, the caller commits the transaction without it, and the engine starts the notifications
/// later.
pub(in crate::store) fn in_commit(
    tx: &mut WriteTx<'_>,
    hook: &StartHook,
) -> Result<Option<StartInCommit>, StoreError> {
    let Some(StartInAccept { due: start_due, done }) = hook() else { return Ok(None) };
    let started = due(tx, &start_due)?;
    failpoint::reach(Operation::Start.as_str(), Stage::Written);
    if started.agenda.next_due.is_none_or(|due| due > start_due.now) {
        tx.forget(DeliveryChange::NotificationDue);
    }
    Ok(Some(StartInCommit { started, done }))
}

/// Reads due notifications, at most `limit`. A notification that names devices and has no poll is
/// returned with the data for rendering, since it may be a notification to a single device.
fn read_due(
    tx: &Connection,
    now: Timestamp,
    limit: u32,
) -> Result<Vec<(DueNotification, Option<Rendering>)>, StoreError> {
    let notifications = tx
        .prepare_cached(concat!(
            "select n.no, n.app_no, n.platforms, case when n.names_devices = 1 then n.request end,
             coalesce(n.audience_until, a.device_sequence), n.due_at,
             n.names_devices = 1 and n.audience is null
             and not exists (select 1 from polls p where p.notification_no = n.no),
             n.id, a.id, a.name, n.tag, n.ttl_seconds, n.paused_at is not null, n.canary,
             a.on_crash,
             n.names_devices = 1 and exists (select 1 from erased_ids e where e.app_no = n.app_no)
             from notifications n indexed by notifications_due cross join apps a
             where n.status in ('scheduled', 'queued') and n.due_at <= ?1
             and a.no = n.app_no and a.status <> 'erasing' order by n.due_at, ",
            seq_of!("n.no"),
            " limit ?2"
        ))?
        .query_map([now.as_ms(), i64::from(limit)], |row| {
            let due = DueNotification {
                no: NotificationNo(row.get(0)?),
                app: AppNo(row.get(1)?),
                platforms: row.get(2)?,
                naming_request: row.get(3)?,
                audience: row.get(4)?,
                due_at: Timestamp(row.get(5)?),
                is_paused: row.get(12)?,
                canary: row.get::<Option<String>>(13)?.as_deref().and_then(canary::plan_of),
            };
            let may_be_single: bool = row.get(6)?;
            let rendering = match &due.naming_request {
                Some(request) if may_be_single => Some(Rendering {
                    id: row.get(7)?,
                    app_id: AppId(uuid_at(row, 8)?),
                    app_name: row.get(9)?,
                    request: request.clone(),
                    tag: row.get(10)?,
                    ttl_seconds: row.get(11)?,
                    on_crash: on_crash_at(row, 14)?,
                }),
                Some(_) | None => None,
            };
            Ok((due, rendering, row.get::<bool>(15)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let readable = notifications.into_iter().map(|(due, rendering, has_erasures)| {
        Ok((if has_erasures { due.without_erased(tx)? } else { due }, rendering))
    });
    readable.collect()
}

/// Reads the work that is due at `now`, and when more work becomes due.
pub(super) fn agenda(connection: &Connection, now: Timestamp) -> Result<Agenda, StoreError> {
    let lanes = retry::lanes(connection)?;
    let due_lanes = lanes.iter().filter(|lane| lane.claimable_at <= now);
    Ok(Agenda {
        next_due: next_due(connection)?,
        retry_lanes: due_lanes.map(|lane| (lane.app, lane.platform)).collect(),
        next_retry_due: lanes.iter().map(|lane| lane.claimable_at).min(),
    })
}

/// When the next notification is due. Notifications of an application that is being erased are left
/// out: they never start, so their due time would always be the next one.
fn next_due(connection: &Connection) -> Result<Option<Timestamp>, StoreError> {
    let due = connection
        .prepare_cached(
            "select n.due_at from notifications n indexed by notifications_due cross join apps a
             where n.status in ('scheduled', 'queued') and n.due_at is not null
             and a.no = n.app_no and a.status <> 'erasing' order by n.due_at limit 1",
        )?
        .query_row([], |row| row.get(0).map(Timestamp))
        .optional()?;
    let zone_due = zones::next_due(connection)?;
    let canary_due = canary::next_check(connection)?;
    Ok(due.into_iter().chain(zone_due).chain(canary_due).min())
}

/// Starts one notification. A notification to a single device is opened at once, if the caller may
/// open pages of its lane: the caller can then send without claiming a page.
fn start_notification(
    tx: &mut WriteTx<'_>,
    due: &DueNotification,
    rendering: Option<Rendering>,
    start_due: &StartDue,
    started: &mut Started,
) -> Result<(), StoreError> {
    let now = start_due.now;
    let Resolved { parts, unknown, users } = match &due.naming_request {
        None => Resolved {
            parts: platforms_of(due.platforms).into_iter().map(PlatformAudience::scanned).collect(),
            unknown: 0,
            users: None,
        },
        Some(request) => resolve_ids(tx, due, request)?,
    };
    let dispatches_each = if due.canary.is_some() { 2 } else { 1 };
    tx.prepare_cached(
        "update notifications set status = 'sending', started_at = ?2, audience_until = ?3,
         open_dispatches = ?4, unknown = ?5, named_users = ?6, canary_check_at = ?7 where no = ?1",
    )?
    .execute(params![
        due.no.0,
        now.as_ms(),
        due.audience,
        i64::try_from(parts.len() * dispatches_each).unwrap_or(i64::MAX),
        unknown,
        users.as_deref().map(bytes_of_users),
        due.canary.map(|_| canary::first_check(now).as_ms()),
    ])?;
    if parts.is_empty() {
        return settle::end(tx, due.no, false, now);
    }
    if let ([part], Some(rendering), Some(opening)) = (&parts[..], rendering, &start_due.opening)
        && let Some([NamedDevice { key, user: None }]) = part.named.as_deref()
        && !due.is_paused
        && due.canary.is_none()
        && opening.lanes.contains(&(due.app, part.platform))
        && let Some(device) = dispatch::read_device(tx, *key, rendering.tag.as_deref())?
        && device.eligible
        && device.address.is_some()
    {
        let opened = open_single(tx, due, part, rendering, opening, device, now)?;
        started.opened.push(opened);
        return Ok(());
    }
    if let Some(plan) = due.canary {
        started.dispatches.extend(canary::start(tx, due, plan, parts, now)?);
    } else {
        for part in &parts {
            let dispatch = start_dispatch(tx, due, part, Portion::All, now)?;
            started.dispatches.extend(dispatch);
        }
    }
    if due.is_paused { settle::hold(tx, due.no) } else { Ok(()) }
}

/// Writes a dispatch and returns its number. A dispatch that names no device ends at once, and is not
/// returned.
pub(super) fn start_dispatch(
    tx: &mut WriteTx<'_>,
    due: &DueNotification,
    part: &PlatformAudience,
    portion: Portion,
    now: Timestamp,
) -> Result<Option<DispatchNo>, StoreError> {
    let no = insert_dispatch(tx, due, part, portion, due.due_at)?;
    let names_no_device = part.named.as_ref().is_some_and(Vec::is_empty);
    if !names_no_device {
        return Ok(Some(no));
    }
    let delta = PendingDelta { scan_done: true, ..PendingDelta::default() };
    settle::apply_delta(tx, no, delta, now)?;
    Ok(None)
}

/// Writes a dispatch to a single device, and its only page.
fn open_single(
    tx: &Connection,
    due: &DueNotification,
    part: &PlatformAudience,
    rendering: Rendering,
    opening: &Opening,
    device: AudienceDevice,
    now: Timestamp,
) -> Result<OpenedDispatch, StoreError> {
    let from = DeviceKey::before_first(due.app, part.platform);
    let until = DeviceKey::new(due.app, part.platform, due.audience);
    let no = tx
        .prepare_insert(
            "insert into dispatches (no, notification_no, platform, named, cursor, until, unknown,
             portion, due_at, scan_done, open_pages) values (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8, 1, 1)",
        )?
        .insert(
            due.app,
            params![
                due.no.0,
                platform_code(part.platform),
                device.key.0.to_be_bytes().to_vec(),
                until.0,
                part.unknown,
                Portion::All.code(),
                due.due_at.as_ms(),
            ],
        )?;
    let dispatch = DispatchNo(inserted(no)?);
    let (instance, lease_until) = (opening.instance, opening.lease_until);
    let page = page::insert(
        tx,
        &PageClaim {
            dispatch,
            from,
            to: until,
            end: true,
            targeted: 1,
            excluded: 0,
            instance,
            lease_until,
            at: now,
        },
    )?;
    let dispatch = Dispatch {
        no: dispatch,
        notification: due.no,
        notification_id: NotificationId::new(rendering.id)
            .map_err(|_| unexpected_value(7, Type::Text))?,
        app: due.app,
        app_id: rendering.app_id,
        app_name: rendering.app_name,
        on_crash: rendering.on_crash,
        platform: part.platform,
        request: rendering.request,
        poll_public_id: None,
        poll_answers: Vec::new(),
        source: AudienceSource::Named { keys: vec![device.key], users: None, tag: rendering.tag },
        condition: None,
        cursor: until,
        until,
        scan_done: true,
        canceled: false,
        due_at: due.due_at,
        ttl_seconds: rendering.ttl_seconds,
        portion: Portion::All,
        started_at: now,
        paused_until: None,
    };
    Ok(OpenedDispatch { dispatch, page, device })
}

/// Resolves the ids of a request to device keys, and counts the unknown ids. A platform whose list
/// became empty because its devices were erased gets no dispatch.
pub(super) fn resolve_ids(
    tx: &Connection,
    due: &DueNotification,
    request: &str,
) -> Result<Resolved, StoreError> {
    let named: NamedIds = serde_json::from_str(request)?;
    if let Some(user_ids) = &named.user_ids
        && !user_ids.is_empty()
    {
        return resolve_users(tx, due, user_ids);
    }
    let IdLists { android, ios, any } = named.lists();
    let ids: Vec<&str> = android.iter().chain(&ios).chain(&any).map(String::as_str).collect();
    let keys_by_id = keys_by_ids(tx, due.app, &ids)?;
    let key_of =
        |id: &String| keys_by_id.get(id).copied().filter(|key| key.sequence() <= due.audience);
    let mut parts = BTreeMap::<Platform, (Vec<NamedDevice>, i64)>::new();
    for (platform, ids) in [(Platform::Android, &android), (Platform::Ios, &ios)] {
        for id in ids {
            let (keys, unknown) = parts.entry(platform).or_default();
            match key_of(id).filter(|key| key.platform() == platform) {
                Some(key) => keys.push(NamedDevice { key, user: None }),
                None => *unknown += 1,
            }
        }
    }
    let mut unknown = 0;
    for id in &any {
        match key_of(id) {
            Some(key) => {
                let (keys, _) = parts.entry(key.platform()).or_default();
                keys.push(NamedDevice { key, user: None });
            }
            None => unknown += 1,
        }
    }
    let parts = parts.into_iter().map(|(platform, (mut keys, unknown))| {
        keys.sort_unstable();
        PlatformAudience { platform, named: Some(keys), unknown }
    });
    Ok(Resolved { parts: parts.collect(), unknown, users: None })
}

/// Resolves the ids of users to their devices on the platforms of the target.
fn resolve_users(
    tx: &Connection,
    due: &DueNotification,
    user_ids: &[String],
) -> Result<Resolved, StoreError> {
    let ids: BTreeSet<&str> = user_ids.iter().map(String::as_str).collect();
    let numbers = user::numbers_by_id(tx, due.app, &ids.iter().copied().collect::<Vec<_>>())?;
    let mut users: Vec<UserNo> = numbers.into_values().collect();
    users.sort_unstable();
    let platforms = platforms_of(due.platforms);
    let mut parts = BTreeMap::<Platform, PlatformAudience>::new();
    for (key, user) in user::devices_of_users(tx, &users)? {
        if key.sequence() <= due.audience && platforms.contains(&key.platform()) {
            let part = parts
                .entry(key.platform())
                .or_insert_with(|| PlatformAudience::named(key.platform()));
            part.named.get_or_insert_default().push(NamedDevice { key, user: Some(user) });
        }
    }
    Ok(Resolved {
        parts: parts.into_values().collect(),
        unknown: i64::try_from(ids.len() - users.len()).unwrap_or(i64::MAX),
        users: Some(users),
    })
}

/// Writes a dispatch and returns its number.
pub(super) fn insert_dispatch(
    tx: &Connection,
    due: &DueNotification,
    part: &PlatformAudience,
    portion: Portion,
    due_at: Timestamp,
) -> Result<DispatchNo, StoreError> {
    let named = part.named.as_ref();
    let named_bytes = named.map(|devices| bytes_of_keys(devices.iter().map(|device| device.key)));
    // Either every device has a named user, or none has.
    let users: Option<Vec<UserNo>> =
        named.and_then(|devices| devices.iter().map(|device| device.user).collect());
    let users = users.filter(|users| !users.is_empty());
    let no = tx
        .prepare_insert(
            "insert into dispatches (no, notification_no, platform, named, cursor, until, unknown,
             portion, due_at, named_users) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .insert(
            due.app,
            params![
                due.no.0,
                platform_code(part.platform),
                named_bytes,
                DeviceKey::before_first(due.app, part.platform).0,
                DeviceKey::new(due.app, part.platform, due.audience).0,
                part.unknown,
                portion.code(),
                due_at.as_ms(),
                users.as_deref().map(bytes_of_users),
            ],
        )?;
    Ok(DispatchNo(inserted(no)?))
}

/// Encodes the numbers of users, 8 big-endian bytes each.
pub(in crate::store) fn bytes_of_users(users: &[UserNo]) -> Vec<u8> {
    users.iter().flat_map(|user| user.0.to_be_bytes()).collect()
}

/// Decodes the numbers of users that [`bytes_of_users`] encodes.
pub(in crate::store) fn users_of(bytes: &[u8]) -> Vec<UserNo> {
    let (users, _) = bytes.as_chunks::<8>();
    users.iter().map(|user| UserNo(i64::from_be_bytes(*user))).collect()
}

/// Encodes the keys of devices, 8 big-endian bytes each.
pub(in crate::store) fn bytes_of_keys(keys: impl Iterator<Item = DeviceKey>) -> Vec<u8> {
    keys.flat_map(|key| key.0.to_be_bytes()).collect()
}

/// Decodes the keys of devices that [`bytes_of_keys`] encodes.
pub(in crate::store) fn keys_of(bytes: &[u8]) -> Vec<DeviceKey> {
    let (keys, _) = bytes.as_chunks::<8>();
    keys.iter().map(|key| DeviceKey(i64::from_be_bytes(*key))).collect()
}
