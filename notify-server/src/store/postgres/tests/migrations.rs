//! Tests of how migrations are run, and of what they leave.

use std::time::Duration;

use refinery::Migration;
use tokio::task::spawn_blocking;

use super::super::connect_config::ConnectConfig;
use super::super::migrations::{self, MigrationError};
use super::super::open;
use super::super::script::statements_of;
use super::*;
use crate::store::SEQ_MAX;

/// What a new table must not have: an identity without a bound, unless its numbers belong to no
/// application.
const UNBOUNDED: &str =
    "select c.relname::text from pg_sequence s join pg_class c on c.oid = s.seqrelid
    where s.seqmax <> 8796093022207 and c.relnamespace = current_schema()::regnamespace
      and c.relname not in ('apps_no_seq', 'admin_keys_no_seq', 'sessions_no_seq', 'audit_no_seq',
        'channel_states_no_seq')";

/// Citus sends the whole query to its nodes, and they accept one statement. It alters no sequence of
/// a table that it distributes.
#[tokio::test]
async fn a_new_installation_runs_one_statement_at_a_time_and_alters_no_sequence() {
    let own = PostgresBackend::new();
    own.0.execute(
        "create schema seen; create table seen.statements (tag text, query text);
         create function seen.keep() returns event_trigger language plpgsql as
           'begin insert into seen.statements values (tg_tag, current_query()); end';
         create event trigger keep on ddl_command_end execute function seen.keep()",
    );
    own.open().close().await;
    let tags = "select distinct tag from seen.statements order by tag";
    assert_eq!(
        own.0.texts(tags),
        ["CREATE INDEX", "CREATE TABLE"],
        "what is new here has to be tried on Citus"
    );
    for query in own.0.texts("select query from seen.statements") {
        assert_eq!(statements_of(&query).len(), 1, "{query}");
    }
    assert_eq!(own.0.numbers("select count(*) from seen.statements where query = ''"), [0]);
    assert!(own.0.numbers("select count(*) from seen.statements")[0] > 80);
    let unbounded = own.0.texts(UNBOUNDED);
    assert!(unbounded.is_empty(), "identity (maxvalue 8796093022207): {unbounded:?}");
}

/// A larger count would change the application in a key.
#[tokio::test]
async fn a_count_above_the_largest_one_is_refused() {
    let own = PostgresBackend::new();
    let store = own.open();
    let app = fixtures::app(&store).await;
    own.0.execute(&format!("select setval('notifications_no_seq', {})", SEQ_MAX - 1));
    let broadcast = || fixtures::broadcast(&[Platform::Android]);
    store.accept_notification(app, broadcast(), None).await.unwrap();
    let last = own.0.numbers("select max(no) from notifications");
    assert_eq!(last, [app.key_prefix() | SEQ_MAX]);
    let refused = store.accept_notification(app, broadcast(), None).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(stored(&store, app).await, 1);
    store.close().await;
}

/// The migrations of a later version of the server, which has that many more.
fn with_made_up(count: i32) -> Vec<Migration> {
    let mut all = migrations::all();
    for _ in 0..count {
        let version = migrations::latest_version(&all) + 1;
        let sql = format!("create table made_up_{version} (no bigint)");
        all.push(Migration::unapplied(&format!("V{version}__made_up"), &sql).unwrap());
    }
    all
}

/// Migrates as a later version of the server does.
async fn migrate_by(own: &PostgresBackend, migrations: Vec<Migration>) -> Result<(), OpenError> {
    let url = own.url();
    let work =
        move || open::migrate_by(&migrations, &ConnectConfig::of(&url).unwrap(), Duration::ZERO);
    spawn_blocking(work).await.unwrap()
}

#[tokio::test]
async fn a_history_that_differs_is_refused() {
    for (change, expected) in [
        (
            "update refinery_schema_history set checksum = '1' where version = 1",
            "V1__create_tables was",
        ),
        ("delete from refinery_schema_history where version = 2", "V2__made_up was left out"),
    ] {
        let own = PostgresBackend::new();
        migrate_by(&own, with_made_up(2)).await.unwrap();
        own.0.execute(change);
        let refused = migrate_by(&own, with_made_up(3)).await.unwrap_err();
        let OpenError::Database { source, .. } = &refused else { panic!("{refused:?}") };
        assert!(source.downcast_ref::<MigrationError>().is_some(), "{source:?}");
        assert!(source.to_string().starts_with(expected), "{source}");
    }
}

/// They would give later rows smaller numbers.
#[tokio::test]
async fn tables_stay_as_they_are_while_a_server_of_before_lives() {
    let own = PostgresBackend::migrated(SetMode::On);
    let beat = "(extract(epoch from clock_timestamp()) * 1000)::bigint";
    own.0.execute(&format!("insert into servers values (7, {beat} + 3600000), (8, {beat} - 1)"));
    let refused = migrate_by(&own, with_made_up(1)).await.unwrap_err();
    assert!(matches!(refused, OpenError::OlderServe { servers: 1, .. }), "{refused:?}");
    let version = "select max(version)::bigint from refinery_schema_history";
    assert_eq!(own.0.numbers(version), [1]);
    own.0.execute("delete from servers where epoch = 7");
    migrate_by(&own, with_made_up(1)).await.unwrap();
    assert_eq!(own.0.numbers(version), [2]);
    let newer = own.try_open(PostgresOptions::default()).unwrap_err();
    assert!(matches!(newer, OpenError::Newer { found: 2, known: 1, .. }), "{newer:?}");
}

#[tokio::test]
async fn a_migration_without_its_record_is_not_committed() {
    let own = PostgresBackend::migrated(SetMode::On);
    own.0.execute(
        "create function refuse() returns trigger language plpgsql
           as 'begin raise exception ''on purpose''; end';
         create trigger refuse before insert on refinery_schema_history
           for each row execute function refuse()",
    );
    let refused = migrate_by(&own, with_made_up(1)).await.unwrap_err();
    assert!(matches!(refused, OpenError::Database { .. }), "{refused:?}");
    let made = "select count(*) from pg_tables where tablename = 'made_up_2'";
    assert_eq!(own.0.numbers(made), [0]);
    own.0.execute("drop trigger refuse on refinery_schema_history");
    migrate_by(&own, with_made_up(1)).await.unwrap();
    assert_eq!(own.0.numbers(made), [1]);
}
