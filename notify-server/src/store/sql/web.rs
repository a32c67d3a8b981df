//! Browsers that act without a key.

use std::sync::Arc;

use async_trait::async_trait;
use notify_core::{AppId, AppStatus, DeviceId, Timestamp, WebAccess};

use super::SqlStore;
use super::app::app_no;
use super::device::browser;
use super::row::unknown_value;
use crate::store::sql::{OptionalExtension, Type, params};
use crate::store::{AppNo, Change, NewBrowser, StoreError, SubscribedBrowser, WebApp, WebStore};

#[async_trait]
impl WebStore for SqlStore {
    async fn set_web_access(&self, app: AppId, access: WebAccess) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            tx.prepare_cached(
                "insert into web_access (app_no, access) values (?1, ?2)
                 on conflict (app_no) do update set access = excluded.access",
            )?
            .execute(params![no.0, serde_json::to_string(&access)?])?;
            tx.changed(Change::AppChanged(no));
            Ok(())
        })
        .await
    }

    async fn clear_web_access(&self, app: AppId) -> Result<(), StoreError> {
        self.write(move |tx| {
            let no = app_no(tx, app)?;
            let cleared =
                tx.prepare_cached("delete from web_access where app_no = ?1")?.execute([no.0])?;
            if cleared == 0 {
                return Err(StoreError::NotFound);
            }
            tx.changed(Change::AppChanged(no));
            Ok(())
        })
        .await
    }

    async fn web_access(&self, app: AppId) -> Result<Option<WebApp>, StoreError> {
        self.read(move |connection| {
            let row = connection
                .prepare_cached(
                    "select a.no, a.status, w.access from apps a join web_access w on w.app_no = a.no
                     where a.id = ?1 and a.status <> 'erasing'",
                )?
                .query_row([app.0.as_bytes()], |row| {
                    let status: String = row.get(1)?;
                    let status = AppStatus::from_word(&status)
                        .ok_or_else(|| unknown_value(1, Type::Text))?;
                    Ok((AppNo(row.get(0)?), status, row.get::<String>(2)?))
                })
                .optional()?;
            let Some((no, status, access)) = row else { return Ok(None) };
            Ok(Some(WebApp { no, status, access: serde_json::from_str(&access)? }))
        })
        .await
    }

    async fn subscribe_browser(
        &self,
        app: AppNo,
        browser: NewBrowser,
        at: Timestamp,
    ) -> Result<SubscribedBrowser, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(move |tx| browser::subscribe(tx, &seen, app, browser, at)).await
    }

    async fn opens_device(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<bool, StoreError> {
        self.read(move |connection| browser::opens(connection, app, &id, secret)).await
    }
}
