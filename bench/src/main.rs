//! The figures of the product by one command: starts the real binaries, measures them beside bare
//! peers in the same run, and prints one table. Measures nothing inside its own process but the
//! bare SQLite loop.

mod bare;
mod benches;
mod caller;
mod http_load;
mod instant_provider;
mod model;
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

use crate::paths::Place;
use crate::peers::Peers;
use crate::scale::Scale;
use crate::table::Report;

/// The server's, so that nothing beside it differs by that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Measures Notify beside bare peers and prints one table.
#[derive(Parser)]
#[command(name = "notify-bench")]
struct Arguments {
    /// Small numbers that only prove that it works
    #[arg(long, global = true)]
    quick: bool,
    /// Interleaved rounds; three at least for figures
    #[arg(long, global = true)]
    rounds: Option<usize>,
    /// Keeps the seeded databases in this folder, and takes up those that are there
    #[arg(long, global = true, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Leaves out the peers from npm, which are installed on first use
    #[arg(long, global = true)]
    without_peers: bool,
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Clone, PartialEq)]
enum What {
    /// A notification to one device each until its outcome is stored, beside a POST that only stores
    Single,
    /// Durable notifications and registrations, 64 connections beside one and beside bare SQLite
    Accept,
    /// A fan-out to FCM and APNs beside a bare h2 client and node-apn
    Send,
    /// A fan-out to browsers beside bare encryption and sending, and npm's web-push
    WebPush,
    /// The queue without providers beside graphile-worker on PostgreSQL
    Queue,
    /// A fan-out to many devices until its outcomes are durable, beside its parts alone
    FanOut,
    /// A fan-out with dead tokens, failures and broken connections, beside one without
    Trouble,
    /// Peak memory of a fan-out to many devices beside few
    Memory,
    /// Device statistics over many devices beside few
    Statistics,
    /// PostgreSQL with one server and with two beside SQLite, and the move from one to the other
    Databases,
    /// Answers of enrichment, 64 connections, beside a request that touches nothing
    Enrichment,
    /// What many devices would take, by the unit costs that were measured; measures nothing
    ScaleModel(model::Question),
    /// Everything (the default)
    All,
    /// The fake providers, as a child process
    #[command(hide = true)]
    Sandbox {
        /// Messages that are kept in full
        journal: usize,
    },
    /// The bare h2 client, as a child process that reads its orders from standard input
    #[command(hide = true)]
    BareClient,
    /// The bare reading and writing of pages, as a child process
    #[command(hide = true)]
    BarePages,
    /// The bare sender of Web Push, as a child process
    #[command(hide = true)]
    BareWebPush,
    /// The engine with a provider that answers at once, as a child process
    #[command(hide = true)]
    AtOnce,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // One thread: the load generator must leave the machine to what is measured.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let what = arguments.what.unwrap_or(What::All);
    let wanted = |row: What| what == row || what == What::All;
    match &what {
        What::ScaleModel(question) => return model::run(question),
        What::Sandbox { journal } => return servers::serve_sandbox(*journal).await,
        What::BareClient => return bare::h2_client::serve().await,
        What::BarePages => return bare::pages::serve().await,
        What::BareWebPush => return bare::web_push::serve().await,
        What::AtOnce => return instant_provider::serve().await,
        _ => {}
    }
    let mut scale = if arguments.quick { Scale::quick() } else { Scale::full() };
    scale.rounds = arguments.rounds.unwrap_or(scale.rounds);
    let place = Place::find(arguments.seeds)?;
    let has_peers = [What::Send, What::WebPush, What::Queue].into_iter().any(wanted);
    let peers = Peers::find(has_peers && !arguments.without_peers);
    let mut report = Report::default();
    if wanted(What::Accept) {
        report.add(benches::accept::run(&scale, &place).await?);
    }
    if wanted(What::Single) {
        report.add(benches::single::run(&scale, &place).await?);
    }
    if wanted(What::Send) {
        report.add(benches::send::run(&scale, &place, &peers).await?);
    }
    if wanted(What::WebPush) {
        report.add(benches::web_push::run(&scale, &place, &peers).await?);
    }
    if wanted(What::Queue) {
        report.add(benches::queue::run(&scale, &place, &peers).await?);
    }
    if wanted(What::FanOut) {
        report.add(benches::fan_out::run(&scale, &place).await?);
    }
    if wanted(What::Trouble) {
        report.add(benches::trouble::run(&scale, &place).await?);
    }
    if wanted(What::Memory) {
        report.add(benches::memory::run(&scale, &place).await?);
    }
    if wanted(What::Statistics) {
        report.add(benches::statistics::run(&scale, &place).await?);
    }
    if wanted(What::Enrichment) {
        report.add(benches::enrichment::run(&scale, &place).await?);
    }
    if wanted(What::Databases) {
        report.add(benches::databases::run(&scale, &place).await?);
    }
    report.print();
    Ok(())
}
