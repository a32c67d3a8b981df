//! Inserting rows with generated keys (`store/key.rs`). SQLite has no sequences, so a table stores the
//! counters; PostgreSQL draws from a sequence inside the insert, which keeps it one round trip.

use std::iter::once;

use crate::store::AppNo;
use crate::store::postgres::Session;
use crate::store::sql::connection::{Connection, Row, Statement};
use crate::store::sql::error::Result;
use crate::store::sql::value::{Params, Value, params};

/// Expression that orders rows of all applications by age: the key without its prefix. Indexes contain
/// exactly this text; otherwise they would not serve the order.
macro_rules! seq_of {
    ($no:literal) => {
        concat!("(", $no, " & 8796093022207)")
    };
}

pub(in crate::store) use seq_of;

/// An insert into a table with generated keys.
#[expect(clippy::large_enum_variant, reason = "it lives on the caller's stack")]
pub(in crate::store) enum Insert<'c> {
    Sqlite {
        insert: Statement<'c>,
        increment: Statement<'c>,
        current: Statement<'c>,
        table: &'c str,
    },
    Postgres(&'c Session, usize),
}

impl Connection {
    /// Prepares `insert into TABLE (no, …) values (?1, …)` once per connection. `?1` is the generated
    /// key. The table has a row in `numbers`, and in PostgreSQL an identity column.
    pub(in crate::store) fn prepare_insert<'c>(&'c self, sql: &'c str) -> Result<Insert<'c>> {
        Ok(match self {
            // Two statements, since SQLite builds a temporary table for RETURNING each time.
            Self::Sqlite(_) => Insert::Sqlite {
                insert: self.prepare_cached(sql)?,
                increment: self
                    .prepare_cached("update numbers set last = last + 1 where name = ?1")?,
                current: self.prepare_cached("select last from numbers where name = ?1")?,
                table: table_of(sql),
            },
            Self::Postgres(session) => Insert::Postgres(session, session.text(sql)),
        })
    }
}

impl Insert<'_> {
    /// Inserts a row of an application; returns its key, or `None` if nothing was inserted. `params`
    /// begin with `?2`.
    pub(in crate::store) fn insert(
        &mut self,
        app: AppNo,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.with_number(app.key_prefix(), params)
    }

    /// As [`Insert::insert`], without the application's prefix: for rows of no application, and for
    /// numbers that only order rows.
    pub(in crate::store) fn insert_unprefixed(
        &mut self,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.with_number(0, params)
    }

    fn with_number(&mut self, prefix: i64, params: impl Params) -> Result<Option<i64>> {
        // The key; on PostgreSQL only its prefix, since the insert draws the rest.
        let first = match self {
            Self::Sqlite { increment, current, table, .. } => {
                increment.execute(params![*table])?;
                prefix | current.query_row(params![*table], |row| row.get::<i64>(0))?
            }
            Self::Postgres(..) => prefix,
        };
        let row = |values: &[Value<'_>]| {
            let row: Vec<_> = once(Value::Integer(first)).chain(values.iter().copied()).collect();
            match self {
                Self::Sqlite { insert, .. } => {
                    let inserted = insert.execute(&row[..])?;
                    Ok((inserted > 0).then_some(first))
                }
                Self::Postgres(session, text) => {
                    let rows = session.insert(*text, &row)?;
                    rows.first().map(|row| Row::Postgres(row).get(0)).transpose()
                }
            }
        };
        params.with(row)
    }
}

/// The table that an insert statement names.
pub(in crate::store) fn table_of(insert: &str) -> &str {
    let after = insert.strip_prefix("insert into ").expect("an insert begins with its table");
    after.split(' ').next().unwrap_or(after)
}
