//! The pages behind the sign-in, one file for each subject.

mod apps;
mod composer;
mod devices;
mod notifications;
mod operators;
mod overview;
mod playground;
mod send;

use crate::api::router::Endpoint;

/// The routes of all pages.
pub(super) fn routes() -> Vec<Endpoint> {
    let mut routes = overview::routes();
    routes.extend(apps::routes());
    routes.extend(send::routes());
    routes.extend(notifications::routes());
    routes.extend(devices::routes());
    routes.extend(playground::routes());
    routes.extend(operators::routes());
    routes
}
