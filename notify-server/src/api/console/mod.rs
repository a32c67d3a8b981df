//! The administration console: pages for operators under `/console/`.
//!
//! The server renders every page (askama, `templates/`). A page works without its script; the script
//! refreshes counts, copies keys and previews messages. Each page reads and writes through the handlers of
//! the API ([`calls`]), so the console can do nothing that the API cannot. All links are relative, because a
//! proxy may serve the console below a prefix.

mod calls;
mod drawing;
mod form;
mod format;
mod page;
mod problems;
mod screen;
mod screens;
mod session;
mod sign_in;
mod visit;

pub(crate) use self::page::error_page;
use self::page::{asset, redirect};
use self::screen::action;
pub(crate) use self::session::session_of;
pub(crate) use self::sign_in::{FORM_BYTES_MAX, FirstSignIn};
use crate::api::router::{Endpoint, get_raw, post_raw};

/// The path below which the console is.
pub(crate) const AREA: &str = "/console";

/// The routes of the console. The OpenAPI document does not list them.
pub(crate) fn routes() -> Vec<Endpoint> {
    let mut routes = vec![
        // Links on the overview are relative to `/console/`.
        get_raw("/console", async |_| Ok(redirect("console/"))),
        get_raw("/console/console.css", async |_| Ok(asset(&page::STYLE))),
        get_raw("/console/console.js", async |_| Ok(asset(&page::SCRIPT))),
        get_raw("/console/icons.svg", async |_| Ok(asset(&page::ICONS))),
        get_raw("/console/sign-in", sign_in::show),
        post_raw("/console/sign-in", sign_in::submit),
        get_raw("/console/first", sign_in::show_first),
        post_raw("/console/first", sign_in::submit_first),
        action("/console/sign-out", session::sign_out),
    ];
    routes.extend(screens::routes());
    routes
}

/// The routes of an address that has the console alone.
pub(crate) fn own_address_routes() -> Vec<Endpoint> {
    let mut all = routes();
    all.push(get_raw("/", async |_| Ok(redirect("console/"))));
    all
}
