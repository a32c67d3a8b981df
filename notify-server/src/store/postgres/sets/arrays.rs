//! The columns of the rows of a set as parameters: an array for each column.

use tokio_postgres::types::ToSql;

use crate::store::sql::columns::{Column, names};
use crate::store::sql::{Type, Value};

/// The values of a column, in the order of the rows.
enum Array<'v> {
    Integers(Vec<Option<i64>>),
    Texts(Vec<Option<&'v str>>),
    Blobs(Vec<Option<&'v [u8]>>),
}

impl<'v> Array<'v> {
    fn of(kind: Type, values: impl Iterator<Item = Value<'v>>) -> Self {
        match kind {
            Type::Integer => Self::Integers(values.map(integer).collect()),
            Type::Text => Self::Texts(values.map(text).collect()),
            Type::Blob => Self::Blobs(values.map(blob).collect()),
        }
    }

    /// Its type in PostgreSQL.
    fn sql_type(&self) -> &'static str {
        match self {
            Self::Integers(_) => "bigint[]",
            Self::Texts(_) => "text[]",
            Self::Blobs(_) => "bytea[]",
        }
    }

    fn parameter(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::Integers(values) => values,
            Self::Texts(values) => values,
            Self::Blobs(values) => values,
        }
    }
}

/// The columns of the rows of a set. All rows have the columns of the first one, each with one type.
pub(super) struct Arrays<'v> {
    names: String,
    arrays: Vec<Array<'v>>,
}

impl<'v> Arrays<'v> {
    /// The columns of these rows, of which there is at least one.
    pub(super) fn of(rows: &[Vec<Column<'v>>]) -> Self {
        let first = rows.first().map_or(&[][..], Vec::as_slice);
        let arrays = first.iter().enumerate().map(|(place, (name, value))| {
            let values = rows.iter().map(|row| {
                debug_assert_eq!(row[place].0, *name);
                row[place].1
            });
            Array::of(value.kind(), values)
        });
        Self { names: names(first), arrays: arrays.collect() }
    }

    /// The rows as a table: `unnest($1::bigint[], $2::text[]) g (key, country)`.
    pub(super) fn table(&self) -> String {
        let types: Vec<String> = (1..)
            .zip(&self.arrays)
            .map(|(number, array)| format!("${number}::{}", array.sql_type()))
            .collect();
        format!("unnest({}) g ({})", types.join(", "), self.names)
    }

    /// The parameters, in the order of [`Arrays::table`].
    pub(super) fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        self.arrays.iter().map(Array::parameter).collect()
    }
}

fn integer(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Integer(integer) => Some(integer),
        Value::Null(_) => None,
        Value::Text(_) | Value::Blob(_) => unreachable!("a column has one type"),
    }
}

fn text(value: Value<'_>) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        Value::Null(_) => None,
        Value::Integer(_) | Value::Blob(_) => unreachable!("a column has one type"),
    }
}

fn blob(value: Value<'_>) -> Option<&[u8]> {
    match value {
        Value::Blob(blob) => Some(blob),
        Value::Null(_) => None,
        Value::Integer(_) | Value::Text(_) => unreachable!("a column has one type"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::sql::columns::column;

    #[test]
    fn rows_become_a_table_of_arrays() {
        let rows = [("CH", Some(60)), ("JP", None)];
        let rows: Vec<_> = rows
            .iter()
            .map(|(country, zone)| vec![column("country", *country), column("timezone", zone)])
            .collect();
        let arrays = Arrays::of(&rows);
        assert_eq!(arrays.table(), "unnest($1::text[], $2::bigint[]) g (country, timezone)");
        assert_eq!(arrays.parameters().len(), 2);
    }
}
