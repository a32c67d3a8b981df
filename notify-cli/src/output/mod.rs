//! All output of the command: the result is printed to stdout, and messages are printed to stderr.

mod cell;
mod chart;
mod rows;
mod text;
pub(crate) mod view;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use notify_client::notify_core::{Success, printable_json};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
pub(crate) use cell::{day, escape_formula, unescape_formula};
pub(crate) use chart::Bar;
pub(crate) use rows::{Rows, csv_writer};
pub(crate) use text::wrap;
use view::View;

/// Format of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Tables and text.
    Table,
    /// The response of the API.
    Json,
    /// CSV (RFC 4180) for spreadsheets; text that looks like a formula is prefixed with `'`.
    Csv,
}

/// Prints the result.
pub(crate) struct Output {
    format: Format,
    /// The format of `--output`, if given.
    requested: Option<Format>,
    /// Whether stdout is a terminal, which interprets control characters.
    is_terminal: bool,
    out: Box<dyn Write>,
}

impl Output {
    /// Standard output, in the requested format; by default a table on a terminal, otherwise JSON.
    pub(crate) fn stdout(format: Option<Format>) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let default = if is_terminal { Format::Table } else { Format::Json };
        let out = Box::new(io::BufWriter::new(io::stdout().lock()));
        Self { format: format.unwrap_or(default), requested: format, is_terminal, out }
    }

    /// Whether `--output json` was given.
    pub(crate) fn is_json_requested(&self) -> bool {
        self.requested == Some(Format::Json)
    }

    /// Whether `--output csv` was given.
    pub(crate) fn is_csv_requested(&self) -> bool {
        self.requested == Some(Format::Csv)
    }

    /// Whether the format is a table.
    pub(crate) fn is_human_readable(&self) -> bool {
        self.format == Format::Table
    }

    /// Whether the format is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.format == Format::Json
    }

    /// Prints a response: a record, or the page of records that `view` names.
    pub(crate) fn show<T: Serialize>(&mut self, response: &T, view: &View) -> Result<(), Failure> {
        if self.format == Format::Json {
            return self.json(response);
        }
        let response = to_value(response);
        match view.list {
            None if self.format == Format::Table => {
                let text = rows::record(&response, view, rows::width_limit());
                Ok(writeln!(self.out, "{text}")?)
            }
            None => {
                let mut rows = self.rows(view)?;
                rows.push_value(&response)?;
                rows.end()
            }
            Some(list) => {
                let cursor = response["next_cursor"].as_str().map(str::to_owned);
                let mut rows = self.rows(view)?;
                for item in response[list].as_array().into_iter().flatten() {
                    rows.push_value(item)?;
                }
                rows.end()?;
                if let Some(cursor) = cursor {
                    self.out.flush()?;
                    print_message(&format!("next page: --cursor {cursor}; all pages: --all"));
                }
                Ok(())
            }
        }
    }

    /// Prints a heading before a table.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                let columns = rows::width_limit().map_or(usize::MAX, usize::from);
                self.lines(&wrap(&cell::printable(text), columns))
            }
            Format::Json | Format::Csv => Ok(()),
        }
    }

    /// The width of the terminal, in columns.
    pub(crate) fn columns(&self) -> usize {
        usize::from(rows::columns())
    }

    /// Prints lines.
    pub(crate) fn lines(&mut self, lines: &[String]) -> Result<(), Failure> {
        for line in lines {
            writeln!(self.out, "{}", cell::printable(line))?;
        }
        Ok(())
    }

    /// Prints a bar chart. `--output json` and `--output csv` are errors.
    pub(crate) fn chart(&mut self, heading: &str, bars: &[Bar]) -> Result<(), Failure> {
        if matches!(self.requested, Some(Format::Json | Format::Csv)) {
            let message = "--chart cannot be combined with --output json or csv";
            return Err(Failure::Usage(message.to_owned()));
        }
        writeln!(self.out, "{}", cell::printable(heading))?;
        for line in chart::lines(bars, usize::from(rows::columns())) {
            writeln!(self.out, "{}", cell::printable(&line))?;
        }
        Ok(())
    }

    /// Returns a printer of records, which prints them one at a time.
    pub(crate) fn rows<'a>(&'a mut self, view: &'a View) -> Result<Rows<'a>, Failure> {
        Rows::begin(&mut *self.out, self.format, self.is_terminal, view)
    }

    /// Returns a printer of records that prints CSV, or else NDJSON.
    pub(crate) fn file<'a>(
        &'a mut self,
        is_csv: bool,
        view: &'a View,
    ) -> Result<Rows<'a>, Failure> {
        if is_csv {
            return Rows::begin(&mut *self.out, Format::Csv, self.is_terminal, view);
        }
        Ok(Rows::lines(&mut *self.out, self.is_terminal, view))
    }

    /// Prints the result of a command that returns nothing.
    pub(crate) fn done(&mut self) -> Result<(), Failure> {
        match self.format {
            Format::Table => Ok(writeln!(self.out, "done")?),
            Format::Json | Format::Csv => self.show(&Success { success: true }, &view::SUCCESS),
        }
    }

    /// Prints text unchanged.
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), Failure> {
        Ok(self.out.write_all(text)?)
    }

    /// Prints a line and flushes.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{}", cell::printable(line))?;
        Ok(self.out.flush()?)
    }

    fn json<T: Serialize>(&mut self, response: &T) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(response).map_err(io::Error::from)?;
        Ok(writeln!(self.out, "{}", json_for(&json, self.is_terminal))?)
    }

    /// Prints JSON on one line and flushes.
    pub(crate) fn json_line(&mut self, line: &Value) -> Result<(), Failure> {
        writeln!(self.out, "{}", json_for(&line.to_string(), self.is_terminal))?;
        Ok(self.out.flush()?)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// JSON, with control characters escaped for a terminal.
fn json_for(json: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable_json(json).into() } else { json.into() }
}

fn to_value<T: Serialize>(response: &T) -> Value {
    serde_json::to_value(response).expect("the API's models are JSON")
}

/// Prints a line to stderr. Write errors are ignored.
pub(crate) fn print_message(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", cell::printable(line));
}

/// Prints warnings to stderr, one per line.
pub(crate) fn print_warnings(warnings: impl IntoIterator<Item: Display>) {
    for warning in warnings {
        print_message(&format!("warning: {warning}"));
    }
}

/// Prints a question to stderr, without a line break.
pub(crate) fn prompt(question: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{}", cell::printable(question));
    let _ = stderr.flush();
}

/// Prints an error to stderr.
pub(crate) fn print_error(line: &str) {
    print_message(&format!("error: {line}"));
}
