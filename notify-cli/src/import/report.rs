//! The report of refused rows: its path, how rows are added, and how a later run resumes it. Users correct
//! the rows in a report, so an existing report is never overwritten.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::format::Format;
use super::source_row::SourceRow;
use crate::failure::Failure;
use crate::files;
use crate::import::digest::Digest;

/// The path of the report of an import.
pub(super) enum ReportPath {
    /// No report, because the import reads standard input. The refused rows are printed to stderr.
    None,
    /// The path of `--refused`.
    Given(PathBuf),
    /// A new file next to the file that was imported first.
    NextTo { first: PathBuf, extension: &'static str },
}

impl ReportPath {
    /// A report next to `file`. If `file` is itself a report, the new one is next to the file that was
    /// imported first.
    pub(super) fn next_to(file: &Path, format: Format) -> Self {
        let extension = match format {
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        };
        Self::NextTo { first: first_file(file, extension), extension }
    }

    /// The paths to try, in order.
    fn candidates(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        match self {
            Self::None => Box::new(std::iter::empty()),
            Self::Given(path) => Box::new(std::iter::once(path.clone())),
            Self::NextTo { first, extension } => Box::new((1_u64..).map(move |number| {
                let mut name = first.clone().into_os_string();
                name.push(match number {
                    1 => format!(".refused.{extension}"),
                    _ => format!(".refused.{number}.{extension}"),
                });
                PathBuf::from(name)
            })),
        }
    }
}

/// The file that was imported first: `devices.csv` for the reports `devices.csv.refused.csv` and
/// `devices.csv.refused.2.csv`. A file that is not a report is returned unchanged.
fn first_file(file: &Path, extension: &str) -> PathBuf {
    let first = || {
        let stem = file.to_str()?.strip_suffix(extension)?.strip_suffix('.')?;
        let numbered = stem.rsplit_once('.').filter(|(_, number)| number.parse::<u64>().is_ok());
        let stem = numbered.map_or(stem, |(stem, _)| stem);
        stem.strip_suffix(".refused").filter(|stem| !stem.is_empty()).map(PathBuf::from)
    };
    first().unwrap_or_else(|| file.to_owned())
}

/// The report as the state file describes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportState {
    path: PathBuf,
    /// The number of bytes that the state counts. A resumed run overwrites the bytes after them.
    bytes: u64,
    digest: Digest,
}

/// The report. Its file is created with the first refused row.
pub(super) struct Report {
    path: ReportPath,
    /// The permissions of the file: those of the imported file, because the rows are the same.
    mode: u32,
    /// The part of the file that has been written; `None` before the file is created.
    written: Option<ReportState>,
    file: Option<File>,
}

impl Report {
    /// Resumes the report of the state file, or starts a new one.
    pub(super) fn open(
        path: ReportPath,
        written: Option<ReportState>,
        mode: u32,
    ) -> Result<Self, Failure> {
        let mut report = Self { path, mode, written, file: None };
        if report.written.is_some() {
            report.resume()?;
        } else if let ReportPath::Given(path) = &report.path
            && path.exists()
        {
            return Err(Failure::Usage(format!(
                "--refused: {0} already exists and may contain corrections: give another file, or \
                 import {0} first and remove it",
                path.display()
            )));
        }
        Ok(report)
    }

    /// Whether refused rows are printed, and not written to a file.
    pub(super) fn has_no_file(&self) -> bool {
        matches!(self.path, ReportPath::None)
    }

    /// The file, if it has been created.
    pub(super) fn path(&self) -> Option<&Path> {
        self.written.as_ref().map(|written| &*written.path)
    }

    /// Syncs the file, and returns its description for the state file.
    pub(super) fn sync(&mut self) -> Result<Option<ReportState>, Failure> {
        if let (Some(file), Some(written)) = (&self.file, &self.written) {
            file.sync_data().map_err(Failure::file(&written.path))?;
        }
        Ok(self.written.clone())
    }

    /// Appends a row.
    pub(super) fn push(
        &mut self,
        row: &SourceRow,
        line: u64,
        errors: &[String],
    ) -> Result<(), Failure> {
        if self.written.is_none() {
            self.create()?;
        }
        let written = self.written.as_mut().expect("the report has just been created");
        let mut text = if written.bytes == 0 { row.header()? } else { Vec::new() };
        text.extend(row.row(line, errors)?);
        let file = self.file.as_mut().expect("the file of a created report is open");
        file.write_all(&text).map_err(Failure::file(&written.path))?;
        written.bytes += text.len() as u64;
        written.digest.add(&text);
        Ok(())
    }

    /// Creates the file, with the first candidate that does not exist as its path.
    fn create(&mut self) -> Result<(), Failure> {
        for path in self.path.candidates() {
            match files::create_new(&path, self.mode) {
                Ok(file) => {
                    self.file = Some(file);
                    self.written = Some(ReportState { path, bytes: 0, digest: Digest::default() });
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if let ReportPath::Given(_) = self.path {
                        return Err(Failure::file(path)(error));
                    }
                }
                Err(error) => return Err(Failure::file(path)(error)),
            }
        }
        unreachable!("only a report with a file is created, and candidates are endless")
    }

    /// Opens the report of the previous run, and removes rows that were written after the state was saved.
    /// If the user moved the file away, the next refused row creates a new one.
    fn resume(&mut self) -> Result<(), Failure> {
        let Some(written) = &mut self.written else { return Ok(()) };
        let failed = || Failure::file(&written.path);
        let mut file = match OpenOptions::new().read(true).write(true).open(&written.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.written = None;
                return Ok(());
            }
            Err(error) => return Err(failed()(error)),
        };
        if written.path.is_symlink() || !is_unchanged(&file, written).map_err(failed())? {
            return Err(Failure::Usage(format!(
                "{} was changed since the import was interrupted: move it away to continue; rows that \
                 are refused from here on go to a new file",
                written.path.display()
            )));
        }
        let truncated = file.set_len(written.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        truncated.map_err(failed())?;
        self.file = Some(file);
        Ok(())
    }
}

/// Whether the file begins with the bytes that the state counted.
fn is_unchanged(file: &File, written: &ReportState) -> io::Result<bool> {
    let mut counted = BufReader::new(file.take(written.bytes));
    let (mut digest, mut bytes) = (Digest::default(), 0);
    let mut part = [0; 8 * 1024];
    loop {
        match counted.read(&mut part)? {
            0 => return Ok(bytes == written.bytes && digest == written.digest),
            count => {
                digest.add(&part[..count]);
                bytes += count as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_of_a_report_is_next_to_the_first_file() {
        for (file, reports) in [
            ("d.csv", ["d.csv.refused.csv", "d.csv.refused.2.csv"]),
            ("a/d.csv.refused.csv", ["a/d.csv.refused.csv", "a/d.csv.refused.2.csv"]),
            ("d.csv.refused.2.csv", ["d.csv.refused.csv", "d.csv.refused.2.csv"]),
            ("d.2.csv", ["d.2.csv.refused.csv", "d.2.csv.refused.2.csv"]),
            (".refused.csv", [".refused.csv.refused.csv", ".refused.csv.refused.2.csv"]),
        ] {
            let path = ReportPath::next_to(Path::new(file), Format::Csv);
            let names: Vec<_> = path.candidates().take(2).collect();
            assert_eq!(names, reports.map(PathBuf::from), "{file}");
        }
        let path = ReportPath::next_to(Path::new("d.jsonl"), Format::Ndjson);
        assert_eq!(path.candidates().next(), Some("d.jsonl.refused.ndjson".into()));
    }
}
