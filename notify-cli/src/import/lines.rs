//! Lines of a CSV file: which one a row began on, how long a row may be, what parts its cells, and
//! whether a quote was left open.

use std::io::{self, Read};

use csv::ByteRecord;

/// Longest row, in bytes: what a server takes (B4).
pub(super) const ROW_BYTES_MAX: u64 = 1024 * 1024;

/// What parts cells: a comma, or what a spreadsheet takes as its country does.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// What parts the cells of a header. No name of a column holds any of them.
pub(super) fn delimiter(header: &[u8]) -> u8 {
    let count = |delimiter: u8| header.iter().filter(|byte| **byte == delimiter).count();
    let mut most = DELIMITERS[0];
    for other in DELIMITERS {
        if count(other) > count(most) {
            most = other;
        }
    }
    most
}

/// A reader whose rows are bounded; [`end_line`] ends each.
pub(super) fn reader<R: Read>(input: R, delimiter: u8) -> csv::Reader<Bounded<R>> {
    csv::ReaderBuilder::new()
        .flexible(true)
        .delimiter(delimiter)
        // Where `\r\n` is one terminator, rows begin on the line before.
        .terminator(csv::Terminator::Any(b'\n'))
        .from_reader(Bounded::new(input, delimiter))
}

/// The line that a row begins on. The position of the record itself is ahead of empty lines.
pub(super) fn first_line<R: Read>(csv: &csv::Reader<Bounded<R>>, row: &ByteRecord) -> u64 {
    let (after, input) = (csv.position(), csv.get_ref());
    let is_last = after.byte() == input.bytes;
    let is_ended = !is_last || (input.last == Some(b'\n') && !input.quotes.is_open());
    let inside = row.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
    after.line() - inside - u64::from(is_ended)
}

/// Whether the file ended within a quoted cell of this row, which then holds every row behind it.
pub(super) fn has_open_quote<R: Read>(csv: &csv::Reader<Bounded<R>>) -> bool {
    csv.position().byte() == csv.get_ref().bytes && csv.get_ref().quotes.is_open()
}

/// Takes the `\r` of `\r\n` from the last cell.
pub(super) fn end_line(row: &mut ByteRecord) {
    let last = row.len().saturating_sub(1);
    if let Some(cell) = row.get(last).and_then(|cell| cell.strip_suffix(b"\r")) {
        let cell = cell.to_owned();
        row.truncate(last);
        row.push_field(&cell);
    }
}

/// Where a text stands between quotes (RFC 4180), as the reader of CSV takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quotes {
    /// At the beginning of a cell, where alone a quote opens.
    Before,
    /// In a cell, behind its quotes or without.
    Outside,
    /// Between quotes.
    Open,
    /// Behind a quote that ends the cell, unless another follows.
    Closing,
}

impl Quotes {
    fn is_open(self) -> bool {
        self == Self::Open
    }

    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::Before | Self::Closing, b'"') => Self::Open,
            (Self::Open, b'"') => Self::Closing,
            (Self::Open, _) => Self::Open,
            (_, b'\n') => Self::Before,
            (_, byte) if byte == delimiter => Self::Before,
            _ => Self::Outside,
        }
    }
}

/// Input that fails once a row takes more than its bound.
pub(super) struct Bounded<R> {
    input: R,
    left: u64,
    /// How much was read, the last of it, and how it left the quotes.
    bytes: u64,
    last: Option<u8>,
    quotes: Quotes,
    delimiter: u8,
}

impl<R> Bounded<R> {
    fn new(input: R, delimiter: u8) -> Self {
        let quotes = Quotes::Before;
        Self { input, left: ROW_BYTES_MAX, bytes: 0, last: None, quotes, delimiter }
    }

    /// Lets another row take as much.
    pub(super) fn begin_row(&mut self) {
        self.left = ROW_BYTES_MAX;
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let what = "a row is longer than 1 MiB (is there a quote that does not end?)";
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let read = self.input.read(buffer)?;
        self.left = self.left.saturating_sub(read as u64);
        self.bytes += read as u64;
        self.last = buffer[..read].last().copied().or(self.last);
        for byte in &buffer[..read] {
            self.quotes = self.quotes.after(*byte, self.delimiter);
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_tells_what_parts_cells() {
        for (header, parted_by) in [
            ("device_id,platform", b','),
            ("device_id;platform;tags", b';'),
            ("device_id\tplatform", b'\t'),
            ("device_id|platform", b'|'),
            ("device_id", b','),
            ("", b','),
        ] {
            assert_eq!(delimiter(header.as_bytes()), parted_by, "{header}");
        }
    }

    /// Rows as they begin, and whether the last one has a quote that does not end.
    fn rows(text: &str) -> (Vec<u64>, bool) {
        let mut csv = reader(text.as_bytes(), b',');
        csv.byte_headers().expect("a text can be read");
        let (mut lines, mut record) = (Vec::new(), ByteRecord::new());
        let mut is_open = false;
        while csv.read_byte_record(&mut record).expect("a text can be read") {
            lines.push(first_line(&csv, &record));
            is_open = has_open_quote(&csv);
        }
        (lines, is_open)
    }

    #[test]
    fn a_quote_that_does_not_end_moves_no_line() {
        for (text, lines, is_open) in [
            ("a,b\n1,2\n3,\"4\n5,6\n", vec![2, 3], true),
            ("a,b\n1,2\n3,\"4\n5,6", vec![2, 3], true),
            ("a,b\n1,2\n\"3,4\n\n5,6\n\n", vec![2, 3], true),
            ("a,b\n1,2\n3,\"4\n\"\n", vec![2, 3], false),
            ("a,b\n1,2\n3,\"4\n\"", vec![2, 3], false),
            ("a,b\n1,2\n3,\"4\"\"\n", vec![2, 3], true),
            ("a,b\n1,2\n3,\"4\"\"\n\"\n", vec![2, 3], false),
            ("a,b\n1,2\n3,4\"\n5,6\n", vec![2, 3, 4], false),
        ] {
            assert_eq!(rows(text), (lines, is_open), "{text:?}");
        }
    }
}
