//! The status of the providers of an application, for administrators.

use notify_core::{ChannelView, Platform, ProviderStatus};

use crate::api::Api;
use crate::store::{AppNo, StoreError};

/// The status of the providers of an application.
pub(super) struct ProviderStatuses<'a> {
    pub(super) api: &'a Api,
    app: AppNo,
    /// The platforms whose guard tripped. The store knows at once; the engine of a new server learns it
    /// with the first delivery to the platform.
    tripped: Vec<Platform>,
}

impl<'a> ProviderStatuses<'a> {
    /// Reads what the store knows of them.
    pub(super) async fn of(api: &'a Api, app: AppNo) -> Result<Self, StoreError> {
        Ok(Self { api, app, tripped: api.store.guard_tripped_platforms(app).await? })
    }

    /// The status of the provider of a platform, and of the services behind it.
    pub(super) fn on(&self, platform: Platform) -> ChannelView {
        let mut channel = self.api.operations.engine.channel(self.app, platform);
        if channel.status == ProviderStatus::Available && self.tripped.contains(&platform) {
            channel.status = ProviderStatus::Tripped;
        }
        channel
    }
}
