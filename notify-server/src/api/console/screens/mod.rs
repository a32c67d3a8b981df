//! The pages behind the sign-in, one file for each subject.

mod apps;
mod devices;
mod doctor;
mod find;
mod notifications;
mod operators;
mod overview;
mod providers;
mod web_access;

use crate::api::router::Endpoint;

/// The routes of all pages.
pub(super) fn routes() -> Vec<Endpoint> {
    let mut routes = overview::routes();
    routes.extend(apps::routes());
    routes.extend(notifications::routes());
    routes.extend(devices::routes());
    routes.extend(providers::routes());
    routes.extend(web_access::routes());
    routes.extend(doctor::routes());
    routes.extend(operators::routes());
    routes.extend(find::routes());
    routes
}
