//! Column values in a transfer, and the digest of rows.

use aws_lc_rs::digest::{Context, SHA256};

use crate::store::sql::{ColumnRef, Error, Result, Row, Type, Value};

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
