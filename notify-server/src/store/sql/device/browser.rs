//! Browsers that subscribe by themselves, and the secret by which each acts as its device.

use notify_core::{DeviceId, Timestamp};

use super::super::error::broken;
use super::super::writer::WriteTx;
use super::row::{Wanted, by_id, key_by_id};
use super::{Seen, address, register, tags, verification};
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, NewBrowser, StoreError, SubscribedBrowser};

/// Subscribes a browser as the device that it proves to be, or as a new one.
pub(in crate::store::sql) fn subscribe(
    tx: &mut WriteTx<'_>,
    seen: &Seen,
    app: AppNo,
    browser: NewBrowser,
    at: Timestamp,
) -> Result<SubscribedBrowser, StoreError> {
    let shown = match browser.known {
        Some((id, secret)) if opens(tx, app, &id, secret)? => Some(id),
        Some(_) | None => None,
    };
    let has_new_secret = shown.is_none();
    // The device id of a subscription is for callers with a key.
    let mut subscription = browser.subscription;
    subscription.device_id = None;
    let mut wanted = Wanted::of_subscription(app, subscription, browser.made)?;
    let proved = match shown {
        Some(id) => Some(id),
        None => same_browser(tx, app, &wanted)?,
    };
    let is_new = proved.is_none();
    if let Some(id) = proved {
        wanted.device_id = id;
    }
    if let register::Registered::Unchanged(key) = register::subscribe(tx, app, &wanted, at)? {
        seen.note(key, at);
    }
    if has_new_secret {
        let key = key_by_id(tx, app, wanted.device_id.as_str())?
            .ok_or_else(|| broken("a device that was just registered is gone"))?;
        tx.prepare_cached(
            "insert into device_secrets (device_key, hash) values (?1, ?2)
             on conflict (device_key) do update set hash = excluded.hash",
        )?
        .execute(params![key.0, browser.secret])?;
        if is_new {
            verification::set_anonymous(tx, key)?;
        }
    }
    if !browser.tags.is_empty() {
        tags::set(tx, app, &wanted.device_id, &browser.tags)?;
    }
    Ok(SubscribedBrowser { id: wanted.device_id, has_new_secret })
}

/// The device with exactly this address and its keys. Whoever has all three is the browser: pages of
/// other sites do not see them, and the push service sees the address alone.
fn same_browser(
    tx: &Connection,
    app: AppNo,
    wanted: &Wanted,
) -> Result<Option<DeviceId>, StoreError> {
    let Some(id) = address::device_at(tx, app, wanted)? else { return Ok(None) };
    let row = by_id(tx, app, &id)?;
    let has_keys = row.is_some_and(|row| {
        let (has, wants) = (&row.fields, &wanted.fields);
        (&has.p256dh, &has.auth) == (&wants.p256dh, &wants.auth)
    });
    Ok(has_keys.then_some(id))
}

/// Whether a device is there and has that secret.
pub(in crate::store::sql) fn opens(
    connection: &Connection,
    app: AppNo,
    id: &DeviceId,
    secret: [u8; 32],
) -> Result<bool, StoreError> {
    let opens = connection
        .prepare_cached(
            "select 1 from devices d join device_secrets s on s.device_key = d.key
             where d.app_no = ?1 and d.device_id = ?2 and s.hash = ?3",
        )?
        .exists(params![app.0, id.as_str(), secret])?;
    Ok(opens)
}
