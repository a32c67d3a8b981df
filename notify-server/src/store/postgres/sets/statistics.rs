//! The statistics of tables that grow quickly.
//!
//! PostgreSQL plans a statement of a set once, and again when the statistics of a table change.
//! Autovacuum renews them a minute or two after a table has grown. Until then the plan for a small
//! table stays, which scans all rows: with 20,000 new devices, a registration cost eight times as
//! much.

use std::sync::atomic::{AtomicU64, Ordering};

use super::session_of;
use crate::store::sql::{Connection, Result};

/// The number of writes from which statistics are checked. A scan of fewer rows costs little.
const CHECKED_FROM: u64 = 256;
/// The number of writes up to which statistics are checked. After so many, autovacuum has renewed the
/// statistics.
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

/// The number of writes of this process that may have added a row to each table. It is an upper bound
/// for the rows, except for requests with several engagement events.
#[derive(Debug, Default)]
pub(super) struct Statistics {
    writes: [AtomicU64; GrowingTable::Engagement as usize + 1],
}

impl Statistics {
    /// Counts writes. Returns the number of all writes if the statistics should be checked, which is
    /// each time when it has doubled.
    pub(super) fn add(&self, table: GrowingTable, writes: u64) -> Option<u64> {
        let before = self.writes[table as usize].fetch_add(writes, Ordering::Relaxed);
        let after = before + writes;
        let is_checked = (CHECKED_FROM..CHECKED_TO).contains(&after);
        (is_checked && before.checked_ilog2() != after.checked_ilog2()).then_some(after)
    }
}

/// Analyzes a table, if it has fewer rows according to its statistics than this process has made
/// writes.
pub(super) fn renew(connection: &Connection, table: GrowingTable, writes: u64) -> Result<()> {
    let table = table.name();
    let rows = session_of(connection)?.read_number(&format!(
        "select reltuples::bigint from pg_class where oid = to_regclass('{table}')"
    ))?;
    // Without statistics, the number is -1.
    if rows.is_some_and(|rows| u64::try_from(rows).unwrap_or(0) < writes) {
        connection.analyze(table)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistics_are_checked_each_time_when_the_writes_have_doubled() {
        let statistics = Statistics::default();
        for (writes, checked) in [
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
            assert_eq!(statistics.add(GrowingTable::Devices, writes), checked, "{writes}");
        }
        assert_eq!(statistics.add(GrowingTable::Notifications, 300), Some(300));
    }
}
