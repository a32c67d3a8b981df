//! The addresses of the server and what each of them has: the main one, and that of `--console-listen`.

use crate::api::console;
use crate::api::router::Router;
use crate::api::routes::{all_routes, console_routes, routes};
use crate::config::{Config, Switch};

/// An address on which the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// `--listen`.
    Main,
    /// `--console-listen`.
    Console,
}

/// What an address has. All addresses share the limits, the memory and the metrics.
pub(super) struct Site {
    /// Its routes.
    pub(super) router: Router,
    /// Whether it has the API.
    pub(super) has_api: bool,
    /// Whether it has the console.
    pub(super) has_console: bool,
}

impl Site {
    /// The site of an address with these settings.
    pub(super) fn new(config: &Config, port: Port) -> Self {
        let is_apart = config.console_listen.is_some();
        let (routes, has_api, has_console) = match port {
            Port::Main if config.console == Switch::On && !is_apart => (all_routes(), true, true),
            Port::Main => (routes(), true, false),
            Port::Console => (console_routes(), false, true),
        };
        Self { router: Router::new(routes), has_api, has_console }
    }

    /// Whether a path belongs to the console of this site.
    pub(super) fn is_console(&self, path: &str) -> bool {
        self.has_console && super::is_below(path, console::AREA)
    }
}
