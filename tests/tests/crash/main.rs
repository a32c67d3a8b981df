//! Faults of a server's process, disk and database, and what must hold in spite of them: the rows
//! T1, T1b, T2, T3, T13, T15, T20, T23 and *move* of `docs/reliability.md`, each in its file.

mod changes;
mod database;
mod db_outage;
mod disk;
mod kills;
mod large;
mod load;
mod migrations;
mod moving;
mod outages;
mod points;
mod promotion;
mod repeats;
mod restarts;
mod servers;
mod stops;
mod takeover;

use std::path::Path;

use notify_core::Platform;
use notify_tests::{AudienceSize, Launch};

/// Most messages that the end of one process may repeat (`--max-unacked-deliveries`).
const CREDIT: usize = 64;

/// People of one application: on every platform, and few enough that many notifications go out.
const CROWD: AudienceSize = AudienceSize { phones: 16, browsers: 8, chats: 8 };

/// Few people, so that a notification completes at once, and still goes to every platform.
const FEW: AudienceSize = AudienceSize { phones: 3, browsers: 2, chats: 1 };

/// A server on a folder, as nearly every test here starts it.
fn launch(data_dir: &Path) -> Launch {
    launch_with(data_dir, CREDIT)
}

/// The same with another credit. The push services are on this machine.
fn launch_with(data_dir: &Path, credit: usize) -> Launch {
    Launch::on(data_dir)
        .argument("--max-unacked-deliveries")
        .argument(&credit.to_string())
        .argument("--allow-private-networks")
}

/// A number that the environment may set, such as the seed of a run that is to be played again.
fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Every platform.
const ALL: [Platform; 5] = Platform::ALL;
