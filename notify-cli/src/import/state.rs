//! The progress of an import, which is saved in a state file. Results are added in the order of the file, so
//! a single position separates the finished rows from all others. The state file is replaced atomically.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::files;
use crate::import::digest::Digest;
use crate::import::operation::Duplicate;
use crate::import::report::{Report, ReportPath, ReportState};
use crate::import::source_row::SourceRow;
use crate::output;

/// Number of rows after which the progress is saved.
const SAVE_ROWS: u64 = 1_000;
/// Time after which the progress is saved, if there are fewer rows.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// A position in the file: the end of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Position {
    /// Number of rows before the position.
    pub(super) rows: u64,
    /// The line on which the last of these rows begins.
    pub(super) line: u64,
    /// Number of bytes before the position.
    pub(super) bytes: u64,
    /// The digest of the cells of these rows, and of the header.
    digest: Digest,
}

impl Position {
    /// Adds the cells of a row to the digest, separated by 0xff, which no UTF-8 text contains.
    pub(super) fn add_cells<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) {
        for cell in cells {
            self.digest.add(cell);
            self.digest.add(&[0xff]);
        }
    }
}

/// A row that was refused.
pub(super) struct RefusedRow {
    /// The id of the device or the user; empty if there is none.
    pub(super) id: String,
    pub(super) source_row: SourceRow,
    pub(super) errors: Vec<String>,
}

/// The content of the state file.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    /// The command that wrote the file; empty in files of earlier versions.
    #[serde(default)]
    command: String,
    #[serde(rename = "mark")]
    position: Position,
    #[serde(rename = "registered")]
    done: u64,
    #[serde(default)]
    left_out: u64,
    /// The rows that were left out, by reason.
    #[serde(default)]
    left_out_reasons: BTreeMap<String, u64>,
    refused: u64,
    #[serde(default)]
    duplicates: u64,
    #[serde(default)]
    replaced: u64,
    #[serde(default)]
    moved: u64,
    #[serde(default)]
    without_address: u64,
    /// The report of refused rows at that time.
    report: Option<ReportState>,
}

/// The results of the rows so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) done: u64,
    pub(super) left_out: u64,
    pub(super) refused: u64,
    /// Rows with the id or address of an earlier row.
    pub(super) duplicates: u64,
    /// Rows whose device a later row registered again.
    pub(super) replaced: u64,
    /// Rows with the address of an earlier row for another device.
    pub(super) moved: u64,
    /// Rows that registered a device without an address.
    pub(super) without_address: u64,
}

/// The progress of an import.
pub(super) struct ImportState {
    state_path: Option<PathBuf>,
    /// The permissions of the state file.
    mode: u32,
    report: Report,
    file: StateFile,
    /// The first row that was refused in this run: line, id and errors.
    first_refused: Option<String>,
    saved_at: Instant,
    saved_rows: u64,
}

impl ImportState {
    /// Resumes from the state file, or starts over. `mode` has the permissions of the files that are written.
    pub(super) fn open(
        state_path: Option<PathBuf>,
        report: ReportPath,
        command: &str,
        restart: bool,
        mode: u32,
    ) -> Result<Self, Failure> {
        let saved = match &state_path {
            Some(path) if !restart => read_state(path, command)?,
            _ => None,
        };
        let is_resumed = saved.is_some();
        let mut file = saved.unwrap_or_default();
        command.clone_into(&mut file.command);
        let report = Report::open(report, file.report.take(), mode)?;
        if is_resumed {
            output::print_message(&format!("continuing after line {}", file.position.line));
        }
        let (saved_at, saved_rows) = (Instant::now(), file.position.rows);
        Ok(Self { state_path, mode, report, file, first_refused: None, saved_at, saved_rows })
    }

    /// The position after the last finished row; `None` at the beginning.
    pub(super) fn position(&self) -> Option<Position> {
        (self.file.position.rows > 0).then_some(self.file.position)
    }

    pub(super) fn counts(&self) -> Counts {
        let StateFile {
            done, left_out, refused, duplicates, replaced, moved, without_address, ..
        } = self.file;
        Counts { done, left_out, refused, duplicates, replaced, moved, without_address }
    }

    /// The rows that were left out, by reason.
    pub(super) fn left_out_reasons(&self) -> &BTreeMap<String, u64> {
        &self.file.left_out_reasons
    }

    /// The number of bytes of finished rows.
    pub(super) fn bytes(&self) -> u64 {
        self.file.position.bytes
    }

    /// The file of refused rows, if there are any.
    pub(super) fn report(&self) -> Option<&Path> {
        self.report.path()
    }

    /// The first row that was refused in this run. `None` if refused rows are printed to stderr.
    pub(super) fn first_refused(&self) -> Option<&str> {
        self.first_refused.as_deref()
    }

    /// Adds a row that was executed.
    pub(super) fn add_done(
        &mut self,
        position: Position,
        duplicate: Duplicate,
        lacks_address: bool,
    ) {
        let Duplicate { id, address } = duplicate;
        self.file.done += 1;
        self.file.duplicates += u64::from(id || address);
        self.file.replaced += u64::from(id);
        self.file.moved += u64::from(address && !id);
        self.file.without_address += u64::from(lacks_address);
        self.file.position = position;
    }

    /// Adds a row that was left out.
    pub(super) fn add_left_out(&mut self, position: Position, reason: &str) {
        self.file.left_out += 1;
        *self.file.left_out_reasons.entry(reason.to_owned()).or_default() += 1;
        self.file.position = position;
    }

    /// Adds a row that was refused.
    pub(super) fn add_refused(
        &mut self,
        position: Position,
        duplicate: Duplicate,
        RefusedRow { id, source_row, errors }: &RefusedRow,
    ) -> Result<(), Failure> {
        let line = position.line;
        let had_report_file = self.report.path().is_some();
        let description = || match &**id {
            "" => format!("line {line}: {}", errors.join("; ")),
            id => format!("line {line}: {id}: {}", errors.join("; ")),
        };
        if self.report.has_no_file() {
            output::print_error(&description());
        } else {
            self.report.push(source_row, line, errors)?;
            self.first_refused.get_or_insert_with(description);
        }
        self.file.refused += 1;
        self.file.duplicates += u64::from(duplicate.id || duplicate.address);
        self.file.position = position;
        // The state must contain the path of a new report, so that a run after a crash continues it.
        if had_report_file { Ok(()) } else { self.save() }
    }

    /// Saves the progress if [`SAVE_ROWS`] rows or [`SAVE_INTERVAL`] have passed since it was last saved.
    pub(super) fn save_if_due(&mut self) -> Result<(), Failure> {
        let rows = self.file.position.rows - self.saved_rows;
        if rows < SAVE_ROWS && (rows == 0 || self.saved_at.elapsed() < SAVE_INTERVAL) {
            return Ok(());
        }
        self.save()
    }

    /// Saves the progress. The rows of the report are on disk before the state that counts them.
    pub(super) fn save(&mut self) -> Result<(), Failure> {
        self.saved_at = Instant::now();
        self.saved_rows = self.file.position.rows;
        let Some(path) = &self.state_path else { return Ok(()) };
        if self.file.position.rows == 0 {
            return Ok(());
        }
        self.file.report = self.report.sync()?;
        let saved = serde_json::to_vec(&self.file).map_err(io::Error::from);
        saved.and_then(|state| files::replace(path, &state, self.mode)).map_err(Failure::file(path))
    }

    /// Removes the state file at the end of the import.
    pub(super) fn finish(&self) -> Result<(), Failure> {
        match &self.state_path {
            Some(path) => remove(path),
            None => Ok(()),
        }
    }

    /// The failure of an import that ends early; `cause` is `None` if the user interrupted it.
    pub(super) fn early_end(&self, cause: Option<Failure>) -> Failure {
        let line = self.file.position.line;
        match cause {
            // The same command would fail again, so the message must not suggest to run it again.
            Some(usage @ Failure::Usage(_)) => usage,
            cause => {
                let resumable = self.state_path.is_some() && line > 0;
                Failure::ImportStopped { line, resumable, cause: cause.map(Box::new) }
            }
        }
    }
}

/// Reads the state file; `None` if there is none.
fn read_state(path: &Path, command: &str) -> Result<Option<StateFile>, Failure> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Failure::file(path)(error)),
    };
    let state: StateFile = serde_json::from_slice(&text).map_err(|_| {
        Failure::Usage(format!("{}: not a state file; --restart starts over", path.display()))
    })?;
    if !state.command.is_empty() && state.command != command {
        return Err(Failure::Usage(format!(
            "{}: the state file of `{}`; --restart starts over",
            path.display(),
            state.command
        )));
    }
    Ok(Some(state))
}

/// Removes the state file, if it exists.
fn remove(path: &Path) -> Result<(), Failure> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Failure::file(path)(error)),
        Ok(()) | Err(_) => Ok(()),
    }
}
