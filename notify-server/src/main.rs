//! `notify-server`.

use std::process::ExitCode;

use notify_server::{cli, commands, error_chain};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // An error in `main`'s return type would print a stack trace to people (RUST_BACKTRACE).
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the log may not have been started yet")]
            {
                eprintln!("error: {}", error_chain(&*error));
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    let matches = cli::command().get_matches();
    let config = cli::settings(&matches, &|name| std::env::var(name).ok())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let done = runtime.block_on(commands::perform(cli::action(&matches), config));
    // What outlived its grace is left behind: a drop would wait for it.
    runtime.shutdown_background();
    done
}
