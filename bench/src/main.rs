//! Benchmarks in one command: starts the real binaries, measures them and baselines in the same run, and
//! prints one table. Only the bare SQLite loop is measured inside this process.

mod bare;
mod benches;
mod caller;
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
mod stats;
mod table;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::paths::Paths;
use crate::peers::Peers;
use crate::scale::Scale;
use crate::table::Report;

/// The server's allocator, so that baselines do not differ by it.
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
    /// Keeps the seeded databases in this folder and reuses those that exist
    #[arg(long, global = true, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Leaves out the peers from npm, which are installed on first use
    #[arg(long, global = true)]
    without_peers: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Clone, Copy, PartialEq)]
enum What {
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
    /// A fan-out with unregistered tokens, failures and broken connections, and one without
    Trouble,
    /// Peak memory of a fan-out to many devices and to few
    Memory,
    /// Device statistics over many devices and over few
    Statistics,
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
    // One thread, so that the load generator leaves the cores to the measured processes.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let what = arguments.what.unwrap_or(What::All);
    let wanted = |row: What| what == row || what == What::All;
    match &what {
        What::Sandbox { journal } => return servers::serve_sandbox(*journal).await,
        What::BareClient => return bare::h2_client::serve().await,
        What::BarePages => return bare::pages::serve().await,
        What::BareWebPush => return bare::web_push::serve().await,
        What::InstantProvider => return instant_provider::serve().await,
        _ => {}
    }
    let mut scale = if arguments.quick { Scale::quick() } else { Scale::full() };
    scale.rounds = arguments.rounds.unwrap_or(scale.rounds);
    let paths = Paths::find(arguments.seeds)?;
    let has_peers = [What::Send, What::WebPush, What::Queue].into_iter().any(wanted);
    let peers = Peers::find(has_peers && !arguments.without_peers);
    let mut report = Report::default();
    if wanted(What::Accept) {
        report.add(benches::accept::run(&scale, &paths).await?);
    }
    if wanted(What::Single) {
        report.add(benches::single::run(&scale, &paths).await?);
    }
    if wanted(What::Send) {
        report.add(benches::send::run(&scale, &paths, &peers).await?);
    }
    if wanted(What::WebPush) {
        report.add(benches::web_push::run(&scale, &paths, &peers).await?);
    }
    if wanted(What::Queue) {
        report.add(benches::queue::run(&scale, &paths, &peers).await?);
    }
    if wanted(What::FanOut) {
        report.add(benches::fan_out::run(&scale, &paths).await?);
    }
    if wanted(What::Trouble) {
        report.add(benches::trouble::run(&scale, &paths).await?);
    }
    if wanted(What::Memory) {
        report.add(benches::memory::run(&scale, &paths).await?);
    }
    if wanted(What::Statistics) {
        report.add(benches::statistics::run(&scale, &paths).await?);
    }
    if wanted(What::Enrichment) {
        report.add(benches::enrichment::run(&scale, &paths).await?);
    }
    if wanted(What::Databases) {
        report.add(benches::databases::run(&scale, &paths).await?);
    }
    report.print();
    Ok(())
}
