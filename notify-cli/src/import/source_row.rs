//! A row in its original form. The report of refused rows contains this form, with the line and the errors of
//! the row. A corrected report is imported like any other file. A row that is refused again keeps its line in
//! the first file.

use std::{io, sync::Arc};

use csv::ByteRecord;
use notify_client::notify_core::json::JsonObject;
use serde_json::{Value, json};

use crate::output::{csv_writer, escape_formula};

/// The columns that a report adds. A file that has both of them is a report: in it, they are not fields of the
/// row, and the next report replaces them.
const ADDED: [&str; 2] = [LINE, "errors"];
const LINE: &str = "line";
/// The member of a report that contains the text of a line that is not a JSON object.
const NOT_AN_OBJECT: &str = "original";

/// Whether a file with these columns is a report.
pub(super) fn is_report<'a>(names: impl IntoIterator<Item = &'a [u8]>) -> bool {
    let names: Vec<_> = names.into_iter().filter(|name| is_added(name)).collect();
    ADDED.iter().all(|added| names.contains(&added.as_bytes()))
}

/// Whether a report adds the column with that name.
pub(super) fn is_added(name: &[u8]) -> bool {
    ADDED.iter().any(|added| name == added.as_bytes())
}

/// A row in the form of its file.
pub(super) enum SourceRow {
    Csv { header: Arc<ByteRecord>, cells: ByteRecord },
    Ndjson(Vec<u8>),
}

impl SourceRow {
    /// The first line of a report.
    pub(super) fn header(&self) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv { header, .. } => csv_row(header, header, &ADDED.map(str::to_owned)),
            Self::Ndjson(_) => Ok(Vec::new()),
        }
    }

    /// The row as a report contains it. `line` is its line in the imported file.
    pub(super) fn row(&self, line: u64, errors: &[String]) -> io::Result<Vec<u8>> {
        match self {
            Self::Csv { header, cells } => {
                let line = csv_first_line(header, cells).unwrap_or_else(|| line.to_string());
                csv_row(header, cells, &[line, errors.join("; ")])
            }
            Self::Ndjson(text) => Ok(ndjson_line(text, line, errors)),
        }
    }
}

/// A row in the form of its file.
#[derive(Clone, Copy)]
pub(super) enum RawRow<'a> {
    Csv {
        header: &'a Arc<ByteRecord>,
        cells: &'a ByteRecord,
        /// Whether the file ended within a quoted cell of this row.
        is_unterminated: bool,
    },
    /// A line or an element of a list.
    Json(&'a [u8]),
}

impl RawRow<'_> {
    /// The form of the row for the report.
    pub(super) fn to_source_row(self) -> SourceRow {
        match self {
            Self::Csv { header, cells, .. } => {
                SourceRow::Csv { header: header.clone(), cells: cells.clone() }
            }
            Self::Json(text) => SourceRow::Ndjson(on_one_line(text)),
        }
    }
}

/// JSON without line breaks, which occur only between its tokens.
fn on_one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// The row's line in the first file, if the row is from a report.
fn csv_first_line(header: &ByteRecord, cells: &ByteRecord) -> Option<String> {
    if !is_report(header) {
        return None;
    }
    let (_, line) = header.iter().zip(cells).find(|(name, _)| *name == LINE.as_bytes())?;
    let line: u64 = std::str::from_utf8(line).ok()?.trim().parse().ok()?;
    Some(line.to_string())
}

/// A row of a report: the cells of the row, the added cells, and the cells for which the header has no
/// column.
fn csv_row(header: &ByteRecord, cells: &ByteRecord, added: &[String; 2]) -> io::Result<Vec<u8>> {
    let of_header = header.iter().zip(cells.iter().chain(std::iter::repeat(b"".as_slice())));
    let row = of_header.filter(|(name, _)| !is_added(name)).map(|(_, cell)| cell);
    let row = row.chain(added.iter().map(String::as_bytes)).chain(cells.iter().skip(header.len()));
    let mut line = csv_writer(Vec::new());
    line.write_record(row.map(escape_formula))?;
    line.into_inner().map_err(csv::IntoInnerError::into_error)
}

fn ndjson_line(text: &[u8], line: u64, errors: &[String]) -> Vec<u8> {
    let mut members = members(text).unwrap_or_else(|| {
        let text = Value::from(String::from_utf8_lossy(text).trim());
        vec![(NOT_AN_OBJECT.to_owned(), text.to_string())]
    });
    let line = json_first_line(&members).unwrap_or_else(|| line.to_string());
    members.retain(|(name, _)| !is_added(name.as_bytes()));
    members.extend(ADDED.into_iter().map(str::to_owned).zip([line, json!(errors).to_string()]));
    let mut row = object(members.iter()).into_bytes();
    row.push(b'\n');
    row
}

/// Like [`csv_first_line`], for a line of NDJSON.
fn json_first_line(members: &[(String, String)]) -> Option<String> {
    if !is_report(members.iter().map(|(name, _)| name.as_bytes())) {
        return None;
    }
    let (_, line) = members.iter().find(|(name, _)| name == LINE)?;
    line.parse::<u64>().ok().map(|line| line.to_string())
}

/// The members of an object, parsed as strictly as a request body, with their JSON texts.
pub(super) fn members(text: &[u8]) -> Option<Vec<(String, String)>> {
    let object = JsonObject::new(std::str::from_utf8(text).ok()?).ok()?;
    let members = object.members().into_iter();
    Some(members.map(|(name, value)| (name, value.get().to_owned())).collect())
}

/// The object with these members.
pub(super) fn object<'a>(members: impl Iterator<Item = &'a (String, String)>) -> String {
    let members = members.map(|(name, value)| format!("{}:{value}", Value::from(&**name)));
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ERRORS: [&str; 2] = ["ios_env: no", "=and again"];

    fn errors() -> Vec<String> {
        ERRORS.map(str::to_owned).to_vec()
    }

    #[test]
    fn a_row_of_csv_keeps_its_columns() {
        for (header, cells, head, row) in [
            (
                vec!["device_id", "note"],
                vec![b"a,\"b".as_slice(), b"\xff"],
                "\"device_id\",\"note\",\"line\",\"errors\"\r\n",
                b"\"a,\"\"b\",\"\xff\",\"7\",\"ios_env: no; =and again\"\r\n".as_slice(),
            ),
            // A formula is escaped only once. Missing cells are empty, and surplus cells come last.
            (
                vec!["a", "b"],
                vec![b"=c"],
                "\"a\",\"b\",\"line\",\"errors\"\r\n",
                b"\"'=c\",\"\",\"7\",\"ios_env: no; =and again\"\r\n",
            ),
            (
                vec!["a"],
                vec![b"'=c", b"x"],
                "\"a\",\"line\",\"errors\"\r\n",
                b"\"'=c\",\"7\",\"ios_env: no; =and again\",\"x\"\r\n",
            ),
            // A row from a report keeps its line and gets the errors of this run.
            (
                vec!["line", "a", "errors"],
                vec![b"3", b"x", b"old"],
                "\"a\",\"line\",\"errors\"\r\n",
                b"\"x\",\"3\",\"ios_env: no; =and again\"\r\n",
            ),
            // A line that is not a number, or not from a report, is ignored.
            (
                vec!["line", "a", "errors"],
                vec![b"third", b"x", b"old"],
                "\"a\",\"line\",\"errors\"\r\n",
                b"\"x\",\"7\",\"ios_env: no; =and again\"\r\n",
            ),
            (
                vec!["line", "a"],
                vec![b"3", b"x"],
                "\"a\",\"line\",\"errors\"\r\n",
                b"\"x\",\"7\",\"ios_env: no; =and again\"\r\n",
            ),
        ] {
            let header = Arc::new(header.into_iter().collect::<ByteRecord>());
            let source_row = SourceRow::Csv { header, cells: cells.into_iter().collect() };
            assert_eq!(String::from_utf8(source_row.header().unwrap()).unwrap(), head);
            assert_eq!(source_row.row(7, &errors()).unwrap(), row, "{head}");
        }
    }

    #[test]
    fn a_line_of_ndjson_keeps_its_members() {
        for (line, members, number) in [
            (
                r#" {"device_id": "a\u00e9", "x": [1.0, {}]} "#,
                r#""device_id":"a\u00e9","x":[1.0, {}]"#,
                7,
            ),
            (r#"{"a":1,"errors":[],"line":2}"#, r#""a":1"#, 2),
            (r#"{"a":1,"errors":[],"line":"2"}"#, r#""a":1"#, 7),
            (r#"{"a":1,"line":2}"#, r#""a":1"#, 7),
            ("{\"a\":1,\"a\":2}\n", r#""original":"{\"a\":1,\"a\":2}""#, 7),
            ("nonsense", r#""original":"nonsense""#, 7),
        ] {
            let row = |text: &[u8]| {
                let source_row = SourceRow::Ndjson(text.to_vec());
                assert_eq!(source_row.header().unwrap(), b"");
                String::from_utf8(source_row.row(7, &errors()).unwrap()).unwrap()
            };
            let first = row(line.as_bytes());
            let added = r#""errors":["ios_env: no","=and again"]"#;
            assert_eq!(first, format!("{{{members},\"line\":{number},{added}}}\n"));
            assert_eq!(row(first.as_bytes()), first, "a row from a report stays the same");
        }
    }
}
