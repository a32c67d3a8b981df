//! Browsers that register without an API key: the access that an application allows them, and their
//! secrets.

use notify_core::{AppId, AppStatus, DeviceId, Subscription, Tag, Timestamp, WebAccess};

use crate::store::app::app_no;
use crate::store::device::register;
use crate::store::sql::row::unexpected_value;
use crate::store::sql::{OptionalExtension, Type, WriteScope, params};
use crate::store::{AppNo, Change, Operation, Store, StoreError};

/// An application that allows browsers to register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebApp {
    /// Internal number.
    pub no: AppNo,
    /// The status. A suspended application allows nothing.
    pub status: AppStatus,
    /// What browsers may do.
    pub access: WebAccess,
}

/// A browser that subscribes.
#[derive(Debug, Clone)]
pub struct NewBrowser {
    /// Its address, language and time zone. The device id is ignored.
    pub subscription: Subscription,
    /// The device that the browser claims to be, and the SHA-256 of the secret that it presents.
    pub existing: Option<(DeviceId, [u8; 32])>,
    /// The generated id for an unknown browser.
    pub generated_id: DeviceId,
    /// The SHA-256 of the secret that the browser gets if it presents no valid secret.
    pub secret: [u8; 32],
    /// Tags to set.
    pub tags: Vec<Tag>,
}

/// The result of a browser's subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscribedBrowser {
    /// The device of the browser.
    pub id: DeviceId,
    /// Whether the browser got the new secret. Otherwise the secret that it presented stays valid.
    pub has_new_secret: bool,
}

impl Store {
    /// Sets what browsers may do with an application.
    pub async fn set_web_access(&self, app: AppId, access: WebAccess) -> Result<(), StoreError> {
        self.write(Operation::SetWebAccess, move |tx| {
            let no = app_no(tx, app)?;
            tx.prepare_cached(
                "insert into web_access (app_no, access) values (?1, ?2)
                 on conflict (app_no) do update set access = excluded.access",
            )?
            .execute(params![no.0, serde_json::to_string(&access)?])?;
            tx.changed(Change::App(no));
            Ok(())
        })
        .await
    }

    /// Removes the access of browsers, or returns [`StoreError::NotFound`] if they had none. The
    /// devices of the browsers stay.
    pub async fn clear_web_access(&self, app: AppId) -> Result<(), StoreError> {
        self.write(Operation::ClearWebAccess, move |tx| {
            let no = app_no(tx, app)?;
            let cleared =
                tx.prepare_cached("delete from web_access where app_no = ?1")?.execute([no.0])?;
            if cleared == 0 {
                return Err(StoreError::NotFound);
            }
            tx.changed(Change::App(no));
            Ok(())
        })
        .await
    }

    /// Reads what browsers may do with an application; `None` if they have no access or the
    /// application is unknown.
    pub async fn web_access(&self, app: AppId) -> Result<Option<WebApp>, StoreError> {
        self.read(move |connection| {
            let row = connection
                .prepare_cached(
                    "select a.no, a.status, w.access from apps a join web_access w on w.app_no = a.no
                     where a.id = ?1 and a.status <> 'erasing'",
                )?
                .query_row([app.0.as_bytes()], |row| {
                    let status: String = row.get(1)?;
                    let status: AppStatus = status.parse().map_err(|_| unexpected_value(1, Type::Text))?;
                    Ok((AppNo(row.get(0)?), status, row.get::<String>(2)?))
                })
                .optional()?;
            let Some((no, status, access)) = row else { return Ok(None) };
            Ok(Some(WebApp { no, status, access: serde_json::from_str(&access)? }))
        })
        .await
    }

    /// Subscribes a browser and sets its tags. The browser is the device whose secret it presents.
    /// Without a valid secret, it is the device with exactly this endpoint and keys, which only the
    /// browser knows. Otherwise the browser becomes a new device. A device id or an endpoint alone
    /// gives no access to an existing device: an endpoint with other keys moves to the new device,
    /// as a token does.
    pub async fn subscribe_browser(
        &self,
        app: AppNo,
        browser: NewBrowser,
        at: Timestamp,
    ) -> Result<SubscribedBrowser, StoreError> {
        self.write_to(WriteScope::app(app), Operation::SubscribeBrowser, move |tx| {
            register::subscribe_browser(tx, app, browser, at)
        })
        .await
    }

    /// Whether a browser exists and has the secret with this SHA-256.
    pub async fn is_device_secret(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<bool, StoreError> {
        self.read(move |connection| register::is_browser_with_secret(connection, app, &id, secret))
            .await
    }
}
