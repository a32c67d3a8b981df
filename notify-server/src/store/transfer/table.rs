//! The tables of an installation, as the SQLite side of a move describes them: both sides have the
//! same ones (`tests/tests/tidy.rs` holds their migrations equal).

use aws_lc_rs::digest::{Context, SHA256};

use crate::store::sql::{ColumnRef, Connection, Error, Result, Row, Type, Value, params};

/// Tables that are a database's own.
const OWN: [&str; 5] = ["refinery_schema_history", "storage_checks", "servers", "moves", "numbers"];

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
    /// Those of the key first, in its order.
    pub(super) columns: Vec<Column>,
    /// How many are of the key: one at least.
    pub(super) key: usize,
    /// Whether it gives its rows numbers, of which none is ever given twice.
    pub(super) is_numbered: bool,
}

impl Table {
    /// Those whose rows are moved, in the order in which they were made: what a row refers to is in a
    /// table before its own.
    pub(super) fn all(sqlite: &Connection) -> Result<Vec<Self>> {
        let mut statement = sqlite.prepare_cached(
            "select name, name in (select name from numbers) from sqlite_schema
              where type = 'table' and name not like 'sqlite%' order by rowid",
        )?;
        let named = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let named: Vec<(String, bool)> = named.collect::<Result<_>>()?;
        let moved = named.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
        moved.map(|(name, is_numbered)| Self::one(sqlite, name, is_numbered)).collect()
    }

    fn one(sqlite: &Connection, name: String, is_numbered: bool) -> Result<Self> {
        let mut statement = sqlite.prepare_cached(
            "select name, type, pk from pragma_table_info(?1) order by pk = 0, pk, cid",
        )?;
        let described = statement.query_map(params![name], |row| {
            let kind = match row.get_ref(1)?.as_str() {
                Some("INTEGER") => Type::Integer,
                Some("TEXT") => Type::Text,
                Some("BLOB") => Type::Blob,
                _ => return Err(Error::Column(1)),
            };
            Ok((Column { name: row.get(0)?, kind }, row.get::<i64>(2)? > 0))
        })?;
        let described: Vec<(Column, bool)> = described.collect::<Result<_>>()?;
        let key = described.iter().filter(|(_, is_key)| *is_key).count();
        let columns = described.into_iter().map(|(column, _)| column).collect();
        Ok(Self { name, columns, key, is_numbered })
    }

    /// What reads rows in the order of the key, after those of a key that is given first, when it
    /// is; how many comes last.
    pub(super) fn select(&self, is_after: bool) -> String {
        let (all, key) = (names(&self.columns), names(&self.columns[..self.key]));
        let name = &self.name;
        if !is_after {
            return format!("select {all} from {name} order by {key} limit ?1");
        }
        let given = numbered(1, self.key);
        let limit = self.key + 1;
        format!("select {all} from {name} where ({key}) > ({given}) order by {key} limit ?{limit}")
    }

    /// What reads the last key.
    pub(super) fn last_key(&self) -> String {
        let key = &self.columns[..self.key];
        let back: Vec<_> = key.iter().map(|column| format!("{} desc", column.name)).collect();
        let (key, name, back) = (names(key), &self.name, back.join(", "));
        format!("select {key} from {name} order by {back} limit 1")
    }

    /// What counts the rows.
    pub(super) fn count(&self) -> String {
        format!("select count(*) from {}", self.name)
    }

    /// What inserts a row.
    pub(super) fn insert(&self) -> String {
        let all = names(&self.columns);
        format!("insert into {} ({all}) values ({})", self.name, numbered(1, self.columns.len()))
    }

    /// The table with its columns, as PostgreSQL's `copy` names it.
    pub(super) fn with_columns(&self) -> String {
        format!("{} ({})", self.name, names(&self.columns))
    }
}

fn numbered(from: usize, count: usize) -> String {
    (from..from + count).map(|no| format!("?{no}")).collect::<Vec<_>>().join(", ")
}

fn names(columns: &[Column]) -> String {
    columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// One value. Both databases hold the same three kinds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    Integer(i64),
    Text(String),
    Blob(Vec<u8>),
}

impl Cell {
    /// What a column holds.
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

    /// The parameter value.
    pub(super) fn value(&self, kind: Type) -> Value<'_> {
        match self {
            Self::Null => Value::Null(kind),
            Self::Integer(integer) => Value::Integer(*integer),
            Self::Text(text) => Value::Text(text),
            Self::Blob(bytes) => Value::Blob(bytes),
        }
    }

    /// Its size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Null | Self::Integer(_) => 0,
                Self::Text(text) => text.len(),
                Self::Blob(bytes) => bytes.len(),
            }
    }
}

/// SHA-256 over the rows of a table in the order of its key: each value with its kind and length.
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
