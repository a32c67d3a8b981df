//! Bulk operations of a transfer on millions of rows. They run without time limits, while all other
//! writers are blocked.

use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio_postgres::Row;
use tokio_postgres::binary_copy::BinaryCopyInWriter;

use super::session::{INSTALLATION_LOCK, Session, parameters};
use super::statements::{StatementKind, type_of};
use crate::store::sql::{Result, Type, Value};

/// The longest wait for a reply to a bulk operation. Counting or analysing millions of rows takes
/// minutes. A broken connection is detected earlier (`session.rs`).
const BULK_WAIT: Duration = Duration::from_secs(3_600);

impl Session {
    /// Removes the time limits of statements.
    pub(super) fn disable_timeouts(&self) -> Result<()> {
        self.reply_wait.set(BULK_WAIT);
        self.execute_batch("set statement_timeout = 0; set idle_in_transaction_session_timeout = 0")
    }

    /// Takes the lock of the installation for the lifetime of this session.
    pub(in crate::store) fn block_writers(&self) -> Result<()> {
        self.execute_batch(&format!("select pg_advisory_lock({INSTALLATION_LOCK})"))
    }

    /// Runs a statement and returns its rows, up to the row with which they reach `bytes` bytes.
    /// Further rows are discarded.
    pub(in crate::store) fn query_within(
        &self,
        index: usize,
        values: &[Value<'_>],
        bytes: usize,
    ) -> Result<Vec<Row>> {
        let statement = self.prepared(index, values, StatementKind::Plain)?;
        self.query_blocking(async {
            let mut stream = pin!(self.client.query_raw(&statement, parameters(values)).await?);
            let (mut rows, mut size) = (Vec::new(), 0);
            while size < bytes
                && let Some(row) = stream.try_next().await?
            {
                size += row.raw_size_bytes();
                rows.push(row);
            }
            Ok(rows)
        })
    }

    /// Inserts rows with COPY.
    pub(in crate::store) fn copy_in<'v>(
        &self,
        into: &str,
        kinds: &[Type],
        rows: impl Iterator<Item = Vec<Value<'v>>>,
    ) -> Result<()> {
        let types: Vec<_> = kinds.iter().copied().map(type_of).collect();
        self.query_blocking(async {
            let sink = self.client.copy_in(&format!("copy {into} from stdin binary")).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &types));
            for row in rows {
                writer.as_mut().write_raw(parameters(&row)).await?;
            }
            writer.finish().await
        })?;
        Ok(())
    }
}
