//! The rows of a query.

use crate::store::sql::error::{Error, Result};
use crate::store::sql::value::{ColumnRef, FromColumn};

/// The rows of a query. SQLite produces them on demand; PostgreSQL has sent all of them.
pub(in crate::store) enum Rows<'s> {
    Sqlite(rusqlite::Rows<'s>),
    Postgres { rest: std::vec::IntoIter<tokio_postgres::Row>, row: Option<tokio_postgres::Row> },
}

impl Rows<'_> {
    /// The next one.
    pub(in crate::store) fn next(&mut self) -> Result<Option<Row<'_>>> {
        match self {
            Self::Sqlite(rows) => Ok(rows.next()?.map(Row::Sqlite)),
            Self::Postgres { rest, row } => {
                *row = rest.next();
                Ok(row.as_ref().map(Row::Postgres))
            }
        }
    }
}

/// One row.
pub(in crate::store) enum Row<'r> {
    Sqlite(&'r rusqlite::Row<'r>),
    Postgres(&'r tokio_postgres::Row),
}

impl Row<'_> {
    /// The value of a column; the first is 0.
    pub(in crate::store) fn get<T: FromColumn>(&self, column: usize) -> Result<T> {
        T::from_column(self.get_ref(column)?).ok_or(Error::Column(column))
    }

    /// The value of a column without a copy.
    pub(in crate::store) fn get_ref(&self, column: usize) -> Result<ColumnRef<'_>> {
        match self {
            Self::Sqlite(row) => match row.get_ref(column)? {
                rusqlite::types::ValueRef::Null => Ok(ColumnRef::Null),
                rusqlite::types::ValueRef::Integer(integer) => Ok(ColumnRef::Integer(integer)),
                rusqlite::types::ValueRef::Text(text) => Ok(ColumnRef::Text(text)),
                rusqlite::types::ValueRef::Blob(bytes) => Ok(ColumnRef::Blob(bytes)),
                rusqlite::types::ValueRef::Real(_) => Err(Error::Column(column)),
            },
            Self::Postgres(row) => row.try_get(column).map_err(|_| Error::Column(column)),
        }
    }
}

/// The mapped rows of a query.
pub(in crate::store) struct Mapped<'s, F> {
    pub(in crate::store) rows: Rows<'s>,
    pub(in crate::store) map: F,
}

impl<T, F: FnMut(&Row<'_>) -> Result<T>> Iterator for Mapped<'_, F> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.rows.next().transpose()?;
        Some(next.and_then(|row| (self.map)(&row)))
    }
}
