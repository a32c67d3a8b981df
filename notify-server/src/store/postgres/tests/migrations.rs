//! Tests of how migrations are run, and of what they leave.

use std::time::Duration;

use refinery::Migration;
use tokio::task::spawn_blocking;

use super::super::connect_config::ConnectConfig;
use super::super::migrations::{self, MigrationError};
use super::super::script::statements_of;
use super::super::{make_version, migrate};
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
        ["ALTER TABLE", "CREATE INDEX", "CREATE TABLE", "DROP INDEX"],
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

/// The migrations of earlier versions, whose texts are others.
fn earlier_texts() -> Vec<Migration> {
    let now = |migration: &Migration| migration.sql().unwrap().to_owned();
    let earlier = |migration: &Migration| match migration.version() {
        1 | 4 => now(migration).replace(" (maxvalue 8796093022207)", ""),
        10 => {
            let text = now(migration);
            let (before, rest) = text.split_once("do $$").unwrap();
            let (_, after) = rest.split_once("end $$;\n").unwrap();
            let altered = [
                "tags",
                "campaigns",
                "feeds",
                "notifications",
                "dispatches",
                "pages",
                "retries",
                "api_keys",
                "webhooks",
                "webhook_messages",
            ]
            .map(|table| format!("alter sequence {table}_no_seq maxvalue 8796093022207;\n"));
            format!("{before}{}{after}", altered.concat())
        }
        _ => now(migration),
    };
    let of_before = |migration: &Migration| {
        let name = format!("V{}__{}", migration.version(), migration.name());
        Migration::unapplied(&name, &earlier(migration)).unwrap()
    };
    migrations::all().iter().map(of_before).collect()
}

/// Runs some of the migrations with their earlier texts.
async fn run_earlier(own: &PostgresBackend, versions: impl Fn(i32) -> bool + Send + 'static) {
    let url = own.url();
    let work = move || {
        let mut migrations = earlier_texts();
        migrations.retain(|migration| versions(migration.version()));
        migrations::run(&ConnectConfig::of(&url).unwrap().connect().unwrap(), &migrations).unwrap();
    };
    spawn_blocking(work).await.unwrap();
}

#[tokio::test]
async fn installations_of_earlier_versions_are_migrated_and_get_the_same_bounds() {
    for version in [3, 9, 10, 14] {
        let own = PostgresBackend::new();
        run_earlier(&own, move |no| no <= version).await;
        let unbounded = own.0.texts(UNBOUNDED);
        assert_eq!(unbounded.is_empty(), version >= 10, "version {version}: {unbounded:?}");
        own.open().close().await;
        assert_eq!(own.0.texts(UNBOUNDED), [""; 0], "from version {version}");
        own.open().close().await;
    }
}

/// A larger count would change the application in a key.
#[tokio::test]
async fn a_count_above_the_largest_one_is_refused() {
    for is_new in [true, false] {
        let own = PostgresBackend::new();
        if !is_new {
            run_earlier(&own, |no| no <= 14).await;
        }
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
}

#[tokio::test]
async fn a_history_that_differs_is_refused() {
    for (change, expected) in [
        (
            "update refinery_schema_history set checksum = '1' where version = 5",
            "V5__web_access was",
        ),
        ("delete from refinery_schema_history where version = 5", "V5__web_access was left out"),
    ] {
        let own = PostgresBackend::new();
        let before = own.url();
        spawn_blocking(move || make_version(&before, 14)).await.unwrap();
        own.0.execute(change);
        let url = own.url();
        let migrating = move || migrate(&ConnectConfig::of(&url).unwrap(), Duration::ZERO);
        let refused = spawn_blocking(migrating).await.unwrap().unwrap_err();
        let OpenError::Database { source, .. } = &refused else { panic!("{refused:?}") };
        assert!(source.downcast_ref::<MigrationError>().is_some(), "{source:?}");
        assert!(source.to_string().starts_with(expected), "{source}");
    }
}
