//! Transfers in both directions with rows in every table, interrupted anywhere, and refused ones.

use std::path::Path;
use std::thread;

use notify_core::AppId;
use tempfile::TempDir;

use super::database::Database;
use super::table::Table;
use super::{
    DatabaseLocation, LocationError, MoveError, MoveMark, MoveReport, MoveState, Progress, Step,
    freeze, move_installation, set_marks, undo_move,
};
use crate::store::contract::fixtures;
use crate::store::postgres::testing::{TestCluster, TestDatabase};
use crate::store::postgres::{self, PostgresOptions};
use crate::store::sql::{Moved, params};
use crate::store::sqlite::{self, SqliteOptions};
use crate::store::{AppNo, StoreError};

const EVERYTHING: &str = include_str!("tests/everything.sql");
const AT_MS: i64 = 1_780_000_123_456;

/// A file with rows in every table, and an empty database.
struct Installation {
    folder: TempDir,
    database: TestDatabase,
}

impl Installation {
    fn new() -> Self {
        let made =
            Self { folder: TempDir::new().unwrap(), database: TestCluster::shared().database() };
        let side = Database::open_exclusive(&made.file()).unwrap();
        side.connection.execute_batch(EVERYTHING).unwrap();
        made
    }

    fn file(&self) -> DatabaseLocation {
        self.named("notify.db")
    }

    fn named(&self, name: &str) -> DatabaseLocation {
        DatabaseLocation::Sqlite(self.folder.path().join(name))
    }

    fn postgres(&self) -> DatabaseLocation {
        self.database.url().parse().unwrap()
    }

    fn open_file(&self) -> Result<(), sqlite::OpenError> {
        sqlite::open(&self.folder.path().join("notify.db"), SqliteOptions::default()).map(drop)
    }

    fn open_postgres(&self) -> Result<(), postgres::OpenError> {
        let options = PostgresOptions { serves: false, readers: 1, ..PostgresOptions::default() };
        postgres::open(&self.database.url().parse().unwrap(), options).map(drop)
    }
}

/// On a thread without a runtime, as a transfer requires.
fn moved(from: &DatabaseLocation, to: &DatabaseLocation) -> Result<MoveReport, MoveError> {
    watched(from, to, |_| {})
}

fn watched(
    from: &DatabaseLocation,
    to: &DatabaseLocation,
    mut watch: impl FnMut(Progress<'_>) + Send,
) -> Result<MoveReport, MoveError> {
    let work = || move_installation(from, to, AT_MS, &mut watch);
    thread::scope(|scope| scope.spawn(work).join()).unwrap()
}

/// Runs a transfer until `is_enough`, as if the process were killed there.
fn ended(from: &DatabaseLocation, to: &DatabaseLocation, is_enough: fn(Progress<'_>) -> bool) {
    let work = || {
        let mut watch = |progress: Progress<'_>| assert!(!is_enough(progress), "enough");
        move_installation(from, to, AT_MS, &mut watch)
    };
    let broke_down = thread::scope(|scope| scope.spawn(work).join());
    assert!(broke_down.is_err(), "the move came to its end before");
}

#[test]
fn everything_goes_there_and_back_with_its_numbers() {
    let home = Installation::new();
    let there = moved(&home.file(), &home.postgres()).unwrap();
    let empty: Vec<_> = there.tables.iter().filter(|table| table.rows == 0).collect();
    assert!(empty.is_empty(), "tables that {EVERYTHING:.20}… leaves empty: {empty:?}");
    assert_eq!(there.copied, there.tables.iter().map(|table| table.rows).sum::<u64>());

    let back = home.named("back.db");
    let again = moved(&home.postgres(), &back).unwrap();
    // PostgreSQL stores U+FFFD in place of U+0000. The digests of both are the same.
    assert_eq!(again, there);
    // Keys are not reused in either database.
    for place in [home.postgres(), back] {
        let work = || {
            let side = Database::open_exclusive(&place).unwrap();
            side.set_mark(None).unwrap();
            let app = AppNo(7);
            for (sql, expected) in [
                ("insert into tags (no, app_no, name) values (?1, 7, ?2)", 41),
                (
                    "insert into campaigns (no, app_no, id, name, name_folded, status, is_default,
                     created_at, template)
                     values (?1, 7, (select id from apps where no = 7), ?2, '', 'active', 0, 1, '')",
                    5,
                ),
            ] {
                let mut insert = side.connection.prepare_insert(sql).unwrap();
                let no = insert.insert(app, params!["new"]).unwrap();
                assert_eq!(no, Some(app.key_prefix() | expected), "{sql} at {place}");
            }
            let key = "insert into admin_keys (no, id, hash, hint, created_at)
                values (?1, ?2, ?3, '', 1)";
            let mut insert = side.connection.prepare_insert(key).unwrap();
            assert_eq!(
                insert.insert_unprefixed(params![[7; 16], [7; 32]]).unwrap(),
                Some(2),
                "at {place}"
            );
        };
        thread::scope(|scope| scope.spawn(work).join()).unwrap();
    }
}

/// PostgreSQL would log a warning for each table that its user may not analyse.
#[test]
fn a_move_has_postgres_collect_statistics_of_its_own_tables_alone() {
    let home = Installation::new();
    home.database.execute(
        "create schema others; create table others.things (no int); insert into others.things values (1)",
    );
    moved(&home.file(), &home.postgres()).unwrap();
    let looked_at = |tables: &str| {
        let count = "select count(*) from pg_stat_all_tables where last_analyze is not null and";
        home.database.numbers(&format!("{count} {tables}"))
    };
    assert_eq!(looked_at("schemaname = 'public' and relname in ('apps', 'devices')"), [2]);
    assert_eq!(looked_at("schemaname = 'others'"), [0]);
}

#[test]
fn an_installation_moves_into_a_schema_and_back() {
    let home = Installation::new();
    home.database.execute(
        "create schema things; create schema one; create table public.foreign_one (no int)",
    );
    let one: DatabaseLocation = home.database.url_of_schema("one").parse().unwrap();
    assert!(one.to_string().ends_with(" (schema one)"), "{one}");
    let there = moved(&home.file(), &one).unwrap();
    let back = home.named("back.db");
    assert_eq!(moved(&one, &back).unwrap(), there);
    // The other schemas are other places.
    let public = home.postgres();
    assert!(
        matches!(moved(&back, &public), Err(MoveError::NotEmpty { table, .. }) if table == "foreign_one")
    );
    let things: DatabaseLocation = home.database.url_of_schema("things").parse().unwrap();
    assert_eq!(moved(&back, &things).unwrap(), there);
    let schemas = "select schemaname::text from pg_tables where tablename = 'apps' order by 1";
    assert_eq!(home.database.texts(schemas), ["one", "things"]);
}

#[test]
fn both_have_the_same_tables_and_columns() {
    let home = Installation::new();
    let work = || {
        let (sqlite, postgres) = (
            Database::open_exclusive(&home.file()).unwrap(),
            Database::open_exclusive(&home.postgres()).unwrap(),
        );
        let described = |table: &Table| {
            assert!(table.key_columns > 0, "{} has no primary key", table.name);
            let mut columns: Vec<_> = table
                .columns
                .iter()
                .map(|column| format!("{} {:?}", column.name, column.kind))
                .collect();
            columns.sort();
            (table.name.clone(), columns)
        };
        let mut here: Vec<_> =
            Table::all(&sqlite.connection).unwrap().iter().map(described).collect();
        here.sort();
        let mut statement = postgres
            .connection
            .prepare_cached(
                "select table_name::text, string_agg(column_name || case data_type
                        when 'bigint' then ' Integer' when 'text' then ' Text' else ' Blob' end,
                    ',' order by column_name collate \"C\")
                   from information_schema.columns
                  where table_schema = 'public' and table_name not in
                        ('refinery_schema_history', 'storage_checks', 'servers', 'moves')
                  group by table_name order by table_name collate \"C\"",
            )
            .unwrap();
        let there = statement.query_map([], |row| Ok((row.get(0)?, row.get::<String>(1)?)));
        let there: Vec<(String, Vec<String>)> = there
            .unwrap()
            .map(|row| row.map(|(name, all)| (name, all.split(',').map(str::to_owned).collect())))
            .collect::<Result<_, _>>()
            .unwrap();
        assert_eq!(here, there);
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap();
}

#[test]
fn a_move_that_ended_anywhere_goes_on() {
    let home = Installation::new();
    let (file, database) = (home.file(), home.postgres());
    let all = {
        let other = Installation::new();
        moved(&other.file(), &other.postgres()).unwrap().copied
    };
    // Between two chunks of a table, at the end of another one, and while it compares.
    ended(&file, &database, |now| now.table == "devices" && now.rows > 60);
    ended(&file, &database, |now| now.table == "engagement");
    assert!(matches!(
        home.open_postgres(),
        Err(postgres::OpenError::Moved { source: Moved::Importing(_), .. })
    ));
    ended(&file, &database, |now| now.step == Step::Comparing && now.table == "devices");
    let last = moved(&file, &database).unwrap();
    assert_eq!(last.copied, 0, "all was there");
    assert_eq!(last.tables.iter().map(|table| table.rows).sum::<u64>(), all);
    home.open_postgres().unwrap();
}

#[test]
fn transferred_source_is_unusable_until_undone() {
    let home = Installation::new();
    moved(&home.file(), &home.postgres()).unwrap();
    let refused = home.open_file().unwrap_err();
    let sqlite::OpenError::Moved { source, .. } = &refused else { panic!("{refused:?}") };
    assert_eq!(source, &Moved::Retired(home.postgres().to_string()));
    assert!(matches!(moved(&home.file(), &home.postgres()), Err(MoveError::AlreadyMoved { .. })));
    assert_eq!(undo_move(&home.file()).unwrap(), Some(home.postgres().to_string()));
    home.open_file().unwrap();
    assert_eq!(undo_move(&home.file()).unwrap(), None);
}

#[test]
fn source_used_in_between_restarts_the_transfer() {
    let home = Installation::new();
    ended(&home.file(), &home.postgres(), |now| now.table == "engagement");
    home.open_file().unwrap();
    let refused = moved(&home.file(), &home.postgres()).unwrap_err();
    assert!(matches!(refused, MoveError::OtherMove { .. }), "{refused}");
    // Nor another source.
    let other = Installation::new();
    let refused = moved(&other.file(), &home.postgres()).unwrap_err();
    assert!(matches!(refused, MoveError::OtherMove { .. }), "{refused}");
    // An incomplete database cannot be a source.
    let refused = moved(&home.postgres(), &home.named("new.db")).unwrap_err();
    assert!(matches!(refused, MoveError::Unfinished { .. }), "{refused}");
}

#[test]
fn rows_that_changed_behind_its_back_show() {
    let home = Installation::new();
    ended(&home.file(), &home.postgres(), |now| now.step == Step::Comparing);
    home.database.execute("update feed_items set title = 'another'");
    let refused = moved(&home.file(), &home.postgres()).unwrap_err();
    assert!(
        matches!(&refused, MoveError::Differs { table, source_rows: 1, target_rows: 1 }
        if table == "feed_items"),
        "{refused}"
    );
    home.open_file().unwrap();
}

#[test]
fn a_source_that_is_served_and_a_target_that_is_used_are_refused() {
    let home = Installation::new();
    let path = home.folder.path().join("notify.db");
    let server = sqlite::open(&path, SqliteOptions::default()).unwrap();
    let refused = moved(&home.file(), &home.postgres()).unwrap_err();
    assert!(matches!(refused, MoveError::Sqlite(sqlite::OpenError::InUse(_))), "{refused}");
    drop(server);

    home.open_postgres().unwrap();
    home.database.execute("insert into servers values (1, 9000000000000)");
    let refused = moved(&home.file(), &home.postgres()).unwrap_err();
    assert!(matches!(refused, MoveError::Served { servers: 1, .. }), "{refused}");
    home.database.execute("delete from servers");

    home.database.execute(
        "insert into admin_keys (no, id, hash, hint, created_at)
        values (1, decode(repeat('00', 16), 'hex'), decode(repeat('00', 32), 'hex'), '', 1)",
    );
    let refused = moved(&home.file(), &home.postgres()).unwrap_err();
    assert!(matches!(&refused, MoveError::NotEmpty { table, .. } if table == "admin_keys"));
    home.open_file().unwrap();

    let strange = TestCluster::shared().database();
    strange.execute("create table mine (no bigint)");
    let strange: DatabaseLocation = strange.url().parse().unwrap();
    let refused = moved(&home.file(), &strange).unwrap_err();
    assert!(matches!(&refused, MoveError::NotEmpty { table, .. } if table == "mine"), "{refused}");
    let refused = moved(&strange, &home.named("new.db")).unwrap_err();
    assert!(matches!(refused, MoveError::NoSource(_)), "{refused}");
    let refused = moved(&home.named("none.db"), &home.postgres()).unwrap_err();
    assert!(matches!(refused, MoveError::NoSource(_)), "{refused}");
    let refused = moved(&home.file(), &home.named("copy.db")).unwrap_err();
    assert!(matches!(refused, MoveError::SameKind), "{refused}");
}

#[test]
fn a_writer_in_the_source_is_refused() {
    let home = Installation::new();
    moved(&home.file(), &home.postgres()).unwrap();
    let (written, to) = (home.postgres(), home.named("back.db"));
    let held = || {
        let side = Database::open_exclusive(&written).unwrap();
        side.connection.begin_write().unwrap();
        let refused = moved(&written, &to).unwrap_err();
        assert!(matches!(refused, MoveError::Written(_)), "{refused}");
    };
    thread::scope(|scope| scope.spawn(held).join()).unwrap();
}

#[test]
fn file_in_transfer_cannot_be_opened() {
    let home = Installation::new();
    let path = home.folder.path().join("notify.db");
    let mut refused = Vec::new();
    let watch = |now: Progress<'_>| {
        if now.step == Step::Comparing && now.table == "tags" && refused.is_empty() {
            let options = SqliteOptions { lock: false, readers: 1, synced: true };
            refused.push(sqlite::open(&path, options).map(drop).unwrap_err());
        }
    };
    watched(&home.file(), &home.postgres(), watch).unwrap();
    let [sqlite::OpenError::Moved { source, .. }] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(source, &Moved::Exporting(home.postgres().to_string()));
}

/// A server that was paused so long that it counts as dead, or that has no heartbeat.
#[test]
fn open_store_cannot_write_after_a_transfer() {
    let home = Installation::new();
    moved(&home.file(), &home.postgres()).unwrap();
    let options = PostgresOptions { serves: false, readers: 1, ..PostgresOptions::default() };
    let asleep = postgres::open(&home.database.url().parse().unwrap(), options).unwrap();
    moved(&home.postgres(), &home.named("back.db")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let app = AppId(uuid::Uuid::now_v7());
    let written = fixtures::new_app("late");
    let refused =
        runtime.block_on(asleep.create_app(app, written, None, fixtures::NOW)).unwrap_err();
    let StoreError::Unavailable(cause) = &refused else { panic!("{refused:?}") };
    assert!(cause.to_string().contains("was moved to"), "{cause}");
}

/// A subcommand may have written before the freeze.
#[test]
fn a_source_without_its_mark_is_not_frozen() {
    let home = Installation::new();
    let work = || {
        let (source, target) = (
            Database::open_exclusive(&home.file()).unwrap(),
            Database::open_exclusive(&home.postgres()).unwrap(),
        );
        let tables = Table::all(&source.connection).unwrap();
        let id = set_marks(&source, &target, &tables, AT_MS).unwrap();
        source.set_mark(None).unwrap();
        let refused = freeze(&source, id).unwrap_err();
        assert!(matches!(refused, MoveError::Written(_)), "{refused}");
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap();
}

#[test]
fn between_leaving_and_arriving_neither_is_served_and_the_next_run_ends_it() {
    let home = Installation::new();
    ended(&home.file(), &home.postgres(), |now| now.step == Step::Comparing);
    let work = || {
        let source = Database::open_exclusive(&home.file()).unwrap();
        let mark = source.mark().unwrap().unwrap();
        source.set_mark(Some(&MoveMark { state: MoveState::Retired, ..mark })).unwrap();
    };
    thread::scope(|scope| scope.spawn(work).join()).unwrap();
    assert!(matches!(home.open_file(), Err(sqlite::OpenError::Moved { .. })));
    assert!(matches!(home.open_postgres(), Err(postgres::OpenError::Moved { .. })));
    assert_eq!(moved(&home.file(), &home.postgres()).unwrap().copied, 0);
    assert!(matches!(home.open_file(), Err(sqlite::OpenError::Moved { .. })));
    home.open_postgres().unwrap();
}

#[test]
fn locations_are_displayed_without_password() {
    for (text, expected) in [
        ("sqlite:/d/notify.db", Ok("/d/notify.db")),
        ("sqlite:///d/notify.db", Ok("/d/notify.db")),
        ("sqlite:/d/", Ok("/d/notify.db")),
        ("sqlite:", Err(LocationError::Form)),
        ("d/notify.db", Err(LocationError::Form)),
        ("mysql://u:p@h/d", Err(LocationError::Form)),
        ("postgres://u:secret@h/d", Ok("h:5432/d")),
        ("postgres://u:secret@h", Err(LocationError::Url(postgres::UrlError::NoDatabase))),
    ] {
        let place = text.parse::<DatabaseLocation>().map(|place| place.to_string());
        assert_eq!(place.as_deref(), expected.as_ref().map(|text| *text), "{text}");
    }
    let here = std::env::current_dir().unwrap().join("d/notify.db");
    assert_eq!(
        Path::new(&"sqlite:d/notify.db".parse::<DatabaseLocation>().unwrap().to_string()),
        here
    );
    let folder = TempDir::new().unwrap();
    let place: DatabaseLocation = format!("sqlite:{}", folder.path().display()).parse().unwrap();
    assert_eq!(Path::new(&place.to_string()), folder.path().join("notify.db"));
}
