//! `notify-server move`: moves the whole installation to another database, from SQLite to
//! PostgreSQL or back.

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{master_key_place, print};
use crate::clock::{Clock, SystemClock};
use crate::config::{
    Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE, MOVE_TO_VARIABLE, secret_variable,
};
use crate::keys::hex;
use crate::pasted::trimmed;
use crate::store::transfer::{
    DatabaseLocation, MoveError, MoveReport, Progress, Step, move_installation, undo_move,
};

const BAR: &str = "{msg:30} {bar:30} {percent}% of {human_len} rows ({eta} left)";
/// Most rows between two lines of progress if standard error is not a terminal, in percent of all
/// rows.
const LINE_PERCENT: u64 = 10;
/// Longest time between two of these lines while rows are moved.
const LINE_INTERVAL: Duration = Duration::from_secs(5);
/// Number of bytes of a digest that are shown.
const DIGEST_SHOWN: usize = 8;

/// Moves the installation to the database in `to`, or in `NOTIFY_MOVE_TO`, or in the file of `NOTIFY_MOVE_TO_FILE`.
pub(super) async fn run(config: &Config, to: Option<String>) -> anyhow::Result<()> {
    let (name, target) = match to {
        Some(to) => ("--to".to_owned(), to),
        None => secret_variable(&|name| std::env::var(name).ok(), MOVE_TO_VARIABLE)?
            .with_context(|| format!("name the target in --to or {MOVE_TO_VARIABLE}"))?,
    };
    let target: DatabaseLocation = trimmed(&target).parse().context(name)?;
    let source = configured_database(config);
    let (began, at_ms) = (Instant::now(), SystemClock::start().now().as_ms());
    let (from_name, to_name) = (source.to_string(), target.to_string());
    writeln!(
        std::io::stderr(),
        "moving {from_name} to {to_name}; if this is interrupted, run the same command again: it resumes"
    )
    .context("cannot write to standard error")?;
    let moved = on_own_thread(move || {
        let mut bar = Bar::new();
        let result = move_installation(&source, &target, at_ms, &mut |progress| bar.show(progress));
        bar.bar.finish_and_clear();
        result
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    for line in report(&moved, seconds) {
        print(&line)?;
    }
    print(&format!("moved {from_name} to {to_name}"))?;
    print(&advice(config))
}

/// Undoes a move: servers can use the database of the settings again.
pub(super) async fn undo(config: &Config) -> anyhow::Result<()> {
    let source = configured_database(config);
    let place = source.to_string();
    match on_own_thread(move || undo_move(&source)).await? {
        Some(other) => print(&format!(
            "{place} can be served again, in its state when it was moved to {other}; do not serve both"
        )),
        None => print(&format!("{place} was not moved away: nothing to undo")),
    }
}

/// The database of the settings.
fn configured_database(config: &Config) -> DatabaseLocation {
    match &config.database_url {
        Some(url) => DatabaseLocation::Postgres(url.clone()),
        None => DatabaseLocation::file(&config.database_path()),
    }
}

/// Runs the work on a thread without an async runtime, because database connections start their
/// own.
async fn on_own_thread<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MoveError> + Send + 'static,
) -> anyhow::Result<T> {
    let (result_sender, result) = tokio::sync::oneshot::channel();
    thread::Builder::new().name("move".to_owned()).spawn(move || result_sender.send(work()))?;
    Ok(result.await.map_err(|_| anyhow!("the move failed with an internal error"))??)
}

/// Shows the progress on standard error: as a bar on a terminal, otherwise as lines.
struct Bar {
    bar: ProgressBar,
    lines: Lines,
    /// The step and the table that the bar shows.
    shown: Option<(Step, String)>,
}

impl Bar {
    fn new() -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(ProgressStyle::with_template(BAR).expect("the template is well-formed"));
        Self { bar, lines: Lines::default(), shown: None }
    }

    fn show(&mut self, progress: Progress<'_>) {
        if self.bar.is_hidden() {
            if let Some(line) = self.lines.next_line(progress, Instant::now()) {
                // Standard error may be closed.
                let _ = writeln!(std::io::stderr(), "{line}");
            }
            return;
        }
        let Progress { step, table, rows, of } = progress;
        let shown = self.shown.as_ref().map(|(step, table)| (*step, table.as_str()));
        if shown != Some((step, table)) {
            if shown.is_none_or(|(before, _)| before != step) {
                self.bar.set_length(of);
                self.bar.reset();
            }
            self.shown = Some((step, table.to_owned()));
            self.bar.set_message(format!("{step} {table}"));
        }
        self.bar.set_position(rows);
    }
}

/// The progress as lines of a log: one for each step, for each tenth of its rows, and at least
/// every [`LINE_INTERVAL`].
#[derive(Default)]
struct Lines {
    last: Option<Line>,
}

struct Line {
    step: Step,
    percent: u64,
    at: Instant,
}

impl Lines {
    /// The next line; `None` if none is due yet.
    fn next_line(&mut self, progress: Progress<'_>, at: Instant) -> Option<String> {
        let Progress { step, table, rows, of } = progress;
        let percent = (rows * 100).checked_div(of).unwrap_or(100);
        let is_due = self.last.as_ref().is_none_or(|last| {
            last.step != step
                || percent / LINE_PERCENT > last.percent / LINE_PERCENT
                || at.duration_since(last.at) >= LINE_INTERVAL
        });
        is_due.then(|| {
            self.last = Some(Line { step, percent, at });
            format!("{step}: {percent}% ({rows} of {of} rows), now {table}")
        })
    }
}

/// A line for each table that has rows, and the summary.
fn report(moved: &MoveReport, seconds: f64) -> Vec<String> {
    let with_rows = moved.tables.iter().filter(|table| table.rows > 0);
    let mut lines: Vec<String> = with_rows
        .map(|table| {
            let digest = hex(&table.digest[..DIGEST_SHOWN]);
            format!("{:>12} rows  sha256 {digest}…  {}", table.rows, table.name)
        })
        .collect();
    let rows: u64 = moved.tables.iter().map(|table| table.rows).sum();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = moved.copied as f64 / seconds.max(0.001);
    lines.push(format!(
        "both databases hold the same {rows} rows in {} tables, {} of them empty; {} rows were copied now, in \
         {seconds:.1} s including the comparison ({rate:.0} rows/s)",
        moved.tables.len(),
        moved.tables.len() - lines.len(),
        moved.copied
    ));
    lines
}

/// Instructions about the master key, which is not moved with the rows.
fn advice(config: &Config) -> String {
    let key = master_key_place(config);
    format!(
        "its servers need the same master key ({key}): in {MASTER_KEY_VARIABLE}, --master-key-file, or \
         as {MASTER_KEY_FILE} in the folder of a SQLite file"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::transfer::TableMoved;

    #[test]
    fn a_report_lists_the_tables_that_have_rows_and_ends_with_the_summary() {
        let table = |name: &str, rows| TableMoved { name: name.to_owned(), rows, digest: [7; 32] };
        let tables = vec![table("apps", 2), table("campaigns", 0), table("devices", 1_000)];
        let moved = MoveReport { tables, copied: 1_002 };
        let expected = [
            "           2 rows  sha256 0707070707070707…  apps",
            "        1000 rows  sha256 0707070707070707…  devices",
            "both databases hold the same 1002 rows in 3 tables, 1 of them empty; 1002 rows were copied \
             now, in 2.0 s including the comparison (501 rows/s)",
        ];
        assert_eq!(report(&moved, 2.0), expected);
    }

    #[test]
    fn a_log_gets_a_line_for_each_step_each_tenth_and_each_five_seconds() {
        let (mut lines, start) = (Lines::default(), Instant::now());
        let mut line = |step, rows, of, after_ms| {
            let progress = Progress { step, table: "devices", rows, of };
            lines.next_line(progress, start + Duration::from_millis(after_ms))
        };
        let expected = [
            (Step::Copying, 0, 1_000, 0, Some("copying: 0% (0 of 1000 rows), now devices")),
            (Step::Copying, 99, 1_000, 10, None),
            (Step::Copying, 100, 1_000, 20, Some("copying: 10% (100 of 1000 rows), now devices")),
            (Step::Copying, 199, 1_000, 5_019, None),
            (
                Step::Copying,
                199,
                1_000,
                5_020,
                Some("copying: 19% (199 of 1000 rows), now devices"),
            ),
            (
                Step::Copying,
                990,
                1_000,
                5_030,
                Some("copying: 99% (990 of 1000 rows), now devices"),
            ),
            (Step::Comparing, 0, 1_000, 5_040, Some("comparing: 0% (0 of 1000 rows), now devices")),
            (Step::Ending, 0, 0, 5_050, Some("finishing: 100% (0 of 0 rows), now devices")),
            (Step::Ending, 0, 0, 5_060, None),
        ];
        for (step, rows, of, after_ms, expected) in expected {
            assert_eq!(line(step, rows, of, after_ms).as_deref(), expected, "{rows} at {after_ms}");
        }
    }
}
