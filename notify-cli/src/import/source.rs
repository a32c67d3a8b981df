//! The file row by row, from a thread of its own, since reading blocks. A row has a bound, so that
//! a quote that does not end cannot take the memory of the machine.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
};

use csv::ByteRecord;
use notify_client::notify_core::{RegisterDevice, Request};
use tokio::sync::mpsc::Sender;

use super::{
    Format,
    columns::Columns,
    journal::Mark,
    lines::{self, ROW_BYTES_MAX, end_line, first_line},
    original::{Original, without_added},
};
use crate::failure::Failure;

/// One row of the file.
pub(super) struct Row {
    /// Where the file stands after it.
    pub(super) mark: Mark,
    /// The device id, where it could be read though the row could not.
    pub(super) device_id: String,
    /// The registration, or why there is none.
    pub(super) device: Result<RegisterDevice, Vec<String>>,
    /// What the file has, for the report.
    pub(super) original: Original,
}

/// The file.
pub(super) struct Source {
    path: PathBuf,
    input: Box<dyn Read + Send>,
    size: Option<u64>,
    format: Format,
    ignore_unknown_columns: bool,
}

impl Source {
    pub(super) fn open(
        path: &Path,
        format: Format,
        ignore_unknown_columns: bool,
    ) -> Result<Self, Failure> {
        let (input, size): (Box<dyn Read + Send>, _) = if path == Path::new("-") {
            (Box::new(io::stdin()), None)
        } else {
            let file = File::open(path).map_err(Failure::file(path))?;
            let size = file.metadata().map_err(Failure::file(path))?.len();
            (Box::new(file), Some(size))
        };
        Ok(Self { path: path.to_owned(), input, size, format, ignore_unknown_columns })
    }

    /// Its size in bytes, when it is a file.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// Sends the rows after `resume`. It ends early when nobody takes them any more.
    pub(super) fn read(self, resume: Option<Mark>, rows: &Sender<Result<Row, Failure>>) {
        let path = self.path.clone();
        let outcome = match self.format {
            Format::Csv => self.read_csv(resume, rows),
            Format::Ndjson => self.read_ndjson(resume, rows),
        };
        if let Err(failure) = outcome {
            let failure = match failure {
                Failure::Output(error) => Failure::file(path)(error),
                other => other,
            };
            // Nobody to tell is as good as told.
            let _ = rows.blocking_send(Err(failure));
        }
    }

    fn read_csv(
        self,
        resume: Option<Mark>,
        rows: &Sender<Result<Row, Failure>>,
    ) -> Result<(), Failure> {
        let mut csv = lines::reader(self.input);
        let mut header = csv.byte_headers().map_err(io::Error::from)?.clone();
        end_line(&mut header);
        let header = Arc::new(header);
        let columns = Columns::new(&header, self.ignore_unknown_columns)?;
        let mut place = Place::new(resume);
        place.begin(header.iter());
        let mut record = ByteRecord::new();
        loop {
            csv.get_mut().begin_row();
            if !csv.read_byte_record(&mut record).map_err(io::Error::from)? {
                return place.end();
            }
            let line = first_line(&csv, &record);
            end_line(&mut record);
            // A line that is empty, as the last one often is, is no row.
            if record.iter().eq([b""]) {
                continue;
            }
            if !place.pass(line, csv.position().byte(), record.iter())? {
                continue;
            }
            let (device_id, device) = columns.device(&record);
            let original = Original::Csv { header: header.clone(), cells: record.clone() };
            let row = Row { mark: place.mark, device_id, device, original };
            if rows.blocking_send(Ok(row)).is_err() {
                return Ok(());
            }
        }
    }

    fn read_ndjson(
        self,
        resume: Option<Mark>,
        rows: &Sender<Result<Row, Failure>>,
    ) -> Result<(), Failure> {
        let mut input = BufReader::new(self.input);
        let mut place = Place::new(resume);
        let mut text = Vec::new();
        let (mut line, mut bytes) = (0, 0);
        loop {
            text.clear();
            let read = (&mut input).take(ROW_BYTES_MAX + 1).read_until(b'\n', &mut text)? as u64;
            if read == 0 {
                return place.end();
            }
            line += 1;
            bytes += read;
            if read > ROW_BYTES_MAX {
                return Err(Failure::Usage(format!("line {line} is longer than 1 MiB")));
            }
            // A line that is empty, as the last one often is, is no row.
            if text.trim_ascii().is_empty() || !place.pass(line, bytes, [&*text].into_iter())? {
                continue;
            }
            let device = registration(&text);
            let device_id = device.as_ref().err().map_or_else(String::new, |_| id_of(&text));
            let original = Original::Ndjson(text.clone());
            let row = Row { mark: place.mark, device_id, device, original };
            if rows.blocking_send(Ok(row)).is_err() {
                return Ok(());
            }
        }
    }
}

/// Reads a line, be it one of a report. Only what is refused is looked at twice.
fn registration(line: &[u8]) -> Result<RegisterDevice, Vec<String>> {
    let read = RegisterDevice::from_json(line.trim_ascii());
    let read = read.or_else(|violations| match without_added(line) {
        Some(line) => RegisterDevice::from_json(&line),
        None => Err(violations),
    });
    read.map_err(|violations| violations.into_vec())
}

/// The device id of a line that is no registration, for the report.
fn id_of(line: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(line).unwrap_or_default();
    value["device_id"].as_str().unwrap_or_default().to_owned()
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
