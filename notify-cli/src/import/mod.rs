//! `notify devices import` and `notify devices tag --file`: settle every row of a file, however large,
//! in parallel, and go on where they were cut. Of the file they hold a bounded part, and 8 bytes of
//! each device and address.

mod columns;
mod journal;
mod original;
mod progress;
mod record;
mod report;
mod source;
mod work;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use futures_util::{Stream, StreamExt, stream};
use notify_client::{Client, Error};
use serde::Serialize;
use tokio::sync::mpsc;

use self::journal::{Counts, Journal, Mark, Refused};
use self::progress::Progress;
use self::record::{Record, Tagging};
use self::source::{Reading, Row, Source};
use self::work::Work;
use crate::import::work::{Repeated, Turns};
use crate::{
    failure::{Failure, broken_rules},
    output::{self, counted, view},
    session::Session,
};

/// How many rows are under way at a time unless told otherwise.
const PARALLEL_DEFAULT: u16 = 32;
/// Most rows under way at a time.
const PARALLEL_MAX: i64 = 1_024;

/// Arguments of `notify devices import`.
#[derive(Debug, Args)]
#[command(after_help = "\
CSV files begin with a header that names fields of a device in any spelling (`Device_ID`,
`device id`); commas, semicolons, tabs or `|` separate the cells. An empty cell is an absent field.
NDJSON files have one device a line; what `notify devices export` and `notify devices list -o json`
write is read too. `sdk_type` may be left out. UTF-16 is read where the file begins with its mark.

`tags` are set and others stay: names with commas between them, or a JSON array of names and tags.
Devices of the platforms web, fb-messenger and chatapp need `subscription` or `recipient_id`.

Where several rows name one device or one address, the last row of the file wins. `rows` is the sum
of `devices`, `replaced` (by a later row for the same device), `refused` and `left_out`.
`duplicates` counts the rows that name a device or an address of an earlier one, `without_address`
those registered without an address, to whose devices nothing can be sent. The import leaves out
devices whose address the provider reported as dead (`disabled_reason` is `unregistered`): their
apps register again.

An import that was cut short (by Ctrl-C, a crash, a server that is down) continues from the state
file when the same command runs again.

The import writes refused rows to a file of their own, unchanged, with their line and errors.
Correct them there and import that file, whose unknown columns are ignored. Rows that are refused
again go to another file, with the line of the first one. An existing file is never overwritten.")]
pub(crate) struct Import {
    /// CSV, NDJSON, or the JSON of a listing; `-` for standard input.
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) options: FileOptions,
}

/// How a file is read and settled.
#[derive(Debug, Args)]
pub(crate) struct FileOptions {
    /// Format of the file; derived from its name (.csv, .tsv, .ndjson, .jsonl, .json) unless given.
    #[arg(long)]
    format: Option<Format>,
    /// Number of rows in flight.
    #[arg(
        long, value_name = "N", default_value_t = PARALLEL_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=PARALLEL_MAX),
    )]
    parallel: u16,
    /// File that keeps the progress; next to FILE unless given.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// New file for the rows that were refused; FILE.refused.csv or FILE.refused.ndjson unless given,
    /// with a number if that exists.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Start over, and ignore the state file.
    #[arg(long)]
    restart: bool,
    /// Ignore columns of a CSV file that are not fields of a device.
    #[arg(long)]
    ignore_unknown_columns: bool,
}

/// What the rows of a file are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// They are registered or subscribed, and tagged.
    Register,
    /// They are tagged; whatever else they hold is left out.
    Tag,
}

/// Form of a file of devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// One JSON object a line, or a JSON array of them.
    Ndjson,
}

/// What is shown at the end of an import.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    rows: u64,
    registered: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
    duplicates: u64,
    left_out: u64,
    /// Devices of the rows registered; with the next one and those refused and left out, all rows.
    devices: u64,
    replaced: u64,
    without_address: u64,
}

/// What is shown when a file is tagged.
#[derive(Debug, Serialize)]
struct Tagged<'a> {
    rows: u64,
    tagged: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
}

/// What became of a row.
enum Settled {
    Done {
        /// Whether nothing can be sent to its device yet.
        lacks_address: bool,
    },
    LeftOut,
    Refused(Refused),
    /// The row is not settled: what is wrong is not its fault.
    Stopped(Failure),
}

/// A row that is settled, in the order of the file.
struct Outcome {
    mark: Mark,
    repeated: Repeated,
    settled: Settled,
}

/// Settles every row of a file.
pub(crate) async fn run(
    file: &Path,
    options: FileOptions,
    purpose: Purpose,
    session: &mut Session,
) -> Result<(), Failure> {
    let notify = session.notify()?;
    let work = Work { file, options, purpose };
    let format = work.format()?;
    work.spare_the_file()?;
    let mut journal = Journal::open(work.state_path(), work.report(format), work.options.restart)?;
    let ignore_unknown_columns = work.options.ignore_unknown_columns;
    let source = Source::open(file, Reading { format, purpose, ignore_unknown_columns })?;
    let progress = Progress::new(source.size(), purpose);
    let parallel = usize::from(work.options.parallel);
    let (rows, received) = mpsc::channel(2 * parallel);
    let resume = journal.mark();
    std::thread::spawn(move || source.read(resume, &rows));
    let settled = settled(&notify, received, parallel);
    let stopped = record(settled, &mut journal, &progress).await;
    progress.end();
    journal.save()?;
    if let Some(cause) = stopped? {
        return Err(journal.stopped(cause));
    }
    journal.finish()?;
    show(&journal, purpose, session)?;
    if let Some(first) = journal.first_refused() {
        session.out.flush()?;
        output::talk(&format!("the first refused row: {first}"));
    }
    match journal.counts().refused {
        0 => Ok(()),
        rows => {
            let report = journal.report().map(Path::to_owned);
            let command = match purpose {
                Purpose::Register => "notify devices import",
                Purpose::Tag => "notify devices tag --file",
            };
            Err(Failure::RowsRefused { rows, report, command })
        }
    }
}

fn show(journal: &Journal, purpose: Purpose, session: &mut Session) -> Result<(), Failure> {
    let Counts { done, left_out, refused, duplicates, replaced, moved, without_address } =
        journal.counts();
    let rows = done + left_out + refused;
    let refused_file = journal.report().filter(|_| refused > 0);
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
        output::talk(&format!(
            "of {}, {replaced} {} replaced by a later row for the same device",
            counted(rows, "row"),
            if replaced == 1 { "was" } else { "were" },
        ));
    }
    if moved > 0 {
        output::talk(&format!(
            "{} took the address of an earlier row, whose device has none now",
            counted(moved, "row"),
        ));
    }
    if left_out > 0 {
        output::talk(&format!(
            "{} left out: the provider reported the device's address as dead (unregistered); its \
             app registers it again",
            counted(left_out, "row"),
        ));
    }
    Ok(())
}

/// Settles the rows, `parallel` at a time, and gives their outcomes in the order of the file.
fn settled(
    notify: &Client,
    rows: mpsc::Receiver<Result<Row, Failure>>,
    parallel: usize,
) -> impl Stream<Item = Outcome> {
    let rows = stream::unfold(rows, async |mut rows| Some((rows.recv().await?, rows)));
    let mut turns = Turns::default();
    let settled = rows.map(move |row| {
        let turn = row.as_ref().map(|row| turns.take(row.keys)).ok();
        async move {
            // Kept until the row is settled.
            let mut turn = turn;
            if let Some(turn) = &mut turn {
                turn.come().await;
            }
            settle(notify, row).await
        }
    });
    settled.buffered(parallel)
}

async fn settle(notify: &Client, row: Result<Row, Failure>) -> Outcome {
    let row = match row {
        Ok(row) => row,
        Err(failure) => {
            let (mark, settled) = (Mark::default(), Settled::Stopped(failure));
            return Outcome { mark, repeated: Repeated::default(), settled };
        }
    };
    let Row { mark, device_id, record, repeated, original, keys: _ } = row;
    let carried_out = match &record {
        Ok(Record::Dead) => return Outcome { mark, repeated, settled: Settled::LeftOut },
        Ok(record) => carry_out(notify, record).await,
        Err(_) => Ok(()),
    };
    let errors = match (record, carried_out) {
        (Err(errors), _) => errors,
        (Ok(record), Ok(())) => {
            let settled = Settled::Done { lacks_address: record.lacks_address() };
            return Outcome { mark, repeated, settled };
        }
        (Ok(_), Err(error)) => match faults(&error) {
            Some(errors) => errors,
            None => {
                return Outcome { mark, repeated, settled: Settled::Stopped(error.into()) };
            }
        },
    };
    let settled = Settled::Refused(Refused { device_id, original, errors });
    Outcome { mark, repeated, settled }
}

/// Does what a row asks for.
async fn carry_out(notify: &Client, record: &Record) -> Result<(), Error> {
    let Tagging { device_id, tags } = match record {
        Record::Register(registration, tagging) => {
            notify.devices().register(registration).await?;
            tagging
        }
        Record::Subscribe(subscribe, tagging) => {
            notify.subscriptions().create(subscribe).await?;
            tagging
        }
        Record::Tag(tagging) => tagging,
        Record::Dead => return Ok(()),
    };
    if tags.tags.is_empty() {
        return Ok(());
    }
    notify.devices().set_tags(device_id, tags).await
}

/// What is wrong with the row, when that is why it failed.
fn faults(error: &Error) -> Option<Vec<String>> {
    match error {
        Error::Invalid(_) | Error::Rejected { status: 400 | 413, .. } => {
            Some(broken_rules(error).unwrap_or_else(|| vec![error.to_string()]))
        }
        // Without a request id it is no answer of a Notify server.
        Error::NotFound { request_id: Some(_), .. } => {
            Some(vec!["device_id: no device has this id".to_owned()])
        }
        _ => None,
    }
}

/// Keeps the journal until the file ends (`None`) or something stops it.
async fn record(
    settled: impl Stream<Item = Outcome>,
    journal: &mut Journal,
    progress: &Progress,
) -> Result<Option<Option<Failure>>, Failure> {
    let mut settled = std::pin::pin!(settled);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        let next = tokio::select! {
            next = settled.next() => next,
            _ = &mut interrupt => return Ok(Some(None)),
        };
        let Some(Outcome { mark, repeated, settled }) = next else { return Ok(None) };
        match settled {
            Settled::Stopped(cause) => return Ok(Some(Some(cause))),
            Settled::Done { lacks_address } => journal.done(mark, repeated, lacks_address),
            Settled::LeftOut => journal.left_out(mark),
            Settled::Refused(row) => {
                progress.beside(|| journal.refused(mark, repeated, &row))?;
            }
        }
        journal.save_at_times()?;
        progress.show(journal);
    }
}
