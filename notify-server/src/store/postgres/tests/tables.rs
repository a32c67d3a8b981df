//! Tests of PostgreSQL's tables: migrations and query plans.

use std::time::Duration;

use futures_util::future::join_all;
use notify_core::{AttributeChanges, Registration, UserId};
use tokio::task::spawn_blocking;

use super::super::connect_config::ConnectConfig;
use super::super::{make_version, migrate};
use super::*;

/// The rows of an application lie together. The query planner assumes that they are mixed with the
/// rows of other applications. It must not choose a plan that scans the rows of all other
/// applications first.
#[tokio::test]
async fn what_an_application_asks_for_costs_nothing_of_the_others() {
    let own = PostgresBackend::new();
    let store = own.open();
    for name in ["a", "b"] {
        fixtures::named_app(&store, name).await;
    }
    store.close().await;
    let rows = "from apps a cross join generate_series(1, 4000) n";
    own.0.execute(&format!(
        "insert into notifications (no, app_no, id, origin, status, created_at, request, platforms,
           names_devices, ttl_seconds)
         select a.no << 43 | n, a.no, n::text, 'created', 'completed', n, '{{}}', 1, n % 2, 0 {rows};
         insert into feeds (no, app_no, id, url, name, created_at)
         select a.no << 43 | n, a.no, decode(lpad(to_hex(n), 32, '0'), 'hex'), 'https://', '', n {rows};
         insert into webhooks (no, app_no, id, url, events, enabled, sealed, cursor, created_at, updated_at)
         select a.no << 43 | n, a.no, decode(lpad(to_hex(n), 32, '0'), 'hex'), 'https://', 1, 1, '', 0, n, n
         {rows};
         analyze"
    ));
    let newest = format!("no < {} order by no desc limit 51", i64::MAX);
    for (table, of, index) in [
        ("notifications", format!("app_no = 1 and {newest}"), "notifications_by_app"),
        (
            "notifications",
            "app_no = 2 and no < 17592186048416 order by no desc limit 1 offset 999".to_owned(),
            "notifications_by_app",
        ),
        (
            "notifications",
            "app_no = 2 and no < 17592186048416 and no >= 17592186044416 and status = 'canceled'
             order by no desc limit 51"
                .to_owned(),
            "notifications_by_app",
        ),
        ("notifications", "app_no = 2 order by no limit 1".to_owned(), "notifications_by_app"),
        (
            "notifications",
            "app_no = 2 and names_devices = 1 and no > 0 order by no limit 100".to_owned(),
            "notifications_naming",
        ),
        ("feeds", format!("app_no = 1 and {newest}"), "feeds_by_app"),
        ("webhooks", "app_no = 2 and no > 0 order by no limit 51".to_owned(), "webhooks_by_app"),
    ] {
        let plan = own.0.texts(&format!("explain select no from {table} where {of}")).join("\n");
        assert!(plan.contains(index), "{table} where {of}:\n{plan}");
    }
}

/// The key at which a search for a state stops bounds the statement that reads the devices. A sort
/// would read all devices to find that key.
#[tokio::test]
async fn the_end_of_a_search_for_a_state_is_found_without_a_sort() {
    let own = PostgresBackend::new();
    let store = own.open();
    for name in ["a", "b"] {
        fixtures::named_app(&store, name).await;
    }
    store.close().await;
    own.0.execute(
        "insert into devices (key, app_no, device_id, push_disabled, utc_offset_minutes, details,
           created_at, registered_at)
         select a.no << 43 | n, a.no, n::text, 0, 0, '{}', n, n
         from apps a cross join generate_series(1, 4000) n;
         insert into tags (no, app_no, name) select no << 43 | 1, no, 'vip' from apps;
         insert into device_tags (tag_no, device_key, value)
         select app_no::bigint << 43 | 1, key, 1 from devices;
         analyze",
    );
    let range = format!("> {} and {{}} <= {}", 2_i64 << 43 | 1_000, 3_i64 << 43);
    let keys = format!("key {}", range.replace("{}", "key"));
    let tagged = format!("device_key {}", range.replace("{}", "device_key"));
    let tag = format!("tag_no = {}", 2_i64 << 43 | 1);
    for (statement, index) in [
        (
            format!("select key from devices where {keys} order by key limit 1 offset 100"),
            "devices_pkey",
        ),
        (
            format!(
                "select device_key from device_tags where {tag} and {tagged}
                 order by device_key limit 1 offset 100"
            ),
            "device_tags_pkey",
        ),
    ] {
        let plan = own.0.texts(&format!("explain {statement}")).join("\n");
        assert!(plan.contains(index) && !plan.contains("Sort"), "{statement}:\n{plan}");
    }
}

/// They would give later rows smaller numbers.
#[tokio::test]
async fn tables_stay_as_they_are_while_a_server_of_before_lives() {
    let own = PostgresBackend::new();
    let url = own.url();
    let migrate = move || {
        let target = ConnectConfig::of(&url).unwrap();
        migrate(&target, Duration::ZERO)
    };
    let before = own.url();
    spawn_blocking(move || make_version(&before, 9)).await.unwrap();
    let beat = "(extract(epoch from clock_timestamp()) * 1000)::bigint";
    own.0.execute(&format!("insert into servers values (7, {beat} + 3600000), (8, {beat} - 1)"));
    let refused = spawn_blocking(migrate.clone()).await.unwrap().unwrap_err();
    assert!(matches!(refused, OpenError::OlderServe { servers: 1, .. }), "{refused:?}");
    let version = "select max(version)::bigint from refinery_schema_history";
    assert_eq!(own.0.numbers(version), [9]);
    own.0.execute("delete from servers where epoch = 7");
    spawn_blocking(migrate).await.unwrap().unwrap();
    assert!(own.0.numbers(version)[0] > 9);
}

#[tokio::test]
async fn a_migration_without_its_record_is_not_committed() {
    let own = PostgresBackend::new();
    let url = own.url();
    let migrate = move || migrate(&ConnectConfig::of(&url).unwrap(), Duration::ZERO);
    let before = own.url();
    spawn_blocking(move || make_version(&before, 7)).await.unwrap();
    own.0.execute(
        "create function refuse() returns trigger language plpgsql
           as 'begin raise exception ''on purpose''; end';
         create trigger refuse before insert on refinery_schema_history
           for each row execute function refuse()",
    );
    let refused = spawn_blocking(migrate.clone()).await.unwrap().unwrap_err();
    assert!(matches!(refused, OpenError::Database { .. }), "{refused:?}");
    let made =
        "select count(*) from pg_tables where tablename in ('provider_tokens', 'channel_states')";
    assert_eq!(own.0.numbers(made), [0]);
    own.0.execute("drop trigger refuse on refinery_schema_history");
    spawn_blocking(migrate).await.unwrap().unwrap();
    assert_eq!(own.0.numbers(made), [2]);
}

/// The plans of statements are made while the tables are empty, and kept while the tables grow.
#[tokio::test]
async fn plans_for_empty_tables_hold_while_the_tables_grow() {
    const DEVICES: usize = 600;
    const AT_ONCE: usize = 50;
    let own = PostgresBackend::migrated(SetMode::On);
    let store = own.open();
    let app = fixtures::app(&store).await;
    let devices: Vec<String> = (0..DEVICES).map(|number| format!("d{number}")).collect();
    for some in devices.chunks(AT_ONCE) {
        let store = &store;
        let registering = some.iter().map(|device| async move {
            let user = UserId::new(device.as_str()).unwrap();
            let registration =
                Registration { user_id: Some(user.clone()), ..fixtures::android(device) };
            store.register_device(app, registration, fixtures::NOW, None).await.unwrap();
            let id = fixtures::id(device);
            let tag = vec![fixtures::tag(device, true)];
            store.set_tags(app, id.clone(), tag, None).await.unwrap();
            let plan =
                || AttributeChanges([("plan".to_owned(), Some(device.as_str().into()))].into());
            store.change_attributes(app, id, plan()).await.unwrap();
            store.change_user(app, user, plan(), fixtures::NOW).await.unwrap();
        });
        join_all(registering).await;
    }
    store.close().await;
    // A session adds what it read to the statistics at its end.
    own.0.execute(&format!(
        "select pg_terminate_backend(pid, 5000) from pg_stat_activity
         where datname = '{}' and pid <> pg_backend_pid()",
        own.0.name()
    ));
    for (read, of) in
        [("seq_tup_read", "pg_stat_user_tables"), ("idx_tup_read", "pg_stat_user_indexes")]
    {
        // Sets join devices by the whole index of a new table, until the server has analyzed it.
        let most = 40 * DEVICES;
        let scanned = own.0.texts(&format!(
            "select concat_ws(' ', relname, {read}) from {of}
             where {read} > {most} and (relname not in ('devices', 'device_fields') or '{read}' = 'seq_tup_read')"
        ));
        assert_eq!(scanned, [""; 0], "{of}");
    }
}
