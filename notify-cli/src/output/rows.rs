//! Records in rows: as a table, as JSON, as CSV. It holds a bounded number of them.

use std::io::{self, Write};

use comfy_table::{
    ColumnConstraint, ContentArrangement, Row, Table, Width, presets::UTF8_FULL_CONDENSED,
};
use serde::Serialize;
use serde_json::Value;

use super::{
    Format,
    cell::{Kind, exported, printable_lines, shown},
    json_for, talk, text, value,
    view::{Column, View},
};
use crate::failure::Failure;

/// Most rows of one table; a longer listing is shown as several.
const TABLE_ROWS_MAX: usize = 1_000;
/// Most lines of a row of a listing; what is longer ends with an ellipsis.
const ROW_LINES_MAX: usize = 6;
/// Most columns of a message as it goes out, and of what is wrong with it: without a terminal nothing
/// else bounds them.
const PAYLOAD_COLUMNS_MAX: u16 = 60;
/// Narrowest column of a text that is wider, on a terminal.
const TEXT_COLUMNS_MIN: usize = 20;
/// What a column takes beside its content: its border and [`PADDING_COLUMNS`].
const BORDER_COLUMNS: usize = 3;
/// Blanks of a cell, on both sides.
const PADDING_COLUMNS: usize = 2;
/// Width of a table on a terminal that does not know its own.
const WIDTH_DEFAULT: u16 = 80;

/// Records on their way out.
pub(crate) struct Rows<'a> {
    view: &'a View,
    to: To<'a>,
}

/// The form of rows, and where they go.
#[derive(Clone, Copy)]
pub(super) struct RowsForm {
    pub(super) format: Format,
    /// Whether they go to a terminal, which acts on control characters.
    pub(super) is_terminal: bool,
}

enum To<'a> {
    Table {
        out: &'a mut dyn Write,
        rows: Vec<Vec<String>>,
        shown: bool,
        is_terminal: bool,
    },
    /// The records of a listing as the API answers them, in one answer.
    Json {
        out: &'a mut dyn Write,
        any: bool,
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
        form: RowsForm,
        view: &'a View,
    ) -> Result<Self, Failure> {
        let RowsForm { format, is_terminal } = form;
        let to = match format {
            Format::Table => To::Table { out, rows: Vec::new(), shown: false, is_terminal },
            Format::Json => {
                let list = view.list.expect("what is shown row by row is a listing");
                write!(out, "{{\"{list}\": [")?;
                To::Json { out, any: false, is_terminal }
            }
            Format::Csv => {
                let mut csv = csv_writer(out);
                csv.write_record(view.export.iter().map(|column| column.name)).map_err(io)?;
                To::Csv { csv: Box::new(csv), is_terminal }
            }
        };
        Ok(Self { view, to })
    }

    /// JSON, one record a line.
    pub(super) fn lines(out: &'a mut dyn Write, is_terminal: bool, view: &'a View) -> Self {
        Self { view, to: To::Lines { out, is_terminal } }
    }

    /// Shows a record.
    pub(crate) fn push<T: Serialize>(&mut self, record: &T) -> Result<(), Failure> {
        if let To::Json { out, any, is_terminal } = &mut self.to {
            let json = serde_json::to_string(record).map_err(io::Error::from)?;
            let json = json_for(&json, *is_terminal);
            write!(out, "{}{json}", if *any { ",\n" } else { "\n" })?;
            *any = true;
            return Ok(());
        }
        if let To::Lines { out, is_terminal } = &mut self.to {
            let json = serde_json::to_string(record).map_err(io::Error::from)?;
            writeln!(out, "{}", json_for(&json, *is_terminal))?;
            return Ok(());
        }
        self.push_value(&value(record))
    }

    pub(super) fn push_value(&mut self, record: &Value) -> Result<(), Failure> {
        match &mut self.to {
            To::Json { .. } | To::Lines { .. } => return self.push(record),
            To::Csv { csv, is_terminal } => {
                let cells = self.view.export.iter();
                let cells = cells.map(|column| {
                    let cell = exported(record.pointer(column.pointer));
                    if *is_terminal { printable_lines(&cell) } else { cell }
                });
                csv.write_record(cells).map_err(io)?;
            }
            To::Table { out, rows, shown: any, is_terminal: _ } => {
                let cells = self.view.columns.iter();
                let cells = cells.map(|column| shown(record.pointer(column.pointer), column.kind));
                rows.push(cells.collect());
                if rows.len() == TABLE_ROWS_MAX {
                    writeln!(out, "{}", listing(self.view, &std::mem::take(rows), room()))?;
                    *any = true;
                }
            }
        }
        Ok(())
    }

    /// Shows what is left.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.to {
            To::Json { out, any, .. } => {
                // To its end: there is no page behind it.
                writeln!(out, "{}], \"next_cursor\": null}}", if any { "\n" } else { "" })?;
            }
            To::Lines { .. } => {}
            To::Csv { mut csv, .. } => csv.flush()?,
            // An empty table is for programs; a person reads a sentence.
            To::Table { rows, shown: false, is_terminal: true, .. } if rows.is_empty() => {
                talk(&format!("No {}.", self.view.noun));
            }
            To::Table { out, rows, shown, is_terminal: _ } => {
                if !rows.is_empty() || !shown {
                    writeln!(out, "{}", listing(self.view, &rows, room()))?;
                }
            }
        }
        Ok(())
    }
}

/// A writer of RFC 4180: everything quoted, so that no cell depends on what it holds.
pub(crate) fn csv_writer<W: Write>(out: W) -> csv::Writer<W> {
    csv::WriterBuilder::new()
        .quote_style(csv::QuoteStyle::Always)
        .terminator(csv::Terminator::CRLF)
        .from_writer(out)
}

/// The cause as it was: a pipe that was closed must be known for one.
fn io(error: csv::Error) -> io::Error {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

/// A listing for people: a table, or where its columns do not fit, a block of lines for each record.
fn listing(view: &View, rows: &[Vec<String>], room: Option<u16>) -> String {
    let fitting = match room {
        None => Some((0..view.columns.len()).collect()),
        Some(room) => fitting(view, rows, room),
    };
    match fitting {
        Some(places) => table(view, rows, (&places, room)).to_string(),
        None => {
            let room = usize::from(room.unwrap_or(WIDTH_DEFAULT));
            let blocks: Vec<String> = rows.iter().map(|row| block(view, row, room)).collect();
            blocks.join("\n")
        }
    }
}

/// The columns that fit: all, or all but some of those that can be left out. `None`: too few.
fn fitting(view: &View, rows: &[Vec<String>], room: u16) -> Option<Vec<usize>> {
    let needed = |place: &usize| {
        let column = &view.columns[*place];
        let cells = rows.iter().map(|row| &*row[*place]);
        let cells = cells.map(|cell| cell_width_min(column, cell));
        cells.max().unwrap_or_default().max(text::width(column.name))
    };
    let mut places: Vec<usize> = (0..view.columns.len()).collect();
    loop {
        let columns: usize = places.iter().map(needed).sum();
        if columns + BORDER_COLUMNS * places.len() < usize::from(room) {
            return Some(places);
        }
        let spare = places.iter().rposition(|place| view.columns[*place].is_optional)?;
        places.remove(spare);
    }
}

/// What a cell needs: a text may be broken at its spaces, though not into a pile of words.
fn cell_width_min(column: &Column, cell: &str) -> usize {
    let natural = text::width(cell);
    if column.kind.is_unbroken() {
        natural
    } else {
        text::width_min(cell).max(natural.min(TEXT_COLUMNS_MIN))
    }
}

fn table(view: &View, rows: &[Vec<String>], (places, room): (&[usize], Option<u16>)) -> Table {
    let mut table = styled(room);
    table.set_header(places.iter().map(|place| view.columns[*place].name));
    let is_never_cut = |column: &Column| matches!(column.kind, Kind::Whole | Kind::Payload);
    let is_whole = view.columns.iter().any(is_never_cut);
    for cells in rows {
        let mut row = Row::from(places.iter().map(|place| &cells[*place]));
        if !is_whole {
            row.max_height(ROW_LINES_MAX);
        }
        table.add_row(row);
    }
    for (nth, place) in places.iter().enumerate() {
        let kind = view.columns[*place].kind;
        let cells = rows.iter().map(|row| &*row[*place]);
        let least = cells.map(|cell| cell_width_min(&view.columns[*place], cell)).max();
        let column = table.column_mut(nth).expect("the header has every column");
        if matches!(kind, Kind::Payload | Kind::Lines) {
            column
                .set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(PAYLOAD_COLUMNS_MAX)));
        } else if kind.is_unbroken() {
            column.set_constraint(ColumnConstraint::ContentWidth);
        } else if let (Some(least), Some(_)) = (least, room) {
            let least = u16::try_from(least + PADDING_COLUMNS).unwrap_or(u16::MAX);
            column.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
    }
    table
}

/// A record of a listing in lines: what tells it from others, then its other fields.
fn block(view: &View, cells: &[String], room: usize) -> String {
    let mut head = cells[0].clone();
    let mut shown = 1;
    while shown < view.head {
        let gap = if cells[shown].is_empty() { "" } else { "  " };
        let longer = format!("{head}{gap}{}", cells[shown]);
        if text::width(&longer) > room {
            break;
        }
        head = longer;
        shown += 1;
    }
    let mut lines = vec![head];
    let fields = view.columns.iter().zip(cells).skip(shown);
    lines.extend(pairs(fields.map(|(column, cell)| (column.name, &**cell)), (room, "  ")));
    lines.join("\n")
}

/// Fields, each with its name before it; those without a value are left out.
fn pairs<'a>(
    fields: impl Iterator<Item = (&'a str, &'a str)>,
    (room, indent): (usize, &str),
) -> Vec<String> {
    let fields: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    let names = fields.iter().map(|(name, _)| text::width(name)).max().unwrap_or_default();
    let before = indent.len() + names + 2;
    let mut lines = Vec::new();
    for (name, value) in fields {
        let mut name = name;
        for line in text::wrapped(value, room.saturating_sub(before)) {
            lines.push(format!("{indent}{name:names$}  {line}"));
            name = "";
        }
    }
    lines
}

/// One record: its only field as it is; else a line for each field that it has, but for counts of zero
/// and what is empty.
pub(super) fn record(record: &Value, view: &View, room: Option<u16>) -> String {
    if let [column] = view.columns {
        return shown(record.pointer(column.pointer), column.kind);
    }
    let columns = view.columns.iter();
    let fields = columns.filter_map(|column| {
        let value = record.pointer(column.pointer)?;
        Some((column.name, shown(Some(value), column.kind)))
    });
    let fields: Vec<_> = fields.filter(|(_, value)| !value.is_empty()).collect();
    let names = fields.iter().map(|(name, _)| text::width(name)).max().unwrap_or_default();
    let values = fields.iter().map(|(_, value)| text::width(value)).max().unwrap_or_default();
    match room.map(usize::from) {
        Some(room) if names + values + 2 * BORDER_COLUMNS >= room => {
            let fields = fields.iter().map(|(name, value)| (*name, &**value));
            pairs(fields, (room, "")).join("\n")
        }
        _ => {
            let mut table = styled(room);
            for (name, value) in fields {
                table.add_row([name.to_owned(), value]);
            }
            table.to_string()
        }
    }
}

fn styled(room: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(room) = room {
        table.set_width(room);
    }
    table
}

/// How wide what people read may be.
pub(super) fn columns() -> u16 {
    room().unwrap_or(WIDTH_DEFAULT)
}

/// How wide a table may be; `None` where no terminal bounds it. Terminals without a size, as some
/// serial lines and containers have them, say 0 columns.
pub(super) fn room() -> Option<u16> {
    Table::new().width().map(known_width)
}

fn known_width(told: u16) -> u16 {
    if told == 0 { WIDTH_DEFAULT } else { told }
}

#[cfg(test)]
mod tests;
