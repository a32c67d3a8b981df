//! Users: the people of an application, and the devices that they are logged in on.

use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

use notify_core::{
    AttributeChanges, DeviceId, Success, Timestamp, USERS_DEVICES_MAX, User, UserDevice, UserId,
};

use crate::store::device::erase;
use crate::store::device::{DeviceRow, by_keys, key_by_id};
use crate::store::device::{attributes, inbound};
use crate::store::erased_ids::{self, ErasedId, Kind};
use crate::store::page::{CursorCodec, PageBuilder, rows_wanted};
use crate::store::sql::error::{inserted, internal};
use crate::store::sql::row::require_app;
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{
    Connection, NUMBERS, OptionalExtension, TEXTS, WriteScope, list_of, params,
};
use crate::store::{
    AppNo, DeliveryChange, DeviceKey, Operation, Page, PageRequest, Store, StoreError, UserNo,
    idempotency,
};

/// A user, apart from later users of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UserIdentity {
    /// Internal number. No later user gets the same one, unless the database is restored from a backup.
    pub no: UserNo,
    /// When the user was created.
    pub created_at: Timestamp,
}

impl Store {
    /// Identifies a user, who is created if it does not exist.
    pub async fn identify_user(
        &self,
        app: AppNo,
        id: UserId,
        at: Timestamp,
    ) -> Result<UserIdentity, StoreError> {
        let known = id.clone();
        let known = self
            .read(move |connection| {
                require_app(connection, app)?;
                identity_of(connection, app, &known)
            })
            .await?;
        if let Some(known) = known {
            return Ok(known);
        }
        self.write_to(WriteScope::app(app), Operation::CreateUser, move |tx| {
            require_app(tx, app)?;
            number_or_insert(tx, app, &id, at)?;
            identity_of(tx, app, &id)?
                .ok_or_else(|| internal("a user that was just created is gone"))
        })
        .await
    }

    /// Logs a device in as a user who was identified earlier. A user who does not exist any more is refused
    /// with the path `user_token`, also if there is a later user of the same id.
    pub async fn log_in_as(
        &self,
        app: AppNo,
        device: DeviceId,
        user: UserIdentity,
        at: Timestamp,
    ) -> Result<Success, StoreError> {
        self.write_to(WriteScope::app(app), Operation::LogIn, move |tx| {
            require_app(tx, app)?;
            let id = tx
                .prepare_cached(
                    "select user_id from users where no = ?1 and app_no = ?2 and created_at = ?3",
                )?
                .query_row([user.no.0, app.0, user.created_at.as_ms()], |row| row.get::<String>(0))
                .optional()?;
            let Some(id) = id else {
                return Err(StoreError::refused("user_token", INVALID_USER_TOKEN));
            };
            let key = key_by_id(tx, app, device.as_str())?.ok_or(StoreError::NotFound)?;
            log_in(tx, key, &UserId::new(id).map_err(internal)?, at)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Logs a device in as a user, who is created if it does not exist. Another user of the device is
    /// logged out.
    pub async fn log_in(
        &self,
        app: AppNo,
        device: DeviceId,
        user: UserId,
        at: Timestamp,
    ) -> Result<Success, StoreError> {
        self.write_to(WriteScope::app(app), Operation::LogIn, move |tx| {
            require_app(tx, app)?;
            let key = key_by_id(tx, app, device.as_str())?.ok_or(StoreError::NotFound)?;
            log_in(tx, key, &user, at)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Logs a device out. Does nothing if no user is logged in.
    pub async fn log_out(&self, app: AppNo, device: DeviceId) -> Result<Success, StoreError> {
        self.write_to(WriteScope::app(app), Operation::LogOut, move |tx| {
            require_app(tx, app)?;
            let key = key_by_id(tx, app, device.as_str())?.ok_or(StoreError::NotFound)?;
            log_out(tx, key)?;
            Ok(Success { success: true })
        })
        .await
    }

    /// Changes the attributes of a user, who is created if it does not exist.
    pub async fn change_user(
        &self,
        app: AppNo,
        id: UserId,
        changes: AttributeChanges,
        at: Timestamp,
    ) -> Result<User, StoreError> {
        self.write_to(WriteScope::app(app), Operation::ChangeUser, move |tx| {
            require_app(tx, app)?;
            let user = number_or_insert(tx, app, &id, at)?;
            tx.prepare_cached("update users set updated_at = max(updated_at, ?2) where no = ?1")?
                .execute([user.0, at.as_ms()])?;
            attributes::change_of_user(tx, app, user, &changes)?;
            read(tx, app, &id)
        })
        .await
    }

    /// Reads a user.
    pub async fn user(&self, app: AppNo, id: UserId) -> Result<User, StoreError> {
        self.read(move |connection| {
            require_app(connection, app)?;
            read(connection, app, &id)
        })
        .await
    }

    /// Lists users in the order of their creation.
    pub async fn list_users(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<User>, StoreError> {
        self.read_in_slices(None, move |connection, listing: Option<Listing>| {
            let listing = match listing {
                Some(listing) => listing,
                None => Listing::begin(connection, app, &page)?,
            };
            Ok(listing.next(connection)?.map_continue(Some))
        })
        .await
    }

    /// Erases a user. Its devices are erased too, or logged out if `keep_devices` is set. From then on, no
    /// stored request shows the ids of the user and of the erased devices.
    pub async fn delete_user(
        &self,
        app: AppNo,
        id: UserId,
        keep_devices: bool,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        self.write_to(WriteScope::app(app), Operation::DeleteUser, move |tx| {
            require_app(tx, app)?;
            let user = number_of(tx, app, &id)?.ok_or(StoreError::NotFound)?;
            let id = id.to_string();
            let mut ids = vec![ErasedId { kind: Kind::User, id, unnamed_to: 0 }];
            for row in rows_of(tx, user)? {
                if keep_devices {
                    log_out(tx, row.key)?;
                } else {
                    ids.push(erase::erase_row(tx, &row, at)?);
                }
            }
            for sql in [
                "delete from user_attributes where user_no = ?1",
                "delete from users where no = ?1",
            ] {
                tx.prepare_cached(sql)?.execute([user.0])?;
            }
            erased_ids::remove(tx, app, ids, at)
        })
        .await
    }
}

/// The violated rule of a user token that is not valid, of which a user who was erased is one case.
pub(crate) const INVALID_USER_TOKEN: &str = "is not a valid token of this application";

fn identity_of(
    connection: &Connection,
    app: AppNo,
    id: &UserId,
) -> Result<Option<UserIdentity>, StoreError> {
    let identity = connection
        .prepare_cached("select no, created_at from users where app_no = ?1 and user_id = ?2")?
        .query_row(params![app.0, id.as_str()], |row| {
            Ok(UserIdentity { no: UserNo(row.get(0)?), created_at: Timestamp(row.get(1)?) })
        })
        .optional()?;
    Ok(identity)
}

/// Logs a device in as a user.
pub(super) fn log_in(
    tx: &mut WriteTx<'_>,
    key: DeviceKey,
    id: &UserId,
    at: Timestamp,
) -> Result<(), StoreError> {
    let user = number_or_insert(tx, key.app(), id, at)?;
    if user_of(tx, key)? == Some(user) {
        return Ok(());
    }
    attributes::remove_copies(tx, key)?;
    inbound::clear_anonymous(tx, key)?;
    set_user(tx, key, Some(user))?;
    attributes::copy_to_device(tx, user, key)?;
    if devices_of(tx, user)?.len() > USERS_DEVICES_MAX {
        let rows = rows_of(tx, user)?;
        let others = rows.iter().filter(|row| row.key != key);
        let oldest = others.min_by_key(|row| (row.enabled(), row.registered_at, row.key));
        oldest.map_or(Ok(()), |row| log_out(tx, row.key))?;
    }
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

/// Logs a device out.
fn log_out(tx: &mut WriteTx<'_>, key: DeviceKey) -> Result<(), StoreError> {
    if user_of(tx, key)?.is_none() {
        return Ok(());
    }
    attributes::remove_copies(tx, key)?;
    set_user(tx, key, None)?;
    tx.changed(DeliveryChange::Device(key));
    Ok(())
}

fn set_user(tx: &Connection, key: DeviceKey, user: Option<UserNo>) -> Result<(), StoreError> {
    // The stored preview of a message to the device shows attributes of its former user.
    idempotency::forget_device_with_key(tx, key)?;
    tx.prepare_cached("update device_fields set user_no = ?2 where key = ?1")?
        .execute(params![key.0, user.map(|user| user.0)])?;
    Ok(())
}

/// Reads the user of a device.
pub(super) fn user_of(
    connection: &Connection,
    key: DeviceKey,
) -> Result<Option<UserNo>, StoreError> {
    let user = connection
        .prepare_cached("select user_no from device_fields where key = ?1")?
        .query_row([key.0], |row| row.get::<Option<i64>>(0))
        .optional()?;
    Ok(user.flatten().map(UserNo))
}

/// Reads the id of a user; `None` if it was erased.
pub(super) fn id_of(connection: &Connection, user: UserNo) -> Result<Option<UserId>, StoreError> {
    let id = connection
        .prepare_cached("select user_id from users where no = ?1")?
        .query_row([user.0], |row| row.get::<String>(0))
        .optional()?;
    id.map(|id| UserId::new(id).map_err(internal)).transpose()
}

/// Whether a device is logged in as a user.
pub(super) fn is_logged_in(
    connection: &Connection,
    key: DeviceKey,
    id: &UserId,
) -> Result<bool, StoreError> {
    let is_logged_in = connection
        .prepare_cached(
            "select 1 from device_fields f cross join users u
             where f.key = ?1 and u.no = f.user_no and u.user_id = ?2",
        )?
        .exists(params![key.0, id.as_str()])?;
    Ok(is_logged_in)
}

/// Reads the id of the user of each device, by device key. Devices without a user are left out.
pub(super) fn ids_by_device(
    connection: &Connection,
    keys: &[i64],
) -> Result<HashMap<i64, UserId>, StoreError> {
    let mut ids = HashMap::new();
    if keys.is_empty() {
        return Ok(ids);
    }
    let mut statement = connection.prepare_cached(&format!(
        "select f.key, u.user_id from device_fields f cross join users u
         where f.key in {NUMBERS} and u.no = f.user_no"
    ))?;
    for row in statement
        .query_map([list_of(keys)], |row| Ok((row.get::<i64>(0)?, row.get::<String>(1)?)))?
    {
        let (key, id) = row?;
        ids.insert(key, UserId::new(id).map_err(internal)?);
    }
    Ok(ids)
}

/// Reads the number of a user by its id.
pub(super) fn number_of(
    connection: &Connection,
    app: AppNo,
    id: &UserId,
) -> Result<Option<UserNo>, StoreError> {
    let no = connection
        .prepare_cached("select no from users where app_no = ?1 and user_id = ?2")?
        .query_row(params![app.0, id.as_str()], |row| row.get(0).map(UserNo))
        .optional()?;
    Ok(no)
}

/// Reads the numbers of users, by id. Unknown ids are left out.
pub(super) fn numbers_by_id(
    connection: &Connection,
    app: AppNo,
    ids: &[&str],
) -> Result<HashMap<String, UserNo>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let numbers = connection
        .prepare_cached(&format!(
            "select user_id, no from users where app_no = ?2 and user_id in {TEXTS}"
        ))?
        .query_map(params![list_of(ids), app.0], |row| Ok((row.get(0)?, UserNo(row.get(1)?))))?
        .collect::<Result<HashMap<_, _>, _>>()?;
    Ok(numbers)
}

/// Reads the devices of users, each with its user, in the order of their keys.
pub(super) fn devices_of_users(
    connection: &Connection,
    users: &[UserNo],
) -> Result<Vec<(DeviceKey, UserNo)>, StoreError> {
    if users.is_empty() {
        return Ok(Vec::new());
    }
    let numbers: Vec<i64> = users.iter().map(|user| user.0).collect();
    let devices = connection
        .prepare_cached(&format!(
            "select key, user_no from device_fields where user_no in {NUMBERS} order by key"
        ))?
        .query_map([list_of(&numbers)], |row| Ok((DeviceKey(row.get(0)?), UserNo(row.get(1)?))))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(devices)
}

fn number_or_insert(
    tx: &Connection,
    app: AppNo,
    id: &UserId,
    at: Timestamp,
) -> Result<UserNo, StoreError> {
    if let Some(user) = number_of(tx, app, id)? {
        return Ok(user);
    }
    let no = tx
        .prepare_insert(
            "insert into users (no, app_no, user_id, created_at, updated_at)
             values (?1, ?2, ?3, ?4, ?4)",
        )?
        .insert(app, params![app.0, id.as_str(), at.as_ms()])?;
    Ok(UserNo(inserted(no)?))
}

/// Reads the keys of the devices of a user, in order.
pub(super) fn devices_of(
    connection: &Connection,
    user: UserNo,
) -> Result<Vec<DeviceKey>, StoreError> {
    let keys = connection
        .prepare_cached("select key from device_fields where user_no = ?1 order by key")?
        .query_map([user.0], |row| row.get(0).map(DeviceKey))?
        .collect::<Result<Vec<_>, _>>()?;
    Ok(keys)
}

/// Reads the devices of a user, in the order of their keys.
fn rows_of(connection: &Connection, user: UserNo) -> Result<Vec<DeviceRow>, StoreError> {
    by_keys(connection, &devices_of(connection, user)?)
}

/// The most users of the first slice of a list. A user can take up to 300 KB, so the first users show whether
/// later slices may read more at once.
const USERS_AT_FIRST: usize = 64;
/// The most users of one slice of a list.
const USERS_PER_SLICE_MAX: usize = 250;

/// The columns that [`UserRow::read`] reads.
const USER_COLUMNS: &str = "no, user_id, created_at, updated_at";

struct UserRow {
    no: UserNo,
    id: String,
    created_at: Timestamp,
    updated_at: Timestamp,
}

impl UserRow {
    fn read(row: &crate::store::sql::Row<'_>) -> crate::store::sql::Result<Self> {
        Ok(Self {
            no: UserNo(row.get(0)?),
            id: row.get(1)?,
            created_at: Timestamp(row.get(2)?),
            updated_at: Timestamp(row.get(3)?),
        })
    }
}

/// Makes the users that the API shows, each with its number, in the order of `rows`. The number of statements
/// does not depend on the number of users.
fn views(connection: &Connection, rows: Vec<UserRow>) -> Result<Vec<(UserNo, User)>, StoreError> {
    let numbers: Vec<i64> = rows.iter().map(|row| row.no.0).collect();
    let mut attributes = attributes::of_users(connection, &numbers)?;
    let mut devices = user_devices(connection, &numbers)?;
    let users = rows.into_iter().map(|row| {
        let user = User {
            user_id: UserId::new(row.id).map_err(internal)?,
            attributes: attributes.remove(&row.no.0).unwrap_or_default(),
            devices: devices.remove(&row.no.0).unwrap_or_default(),
            created_at: row.created_at,
            updated_at: row.updated_at,
        };
        Ok((row.no, user))
    });
    users.collect()
}

/// Reads the devices of users as the API shows them, by user number, in the order of their keys.
fn user_devices(
    connection: &Connection,
    users: &[i64],
) -> Result<HashMap<i64, Vec<UserDevice>>, StoreError> {
    let users: Vec<UserNo> = users.iter().copied().map(UserNo).collect();
    let user_by_key: HashMap<i64, i64> = devices_of_users(connection, &users)?
        .into_iter()
        .map(|(key, user)| (key.0, user.0))
        .collect();
    let mut devices = HashMap::<i64, Vec<UserDevice>>::new();
    if user_by_key.is_empty() {
        return Ok(devices);
    }
    // Not one statement: PostgreSQL would join all devices while it takes their table for empty.
    let keys: Vec<&i64> = user_by_key.keys().collect();
    let mut statement = connection.prepare_cached(&format!(
        "select key, device_id, push_disabled = 0 and dead_at is null
         from devices where key in {NUMBERS} order by key"
    ))?;
    for row in statement.query_map([list_of(&keys)], |row| {
        Ok((row.get::<i64>(0)?, row.get::<String>(1)?, row.get::<bool>(2)?))
    })? {
        let (key, id, enabled) = row?;
        let Some(user) = user_by_key.get(&key) else { continue };
        let (device_id, platform) =
            (DeviceId::new(id).map_err(internal)?, DeviceKey(key).platform());
        devices.entry(*user).or_default().push(UserDevice { device_id, platform, enabled });
    }
    Ok(devices)
}

fn read(connection: &Connection, app: AppNo, id: &UserId) -> Result<User, StoreError> {
    let row = connection
        .prepare_cached(&format!(
            "select {USER_COLUMNS} from users where app_no = ?1 and user_id = ?2"
        ))?
        .query_row(params![app.0, id.as_str()], UserRow::read)
        .optional()?
        .ok_or(StoreError::NotFound)?;
    views(connection, vec![row])?.pop().map(|(_, user)| user).ok_or(StoreError::NotFound)
}

/// A page of users that is being read, in slices.
struct Listing {
    cursors: CursorCodec,
    page: PageBuilder<User>,
    /// The users whose devices and attributes are still to read.
    rest: VecDeque<UserRow>,
    /// The most users of the next slice.
    users_max: usize,
}

impl Listing {
    /// Finds the users of the page.
    fn begin(connection: &Connection, app: AppNo, page: &PageRequest) -> Result<Self, StoreError> {
        require_app(connection, app)?;
        let cursors = CursorCodec { list: "users", owner: app.0 };
        let after = cursors.decode_number(page)?.unwrap_or_else(|| app.key_prefix());
        let rest = connection
            .prepare_cached(&format!(
                "select {USER_COLUMNS} from users where app_no = ?1 and no > ?2 order by no limit ?3"
            ))?
            .query_map([app.0, after, rows_wanted(page)], UserRow::read)?
            .collect::<Result<_, _>>()?;
        Ok(Self { cursors, page: PageBuilder::new(page), rest, users_max: USERS_AT_FIRST })
    }

    /// Adds the users of the next slice.
    fn next(
        mut self,
        connection: &Connection,
    ) -> Result<ControlFlow<Page<User>, Self>, StoreError> {
        let slice: Vec<UserRow> = self.rest.drain(..self.rest.len().min(self.users_max)).collect();
        for (no, user) in views(connection, slice)? {
            if self.page.rows_wanted() > 0 {
                self.page.add(no.0, user)?;
            }
        }
        if self.rest.is_empty() || self.page.rows_wanted() <= 0 {
            return Ok(ControlFlow::Break(self.page.page(self.cursors)));
        }
        let may_grow = self.page.has_room_for_all();
        self.users_max = if may_grow { USERS_PER_SLICE_MAX } else { USERS_AT_FIRST };
        Ok(ControlFlow::Continue(self))
    }
}
