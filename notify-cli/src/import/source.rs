//! The file row by row, from a thread of its own, since reading blocks. A row has a bound, so that
//! a quote that does not end cannot take the memory of the machine.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Cursor, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use csv::ByteRecord;
use encoding_rs_io::DecodeReaderBytesBuilder;
use notify_client::notify_core::Timestamp;
use tokio::sync::mpsc::Sender;

use super::{
    Format, Purpose,
    columns::Columns,
    journal::Mark,
    lines::{self, ROW_BYTES_MAX, delimiter, end_line, first_line, has_open_quote},
    list::{self, is_list},
    original::Original,
    record::{Draft, Keys, Record},
    repeats::{Repeated, Repeats},
};
use crate::failure::Failure;

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
                let csv = lines::reader(input, delimiter);
                read_csv(csv, self.ignore_unknown_columns, sink)
            }
            Format::Ndjson if is_list => read_list(input, sink),
            Format::Ndjson => read_lines(input, sink),
        }
    }
}

fn read_csv<R: Read>(
    mut csv: csv::Reader<lines::Bounded<R>>,
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
    list::read(input, |element| {
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
