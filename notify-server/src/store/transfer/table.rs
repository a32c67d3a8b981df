//! The tables of an installation, their values, and the digest of their rows. The tables are read
//! from the SQLite side of a transfer. Both sides have the same tables, since both have the same
//! migrations (`tests/tests/tidy.rs` checks that).

use aws_lc_rs::digest::{Context, SHA256};

use crate::store::sql::{ColumnRef, Connection, Error, Result, Row, Type, Value, params};

/// The tables that are not transferred, since their content belongs to one database only.
const NOT_TRANSFERRED: [&str; 5] =
    ["refinery_schema_history", "storage_checks", "servers", "moves", "numbers"];

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: Type,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    pub(super) name: String,
    /// The columns. The columns of the primary key come first, in the order of the key.
    pub(super) columns: Vec<Column>,
    /// The number of columns of the primary key, at least one.
    pub(super) key_columns: usize,
    /// Whether the keys of its rows are generated from a counter and never reused.
    pub(super) is_numbered: bool,
}

impl Table {
    /// Reads the tables to transfer, in the order of their creation. A row only refers to rows of
    /// earlier tables.
    pub(super) fn all(sqlite: &Connection) -> Result<Vec<Self>> {
        let mut statement = sqlite.prepare_cached(
            "select name, name in (select name from numbers) from sqlite_schema
              where type = 'table' and name not like 'sqlite%' order by rowid",
        )?;
        let names: Vec<(String, bool)> = statement
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_>>()?;
        let mut tables = Vec::new();
        for (name, is_numbered) in names {
            if !NOT_TRANSFERRED.contains(&name.as_str()) {
                tables.push(Self::read(sqlite, name, is_numbered)?);
            }
        }
        Ok(tables)
    }

    /// Reads the columns of a table, those of the primary key first.
    fn read(sqlite: &Connection, name: String, is_numbered: bool) -> Result<Self> {
        let mut statement = sqlite.prepare_cached(
            "select name, type, pk from pragma_table_info(?1) order by pk = 0, pk, cid",
        )?;
        let rows = statement.query_map(params![name], |row| {
            let kind = match row.get_ref(1)?.as_str() {
                Some("INTEGER") => Type::Integer,
                Some("TEXT") => Type::Text,
                Some("BLOB") => Type::Blob,
                _ => return Err(Error::Column(1)),
            };
            let is_in_key = row.get::<i64>(2)? > 0;
            Ok((Column { name: row.get(0)?, kind }, is_in_key))
        })?;
        let mut columns = Vec::new();
        let mut key_columns = 0;
        for row in rows {
            let (column, is_in_key) = row?;
            columns.push(column);
            key_columns += usize::from(is_in_key);
        }
        Ok(Self { name, columns, key_columns, is_numbered })
    }

    /// The SQL that selects the first rows in the order of the key. Its parameter is the limit.
    pub(super) fn select_first(&self) -> String {
        let (all, key) = (names(&self.columns), names(&self.columns[..self.key_columns]));
        format!("select {all} from {} order by {key} limit ?1", self.name)
    }

    /// The SQL that selects the rows after a key, in the order of the key. Its parameters are the
    /// values of the key and the limit.
    pub(super) fn select_after(&self) -> String {
        let (all, key) = (names(&self.columns), names(&self.columns[..self.key_columns]));
        let name = &self.name;
        let key_params = placeholders(1, self.key_columns);
        let limit = self.key_columns + 1;
        format!(
            "select {all} from {name} where ({key}) > ({key_params}) order by {key} limit ?{limit}"
        )
    }

    /// The SQL that selects the last key.
    pub(super) fn last_key(&self) -> String {
        let key = &self.columns[..self.key_columns];
        let descending: Vec<_> = key.iter().map(|column| format!("{} desc", column.name)).collect();
        let (key, name, order) = (names(key), &self.name, descending.join(", "));
        format!("select {key} from {name} order by {order} limit 1")
    }

    /// The SQL that counts the rows.
    pub(super) fn count(&self) -> String {
        format!("select count(*) from {}", self.name)
    }

    /// The SQL that inserts a row.
    pub(super) fn insert(&self) -> String {
        let all = names(&self.columns);
        format!(
            "insert into {} ({all}) values ({})",
            self.name,
            placeholders(1, self.columns.len())
        )
    }

    /// The table and its columns as in PostgreSQL's `copy`: `name (column, …)`.
    pub(super) fn with_columns(&self) -> String {
        format!("{} ({})", self.name, names(&self.columns))
    }
}

/// The placeholders of `count` parameters, beginning with `?from`.
fn placeholders(from: usize, count: usize) -> String {
    (from..from + count).map(|no| format!("?{no}")).collect::<Vec<_>>().join(", ")
}

/// The names of columns, separated by commas.
fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The value of a column. Both databases have the same kinds of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    /// Reads a column.
    pub(super) fn of(row: &Row<'_>, column: usize) -> Result<Self> {
        Ok(match row.get_ref(column)? {
            ColumnRef::Null => Self::Null,
            ColumnRef::Integer(integer) => Self::Integer(integer),
            ColumnRef::Blob(bytes) => Self::Blob(bytes.to_vec()),
            text @ ColumnRef::Text(_) => {
                Self::Text(text.as_str().ok_or(Error::Column(column))?.to_owned())
            }
        })
    }

    /// The value as a parameter. `kind` is the type of its column.
    pub(super) fn value(&self, kind: Type) -> Value<'_> {
        match self {
            Self::Null => Value::Null(kind),
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }

    /// The size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Null | Self::Integer(_) => 0,
                Self::Text(text) => text.len(),
                Self::Blob(bytes) => bytes.len(),
            }
    }
}

/// A SHA-256 over the rows of a table, in the order of the key. Each value is hashed with its kind
/// and length.
pub(super) struct Digest(Context);

impl Digest {
    pub(super) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(super) fn add(&mut self, cell: &Cell) {
        match cell {
            Cell::Null => self.0.update(&[0]),
            Cell::Integer(integer) => {
                self.0.update(&[1]);
                self.0.update(&integer.to_le_bytes());
            }
            // PostgreSQL stores U+FFFD in place of U+0000 (`postgres/value.rs`).
            Cell::Text(text) if text.contains('\0') => {
                self.bytes(2, text.replace('\0', "\u{fffd}").as_bytes())
            }
            Cell::Text(text) => self.bytes(2, text.as_bytes()),
            Cell::Blob(bytes) => self.bytes(3, bytes),
        }
    }

    fn bytes(&mut self, kind: u8, bytes: &[u8]) {
        self.0.update(&[kind]);
        self.0.update(&(bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    pub(super) fn finish(self) -> [u8; 32] {
        self.0.finish().as_ref().try_into().expect("a SHA-256 digest has 32 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(cells: &[Cell]) -> [u8; 32] {
        let mut digest = Digest::new();
        cells.iter().for_each(|cell| digest.add(cell));
        digest.finish()
    }

    #[test]
    fn digests_distinguish_values_and_their_boundaries() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let all = [
            vec![],
            vec![Cell::Null],
            vec![Cell::Integer(0)],
            vec![Cell::Integer(1)],
            vec![text("")],
            vec![text(""), text("")],
            vec![text("a"), text("b")],
            vec![text("ab"), text("")],
            vec![Cell::Blob(vec![])],
            vec![Cell::Blob(b"ab".to_vec()), Cell::Blob(vec![])],
        ];
        let digests: std::collections::HashSet<_> = all.iter().map(|cells| digest(cells)).collect();
        assert_eq!(digests.len(), all.len());
        assert_eq!(digest(&[text("a\0b")]), digest(&[text("a\u{fffd}b")]));
    }
}
