//! The pages behind the sign-in, one file for each subject.

mod apps;
mod attributes;
mod campaign_files;
mod campaigns;
mod composer;
mod devices;
mod doctor;
mod events;
mod expressions;
mod feeds;
mod find;
mod notifications;
mod operators;
mod overview;
mod platform_options;
mod playground;
pub(super) mod polls;
mod providers;
mod segments;
mod send;
mod users;
mod web_access;
mod webhooks;

use crate::api::router::Endpoint;

/// The routes of all pages.
pub(super) fn routes() -> Vec<Endpoint> {
    let mut routes = overview::routes();
    routes.extend(apps::routes());
    routes.extend(send::routes());
    routes.extend(notifications::routes());
    routes.extend(devices::routes());
    routes.extend(users::routes());
    routes.extend(segments::routes());
    // The paths of files have names in the place of an id, and the first path that fits is taken.
    routes.extend(campaign_files::routes());
    routes.extend(campaigns::routes());
    routes.extend(feeds::routes());
    routes.extend(polls::routes());
    routes.extend(webhooks::routes());
    routes.extend(events::routes());
    routes.extend(providers::routes());
    routes.extend(web_access::routes());
    routes.extend(doctor::routes());
    routes.extend(playground::routes());
    routes.extend(operators::routes());
    routes.extend(find::routes());
    routes
}
