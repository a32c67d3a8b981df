//! The file row by row, from a thread of its own, since reading blocks. A row has a bound, so that
//! a quote that does not end cannot take the memory of the machine.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::ByteRecord;
use encoding_rs_io::DecodeReaderBytesBuilder;
use notify_client::notify_core::Timestamp;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::import::columns::Columns;
use crate::import::journal::Mark;
use crate::import::original::Original;
use crate::import::record::{Draft, Keys, Record};
use crate::import::work::{Repeated, Repeats};
use crate::import::{Format, Purpose};

/// One row of the file.
pub(super) struct Row {
    /// Where the file stands after it.
    pub(super) mark: Mark,
    /// The device id, wherever it could be read.
    pub(super) device_id: String,
    /// What it asks for, or why it cannot.
    pub(super) record: Result<Record, Vec<String>>,
    /// What it shares with other rows.
    pub(super) keys: Keys,
    /// Whether an earlier row has its device or its address.
    pub(super) repeated: Repeated,
    /// What the file has, for the report.
    pub(super) original: Original,
}

/// The file.
pub(super) struct Source {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    size: Option<u64>,
    format: Format,
    purpose: Purpose,
    ignore_unknown_columns: bool,
}

/// How a file is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reading {
    pub(super) format: Format,
    pub(super) purpose: Purpose,
    pub(super) ignore_unknown_columns: bool,
}

/// Where rows go, and up to where they are only looked at.
struct Sink<'a> {
    place: Place,
    repeats: Repeats,
    purpose: Purpose,
    now: Timestamp,
    rows: &'a Sender<Result<Row, Failure>>,
}

impl Source {
    pub(super) fn open(path: &Path, reading: Reading) -> Result<Self, Failure> {
        let (input, size): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(Failure::file(path))?;
            let size = file.metadata().map_err(Failure::file(path))?.len();
            (Box::new(file), Some(size))
        };
        // UTF-16 that says so becomes UTF-8, as what spreadsheets call Unicode text; all else stays.
        let input =
            DecodeReaderBytesBuilder::new().utf8_passthru(true).strip_bom(true).build(input);
        let Reading { format, purpose, ignore_unknown_columns } = reading;
        let (path, input) = (path.to_owned(), Box::new(input));
        Ok(Self { path, input, size, format, purpose, ignore_unknown_columns })
    }

    /// Its size in bytes, when it is a file.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Sends the rows after `resume`. It ends early when nobody takes them any more.
    pub(super) fn read(self, resume: Option<Mark>, rows: &Sender<Result<Row, Failure>>) {
        let path = self.path.clone();
        let sink = Sink {
            place: Place::new(resume),
            repeats: Repeats::default(),
            purpose: self.purpose,
            now: Timestamp::from_ms(jiff::Timestamp::now().as_millisecond()),
            rows,
        };
        if let Err(failure) = self.read_into(sink) {
            let failure = match failure {
                Failure::Output(error) => Failure::file(path)(error),
                other => other,
            };
            // Nobody to tell is as good as told.
            let _ = rows.blocking_send(Err(failure));
        }
    }

    fn read_into(self, sink: Sink<'_>) -> Result<(), Failure> {
        let mut input = BufReader::new(self.input);
        // What parts cells, and whether objects stand one a line, shows in the first line.
        let mut head = Vec::new();
        (&mut input).take(ROW_BYTES_MAX).read_until(b'\n', &mut head)?;
        let (is_list, delimiter) = (is_list(&head), delimiter(&head));
        let input = Cursor::new(head).chain(input);
        match self.format {
            Format::Csv => {
                let csv = reader(input, delimiter);
                read_csv(csv, self.ignore_unknown_columns, sink)
            }
            Format::Ndjson if is_list => read_list(input, sink),
            Format::Ndjson => read_lines(input, sink),
        }
    }
}

fn read_csv<R: Read>(
    mut csv: csv::Reader<Bounded<R>>,
    ignore_unknown_columns: bool,
    mut sink: Sink<'_>,
) -> Result<(), Failure> {
    let mut header = csv.byte_headers().map_err(io::Error::from)?.clone();
    end_line(&mut header);
    let header = Arc::new(header);
    let columns = Columns::new(&header, sink.purpose, ignore_unknown_columns)?;
    sink.place.begin(header.iter());
    let mut record = ByteRecord::new();
    loop {
        csv.get_mut().begin_row();
        if !csv.read_byte_record(&mut record).map_err(io::Error::from)? {
            return sink.place.end();
        }
        let line = first_line(&csv, &record);
        end_line(&mut record);
        // A line that is empty, as the last one often is, is no row.
        if record.iter().eq([b""]) {
            continue;
        }
        let is_new = sink.place.pass(line, csv.position().byte(), record.iter())?;
        let (device_id, mut draft) = columns.draft(&record);
        if has_open_quote(&csv) {
            let open = "has a quote that does not end: all lines behind it are part of its cell";
            let others = draft.err().into_iter().flatten();
            draft = Err(std::iter::once(open.to_owned()).chain(others).collect());
        }
        let original = || Original::Csv { header: header.clone(), cells: record.clone() };
        if !sink.push(is_new, device_id, draft, original) {
            return Ok(());
        }
    }
}

fn read_lines(mut input: impl BufRead, mut sink: Sink<'_>) -> Result<(), Failure> {
    let mut text = Vec::new();
    let (mut line, mut bytes) = (0, 0);
    loop {
        text.clear();
        let read = (&mut input).take(ROW_BYTES_MAX + 1).read_until(b'\n', &mut text)? as u64;
        if read == 0 {
            return sink.place.end();
        }
        line += 1;
        bytes += read;
        if read > ROW_BYTES_MAX {
            return Err(Failure::Usage(format!("line {line} is longer than 1 MiB")));
        }
        // A line that is empty, as the last one often is, is no row.
        if text.trim_ascii().is_empty() {
            continue;
        }
        let is_new = sink.place.pass(line, bytes, [&*text].into_iter())?;
        let draft = Draft::from_json(&text);
        if !sink.push(is_new, id_of(&text, &draft), draft, || Original::Ndjson(text.clone())) {
            return Ok(());
        }
    }
}

fn read_list(input: impl BufRead, mut sink: Sink<'_>) -> Result<(), Failure> {
    read(input, |element| {
        let is_new = sink.place.pass(element.line, element.bytes, [element.text].into_iter())?;
        let draft = Draft::from_json(element.text);
        let device_id = id_of(element.text, &draft);
        Ok(sink.push(is_new, device_id, draft, || Original::Ndjson(on_one_line(element.text))))
    })?;
    sink.place.end()
}

impl Sink<'_> {
    /// Takes a row; says whether there is anybody who takes more. A row that is settled already still
    /// counts for those behind it.
    fn push(
        &mut self,
        is_new: bool,
        device_id: String,
        draft: Result<Draft, Vec<String>>,
        original: impl FnOnce() -> Original,
    ) -> bool {
        let record = draft.and_then(|draft| draft.finish(self.purpose, self.now));
        let (keys, repeated) = match &record {
            Ok(record) => self.repeats.note(record),
            Err(_) => (Keys::default(), Repeated::default()),
        };
        if !is_new {
            return true;
        }
        let (mark, original) = (self.place.mark, original());
        let row = Row { mark, device_id, record, keys, repeated, original };
        self.rows.blocking_send(Ok(row)).is_ok()
    }
}

/// The device id of a line, also of one that asks for nothing that there is.
fn id_of(line: &[u8], draft: &Result<Draft, Vec<String>>) -> String {
    match draft {
        Ok(draft) => draft.registration.device_id.clone(),
        Err(_) => {
            let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
            value["device_id"].as_str().unwrap_or_default().to_owned()
        }
    }
}

/// JSON without its line ends, which no text of it holds.
fn on_one_line(json: &[u8]) -> Vec<u8> {
    json.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}

/// Where the reading stands, and up to where it only checks that the file is the one begun.
struct Place {
    mark: Mark,
    resume: Option<Mark>,
}

impl Place {
    fn new(resume: Option<Mark>) -> Self {
        Self { mark: Mark::default(), resume }
    }

    /// Takes in a header, which is no row.
    fn begin<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) {
        self.mark.digest(cells);
    }

    /// Passes a row; says whether it is still to be settled.
    fn pass<'a>(
        &mut self,
        line: u64,
        bytes: u64,
        cells: impl Iterator<Item = &'a [u8]>,
    ) -> Result<bool, Failure> {
        self.mark.rows += 1;
        self.mark.line = line;
        self.mark.bytes = bytes;
        self.mark.digest(cells);
        match self.resume {
            None => Ok(true),
            Some(resume) if self.mark.rows < resume.rows => Ok(false),
            Some(resume) if self.mark == resume => {
                self.resume = None;
                Ok(false)
            }
            Some(_) => Err(another_file()),
        }
    }

    fn end(&self) -> Result<(), Failure> {
        if self.resume.is_some() { Err(another_file()) } else { Ok(()) }
    }
}

fn another_file() -> Failure {
    Failure::Usage(
        "this is not the file that the state file is about; --restart begins anew".to_owned(),
    )
}

// Lines of a CSV file: which one a row began on, how long a row may be, what parts its cells, and
// whether a quote was left open.

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

// Devices as one JSON text: an array of them, or what `notify devices list -o json` shows. It is
// read element by element, however long it is.

/// The member of an answer that holds the devices.
const DEVICES: &str = "devices";

/// Whether a file that begins so is one JSON text, and not one object a line.
pub(super) fn is_list(first_line: &[u8]) -> bool {
    match first_line.trim_ascii() {
        b"{" => true,
        line if line.starts_with(b"[") => true,
        line => line.strip_prefix(b"{").is_some_and(|members| {
            let members = members.trim_ascii_start();
            members.strip_prefix(b"\"devices\"").is_some()
        }),
    }
}

/// A device of the list.
pub(super) struct Element<'a> {
    pub(super) text: &'a [u8],
    /// The line that it begins on.
    pub(super) line: u64,
    /// How much of the file is read behind it.
    pub(super) bytes: u64,
}

/// Reads the devices one by one. `each` says whether to go on.
pub(super) fn read(
    input: impl BufRead,
    mut each: impl FnMut(&Element<'_>) -> Result<bool, Failure>,
) -> Result<(), Failure> {
    let count =
        Count { lines: Cell::new(1), bytes: Cell::new(0), row_end: Cell::new(ROW_BYTES_MAX) };
    let mut json = serde_json::Deserializer::from_reader(Counted { input, count: &count });
    let mut ended = None;
    let mut list = List {
        each: &mut |text| {
            let inside = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
            let (line, bytes) = (count.lines.get() - inside, count.bytes.get());
            count.row_end.set(bytes + ROW_BYTES_MAX);
            let outcome = each(&Element { text: text.as_bytes(), line, bytes });
            let goes_on = matches!(outcome, Ok(true));
            ended = outcome.err().or(ended.take());
            goes_on
        },
        is_stopped: false,
    };
    let read = list.deserialize(&mut json).and_then(|()| json.end());
    let is_stopped = list.is_stopped;
    match (ended, read) {
        (Some(failure), _) => Err(failure),
        (None, Err(_)) if is_stopped => Ok(()),
        (None, Err(error)) if error.is_io() => Err(Failure::Output(error.into())),
        (None, Err(error)) if error.is_eof() => Err(Failure::Usage(format!(
            "line {}: the JSON ends within the list: the file was cut",
            error.line()
        ))),
        (None, Err(error)) => Err(Failure::Usage(format!("is no list of devices: {error}"))),
        (None, Ok(())) => Ok(()),
    }
}

/// The text as a whole, and its elements.
struct List<'a> {
    each: &'a mut dyn FnMut(&str) -> bool,
    is_stopped: bool,
}

impl<'de> DeserializeSeed<'de> for &mut List<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut List<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of devices, or an object that has one as `devices`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element::<Box<RawValue>>()? {
            if !(self.each)(element.get()) {
                self.is_stopped = true;
                return Err(de::Error::custom("stopped"));
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut has_devices = false;
        while let Some(name) = members.next_key::<String>()? {
            if name == DEVICES {
                has_devices = true;
                members.next_value_seed(&mut *self)?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        if has_devices { Ok(()) } else { Err(de::Error::missing_field(DEVICES)) }
    }
}

/// How far the text is read.
struct Count {
    lines: Cell<u64>,
    bytes: Cell<u64>,
    /// Where an element must have ended.
    row_end: Cell<u64>,
}

struct Counted<'a, R> {
    input: R,
    count: &'a Count,
}

impl<R: BufRead> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.count.bytes.get() > self.count.row_end.get() {
            let what = format!("line {}: a row is longer than 1 MiB", self.count.lines.get());
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        let read = self.input.read(buffer)?;
        let lines = buffer[..read].iter().filter(|byte| **byte == b'\n').count();
        self.count.lines.set(self.count.lines.get() + lines as u64);
        self.count.bytes.set(self.count.bytes.get() + read as u64);
        Ok(read)
    }
}

#[cfg(test)]
mod lines_tests {
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

#[cfg(test)]
mod list_tests {
    use super::*;

    fn elements(text: &str) -> Result<Vec<(u64, String)>, String> {
        let mut all = Vec::new();
        let read = read(text.as_bytes(), |element| {
            all.push((element.line, String::from_utf8_lossy(element.text).into_owned()));
            Ok(true)
        });
        read.map(|()| all).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_list_is_an_array_or_an_answer() {
        let both = vec![(2, r#"{"a":1}"#.to_owned()), (3, "{\n\"a\":[2]}".to_owned())];
        for text in [
            "[\n{\"a\":1},\n{\n\"a\":[2]}\n]\n",
            "{\"next_cursor\":null,\"devices\": [\n{\"a\":1},\n{\n\"a\":[2]}], \"x\": [7]}",
        ] {
            assert_eq!(elements(text), Ok(both.clone()), "{text}");
        }
        assert_eq!(elements("[]"), Ok(vec![]));
        for (text, error) in [
            ("[{}, {", "line 1: the JSON ends within the list: the file was cut"),
            ("{}", "is no list of devices: missing field `devices` at line 1 column 2"),
            ("[{}]]", "is no list of devices: trailing characters at line 1 column 5"),
        ] {
            assert_eq!(elements(text), Err(error.to_owned()), "{text}");
        }
        let mut count = 0;
        let stopped = read(&b"[1,2,3]"[..], |_| {
            count += 1;
            Ok(count < 2)
        });
        assert!(stopped.is_ok() && count == 2);
    }

    #[test]
    fn the_first_line_tells_a_list_from_lines() {
        for (line, list) in [
            ("[", true),
            (" [{\"device_id\":1}]", true),
            ("{", true),
            ("{\"devices\":[", true),
            ("{ \"devices\": []}", true),
            ("{\"device_id\":\"a\"}", false),
            ("", false),
        ] {
            assert_eq!(is_list(line.as_bytes()), list, "{line}");
        }
    }
}
