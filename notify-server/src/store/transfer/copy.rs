//! Copying the rows and key counters of tables, and comparing both databases.

use super::database::Database;
use super::table::{Cell, Digest, Table};
use super::{MoveError, Progress, Step, TableMoved};
use crate::failpoint::{self, Stage};
use crate::store::postgres::sequence;
use crate::store::sql::{self, Connection, OptionalExtension, params};

/// A chunk ends once its rows have this many bytes. A transfer needs memory for a chunk and one
/// row.
const CHUNK_BYTES: usize = 4 * 1_024 * 1_024;
/// The limit of rows of the first chunk, and the smallest limit of any chunk. If the rows are
/// large, a chunk ends at [`CHUNK_BYTES`], and the rows that were read beyond it are discarded. A
/// small limit keeps their number small.
const CHUNK_ROWS_MIN: usize = 50;
/// The most rows of a chunk.
const CHUNK_ROWS_MAX: usize = 10_000;
/// The largest factor by which the limit of rows grows from one chunk to the next, since the next
/// rows may be larger.
const CHUNK_GROWTH_MAX: usize = 4;

/// Is called with the progress.
type Watch<'w> = &'w mut dyn FnMut(Progress<'_>);

/// Iterates over the rows of a table in chunks.
struct Walk<'s> {
    side: &'s Database,
    table: &'s Table,
    /// The key of the last row; `None` before the first chunk.
    after: Option<Vec<Cell>>,
    /// The limit of rows of the next chunk.
    rows_max: usize,
}

impl<'s> Walk<'s> {
    fn new(side: &'s Database, table: &'s Table, after: Option<Vec<Cell>>) -> Self {
        Self { side, table, after, rows_max: CHUNK_ROWS_MIN }
    }

    /// Reads the next chunk; empty at the end of the table.
    fn next(&mut self, step: Step) -> Result<Vec<Vec<Cell>>, MoveError> {
        let limit = i64::try_from(self.rows_max).unwrap_or(i64::MAX);
        let chunk = self
            .side
            .rows(self.table, self.after.as_deref(), limit, CHUNK_BYTES)
            .map_err(self.side.failing(step, &self.table.name))?;
        if let Some(last) = chunk.last() {
            self.after = Some(last[..self.table.key_columns].to_vec());
            let bytes = chunk.iter().flatten().map(Cell::size).sum();
            self.rows_max = next_limit(self.rows_max, chunk.len(), bytes);
        }
        Ok(chunk)
    }
}

/// The limit of rows for the next chunk, after a chunk with `rows` rows and `bytes` bytes whose
/// limit was `limit`.
fn next_limit(limit: usize, rows: usize, bytes: usize) -> usize {
    let rows_of_full_chunk = CHUNK_BYTES.saturating_mul(rows) / bytes.max(1);
    rows_of_full_chunk.min(limit * CHUNK_GROWTH_MAX).clamp(CHUNK_ROWS_MIN, CHUNK_ROWS_MAX)
}

/// Counts the rows of all tables.
pub(super) fn count_rows(side: &Database, tables: &[Table]) -> Result<u64, MoveError> {
    let count = |table: &Table| side.count(table).map_err(side.failing(Step::Opening, &table.name));
    tables.iter().map(count).sum()
}

/// Copies the rows that the target does not have yet, and the key counters. Returns the number of
/// copied rows. `total_rows` is the number of all rows, for the progress.
pub(super) fn copy(
    source: &Database,
    target: &Database,
    tables: &[Table],
    total_rows: u64,
    watch: Watch<'_>,
) -> Result<u64, MoveError> {
    let copied_before = count_rows(target, tables)?;
    let mut copied = 0;
    for table in tables {
        let failed = target.failing(Step::Copying, &table.name);
        let mut walk = Walk::new(source, table, target.last_key(table).map_err(&failed)?);
        loop {
            watch(Progress {
                step: Step::Copying,
                table: &table.name,
                rows: copied_before + copied,
                of: total_rows,
            });
            let chunk = walk.next(Step::Copying)?;
            if chunk.is_empty() {
                break;
            }
            target.write(table, &chunk).map_err(&failed)?;
            failpoint::reach("move", Stage::Committed);
            copied += chunk.len() as u64;
        }
        copy_key_counter(source, target, table)?;
    }
    // Each table is analysed separately. For the whole database, PostgreSQL would log a warning for
    // each table that the user may not analyse.
    for table in tables {
        let failed = target.failing(Step::Copying, &table.name);
        target.connection.analyze(&table.name).map_err(failed)?;
    }
    Ok(copied)
}

/// Compares the number of rows and their digest in every table. `total_rows` is the number of all
/// rows, for the progress.
pub(super) fn compare(
    source: &Database,
    target: &Database,
    tables: &[Table],
    total_rows: u64,
    watch: Watch<'_>,
) -> Result<Vec<TableMoved>, MoveError> {
    let mut done = 0;
    let mut compared = Vec::with_capacity(tables.len());
    for table in tables {
        // Each row is read twice: from the source and from the target.
        let mut show = |rows_read| {
            watch(Progress {
                step: Step::Comparing,
                table: &table.name,
                rows: done + rows_read / 2,
                of: total_rows,
            });
        };
        let (rows, digest) = digest_of(source, table, &mut show)?;
        let (target_rows, target_digest) =
            digest_of(target, table, &mut |target_rows| show(rows + target_rows))?;
        if (rows, digest) != (target_rows, target_digest) {
            let table = table.name.clone();
            return Err(MoveError::Differs { table, source_rows: rows, target_rows });
        }
        done += rows;
        compared.push(TableMoved { name: table.name.clone(), rows, digest });
    }
    Ok(compared)
}

/// Reads all rows of a table. Returns their number and digest.
fn digest_of(
    side: &Database,
    table: &Table,
    show: &mut dyn FnMut(u64),
) -> Result<(u64, [u8; 32]), MoveError> {
    let (mut rows, mut digest) = (0, Digest::new());
    let mut walk = Walk::new(side, table, None);
    loop {
        show(rows);
        let chunk = walk.next(Step::Comparing)?;
        if chunk.is_empty() {
            return Ok((rows, digest.finish()));
        }
        rows += chunk.len() as u64;
        chunk.iter().flatten().for_each(|cell| digest.add(cell));
    }
}

// The key counters of tables are transferred too. Otherwise the target would reuse keys of deleted
// rows, which may be known outside.

/// Sets the key counter of a table in the target to the counter in the source.
fn copy_key_counter(source: &Database, target: &Database, table: &Table) -> Result<(), MoveError> {
    if !table.is_numbered {
        return Ok(());
    }
    let last =
        read_key_counter(source, table).map_err(source.failing(Step::Copying, &table.name))?;
    set_key_counter(target, table, last).map_err(target.failing(Step::Copying, &table.name))
}

/// Reads the key counter of a table: the last number that was assigned, or 0.
fn read_key_counter(side: &Database, table: &Table) -> sql::Result<i64> {
    let connection = &side.connection;
    let last = match connection {
        Connection::Sqlite(_) => connection
            .prepare_cached("select last from numbers where name = ?1")?
            .query_row(params![table.name], |row| row.get(0)),
        // The last value of an unused sequence is 1, and `is_called` is false.
        Connection::Postgres(_) => connection
            .prepare_cached(&format!(
                "select case when is_called then last_value else last_value - 1 end from {}",
                sequence(&table.name)
            ))?
            .query_row([], |row| row.get(0)),
    };
    Ok(last.optional()?.unwrap_or_default())
}

/// Sets the key counter of a table. An unused sequence of PostgreSQL stays as it is.
fn set_key_counter(target: &Database, table: &Table, last: i64) -> sql::Result<()> {
    let connection = &target.connection;
    match connection {
        Connection::Sqlite(_) => target.durably(|| {
            connection
                .prepare_cached("update numbers set last = ?2 where name = ?1")?
                .execute(params![table.name, last])?;
            Ok(())
        }),
        Connection::Postgres(_) if last < 1 => Ok(()),
        Connection::Postgres(_) => {
            let sql = format!("select setval('{}', ?1)", sequence(&table.name));
            connection.prepare_cached(&sql)?.exists(params![last]).map(drop)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_grow_to_their_bytes_and_shrink_with_wide_rows() {
        for (limit, rows, bytes, expected) in [
            (50, 50, 5_000, 200),
            (200, 200, 20_000, 800),
            (10_000, 10_000, 1_000_000, 10_000),
            (800, 800, 8 * 1_024 * 1_024, 400),
            (800, 800, 800 * 1_024 * 1_024, 50),
            (800, 3, 0, 3_200),
        ] {
            assert_eq!(next_limit(limit, rows, bytes), expected, "{limit} {rows} {bytes}");
        }
    }
}
