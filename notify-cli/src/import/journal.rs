//! How far an import has come, kept in a file that is replaced in one step, and the report of the
//! rows refused. Rows are noted in the order of the file, so that one number says what is settled.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::original::Original;
use crate::{failure::Failure, output};

/// Rows after which the progress is kept.
const SAVE_ROWS: u64 = 1_000;
/// Time after which the progress is kept, when rows come slowly.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// A place in the file, after a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// Rows before it.
    pub(super) rows: u64,
    /// The line that the last of them began on.
    pub(super) line: u64,
    /// Bytes before it.
    pub(super) bytes: u64,
    /// FNV-1a of what the rows hold: tells another file, not an adversary.
    digest: u64,
}

impl Default for Mark {
    fn default() -> Self {
        Self { rows: 0, line: 0, bytes: 0, digest: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Mark {
    /// Takes in the cells of a row; 0xff, which is in no UTF-8 text, parts them.
    pub(super) fn digest<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) {
        for cell in cells {
            for &byte in cell.iter().chain(&[0xff]) {
                self.digest = (self.digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
}

/// A row that was refused.
pub(super) struct Refused {
    pub(super) device_id: String,
    pub(super) original: Original,
    pub(super) errors: Vec<String>,
}

/// What the state file holds.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    mark: Mark,
    registered: u64,
    refused: u64,
    /// Length of the report then; what is beyond it is written anew.
    report_bytes: u64,
}

/// The progress of an import.
pub(super) struct Journal {
    state_path: Option<PathBuf>,
    report_path: Option<PathBuf>,
    report: Option<File>,
    state: State,
    saved: Instant,
    saved_rows: u64,
}

impl Journal {
    /// Takes up the progress of the state file, or begins anew.
    pub(super) fn open(
        state_path: Option<PathBuf>,
        report_path: Option<PathBuf>,
        restart: bool,
    ) -> Result<Self, Failure> {
        let kept = match &state_path {
            Some(path) if !restart => read_state(path)?,
            _ => None,
        };
        let state = kept.unwrap_or_default();
        let mut journal = Self {
            state_path,
            report_path,
            report: None,
            state,
            saved: Instant::now(),
            saved_rows: state.mark.rows,
        };
        if kept.is_some() {
            output::talk(&format!("going on after line {}", state.mark.line));
        } else if let Some(report) = &journal.report_path {
            // A report of an earlier run would be taken for one of this run.
            remove(report)?;
        }
        if state.report_bytes > 0 {
            journal.take_up_report()?;
        }
        Ok(journal)
    }

    /// Where to go on; `None` at the beginning.
    pub(super) fn mark(&self) -> Option<Mark> {
        (self.state.mark.rows > 0).then_some(self.state.mark)
    }

    /// Rows registered and refused.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.state.registered, self.state.refused)
    }

    /// How many bytes of the file are settled.
    pub(super) fn bytes(&self) -> u64 {
        self.state.mark.bytes
    }

    pub(super) fn report(&self) -> Option<&Path> {
        self.report_path.as_deref()
    }

    /// Notes a row that was registered.
    pub(super) fn registered(&mut self, mark: Mark) {
        self.state.registered += 1;
        self.state.mark = mark;
    }

    /// Notes a row that was refused, and why.
    pub(super) fn refused(
        &mut self,
        mark: Mark,
        Refused { device_id, original, errors }: &Refused,
    ) -> Result<(), Failure> {
        let line = mark.line;
        match self.report_path.clone() {
            None => output::complain(&format!("line {line}: {device_id}: {}", errors.join("; "))),
            Some(path) => {
                let report = self.report_file(&path, original)?;
                let row = original.row(line, errors);
                row.and_then(|row| report.write_all(&row)).map_err(Failure::file(path))?;
            }
        }
        self.state.refused += 1;
        self.state.mark = mark;
        Ok(())
    }

    /// Keeps the progress when enough has come together.
    pub(super) fn save_at_times(&mut self) -> Result<(), Failure> {
        let rows = self.state.mark.rows - self.saved_rows;
        if rows < SAVE_ROWS && (rows == 0 || self.saved.elapsed() < SAVE_INTERVAL) {
            return Ok(());
        }
        self.save()
    }

    /// Keeps the progress. The report is on disk before the state that counts its rows.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.saved = Instant::now();
        self.saved_rows = self.state.mark.rows;
        let Some(path) = &self.state_path else { return Ok(()) };
        if self.state.mark.rows == 0 {
            return Ok(());
        }
        if let (Some(report), Some(at)) = (&mut self.report, &self.report_path) {
            let length = report.sync_data().and_then(|()| report.stream_position());
            self.state.report_bytes = length.map_err(Failure::file(at))?;
        }
        replace(path, &self.state).map_err(Failure::file(path))
    }

    /// The file has ended: there is nothing left to go on with.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match &self.state_path {
            Some(path) => remove(path),
            None => Ok(()),
        }
    }

    /// What to say when the import ends early.
    pub(super) fn stopped(&self, cause: Option<Failure>) -> Failure {
        let line = self.state.mark.line;
        match cause {
            // The same command would meet the same.
            Some(wrong @ Failure::Usage(_)) => wrong,
            cause => {
                let resumable = self.state_path.is_some() && line > 0;
                Failure::Stopped { line, resumable, cause: cause.map(Box::new) }
            }
        }
    }

    /// The report, made with the first row that it holds; the one of an earlier run is replaced.
    fn report_file(&mut self, path: &Path, first: &Original) -> Result<&mut File, Failure> {
        if self.report.is_none() {
            let mut file = File::create(path).map_err(Failure::file(path))?;
            let head = first.head();
            head.and_then(|head| file.write_all(&head)).map_err(Failure::file(path))?;
            self.report = Some(file);
        }
        Ok(self.report.as_mut().expect("the report has just been made"))
    }

    /// Opens the report of the run before, and cuts off what its state did not count.
    fn take_up_report(&mut self) -> Result<(), Failure> {
        let Some(path) = &self.report_path else { return Ok(()) };
        let open = || -> io::Result<File> {
            let mut file =
                OpenOptions::new().write(true).create(true).truncate(false).open(path)?;
            file.set_len(self.state.report_bytes)?;
            file.seek(SeekFrom::End(0))?;
            Ok(file)
        };
        self.report = Some(open().map_err(Failure::file(path))?);
        Ok(())
    }
}

fn read_state(path: &Path) -> Result<Option<State>, Failure> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(path)(error)),
    };
    let state = serde_json::from_slice(&text).map_err(|_| {
        Failure::Usage(format!("{}: is no state file; --restart begins anew", path.display()))
    })?;
    Ok(Some(state))
}

/// Writes beside the file and renames, so that a crash leaves the old state or the new one whole.
fn replace(path: &Path, state: &State) -> io::Result<()> {
    let mut beside = path.to_owned().into_os_string();
    beside.push(".new");
    let mut file = File::create(&beside)?;
    file.write_all(&serde_json::to_vec(state)?)?;
    file.sync_data()?;
    fs::rename(&beside, path)
}

fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
