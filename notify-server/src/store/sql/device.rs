//! Devices, tags and their counts.

mod address;
pub(super) mod browser;
mod counts;
mod erase;
pub(super) mod inbound;
mod lately;
mod read;
mod register;
mod row;
mod scrub;
mod seen;
mod tags;
pub(super) mod verification;

use std::sync::Arc;

use async_trait::async_trait;
use notify_core::{
    Device, DeviceId, Platform, PlatformCount, Registration, Subscription, SubscriptionCreated,
    Success, Tag, TagSummary, Timestamp,
};

pub(super) use self::address::replace_moved;
pub(super) use self::counts::{count_dead, count_enabled, count_revived, hour_of};
pub(super) use self::lately::Lately;
use self::row::Wanted;
pub(super) use self::row::{key_by_id, keys_by_ids};
pub(super) use self::scrub::{Lists, Named};
pub(super) use self::seen::Seen;
use self::seen::last_registration;
use super::SqlStore;
use super::writer::WriteTx;
use crate::store::{
    AppNo, DeviceFilter, DeviceKey, DeviceStore, Done, Once, Page, PageRequest,
    REGISTRATION_WRITTEN_EVERY_MS, StoreError,
};

#[async_trait]
impl DeviceStore for SqlStore {
    async fn register_device(
        &self,
        app: AppNo,
        registration: Registration,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError> {
        let wanted = Arc::new(Wanted::of_registration(app, registration)?);
        if once.is_none() && self.lately.looks_unchanged() {
            // Reading that nothing changes is far cheaper than a commit.
            let asked = Arc::clone(&wanted);
            let unchanged =
                self.readers.read_once(move |tx| register::unchanged(tx, app, &asked)).await?;
            if let Some((key, registered_at)) = unchanged {
                self.seen.note(key, at);
                self.lately.note(false);
                if at.ms_since(registered_at) < REGISTRATION_WRITTEN_EVERY_MS {
                    self.write_seen_when_many().await?;
                    return Ok(Done::Now(Success { success: true }));
                }
            }
        }
        let (seen, lately) = (Arc::clone(&self.seen), Arc::clone(&self.lately));
        self.write_once(app, once, move |tx| {
            let registered = register::register(tx, app, &wanted, at)?;
            lately.note(registered == register::Registered::Changed);
            if let register::Registered::Unchanged(key) = registered {
                seen.note(key, at);
            }
            Ok(Success { success: true })
        })
        .await
    }

    async fn subscribe_device(
        &self,
        app: AppNo,
        subscription: Subscription,
        made: DeviceId,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<SubscriptionCreated>, StoreError> {
        let given = subscription.device_id.is_some();
        let mut wanted = Wanted::of_subscription(app, subscription, made)?;
        let seen = Arc::clone(&self.seen);
        self.write_once(app, once, move |tx| {
            if !given && let Some(id) = address::device_at(tx, app, &wanted)? {
                wanted.device_id = id;
            }
            let registered = register::subscribe(tx, app, &wanted, at)?;
            if let register::Registered::Unchanged(key) = registered {
                seen.note(key, at);
            }
            if wanted.platform == Platform::Web
                && let Some(key) = key_by_id(tx, app, wanted.device_id.as_str())?
            {
                verification::set_known(tx, key)?;
            }
            Ok(SubscriptionCreated { id: wanted.device_id })
        })
        .await
    }

    async fn device(&self, app: AppNo, id: DeviceId) -> Result<Device, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.read(move |connection| read::device(connection, &seen, app, &id)).await
    }

    async fn list_devices(
        &self,
        app: AppNo,
        filter: DeviceFilter,
        page: PageRequest,
    ) -> Result<Page<Device>, StoreError> {
        let seen = Arc::clone(&self.seen);
        self.read(move |connection| read::list(connection, &seen, app, &filter, &page)).await
    }

    async fn delete_device(
        &self,
        app: AppNo,
        id: DeviceId,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let named = self.requests_naming(app, &id).await?;
        let key = self
            .write(move |tx| {
                let key = erase::device(tx, app, &id, at)?;
                scrub::requests(tx, app, &id, &named)?;
                Ok(key)
            })
            .await?;
        self.seen.forget(key);
        Ok(())
    }

    async fn set_tags(
        &self,
        app: AppNo,
        id: DeviceId,
        tags: Vec<Tag>,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError> {
        self.write_once(app, once, move |tx| {
            tags::set(tx, app, &id, &tags)?;
            Ok(Success { success: true })
        })
        .await
    }

    async fn remove_tag(&self, app: AppNo, id: DeviceId, name: String) -> Result<(), StoreError> {
        self.write(move |tx| tags::remove(tx, app, &id, &name)).await
    }

    async fn list_tags(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<TagSummary>, StoreError> {
        self.read(move |connection| tags::list(connection, app, &page)).await
    }

    async fn count_devices(
        &self,
        app: AppNo,
        from: Option<Timestamp>,
        to: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<PlatformCount>, StoreError> {
        self.read(move |connection| counts::count(connection, app, (from, to), now)).await
    }
}

impl SqlStore {
    /// Writes some of the registrations that are held back once they are many.
    async fn write_seen_when_many(&self) -> Result<(), StoreError> {
        match self.seen.part_when_many() {
            Some(part) => self.write_part(&part).await,
            None => Ok(()),
        }
    }

    /// Writes the registrations that are held back.
    pub(super) async fn write_seen(&self) -> Result<(), StoreError> {
        while let Some(part) = self.seen.next_part() {
            self.write_part(&part).await?;
        }
        Ok(())
    }

    async fn write_part(&self, part: &seen::Part<'_>) -> Result<(), StoreError> {
        let rows = part.rows.clone();
        self.write(move |tx| {
            rows.iter().try_for_each(|(key, at)| register::write_seen(tx, *key, *at))
        })
        .await?;
        self.seen.written(&part.rows);
        Ok(())
    }

    /// The stored requests that name a device, read in bounded steps beside the writer.
    async fn requests_naming(
        &self,
        app: AppNo,
        id: &DeviceId,
    ) -> Result<scrub::Naming, StoreError> {
        let mut naming = scrub::Naming::default();
        loop {
            let (id, so_far) = (id.clone(), naming);
            let (next, more) =
                self.read(move |connection| scrub::look(connection, app, &id, so_far)).await?;
            naming = next;
            if !more {
                return Ok(naming);
            }
        }
    }
}

/// The newest registration of a device that is known: written, or held back.
pub(super) fn registered_at(
    tx: &WriteTx<'_>,
    seen: &Seen,
    key: DeviceKey,
) -> Result<Option<Timestamp>, StoreError> {
    Ok(last_registration(tx, key)?.max(seen.at(key)))
}
