//! Browsers that act without a key: what an application allows them, and the secret of each.

use async_trait::async_trait;
use notify_core::{AppId, AppStatus, DeviceId, Subscription, Tag, Timestamp, WebAccess};

use super::{AppNo, StoreError};

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

/// Browsers that act without a key.
#[async_trait]
pub trait WebStore {
    /// Says what browsers may do with an application, in place of what was said before.
    async fn set_web_access(&self, app: AppId, access: WebAccess) -> Result<(), StoreError>;

    /// Lets browsers do nothing any more; `NotFound` where they could not. Their devices stay.
    async fn clear_web_access(&self, app: AppId) -> Result<(), StoreError>;

    /// What browsers may do with an application; `None` where it lets none in, or is none.
    async fn web_access(&self, app: AppId) -> Result<Option<WebApp>, StoreError>;

    /// Subscribes a browser, and sets its tags. It is the device that it shows the secret of, with
    /// whatever address it brings; else the one with exactly this address and its keys, which nobody
    /// but the browser has; else a new one. Nobody gets at a device by its id, nor by its endpoint
    /// alone: an endpoint with other keys moves to a new device, as B22 moves a token.
    async fn subscribe_browser(
        &self,
        app: AppNo,
        browser: NewBrowser,
        at: Timestamp,
    ) -> Result<SubscribedBrowser, StoreError>;

    /// Whether a device is there and has that secret (its SHA-256).
    async fn opens_device(
        &self,
        app: AppNo,
        id: DeviceId,
        secret: [u8; 32],
    ) -> Result<bool, StoreError>;
}
