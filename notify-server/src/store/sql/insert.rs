//! Inserting rows with generated keys (`store/key.rs`). SQLite has no sequences, so the table
//! `numbers` stores a counter for each table. PostgreSQL draws the number from a sequence inside
//! the insert, so that an insert is one round trip.

use std::iter::once;

use crate::store::AppNo;
use crate::store::postgres::{Session, sequence};
use crate::store::sql::connection::{Connection, Row, Statement};
use crate::store::sql::error::Result;
use crate::store::sql::value::{Params, Value, params};

/// An SQL expression that orders the rows of all applications by age: the key without its prefix,
/// the application. The indexes are defined on exactly this text; a different text would not use
/// them.
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
    /// Prepares `insert into TABLE (no, …) values (?1, …)` once per connection, where `?1` is the
    /// generated key. On SQLite the table needs a row in `numbers`, on PostgreSQL an identity
    /// column.
    pub(in crate::store) fn prepare_insert<'c>(&'c self, sql: &'c str) -> Result<Insert<'c>> {
        Ok(match self {
            // An update and a query instead of one update with RETURNING, for which SQLite builds a
            // temporary table each time.
            Self::Sqlite(_) => Insert::Sqlite {
                insert: self.prepare_cached(sql)?,
                increment: self
                    .prepare_cached("update numbers set last = last + 1 where name = ?1")?,
                current: self.prepare_cached("select last from numbers where name = ?1")?,
                table: table_of(sql),
            },
            Self::Postgres(session) => Insert::Postgres(session, session.statement_index(sql)),
        })
    }

    /// Draws the keys of new rows of an application, for an insert of many rows with one statement.
    pub(in crate::store) fn draw_keys(
        &self,
        table: &str,
        app: AppNo,
        count: usize,
    ) -> Result<Vec<i64>> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        match self {
            Self::Sqlite(_) => {
                self.prepare_cached("update numbers set last = last + ?2 where name = ?1")?
                    .execute(params![table, count])?;
                let last: i64 = self
                    .prepare_cached("select last from numbers where name = ?1")?
                    .query_row(params![table], |row| row.get(0))?;
                Ok((last - count + 1..=last).map(|seq| app.key_prefix() | seq).collect())
            }
            Self::Postgres(_) => {
                let sql = format!(
                    "select ?1 | nextval('{}') from generate_series(1, ?2)",
                    sequence(table)
                );
                self.prepare_cached(&sql)?
                    .query_map([app.key_prefix(), count], |row| row.get(0))?
                    .collect()
            }
        }
    }
}

impl Insert<'_> {
    /// Inserts a row of an application. Returns its key, or `None` if a conflict clause skipped the
    /// insert. `params` begin with `?2`.
    pub(in crate::store) fn insert(
        &mut self,
        app: AppNo,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.insert_with_prefix(app.key_prefix(), params)
    }

    /// As [`Insert::insert`], but the key has no application as its prefix. For rows that belong to
    /// no application, and for numbers that only order rows.
    pub(in crate::store) fn insert_unprefixed(
        &mut self,
        params: impl Params,
    ) -> Result<Option<i64>> {
        self.insert_with_prefix(0, params)
    }

    fn insert_with_prefix(&mut self, prefix: i64, params: impl Params) -> Result<Option<i64>> {
        // On SQLite this is the whole key. On PostgreSQL it is only the prefix; the insert draws
        // the rest.
        let first = match self {
            Self::Sqlite { increment, current, table, .. } => {
                increment.execute(params![*table])?;
                prefix | current.query_row(params![*table], |row| row.get::<i64>(0))?
            }
            Self::Postgres(..) => prefix,
        };
        let insert_row = |values: &[Value<'_>]| {
            let row: Vec<_> = once(Value::Integer(first)).chain(values.iter().copied()).collect();
            match self {
                Self::Sqlite { insert, .. } => {
                    let inserted = insert.execute(&row[..])?;
                    Ok((inserted > 0).then_some(first))
                }
                Self::Postgres(session, statement_index) => {
                    let rows = session.insert(*statement_index, &row)?;
                    rows.first().map(|row| Row::Postgres(row).get(0)).transpose()
                }
            }
        };
        params.with(insert_row)
    }
}

/// The table that an insert statement names.
pub(in crate::store) fn table_of(insert: &str) -> &str {
    let after = insert.strip_prefix("insert into ").expect("an insert begins with its table");
    after.split(' ').next().unwrap_or(after)
}
