//! All benchmarks in one command. It starts the real binaries, measures them and their baselines in the
//! same run, and prints one table. Everything runs in separate processes, except the bare SQLite loop,
//! which runs in this process.

mod bare;
mod benches;
mod caller;
mod cpu_limit;
mod http_load;
mod instant_provider;
mod paths;
mod peers;
mod postgres;
mod proc;
mod process;
mod scale;
mod seed;
mod servers;
mod table;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::paths::Paths;
use crate::peers::Peers;
use crate::scale::Scale;
use crate::table::Report;

/// The server's allocator. With another allocator, the baselines would not be comparable.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Notify and baselines, and prints one table.
#[derive(Parser)]
#[command(name = "notify-bench")]
struct Arguments {
    /// Uses small numbers that only prove that the benchmark works
    #[arg(long, global = true)]
    quick: bool,
    /// Interleaved rounds; at least three for usable figures
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// Devices of the large database, instead of the number of the scale
    #[arg(long, global = true, value_name = "N")]
    devices: Option<u64>,
    /// Keeps the seeded databases in this folder and reuses those that exist
    #[arg(long, global = true, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Leaves out the peers from npm, which are installed on first use
    #[arg(long, global = true)]
    without_peers: bool,
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
}

#[derive(Subcommand, Clone, Copy, PartialEq)]
enum Benchmark {
    /// Notifications to one device each until their outcomes are stored, and a POST that only stores
    Single,
    /// Durable notifications and registrations: 64 connections, one connection, bare SQLite
    Accept,
    /// A fan-out to FCM and APNs, a bare h2 client, node-apn
    Send,
    /// A fan-out to browsers, bare encryption and sending, npm's web-push
    WebPush,
    /// The queue without providers, graphile-worker on PostgreSQL
    Queue,
    /// A fan-out to many devices until its outcomes are durable, and its parts alone
    FanOut,
    /// A fan-out with a condition, few matching devices among many, and the size of a segment
    Audiences,
    /// Accepts of one application while another one looks at many devices, and alone
    Availability,
    /// Translated and personalised fan-outs, and a plain one
    Content,
    /// A fan-out with unregistered tokens, failures and broken connections, and one without
    Trouble,
    /// Peak memory of a fan-out to many devices and to few
    Memory,
    /// Device statistics over many devices and over few
    Statistics,
    /// Every page of the console, with many devices and notifications
    Console,
    /// An import of another system's export, and one in the server's own format
    Import,
    /// PostgreSQL with one server and with two, SQLite, and the move between them
    Databases,
    /// Enrichments over 64 connections, and a request that reads nothing
    Enrichment,
    /// Everything (the default)
    All,
    /// The fake providers, as a child process
    #[command(hide = true)]
    Sandbox {
        /// Messages that are kept in full
        journal: usize,
    },
    /// The bare h2 client, as a child process
    #[command(hide = true)]
    BareClient,
    /// The bare reading and writing of pages, as a child process
    #[command(hide = true)]
    BarePages,
    /// The bare sender of Web Push, as a child process
    #[command(hide = true)]
    BareWebPush,
    /// The engine with a provider that responds immediately, as a child process
    #[command(hide = true)]
    InstantProvider,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // The load generator uses one thread and leaves the other cores to the measured processes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let benchmark = arguments.benchmark.unwrap_or(Benchmark::All);
    let is_selected = |row: Benchmark| benchmark == row || benchmark == Benchmark::All;
    match &benchmark {
        Benchmark::Sandbox { journal } => return servers::serve_sandbox(*journal).await,
        Benchmark::BareClient => return bare::h2_client::serve().await,
        Benchmark::BarePages => return bare::pages::serve().await,
        Benchmark::BareWebPush => return bare::web_push::serve().await,
        Benchmark::InstantProvider => return instant_provider::serve().await,
        _ => {}
    }
    let mut scale = if arguments.quick { Scale::quick() } else { Scale::full() };
    scale.rounds = arguments.rounds.unwrap_or(scale.rounds);
    scale.devices_many = arguments.devices.unwrap_or(scale.devices_many);
    let paths = Paths::find(arguments.seeds)?;
    let needs_peers =
        [Benchmark::Send, Benchmark::WebPush, Benchmark::Queue].into_iter().any(is_selected);
    let peers = Peers::find(needs_peers && !arguments.without_peers);
    let mut report = Report::default();
    if is_selected(Benchmark::Accept) {
        report.add(benches::accept::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Single) {
        report.add(benches::single::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Send) {
        report.add(benches::send::run(&scale, &paths, &peers).await?);
    }
    if is_selected(Benchmark::WebPush) {
        report.add(benches::web_push::run(&scale, &paths, &peers).await?);
    }
    if is_selected(Benchmark::Queue) {
        report.add(benches::queue::run(&scale, &paths, &peers).await?);
    }
    if is_selected(Benchmark::FanOut) {
        report.add(benches::fan_out::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Audiences) {
        report.add(benches::audiences::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Availability) {
        report.add(benches::availability::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Content) {
        report.add(benches::content::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Trouble) {
        report.add(benches::trouble::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Memory) {
        report.add(benches::memory::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Statistics) {
        report.add(benches::statistics::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Console) {
        report.add(benches::console::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Enrichment) {
        report.add(benches::enrichment::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Import) {
        report.add(benches::import::run(&scale, &paths).await?);
    }
    if is_selected(Benchmark::Databases) {
        report.add(benches::databases::run(&scale, &paths).await?);
    }
    report.print();
    Ok(())
}
