//! `notify devices import`, `notify devices tag --file` and `notify users import`: execute the rows of a file
//! in parallel, and resume after an interruption. The memory holds a limited number of rows, and 8 bytes for
//! each device or user and for each address of the file.

mod columns;
mod convert;
mod digest;
mod format;
mod json_row;
mod operation;
mod purpose;
mod report;
mod source;
mod source_row;
mod spreadsheet;
mod state;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use futures_util::{Stream, StreamExt, stream};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use notify_client::{Client, Error, notify_core::pluralize};
use serde::Serialize;
use tokio::sync::mpsc;

use self::convert::{ConversionArgs, Converter};
pub(crate) use self::format::Format;
use self::format::format_of_name;
use self::operation::{Duplicate, Operation, RowOrder, UNREGISTERED, Update};
pub(crate) use self::purpose::Purpose;
use self::report::ReportPath;
use self::source::{ReadOptions, Row, Source};
use self::state::{Counts, ImportState, Position, RefusedRow};
use crate::{
    failure::{Failure, broken_rules},
    files,
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
again. `left_out_reasons` counts the rows by reason.

With --from or --mapping, the file is an export of another system or a table of your own. The page
docs/import.md shows for each how to export it, and what carries over.

An interrupted import (by Ctrl-C, a crash, a server that is down) continues from the state file when
the same command runs again.

The import writes refused rows to a separate file, unchanged, with their line and errors. Correct
them there and import that file; its unknown columns are ignored. Rows that are refused again go to
another file, with their line in the first one. An existing file is never overwritten.")]
pub(crate) struct Import {
    /// CSV, NDJSON, or the JSON of a listing, also compressed with gzip; `-` for standard input.
    file: PathBuf,
    #[command(flatten)]
    conversion: ConversionArgs,
    #[command(flatten)]
    options: FileOptions,
}

/// How a file is read and imported.
#[derive(Debug, Args)]
pub(crate) struct FileOptions {
    /// Format of the file; by default from its name (.csv, .tsv, .ndjson, .jsonl, .json).
    #[arg(long)]
    format: Option<Format>,
    /// Number of rows that are executed at the same time.
    #[arg(
        long, value_name = "N", default_value_t = PARALLEL_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=PARALLEL_MAX),
    )]
    parallel: u16,
    /// File that keeps the progress (default: next to FILE).
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// New file for refused rows (default: FILE.refused.csv or FILE.refused.ndjson, with a number if
    /// that exists).
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Ignore the state file and start over.
    #[arg(long)]
    restart: bool,
    /// Ignore unknown columns of a CSV file.
    #[arg(long)]
    ignore_unknown_columns: bool,
}

/// The result of an import of devices.
#[derive(Debug, Serialize)]
struct DeviceImportResult<'a> {
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
    left_out_reasons: &'a BTreeMap<String, u64>,
}

/// The result of tagging by file.
#[derive(Debug, Serialize)]
struct TagResult<'a> {
    rows: u64,
    tagged: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
}

/// The result of an import of users.
#[derive(Debug, Serialize)]
struct UserImportResult<'a> {
    rows: u64,
    imported: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
}

/// A file to import, with the options of the command and the purpose of its rows.
struct Job<'a> {
    file: &'a Path,
    options: FileOptions,
    purpose: Purpose,
    /// For a file of another system.
    converter: Option<Converter>,
}

impl Job<'_> {
    /// The format of `--format`, or that of the file's name.
    fn format(&self) -> Result<Format, Failure> {
        let format = self.options.format.or_else(|| format_of_name(self.file));
        format.ok_or_else(|| {
            let file = self.file.display();
            let rule = "unknown format; give --format csv or --format ndjson";
            Failure::Usage(format!("{file}: {rule}"))
        })
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
        path.push(self.purpose.state_suffix());
        Some(path.into())
    }
}

/// The outcome of a row.
enum RowOutcome {
    Done {
        /// Whether the device has no address, so that it cannot receive anything.
        lacks_address: bool,
    },
    /// The row was not sent, for this reason.
    LeftOut(&'static str),
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

/// Imports devices: in the format of Notify, or in that of another system.
pub(crate) async fn run_devices(args: Import, session: &mut Session) -> Result<(), Failure> {
    let Import { file, conversion, options } = args;
    let converter = Converter::new(&conversion)?;
    let job = Job { file: &file, options, purpose: Purpose::Register, converter };
    execute_file(job, session).await
}

/// Executes the rows of a file in the format of Notify, and prints the result.
pub(crate) async fn run(
    file: &Path,
    options: FileOptions,
    purpose: Purpose,
    session: &mut Session,
) -> Result<(), Failure> {
    execute_file(Job { file, options, purpose, converter: None }, session).await
}

async fn execute_file(job: Job<'_>, session: &mut Session) -> Result<(), Failure> {
    let notify = session.client()?;
    let format = job.format()?;
    job.check_paths()?;
    let purpose = job.purpose;
    let arguments = job.converter.as_ref().map_or("", Converter::arguments);
    let command = format!("{}{arguments}", purpose.command());
    let from = job.converter.as_ref().map(Converter::system_argument).unwrap_or_default();
    let writer = format!("{}{from}", purpose.command());
    let (report_path, restart) = (job.report_path(format), job.options.restart);
    let mode = files::mode_of(job.file);
    let mut state = ImportState::open(job.state_path(), report_path, &writer, restart, mode)?;
    let ignore_unknown_columns = job.options.ignore_unknown_columns;
    let options = ReadOptions { format, purpose, ignore_unknown_columns };
    let source = Source::open(job.file, options, job.converter)?;
    let progress = Progress::new(source.size(), purpose);
    let parallel = usize::from(job.options.parallel);
    let (sender, rows) = mpsc::channel(2 * parallel);
    let resume_after = state.position();
    let reader = std::thread::spawn(move || source.read(resume_after, &sender));
    let results = execute_all(&notify, rows, parallel);
    let end = record_results(results, &mut state, &progress).await;
    progress.end();
    state.save()?;
    let unseen_columns = match end? {
        End::Completed => {
            // After its last row, the reader ends at once.
            let columns = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            state.finish()?;
            columns
        }
        End::Interrupted => return Err(state.early_end(None)),
        End::Failed(cause) => return Err(state.early_end(Some(cause))),
    };
    show(&state, purpose, session)?;
    for column in unseen_columns {
        session.out.flush()?;
        output::print_message(&format!(
            "warning: no row has the column `{column}`, which the mapping names"
        ));
    }
    if let Some(first) = state.first_refused() {
        session.out.flush()?;
        output::print_message(&format!("the first refused row: {first}"));
    }
    match state.counts().refused {
        0 => Ok(()),
        rows => {
            let report = state.report().map(Path::to_owned);
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
    match purpose {
        Purpose::Register => {}
        Purpose::Tag => {
            let tagged = TagResult { rows, tagged: done, refused, refused_file };
            return session.out.show(&tagged, &view::TAGGED);
        }
        Purpose::UpdateUser => {
            let imported = UserImportResult { rows, imported: done, refused, refused_file };
            return session.out.show(&imported, &view::IMPORTED_USERS);
        }
    }
    let imported = DeviceImportResult {
        rows,
        registered: done,
        refused,
        refused_file,
        duplicates,
        left_out,
        devices: done - replaced,
        replaced,
        without_address,
        left_out_reasons: state.left_out_reasons(),
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
    for (reason, rows) in state.left_out_reasons() {
        let explanation = match &**reason {
            UNREGISTERED => {
                "the provider reported the device's address as dead (unregistered); its app \
                 registers it again"
            }
            reason => reason,
        };
        output::print_message(&format!("{} left out: {explanation}", pluralize(*rows, "row")));
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
            // Later rows with the same device, user or address wait until this ticket is dropped.
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
    let Row { position, id, operation, duplicate, source_row, keys: _ } = row;
    let refuse = |errors| RowOutcome::Refused(RefusedRow { id, source_row, errors });
    let outcome = match operation {
        Ok(Operation::LeaveOut(reason)) => RowOutcome::LeftOut(reason),
        Ok(operation) => match send(notify, &operation).await {
            Ok(()) => RowOutcome::Done { lacks_address: operation.lacks_address() },
            Err(error) => match errors_of_row(&operation, &error) {
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
        Operation::UpdateUser(user_id, change) => {
            notify.users().update(user_id, change).await?;
            return Ok(());
        }
        Operation::LeaveOut(_) => return Ok(()),
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
fn errors_of_row(operation: &Operation, error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Invalid(_) | Error::Rejected { status: 400 | 413, .. } => {
            Some(broken_rules(error).unwrap_or_else(|| vec![error.to_string()]))
        }
        // A response without a request id is not from a Notify server. An unknown user is created, so
        // another response is not about the row.
        Error::NotFound { request_id: Some(_), .. }
            if !matches!(operation, Operation::UpdateUser(..)) =>
        {
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
            RowOutcome::LeftOut(reason) => state.add_left_out(position, reason),
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
        Self { bar, verb: purpose.verb() }
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
