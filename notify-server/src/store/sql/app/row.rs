//! Rows of applications and keys.

use notify_core::{App, AppId, AppStatus, Key, KeyId, NewApp, Timestamp};

use crate::store::sql::error::inserted;
use crate::store::sql::row::{unknown_value, uuid_at};
use crate::store::sql::writer::WriteTx;
use crate::store::sql::{self, Row, Type, params};
use crate::store::{AppNo, NewKey, StoreError};

/// Columns of an application as `app_of` reads them.
pub(super) const APP: &str = "a.no, a.id, a.name, a.language, a.status, a.created_at";

pub(super) fn app_of(row: &Row<'_>) -> sql::Result<(AppNo, App)> {
    let status: String = row.get(4)?;
    let app = App {
        id: AppId(uuid_at(row, 1)?),
        name: row.get(2)?,
        language: row.get(3)?,
        status: AppStatus::from_word(&status).ok_or_else(|| unknown_value(4, Type::Text))?,
        created_at: Timestamp(row.get(5)?),
    };
    Ok((AppNo(row.get(0)?), app))
}

pub(super) fn key_of(row: &Row<'_>) -> sql::Result<Key> {
    Ok(Key {
        id: KeyId(uuid_at(row, 0)?),
        name: row.get(1)?,
        hint: row.get(2)?,
        created_at: Timestamp(row.get(3)?),
        last_used_at: row.get::<Option<i64>>(4)?.map(Timestamp),
    })
}

pub(super) fn insert_app(
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
        .counted(params![id.0.as_bytes(), app.name, app.language, at.as_ms()])?;
    inserted(no).map(AppNo)
}

pub(super) fn insert_key(tx: &WriteTx<'_>, app: AppNo, key: &NewKey) -> Result<(), StoreError> {
    tx.prepare_insert(
        "insert into api_keys (no, app_no, id, hash, hint, name, created_at)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .row(
        app,
        params![app.0, key.id.0.as_bytes(), key.hash, key.hint, key.name, key.created_at.as_ms()],
    )?;
    Ok(())
}

pub(super) fn insert_admin_key(tx: &WriteTx<'_>, key: &NewKey) -> Result<(), StoreError> {
    tx.prepare_insert(
        "insert into admin_keys (no, id, hash, hint, name, created_at)
         values (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .counted(params![
        key.id.0.as_bytes(),
        key.hash,
        key.hint,
        key.name,
        key.created_at.as_ms()
    ])?;
    Ok(())
}
