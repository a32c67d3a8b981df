//! The test kit: a whole server in this process or as a process of its own, with the sandbox as its
//! push providers.

mod process;
mod server;

pub use process::ServerProcess;
pub use server::TestServer;

use std::time::Duration;

/// Longest time a test waits for an event before it counts as lost.
pub const WAIT_MAX: Duration = Duration::from_secs(60);
