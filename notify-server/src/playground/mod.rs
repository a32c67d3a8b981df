//! The playground: an application whose providers are fakes on the loopback interface, in this
//! process. With it, a first notification needs no account of any provider.
//!
//! A playground does not survive a restart: each start of a server erases the applications that an
//! earlier run left in the database. It finds them by the fixed prefix of their ids ([`ID_FIRST`]).

#[cfg(feature = "sandbox")]
mod devices;
#[cfg(feature = "sandbox")]
mod service;

use notify_core::AppId;
#[cfg(feature = "sandbox")]
use notify_core::{Device, Platform};
use uuid::Uuid;

#[cfg(feature = "sandbox")]
pub(crate) use self::devices::{platform_of, provider_of, unregistered};
#[cfg(feature = "sandbox")]
pub(crate) use self::service::{Deps, Playground};
use crate::store::{Store, StoreError};

/// The first id of an application of the playground. Its first eight bytes are those of all of them:
/// `playgr` in ASCII, and the version 8 (RFC 9562, section 5.8). Other applications have version 7, so
/// that they never get such an id.
const ID_FIRST: Uuid = Uuid::from_u128(0x706c_6179_6772_8000_8000_0000_0000_0000);
/// The last id of an application of the playground.
const ID_LAST: Uuid = Uuid::from_u128(0x706c_6179_6772_8000_bfff_ffff_ffff_ffff);

/// Whether an application is one of the playground.
#[cfg(feature = "console")]
pub(crate) fn owns(app: AppId) -> bool {
    (ID_FIRST..=ID_LAST).contains(&app.0)
}

/// Erases the applications of the playground that an earlier run left, or that another server of the
/// same database runs. That server then stops its fakes.
pub(crate) async fn erase(store: &Store) -> Result<(), StoreError> {
    for app in store.apps_between(AppId(ID_FIRST), AppId(ID_LAST)).await? {
        match store.delete_app(app).await {
            Ok(()) | Err(StoreError::NotFound) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The address of a device as its fake provider sees it; `None` if the device has none.
#[cfg(feature = "sandbox")]
pub(crate) fn address(device: &Device) -> Option<String> {
    match device.platform {
        Platform::Ios => device.push_token.as_deref().map(str::to_ascii_lowercase),
        Platform::Android => device.push_token.clone(),
        Platform::Web => {
            let endpoint = &device.subscription.as_ref()?.endpoint;
            endpoint.rsplit_once('/').map(|(_, id)| id.to_owned())
        }
        Platform::FbMessenger | Platform::ChatApp => device.recipient_id.clone(),
    }
}
