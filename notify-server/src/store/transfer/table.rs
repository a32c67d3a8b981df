//! The tables of an installation, as the SQLite side of a move describes them: both sides have the
//! same ones (`tests/tests/tidy.rs` holds their migrations equal).

use crate::store::sql::{Connection, Error, Result, Type, params};

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
