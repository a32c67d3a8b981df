//! The addresses of the server and what each of them has: the main one, and those of `--admin-listen` and
//! `--console-listen`.

use crate::api::console;
use crate::api::handlers::probes;
use crate::api::path::{ADMIN_API, is_below};
use crate::api::router::{Endpoint, Router, get_raw};
use crate::api::routes::{public_routes, routes};
use crate::config::{Config, Switch};

/// An address on which the server listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// `--listen`.
    Main,
    /// `--admin-listen`.
    Admin,
    /// `--console-listen`.
    Console,
}

impl Port {
    /// The address that has the admin API and the metrics.
    pub(crate) fn of_admin(config: &Config) -> Self {
        if config.admin_listen.is_some() { Self::Admin } else { Self::Main }
    }

    /// The address that has the console. Without an address of its own, the console is where the admin API
    /// is, because it can do the same. `None`: there is no console.
    pub(crate) fn of_console(config: &Config) -> Option<Self> {
        let own = config.console_listen.as_ref().map(|_| Self::Console);
        (config.console == Switch::On).then(|| own.unwrap_or(Self::of_admin(config)))
    }
}

/// What an address has. All addresses share the limits, the memory and the metrics.
pub(super) struct Site {
    /// Its routes.
    pub(super) router: Router,
    /// Whether it has the API of applications, apps and browsers.
    pub(super) has_api: bool,
    /// Whether it has the admin API and the metrics.
    pub(super) has_admin: bool,
    /// Whether it has the console.
    pub(super) has_console: bool,
}

impl Site {
    /// The site of an address with these settings.
    pub(super) fn new(config: &Config, port: Port) -> Self {
        let has_api = port != Port::Console;
        let has_admin = port == Port::of_admin(config);
        let has_console = Some(port) == Port::of_console(config);
        let mut routes = match port {
            Port::Console => console_routes(),
            Port::Main | Port::Admin if has_admin => routes(),
            Port::Main | Port::Admin => public_routes(),
        };
        if has_console && has_api {
            routes.extend(console::routes());
        }
        Self { router: Router::new(routes), has_api, has_admin, has_console }
    }

    /// Whether a path belongs to the console of this site.
    pub(super) fn is_console(&self, path: &str) -> bool {
        self.has_console && is_below(path, console::AREA)
    }

    /// Whether a path belongs to the admin API of this site. Elsewhere the path does not exist: a 401 would
    /// reveal that it does.
    pub(super) fn is_admin(&self, path: &str) -> bool {
        self.has_admin && is_below(path, ADMIN_API)
    }
}

/// The routes of an address that has the console alone, with the probes for a proxy in front of it.
fn console_routes() -> Vec<Endpoint> {
    let mut all = console::own_address_routes();
    all.push(get_raw("/healthz", probes::health));
    all.push(get_raw("/readyz", probes::ready));
    all
}
