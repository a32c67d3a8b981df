//! `notify devices import` and `notify devices tag --file`: execute the rows of a file in parallel, and
//! resume after an interruption. The memory holds a limited number of rows, and 8 bytes for each device and
//! for each address of the file.

mod columns;
mod operation;
mod report;
mod source;
mod source_row;
mod state;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use futures_util::{Stream, StreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use notify_client::{Client, Error, notify_core::pluralize};
use serde::Serialize;
use tokio::sync::mpsc;

use self::operation::{Duplicate, Operation, RowOrder, Update};
use self::report::ReportPath;
use self::source::{ReadOptions, Row, Source};
use self::state::{Counts, ImportState, Position, RefusedRow};
use crate::{
    failure::{Failure, broken_rules},
    output::{self, view},
    session::Session,
};

/// Default number of rows that are executed at the same time.
const PARALLEL_DEFAULT: u16 = 32;
/// Largest number of rows that are executed at the same time.
const PARALLEL_MAX: i64 = 1_024;

/// Arguments of `notify devices import`.
#[derive(Debug, Args)]
#[command(after_help = "\
CSV files begin with a header that names fields of a device in any spelling (`Device_ID`,
`device id`); commas, semicolons, tabs or `|` separate the cells. An empty cell is an absent field.
NDJSON files have one device a line. Output of `notify devices export` and `notify devices list -o
json` is accepted too. `sdk_type` is optional. UTF-16 files need a byte-order mark.

`tags` are set, and other tags stay: comma-separated names, or a JSON array of names and tags.
`user_id` logs a user in; without it, the log-in stays. A column or member `attribute:NAME` sets
that attribute of the device, which hides the attribute of its user with the same name. An empty
cell or null leaves it as it is. A cell is true or false, a number, or else a text; double quotes
that are part of the cell make it a text. Put versions in such quotes: `3.10` is the number 3.1.
`attributes` is a JSON object with several attributes, in which null removes one.

Devices of the platforms web, fb-messenger and chatapp need `subscription` or `recipient_id`.

If several rows have the same device or address, the last row of the file wins. `rows` is the sum of
`devices`, `replaced` (by a later row for the same device), `refused` and `left_out`. `duplicates`
counts the rows with the device or address of an earlier one, `without_address` the devices
registered without an address, which cannot receive anything. The import leaves out devices whose
address the provider reported as dead (`disabled_reason` is `unregistered`): their apps register
again.

An interrupted import (by Ctrl-C, a crash, a server that is down) continues from the state file when
the same command runs again.

The import writes refused rows to a separate file, unchanged, with their line and errors. Correct them
there and import that file; its unknown columns are ignored. Rows that are refused again go to another
file, with their line in the first one. An existing file is never overwritten.")]
pub(crate) struct Import {
    /// CSV, NDJSON, or the JSON of a listing; `-` for standard input.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// How a file is read and imported.
#[derive(Debug, Args)]
pub(crate) struct FileOptions {
    /// Format of the file; derived from its name (.csv, .tsv, .ndjson, .jsonl, .json) unless given.
    #[arg(long)]
    format: Option<Format>,
    /// Number of rows that are executed at the same time.
    #[arg(
        long, value_name = "N", default_value_t = PARALLEL_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=PARALLEL_MAX),
    )]
    parallel: u16,
    /// File that keeps the progress; next to FILE unless given.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// New file for refused rows; FILE.refused.csv or FILE.refused.ndjson unless given, with a number if
    /// that exists.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Ignore the state file and start over.
    #[arg(long)]
    restart: bool,
    /// Ignore columns of a CSV file that are not fields of a device.
    #[arg(long)]
    ignore_unknown_columns: bool,
}

/// The purpose of the rows of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To register or subscribe devices, with their tags and attributes.
    Register,
    /// To set tags; other fields are ignored.
    Tag,
}

/// Format of a file of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// One JSON object a line, or a JSON array of them.
    Ndjson,
}

/// The result of an import.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    rows: u64,
    registered: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
    duplicates: u64,
    left_out: u64,
    /// `rows` is the sum of this, `replaced`, `refused` and `left_out`.
    devices: u64,
    replaced: u64,
    without_address: u64,
}

/// The result of tagging by file.
#[derive(Debug, Serialize)]
struct Tagged<'a> {
    rows: u64,
    tagged: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
}

/// A file to import, with the options of the command and the purpose of its rows.
struct Job<'a> {
    file: &'a Path,
    options: FileOptions,
    purpose: Purpose,
}

impl Job<'_> {
    /// The format of `--format`, or that of the file's extension.
    fn format(&self) -> Result<Format, Failure> {
        let extension = self.file.extension();
        let extension = extension.map(|extension| extension.to_string_lossy().to_lowercase());
        match (self.options.format, extension.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("csv" | "tsv")) => Ok(Format::Csv),
            (None, Some("ndjson" | "jsonl" | "json")) => Ok(Format::Ndjson),
            (None, _) => Err(Failure::Usage(format!(
                "{}: unknown format; give --format csv or --format ndjson",
                self.file.display()
            ))),
        }
    }

    /// The path of the report of refused rows.
    fn report_path(&self, format: Format) -> ReportPath {
        match &self.options.refused {
            Some(path) => ReportPath::Given(path.clone()),
            None if self.file == Path::new("-") => ReportPath::None,
            None => ReportPath::next_to(self.file, format),
        }
    }

    /// Rejects options that would overwrite the file itself.
    fn check_paths(&self) -> Result<(), Failure> {
        let file = self.file.canonicalize().ok();
        for (option, path) in
            [("--state", &self.options.state), ("--refused", &self.options.refused)]
        {
            if file.is_some() && path.as_ref().and_then(|path| path.canonicalize().ok()) == file {
                let path = self.file.display();
                return Err(Failure::Usage(format!("{option}: {path} is the file to import")));
            }
        }
        Ok(())
    }

    /// The path of `--state`, or a path next to the file. `None` for standard input without `--state`.
    fn state_path(&self) -> Option<PathBuf> {
        if self.options.state.is_some() || self.file == Path::new("-") {
            return self.options.state.clone();
        }
        let mut path = self.file.to_owned().into_os_string();
        path.push(match self.purpose {
            Purpose::Register => ".notify-import",
            Purpose::Tag => ".notify-tags",
        });
        Some(path.into())
    }
}

/// The outcome of a row.
enum RowOutcome {
    Done {
        /// Whether the device has no address, so that it cannot receive anything.
        lacks_address: bool,
    },
    /// The address of the device is dead, so the row was not sent.
    LeftOut,
    Refused(RefusedRow),
    /// The row was not executed, for a reason other than the row itself.
    Aborted(Failure),
}

struct RowResult {
    position: Position,
    duplicate: Duplicate,
    outcome: RowOutcome,
}

/// Why the import ended.
enum End {
    Completed,
    Interrupted,
    Failed(Failure),
}

/// Executes the rows of a file, and prints the result.
pub(crate) async fn run(
    file: &Path,
    options: FileOptions,
    purpose: Purpose,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.client()?;
    let job = Job { file, options, purpose };
    let format = job.format()?;
    job.check_paths()?;
    let mut state =
        ImportState::open(job.state_path(), job.report_path(format), job.options.restart)?;
    let ignore_unknown_columns = job.options.ignore_unknown_columns;
    let source = Source::open(file, ReadOptions { format, purpose, ignore_unknown_columns })?;
    let progress = Progress::new(source.size(), purpose);
    let parallel = usize::from(job.options.parallel);
    let (sender, rows) = mpsc::channel(2 * parallel);
    let resume_after = state.position();
    std::thread::spawn(move || source.read(resume_after, &sender));
    let results = execute_all(&notify, rows, parallel);
    let end = record_results(results, &mut state, &progress).await;
    progress.end();
    state.save()?;
    match end? {
        End::Completed => state.finish()?,
        End::Interrupted => return Err(state.early_end(None)),
        End::Failed(cause) => return Err(state.early_end(Some(cause))),
    }
    show(&state, purpose, session)?;
    if let Some(first) = state.first_refused() {
        session.out.flush()?;
        output::print_message(&format!("the first refused row: {first}"));
    }
    match state.counts().refused {
        0 => Ok(()),
        rows => {
            let report = state.report().map(Path::to_owned);
            let command = match purpose {
                Purpose::Register => "notify devices import",
                Purpose::Tag => "notify devices tag --file",
            };
            Err(Failure::RowsRefused { rows, report, command })
        }
    }
}

/// Prints the result of a completed import.
fn show(state: &ImportState, purpose: Purpose, session: &mut Session) -> Result<(), Failure> {
    let Counts { done, left_out, refused, duplicates, replaced, moved, without_address } =
        state.counts();
    let rows = done + left_out + refused;
    let refused_file = state.report().filter(|_| refused > 0);
    if purpose == Purpose::Tag {
        let tagged = Tagged { rows, tagged: done, refused, refused_file };
        return session.out.show(&tagged, &view::TAGGED);
    }
    let imported = Imported {
        rows,
        registered: done,
        refused,
        refused_file,
        duplicates,
        left_out,
        devices: done - replaced,
        replaced,
        without_address,
    };
    session.out.show(&imported, &view::IMPORTED)?;
    if replaced > 0 {
        output::print_message(&format!(
            "of {}, {replaced} {} replaced by a later row for the same device",
            pluralize(rows, "row"),
            if replaced == 1 { "was" } else { "were" },
        ));
    }
    if moved > 0 {
        output::print_message(&format!(
            "{} took the address of an earlier row, whose device has none now",
            pluralize(moved, "row"),
        ));
    }
    if left_out > 0 {
        output::print_message(&format!(
            "{} left out: the provider reported the device's address as dead (unregistered); its \
             app registers it again",
            pluralize(left_out, "row"),
        ));
    }
    Ok(())
}

/// Executes up to `parallel` rows at the same time. The results are in the order of the file.
fn execute_all(
    notify: &Client,
    rows: mpsc::Receiver<Result<Row, Failure>>,
    parallel: usize,
) -> impl Stream<Item = RowResult> {
    let rows = stream::unfold(rows, async |mut rows| Some((rows.recv().await?, rows)));
    let mut order = RowOrder::default();
    let results = rows.map(move |row| {
        let ticket = row.as_ref().map(|row| order.ticket(row.keys)).ok();
        async move {
            // Later rows with the same device or address wait until this ticket is dropped.
            let mut ticket = ticket;
            if let Some(ticket) = &mut ticket {
                ticket.wait().await;
            }
            execute(notify, row).await
        }
    });
    results.buffered(parallel)
}

async fn execute(notify: &Client, row: Result<Row, Failure>) -> RowResult {
    let row = match row {
        Ok(row) => row,
        Err(failure) => {
            let (position, duplicate) = (Position::default(), Duplicate::default());
            return RowResult { position, duplicate, outcome: RowOutcome::Aborted(failure) };
        }
    };
    let Row { position, device_id, operation, duplicate, source_row, keys: _ } = row;
    let refuse = |errors| RowOutcome::Refused(RefusedRow { device_id, source_row, errors });
    let outcome = match operation {
        Ok(Operation::LeaveOut) => RowOutcome::LeftOut,
        Ok(operation) => match send(notify, &operation).await {
            Ok(()) => RowOutcome::Done { lacks_address: operation.lacks_address() },
            Err(error) => match errors_of_row(&error) {
                Some(errors) => refuse(errors),
                None => RowOutcome::Aborted(error.into()),
            },
        },
        Err(errors) => refuse(errors),
    };
    RowResult { position, duplicate, outcome }
}

/// Executes the calls of an operation.
async fn send(notify: &Client, operation: &Operation) -> Result<(), Error> {
    let Update { device_id, tags, attributes } = match operation {
        Operation::Register(registration, update) => {
            notify.devices().register(registration).await?;
            update
        }
        Operation::Subscribe(subscribe, update) => {
            notify.subscriptions().create(subscribe).await?;
            update
        }
        Operation::Tag(update) => update,
        Operation::LeaveOut => return Ok(()),
    };
    if !tags.tags.is_empty() {
        notify.devices().set_tags(device_id, tags).await?;
    }
    if !attributes.0.is_empty() {
        notify.devices().update_attributes(device_id, attributes).await?;
    }
    Ok(())
}

/// The errors of the row, if the call failed because of the row. `None` if it failed for another reason,
/// such as a network failure or a wrong key.
fn errors_of_row(error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Invalid(_) | Error::Rejected { status: 400 | 413, .. } => {
            Some(broken_rules(error).unwrap_or_else(|| vec![error.to_string()]))
        }
        // A response without a request id is not from a Notify server.
        Error::NotFound { request_id: Some(_), .. } => {
            Some(vec!["device_id: no device has this id".to_owned()])
        }
        _ => None,
    }
}

/// Records results in the state until the file ends or the import is stopped.
async fn record_results(
    results: impl Stream<Item = RowResult>,
    state: &mut ImportState,
    progress: &Progress,
) -> Result<End, Failure> {
    let mut results = std::pin::pin!(results);
    let mut interruption = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let next = tokio::select! {
            next = results.next() => next,
            _ = &mut interruption => return Ok(End::Interrupted),
        };
        let Some(RowResult { position, duplicate, outcome }) = next else {
            return Ok(End::Completed);
        };
        match outcome {
            RowOutcome::Aborted(cause) => return Ok(End::Failed(cause)),
            RowOutcome::Done { lacks_address } => {
                state.add_done(position, duplicate, lacks_address);
            }
            RowOutcome::LeftOut => state.add_left_out(position),
            RowOutcome::Refused(row) => {
                progress.suspend(|| state.add_refused(position, duplicate, &row))?;
            }
        }
        state.save_if_due()?;
        progress.show(state);
    }
}

const BAR: &str = "{bar:30} {percent}% {msg} ({elapsed}, {eta} left)";
const COUNT: &str = "{spinner} {msg} ({elapsed})";

/// The progress bar of an import: on stderr, on a terminal only.
struct Progress {
    bar: ProgressBar,
    /// The verb for a finished row.
    verb: &'static str,
}

impl Progress {
    /// Starts the bar. `size` is the size of the file in bytes, if known.
    fn new(size: Option<u64>, purpose: Purpose) -> Self {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::stderr());
        let template = if size.is_some() { BAR } else { COUNT };
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        let verb = match purpose {
            Purpose::Register => "registered",
            Purpose::Tag => "tagged",
        };
        Self { bar, verb }
    }

    fn show(&self, state: &ImportState) {
        if self.bar.is_hidden() {
            return;
        }
        let Counts { done, refused, .. } = state.counts();
        self.bar.set_position(state.bytes());
        self.bar.set_message(format!("{done} {}, {refused} refused", self.verb));
    }

    /// Hides the bar while `write` may print to the terminal.
    fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    fn end(&self) {
        self.bar.finish_and_clear();
    }
}
