//! A migration to a made-up next version, whole and interrupted.

use std::path::PathBuf;

use rusqlite::types::Value;

use super::testing::{make_file, with_made_up};
use super::*;

/// Prevents writing the record of a migration.
const NO_RECORDS: &str = "create trigger no_records before insert on refinery_schema_history
    begin select raise(abort, 'on purpose'); end";

/// A file with rows in every table.
struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify.db");
        make_file(&path);
        Self { _folder: folder, path }
    }

    fn migrated(&self, connection: &mut Connection) -> std::result::Result<(), OpenError> {
        migrate_by(&with_made_up(&runner()), &self.path, connection)
    }

    fn connection(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    /// The rows of every table, except the record of migrations.
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
fn every_table_has_a_row_that_a_migration_can_lose() {
    let empty: Vec<String> = File::new()
        .rows()
        .into_iter()
        .filter(|(_, rows)| rows.is_empty())
        .map(|(name, _)| name)
        .collect();
    // A server does not open a database that was moved, and a running server writes the other row.
    assert_eq!(empty, ["installation", "moves"]);
}

#[test]
fn a_migration_and_its_record_are_committed_together() {
    let file = File::new();
    let before = file.rows();
    let mut connection = file.connection();
    connection.execute_batch(NO_RECORDS).unwrap();
    let error = file.migrated(&mut connection).unwrap_err();
    let (last, next) = (latest(), latest() + 1);
    assert!(
        matches!(&error, OpenError::Migration { found, known, .. } if (*found, *known) == (last, next)),
        "{error:?}"
    );
    assert!(error.to_string().contains("the next start tries again"), "{error}");
    assert_eq!(file.rows(), before);
    connection.execute_batch("drop trigger no_records").unwrap();
    file.migrated(&mut connection).unwrap();
    assert_eq!(recorded_version(&connection).unwrap(), next);
    let after = file.rows();
    assert_eq!(after["regions"], [[Value::Text("eu".into())]]);
    for (table, rows) in before {
        assert_eq!(after[&table].len(), rows.len(), "{table}");
    }
    file.migrated(&mut connection).unwrap();

    let error = migrate(&file.path, &mut connection).unwrap_err();
    let expected = (i64::from(next), i64::from(last));
    assert!(
        matches!(error, OpenError::Newer { found, known, .. } if (found, known) == expected),
        "{error:?}"
    );
}

#[test]
fn what_an_operator_added_hinders_no_migration() {
    let file = File::new();
    let mut connection = file.connection();
    connection.execute_batch("create index mine on devices (created_at)").unwrap();
    file.migrated(&mut connection).unwrap();
}

#[test]
fn tables_that_are_no_versions_are_refused_with_what_to_do() {
    let file = File::new();
    let mut connection = file.connection();
    connection.execute_batch("drop table device_tags").unwrap();
    let before = file.rows();
    let error = file.migrated(&mut connection).unwrap_err();
    assert!(matches!(error, OpenError::OtherTables { .. }), "{error:?}");
    assert!(error.to_string().contains("restore notify.db from the last backup"), "{error}");
    assert_eq!(file.rows(), before);
}

/// A backup would not help against a full disk.
#[test]
fn a_full_disk_is_not_taken_for_wrong_tables() {
    let file = File::new();
    let mut connection = file.connection();
    connection.execute_batch("drop table segments; vacuum").unwrap();
    let pages: i64 = connection.query_row("pragma page_count", [], |row| row.get(0)).unwrap();
    connection.pragma_update(None, "max_page_count", pages).unwrap();
    let error = file.migrated(&mut connection).unwrap_err();
    assert!(matches!(error, OpenError::Migration { .. }), "{error:?}");
}
