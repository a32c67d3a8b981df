//! The statistics of tables that grow.
//!
//! PostgreSQL plans a statement of a set once, and again when the statistics of a table change.
//! Autovacuum renews them a minute or two after a table has grown. Until then the plan for a small
//! table stays, which scans all rows: with 20,000 new devices, a registration cost eight times as
//! much.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::session_of;
use crate::store::sql::{Connection, Result, Row};

/// The tables in which statements of sets look up rows, and which can have many. Other statements look
/// up the rows that sets insert into `engagement`.
pub(in crate::store::postgres) const TABLES: [&str; 13] = [
    "device_fields",
    "devices",
    "dispatches",
    "engagement",
    "events",
    "idempotency",
    "notifications",
    "pages",
    "poll_answers",
    "polls",
    "retries",
    "unverified_addresses",
    "users",
];
/// The time from one check of the sizes to the next one. A check takes less than a millisecond.
const CHECK_EVERY: Duration = Duration::from_secs(1);
/// How long a table is left alone after `analyze` did not help: it failed, or autovacuum was at work.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// Autovacuum alone analyzes a table whose statistics record at least so many pages (64 MiB). The plans
/// for such a table use its indexes.
const PAGES_MAX: u32 = 8_192;

/// Finds the tables that have more than twice as many pages as their statistics record. Much larger tables
/// were restored or upgraded without statistics, and to analyze them can take long.
static FIND_GROWN: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select t.name, t.pages from (
           select c.relname::text as name, c.relpages::bigint as pages,
             pg_relation_size(c.oid) / current_setting('block_size')::bigint as size
           from pg_class c join pg_namespace n on n.oid = c.relnamespace
           where n.nspname = current_schema() and c.relkind = 'r'
           and c.relname in ('{}') and pg_has_role(c.relowner, 'usage')) t
         where t.pages < {PAGES_MAX} and t.size > greatest(t.pages, 1) * 2
         and t.size <= {PAGES_MAX} * 2
         order by t.size / greatest(t.pages, 1) desc, t.name",
        TABLES.join("', '")
    )
});

/// The checks of the sizes.
#[derive(Debug, Default)]
pub(super) struct Checks {
    ended_at: Option<Instant>,
    /// The last `analyze` of each table.
    analyzed: HashMap<String, Analyzed>,
}

/// An `analyze` of a table.
#[derive(Debug)]
struct Analyzed {
    at: Instant,
    /// The pages that the statistics recorded before.
    pages: i64,
}

impl Checks {
    fn are_due(&self, now: Instant) -> bool {
        self.ended_at.is_none_or(|at| now.saturating_duration_since(at) >= CHECK_EVERY)
    }

    /// Whether the table may be analyzed, if its statistics record `pages`.
    fn may_analyze(&self, table: &str, pages: i64, now: Instant) -> bool {
        self.analyzed.get(table).is_none_or(|last| {
            last.pages != pages || now.saturating_duration_since(last.at) >= RETRY_AFTER
        })
    }

    /// Analyzes the table that has grown most, if one has more than doubled.
    pub(super) fn run(&mut self, connection: &Connection) -> Result<()> {
        let result = self.analyze_one(connection);
        self.ended_at = Some(Instant::now());
        result
    }

    fn analyze_one(&mut self, connection: &Connection) -> Result<()> {
        let session = session_of(connection)?;
        let grown = session.query(session.statement_index(&FIND_GROWN), &[])?;
        let now = Instant::now();
        for row in &grown {
            let row = Row::Postgres(row);
            let (table, pages): (String, i64) = (row.get(0)?, row.get(1)?);
            if self.may_analyze(&table, pages, now) {
                self.analyzed.insert(table.clone(), Analyzed { at: now, pages });
                return session.execute_batch(&format!("analyze (skip_locked) {table}"));
            }
        }
        Ok(())
    }
}

/// The checks that the threads share. One thread at a time makes a check.
#[derive(Debug, Default)]
pub(super) struct Statistics(Mutex<Checks>);

impl Statistics {
    /// Begins a check if one is due, and no other thread is making it.
    pub(super) fn begin_check(&self, now: Instant) -> Option<MutexGuard<'_, Checks>> {
        self.0.try_lock().ok().filter(|checks| checks.are_due(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_at_a_time_checks_the_sizes_a_second_after_the_last_check() {
        let (statistics, begin) = (Statistics::default(), Instant::now());
        let mut checks = statistics.begin_check(begin).unwrap();
        assert!(statistics.begin_check(begin).is_none(), "another thread is making a check");
        checks.ended_at = Some(begin);
        drop(checks);
        for (after_ms, is_due) in [(0, false), (999, false), (1_000, true)] {
            let now = begin + Duration::from_millis(after_ms);
            assert_eq!(statistics.begin_check(now).is_some(), is_due, "{after_ms}");
        }
    }

    #[test]
    fn a_table_is_left_alone_for_a_minute_if_analyze_did_not_help() {
        let (mut checks, begin) = (Checks::default(), Instant::now());
        assert!(checks.may_analyze("devices", 10, begin));
        checks.analyzed.insert("devices".to_owned(), Analyzed { at: begin, pages: 10 });
        for (table, pages, after_s, may) in [
            ("devices", 10, 1, false),
            ("devices", 10, 59, false),
            ("devices", 10, 60, true),
            ("devices", 25, 1, true),
            ("retries", 10, 1, true),
        ] {
            let now = begin + Duration::from_secs(after_s);
            assert_eq!(checks.may_analyze(table, pages, now), may, "{table} {pages} {after_s}");
        }
    }
}
