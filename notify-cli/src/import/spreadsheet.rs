//! CSV as spreadsheets write it: a first line that names the delimiter, columns and rows without content, and
//! texts that are written as formulas to keep their zeros.

use csv::ByteRecord;

/// The delimiter that the first line of a file names, as in `sep=;`. Such a line is not the header.
pub(super) fn named_delimiter(line: &[u8]) -> Option<u8> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let line = line.strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(line);
    match line {
        [name @ .., delimiter] if name.eq_ignore_ascii_case(b"sep=") && delimiter.is_ascii() => {
            Some(*delimiter)
        }
        _ => None,
    }
}

/// A header without the columns behind the last name.
pub(super) fn named_columns(header: &ByteRecord) -> ByteRecord {
    let named = header.iter().rposition(|name| !name.trim_ascii().is_empty());
    header.iter().take(named.map_or(0, |last| last + 1)).map(text_of).collect()
}

/// A row without the empty cells behind the last column, and with the texts of formulas. `None` if every cell
/// is empty.
pub(super) fn row_of(cells: &ByteRecord, columns: usize) -> Option<ByteRecord> {
    let filled = cells.iter().rposition(|cell| !cell.is_empty())? + 1;
    Some(cells.iter().take(filled.max(columns)).map(text_of).collect())
}

/// The text of a formula that is only a text: `="00042"`.
fn text_of(cell: &[u8]) -> Vec<u8> {
    let text = cell.strip_prefix(b"=\"").and_then(|text| text.strip_suffix(b"\""));
    let Some(text) = text else { return cell.to_owned() };
    let mut unescaped = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        // A quote in the text is written twice. A single one ends the text, so the cell is another formula.
        if *byte == b'"' && bytes.next() != Some(&b'"') {
            return cell.to_owned();
        }
        unescaped.push(*byte);
    }
    unescaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_may_name_the_delimiter() {
        for (line, delimiter) in [
            ("sep=;\r\n", Some(b';')),
            ("SEP=,\n", Some(b',')),
            ("\"sep=;\"\r\n", Some(b';')),
            ("sep=\t\n", Some(b'\t')),
            ("sep=|", Some(b'|')),
            ("sep=", None),
            ("sep=;;\n", None),
            ("sep;platform\n", None),
            ("device_id,platform\n", None),
            ("", None),
        ] {
            assert_eq!(named_delimiter(line.as_bytes()), delimiter, "{line:?}");
        }
    }

    #[test]
    fn cells_without_content_are_left_out() {
        let header = ByteRecord::from(vec!["device_id", "platform", "", " "]);
        assert_eq!(named_columns(&header), vec!["device_id", "platform"]);
        for (cells, expected) in [
            (vec!["a", "ios"], Some(vec!["a", "ios"])),
            (vec!["a", "ios", "", ""], Some(vec!["a", "ios"])),
            (vec!["a", "", ""], Some(vec!["a", ""])),
            (vec!["a", "ios", "", "x"], Some(vec!["a", "ios", "", "x"])),
            (vec!["a"], Some(vec!["a"])),
            (vec!["", "", ""], None),
            (vec![""], None),
        ] {
            let row = row_of(&ByteRecord::from(cells.clone()), 2);
            assert_eq!(row, expected.map(ByteRecord::from), "{cells:?}");
        }
    }

    #[test]
    fn a_formula_that_is_a_text_is_the_text() {
        for (cell, text) in [
            ("=\"00042\"", "00042"),
            ("=\"\"", ""),
            ("=\"a \"\"b\"\"\"", "a \"b\""),
            ("=\"a\"&\"b\"", "=\"a\"&\"b\""),
            ("=1+1", "=1+1"),
            ("=\"", "=\""),
            ("'=\"00042\"", "'=\"00042\""),
            ("00042", "00042"),
        ] {
            assert_eq!(text_of(cell.as_bytes()), text.as_bytes(), "{cell}");
        }
    }
}
