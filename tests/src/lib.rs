//! The test kit: a whole server in this process or as a process of its own, with the sandbox as its
//! push providers.

mod audience;
mod backend;
mod caller;
mod checker;
mod chromium;
mod cluster;
mod command;
mod disk_fault;
mod fault_proxy;
mod journal;
mod kept;
mod ledger;
mod people;
mod process;
mod server;
mod site;
mod survivor;
mod tight_disk;
mod told;
mod wait;
mod world;

pub use audience::{android, browser, browser_endpoint, crowd, ios, register};
pub use backend::{Backend, Installation, Settings};
pub use caller::{Caller, Reply};
pub use checker::{Ended, Fate, History, Member, Told, Verdict};
pub use chromium::{Attached, Chromium};
pub use cluster::{Cluster, Frozen, StopMode};
pub use command::{Following, Notify, Output};
pub use disk_fault::DiskFault;
pub use fault_proxy::{Fault, FaultProxy, Side};
pub use journal::{Arrival, Journal};
pub use kept::Kept;
pub use ledger::{Asked, Entry, Ledger, Said};
pub use people::{Crowd, Tenant};
pub use process::{Launch, ServerProcess, back_up};
pub use server::{
    TestServer, configure_all, configure_providers, start_sandbox, start_sandbox_with,
};
pub use site::Site;
pub use survivor::Survivor;
pub use tight_disk::TightDisk;
pub use wait::{completed, tomorrow, until};
pub use world::{Route, World, body, routes, template};

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};

/// Longest time a test waits for an event before it counts as lost.
pub const WAIT_MAX: Duration = Duration::from_secs(60);

/// The binary of that name, built beside this test.
fn binary(name: &str) -> Result<PathBuf> {
    let here = std::env::current_exe()?;
    let found = here.ancestors().skip(1).take(3).map(|folder| folder.join(name));
    let found = found.into_iter().find(|path| path.is_file());
    found.with_context(|| format!("{name} is not built: run `cargo build --workspace --bins`"))
}
