//! A handle for each resource. Each file lists its calls once; [`crate::handle`] generates both forms.

mod admin;
mod campaigns;
mod devices;
mod enrichments;
mod events;
mod feeds;
mod notifications;
mod polls;
mod server;
mod statistics;
mod subscriptions;
mod tags;
mod webhooks;

pub use admin::Admin;
pub use campaigns::Campaigns;
pub use devices::Devices;
pub use enrichments::{EnrichmentResponse, Enrichments};
pub use events::Events;
pub use feeds::Feeds;
pub use notifications::Notifications;
pub use polls::Polls;
pub use server::{Readiness, Server};
pub use statistics::Statistics;
pub use subscriptions::Subscriptions;
pub use tags::Tags;
pub use webhooks::Webhooks;

#[cfg(feature = "blocking")]
pub(crate) mod blocking {
    //! The blocking handles, under their own names.

    pub use super::{
        admin::blocking::Admin, campaigns::blocking::Campaigns, devices::blocking::Devices,
        enrichments::blocking::Enrichments, events::blocking::Events, feeds::blocking::Feeds,
        notifications::blocking::Notifications, polls::blocking::Polls, server::blocking::Server,
        statistics::blocking::Statistics, subscriptions::blocking::Subscriptions,
        tags::blocking::Tags, webhooks::blocking::Webhooks,
    };
}
