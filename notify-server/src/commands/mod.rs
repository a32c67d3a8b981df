//! What each subcommand does. Prints on standard output through one function; the log is on
//! standard error.

mod backup;
mod clock;
mod credentials;
mod healthcheck;
mod keys;
mod moving;
#[cfg(feature = "sandbox")]
mod sandbox;
mod serve;
mod signals;

use std::io::Write;
use std::sync::Arc;

use anyhow::Context;

use crate::app::open_store;
use crate::cli::Action;
use crate::config::{Config, MASTER_KEY_FILE, MASTER_KEY_VARIABLE};
use crate::store::Store;
use crate::telemetry::start_log;

/// Performs an action.
///
/// # Errors
/// Why it failed, in words for an operator.
pub async fn perform(action: Action, config: Config) -> anyhow::Result<()> {
    start_log(&config.log, config.log_format)?;
    match action {
        Action::Serve => serve::serve(config).await,
        Action::CreateApp { name, json } => keys::create_app(&config, name, json).await,
        Action::CreateAdminKey { json } => keys::create_admin_key(&config, json).await,
        Action::OpenApi => print(&crate::openapi_json()),
        Action::Backup { file } => backup::backup(&config, file).await,
        Action::ConfirmClock => clock::confirm(&config).await,
        Action::ForgetCredentials => credentials::forget(&config).await,
        Action::Healthcheck { url } => healthcheck::check(&config, url).await,
        Action::Move { to } => moving::run(&config, to).await,
        Action::UndoMove => moving::undo(&config).await,
        #[cfg(feature = "sandbox")]
        Action::Sandbox { listen } => sandbox::run(listen).await,
    }
}

/// Opens the database of the data folder, and creates it if it is missing; in that case it prints the
/// folder, since another one may have been intended.
async fn open_or_make(config: &Config) -> anyhow::Result<Arc<Store>> {
    let is_new = config.database_url.is_none() && !config.database().exists();
    let store = open_store(config, false).await?;
    if is_new {
        let folder = std::path::absolute(&config.data_dir)?;
        let line = format!("created an installation in {}", folder.display());
        writeln!(std::io::stderr(), "{line}").context("cannot write to standard error")?;
    }
    Ok(store)
}

/// A description of where the master key of an installation is.
fn master_key_place(config: &Config) -> String {
    match (&config.master_key, &config.master_key_file) {
        (Some(_), _) => format!("the key in {MASTER_KEY_VARIABLE}"),
        (None, Some(file)) => file.display().to_string(),
        // A database on PostgreSQL has no key file next to it.
        (None, None) if config.database_url.is_some() => "the key that its servers had".to_owned(),
        (None, None) => config.data_dir.join(MASTER_KEY_FILE).display().to_string(),
    }
}

/// Writes a line to standard output. A closed pipe is no error.
fn print(line: &str) -> anyhow::Result<()> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{line}").and_then(|()| output.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
