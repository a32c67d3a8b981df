//! Whose an address is: a push token belongs to one device per application (B22), and so does a
//! subscription, a person and a chat.

use notify_core::{DeviceId, Platform, Timestamp};

use super::super::error::broken;
use super::super::writer::WriteTx;
use super::row::{Wanted, address_hash, address_space};
use crate::store::sql::{Connection, params};
use crate::store::{AppNo, Change, DeviceKey, MovedAddress, StoreError};

/// An address that is looked for.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    platform: Platform,
    address: Option<&'a str>,
    hash: Option<i64>,
}

impl<'a> Sought<'a> {
    pub(super) fn of(wanted: &'a Wanted) -> Self {
        Self {
            platform: wanted.platform,
            address: wanted.fields.address.as_deref(),
            hash: wanted.address_hash,
        }
    }
}

/// An address that was another device's.
pub(super) struct Taken {
    pub(super) from: DeviceKey,
    pub(super) at: Timestamp,
    /// What is known of its person comes along.
    pub(super) last_inbound_at: Option<i64>,
}

/// The device that has the wanted address.
pub(super) fn device_at(
    tx: &Connection,
    app: AppNo,
    wanted: &Wanted,
) -> Result<Option<DeviceId>, StoreError> {
    let Some((holder, _)) = holders(tx, app, Sought::of(wanted))?.into_iter().next() else {
        return Ok(None);
    };
    let id: String = tx
        .prepare_cached("select device_id from devices where key = ?1")?
        .query_row([holder.0], |row| row.get(0))?;
    DeviceId::new(id).map(Some).map_err(broken)
}

/// The devices that have an address, one or none, and when its person last wrote.
fn holders(
    tx: &Connection,
    app: AppNo,
    sought: Sought<'_>,
) -> Result<Vec<(DeviceKey, Option<i64>)>, StoreError> {
    let keys = tx
        .prepare_cached(
            "select key, last_inbound_at from devices
             where address_hash = ?1 and address = ?2 and app_no = ?3",
        )?
        .query_map(params![sought.hash, sought.address, app.0], |row| {
            Ok((DeviceKey(row.get(0)?), row.get(1)?))
        })?
        .collect::<Result<Vec<_>, _>>()?;
    let space = address_space(sought.platform);
    Ok(keys.into_iter().filter(|(key, _)| address_space(key.platform()) == space).collect())
}

/// Takes an address from whichever other device has it (B22); the one of the same platform that had
/// it.
pub(super) fn take(
    tx: &mut WriteTx<'_>,
    app: AppNo,
    sought: Sought<'_>,
    (key, at): (DeviceKey, Timestamp),
) -> Result<Option<Taken>, StoreError> {
    if sought.hash.is_none() {
        return Ok(None);
    }
    let mut taken = None;
    for (holder, last_inbound_at) in holders(tx, app, sought)? {
        if holder != key {
            tx.prepare_cached(
                "update devices set address = null, address_hash = null, p256dh = null,
                 auth = null, last_inbound_at = null where key = ?1",
            )?
            .execute([holder.0])?;
            tx.changed(Change::DeviceChanged(holder));
            // Another platform's dispatch never sent to it through this one's provider.
            if holder.platform() == key.platform() {
                taken = Some(Taken { from: holder, at, last_inbound_at });
            }
        }
    }
    Ok(taken)
}

/// Writes the address of a device, and where it came from.
pub(super) fn write(
    tx: &Connection,
    key: DeviceKey,
    sought: Sought<'_>,
    taken: Option<&Taken>,
) -> Result<(), StoreError> {
    tx.prepare_cached(
        "update devices set address = ?2, address_hash = ?3, moved_from = ?4, moved_at = ?5,
         last_inbound_at = ?6 where key = ?1",
    )?
    .execute(params![
        key.0,
        sought.address,
        sought.hash,
        taken.map(|taken| taken.from.0),
        taken.map(|taken| taken.at.as_ms()),
        taken.and_then(|taken| taken.last_inbound_at)
    ])?;
    Ok(())
}

/// Gives a device the address that its provider named in place of the one it has (B22).
pub(crate) fn replace_moved(tx: &mut WriteTx<'_>, moved: &MovedAddress) -> Result<(), StoreError> {
    let (app, platform) = (moved.key.app(), moved.key.platform());
    let is_there = tx
        .prepare_cached("select 1 from devices where key = ?1 and address = ?2")?
        .exists(params![moved.key.0, &*moved.from])?;
    if !is_there {
        return Ok(());
    }
    let hash = Some(address_hash(app, platform, &moved.to));
    let sought = Sought { platform, address: Some(&moved.to), hash };
    let taken = take(tx, app, sought, (moved.key, moved.at))?;
    write(tx, moved.key, sought, taken.as_ref())?;
    tx.changed(Change::DeviceChanged(moved.key));
    Ok(())
}
