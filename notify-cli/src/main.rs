//! `notify`: the command-line client of a Notify server. It parses arguments, calls the SDK and prints the
//! results. All rules for requests are those of the server.

mod args;
mod attribute;
mod campaign_files;
mod commands;
mod confirm;
mod connection;
mod failure;
mod files;
mod import;
mod input;
mod output;
mod profiles;
mod session;

use std::process::ExitCode;

use crate::{args::Action, failure::Failure, output::Output, session::Session};

fn main() -> ExitCode {
    let cli = match args::parse(std::env::args_os()) {
        Ok(cli) => cli,
        Err(error) => {
            let error = args::with_tip(error);
            // Help is printed to stdout, with status 0. A closed pipe is not a failure.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(failure::USAGE));
        }
    };
    let mut session = Session::new(cli.connection, Output::stdout(cli.output));
    match run(cli.action, &mut session) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // The output must come before the error. An error of this flush would hide the first error.
            let _ = session.out.flush();
            for line in failure.lines(session.server()) {
                output::print_error(&line);
            }
            for line in failure.place() {
                output::print_message(&line);
            }
            ExitCode::from(failure.status())
        }
    }
}

fn run(action: Action, session: &mut Session) -> Result<(), Failure> {
    let command = match action {
        Action::Run(command) => command,
        Action::Completions { shell } => {
            args::print_completions(shell, &mut session.out)?;
            return session.out.flush();
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::Usage(format!("cannot start: {error}")))?;
    let outcome = runtime.block_on(commands::run(command, session));
    // A thread may still wait for standard input. It must not delay the exit.
    runtime.shutdown_background();
    outcome.and_then(|()| session.out.flush())
}
