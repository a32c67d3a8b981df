//! Interrupted migrations, and files that they damaged in old versions.

use std::path::PathBuf;

use rusqlite::types::Value;

use super::*;
use crate::store::sqlite::{self, SqliteOptions, make_earlier, make_unrecorded};

/// Prevents writing the record of a migration.
const NO_RECORDS: &str = "create trigger no_records before insert on refinery_schema_history
    begin select raise(abort, 'on purpose'); end";

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify.db");
        Self { _folder: folder, path }
    }

    fn earlier(version: i32) -> Self {
        let file = Self::new();
        make_earlier(&file.path, version);
        file
    }

    fn upgraded(&self) -> std::result::Result<(), OpenError> {
        sqlite::open(&self.path, SqliteOptions::default()).map(drop)
    }

    fn connection(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// All rows of all tables except the record of migrations, which contains the time.
    fn rows(&self) -> BTreeMap<String, Vec<Vec<Value>>> {
        let connection = self.connection();
        let names = schema(&connection).unwrap().into_keys();
        let tables = names.filter(|(kind, _)| kind == "table").map(|(_, name)| name);
        tables.map(|name| (name.clone(), rows_of(&connection, &name))).collect()
    }
}

fn rows_of(connection: &Connection, table: &str) -> Vec<Vec<Value>> {
    let mut statement = connection.prepare(&format!("select * from {table}")).unwrap();
    let columns = statement.column_count();
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column)).collect();
    statement.query_map([], row).unwrap().collect::<rusqlite::Result<_>>().unwrap()
}

#[test]
fn a_migration_without_its_record_is_not_committed() {
    for version in 0..latest() {
        let file = File::earlier(version);
        let before = file.rows();
        file.connection().execute_batch(NO_RECORDS).unwrap();
        let error = file.upgraded().unwrap_err();
        assert!(
            matches!(&error, OpenError::Migration { found, known, .. } if (*found, *known) == (version, latest())),
            "{version}: {error:?}"
        );
        assert!(error.to_string().contains("the next start tries again"), "{error}");
        assert_eq!(file.rows(), before, "{version}");
        file.connection().execute_batch("drop trigger no_records").unwrap();
        file.upgraded().unwrap();
        assert!(has_tables_of(&file.connection(), latest()).unwrap(), "{version}");
    }
}

#[test]
fn a_migration_that_is_applied_and_not_recorded_is_recorded() {
    for version in 1..=latest() {
        let file = File::new();
        make_unrecorded(&file.path, version);
        assert_eq!(recorded_version(&file.connection()).unwrap(), version - 1);
        let before = file.rows();
        file.upgraded().unwrap_or_else(|error| panic!("{version}: {error:?}"));
        let recorded = rows_of(&file.connection(), "refinery_schema_history").len();
        assert_eq!(i32::try_from(recorded), Ok(latest()), "{version}: each has one record");
        let after = file.rows();
        for (table, rows) in before {
            // A later migration may add a table with a counter.
            if table == "numbers" {
                assert!(after[&table].len() >= rows.len(), "{version}");
            } else {
                assert_eq!(after[&table].len(), rows.len(), "{version}: {table}");
            }
        }
        file.upgraded().unwrap();
    }
}

#[test]
fn what_an_operator_added_hides_no_migration_that_is_applied() {
    let file = File::new();
    make_unrecorded(&file.path, 4);
    file.connection().execute_batch("create index mine on devices (created_at)").unwrap();
    file.upgraded().unwrap();
}

#[test]
fn tables_that_are_no_versions_are_refused_with_what_to_do() {
    let file = File::new();
    make_unrecorded(&file.path, 4);
    file.connection().execute_batch("drop table webhook_messages").unwrap();
    let before = file.rows();
    let error = file.upgraded().unwrap_err();
    assert!(
        matches!(error, OpenError::Migration { found: 3, .. }),
        "half of version 4 next to all of version 3: {error:?}"
    );
    file.connection().execute_batch("drop table feed_items").unwrap();
    let error = file.upgraded().unwrap_err();
    assert!(matches!(error, OpenError::OtherTables { found: 3, .. }), "{error:?}");
    assert!(error.to_string().contains("restore notify.db from the last backup"), "{error}");
    assert_eq!(file.rows().len(), before.len() - 1);
}

/// A backup would not help against a full disk.
#[test]
fn a_full_disk_is_not_taken_for_wrong_tables() {
    let file = File::new();
    let mut connection = make_version(&file.path, 3);
    connection.execute_batch("drop table feed_items; vacuum").unwrap();
    let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0)).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    let error = migrate(&file.path, &mut connection).unwrap_err();
    assert!(matches!(error, OpenError::Migration { found: 3, .. }), "{error:?}");
}
