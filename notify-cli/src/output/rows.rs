//! Records as a table, JSON or CSV, with a bounded number of them in memory.

use std::io::{self, Write};

use comfy_table::{
    ColumnConstraint, ContentArrangement, Row, Table, Width, presets::UTF8_FULL_CONDENSED,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Format,
    cell::{CellKind, csv_cell, printable_lines, table_cell},
    json_for, print_message, text, to_value,
    view::{Column, View},
};
use crate::failure::Failure;

/// Most rows of one table; a longer listing becomes several tables.
const TABLE_ROWS_MAX: usize = 1_000;
/// Most lines of a row of a listing; a longer one ends with an ellipsis.
const ROW_LINES_MAX: usize = 6;
/// Largest width of a payload and of its problems, in columns. Without a terminal, their width has no other
/// limit.
const PAYLOAD_COLUMNS_MAX: u16 = 60;
/// On a terminal, a column with text is not made narrower than this.
const TEXT_COLUMNS_MIN: usize = 20;
/// The width that each column of a table takes in addition to its text: a border and [`PADDING_COLUMNS`].
const BORDER_COLUMNS: usize = 3;
/// The number of blanks on both sides of a cell, in total.
const PADDING_COLUMNS: usize = 2;
/// The width of a table on a terminal of unknown size.
const WIDTH_DEFAULT: u16 = 80;

/// Prints records one at a time.
pub(crate) struct Rows<'a> {
    view: &'a View,
    sink: Sink<'a>,
}

/// The format that is printed, with its state.
enum Sink<'a> {
    Table {
        out: &'a mut dyn Write,
        rows: Vec<Vec<String>>,
        is_printed: bool,
        is_terminal: bool,
    },
    /// All records in one response, in the form of a listing of the API.
    Json {
        out: &'a mut dyn Write,
        has_rows: bool,
        is_terminal: bool,
    },
    Lines {
        out: &'a mut dyn Write,
        is_terminal: bool,
    },
    Csv {
        csv: Box<csv::Writer<&'a mut dyn Write>>,
        is_terminal: bool,
    },
}

impl<'a> Rows<'a> {
    pub(super) fn begin(
        out: &'a mut dyn Write,
        format: Format,
        is_terminal: bool,
        view: &'a View,
    ) -> Result<Self, Failure> {
        let sink = match format {
            Format::Table => Sink::Table { out, rows: Vec::new(), is_printed: false, is_terminal },
            Format::Json => {
                let list = view.list.expect("only listings have rows");
                write!(out, "{{\"{list}\": [")?;
                Sink::Json { out, has_rows: false, is_terminal }
            }
            Format::Csv => {
                let mut csv = csv_writer(out);
                csv.write_record(view.export.iter().map(|column| column.name)).map_err(io_error)?;
                Sink::Csv { csv: Box::new(csv), is_terminal }
            }
        };
        Ok(Self { view, sink })
    }

    /// A printer of NDJSON: one JSON object on each line.
    pub(super) fn lines(out: &'a mut dyn Write, is_terminal: bool, view: &'a View) -> Self {
        Self { view, sink: Sink::Lines { out, is_terminal } }
    }

    /// Adds a record.
    pub(crate) fn push<T: Serialize>(&mut self, record: &T) -> Result<(), Failure> {
        if let Sink::Json { out, has_rows, is_terminal } = &mut self.sink {
            let json = serde_json::to_string(record).map_err(io::Error::from)?;
            let json = json_for(&json, *is_terminal);
            write!(out, "{}{json}", if *has_rows { ",\n" } else { "\n" })?;
            *has_rows = true;
            return Ok(());
        }
        if let Sink::Lines { out, is_terminal } = &mut self.sink {
            let json = serde_json::to_string(record).map_err(io::Error::from)?;
            writeln!(out, "{}", json_for(&json, *is_terminal))?;
            return Ok(());
        }
        self.push_value(&to_value(record))
    }

    pub(super) fn push_value(&mut self, record: &Value) -> Result<(), Failure> {
        match &mut self.sink {
            Sink::Json { .. } | Sink::Lines { .. } => return self.push(record),
            Sink::Csv { csv, is_terminal } => {
                let cells = self.view.export.iter();
                let cells = cells.map(|column| {
                    let cell = csv_cell(record.pointer(column.pointer), column.kind);
                    if *is_terminal { printable_lines(&cell) } else { cell }
                });
                csv.write_record(cells).map_err(io_error)?;
            }
            Sink::Table { out, rows, is_printed, is_terminal: _ } => {
                let cells = self.view.columns.iter();
                let cells =
                    cells.map(|column| table_cell(record.pointer(column.pointer), column.kind));
                rows.push(cells.collect());
                if rows.len() == TABLE_ROWS_MAX {
                    writeln!(out, "{}", listing(self.view, &std::mem::take(rows), width_limit()))?;
                    *is_printed = true;
                }
            }
        }
        Ok(())
    }

    /// Prints the remaining rows.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.sink {
            Sink::Json { out, has_rows, .. } => {
                writeln!(out, "{}], \"next_cursor\": null}}", if has_rows { "\n" } else { "" })?;
            }
            Sink::Lines { .. } => {}
            Sink::Csv { mut csv, .. } => csv.flush()?,
            // On a terminal, a sentence is printed instead of an empty table.
            Sink::Table { rows, is_printed: false, is_terminal: true, .. } if rows.is_empty() => {
                print_message(&format!("No {}.", self.view.noun));
            }
            Sink::Table { out, rows, is_printed, is_terminal: _ } => {
                if !rows.is_empty() || !is_printed {
                    writeln!(out, "{}", listing(self.view, &rows, width_limit()))?;
                }
            }
        }
        Ok(())
    }
}

/// A CSV writer (RFC 4180) that quotes every cell.
pub(crate) fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::Always)
        .terminator(csv::Terminator::CRLF)
        .from_writer(out)
}

/// Returns the I/O error inside of a CSV error, so that a closed pipe is recognised.
fn io_error(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A listing as a table. If the columns do not fit into the width, each record is a block of lines.
fn listing(view: &View, rows: &[Vec<String>], width_limit: Option<u16>) -> String {
    let columns = match width_limit {
        None => Some((0..view.columns.len()).collect()),
        Some(width_limit) => fitting_columns(view, rows, width_limit),
    };
    match columns {
        Some(indexes) => table(view, rows, &indexes, width_limit).to_string(),
        None => {
            let width_limit = usize::from(width_limit.unwrap_or(WIDTH_DEFAULT));
            let blocks: Vec<String> =
                rows.iter().map(|row| block(view, row, width_limit)).collect();
            blocks.join("\n")
        }
    }
}

/// The indexes of the columns that fit into the width. Optional columns are omitted if necessary. Returns
/// `None` if the other columns do not fit either.
fn fitting_columns(view: &View, rows: &[Vec<String>], width_limit: u16) -> Option<Vec<usize>> {
    let width_needed = |index: &usize| {
        let column = &view.columns[*index];
        let cells = rows.iter().map(|row| &*row[*index]);
        let cells = cells.map(|cell| cell_width_min(column, cell));
        cells.max().unwrap_or_default().max(text::width(column.name))
    };
    let mut indexes: Vec<usize> = (0..view.columns.len()).collect();
    loop {
        let width: usize = indexes.iter().map(width_needed).sum();
        if width + BORDER_COLUMNS * indexes.len() < usize::from(width_limit) {
            return Some(indexes);
        }
        let last_optional = indexes.iter().rposition(|index| view.columns[*index].is_optional)?;
        indexes.remove(last_optional);
    }
}

/// The minimum width of a cell. A text may be broken at spaces, but is at least [`TEXT_COLUMNS_MIN`] wide,
/// unless the whole text is shorter.
fn cell_width_min(column: &Column, cell: &str) -> usize {
    let natural = text::width(cell);
    if column.kind.is_unbroken() {
        natural
    } else {
        text::width_min(cell).max(natural.min(TEXT_COLUMNS_MIN))
    }
}

/// A listing as a table of the columns with these indexes.
fn table(view: &View, rows: &[Vec<String>], indexes: &[usize], width_limit: Option<u16>) -> Table {
    let mut table = styled(width_limit);
    table.set_header(indexes.iter().map(|index| view.columns[*index].name));
    let is_never_shortened = |column: &Column| {
        matches!(column.kind, CellKind::Whole | CellKind::Payload | CellKind::Languages)
    };
    let has_full_rows = view.columns.iter().any(is_never_shortened);
    for cells in rows {
        let mut row = Row::from(indexes.iter().map(|index| &cells[*index]));
        if !has_full_rows {
            row.max_height(ROW_LINES_MAX);
        }
        table.add_row(row);
    }
    for (position, index) in indexes.iter().enumerate() {
        let kind = view.columns[*index].kind;
        let cells = rows.iter().map(|row| &*row[*index]);
        let width_min = cells.map(|cell| cell_width_min(&view.columns[*index], cell)).max();
        let column = table.column_mut(position).expect("the header has every column");
        if matches!(kind, CellKind::Payload | CellKind::Languages | CellKind::Lines) {
            column
                .set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(PAYLOAD_COLUMNS_MAX)));
        } else if kind.is_unbroken() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else if let (Some(width_min), Some(_)) = (width_min, width_limit) {
            let width_min = u16::try_from(width_min + PADDING_COLUMNS).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(width_min)));
        }
    }
    table
}

/// A record of a listing as lines. The first line has its heading columns, and each further line has one of
/// its other fields.
fn block(view: &View, cells: &[String], width_limit: usize) -> String {
    let mut head = cells[0].clone();
    let mut shown = 1;
    while shown < view.heading_columns {
        let gap = if cells[shown].is_empty() { "" } else { "  " };
        let longer = format!("{head}{gap}{}", cells[shown]);
        if text::width(&longer) > width_limit {
            break;
        }
        head = longer;
        shown += 1;
    }
    let mut lines = vec![head];
    let fields = view.columns.iter().zip(cells).skip(shown);
    lines.extend(pairs(fields.map(|(column, cell)| (column.name, &**cell)), width_limit, "  "));
    lines.join("\n")
}

/// Fields as lines of name and value; fields without a value are omitted.
fn pairs<'a>(
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    width_limit: usize,
    indent: &str,
) -> Vec<String> {
    let fields: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    let names = fields.iter().map(|(name, _)| text::width(name)).max().unwrap_or_default();
    let before = indent.len() + names + 2;
    let mut lines = Vec::new();
    for (name, value) in fields {
        let mut name = name;
        for line in text::wrap(value, width_limit.saturating_sub(before)) {
            lines.push(format!("{indent}{name:names$}  {line}"));
            name = "";
        }
    }
    lines
}

/// One record as text. A record with only one field is the value of that field. Otherwise, each field has a
/// line, except empty fields and counts of zero.
pub(super) fn record(record: &Value, view: &View, width_limit: Option<u16>) -> String {
    if let [column] = view.columns {
        return table_cell(record.pointer(column.pointer), column.kind);
    }
    let columns = view.columns.iter();
    let fields = columns.filter_map(|column| {
        let value = record.pointer(column.pointer)?;
        Some((column.name, table_cell(Some(value), column.kind)))
    });
    let fields: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    let names = fields.iter().map(|(name, _)| text::width(name)).max().unwrap_or_default();
    let values = fields.iter().map(|(_, value)| text::width(value)).max().unwrap_or_default();
    match width_limit.map(usize::from) {
        Some(width_limit) if names + values + 2 * BORDER_COLUMNS >= width_limit => {
            let fields = fields.iter().map(|(name, value)| (*name, &**value));
            pairs(fields, width_limit, "").join("\n")
        }
        _ => {
            let mut table = styled(width_limit);
            for (name, value) in fields {
                table.add_row([name.to_owned(), value]);
            }
            table.to_string()
        }
    }
}

/// An empty table in the style of the command.
fn styled(width_limit: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width_limit) = width_limit {
        table.set_width(width_limit);
    }
    table
}

/// The width at which text is wrapped, in columns.
pub(super) fn columns() -> u16 {
    width_limit().unwrap_or(WIDTH_DEFAULT)
}

/// The largest width of a table; `None` without a terminal. Terminals of unknown size, such as some
/// serial lines and containers, report 0 columns.
pub(super) fn width_limit() -> Option<u16> {
    Table::new().width().map(width_or_default)
}

fn width_or_default(reported: u16) -> u16 {
    if reported == 0 { WIDTH_DEFAULT } else { reported }
}

#[cfg(test)]
mod tests;
