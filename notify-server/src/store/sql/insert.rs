//! Rows that get a number (`store/key.rs`). Where it is drawn is the one thing that differs: SQLite has no
//! sequences, so that a table holds the counts there; PostgreSQL's draw inside the insert, so that it
//! stays one round trip.

use std::iter::once;

use crate::store::AppNo;
use crate::store::postgres::Session;
use crate::store::sql::connection::{Connection, Statement};
use crate::store::sql::error::Result;
use crate::store::sql::rows::Row;
use crate::store::sql::value::{Params, Value, params};

/// How `order by` says which rows of a table are older, whatever their application: the number without
/// its lead. Indexes have it in these words, or they would not serve that order.
macro_rules! seq_of {
    ($no:literal) => {
        concat!("(", $no, " & 8796093022207)")
    };
}

pub(in crate::store) use seq_of;

/// An insert into a table that numbers its rows.
#[expect(clippy::large_enum_variant, reason = "it lives on the stack of whoever inserts")]
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
    /// An insert of the form `insert into TABLE (no, …) values (?1, …)`, compiled once for this
    /// connection: `?1` is the number, which is drawn. The table has its count in `numbers`, and in
    /// PostgreSQL an identity.
    pub(in crate::store) fn prepare_insert<'c>(&'c self, sql: &'c str) -> Result<Insert<'c>> {
        Ok(match self {
            // Not one statement that returns the count: SQLite would build a table for it each time.
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
    /// Inserts a row of an application; its number, or `None` when nothing was inserted. `params` are
    /// those from `?2` on.
    pub(in crate::store) fn insert(
        &mut self,
        app: AppNo,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.with_number(app.key_prefix(), params)
    }

    /// The same for a row that is numbered by the count alone: of no application, or of a table whose
    /// key begins otherwise and whose numbers tell which row is later.
    pub(in crate::store) fn insert_unprefixed(
        &mut self,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.with_number(0, params)
    }

    fn with_number(&mut self, prefix: i64, params: impl Params) -> Result<Option<i64>> {
        // The number; in PostgreSQL what leads it, since the insert draws.
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

/// The table that a text inserts into.
pub(in crate::store) fn table_of(insert: &str) -> &str {
    let after = insert.strip_prefix("insert into ").expect("an insert begins with its table");
    after.split(' ').next().unwrap_or(after)
}
