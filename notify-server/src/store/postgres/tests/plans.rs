//! The plans of the statements of sets.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use super::concurrency::run_every_action;
use super::*;
use crate::store::postgres::sets::TABLES;

/// The statements of sets that this process has prepared.
static PREPARED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Records a statement of a set.
pub(in crate::store::postgres) fn record(sql: &str) {
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner).insert(sql.to_owned());
}

/// The number of rows of each large table. `NOTIFY_PLAN_ROWS` sets another number.
const ROWS: u32 = 50_000;
/// The tables that are small whatever the installation is.
const SMALL: [&str; 4] = ["apps", "event_logs", "campaigns", "moves"];

/// A sequential scan would make a set as slow as its table is large.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_of_sets_scan_no_large_table() {
    let own = PostgresBackend::migrated(SetMode::On);
    let store = own.open();
    let app = fixtures::app(&store).await;
    run_every_action(&store, app).await;
    store.close().await;
    fill_tables(&own);
    let statements = PREPARED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(statements.len() > 8, "{statements:#?}");
    for sql in statements {
        let parameters = (1..).take_while(|number| sql.contains(&format!("${number}"))).count();
        let nulls = vec!["null"; parameters].join(", ");
        let execute = if parameters == 0 { String::new() } else { format!("({nulls})") };
        own.0.execute(&format!(
            "create or replace function plan() returns setof text as $plan$
           declare line text; begin
             execute 'set plan_cache_mode = force_generic_plan; set join_collapse_limit = 1';
             execute $set$prepare the_set as {sql}$set$;
             for line in execute 'explain execute the_set{execute}' loop return next line; end loop;
             deallocate the_set;
           end $plan$ language plpgsql"
        ));
        let plan = own.0.texts("select plan()").join("\n");
        for (scan, table) in plan.lines().filter_map(scan_of) {
            let is_small = SMALL.contains(&table);
            assert!(is_small || !scan.ends_with("Seq"), "{sql}\n{plan}");
            assert!(is_small || TABLES.contains(&table), "{table} is analyzed by autovacuum alone");
        }
    }
}

/// The kind of scan and the table in a line of a plan, if the line is about a table. A bitmap scan of an
/// index comes with one of the table.
fn scan_of(line: &str) -> Option<(&str, &str)> {
    let (scan, rest) = line.split_once(" Scan ")?;
    let kinds = ["Seq", "Index", "Index Only", "Bitmap Heap"];
    let (_, relation) = rest.rsplit_once("on ")?;
    let table = relation.split(' ').next()?;
    kinds.iter().any(|kind| scan.ends_with(kind)).then_some((scan, table))
}

/// Gives each large table [`ROWS`] rows.
fn fill_tables(own: &PostgresBackend) {
    let rows = std::env::var("NOTIFY_PLAN_ROWS").map_or(ROWS, |rows| rows.parse().unwrap());
    let statements = format!(
        "insert into devices (key, app_no, device_id, address, address_hash, push_disabled,
           utc_offset_minutes, details, created_at)
         select a.no << 43 | 1000000 + n, a.no, 'd' || n, 't' || n, n, 0, 0, '{{}}', n
         from apps a cross join generate_series(1, {rows}) n;
         insert into users (no, app_no, user_id, created_at, updated_at)
         select a.no << 43 | 1000000 + n, a.no, 'u' || n, n, n
         from apps a cross join generate_series(1, {rows}) n;
         insert into device_fields (key, user_no, created_at, registered_at)
         select key, key, created_at, created_at from devices on conflict do nothing;
         insert into device_attributes (device_key, attribute, value, own)
         select key, 1, 's' || key, 0 from devices on conflict do nothing;
         insert into user_attributes (user_no, attribute, value)
         select no, 1, 's' || no from users on conflict do nothing;
         insert into unverified_addresses (device_key, since, is_anonymous)
         select key, created_at, 0 from devices on conflict do nothing;
         insert into notifications (no, app_no, id, origin, status, created_at, request, platforms,
           names_devices, ttl_seconds)
         select a.no << 43 | 1000000 + n, a.no, 'n' || n, 'created', 'completed', n, '{{}}', 1, 0, 0
         from apps a cross join generate_series(1, {rows}) n;
         insert into engagement (notification_no, device_key, type, at)
         select no, no, 1, 1 from notifications on conflict do nothing;
         insert into engagement_counts (notification_no)
         select no from notifications on conflict do nothing;
         insert into polls (notification_no, public_id, text, layout, lang, created_at)
         select no, decode(lpad(to_hex(no), 32, '0'), 'hex'), '', 1, 'en', 1 from notifications
         on conflict do nothing;
         insert into poll_answers (notification_no, place, id, text)
         select notification_no, 0, public_id, '' from polls on conflict do nothing;
         insert into poll_votes (notification_no, device_key)
         select notification_no, notification_no from polls on conflict do nothing;
         insert into poll_visitors (notification_no, visitor, place)
         select notification_no, public_id, 0 from polls on conflict do nothing;
         insert into events (app_no, no, type, at)
         select a.no, n, 0, 1 from apps a cross join generate_series(1, {rows}) n
         on conflict do nothing;
         insert into idempotency (app_no, path, key, digest, answer, at)
         select a.no, '/v1/notifications', 'k' || n, decode(repeat('00', 32), 'hex'), '{{}}', n
         from apps a cross join generate_series(1, {rows}) n;
         insert into device_counts (app_no, hour, platform, enabled, count)
         select a.no, n, 0, 1, 1 from apps a cross join generate_series(1, {rows}) n
         on conflict do nothing;
         insert into dispatches (no, notification_no, platform, portion, due_at, cursor, until,
           scan_done, completed_at)
         select no, no, 0, 32767, 1, 0, 9, 1, 1 from notifications on conflict do nothing;
         insert into pages (no, dispatch_no, from_key, to_key, epoch, lease_until, finished, targeted,
           excluded)
         select no, no, 0, 9, 1, 1, 1, 0, 0 from dispatches on conflict do nothing;
         insert into failures (dispatch_no, reason, count)
         select no, 'Timeout', 1 from dispatches on conflict do nothing;
         insert into outcomes (page_no, chunk_no, at, entries)
         select no, 0, 1, '' from pages on conflict do nothing;
         insert into retries (no, dispatch_no, page_no, app_no, platform, device_key, outcome, attempts,
           first_attempt_at, due_at, claimable_at, unknown_outcomes)
         select no, dispatch_no, no, dispatch_no >> 43, 0, no, 0, 1, 1, 1, 1, 0 from pages
         on conflict do nothing;
         analyze"
    );
    // Each has its own time limit.
    statements.split(';').for_each(|statement| own.0.execute(statement));
}
