//! Which users a notification reached. Its users and their devices are fixed when it becomes due.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use notify_core::{NotificationId, NotificationUser, UserCounts, UserId, UserState};

use crate::store::delivery::decode_outcomes;
use crate::store::delivery::start::{bytes_of_users, keys_of, users_of};
use crate::store::device::NamedIds;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::internal;
use crate::store::sql::row::require_app;
use crate::store::sql::{self, Connection, NUMBERS, list_of, params};
use crate::store::{
    AppNo, DeviceKey, NotificationNo, Outcome, Page, PageRequest, StoreError, UserNo, erased_ids,
    user,
};

/// A notification that names users.
struct Notification {
    no: NotificationNo,
    app: AppNo,
    /// The ids in the request, without duplicates and without those of erased users.
    ids: BTreeSet<String>,
    /// The users that the ids named when the notification became due, sorted; `None` before.
    users: Option<Vec<UserNo>>,
    /// The number of ids that were unknown then.
    unknown: u64,
    /// The users that it reached, once the outcomes are deleted.
    reached: Option<Vec<UserNo>>,
    has_ended: bool,
    /// Whether dispatches for other zones follow.
    has_later_zones: bool,
}

/// The state of a user, and the number of devices.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    devices: u64,
    is_reached: bool,
    is_pending: bool,
}

impl Progress {
    fn state(self) -> UserState {
        if self.is_reached {
            UserState::Reached
        } else if self.is_pending {
            UserState::Pending
        } else {
            UserState::Unreached
        }
    }
}

/// Counts the users of notifications by state. The key is the number of the notification. Notifications that
/// name no users are left out.
pub(in crate::store) fn counts(
    connection: &Connection,
    numbers: &[i64],
) -> Result<HashMap<i64, UserCounts>, StoreError> {
    let notifications = read(connection, numbers)?;
    let mut progress = progress_of(connection, &notifications)?;
    let counts = notifications.iter().map(|notification| {
        let no = notification.no.0;
        (no, count(notification, progress.remove(&no).flatten()))
    });
    Ok(counts.collect())
}

fn count(notification: &Notification, progress: Option<UserProgress>) -> UserCounts {
    let Some(progress) = progress else {
        let pending = notification.ids.len() as u64;
        return UserCounts { named: pending, pending, ..UserCounts::default() };
    };
    let mut counts = UserCounts { unknown: notification.unknown, ..UserCounts::default() };
    for progress in progress.values() {
        match progress.state() {
            UserState::Reached => counts.reached += 1,
            UserState::Unreached => counts.unreached += 1,
            UserState::Pending => counts.pending += 1,
            UserState::Unknown => counts.unknown += 1,
        }
    }
    counts.named = counts.reached + counts.unreached + counts.pending + counts.unknown;
    counts
}

/// Lists the users of a notification: first those that exist, in the order of their creation, then
/// the unknown ids.
pub(super) fn list(
    connection: &Connection,
    app: AppNo,
    id: &NotificationId,
    state: Option<UserState>,
    page: &PageRequest,
) -> Result<Page<NotificationUser>, StoreError> {
    require_app(connection, app)?;
    let no = super::number_of(connection, app, id)?.ok_or(StoreError::NotFound)?;
    let cursors = CursorCodec { list: "notification_users", owner: no.0 };
    let after = cursors.decode_number(page)?.unwrap_or(-1);
    let notifications = read(connection, &[no.0])?;
    let Some(notification) = notifications.first() else {
        return Ok(Page { rows: Vec::new(), next: None });
    };
    let progress = progress_of(connection, &notifications)?.remove(&no.0).flatten();
    let listed = notification.list(connection, progress)?;
    let wanted = usize::try_from(rows_wanted(page)).unwrap_or(usize::MAX);
    let rows = (0_i64..)
        .zip(listed)
        .filter(|(place, row)| *place > after && state.is_none_or(|state| state == row.state))
        .take(wanted)
        .collect();
    Ok(cursors.page(rows, page))
}

/// Stores which users a notification reached, before its outcomes are deleted.
pub(in crate::store) fn keep_reached(
    tx: &Connection,
    no: NotificationNo,
) -> Result<(), StoreError> {
    let notifications = read(tx, &[no.0])?;
    if notifications.first().is_none_or(|notification| notification.reached.is_some()) {
        return Ok(());
    }
    let progress = progress_of(tx, &notifications)?.remove(&no.0).flatten().unwrap_or_default();
    let reached = progress.into_iter().filter(|(_, progress)| progress.is_reached);
    let reached: Vec<UserNo> = reached.map(|(user, _)| user).collect();
    tx.prepare_cached("update notifications set reached_users = ?2 where no = ?1")?
        .execute(params![no.0, bytes_of_users(&reached)])?;
    Ok(())
}

/// Reads those of the notifications that name users.
fn read(connection: &Connection, numbers: &[i64]) -> Result<Vec<Notification>, StoreError> {
    let rows = connection
        .prepare_cached(&format!(
            "select no, app_no, request, named_users, unknown, reached_users,
             status in ('completed', 'canceled'), next_zone_at is not null
             from notifications where no in {NUMBERS} and names_devices = 1"
        ))?
        .query_map([list_of(numbers)], |row| {
            let users: Option<Vec<u8>> = row.get(3)?;
            let reached: Option<Vec<u8>> = row.get(5)?;
            let notification = Notification {
                no: NotificationNo(row.get(0)?),
                app: AppNo(row.get(1)?),
                ids: BTreeSet::new(),
                users: users.as_deref().map(users_of),
                unknown: row.get::<i64>(4)?.unsigned_abs(),
                reached: reached.as_deref().map(users_of),
                has_ended: row.get(6)?,
                has_later_zones: row.get(7)?,
            };
            Ok((notification, row.get::<String>(2)?))
        })?
        .collect::<sql::Result<Vec<_>>>()?;
    // All notifications are of one application.
    let has_erasures = match rows.first() {
        Some((notification, _)) => erased_ids::are_pending(connection, notification.app)?,
        None => false,
    };
    let mut notifications = Vec::new();
    for (notification, mut request) in rows {
        if has_erasures {
            let Notification { app, no, .. } = notification;
            request = erased_ids::without_erased(connection, app, no, request)?;
        }
        let named: NamedIds = serde_json::from_str(&request)?;
        if let Some(ids) = named.user_ids {
            notifications.push(Notification { ids: ids.into_iter().collect(), ..notification });
        }
    }
    Ok(notifications)
}

/// The progress of each user of a notification.
type UserProgress = BTreeMap<UserNo, Progress>;

/// The progress of the users of notifications, by the number of the notification; `None` if the
/// notification has not become due. The number of statements does not depend on the number of
/// notifications.
fn progress_of(
    connection: &Connection,
    notifications: &[Notification],
) -> Result<HashMap<i64, Option<UserProgress>>, StoreError> {
    let mut progress_by_no: HashMap<i64, Option<UserProgress>> = notifications
        .iter()
        .map(|notification| (notification.no.0, notification.begin()))
        .collect();
    let numbers: Vec<i64> = notifications.iter().map(|notification| notification.no.0).collect();
    for dispatch in read_dispatches(connection, &numbers)? {
        let notification = notifications.iter().find(|one| one.no == dispatch.notification);
        let progress = progress_by_no.get_mut(&dispatch.notification.0).and_then(Option::as_mut);
        let (Some(notification), Some(progress)) = (notification, progress) else { continue };
        for (key, owner) in dispatch.keys.iter().zip(&dispatch.users) {
            let progress = progress.entry(*owner).or_default();
            progress.devices += 1;
            progress.is_reached |= dispatch.sent.contains(key);
            progress.is_pending |= !notification.has_ended && dispatch.is_pending(*key);
        }
    }
    for notification in notifications {
        let Some(Some(progress)) = progress_by_no.get_mut(&notification.no.0) else { continue };
        for user in notification.reached.iter().flatten() {
            progress.entry(*user).or_default().is_reached = true;
        }
    }
    Ok(progress_by_no)
}

impl Notification {
    /// The progress of each user before any delivery; `None` if the notification has not become due.
    fn begin(&self) -> Option<UserProgress> {
        let Some(users) = &self.users else {
            // It was canceled before it became due, so its users were never fixed.
            return self.has_ended.then(BTreeMap::new);
        };
        let is_pending = self.has_later_zones && !self.has_ended;
        let progress = Progress { is_pending, ..Progress::default() };
        Some(users.iter().map(|user| (*user, progress)).collect())
    }

    fn list(
        &self,
        connection: &Connection,
        progress: Option<UserProgress>,
    ) -> Result<Vec<NotificationUser>, StoreError> {
        let mut listed = Vec::new();
        let ids: Vec<&str> = self.ids.iter().map(String::as_str).collect();
        let Some(progress) = progress else {
            for id in ids {
                let user_id = Some(UserId::new(id).map_err(internal)?);
                listed.push(NotificationUser { user_id, state: UserState::Pending, devices: 0 });
            }
            return Ok(listed);
        };
        let numbers: Vec<i64> = progress.keys().map(|user| user.0).collect();
        let mut known_ids = connection
            .prepare_cached(&format!("select no, user_id from users where no in {NUMBERS}"))?
            .query_map([list_of(&numbers)], |row| Ok((UserNo(row.get(0)?), row.get(1)?)))?
            .collect::<Result<HashMap<UserNo, String>, _>>()?;
        let current = user::numbers_by_id(connection, self.app, &ids)?;
        for id in ids {
            // A user who was created since then is a different user.
            let is_known = current.get(id).is_some_and(|user| progress.contains_key(user));
            if !is_known {
                let user_id = Some(UserId::new(id).map_err(internal)?);
                listed.push(NotificationUser { user_id, state: UserState::Unknown, devices: 0 });
            }
        }
        let known = progress.into_iter().map(|(user, progress)| {
            let id = known_ids.remove(&user).map(UserId::new).transpose().map_err(internal)?;
            let (state, devices) = (progress.state(), progress.devices);
            Ok(NotificationUser { user_id: id, state, devices })
        });
        let mut all = known.collect::<Result<Vec<_>, StoreError>>()?;
        all.append(&mut listed);
        Ok(all)
    }
}

/// A dispatch to the devices of users, and the outcomes of these devices so far.
struct UserDispatch {
    notification: NotificationNo,
    /// The devices, and the user of each.
    keys: Vec<DeviceKey>,
    users: Vec<UserNo>,
    cursor: DeviceKey,
    scan_done: bool,
    sent: BTreeSet<DeviceKey>,
    /// The devices with an outcome.
    ended: BTreeSet<DeviceKey>,
    /// The devices with an open retry.
    retrying: BTreeSet<DeviceKey>,
    /// The key ranges `(from, to]` of the pages that are not finished.
    open_pages: Vec<(DeviceKey, DeviceKey)>,
}

/// Reads the dispatches of notifications to users.
fn read_dispatches(
    connection: &Connection,
    notifications: &[i64],
) -> Result<Vec<UserDispatch>, StoreError> {
    if notifications.is_empty() {
        return Ok(Vec::new());
    }
    let mut dispatches = connection
        .prepare_cached(&format!(
            "select no, notification_no, named, named_users, cursor, scan_done from dispatches
             where notification_no in {NUMBERS} and named_users is not null"
        ))?
        .query_map([list_of(notifications)], |row| {
            let (named, users): (Vec<u8>, Vec<u8>) = (row.get(2)?, row.get(3)?);
            let dispatch = UserDispatch {
                notification: NotificationNo(row.get(1)?),
                keys: keys_of(&named),
                users: users_of(&users),
                cursor: DeviceKey(row.get(4)?),
                scan_done: row.get(5)?,
                sent: BTreeSet::new(),
                ended: BTreeSet::new(),
                retrying: BTreeSet::new(),
                open_pages: Vec::new(),
            };
            Ok((row.get::<i64>(0)?, dispatch))
        })?
        .collect::<sql::Result<HashMap<i64, UserDispatch>>>()?;
    let numbers: Vec<i64> = dispatches.keys().copied().collect();
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    add_outcomes(connection, &numbers, &mut dispatches)?;
    let retries = connection
        .prepare_cached(&format!(
            "select dispatch_no, device_key, outcome from retries where dispatch_no in {NUMBERS}"
        ))?
        .query_map([list_of(&numbers)], |row| {
            let outcome: Option<u8> = row.get(2)?;
            Ok((row.get(0)?, DeviceKey(row.get(1)?), outcome.and_then(Outcome::from_code)))
        })?
        .collect::<sql::Result<Vec<(i64, _, _)>>>()?;
    for (no, key, outcome) in retries {
        if let Some(dispatch) = dispatches.get_mut(&no) {
            dispatch.add(key, outcome);
        }
    }
    Ok(dispatches.into_values().collect())
}

/// Adds the outcomes of the pages of dispatches.
fn add_outcomes(
    connection: &Connection,
    numbers: &[i64],
    dispatches: &mut HashMap<i64, UserDispatch>,
) -> Result<(), StoreError> {
    let pages = connection
        .prepare_cached(&format!(
            "select no, dispatch_no, from_key, to_key, finished = 0 from pages
             where dispatch_no in {NUMBERS}"
        ))?
        .query_map([list_of(numbers)], |row| {
            let keys = (DeviceKey(row.get(2)?), DeviceKey(row.get(3)?));
            Ok((row.get(0)?, (row.get::<i64>(1)?, keys, row.get::<bool>(4)?)))
        })?
        .collect::<sql::Result<HashMap<i64, _>>>()?;
    for (no, keys, is_open) in pages.values() {
        if *is_open && let Some(dispatch) = dispatches.get_mut(no) {
            dispatch.open_pages.push(*keys);
        }
    }
    let page_numbers: Vec<i64> = pages.keys().copied().collect();
    let chunks = connection
        .prepare_cached(&format!(
            "select page_no, entries from outcomes where page_no in {NUMBERS}"
        ))?
        .query_map([list_of(&page_numbers)], |row| {
            Ok((row.get::<i64>(0)?, row.get::<Vec<u8>>(1)?))
        })?
        .collect::<sql::Result<Vec<_>>>()?;
    for (page, entries) in chunks {
        let Some((no, (from, _), _)) = pages.get(&page) else { continue };
        let Some(dispatch) = dispatches.get_mut(no) else { continue };
        for outcome in decode_outcomes(*from, &entries)? {
            dispatch.add(outcome.key, Some(outcome.settled));
        }
    }
    Ok(())
}

impl UserDispatch {
    /// Adds an outcome, or an open retry.
    fn add(&mut self, key: DeviceKey, outcome: Option<Outcome>) {
        match outcome {
            None => {
                self.retrying.insert(key);
            }
            Some(outcome) => {
                self.ended.insert(key);
                if outcome == Outcome::Sent {
                    self.sent.insert(key);
                }
            }
        }
    }

    /// Whether the delivery to a device has no outcome yet.
    fn is_pending(&self, key: DeviceKey) -> bool {
        let is_open = |(from, to): &(DeviceKey, DeviceKey)| *from < key && key <= *to;
        let is_ahead = !self.scan_done && key > self.cursor;
        !self.ended.contains(&key)
            && (is_ahead || self.retrying.contains(&key) || self.open_pages.iter().any(is_open))
    }
}
