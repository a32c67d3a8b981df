//! Applications and keys.

mod erase;
mod row;

use async_trait::async_trait;
use notify_core::{API_KEYS_MAX, App, AppChange, AppId, Key, KeyId, NewApp, Timestamp};

pub(in crate::store) use self::erase::resume_erasing;
pub(super) use self::erase::{erase_notification, erase_pages};
use self::row::{APP, app_of, insert_admin_key, insert_app, insert_key, key_of};
use super::SqlStore;
use super::cursor::{Listing, rows_wanted};
use super::row::{count_at, uuid_at};
use crate::store::sql::{Connection, OptionalExtension, params};
use crate::store::{AppAccess, AppNo, AppStore, Change, NewKey, Page, PageRequest, StoreError};

const APPS: Listing = Listing { name: "apps", of: 0 };

#[async_trait]
impl AppStore for SqlStore {
    async fn found(
        &self,
        id: AppId,
        app: NewApp,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let any = tx.prepare_cached("select 1 from apps limit 1")?.exists([])?;
            if any {
                return Ok(false);
            }
            let no = insert_app(tx, id, &app, api_key.created_at)?;
            insert_key(tx, no, &api_key)?;
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

    async fn replace_unshown_keys(
        &self,
        api_key: NewKey,
        admin_key: NewKey,
    ) -> Result<bool, StoreError> {
        self.write(move |tx| {
            let first: Option<i64> = tx
                .prepare_cached(
                    "select no from apps where status <> 'erasing'
                     and exists (select 1 from installation where keys_shown = 0)
                     order by no limit 1",
                )?
                .query_row([], |row| row.get(0))
                .optional()?;
            let Some(first) = first else { return Ok(false) };
            insert_key(tx, AppNo(first), &api_key)?;
            insert_admin_key(tx, &admin_key)?;
            Ok(true)
        })
        .await
    }

    async fn keys_shown(&self) -> Result<(), StoreError> {
        self.write(|tx| {
            tx.prepare_cached("update installation set keys_shown = 1 where keys_shown = 0")?
                .execute([])?;
            Ok(())
        })
        .await
    }

    async fn create_app(
        &self,
        id: AppId,
        app: NewApp,
        api_key: Option<NewKey>,
        at: Timestamp,
    ) -> Result<AppNo, StoreError> {
        self.write(move |tx| {
            let no = insert_app(tx, id, &app, at)?;
            if let Some(key) = &api_key {
                insert_key(tx, no, key)?;
            }
            Ok(no)
        })
        .await
    }

    async fn list_apps(&self, page: PageRequest) -> Result<Page<App>, StoreError> {
        self.read(move |connection| {
            let after = APPS.number(&page)?.unwrap_or(0);
            let sql = format!(
                "select {APP} from apps a where a.no > ?1 and a.status <> 'erasing'
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

    async fn app(&self, id: AppId) -> Result<(AppNo, App), StoreError> {
        self.read(move |connection| {
            let sql = format!("select {APP} from apps a where a.id = ?1 and a.status <> 'erasing'");
            connection
                .prepare_cached(&sql)?
                .query_row([id.0.as_bytes()], app_of)
                .optional()?
                .ok_or(StoreError::NotFound)
        })
        .await
    }

    async fn change_app(&self, id: AppId, change: AppChange) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, id)?;
            tx.prepare_cached(
                "update apps set name = coalesce(?2, name), language = coalesce(?3, language),
                 status = coalesce(?4, status) where no = ?1",
            )?
            .execute(params![
                no.0,
                change.name,
                change.language,
                change.status.map(|status| status.as_str())
            ])?;
            tx.changed(Change::AppChanged(no));
            Ok(())
        })
        .await
    }

    async fn delete_app(&self, id: AppId) -> Result<(), StoreError> {
        // From here on it is as unknown as one that never was; its rows go step by step.
        let no = self
            .write(move |tx| {
                let no = app_no(tx, id)?;
                tx.prepare_cached("update apps set status = 'erasing' where no = ?1")?
                    .execute([no.0])?;
                tx.changed(Change::AppChanged(no));
                Ok(no)
            })
            .await?;
        while self.write(move |tx| erase::step(tx, no)).await? {}
        Ok(())
    }

    async fn add_key(&self, app: AppId, key: NewKey) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            let keys = tx
                .prepare_cached("select count(*) from api_keys where app_no = ?1")?
                .query_row([no.0], |row| count_at(row, 0))?;
            if keys >= API_KEYS_MAX {
                let what = format!("an application has at most {API_KEYS_MAX}: revoke one first");
                return Err(StoreError::refused("keys", &what));
            }
            insert_key(tx, no, &key)
        })
        .await
    }

    async fn list_keys(&self, app: AppId) -> Result<Vec<Key>, StoreError> {
        self.read(move |connection| {
            let no = app_no(connection, app)?;
            let keys = connection
                .prepare_cached(
                    "select id, name, hint, created_at, last_used_at from api_keys
                     where app_no = ?1 order by created_at, no",
                )?
                .query_map([no.0], key_of)?
                .collect::<Result<Vec<_>, _>>()?;
            Ok(keys)
        })
        .await
    }

    async fn revoke_key(&self, app: AppId, key: KeyId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            let revoked = tx
                .prepare_cached("delete from api_keys where app_no = ?1 and id = ?2")?
                .execute(params![no.0, key.0.as_bytes()])?;
            if revoked == 0 {
                return Err(StoreError::NotFound);
            }
            tx.changed(Change::KeyRevoked);
            Ok(())
        })
        .await
    }

    async fn open_with_key(&self, hash: [u8; 32]) -> Result<Option<AppAccess>, StoreError> {
        self.read(move |connection| {
            let sql = format!(
                "select {APP}, k.id from api_keys k join apps a on a.no = k.app_no
                 where k.hash = ?1 and a.status <> 'erasing'"
            );
            let access = connection
                .prepare_cached(&sql)?
                .query_row([hash], |row| {
                    let (no, app) = app_of(row)?;
                    Ok(AppAccess { no, app, key: KeyId(uuid_at(row, 6)?) })
                })
                .optional()?;
            Ok(access)
        })
        .await
    }

    async fn touch_keys(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        self.write(move |tx| {
            let mut touch = tx.prepare_cached(
                "update api_keys set last_used_at = max(coalesce(last_used_at, 0), ?2) where id = ?1",
            )?;
            for (key, at) in &used {
                touch.execute(params![key.0.as_bytes(), at.as_ms()])?;
            }
            Ok(())
        })
        .await
    }

    async fn add_admin_key(&self, key: NewKey) -> Result<(), StoreError> {
        self.write(move |tx| insert_admin_key(tx, &key)).await
    }

    async fn admin_key(&self, hash: [u8; 32]) -> Result<Option<KeyId>, StoreError> {
        self.read(move |connection| {
            let key = connection
                .prepare_cached("select id from admin_keys where hash = ?1")?
                .query_row([hash], |row| uuid_at(row, 0).map(KeyId))
                .optional()?;
            Ok(key)
        })
        .await
    }
}

/// The number of an application that is not being erased.
pub(super) fn app_no(connection: &Connection, id: AppId) -> Result<AppNo, StoreError> {
    connection
        .prepare_cached("select no from apps where id = ?1 and status <> 'erasing'")?
        .query_row([id.0.as_bytes()], |row| row.get(0).map(AppNo))
        .optional()?
        .ok_or(StoreError::NotFound)
}
