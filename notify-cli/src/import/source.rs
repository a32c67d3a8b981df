//! Reads the rows of a file on a separate thread, because reading blocks. The size of a row is limited:
//! otherwise, an unterminated quote could exhaust the memory.

use std::cell::Cell;
use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use csv::ByteRecord;
use encoding_rs_io::DecodeReaderBytesBuilder;
use flate2::bufread::MultiGzDecoder;
use notify_client::notify_core::Timestamp;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::mpsc::Sender;

use crate::failure::Failure;
use crate::import::columns::Columns;
use crate::import::convert::{Conversion, Converter, Outcome, Table};
use crate::import::format::{Format, format_of_name, is_compressed};
use crate::import::json_row::draft_of_json;
use crate::import::operation::{Draft, Duplicate, DuplicateDetector, Keys, Operation};
use crate::import::purpose::Purpose;
use crate::import::source_row::{RawRow, SourceRow};
use crate::import::spreadsheet;
use crate::import::state::Position;

/// One row of the file.
pub(super) struct Row {
    /// The position after the row.
    pub(super) position: Position,
    /// The id of the device or the user; empty if there is none.
    pub(super) id: String,
    /// The operation of the row, or its errors.
    pub(super) operation: Result<Operation, Vec<String>>,
    pub(super) keys: Keys,
    pub(super) duplicate: Duplicate,
    /// The original form of the row, for the report.
    pub(super) source_row: SourceRow,
}

/// A file of devices or users.
pub(super) struct Source {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    size: Option<u64>,
    options: ReadOptions,
    /// For a file of another system.
    converter: Option<Converter>,
}

/// How a file is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct ReadOptions {
    pub(super) format: Format,
    pub(super) purpose: Purpose,
    pub(super) ignore_unknown_columns: bool,
}

/// Why a file cannot be read to its end.
#[derive(Debug, thiserror::Error)]
enum ReadError {
    /// The file, or standard input, cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The content of the file is wrong.
    #[error(transparent)]
    Content(#[from] Failure),
}

/// Where a row is in the file.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The line on which the row begins.
    line: u64,
    /// The number of bytes up to its end.
    bytes: u64,
}

/// What is done with the rows of a file.
trait RowVisitor {
    /// Called with the header of a CSV file.
    fn header(&mut self, header: &ByteRecord) -> Result<(), ReadError>;

    /// Called with each row. Returns whether to continue.
    fn row(&mut self, row: RawRow<'_>, place: Place) -> Result<bool, ReadError>;
}

/// How the rows of a file become drafts.
enum RowParser {
    /// The format of Notify.
    Native {
        /// The columns of a CSV file.
        columns: Option<Columns>,
        ignore_unknown_columns: bool,
    },
    /// The format of another system.
    Foreign(Box<Converter>),
}

/// Sends the rows of a file, except those that an earlier run finished.
struct Sink<'a> {
    parser: RowParser,
    progress: ReadProgress,
    duplicates: DuplicateDetector,
    purpose: Purpose,
    now: Timestamp,
    rows: &'a Sender<Result<Row, Failure>>,
}

/// Reads all rows of a table before the first one is sent.
struct Survey<'a> {
    converter: &'a mut Converter,
    table: Table,
}

impl Source {
    pub(super) fn open(
        path: &Path,
        options: ReadOptions,
        converter: Option<Converter>,
    ) -> Result<Self, Failure> {
        let is_stdin = path == Path::new("-");
        if is_stdin && converter.as_ref().is_some_and(Converter::needs_survey) {
            return Err(Failure::Usage(
                "the import reads this file twice, so it cannot be standard input".to_owned(),
            ));
        }
        let (input, size): (Box<dyn Read + Send>, _) = if is_stdin {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(Failure::file(path))?;
            let size = file.metadata().map_err(Failure::file(path))?.len();
            (Box::new(file), Some(size).filter(|_| !is_compressed(path)))
        };
        Ok(Self { path: path.to_owned(), input, size, options, converter })
    }

    /// The size in bytes; `None` for standard input and compressed files.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Sends the rows after `resume_after`, until the file ends or the receiver is dropped. Returns the columns
    /// of the mapping that no row had.
    pub(super) fn read(
        self,
        resume_after: Option<Position>,
        rows: &Sender<Result<Row, Failure>>,
    ) -> Vec<String> {
        self.read_rows(resume_after, rows).unwrap_or_else(|failure| {
            // If the receiver was dropped, the import has already ended.
            let _ = rows.blocking_send(Err(failure));
            Vec::new()
        })
    }

    fn read_rows(
        self,
        resume_after: Option<Position>,
        rows: &Sender<Result<Row, Failure>>,
    ) -> Result<Vec<String>, Failure> {
        let Self { path, input, options, converter, size: _ } = self;
        let ReadOptions { format, purpose, ignore_unknown_columns } = options;
        let mut list_member = purpose.list_member();
        let mut progress = ReadProgress::new(resume_after);
        let parser = match converter {
            None => RowParser::Native { columns: None, ignore_unknown_columns },
            Some(mut converter) => {
                list_member = converter.list_member();
                survey(&mut converter, &path, format)?;
                progress.add_cells([converter.mapping_text()].into_iter());
                RowParser::Foreign(Box::new(converter))
            }
        };
        let now = Timestamp::from_ms(jiff::Timestamp::now().as_millisecond());
        let duplicates = DuplicateDetector::default();
        let mut sink = Sink { parser, progress, duplicates, purpose, now, rows };
        let read = read_input(input, format, list_member, &mut sink);
        read.and_then(|()| Ok(sink.progress.finish()?)).map_err(|error| in_file(&path, error))?;
        Ok(match sink.parser {
            RowParser::Native { .. } => Vec::new(),
            RowParser::Foreign(converter) => converter.into_unseen_columns(),
        })
    }
}

/// Reads the files whose content must be known before the first row is sent.
fn survey(converter: &mut Converter, path: &Path, format: Format) -> Result<(), Failure> {
    if !converter.needs_survey() {
        return Ok(());
    }
    let list_member = converter.list_member();
    let feedback = converter.feedback().map(Path::to_owned).map(|path| {
        let format = format_of_name(&path).unwrap_or(Format::Csv);
        (path, format, Table::Feedback)
    });
    let notifications = (path.to_owned(), format, Table::Notifications);
    for (path, format, table) in feedback.into_iter().chain([notifications]) {
        let file = File::open(&path).map_err(Failure::file(&path))?;
        let visitor = &mut Survey { converter, table };
        let read = read_input(Box::new(file), format, list_member, visitor);
        read.map_err(|error| in_file(&path, error))?;
    }
    Ok(())
}

/// The failure for a file that cannot be read.
fn in_file(path: &Path, error: ReadError) -> Failure {
    match error {
        ReadError::Io(error) => Failure::file(path)(error),
        ReadError::Content(failure) => failure,
    }
}

/// Passes the rows of a file to a visitor.
fn read_input(
    input: Box<dyn Read + Send>,
    format: Format,
    list_member: &'static str,
    visitor: &mut impl RowVisitor,
) -> Result<(), ReadError> {
    let mut input = BufReader::new(decoded(input)?);
    // The first line shows the delimiter of cells, and whether the file is one JSON text.
    let mut head = Vec::new();
    (&mut input).take(ROW_BYTES_MAX).read_until(b'\n', &mut head)?;
    let is_list = is_json_list(&head, list_member);
    let mut start = Place { line: 0, bytes: 0 };
    let mut delimiter = detect_delimiter(&head);
    if let (Format::Csv, Some(named)) = (format, spreadsheet::named_delimiter(&head)) {
        start = Place { line: 1, bytes: head.len() as u64 };
        delimiter = named;
        head.clear();
    }
    let input = Cursor::new(head).chain(input);
    match format {
        Format::Csv => read_csv(csv_reader(input, delimiter), start, visitor),
        Format::Ndjson if is_list => read_list(input, list_member, visitor),
        Format::Ndjson => read_lines(input, visitor),
    }
}

/// The first bytes of a file that is compressed with gzip (RFC 1952, section 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The text of a file, decompressed. UTF-16 with a byte-order mark (the "Unicode text" of spreadsheets)
/// becomes UTF-8.
fn decoded(input: Box<dyn Read + Send>) -> io::Result<impl Read> {
    let mut input = BufReader::new(input);
    let input: Box<dyn Read> = if input.fill_buf()?.starts_with(&GZIP) {
        Box::new(MultiGzDecoder::new(input))
    } else {
        Box::new(input)
    };
    Ok(DecodeReaderBytesBuilder::new().utf8_passthru(true).strip_bom(true).build(input))
}

/// Reads a CSV file, whose header begins at `start`.
fn read_csv<R: Read>(
    mut csv: csv::Reader<BoundedReader<R>>,
    start: Place,
    visitor: &mut impl RowVisitor,
) -> Result<(), ReadError> {
    let mut header = csv.byte_headers().map_err(io::Error::from)?.clone();
    trim_carriage_return(&mut header);
    let header = &Arc::new(spreadsheet::named_columns(&header));
    visitor.header(header)?;
    let mut record = ByteRecord::new();
    loop {
        csv.get_mut().begin_row();
        if !csv.read_byte_record(&mut record).map_err(io::Error::from)? {
            return Ok(());
        }
        let place = Place {
            line: start.line + first_line(&csv, &record),
            bytes: start.bytes + csv.position().byte(),
        };
        trim_carriage_return(&mut record);
        // A line without content is not a row. The last lines of a file often have none.
        let Some(cells) = &spreadsheet::row_of(&record, header.len()) else { continue };
        let is_unterminated = has_unterminated_quote(&csv);
        if !visitor.row(RawRow::Csv { header, cells, is_unterminated }, place)? {
            return Ok(());
        }
    }
}

/// Reads an NDJSON file.
fn read_lines(mut input: impl BufRead, visitor: &mut impl RowVisitor) -> Result<(), ReadError> {
    let mut text = Vec::new();
    let (mut line, mut bytes) = (0, 0);
    loop {
        text.clear();
        let size = (&mut input).take(ROW_BYTES_MAX + 1).read_until(b'\n', &mut text)? as u64;
        if size == 0 {
            return Ok(());
        }
        line += 1;
        bytes += size;
        if size > ROW_BYTES_MAX {
            return Err(Failure::Usage(format!("line {line} is longer than 1 MiB")).into());
        }
        // An empty line is not a row. The last line of a file is often empty.
        if text.trim_ascii().is_empty() {
            continue;
        }
        if !visitor.row(RawRow::Json(&text), Place { line, bytes })? {
            return Ok(());
        }
    }
}

/// Reads a JSON list.
fn read_list(
    input: impl BufRead,
    list_member: &'static str,
    visitor: &mut impl RowVisitor,
) -> Result<(), ReadError> {
    for_each_element(input, list_member, |element| {
        let place = Place { line: element.line, bytes: element.bytes };
        visitor.row(RawRow::Json(element.text), place)
    })
}

impl RowParser {
    /// The devices or users of a row: the id of each, which is empty if there is none, and the draft or its
    /// errors. A row of the format of Notify has exactly one.
    fn parse(&mut self, row: &RawRow<'_>, purpose: Purpose) -> Vec<(String, Conversion)> {
        match (self, row) {
            (Self::Foreign(converter), _) => converter.convert(row),
            (Self::Native { columns, .. }, RawRow::Csv { cells, .. }) => {
                let columns = columns.as_ref().expect("the header comes first");
                let (id, parsed) = columns.draft(cells);
                vec![(id, parsed.map(Outcome::device))]
            }
            (Self::Native { .. }, RawRow::Json(text)) => {
                let (id, parsed) = json_draft(text, purpose);
                vec![(id, parsed.map(Outcome::device))]
            }
        }
    }

    /// Names the columns of a mapping in the errors of a draft.
    fn with_columns(&self, errors: Vec<String>) -> Vec<String> {
        match self {
            Self::Foreign(converter) => converter.with_columns(errors),
            Self::Native { .. } => errors,
        }
    }
}

impl RowVisitor for Sink<'_> {
    fn header(&mut self, header: &ByteRecord) -> Result<(), ReadError> {
        match &mut self.parser {
            RowParser::Native { columns, ignore_unknown_columns } => {
                *columns = Some(Columns::new(header, self.purpose, *ignore_unknown_columns)?);
            }
            RowParser::Foreign(converter) => converter.check_header(header)?,
        }
        self.progress.add_cells(header.iter());
        Ok(())
    }

    fn row(&mut self, row: RawRow<'_>, place: Place) -> Result<bool, ReadError> {
        match row {
            RawRow::Csv { cells, .. } => self.progress.add_cells(cells.iter()),
            RawRow::Json(text) => self.progress.add_cells([text].into_iter()),
        }
        for (id, parsed) in self.parser.parse(&row, self.purpose) {
            let is_new = self.progress.advance(place)?;
            let parsed = match (row, parsed) {
                (RawRow::Csv { is_unterminated: true, .. }, parsed) => {
                    let mut errors = vec![UNTERMINATED.to_owned()];
                    errors.extend(parsed.err().unwrap_or_default());
                    Err(errors)
                }
                (_, parsed) => parsed,
            };
            if !self.push(is_new, id, parsed, row) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

const UNTERMINATED: &str = "has an unterminated quote: all lines after it are part of its cell";

impl RowVisitor for Survey<'_> {
    fn header(&mut self, header: &ByteRecord) -> Result<(), ReadError> {
        if self.table == Table::Feedback && !header.iter().any(|name| name == b"device_token") {
            let rule = "--feedback: the header has no column `device_token`";
            return Err(Failure::Usage(rule.to_owned()).into());
        }
        Ok(())
    }

    fn row(&mut self, row: RawRow<'_>, _place: Place) -> Result<bool, ReadError> {
        self.converter.survey(&row, self.table);
        Ok(true)
    }
}

impl Sink<'_> {
    /// Sends a row. Returns whether the receiver accepts more rows. A row that an earlier run finished is
    /// not sent, but its keys are recorded, so that later rows with the same keys are duplicates.
    fn push(&mut self, is_new: bool, id: String, parsed: Conversion, row: RawRow<'_>) -> bool {
        let operation = parsed.and_then(|outcome| match outcome {
            Outcome::Device(draft) => draft
                .validate(self.purpose, self.now)
                .map_err(|errors| self.parser.with_columns(errors)),
            Outcome::LeftOut(reason) => Ok(Operation::LeaveOut(reason)),
        });
        let (keys, duplicate) = match &operation {
            Ok(operation) => self.duplicates.add(operation),
            Err(_) => (Keys::default(), Duplicate::default()),
        };
        if !is_new {
            return true;
        }
        let (position, source_row) = (self.progress.position, row.to_source_row());
        let row = Row { position, id, operation, keys, duplicate, source_row };
        self.rows.blocking_send(Ok(row)).is_ok()
    }
}

/// Parses a JSON object. Returns its id, even if the object is invalid, and the draft or its errors.
fn json_draft(text: &[u8], purpose: Purpose) -> (String, Result<Draft, Vec<String>>) {
    let draft = draft_of_json(text, purpose);
    let id = match &draft {
        Ok(draft) => draft.id(purpose).to_owned(),
        Err(_) => {
            let value: serde_json::Value = serde_json::from_slice(text).unwrap_or_default();
            value[purpose.id_column()].as_str().unwrap_or_default().to_owned()
        }
    };
    (id, draft)
}

/// The position of the reader. Rows that an earlier run finished are skipped. At the end of these rows, the
/// digest of the file must be that of the earlier run; otherwise, it is a different file.
struct ReadProgress {
    position: Position,
    resume_after: Option<Position>,
}

impl ReadProgress {
    fn new(resume_after: Option<Position>) -> Self {
        Self { position: Position::default(), resume_after }
    }

    /// Adds the cells of a header or a row to the digest.
    fn add_cells<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) {
        self.position.add_cells(cells);
    }

    /// Moves past a row, whose cells were added, and returns whether the row is new. A row of another system
    /// can count as several.
    fn advance(&mut self, place: Place) -> Result<bool, Failure> {
        self.position.rows += 1;
        self.position.line = place.line;
        self.position.bytes = place.bytes;
        match self.resume_after {
            None => Ok(true),
            Some(finished) if self.position.rows < finished.rows => Ok(false),
            Some(finished) if self.position == finished => {
                self.resume_after = None;
                Ok(false)
            }
            Some(_) => Err(different_file()),
        }
    }

    /// Fails if the file ended before the position of the earlier run.
    fn finish(&self) -> Result<(), Failure> {
        if self.resume_after.is_some() { Err(different_file()) } else { Ok(()) }
    }
}

fn different_file() -> Failure {
    Failure::Usage(
        "this is not the file that the state file belongs to, or the mapping is another one; --restart \
         starts over"
            .to_owned(),
    )
}

// CSV: the delimiter, the line of a row, its largest size, and unterminated quotes.

/// Largest row, in bytes: the largest request body of a server by default.
const ROW_BYTES_MAX: u64 = 1024 * 1024;

/// The delimiters of cells: a comma, or one that spreadsheets of other locales use.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Detects the delimiter by the header: it is the most frequent one, because names of columns contain none.
fn detect_delimiter(header: &[u8]) -> u8 {
    let count = |delimiter: u8| header.iter().filter(|byte| **byte == delimiter).count();
    let mut most_frequent = DELIMITERS[0];
    for delimiter in DELIMITERS {
        if count(delimiter) > count(most_frequent) {
            most_frequent = delimiter;
        }
    }
    most_frequent
}

/// A reader of rows of limited size. Call [`trim_carriage_return`] on each row that it returns.
fn csv_reader<R: Read>(input: R, delimiter: u8) -> csv::Reader<BoundedReader<R>> {
    csv::ReaderBuilder::new()
        .flexible(true)
        .delimiter(delimiter)
        // With `\r\n` as the terminator, the reader would report the number of the previous line.
        .terminator(csv::Terminator::Any(b'\n'))
        .from_reader(BoundedReader::new(input, delimiter))
}

/// The line on which a row begins. It is computed from the end of the row, because the reader's position of
/// the record may be that of an empty line before it.
fn first_line<R: Read>(csv: &csv::Reader<BoundedReader<R>>, row: &ByteRecord) -> u64 {
    let (end, input) = (csv.position(), csv.get_ref());
    let is_last_row = end.byte() == input.bytes;
    // After a line break, the end is on the next line. Only the last row may have no line break.
    let has_line_break = !is_last_row || (input.last == Some(b'\n') && !input.quotes.is_open());
    let breaks_in_cells = row.iter().flatten().filter(|byte| **byte == b'\n').count() as u64;
    end.line() - breaks_in_cells - u64::from(has_line_break)
}

/// Whether the file ended within a quoted cell of this row, which then contains all later lines.
fn has_unterminated_quote<R: Read>(csv: &csv::Reader<BoundedReader<R>>) -> bool {
    csv.position().byte() == csv.get_ref().bytes && csv.get_ref().quotes.is_open()
}

/// Removes the `\r` of `\r\n` from the last cell.
fn trim_carriage_return(row: &mut ByteRecord) {
    let last = row.len().saturating_sub(1);
    if let Some(cell) = row.get(last).and_then(|cell| cell.strip_suffix(b"\r")) {
        let cell = cell.to_owned();
        row.truncate(last);
        row.push_field(&cell);
    }
}

/// The quoting state of a CSV text (RFC 4180), as the reader of CSV interprets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum QuoteState {
    /// At the beginning of a cell, the only place where a quote opens.
    CellStart,
    /// In a cell, after its quotes or without quotes.
    Unquoted,
    /// Between quotes.
    Open,
    /// After a quote that ends the cell, unless another quote follows.
    Closing,
}

impl QuoteState {
    fn is_open(self) -> bool {
        self == Self::Open
    }

    /// The state after `byte`, which follows a text with this state.
    fn after(self, byte: u8, delimiter: u8) -> Self {
        match (self, byte) {
            (Self::CellStart | Self::Closing, b'"') => Self::Open,
            (Self::Open, b'"') => Self::Closing,
            (Self::Open, _) => Self::Open,
            (_, b'\n') => Self::CellStart,
            (_, byte) if byte == delimiter => Self::CellStart,
            _ => Self::Unquoted,
        }
    }
}

/// Input whose reader fails if a row is too large.
struct BoundedReader<R> {
    input: R,
    /// The number of bytes that the current row may still have.
    left: u64,
    /// The number of bytes that have been read.
    bytes: u64,
    /// The last byte that has been read.
    last: Option<u8>,
    /// The quoting state after the last byte.
    quotes: QuoteState,
    delimiter: u8,
}

impl<R> BoundedReader<R> {
    fn new(input: R, delimiter: u8) -> Self {
        let quotes = QuoteState::CellStart;
        Self { input, left: ROW_BYTES_MAX, bytes: 0, last: None, quotes, delimiter }
    }

    /// Resets the limit for the next row.
    fn begin_row(&mut self) {
        self.left = ROW_BYTES_MAX;
    }
}

impl<R: Read> Read for BoundedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let what = "a row is longer than 1 MiB (is there an unterminated quote?)";
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

// Devices or users as one JSON text: an array, or the output of `notify devices list -o json`. It is parsed
// one element at a time. `list_member` is the member of such a response that contains the list.

/// Whether a file with this first line is one JSON text. Otherwise, it has one object on each line.
fn is_json_list(first_line: &[u8], list_member: &str) -> bool {
    match first_line.trim_ascii() {
        b"{" => true,
        line if line.starts_with(b"[") => true,
        line => line.strip_prefix(b"{").is_some_and(|members| {
            let members = members.trim_ascii_start();
            members.starts_with(format!("\"{list_member}\"").as_bytes())
        }),
    }
}

/// An element of the list.
struct Element<'a> {
    text: &'a [u8],
    /// The line on which it begins.
    line: u64,
    /// The number of bytes up to its end.
    bytes: u64,
}

/// Calls `each` for every element, until it returns false or fails.
fn for_each_element(
    input: impl BufRead,
    list_member: &'static str,
    mut each: impl FnMut(&Element<'_>) -> Result<bool, ReadError>,
) -> Result<(), ReadError> {
    let count =
        ReadCount { lines: Cell::new(1), bytes: Cell::new(0), row_end: Cell::new(ROW_BYTES_MAX) };
    let mut json = serde_json::Deserializer::from_reader(CountingReader { input, count: &count });
    let mut stop_error = None;
    let mut list = ListVisitor {
        each: &mut |text| {
            let breaks_in_element = text.bytes().filter(|byte| *byte == b'\n').count() as u64;
            let (line, bytes) = (count.lines.get() - breaks_in_element, count.bytes.get());
            count.row_end.set(bytes + ROW_BYTES_MAX);
            match each(&Element { text: text.as_bytes(), line, bytes }) {
                Ok(continues) => continues,
                Err(error) => {
                    stop_error = Some(error);
                    false
                }
            }
        },
        list_member,
        is_stopped: false,
    };
    let outcome = list.deserialize(&mut json).and_then(|()| json.end());
    let is_stopped = list.is_stopped;
    match (stop_error, outcome) {
        (Some(error), _) => Err(error),
        (None, Err(_)) if is_stopped => Ok(()),
        (None, Err(error)) if error.is_io() => Err(ReadError::Io(error.into())),
        (None, Err(error)) if error.is_eof() => Err(Failure::Usage(format!(
            "line {}: the JSON ends within the list: the file is incomplete",
            error.line()
        ))
        .into()),
        (None, Err(error)) => {
            Err(Failure::Usage(format!("not a list of {list_member}: {error}")).into())
        }
        (None, Ok(())) => Ok(()),
    }
}

/// Visits the elements of the list.
struct ListVisitor<'a> {
    /// Called with the JSON text of each element. The visitor stops if it returns false.
    each: &'a mut dyn FnMut(&str) -> bool,
    list_member: &'static str,
    is_stopped: bool,
}

impl<'de> DeserializeSeed<'de> for &mut ListVisitor<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut ListVisitor<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an array of {0}, or an object that has one as `{0}`", self.list_member)
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
        let mut has_list = false;
        while let Some(name) = members.next_key::<String>()? {
            if name == self.list_member {
                has_list = true;
                members.next_value_seed(&mut *self)?;
            } else {
                members.next_value::<IgnoredAny>()?;
            }
        }
        if has_list { Ok(()) } else { Err(de::Error::missing_field(self.list_member)) }
    }
}

/// The position of a [`CountingReader`]. Both the reader and the visitor of the list use it.
struct ReadCount {
    lines: Cell<u64>,
    bytes: Cell<u64>,
    /// The largest position at which the current element may end.
    row_end: Cell<u64>,
}

struct CountingReader<'a, R> {
    input: R,
    count: &'a ReadCount,
}

impl<R: BufRead> Read for CountingReader<'_, R> {
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
mod csv_tests {
    use super::*;

    #[test]
    fn the_delimiter_is_detected_in_the_header() {
        for (header, expected) in [
            ("device_id,platform", b','),
            ("device_id;platform;tags", b';'),
            ("device_id\tplatform", b'\t'),
            ("device_id|platform", b'|'),
            ("device_id", b','),
            ("", b','),
        ] {
            assert_eq!(detect_delimiter(header.as_bytes()), expected, "{header}");
        }
    }

    /// The lines of rows, and whether the last row has an unterminated quote.
    fn rows(text: &str) -> (Vec<u64>, bool) {
        let mut csv = csv_reader(text.as_bytes(), b',');
        csv.byte_headers().expect("a text can be read");
        let (mut lines, mut record) = (Vec::new(), ByteRecord::new());
        let mut is_open = false;
        while csv.read_byte_record(&mut record).expect("a text can be read") {
            lines.push(first_line(&csv, &record));
            is_open = has_unterminated_quote(&csv);
        }
        (lines, is_open)
    }

    #[test]
    fn an_unterminated_quote_does_not_change_lines() {
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
        let read = for_each_element(text.as_bytes(), "devices", |element| {
            all.push((element.line, String::from_utf8_lossy(element.text).into_owned()));
            Ok(true)
        });
        read.map(|()| all).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_list_is_an_array_or_a_response() {
        let both = vec![(2, r#"{"a":1}"#.to_owned()), (3, "{\n\"a\":[2]}".to_owned())];
        for text in [
            "[\n{\"a\":1},\n{\n\"a\":[2]}\n]\n",
            "{\"next_cursor\":null,\"devices\": [\n{\"a\":1},\n{\n\"a\":[2]}], \"x\": [7]}",
        ] {
            assert_eq!(elements(text), Ok(both.clone()), "{text}");
        }
        assert_eq!(elements("[]"), Ok(vec![]));
        for (text, error) in [
            ("[{}, {", "line 1: the JSON ends within the list: the file is incomplete"),
            ("{}", "not a list of devices: missing field `devices` at line 1 column 2"),
            ("[{}]]", "not a list of devices: trailing characters at line 1 column 5"),
        ] {
            assert_eq!(elements(text), Err(error.to_owned()), "{text}");
        }
        let mut count = 0;
        let stopped = for_each_element(&b"[1,2,3]"[..], "devices", |_| {
            count += 1;
            Ok(count < 2)
        });
        assert!(stopped.is_ok() && count == 2);
    }

    #[test]
    fn the_first_line_distinguishes_a_list_from_lines() {
        for (line, list) in [
            ("[", true),
            (" [{\"device_id\":1}]", true),
            ("{", true),
            ("{\"devices\":[", true),
            ("{ \"devices\": []}", true),
            ("{\"device_id\":\"a\"}", false),
            ("", false),
        ] {
            assert_eq!(is_json_list(line.as_bytes(), "devices"), list, "{line}");
        }
        // A user has devices too.
        assert!(is_json_list(b"{\"users\": [", "users"));
        assert!(!is_json_list(b"{\"devices\":[],\"user_id\":\"u\"}", "users"));
    }
}
