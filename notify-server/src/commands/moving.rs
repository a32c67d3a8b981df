//! `notify-server move`: the whole installation to the other kind of database.

use std::io::{IsTerminal, Write};
use std::thread;
use std::time::Instant;

use anyhow::{Context, anyhow};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{master_key_place, print};
use crate::clock::{Clock, SystemClock};
use crate::config::{Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE};
use crate::keys::hex;
use crate::store::moving::{
    MoveError, MoveReport, Place, Progress, Step, move_installation, undo_move,
};

/// Holds what `--to` takes, where other users of the machine cannot read it.
const TO_VARIABLE: &str = "NOTIFY_MOVE_TO";
const BAR: &str = "{msg:30} {bar:30} {percent}% of {human_len} rows ({eta} left)";
/// Bytes of a digest that are shown.
const DIGEST_SHOWN: usize = 8;

/// Carries everything to another database.
pub(super) async fn run(config: &Config, to: Option<String>) -> anyhow::Result<()> {
    let to = to.or_else(|| std::env::var(TO_VARIABLE).ok());
    let to = to.with_context(|| format!("--to or {TO_VARIABLE} says where to"))?;
    let to: Place = to.parse().context("--to")?;
    let from = source(config);
    let (began, at_ms) = (Instant::now(), SystemClock::start().now().as_ms());
    let (told_from, told_to) = (from.to_string(), to.to_string());
    writeln!(
        std::io::stderr(),
        "moving {told_from} to {told_to}; ended early, the same command goes on"
    )
    .context("cannot write to standard error")?;
    let moved = apart(move || {
        let mut bar = Bar::new();
        let moved = move_installation(&from, &to, at_ms, &mut |progress| bar.show(progress));
        bar.bar.finish_and_clear();
        moved
    })
    .await?;
    let seconds = began.elapsed().as_secs_f64();
    report(&moved, seconds)?;
    print(&format!("moved {told_from} to {told_to}"))?;
    print(&advice(config))
}

/// Gives the database of the settings free again.
pub(super) async fn undo(config: &Config) -> anyhow::Result<()> {
    let from = source(config);
    let place = from.to_string();
    match apart(move || undo_move(&from)).await? {
        Some(other) => print(&format!(
            "{place} can be served again, as it was when it was moved to {other}; do not serve both"
        )),
        None => print(&format!("{place} was not moved away: nothing to undo")),
    }
}

fn source(config: &Config) -> Place {
    match &config.database_url {
        Some(url) => Place::Postgres(url.clone()),
        None => Place::file(&config.database()),
    }
}

/// On a thread without a runtime: connections bring their own.
async fn apart<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MoveError> + Send + 'static,
) -> anyhow::Result<T> {
    let (done, waits) = tokio::sync::oneshot::channel();
    thread::Builder::new().name("move".to_owned()).spawn(move || done.send(work()))?;
    Ok(waits.await.map_err(|_| anyhow!("the move broke down"))??)
}

/// What a person sees meanwhile, on standard error: a bar on a terminal, else a line a table.
struct Bar {
    bar: ProgressBar,
    /// What the last line was about.
    told: Option<(Step, String)>,
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
        Self { bar, told: None }
    }

    fn show(&mut self, Progress { step, table, rows, of }: Progress<'_>) {
        let is_news = self
            .told
            .as_ref()
            .is_none_or(|(before, about)| (*before, about.as_str()) != (step, table));
        if is_news {
            if self.told.as_ref().is_none_or(|(before, _)| *before != step) {
                self.bar.set_length(of);
                self.bar.reset();
            }
            self.told = Some((step, table.to_owned()));
            self.bar.set_message(format!("{step} {table}"));
            if self.bar.is_hidden() {
                // Nobody may be there to read it.
                let _ =
                    writeln!(std::io::stderr(), "{step} {table} ({rows} of {of} rows are done)");
            }
        }
        self.bar.set_position(rows);
    }
}

fn report(moved: &MoveReport, seconds: f64) -> anyhow::Result<()> {
    for table in &moved.tables {
        let digest = hex(&table.digest[..DIGEST_SHOWN]);
        print(&format!("{:>12} rows  sha256 {digest}…  {}", table.rows, table.name))?;
    }
    let rows: u64 = moved.tables.iter().map(|table| table.rows).sum();
    #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
    let rate = moved.copied as f64 / seconds.max(0.001);
    print(&format!(
        "{rows} rows of {} tables are the same in both; {} of them copied now, in {seconds:.1} s with \
         the comparison ({rate:.0} rows/s)",
        moved.tables.len(),
        moved.copied
    ))
}

/// What the new place needs beside the rows.
fn advice(config: &Config) -> String {
    let key = master_key_place(config);
    format!(
        "its servers need the same master key ({key}): in {MASTER_KEY_VARIABLE}, --master-key-file, or \
         as {MASTER_KEY_FILE} beside a SQLite file"
    )
}
