//! `notify-server`.

use std::process::ExitCode;

use notify_server::{cli, commands, error_chain};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // `main` does not return a `Result`: with RUST_BACKTRACE set, its error would be printed with a
    // stack trace.
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
    let result = runtime.block_on(commands::perform(cli::action(&matches), config));
    // Does not wait for tasks that took longer than the shutdown grace. Dropping the runtime would
    // wait for them.
    runtime.shutdown_background();
    result
}
