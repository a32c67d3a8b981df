//! The report of the rows refused: where it stands, and how it is taken up again. A report is where
//! rows are corrected, so one that is there is never written over.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::Format;
use super::original::Original;
use crate::failure::Failure;
use crate::import::journal::Digest;

/// Where the report of an import goes.
pub(super) enum Place {
    /// There is no file to put it beside: what is refused is told on stderr.
    Nowhere,
    /// The file that the user names.
    Given(PathBuf),
    /// Beside the file that was first imported: its name, and that of the format.
    Beside { first: PathBuf, extension: &'static str },
}

impl Place {
    /// Beside `file`, or beside the first file where `file` is a report itself.
    pub(super) fn beside(file: &Path, format: Format) -> Self {
        let extension = match format {
            Format::Csv => "csv",
            Format::Ndjson => "ndjson",
        };
        Self::Beside { first: first_file(file, extension), extension }
    }

    /// The names to try, in order.
    fn names(&self) -> Box<dyn Iterator<Item = PathBuf> + '_> {
        match self {
            Self::Nowhere => Box::new(std::iter::empty()),
            Self::Given(path) => Box::new(std::iter::once(path.clone())),
            Self::Beside { first, extension } => Box::new((1_u64..).map(move |number| {
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

/// `devices.csv` of `devices.csv.refused.csv` and `devices.csv.refused.2.csv`.
fn first_file(file: &Path, extension: &str) -> PathBuf {
    let first = || {
        let stem = file.to_str()?.strip_suffix(extension)?.strip_suffix('.')?;
        let numbered = stem.rsplit_once('.').filter(|(_, number)| number.parse::<u64>().is_ok());
        let stem = numbered.map_or(stem, |(stem, _)| stem);
        stem.strip_suffix(".refused").filter(|stem| !stem.is_empty()).map(PathBuf::from)
    };
    first().unwrap_or_else(|| file.to_owned())
}

/// What the state file holds of a report.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    path: PathBuf,
    /// Length; what is beyond it is written anew.
    bytes: u64,
    digest: Digest,
}

/// The report, made with the first row that it holds.
pub(super) struct Report {
    place: Place,
    written: Option<Written>,
    file: Option<File>,
}

impl Report {
    /// Takes up what the state file holds, or begins anew.
    pub(super) fn open(place: Place, written: Option<Written>) -> Result<Self, Failure> {
        let mut report = Self { place, written, file: None };
        if report.written.is_some() {
            report.take_up()?;
        } else if let Place::Given(path) = &report.place
            && path.exists()
        {
            return Err(Failure::Usage(format!(
                "--refused: {0} exists already and may hold corrections: name another file, or \
                 process {0} first and remove it",
                path.display()
            )));
        }
        Ok(report)
    }

    /// Whether rows are told on stderr.
    pub(super) fn is_nowhere(&self) -> bool {
        matches!(self.place, Place::Nowhere)
    }

    /// The file, once there is one.
    pub(super) fn path(&self) -> Option<&Path> {
        self.written.as_ref().map(|written| &*written.path)
    }

    /// What to keep in the state file; all of it is on disk then.
    pub(super) fn written(&mut self) -> Result<Option<Written>, Failure> {
        if let (Some(file), Some(written)) = (&self.file, &self.written) {
            file.sync_data().map_err(Failure::file(&written.path))?;
        }
        Ok(self.written.clone())
    }

    /// Writes a row.
    pub(super) fn push(
        &mut self,
        row: &Original,
        line: u64,
        errors: &[String],
    ) -> Result<(), Failure> {
        if self.written.is_none() {
            self.make()?;
        }
        let written = self.written.as_mut().expect("the report has just been made");
        let mut text = if written.bytes == 0 { row.head()? } else { Vec::new() };
        text.extend(row.row(line, errors)?);
        let file = self.file.as_mut().expect("a report that is written to is open");
        file.write_all(&text).map_err(Failure::file(&written.path))?;
        written.bytes += text.len() as u64;
        written.digest.add(&text);
        Ok(())
    }

    fn make(&mut self) -> Result<(), Failure> {
        for path in self.place.names() {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => {
                    self.file = Some(file);
                    self.written = Some(Written { path, bytes: 0, digest: Digest::default() });
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    if let Place::Given(_) = self.place {
                        return Err(Failure::file(path)(error));
                    }
                }
                Err(error) => return Err(Failure::file(path)(error)),
            }
        }
        unreachable!("a report that goes nowhere is not written, and numbers do not end")
    }

    /// Opens the report of the run before, and cuts off what its state did not count. One that was
    /// moved away is begun anew.
    fn take_up(&mut self) -> Result<(), Failure> {
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
        if !is_as_written(&file, written).map_err(failed())? {
            return Err(Failure::Usage(format!(
                "{} was changed since the run was cut: move it away to go on; rows that are refused \
                 from here on go to a file of their own",
                written.path.display()
            )));
        }
        let cut = file.set_len(written.bytes).and_then(|()| file.seek(SeekFrom::End(0)));
        cut.map_err(failed())?;
        self.file = Some(file);
        Ok(())
    }
}

/// Whether the file begins with what the state counted.
fn is_as_written(file: &File, written: &Written) -> io::Result<bool> {
    let mut counted = BufReader::new(file.take(written.bytes));
    let (mut digest, mut bytes) = (Digest::default(), 0);
    let mut part = [0; 8 * 1024];
    loop {
        match counted.read(&mut part)? {
            0 => return Ok(bytes == written.bytes && digest == written.digest),
            read => {
                digest.add(&part[..read]);
                bytes += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_of_a_report_stands_beside_the_first_file() {
        for (file, reports) in [
            ("d.csv", ["d.csv.refused.csv", "d.csv.refused.2.csv"]),
            ("a/d.csv.refused.csv", ["a/d.csv.refused.csv", "a/d.csv.refused.2.csv"]),
            ("d.csv.refused.2.csv", ["d.csv.refused.csv", "d.csv.refused.2.csv"]),
            ("d.2.csv", ["d.2.csv.refused.csv", "d.2.csv.refused.2.csv"]),
            (".refused.csv", [".refused.csv.refused.csv", ".refused.csv.refused.2.csv"]),
        ] {
            let place = Place::beside(Path::new(file), Format::Csv);
            let names: Vec<_> = place.names().take(2).collect();
            assert_eq!(names, reports.map(PathBuf::from), "{file}");
        }
        let place = Place::beside(Path::new("d.jsonl"), Format::Ndjson);
        assert_eq!(place.names().next(), Some("d.jsonl.refused.ndjson".into()));
    }
}
