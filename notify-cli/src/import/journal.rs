//! How far an import has come, kept in a file that is replaced in one step. Rows are noted in the
//! order of the file, so that one number says what is settled.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::import::original::Original;
use crate::import::report::{Place, Report, Written};
use crate::import::work::Repeated;
use crate::output;

/// Rows after which the progress is kept.
const SAVE_ROWS: u64 = 1_000;
/// Time after which the progress is kept, when rows come slowly.
const SAVE_INTERVAL: Duration = Duration::from_secs(1);

/// A place in the file, after a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mark {
    /// Rows before it.
    pub(super) rows: u64,
    /// The line that the last of them began on.
    pub(super) line: u64,
    /// Bytes before it.
    pub(super) bytes: u64,
    /// Of what the rows hold.
    digest: Digest,
}

impl Mark {
    /// Takes in the cells of a row; 0xff, which is in no UTF-8 text, parts them.
    pub(super) fn digest<'a>(&mut self, cells: impl Iterator<Item = &'a [u8]>) {
        for cell in cells {
            self.digest.add(cell);
            self.digest.add(&[0xff]);
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
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct State {
    mark: Mark,
    #[serde(rename = "registered")]
    done: u64,
    #[serde(default)]
    left_out: u64,
    refused: u64,
    #[serde(default)]
    duplicates: u64,
    #[serde(default)]
    replaced: u64,
    #[serde(default)]
    moved: u64,
    #[serde(default)]
    without_address: u64,
    /// The report then.
    report: Option<Written>,
}

/// What became of the rows so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counts {
    pub(super) done: u64,
    pub(super) left_out: u64,
    pub(super) refused: u64,
    /// Those that name a device or an address that an earlier row names.
    pub(super) duplicates: u64,
    /// Rows that are done, and whose device a later one registered again.
    pub(super) replaced: u64,
    /// Rows that took the address of another device's row.
    pub(super) moved: u64,
    /// Rows that are done and have no address.
    pub(super) without_address: u64,
}

/// The progress of an import.
pub(super) struct Journal {
    state_path: Option<PathBuf>,
    report: Report,
    state: State,
    /// The first row that this run refused: line, device and errors.
    first_refused: Option<String>,
    saved: Instant,
    saved_rows: u64,
}

impl Journal {
    /// Takes up the progress of the state file, or begins anew.
    pub(super) fn open(
        state_path: Option<PathBuf>,
        report: Place,
        restart: bool,
    ) -> Result<Self, Failure> {
        let kept = match &state_path {
            Some(path) if !restart => read_state(path)?,
            _ => None,
        };
        let goes_on = kept.is_some();
        let mut state = kept.unwrap_or_default();
        let report = Report::open(report, state.report.take())?;
        if goes_on {
            output::talk(&format!("continuing after line {}", state.mark.line));
        }
        let saved_rows = state.mark.rows;
        let saved = Instant::now();
        Ok(Self { state_path, report, state, first_refused: None, saved, saved_rows })
    }

    /// Where to go on; `None` at the beginning.
    pub(super) fn mark(&self) -> Option<Mark> {
        (self.state.mark.rows > 0).then_some(self.state.mark)
    }

    /// What became of the rows.
    pub(super) fn counts(&self) -> Counts {
        let State { done, left_out, refused, duplicates, replaced, moved, without_address, .. } =
            self.state;
        Counts { done, left_out, refused, duplicates, replaced, moved, without_address }
    }

    /// How many bytes of the file are settled.
    pub(super) fn bytes(&self) -> u64 {
        self.state.mark.bytes
    }

    /// Where the rows are that were refused, once there are any.
    pub(super) fn report(&self) -> Option<&Path> {
        self.report.path()
    }

    /// The first row that this run refused, where no line on stderr has named it yet.
    pub(super) fn first_refused(&self) -> Option<&str> {
        self.first_refused.as_deref()
    }

    /// Notes a row that is done.
    pub(super) fn done(&mut self, mark: Mark, repeated: Repeated, lacks_address: bool) {
        let Repeated { device, address } = repeated;
        self.state.done += 1;
        self.state.duplicates += u64::from(device || address);
        self.state.replaced += u64::from(device);
        self.state.moved += u64::from(address && !device);
        self.state.without_address += u64::from(lacks_address);
        self.state.mark = mark;
    }

    /// Notes a row that asks for what cannot be done, and loses nothing by it.
    pub(super) fn left_out(&mut self, mark: Mark) {
        self.state.left_out += 1;
        self.state.mark = mark;
    }

    /// Notes a row that was refused, and why.
    pub(super) fn refused(
        &mut self,
        mark: Mark,
        repeated: Repeated,
        Refused { device_id, original, errors }: &Refused,
    ) -> Result<(), Failure> {
        let line = mark.line;
        let is_first = self.report.path().is_none();
        let described = || match &**device_id {
            "" => format!("line {line}: {}", errors.join("; ")),
            device_id => format!("line {line}: {device_id}: {}", errors.join("; ")),
        };
        if self.report.is_nowhere() {
            output::complain(&described());
        } else {
            self.report.push(original, line, errors)?;
            self.first_refused.get_or_insert_with(described);
        }
        self.state.refused += 1;
        self.state.duplicates += u64::from(repeated.device || repeated.address);
        self.state.mark = mark;
        // From now on the state knows the file, so that a crash leaves none that nobody goes on with.
        if is_first { self.save() } else { Ok(()) }
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
        self.state.report = self.report.written()?;
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

// FNV-1a: tells another file, not an adversary.

/// The digest of some bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    /// Takes in more bytes.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
