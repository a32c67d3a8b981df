//! `notify completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{args::Cli, failure::Failure, session::Session};

/// Arguments of `notify completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell.
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(args: &Completions, session: &mut Session) -> Result<(), Failure> {
    // The generator panics on a closed pipe, so it writes to a buffer.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "notify", &mut script);
    session.out.text(&script)
}
