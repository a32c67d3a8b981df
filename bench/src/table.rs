//! The printed table and the notes below it. No other file writes to standard output.

use std::time::Duration;

use comfy_table::{Cell, ContentArrangement, Table};

use crate::proc::machine;

/// The goal of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    /// A growth in megabytes.
    MegabytesAtMost(f64),
    /// The bytes of one item.
    BytesAtMost(f64),
    /// A number of cases.
    CountAtMost(f64),
    /// A figure in the unit that the line names.
    FigureAtMost(f64),
    /// The line has no goal and is shown for comparison.
    Open,
}

/// One line of the table.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) row: &'static str,
    pub(crate) what: String,
    pub(crate) figure: String,
    pub(crate) baseline: String,
    /// The median over the rounds, in the goal's unit. NaN when the ratio could not be measured.
    pub(crate) ratio: f64,
    pub(crate) goal: Goal,
}

impl Line {
    fn cells(&self) -> [String; 7] {
        let ratio = self.ratio;
        let verdict = |is_met: bool| match (ratio.is_nan(), is_met) {
            (true, _) => "not measured".to_owned(),
            (false, true) => "yes".to_owned(),
            (false, false) => "no".to_owned(),
        };
        let (ratio, goal, met) = match self.goal {
            Goal::AtLeast(goal) => {
                (format!("{ratio:.2}×"), format!("≥ {goal}×"), verdict(ratio >= goal))
            }
            Goal::AtMost(goal) => {
                (format!("{ratio:.2}×"), format!("≤ {goal}×"), verdict(ratio <= goal))
            }
            Goal::MegabytesAtMost(goal) => {
                (format!("{ratio:+.1} MB"), format!("≤ {goal} MB"), verdict(ratio <= goal))
            }
            Goal::BytesAtMost(goal) => {
                (format!("{ratio:.2} bytes"), format!("≤ {goal} bytes"), verdict(ratio <= goal))
            }
            Goal::CountAtMost(goal) => {
                (format!("{ratio:.0}"), format!("≤ {goal}"), verdict(ratio <= goal))
            }
            Goal::FigureAtMost(goal) => {
                (format!("{ratio:.2}"), format!("≤ {goal}"), verdict(ratio <= goal))
            }
            Goal::Open => (format!("{ratio:.2}×"), "–".to_owned(), "–".to_owned()),
        };
        let ratio = if self.ratio.is_nan() { "–".to_owned() } else { ratio };
        let [row, what] = [self.row.to_owned(), self.what.clone()];
        [row, what, self.figure.clone(), self.baseline.clone(), ratio, goal, met]
    }
}

/// The results of one benchmark.
#[derive(Debug, Default)]
pub(crate) struct Section {
    pub(crate) lines: Vec<Line>,
    pub(crate) notes: Vec<String>,
    /// The duration of a flush in each round.
    pub(crate) flushes: Vec<Duration>,
    /// The share of a core that other processes used in each round.
    pub(crate) other_load: Vec<f64>,
}

/// The results of all benchmarks of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    sections: Vec<Section>,
}

impl Report {
    /// Adds the results of a benchmark. Prints them at once, because a whole run takes half an hour.
    pub(crate) fn add(&mut self, section: Section) {
        for line in &section.lines {
            print_line(&line.cells().join(" | "));
        }
        self.sections.push(section);
    }

    /// Prints the table.
    pub(crate) fn print(&self) {
        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["row", "what", "figure", "baseline", "ratio", "goal", "met"]);
        for line in self.sections.iter().flat_map(|section| &section.lines) {
            table.add_row(line.cells().map(Cell::new));
        }
        print_line(&format!("\n{table}\n"));
        print_line(&format!("machine: {}", machine()));
        let flushes = self.sections.iter().flat_map(|section| section.flushes.iter().copied());
        let flushes: Vec<f64> = flushes.map(|flush| flush.as_secs_f64() * 1e6).collect();
        print_line(&format!("fsync p50, append of 4 KiB: {}", spread(&flushes, "µs", 0)));
        let other_load =
            self.sections.iter().flat_map(|section| section.other_load.iter().copied());
        let other_load: Vec<f64> = other_load.map(|share| share * 100.0).collect();
        print_line(&format!("other processes, of one core: {}", spread(&other_load, "%", 0)));
        print_line("figures: medians of the rounds; ratios: medians of each round's ratio");
        for note in self.sections.iter().flat_map(|section| &section.notes) {
            print_line(note);
        }
    }
}

/// The median; NaN without values.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        len if len % 2 == 1 => sorted[len / 2],
        len => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
    }
}

/// The median of the ratios of figure and baseline in each round.
pub(crate) fn median_ratio(figures: &[f64], baseline: &[f64]) -> f64 {
    let ratios: Vec<f64> =
        figures.iter().zip(baseline).map(|(figure, base)| figure / base).collect();
    median(&ratios)
}

/// A text with the median, the minimum and the maximum.
pub(crate) fn spread(values: &[f64], unit: &str, digits: usize) -> String {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{:.digits$} {unit} ({least:.digits$} to {most:.digits$})", median(values))
}

/// Formats a number without decimals and with thousands separators.
pub(crate) fn grouped(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Prints a line.
#[expect(clippy::print_stdout, reason = "the program exists to print the table")]
pub(crate) fn print_line(line: &str) {
    println!("{line}");
}
