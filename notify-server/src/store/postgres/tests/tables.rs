//! Tests of the plans of queries.

use futures_util::future::join_all;
use notify_core::{AttributeChanges, Registration, UserId};

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
           created_at)
         select a.no << 43 | n, a.no, n::text, 0, 0, '{}', n
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

/// Statements are planned while the tables are empty, and again when they have a few rows: a session
/// drops its plans when it misses a message about a change of the catalog. The plans are kept while the
/// tables grow.
#[tokio::test]
async fn plans_for_small_tables_hold_while_the_tables_grow() {
    const DEVICES: usize = 600;
    const AT_ONCE: usize = 50;
    // Autovacuum would renew statistics at a moment that depends on the load of the machine. Altering a table
    // makes PostgreSQL plan its statements again.
    const ALTER_TABLES: &str = "do $$ declare found regclass; begin
           for found in select oid from pg_class
             where relkind = 'r' and relnamespace = current_schema()::regnamespace
           loop execute format('alter table %s set (autovacuum_enabled = off)', found); end loop;
         end $$";
    let own = PostgresBackend::migrated(SetMode::On);
    own.0.execute(ALTER_TABLES);
    let store = own.open();
    let app = fixtures::app(&store).await;
    let devices: Vec<String> = (0..DEVICES).map(|number| format!("d{number}")).collect();
    for (nth, some) in devices.chunks(AT_ONCE).enumerate() {
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
        if nth == 0 {
            own.0.execute(ALTER_TABLES);
        }
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
