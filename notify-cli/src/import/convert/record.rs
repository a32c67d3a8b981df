//! A row of another system: its columns with their values.

use csv::ByteRecord;
use serde_json::{Map, Value};

use super::pairs::pairs;
use crate::import::columns::{NOT_UTF8, parse_flag};
use crate::import::source_row::{RawRow, is_added, is_report};
use crate::output::unescape_formula;

/// A cell with one of these texts is absent: PostgreSQL and MySQL write them for NULL.
const NULLS: [&str; 2] = ["\\N", "NULL"];

/// The columns of a row, or the members of an object.
#[derive(Debug, Default)]
pub(super) struct Record(Map<String, Value>);

impl Record {
    /// The columns of a row with their values, without those that a report added.
    pub(super) fn of(row: &RawRow<'_>) -> Result<Self, String> {
        let mut record = match row {
            RawRow::Csv { header, cells, .. } => Self::from_cells(header, cells)?,
            RawRow::Json(text) => Self::from_json(text)?,
        };
        if is_report(record.names()) {
            record.0.retain(|name, _| !is_added(name.as_bytes()));
        }
        Ok(record)
    }

    fn from_cells(header: &ByteRecord, cells: &ByteRecord) -> Result<Self, String> {
        if cells.len() != header.len() {
            let (cells, columns) = (cells.len(), header.len());
            return Err(format!("has {cells} cells, the header has {columns}"));
        }
        let mut record = Map::new();
        for (name, cell) in header.iter().zip(cells) {
            let cell = std::str::from_utf8(cell).map_err(|_| NOT_UTF8)?;
            if !cell.is_empty() && !NULLS.contains(&cell) {
                let name = String::from_utf8_lossy(name).into_owned();
                record.insert(name, unescape_formula(cell).into());
            }
        }
        Ok(Self(record))
    }

    pub(super) fn from_json(text: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice(text) {
            Ok(Value::Object(members)) => Ok(Self(members)),
            Ok(_) => Err("must be a JSON object".to_owned()),
            Err(error) => Err(format!("must be a JSON object: {error}")),
        }
    }

    /// The names of the columns.
    pub(super) fn names(&self) -> impl Iterator<Item = &[u8]> {
        self.0.keys().map(String::as_bytes)
    }

    /// The value of a column; `None` if it is null or absent. With dots in the name, the value of a member
    /// of a column, such as `tags.level`: the column may have an object, or its text.
    pub(super) fn value(&self, column: &str) -> Option<Value> {
        if let Some(value) = self.0.get(column) {
            return Some(value).filter(|value| !value.is_null()).cloned();
        }
        let (head, path) = column.split_once('.')?;
        let mut value = match self.0.get(head)? {
            Value::String(text) => object_of_text(text)?,
            value => value.clone(),
        };
        for name in path.split('.') {
            value = value.get_mut(name)?.take();
        }
        Some(value).filter(|value| !value.is_null())
    }

    /// Whether there is such a column, or such a member of a column. The column may be null.
    pub(super) fn has(&self, column: &str) -> bool {
        self.0.contains_key(column) || self.value(column).is_some()
    }

    /// The text of a column; `None` if there is none.
    pub(super) fn text(&self, column: &str) -> Option<String> {
        match self.0.get(column) {
            Some(value) => text_of(value),
            None => text_of(&self.value(column)?),
        }
    }

    /// The first of these columns that has a text.
    pub(super) fn first_text(&self, columns: &[&str]) -> Option<String> {
        columns.iter().find_map(|column| self.text(column))
    }

    /// The flag of a column.
    pub(super) fn flag(&self, column: &str) -> Result<Option<bool>, String> {
        let Some(text) = self.text(column) else { return Ok(None) };
        parse_flag(&text).map(Some).map_err(|rule| format!("{column}: {rule}"))
    }
}

/// The object that a cell has as a text.
fn object_of_text(text: &str) -> Option<Value> {
    pairs(text).ok().map(|pairs| {
        Value::Object(pairs.into_iter().map(|(name, value)| (name, value.into())).collect())
    })
}

/// The members with which MongoDB and Parse wrap a value.
const WRAPPERS: [&str; 8] = [
    "$oid",
    "$date",
    "$numberLong",
    "$numberInt",
    "$numberDouble",
    "$numberDecimal",
    "iso",
    "objectId",
];

/// The text of a value. Empty texts, null, lists and most objects have none.
pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::Null | Value::Array(_) => None,
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.trim()).filter(|text| !text.is_empty()).map(str::to_owned),
        Value::Object(members) => {
            WRAPPERS.iter().find_map(|wrapper| members.get(*wrapper)).and_then(text_of)
        }
    }
}

/// The texts of a list that are not empty: of a JSON array of texts or of objects with a `name`, or of a text
/// with such an array or with commas.
pub(super) fn texts_of(value: &Value) -> Result<Vec<String>, &'static str> {
    const RULE: &str = "must be a list of texts";
    match value {
        Value::Array(elements) => {
            let text = |element: &Value| match element.get("name").unwrap_or(element) {
                Value::String(text) => Some(text.trim().to_owned()),
                element => text_of(element),
            };
            let texts: Vec<_> = elements.iter().map(text).collect::<Option<_>>().ok_or(RULE)?;
            Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
        }
        Value::String(text) if text.trim_start().starts_with('[') => {
            let list: Value = serde_json::from_str(text).map_err(|_| RULE)?;
            texts_of(&list)
        }
        // PostgreSQL writes arrays in braces.
        Value::String(text) if text.starts_with('{') && text.ends_with('}') => {
            Ok(split(&text[1..text.len() - 1], ','))
        }
        Value::String(text) => Ok(split(text, ',')),
        _ => Err(RULE),
    }
}

/// The parts of a text between separators.
pub(super) fn split(text: &str, separator: char) -> Vec<String> {
    let parts = text.split(separator).map(|part| part.trim().trim_matches('"').trim());
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}
