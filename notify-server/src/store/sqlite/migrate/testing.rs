//! A file with rows in every table, and a migration that was made up to try what a migration does.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use refinery::{Migration, Runner};

use super::runner;

/// Whether this process has the migration that was made up.
pub(super) static IS_MADE_UP_USED: AtomicBool = AtomicBool::new(false);

/// Makes this process a later version of the server, which has one more migration.
pub fn use_made_up_migration() {
    IS_MADE_UP_USED.store(true, Ordering::Release);
}

/// The migrations of a runner, and the one that was made up.
pub(super) fn with_made_up(runner: &Runner) -> Runner {
    let mut migrations = runner.get_migrations().clone();
    let name = format!("V{}__made_up", super::latest_of(runner) + 1);
    let made_up = Migration::unapplied(&name, include_str!("made_up.sql"));
    migrations.push(made_up.expect("the name has a version"));
    Runner::new(&migrations).set_grouped(true)
}

/// Creates a file with the tables of this version and rows in every table.
///
/// # Panics
/// When the file cannot be written.
pub fn make_file(path: &Path) {
    drop(crate::store::sqlite::open::private_file(path).expect("the folder takes files"));
    let mut connection =
        crate::store::sqlite::connection::open_writer(path).expect("the file opens");
    runner().run(&mut connection).expect("the migrations are right");
    connection
        .execute_batch(include_str!("rows.sql"))
        .expect("the rows have the form of the tables");
    // The last connection moves the content of the log into the file.
    connection.close().expect("nothing holds the connection");
}
