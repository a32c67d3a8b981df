//! A handle for each resource. Each file lists the calls of its resources once; [`crate::handle`]
//! generates both forms.

mod admin;
mod campaigns;
mod devices;
mod feeds;
mod notifications;
mod server;
mod statistics;
mod webhooks;

pub use admin::Admin;
pub use campaigns::{Campaigns, EnrichmentResponse, Enrichments};
pub use devices::{Devices, Events, Subscriptions, Tags};
pub use feeds::Feeds;
pub use notifications::{Notifications, Polls};
pub use server::{Readiness, Server};
pub use statistics::Statistics;
pub use webhooks::Webhooks;

#[cfg(feature = "blocking")]
pub(crate) mod blocking {
    //! The blocking handles, under the same names.

    pub use super::{
        admin::admin::Admin,
        campaigns::{campaigns::Campaigns, enrichments::Enrichments},
        devices::{devices::Devices, events::Events, subscriptions::Subscriptions, tags::Tags},
        feeds::feeds::Feeds,
        notifications::{notifications::Notifications, polls::Polls},
        server::server::Server,
        statistics::statistics::Statistics,
        webhooks::webhooks::Webhooks,
    };
}
