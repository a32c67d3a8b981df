//! PostgreSQL with one server and with two servers, compared with SQLite; and the move of an installation to
//! PostgreSQL and back.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, ensure};

use crate::benches::accept::{accepts, new_devices, registrations};
use crate::benches::messages::PROVIDERS;
use crate::caller::Caller;
use crate::cpu_limit::CpuLimit;
use crate::http_load::{MakeRequest, load};
use crate::paths::Paths;
use crate::postgres::Postgres;
use crate::proc::{Cost, Costs, OtherLoad, Usage, flush_p50, written};
use crate::scale::Scale;
use crate::seed::{Seed, notification, set_registered_now};
use crate::servers::{Sandbox, Server};
use crate::table::{Goal, Line, Section, grouped, median, median_ratio, print_line};

/// The costs of one kind of work.
#[derive(Default)]
struct Work {
    /// With the CPU time of the servers and of PostgreSQL.
    costs: Costs,
    /// The CPU time of PostgreSQL for each operation, in microseconds.
    postgres: Vec<f64>,
}

/// The measurements of the fan-outs on one database.
#[derive(Default)]
struct FanOut {
    work: Work,
    /// The commits of the servers for each 1,000 devices.
    commits: Vec<f64>,
    /// The bytes written to disk for each device.
    bytes: Vec<f64>,
}

/// The measurements on one kind of database.
#[derive(Default)]
struct Kind {
    notify: Work,
    changed: Work,
    unchanged: Work,
    new: Work,
    /// The bytes of the log of PostgreSQL for each changed registration.
    log_bytes: Vec<f64>,
    /// Accepts with [`CONNECTIONS_MANY`] connections, which are divided among the servers. The CPU time
    /// is that of the servers alone.
    accepts_one: Costs,
    accepts_two: Costs,
    /// The same with servers that get [`SERVER_CPU_PERCENT`] of a core each.
    limited_one: Costs,
    limited_two: Costs,
    one: FanOut,
    two: FanOut,
}

/// The number of connections with which one server and two servers are compared.
const CONNECTIONS_MANY: usize = 256;
/// The share of a core that a server gets where servers do not take CPU time from each other. Two such
/// servers, PostgreSQL and the load generator fit on two cores.
const SERVER_CPU_PERCENT: u64 = 25;

/// A database, and the folder with its master key.
pub(crate) struct Database<'p> {
    pub(crate) paths: &'p Paths,
    pub(crate) seed: &'p Seed,
    pub(crate) folder: &'p Path,
    pub(crate) postgres: Option<&'p Postgres>,
}

/// The requests of all rounds. Each generator goes on counting where it stopped, so that a changed registration
/// is a change in every round.
struct Requests {
    notify: MakeRequest,
    changed: MakeRequest,
    unchanged: MakeRequest,
    new: MakeRequest,
}

impl Requests {
    fn new(seed: &Seed, devices: u64) -> Self {
        Self {
            notify: accepts(seed),
            changed: registrations(seed, devices, true),
            unchanged: registrations(seed, devices, false),
            new: new_devices(seed, devices),
        }
    }
}

/// Runs the benchmark and returns its section of the report.
pub(crate) async fn run(scale: &Scale, paths: &Paths) -> anyhow::Result<Section> {
    let mut section = Section::default();
    let postgres = match Postgres::start(paths)? {
        Ok(postgres) => postgres,
        Err(missing) => {
            section.notes.push(format!("databases: missing ({missing})"));
            return Ok(section);
        }
    };
    let seed = Seed::with(paths, scale.devices_many).await?;
    let (file, moved) = (seed.copy(paths)?, seed.copy(paths)?);
    for folder in [&file, &moved] {
        set_registered_now(folder.path())?;
    }
    let there = move_installation(paths, moved.path(), &postgres.url(), None)?;
    let sqlite_database = Database { paths, seed: &seed, folder: file.path(), postgres: None };
    let postgres_database =
        Database { paths, seed: &seed, folder: moved.path(), postgres: Some(&postgres) };
    let (mut sqlite, mut on_postgres) = (Kind::default(), Kind::default());
    let requests = Requests::new(&seed, scale.devices_many);
    let limits_work = match CpuLimit::new(SERVER_CPU_PERCENT) {
        Ok(_) => true,
        Err(missing) => {
            section.notes.push(format!("databases: servers with limited CPU: missing ({missing})"));
            false
        }
    };
    for _ in 0..scale.rounds {
        let other_load = OtherLoad::watch()?;
        section.flushes.push(flush_p50(paths.disk())?);
        sqlite_database.accept(scale, &requests, &mut sqlite).await?;
        postgres_database.accept(scale, &requests, &mut on_postgres).await?;
        let Kind { accepts_one, accepts_two, limited_one, limited_two, .. } = &mut on_postgres;
        postgres_database.accept_with(1, scale, None, &requests.notify, accepts_one).await?;
        postgres_database.accept_with(2, scale, None, &requests.notify, accepts_two).await?;
        if limits_work {
            let limit = Some(SERVER_CPU_PERCENT);
            postgres_database.accept_with(1, scale, limit, &requests.notify, limited_one).await?;
            postgres_database.accept_with(2, scale, limit, &requests.notify, limited_two).await?;
        }
        sqlite_database.fan_out(scale.devices_many, 1, &mut sqlite.one).await?;
        postgres_database.fan_out(scale.devices_many, 1, &mut on_postgres.one).await?;
        postgres_database.fan_out(scale.devices_many, 2, &mut on_postgres.two).await?;
        section.flushes.push(flush_p50(paths.disk())?);
        section.other_load.push(other_load.share()?);
    }
    let back = paths.folder()?;
    let to = format!("sqlite:{}", back.path().join("notify.db").display());
    let back = move_installation(paths, moved.path(), &to, Some(&postgres.url()))?;
    section.lines = lines(scale, (&sqlite, &on_postgres), (&there, &back));
    section.notes.push(
        "databases: CPU is that of the servers and of PostgreSQL together; PostgreSQL runs with its default \
         settings, and the servers compress its log; sandbox and load generator share the cores with them; \
         bytes are what the servers and PostgreSQL wrote to disk: on PostgreSQL up to a checkpoint, on SQLite \
         the log and the pages that were already copied from it into the database file"
            .to_owned(),
    );
    Ok(section)
}

/// The number of rows of a moved installation, and the rate of the move with its final comparison.
pub(crate) struct MoveResult {
    rows: u64,
    per_second: f64,
}

pub(crate) fn move_installation(
    paths: &Paths,
    data: &Path,
    to: &str,
    from: Option<&str>,
) -> anyhow::Result<MoveResult> {
    print_line(&format!("moving {}", if from.is_some() { "back" } else { "to PostgreSQL" }));
    let mut command = Command::new(&paths.server);
    command.arg("move").arg("--data-dir").arg(data).env("NOTIFY_MOVE_TO", to);
    if let Some(url) = from {
        command.env("NOTIFY_DATABASE_URL", url);
    }
    let started = Instant::now();
    let output = command.output()?;
    let seconds = started.elapsed().as_secs_f64();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let stdout = String::from_utf8(output.stdout)?;
    let line = stdout.lines().find_map(|line| line.strip_prefix("both databases hold the same "));
    let rows = line.and_then(|line| line.split(' ').next()).context("a line with the rows")?;
    let rows: u64 = rows.parse()?;
    Ok(MoveResult { rows, per_second: rows as f64 / seconds })
}

/// What the servers and PostgreSQL have used.
#[derive(Clone, Copy)]
pub(crate) struct Used {
    pub(crate) all: Usage,
    /// The part of PostgreSQL.
    of_postgres: Usage,
}

impl Work {
    /// Adds a measurement, with the CPU time between `before` and `after`.
    fn add(&mut self, cost: Cost, before: Used, after: Used) {
        self.costs.0.push(Cost { cpu_us: after.all.cpu_us - before.all.cpu_us, ..cost });
        let of_postgres = after.of_postgres.cpu_us - before.of_postgres.cpu_us;
        self.postgres.push(of_postgres as f64 / cost.count as f64);
    }

    /// A text with the rate and the CPU time of an operation.
    fn text(&self) -> String {
        let of_postgres = median(&self.postgres);
        let part = if of_postgres > 0.0 {
            format!(", of which PostgreSQL {of_postgres:.1} µs")
        } else {
            String::new()
        };
        format!("{}{part}", self.costs.text())
    }
}

impl Database<'_> {
    pub(crate) fn serve(&self) -> anyhow::Result<Server> {
        let url = self.postgres.map(Postgres::url);
        Ok(Server::start_on(self.paths, self.folder, url.as_deref())?.0)
    }

    /// What the servers and PostgreSQL have used so far.
    pub(crate) fn usage(&self, servers: &[Server]) -> anyhow::Result<Used> {
        let of_postgres = match self.postgres {
            Some(postgres) => postgres.usage()?,
            None => Usage { cpu_us: 0, written: 0 },
        };
        let mut all = of_postgres;
        for server in servers {
            all.cpu_us += crate::proc::cpu_us(server.id())?;
            all.written += written(server.id())?;
        }
        Ok(Used { all, of_postgres })
    }

    /// Measures durable accepts over many connections.
    async fn accept(
        &self,
        scale: &Scale,
        requests: &Requests,
        kind: &mut Kind,
    ) -> anyhow::Result<()> {
        let servers = [self.serve()?];
        let target = (servers[0].address, servers[0].id());
        // Not measured: a new process of PostgreSQL maps each page of the shared memory at its first use, and the
        // caches of both databases are cold.
        load(target, scale.connections, scale.phase, &requests.unchanged).await?;
        for (make, work) in [
            (&requests.notify, &mut kind.notify),
            (&requests.unchanged, &mut kind.unchanged),
            (&requests.changed, &mut kind.changed),
            (&requests.new, &mut kind.new),
        ] {
            if let Some(postgres) = self.postgres {
                postgres.settle()?;
            }
            let (before, log_before) = (self.usage(&servers)?, self.log_bytes()?);
            let cost = load(target, scale.connections, scale.phase, make).await?;
            work.add(cost, before, self.usage(&servers)?);
            if Arc::ptr_eq(make, &requests.changed) {
                let log_bytes = self.log_bytes()?.saturating_sub(log_before);
                kind.log_bytes.push(log_bytes as f64 / cost.count as f64);
            }
        }
        let [server] = servers;
        server.stop()
    }

    /// The size of the log of PostgreSQL so far; 0 on SQLite.
    fn log_bytes(&self) -> anyhow::Result<u64> {
        let Some(postgres) = self.postgres else { return Ok(0) };
        let size = postgres.query_value("select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')")?;
        Ok(size.parse()?)
    }

    /// Measures durable accepts over [`CONNECTIONS_MANY`] connections to `count` servers.
    /// With `percent`, each server gets at most this share of a core.
    async fn accept_with(
        &self,
        count: usize,
        scale: &Scale,
        percent: Option<u64>,
        make: &MakeRequest,
        costs: &mut Costs,
    ) -> anyhow::Result<()> {
        // Dropped after the servers have stopped.
        let mut limits = Vec::new();
        let servers = (0..count).map(|_| self.serve()).collect::<anyhow::Result<Vec<_>>>()?;
        if let Some(percent) = percent {
            for server in &servers {
                let limit = CpuLimit::new(percent)?;
                limit.add(server.id())?;
                limits.push(limit);
            }
        }
        let mut loads = tokio::task::JoinSet::new();
        for server in &servers {
            let (target, make, phase) = ((server.address, server.id()), make.clone(), scale.phase);
            let connections = CONNECTIONS_MANY / count;
            loads.spawn(async move { load(target, connections, phase, &make).await });
        }
        let mut sum = Cost { count: 0, wall: scale.phase, cpu_us: 0 };
        while let Some(cost) = loads.join_next().await {
            let cost = cost??;
            sum.count += cost.count;
            sum.cpu_us += cost.cpu_us;
            sum.wall = sum.wall.max(cost.wall);
        }
        costs.0.push(sum);
        servers.into_iter().try_for_each(Server::stop)
    }

    /// Measures one notification to every device, with `count` servers.
    async fn fan_out(&self, devices: u64, count: usize, all: &mut FanOut) -> anyhow::Result<()> {
        let sandbox = Sandbox::start(0)?;
        let servers = (0..count).map(|_| self.serve()).collect::<anyhow::Result<Vec<_>>>()?;
        let caller = Caller { address: servers[0].address, keys: self.seed.keys.clone() };
        caller.configure_providers(&sandbox, &PROVIDERS).await?;
        let body = notification(&["android", "ios"], None);
        // The first fan-out of a server costs more than later ones, so it is not measured.
        caller.fan_out(&body, devices).await?;
        check_accepted(&sandbox, devices).await?;
        if let Some(postgres) = self.postgres {
            // All earlier changes are written now, so that they are not counted.
            postgres.settle()?;
        }
        let (before, commits_before) = (self.usage(&servers)?, commits(&servers).await?);
        let started = Instant::now();
        caller.fan_out(&body, devices).await?;
        let wall = started.elapsed();
        let commits = commits(&servers).await? - commits_before;
        if let Some(postgres) = self.postgres {
            postgres.query_value("checkpoint")?;
        }
        let after = self.usage(&servers)?;
        check_accepted(&sandbox, devices).await?;
        all.work.add(Cost { count: devices, wall, cpu_us: 0 }, before, after);
        all.commits.push(commits as f64 * 1_000.0 / devices as f64);
        let bytes = after.all.written.saturating_sub(before.all.written);
        all.bytes.push(bytes as f64 / devices as f64);
        servers.into_iter().try_for_each(Server::stop)
    }
}

/// Checks that the sandbox accepted a message for each device since the last check.
async fn check_accepted(sandbox: &Sandbox, devices: u64) -> anyhow::Result<()> {
    let accepted = sandbox.take_accepted().await?;
    ensure!(accepted.tokens == devices, "accepted {}", accepted.tokens);
    Ok(())
}

async fn commits(servers: &[Server]) -> anyhow::Result<u64> {
    let mut sum = 0;
    for server in servers {
        sum += server.commits().await?;
    }
    Ok(sum)
}

fn lines(
    scale: &Scale,
    (sqlite, postgres): (&Kind, &Kind),
    (there, back): (&MoveResult, &MoveResult),
) -> Vec<Line> {
    let devices = grouped(scale.devices_many as f64);
    let written_text = |out: &FanOut| {
        format!(
            "{:.2} commits per 1,000 devices, {:.1} bytes per device",
            median(&out.commits),
            median(&out.bytes)
        )
    };
    let moved = |moved: &MoveResult| {
        format!("{} rows, {}/s", grouped(moved.rows as f64), grouped(moved.per_second))
    };
    let mut lines = accept_lines(scale, sqlite, postgres);
    let (file, one, two) = (&sqlite.one, &postgres.one, &postgres.two);
    lines.extend([
        line(
            format!("fan-out, {devices} devices"),
            format!("PostgreSQL, one server: {}", one.work.text()),
            format!("SQLite: {}", file.work.text()),
            one.work.costs.cpu_ratio(&file.work.costs),
            Goal::Open,
        ),
        line(
            format!("fan-out, {devices} devices"),
            format!("PostgreSQL, two servers: {}", two.work.text()),
            format!("one server: {}", one.work.text()),
            two.work.costs.cpu_ratio(&one.work.costs),
            Goal::Open,
        ),
        line(
            "the same, written".to_owned(),
            format!("PostgreSQL, one server: {}", written_text(one)),
            format!("SQLite: {}", written_text(file)),
            median_ratio(&one.bytes, &file.bytes),
            Goal::Open,
        ),
        line(
            "the same, written".to_owned(),
            format!("PostgreSQL, two servers: {}", written_text(two)),
            format!("one server: {}", written_text(one)),
            median_ratio(&two.bytes, &one.bytes),
            Goal::Open,
        ),
        line(
            format!("move of {devices} devices, compared"),
            format!("to PostgreSQL: {}", moved(there)),
            format!("back to SQLite: {}", moved(back)),
            there.per_second / back.per_second,
            Goal::Open,
        ),
    ]);
    lines
}

/// The lines about accepted requests. The ratio is that of the CPU time; for one server and two servers it is
/// that of the rates.
fn accept_lines(scale: &Scale, sqlite: &Kind, postgres: &Kind) -> Vec<Line> {
    let many = scale.connections;
    let devices = grouped(scale.devices_many as f64);
    let accepts = [
        ("POST /v1/notifications, 600 B", &postgres.notify, &sqlite.notify, 1.5),
        ("POST /v1/devices, changed", &postgres.changed, &sqlite.changed, 1.5),
        ("POST /v1/devices, unchanged", &postgres.unchanged, &sqlite.unchanged, 1.2),
        ("POST /v1/devices, new", &postgres.new, &sqlite.new, 2.0),
    ];
    let mut lines: Vec<Line> = accepts
        .into_iter()
        .map(|(what, ours, baseline, most)| {
            line(
                format!("{what}, {many} connections, {devices} devices present"),
                format!("PostgreSQL: {}", ours.text()),
                format!("SQLite: {}", baseline.text()),
                ours.costs.cpu_ratio(&baseline.costs),
                Goal::AtMost(most),
            )
        })
        .collect();
    let log_bytes = median(&postgres.log_bytes);
    lines.push(line(
        "bytes of the log for each changed registration".to_owned(),
        format!("PostgreSQL: {}", grouped(log_bytes)),
        "–".to_owned(),
        log_bytes,
        Goal::BytesAtMost(7_000.0),
    ));
    let limited = format!(", {SERVER_CPU_PERCENT} % of a core for each server");
    for (with, one, two, goal) in [
        ("", &postgres.accepts_one, &postgres.accepts_two, Goal::Open),
        (&*limited, &postgres.limited_one, &postgres.limited_two, Goal::AtLeast(1.3)),
    ] {
        lines.push(line(
            format!(
                "POST /v1/notifications, {CONNECTIONS_MANY} connections{with}; CPU of the servers alone"
            ),
            two.text_or("PostgreSQL, two servers", "no control groups of the CPU"),
            one.text_or("one server", "no control groups of the CPU"),
            median_ratio(&two.rates(), &one.rates()),
            goal,
        ));
    }
    lines
}

fn line(what: String, figure: String, baseline: String, ratio: f64, goal: Goal) -> Line {
    Line { row: "databases", what, figure, baseline, ratio, goal }
}
