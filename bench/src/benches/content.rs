//! Content that differs from device to device: translated and personalised fan-outs compared with a plain one.
//! On SQLite and on PostgreSQL.

use std::path::Path;

use anyhow::Context;
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::benches::databases::{Database, move_installation};
use crate::benches::messages::PROVIDERS;
use crate::caller::Caller;
use crate::paths::Paths;
use crate::postgres::Postgres;
use crate::proc::{OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{Seed, notification};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

/// The CPU time of fan-outs on one kind of database, in microseconds for each device.
#[derive(Default)]
struct Measured {
    plain: Vec<f64>,
    translated: Vec<f64>,
    personalized: Vec<f64>,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let mut section = Section::default();
    let devices = scale.devices_many;
    let seed = Seed::with(paths, devices).await?;
    let (file, moved) = (seed.copy(paths)?, seed.copy(paths)?);
    give_attributes(file.path())?;
    give_attributes(moved.path())?;
    let on_file = Database { paths, seed: &seed, folder: file.path(), postgres: None };
    let mut all = vec![("SQLite", on_file, Measured::default())];
    let postgres = Postgres::start(paths)?;
    match &postgres {
        Ok(postgres) => {
            move_installation(paths, moved.path(), &postgres.url(), None)?;
            postgres.settle()?;
            let database =
                Database { paths, seed: &seed, folder: moved.path(), postgres: Some(postgres) };
            all.push(("PostgreSQL", database, Measured::default()));
        }
        Err(missing) => section.notes.push(format!("content on PostgreSQL: missing ({missing})")),
    }
    for round in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        for (_, database, measured) in &mut all {
            measure(database, devices, measured, round).await?;
        }
        section.other_load.push(other_load.share()?);
    }
    for (name, _, measured) in &all {
        section.lines.extend(lines(name, devices, measured));
    }
    Ok(section)
}

/// Gives every device two attributes.
fn give_attributes(folder: &Path) -> anyhow::Result<()> {
    let connection = Connection::open(folder.join("notify.db"))?;
    connection
        .execute_batch(
            "insert into attributes select no, 1, 'first_name' from apps;
             insert into attributes select no, 2, 'points' from apps;
             insert into device_attributes
             select key, 1, 's' || substr('AdaGraceLin', 1 + key % 3 * 3, 3 + key % 6), 1 from devices;
             insert into device_attributes select key, 2, 'n' || (key % 1000), 1 from devices;",
        )
        .context("giving attributes")
}

/// The notification with translations, of which the devices get one.
fn translated() -> Value {
    let mut body = notification(&["android", "ios"], None);
    let text = "Ihre Bestellung 4711-0815 hat heute Morgen unser Lager verlassen und ist auf dem Weg zu \
        Ihnen. Verfolgen Sie das Paket in der App.";
    body["translations"] = json!({
        "de": { "text": text, "title": "Unterwegs" },
        "fr": { "text": "Votre commande est en route." },
        "pt-BR": { "text": "Seu pedido está a caminho." },
    });
    body
}

/// The notification with two variables.
fn personalized() -> Value {
    let mut body = notification(&["android", "ios"], None);
    let text = body["text"].as_str().unwrap_or_default();
    body["text"] =
        format!("{{{{first_name|Hello}}}}: {text} You have {{{{points|no}}}} points.").into();
    body["personalize"] = true.into();
    body
}

async fn measure(
    database: &Database<'_>,
    devices: u64,
    measured: &mut Measured,
    round: usize,
) -> anyhow::Result<()> {
    let sandbox = Sandbox::start(0)?;
    let servers = [database.serve()?];
    let caller = Caller { address: servers[0].address, keys: database.seed.keys.clone() };
    caller.configure_providers(&sandbox, &PROVIDERS).await?;
    let mut fan_outs = [
        (notification(&["android", "ios"], None), &mut measured.plain),
        (translated(), &mut measured.translated),
        (personalized(), &mut measured.personalized),
    ];
    // The first fan-out of a server costs more than later ones, so each kind is the first in turn.
    let count = fan_outs.len();
    fan_outs.rotate_left(round % count);
    for (body, costs) in fan_outs {
        let before = database.usage(&servers)?.all.cpu_us;
        caller.fan_out(&body, devices).await?;
        let cpu_us = database.usage(&servers)?.all.cpu_us - before;
        costs.push(cpu_us as f64 / devices as f64);
    }
    servers.into_iter().try_for_each(Server::stop)
}

fn lines(name: &str, devices: u64, measured: &Measured) -> Vec<Line> {
    let baseline = format!("plain: CPU {:.2} µs each", median(&measured.plain));
    let line = |what: &str, costs: &[f64], goal: f64| Line {
        row: "content",
        what: format!("{name}, {} devices: fan-out, {what}", grouped(devices as f64)),
        figure: format!("CPU {:.2} µs each", median(costs)),
        baseline: baseline.clone(),
        ratio: median_ratio(costs, &measured.plain),
        goal: Goal::AtMost(goal),
    };
    vec![
        line("translated", &measured.translated, 1.05),
        line("with two variables", &measured.personalized, 1.5),
    ]
}
