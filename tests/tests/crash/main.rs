//! Faults of a server's process, disk and database, and the promises that must hold in spite of them: the
//! rows T1, T1b, T2, T3, T13, T15, T20, T23, T24, T26, T27, T28, *move* and *restore* of `docs/reliability.md`, each
//! in a separate file.

mod changes;
mod database;
mod db_outage;
mod disk;
mod kills;
mod large;
mod load;
mod migrations;
mod moving;
mod on_crash;
mod outages;
mod pace;
mod points;
mod promotion;
mod repeats;
mod restarts;
mod restoring;
mod servers;
mod stops;
mod takeover;
mod users;

use std::path::Path;

use notify_core::Platform;
use notify_tests::{AudienceSize, Launch};

/// The most messages that the end of one process may repeat (`--max-unacked-deliveries`).
const CREDIT: usize = 64;

/// The people of one application: some on every platform, and few enough that the server completes many
/// notifications.
const CROWD: AudienceSize = AudienceSize { phones: 16, browsers: 8, chats: 8 };

/// A small audience on every platform, whose notification completes at once.
const FEW: AudienceSize = AudienceSize { phones: 3, browsers: 2, chats: 1 };

/// The settings of a server on a folder for most of these tests.
fn launch(data_dir: &Path) -> Launch {
    launch_with(data_dir, CREDIT)
}

/// The settings of a server with another credit. It may send to push services on this machine.
fn launch_with(data_dir: &Path, credit: usize) -> Launch {
    Launch::on(data_dir)
        .argument("--max-unacked-deliveries")
        .argument(&credit.to_string())
        .argument("--allow-private-networks")
}

/// A number from the environment, such as the seed of a run that is to be repeated.
fn setting<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// All platforms.
const ALL: [Platform; 5] = Platform::ALL;
