//! Checks that every key begins with its application: for every table of both databases, with rows of
//! every kind.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;

use crate::store::contract::full_app;
use crate::store::postgres::testing::TestCluster;
use crate::store::postgres::{self, DatabaseUrl, PostgresOptions};
use crate::store::sql::{Connection, Row, params};
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{AppNo, SEQ_MAX, Store};

/// Tables without rows of applications, and why.
const OF_NO_APP: [(&str, &str); 11] = [
    ("apps", "the applications themselves, found by id before a number is known"),
    ("admin_keys", "those who administer all of them"),
    ("sessions", "of those who administer all applications"),
    ("audit", "what they changed; it outlives the application"),
    ("servers", "who works on the database"),
    ("moves", "where a move of the whole installation stands"),
    ("installation", "one row, what an installation remembers of itself"),
    ("storage_checks", "one row, written to see whether storage writes"),
    ("provider_tokens", "signed once for a team and key, which applications may share"),
    ("numbers", "the counts of SQLite's tables, over all applications"),
    ("refinery_schema_history", "the migrations"),
];

/// Columns whose names look like keys and that are not.
const NO_NUMBERS: [&str; 3] = ["chunk_no", "checkpoint_no", "collapse_key"];

const SQLITE_COLUMNS: &str = "select t.name, c.name, c.pk
    from pragma_table_list t join pragma_table_info(t.name) c
    where t.type = 'table' and t.name <> 'sqlite_schema' and t.name <> 'sqlite_temp_schema'";
const POSTGRES_COLUMNS: &str = "select c.table_name::text, c.column_name::text,
    coalesce((select k.ordinal_position::bigint from information_schema.key_column_usage k
      join information_schema.table_constraints t using (constraint_schema, constraint_name)
      where t.constraint_type = 'PRIMARY KEY' and k.table_name = c.table_name
      and k.column_name = c.column_name), 0)
    from information_schema.columns c where c.table_schema = 'public'";

#[test]
fn the_application_leads_every_key_in_sqlite() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify.db");
    let apps = filled(|| sqlite::open(&path, SqliteOptions::default()).unwrap());
    let (connection, _lock) = sqlite::open_exclusive(&path).unwrap();
    judge(&connection, SQLITE_COLUMNS, &apps);
}

#[test]
fn the_application_leads_every_key_in_postgres() {
    let database = TestCluster::shared().database();
    let url: DatabaseUrl = database.url().parse().unwrap();
    let apps = filled(|| postgres::open(&url, PostgresOptions::default()).unwrap());
    let judging = || judge(&postgres::connect(&url).unwrap(), POSTGRES_COLUMNS, &apps);
    thread::scope(|scope| scope.spawn(judging).join()).unwrap();
}

/// Two applications with rows of every kind, so that no number leads with the right one by chance.
fn filled(open: impl FnOnce() -> Arc<Store>) -> Vec<AppNo> {
    run(async {
        let store = open();
        let mut apps = Vec::new();
        for nth in 1..=2 {
            apps.push(full_app::of_an_app(&store, nth).await);
        }
        store.close().await;
        apps
    })
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(work)
}

fn judge(connection: &Connection, columns: &str, apps: &[AppNo]) {
    let mut tables = BTreeMap::<String, Vec<(i64, String)>>::new();
    let mut statement = connection.prepare_cached(columns).unwrap();
    let read = |row: &Row<'_>| Ok((row.get::<String>(0)?, (row.get(2)?, row.get(1)?)));
    for row in statement.query_map([], read).unwrap() {
        let (table, column) = row.unwrap();
        tables.entry(table).or_default().push(column);
    }
    let mut broken = Vec::new();
    for (table, columns) in &tables {
        let is_of_no_app = OF_NO_APP.iter().any(|(name, _)| name == table);
        if !is_of_no_app && let Err(wrong) = led(connection, table, columns, apps) {
            broken.push(format!("{table}: {wrong}"));
        }
    }
    assert!(tables.len() > 30, "the tables are listed: {tables:?}");
    assert!(broken.is_empty(), "see store/key.rs:\n{}", broken.join("\n"));
}

/// Checks that the key of a table begins with the application, that every application has rows, and
/// that references of a row stay in the same application.
fn led(
    connection: &Connection,
    table: &str,
    columns: &[(i64, String)],
    apps: &[AppNo],
) -> Result<(), String> {
    let key = columns.iter().find(|(place, _)| *place == 1);
    let (_, key) = key.ok_or("it has no key")?;
    let lead = |column: &str| match column {
        "app_no" => column.to_owned(),
        number => format!("({number} >> 43)"),
    };
    let is_number = |column: &str| {
        matches!(column, "app_no" | "no" | "key")
            || (column.ends_with("_no") || column.ends_with("_key"))
                && !NO_NUMBERS.contains(&column)
    };
    if !is_number(key) {
        return Err(format!("its key begins with {key}, which is no number of a row"));
    }
    let text = format!("select distinct {0} from {table} order by {0}", lead(key));
    let found = numbers(connection, &text);
    if found != apps.iter().map(|app| app.0).collect::<Vec<_>>() {
        return Err(format!("the applications that lead {key} are {found:?}, not {apps:?}"));
    }
    for (place, column) in columns {
        // After the application they are plain sequences or texts of callers.
        let is_own = matches!(column.as_str(), "no" | "key") && *place != 1;
        if is_own || !is_number(column) {
            continue;
        }
        let text = format!("select count(*) from {table} where {} <> {}", lead(column), lead(key));
        if numbers(connection, &text) != [0] {
            return Err(format!("{column} is led by another application than {key}"));
        }
    }
    Ok(())
}

fn numbers(connection: &Connection, text: &str) -> Vec<i64> {
    let mut statement = connection.prepare_cached(text).unwrap();
    let found = statement.query_map(params![], |row| row.get(0)).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

/// The bits in SQL statements are those of `key.rs`.
#[test]
fn the_count_of_a_number_is_all_but_its_lead() {
    let number = AppNo(3).key_prefix() | SEQ_MAX;
    let folder = tempfile::tempdir().unwrap();
    let (connection, _lock) = sqlite::open_exclusive(&folder.path().join("notify.db")).unwrap();
    let text = format!("select {} from (select {number} as no)", crate::store::sql::seq_of!("no"));
    assert_eq!(numbers(&connection, &text), [SEQ_MAX]);
    let text = format!("select {number} >> 43");
    assert_eq!(numbers(&connection, &text), [3]);
}
