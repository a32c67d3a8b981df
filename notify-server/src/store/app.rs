//! Applications and their keys, and erasing an application.

use notify_core::{
    API_KEYS_MAX, ApiKey, App, AppChange, AppId, AppStatus, DeviceLimits, KeyGrant, KeyId,
    KeyScopes, KeyTerms, NewApp, OnCrash, Platform, SessionId, Timestamp,
};

use crate::failpoint::{self, Stage};
use crate::store::operator::insert_admin_key;
use crate::store::page::{CursorCodec, rows_wanted};
use crate::store::sql::error::inserted;
use crate::store::sql::row::{count_at, unexpected_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{
    self, Connection, OptionalExtension, Row, Type, WriteScope, begin_write_checked, params,
};
use crate::store::{
    AppNo, Change, DeviceKey, Operation, Page, PageRequest, SEQUENCE_MAX, Store, StoreError,
    erased_ids,
};

/// A key to store. The key itself is not stored, only its hash and a hint by which people recognise
/// it.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The id.
    pub id: KeyId,
    /// The SHA-256 of the key.
    pub hash: [u8; 32],
    /// The prefix and the last four characters of the key.
    pub hint: String,
    /// The name that the creator gave it.
    pub name: Option<String>,
    /// When the key was created.
    pub created_at: Timestamp,
}

/// The access of an API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AppAccess {
    /// Internal number.
    pub no: AppNo,
    /// The application.
    pub app: App,
    /// The key that was used.
    pub key: KeyId,
    /// What the key may do, and until when.
    pub terms: KeyTerms,
}

impl AppAccess {
    /// Whether requests with the key are accepted: its application is active, and it has not expired.
    #[must_use]
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.app.status == AppStatus::Active && !self.terms.has_expired(now)
    }
}

/// How long a key that expired is still listed, in milliseconds: 30 days. After that, the next new key of
/// the application removes it.
pub const EXPIRED_KEYS_LISTED_MS: i64 = 30 * 86_400_000;

/// The cursors of the list of applications.
const APPS: CursorCodec = CursorCodec { list: "apps", owner: 0 };

impl Store {
    /// Creates the first application with an API key and an admin key, if no application exists.
    /// Returns whether they were created. If two servers start at the same time, only one of them
    /// creates them.
    pub async fn bootstrap(
        &self,
        id: AppId,
        app: NewApp,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError> {
        self.write(Operation::Bootstrap, move |tx| {
            let has_apps = tx.prepare_cached("select 1 from apps limit 1")?.exists([])?;
            if has_apps {
                return Ok(false);
            }
            let no = insert_app(tx, id, &app, api_key.created_at)?;
            insert_key(tx, no, &api_key, &KeyTerms::default())?;
            insert_admin_key(tx, &admin_key)?;
            tx.prepare_cached(
                "insert into installation (no, keys_shown) values (1, 0)
                 on conflict (no) do update set keys_shown = 0",
            )?
            .execute([])?;
            Ok(true)
        })
        .await
    }

    /// Adds new keys if the keys of [`Store::bootstrap`] were not recorded as shown, because the
    /// process ended too early. Returns whether it added keys. The earlier keys stay valid, since
    /// an operator may have read them.
    pub async fn add_keys_if_unshown(
        &self,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError> {
        self.write(Operation::ReplaceUnshownKeys, move |tx| {
            let first_app: Option<i64> = tx
                .prepare_cached(
                    "select no from apps where status <> 'erasing'
                     and exists (select 1 from installation where keys_shown = 0)
                     order by no limit 1",
                )?
                .query_row([], |row| row.get(0))
                .optional()?;
            let Some(first_app) = first_app else { return Ok(false) };
            insert_key(tx, AppNo(first_app), &api_key, &KeyTerms::default())?;
            insert_admin_key(tx, &admin_key)?;
            Ok(true)
        })
        .await
    }

    /// Records that the keys of [`Store::bootstrap`] were shown, so that later starts create no
    /// more keys.
    pub async fn keys_shown(&self) -> Result<(), StoreError> {
        self.write(Operation::KeysShown, |tx| {
            tx.prepare_cached("update installation set keys_shown = 1 where keys_shown = 0")?
                .execute([])?;
            Ok(())
        })
        .await
    }

    /// Creates an application, with an API key for everything if one is given.
    pub async fn create_app(
        &self,
        id: AppId,
        app: NewApp,
        api_key: Option<NewKey>,
        at: Timestamp,
    ) -> Result<AppNo, StoreError> {
        self.write(Operation::CreateApp, move |tx| {
            let no = insert_app(tx, id, &app, at)?;
            if let Some(key) = &api_key {
                insert_key(tx, no, key, &KeyTerms::default())?;
            }
            Ok(no)
        })
        .await
    }

    /// Lists applications, oldest first.
    pub async fn list_apps(&self, page: PageRequest) -> Result<Page<App>, StoreError> {
        self.read_long(move |connection| {
            let after = APPS.decode_number(&page)?.unwrap_or(0);
            let sql = format!(
                "select {APP_COLUMNS} from apps a where a.no > ?1 and a.status <> 'erasing'
                 order by a.no limit ?2"
            );
            let rows = connection
                .prepare_cached(&sql)?
                .query_map([after, rows_wanted(&page)], |row| {
                    app_of(row).map(|(no, app)| (no.0, app))
                })?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(APPS.page(rows, &page))
        })
        .await
    }

    /// Reads an application.
    pub async fn app(&self, id: AppId) -> Result<(AppNo, App), StoreError> {
        self.read_statement(move |connection| {
            let sql = format!(
                "select {APP_COLUMNS} from apps a where a.id = ?1 and a.status <> 'erasing'"
            );
            connection
                .prepare_cached(&sql)?
                .query_row([id.0.as_bytes()], app_of)
                .optional()?
                .ok_or(StoreError::NotFound)
        })
        .await
    }

    /// Lists the applications whose ids are in a range, both ends included. The order is that of the
    /// ids.
    pub async fn apps_between(&self, first: AppId, last: AppId) -> Result<Vec<AppId>, StoreError> {
        self.read_statement(move |connection| {
            let ids = connection
                .prepare_cached(
                    "select id from apps where id between ?1 and ?2 and status <> 'erasing'
                     order by id",
                )?
                .query_map(params![first.0.as_bytes(), last.0.as_bytes()], |row| {
                    uuid_at(row, 0).map(AppId)
                })?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(ids)
        })
        .await
    }

    /// Reads the oldest applications, oldest first.
    pub async fn oldest_apps(&self, limit: u32) -> Result<Vec<(AppNo, AppId)>, StoreError> {
        self.read_statement(move |connection| {
            let apps = connection
                .prepare_cached(
                    "select no, id from apps where status <> 'erasing' order by no limit ?1",
                )?
                .query_map([limit], |row| Ok((AppNo(row.get(0)?), AppId(uuid_at(row, 1)?))))?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(apps)
        })
        .await
    }

    /// Reads the ids of applications; `None` for an application that was deleted.
    pub async fn app_ids(
        &self,
        apps: Vec<AppNo>,
    ) -> Result<Vec<(AppNo, Option<AppId>)>, StoreError> {
        self.read(move |connection| {
            let mut statement = connection.prepare_cached("select id from apps where no = ?1")?;
            apps.into_iter()
                .map(|app| {
                    let id = statement
                        .query_row([app.0], |row| uuid_at(row, 0).map(AppId))
                        .optional()?;
                    Ok((app, id))
                })
                .collect()
        })
        .await
    }

    /// Changes an application.
    pub async fn change_app(&self, id: AppId, change: AppChange) -> Result<(), StoreError> {
        self.write(Operation::ChangeApp, move |tx| {
            let no = app_no(tx, id)?;
            tx.prepare_cached(
                "update apps set name = coalesce(?2, name), language = coalesce(?3, language),
                 status = coalesce(?4, status), on_crash = coalesce(?5, on_crash) where no = ?1",
            )?
            .execute(params![
                no.0,
                change.name,
                change.language,
                change.status.map(|status| status.as_str()),
                change.on_crash.map(|on_crash| on_crash.as_str())
            ])?;
            tx.changed(Change::App(no));
            Ok(())
        })
        .await
    }

    /// Erases an application and everything that it owns, in bounded steps.
    pub async fn delete_app(&self, id: AppId) -> Result<(), StoreError> {
        // After this write the application is unknown to callers. Its rows are then deleted step by
        // step.
        let no = self
            .write(Operation::DeleteApp, move |tx| {
                let no = app_no(tx, id)?;
                tx.prepare_cached("update apps set status = 'erasing' where no = ?1")?
                    .execute([no.0])?;
                tx.changed(Change::App(no));
                Ok(no)
            })
            .await?;
        let mut has_more = true;
        while has_more {
            has_more = self.write(Operation::DeleteApp, move |tx| erase_step(tx, no)).await?;
        }
        Ok(())
    }

    /// Adds an API key to an application.
    pub async fn add_key(
        &self,
        app: AppId,
        key: NewKey,
        terms: KeyTerms,
    ) -> Result<(), StoreError> {
        self.write(Operation::AddKey, move |tx| {
            let no = app_no(tx, app)?;
            make_room(tx, no, key.created_at)?;
            insert_key(tx, no, &key, &terms)
        })
        .await
    }

    /// Adds a key with the name and the terms of an existing one, which stays valid for `overlap_ms` from
    /// the creation of the new key, unless it expires earlier. If the existing key expires, the new key
    /// lives as long as the existing one was to live.
    pub async fn rotate_key(
        &self,
        app: AppId,
        rotated: KeyId,
        key: NewKey,
        overlap_ms: i64,
    ) -> Result<(), StoreError> {
        self.write(Operation::RotateKey, move |tx| {
            let no = app_no(tx, app)?;
            let found = tx
                .prepare_cached(&format!(
                    "select k.name, k.lifetime_ms, {TERMS_COLUMNS} from api_keys k
                     where k.app_no = ?1 and k.id = ?2"
                ))?
                .query_row(params![no.0, rotated.0.as_bytes()], |row| {
                    Ok((row.get(0)?, row.get::<Option<i64>>(1)?, terms_of(row, 2)?))
                })
                .optional()?;
            let (name, lifetime_ms, terms) = found.ok_or(StoreError::NotFound)?;
            let at = key.created_at;
            let end = at.plus_ms(overlap_ms);
            let end = terms.expires_at.map_or(end, |expires_at| expires_at.min(end));
            tx.prepare_cached("update api_keys set expires_at = ?3 where app_no = ?1 and id = ?2")?
                .execute(params![no.0, rotated.0.as_bytes(), end.as_ms()])?;
            let expires_at = lifetime_ms.map(|lifetime_ms| at.plus_ms(lifetime_ms));
            make_room(tx, no, at)?;
            insert_key(tx, no, &NewKey { name, ..key }, &KeyTerms { expires_at, ..terms })?;
            tx.changed(Change::Keys);
            Ok(())
        })
        .await
    }

    /// Lists the keys of an application, oldest first.
    pub async fn list_keys(&self, app: AppId) -> Result<Vec<ApiKey>, StoreError> {
        self.read(move |connection| {
            let no = app_no(connection, app)?;
            let keys = connection
                .prepare_cached(&format!(
                    "select k.id, k.name, k.hint, k.created_at, k.last_used_at, {TERMS_COLUMNS}
                     from api_keys k where k.app_no = ?1 order by k.created_at, k.no"
                ))?
                .query_map([no.0], key_of)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(keys)
        })
        .await
    }

    /// Revokes an API key at once.
    pub async fn revoke_key(&self, app: AppId, key: KeyId) -> Result<(), StoreError> {
        self.write(Operation::RevokeKey, move |tx| {
            let no = app_no(tx, app)?;
            let revoked = tx
                .prepare_cached("delete from api_keys where app_no = ?1 and id = ?2")?
                .execute(params![no.0, key.0.as_bytes()])?;
            if revoked == 0 {
                return Err(StoreError::NotFound);
            }
            tx.changed(Change::Keys);
            Ok(())
        })
        .await
    }

    /// Finds the application of an API key by the SHA-256 of the key; `None` for an unknown key. A
    /// suspended application is found too.
    pub async fn find_app_by_key(&self, hash: [u8; 32]) -> Result<Option<AppAccess>, StoreError> {
        self.read_statement(move |connection| {
            let sql = format!(
                "select {APP_COLUMNS}, k.id, {TERMS_COLUMNS} from api_keys k join apps a on a.no = k.app_no
                 where k.hash = ?1 and a.status <> 'erasing'"
            );
            let access = connection
                .prepare_cached(&sql)?
                .query_row([hash], |row| {
                    let (no, app) = app_of(row)?;
                    Ok(AppAccess { no, app, key: KeyId(uuid_at(row, 7)?), terms: terms_of(row, 8)? })
                })
                .optional()?;
            Ok(access)
        })
        .await
    }

    /// Records when keys and sessions were last used. The caller buffers these times, so a crash may lose
    /// some. A time never decreases.
    pub async fn touch_keys(
        &self,
        keys: Vec<(KeyId, Timestamp)>,
        sessions: Vec<(SessionId, Timestamp)>,
    ) -> Result<(), StoreError> {
        self.write(Operation::TouchKeys, move |tx| {
            // A key is in one of the two tables.
            for table in ["api_keys", "admin_keys"] {
                let mut touch = tx.prepare_cached(&format!(
                    "update {table} set last_used_at = max(coalesce(last_used_at, 0), ?2)
                     where id = ?1"
                ))?;
                for (key, at) in &keys {
                    touch.execute(params![key.0.as_bytes(), at.as_ms()])?;
                }
            }
            let mut touch = tx.prepare_cached(
                "update sessions set last_used_at = max(last_used_at, ?2) where id = ?1",
            )?;
            for (session, at) in &sessions {
                touch.execute(params![session.0.as_bytes(), at.as_ms()])?;
            }
            Ok(())
        })
        .await
    }
}

/// Reads the number of an application by its id.
///
/// # Errors
/// `NotFound` when the application does not exist or is being erased.
pub(super) fn app_no(connection: &Connection, id: AppId) -> Result<AppNo, StoreError> {
    connection
        .prepare_cached("select no from apps where id = ?1 and status <> 'erasing'")?
        .query_row([id.0.as_bytes()], |row| row.get(0).map(AppNo))
        .optional()?
        .ok_or(StoreError::NotFound)
}

// Rows of applications and keys.

/// The columns that [`app_of`] reads.
const APP_COLUMNS: &str = "a.no, a.id, a.name, a.language, a.status, a.created_at, a.on_crash";

/// Reads an application from a row of [`APP_COLUMNS`].
fn app_of(row: &Row<'_>) -> sql::Result<(AppNo, App)> {
    let status: String = row.get(4)?;
    let app = App {
        id: AppId(uuid_at(row, 1)?),
        name: row.get(2)?,
        language: row.get(3)?,
        status: status.parse().map_err(|_| unexpected_value(4, Type::Text))?,
        created_at: Timestamp(row.get(5)?),
        on_crash: on_crash_at(row, 6)?,
    };
    Ok((AppNo(row.get(0)?), app))
}

/// Reads what happens to messages that a crash interrupts.
pub(super) fn on_crash_at(row: &Row<'_>, column: usize) -> sql::Result<OnCrash> {
    let text: String = row.get(column)?;
    text.parse().map_err(|_| unexpected_value(column, Type::Text))
}

fn key_of(row: &Row<'_>) -> sql::Result<ApiKey> {
    let KeyTerms { grant, expires_at } = terms_of(row, 5)?;
    let kind = grant.kind();
    let (scopes, limits) = match grant {
        KeyGrant::Api(scopes) => (scopes.to_vec(), DeviceLimits::default()),
        KeyGrant::Devices(limits) => (Vec::new(), limits),
    };
    Ok(ApiKey {
        id: KeyId(uuid_at(row, 0)?),
        name: row.get(1)?,
        hint: row.get(2)?,
        kind,
        scopes,
        allowed_tags: limits.allowed_tags,
        allowed_attributes: limits.allowed_attributes,
        expires_at,
        created_at: Timestamp(row.get(3)?),
        last_used_at: row.get::<Option<i64>>(4)?.map(Timestamp),
    })
}

/// The columns that [`terms_of`] reads.
const TERMS_COLUMNS: &str = "k.scopes, k.publishable, k.expires_at";

/// Reads what a key may do from a row of [`TERMS_COLUMNS`], which begin at the column `first`.
fn terms_of(row: &Row<'_>, first: usize) -> sql::Result<KeyTerms> {
    let (scopes, publishable): (Option<String>, Option<String>) =
        (row.get(first)?, row.get(first + 1)?);
    let grant = match (scopes, publishable) {
        (_, Some(limits)) => KeyGrant::Devices(
            serde_json::from_str(&limits).map_err(|_| unexpected_value(first + 1, Type::Text))?,
        ),
        (None, None) => KeyGrant::Api(KeyScopes::All),
        (Some(scopes), None) => KeyGrant::Api(KeyScopes::Only(
            serde_json::from_str(&scopes).map_err(|_| unexpected_value(first, Type::Text))?,
        )),
    };
    let expires_at = row.get::<Option<i64>>(first + 2)?.map(Timestamp);
    Ok(KeyTerms { grant, expires_at })
}

/// Checks that the application may have one more key. First removes the keys that expired long ago.
fn make_room(tx: &WriteTx<'_>, app: AppNo, at: Timestamp) -> Result<(), StoreError> {
    let before = at.plus_ms(-EXPIRED_KEYS_LISTED_MS);
    tx.prepare_cached("delete from api_keys where app_no = ?1 and expires_at < ?2")?
        .execute([app.0, before.as_ms()])?;
    let keys = tx
        .prepare_cached("select count(*) from api_keys where app_no = ?1")?
        .query_row([app.0], |row| count_at(row, 0))?;
    if keys >= API_KEYS_MAX {
        let what = format!("an application has at most {API_KEYS_MAX}: revoke one first");
        return Err(StoreError::refused("keys", &what));
    }
    Ok(())
}

fn insert_app(
    tx: &WriteTx<'_>,
    id: AppId,
    app: &NewApp,
    at: Timestamp,
) -> Result<AppNo, StoreError> {
    let no = tx
        .prepare_insert(
            "insert into apps (no, id, name, language, status, created_at)
             values (?1, ?2, ?3, ?4, 'active', ?5)",
        )?
        .insert_unprefixed(params![id.0.as_bytes(), app.name, app.language, at.as_ms()])?;
    inserted(no).map(AppNo)
}

fn insert_key(
    tx: &WriteTx<'_>,
    app: AppNo,
    key: &NewKey,
    terms: &KeyTerms,
) -> Result<(), StoreError> {
    let (scopes, publishable) = match &terms.grant {
        KeyGrant::Api(KeyScopes::All) => (None, None),
        KeyGrant::Api(KeyScopes::Only(scopes)) => (Some(serde_json::to_string(scopes)?), None),
        KeyGrant::Devices(limits) => (None, Some(serde_json::to_string(limits)?)),
    };
    tx.prepare_insert(
        "insert into api_keys (no, app_no, id, hash, hint, name, created_at, scopes, expires_at,
         lifetime_ms, publishable)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?
    .insert(
        app,
        params![
            app.0,
            key.id.0.as_bytes(),
            key.hash,
            key.hint,
            key.name,
            key.created_at.as_ms(),
            scopes,
            terms.expires_at.map(Timestamp::as_ms),
            terms.expires_at.map(|expires_at| expires_at.ms_since(key.created_at)),
            publishable
        ],
    )?;
    Ok(())
}

// Erasing an application. Each step deletes a bounded number of rows, so that other writes can run
// between the steps.

/// The most rows of one table that a step deletes.
const ROWS_PER_STEP: i64 = 1_000;
/// The most pages that a step deletes. A page can have a retry for each of its devices, and a few
/// chunks of outcomes.
const PAGES_PER_STEP: i64 = 10;

/// Finishes the erasures that an earlier process left unfinished.
pub(super) fn resume_erasing(connection: &Connection) -> Result<(), StoreError> {
    loop {
        let app = connection
            .prepare_cached("select no from apps where status = 'erasing' limit 1")?
            .query_row([], |row| row.get(0).map(AppNo))
            .optional()?;
        let Some(app) = app else { return Ok(()) };
        let mut has_more = true;
        while has_more {
            begin_write_checked(connection, WriteScope::Installation)?;
            has_more = erase_step(connection, app)?;
            failpoint::reach(Operation::ResumeErasing.as_str(), Stage::Written);
            connection.commit()?;
            failpoint::reach(Operation::ResumeErasing.as_str(), Stage::Committed);
        }
    }
}

/// Deletes the next rows of an application. Returns whether rows are left; false once the
/// application is deleted.
fn erase_step(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let notification = tx
        .prepare_cached("select no from notifications where app_no = ?1 order by no limit 1")?
        .query_row([app.0], |row| row.get::<i64>(0))
        .optional()?;
    if let Some(no) = notification {
        erase_notification(tx, no)?;
        return Ok(true);
    }
    for platform in Platform::ALL {
        if erase_devices(tx, app, platform)? {
            return Ok(true);
        }
    }
    if erased_ids::delete_of_app(tx, app, ROWS_PER_STEP)?
        || erase_users(tx, app)?
        || erase_responses(tx, app)?
        || erase_events(tx, app)?
        || erase_feed_items(tx, app)?
    {
        return Ok(true);
    }
    for sql in [
        "delete from tags where app_no = ?1",
        "delete from attributes where app_no = ?1",
        "delete from segments where app_no = ?1",
        "delete from device_counts where app_no = ?1",
        "delete from day_counts where app_no = ?1",
        "delete from purge_guards where app_no = ?1",
        "delete from channel_states where app_no = ?1",
        "delete from device_zones where app_no = ?1",
        "delete from campaigns where app_no = ?1",
        "delete from feeds where app_no = ?1",
        "delete from webhooks where app_no = ?1",
        "delete from event_logs where app_no = ?1",
        "delete from providers where app_no = ?1",
        "delete from web_access where app_no = ?1",
        "delete from api_keys where app_no = ?1",
        "delete from apps where no = ?1",
    ] {
        tx.prepare_cached(sql)?.execute([app.0])?;
    }
    Ok(false)
}

/// Deletes a notification, or some of its rows if it has many. Returns the number of deleted rows,
/// and whether the notification is completely deleted.
pub(super) fn erase_notification(tx: &Connection, no: i64) -> Result<(u64, bool), StoreError> {
    // Each statement deletes a range of the key from its beginning, so that it scans only rows that
    // it deletes.
    for sql in [
        "delete from engagement where notification_no = ?1 and device_key <=
         (select max(device_key) from (select device_key from engagement
          where notification_no = ?1 order by device_key limit ?2) first)",
        "delete from poll_votes where notification_no = ?1 and device_key <=
         (select max(device_key) from (select device_key from poll_votes
          where notification_no = ?1 order by device_key limit ?2) first)",
        "delete from poll_visitors where notification_no = ?1 and visitor in
         (select visitor from poll_visitors
          where notification_no = ?1 order by visitor limit ?2)",
    ] {
        let rows = tx.prepare_cached(sql)?.execute([no, ROWS_PER_STEP])?;
        if rows > 0 {
            return Ok((rows as u64, false));
        }
    }
    let rows = erase_pages(tx, no)?;
    if rows > 0 {
        return Ok((rows, false));
    }
    let mut rows = 0;
    for sql in [
        "delete from failures where dispatch_no in
         (select no from dispatches where notification_no = ?1)",
        "delete from dispatches where notification_no = ?1",
        "delete from engagement_counts where notification_no = ?1",
        "delete from poll_answers where notification_no = ?1",
        "delete from polls where notification_no = ?1",
        "delete from notifications where no = ?1",
    ] {
        rows += tx.prepare_cached(sql)?.execute([no])?;
    }
    Ok((rows as u64, true))
}

/// Deletes some pages of a notification with their outcomes and retries; returns the number of
/// deleted rows.
pub(super) fn erase_pages(tx: &Connection, notification: i64) -> Result<u64, StoreError> {
    let pages = tx
        .prepare_cached(
            "select p.no from dispatches d cross join pages p
             where d.notification_no = ?1 and p.dispatch_no = d.no limit ?2",
        )?
        .query_map([notification, PAGES_PER_STEP], |row| row.get::<i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    let mut rows = 0;
    for page in &pages {
        for sql in [
            "delete from retries where page_no = ?1",
            "delete from outcomes where page_no = ?1",
            "delete from pages where no = ?1",
        ] {
            rows += tx.prepare_cached(sql)?.execute([page])?;
        }
    }
    Ok(rows as u64)
}

/// Deletes some idempotency records; returns whether rows were deleted.
fn erase_responses(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let responses = tx
        .prepare_cached(
            "select path, key from idempotency where app_no = ?1 order by path, key limit ?2",
        )?
        .query_map([app.0, ROWS_PER_STEP], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<Vec<(String, String)>, _>>()?;
    for (path, key) in &responses {
        tx.prepare_cached("delete from idempotency where app_no = ?1 and path = ?2 and key = ?3")?
            .execute(params![app.0, path, key])?;
    }
    Ok(!responses.is_empty())
}

/// Deletes some events or webhook messages; returns whether rows were deleted.
fn erase_events(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    for sql in [
        "delete from events where app_no = ?1 and no <=
         (select max(no) from (select no from events where app_no = ?1 order by no limit ?2) first)",
        "delete from webhook_messages where no in
         (select m.no from webhooks w cross join webhook_messages m
          where w.app_no = ?1 and m.webhook_no = w.no limit ?2)",
    ] {
        if tx.prepare_cached(sql)?.execute([app.0, ROWS_PER_STEP])? > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Deletes the items of one feed, a few hundred; returns whether rows were deleted.
fn erase_feed_items(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let feed = tx
        .prepare_cached("select no from feeds where app_no = ?1 and items > 0 limit 1")?
        .query_row([app.0], |row| row.get::<i64>(0))
        .optional()?;
    let Some(feed) = feed else { return Ok(false) };
    tx.prepare_cached("delete from feed_items where feed_no = ?1")?.execute([feed])?;
    tx.prepare_cached("update feeds set items = 0 where no = ?1")?.execute([feed])?;
    Ok(true)
}

/// Deletes some users with their attributes; returns whether rows were deleted.
fn erase_users(tx: &Connection, app: AppNo) -> Result<bool, StoreError> {
    let users = tx
        .prepare_cached("select no from users where app_no = ?1 order by no limit ?2")?
        .query_map([app.0, ROWS_PER_STEP], |row| row.get::<i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for user in &users {
        for sql in
            ["delete from user_attributes where user_no = ?1", "delete from users where no = ?1"]
        {
            tx.prepare_cached(sql)?.execute([user])?;
        }
    }
    Ok(!users.is_empty())
}

/// Deletes some devices of a platform; returns whether rows were deleted.
fn erase_devices(tx: &Connection, app: AppNo, platform: Platform) -> Result<bool, StoreError> {
    let first = DeviceKey::before_first(app, platform).0;
    let end = DeviceKey::new(app, platform, SEQUENCE_MAX).0;
    let keys = tx
        .prepare_cached(
            "select key from devices where key > ?1 and key <= ?2 order by key limit ?3",
        )?
        .query_map([first, end, ROWS_PER_STEP], |row| row.get::<i64>(0))?
        .collect::<Result<Vec<_>, _>>()?;
    for key in &keys {
        for sql in [
            "delete from device_tags where device_key = ?1",
            "delete from device_secrets where device_key = ?1",
            "delete from unverified_addresses where device_key = ?1",
            "delete from device_attributes where device_key = ?1",
            "delete from device_fields where key = ?1",
            "delete from devices where key = ?1",
        ] {
            tx.prepare_cached(sql)?.execute([key])?;
        }
    }
    Ok(!keys.is_empty())
}
