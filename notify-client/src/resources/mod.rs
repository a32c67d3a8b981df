//! A handle for each resource. Each file lists the calls of its resources once; [`crate::handle`]
//! generates both forms.

mod admin;
mod campaigns;
mod devices;
mod feeds;
mod notifications;
mod segments;
mod server;
mod statistics;
mod users;
mod webhooks;

pub use admin::Admin;
pub use campaigns::{Campaigns, EnrichmentResponse, Enrichments};
pub use devices::{Devices, Events, Subscriptions, Tags};
pub use feeds::Feeds;
pub use notifications::{Notifications, Polls};
pub use segments::Segments;
pub use server::{Readiness, Server};
pub use statistics::Statistics;
pub use users::Users;
pub use webhooks::Webhooks;

/// Refuses a name that would change the path of the request. Returns any other name unchanged.
fn check_name(name: &str) -> Result<&str, crate::Error> {
    let invalid = |rule: &str| crate::Error::Invalid(notify_core::Violations::one("name", rule));
    match name {
        "" => Err(invalid("must not be empty")),
        "." | ".." => Err(invalid("must not be `.` or `..`")),
        _ => Ok(name),
    }
}

#[cfg(feature = "blocking")]
pub(crate) mod blocking {
    //! The blocking handles, under the same names.

    pub use super::{
        admin::admin::Admin,
        campaigns::{campaigns::Campaigns, enrichments::Enrichments},
        devices::{devices::Devices, events::Events, subscriptions::Subscriptions, tags::Tags},
        feeds::feeds::Feeds,
        notifications::{notifications::Notifications, polls::Polls},
        segments::segments::Segments,
        server::server::Server,
        statistics::statistics::Statistics,
        users::users::Users,
        webhooks::webhooks::Webhooks,
    };
}
