//! `notify completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{args::Cli, failure::Failure, session::Session};

/// Arguments of `notify completions`.
#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// Which shell.
    shell: Shell,
}

/// Prints the completions.
pub(crate) fn run(args: &Completions, session: &mut Session) -> Result<(), Failure> {
    // The generator cannot handle a pipe that closes; a buffer can take it all.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "notify", &mut script);
    session.out.text(&script)
}
