//! Browsers that act without a key: what an application allows them, and the secret of each.

use std::sync::Arc;

use notify_core::{AppId, AppStatus, DeviceId, Subscription, Tag, Timestamp, WebAccess};

use crate::store::app::app_no;
use crate::store::device::register;
use crate::store::sql::row::unknown_value;
use crate::store::sql::{OptionalExtension, Type, params};
use crate::store::{AppNo, Change, Operation, Store, StoreError};

/// An application that lets browsers in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebApp {
    /// Inside number.
    pub no: AppNo,
    /// State; nobody gets into a suspended one.
    pub status: AppStatus,
    /// What browsers may do.
    pub access: WebAccess,
}

/// A browser that subscribes.
#[derive(Debug, Clone)]
pub struct NewBrowser {
    /// Its address, language and time zone; the device id is not looked at.
    pub subscription: Subscription,
    /// The device that it says it is, and the SHA-256 of the secret that it shows.
    pub known: Option<(DeviceId, [u8; 32])>,
    /// The id to use for a browser that is not known.
    pub made: DeviceId,
    /// SHA-256 of the secret that it gets where it shows none that holds.
    pub secret: [u8; 32],
    /// Tags to set.
    pub tags: Vec<Tag>,
}

/// What became of a browser that subscribed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedBrowser {
    /// Its device.
    pub id: DeviceId,
    /// Whether its secret is the new one; otherwise the one that it showed stays.
    pub has_new_secret: bool,
}

impl Store {
    /// Says what browsers may do with an application, in place of what was said before.
    pub async fn set_web_access(&self, app: AppId, access: WebAccess) -> Result<(), StoreError> {
        self.write(Operation::SetWebAccess, move |tx| {
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

    /// Lets browsers do nothing any more; `NotFound` where they could not. Their devices stay.
    pub async fn clear_web_access(&self, app: AppId) -> Result<(), StoreError> {
        self.write(Operation::ClearWebAccess, move |tx| {
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

    /// What browsers may do with an application; `None` where it lets none in, or is none.
    pub async fn web_access(&self, app: AppId) -> Result<Option<WebApp>, StoreError> {
        self.read(move |connection| {
            let row = connection
                .prepare_cached(
                    "select a.no, a.status, w.access from apps a join web_access w on w.app_no = a.no
                     where a.id = ?1 and a.status <> 'erasing'",
                )?
                .query_row([app.0.as_bytes()], |row| {
                    let status: String = row.get(1)?;
                    let status: AppStatus = status.parse().map_err(|_| unknown_value(1, Type::Text))?;
                    Ok((AppNo(row.get(0)?), status, row.get::<String>(2)?))
                })
                .optional()?;
            let Some((no, status, access)) = row else { return Ok(None) };
            Ok(Some(WebApp { no, status, access: serde_json::from_str(&access)? }))
        })
        .await
    }

    /// Subscribes a browser, and sets its tags. It is the device that it shows the secret of, with
    /// whatever address it brings; else the one with exactly this address and its keys, which nobody
    /// but the browser has; else a new one. Nobody gets at a device by its id, nor by its endpoint
    /// alone: an endpoint with other keys moves to a new device, as B22 moves a token.
    pub async fn subscribe_browser(
        &self,
        app: AppNo,
        browser: NewBrowser,
        at: Timestamp,
    ) -> Result<SubscribedBrowser, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.write(Operation::SubscribeBrowser, move |tx| {
            register::subscribe_browser(tx, &seen, app, browser, at)
        })
        .await
    }

    /// Whether a device is there and has that secret (its SHA-256).
    pub async fn opens_device(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<bool, StoreError> {
        self.read(move |connection| register::opens(connection, app, &id, secret)).await
    }
}
