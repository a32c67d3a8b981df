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
    json_for, value,
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
    Table { out: &'a mut dyn Write, rows: Vec<Vec<String>>, shown: bool },
    Json { out: &'a mut dyn Write, any: bool, is_terminal: bool },
    Csv { csv: Box<csv::Writer<&'a mut dyn Write>>, is_terminal: bool },
}

impl<'a> Rows<'a> {
    pub(super) fn begin(
        out: &'a mut dyn Write,
        form: RowsForm,
        view: &'a View,
    ) -> Result<Self, Failure> {
        let RowsForm { format, is_terminal } = form;
        let to = match format {
            Format::Table => To::Table { out, rows: Vec::new(), shown: false },
            Format::Json => {
                write!(out, "[")?;
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

    /// Shows a record.
    pub(crate) fn push<T: Serialize>(&mut self, record: &T) -> Result<(), Failure> {
        if let To::Json { out, any, is_terminal } = &mut self.to {
            let json = serde_json::to_string(record).map_err(io::Error::from)?;
            let json = json_for(&json, *is_terminal);
            write!(out, "{}{json}", if *any { ",\n" } else { "\n" })?;
            *any = true;
            return Ok(());
        }
        self.push_value(&value(record))
    }

    pub(super) fn push_value(&mut self, record: &Value) -> Result<(), Failure> {
        match &mut self.to {
            To::Json { .. } => return self.push(record),
            To::Csv { csv, is_terminal } => {
                let cells = self.view.export.iter();
                let cells = cells.map(|column| {
                    let cell = exported(record.pointer(column.pointer));
                    if *is_terminal { printable_lines(&cell) } else { cell }
                });
                csv.write_record(cells).map_err(io)?;
            }
            To::Table { out, rows, shown: any } => {
                let cells = self.view.columns.iter();
                let cells = cells.map(|column| shown(record.pointer(column.pointer), column.kind));
                rows.push(cells.collect());
                if rows.len() == TABLE_ROWS_MAX {
                    writeln!(out, "{}", table(self.view, std::mem::take(rows)))?;
                    *any = true;
                }
            }
        }
        Ok(())
    }

    /// Shows what is left.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.to {
            To::Json { out, any, .. } => writeln!(out, "{}]", if any { "\n" } else { "" })?,
            To::Csv { mut csv, .. } => csv.flush()?,
            To::Table { out, rows, shown } => {
                if !rows.is_empty() || !shown {
                    writeln!(out, "{}", table(self.view, rows))?;
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

fn io(error: csv::Error) -> io::Error {
    error.into()
}

fn table(view: &View, rows: Vec<Vec<String>>) -> Table {
    let mut table = styled();
    table.set_header(view.columns.iter().map(|column| column.name));
    let is_never_cut = |column: &Column| matches!(column.kind, Kind::Whole | Kind::Payload);
    let is_whole = view.columns.iter().any(is_never_cut);
    for row in rows {
        let mut row = Row::from(row);
        if !is_whole {
            row.max_height(ROW_LINES_MAX);
        }
        table.add_row(row);
    }
    for (place, column) in view.columns.iter().enumerate() {
        if matches!(column.kind, Kind::Payload | Kind::Lines) {
            let widest = ColumnConstraint::UpperBoundary(Width::Fixed(PAYLOAD_COLUMNS_MAX));
            let column = table.column_mut(place).expect("the header has every column");
            column.set_constraint(widest);
        }
        // An id that is broken over lines cannot be copied.
        if matches!(column.kind, Kind::Plain | Kind::Time | Kind::Day | Kind::Step | Kind::State) {
            let column = table.column_mut(place).expect("the header has every column");
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

/// One record, a line for each field that it has.
pub(super) fn record(record: &Value, view: &View) -> Table {
    let mut table = styled();
    for column in view.columns {
        if let Some(value) = record.pointer(column.pointer) {
            let text = shown(Some(value), column.kind);
            if column.kind != Kind::Forgotten || !text.is_empty() {
                table.add_row([column.name.to_owned(), text]);
            }
        }
    }
    table
}

fn styled() -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED).set_content_arrangement(ContentArrangement::Dynamic);
    if let Some(width) = width_unless_told(table.width()) {
        table.set_width(width);
    }
    table
}

/// How wide what people read may be.
pub(super) fn columns() -> u16 {
    Table::new().width().filter(|columns| *columns > 0).unwrap_or(WIDTH_DEFAULT)
}

/// Terminals without a size, as some serial lines and containers have them, say 0 columns.
fn width_unless_told(told: Option<u16>) -> Option<u16> {
    (told == Some(0)).then_some(WIDTH_DEFAULT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::output::view;

    #[test]
    fn a_terminal_of_no_columns_has_80() {
        for (told, set) in [(Some(0), Some(80)), (Some(1), None), (Some(200), None), (None, None)] {
            assert_eq!(width_unless_told(told), set, "{told:?}");
        }
    }

    /// What is wrong and how to mend it is read to its end, however narrow the terminal.
    #[test]
    fn what_the_doctor_says_is_not_cut() {
        let long = "word ".repeat(200);
        let row = |detail: &str| vec![detail.to_owned(); view::DOCTOR.columns.len()];
        let mut table = table(&view::DOCTOR, vec![row(&format!("{long}end"))]);
        assert!(table.set_width(200).to_string().contains("end"));
    }

    #[test]
    fn a_payload_is_whole_and_no_wider_than_a_text() {
        let payload =
            json!({"message": {"notification": {"body": "word ".repeat(200)}}, "z": "end"});
        let columns = view::PREVIEW.columns.iter();
        let record = json!({"platform": "android", "payload": payload});
        let cells = columns.map(|column| shown(record.pointer(column.pointer), column.kind));
        let text = table(&view::PREVIEW, vec![cells.collect()]).to_string();
        assert!(text.contains("\"end\""), "{text}");
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest < Some(130), "{widest:?}");
    }

    /// On a terminal of 80 characters, wide ones among them; an id stays whole.
    #[test]
    fn notifications_fit_a_terminal() {
        let id = "0190a3b2-7f00-7000-8000-000000000001";
        let counts = json!({"targeted": 1_200_000, "sent": 1_199_700, "failed": 100,
            "unregistered": 200});
        let records = [
            json!({"id": id, "status": "completed", "request": {"text": "Dinner is ready"},
                "counts": {"targeted": 3, "sent": 3}}),
            json!({"id": id, "status": "completed", "request": {"poll": {"text": "お茶はいかが"}},
                "counts": counts}),
        ];
        let view = &view::NOTIFICATIONS;
        let cells = |record: &Value| {
            let columns = view.columns.iter();
            columns.map(|column| shown(record.pointer(column.pointer), column.kind)).collect()
        };
        let mut table = table(view, records.iter().map(cells).collect());
        assert_eq!(
            table.set_width(80).to_string(),
            "\
┌──────────────────────────────────────┬───────────┬─────────────┬─────────────┐
│ id                                   ┆ status    ┆ text        ┆ devices     │
╞══════════════════════════════════════╪═══════════╪═════════════╪═════════════╡
│ 0190a3b2-7f00-7000-8000-000000000001 ┆ completed ┆ Dinner is   ┆ 3 of 3 sent │
│                                      ┆           ┆ ready       ┆             │
│ 0190a3b2-7f00-7000-8000-000000000001 ┆ completed ┆ お茶はいか  ┆ 1199700 of  │
│                                      ┆           ┆ が          ┆ 1200000     │
│                                      ┆           ┆             ┆ sent        │
│                                      ┆           ┆             ┆ 100 failed  │
│                                      ┆           ┆             ┆ 200 unregis │
│                                      ┆           ┆             ┆ tered       │
└──────────────────────────────────────┴───────────┴─────────────┴─────────────┘"
        );
    }
}
