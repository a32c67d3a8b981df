//! Devices, tags and their counts.

use async_trait::async_trait;
use notify_core::{
    Device, DeviceId, Platform, PlatformCount, Registration, Subscription, SubscriptionCreated,
    Success, Tag, TagSummary, Timestamp,
};

use super::{AppNo, Done, Once, Page, PageRequest, StoreError};

/// How old the last written registration of an unchanged device gets before it is written again,
/// in milliseconds (B22: an hour).
pub const REGISTRATION_WRITTEN_EVERY_MS: i64 = 3_600_000;

/// Which devices a listing shows (B23).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    /// Only this platform.
    pub platform: Option<Platform>,
    /// Only devices that have this tag set to true.
    pub tag: Option<String>,
}

/// Devices, tags and their counts.
#[async_trait]
pub trait DeviceStore {
    /// Registers a device or replaces every field of it (B21, B22): another token or `ios_env`
    /// clears a report of a dead address, a token is taken from whichever device had it, a change
    /// of platform takes a new key, `created_at` and the tags stay. One that changes nothing is
    /// not written, but its time is, when the last written one is over an hour old.
    async fn register_device(
        &self,
        app: AppNo,
        registration: Registration,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError>;

    /// Subscribes a browser, a Messenger person or a chat (B25). `made` is the id to use for a new
    /// address that brings none. The same address again answers its id, or moves to the given one;
    /// an id that a device of another platform has is refused with the path `device_id`.
    async fn subscribe_device(
        &self,
        app: AppNo,
        subscription: Subscription,
        made: DeviceId,
        at: Timestamp,
        once: Option<Once>,
    ) -> Result<Done<SubscriptionCreated>, StoreError>;

    /// Reads a device.
    async fn device(&self, app: AppNo, id: DeviceId) -> Result<Device, StoreError>;

    /// Lists devices in the order of their keys.
    async fn list_devices(
        &self,
        app: AppNo,
        filter: DeviceFilter,
        page: PageRequest,
    ) -> Result<Page<Device>, StoreError>;

    /// Erases a device with all that is kept about it (B23): its deliveries still to come count as
    /// canceled, and its id is taken out of stored requests, in the same transaction.
    async fn delete_device(
        &self,
        app: AppNo,
        id: DeviceId,
        at: Timestamp,
    ) -> Result<(), StoreError>;

    /// Sets tags of a device and leaves its others (B24).
    async fn set_tags(
        &self,
        app: AppNo,
        id: DeviceId,
        tags: Vec<Tag>,
        once: Option<Once>,
    ) -> Result<Done<Success>, StoreError>;

    /// Removes a tag of a device.
    async fn remove_tag(&self, app: AppNo, id: DeviceId, name: String) -> Result<(), StoreError>;

    /// Lists the application's tags by name, with how many devices have each set to true.
    async fn list_tags(
        &self,
        app: AppNo,
        page: PageRequest,
    ) -> Result<Page<TagSummary>, StoreError>;

    /// Counts the devices registered within `[from, to]`, each by its state now (B26). Reads whole
    /// hours from counters and scans at most the two edges. Platforms without a device in the
    /// period are left out.
    async fn count_devices(
        &self,
        app: AppNo,
        from: Option<Timestamp>,
        to: Timestamp,
        now: Timestamp,
    ) -> Result<Vec<PlatformCount>, StoreError>;
}
