//! Everything that is printed: the result on stdout, alone; talk on stderr, a line each.

mod cell;
mod chart;
mod rows;
mod text;
pub(crate) mod view;

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;
use notify_client::notify_core::{Success, printable_json};
use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;
pub(crate) use cell::{day, guarded, time, unguarded};
pub(crate) use chart::Bar;
use rows::RowsForm;
pub(crate) use rows::{Rows, csv_writer};
pub(crate) use text::{counted, wrapped};
use view::View;

/// Form of the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Table,
    /// What the API answered.
    Json,
    /// For spreadsheets (RFC 4180); a text that a spreadsheet would take for a formula gets a `'`.
    Csv,
}

/// Where the result goes.
pub(crate) struct Output {
    format: Format,
    /// The form that was asked for, if one was.
    asked: Option<Format>,
    /// Whether it goes to a terminal, which acts on control characters.
    is_terminal: bool,
    out: Box<dyn Write>,
}

impl Output {
    /// Standard output, in the form asked for or the one that suits who reads it.
    pub(crate) fn stdout(format: Option<Format>) -> Self {
        let is_terminal = io::stdout().is_terminal();
        let suited = if is_terminal { Format::Table } else { Format::Json };
        // Nothing in between: to a file or a pipe every byte stays as it is.
        let out = Box::new(io::BufWriter::new(io::stdout().lock()));
        Self { format: format.unwrap_or(suited), asked: format, is_terminal, out }
    }

    /// Whether JSON was asked for, whoever reads it.
    pub(crate) fn is_asked_for_json(&self) -> bool {
        self.asked == Some(Format::Json)
    }

    /// Whether CSV was asked for.
    pub(crate) fn is_asked_for_csv(&self) -> bool {
        self.asked == Some(Format::Csv)
    }

    /// Whether a person reads the result.
    pub(crate) fn is_for_people(&self) -> bool {
        self.format == Format::Table
    }

    /// Shows an answer: one record, or the page of records that `view` names.
    pub(crate) fn show<T: Serialize>(&mut self, answer: &T, view: &View) -> Result<(), Failure> {
        if self.format == Format::Json {
            return self.json(answer);
        }
        let answer = value(answer);
        match view.list {
            None if self.format == Format::Table => {
                let text = rows::record(&answer, view, rows::room());
                Ok(writeln!(self.out, "{text}")?)
            }
            None => {
                let mut rows = self.rows(view)?;
                rows.push_value(&answer)?;
                rows.end()
            }
            Some(list) => {
                let cursor = answer["next_cursor"].as_str().map(str::to_owned);
                let mut rows = self.rows(view)?;
                for item in answer[list].as_array().into_iter().flatten() {
                    rows.push_value(item)?;
                }
                rows.end()?;
                if let Some(cursor) = cursor {
                    self.out.flush()?;
                    talk(&format!("more with --cursor {cursor}, or everything with --all"));
                }
                Ok(())
            }
        }
    }

    /// Says for people what the table below is about.
    pub(crate) fn heading(&mut self, text: &str) -> Result<(), Failure> {
        match self.format {
            Format::Table => {
                let columns = rows::room().map_or(usize::MAX, usize::from);
                self.lines(&wrapped(&cell::printable(text), columns))
            }
            Format::Json | Format::Csv => Ok(()),
        }
    }

    /// How many columns there are for people.
    pub(crate) fn columns(&self) -> usize {
        usize::from(rows::columns())
    }

    /// Shows lines, for people.
    pub(crate) fn lines(&mut self, lines: &[String]) -> Result<(), Failure> {
        for line in lines {
            writeln!(self.out, "{}", cell::printable(line))?;
        }
        Ok(())
    }

    /// Draws bars for people, wherever they go. Programs ask for another form: both at once is a
    /// mistake.
    pub(crate) fn chart(&mut self, heading: &str, bars: &[Bar]) -> Result<(), Failure> {
        if matches!(self.asked, Some(Format::Json | Format::Csv)) {
            let what = "--chart draws for people: say it without --output json or csv";
            return Err(Failure::Usage(what.to_owned()));
        }
        writeln!(self.out, "{}", cell::printable(heading))?;
        for line in chart::lines(bars, usize::from(rows::columns())) {
            writeln!(self.out, "{}", cell::printable(&line))?;
        }
        Ok(())
    }

    /// Shows records one by one, however many there are.
    pub(crate) fn rows<'a>(&'a mut self, view: &'a View) -> Result<Rows<'a>, Failure> {
        let form = RowsForm { format: self.format, is_terminal: self.is_terminal };
        Rows::begin(&mut *self.out, form, view)
    }

    /// Shows records one by one as CSV, or as JSON with one record a line.
    pub(crate) fn file<'a>(
        &'a mut self,
        is_csv: bool,
        view: &'a View,
    ) -> Result<Rows<'a>, Failure> {
        if is_csv {
            let form = RowsForm { format: Format::Csv, is_terminal: self.is_terminal };
            return Rows::begin(&mut *self.out, form, view);
        }
        Ok(Rows::lines(&mut *self.out, self.is_terminal, view))
    }

    /// Shows that it is done.
    pub(crate) fn done(&mut self) -> Result<(), Failure> {
        match self.format {
            Format::Table => Ok(writeln!(self.out, "done")?),
            Format::Json | Format::Csv => self.show(&Success { success: true }, &view::SUCCESS),
        }
    }

    /// Shows a text as it is.
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<(), Failure> {
        Ok(self.out.write_all(text)?)
    }

    /// Shows a line at once, for who follows along.
    pub(crate) fn line(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.out, "{}", cell::printable(line))?;
        Ok(self.out.flush()?)
    }

    fn json<T: Serialize>(&mut self, answer: &T) -> Result<(), Failure> {
        let json = serde_json::to_string_pretty(answer).map_err(io::Error::from)?;
        Ok(writeln!(self.out, "{}", json_for(&json, self.is_terminal))?)
    }

    /// Shows a line of JSON at once, for who follows along.
    pub(crate) fn json_line(&mut self, line: &Value) -> Result<(), Failure> {
        writeln!(self.out, "{}", json_for(&line.to_string(), self.is_terminal))?;
        Ok(self.out.flush()?)
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.out.flush()?)
    }
}

/// JSON as it is, or for a terminal, which must show what it holds and not act on it.
fn json_for(json: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { printable_json(json).into() } else { json.into() }
}

fn value<T: Serialize>(answer: &T) -> Value {
    serde_json::to_value(answer).expect("the API's models are JSON")
}

/// Says a line on stderr. Who closed stderr does not want to hear it.
pub(crate) fn talk(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{}", cell::printable(line));
}

/// Asks on stderr; the answer is typed behind it.
pub(crate) fn prompt(question: &str) {
    let mut stderr = anstream::stderr().lock();
    let _ = write!(stderr, "{}", cell::printable(question));
    let _ = stderr.flush();
}

/// Says an error on stderr.
pub(crate) fn complain(line: &str) {
    talk(&format!("error: {line}"));
}
