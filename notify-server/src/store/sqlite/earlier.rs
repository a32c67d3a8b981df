//! Creates files of earlier versions with rows in every table, for upgrade tests.

use std::path::Path;

use rusqlite::Connection;

use super::migrate::{latest, make_version, sql_of};

/// The rows to insert into the tables that each version added, from version 1 on.
const ROWS: [&str; 24] = [
    include_str!("earlier/V0001.sql"),
    include_str!("earlier/V0002.sql"),
    include_str!("earlier/V0003.sql"),
    include_str!("earlier/V0004.sql"),
    include_str!("earlier/V0005.sql"),
    include_str!("earlier/V0006.sql"),
    include_str!("earlier/V0007.sql"),
    include_str!("earlier/V0008.sql"),
    include_str!("earlier/V0009.sql"),
    include_str!("earlier/V0010.sql"),
    // Version 11 adds a table whose row a running server writes.
    "",
    include_str!("earlier/V0012.sql"),
    // Version 13 adds a column with a default.
    "",
    include_str!("earlier/V0014.sql"),
    // Version 15 adds columns with defaults.
    "",
    // Version 16 changes nothing on SQLite.
    "",
    include_str!("earlier/V0017.sql"),
    // Versions 18 to 21 add columns that are null or have defaults in earlier rows.
    "",
    "",
    "",
    "",
    // Version 22 changes an index.
    "",
    include_str!("earlier/V0023.sql"),
    // Version 24 adds a column that is null in earlier rows.
    "",
];

/// The latest version.
#[must_use]
pub fn latest_version() -> i32 {
    latest()
}

/// Creates a file of a version, with rows in every table. The rows of each version are written
/// before the next migration.
///
/// # Panics
/// When the file cannot be written, or a version has no rows here.
pub fn make_earlier(path: &Path, version: i32) {
    assert_eq!(
        ROWS.len(),
        usize::try_from(latest()).unwrap_or(0),
        "each version has its rows here"
    );
    let mut connection = make_version(path, 0);
    for (version, rows) in (1..=version).zip(ROWS) {
        drop(connection);
        connection = make_version(path, version);
        connection.execute_batch(rows).expect("the rows are those of their version");
    }
    close(connection);
}

/// Creates a file whose last migration is not recorded, as a server before schema 11 left it if it
/// was killed between the two commits.
///
/// # Panics
/// As [`make_earlier`].
pub fn make_unrecorded(path: &Path, version: i32) {
    make_earlier(path, version - 1);
    let connection = make_version(path, version - 1);
    let whole = format!("begin immediate; {} ; commit;", sql_of(version));
    connection.execute_batch(&whole).expect("the migrations are right");
    close(connection);
}

/// Closes the last connection, which moves the content of the log into the file.
fn close(connection: Connection) {
    connection.close().expect("nothing holds the connection");
}
