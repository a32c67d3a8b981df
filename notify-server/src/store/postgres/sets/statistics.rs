//! The statistics of tables that grow quickly.
//!
//! PostgreSQL plans a statement of a set once, from the statistics of its tables. Autovacuum renews
//! them a minute or two after a table has grown. Until then PostgreSQL takes the table for empty
//! and scans all of it: with 20,000 new devices, a registration cost eight times as much.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::store::postgres::session::Session;
use crate::store::sql::Result;

/// The number of rows from which statistics are checked. A scan of fewer rows costs little.
const CHECKED_FROM: u64 = 256;
/// The number of rows up to which statistics are checked. When so many are written, autovacuum has
/// renewed the statistics.
const CHECKED_TO: u64 = 1 << 20;

/// A table into which sets insert many rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::store) enum GrowingTable {
    Devices,
    Notifications,
    Engagement,
}

impl GrowingTable {
    fn name(self) -> &'static str {
        match self {
            Self::Devices => "devices",
            Self::Notifications => "notifications",
            Self::Engagement => "engagement",
        }
    }
}

/// The number of rows that sets have written to each table.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    rows: [AtomicU64; GrowingTable::Engagement as usize + 1],
}

impl Statistics {
    /// Counts rows. Returns the number of all rows if the statistics should be checked, which is each
    /// time when it has doubled.
    pub(super) fn add(&self, table: GrowingTable, rows: u64) -> Option<u64> {
        let before = self.rows[table as usize].fetch_add(rows, Ordering::Relaxed);
        let after = before + rows;
        let is_checked = (CHECKED_FROM..CHECKED_TO).contains(&after);
        (is_checked && before.checked_ilog2() != after.checked_ilog2()).then_some(after)
    }
}

/// Analyzes a table, if it has fewer rows according to its statistics than this server has written.
pub(super) fn renew(session: &Session, table: GrowingTable, rows: u64) -> Result<()> {
    let table = table.name();
    let is_known = session.read_number(&format!(
        "select 1 from pg_class where oid = to_regclass('{table}') and reltuples >= {rows}"
    ))?;
    if is_known.is_none() { session.execute_batch(&format!("analyze {table}")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_checked_each_time_when_the_rows_have_doubled() {
        let statistics = Statistics::default();
        for (rows, checked) in [
            (0, None),
            (255, None),
            (1, Some(256)),
            (255, None),
            (2, Some(513)),
            (0, None),
            (10_000, Some(10_513)),
            (CHECKED_TO, None),
            (CHECKED_TO, None),
        ] {
            assert_eq!(statistics.add(GrowingTable::Devices, rows), checked, "{rows}");
        }
        assert_eq!(statistics.add(GrowingTable::Notifications, 300), Some(300));
    }
}
