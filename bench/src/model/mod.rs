//! What many devices would take: unit costs that were measured, multiplied. Measures nothing itself,
//! and says of each number where it is from. `docs/scale.md` shows what it prints.

mod forecast;
mod limits;
#[cfg(test)]
mod tests;
mod units;
mod workload;

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use crate::table::{grouped, say};
use forecast::Forecast;
use limits::limits;
use units::{Origin, Units};
use workload::Workload;

/// What is to be modelled.
#[derive(Args, Debug, Clone, PartialEq)]
pub(crate) struct Question {
    /// Devices; several times for several columns
    #[arg(long, default_values_t = [10_000_000, 1_000_000_000])]
    devices: Vec<u32>,
    /// Minutes in which one notification is to reach everybody
    #[arg(long, default_value_t = 60.0)]
    minutes: f64,
    /// Notifications of a device and day
    #[arg(long, default_value_t = 3.0)]
    a_day: f64,
}

/// Prints the model as tables of Markdown.
///
/// # Errors
/// When the question asks for no devices, or for no time.
pub(crate) fn run(question: &Question) -> anyhow::Result<()> {
    anyhow::ensure!(question.minutes > 0.0, "--minutes must be more than 0");
    anyhow::ensure!(question.a_day >= 0.0, "--a-day must be 0 or more");
    anyhow::ensure!(!question.devices.contains(&0), "--devices must be at least 1");
    let units = Units::SEEN;
    let loads: Vec<_> = question
        .devices
        .iter()
        .map(|devices| Workload {
            broadcast_minutes: question.minutes,
            told_a_day: question.a_day,
            ..Workload::usual(f64::from(*devices))
        })
        .collect();
    say(&unit_table(&units));
    say(&format!("\n{}", forecast_table(&loads, &units)));
    for load in &loads {
        say(&format!("\n{}", limit_table(load, &units)));
    }
    Ok(())
}

fn unit_table(units: &Units) -> String {
    let mut table = table(["what", "value", "from"]);
    for unit in units.all() {
        let from = match unit.origin {
            Origin::Measured(by) => format!("measured: {by}"),
            Origin::Given(by) => format!("given: {by}"),
            Origin::Assumed(why) => format!("**assumed**: {why}"),
        };
        let value = match unit.unit {
            "bytes" => bytes(unit.value),
            name => format!("{} {name}", short(unit.value)),
        };
        table.add_row([unit.name, value.trim_end(), &from]);
    }
    table.to_string()
}

fn forecast_table(loads: &[Workload], units: &Units) -> String {
    let mut head = vec!["modelled".to_owned()];
    head.extend(loads.iter().map(|load| format!("{} devices", grouped(load.devices))));
    let mut table = table(head);
    let forecasts: Vec<_> = loads.iter().map(|load| Forecast::of(load, units)).collect();
    let mut row = |name: &str, cell: &dyn Fn(&Forecast) -> String| {
        let mut cells = vec![name.to_owned()];
        cells.extend(forecasts.iter().map(cell));
        table.add_row(cells);
    };
    let number = |value: f64| grouped(value.ceil());
    row("deliveries a second of a broadcast", &|one| number(one.broadcast_per_second));
    row("messages in flight then", &|one| number(one.in_flight));
    row("connections to the largest provider", &|one| number(one.connections));
    row("bytes a second to and from providers", &|one| bytes(one.wire_per_second));
    row("registrations in the busiest second", &|one| number(one.registrations_per_second));
    row("cores of servers, at the planned load", &|one| short(one.cores));
    row("servers", &|one| number(one.servers(units.server_cores.value)));
    row("memory of all servers", &|one| {
        bytes(one.servers(units.server_cores.value) * units.server_bytes.value)
    });
    row("writes a second", &|one| number(one.writes_per_second));
    row("the one writer of PostgreSQL is busy", &|one| {
        format!("{} %", short(one.writer_busy * 100.0))
    });
    row("database: devices", &|one| bytes(one.devices_bytes));
    row("database: everything, SQLite", &|one| bytes(one.sqlite_bytes));
    row("database: everything, PostgreSQL", &|one| bytes(one.postgres_bytes));
    row("minutes of a broadcast by FCM's quota", &|one| number(one.fcm_seconds / 60.0));
    table.to_string()
}

fn limit_table(load: &Workload, units: &Units) -> String {
    let head = format!("{} devices: limits, the first one first", grouped(load.devices));
    let mut table = table([head.as_str(), "used", "moved by"]);
    for limit in limits(load, units, &Forecast::of(load, units)) {
        let used = format!("{} ×", short(limit.used));
        table.add_row([limit.name, &used, limit.moved_by]);
    }
    table.to_string()
}

fn table<T: Into<comfy_table::Cell>>(head: impl IntoIterator<Item = T>) -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_content_arrangement(comfy_table::ContentArrangement::Disabled);
    table.set_header(head.into_iter().map(Into::into).collect::<Vec<_>>());
    table
}

/// Bytes with the unit that leaves at most three digits before the point.
fn bytes(count: f64) -> String {
    let mut rest = count;
    for unit in ["B", "kB", "MB", "GB"] {
        if rest < 1_000.0 {
            return format!("{} {unit}", short(rest));
        }
        rest /= 1_000.0;
    }
    format!("{} TB", short(rest))
}

/// A number with two digits that count, or all before the point.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 10.0 || size.fract() == 0.0 => 0,
        size if size >= 1.0 => 1,
        size if size >= 0.1 => 2,
        _ => 3,
    };
    let text = format!("{value:.digits$}");
    match digits {
        0 => grouped(value),
        _ => text,
    }
}
