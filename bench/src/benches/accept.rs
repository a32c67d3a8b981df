//! Durable notifications and registrations over 64 connections, compared with one connection, with a bare
//! rusqlite loop, and with a request that stores nothing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use notify_core::RegisterDevice;
use rusqlite::Connection;

use crate::bare::sqlite_loop::SqliteLoop;
use crate::http_load::{MakeRequest, load, write_request};
use crate::paths::Paths;
use crate::proc::{Costs, OtherLoad, flush_p50};
use crate::scale::Scale;
use crate::seed::{
    DAY_MS, DAYS, Seed, notification, now, registration, set_registered_now, splitmix64,
};
use crate::servers::Server;
use crate::table::{Goal, Line, Section, grouped, median, median_ratio};

fn text(costs: &Costs) -> String {
    rate_text(&costs.rates()) + &format!(", CPU {:.0} µs", median(&costs.cpu()))
}

fn rate_text(rates: &[f64]) -> String {
    format!("{}/s", grouped(median(rates)))
}

#[derive(Default)]
struct Measured {
    health: Costs,
    notify_one: Costs,
    notify: Costs,
    notify_bare: Vec<f64>,
    changed_one: Costs,
    changed: Costs,
    changed_bare: Vec<f64>,
    unchanged: Costs,
    /// Registrations of devices with five attributes each.
    changed_attributed: Costs,
    unchanged_attributed: Costs,
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let seed = Seed::with(paths, scale.devices_many).await?;
    let data = seed.copy(paths)?;
    set_registered_now(data.path())?;
    let bare_folder = paths.folder()?;
    let mut bare = SqliteLoop::open(bare_folder.path(), scale.devices_many, due_later())?;
    let (server, _) = Server::start(paths, data.path())?;
    let target = (server.address, server.id());
    let attributed_data = seed.copy(paths)?;
    set_registered_now(attributed_data.path())?;
    give_attributes(attributed_data.path())?;
    let (attributed_server, _) = Server::start(paths, attributed_data.path())?;
    let attributed = (attributed_server.address, attributed_server.id());
    let health = health();
    let notify = accepts(&seed);
    let [changed, unchanged] =
        [true, false].map(|is_changed| registrations(&seed, scale.devices_many, is_changed));

    let mut section = Section::default();
    let mut costs = Measured::default();
    let (many, phase) = (scale.connections, scale.phase);
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        costs.health.0.push(load(target, many, phase, &health).await?);
        costs.notify_one.0.push(load(target, 1, phase, &notify).await?);
        costs.notify.0.push(load(target, many, phase, &notify).await?);
        costs.notify_bare.push(bare.accept(phase)?);
        costs.changed_one.0.push(load(target, 1, phase, &changed).await?);
        costs.changed.0.push(load(target, many, phase, &changed).await?);
        costs.changed_bare.push(bare.register(phase)?);
        costs.unchanged.0.push(load(target, many, phase, &unchanged).await?);
        costs.changed_attributed.0.push(load(attributed, many, phase, &changed).await?);
        costs.unchanged_attributed.0.push(load(attributed, many, phase, &unchanged).await?);
        section.flushes.push(flush_p50(paths.disk())?);
        section.other_load.push(other_load.share()?);
    }
    server.stop()?;
    attributed_server.stop()?;
    section.lines = lines(scale, &costs);
    section.lines.extend(lines_with_attributes(&costs));
    section.notes.push(
        "accept: send_at is 30 days ahead, so that the accept alone is measured; no \
         Idempotency-Key; rates are wall, load generator and server share the cores"
            .to_owned(),
    );
    Ok(section)
}

fn lines(scale: &Scale, costs: &Measured) -> Vec<Line> {
    let many = scale.connections;
    let (notify, changed) = (&costs.notify, &costs.changed);
    let devices =
        format!("POST /v1/devices, changed, {} present", grouped(scale.devices_many as f64));
    let one = |costs: &Costs| format!("1 connection: {}", text(costs));
    let bare = |rates: &[f64]| format!("bare SQLite, 256 a commit: {}", rate_text(rates));
    let health = || format!("GET /healthz: {}", text(&costs.health));
    let figure = |costs: &Costs| format!("{many} connections: {}", text(costs));
    let rates = |costs: &Costs, baseline: &Costs| median_ratio(&costs.rates(), &baseline.rates());
    let cpu = |costs: &Costs, baseline: &Costs| median_ratio(&costs.cpu(), &baseline.cpu());
    let bare_ratio = |costs: &Costs, bare: &[f64]| median_ratio(&costs.rates(), bare);
    let notifications = "POST /v1/notifications, 600 B";
    vec![
        line(
            notifications,
            figure(notify),
            one(&costs.notify_one),
            rates(notify, &costs.notify_one),
            Goal::AtLeast(6.0),
        ),
        line(
            notifications,
            figure(notify),
            bare(&costs.notify_bare),
            bare_ratio(notify, &costs.notify_bare),
            Goal::AtLeast(0.6),
        ),
        line(
            "POST /v1/notifications, CPU",
            figure(notify),
            health(),
            cpu(notify, &costs.health),
            Goal::Open,
        ),
        line(
            &devices,
            figure(changed),
            one(&costs.changed_one),
            rates(changed, &costs.changed_one),
            Goal::AtLeast(6.0),
        ),
        line(
            &devices,
            figure(changed),
            bare(&costs.changed_bare),
            bare_ratio(changed, &costs.changed_bare),
            Goal::AtLeast(0.6),
        ),
        line(
            "POST /v1/devices, unchanged",
            figure(&costs.unchanged),
            format!("changed: {}", text(changed)),
            rates(&costs.unchanged, changed),
            Goal::AtLeast(5.0),
        ),
        line(
            "POST /v1/devices, unchanged, CPU",
            figure(&costs.unchanged),
            health(),
            cpu(&costs.unchanged, &costs.health),
            Goal::Open,
        ),
    ]
}

/// The registrations of devices with attributes, compared with those of devices without.
fn lines_with_attributes(costs: &Measured) -> [Line; 2] {
    let compared = |what: &str, with: &Costs, without: &Costs, most: f64| {
        line(
            &format!("POST /v1/devices, {what}, five attributes each, CPU"),
            text(with),
            format!("without attributes: {}", text(without)),
            median_ratio(&with.cpu(), &without.cpu()),
            Goal::AtMost(most),
        )
    };
    [
        compared("changed", &costs.changed_attributed, &costs.changed, 1.15),
        compared("unchanged", &costs.unchanged_attributed, &costs.unchanged, 1.02),
    ]
}

fn line(what: &str, figure: String, baseline: String, ratio: f64, goal: Goal) -> Line {
    Line { row: "accept", what: what.to_owned(), figure, baseline, ratio, goal }
}

/// Gives every device five attributes.
fn give_attributes(folder: &Path) -> anyhow::Result<()> {
    let connection = Connection::open(folder.join("notify.db"))?;
    for number in 1..=5 {
        connection
            .execute_batch(&format!(
                "insert into attributes select no, {number}, 'attribute_{number}' from apps;
                 insert into device_attributes select key, {number}, 'n' || (key % 1000), 1 from devices;"
            ))
            .context("giving attributes")?;
    }
    Ok(())
}

/// A notification that is due in 30 days, so that nothing is sent.
fn due_later() -> String {
    notification(&["android", "ios"], Some(now().plus_ms(DAYS * DAY_MS))).to_string()
}

/// Makes notifications that are only stored.
pub(crate) fn accepts(seed: &Seed) -> MakeRequest {
    let body = due_later();
    post("/v1/notifications", &seed.keys.api_key, move |_| body.clone().into_bytes())
}

fn health() -> MakeRequest {
    Arc::new(|_, into| write_request(into, ("GET", "/healthz"), &[], b""))
}

pub(crate) fn post(
    path: &'static str,
    key: &str,
    body: impl Fn(u64) -> Vec<u8> + Send + Sync + 'static,
) -> MakeRequest {
    let key = key.to_owned();
    Arc::new(move |number, into| {
        write_request(into, ("POST", path), &[("x-api-key", &key)], &body(number));
    })
}

/// Makes registrations of random devices. Changed and unchanged registrations use different halves of the
/// devices. The halves alternate in pairs of devices, so both are spread over the whole table.
pub(crate) fn registrations(seed: &Seed, devices: u64, is_changed: bool) -> MakeRequest {
    let next = AtomicU64::new(0);
    post("/v1/devices", &seed.keys.api_key, move |_| {
        let nth = next.fetch_add(1, Ordering::Relaxed);
        // Of four devices, the first two are in the unchanged half and the last two in the changed half.
        // Each pair has both platforms.
        let group = splitmix64(nth) % devices / 4 * 4;
        let number = group + (splitmix64(!nth) & 1) + if is_changed { 2 } else { 0 };
        let version = if is_changed { nth + 1 } else { 0 };
        serde_json::to_vec(&registration(number, version)).unwrap_or_default()
    })
}

/// Makes registrations of new devices. They are disabled by their users, so that no later fan-out sends to
/// them. Their numbers follow those of the `devices` that exist.
pub(crate) fn new_devices(seed: &Seed, devices: u64) -> MakeRequest {
    let next = AtomicU64::new(devices);
    post("/v1/devices", &seed.keys.api_key, move |_| {
        let device = registration(next.fetch_add(1, Ordering::Relaxed), 0);
        let device = RegisterDevice { push_disabled: Some(true), ..device };
        serde_json::to_vec(&device).unwrap_or_default()
    })
}
