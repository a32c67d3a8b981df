//! `notify devices import`: registers every device of a file, however large, in parallel, and goes
//! on where it was cut. It holds a bounded part of the file.

mod columns;
mod digest;
mod journal;
mod lines;
mod original;
mod progress;
mod report;
mod source;

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use futures_util::{Stream, StreamExt, stream};
use notify_client::{Client, Error};
use serde::Serialize;
use tokio::sync::mpsc;

use self::{
    journal::{Journal, Mark, Refused},
    progress::Progress,
    report::Place,
    source::{Row, Source},
};
use crate::{
    failure::{Failure, broken_rules},
    output::view,
    session::Session,
};

/// How many registrations are under way at a time unless told otherwise.
const PARALLEL_DEFAULT: u16 = 32;
/// Most registrations under way at a time.
const PARALLEL_MAX: i64 = 1_024;

/// Arguments of `notify devices import`.
#[derive(Debug, Args)]
#[command(after_help = "\
CSV files begin with a header that names fields of a registration; an empty cell is an absent
field, and `sdk_type` may be left out. NDJSON files have one registration a line.

What is cut (by Ctrl-C, a crash, a server that is down) goes on from the state file when the same
command runs again.

Rows that are refused are written to a file of their own as they were, with their line and errors;
correct them there and import that file. What is refused again goes to another file, with the line
of the first one. A file that is there is never written over.")]
pub(crate) struct Import {
    /// CSV or NDJSON; `-` for standard input.
    file: PathBuf,
    /// Form of the file; told by its name (.csv, .ndjson, .jsonl) unless given.
    #[arg(long)]
    format: Option<Format>,
    /// Registrations under way at a time.
    #[arg(
        long, value_name = "N", default_value_t = PARALLEL_DEFAULT,
        value_parser = clap::value_parser!(u16).range(1..=PARALLEL_MAX),
    )]
    parallel: u16,
    /// Where the progress is kept; FILE.notify-import unless given.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Where the rows go that were refused, a new file; FILE.refused.csv or FILE.refused.ndjson
    /// unless given, with a number where that is taken.
    #[arg(long, value_name = "FILE")]
    refused: Option<PathBuf>,
    /// Begin anew, whatever the state file says.
    #[arg(long)]
    restart: bool,
    /// Leave out columns of a CSV file that are no fields of a registration.
    #[arg(long)]
    ignore_unknown_columns: bool,
}

/// Form of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Comma-separated values with a header (RFC 4180).
    Csv,
    /// One JSON object a line.
    Ndjson,
}

/// What is shown at the end.
#[derive(Debug, Serialize)]
struct Imported<'a> {
    rows: u64,
    registered: u64,
    refused: u64,
    refused_file: Option<&'a Path>,
}

/// What became of a row.
enum Settled {
    Registered,
    Refused(Refused),
    /// The row is not settled: what is wrong is not its fault.
    Stopped(Failure),
}

/// Imports.
pub(crate) async fn run(args: Import, session: &mut Session) -> Result<(), Failure> {
    let notify = session.notify()?;
    let format = args.format()?;
    args.spare_the_file()?;
    let state = args.state_path();
    let mut journal = Journal::open(state, args.report(format), args.restart)?;
    let source = Source::open(&args.file, format, args.ignore_unknown_columns)?;
    let progress = Progress::new(source.size());
    let parallel = usize::from(args.parallel);
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
    let (registered, refused) = journal.counts();
    let imported = Imported {
        rows: registered + refused,
        registered,
        refused,
        refused_file: journal.report().filter(|_| refused > 0),
    };
    session.out.show(&imported, &view::IMPORTED)?;
    match refused {
        0 => Ok(()),
        rows => {
            let report = journal.report().map(Path::to_owned);
            Err(Failure::RowsRefused { rows, report })
        }
    }
}

/// Sends the rows, `parallel` at a time, and gives their outcomes in the order of the file.
fn settled(
    notify: &Client,
    rows: mpsc::Receiver<Result<Row, Failure>>,
    parallel: usize,
) -> impl Stream<Item = (Mark, Settled)> {
    let rows = stream::unfold(rows, async |mut rows| Some((rows.recv().await?, rows)));
    rows.map(move |row| settle(notify, row)).buffered(parallel)
}

async fn settle(notify: &Client, row: Result<Row, Failure>) -> (Mark, Settled) {
    let Row { mark, device_id, device, original } = match row {
        Ok(row) => row,
        Err(failure) => return (Mark::default(), Settled::Stopped(failure)),
    };
    let device = match device {
        Ok(device) => device,
        Err(errors) => {
            return (mark, Settled::Refused(Refused { device_id, original, errors }));
        }
    };
    let settled = match notify.devices().register(&device).await {
        Ok(()) => Settled::Registered,
        Err(error @ (Error::Invalid(_) | Error::Rejected { status: 400 | 413, .. })) => {
            let errors = broken_rules(&error).unwrap_or_else(|| vec![error.to_string()]);
            Settled::Refused(Refused { device_id: device.device_id, original, errors })
        }
        Err(error) => Settled::Stopped(error.into()),
    };
    (mark, settled)
}

/// Keeps the journal until the file ends (`None`) or something stops it.
async fn record(
    settled: impl Stream<Item = (Mark, Settled)>,
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
        match next {
            None => return Ok(None),
            Some((_, Settled::Stopped(cause))) => return Ok(Some(Some(cause))),
            Some((mark, Settled::Registered)) => journal.registered(mark),
            Some((mark, Settled::Refused(row))) => {
                progress.beside(|| journal.refused(mark, &row))?;
            }
        }
        journal.save_at_times()?;
        progress.show(journal);
    }
}

impl Import {
    fn format(&self) -> Result<Format, Failure> {
        let extension = self.file.extension().map(|it| it.to_string_lossy().to_lowercase());
        match (self.format, extension.as_deref()) {
            (Some(format), _) => Ok(format),
            (None, Some("csv")) => Ok(Format::Csv),
            (None, Some("ndjson" | "jsonl")) => Ok(Format::Ndjson),
            (None, _) => Err(Failure::Usage(format!(
                "{}: say --format csv or --format ndjson",
                self.file.display()
            ))),
        }
    }

    fn report(&self, format: Format) -> Place {
        match &self.refused {
            Some(path) => Place::Given(path.clone()),
            None if self.file == Path::new("-") => Place::Nowhere,
            None => Place::beside(&self.file, format),
        }
    }

    /// Refuses to write over what it is to read.
    fn spare_the_file(&self) -> Result<(), Failure> {
        let file = self.file.canonicalize().ok();
        for (option, path) in [("--state", &self.state), ("--refused", &self.refused)] {
            if file.is_some() && path.as_ref().and_then(|path| path.canonicalize().ok()) == file {
                let path = self.file.display();
                return Err(Failure::Usage(format!("{option}: {path} is the file to import")));
            }
        }
        Ok(())
    }

    /// The path given, or one beside the file; standard input has no place beside it.
    fn state_path(&self) -> Option<PathBuf> {
        if self.state.is_some() || self.file == Path::new("-") {
            return self.state.clone();
        }
        let mut path = self.file.clone().into_os_string();
        path.push(".notify-import");
        Some(path.into())
    }
}
