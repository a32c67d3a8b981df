//! `notify`: the command of people and scripts that run a Notify server. It decides nothing that
//! the server decides; it reads arguments, calls the SDK and shows what comes back.

mod address;
mod args;
mod campaign_files;
mod commands;
mod confirm;
mod connection;
mod failure;
mod import;
mod input;
mod output;
mod profiles;
mod session;

use std::process::ExitCode;

use clap::Parser;

use crate::{
    args::{Cli, Command},
    failure::Failure,
    output::Output,
    session::Session,
};

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = args::with_tip(error);
            // Help goes to stdout and ends well; a closed pipe is no failure either way.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE));
        }
    };
    let mut session = Session::new(cli.connection, Output::stdout(cli.output));
    match run(cli.command, &mut session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // What was shown before it comes before it; that it cannot be written is no news now.
            let _ = session.out.flush();
            for line in failure.lines(session.server()) {
                output::complain(&line);
            }
            ExitCode::from(failure.status())
        }
    }
}

fn run(command: Command, session: &mut Session) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(commands::run(command, session));
    // A thread that still waits for standard input must not hold the process.
    runtime.shutdown_background();
    outcome.and_then(|()| session.out.flush())
}
