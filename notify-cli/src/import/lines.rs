//! Lines of a CSV file: which one a row began on, and how long a row may be.

use std::io::{self, Read};

use csv::ByteRecord;

/// Longest row, in bytes: what a server takes (B4).
pub(super) const ROW_BYTES_MAX: u64 = 1024 * 1024;

/// A reader whose rows are bounded; [`end_line`] ends each.
pub(super) fn reader<R: Read>(input: R) -> csv::Reader<Bounded<R>> {
    csv::ReaderBuilder::new()
        .flexible(true)
        // Where `\r\n` is one terminator, rows begin on the line before.
        .terminator(csv::Terminator::Any(b'\n'))
        .from_reader(Bounded::new(input))
}

/// The line that a row begins on. The position of the record itself is ahead of empty lines.
pub(super) fn first_line<R: Read>(csv: &csv::Reader<Bounded<R>>, row: &ByteRecord) -> u64 {
    let (after, input) = (csv.position(), csv.get_ref());
    let is_ended = after.byte() < input.bytes || input.last == Some(b'\n');
    let inside = row.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
    after.line() - inside - u64::from(is_ended)
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

/// Input that fails once a row takes more than its bound.
pub(super) struct Bounded<R> {
    input: R,
    left: u64,
    /// How much was read, and the last of it.
    bytes: u64,
    last: Option<u8>,
}

impl<R> Bounded<R> {
    fn new(input: R) -> Self {
        Self { input, left: ROW_BYTES_MAX, bytes: 0, last: None }
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
        Ok(read)
    }
}
